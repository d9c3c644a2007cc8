"""The panes as a user meets them: opening, picking, selecting, moving, modes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.verdicts import Counter
from rtviewer.gui.gl.content import STILL_TRIANGLES
from rtviewer.gui.gl.geometry import READABLE_BOXES
from rtviewer.gui.panes.structures import IMPORTANCE
from rtviewer.gui.screenshot import pixel_to_pick
from rtviewer.session.log_text import COLUMNS
from rtviewer.shade.modes import MODES
from tests.gui.conftest import SCENES, is_complete, open_and_settle, settle
from tests.gui.gestures import LEFT, click_pixel, drag, image_of, pick_a_hit, place_of, send_move


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
    assert "Step" in window.session.log_as("text")


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


def test_many_instances_are_drawn_within_a_budget_that_is_told(window, qtbot):
    open_and_settle(window, qtbot, SCENES / "sphereflake")
    view, content = window.structure_view.view, window.structure_view.content
    if not view.is_software:
        pytest.skip("a graphics card draws everything")
    full, shown = content.full_instances
    assert 0 < full < shown == sum(item.instance_count for item in content.meshes)
    assert sum(item.full_count * item.triangle_count for item in content.meshes) <= STILL_TRIANGLES
    assert f"{full:,} of {shown:,} instances in full" in view.counts.text()
    content.draw_everything()
    assert content.full_instances is None
    assert "in full" not in view.counts.text()


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


def test_every_mode_is_shown(cornell, qtbot):
    window = cornell
    size = window.trace_view.device_size()
    for name, mode in MODES.items():
        window.mode_box.setCurrentIndex(window.mode_box.findData(name))
        window.mode_box.activated.emit(window.mode_box.currentIndex())
        qtbot.waitUntil(lambda name=name: window.trace_view.shown.mode.name == name, timeout=20_000)
        assert window.session.state.image.mode == name
        assert window.trace_view.legend.legend.title == mode.label
        assert window.trace_view.range_bar.isVisible() == mode.has_range
        assert window.trace_view.device_size() == size  # no control that comes or goes moves the views


def test_range_is_fitted_fixed_and_automatic(cornell, qtbot):
    window = cornell
    window.session.set_image_mode("box_tests")
    qtbot.waitUntil(lambda: window.trace_view.shown.mode.name == "box_tests" and is_complete(window), timeout=20_000)
    QTest.keyClick(window, Qt.Key.Key_C)
    image = window.session.state.image
    assert image.range_kind == "fixed"
    assert (image.range_low, image.range_high) == (window.trace_view.shown.low, window.trace_view.shown.high)
    high = image.range_low + 1
    window.trace_view.range_bar.high.setValue(high)
    qtbot.waitUntil(lambda: window.trace_view.shown.high == high, timeout=20_000)
    window.trace_view.range_bar.high.setValue(image.range_low - 1)  # refused: the field goes back
    assert window.trace_view.range_bar.high.value() == high
    assert window.session.state.image.range_high == high


def test_the_read_out_shows_the_hovered_pixel(cornell, qtbot):
    window, canvas = cornell, cornell.trace_view.canvas
    x, y = pixel_to_pick(window.trace_view.shown_buffer)
    send_move(canvas.viewport(), place_of(canvas, x, y), Qt.MouseButton.NoButton)
    values = window.trace_view.read_out.values
    qtbot.waitUntil(lambda: values["Pixel"].text() == f"{x},{y}", timeout=5000)
    assert float(values["t"].text()) == pytest.approx(float(window.trace_view.shown_buffer.t[y, x]), rel=1e-5)
    assert all(label.text() != "–" for label in values.values())


def test_the_read_out_shows_the_picked_ray_while_nothing_is_hovered(cornell, qtbot):
    window, canvas, read_out = cornell, cornell.trace_view.canvas, cornell.trace_view.read_out
    assert read_out.values["t"].text() == "–"
    x, y = pixel_to_pick(window.trace_view.shown_buffer)
    pick_a_hit(window, qtbot)
    send_move(canvas.viewport(), place_of(canvas, 3, 3), Qt.MouseButton.NoButton)
    assert read_out.names["Pixel"].text() == "Pixel"
    assert read_out.values["Pixel"].text() == "3,3"
    QApplication.sendEvent(canvas, QEvent(QEvent.Type.Leave))
    assert read_out.names["Pixel"].text() == "Picked"
    assert read_out.values["Pixel"].text() == f"{x},{y}"
    log = window.session.log
    assert float(read_out.values["t"].text()) == pytest.approx(log.result.t, rel=1e-5)
    assert read_out.values[Counter.BOX_TESTS].text() == str(log.counters[Counter.BOX_TESTS])
    assert f"pixel {x},{y} ·" in window.ray_log.ray.text()
    drag(window.structure_view.view, QPoint(60, 15))
    settle(window, qtbot)
    assert read_out.values["Pixel"].text() == f"{x},{y}"
    assert f"pixel {x},{y} (camera moved)" in window.ray_log.ray.text()
    window.session.log_ray((0.0, 1.0, 9.0), (0.0, 0.0, -1.0))
    qtbot.waitUntil(lambda: "typed ray" in window.ray_log.ray.text(), timeout=20_000)
    assert read_out.values["Pixel"].text() == "typed"


def test_the_ray_log_needs_no_horizontal_scroll_bar(cornell, qtbot):
    window = cornell
    pick_a_hit(window, qtbot)
    qtbot.wait(50)
    assert window.ray_log.table.horizontalScrollBar().maximum() == 0
    index = window.ray_log.model.index(2, len(COLUMNS) - 1)
    assert index.data() in index.data(Qt.ItemDataRole.ToolTipRole)


def test_the_structures_table_shows_whole_columns_in_order_of_importance(cornell, qtbot):
    table, model = cornell.structures.table, cornell.structures.model

    def shown() -> list[str]:
        titles = [model.headerData(i, Qt.Orientation.Horizontal) for i in range(model.columnCount())]
        return [title for i, title in enumerate(titles) if not table.isColumnHidden(i)]

    narrow = shown()
    assert set(narrow) == set(IMPORTANCE[: len(narrow)])
    assert table.horizontalHeader().length() <= table.viewport().width()
    assert "Address" in model.index(0, 0).data(Qt.ItemDataRole.ToolTipRole)
    cornell.docks["structures"].setFloating(True)
    cornell.docks["structures"].resize(1000, 300)
    qtbot.waitUntil(lambda: len(shown()) == len(IMPORTANCE), timeout=5000)


def test_a_large_scene_opens_with_a_depth_range_that_can_be_read(window, qtbot):
    open_and_settle(window, qtbot, SCENES / "culling_lab")
    depth, content = window.structure_view.depth, window.structure_view.content
    high = window.session.state.view.depth_high
    assert 0 < high < content.level_count() - 1
    image_of(window)
    assert 1 < content.boxes.drawn <= READABLE_BOXES
    assert depth.slider.value() == (0, high)
    depth.slider.setValue((1, high + 1))
    assert (window.session.state.view.depth_low, window.session.state.view.depth_high) == (1, high + 1)
    depth.slider.setValue((1, depth.slider.maximum()))
    assert window.session.state.view.depth_high == -1
    assert depth.high.text() == "all"
    open_and_settle(window, qtbot, SCENES / "cornell")
    qtbot.waitUntil(lambda: window.session.state.view.depth_low == 0, timeout=20_000)


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
    pane.depth.high.setValue(0)
    assert cornell.session.state.view.depth_high == 0
    image_of(cornell)
    assert content.boxes.drawn == 1
    assert "shown 1 of" in pane.view.counts.text()
