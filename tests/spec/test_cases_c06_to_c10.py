"""Cases C06 to C10: faults that people met in other tools, with small inputs and the right results.

One primitive, nothing, flat boxes, wrong boxes, odd paths.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.accel.stats import statistics
from rtviewer.build.refit import update_blas
from rtviewer.dxr.descs import BlasInputs, Geometry, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag, format_flags
from rtviewer.dxr.programs import IntersectionProgram
from rtviewer.dxr.raw_descs import InstanceDesc
from rtviewer.errors import FileFormatError, InvalidInputError
from rtviewer.io.registry import load_scene
from rtviewer.scene.generators import box, icosphere
from rtviewer.scene.inputs import scene_statistics
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.api import open_world
from rtviewer.session.document import build_world, default_camera
from rtviewer.trace.request import RayBatch
from tests.unit.device.scenes import Lab, bottom, sphere
from tests.worlds import (
    BACK,
    DOWN,
    FRONT,
    TRIANGLE,
    UP,
    Placement,
    assert_sound,
    asset,
    boxes,
    mesh,
    one_blas,
    translate,
    triangles,
    with_blas,
    world,
    world_of_scene,
    writable_copy,
)

UNIT_CUBE = box((0, 0, 0), (1, 1, 1))


# --- C06: one primitive -------------------------------------------------------------------------------------------


@pytest.mark.rule("BLD-12")
def test_c06_one_triangle_is_one_node_with_one_leaf() -> None:
    built = world_of_scene(load_scene(asset("obj/triangle.obj")))
    assert_sound(built)
    s = statistics(built.blas())
    assert (s.depth, s.node_count, s.leaf_count, s.active_count) == (1, 1, 1, 1)
    assert math.isfinite(s.sah)
    assert s.sah > 0
    geometry = built.inputs[0].geometries[0]
    assert isinstance(geometry, TrianglesGeometry)
    corners = geometry.vertices if geometry.indices is None else geometry.vertices[geometry.indices[0]]
    centre = corners.astype(np.float64).mean(0)
    hits = built.trace_checked([centre + [0, 0, 1], centre - [0, 0, 1]], [DOWN, UP])
    assert hits.hit.all()
    assert set(hits.hit_kind.tolist()) == {FRONT, BACK}


@pytest.mark.rule("BLD-12")
def test_c06_one_box_and_one_point() -> None:
    for aabb in ([-1, -1, -1, 1, 1, 1], [0, 0, 0, 0, 0, 0], [-1, 0, 0, 1, 0, 0]):
        one = world(boxes(aabb))
        assert_sound(one)
        assert statistics(one.blas()).depth == 1
        hits = one.trace_checked((0, 0, 5), DOWN, intersection=IntersectionProgram.BOX)
        assert hits.t[0] == 5 - aabb[5]


@pytest.mark.rule("BF-4", "BF-5", "BF-10")
@pytest.mark.parametrize(
    "flags",
    [
        BuildFlag.ALLOW_UPDATE,
        BuildFlag.ALLOW_COMPACTION,
        BuildFlag.MINIMIZE_MEMORY,
        BuildFlag.PREFER_FAST_BUILD,
        BuildFlag.PREFER_FAST_TRACE,
        BuildFlag.ALLOW_UPDATE | BuildFlag.MINIMIZE_MEMORY | BuildFlag.PREFER_FAST_BUILD,
    ],
    ids=format_flags,
)
@pytest.mark.parametrize("geometry", [triangles(TRIANGLE), boxes([0, 0, 0, 1, 1, 0])], ids=["triangle", "box"])
def test_c06_every_kind_of_build_of_one_primitive(geometry: Geometry, flags: BuildFlag) -> None:
    one = world(geometry, flags=flags)
    assert_sound(one)
    s = statistics(one.blas())
    assert (s.depth, s.node_count, s.leaf_count, s.active_count) == (1, 1, 1, 1)
    hits = one.trace_checked([(0.25, 0.25, 1), (2, 2, 1)], DOWN, intersection=IntersectionProgram.BOX)
    assert hits.hit.tolist() == [True, False]
    assert hits.t[0] == 1


@pytest.mark.rule("UPD-13", "UPD-5", "UPD-6")
def test_c06_one_triangle_is_refitted() -> None:
    before = world(triangles(TRIANGLE), flags=BuildFlag.ALLOW_UPDATE)
    moved = triangles(np.float32(TRIANGLE) + [5, 0, 2])
    after = update_blas(before.blas(), BlasInputs((moved,)), BuildFlag.ALLOW_UPDATE)
    assert check(after) == []
    assert after.size == before.blas().size
    np.testing.assert_array_equal(after.bounds, [[5, 0, 2], [6, 1, 2]])
    fresh = world(moved)
    hits = with_blas(fresh, 0, after).trace_checked([(5.25, 0.25, 5), (0.25, 0.25, 5)], DOWN)
    assert hits.hit.tolist() == [True, False]
    assert before.trace_checked((0.25, 0.25, 1), DOWN).hit[0]


@pytest.mark.rule("SER-13", "CP-10")
@pytest.mark.parametrize("geometry", [triangles(TRIANGLE), boxes([0, 0, 0, 1, 1, 0])], ids=["triangle", "box"])
@pytest.mark.parametrize("name", ["one.rtcap", "one"])
def test_c06_saving_and_loading_one_primitive(geometry: Geometry, name: str, tmp_path: Path) -> None:
    scene = Scene("one", (BlasInputs((geometry,), "one"),), (Instance(0),), intersection=IntersectionProgram.BOX)
    before = build_world(scene)
    before.save(tmp_path / name)
    after = open_world(tmp_path / name)
    ends = []
    for opened in (before, after):
        assert check(opened.blases[0]) == []
        assert check(opened.tlas) == []
        log = opened.explain(origin=(0.25, 0.25, 1), direction=(0, 0, -1))
        assert not opened.explain(origin=(2, 2, 1), direction=(0, 0, -1)).result.hit
        ends.append(log.result)
    assert ends[0].hit
    assert ends[0] == ends[1]
    np.testing.assert_array_equal(before.blases[0].bounds, after.blases[0].bounds)


# --- C07: nothing to build ----------------------------------------------------------------------------------------


@pytest.mark.rule("BLD-11", "RAY-9")
@pytest.mark.parametrize(
    "make",
    [
        lambda: world([]),
        lambda: world(triangles()),
        lambda: world(boxes()),
        lambda: world([triangles(), triangles()]),
        lambda: world(),
        lambda: world(triangles([[math.nan, 0, 0]] * 3)),
        lambda: world(triangles([[0, 0, 0]] * 3)),
        lambda: world(triangles(TRIANGLE), placements=[]),
        lambda: world(triangles(TRIANGLE), placements=[Placement(blas=-1)]),
    ],
    ids=[
        "no geometry", "no triangles", "no boxes", "two of nothing", "no instances", "all inactive", "all degenerate",
        "not placed", "null instance",
    ],
)  # fmt: skip
def test_c07_nothing_is_built_and_missed(make) -> None:  # type: ignore[no-untyped-def]
    nothing = make()
    assert_sound(nothing)
    hits = nothing.trace_checked([(0.25, 0.25, 1), (0, 0, 0)], [DOWN, UP])
    assert not hits.hit.any()
    for structure in (nothing.tlas, *nothing.blases.values()):
        assert 256 <= structure.size <= 2048
        assert structure.size == sum(statistics(structure).bytes_by_section.values())


@pytest.mark.rule("BLD-11", "INST-7", "DEG-1")
def test_c07_an_empty_structure_beside_a_cube() -> None:
    both = world(triangles(), mesh(box((-0.5,) * 3, (0.5,) * 3)))
    assert_sound(both)
    np.testing.assert_allclose(both.tlas.bounds, [[-0.5] * 3, [0.5] * 3], atol=1e-6)
    hits = both.trace_checked([(0.1, 0.2, 5), (3, 3, 5)], DOWN)
    assert hits.hit.tolist() == [True, False]
    assert (hits.instance_index[0], hits.t[0]) == (1, 4.5)


def test_c07_a_far_away_instance_of_nothing_does_not_move_the_camera() -> None:
    cube = BlasInputs((mesh(box((-0.5,) * 3, (0.5,) * 3)),))
    scene = Scene("both", (BlasInputs((triangles(),)), cube), (Instance(0, translate(1e6, 0, 0)), Instance(1)))
    np.testing.assert_array_equal(scene.bounds(), [[-0.5] * 3, [0.5] * 3])


@pytest.mark.parametrize(
    "name", ["obj/obj_wireframe.obj", "ply/ply_empty_bin.ply", "gltf-features/00_empty_scene.gltf"]
)
def test_c07_files_without_triangles(name: str) -> None:
    scene = load_scene(asset(name))
    assert scene_statistics(scene).triangles_stored == 0
    assert scene.bounds() is None
    camera = default_camera(scene)
    columns, rows = np.meshgrid(np.arange(8), np.arange(8))
    origins, directions = camera.rays(8, 8, columns.ravel(), rows.ravel())
    assert np.isfinite(origins).all()
    assert np.isfinite(directions).all()
    built = world_of_scene(scene)
    assert_sound(built)
    assert not built.trace_checked((0, 0, 5), DOWN).hit.any()


# --- C08: axis-parallel rays in the plane of a box face -----------------------------------------------------------


@pytest.mark.rule("TRI-7", "TRI-5")
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_c08_rays_along_the_faces_of_a_cube(zero: float) -> None:
    cube = world(mesh(UNIT_CUBE))
    directions = [(x, y, 1.0) for x, y in ((zero, 0.0), (0.0, zero), (zero, zero))]
    for direction in directions:
        hits = cube.trace_checked([(0, 0.25, -1), (1, 0.25, -1)], direction)
        assert hits.hit.tolist() == [True, False]
        assert hits.t[0] == 1
        cube.all_hits_checked([(0, 0.25, -1), (1, 0.25, -1)], direction)


@pytest.mark.rule("TRI-7")
def test_c08_every_axis_direction_on_a_lattice_over_a_cube_equals_brute_force() -> None:
    cube = world(mesh(UNIT_CUBE), boxes([0, 0, 0, 1, 1, 1]))
    steps = [-0.25, 0, 0.25, 0.5, 1, 1.25]
    for axis, sign, zero in itertools.product(range(3), (-1.0, 1.0), (0.0, -0.0)):
        direction = np.full(3, zero)
        direction[axis] = sign
        origins = [np.insert([a, b], axis, 0.5 - 3 * sign) for a, b in itertools.product(steps, steps)]
        cube.trace_checked(origins, direction, intersection=IntersectionProgram.BOX)
        cube.all_hits_checked(origins, direction, intersection=IntersectionProgram.BOX)


@pytest.mark.rule("TRI-6", "TRI-7")
def test_c08_a_mesh_flat_in_one_plane() -> None:
    built = world_of_scene(load_scene(asset("ply/lego.ply")))
    assert_sound(built)
    geometry = built.inputs[0].geometries[0]
    assert isinstance(geometry, TrianglesGeometry)
    assert geometry.indices is not None
    corners = geometry.vertices[geometry.indices]
    assert (corners[:, :, 1] == 0).all()
    above = corners.mean(1) + np.float32([0, 1, 0])
    hits = built.trace_checked(above, (0, -1, 0))
    assert hits.hit.all()
    assert (hits.t == 1).all()
    at_vertices = geometry.vertices + np.float32([0, 1, 0])
    found = built.trace((at_vertices), (0, -1, 0), counters=True)
    reference = built.reference(at_vertices, (0, -1, 0)).hits
    np.testing.assert_array_equal(found.hits.primitive_index, reference.primitive_index)
    inner = _inner_vertices(geometry.vertices, geometry.indices)
    assert len(inner) > 1000
    assert found.hits.hit[inner].all()
    assert (found.hits.t[found.hits.hit] == 1).all()
    assert found.counters is not None
    assert (found.counters >= 0).all()
    for z in (-0.3, 0.0, 0.1):
        inside = built.trace([(-5, 0, z), (0.1, 0, z)], [(1, 0, 0), (1, 0, 0.25)], counters=True)
        assert not inside.hits.hit.any()
        assert inside.counters is not None
        assert (inside.counters >= 0).all()


def _inner_vertices(vertices: np.ndarray, indices: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Vertices none of whose edges belongs to one triangle only; equal positions count as one vertex."""
    _, same = np.unique(vertices, axis=0, return_inverse=True)
    edges = np.sort(same.reshape(-1)[indices[:, [0, 1, 1, 2, 2, 0]]].reshape(-1, 2), axis=1)
    unique, times = np.unique(edges, axis=0, return_counts=True)
    rim = np.unique(unique[times == 1])
    used = np.unique(indices)
    return used[~np.isin(same.reshape(-1)[used], rim)]


# --- C09: boxes that do not enclose -------------------------------------------------------------------------------


@pytest.mark.rule("TRI-7")
def test_c09_a_box_smaller_than_what_is_below_is_named_with_numbers() -> None:
    damaged = writable_copy(one_blas(mesh(icosphere(3))))
    assert check(damaged) == []
    nodes = damaged.nodes
    inner = np.argwhere((nodes["child"] > 0) & (nodes["min_x"] <= nodes["max_x"]))
    node, lane = (int(i) for i in inner[0])
    low, high = nodes["min_x"][node, lane], nodes["max_x"][node, lane]
    nodes["max_x"][node, lane] = low + (high - low) / 2
    problems = check(damaged)
    assert len(problems) == 1
    assert problems[0].startswith(f"NODES[{node}] lane {lane}: ")
    assert "does not enclose" in problems[0]
    numbers = [float(n) for n in re.findall(r"-?\d\.\d*(?:e[-+]\d+)?", problems[0])]
    assert np.isclose(numbers, high, rtol=1e-5, atol=0).any()


@pytest.mark.rule("BLD-6")
def test_c09_a_stale_top_level_is_not_traced_in_silence() -> None:
    """The second sphere is built again, ten times as large, where it was: the top level's boxes are too small now."""
    lab = Lab()
    points, corners = sphere(2)
    inputs = [bottom(lab.triangles(points * radius, corners)) for radius in (1, 1, 10)]
    first, second = lab.build(inputs[0]), lab.build(inputs[1])
    descs = [
        InstanceDesc(acceleration_structure=first),
        InstanceDesc(translate(5, 0, 0), acceleration_structure=second),
    ]
    tlas = lab.tlas(*descs)
    rays = RayBatch.make((5, 8, 20), DOWN)
    assert not lab.device.trace(tlas, rays).hits.hit[0]
    lab.build(inputs[2], dest=second)
    with pytest.raises(InvalidInputError, match="BLD-6") as raised:
        lab.device.trace(tlas, rays)
    assert raised.value.rules == ("BLD-6",)
    assert "InstanceDescs[1]" in str(raised.value)
    fresh = lab.tlas(*descs)
    assert lab.device.trace(fresh, rays).hits.hit[0]


# --- C10: paths that are not plain ASCII --------------------------------------------------------------------------


@pytest.fixture(params=["模型", "with space", "a#b", "100%20", "模型 # ü"])
def odd_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / request.param
    folder.mkdir()
    return folder


def test_c10_an_obj_with_materials_in_an_odd_folder(odd_folder: Path) -> None:
    (odd_folder / "材料 1#.mtl").write_text("newmtl m\nKd 1 0 0\n", "utf-8")
    file = odd_folder / "三角 #1.obj"
    file.write_text("mtllib 材料 1#.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nusemtl m\nf 1 2 3\n", "utf-8")
    scene = load_scene(file)
    assert scene_statistics(scene).triangles_stored == 1
    assert not scene.warnings
    assert world_of_scene(scene).trace_checked((0.25, 0.25, 1), DOWN).t[0] == 1


@pytest.mark.parametrize(
    ("uri", "name"), [("a%20b.bin", "a b.bin"), ("a b.bin", "a b.bin"), ("%E6%A8%A1.bin", "模.bin")]
)
def test_c10_a_gltf_whose_buffer_has_a_space(uri: str, name: str, odd_folder: Path) -> None:
    (odd_folder / name).write_bytes(np.float32(TRIANGLE).tobytes())
    document = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3", "min": [0, 0, 0], "max": [1, 1, 0]}
        ],
        "bufferViews": [{"buffer": 0, "byteLength": 36}],
        "buffers": [{"uri": uri, "byteLength": 36}],
    }
    file = odd_folder / "文件.gltf"
    file.write_text(json.dumps(document), "utf-8")
    assert world_of_scene(load_scene(file)).trace_checked((0.25, 0.25, 1), DOWN).t[0] == 1


def test_c10_a_failure_names_path_and_reason(odd_folder: Path) -> None:
    missing = odd_folder / "不在.obj"
    with pytest.raises(FileFormatError) as raised:
        load_scene(missing)
    assert str(missing) in str(raised.value)
    assert "no such file" in str(raised.value)
    broken = odd_folder / "坏.gltf"
    broken.write_text('{"asset": {"version": "2.0"}, "buffers": [{"uri": "没有.bin", "byteLength": 4}]', "utf-8")
    with pytest.raises(FileFormatError) as raised:
        load_scene(broken)
    assert str(broken) in str(raised.value)
    assert len(str(raised.value)) > len(str(broken)) + 10


def test_c10_a_real_file_loads_from_an_odd_folder_as_from_a_plain_one(odd_folder: Path) -> None:
    plain = asset("obj/spider.obj")
    for file in plain.parent.glob("spider.*"):
        shutil.copy(file, odd_folder / file.name)
    a, b = load_scene(plain), load_scene(odd_folder / "spider.obj")
    assert scene_statistics(a) == scene_statistics(b)
