"""RayQuery by hand: states, accessors, what is illegal when."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.dxr.flags import CandidateType, CommittedStatus, GeometryFlag, InstanceFlag, RayFlag
from rtviewer.dxr.profile import Profile, Tier
from rtviewer.errors import InvalidInputError
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.query import RayQuery
from tests.worlds import Placement, boxes, translate, triangles, world

CLOCKWISE = [[0, 0, 0], [0, 4, 0], [4, 0, 0]]


def scene(*, opaque: bool = False) -> Dispatcher:
    """Two triangles behind each other (z = 0 and, in instance 1, z = 3), and a box of z 5 to 6 in instance 2."""
    flags = GeometryFlag.OPAQUE if opaque else GeometryFlag.NONE
    flat = triangles(CLOCKWISE, flags=flags)
    box = boxes([0, 0, 5, 4, 4, 6], flags=flags)
    placements = [
        Placement(0, instance_id=10, contribution=7),
        Placement(
            0, translate(0, 0, 3), instance_id=11, contribution=8, flags=InstanceFlag.TRIANGLE_FRONT_COUNTERCLOCKWISE
        ),
        Placement(1, instance_id=12, contribution=9),
    ]
    return world(flat, box, placements=placements).dispatcher


def started(dispatcher: Dispatcher, flags: RayFlag = RayFlag.NONE, **interval: float) -> RayQuery:
    query = RayQuery()
    query.trace_ray_inline(dispatcher, flags, 0xFF, (1.0, 1.0, -1.0), (0.0, 0.0, 1.0), **interval)
    return query


@pytest.mark.rule("INL-1", "INL-2", "INL-4", "INL-9", "HG-6", "SV-1", "INST-10")
def test_a_query_step_by_step() -> None:
    query = started(scene(), t_max=100.0)
    assert query.committed_ray_t() == 100.0
    assert query.proceed()
    assert query.candidate_type() is CandidateType.NON_OPAQUE_TRIANGLE
    assert query.candidate_instance_index() == 0
    assert query.candidate_instance_id() == 10
    assert query.candidate_instance_contribution_to_hit_group_index() == 7
    assert (query.candidate_geometry_index(), query.candidate_primitive_index()) == (0, 0)
    assert query.candidate_triangle_ray_t() == 1.0
    assert query.candidate_triangle_barycentrics() == (0.25, 0.25)
    assert query.candidate_triangle_front_face()
    assert query.proceed()  # ignored; the next is the one behind
    assert not query.candidate_triangle_front_face()
    assert query.candidate_object_ray_origin() == (1.0, 1.0, -4.0)
    assert query.candidate_object_ray_direction() == (0.0, 0.0, 1.0)
    np.testing.assert_array_equal(query.candidate_object_to_world_3x4()[:, 3], [0, 0, 3])
    np.testing.assert_array_equal(query.candidate_world_to_object_4x3()[3], [0, 0, -3])
    query.commit_non_opaque_triangle_hit()
    assert query.committed_status() is CommittedStatus.TRIANGLE_HIT
    assert query.committed_ray_t() == 4.0
    assert not query.proceed()
    assert not query.proceed()
    assert (query.committed_instance_index(), query.committed_instance_id()) == (1, 11)
    assert query.committed_triangle_barycentrics() == (0.25, 0.25)
    assert not query.committed_triangle_front_face()
    np.testing.assert_array_equal(query.committed_object_to_world_4x3(), query.committed_object_to_world_3x4().T)


@pytest.mark.rule("INL-1")
def test_a_new_trace_discards_the_old_query() -> None:
    dispatcher = scene()
    query = started(dispatcher)
    assert query.proceed()
    query.commit_non_opaque_triangle_hit()
    query.trace_ray_inline(dispatcher, RayFlag.NONE, 0xFF, (9.0, 9.0, -1.0), (0.0, 0.0, 1.0))
    assert query.committed_status() is CommittedStatus.NOTHING
    assert not query.proceed()


@pytest.mark.rule("INL-5", "INL-6", "INL-7", "OPQ-7", "PROC-6")
@pytest.mark.parametrize("opaque", [False, True])
def test_a_procedural_candidate_is_the_callers(opaque: bool) -> None:
    query = started(scene(opaque=opaque), RayFlag.SKIP_TRIANGLES, t_min=1.0, t_max=50.0)
    assert query.proceed()
    assert query.candidate_type() is CandidateType.PROCEDURAL_PRIMITIVE
    assert query.candidate_procedural_primitive_non_opaque() == (not opaque)
    for bad in (0.5, 51.0, float("nan")):
        with pytest.raises(InvalidInputError, match="INL-6"):
            query.commit_procedural_primitive_hit(bad)
    query.commit_procedural_primitive_hit(50.0)
    query.commit_procedural_primitive_hit(6.5)
    query.commit_procedural_primitive_hit(6.5)
    with pytest.raises(InvalidInputError, match="INL-6"):
        query.commit_procedural_primitive_hit(6.75)
    assert query.committed_ray_t() == 6.5
    assert not query.proceed()
    assert query.committed_status() is CommittedStatus.PROCEDURAL_PRIMITIVE_HIT
    assert query.committed_ray_t() == 6.5
    assert query.committed_instance_id() == 12


@pytest.mark.rule("INL-2", "INL-7")
def test_opaque_triangles_are_committed_inside_proceed() -> None:
    query = started(scene(opaque=True), RayFlag.SKIP_PROCEDURAL_PRIMITIVES)
    assert not query.proceed()
    assert query.committed_instance_index() == 0


@pytest.mark.rule("ACC-5")
def test_the_first_commit_ends_the_search() -> None:
    query = started(scene(), RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH)
    assert query.proceed()
    query.commit_non_opaque_triangle_hit()
    assert not query.proceed()


@pytest.mark.rule("INL-8")
def test_abort_ends_the_search_and_keeps_what_is_committed() -> None:
    query = started(scene())
    assert query.proceed()
    query.commit_non_opaque_triangle_hit()
    query.abort()
    assert not query.proceed()
    assert query.committed_ray_t() == 1.0


@pytest.mark.rule("RF-5", "RF-6", "RF-7", "RAY-2", "RAY-3", "PF-1")
def test_flags_are_template_or_dynamic() -> None:
    dispatcher = scene()
    query = RayQuery(RayFlag.CULL_BACK_FACING_TRIANGLES)
    query.trace_ray_inline(dispatcher, RayFlag.FORCE_OPAQUE, 0xFF, (1, 1, -1), (0, 0, 1))
    assert query.ray_flags() == RayFlag.CULL_BACK_FACING_TRIANGLES | RayFlag.FORCE_OPAQUE
    with pytest.raises(InvalidInputError, match="RF-3"):
        query.trace_ray_inline(dispatcher, RayFlag.SKIP_TRIANGLES, 0xFF, (1, 1, -1), (0, 0, 1))
    with pytest.raises(InvalidInputError, match="RF-5"):
        query.trace_ray_inline(dispatcher, RayFlag.SKIP_CLOSEST_HIT_SHADER, 0xFF, (1, 1, -1), (0, 0, 1))
    with pytest.raises(InvalidInputError, match="RAY-2"):
        query.trace_ray_inline(dispatcher, RayFlag.NONE, 0xFF, (1, 1, -1), (0, 0, 1), 2.0, 1.0)
    with pytest.raises(InvalidInputError, match="RAY-3"):
        query.trace_ray_inline(dispatcher, RayFlag.NONE, 0xFF, (float("nan"), 1, -1), (0, 0, 1))


CANDIDATE = [name for name in dir(RayQuery) if name.startswith("candidate_")]
TRIANGLE_ONLY = [name for name in CANDIDATE if "triangle" in name]
COMMITTED = [
    n for n in dir(RayQuery) if n.startswith("committed_") and n not in ("committed_status", "committed_ray_t")
]
ANY_TIME = ["committed_status", "committed_ray_t", "ray_flags", "ray_t_min", "world_ray_origin", "world_ray_direction"]


@pytest.mark.rule("INL-10")
@pytest.mark.parametrize("name", [*CANDIDATE, *COMMITTED, *ANY_TIME, "proceed", "abort"])
def test_nothing_works_before_the_first_trace(name: str) -> None:
    with pytest.raises(InvalidInputError, match="INL-10"):
        getattr(RayQuery(), name)()


@pytest.mark.rule("INL-10", "INL-9")
def test_methods_in_states_that_do_not_support_them() -> None:
    query = started(scene())
    for name in [*CANDIDATE, *COMMITTED, "commit_non_opaque_triangle_hit"]:
        with pytest.raises(InvalidInputError, match="INL-10"):
            getattr(query, name)()
    for name in ANY_TIME:
        getattr(query, name)()
    assert query.proceed()
    with pytest.raises(InvalidInputError, match="INL-10"):
        query.commit_procedural_primitive_hit(2.0)
    with pytest.raises(InvalidInputError, match="INL-10"):
        query.candidate_procedural_primitive_non_opaque()
    boxed = started(scene(), RayFlag.SKIP_TRIANGLES)
    assert boxed.proceed()
    for name in [*TRIANGLE_ONLY, "commit_non_opaque_triangle_hit"]:
        with pytest.raises(InvalidInputError, match="INL-10"):
            getattr(boxed, name)()
    boxed.commit_procedural_primitive_hit(6.0)
    for name in ("committed_triangle_barycentrics", "committed_triangle_front_face"):
        with pytest.raises(InvalidInputError, match="INL-10"):
            getattr(boxed, name)()
    assert not boxed.proceed()
    with pytest.raises(InvalidInputError, match="INL-10"):
        boxed.candidate_type()


@pytest.mark.rule("PROF-3")
def test_inline_queries_need_tier_1_1() -> None:
    built = world(triangles(CLOCKWISE))
    for tier, legal in ((Tier.TIER_1_0, False), (Tier.TIER_1_1, True), (Tier.TIER_1_2, True)):
        dispatcher = Dispatcher(built.tlas, built.blases, Profile(tier))
        if legal:
            assert started(dispatcher).proceed()
            continue
        with pytest.raises(InvalidInputError, match="inline queries need tier") as raised:
            started(dispatcher)
        assert raised.value.rules == ("PROF-3",)
