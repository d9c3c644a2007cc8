"""Update experiments and the cost of build flags, by the controls of the window."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from rtviewer.dxr.flags import BuildFlag, members
from rtviewer.gui.panes.updates import STEPS, missing_flag
from rtviewer.session.records import UpdateKind
from rtviewer.session.state import RangeKind
from tests.gui.conftest import SCENES, open_and_settle, settle
from tests.gui.gestures import LEFT


@pytest.fixture
def wave(window, qtbot):
    """The wave, built so that it can be updated, with the pane in front."""
    window.session.set_build_flags("blas", BuildFlag.ALLOW_UPDATE)
    open_and_settle(window, qtbot, SCENES / "wave")
    window.show_panes(["updates"])
    return window


def records(window) -> list:
    return [r for r in window.session.document.updates if r.structure == window.updates.structure.currentData()]


def wait_for_steps(window, qtbot, count: int) -> None:
    qtbot.waitUntil(lambda: len(records(window)) == count, timeout=20_000)
    settle(window, qtbot)


def press(slider, key, times: int = 1) -> None:
    slider.setFocus()
    for _ in range(times):
        QTest.keyClick(slider, key)


def test_moving_the_slider_updates_in_place_and_the_chart_grows(wave, qtbot):
    window, pane = wave, wave.updates
    before = window.trace_view.shown.rgba.copy()
    assert pane.outcome.currentWidget() is pane.no_steps
    address = window.session.world.blases[0].address
    press(pane.amount, Qt.Key.Key_PageUp)
    wait_for_steps(window, qtbot, 2)
    assert pane.outcome.currentWidget() is pane.steps
    first, second = records(window)
    assert first.kind is UpdateKind.AS_BUILT
    assert second.kind is UpdateKind.UPDATE_IN_PLACE
    assert second.amount == pytest.approx(10 / STEPS)
    assert second.box_growth > 1.0
    assert window.session.world.blases[0].address == address
    assert np.any(window.trace_view.shown.rgba != before)
    x, y = pane.chart.curves[0].getData()
    assert list(x) == [0, 1]
    assert list(y) == [r.sah for r in records(window)]
    assert list(pane.chart.curves[1].getData()[1]) == [r.box_growth for r in records(window)]
    assert pane.model.rowCount() == 2
    assert pane.turns.text() == "0.10"


def test_steps_faster_than_the_updates_end_where_the_user_stopped(wave, qtbot):
    window, pane = wave, wave.updates
    press(pane.amount, Qt.Key.Key_PageUp, 4)
    assert pane.amount.value() == 40
    qtbot.waitUntil(lambda: bool(records(window)) and records(window)[-1].amount == 0.4, timeout=20_000)
    settle(window, qtbot)
    assert pane.amount.value() == 40
    amounts = [record.amount for record in records(window)]
    assert amounts == sorted(amounts)


def test_a_rebuild_at_the_same_deformation_has_the_lower_cost(wave, qtbot):
    window, pane = wave, wave.updates
    press(pane.amount, Qt.Key.Key_PageUp, 1)
    wait_for_steps(window, qtbot, 2)
    with_boxes = records(window)[-1]
    pane.kind.setCurrentIndex(pane.kind.findText("Rebuild"))
    QTest.mouseClick(pane.step, LEFT)
    wait_for_steps(window, qtbot, 3)
    rebuilt = records(window)[-1]
    assert rebuilt.kind is UpdateKind.REBUILD
    assert rebuilt.amount == with_boxes.amount
    assert rebuilt.box_growth < with_boxes.box_growth
    assert rebuilt.scratch > with_boxes.scratch


def test_an_update_to_new_moves_the_structure(wave, qtbot):
    window, pane = wave, wave.updates
    address = window.session.world.blases[0].address
    pane.kind.setCurrentIndex(pane.kind.findText("Update to new"))
    press(pane.amount, Qt.Key.Key_Right)
    wait_for_steps(window, qtbot, 2)
    assert records(window)[-1].kind is UpdateKind.UPDATE_TO_NEW
    assert window.session.world.blases[0].address != address
    assert records(window)[-1].address == window.session.world.blases[0].address


def test_without_the_flag_the_rule_is_told_and_a_button_builds_anew(window, qtbot):
    open_and_settle(window, qtbot, SCENES / "wave")
    window.show_panes(["updates"])
    pane, world = window.updates, window.session.world
    press(pane.amount, Qt.Key.Key_PageUp)
    assert "UPD-1" in pane.message.text()
    assert pane.message.isVisible()
    assert pane.amount.value() == 0  # nothing moved
    assert window.session.document.updates == ()
    assert "ALLOW_UPDATE" in pane.allow.text()
    QTest.mouseClick(pane.allow, LEFT)
    qtbot.waitUntil(lambda: window.session.world is not world, timeout=20_000)
    settle(window, qtbot)
    assert not pane.message.isVisible()
    press(pane.amount, Qt.Key.Key_PageUp)
    wait_for_steps(window, qtbot, 2)


def test_the_missing_flag_is_found_by_the_rules(wave):
    profile, world = wave.session.state.profile, wave.session.world
    assert missing_flag(world.blases[0], profile) is None
    assert missing_flag(world.tlas, profile) is BuildFlag.ALLOW_UPDATE


def test_selecting_a_structure_shows_its_own_experiment(wave, qtbot):
    window, pane = wave, wave.updates
    press(pane.amount, Qt.Key.Key_PageUp)
    wait_for_steps(window, qtbot, 2)
    window.session.select(structure=1, box=0)
    assert pane.structure.currentText() == "ring"
    assert pane.model.rowCount() == 0
    assert pane.amount.value() == 0
    window.session.select(structure=0, box=0)
    assert pane.model.rowCount() == 2
    assert pane.amount.value() == 10


def test_the_build_pane_says_what_flags_cost_and_brought(window, qtbot):
    open_and_settle(window, qtbot, SCENES / "wave")
    pane, world = window.build, window.session.world
    assert "Rebuild with other flags" in pane.against.text()
    small = next(BuildFlag(f) for f in members(BuildFlag) if BuildFlag(f) is BuildFlag.MINIMIZE_MEMORY)
    box = pane.boxes["blas", small]
    QTest.mouseClick(box, LEFT, pos=QPoint(7, box.height() // 2))
    QTest.mouseClick(pane.rebuild, LEFT)
    qtbot.waitUntil(lambda: window.session.world is not world, timeout=20_000)
    settle(window, qtbot)
    assert pane.against.text() == "Against the build before: BLAS +MINIMIZE_MEMORY"
    old, new = (sum(b.size for b in w.blases) for w in (world, window.session.world))
    assert new < old
    assert pane.changes["blas", 2].text().startswith("\N{MINUS SIGN}")
    assert pane.shares["blas", 2].text() == f"{(new - old) / old * 100:+.0f} %"
    assert pane.changes["blas", 3].text() not in ("–", "")


def test_a_step_of_an_update_is_not_compared_as_a_build(wave, qtbot):
    window, pane = wave, wave.build
    press(window.updates.amount, Qt.Key.Key_PageUp)
    wait_for_steps(window, qtbot, 2)
    assert pane.changes["blas", 2].text() == "–"
    assert pane.costs["blas", 3].text() != "–"


def test_the_percentile_range_is_the_1st_to_the_99th(cornell, qtbot):
    window = cornell
    window.session.set_image_mode("box_tests")
    box = window.trace_view.range_bar.range_box
    box.setCurrentIndex(2)
    box.activated.emit(2)
    image = window.session.state.image
    assert (image.range_kind, image.range_low, image.range_high) == (RangeKind.PERCENTILE, 1.0, 99.0)
