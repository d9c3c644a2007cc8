"""Hit-group tables: compiled kernels against the brute-force oracle on random worlds, rays, flags and records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.dxr.descs import AabbsGeometry, InstanceInputs
from rtviewer.dxr.flags import BuildFlag
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.dxr.shader_table import ABSENT, AS_GIVEN, NULL, HitGroup, HitGroupTable, HitGroupType
from rtviewer.errors import InvalidInputError, Violation
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.reference import ReferenceRules, trace_reference
from rtviewer.trace.request import RayBatch, TraceSettings
from rtviewer.trace.walk import any_hit_calls
from tests.properties.strategies import SEEDS, XBOX, RandomWorld, random_rays, random_settings, random_world

RAYS = 48
PROCEDURALS_FROM = 256
"""Instances of procedural geometry have contributions from here on, so that no index meets a record of the other kind:
15 + 15 * 3 + 3 is the largest index of triangles."""
FLAGS = st.sampled_from([BuildFlag(word) for word in (0, 4, 8, 16)])
OWN_INTERSECTIONS = [int(program) for program in IntersectionProgram if program is not IntersectionProgram.REPORT_T]


def sorted_by_kind(world: RandomWorld) -> RandomWorld:
    """The world with contributions that lead every instance to records of its kind."""
    procedural = np.array(
        [b >= 0 and any(isinstance(g, AabbsGeometry) for g in world.blases[b].geometries) for b in world.blas_of], bool
    )
    contribution = world.instances.contribution + np.where(procedural, PROCEDURALS_FROM, 0).astype(np.uint32)
    instances: InstanceInputs = replace(world.instances, contribution=contribution.astype(np.uint32))
    return replace(world, instances=instances)


def random_table(seed: int, any_hit: list[int]) -> HitGroupTable:
    """Records of triangles, then of procedurals; any-hit absent, given or named, some NULL."""
    random = np.random.default_rng(seed ^ 0x7AB1E)

    def record(procedural: bool) -> HitGroup:
        if random.random() < 0.15:
            return NULL
        program = int(random.choice([ABSENT, AS_GIVEN, *any_hit]))
        if not procedural:
            return HitGroup(HitGroupType.TRIANGLES, program)
        return HitGroup(HitGroupType.PROCEDURAL_PRIMITIVE, program, int(random.choice([AS_GIVEN, *OWN_INTERSECTIONS])))

    return HitGroupTable(tuple(record(i >= PROCEDURALS_FROM) for i in range(2 * PROCEDURALS_FROM)))


def dispatcher_of(world: RandomWorld, flags: BuildFlag = BuildFlag.NONE) -> Dispatcher:
    blases = {(i + 1) * 256: build_blas(inputs, flags) for i, inputs in enumerate(world.blases)}
    return Dispatcher(build_tlas(world.instances, flags, blases=blases), blases, XBOX)


@pytest.mark.rule("HG-1", "HG-5", "OPQ-5", "TRAV-4", "DET-5")
@settings(max_examples=120, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), flags=FLAGS)
def test_closest_hits_equal_the_oracle_exactly(seed: int, lattice: bool, flags: BuildFlag) -> None:
    """No any-hit accepts, so that everything committed is opaque, by flags or for want of a shader."""
    world, rays = sorted_by_kind(random_world(seed, lattice)), random_rays(seed, RAYS, lattice)
    plain = random_settings(seed, RAYS, any_hit=[AnyHitProgram.IGNORE], accept_first=False)
    arguments = replace(plain, hit_groups=random_table(seed, [AnyHitProgram.IGNORE]))
    got = dispatcher_of(world, flags).trace(rays, arguments).hits
    expected = trace_reference(world.blases, world.instances, world.blas_of, rays, arguments).hits
    for field in ("hit", "instance_index", "geometry_index", "primitive_index", "hit_kind", "instance_id",
                  "hit_group_index", "t", "attributes", "invalid"):  # fmt: skip
        np.testing.assert_array_equal(getattr(got, field), getattr(expected, field), err_msg=field)


@pytest.mark.rule("OPQ-5", "TRAV-4", "AH-1", "AH-5", "AH-6", "ACC-1", "ACC-2", "ACC-3", "ACC-6")
@settings(max_examples=120, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), flags=FLAGS)
def test_every_program_is_among_what_the_rules_accept(seed: int, lattice: bool, flags: BuildFlag) -> None:
    world, rays = sorted_by_kind(random_world(seed, lattice)), random_rays(seed, RAYS, lattice)
    programs = [int(program) for program in AnyHitProgram]
    arguments = replace(
        random_settings(seed, RAYS, any_hit=programs, accept_first=True), hit_groups=random_table(seed, programs)
    )
    log = dispatcher_of(world, flags).walk(rays, arguments)
    got = log.result.hits
    expected = trace_reference(world.blases, world.instances, world.blas_of, rays, arguments)
    np.testing.assert_array_equal(got.hit, expected.hits.hit)
    offsets, rows = any_hit_calls(log)
    names = ("instance_index", "geometry_index", "primitive_index", "hit_kind")
    for ray in range(RAYS):
        if got.hit[ray]:
            assert tuple(int(getattr(got, name)[ray]) for name in names) in expected.accepted.keys(ray)
        calls = {tuple(row) for row in rows[offsets[ray] : offsets[ray + 1]].tolist()}
        assert calls <= set(expected.any_hit_candidates.keys(ray))


def problem_of(call: Callable[[], object]) -> Violation | None:
    """The first problem of a TraceRay call, None where there is none."""
    try:
        call()
    except InvalidInputError as error:
        return error.violations[0] if error.call == "TraceRay" else None
    return None


ANY_T = replace(ReferenceRules(), in_interval=lambda is_triangle, t, t_min, t_end: ~np.isnan(t))


@pytest.mark.rule("HG-4", "TRAV-5", "HG-3")
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), stride=st.sampled_from([0, 32]), length=st.integers(1, 40))
def test_records_at_fault_are_reported_where_they_are_used(seed: int, lattice: bool, stride: int, length: int) -> None:
    """Ray by ray: the tracer, which meets candidates in an order of its own, may end a ray before a far fault, but
    never makes one up, and never returns a hit that lies behind one."""
    random = np.random.default_rng(seed)
    kinds = random.choice([int(HitGroupType.TRIANGLES), int(HitGroupType.PROCEDURAL_PRIMITIVE)], length, p=[0.7, 0.3])
    records = tuple(
        HitGroup(HitGroupType(int(kind)), ABSENT, AS_GIVEN if kind == HitGroupType.PROCEDURAL_PRIMITIVE else ABSENT)
        for kind in kinds
    )
    world, rays = random_world(seed, lattice), random_rays(seed, 12, lattice)
    plain = random_settings(seed, 12, any_hit=[AnyHitProgram.IGNORE], accept_first=False)
    dispatcher = dispatcher_of(world)
    for ray in range(12):
        one, arguments = rays.part(ray, ray + 1), settings_of_ray(plain, ray, HitGroupTable(records, stride))
        found = problem_of(lambda one=one, a=arguments: dispatcher.trace(one, a))
        due = problem_of(lambda one=one, a=arguments: oracle(world, one, a))
        if found is not None:
            assert faults_anywhere(world, one, arguments)
            assert found.rule in ("HG-4", "TRAV-5")
            assert stride or found.rule == "TRAV-5"
        elif due is not None:
            hits = dispatcher.trace(one, arguments).hits
            nearer = RayBatch.make(one.origin, one.direction, one.t_min, hits.t)
            assert hits.hit[0]
            assert problem_of(lambda near=nearer, a=arguments: oracle(world, near, a, strict_end=True)) is None


def settings_of_ray(every: TraceSettings, ray: int, table: HitGroupTable) -> TraceSettings:
    names = ("ray_flags", "mask", "any_hit", "intersection", "ray_contribution", "multiplier")
    return replace(every, hit_groups=table, **{name: np.asarray(getattr(every, name))[ray : ray + 1] for name in names})


def oracle(world: RandomWorld, ray: RayBatch, arguments: TraceSettings, *, strict_end: bool = False) -> object:
    """``strict_end``: what lies at the very end is left out, and boxes that only begin there."""
    if strict_end:
        ray = replace(ray, t_max=np.maximum(ray.t_min, np.nextafter(ray.t_max, np.float32(0))))
    return trace_reference(world.blases, world.instances, world.blas_of, ray, arguments)


def faults_anywhere(world: RandomWorld, ray: RayBatch, arguments: TraceSettings) -> bool:
    """Whether any candidate on the ray's line is at fault, in its interval or not."""
    try:
        trace_reference(world.blases, world.instances, world.blas_of, ray, arguments, rules=ANY_T)
    except InvalidInputError:
        return True
    return False
