"""Rules about programs that a user writes: what they read, what they may report and return, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtviewer.dxr.flags import GeometryFlag, RayFlag
from rtviewer.dxr.programs import FIRST_USER_PROGRAM, AnyHitProgram, IntersectionProgram, ProgramTable
from rtviewer.dxr.shader_table import HitGroup, HitGroupTable, HitGroupType
from rtviewer.dxr.verdicts import EventKind, Verdict
from rtviewer.errors import InvalidInputError, ProgramError
from rtviewer.session.user_programs import load_programs
from tests.worlds import FRONT, Placement, boxes, translate, triangles, world

UNIT = (0, 0, 0, 1, 1, 1)
AHEAD = ((0.5, 0.5, -5), (0, 0, 1))
"""Enters UNIT at t = 5 and leaves it at t = 6."""
NEAR = [[0, 0, 0], [0, 2, 0], [2, 0, 0]]
FAR = [[0, 0, 1], [0, 2, 1], [2, 0, 1]]

GOOD = '''
import rtviewer as rt

MAX_ATTRIBUTE_SIZE_IN_BYTES = 32

@rt.any_hit_program
def nearest_ignored(candidate):
    """Ignores what lies before t = 5.5."""
    return rt.HitAction.IGNORE if candidate.ray_t_current < 5.5 else rt.HitAction.ACCEPT

@rt.any_hit_program
def end(candidate):
    return 2

@rt.any_hit_program
def reads_everything(candidate):
    ok = candidate.instance_index == 1 and candidate.instance_id == 77 and candidate.geometry_index == 1
    ok = ok and candidate.primitive_index == 2 and candidate.hit_kind == 254 and candidate.ray_flags == 0x10
    ok = ok and candidate.ray_t_min == 0.25 and candidate.ray_t_current == 5.0
    ok = ok and candidate.attributes[0] == 0.25 and candidate.attributes[1] == 0.25 and candidate.attributes[2] == 0
    ok = ok and candidate.world_ray_origin[2] == -2 and candidate.object_ray_origin[2] == -5
    ok = ok and candidate.world_ray_direction[2] == 1 and candidate.object_ray_direction[2] == 1
    ok = ok and candidate.object_to_world[2, 3] == 3 and candidate.aabb[5] == 0
    return 1 if ok else 0

@rt.any_hit_program
def reads_reports(candidate):
    ok = candidate.attributes[7] == 8 and candidate.hit_kind == 9 and candidate.ray_t_current == 5.25
    return 1 if ok and candidate.aabb[3] == 1 else 0

@rt.intersection_program
def eight(candidate):
    if candidate.hit_kind == -1 and candidate.aabb[5] == 1:
        rt.report_hit(candidate, 5.25, 9, (1, 2, 3, 4, 5, 6, 7, 8))

@rt.intersection_program
def three(candidate):
    """Far to near, all of them."""
    for step in range(3):
        rt.report_hit(candidate, 5.75 - 0.25 * step, 3 - step)

@rt.intersection_program
def until_accepted(candidate):
    if not rt.report_hit(candidate, 5.25, 1):
        rt.report_hit(candidate, 5.75, 2)

@rt.intersection_program
def shows_the_end(candidate):
    rt.report_hit(candidate, 5.75, 1)
    if candidate.ray_t_current == 5.75 and candidate.hit_kind == -1:
        rt.report_hit(candidate, 5.5, 2)

@rt.intersection_program
def nan(candidate):
    rt.report_hit(candidate, float("nan"), 1)

@rt.intersection_program
def outside(candidate):
    rt.report_hit(candidate, -1.0, 1)
    rt.report_hit(candidate, 1e30, 2)
'''


def programs_of(tmp_path: Path, text: str) -> ProgramTable:
    file = tmp_path / "own.py"
    file.write_text(text)
    return load_programs(file)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> ProgramTable:
    return programs_of(tmp_path_factory.mktemp("programs"), GOOD)


def settings(table: ProgramTable, *, any_hit: str = "", intersection: str = "", **more: Any) -> dict[str, Any]:
    numbers = {program.name: FIRST_USER_PROGRAM + i for i, program in enumerate(table.programs)}
    return {
        "programs": table,
        "any_hit": numbers[any_hit] if any_hit else AnyHitProgram.ACCEPT,
        "intersection": numbers[intersection] if intersection else IntersectionProgram.SPHERE,
        **more,
    }


@pytest.mark.rule("AH-5", "AH-6")
def test_any_hit_programs_ignore_accept_and_end(good: ProgramTable) -> None:
    scene = world(triangles(NEAR, FAR))
    assert scene.trace(*AHEAD, **settings(good)).hits.t.tolist() == [5]
    assert scene.trace(*AHEAD, **settings(good, any_hit="nearest_ignored")).hits.t.tolist() == [6]
    log = scene.walk(*AHEAD, **settings(good, any_hit="end"))
    assert Verdict.ANY_HIT_ENDED_SEARCH in log.events["verdict"]
    assert log.result.hits.hit.tolist() == [True]


@pytest.mark.rule("SV-1", "INST-10", "HK-2")
def test_any_hit_programs_read_the_system_values(good: ProgramTable) -> None:
    placed = [Placement(0), Placement(1, translate(0, 0, 3), instance_id=77)]
    beside = np.array(NEAR) + [9, 0, 0]
    empty, three = triangles(), triangles(beside, beside, NEAR)
    scene = world([empty], [empty, three], placements=placed)
    arguments = settings(good, any_hit="reads_everything", t_min=0.25, ray_flags=RayFlag.CULL_BACK_FACING_TRIANGLES)
    hits = scene.trace((0.5, 0.5, -2), (0, 0, 1), **arguments).hits
    assert hits.hit_kind.tolist() == [FRONT]
    assert not scene.trace((0.5, 0.5, -2.5), (0, 0, 1), **arguments).hits.hit[0]  # another t is refused by the program


@pytest.mark.rule("PROC-2", "PROC-3", "RAY-7", "LIM-5")
@pytest.mark.parametrize(
    ("program", "t", "kind", "verdicts"),
    [
        ("three", 5.25, 1, [Verdict.COMMITTED] * 3),
        ("until_accepted", 5.25, 1, [Verdict.COMMITTED]),
        ("shows_the_end", 5.5, 2, [Verdict.COMMITTED] * 2),
        ("eight", 5.25, 9, [Verdict.COMMITTED]),
        ("nan", None, -1, [Verdict.AT_OR_BEFORE_T_MIN]),
        ("outside", None, -1, [Verdict.AT_OR_BEFORE_T_MIN, Verdict.AT_OR_BEYOND_CURRENT_END]),
    ],
)
def test_intersection_programs_report(
    good: ProgramTable, program: str, t: float | None, kind: int, verdicts: list[Verdict]
) -> None:
    scene = world(boxes(UNIT, flags=GeometryFlag.OPAQUE))
    arguments = settings(good, intersection=program, t_max=1e20)
    log = scene.walk(*AHEAD, **arguments)
    reports = log.events[log.events["kind"] == EventKind.REPORT]
    assert reports["verdict"].tolist() == verdicts
    for result in (log.result, scene.trace(*AHEAD, **arguments), scene.trace(*AHEAD, counters=True, **arguments)):
        assert result.hits.hit_kind.tolist() == [kind]
        assert result.hits.t.tolist() == [np.float32(1e20) if t is None else t]
    if program == "eight":
        assert log.result.hits.attributes.tolist() == [[1, 2]]


@pytest.mark.rule("PROC-2", "AH-1", "LIM-5")
def test_any_hit_sees_the_report_and_the_program_its_answer(good: ProgramTable) -> None:
    scene = world(boxes(UNIT))
    seen = scene.trace(*AHEAD, **settings(good, any_hit="reads_reports", intersection="eight")).hits
    assert seen.hit_kind.tolist() == [9]
    arguments = settings(good, intersection="until_accepted") | {"any_hit": AnyHitProgram.IGNORE}
    reports = scene.walk(*AHEAD, **arguments).events
    assert reports[reports["kind"] == EventKind.REPORT]["hit_kind"].tolist() == [1, 2]


@pytest.mark.rule("PROC-4", "ACC-1", "AH-6")
@pytest.mark.parametrize(("any_hit", "flags"), [("end", 0), ("", RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH)])
def test_reports_after_the_end_of_the_search_are_not_made(good: ProgramTable, any_hit: str, flags: int) -> None:
    scene = world(boxes(UNIT))
    log = scene.walk(*AHEAD, **settings(good, any_hit=any_hit, intersection="three", ray_flags=flags))
    assert (log.events["kind"] == EventKind.REPORT).sum() == 1
    assert log.result.hits.t.tolist() == [5.75]


def test_hit_groups_name_programs(good: ProgramTable) -> None:
    table = HitGroupTable((HitGroup(HitGroupType.TRIANGLES, "nearest_ignored"),))
    scene = world(triangles(NEAR, FAR))
    assert scene.trace(*AHEAD, hit_groups=table, programs=good).hits.t.tolist() == [6]
    with pytest.raises(ProgramError, match="no file of programs is loaded"):
        scene.trace(*AHEAD, hit_groups=table)
    other = HitGroupTable((HitGroup(HitGroupType.TRIANGLES, "three"),))  # an intersection program
    with pytest.raises(ProgramError, match="no any-hit program 'three'"):
        scene.trace(*AHEAD, hit_groups=other, programs=good)


# --- what is refused while tracing --------------------------------------------------------------------------------


def refusal(table: ProgramTable, **names: str) -> InvalidInputError:
    scene = world([triangles(NEAR)], [boxes(UNIT)])
    raised = []
    plain, counted = {"counters": False}, {"counters": True}
    for trace, more in ((scene.trace, plain), (scene.trace, counted), (scene.walk, {})):
        arguments = settings(table, **names) | more
        with pytest.raises(InvalidInputError) as error:
            trace(*AHEAD, **arguments)
        raised.append(error.value)
    assert len({str(error) for error in raised}) == 1
    return raised[0]


@pytest.mark.rule("HK-1", "PROC-5")
@pytest.mark.parametrize("kind", [128, 254, 255, -1, 1 << 20, -(1 << 40)])
def test_hit_kinds_outside_0_to_127_are_an_error(tmp_path: Path, kind: int) -> None:
    text = f"import rtviewer as rt\n@rt.intersection_program\ndef wild(c):\n    rt.report_hit(c, 5.5, {kind})\n"
    table = programs_of(tmp_path, text)
    found = refusal(table, intersection="wild")
    assert found.rules == ("HK-1",)
    assert "'wild'" in str(found)
    assert found.violations[0].value == str(max(kind, -(1 << 38)))
    legal = programs_of(tmp_path, text.replace(str(kind), "127"))
    hits = world(boxes(UNIT)).trace(*AHEAD, **settings(legal, intersection="wild")).hits
    assert hits.hit_kind.tolist() == [127]


@pytest.mark.rule("TRAV-1")
@pytest.mark.parametrize("action", [3, -1, 1 << 62, -(1 << 62)])
def test_an_unknown_action_is_an_error(tmp_path: Path, action: int) -> None:
    text = f"import rtviewer as rt\n@rt.any_hit_program\ndef odd(c):\n    return {action}\n"
    found = refusal(programs_of(tmp_path, text), any_hit="odd")
    assert found.rules == ("TRAV-1",)
    assert "unknown action" in str(found)
    assert "ray 0" in str(found)


@pytest.mark.rule("TRAV-1")
@pytest.mark.parametrize("kind", ["any_hit", "intersection"])
@pytest.mark.parametrize(
    "body",
    ["if c.ray_t_min < 1: raise ValueError('no')", "c.attributes[8 + c.primitive_index]", "assert c.ray_t_min > 1"],
)
def test_an_exception_ends_the_ray_with_an_error(tmp_path: Path, kind: str, body: str) -> None:
    text = f"import rtviewer as rt\n@rt.{kind}_program\ndef bad(c):\n    {body}\n    return 1\n"
    found = refusal(programs_of(tmp_path, text), **{kind: "bad"})
    assert found.rules == ("TRAV-1",)
    assert "raised an exception" in str(found)


@pytest.mark.rule("TRAV-5")
def test_a_number_without_a_program_of_its_kind_is_an_error(good: ProgramTable) -> None:
    scene = world(triangles(NEAR))
    kinds = [program.kind.word for program in good.programs]
    for number in (FIRST_USER_PROGRAM + kinds.index("intersection"), FIRST_USER_PROGRAM + len(kinds), 8):
        with pytest.raises(InvalidInputError, match="TRAV-5"):
            scene.trace(*AHEAD, programs=good, any_hit=number)


# --- what is refused before ---------------------------------------------------------------------------------------

HEAD = "import rtviewer as rt\n\n"


@pytest.mark.rule("TRAV-6")
@pytest.mark.parametrize("kind", ["any_hit", "intersection"])
def test_programs_may_not_trace(tmp_path: Path, kind: str) -> None:
    text = HEAD + f"@rt.{kind}_program\ndef nested(c):\n    rt.trace_ray(c.world_ray_origin, 1.0)\n    return 1\n"
    with pytest.raises(ProgramError, match=r"own\.py:5: nested: \[TRAV-6\] TraceRay may not be called"):
        programs_of(tmp_path, text)


@pytest.mark.rule("LIM-5")
@pytest.mark.parametrize(
    ("declared", "given", "legal"),
    [(None, 2, True), (None, 3, False), (12, 3, True), (32, 8, True), (32, 9, False), (0, 1, False)],
)
def test_attributes_have_the_size_that_is_declared(
    tmp_path: Path, declared: int | None, given: int, legal: bool
) -> None:
    values = ", ".join("1.0" for _ in range(given)) + ","
    head = HEAD if declared is None else HEAD + f"MAX_ATTRIBUTE_SIZE_IN_BYTES = {declared}\n"
    text = head + f"@rt.intersection_program\ndef f(c):\n    rt.report_hit(c, 5.5, 1, ({values}))\n"
    if legal:
        assert programs_of(tmp_path, text).max_attribute_size == (declared or 8)
    else:
        with pytest.raises(ProgramError, match=r"own\.py:\d: f: \[LIM-5\]"):
            programs_of(tmp_path, text)


ACCEPT = "@rt.any_hit_program\ndef f(c):\n    return 1\n"


@pytest.mark.rule("LIM-5", "LIM-6")
@pytest.mark.parametrize("value", [-1, 33, "'x'", 1.5, True])
def test_declarations_are_judged(tmp_path: Path, value: object) -> None:
    for name, rule in (("MAX_ATTRIBUTE_SIZE_IN_BYTES", "LIM-5"), ("MAX_TRACE_RECURSION_DEPTH", "LIM-6")):
        with pytest.raises(ProgramError, match=rule):
            programs_of(tmp_path, HEAD + f"{name} = {value}\n" + ACCEPT)


@pytest.mark.rule("LIM-6")
def test_a_declared_depth_of_0_allows_no_ray(tmp_path: Path) -> None:
    scene = world(triangles(NEAR))
    for depth in (1, 31):
        table = programs_of(tmp_path, HEAD + f"MAX_TRACE_RECURSION_DEPTH = {depth}\n" + ACCEPT)
        assert scene.trace(*AHEAD, **settings(table, any_hit="f")).hits.hit[0]
    with pytest.raises(ProgramError, match="LIM-6"):
        programs_of(tmp_path, HEAD + "MAX_TRACE_RECURSION_DEPTH = 32\n" + ACCEPT)
    none = programs_of(tmp_path, HEAD + "MAX_TRACE_RECURSION_DEPTH = 0\n" + ACCEPT)
    with pytest.raises(InvalidInputError, match="LIM-6"):
        scene.trace(*AHEAD, **settings(none, any_hit="f"))
