"""The window around the panes: docks, layout, theme, files, jobs, errors."""

from __future__ import annotations

import shutil
import threading

import numpy as np
import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDockWidget, QTabBar

from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.profile import Tier
from rtviewer.errors import CancelledError
from rtviewer.gui.actions import ACTIONS, ShortcutDialog
from rtviewer.gui.app import install_exception_hooks, make_window, open_settings
from rtviewer.gui.docks import BOTTOM, PANES
from rtviewer.gui.screenshot import grab_window
from rtviewer.gui.theme import DARK, LIGHT, ThemeChoice
from rtviewer.session.jobs import Lane
from tests.gui.conftest import SCENES, open_and_settle, settle
from tests.gui.gestures import LEFT, image_of


def test_docks_are_toggled_and_the_layout_is_kept(window, settings, qtbot, tmp_path):
    action = window.docks["properties"].toggleViewAction()
    window.docks["build"].toggleViewAction().trigger()
    assert not window.docks["build"].isVisible()
    assert action.isCheckable()
    window.save_layout()
    second = make_window(open_settings(tmp_path))
    second.show()
    assert not second.docks["build"].isVisible()
    second.reset_layout()
    assert second.docks["build"].isVisible()
    second.close()


def test_a_layout_of_another_version_is_not_restored(window, settings, tmp_path):
    window.docks["build"].hide()
    window.save_layout()
    settings.setValue("layout/version", 999)
    settings.sync()
    second = make_window(open_settings(tmp_path))
    second.show()
    assert second.docks["build"].isVisible()
    second.close()


def test_no_tab_bar_is_left_behind(window, qtbot):
    def bars() -> list[int]:
        qtbot.wait(50)
        return sorted(bar.count() for bar in window.findChildren(QTabBar) if bar.count())

    beside_flags = 1 + sum(spec.beside == "ray_flags" for spec in PANES)
    groups = [beside_flags, sum(spec.area == BOTTOM for spec in PANES)]
    assert bars() == groups
    window.docks["memory"].setFloating(True)
    window.docks["build"].hide()
    window.reset_layout()
    assert bars() == groups
    assert window.docks["build"].isVisible()
    assert not window.docks["memory"].isFloating()


def test_the_window_is_no_wider_than_asked_for(window):
    assert window.minimumSizeHint().width() <= 1280


def test_every_dock_and_tool_bar_has_a_name(window):
    names = [dock.objectName() for dock in window.findChildren(QDockWidget)]
    assert all(names)
    assert len(set(names)) == len(names) == len(window.docks)
    assert window.tool_bar.objectName()


def test_themes_switch_and_are_kept(cornell, settings):
    window = cornell
    colours = []
    for choice, look in ((ThemeChoice.DARK, DARK), (ThemeChoice.LIGHT, LIGHT)):
        window.choose_theme(choice)
        assert window.appearance.theme is look
        assert settings.value("theme") == choice.value
        assert QApplication.palette().window().color().name() == look.window
        colours.append(tuple(image_of(window)[1, 1]))
    assert colours[0] != colours[1]


def test_dropping_a_file_opens_it(window, qtbot):
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(SCENES / "cornell" / "scene.toml"))])
    at = QPointF(200, 200)
    enter = QDragEnterEvent(at.toPoint(), Qt.DropAction.CopyAction, mime, LEFT, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(window, enter)
    assert enter.isAccepted()
    drop = QDropEvent(at, Qt.DropAction.CopyAction, mime, LEFT, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(window, drop)
    qtbot.waitUntil(lambda: window.session.world is not None, timeout=20_000)
    settle(window, qtbot)
    assert window.recent()[0].endswith("scene.toml")
    assert window.recent_menu.actions()


def test_a_broken_file_shows_a_banner_and_keeps_the_scene(cornell, qtbot, tmp_path):
    window, world = cornell, cornell.session.world
    broken = tmp_path / "broken.obj"
    broken.write_text("v 1 2\nf 1 2 3\n")
    window.open_file(broken)
    qtbot.waitUntil(window.banner.isVisible, timeout=20_000)
    assert "broken.obj" in window.banner.text.text()
    assert window.session.world is world
    QTest.mouseClick(window.banner.close_button, LEFT)
    assert not window.banner.isVisible()


def test_opening_another_scene_replaces_the_first(cornell, qtbot, tmp_path):
    window = cornell
    copy = shutil.copytree(SCENES / "culling_lab", tmp_path / "a scene #1 日本")
    open_and_settle(window, qtbot, copy)
    qtbot.waitUntil(lambda: "ulling" in window.windowTitle(), timeout=20_000)
    settle(window, qtbot)
    assert window.instances.model.rowCount() == len(window.session.world.tlas.instance_descs)


def test_closing_the_scene_empties_the_panes(cornell):
    window = cornell
    window.actions_["close"].trigger()
    assert window.session.world is None
    for pane in (window.structures, window.node_tree, window.properties, window.instances):
        assert pane.stack.currentIndex() == 0
    assert window.structure_view.view.empty.isVisible()
    image_of(window)


def test_rebuilding_keeps_the_views(cornell, qtbot):
    window, world = cornell, cornell.session.world
    QTest.mouseClick(window.build.rebuild, LEFT)
    qtbot.waitUntil(lambda: window.session.world is not world, timeout=20_000)
    settle(window, qtbot)
    assert window.structure_view.content.prepared.world is window.session.world
    assert window.build.changes["blas", 2].text() == "same"  # the same flags give the same bytes
    assert window.build.changes["tlas", 1].text() != "–"


def test_a_build_flag_reaches_the_structure_and_its_cost_is_shown(culling_lab, qtbot):
    window = culling_lab
    legal = [flag for (level, flag), box in window.build.boxes.items() if level == "blas" and box.isEnabled()]
    if not legal:
        pytest.skip("no build flag is implemented yet")
    box = window.build.boxes["blas", legal[0]]
    QTest.mouseClick(box, LEFT, pos=QPoint(7, box.height() // 2))
    assert window.session.state.build.blas_flags == legal[0]
    assert "changed" in window.build.pending.text()
    world = window.session.world
    QTest.mouseClick(window.build.rebuild, LEFT)
    qtbot.waitUntil(lambda: window.session.world is not world, timeout=20_000)
    settle(window, qtbot)
    assert all(blas.build_flags == legal[0] for blas in window.session.world.blases)
    assert window.build.pending.text() == ""


def test_build_flags_that_are_not_there_are_disabled_with_the_reason(window):
    reasons = window.session.unavailable_build_flags()
    for (_, flag), box in window.build.boxes.items():
        assert box.isEnabled() == (flag not in reasons)
        if flag in reasons:
            assert reasons[flag] in box.toolTip()


def test_closing_the_window_in_the_middle_of_a_job(window, qtbot):
    window.open_file(SCENES / "sphereflake")
    qtbot.waitUntil(lambda: window.session.jobs.is_busy(Lane.DOCUMENT) or window.session.world, timeout=20_000)
    window.close()
    qtbot.wait(200)
    assert not window.session.jobs.is_busy()


def test_a_running_job_shows_progress_and_is_cancelled_by_its_button(cornell, qtbot):
    window, world = cornell, cornell.session.world
    started, go_on = threading.Event(), threading.Event()

    def slow(job):
        job.progress(0.25, "waiting")
        started.set()
        while not job.is_cancelled() and not go_on.is_set():
            go_on.wait(0.01)
        if job.is_cancelled():
            raise CancelledError("cancelled")

    window.session._submit(Lane.DOCUMENT, "slow work", slow, lambda _: None)
    assert window.status.job.text() == "slow work"
    assert window.status.cancel.isVisible()
    assert started.wait(5)
    QTest.mouseClick(window.status.cancel, LEFT)
    qtbot.waitUntil(lambda: not window.session.jobs.is_busy(), timeout=5000)
    qtbot.waitUntil(lambda: not window.status.bar.isVisible(), timeout=5000)
    go_on.set()
    assert window.session.world is world
    assert "Cancelled" in window.status.currentMessage()


def test_the_profile_menu_changes_the_profile_and_goes_back_when_refused(window):
    window.profile_actions[Tier.TIER_1_2].trigger()
    assert window.session.state.profile.tier is Tier.TIER_1_2
    assert "1.2" in window.status.profile.text()
    window.session.set_ray_flag(RayFlag.SKIP_TRIANGLES, True)
    window.profile_actions[Tier.TIER_1_0].trigger()  # which has no SKIP flags
    assert window.session.state.profile.tier is Tier.TIER_1_2
    assert window.profile_actions[Tier.TIER_1_2].isChecked()
    assert not window.profile_actions[Tier.TIER_1_0].isChecked()
    assert "RF-1" in window.status.currentMessage()


def test_an_uncaught_error_becomes_a_banner(window, capfd):
    import sys

    install_exception_hooks(window)
    try:
        raise ZeroDivisionError("on purpose")
    except ZeroDivisionError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.excepthook = sys.__excepthook__
    assert window.banner.isVisible()
    assert "on purpose" in window.banner.text.text()
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_draw_error_surfaces(qtbot, settings, kernels_ready):
    window = make_window(settings)
    window.show()
    qtbot.waitExposed(window)
    item = window.structure_view.content.boxes

    def fail() -> None:
        raise RuntimeError("no such thing")

    item.draw = fail
    window.structure_view.view.grabFramebuffer()
    assert isinstance(item.error, RuntimeError)
    assert window.structure_view.view.failure.isVisible()
    assert "no such thing" in window.structure_view.view.failure.text()
    window.close()


def test_the_shortcut_dialog_lists_the_action_table(window, qtbot):
    dialog = ShortcutDialog(window)
    qtbot.addWidget(dialog)
    listed = {dialog.table.item(row, 1).text() for row in range(dialog.table.rowCount())}
    assert {spec.shortcut for spec in ACTIONS if spec.shortcut} <= listed


def test_the_grabbed_window_holds_both_views(cornell, qtbot):
    window = cornell
    picture = grab_window(window).toImage()
    ratio = picture.width() / window.width()
    for view in (window.structure_view.view, window.trace_view.canvas):
        corner = view.mapTo(window, QPoint(0, 0))
        colours = set()
        for x in np.linspace(0.1, 0.9, 12):
            for y in np.linspace(0.1, 0.9, 12):
                at = corner + QPoint(int(x * view.width()), int(y * view.height()))
                colours.add(picture.pixel(int(at.x() * ratio), int(at.y() * ratio)))
        assert len(colours) > 3
