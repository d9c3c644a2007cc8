"""The oracle's triangle test: against a literal scalar reading of the method, and for watertightness."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from rtviewer.trace.reference_rules import ReferenceRules
from rtviewer.trace.reference_triangles import HUGE, TriangleHits, meet_triangles

F32 = np.float32


def meet(
    origin: object, direction: object, corners: object, largest: float = 0.0, rules: ReferenceRules | None = None
) -> TriangleHits:
    return meet_triangles(
        np.atleast_2d(np.asarray(origin, F32)),
        np.atleast_2d(np.asarray(direction, F32)),
        np.asarray(corners, F32).reshape(-1, 3, 3),
        largest,
        rules or ReferenceRules(),
    )


def literal(o: NDArray[np.float32], d: NDArray[np.float32], v: NDArray[np.float32]) -> tuple[float, ...] | None:
    """Section 6.3 of the rules for one ray and one triangle, step by step in scalars."""
    kz = max(range(3), key=lambda k: (abs(d[k]), -k))
    kx, ky = (kz + 1) % 3, (kz + 2) % 3
    sx, sy, sz = F32(d[kx] / d[kz]), F32(d[ky] / d[kz]), F32(F32(1) / d[kz])
    points = []
    for k in range(3):
        a = [F32(v[k][i] - o[i]) for i in range(3)]
        x = F32(a[kx] - F32(sx * a[kz]))
        y = F32(a[ky] - F32(sy * a[kz]))
        points.append((float(x), float(y), float(F32(sz * a[kz]))))
    (ax, ay, az), (bx, by, bz), (cx, cy, cz) = points
    u, v_edge, w = cx * by - cy * bx, ax * cy - ay * cx, bx * ay - by * ax
    det = (u + v_edge) + w
    if det == 0 or (min(u, v_edge, w) < 0 and max(u, v_edge, w) > 0):
        return None
    s = 1.0 if det > 0 else -1.0
    for edge, start, end in ((u, 1, 2), (v_edge, 2, 0), (w, 0, 1)):
        if edge == 0:
            e_kx, e_ky = points[end][0] - points[start][0], points[end][1] - points[start][1]
            n_kx, n_ky = s * e_ky, -s * e_kx
            if not (n_ky < 0 or (n_ky == 0 and n_kx > 0)):
                return None
    t = F32(((u * az + v_edge * bz) + w * cz) / det)
    return float(t), float(F32(v_edge / det)), float(F32(w / det)), (det > 0) == (d[kz] > 0)


@pytest.mark.rule("TRI-1", "TRI-3", "TRI-5")
@pytest.mark.parametrize("grid", [False, True], ids=["anywhere", "on edges and vertices"])
def test_every_step_is_the_rules_own(grid: bool) -> None:
    rng = np.random.default_rng(11)
    if grid:  # small integers: zero edge functions abound
        corners = rng.integers(-2, 3, (60, 3, 3)).astype(F32)
        origin = rng.integers(-3, 4, (60, 3)).astype(F32)
        direction = rng.integers(-1, 2, (60, 3)).astype(F32)
        direction[(direction == 0).all(1)] = 1
    else:
        corners = rng.normal(size=(60, 3, 3)).astype(F32)
        origin = rng.normal(size=(60, 3)).astype(F32)
        direction = rng.normal(size=(60, 3)).astype(F32)
    found = meet(origin, direction, corners)
    rows = {
        (int(r), int(k)): (float(t), float(b[0]), float(b[1]), bool(c)) for r, k, t, b, c in zip(*found, strict=True)
    }
    expected = {}
    with np.errstate(all="ignore"):
        for r, k in itertools.product(range(60), range(60)):
            answer = literal(origin[r], direction[r], corners[k])
            if answer is not None:
                expected[r, k] = answer
    assert len(expected) > 100
    assert rows == expected


def icosphere(level: int) -> NDArray[np.float64]:
    """(n, 3, 3) triangles of a closed convex mesh around the origin."""
    corners = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0], [0, -1, 0], [0, 0, -1]], float)
    faces = [[a, b, c] for a in (0, 3) for b in (1, 4) for c in (2, 5)]
    mesh = corners[np.array(faces)]
    for _ in range(level):
        a, b, c = mesh[:, 0], mesh[:, 1], mesh[:, 2]
        ab, bc, ca = a + b, b + c, c + a
        mesh = np.concatenate([np.stack(t, axis=1) for t in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))])
        mesh /= np.linalg.norm(mesh, axis=2, keepdims=True)
    return mesh


@pytest.mark.rule("TRI-2", "TRI-3", "TRI-7")
@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1.0, 1e10, 1e30])
@pytest.mark.parametrize("turned", [False, True])
def test_a_closed_mesh_is_left_exactly_once(scale: float, turned: bool) -> None:
    """Rays from inside at every vertex, every edge midpoint and along every octant and axis."""
    mesh = icosphere(2)
    if turned:
        mesh = mesh @ np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    mesh = (mesh * scale).astype(F32)
    vertices = mesh.reshape(-1, 3)
    middles = ((mesh + np.roll(mesh, 1, axis=1)) * F32(0.5)).reshape(-1, 3)
    octants = np.array([d for d in itertools.product((-1, 0, 1), repeat=3) if any(d)], F32)
    targets = np.concatenate([vertices, middles, octants * F32(scale)])
    for origin in ([0, 0, 0], [0.11, -0.07, 0.2]):
        start = np.broadcast_to(np.array(origin, F32) * F32(scale), targets.shape)
        found = meet(start, targets - start, mesh)
        forward = found.ray[found.t > 0]
        np.testing.assert_array_equal(np.bincount(forward, minlength=len(targets)), 1)


@pytest.mark.rule("TRI-3", "TRI-5")
def test_a_shared_edge_has_one_owner_whatever_the_winding() -> None:
    """A quad split along either diagonal, rays along each axis exactly on the diagonal."""
    square = np.array([[0, 0], [8, 0], [8, 8], [0, 8]], F32)
    for axis, diagonal, flip_a, flip_b, sign in itertools.product(range(3), (0, 1), (0, 1), (0, 1), (-1, 1)):
        order = [(0, 1, 2), (0, 2, 3)] if diagonal == 0 else [(0, 1, 3), (1, 2, 3)]
        points = np.insert(square, axis, 0, axis=1)
        pair = [points[list(t)[:: -1 if f else 1]] for t, f in zip(order, (flip_a, flip_b), strict=True)]
        along = np.arange(1, 8, dtype=F32)
        on = np.stack([along, along if diagonal == 0 else 8 - along], axis=1)
        origin = np.insert(on, axis, -5 * sign, axis=1)
        direction = np.insert(np.zeros_like(on), axis, sign, axis=1)
        found = meet(origin, direction, pair)
        np.testing.assert_array_equal(np.bincount(found.ray, minlength=7), 1)
        assert len(set(found.triangle.tolist())) == 1


@pytest.mark.rule("TRI-5")
def test_an_edge_belongs_by_its_inward_normal() -> None:
    """Ray along +z: kx = x, ky = y. An edge is owned if the inside lies toward -y, or along it toward +x."""
    below, above = [[0, 0, 0], [4, 0, 0], [2, -3, 0]], [[0, 0, 0], [4, 0, 0], [2, 3, 0]]
    right, left = [[0, 0, 0], [0, 4, 0], [3, 2, 0]], [[0, 0, 0], [0, 4, 0], [-3, 2, 0]]
    ray = ([2, 0, -1], [0, 0, 1])
    assert len(meet(*ray, below).ray) == 1
    assert len(meet(*ray, above).ray) == 0
    ray = ([0, 2, -1], [0, 0, 1])
    assert len(meet(*ray, right).ray) == 1
    assert len(meet(*ray, left).ray) == 0


@pytest.mark.rule("TRI-4")
def test_a_fan_on_one_edge_is_hit_as_two_groups() -> None:
    """Five triangles around one edge: all of one side of the ray, none of the other."""
    edge = np.array([[0, 0, 0], [0, 0, 8]], F32)
    tips = np.array([[4, 1, 4], [4, -2, 4], [3, 3, 4], [-4, 1, 4], [-3, -3, 4]], F32)
    fan = [np.stack([*edge, tip]) for tip in tips]
    found = meet([0, -9, 4], [0, 1, 0], fan)
    groups = {0, 1, 2}, {3, 4}
    assert set(found.triangle.tolist()) in groups


@pytest.mark.rule("TRI-6")
def test_edge_on_and_degenerate_triangles_are_missed() -> None:
    flat = [[0, 0, 0], [4, 0, 0], [0, 4, 0]]
    assert len(meet([-1, 1, 0], [1, 0, 0], flat).ray) == 0
    assert len(meet([1, 1, -1], [0, 0, 1], [[1, 1, 0]] * 3).ray) == 0
    assert len(meet([1, 1, -1], [0, 0, 1], [[0, 0, 0], [1, 1, 0], [2, 2, 0]]).ray) == 0
    assert len(meet([1, 1, -1], [0, 0, 1], flat).ray) == 1


@pytest.mark.rule("TRI-2")
def test_huge_coordinates_do_not_overflow() -> None:
    big = F32(2.0**127)
    triangle = np.array([[-big, -big, big], [big, -big, big], [0, big, big]])
    found = meet([0, 0, -big], [0, 0, big], triangle, largest=float(big))
    assert len(found.ray) == 1
    assert found.t[0] == 2
    assert len(meet([0, 0, -big], [0, 0, big], triangle, largest=0.0).ray) == 1  # the origin alone is enough
    assert float(big) > HUGE


@pytest.mark.rule("TRI-2")
def test_the_scale_of_huge_coordinates_changes_no_ordinary_hit() -> None:
    rng = np.random.default_rng(3)
    corners, origin = rng.normal(size=(40, 3, 3)), rng.normal(size=(40, 3))
    direction = rng.normal(size=(40, 3))
    plain, scaled = meet(origin, direction, corners), meet(origin, direction, corners, largest=HUGE)
    assert len(plain.ray) > 50
    for a, b in zip(plain, scaled, strict=True):
        np.testing.assert_array_equal(np.sort(a, axis=0), np.sort(b, axis=0))


@pytest.mark.rule("INA-8")
def test_infinite_vertices_disturb_nobody() -> None:
    good = [[0, 0, 0], [4, 0, 0], [0, 4, 0]]
    for corner, axis, value in itertools.product(range(3), range(3), (np.inf, -np.inf)):
        bad = np.array(good, F32)
        bad[corner, axis] = value
        found = meet([[1, 1, -1]], [[0, 0, 1]], [bad, good])
        assert 1 in found.triangle
        assert not np.isfinite(found.t[found.triangle == 0]).any()


def test_no_triangles_and_no_rays() -> None:
    assert len(meet([0, 0, 0], [0, 0, 1], np.empty((0, 3, 3))).ray) == 0
    assert len(meet(np.empty((0, 3)), np.empty((0, 3)), [[0, 0, 0], [4, 0, 0], [0, 4, 0]]).ray) == 0
