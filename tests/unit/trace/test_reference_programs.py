"""Boxes and built-in intersection programs of the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.dxr.programs import IntersectionProgram
from rtviewer.trace.reference_programs import Reports, box_interval, is_offered, run_intersection

F32 = np.float32
UNIT = [0, 0, 0, 1, 1, 1]


def offered(origin: object, direction: object, box: object, t_min: float = 0.0, t_end: float = np.inf) -> bool:
    interval = box_interval(*(np.atleast_2d(np.asarray(x, F32)) for x in (origin, direction, box)))
    return bool(is_offered(interval, np.full(1, t_min, F32), np.full(1, t_end, F32))[0])


def report(program: IntersectionProgram, origin: object, direction: object, box: object, t: float = 0.0) -> Reports:
    rows = [np.atleast_2d(np.asarray(x, F32)) for x in (origin, direction, box)]
    return run_intersection(np.full(1, program, np.uint32), np.full(1, t, F32), *rows)


@pytest.mark.rule("PROC-1", "TRI-7")
def test_boxes_are_closed() -> None:
    for axis in range(3):
        direction = np.eye(3)[axis]
        side, other = (axis + 1) % 3, (axis + 2) % 3
        for edge, inside in ((0.0, True), (1.0, True), (-1e-7, False), (1.0000001, False), (-0.0, True)):
            origin = np.zeros(3)
            origin[axis], origin[side], origin[other] = -2, edge, 0.5
            assert offered(origin, direction, UNIT) is inside
            assert offered(origin, -direction, UNIT) is False
    assert offered([0.5, 0.5, 0.5], [1, 0, 0], UNIT)


@pytest.mark.rule("PROC-1", "RAY-6")
def test_only_boxes_within_the_interval_are_offered() -> None:
    ray = ([0.5, 0.5, -2], [0, 0, 1], UNIT)
    assert offered(*ray, t_min=0, t_end=2)
    assert not offered(*ray, t_min=0, t_end=1.999)
    assert offered(*ray, t_min=3, t_end=9)
    assert not offered(*ray, t_min=3.001, t_end=9)


@pytest.mark.rule("PROC-8", "DEG-1")
def test_flat_and_point_boxes() -> None:
    flat, point = [0, 0, 0.5, 1, 1, 0.5], [0.5, 0.5, 0.5] * 2
    assert offered([0.2, 0.2, -1], [0, 0, 1], flat)
    assert offered([-1, 0.5, 0.5], [1, 0, 0], flat)
    assert not offered([-1, 0.5, 0.6], [1, 0, 0], flat)
    assert offered([0.5, 0.5, -1], [0, 0, 1], point)
    assert not offered([0.5, 0.51, -1], [0, 0, 1], point)


@pytest.mark.rule("RAY-5")
def test_a_ray_without_direction_meets_the_boxes_around_it() -> None:
    assert offered([0.5, 0.5, 1], [0, 0, 0], UNIT)
    assert not offered([0.5, 0.5, 1.5], [0, 0, 0], UNIT)


@pytest.mark.rule("PROC-1")
def test_random_lines_against_sampling() -> None:
    """A line that meets a box has a sample in the slightly larger box, and the other way round."""
    rng = np.random.default_rng(5)
    origin, direction = rng.normal(size=(400, 3)) * 2, rng.normal(size=(400, 3))
    interval = box_interval(
        *(x.astype(F32) for x in (origin, direction, np.tile([-1.0, -0.5, -0.7, 1, 0.5, 0.7], (400, 1))))
    )
    met = is_offered(interval, np.zeros(400, F32), np.full(400, 20, F32))
    points = origin[:, None] + np.linspace(0, 20, 8001)[:, None] * direction[:, None]
    half = np.array([1, 0.5, 0.7])
    assert (met | ~(np.abs(points) <= half - 1e-5).all(2).any(1)).all()
    assert (~met | (np.abs(points) <= half + 0.01).all(2).any(1)).all()
    assert 20 < met.sum() < 200


def test_sphere_reports_near_then_far() -> None:
    got = report(IntersectionProgram.SPHERE, [0.5, 1, -2], [0, 0, 2], [0, 0, 0, 1, 2, 4])
    assert got.report_count[0] == 2  # centre (0.5, 1, 2), radius half of the shortest side
    assert got.t[0, :2].tolist() == [1.75, 2.25]
    assert got.kind[0, :2].tolist() == [0, 1]
    assert not got.always[0]
    far_first = report(IntersectionProgram.SPHERE_FAR_FIRST, [0.5, 1, -2], [0, 0, 2], [0, 0, 0, 1, 2, 4])
    assert far_first.t[0, :2].tolist() == [2.25, 1.75]
    assert far_first.kind[0, :2].tolist() == [65, 64]
    assert far_first.always[0]


def test_sphere_is_missed_in_the_corner_of_its_box_and_without_direction() -> None:
    assert report(IntersectionProgram.SPHERE, [0.05, 0.05, -1], [0, 0, 1], UNIT).report_count[0] == 0
    assert report(IntersectionProgram.SPHERE, [0.5, 0.5, 0.5], [0, 0, 0], UNIT).report_count[0] == 0


def test_sphere_roots_lie_on_the_sphere() -> None:
    rng = np.random.default_rng(6)
    origin, direction = rng.normal(size=(300, 3)).astype(F32), rng.normal(size=(300, 3)).astype(F32)
    box = np.tile(np.array([-0.5, -0.5, -0.5, 0.5, 0.5, 0.5], F32), (300, 1))
    got = run_intersection(np.zeros(300, np.uint32), np.zeros(300, F32), origin, direction, box)
    hit = got.report_count == 2
    assert 20 < hit.sum() < 250
    for root in range(2):
        points = origin[hit] + got.t[hit, root, None].astype(float) * direction[hit]
        np.testing.assert_allclose(np.linalg.norm(points, axis=1), 0.5, atol=1e-5)
    assert (got.t[hit, 0] <= got.t[hit, 1]).all()


@pytest.mark.parametrize("axis", range(3))
def test_box_reports_entry_and_exit_with_their_axis(axis: int) -> None:
    origin, direction = np.full(3, 0.5), np.zeros(3)
    origin[axis], direction[axis] = 3, -2
    got = report(IntersectionProgram.BOX, origin, direction, UNIT)
    assert got.t[0, :2].tolist() == [1.0, 1.5]
    assert got.kind[0, :2].tolist() == [16 + axis, 32 + axis]
    assert not got.always[0]


def test_report_t_and_nothing() -> None:
    got = report(IntersectionProgram.REPORT_T, [0, 0, 0], [0, 0, 1], UNIT, t=0.75)
    assert (got.report_count[0], got.t[0, 0], got.kind[0, 0]) == (1, 0.75, 5)
    assert report(IntersectionProgram.NOTHING, [0.5, 0.5, -2], [0, 0, 1], UNIT).report_count[0] == 0
