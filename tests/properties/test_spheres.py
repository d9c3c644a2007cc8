"""The quick way through leaves of spheres finds what the exact one does: a call with counters takes that one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtviewer.dxr.flags import GeometryFlag, RayFlag
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.trace.reference import trace_reference
from rtviewer.trace.request import Hits, RayBatch, TraceSettings
from tests.properties.packet_cases import assert_equal_hits
from tests.properties.strategies import SEEDS
from tests.worlds import Placement, World, boxes, translate, world

RAYS = 64


def random_spheres(random: np.random.Generator, lattice: bool, opaque: bool, scale: float) -> World:
    """Cubes and flat boxes, some inverted, some twice, in two geometries; more than a leaf holds."""
    count = int(random.integers(1, 40))
    low = random.integers(-3, 3, (count, 3)) if lattice else random.normal(0, 2, (count, 3))
    sides = random.choice([0, 1, 2, 2, 4, -1], (count, 3) if random.random() < 0.5 else (count, 1))
    rows = (np.concatenate([low, low + sides], 1) * scale).astype(np.float32)
    rows = np.concatenate([rows, rows[: count // 3]])
    flags = [GeometryFlag.OPAQUE, GeometryFlag.OPAQUE if opaque else GeometryFlag.NONE]
    half = len(rows) // 2
    geometries = [boxes(*part, flags=flag) for part, flag in zip((rows[:half], rows[half:]), flags, strict=True)]
    return world([geometry for geometry in geometries if geometry.primitive_count])


def random_lines(random: np.random.Generator, scene: World, lattice: bool, scale: float) -> RayBatch:
    """From inside and outside, and along the faces of boxes through the one point where their sphere touches them:
    there the roots and the box disagree by roundings."""
    rows = np.concatenate([g.aabbs for blas in scene.inputs for g in blas.geometries]).astype(np.float64)
    low, high = np.split(rows[random.integers(0, len(rows), RAYS)], 2, axis=1)
    target, axis = (low + high) / 2, random.integers(0, 3, RAYS)
    each = np.arange(RAYS)
    target[each, axis] = np.where(random.random((RAYS, 1)) < 0.5, low, high)[each, axis]
    direction = random.integers(-2, 3, (RAYS, 3)) if lattice else random.normal(size=(RAYS, 3))
    direction = direction.astype(np.float64)
    tangent = random.random(RAYS) < 0.6
    direction[each[tangent], axis[tangent]] = random.choice([0.0, 0.0, 1e-9, -1e-7], int(tangent.sum()))
    back = random.choice([0.0, 0.5, 3.0, 1e3, 1e6], (RAYS, 1))
    origin = target - direction * back * scale
    t_max = random.choice([1.0, 4.0, np.inf, 3e38], RAYS)
    return RayBatch.make(origin, direction * scale, random.choice([0.0, 0.5, 1.0], RAYS).clip(0, t_max), t_max)


def both_ways(scene: World, rays: RayBatch, asked: TraceSettings) -> Hits:
    got = scene.dispatcher.trace(rays, asked).hits
    assert_equal_hits(got, scene.dispatcher.trace(rays, asked, counters=True).hits)
    return got


@pytest.mark.rule("PROC-1", "PROC-2", "PROC-3", "RAY-6", "RAY-7", "DET-5", "TRI-7")
@settings(max_examples=250, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), scale=st.sampled_from([1.0, 1.0, 1e-20, 1e15]))
def test_opaque_spheres_equal_the_oracle_exactly(seed: int, lattice: bool, scale: float) -> None:
    random = np.random.default_rng(seed)
    scene = random_spheres(random, lattice, True, scale)
    rays, asked = random_lines(random, scene, lattice, scale), TraceSettings()
    got = both_ways(scene, rays, asked)
    expected = trace_reference(scene.inputs, scene.instances, scene.blas_of, rays, asked).hits
    for field in ("hit", "geometry_index", "primitive_index", "hit_kind", "t", "attributes", "invalid"):
        np.testing.assert_array_equal(getattr(got, field), getattr(expected, field), err_msg=field)


@pytest.mark.rule("AH-1", "OPQ-1", "OPQ-2", "CULL-2", "RF-2", "PROC-3")
@settings(max_examples=150, deadline=None)
@given(
    seed=SEEDS,
    lattice=st.booleans(),
    any_hit=st.sampled_from(list(AnyHitProgram)),
    flags=st.sampled_from(
        [
            RayFlag.NONE, RayFlag.FORCE_NON_OPAQUE, RayFlag.CULL_OPAQUE, RayFlag.CULL_NON_OPAQUE,
            RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH,
        ]
    ),
    repeat=st.booleans(),
)  # fmt: skip
def test_shaders_are_asked_as_ever(
    seed: int, lattice: bool, any_hit: AnyHitProgram, flags: RayFlag, repeat: bool
) -> None:
    random = np.random.default_rng(seed)
    scene = random_spheres(random, lattice, False, 1.0)
    rays = random_lines(random, scene, lattice, 1.0)
    both_ways(scene, rays, TraceSettings(any_hit=any_hit, ray_flags=flags, repeat_calls=repeat))


@pytest.mark.parametrize("program", [p for p in IntersectionProgram if p is not IntersectionProgram.SPHERE])
def test_other_shapes_are_not_taken_for_spheres(program: IntersectionProgram) -> None:
    random = np.random.default_rng(7)
    scene = random_spheres(random, False, True, 1.0)
    rays = random_lines(random, scene, False, 1.0)
    got = both_ways(scene, rays, TraceSettings(intersection=program, report_t=0.75))
    as_spheres = both_ways(scene, rays, TraceSettings())
    assert (got.hit_kind != as_spheres.hit_kind).any() or (got.hit != as_spheres.hit).any()


def test_a_touched_sphere_whose_box_is_missed_is_no_hit() -> None:
    """The line passes the box by less than the roots' rounding: the box decides."""
    scene = world(boxes([-1, -1, -1, 1, 1, 1], flags=GeometryFlag.OPAQUE))
    offsets = (1 + np.arange(-40, 41) * 2.0**-23).astype(np.float32)
    for far in (4.0, 1e4, 1e7):
        origin = np.stack([offsets, np.zeros_like(offsets), np.full_like(offsets, -far)], 1)
        rays = RayBatch.make(origin, np.float32([[0, 0, 1]] * len(offsets)))
        hits = both_ways(scene, rays, TraceSettings())
        assert hits.hit[offsets < 1 - 1e-6].all()
        assert not hits.hit[offsets > 1].any()
    oblique = RayBatch.make(np.float32([[1e7, 1, 0]]), np.float32([[-1, 1e-9, 0]]))
    both_ways(scene, oblique, TraceSettings())


def test_spheres_across_instances() -> None:
    """Ties between instances go to the smallest (DET-5)."""
    row = boxes([-1, -1, -1, 1, 1, 1], [0, 0, 0, 2, 2, 2], flags=GeometryFlag.OPAQUE)
    scene = world(row, placements=[Placement(transform=translate(x, 0, 0)) for x in (0, 0, 3)])
    random = np.random.default_rng(3)
    rays = RayBatch.make(random.normal(0, 3, (500, 3)), random.normal(0, 1, (500, 3)))
    hits = both_ways(scene, rays, TraceSettings())
    assert set(hits.instance_index.tolist()) == {-1, 0, 2}
