"""The log of a ray on random worlds: it adds up to the counters of the image, and its stack can be told from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.dxr.flags import BuildFlag
from rtviewer.dxr.verdicts import (
    ANY_HIT_RAN,
    CANDIDATE_REASONS,
    INSTANCE_REASONS,
    VERDICTS,
    Counter,
    EventKind,
    Verdict,
)
from rtviewer.scene.primitives import degenerate_triangles, triangle_corners
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.document import World
from rtviewer.session.playback import ACCEPTED, stack_of
from rtviewer.trace.dispatch import Dispatcher
from tests.properties.strategies import SEEDS, XBOX, random_rays, random_settings, random_world

RAYS = 48
FLAGS = st.sampled_from([BuildFlag(word) for word in range(32) if word & 0xC != 0xC])
INTERVAL = (Verdict.AT_OR_BEFORE_T_MIN, Verdict.AT_OR_BEYOND_CURRENT_END, Verdict.TIE_LOST)
NOT_MET = (Verdict.MISSED, Verdict.CULLED_OPAQUE, Verdict.CULLED_NON_OPAQUE)
OF_INSTANCES = {
    Verdict.INACTIVE_INSTANCE, Verdict.MASK_EXCLUDED, Verdict.SINGULAR_TRANSFORM, Verdict.EMPTY_STRUCTURE,
    Verdict.OBJECT_RAY_NOT_FINITE, Verdict.TRIANGLES_SKIPPED, Verdict.PROCEDURALS_SKIPPED, Verdict.CULLED_OPAQUE,
    Verdict.CULLED_NON_OPAQUE,
}  # fmt: skip
OF_CANDIDATES = set(VERDICTS) - {
    Verdict.NONE, Verdict.INACTIVE_INSTANCE, Verdict.MASK_EXCLUDED, Verdict.SINGULAR_TRANSFORM, Verdict.EMPTY_STRUCTURE,
    Verdict.OBJECT_RAY_NOT_FINITE, Verdict.TRIANGLES_SKIPPED, Verdict.PROCEDURALS_SKIPPED, Verdict.BOX_MISSED,
    Verdict.BOX_BEYOND_CURRENT_END, Verdict.HIT_GROUP_FAULT, Verdict.RETURNED_TO_CALLER,
    Verdict.SURFACE_PASSED,
}  # fmt: skip
"""The last three belong to rays that end in an error, to inline queries and to x-rays."""


def world_of(seed: int, lattice: bool, flags: BuildFlag) -> World:
    random = random_world(seed, lattice)
    blases = {(i + 1) * 256: build_blas(inputs, flags) for i, inputs in enumerate(random.blases)}
    blases = {address: replace(blas, address=address) for address, blas in blases.items()}
    tlas = build_tlas(random.instances, flags, blases=blases)
    placed = tuple(Instance(int(blas)) for blas in random.blas_of)
    return World(Scene("random", random.blases, placed), tuple(blases.values()), tlas)


def is_in(values: np.ndarray, members) -> np.ndarray:
    return np.isin(values, [int(member) for member in members])


@pytest.mark.rule("CULL-5", "AH-1", "RAY-7", "PROC-2")
@settings(max_examples=120, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), flags=FLAGS)
def test_events_add_up_to_every_counter_and_to_the_hit(seed: int, lattice: bool, flags: BuildFlag) -> None:
    world, rays = world_of(seed, lattice, flags), random_rays(seed, RAYS, lattice)
    arguments = random_settings(seed, RAYS, any_hit=list(range(6)), accept_first=True)
    dispatcher = Dispatcher(world.tlas, world.blas_table, XBOX)
    image = dispatcher.trace(rays, arguments, counters=True)
    log = dispatcher.walk(rays, arguments)
    assert not log.truncated.any()
    np.testing.assert_array_equal(image.counters, log.result.counters)
    hits = image.hits
    for ray in range(RAYS):
        events = log.events[log.offsets[ray] : log.offsets[ray + 1]]
        check_verdicts(world, events)
        check_counters(world, rays, ray, events, image.counters[ray])
        last = last_commit(events)
        assert (last is not None) == bool(hits.hit[ray])
        if last is not None:
            told = [int(last[name]) for name in ("instance", "geometry", "primitive", "hit_kind")]
            names = ("instance_index", "geometry_index", "primitive_index", "hit_kind")
            assert told == [int(getattr(hits, name)[ray]) for name in names]
            assert last["t"] == hits.t[ray]
            assert [last["u"], last["v"]] == hits.attributes[ray].tolist()


def commits_of(events: np.ndarray) -> np.ndarray:
    """A procedural's candidate repeats what its reports were; it has a slab interval, a triangle has none."""
    report = events["kind"] == EventKind.REPORT
    triangle = (events["kind"] == EventKind.CANDIDATE) & np.isnan(events["t_exit"])
    return (report | triangle) & is_in(events["verdict"], ACCEPTED)


def last_commit(events: np.ndarray):
    found = np.flatnonzero(commits_of(events))
    return events[found[-1]] if len(found) else None


def check_verdicts(world: World, events: np.ndarray) -> None:
    """One verdict of those that a kind of event can have; candidates are tested once, and carry their numbers."""
    kind, verdict = events["kind"], events["verdict"]
    entered = (kind == EventKind.NODE_ENTERED) | (kind == EventKind.INSTANCE_ENTERED)
    assert (verdict[entered] == Verdict.NONE).all()
    boxes = (Verdict.BOX_MISSED, Verdict.BOX_BEYOND_CURRENT_END)
    assert is_in(verdict[kind == EventKind.NODE_SKIPPED], boxes).all()
    assert is_in(verdict[kind == EventKind.INSTANCE_SKIPPED], OF_INSTANCES).all()
    candidate = (kind == EventKind.CANDIDATE) | (kind == EventKind.REPORT)
    assert is_in(verdict[candidate], OF_CANDIDATES).all()
    tested = events[kind == EventKind.CANDIDATE][["instance", "geometry", "primitive"]].tolist()
    assert len(tested) == len(set(tested))
    reached = (kind == EventKind.CANDIDATE) & ~is_in(verdict, NOT_MET)
    assert np.isfinite(events["t"][reached & np.isnan(events["t_exit"])]).all()
    missed = events[(kind == EventKind.CANDIDATE) & (verdict == Verdict.MISSED) & np.isnan(events["t_exit"])]
    for event in missed:
        edges = np.array([event[name] for name in "uvw"])
        has_failing_edge = bool((edges <= 0).any()) or not np.isfinite(edges).all()
        assert has_failing_edge or is_degenerate(world, event)


def is_degenerate(world: World, event: np.ndarray) -> bool:
    """A triangle without area that an updatable structure keeps: rounding may give it three positive edges."""
    inputs = world.scene.blases[world.blas_of_instance(int(event["instance"]))]
    corners = triangle_corners(inputs.geometries[int(event["geometry"])])[int(event["primitive"])]
    return bool(degenerate_triangles(corners[None])[0])


def check_counters(world: World, rays, ray: int, events: np.ndarray, counters: np.ndarray) -> None:
    """Every counter told from the events alone."""
    kind, verdict, level = events["kind"], events["verdict"], events["level"]
    candidates = kind == EventKind.CANDIDATE
    report = kind == EventKind.REPORT
    box = candidates & ~np.isnan(events["t_exit"])
    culled = candidates & is_in(verdict, NOT_MET[1:])
    origin, direction = tuple(rays.origin[ray].tolist()), tuple(rays.direction[ray].tolist())
    stack = stack_of(world, events, origin, direction)
    children = stack[(stack["pushed"] >= 0) & (stack["lane"] >= 0)]
    pops = np.zeros(len(events), np.bool_)
    pops[stack["popped"][stack["popped"] < len(events)]] = True
    inner = (kind == EventKind.NODE_ENTERED) & is_inner(world, events)
    ran = is_in(verdict, ANY_HIT_RAN)
    triangle = candidates & ~box & ~culled
    expected = {
        Counter.TLAS_NODES_VISITED: (inner & (level == 0)).sum(),
        Counter.BLAS_NODES_VISITED: (inner & (level == 1)).sum(),
        Counter.BOX_HITS: len(children),
        Counter.BOX_TESTS: len(children) + ((kind == EventKind.NODE_SKIPPED) & ~pops).sum(),
        Counter.INSTANCES_ENTERED: (kind == EventKind.INSTANCE_ENTERED).sum(),
        Counter.INSTANCES_REJECTED: (kind == EventKind.INSTANCE_SKIPPED).sum(),
        Counter.TRIANGLE_TESTS: triangle.sum(),
        Counter.TRIANGLE_HITS: (triangle & (verdict != Verdict.MISSED)).sum(),
        Counter.PROCEDURAL_TESTS: box.sum(),
        Counter.PROCEDURAL_REPORTS: report.sum(),
        Counter.ANY_HIT_CALLS: (ran & (report | triangle)).sum(),
        Counter.COMMITS: commits_of(events).sum(),
        Counter.REJECTED_CULLED: culled.sum(),
        Counter.REJECTED_MISSED: (candidates & (verdict == Verdict.MISSED)).sum(),
        Counter.REJECTED_FACING: is_in(verdict, (Verdict.BACK_FACE_CULLED, Verdict.FRONT_FACE_CULLED)).sum(),
        Counter.REJECTED_INTERVAL: ((report | triangle) & is_in(verdict, INTERVAL)).sum(),
        Counter.STACK_HIGH_WATER: high_water(events, inner, children),
    }
    skipped = verdict[kind == EventKind.INSTANCE_SKIPPED]
    decided = verdict[report | triangle | culled | (box & (verdict == Verdict.NOTHING_REPORTED))]
    for reasons, told in ((INSTANCE_REASONS, skipped), (CANDIDATE_REASONS, decided)):
        for reason, counter in reasons.items():
            expected[counter] = expected.get(counter, 0) + (told == reason).sum()
    assert set(expected) == set(Counter)
    assert {c.name: int(n) for c, n in expected.items()} == {c.name: int(counters[c]) for c in Counter}


def is_inner(world: World, events: np.ndarray) -> np.ndarray:
    """Whether the box of an event is an inner node, read off the structures' bytes."""
    found = np.zeros(len(events), np.bool_)
    for i, event in enumerate(events):
        structure = -1 if event["level"] == 0 else world.blas_of_instance(int(event["instance"]))
        node, lane = int(event["node"]), int(event["lane"])
        found[i] = node < 0 or int(world.structure(structure).nodes["child"][node, lane]) >= 0
    return found


def high_water(events: np.ndarray, inner: np.ndarray, children: np.ndarray) -> int:
    """The highest place that a child took; an inner node without any counts what lay below it."""
    highest = int(children["slot"].max()) + 1 if len(children) else 0
    return max(highest, int(events["stack_size"][inner].max(initial=0)))


@settings(max_examples=120, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), flags=FLAGS)
def test_the_stack_told_from_events_is_the_stack_there_was(seed: int, lattice: bool, flags: BuildFlag) -> None:
    """At every event it has as many entries as the event says; what an event takes off lay on top; boxes are real."""
    world, rays = world_of(seed, lattice, flags), random_rays(seed, RAYS, lattice)
    arguments = random_settings(seed, RAYS, any_hit=list(range(6)), accept_first=True)
    log = Dispatcher(world.tlas, world.blas_table, XBOX).walk(rays, arguments)
    for ray in range(RAYS):
        events = log.events[log.offsets[ray] : log.offsets[ray + 1]]
        origin, direction = tuple(rays.origin[ray].tolist()), tuple(rays.direction[ray].tolist())
        stack = stack_of(world, events, origin, direction)
        at = np.arange(len(events))
        standing = (stack["pushed"][:, None] < at) & (stack["popped"][:, None] > at)
        np.testing.assert_array_equal(standing.sum(0), events["stack_size"])
        for position in at:
            slots = np.sort(stack["slot"][standing[:, position]])
            np.testing.assert_array_equal(slots, np.arange(len(slots)))
        taken = stack[stack["popped"] < len(events)]
        np.testing.assert_array_equal(taken["slot"], events["stack_size"][taken["popped"]])
        for row in stack:
            structure = -1 if row["level"] == 0 else world.blas_of_instance(int(row["instance"]))
            assert world.tree(structure).box_of(int(row["node"]), int(row["lane"])) >= 0
