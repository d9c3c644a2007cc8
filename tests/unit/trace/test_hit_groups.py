"""Hit-group records decide which programs run: compiled tracer and oracle, one rule at a time."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.dxr.descs import AabbsGeometry, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag, InstanceFlag, RayFlag
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.dxr.shader_table import (
    ABSENT,
    AS_GIVEN,
    NULL,
    PROCEDURAL,
    TRIANGLES,
    HitGroup,
    HitGroupTable,
    HitGroupType,
    hit_group_index,
)
from rtviewer.dxr.verdicts import Counter, EventKind, Verdict
from rtviewer.errors import InvalidInputError
from rtviewer.trace.request import Walk
from rtviewer.trace.walk import any_hit_calls
from tests.worlds import Placement, World, assert_same_hits, boxes, translate, triangles, world

UP = ([0.2, 0.2, -5], [0, 0, 1])
NO_ANY_HIT = HitGroup(HitGroupType.TRIANGLES, ABSENT)
NO_SHADERS = HitGroup(HitGroupType.TRIANGLES, ABSENT, closest_hit=False)
PROCEDURAL_NO_ANY_HIT = HitGroup(HitGroupType.PROCEDURAL_PRIMITIVE, ABSENT, AS_GIVEN)


def layers(*depths: float, flags: GeometryFlag = GeometryFlag.NONE) -> TrianglesGeometry:
    """One triangle at each z, front-facing for UP; any-hit may run."""
    return triangles(*([[0, 0, z], [0, 1, z], [1, 0, z]] for z in depths), flags=flags)


def cubes(*depths: float, flags: GeometryFlag = GeometryFlag.NONE) -> AabbsGeometry:
    return boxes(*([-1, -1, z, 1, 1, z + 1] for z in depths), flags=flags)


def table(*records: HitGroup, stride: int = 32) -> HitGroupTable:
    return HitGroupTable(records, stride)


def calls_of(log: Walk) -> list[tuple[int, int, int, int]]:
    return [tuple(row) for row in any_hit_calls(log)[1].tolist()]


def both(scene: World, **settings: object) -> Walk:
    """The walk of UP, after the oracle has given the same hit (every answer here has one)."""
    log = scene.walk(*UP, **settings)
    assert_same_hits(log.result.hits, scene.reference(*UP, **settings).hits)
    return log


@pytest.mark.rule("HG-1", "LIM-4")
def test_the_index_with_all_fields_at_their_maximum() -> None:
    assert hit_group_index(0xFFFFFFFF, 0xFFFFFFFF, 1000, 0xFFFFFF) == 15 + 15 * 1000 + 0xFFFFFF
    scene = world([layers(3), layers(2), layers(1)], placements=[Placement(contribution=0xFFFFFF)])
    hits = scene.trace_checked(*UP, ray_contribution=0xFFFFFFFF, multiplier=0xFFFFFFFF)
    assert (hits.geometry_index[0], hits.hit_group_index[0]) == (2, 15 + 15 * 2 + 0xFFFFFF)


@pytest.mark.rule("HG-1", "HG-5")
@pytest.mark.parametrize(
    ("contribution", "multiplier", "instance", "ignored"),
    [(0, 1, 0, 1), (0x11, 0x10, 0, 1), (1, 0, 0, 1), (0, 2, 1, 0), (0, 0, 1, 1), (2, 1, 1, 0), (0, 0, 0, 0)],
)
def test_each_part_of_the_index_chooses_the_record(
    contribution: int, multiplier: int, instance: int, ignored: int
) -> None:
    """Record 1 ignores its hits, all others accept: the nearer of two geometries is seen only where it has another."""
    records = [HitGroup(HitGroupType.TRIANGLES, AnyHitProgram.ACCEPT)] * 6
    records[1] = HitGroup(HitGroupType.TRIANGLES, AnyHitProgram.IGNORE)
    scene = world([layers(2), layers(1)], placements=[Placement(contribution=instance)])
    settings = {"ray_contribution": contribution, "multiplier": multiplier, "hit_groups": table(*records)}
    log = both(scene, **settings)
    index = hit_group_index(contribution, multiplier, 1, instance)
    assert (index == 1) == bool(ignored)
    if ignored:
        assert log.result.hits.geometry_index[0] == (-1 if multiplier & 0xF == 0 else 0)
    else:
        assert (log.result.hits.geometry_index[0], log.result.hits.hit_group_index[0]) == (1, index)


@pytest.mark.rule("HG-3")
def test_stride_0_makes_every_index_the_first_record() -> None:
    ignore, accept = HitGroup(HitGroupType.TRIANGLES, AnyHitProgram.IGNORE), TRIANGLES
    scene = world(layers(1), placements=[Placement(contribution=7)])
    assert not both(scene, hit_groups=table(ignore, accept, stride=0)).result.hits.hit[0]
    hits = both(scene, hit_groups=table(accept, ignore, stride=0)).result.hits
    assert (hits.hit[0], hits.hit_group_index[0]) == (True, 7)


@pytest.mark.rule("HG-4")
@pytest.mark.parametrize("geometry", [layers(1), cubes(1)])
def test_an_index_outside_the_table_is_an_error(geometry: TrianglesGeometry | AabbsGeometry) -> None:
    scene = world(geometry, placements=[Placement(contribution=3)])
    record = TRIANGLES if isinstance(geometry, TrianglesGeometry) else PROCEDURAL
    assert scene.trace(*UP, hit_groups=table(*[record] * 4)).hits.hit[0]
    texts = set()
    for run in (scene.trace, scene.walk, scene.reference):
        with pytest.raises(InvalidInputError, match="outside the table") as caught:
            run(*UP, hit_groups=table(*[record] * 3))
        (problem,) = caught.value.violations
        assert (problem.rule, problem.field, problem.value) == ("HG-4", "HitGroupIndex", "3")
        texts.add(str(caught.value))
    assert len(texts) == 1


@pytest.mark.rule("HG-4")
def test_the_error_names_the_first_ray_at_fault() -> None:
    scene = world(layers(1), layers(1), placements=[Placement(0), Placement(1, translate(5, 0, 0), contribution=9)])
    origins, directions = [[0.2, 0.2, -5], [9, 9, -5], [5.2, 0.2, -5], [5.3, 0.2, -5]], [[0, 0, 1]] * 4
    for run in (scene.trace, scene.reference):
        with pytest.raises(InvalidInputError, match=r"ray 2: .*HitGroupIndex = 9"):
            run(origins, directions, hit_groups=table(TRIANGLES))
    hits = scene.trace(origins[:2], directions[:2], hit_groups=table(TRIANGLES)).hits
    np.testing.assert_array_equal(hits.hit, [True, False])  # a record that nothing meets is not missed


@pytest.mark.rule("HG-4", "TRAV-1", "CULL-4")
def test_what_is_culled_or_outside_the_interval_uses_no_record() -> None:
    scene = world(layers(1))
    empty_handed = {"hit_groups": table(TRIANGLES), "ray_contribution": 5}
    for more in (
        {"ray_flags": RayFlag.CULL_NON_OPAQUE},
        {"ray_flags": RayFlag.CULL_FRONT_FACING_TRIANGLES},
        {"ray_flags": RayFlag.SKIP_TRIANGLES},
        {"mask": 0},
    ):
        assert not both(scene, **empty_handed, **more).result.hits.hit[0]
    assert not scene.reference(*UP, t_max=5, **empty_handed).hits.hit[0]


@pytest.mark.rule("TRAV-5")
def test_a_hit_group_of_the_other_kind_is_an_error() -> None:
    for scene, record in ((world(layers(1)), PROCEDURAL), (world(cubes(1)), TRIANGLES)):
        texts = set()
        for run in (scene.trace, scene.reference):
            with pytest.raises(InvalidInputError, match="other kind") as caught:
                run(*UP, hit_groups=table(record))
            assert caught.value.rules == ("TRAV-5",)
            texts.add(str(caught.value))
        assert len(texts) == 1
        assert both(scene, hit_groups=table(NULL)).result.hits.invalid[0] == np.False_  # the exception: NULL


@pytest.mark.rule("TRAV-4", "HG-3", "OPQ-5")
def test_a_null_record_commits_triangles_and_offers_no_procedural() -> None:
    log = both(world(layers(1, 2)), hit_groups=table(NULL), any_hit=AnyHitProgram.IGNORE)
    assert (log.result.hits.t[0], calls_of(log)) == (6.0, [])
    log = both(world(cubes(1)), hit_groups=table(NULL), intersection=IntersectionProgram.BOX)
    assert not log.result.hits.hit[0]
    candidates = log.events[log.events["kind"] == EventKind.CANDIDATE]
    assert candidates["verdict"].tolist() == [Verdict.NOTHING_REPORTED]
    assert log.result.counters is not None
    assert log.result.counters[0, Counter.PROCEDURAL_REPORTS] == 0


@pytest.mark.rule("OPQ-5", "OPQ-6")
@pytest.mark.parametrize("record", [NO_ANY_HIT, NO_SHADERS, NULL])
def test_without_any_hit_a_triangle_is_opaque(record: HitGroup) -> None:
    """IGNORE would hide it: that it is hit shows that nothing ran."""
    scene = world(layers(1))
    assert not both(scene, any_hit=AnyHitProgram.IGNORE, hit_groups=table(TRIANGLES)).result.hits.hit[0]
    for flags in (RayFlag.NONE, RayFlag.FORCE_NON_OPAQUE):
        log = both(scene, any_hit=AnyHitProgram.IGNORE, ray_flags=flags, hit_groups=table(record))
        assert log.result.hits.hit[0]
        assert calls_of(log) == []
        assert log.events[log.events["kind"] == EventKind.CANDIDATE]["verdict"].tolist() == [Verdict.COMMITTED]


@pytest.mark.rule("OPQ-5", "OPQ-3", "CULL-2")
@pytest.mark.parametrize(("geometry", "record"), [(layers(1), NO_ANY_HIT), (cubes(1), PROCEDURAL_NO_ANY_HIT)])
def test_culling_looks_at_flags_and_not_at_the_hit_group(
    geometry: TrianglesGeometry | AabbsGeometry, record: HitGroup
) -> None:
    groups = {"hit_groups": table(record), "any_hit": AnyHitProgram.IGNORE}
    scene = world(geometry)
    assert both(scene, ray_flags=RayFlag.CULL_OPAQUE, **groups).result.hits.hit[0]
    assert not both(scene, ray_flags=RayFlag.CULL_NON_OPAQUE, **groups).result.hits.hit[0]
    forced = world(geometry, placements=[Placement(flags=InstanceFlag.FORCE_OPAQUE)])
    assert not both(forced, ray_flags=RayFlag.CULL_OPAQUE, **groups).result.hits.hit[0]
    assert both(forced, ray_flags=RayFlag.CULL_NON_OPAQUE, **groups).result.hits.hit[0]


@pytest.mark.rule("DET-5", "OPQ-5")
def test_ties_among_hits_without_any_hit_are_ties_of_opaque_hits() -> None:
    """Non-opaque by flags, opaque for want of a shader: the largest key wins among triangles, wherever it is stored."""
    stack = layers(*[1.0] * 9)
    scene = world(stack, stack, placements=[Placement(0), Placement(1), Placement(0)])
    for record in (NO_ANY_HIT, NULL):
        hits = both(scene, hit_groups=table(record)).result.hits
        assert (hits.instance_index[0], hits.primitive_index[0]) == (2, 8)
    box = cubes(1, 1, 1)
    mixed = world(stack, box, placements=[Placement(0), Placement(1, contribution=1), Placement(1, contribution=1)])
    settings = {"hit_groups": table(NO_ANY_HIT, PROCEDURAL_NO_ANY_HIT), "intersection": IntersectionProgram.BOX}
    hits = both(mixed, **settings).result.hits
    assert (hits.instance_index[0], hits.primitive_index[0], hits.hit_kind[0]) == (1, 0, 18)


@pytest.mark.rule("ACC-1", "ACC-2", "ACC-3", "OPQ-5")
def test_the_first_hit_without_any_hit_ends_the_search_at_once() -> None:
    """Six layers ignore; accept-first goes on past them. Without the shader the very first candidate ends it."""
    first = RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH
    scene = world([layers(*range(1, 7)), layers(9)])
    ignoring = HitGroup(HitGroupType.TRIANGLES, AnyHitProgram.IGNORE)
    log = both(scene, ray_flags=first, multiplier=1, hit_groups=table(ignoring, TRIANGLES))
    calls = calls_of(log)
    assert log.result.hits.geometry_index[0] == 1
    assert len(set(calls)) > 1
    assert [geometry for _, geometry, _, _ in calls] == [0] * (len(calls) - 1) + [1]
    log = scene.walk(*UP, ray_flags=first, multiplier=1, hit_groups=table(NO_ANY_HIT, NO_ANY_HIT))
    assert log.result.hits.hit[0]
    assert log.result.counters is not None
    assert log.result.counters[0, Counter.COMMITS] == 1
    assert calls_of(log) == []


@pytest.mark.rule("AH-1", "AH-5", "ACC-2")
@pytest.mark.parametrize("k", [0, 1, 3, 5])
def test_any_hit_of_the_first_records_ignores_and_the_next_is_committed(k: int) -> None:
    """The first k geometries ignore their hits: the hit is number k, and every nearer one was asked once."""
    scene = world([layers(1 + i) for i in range(6)])
    records = [HitGroup(HitGroupType.TRIANGLES, AnyHitProgram.IGNORE)] * k
    records += [HitGroup(HitGroupType.TRIANGLES, AnyHitProgram.ACCEPT)] * (6 - k)
    log = both(scene, multiplier=1, hit_groups=table(*records))
    hits, calls = log.result.hits, calls_of(log)
    assert (hits.geometry_index[0], hits.hit_group_index[0], hits.t[0]) == (k, k, 6 + k)
    assert {key[1] for key in calls} >= set(range(k + 1))
    assert len(calls) == len(set(calls))


@pytest.mark.rule("AH-6", "PROC-4")
def test_a_record_that_ends_the_search_ends_it_with_its_hit() -> None:
    ends = HitGroup(HitGroupType.TRIANGLES, AnyHitProgram.ACCEPT_AND_END_SEARCH)
    log = world([layers(1), layers(2)]).walk(*UP, multiplier=1, hit_groups=table(ends, ends))
    assert [e for e in log.events["verdict"].tolist() if e == Verdict.ANY_HIT_ENDED_SEARCH] == [
        Verdict.ANY_HIT_ENDED_SEARCH
    ]
    assert len(calls_of(log)) == 1
    box = HitGroup(HitGroupType.PROCEDURAL_PRIMITIVE, AnyHitProgram.ACCEPT_AND_END_SEARCH, AS_GIVEN)
    far_first = {"intersection": IntersectionProgram.SPHERE_FAR_FIRST, "hit_groups": table(box)}
    log = both(world(boxes([-1, -1, 1, 1, 1, 3])), **far_first)
    assert log.result.hits.hit_kind[0] == 65  # the near root is never reported: the first report did not return
    assert (log.events["kind"] == EventKind.REPORT).sum() == 1


@pytest.mark.rule("GF-3", "AH-3", "AH-7", "PROC-8", "AH-2")
@pytest.mark.parametrize("flags", [GeometryFlag.NONE, GeometryFlag.NO_DUPLICATE_ANYHIT_INVOCATION])
def test_any_hit_and_intersection_run_once_each(flags: GeometryFlag) -> None:
    """Long thin triangles across each other, which a builder would split, and boxes inside boxes."""
    random = np.random.default_rng(7)
    ends = random.uniform(-9, 9, (200, 2)).astype(np.float32)
    thin = [[[a, -9, z], [a + 0.02, -9, z], [b, 9, z]] for z, (a, b) in enumerate(ends, start=1)]
    procedural = boxes(*([-s, -s, 10 - s, s, s, 10 + s] for s in range(1, 9)), flags=flags)
    scene = world(triangles(*thin, flags=flags), procedural, placements=[Placement(0), Placement(1, contribution=1)])
    origins = np.stack([np.linspace(-4, 4, 40), np.linspace(-3, 3, 40), np.full(40, -5)], 1)
    rays = (origins, [[0, 0, 1]])
    arguments = {"hit_groups": table(TRIANGLES, PROCEDURAL), "intersection": IntersectionProgram.BOX}
    log = scene.walk(*rays, any_hit=AnyHitProgram.IGNORE, **arguments)
    offsets, rows = any_hit_calls(log)
    expected = scene.reference(*rays, any_hit=AnyHitProgram.IGNORE, **arguments)
    for ray in range(40):
        calls = [tuple(row) for row in rows[offsets[ray] : offsets[ray + 1]].tolist()]
        assert sorted(calls) == sorted(expected.any_hit_log.keys(ray))
        assert len(calls) == len(set(calls))
        events = log.events[log.offsets[ray] : log.offsets[ray + 1]]
        boxes_met = events[(events["kind"] == EventKind.CANDIDATE) & (events["instance"] == 1)]["primitive"]
        assert len(boxes_met) == len(set(boxes_met.tolist()))
    assert len(rows) > 300


@pytest.mark.rule("RAY-7", "AH-1", "PROC-2")
def test_the_values_that_programs_see() -> None:
    """The table of 6.9: RayTCurrent is the closest t so far for intersection, the hit's own t for any-hit, the
    committed t in the end; a miss leaves TMax."""
    scene = world(cubes(1, 3, 5))
    log = both(scene, t_max=100, intersection=IntersectionProgram.BOX, hit_groups=table(PROCEDURAL))
    reports = log.events[log.events["kind"] == EventKind.REPORT]
    end = np.float32(100)
    for event in reports:
        assert event["t_current"] == end
        if event["verdict"] == Verdict.ANY_HIT_ACCEPTED:
            assert event["t"] <= end
            end = event["t"]
    assert (log.result.hits.t[0], end) == (6.0, 6.0)
    missed = scene.trace([9, 9, -5], [0, 0, 1], t_max=100).hits
    assert (missed.hit[0], missed.t[0]) == (False, 100.0)


@pytest.mark.rule("RAY-7", "RAY-8")
def test_the_end_moves_with_every_commit_and_the_beginning_never() -> None:
    """A procedural hit tying with the end takes over, a triangle does not, and what lies before TMin never counts."""
    opaque = cubes(1, flags=GeometryFlag.OPAQUE)
    scene = world([opaque, opaque])
    accept = {"intersection": IntersectionProgram.BOX, "hit_groups": table(PROCEDURAL)}
    hits = both(scene, t_min=2, t_max=6, **accept).result.hits  # entry at exactly TMax
    assert (hits.hit[0], hits.t[0], hits.geometry_index[0]) == (True, 6.0, 0)
    assert both(scene, t_min=6, t_max=6, **accept).result.hits.hit[0]
    # Entry before TMin is refused, so the exit is reported instead.
    assert both(scene, t_min=6.5, t_max=9, **accept).result.hits.t[0] == 7.0
    plane = world(layers(1), layers(1), placements=[Placement(0), Placement(1)])
    for interval in ({"t_min": 6, "t_max": 9}, {"t_min": 0, "t_max": 6}, {"t_min": 6, "t_max": 6}):
        assert not both(plane, hit_groups=table(TRIANGLES), **interval).result.hits.hit[0]
    log = plane.walk(*UP, hit_groups=table(TRIANGLES))
    assert len(calls_of(log)) == 1  # the second lies at the end that the first one set


@pytest.mark.rule("HG-1", "OPQ-5")
def test_a_record_may_name_its_own_programs() -> None:
    """Programs of records stand in for the dispatch's; AS_GIVEN takes those."""
    own = HitGroup(HitGroupType.PROCEDURAL_PRIMITIVE, AnyHitProgram.IGNORE_ODD_PRIMITIVES, IntersectionProgram.BOX)
    given = HitGroup(HitGroupType.PROCEDURAL_PRIMITIVE, AS_GIVEN, AS_GIVEN)
    scene = world(cubes(5, 1))
    dispatch = {"any_hit": AnyHitProgram.ACCEPT, "intersection": IntersectionProgram.SPHERE}
    hits = both(scene, hit_groups=table(own), **dispatch).result.hits
    assert (hits.primitive_index[0], hits.hit_kind[0], hits.t[0]) == (0, 18, 10.0)
    hits = both(scene, hit_groups=table(given), **dispatch).result.hits
    assert (hits.primitive_index[0], hits.hit_kind[0]) == (1, 0)


@pytest.mark.rule("HG-2")
def test_records_and_miss_index_change_no_hit_by_themselves() -> None:
    """With every shader there, a table is no table; the miss index is only echoed."""
    scene = world([layers(2), layers(1)], cubes(0))
    origins = np.stack([np.linspace(-1, 1, 30), np.linspace(-1, 1, 30)[::-1], np.full(30, -5)], 1)
    placed = world([layers(2), layers(1)], cubes(0), placements=[Placement(0), Placement(1, contribution=2)])
    groups = table(TRIANGLES, TRIANGLES, PROCEDURAL)
    with_table = placed.trace(origins, [[0, 0, 1]], multiplier=1, miss_index=0x12345, hit_groups=groups)
    without = scene.trace(origins, [[0, 0, 1]])
    assert with_table.settings.miss_index == 0x12345
    assert with_table.hits.hit.any()
    for field in ("hit", "t", "instance_index", "geometry_index", "primitive_index", "hit_kind"):
        np.testing.assert_array_equal(getattr(with_table.hits, field), getattr(without.hits, field))


@pytest.mark.rule("HG-6")
def test_a_trace_without_a_table_looks_nothing_up_but_contributions_can_be_read() -> None:
    """Inline queries are such traces: any contribution will do, flags decide opacity, and the caller is asked."""
    scene = world(layers(1), placements=[Placement(contribution=0xABCDEF)])
    log = both(scene, ray_contribution=9, multiplier=7)
    assert len(calls_of(log)) == 1
    assert scene.tlas.instance_descs["InstanceContributionAndFlags"][0] & 0xFFFFFF == 0xABCDEF
    with pytest.raises(InvalidInputError, match="HG-4"):
        scene.trace(*UP, hit_groups=table(TRIANGLES))
