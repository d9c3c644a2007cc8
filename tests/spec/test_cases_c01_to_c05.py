"""Cases C01 to C05: faults that people met in other tools, with small inputs and the right results.

Rays on edges, bad corners, deep trees, equal centroids.
"""

from __future__ import annotations

import itertools
import math
import re
import time

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.accel.layout import UNUSED_LANE
from rtviewer.accel.navigate import tree_of
from rtviewer.accel.stats import statistics
from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.verdicts import Counter
from rtviewer.errors import InvalidInputError
from rtviewer.io.registry import load_scene
from rtviewer.scene.generators import box, icosphere
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.document import Problem, build_world, problems_of
from tests.worlds import (
    BACK,
    DOWN,
    FRONT,
    TRIANGLE,
    assert_sound,
    asset,
    chain_blas,
    mesh,
    one_blas,
    triangles,
    with_blas,
    world,
    world_of_scene,
)

SQUARE = triangles(
    [[-1, -1, 0], [1, -1, 0], [1, 1, 0]],
    [[-1, -1, 0], [1, 1, 0], [-1, 1, 0]],
)


# --- C01: rays through shared edges and corners -------------------------------------------------------------------


@pytest.mark.rule("TRI-2", "TRI-3", "TRI-5")
@pytest.mark.parametrize("winding", [1, -1], ids=["front", "back"])
@pytest.mark.parametrize("anti", [False, True], ids=["diagonal", "anti-diagonal"])
def test_c01_a_split_square_is_hit_once_everywhere_inside(anti: bool, winding: int) -> None:
    corners = SQUARE.vertices.reshape(-1, 3, 3)[:, ::winding]
    square = world(triangles(corners * np.float32([-1 if anti else 1, 1, 1])))
    steps = np.arange(-7, 8) / 8.0
    points = [(0, 0), (0.5, 0.5), (0.25, 0.1), *itertools.product(steps, steps)]
    origins = [(x, y, 1.0) for x, y in points]
    hits = square.trace_checked(origins, DOWN)
    assert hits.hit.all()
    assert (hits.t == 1).all()
    for rows in square.all_hits_checked(origins, DOWN):
        assert len(rows) == 1


@pytest.mark.rule("TRI-2", "TRI-3")
def test_c01_rays_from_a_cubes_centre_to_its_corners_and_edges() -> None:
    cube = world(mesh(box()))
    corners = np.array(list(itertools.product((-1, 1), repeat=3)), np.float32)
    edges = np.array([p for p in itertools.product((-1, 0, 1), repeat=3) if 1 <= np.abs(p).sum() <= 2], np.float32)
    for directions in (corners, edges):
        hits = cube.trace_checked((0, 0, 0), directions)
        assert hits.hit.all()
        assert (hits.t == 1).all()
        assert all(len(rows) == 1 for rows in cube.all_hits_checked((0, 0, 0), directions))
    unit = corners / np.linalg.norm(corners, axis=1, keepdims=True)
    hits = cube.trace_checked((0, 0, 0), unit)
    assert hits.hit.all()
    np.testing.assert_allclose(hits.t, math.sqrt(3), rtol=1e-6)


@pytest.mark.rule("TRI-3", "TRI-5")
def test_c01_a_line_enters_a_closed_surface_as_often_as_it_leaves() -> None:
    """One owner for each edge: rays at vertices and edges of a sphere have as many front as back hits."""
    source = icosphere(2)
    a, b, c = (source.vertices[source.indices[:, k]] for k in range(3))
    targets = np.concatenate([source.vertices, (a + b) / 2, (b + c) / 2])
    origin = np.float32([0.0, 0.0, 8.0])
    sphere = world(mesh(source))
    rows = sphere.all_hits_checked(np.broadcast_to(origin, targets.shape), targets - origin)
    fronts = np.array([(r[:, 3] == FRONT).sum() for r in rows])
    np.testing.assert_array_equal(fronts, [(r[:, 3] == BACK).sum() for r in rows])
    assert (fronts == 1).sum() > len(targets) / 2


# --- C02: NaN -----------------------------------------------------------------------------------------------------


def _two_triangles(corner: tuple[float, float, float]) -> TrianglesGeometry:
    return triangles([corner, [1, 0, 0], [0, 1, 0]], TRIANGLE)


@pytest.mark.rule("INA-1", "INA-6")
@pytest.mark.timeout(30)
@pytest.mark.parametrize("vertex", range(3))
def test_c02_nan_in_x_makes_one_triangle_inactive_and_harms_no_other(vertex: int) -> None:
    corners = np.float32([TRIANGLE, TRIANGLE])
    corners[0, vertex, 0] = math.nan
    two = world(triangles(corners))
    assert_sound(two)
    hits = two.trace_checked((0.25, 0.25, 1), DOWN)
    assert (hits.hit[0], hits.t[0], hits.primitive_index[0]) == (True, 1, 1)
    np.testing.assert_array_equal(two.blas().bounds, [[0, 0, 0], [1, 1, 0]])
    assert (int(two.blas().header["input_count"]), int(two.blas().header["active_count"])) == (2, 1)


@pytest.mark.rule("INA-3", "ERR-2")
@pytest.mark.timeout(30)
@pytest.mark.parametrize("axis", [1, 2])
def test_c02_nan_elsewhere_is_refused_with_the_primitive_named(axis: int) -> None:
    corner = [0.0, 0.0, 0.0]
    corner[axis] = math.nan
    with pytest.raises(InvalidInputError) as raised:
        world(_two_triangles((corner[0], corner[1], corner[2])))
    assert raised.value.rules == ("INA-3",)
    assert "primitive 0" in str(raised.value)
    assert "Inputs.pGeometryDescs[0]" in str(raised.value)


@pytest.mark.rule("INA-8")
@pytest.mark.timeout(30)
@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_c02_infinity_disturbs_no_other_triangle(axis: int, value: float) -> None:
    corner = [0.0, 0.0, 5.0]
    corner[axis] = value
    two = world(_two_triangles((corner[0], corner[1], corner[2])))
    assert_sound(two)
    hits = two.trace((0.25, 0.25, 1), DOWN).hits
    assert (hits.hit[0], hits.t[0], hits.primitive_index[0]) == (True, 1, 1)


# --- C03: point and line triangles --------------------------------------------------------------------------------


@pytest.mark.rule("DEG-1", "DEG-3", "DEG-8")
def test_c03_degenerate_triangles_count_but_are_never_hit() -> None:
    three = world(
        triangles([[0, 0, 0]] * 3, [[0, 0, 0], [0, 0, 0], [0, 0, 1]], [[-1, -1, 2], [1, -1, 2], [0, 1, 2]]),
    )
    assert_sound(three)
    s = statistics(three.blas())
    assert (s.primitive_count, s.degenerate_count) == (3, 2)
    assert np.isfinite(three.blas().bounds).all()
    for axis, sign in itertools.product(range(3), (-1, 1)):
        direction = np.zeros(3)
        direction[axis] = sign
        hits = three.trace_checked(-5 * direction, direction)
        if axis == 2:
            assert (hits.primitive_index[0], hits.t[0]) == (2, 5 + 2 * sign)
        else:
            assert not hits.hit[0]


@pytest.mark.rule("DEG-3", "DEG-7")
@pytest.mark.parametrize(
    ("name", "primitives", "degenerate"),
    [("obj/deg_faces.obj", 4, 1), ("obj/degenerate_mesh.obj", 1, 1), ("obj/spider.obj", 1368, None)],
)
def test_c03_real_files(name: str, primitives: int, degenerate: int | None) -> None:
    built = world_of_scene(load_scene(asset(name)))
    assert_sound(built)
    s = statistics(built.blas())
    assert s.primitive_count == primitives
    assert s.degenerate_count > 0
    assert degenerate is None or s.degenerate_count == degenerate
    assert s.active_count == primitives - s.degenerate_count
    assert math.isfinite(s.sah)
    corners = built.inputs[0].geometries[0]
    centre = np.asarray(corners.vertices, np.float64).mean(0)  # type: ignore[union-attr]
    rng = np.random.default_rng(3)
    origins = centre + rng.normal(size=(60, 3)) * 300
    built.trace_checked(origins, centre - origins)


def _problems(geometry: TrianglesGeometry) -> list[Problem]:
    scene = Scene("three", (BlasInputs((geometry,), name="three"),), (Instance(0),))
    return [p for p in problems_of(build_world(scene)) if p.rule in ("DEG-1", "INA-1")]


@pytest.mark.rule("DEG-1", "INA-1")
def test_c03_a_report_counts_degenerate_triangles() -> None:
    found = _problems(triangles([[0, 0, 0]] * 3, [[0, 0, 0], [0, 0, 0], [0, 0, 1]], TRIANGLE))
    assert any(p.rule == "DEG-1" and "2 degenerate" in p.text for p in found)


@pytest.mark.rule("DEG-1", "INA-1")
def test_c03_degenerate_triangles_are_not_reported_as_inactive() -> None:
    found = _problems(triangles([[0, 0, 0]] * 3, [[0, 0, 0], [0, 0, 0], [0, 0, 1]], TRIANGLE))
    assert [p.rule for p in found] == ["DEG-1"]


@pytest.mark.rule("DEG-1")
def test_c03_a_report_lists_degenerate_triangles_by_index() -> None:
    found = _problems(triangles(TRIANGLE, [[0, 0, 0]] * 3, TRIANGLE, TRIANGLE, TRIANGLE, [[0, 0, 0]] * 3))
    text = next(p.text for p in found if p.rule == "DEG-1")
    assert re.search(r"\b1\b.*\b5\b", text)


# --- C04: deep trees ----------------------------------------------------------------------------------------------


def _stack_of_triangles() -> np.ndarray:  # type: ignore[type-arg]
    """Number k from -60 to 60 at x = 2^k, at right angles to x."""
    x = np.float32([2.0**k for k in range(-60, 61)])
    corners = np.tile(np.float32([[0, -1, -1], [0, 1, -1], [0, 0, 1]]), (121, 1, 1))
    corners[:, :, 0] = x[:, None]
    return corners


@pytest.mark.rule("RAY-11", "DET-5")
@pytest.mark.parametrize("order", [1, -1], ids=["near first", "far first"])
@pytest.mark.parametrize("chain", [False, True], ids=["built", "chain"])
def test_c04_nearest_hits_through_a_deep_tree(chain: bool, order: int) -> None:
    corners = _stack_of_triangles()[::order]
    deep = world(triangles(corners))
    if chain:
        deep = with_blas(deep, 0, chain_blas(corners))
        assert statistics(deep.blas()).depth == 120
    assert_sound(deep)
    hits = deep.trace_checked([(-1, 0, 0), (1e19, 0, 0)], [(1, 0, 0), (-1, 0, 0)])
    assert hits.hit.all()
    assert hits.t[0] == 1
    assert hits.t[1] == np.float32(1e19) - np.float32(2.0**60)
    # Triangles -60 to -24 all have t = 1 in float32; DET-5 gives the tie to the largest index.
    assert hits.primitive_index[0] == (36 if order == 1 else 120)
    assert hits.primitive_index[1] == (120 if order == 1 else 0)
    for rows in deep.all_hits_checked([(-1, 0, 0), (1e19, 0, 0)], [(1, 0, 0), (-1, 0, 0)]):
        assert rows[:, 2].tolist() == list(range(121))


@pytest.mark.parametrize("width", [2, 5, 8])
def test_c04_the_stack_holds_every_sibling_of_every_level(width: int) -> None:
    """All boxes overlap and the deepest comes first, so a walk puts off all other children of all nodes."""
    levels = 150
    corners = np.tile(np.float32([[-1, -1, 0], [1, -1, 0], [0, 1, 0]]), (levels * (width - 1) + 1, 1, 1))
    corners[:, :, 2] = np.arange(len(corners))[::-1, None] % 7
    corners[:, 0, 2] = 0
    corners[:, 1, 2] = 7
    deep = with_blas(world(triangles(corners)), 0, chain_blas(corners, width))
    assert_sound(deep)
    for direction in ((0.01, 0.02, 1), (0.01, 0.02, -1)):
        origin = np.float32([0, -0.5, 3.5]) - 20 * np.float32(direction)
        hits = deep.trace_checked(origin, direction)
        assert hits.hit[0]
        found = deep.trace(origin, direction, ray_flags=RayFlag.FORCE_OPAQUE, counters=True)
        assert found.counters is not None
        high_water = int(found.counters[0, Counter.STACK_HIGH_WATER])
        assert levels * (width - 2) <= high_water <= deep.dispatcher.stack_size
        assert len(deep.all_hits_checked(origin, direction)[0]) == len(corners)


@pytest.mark.timeout(60)
def test_c04_a_chain_of_thousands_is_numbered_checked_and_walked() -> None:
    count = 5000
    corners = np.tile(np.float32([[0, -1, -1], [0, 1, -1], [0, 0, 1]]), (count, 1, 1))
    corners[:, :, 0] = np.arange(count)[:, None]
    chain = chain_blas(corners)
    assert check(chain) == []
    tree = tree_of(chain)
    assert len(tree) == 2 * count - 1
    assert int(tree.depth.max()) == statistics(chain).depth == count - 1
    assert len(tree.path_to_root(tree.box_of_item(0, count - 1))) == count
    deep = with_blas(world(triangles(corners)), 0, chain)
    hits = deep.trace_checked([(-1, 0, 0), (2.0 * count, 0, 0)], [(1, 0, 0), (-1, 0, 0)])
    assert hits.primitive_index.tolist() == [0, count - 1]


# --- C05: equal centroids -----------------------------------------------------------------------------------------


def _nested(count: int) -> TrianglesGeometry:
    size = np.arange(1, count + 1, dtype=np.float32)[:, None, None]
    return triangles(size * np.float32([[-1, -1, 0], [1, 0, 0], [0, 1, 0]]))


@pytest.mark.rule("DET-5", "BLD-12")
@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 65_536])
def test_c05_primitives_with_one_centroid(count: int) -> None:
    nested = world(_nested(count))
    assert_sound(nested)
    packs = nested.blas().triangle_packs
    ids = np.sort(packs["id"][packs["id"] != UNUSED_LANE])
    np.testing.assert_array_equal(ids, np.arange(count))
    hits = nested.trace_checked((0, 0, 1), DOWN)
    assert (hits.t[0], hits.primitive_index[0]) == (1, count - 1)
    rows = nested.all_hits((0, 0, 1), DOWN)[0]
    np.testing.assert_array_equal(rows[:, 2], np.arange(count))


def test_c05_build_time_is_near_linear() -> None:
    def seconds(count: int) -> float:
        geometry, best = _nested(count), math.inf
        for _ in range(3):
            start = time.perf_counter()
            one_blas(geometry)
            best = min(best, time.perf_counter() - start)
        return best

    seconds(64)
    assert seconds(1 << 16) < 32 * seconds(1 << 13)  # eight times as many; a square would be 64
