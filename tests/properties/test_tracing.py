"""Kernels against the brute-force oracle on random worlds, rays and flags."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtviewer.accel.invariants import check
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.dxr.flags import BuildFlag
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.dxr.verdicts import Counter, EventKind, Verdict
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.reference import trace_reference
from rtviewer.trace.walk import any_hit_calls
from tests.properties.strategies import SEEDS, XBOX, RandomWorld, random_rays, random_settings, random_world

RAYS = 64
FLAGS = st.sampled_from([BuildFlag(word) for word in range(32) if word & 0xC != 0xC])


def dispatcher_of(world: RandomWorld, flags: BuildFlag = BuildFlag.NONE) -> Dispatcher:
    blases = {(i + 1) * 256: build_blas(inputs, flags) for i, inputs in enumerate(world.blases)}
    tlas = build_tlas(world.instances, flags, blases=blases)
    for structure in (tlas, *blases.values()):
        assert check(structure) == []
    return Dispatcher(tlas, blases, XBOX)


@pytest.mark.rule(
    "RAY-6", "RAY-7", "RAY-11", "DET-5", "TRI-5", "MASK-1", "CULL-1", "CULL-2", "CULL-3", "OPQ-3", "INA-6"
)
@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), flags=FLAGS)
def test_closest_hits_equal_the_oracle_exactly(seed: int, lattice: bool, flags: BuildFlag) -> None:
    """Where no any-hit accepts and ACCEPT_FIRST_HIT is off, everything of the result is equal, ties included, whatever
    the build flags (BF-10)."""
    world, rays = random_world(seed, lattice), random_rays(seed, RAYS, lattice)
    arguments = random_settings(seed, RAYS, any_hit=[AnyHitProgram.IGNORE], accept_first=False)
    got = dispatcher_of(world, flags).trace(rays, arguments).hits
    expected = trace_reference(world.blases, world.instances, world.blas_of, rays, arguments).hits
    for field in ("hit", "instance_index", "geometry_index", "primitive_index", "hit_kind", "instance_id",
                  "hit_group_index", "t", "attributes", "invalid"):  # fmt: skip
        np.testing.assert_array_equal(getattr(got, field), getattr(expected, field), err_msg=field)


@pytest.mark.rule("ACC-1", "ACC-2", "ACC-3", "ACC-6", "AH-1", "AH-5", "AH-6", "TRAV-1", "TRAV-7")
@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), flags=FLAGS)
def test_any_hit_and_first_hit_are_among_what_the_rules_accept(seed: int, lattice: bool, flags: BuildFlag) -> None:
    world, rays = random_world(seed, lattice), random_rays(seed, RAYS, lattice)
    arguments = random_settings(seed, RAYS, any_hit=list(range(6)), accept_first=True)
    dispatcher = dispatcher_of(world, flags)
    log = dispatcher.walk(rays, arguments)
    got = log.result.hits
    expected = trace_reference(world.blases, world.instances, world.blas_of, rays, arguments)
    np.testing.assert_array_equal(got.hit, expected.hits.hit)
    accepted = candidate_sets(expected.accepted)
    may_call = candidate_sets(expected.any_hit_candidates)
    offsets, rows = any_hit_calls(log)
    for ray in range(RAYS):
        key = tuple(
            int(getattr(got, f)[ray]) for f in ("instance_index", "geometry_index", "primitive_index", "hit_kind")
        )
        if got.hit[ray]:
            assert key in accepted[ray]
        calls = [tuple(int(x) for x in row) for row in rows[offsets[ray] : offsets[ray + 1]]]
        assert set(calls) <= may_call[ray]


def candidate_sets(rows) -> list[set[tuple[int, int, int, int]]]:
    keys = np.stack([rows.instance, rows.geometry, rows.primitive, rows.hit_kind], 1).tolist()
    return [set(map(tuple, keys[a:b])) for a, b in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)]


@settings(max_examples=80, deadline=None)
@given(seed=SEEDS, lattice=st.booleans())
def test_image_counters_and_log_tell_one_story(seed: int, lattice: bool) -> None:
    """The three specialisations agree, and the events add up to the counters."""
    world, rays = random_world(seed, lattice), random_rays(seed, RAYS, lattice)
    arguments = random_settings(seed, RAYS, any_hit=list(range(6)), accept_first=True)
    dispatcher = dispatcher_of(world)
    plain, counted = dispatcher.trace(rays, arguments), dispatcher.trace(rays, arguments, counters=True)
    log = dispatcher.walk(rays, arguments)
    assert plain.counters is None
    assert not log.truncated.any()
    for other in (counted, log.result):
        for field in ("t", "instance_index", "geometry_index", "primitive_index", "hit_kind", "attributes"):
            np.testing.assert_array_equal(getattr(plain.hits, field), getattr(other.hits, field), err_msg=field)
    np.testing.assert_array_equal(counted.counters, log.result.counters)
    for ray in range(RAYS):
        check_counters(log.events[log.offsets[ray] : log.offsets[ray + 1]], counted.counters[ray])


def check_counters(events: np.ndarray, counters: np.ndarray) -> None:
    kind, verdict = events["kind"], events["verdict"]
    candidates = events[kind == EventKind.CANDIDATE]
    assert counters[Counter.INSTANCES_ENTERED] == (kind == EventKind.INSTANCE_ENTERED).sum()
    assert counters[Counter.INSTANCES_REJECTED] == (kind == EventKind.INSTANCE_SKIPPED).sum()
    assert counters[Counter.PROCEDURAL_REPORTS] == (kind == EventKind.REPORT).sum()
    culled = np.isin(candidates["verdict"], [Verdict.CULLED_OPAQUE, Verdict.CULLED_NON_OPAQUE]).sum()
    assert counters[Counter.REJECTED_CULLED] == culled
    assert counters[Counter.TRIANGLE_TESTS] + counters[Counter.PROCEDURAL_TESTS] == len(candidates) - culled
    assert counters[Counter.REJECTED_MISSED] == (candidates["verdict"] == Verdict.MISSED).sum()
    facing = np.isin(candidates["verdict"], [Verdict.BACK_FACE_CULLED, Verdict.FRONT_FACE_CULLED]).sum()
    assert counters[Counter.REJECTED_FACING] == facing
    assert (verdict[(kind == EventKind.CANDIDATE)] != Verdict.NONE).all()


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS)
def test_one_setting_for_all_equals_one_per_ray(seed: int) -> None:
    world, rays = random_world(seed, True), random_rays(seed, RAYS, True)
    dispatcher = dispatcher_of(world)
    from rtviewer.trace.request import TraceSettings

    one = TraceSettings(ray_flags=0x10, mask=0x81, any_hit=2, intersection=1)
    per_ray = TraceSettings(
        ray_flags=np.full(RAYS, 0x10, np.uint32), mask=np.full(RAYS, 0x81, np.uint32),
        any_hit=np.full(RAYS, 2, np.uint32), intersection=np.full(RAYS, 1, np.uint32),
    )  # fmt: skip
    a, b = dispatcher.trace(rays, one).hits, dispatcher.trace(rays, per_ray).hits
    np.testing.assert_array_equal(a.t, b.t)
    np.testing.assert_array_equal(a.primitive_index, b.primitive_index)
