"""Stepping through the ray log with mouse and keys, copying it, asking why not; and long logs."""

from __future__ import annotations

import csv
import io
import json
import time

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest

from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.dxr.verdicts import EventKind, Verdict
from rtviewer.gui.gl.ray_drawing import CURRENT_MARK, candidate_points, ray_segments
from rtviewer.scene.camera import Camera
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.document import Document, build_world
from rtviewer.session.playback import Stop
from rtviewer.session.state import LogFilter
from tests.gui.conftest import settle
from tests.gui.gestures import LEFT, click_pixel, drag, image_of
from tests.gui.test_speed import FACTOR, Ticks


@pytest.fixture
def lab(culling_lab, qtbot):
    """The lab with the ray of the middle pixel logged, the row of panes looked through."""
    window = culling_lab
    window.session.pick_pixel(480, 270, 960, 540)
    qtbot.waitUntil(lambda: window.session.log is not None and window.is_settled, timeout=20_000)
    return window


def press(window, name: str) -> None:
    QTest.mouseClick(window.ray_log.transport.buttons[name], LEFT)


def position(window) -> int:
    return window.session.state.log_position


def check_shown(window) -> None:
    """Table, bar, stack, tree and 3D view all show the event that the session stands on."""
    session, pane, log = window.session, window.ray_log, window.session.log
    event = position(window)
    row, state = log.row(event), session.state
    assert pane.model.event_of(pane.table.currentIndex().row()) == event
    assert f"event {event:,} of {len(log):,}" in pane.transport.position.text()
    assert row.text in pane.result.text()
    assert pane.log_stack.isVisible()
    assert len(pane.log_stack.model.entries) == row.stack_size
    assert pane.table.horizontalScrollBar().maximum() == 0
    assert (state.selection.structure, state.selection.box) == (row.structure, row.box)
    tree = window.node_tree
    assert tree.model.tree is session.world.tree(row.structure)
    assert tree.model.box_of(tree.view.currentIndex()) == row.box
    content, theme = window.structure_view.content, window.appearance.theme
    assert len(content.highlight.rows)
    np.testing.assert_array_equal(content.ray.rows, ray_segments(log, event, theme))
    np.testing.assert_array_equal(content.marks.rows, candidate_points(log, event, theme))


def test_buttons_step_to_every_event_and_back(lab):
    window = lab
    assert position(window) == -1
    press(window, "log_first")
    assert position(window) == 0
    count = len(window.session.log)
    for expected in range(1, count):
        press(window, "log_step")
        assert position(window) == expected
        check_shown(window)
    press(window, "log_step")  # there is none: refused, nothing moves
    assert position(window) == count - 1
    assert "no later event" in window.status.currentMessage()
    press(window, "log_back")
    assert position(window) == count - 2
    check_shown(window)
    press(window, "log_last")
    assert position(window) == count - 1
    press(window, "log_whole")
    assert position(window) == -1
    assert "whole log" in window.ray_log.transport.position.text()
    assert not window.ray_log.log_stack.isVisible()
    assert "Hit at t" in window.ray_log.result.text()


@pytest.mark.parametrize(
    ("key", "stop", "name"),
    [(Qt.Key.Key_K, Stop.CANDIDATE, "candidate"), (Qt.Key.Key_I, Stop.INSTANCE, "instance"),
     (Qt.Key.Key_T, Stop.COMMIT, "commit")],
)  # fmt: skip
def test_keys_jump_to_candidates_instances_and_commits(lab, key, stop, name):
    window = lab
    places = window.session.log.playback.stops(stop).tolist()
    assert places
    for place in places:
        QTest.keyClick(window, key)
        assert position(window) == place
        check_shown(window)
    for place in reversed(places[:-1]):
        QTest.keyClick(window, key, Qt.KeyboardModifier.ShiftModifier)
        assert position(window) == place
    assert window.actions_[f"log_next_{name}"].shortcut().toString()


def test_step_keys_and_the_menu(lab):
    window = lab
    for key, expected in ((Qt.Key.Key_Period, 0), (Qt.Key.Key_Period, 1), (Qt.Key.Key_Comma, 0)):
        QTest.keyClick(window, key)
        assert position(window) == expected
    QTest.keyClick(window, Qt.Key.Key_Period, Qt.KeyboardModifier.ControlModifier)
    assert position(window) == len(window.session.log) - 1
    QTest.keyClick(window, Qt.Key.Key_Comma, Qt.KeyboardModifier.ControlModifier)
    assert position(window) == 0
    QTest.keyClick(window, Qt.Key.Key_L, Qt.KeyboardModifier.ControlModifier)
    assert position(window) == -1
    menus = {action.text(): action.menu() for action in window.menuBar().actions()}
    names = {action.objectName() for action in menus["&Ray"].actions()}
    assert {"action_log_play", "action_log_step", "action_log_back", "action_why_not", "action_copy_log"} <= names


def test_the_arrows_jump_to_the_verdict_chosen(lab, qtbot):
    window, bar = lab, lab.ray_log.transport
    verdicts = window.session.log.playback.verdicts()
    for verdict in verdicts:
        place = bar.jump.findData(int(verdict))
        assert f"({verdicts[verdict]:,})" in bar.jump.itemText(place)
        bar.jump.setCurrentIndex(place)
        press(window, "log_whole")
        press(window, "log_next")
        assert window.session.log.row(position(window)).verdict is verdict
        if verdicts[verdict] > 1:
            QTest.keyClick(window, Qt.Key.Key_L)
            second = position(window)
            press(window, "log_previous")
            assert position(window) < second
    bar.jump.setCurrentIndex(bar.jump.findData(int(Verdict.MASK_EXCLUDED)))
    window.session.set_mask(0xFE)
    qtbot.waitUntil(lambda: window.session.log is not None and window.is_settled, timeout=20_000)
    assert bar.stop is Verdict.MASK_EXCLUDED


def test_play_pauses_and_ends_at_the_last_event(lab, qtbot):
    window, pane = lab, lab.ray_log
    bar = pane.transport
    bar.speed.setCurrentIndex(bar.speed.findData(10))
    bar.speed.activated.emit(bar.speed.currentIndex())
    press(window, "log_play")
    assert pane.player.is_playing
    assert bar.buttons["log_play"].isChecked()
    assert position(window) == 0
    qtbot.waitUntil(lambda: position(window) >= 3, timeout=10_000)
    QTest.keyClick(window, Qt.Key.Key_P, Qt.KeyboardModifier.ControlModifier)
    assert not pane.player.is_playing
    assert not bar.buttons["log_play"].isChecked()
    stood = position(window)
    qtbot.wait(250)
    assert position(window) == stood
    bar.speed.setCurrentIndex(bar.speed.findData(1000))
    bar.speed.activated.emit(bar.speed.currentIndex())
    QTest.keyClick(window, Qt.Key.Key_P, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: not pane.player.is_playing, timeout=10_000)
    assert position(window) == len(window.session.log) - 1
    assert not bar.buttons["log_play"].isChecked()
    QTest.keyClick(window, Qt.Key.Key_P, Qt.KeyboardModifier.ControlModifier)  # at the end: from the beginning again
    assert pane.player.is_playing
    window.session.clear_pick()
    assert not pane.player.is_playing


def test_the_speed_of_play_is_the_speed_chosen(lab, qtbot):
    window, pane = lab, lab.ray_log
    pane.transport.speed.setCurrentIndex(pane.transport.speed.findData(30))
    pane.transport.speed.activated.emit(0)
    began = time.monotonic()
    press(window, "log_play")
    qtbot.waitUntil(lambda: position(window) >= 45, timeout=20_000)
    spent = time.monotonic() - began
    assert spent > 1.2  # 45 events at 30 a second take 1.5 s; late ticks are made up for
    pane.player.stop()


def test_stepping_passes_over_what_is_filtered_out(lab):
    window, pane = lab, lab.ray_log
    pane.kinds.setCurrentIndex(pane.kinds.findText("Candidates"))
    QTest.mouseClick(pane.families["missed"], LEFT)
    shown = window.session.log.playback.shown(window.session.state.log_filter)
    assert 0 < len(shown) < len(window.session.log)
    for event in shown:
        QTest.keyClick(window, Qt.Key.Key_Period)
        assert position(window) == event
        check_shown(window)
    window.session.set_log_filter(frozenset((EventKind.NODE_ENTERED, EventKind.NODE_SKIPPED)), LogFilter().families)
    assert pane.kinds.currentText() == "Nodes"
    assert pane.families["missed"].isChecked()
    assert not pane.table.currentIndex().isValid()  # what is stood on is not shown


def test_a_click_on_a_row_goes_there(lab):
    window, table = lab, lab.ray_log.table
    table.scrollToTop()
    place = table.visualRect(lab.ray_log.model.index(3, 1)).center()
    QTest.mouseClick(table.viewport(), LEFT, pos=place)
    assert position(window) == 3
    check_shown(window)


def test_the_ray_is_drawn_as_far_as_the_log_has_come(lab):
    window, content = lab, lab.structure_view.content
    log = window.session.log
    commit = int(log.playback.commits[0])
    pictures = []
    for event in (0, commit - 1, commit):
        window.session.seek_log(event)
        pictures.append(image_of(window))
    assert np.any(pictures[0] != pictures[1], axis=2).any()
    assert np.any(pictures[1] != pictures[2], axis=2).any()
    assert content.marks.rows["size"].max() == CURRENT_MARK
    origin, direction = np.array(log.origin), np.array(log.direction)
    solid = content.ray.rows[0]
    end = solid["to"]
    t = float((end.astype(float) - origin) @ direction / (direction @ direction))
    assert t == pytest.approx(log.playback.ray_end(commit), rel=1e-4)
    assert len(candidate_points(log, 0, window.appearance.theme)) == 0
    whole = candidate_points(log, -1, window.appearance.theme)
    assert len(whole) == len(log.playback.met(-1)) > 3


def test_orbiting_keeps_the_event_one_stands_on(lab, qtbot):
    window = lab
    window.session.seek_log(20)
    drag(window.structure_view.view, QPoint(60, 15))
    settle(window, qtbot)
    assert window.session.state.pick is None
    assert position(window) == 20
    check_shown(window)
    click_pixel(window, 5, 5)
    qtbot.waitUntil(lambda: window.session.log.pixel == (5, 5), timeout=20_000)
    assert position(window) == -1


def test_the_shown_events_are_copied_in_three_formats(lab, qtbot):
    window, pane = lab, lab.ray_log
    window.session.set_log_filter((EventKind.CANDIDATE,))
    shown = window.session.log.playback.shown(window.session.state.log_filter)
    clipboard = QGuiApplication.clipboard()

    def copied(trigger) -> str:
        clipboard.setText("")
        trigger()
        qtbot.waitUntil(lambda: clipboard.text() != "", timeout=10_000)
        return clipboard.text()

    text = copied(lambda: QTest.mouseClick(pane.copy, LEFT, pos=QPoint(8, pane.copy.height() // 2)))
    assert "RayDesc ray;" in text
    assert "Hit at t" in text
    assert all(window.session.log.row(int(event)).text in text for event in shown)
    assert copied(window.actions_["copy_log"].trigger) == text
    of_menu = {action.text(): action for action in pane.copy.menu().actions()}
    rows = list(csv.DictReader(io.StringIO(copied(of_menu["Copy as CSV"].trigger))))
    assert [int(row["step"]) for row in rows] == shown.tolist()
    story = json.loads(copied(of_menu["Copy as JSON"].trigger))
    assert len(story["events"]) == len(shown)
    assert story["result"] == window.session.log.result.to_json()


def test_why_not_is_asked_about_what_is_selected(lab, qtbot):
    window, line = lab, lab.ray_log.expected
    assert "Select an instance" in line.sentence.text()
    QTest.mouseClick(line.ask, LEFT)  # nothing is selected
    assert window.session.state.expected is None
    window.show_panes(["instances"])
    model, table = window.instances.model, window.instances.table
    table.setCurrentIndex(model.index(model.view_row(13), 0))
    window.show_panes(["ray_log"])
    QTest.mouseClick(line.ask, LEFT)
    assert line.sentence.text() == "instance 13 was never entered: mask 0x00 AND ray mask 0xFF is 0 [MASK-1]"
    QTest.mouseClick(line.evidence, LEFT)
    assert window.session.log.row(position(window)).verdict is Verdict.MASK_EXCLUDED
    check_shown(window)
    assert window.session.state.expected.instance == 13
    window.session.set_ray_flags("FORCE_OPAQUE")  # the question stays, the answer follows the ray
    qtbot.waitUntil(lambda: "FORCE_OPAQUE" in str(window.session.log.rays.ray_flags.name), timeout=20_000)
    assert "MASK-1" in line.sentence.text()
    window.session.select(instance=18, geometry=0, primitive=10)  # as a click into the structure view does
    QTest.keyClick(window, Qt.Key.Key_Q)
    assert line.sentence.text().startswith("instance 18, geometry 0, primitive 10")
    QTest.mouseClick(line.forget, LEFT)
    assert window.session.state.expected is None
    assert not line.evidence.isVisible()


def test_why_not_is_offered_by_tree_and_table(lab):
    window = lab
    for view in (window.instances.table, window.node_tree.view):
        assert window.actions_["why_not"] in view.actions()
        assert view.contextMenuPolicy() is Qt.ContextMenuPolicy.ActionsContextMenu
    window.session.select(structure=-1, box=-1, instance=27)
    QTest.keyClick(window, Qt.Key.Key_Q)
    assert "it is occluded" in window.ray_log.expected.sentence.text()


def long_document(count: int) -> Document:
    """So many triangles one behind the other that a ray which nothing stops logs over 100,000 events."""
    rng = np.random.default_rng(5)
    corner = rng.uniform(-1, 1, (count, 1, 3)) * [1e-5, 1e-5, 1]
    shape = np.array([[-1, -1, 0], [1, -1, 0], [0, 1, 0]]) * rng.uniform(0.3, 1, (count, 1, 1)) * 0.001
    vertices = (corner + shape).reshape(-1, 3).astype(np.float32)
    scene = Scene(
        "long", (BlasInputs((TrianglesGeometry(vertices),), "stack"),), (Instance(0),),
        (Camera((0.0, 2.0, 4.0), (0.0, 0.0, 0.0)),), any_hit=AnyHitProgram.IGNORE,
    )  # fmt: skip
    return Document(None, scene, build_world(scene))


def test_a_log_of_100_000_events_stays_fluid(window, qtbot):
    document = long_document(80_000)
    window.session.show_document(document)
    settle(window, qtbot)
    ticks = Ticks()
    window.session.log_ray((1e-6, 1e-6, 4.0), (0.0, 0.0, -1.0))
    qtbot.waitUntil(lambda: window.session.log is not None and window.is_settled, timeout=30_000)
    log, pane = window.session.log, window.ray_log
    assert len(log) >= 100_000
    spent = {}

    def timed(name: str, action) -> None:
        began = time.perf_counter()
        action()
        spent[name] = (time.perf_counter() - began) * 1e3
        qtbot.wait(60)

    timed("first step", lambda: press(window, "log_first"))
    timed("step", lambda: press(window, "log_step"))
    timed("jump to the last", lambda: press(window, "log_last"))
    timed("candidate before", lambda: QTest.keyClick(window, Qt.Key.Key_K, Qt.KeyboardModifier.ShiftModifier))
    timed("filter", lambda: QTest.mouseClick(pane.families["missed"], LEFT))
    timed("kinds", lambda: pane.kinds.setCurrentIndex(1))
    timed("all", lambda: window.session.set_log_filter(EventKind, LogFilter().families))
    timed("scroll", pane.table.scrollToBottom)
    timed("why not", lambda: window.session.expect(0, 0, 77))
    window.session.seek_log(50_000)
    pane.player.set_speed(1000)
    pane.player.play()
    qtbot.wait(1000)
    pane.player.stop()
    played = position(window) - 50_000
    copying = time.perf_counter()
    QGuiApplication.clipboard().setText("")
    pane.copy_log("text")
    qtbot.waitUntil(lambda: QGuiApplication.clipboard().text() != "", timeout=60_000)
    copied = time.perf_counter() - copying
    assert QGuiApplication.clipboard().text().count("\n") > len(log)
    print("; ".join(f"{name} {ms:.0f} ms" for name, ms in spent.items()))
    print(f"{len(log):,} events; played {played} events in 1 s; copied in {copied:.1f} s")
    print(f"tick p99 {ticks.percentile(99):.0f} ms, longest {max(ticks.gaps) * 1e3:.0f} ms")
    assert max(spent.values()) < 100 * FACTOR
    assert ticks.percentile(99) < 60 * FACTOR
    assert played > 100
