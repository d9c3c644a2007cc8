"""The scene's hit groups in pictures, logs, saved worlds and the session."""

from dataclasses import replace

import numpy as np
import pytest

from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.dxr.shader_table import ABSENT, AS_GIVEN, NULL, PROCEDURAL, TRIANGLES, HitGroup, HitGroupTable
from rtviewer.dxr.shader_table import HitGroupType as Type
from rtviewer.dxr.verdicts import Verdict
from rtviewer.errors import InvalidInputError
from rtviewer.session.api import open_world
from rtviewer.session.commands import Session
from rtviewer.session.document import Document, build_world
from rtviewer.session.events import JobEnded
from rtviewer.session.primary_rays import trace_settings
from rtviewer.session.selecting import pick_selection
from rtviewer.session.state import RaySettings

# The scene's instances 0 to 3 are panes, of which 1 is non-opaque and geometry 1 of 3 too; 4 is a ball.
ODD = HitGroup(Type.TRIANGLES, AnyHitProgram.IGNORE, name="gone")
OPAQUE = HitGroup(Type.TRIANGLES, ABSENT, closest_hit=False, name="solid")
BOX = HitGroup(Type.PROCEDURAL_PRIMITIVE, AS_GIVEN, IntersectionProgram.BOX, name="box")

RAY = {"origin": (0.25, 0.1, 10.0), "direction": (0.0, 0.0, -1.0)}
BALL_RAY = {"origin": (3.0, 0.9, 10.0), "direction": (0.0, 0.0, -1.0)}


@pytest.fixture
def tabled(scene):
    """The world of ``scene`` with a table and other contributions."""

    def make(records, contributions=(0,) * 8, stride=32):
        instances = tuple(
            replace(instance, contribution=c) for instance, c in zip(scene.instances, contributions, strict=True)
        )
        table = HitGroupTable(tuple(records), stride)
        return build_world(replace(scene, instances=instances, hit_groups=table))

    return make


@pytest.fixture
def usual(tabled):
    """Record 0 for panes, 1 for the non-opaque one, 2 for the ball."""
    return lambda record: tabled([TRIANGLES, record, BOX], (0, 1, 0, 0, 2, 0, 0, 0))


def test_settings_have_the_table_of_the_scene_that_is_given(scene):
    table = HitGroupTable((NULL,))
    assert trace_settings(RaySettings(), replace(scene, hit_groups=table)).hit_groups is table
    assert trace_settings(RaySettings()).hit_groups is None


@pytest.mark.rule("HG-1", "TRAV-4")
def test_pictures_logs_and_saved_worlds_use_the_table(usual, world, tmp_path):
    rays = {"multiplier": 0, "mask": 0x01}
    camera = world.scene.cameras[0]
    plain = world.trace(camera, (64, 36), **rays)
    made = usual(ODD)
    image = made.trace(camera, (64, 36), **rays)
    assert np.any(plain.instance_index == 1)
    assert not np.any(image.instance_index == 1)
    assert (image.instance_index == 4).sum() > (plain.instance_index == 4).sum()  # a box instead of a sphere
    made.save(tmp_path / "w.rtcap")
    made.save(tmp_path / "w")
    for name in ("w.rtcap", "w"):
        again = open_world(tmp_path / name)
        assert again.scene.hit_groups == made.scene.hit_groups
        np.testing.assert_array_equal(again.trace(camera, (64, 36), **rays).instance_index, image.instance_index)
    for pixel in ((32, 18), (45, 18)):
        log = image.explain(pixel)
        assert log.result.instance_index == image.instance_index[pixel[1], pixel[0]]


@pytest.mark.rule("OPQ-5", "HG-1")
def test_a_record_without_any_hit_acts_opaque_and_the_log_says_so(usual):
    log = usual(OPAQUE).explain(**RAY, mask=0x01, multiplier=0)
    assert log.result.instance_index == 1
    assert 'record 1 "solid": no any-hit shader: acts opaque [OPQ-5], no closest-hit shader' in log.result.formula
    rows = [row for row in log if row.is_candidate and row.instance == 1 and row.family == "accepted"]
    assert [(row.rule, row.verdict) for row in rows] == [("OPQ-5", Verdict.COMMITTED)]
    assert "no any-hit shader: acts opaque [OPQ-5]" in rows[0].text
    first = RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH
    log = usual(OPAQUE).explain(**RAY, mask=0x01, multiplier=0, ray_flags=first)
    row = next(row for row in log if row.family == "accepted" and row.is_candidate)
    assert "ends the search" in row.text
    forced = usual(OPAQUE).explain(**RAY, mask=0x01, multiplier=0, ray_flags=RayFlag.FORCE_OPAQUE)
    rows = [row for row in forced if row.is_candidate and row.family == "accepted"]
    assert all(row.rule == "OPQ-6" for row in rows)  # opaque anyway


@pytest.mark.rule("OPQ-5", "HG-3")
def test_a_null_record_is_named_in_log_and_json(usual):
    log = usual(NULL).explain(**RAY, mask=0x01, multiplier=0)
    assert "record 1: NULL, runs nothing [HG-3]; no any-hit shader: acts opaque [OPQ-5]" in log.result.formula
    assert log.to_json()["result"]["hit_group"] == {
        "record": 1, "name": "", "type": "NULL", "any_hit": None, "intersection": None, "closest_hit": False,
    }  # fmt: skip


def test_programs_of_the_record_are_named_not_those_of_the_ray(usual):
    made = usual(HitGroup(Type.TRIANGLES, AnyHitProgram.ACCEPT_AND_END_SEARCH))
    log = made.explain(**RAY, mask=0x01, multiplier=0, any_hit=AnyHitProgram.IGNORE)
    row = next(row for row in log if row.is_candidate and row.instance == 1 and row.family == "accepted")
    assert "any-hit ACCEPT_AND_END_SEARCH accepted it and ended the search" in row.text
    assert "any-hit ACCEPT_AND_END_SEARCH" in log.result.formula
    given = usual(TRIANGLES).explain(**RAY, mask=0x01, multiplier=0, any_hit=AnyHitProgram.ACCEPT)
    assert "record 1: any-hit ACCEPT" in given.result.formula
    ball = made.explain(**BALL_RAY, multiplier=0, any_hit=AnyHitProgram.ACCEPT_AND_END_SEARCH)
    assert 'record 2 "box": any-hit ACCEPT_AND_END_SEARCH, intersection BOX' in ball.result.formula


@pytest.mark.rule("HG-3")
def test_stride_0_is_named(tabled):
    log = tabled([TRIANGLES], (0, 3, 0, 0, 0, 0, 0, 0), stride=0).explain(**RAY, mask=0x01, multiplier=0)
    assert "hit group 3 =" in log.result.formula
    assert "record 0, stride 0 [HG-3]: any-hit ACCEPT" in log.result.formula


def test_without_a_table_nothing_is_said(world):
    result = world.explain(**RAY).result
    assert result.record is None
    assert result.formula.endswith("[HG-1]")
    assert result.to_json()["hit_group"] is None


FAULTS = [((0, 1, 0, 0, 0, 0, 0, 0), "HG-4"), ((0, 0, 0, 0, 0, 0, 0, 0), "TRAV-5")]


@pytest.mark.rule("HG-4", "TRAV-5")
@pytest.mark.parametrize(("contributions", "rule"), FAULTS)
def test_faults_name_pixel_record_and_rule_and_do_not_stop_picking(tabled, contributions, rule):
    # The table has one record: pane 1 asks for a second (HG-4), or all panes for one of the other kind (TRAV-5).
    made = tabled([TRIANGLES if rule == "HG-4" else PROCEDURAL], contributions)
    settings = {"mask": 0x01, "multiplier": 0, "t_max": 12.0}
    camera = made.scene.cameras[0]
    with pytest.raises(InvalidInputError, match=rf"\[{rule}\] pixel \d+,\d+: .*HitGroupIndex") as raised:
        made.trace(camera, (64, 36), **settings)
    x, y = (int(n) for n in str(raised.value).split("pixel ")[1].split(":")[0].split(","))
    with pytest.raises(InvalidInputError, match=rule):
        made.explain((x, y), camera=camera, size=(64, 36), **settings)
    picked = pick_selection(made, -1, camera, 64, 36, 32, 18, RaySettings())
    assert picked.instance == 0


@pytest.mark.rule("HG-4")
def test_a_fault_ends_the_sessions_job_with_its_sentence_and_the_session_goes_on(tabled):
    made = tabled([TRIANGLES], (0, 1, 0, 0, 0, 0, 0, 0))
    session = Session(live=True, threads=2)
    try:
        ended = []
        session.listen(lambda event: ended.append(event) if isinstance(event, JobEnded) else None)
        session.set_image_size(64, 36)
        session.show_document(Document(None, made.scene, made))
        assert session.wait()
        errors = [event.error for event in ended if event.error is not None]
        assert errors
        assert isinstance(errors[0], InvalidInputError)
        assert {rule for error in errors for rule in error.rules} <= {"HG-4", "TRAV-5"}
        fixed = build_world(replace(made.scene, hit_groups=None))
        ended.clear()
        session.show_document(Document(None, fixed.scene, fixed))
        assert session.wait()
        assert session.image is not None
        assert session.image.is_complete
    finally:
        session.close()
