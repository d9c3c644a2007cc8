"""The window as a user meets it: opening, picking, selecting, docks, layout, theme, errors."""

from __future__ import annotations

import shutil
from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDockWidget

from rtviewer.dxr.flags import RayFlag
from rtviewer.gui.actions import ACTIONS, ShortcutDialog
from rtviewer.gui.app import install_exception_hooks, make_window, open_settings
from rtviewer.gui.screenshot import grab_window, pixel_to_pick
from rtviewer.gui.theme import DARK, LIGHT, ThemeChoice
from rtviewer.session.jobs import Lane
from rtviewer.shade.modes import MODES
from tests.gui.conftest import SCENES, is_complete, open_and_settle, settle

LEFT = Qt.MouseButton.LeftButton


def place_of(canvas, x: int, y: int) -> QPoint:
    """The screen pixel that shows the middle of the picture's pixel."""
    scene = canvas.box.mapViewToScene(QPointF(x + 0.5, y + 0.5))
    return QPoint(int(scene.x()), int(scene.y()))


def click_pixel(window, x: int, y: int) -> None:
    canvas = window.trace_view.canvas
    QTest.mouseClick(canvas.viewport(), LEFT, pos=place_of(canvas, x, y))


def pick_a_hit(window, qtbot) -> None:
    click_pixel(window, *pixel_to_pick(window.trace_view.shown_buffer))
    qtbot.waitUntil(lambda: window.session.log is not None and window.is_settled, timeout=20_000)


def image_of(window) -> np.ndarray:
    frame = window.structure_view.view.grabFramebuffer().convertToFormat(
        window.structure_view.view.grabFramebuffer().Format.Format_RGB888
    )
    data = np.frombuffer(frame.constBits(), np.uint8).reshape(frame.height(), frame.bytesPerLine())
    return data[:, : frame.width() * 3].reshape(frame.height(), frame.width(), 3).copy()


def test_an_empty_window_says_what_would_fill_each_pane(window):
    for pane in (window.structures, window.node_tree, window.properties, window.ray_log, window.instances):
        assert pane.stack.currentIndex() == 0
        assert "\n" in pane.empty.text()
    assert "Ctrl+O" in window.structure_view.view.empty.text()
    assert window.trace_view.empty.isVisible()


def test_opening_a_scene_fills_every_pane(cornell):
    window = cornell
    world = window.session.world
    assert window.structures.model.rowCount() == 1 + len(world.blases)
    assert window.instances.model.rowCount() == len(world.tlas.instance_descs)
    assert window.node_tree.model.rowCount() == 1
    assert "of" in window.structure_view.view.counts.text()
    assert "Cornell" in window.windowTitle()
    assert window.status.flags.text() == "flags 0x000"
    assert "Mrays/s" in window.status.speed.text()
    assert window.build.costs["blas", 2].text().endswith("KiB")
    assert len(np.unique(window.trace_view.shown.rgba.reshape(-1, 4), axis=0)) > 20


def test_the_structure_view_shows_geometry_boxes_and_wireframe(cornell):
    window = cornell
    pictures = [image_of(window)]
    for change in ({"show_boxes": False}, {"show_wireframe": True}, {"show_geometry": False}):
        window.session.set_view(**change)
        pictures.append(image_of(window))
    for before, after in pairwise(pictures):
        assert np.any(before != after, axis=2).mean() > 0.001
    window.session.set_view(show_wireframe=False)
    assert np.any(image_of(window) != pictures[3], axis=2).any()


def test_both_views_see_the_same(cornell):
    # Where the picture hits nothing the structure view shows its background, and the other way round.
    window = cornell
    window.session.set_view(show_boxes=False)
    view, buffer = window.structure_view.view, window.trace_view.shown_buffer
    picture = image_of(window)
    ground = picture[1, 1]
    height, width = picture.shape[:2]
    # Same vertical field of view; sample along the middle column of both.
    rows = np.linspace(0.02, 0.98, 60)
    here = [np.any(picture[int(r * height), width // 2] != ground) for r in rows]
    there = [bool(buffer.hit[int(r * buffer.height), buffer.width // 2]) for r in rows]
    assert np.mean(np.array(here) == np.array(there)) > 0.95
    assert view.camera == buffer.camera


def test_clicking_a_pixel_logs_its_ray_and_draws_it(cornell, qtbot):
    window = cornell
    x, y = pixel_to_pick(window.trace_view.shown_buffer)
    click_pixel(window, x, y)
    qtbot.waitUntil(lambda: window.session.log is not None, timeout=20_000)
    assert (window.session.state.pick.x, window.session.state.pick.y) == (x, y)
    log = window.session.log
    assert log.result.hit
    assert window.ray_log.model.rowCount() == len(log)
    assert "Hit at t" in window.ray_log.result.text()
    assert "[HG-1]" in window.ray_log.result.text()
    assert len(window.structure_view.content.ray.rows) >= 1
    assert len(window.structure_view.content.marks.rows) >= 1
    assert window.trace_view.canvas.mark.isVisible()
    assert "Step" in window.ray_log.text()


def test_the_log_agrees_with_the_picture(cornell, qtbot):
    window = cornell
    buffer = window.trace_view.shown_buffer
    pick_a_hit(window, qtbot)
    pick, result = window.session.state.pick, window.session.log.result
    assert result.t == pytest.approx(float(buffer.t[pick.y, pick.x]))
    assert result.instance_index == buffer.instance_index[pick.y, pick.x]
    assert result.primitive_index == buffer.primitive_index[pick.y, pick.x]


def test_moving_the_camera_leaves_the_picked_ray_standing(cornell, qtbot):
    window = cornell
    pick_a_hit(window, qtbot)
    ray = window.session.log.origin, window.session.log.direction
    drag(window.structure_view.view, QPoint(60, 15))
    settle(window, qtbot)
    assert (window.session.log.origin, window.session.log.direction) == ray
    assert window.session.state.pick is None
    assert len(window.structure_view.content.ray.rows) >= 1
    window.actions_["clear_ray"].trigger()
    assert window.session.log is None
    assert window.ray_log.stack.currentIndex() == 0


def drag(view, step: QPoint, button=LEFT) -> None:
    start = view.rect().center()
    QTest.mousePress(view, button, pos=start)
    for part in (0.3, 0.6, 1.0):
        at = start + QPoint(round(step.x() * part), round(step.y() * part))
        send_move(view, at, button)
    QTest.mouseRelease(view, button, pos=start + step)


def send_move(view, at: QPoint, button) -> None:
    """QTest.mouseMove carries no buttons, so the event itself is sent."""
    from PySide6.QtCore import QEvent
    from PySide6.QtGui import QMouseEvent

    event = QMouseEvent(
        QEvent.Type.MouseMove, QPointF(at), QPointF(view.mapToGlobal(at)), Qt.MouseButton.NoButton, button,
        Qt.KeyboardModifier.NoModifier,
    )  # fmt: skip
    QApplication.sendEvent(view, event)


@pytest.mark.parametrize("button", [LEFT, Qt.MouseButton.RightButton], ids=["orbit", "pan"])
def test_dragging_moves_the_one_camera_of_both_views(cornell, qtbot, button):
    window = cornell
    before = window.session.state.camera
    drag(window.structure_view.view, QPoint(80, 20), button)
    after = window.session.state.camera
    assert after != before
    assert window.structure_view.view.camera == after
    assert (after.look_at == before.look_at) == (button is LEFT)
    settle(window, qtbot)
    assert window.trace_view.shown_buffer.camera == after


def test_wheel_and_keys_move_the_camera_and_reset_brings_it_back(cornell, qtbot):
    window, view = cornell, cornell.structure_view.view
    first = window.session.state.camera
    view.setFocus()
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Up, Qt.Key.Key_Plus):
        before = window.session.state.camera
        QTest.keyClick(view, key)
        assert window.session.state.camera != before
    QTest.keyClick(window, Qt.Key.Key_R)
    assert window.session.state.camera == first


def test_picking_in_3d_selects_everywhere(cornell, qtbot):
    window, view = cornell, cornell.structure_view.view
    QTest.mouseClick(view, LEFT, pos=view.rect().center())
    qtbot.waitUntil(lambda: window.session.state.selection.instance >= 0, timeout=20_000)
    selection = window.session.state.selection
    index = window.node_tree.view.currentIndex()
    assert window.node_tree.model.item_of(index) == (selection.geometry, selection.primitive)
    assert window.instances.model.source_row(window.instances.table.currentIndex().row()) == selection.instance
    assert len(window.structure_view.content.highlight.rows) > 12
    assert "Primitive" in window.properties.view.topLevelItem(0).text(0)


def test_selecting_a_node_highlights_its_box_and_path(cornell):
    window = cornell
    content = window.structure_view.content
    window.session.select(structure=0, box=0)
    assert len(content.highlight.rows) == 12
    tree = window.session.world.tree(0)
    leaf = len(tree) - 1
    index = window.node_tree.model.index_of_box(leaf)
    window.node_tree.view.setCurrentIndex(index)
    assert window.session.state.selection.box == leaf
    assert len(content.highlight.rows) == 12 * len(tree.path_to_root(leaf))
    corners = content.highlight.rows["from"][-12:]
    np.testing.assert_allclose(corners.min(0), tree.low[leaf], atol=1e-5)


def test_searching_the_tree(cornell, qtbot):
    pane, window = cornell.node_tree, cornell
    window.session.select(structure=0, box=0)
    for text, item in (("0:1", (0, 1)), ("2:0", (2, 0))):
        pane.find.setText(text)
        QTest.keyClick(pane.find, Qt.Key.Key_Return)
        assert pane.model.item_of(pane.view.currentIndex()) == item
    pane.find.setText("1")
    QTest.keyClick(pane.find, Qt.Key.Key_Return)
    assert window.session.state.selection.box == 1
    for text, why in (("99999", "No node"), ("7:7", "No active primitive"), ("what", "Not understood")):
        pane.find.setText(text)
        QTest.keyClick(pane.find, Qt.Key.Key_Return)
        assert why in pane.message.text()
        assert window.session.state.selection.box == 1


def test_choosing_a_log_row_selects_its_box_and_structure(cornell, qtbot):
    window = cornell
    pick_a_hit(window, qtbot)
    model = window.ray_log.model
    row = next(r for r in range(model.rowCount()) if model.log_row(r).is_candidate)
    window.ray_log.table.setCurrentIndex(model.index(0, 0))
    window.ray_log.table.setCurrentIndex(model.index(row, 0))
    event, selection = model.log_row(row), window.session.state.selection
    assert (selection.structure, selection.geometry, selection.primitive) == (
        event.structure,
        event.geometry,
        event.primitive,
    )
    assert selection.instance == event.instance


def test_log_filters(culling_lab, qtbot):
    window, pane = culling_lab, culling_lab.ray_log
    pick_a_hit(window, qtbot)
    every = pane.model.rowCount()
    QTest.mouseClick(pane.families["missed"], LEFT)
    assert pane.model.rowCount() < every
    pane.kinds.setCurrentIndex(1)
    assert all(pane.model.log_row(r).is_candidate for r in range(pane.model.rowCount()))


@pytest.mark.parametrize("mode", list(MODES))
def test_every_mode_is_shown(cornell, qtbot, mode):
    window = cornell
    window.session.set_image_mode(mode)
    qtbot.waitUntil(
        lambda: window.trace_view.shown is not None and window.trace_view.shown.mode.name == mode, timeout=20_000
    )
    assert window.mode_box.currentData() == mode
    assert window.trace_view.legend.legend.title == MODES[mode].label
    assert window.trace_view.palette_box.isVisible() == MODES[mode].has_range


def test_range_is_fitted_fixed_and_automatic(cornell, qtbot):
    window = cornell
    window.session.set_image_mode("box_tests")
    qtbot.waitUntil(lambda: window.trace_view.shown.mode.name == "box_tests" and is_complete(window), timeout=20_000)
    QTest.keyClick(window, Qt.Key.Key_C)
    image = window.session.state.image
    assert image.range_kind == "fixed"
    assert (image.range_low, image.range_high) == (window.trace_view.shown.low, window.trace_view.shown.high)
    high = image.range_low + 1
    window.trace_view.high.setValue(high)
    qtbot.waitUntil(lambda: window.trace_view.shown.high == high, timeout=20_000)
    window.trace_view.high.setValue(image.range_low - 1)  # refused: the field goes back
    assert window.trace_view.high.value() == high
    assert window.session.state.image.range_high == high


def test_the_read_out_shows_the_hovered_pixel(cornell, qtbot):
    window, canvas = cornell, cornell.trace_view.canvas
    x, y = pixel_to_pick(window.trace_view.shown_buffer)
    send_move(canvas.viewport(), place_of(canvas, x, y), Qt.MouseButton.NoButton)
    values = window.trace_view.read_out.values
    qtbot.waitUntil(lambda: values["Pixel"].text() == f"{x}, {y}", timeout=5000)
    assert float(values["t"].text()) == pytest.approx(float(window.trace_view.shown_buffer.t[y, x]), rel=1e-5)
    assert all(label.text() != "–" for label in values.values())


def test_a_flag_changes_picture_and_echo(culling_lab, qtbot):
    window = culling_lab
    before = window.trace_view.shown.rgba.copy()
    window.session.set_ray_flag(RayFlag.CULL_BACK_FACING_TRIANGLES, True)
    settle(window, qtbot)
    assert window.status.flags.text() == "flags 0x010"
    assert np.any(window.trace_view.shown.rgba != before)


def test_resizing_traces_at_the_new_size(cornell, qtbot):
    window = cornell
    window.resize(1290, 800)
    qtbot.waitUntil(lambda: window.trace_view.shown_buffer.width == window.trace_view.device_size()[0], timeout=20_000)
    settle(window, qtbot)


def test_double_clicking_a_structure_shows_it_alone(cornell):
    window = cornell
    table = window.structures.table
    table.doubleClicked.emit(window.structures.model.index(1, 0))
    assert window.session.state.view.scope == 0
    assert "object space" in window.structure_view.view.caption.text()
    camera = window.session.state.camera
    drag(window.structure_view.view, QPoint(40, 10))
    assert window.session.state.camera == camera  # an object space has a camera of its own
    QTest.keyClick(window, Qt.Key.Key_W)
    assert window.session.state.view.scope == -1


def test_hiding_and_showing_instances(cornell, qtbot):
    window = cornell
    window.session.select(instance=1)
    shown = sum(item.instance_count for item in window.structure_view.content.meshes)
    QTest.keyClick(window, Qt.Key.Key_H)
    assert sum(item.instance_count for item in window.structure_view.content.meshes) == shown - 1
    QTest.keyClick(window, Qt.Key.Key_J)
    assert sum(item.instance_count for item in window.structure_view.content.meshes) == shown


@pytest.mark.parametrize(
    ("key", "field"),
    [
        (Qt.Key.Key_B, "show_boxes"),
        (Qt.Key.Key_N, "show_geometry"),
        (Qt.Key.Key_M, "show_wireframe"),
        (Qt.Key.Key_V, "show_instance_boxes"),
    ],
)
def test_view_keys_switch_and_the_actions_show_it(cornell, key, field):
    before = getattr(cornell.session.state.view, field)
    QTest.keyClick(cornell, key)
    assert getattr(cornell.session.state.view, field) is not before
    assert cornell.actions_[field].isChecked() is not before


def test_depth_range_of_boxes(cornell):
    pane, content = cornell.structure_view, cornell.structure_view.content
    pane.high.setValue(0)
    assert cornell.session.state.view.depth_high == 0
    image_of(cornell)
    assert content.boxes.drawn == 1
    assert "shown 1 of" in pane.view.counts.text()


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
    QTest.qWait(200)
    assert not window.session.jobs.is_busy()


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
