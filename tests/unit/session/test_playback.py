"""Stepping through a log, filtering and copying it, without a window."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.dxr.verdicts import EventKind, Verdict
from rtviewer.session.commands import Session
from rtviewer.session.document import Document
from rtviewer.session.log_text import COLUMNS, CSV_FIELDS, EVENT_WORDS, LogFormat, log_as
from rtviewer.session.playback import Stop
from rtviewer.session.raylog import walk_ray
from rtviewer.session.state import LogFilter, RaySettings

ORIGIN, DOWN = (0.25, 0.1, 10.0), (0.0, 0.0, -1.0)
EVERYTHING = LogFilter()


@pytest.fixture
def log(world):
    """Panes 0 to 3 in a row; any-hit ignores pane 1."""
    return walk_ray(world, ORIGIN, DOWN, RaySettings(mask=0x01, any_hit=AnyHitProgram.IGNORE))


@pytest.fixture
def session(scene, world):
    session = Session(live=True)
    session.show_document(Document(None, scene, world))
    assert session.log_ray(ORIGIN, DOWN) is None
    assert session.wait()
    yield session
    session.close()


def kinds_at(log, places):
    return {EventKind(int(kind)) for kind in log.events["kind"][places]}


def test_stops_are_what_they_say(log):
    playback = log.playback
    assert playback.stops(Stop.EVENT).tolist() == list(range(len(log)))
    assert kinds_at(log, playback.stops(Stop.NODE)) == {EventKind.NODE_ENTERED}
    assert kinds_at(log, playback.stops(Stop.INSTANCE)) == {EventKind.INSTANCE_ENTERED, EventKind.INSTANCE_SKIPPED}
    assert kinds_at(log, playback.stops(Stop.CANDIDATE)) == {EventKind.CANDIDATE}
    commits = [row.index for row in log if row.family == "accepted"]
    assert playback.stops(Stop.COMMIT).tolist() == commits
    for verdict, count in playback.verdicts().items():
        places = playback.stops(verdict)
        assert len(places) == count
        assert {log.row(int(place)).verdict for place in places} == {verdict}
    assert Verdict.NONE not in playback.verdicts()
    assert list(playback.verdicts()) == sorted(playback.verdicts())


def test_the_commit_of_a_procedural_is_its_report(world):
    log = walk_ray(world, (3.0, 0.0, 10.0), DOWN, RaySettings())
    commits = log.playback.stops(Stop.COMMIT)
    assert kinds_at(log, commits) == {EventKind.REPORT}
    assert log.playback.ray_end(int(commits[-1])) == log.result.t


def test_next_and_back_walk_through_all_places(log):
    playback = log.playback
    for stop in (Stop.EVENT, Stop.CANDIDATE, Stop.INSTANCE, Stop.COMMIT, Verdict.MISSED):
        there, position = [], -1
        while (position := playback.next(position, stop, within=EVERYTHING)) >= 0:
            there.append(position)
        assert there == playback.stops(stop).tolist()
        back, position = [], -1
        while (position := playback.next(position, stop, backwards=True, within=EVERYTHING)) >= 0:
            back.append(position)
        assert back == there[::-1]


def test_several_steps_at_once_end_at_the_last_there_is(log):
    playback, last = log.playback, len(log) - 1
    assert playback.next(2, count=3, within=EVERYTHING) == 5
    assert playback.next(last - 1, count=50, within=EVERYTHING) == last
    assert playback.next(last, count=1, within=EVERYTHING) == -1
    assert playback.next(4, count=50, backwards=True, within=EVERYTHING) == 0
    assert playback.next(0, backwards=True, within=EVERYTHING) == -1


def test_what_is_filtered_out_is_passed_over(log):
    within = LogFilter(frozenset((EventKind.CANDIDATE,)), frozenset(("excluded", "accepted")))
    shown = log.playback.shown(within)
    assert 0 < len(shown) < len(log)
    assert {log.row(int(e)).family for e in shown} <= {"excluded", "accepted"}
    position, met = -1, []
    while (position := log.playback.next(position, within=within)) >= 0:
        met.append(position)
    assert met == shown.tolist()


def test_the_ray_ends_where_the_log_has_come(log):
    playback = log.playback
    first = int(playback.commits[0])
    assert playback.ray_end(0) == np.inf
    assert playback.ray_end(first - 1) == np.inf
    assert playback.ray_end(first) == log.row(first).t
    ends = [playback.ray_end(position) for position in range(len(log))]
    assert ends == sorted(ends, reverse=True)
    assert ends[-1] == playback.ray_end(-1) == log.result.t
    for row in list(log)[1:]:
        assert row.t_current == ends[row.index - 1]
    missed = walk_ray(log.world, (50.0, 0.0, 10.0), DOWN, RaySettings(t_max=7.5))
    assert missed.playback.ray_end(-1) == missed.playback.ray_end(0) == 7.5


def test_the_stack_is_as_high_as_the_events_say(log):
    for row in log:
        stack = log.playback.stack(row.index)
        assert len(stack) == row.stack_size
        for entry in stack:
            assert 0 <= entry.box < len(log.world.tree(entry.structure))
        of_top = [entry.t for entry in stack if entry.structure < 0]
        assert of_top == sorted(of_top)
    assert log.playback.stack(-1) == ()


def test_what_the_search_left_behind_is_told_from_the_boxes(world):
    rays = RaySettings(mask=0x01, ray_flags=RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH)
    whole, cut = (walk_ray(world, ORIGIN, DOWN, one) for one in (RaySettings(mask=0x01), rays))
    assert len(cut) < len(whole)
    left = cut.playback.stack(-1)
    assert left
    assert not any(entry.is_taken for entry in left)
    known = {(e.structure, e.box): e for p in range(len(whole)) for e in whole.playback.stack(p)}
    for entry in left:
        told = known[entry.structure, entry.box]
        assert entry.t == pytest.approx(told.t, rel=1e-4)
        assert entry.t_exit == pytest.approx(told.t_exit, rel=1e-4)


def test_candidates_are_met_one_by_one(log):
    met = [len(log.playback.met(position)) for position in range(len(log))]
    assert met == sorted(met)
    assert met[0] == 0
    assert met[-1] == len(log.playback.met(-1)) > 1
    assert not set(log.events["verdict"][log.playback.met(-1)]) & {int(Verdict.MISSED)}


def test_an_empty_log_has_nothing_to_stop_at(world):
    log = walk_ray(world, (0.0, 0.0, 5.0), (0.0, float("inf"), 0.0), RaySettings())
    assert len(log) == 0
    assert log.playback.next(-1, within=EVERYTHING) == -1
    assert log.playback.stack(-1) == ()
    assert len(log.playback.met(-1)) == 0
    assert log.playback.ray_end(-1) == np.inf
    assert "misses everything" in log.why_not(0)


def test_a_log_that_is_full_can_be_stepped_through(world):
    log = walk_ray(world, ORIGIN, DOWN, RaySettings(), limit=7)
    assert log.truncated
    for row in log:
        assert len(log.playback.stack(row.index)) == row.stack_size
    assert "the log is full" in log.why_not(3)


# --- the session's verbs ---


def test_stepping_selects_what_the_event_is_about(session):
    log = session.log
    for row in log:
        assert session.step_log() is None
        assert session.state.log_position == row.index
        chosen = session.state.selection
        assert (chosen.structure, chosen.box, chosen.instance) == (row.structure, row.box, row.instance)
        assert (chosen.geometry, chosen.primitive) == (row.geometry, row.primitive)
    refusal = session.step_log()
    assert "no later event" in refusal.text
    assert session.state.log_position == len(log) - 1
    assert session.step_log(Stop.COMMIT, backwards=True) is None
    assert session.state.log_position == log.playback.commits[-1]
    assert "no later singular transform" in session.step_log(Verdict.SINGULAR_TRANSFORM).text


def test_a_position_outside_the_log_is_refused(session):
    assert "no event 999999" in session.seek_log(999_999).text
    assert session.seek_log(-2) is not None
    assert session.seek_log(3) is None
    assert session.seek_log(-1) is None
    assert session.state.log_position == -1


def test_without_a_ray_there_is_nothing_to_step_through(session):
    session.clear_pick()
    for refusal in (session.seek_log(0), session.step_log()):
        assert "no ray is logged" in refusal.text
    assert session.log_as("csv") == ""
    assert session.explanation is None


def test_another_ray_begins_anew_and_the_same_ray_stays(session):
    session.seek_log(4)
    session.set_mask(0x01)
    assert session.wait()
    assert session.state.log_position == -1
    session.seek_log(4)
    session.explain_now()
    assert session.wait()
    assert session.state.log_position == 4


def test_the_filter_is_part_of_the_state(session):
    assert session.set_log_filter(kinds=(EventKind.CANDIDATE,)) is None
    assert session.state.log_filter == LogFilter(frozenset((EventKind.CANDIDATE,)))
    assert session.set_log_filter(families=("missed",)) is None
    assert session.state.log_filter.kinds == {EventKind.CANDIDATE}
    assert "no verdict family pink" in session.set_log_filter(families=("pink",)).text
    assert session.step_log() is None
    assert session.log.row(session.state.log_position).verdict is Verdict.MISSED


def test_three_formats_hold_the_shown_events(session):
    log = session.log
    session.set_log_filter(kinds=(EventKind.CANDIDATE, EventKind.INSTANCE_ENTERED))
    shown = log.playback.shown(session.state.log_filter).tolist()
    assert 0 < len(shown) < len(log)
    text = session.log_as("text")
    table = text.split("\n\n")[1].splitlines()
    assert table[0].split("\t") == [column.title for column in COLUMNS]
    assert [int(line.split("\t")[0]) for line in table[1:]] == shown
    rows = list(csv.reader(io.StringIO(session.log_as(LogFormat.CSV))))
    assert tuple(rows[0]) == CSV_FIELDS
    for line, event in zip(rows[1:], shown, strict=True):
        told, row = dict(zip(CSV_FIELDS, line, strict=True)), log.row(event)
        assert told["step"] == str(event)
        assert told["verdict"] == row.verdict.name.lower()
        assert told["text"] == row.text
        assert told["t"] == "" or np.float32(told["t"]) == log.events["t"][event]  # read back exactly
        assert told["w"] == "" or np.float32(told["w"]) == log.events["w"][event]
    story = json.loads(session.log_as("json"))
    assert [event["text"] for event in story["events"]] == [log.row(event).text for event in shown]
    assert story["counters"] == log.to_json()["counters"]
    assert log_as(log, LogFormat.JSON, range(len(log))) == json.dumps(log.to_json(), indent=1)


def test_what_was_expected_stays_asked_until_it_is_forgotten(session):
    assert "select an instance" in session.expect_selected().text
    session.select(instance=2)
    assert session.expect_selected() is None
    assert session.explanation.sentence.startswith("instance 2 was never reached: it is occluded")
    session.set_ray_flag(RayFlag.SKIP_TRIANGLES, True)
    assert session.wait()
    assert session.explanation.verdict is Verdict.TRIANGLES_SKIPPED
    assert "there are 8 instances" in session.expect(8).text
    assert session.state.expected.instance == 2
    session.expect_nothing()
    assert session.explanation is None
    session.expect(2)
    session.close_document()
    assert session.state.expected is None


def test_every_kind_of_event_has_a_name():
    assert set(EVENT_WORDS) == set(EventKind)
