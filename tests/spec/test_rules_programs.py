"""Rules about any-hit and intersection programs: what they may report and do, and how often they run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rtviewer.dxr.flags import GeometryFlag, RayFlag
from rtviewer.dxr.limits import MAX_ATTRIBUTE_SIZE_IN_BYTES, MAX_HIT_KIND
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.dxr.shader_table import NULL, TRIANGLES, HitGroupTable
from rtviewer.dxr.verdicts import EventKind, Verdict
from rtviewer.errors import InvalidInputError
from rtviewer.kernels import part_library
from tests.worlds import BACK, FRONT, Placement, boxes, triangles, world

UNIT = (0, 0, 0, 1, 1, 1)
AHEAD = ((0.5, 0.5, -5), (0, 0, 1))
"""Enters UNIT at t = 5 and leaves it at t = 6."""
SKIPS = RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH


# --- what a program may report ------------------------------------------------------------------------------------


@pytest.mark.rule("HK-1", "HK-2", "PROC-5", "LIM-5")
@pytest.mark.parametrize("program", list(IntersectionProgram))
def test_programs_report_kinds_up_to_127_and_triangles_the_two_above(program: IntersectionProgram) -> None:
    """From all sides, with every face flag of ray and instance, as none of them exists for a procedural hit."""
    random = np.random.default_rng(1)
    directions = random.normal(size=(200, 3)).astype(np.float32)
    origins = np.float32(0.5) - 3 * directions
    scene = world([boxes(UNIT)], [triangles([[0, 0, 0], [1, 0, 0], [0, 1, 1]])])
    kinds = []
    for flags in (RayFlag.NONE, RayFlag.CULL_BACK_FACING_TRIANGLES, RayFlag.CULL_FRONT_FACING_TRIANGLES):
        log = scene.walk(origins, directions, intersection=program, report_t=2.75, ray_flags=flags)
        reports = log.events[log.events["kind"] == EventKind.REPORT]["hit_kind"]
        kinds.append(sorted(reports.tolist()))
        assert (reports <= MAX_HIT_KIND).all()
        assert (len(reports) > 0) == (program is not IntersectionProgram.NOTHING)
        hits = log.result.hits
        triangle = hits.hit & (hits.instance_index == 1)
        assert set(hits.hit_kind[triangle].tolist()) <= {FRONT, BACK}
        assert (hits.hit_kind[hits.hit & ~triangle] <= MAX_HIT_KIND).all()
        assert hits.attributes.dtype.itemsize * hits.attributes.shape[1] <= MAX_ATTRIBUTE_SIZE_IN_BYTES
    if program is IntersectionProgram.REPORT_T:  # reports once per box, whatever the faces around it do
        assert kinds[0] == kinds[1] == kinds[2]


@pytest.mark.rule("PROC-2", "PROC-7", "RAY-6")
@pytest.mark.parametrize("opaque", [False, True])
def test_a_report_outside_the_interval_changes_nothing(opaque: bool) -> None:
    """Below TMin, beyond the current end, NaN: refused without any-hit; both ends themselves are inside."""
    scene = world(boxes(UNIT, flags=GeometryFlag.OPAQUE if opaque else GeometryFlag.NONE))
    one, two = np.float32(1), np.float32(8)
    below, beyond = np.nextafter(one, np.float32(0)), np.nextafter(two, np.float32(9))
    values = np.array([below, one, 3, two, beyond, np.nan, -1, np.inf], np.float32)
    origins = np.tile(np.float32(AHEAD[0]), (len(values), 1))
    settings = {"intersection": IntersectionProgram.REPORT_T, "report_t": values, "t_min": 1.0, "t_max": 8.0}
    log = scene.walk(origins, AHEAD[1], **settings)
    hits = log.result.hits
    assert hits.hit.tolist() == [False, True, True, True, False, False, False, False]
    assert hits.t[hits.hit].tolist() == [1, 3, 8]
    assert (hits.t[~hits.hit] == 8).all()
    reports = log.events.copy()
    reports["verdict"][reports["kind"] != EventKind.REPORT] = Verdict.NONE
    calls = [
        int((reports[a:b]["verdict"] == Verdict.ANY_HIT_ACCEPTED).sum())
        for a, b in zip(log.offsets[:-1], log.offsets[1:], strict=True)
    ]
    wanted = [0 if opaque else int(hit) for hit in hits.hit]
    assert calls == wanted
    np.testing.assert_array_equal(hits.t, scene.reference(origins, AHEAD[1], **settings).hits.t)


@pytest.mark.rule("PROC-3", "PROC-4", "AH-5", "AH-6", "RAY-7")
@pytest.mark.parametrize(
    ("any_hit", "flags", "kinds", "committed"),
    [
        (AnyHitProgram.ACCEPT, RayFlag.NONE, [65, 64], 64),
        (AnyHitProgram.IGNORE, RayFlag.NONE, [65, 64], None),
        (AnyHitProgram.ACCEPT, SKIPS, [65], 65),
        (AnyHitProgram.ACCEPT_AND_END_SEARCH, RayFlag.NONE, [65], 65),
        (AnyHitProgram.IGNORE, SKIPS, [65, 64], None),
    ],
)
def test_one_call_may_report_twice_until_the_search_ends(
    any_hit: AnyHitProgram, flags: RayFlag, kinds: list[int], committed: int | None
) -> None:
    """SPHERE_FAR_FIRST reports its far root and then its near one, unless the first report does not return."""
    settings = {"intersection": IntersectionProgram.SPHERE_FAR_FIRST, "any_hit": any_hit, "ray_flags": flags}
    scene = world(boxes(UNIT))
    log = scene.walk(*AHEAD, **settings)
    reports = log.events[log.events["kind"] == EventKind.REPORT]
    assert reports["hit_kind"].tolist() == kinds
    assert reports["t"].tolist() == [6, 5][: len(kinds)]
    ends = [np.inf, np.inf if any_hit is AnyHitProgram.IGNORE else 6]
    assert reports["t_current"].tolist() == ends[: len(kinds)]
    assert log.result.hits.hit_kind.tolist() == [-1 if committed is None else committed]
    assert scene.reference(*AHEAD, **settings).hits.hit_kind.tolist() == log.result.hits.hit_kind.tolist()


@pytest.mark.rule("PROC-6", "OPQ-1", "OPQ-2", "OPQ-4")
@pytest.mark.parametrize("flags", [RayFlag.NONE, RayFlag.FORCE_OPAQUE, RayFlag.FORCE_NON_OPAQUE])
@pytest.mark.parametrize("opaque", [False, True])
def test_each_report_asks_any_hit_unless_it_is_opaque(opaque: bool, flags: RayFlag) -> None:
    runs = flags is not RayFlag.FORCE_OPAQUE and (not opaque or flags is RayFlag.FORCE_NON_OPAQUE)
    scene = world(boxes(UNIT, flags=GeometryFlag.OPAQUE if opaque else GeometryFlag.NONE))
    log = scene.walk(*AHEAD, ray_flags=flags, any_hit=AnyHitProgram.IGNORE, intersection=IntersectionProgram.BOX)
    reports = log.events[log.events["kind"] == EventKind.REPORT]["verdict"].tolist()
    assert reports == ([Verdict.ANY_HIT_IGNORED] * 2 if runs else [Verdict.COMMITTED])


# --- how often programs run ---------------------------------------------------------------------------------------


@pytest.mark.rule("PRES-3", "PROC-8", "PROC-1", "RAY-11")
@pytest.mark.parametrize("program", [p for p in IntersectionProgram if p is not IntersectionProgram.REPORT_T])
def test_running_a_program_again_for_the_same_box_moves_no_hit(program: IntersectionProgram) -> None:
    """Every box given three times stands for programs run three times: t and kind stay. Once given, each box the ray
    meets in its interval is offered exactly once."""
    random = np.random.default_rng(5)
    low = random.uniform(-4, 4, (60, 3))
    rows = np.concatenate([low, low + random.uniform(0, 2, (60, 3))], 1).astype(np.float32)
    directions = random.normal(size=(120, 3)).astype(np.float32)
    origins = random.uniform(-5, 5, (120, 3)).astype(np.float32)
    once, thrice = world(boxes(rows)), world(boxes(np.repeat(rows, 3, 0)))
    settings = {"intersection": program, "ray_flags": RayFlag.FORCE_OPAQUE}
    plain = once.trace_checked(origins, directions, **settings)
    again = thrice.trace_checked(origins, directions, **settings)
    np.testing.assert_array_equal(plain.t, again.t)
    np.testing.assert_array_equal(plain.hit_kind, again.hit_kind)
    np.testing.assert_array_equal(plain.primitive_index[plain.hit], again.primitive_index[plain.hit] // 3)
    assert plain.hit.any() == (program is not IntersectionProgram.NOTHING)
    log = once.walk(origins, directions, **(settings | {"ray_flags": 0, "any_hit": AnyHitProgram.IGNORE}))
    for ray in range(len(origins)):
        events = log.events[log.offsets[ray] : log.offsets[ray + 1]]
        candidates = events[events["kind"] == EventKind.CANDIDATE]
        run = candidates[candidates["verdict"] != Verdict.MISSED]["primitive"]
        assert len(run) == len(set(run.tolist()))
        assert set(run.tolist()) == _boxes_met(rows, origins[ray], directions[ray])


def _boxes_met(rows: np.ndarray, origin: np.ndarray, direction: np.ndarray) -> set[int]:
    """Numbers of the boxes that meet the ray at some t >= 0."""
    first = (rows[:, :3].astype(np.float64) - origin) / direction.astype(np.float64)
    last = (rows[:, 3:].astype(np.float64) - origin) / direction.astype(np.float64)
    entry, leave = np.minimum(first, last).max(1), np.maximum(first, last).min(1)
    return set(np.flatnonzero(np.maximum(entry, 0) <= leave).tolist())


# --- no program traces --------------------------------------------------------------------------------------------


def _calls_of(root: Path) -> dict[str, set[str]]:
    """Function of the kernels to the names it calls."""
    calls: dict[str, set[str]] = {}
    for path in sorted((root / "rtviewer" / "kernels").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                functions = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
                called = {f.id for f in functions if isinstance(f, ast.Name)}
                called |= {f.attr for f in functions if isinstance(f, ast.Attribute)}
                calls.setdefault(node.name, set()).update(called)
    return calls


def _reached(calls: dict[str, set[str]], start: str) -> Iterator[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in calls.get(waiting.pop(), set()) - seen:
            seen.add(name)
            waiting.append(name)
            yield name


@pytest.mark.rule("TRAV-6", "LIM-6")
def test_no_program_can_trace_so_that_rays_nest_one_deep(root: Path) -> None:
    """What runs for a ray, programs included, starts no other ray. A dispatch is depth 1 of the 31 that may be
    declared."""
    calls = _calls_of(root)
    parts = {*part_library.OFFERS.values(), part_library.counting_leaves, part_library.plain_boxes}
    programs_run_in = ("test_leaf", *(part.__name__ for part in parts))
    reached = {name for start in programs_run_in for name in _reached(calls, start)}
    assert {"any_hit", "sphere_roots", "test_box", "test_triangle", "test_met_triangles"} <= reached
    starters = {caller for caller, called in calls.items() if "begin_ray" in called}
    assert starters == {"trace_rays", "start_ray"}
    assert not reached & {*starters, "walk_slots", "trace_stream", "trace_packets"}


@pytest.mark.rule("TRAV-6")
@pytest.mark.parametrize("field", ["any_hit", "intersection"])
def test_only_the_built_in_programs_are_run(field: str) -> None:
    """The list is closed: there is no number whose program could trace."""
    scene = world(boxes(UNIT))
    known = len(AnyHitProgram if field == "any_hit" else IntersectionProgram)
    scene.trace(*AHEAD, **{field: known - 1})
    for number in (known, 0x7FFF, 0xFFFFFFFF):
        with pytest.raises(InvalidInputError):
            scene.trace(*AHEAD, **{field: number})


# --- shader tables ------------------------------------------------------------------------------------------------


@pytest.mark.rule("LIM-7")
def test_strides_of_records_are_multiples_of_32_up_to_4096() -> None:
    for stride in (0, 32, 64, 4064, 4096):
        assert HitGroupTable((TRIANGLES,), stride).stride == stride
    for stride in (-32, 1, 31, 33, 48, 4095, 4097, 4128):
        with pytest.raises(InvalidInputError) as raised:
            HitGroupTable((TRIANGLES,), stride)
        assert raised.value.rules == ("LIM-7",)
        assert raised.value.violations[0].value == str(stride)


@pytest.mark.rule("LIM-7", "HG-1", "HG-3")
@pytest.mark.parametrize(("stride", "hit"), [(0, False), (32, True), (4096, True)])
def test_every_stride_but_0_tells_records_apart(stride: int, hit: bool) -> None:
    """The first record's any-hit ignores what it is asked, the second is NULL and commits."""
    ignoring = HitGroupTable((TRIANGLES, NULL), stride)
    scene = world(triangles([[-1, -1, 0], [1, -1, 0], [0, 1, 0]]), placements=[Placement(contribution=1)])
    hits = scene.trace((0, 0, -1), (0, 0, 1), hit_groups=ignoring, any_hit=AnyHitProgram.IGNORE).hits
    assert hits.hit.tolist() == [hit]
