"""Inline queries, driven by hand, find what TraceRay finds (INL-11)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtviewer.dxr.flags import CandidateType, CommittedStatus, RayFlag
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.trace.query import RayQuery
from rtviewer.trace.reference import trace_reference
from rtviewer.trace.request import RayBatch, TraceSettings
from tests.properties.strategies import SEEDS, random_rays, random_settings, random_world
from tests.properties.test_tracing import dispatcher_of

RAYS = 16


def drive(query: RayQuery, ignore_odd: bool) -> list[tuple[int, ...]]:
    """What ACCEPT or IGNORE_ODD_PRIMITIVES do, for triangles; procedurals report nothing. Returns the candidates."""
    seen = []
    while query.proceed():
        seen.append(
            (query.candidate_instance_index(), query.candidate_geometry_index(), query.candidate_primitive_index())
        )
        if query.candidate_type() is CandidateType.NON_OPAQUE_TRIANGLE:
            assert query.ray_t_min() < query.candidate_triangle_ray_t() < query.committed_ray_t()  # INL-3
            if not (ignore_odd and query.candidate_primitive_index() & 1):
                query.commit_non_opaque_triangle_hit()
                query.commit_non_opaque_triangle_hit()  # INL-4
    assert not query.proceed()
    return seen


@pytest.mark.rule("INL-2", "INL-3", "INL-4", "INL-7", "INL-9", "INL-11", "ACC-5", "OPQ-7")
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, ignore_odd=st.booleans())
def test_a_query_and_trace_ray_agree(seed: int, ignore_odd: bool) -> None:
    world, rays = random_world(seed, False), random_rays(seed, RAYS, False)
    arguments = random_settings(seed, RAYS, any_hit=[0], accept_first=True)
    flags = np.asarray(arguments.ray_flags) & ~np.uint32(RayFlag.SKIP_CLOSEST_HIT_SHADER)  # RF-5
    program = AnyHitProgram.IGNORE_ODD_PRIMITIVES if ignore_odd else AnyHitProgram.ACCEPT
    dispatcher = dispatcher_of(world)
    arguments = TraceSettings(flags, arguments.mask, program, IntersectionProgram.NOTHING)
    expected = dispatcher.trace(rays, arguments).hits
    accepted = trace_reference(world.blases, world.instances, world.blas_of, rays, arguments).accepted
    query = RayQuery()
    for ray in range(RAYS):
        if expected.invalid[ray]:
            continue
        query.trace_ray_inline(
            dispatcher, RayFlag(int(flags[ray])), int(np.asarray(arguments.mask)[ray]),
            tuple(rays.origin[ray]), tuple(rays.direction[ray]), float(rays.t_min[ray]), float(rays.t_max[ray]),
        )  # fmt: skip
        assert query.committed_status() is CommittedStatus.NOTHING
        assert query.committed_ray_t() == rays.t_max[ray]  # INL-1
        drive(query, ignore_odd)
        assert (query.committed_status() is not CommittedStatus.NOTHING) == expected.hit[ray]
        if not expected.hit[ray]:
            continue
        first = bool(flags[ray] & RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH)
        key = (query.committed_instance_index(), query.committed_geometry_index(), query.committed_primitive_index())
        if not first:
            assert query.committed_ray_t() == expected.t[ray]
        a, b = accepted.offsets[ray], accepted.offsets[ray + 1]
        assert key in set(zip(accepted.instance[a:b], accepted.geometry[a:b], accepted.primitive[a:b], strict=True))
        assert query.committed_instance_id() == int(world.instances.instance_id[key[0]])


def test_a_query_sees_the_same_opaque_hits_as_the_image() -> None:
    rays = RayBatch.make([[0, 0, -5]], [[0, 0, 1]])
    world = random_world(3, True)
    dispatcher = dispatcher_of(world)
    query = RayQuery(RayFlag.FORCE_OPAQUE | RayFlag.SKIP_PROCEDURAL_PRIMITIVES)
    query.trace_ray_inline(dispatcher, RayFlag.NONE, 0xFF, (0, 0, -5), (0, 0, 1))
    assert not query.proceed()
    hits = dispatcher.trace(rays, TraceSettings(query.ray_flags())).hits
    assert (query.committed_status() is not CommittedStatus.NOTHING) == hits.hit[0]
