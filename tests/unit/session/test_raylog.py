import json

import numpy as np
import pytest

from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.dxr.verdicts import VERDICTS, Counter, EventKind, Verdict
from rtviewer.errors import InvalidInputError
from rtviewer.session import explain
from rtviewer.session.playback import ACCEPTED
from rtviewer.session.raylog import walk_pixel, walk_ray
from rtviewer.session.state import RaySettings

DOWN = (0.0, 0.0, -1.0)
CENTRE = (0.25, 0.1, 10.0)


def log_of(world, origin=CENTRE, direction=DOWN, **settings):
    return walk_ray(world, origin, direction, RaySettings(**settings))


def candidates(log):
    return [row for row in log if row.is_candidate]


def accepted(log):
    return [row for row in candidates(log) if row.family == "accepted"]


def skipped(log):
    return {row.instance: row for row in log if row.kind is EventKind.INSTANCE_SKIPPED}


def test_every_candidate_has_a_verdict_a_rule_and_a_sentence(world):
    flags = [RayFlag.NONE, RayFlag.CULL_BACK_FACING_TRIANGLES, RayFlag.CULL_FRONT_FACING_TRIANGLES,
             RayFlag.CULL_NON_OPAQUE, RayFlag.SKIP_TRIANGLES, RayFlag.FORCE_NON_OPAQUE]  # fmt: skip
    for word in flags:
        for any_hit in (AnyHitProgram.ACCEPT, AnyHitProgram.IGNORE):
            log = log_of(world, ray_flags=word, any_hit=any_hit)
            for row in candidates(log):
                assert row.verdict is not Verdict.NONE
                assert row.rule
                assert str(row.primitive) in row.text
            assert [row.index for row in log] == list(range(len(log)))


def test_the_committed_candidate_is_the_result(world):
    log = log_of(world)
    last = accepted(log)[-1]
    result = log.result
    assert (last.instance, last.geometry, last.primitive, last.t) == (
        result.instance_index, result.geometry_index, result.primitive_index, result.t,
    )  # fmt: skip
    assert result.instance_id == 70
    assert log.counters[Counter.COMMITS] == len(accepted(log))
    assert log.counters[Counter.TRIANGLE_TESTS] == len(candidates(log))


@pytest.mark.rule("MASK-1")
def test_a_masked_instance_says_both_masks(world):
    row = skipped(log_of(world, mask=0x01))[0]
    assert row.verdict is Verdict.MASK_EXCLUDED
    assert row.rule == "MASK-1"
    assert "mask 0x02 AND ray mask 0x01 is 0" in row.text
    assert row.family == "excluded"


@pytest.mark.rule("CULL-3")
def test_a_culled_face_says_which_side_and_flag(world):
    rows = candidates(log_of(world, ray_flags=RayFlag.CULL_BACK_FACING_TRIANGLES, t_min=11.5))
    culled = [row for row in rows if row.verdict is Verdict.BACK_FACE_CULLED]
    assert [row.instance for row in culled] == [2]
    assert "from behind at t = 12.0" in culled[0].text
    assert "CULL_BACK_FACING_TRIANGLES" in culled[0].text


@pytest.mark.rule("OPQ-3", "OPQ-2")
def test_an_opacity_cull_says_who_made_it_so(world):
    row = skipped(log_of(world, mask=0x01, ray_flags=RayFlag.CULL_NON_OPAQUE))[1]
    assert row.verdict is Verdict.CULLED_NON_OPAQUE
    assert "FORCE_NON_OPAQUE" in row.text
    assert "CULL_NON_OPAQUE" in row.text
    log = log_of(world, ray_flags=RayFlag.CULL_NON_OPAQUE, t_min=12.5)
    inside = [row for row in candidates(log) if row.verdict is Verdict.CULLED_NON_OPAQUE]
    assert {(row.instance, row.geometry) for row in inside} == {(3, 1)}
    assert "geometry flags NONE" in inside[0].text


@pytest.mark.rule("RAY-6")
def test_interval_verdicts_name_their_numbers(world):
    rows = candidates(log_of(world, t_min=10.0))
    early = [row for row in rows if row.verdict is Verdict.AT_OR_BEFORE_T_MIN]
    assert early[0].instance == 0
    assert "t = 10.0 is at or before TMin 10.0" in early[0].text
    rows = candidates(log_of(world, t_max=10.0))
    late = [row for row in rows if row.verdict is Verdict.AT_OR_BEYOND_CURRENT_END]
    assert "t = 10.0 is at or beyond the current end 10.0" in late[0].text


def test_a_miss_names_the_edge_outside_of_which_the_ray_passes(world):
    rows = [row for row in candidates(log_of(world, mask=0x02)) if row.verdict is Verdict.MISSED]
    # Triangle 1 is (-1,-1) (1,1) (-1,1); the ray at (0.25, 0.1) is below its diagonal, the edge v0-v1.
    assert [(row.primitive, "outside edge v0-v1" in row.text) for row in rows if row.instance == 0] == [(1, True)]


@pytest.mark.rule("INST-5", "CULL-1")
def test_instances_that_are_not_entered_say_why(world):
    log = log_of(world, origin=(6.0, 0.0, 10.0))
    assert skipped(log)[6].verdict is Verdict.SINGULAR_TRANSFORM
    assert "cannot be inverted" in skipped(log)[6].text
    log = log_of(world, ray_flags=RayFlag.SKIP_TRIANGLES)
    assert "SKIP_TRIANGLES" in skipped(log)[0].text
    log = log_of(world, origin=(3.0, 0.0, 10.0), ray_flags=RayFlag.SKIP_PROCEDURAL_PRIMITIVES)
    assert "SKIP_PROCEDURAL_PRIMITIVES" in skipped(log)[4].text


def test_any_hit_verdicts_name_the_program(world):
    rows = [row for row in candidates(log_of(world, mask=0x01)) if row.instance == 1]
    assert "any-hit ACCEPT accepted" in next(row for row in rows if row.family == "accepted").text
    log = log_of(world, mask=0x01, any_hit=AnyHitProgram.IGNORE)
    ignored = [row for row in candidates(log) if row.verdict is Verdict.ANY_HIT_IGNORED]
    assert {row.instance for row in ignored} == {1}
    assert log.result.instance_index == 2
    flags = RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH | RayFlag.FORCE_NON_OPAQUE
    log = log_of(world, mask=0x01, ray_flags=flags)
    assert "any-hit ACCEPT accepted it, and ACCEPT_FIRST_HIT_AND_END_SEARCH ends" in accepted(log)[-1].text
    flags = RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH | RayFlag.FORCE_OPAQUE
    assert "opaque: committed, and ACCEPT_FIRST" in accepted(log_of(world, mask=0x01, ray_flags=flags))[-1].text
    log = log_of(world, mask=0x01, any_hit=AnyHitProgram.ACCEPT_AND_END_SEARCH)
    assert "ACCEPT_AND_END_SEARCH accepted it and ended the search" in accepted(log)[-1].text


def test_procedurals_tell_their_program_and_reports(world):
    log = log_of(world, origin=(3.0, 0.0, 10.0))
    report = [row for row in log if row.kind is EventKind.REPORT]
    assert report
    assert report[-1].t == log.result.t == 9.0
    assert all("box 0 of geometry 0" in row.text for row in candidates(log))
    log = log_of(world, origin=(3.0, 0.0, 10.0), intersection=IntersectionProgram.NOTHING)
    assert Verdict.NOTHING_REPORTED in {row.verdict for row in log}
    assert not log.result.hit


@pytest.mark.rule("HG-1", "HG-2")
def test_the_record_is_explained_with_its_numbers(world):
    log = log_of(world, t_min=12.5, ray_contribution=2, multiplier=3, ray_flags=RayFlag.CULL_OPAQUE)
    assert (log.result.instance_index, log.result.geometry_index) == (3, 1)
    assert log.result.hit_group_index == 2 + 3 * 1 + 5
    text = "hit group 10 = 2 (RayContribution) + 3 (Multiplier) * 1 (GeometryIndex) + 5 (InstanceContribution) [HG-1]"
    assert log.result.formula == text
    missed = log_of(world, origin=(50.0, 0.0, 10.0), miss_index=3)
    assert not missed.result.hit
    assert missed.result.formula.startswith("miss record 3")


def test_boxes_and_depths_are_those_of_the_tree(world):
    for row in log_of(world):
        tree = world.tree(row.structure)
        assert 0 <= row.box < len(tree)
        assert row.depth == tree.depth[row.box]
        if row.is_candidate:
            assert [row.geometry, row.primitive] in tree.leaf_items(row.box).tolist()
        if row.kind in (EventKind.INSTANCE_ENTERED, EventKind.INSTANCE_SKIPPED):
            assert [row.instance, -1] in tree.leaf_items(row.box).tolist()


def test_why_not_answers_in_one_sentence(world):
    log = log_of(world, mask=0x01)
    assert log.why_not(1).startswith("instance 1 is what the ray hit")
    assert log.why_not(0) == "instance 0 was never entered: mask 0x02 AND ray mask 0x01 is 0 [MASK-1]"
    assert "does not meet its box" in log.why_not(4)
    assert "no bottom-level structure" in log.why_not(5)
    assert "beyond the current end" in log.why_not(2) or "before" in log.why_not(2)
    log = log_of(world, ray_flags=RayFlag.CULL_BACK_FACING_TRIANGLES, t_min=11.5)
    assert "CULL_BACK_FACING_TRIANGLES" in log.why_not(2, 0, 1)
    assert "CULL-3" in log.why_not(2, 0, 1)
    assert "outside edge" in log.why_not(2, 0, 0)
    log = log_of(world, origin=(0.5, 0.25, -10.0), direction=(0, 0, 1))
    assert log.result.instance_index == 3
    assert "the ray hit" in log.why_not(3, log.result.geometry_index, log.result.primitive_index)


def test_json_has_the_documented_shape_and_no_infinity(world, scene):
    log = walk_pixel(world, scene.cameras[0], (64, 36), (32, 18), RaySettings())
    answer = json.loads(json.dumps(log.to_json(), allow_nan=False))
    assert set(answer) == {"ray", "events", "truncated", "result", "counters"}
    keys = {"kind", "level", "depth", "instance", "node", "geometry", "primitive", "t", "t_current", "verdict", "rule"}
    for event in answer["events"]:
        assert keys <= set(event)
    assert answer["ray"]["t_max"] is None
    assert answer["ray"]["pixel"] == [32, 18]
    assert answer["result"]["hit"] is True
    assert set(answer["counters"]) == {counter.name.lower() for counter in Counter}


def test_a_log_that_is_full_says_so(world):
    whole = log_of(world)
    cut = walk_ray(world, CENTRE, DOWN, RaySettings(), limit=3)
    assert (len(cut), cut.truncated, whole.truncated) == (3, True, False)
    assert np.array_equal(cut.events, whole.events[:3])
    assert cut.result == whole.result


def test_all_verdicts_have_a_family_with_a_colour():
    assert set(VERDICTS) == set(Verdict)
    assert {meaning.family for meaning in VERDICTS.values()} == {
        "entered",
        "excluded",
        "missed",
        "interval",
        "accepted",
    }


def test_every_verdict_that_passed_all_tests_has_a_sentence():
    assert {int(verdict) for verdict in explain.OF_HITS} == {
        *ACCEPTED, int(Verdict.ANY_HIT_IGNORED), int(Verdict.SURFACE_PASSED),
    }  # fmt: skip


@pytest.mark.rule("RAY-3", "RAY-5")
def test_rays_that_cannot_be_meant_are_refused_or_warned_about(world):
    with pytest.raises(InvalidInputError, match="RAY-3"):
        log_of(world, origin=(float("nan"), 0, 0))
    assert log_of(world).warnings == ()
    assert "RAY-5" in log_of(world, direction=(0.0, 0.0, 0.0)).warnings[0]
    assert "misses everything" in log_of(world, direction=(0.0, float("inf"), 0.0)).warnings[0]
