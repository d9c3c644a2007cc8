"""``rtviewer ray --expect`` on the culling lab: one pixel for each verdict there is, and each way not to be the hit."""

from __future__ import annotations

import json

import pytest

from rtviewer.dxr.verdicts import Verdict
from tests.cli.test_commands import run

LAB = "scenes/culling_lab"
MIDDLE = "480,270"
ASIDE = ("--camera", "aside", "--size", "101x101")

TABLE = [
    # pixel, expected, further options, deciding verdict, what the sentence says
    (MIDDLE, "instance=14", (), "INACTIVE_INSTANCE",
     "instance 14 is not in the structure: it has no bottom-level structure (address 0x0), so it is inactive [INST-2]"),
    (MIDDLE, "instance=13", (), "MASK_EXCLUDED",
     "instance 13 was never entered: mask 0x00 AND ray mask 0xFF is 0 [MASK-1]"),
    (MIDDLE, "instance=20", ("--mask", "0xFD", "--t-min", "8"), "MASK_EXCLUDED", "mask 0x02 AND ray mask 0xFD is 0"),
    ("50,50", "instance=35", ASIDE, "EMPTY_STRUCTURE",
     "holds nothing that can be hit: of its 1 primitives 0 are active [BLD-11]"),
    ("50,50", "instance=36", ASIDE, "SINGULAR_TRANSFORM", "cannot be inverted (determinant 0)"),
    ("50,50", "instance=37", ASIDE, "OBJECT_RAY_NOT_FINITE", "origin (0.0, 0.0, infinity) [RAY-5]"),
    ("50,50", "instance=38,geometry=0,primitive=2", ASIDE, "NONE",
     "is not in the structure: the x of its vertex 2 is NaN, so it is inactive [INA-1]"),
    ("50,50", "instance=38,geometry=0,primitive=3", ASIDE, "NONE", "it is degenerate, its vertices (-0.5, -0.5, 0.0)"),
    ("50,50", "instance=35,geometry=0", ASIDE, "NONE", "none of its 1 primitives is active [INA-6]"),
    (MIDDLE, "instance=15", ("--ray-flags", "SKIP_TRIANGLES"), "TRIANGLES_SKIPPED",
     "the ray has SKIP_TRIANGLES and the instance holds triangles"),
    (MIDDLE, "instance=16", ("--ray-flags", "SKIP_PROCEDURAL_PRIMITIVES"), "PROCEDURALS_SKIPPED",
     "the ray has SKIP_PROCEDURAL_PRIMITIVES and the instance holds procedural"),
    ("440,90", "instance=30", ("--ray-flags", "CULL_OPAQUE"), "CULLED_OPAQUE",
     "all its geometry is opaque by the instance's FORCE_OPAQUE and the ray has CULL_OPAQUE [OPQ-3]"),
    (MIDDLE, "instance=15", ("--ray-flags", "CULL_NON_OPAQUE"), "CULLED_NON_OPAQUE",
     "all its geometry is non-opaque and the ray has CULL_NON_OPAQUE"),
    ("120,450", "instance=28,geometry=0", ("--ray-flags", "CULL_OPAQUE"), "CULLED_OPAQUE",
     "it is opaque by its geometry flags OPAQUE and the ray has CULL_OPAQUE"),
    (MIDDLE, "instance=17,geometry=0,primitive=4", (), "MISSED", "outside edge v2-v0 (-1.4"),
    (MIDDLE, "instance=16,geometry=0,primitive=0", (), "MISSED", "the ray does not meet it inside its interval"),
    (MIDDLE, "instance=21", ("--ray-flags", "CULL_BACK_FACING_TRIANGLES", "--t-min", "8.5"), "BACK_FACE_CULLED",
     "seen from behind at t = 8.692066 and the ray has CULL_BACK_FACING_TRIANGLES"),
    (MIDDLE, "instance=22", ("--ray-flags", "CULL_FRONT_FACING_TRIANGLES", "--t-min", "9"), "FRONT_FACE_CULLED",
     "(the instance has TRIANGLE_FRONT_COUNTERCLOCKWISE) and the ray has CULL_FRONT_FACING_TRIANGLES"),
    (MIDDLE, "instance=15", ("--t-min", "6.7850304"), "AT_OR_BEFORE_T_MIN",
     "t = 6.7850304 is at or before TMin 6.7850304"),
    (MIDDLE, "instance=18", (), "AT_OR_BEYOND_CURRENT_END",
     "is at or beyond the current end 7.9292517, set by the hit of instance 19, geometry 0, primitive 10"),
    (MIDDLE, "instance=15", ("--t-max", "6.7850304"), "AT_OR_BEYOND_CURRENT_END",
     "is at or beyond the current end 6.7850304, the ray's TMax"),
    (MIDDLE, "instance=18", ("--ray-flags", "FORCE_OPAQUE", "--t-min", "7.6"), "TIE_LOST",
     "equals that of the committed hit, which goes first: instance 19, geometry 0, primitive 10 has the larger"),
    ("120,390", "instance=28", (), "NOTHING_REPORTED", "intersection program SPHERE reported no hit"),
    (MIDDLE, "instance=19", (), "ANY_HIT_ACCEPTED", "instance 19 is what the ray hit, geometry 0, primitive 10, at t"),
    (MIDDLE, "instance=15", (), "ANY_HIT_IGNORED", "any-hit IGNORE_ODD_PRIMITIVES ignored it"),
    (MIDDLE, "instance=16", (), "ANY_HIT_IGNORED", "box 1 of geometry 0: t = 6.8679595, any-hit IGNORE_ODD_PRIMITIVES"),
    (MIDDLE, "instance=15", ("--any-hit", "ACCEPT_AND_END_SEARCH"), "ANY_HIT_ENDED_SEARCH",
     "any-hit ACCEPT_AND_END_SEARCH accepted it and ended the search"),
    (MIDDLE, "instance=27", ("--any-hit", "ACCEPT_AND_END_SEARCH"), "ANY_HIT_ENDED_SEARCH",
     "instance 27 was never reached: the search ended before it, at instance "),
    ("440,90", "instance=30", (), "COMMITTED", "is what the ray hit, geometry 0, primitive 0, at t = 9.043202: opaque"),
    ("440,90", "instance=30", ("--ray-flags", "ACCEPT_FIRST_HIT_AND_END_SEARCH"), "FIRST_HIT_ENDED_SEARCH",
     "opaque: committed, and ACCEPT_FIRST_HIT_AND_END_SEARCH ends the search [ACC-1]"),
    ("440,90", "instance=30",
     ("--ray-flags", "ACCEPT_FIRST_HIT_AND_END_SEARCH,FORCE_NON_OPAQUE", "--any-hit", "ACCEPT"),
     "ANY_HIT_ACCEPTED_FIRST_HIT_ENDED_SEARCH", "accepted it, and ACCEPT_FIRST_HIT_AND_END_SEARCH ends the search"),
    (MIDDLE, "instance=0", (), "BOX_MISSED", "was never reached: node"),
    (MIDDLE, "instance=27", (), "BOX_BEYOND_CURRENT_END",
     "was never reached: it is occluded: node"),
    (MIDDLE, "instance=27", ("--t-max", "6"), "BOX_BEYOND_CURRENT_END", "beyond the current end 6.0 (by 2.9"),
]  # fmt: skip

ELSEWHERE = {
    Verdict.NONE,  # nothing decided: not in the structure
    Verdict.HIT_GROUP_FAULT,  # ends the command with the rule, see tests/cli/test_hit_groups.py
    Verdict.SURFACE_PASSED,  # of x-rays only, and of those the ray itself tells
    Verdict.RETURNED_TO_CALLER,  # inline queries only, see tests/unit/trace/test_query.py
}


def answer(capsys, *words: str) -> dict:
    assert run(["ray", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_table_has_every_verdict():
    assert {Verdict[row[3]] for row in TABLE} | ELSEWHERE == set(Verdict)


@pytest.mark.parametrize(("pixel", "expected", "options", "verdict", "text"), TABLE)
def test_what_was_expected_is_explained(capsys, pixel, expected, options, verdict, text):
    told = answer(capsys, LAB, "--pixel", pixel, "--expect", expected, *options)
    assert told["deciding_verdict"] == verdict.lower()
    assert text in told["explanation"]
    assert told["explanation"].endswith(f" [{told['deciding_rule']}]")
    assert "\n" not in told["explanation"]
    for event in told["evidence"]:
        assert event < len(told["events"])
    if told["evidence"] and verdict != "NONE":
        assert told["events"][told["evidence"][0]]["verdict"] == verdict.lower()


def test_the_sentence_and_its_evidence_are_printed_last(capsys):
    assert run(["ray", LAB, "--pixel", MIDDLE, "--expect", "instance=27"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("instance 27 was never reached"))
    assert [line.split(":")[0].split()[0] for line in lines[first + 1 :]] == ["event", "event"]


@pytest.mark.parametrize("text", ["15", "15,0", "15,0,13", "instance=15", "instance=15,geometry=0,primitive=13"])
def test_the_ways_to_name_what_was_expected(capsys, text):
    told = answer(capsys, LAB, "--pixel", MIDDLE, "--expect", text)
    assert told["explanation"].startswith("instance 15")
    assert told["deciding_verdict"] == "any_hit_ignored"


@pytest.mark.parametrize(
    ("text", "why"),
    [("instance=39", "39 instances, none is 39"), ("14,0", "has 0 geometries, none is 0"),
     ("15,0,32", "32 primitives, none is 32"), ("geometry=0", "instance=I"), ("", "instance=I"),
     ("1,2,3,4", "instance=I"), ("instance=", "instance=I"), ("primitive=1,instance=2", "instance=I"),
     ("-1", "instance=I")],
)  # fmt: skip
def test_what_is_not_there_cannot_be_expected(capsys, text, why):
    assert run(["ray", LAB, "--pixel", MIDDLE, f"--expect={text}"]) == 2
    error = capsys.readouterr().err
    assert why in error
    assert len(error.strip().splitlines()) == 1
