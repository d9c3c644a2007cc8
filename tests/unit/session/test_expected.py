"""Why an expected thing was not hit: the cases that no pixel of a shipped scene shows."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag
from rtviewer.dxr.verdicts import Verdict
from rtviewer.errors import RtviewerError
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.document import build_world
from rtviewer.session.expected import MAX_EVIDENCE, NEARNESS, check_expected
from rtviewer.session.left_out import why_left_out
from rtviewer.session.opening import load_document
from rtviewer.session.raylog import walk_ray
from rtviewer.session.state import Expected, RaySettings
from tests.unit.session.conftest import QUAD, QUAD_INDICES, moved

DOWN = (0.0, 0.0, -1.0)


def opaque(vertices, indices=None) -> TrianglesGeometry:
    given = None if indices is None else np.asarray(indices, np.uint32)
    return TrianglesGeometry(np.asarray(vertices, np.float32), given, flags=GeometryFlag.OPAQUE)


def world_of(*blases: BlasInputs, instances: tuple[Instance, ...]):
    return build_world(Scene("expected", blases, instances))


PANE = BlasInputs((opaque(QUAD, QUAD_INDICES),), "pane")
RAMP = BlasInputs((opaque(QUAD + [[0, 0, 3], [0, 0, -3], [0, 0, -3], [0, 0, 3]], QUAD_INDICES),), "ramp")
"""Its box begins far before what the middle of it is hit at."""


@pytest.mark.rule("RAY-7")
def test_a_hit_that_a_nearer_one_replaced():
    """The order of instances is the walk's business: from one side or the other the far one comes first."""
    told = []
    for side, place in ((1, -0.5), (-1, 0.5)):
        for order in ((RAMP, PANE), (PANE, RAMP)):
            placed = tuple(Instance(i, moved(0, 0, place if one is PANE else 0)) for i, one in enumerate(order))
            world = world_of(*order, instances=placed)
            log = walk_ray(world, (0.8 * side, 0.2, 10.0 * side), (0.0, 0.0, -1.0 * side), RaySettings())
            pane, ramp = (0, 1) if order[0] is PANE else (1, 0)
            assert log.result.instance_index == pane
            assert log.why_not(pane).startswith(f"instance {pane} is what the ray hit, geometry 0, primitive ")
            told.append((log, pane, ramp, log.explain_expected(ramp)))
    replaced = [one for one in told if "replaced it" in one[3].sentence]
    assert replaced
    for log, pane, ramp, one in replaced:
        assert "then a nearer hit (by " in one.sentence
        assert f"replaced it: instance {pane}, geometry 0" in one.sentence
        assert (one.verdict, one.rule) == (Verdict.AT_OR_BEYOND_CURRENT_END, "RAY-7")
        assert [log.row(event).instance for event in one.events] == [ramp, pane]


@pytest.mark.rule("DET-5")
def test_a_hit_whose_place_another_took_at_the_same_t():
    world = world_of(PANE, instances=tuple(Instance(0) for _ in range(4)))
    log = walk_ray(world, (0.1, 0.2, 10.0), DOWN, RaySettings())
    told = [log.explain_expected(instance) for instance in range(4)]
    assert log.result.instance_index == 3
    assert {one.verdict for one in told[:3]} == {Verdict.TIE_LOST}
    assert {one.rule for one in told[:3]} == {"DET-5"}
    took = [one.sentence for one in told[:3] if "at the same t took its place" in one.sentence]
    lost = [one.sentence for one in told[:3] if "goes first: instance" in one.sentence]
    assert len(took) + len(lost) == 3


def test_an_instance_whose_primitives_the_ray_never_came_to():
    far = BlasInputs((opaque(np.concatenate([QUAD + [dx, 0, 0] for dx in np.arange(-30, 31, 4)]),
                             np.concatenate([QUAD_INDICES + 4 * i for i in range(16)])),), "apart")  # fmt: skip
    world = world_of(far, instances=(Instance(0),))
    log = walk_ray(world, (0.0, 0.0, 10.0), DOWN, RaySettings())
    told = log.explain_expected(0)
    assert "was entered, but the ray came to none of its primitives: of the boxes not entered" in told.sentence
    assert told.verdict is Verdict.BOX_MISSED
    assert len(told.events) <= MAX_EVIDENCE
    assert "does not meet its box" in log.explain_expected(0, 0, 5).sentence
    one = log.explain_expected(0, 0, 5)
    assert one.sentence.startswith("instance 0, geometry 0, primitive 5 was never tested: node")


def test_a_geometry_is_told_by_its_own_candidates(world):
    log = walk_ray(world, (0.25, 0.1, 10.0), DOWN, RaySettings(t_min=12.5))
    assert log.result.instance_index == 3
    other = 1 - log.result.geometry_index
    assert log.explain_expected(3, log.result.geometry_index).verdict in (Verdict.COMMITTED, Verdict.ANY_HIT_ACCEPTED)
    told = log.explain_expected(3, other)
    assert told.sentence.startswith(f"instance 3, geometry {other}: triangle ")
    assert told.verdict in (Verdict.AT_OR_BEYOND_CURRENT_END, Verdict.TIE_LOST)


@pytest.mark.rule("RAY-6")
def test_how_far_outside_the_interval_it_was(world):
    log = walk_ray(world, (3.0, 0.0, 10.0), DOWN, RaySettings(t_min=9.5, t_max=10.5))
    assert "t = 11.0 is beyond the current end 10.5 (by 0.5), the ray's TMax" in log.why_not(4)
    early = walk_ray(world, (0.25, 0.1, 10.0), DOWN, RaySettings(t_min=10.0, mask=0x02))
    assert "t = 10.0 is at or before TMin 10.0" in early.why_not(0)
    past = walk_ray(world, (3.0, 0.0, 10.0), DOWN, RaySettings(t_min=11.25))
    assert "after TMin 11.25: it has left the box's planes at t = 11.0" in past.why_not(4)


@pytest.mark.rule("INA-1", "INA-2", "DEG-7", "INA-6")
def test_input_that_no_tree_holds():
    nan = float("nan")
    triangles = opaque([[0, 0, 0], [1, 0, 0], [0, 1, 0], [nan, 0, 0]], [[0, 1, 2], [0, 3, 1], [0, 1, 1]])
    boxes = AabbsGeometry(np.array([[nan, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]], np.float32))
    world = world_of(
        BlasInputs((triangles,), "some"), BlasInputs((boxes,), "boxes"), instances=(Instance(0), Instance(1))
    )
    log = walk_ray(world, (0.2, 0.2, 5.0), DOWN, RaySettings())
    assert log.why_not(0, 0, 1).endswith("the x of its vertex 1 is NaN, so it is inactive [INA-1]")
    assert log.why_not(0, 0, 2).endswith("lie on one line [DEG-7]")
    assert log.why_not(1, 0, 0).endswith("its MinX is NaN, so it is inactive [INA-2]")
    assert why_left_out(None, 0, 1) == ("it is inactive or degenerate input, which no tree holds", "INA-6")


def test_a_structure_without_its_inputs_says_what_it_can(tmp_path):
    broken = opaque([[0, 0, 0], [1, 0, 0], [0, 1, 0], [float("nan"), 0, 0]], [[0, 1, 2], [0, 3, 1]])
    world = world_of(BlasInputs((broken,), "some"), instances=(Instance(0),))
    path = tmp_path / "one.rtcap"
    world.save(path)
    log = walk_ray(load_document(path).world, (0.2, 0.2, 5.0), DOWN, RaySettings())
    told = log.explain_expected(0, 0, 1)
    assert "not in the structure" in told.sentence
    assert told.rule in ("INA-1", "INA-6")


@pytest.mark.parametrize(
    ("expected", "why"),
    [(Expected(-1), "8 instances, none is -1"), (Expected(8), "8 instances, none is 8"),
     (Expected(0, 1), "1 geometries, none is 1"), (Expected(0, 0, 2), "2 primitives, none is 2"),
     (Expected(0, -1, 1), "of which geometry")],
)  # fmt: skip
def test_what_is_not_there_is_refused(world, expected, why):
    with pytest.raises(RtviewerError, match=why):
        check_expected(world, expected)
    log = walk_ray(world, (0.2, 0.2, 5.0), DOWN, RaySettings())
    with pytest.raises(RtviewerError, match=why):
        log.why_not(expected.instance, expected.geometry, expected.primitive)


def test_every_verdict_of_a_candidate_has_its_place_in_the_story():
    ends = {Verdict.HIT_GROUP_FAULT, Verdict.RETURNED_TO_CALLER, Verdict.SURFACE_PASSED}
    of_boxes = {Verdict.BOX_MISSED, Verdict.BOX_BEYOND_CURRENT_END}
    of_instances = {
        Verdict.NONE, Verdict.INACTIVE_INSTANCE, Verdict.MASK_EXCLUDED, Verdict.SINGULAR_TRANSFORM,
        Verdict.TRIANGLES_SKIPPED, Verdict.PROCEDURALS_SKIPPED, Verdict.EMPTY_STRUCTURE, Verdict.OBJECT_RAY_NOT_FINITE,
    }  # fmt: skip
    assert set(NEARNESS) | ends | of_boxes | of_instances == set(Verdict)
    assert len(NEARNESS) == len(set(NEARNESS))


def test_of_an_x_ray_the_ray_itself_tells(world):
    through = walk_ray(world, (0.25, 0.1, 10.0), DOWN, RaySettings(mask=0x01), x_ray=True)
    own = walk_ray(world, (0.25, 0.1, 10.0), DOWN, RaySettings(mask=0x01))
    for instance in range(8):
        assert through.why_not(instance) == own.why_not(instance)
        assert through.explain_expected(instance).events == ()
    assert len(through.playback.commits) == 0
    assert [through.playback.ray_end(p) for p in range(len(through))] == [float("inf")] * len(through)
    for row in through:
        assert len(through.playback.stack(row.index)) == row.stack_size
    assert not through.is_same_walk(own)
