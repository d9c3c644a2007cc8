"""The x-ray finds what the oracle finds along the whole ray, and reasons add up, on random worlds, rays and flags."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.dxr.verdicts import CANDIDATE_REASONS, INSTANCE_REASONS, Counter, EventKind, Verdict
from rtviewer.trace.reference import trace_reference
from tests.properties.strategies import SEEDS, random_rays, random_settings, random_world
from tests.properties.test_tracing import candidate_sets, dispatcher_of

RAYS = 48
CULLS = np.uint32(RayFlag.CULL_OPAQUE | RayFlag.CULL_NON_OPAQUE)
OPACITY = np.uint32(RayFlag.FORCE_OPAQUE | RayFlag.FORCE_NON_OPAQUE)


@pytest.mark.rule("TRAV-1", "MASK-1", "CULL-1", "CULL-3", "RAY-6")
@settings(max_examples=80, deadline=None)
@given(seed=SEEDS, lattice=st.booleans())
def test_surfaces_are_those_that_an_any_hit_that_ignores_everything_is_asked_about(seed: int, lattice: bool) -> None:
    """Rays without opacity culls: forced non-opaque and always ignored, the oracle offers every surface once."""
    world, rays = random_world(seed, lattice), random_rays(seed, RAYS, lattice)
    arguments = random_settings(seed, RAYS, any_hit=[AnyHitProgram.ACCEPT], accept_first=True)
    flags = np.asarray(arguments.ray_flags) & ~CULLS
    log = dispatcher_of(world).walk(rays, replace(arguments, ray_flags=flags, x_ray=True))
    forced = (flags & ~OPACITY & ~np.uint32(RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH)) | np.uint32(
        RayFlag.FORCE_NON_OPAQUE
    )
    ignoring = replace(arguments, ray_flags=forced, any_hit=AnyHitProgram.IGNORE)
    expected = candidate_sets(
        trace_reference(world.blases, world.instances, world.blas_of, rays, ignoring).any_hit_candidates
    )
    assert not log.result.hits.hit.any()
    for ray in range(RAYS):
        events = log.events[log.offsets[ray] : log.offsets[ray + 1]]
        reports = np.isin(events["kind"], (EventKind.CANDIDATE, EventKind.REPORT))
        found = events[reports & (events["verdict"] == Verdict.SURFACE_PASSED)]
        found = found[(found["kind"] == EventKind.REPORT) | (found["hit_kind"] >= 254)]  # a box is no surface itself
        keys = [tuple(row) for row in found[["instance", "geometry", "primitive", "hit_kind"]].tolist()]
        assert len(keys) == len(set(keys)) == log.result.counters[ray, Counter.COMMITS]
        assert set(keys) == expected[ray]


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), x_ray=st.booleans())
def test_every_reason_counts_the_verdicts_of_the_log(seed: int, lattice: bool, x_ray: bool) -> None:
    world, rays = random_world(seed, lattice), random_rays(seed, RAYS, lattice)
    arguments = random_settings(seed, RAYS, any_hit=list(range(6)), accept_first=True)
    log = dispatcher_of(world).walk(rays, replace(arguments, x_ray=x_ray))
    assert not log.truncated.any()
    for ray in range(RAYS):
        events = log.events[log.offsets[ray] : log.offsets[ray + 1]]
        expected = dict.fromkeys((*INSTANCE_REASONS.values(), *CANDIDATE_REASONS.values()), 0)
        for event in events:
            kind, verdict = EventKind(int(event["kind"])), Verdict(int(event["verdict"]))
            if kind is EventKind.INSTANCE_SKIPPED:
                expected[INSTANCE_REASONS[verdict]] += 1
            # What a program reports is judged report by report; its box only where it came to none.
            is_box = kind is EventKind.CANDIDATE and event["hit_kind"] < 254 and not np.isfinite(event["u"])
            counts = kind is EventKind.REPORT or (kind is EventKind.CANDIDATE and not is_box)
            counts |= is_box and verdict in (
                Verdict.NOTHING_REPORTED, Verdict.CULLED_OPAQUE, Verdict.CULLED_NON_OPAQUE
            )  # fmt: skip
            if counts and verdict in CANDIDATE_REASONS:
                expected[CANDIDATE_REASONS[verdict]] += 1
        counted = {counter: int(log.result.counters[ray, counter]) for counter in expected}
        assert counted == expected
        columns = log.result.counters[ray]
        assert columns[Counter.INSTANCES_REJECTED] == columns[17:21].sum()
        assert columns[Counter.REJECTED_CULLED] == columns[21:23].sum()
        assert columns[Counter.REJECTED_FACING] == columns[23:25].sum()
        assert columns[Counter.REJECTED_INTERVAL] == columns[25:28].sum()


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, lattice=st.booleans())
def test_an_x_ray_finds_at_least_what_the_ray_finds(seed: int, lattice: bool) -> None:
    world, rays = random_world(seed, lattice), random_rays(seed, RAYS, lattice)
    arguments = random_settings(seed, RAYS, any_hit=list(range(6)), accept_first=True)
    dispatcher = dispatcher_of(world)
    own = dispatcher.trace(rays, arguments, counters=True)
    whole = dispatcher.trace(rays, replace(arguments, x_ray=True), counters=True)
    for counter in (
        Counter.TLAS_NODES_VISITED, Counter.BLAS_NODES_VISITED, Counter.INSTANCES_ENTERED, Counter.TRIANGLE_TESTS,
        Counter.PROCEDURAL_TESTS, Counter.BOX_TESTS,
    ):  # fmt: skip
        assert (whole.counters[:, counter] >= own.counters[:, counter]).all(), counter
    assert ((whole.counters[:, Counter.COMMITS] > 0) == own.hits.hit).all()
