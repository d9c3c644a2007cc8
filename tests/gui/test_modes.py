"""Modes, ranges, histogram, x-ray and read-out as a hand drives them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog

from rtviewer.dxr.counters import X_RAY_COUNTERS, Counter
from rtviewer.dxr.shader_table import ABSENT, HitGroup, HitGroupTable, HitGroupType
from rtviewer.session.document import build_world
from rtviewer.session.state import RangeKind
from rtviewer.shade.modes import KIND_WORDS, MODES
from rtviewer.shade.palettes import PALETTES
from tests.gui.conftest import SCENES, is_complete, open_and_settle, settle
from tests.gui.gestures import LEFT, click_pixel, pick_a_hit, place_of, send_move


def show_mode(window, qtbot, name) -> None:
    window.session.set_image_mode(name)
    qtbot.waitUntil(lambda: window.trace_view.shown.mode.name == name and is_complete(window), timeout=20_000)


@pytest.fixture
def heat(culling_lab, qtbot):
    """The culling lab with the box tests of every ray on show."""
    show_mode(culling_lab, qtbot, "box_tests")
    return culling_lab


def place_of_value(histogram, value: float, height: float = 0.5) -> QPoint:
    scene = histogram.getPlotItem().getViewBox().mapViewToScene(QPointF(value, height))
    return histogram.mapFromScene(scene)


def drag_value(histogram, start: float, end: float) -> None:
    port = histogram.viewport()
    first, last = place_of_value(histogram, start), place_of_value(histogram, end)
    send_move(port, first, Qt.MouseButton.NoButton)
    QTest.mousePress(port, LEFT, pos=first)
    for part in np.linspace(0.1, 1.0, 8):
        send_move(port, first + QPoint(round((last.x() - first.x()) * part), 0), LEFT)
        QTest.qWait(15)
    QTest.mouseRelease(port, LEFT, pos=last)


def image_state(window):
    return window.session.state.image


def test_dragging_a_limit_fixes_the_range_and_recolours(heat, qtbot):
    view = heat.trace_view
    low, high = view.shown.low, view.shown.high
    middle = (low + high) / 2
    before = view.shown.rgba.copy()
    drag_value(view.histogram, high, middle)
    image = image_state(heat)
    assert image.range_kind is RangeKind.FIXED
    assert image.range_low == low
    assert image.range_high == pytest.approx(middle, abs=(high - low) * 0.03)
    qtbot.waitUntil(lambda: view.shown.high == image.range_high and heat.is_settled, timeout=20_000)
    assert not np.array_equal(view.shown.rgba, before)
    assert view.range_bar.high.value() == pytest.approx(image.range_high, abs=0.1)
    assert view.histogram.region.getRegion() == (image.range_low, image.range_high)
    drag_value(view.histogram, (low + image.range_high) / 2, (low + image.range_high) / 2 + 3)  # between: both move
    moved = image_state(heat)
    assert moved.range_high - moved.range_low == pytest.approx(image.range_high - image.range_low, abs=1e-6)
    assert moved.range_low == pytest.approx(low + 3, abs=(high - low) * 0.03)


def test_a_double_click_and_shift_c_bring_the_automatic_range_back(heat, qtbot):
    view = heat.trace_view
    ends = (view.shown.low, view.shown.high)
    for back in (
        lambda: QTest.mouseDClick(view.histogram.viewport(), LEFT, pos=view.histogram.viewport().rect().center()),
        lambda: QTest.keyClick(heat, Qt.Key.Key_C, Qt.KeyboardModifier.ShiftModifier),
    ):
        heat.session.set_range(RangeKind.FIXED, 2, 5)
        qtbot.waitUntil(lambda: (view.shown.low, view.shown.high) == (2, 5), timeout=20_000)
        back()
        assert image_state(heat).range_kind is RangeKind.AUTOMATIC
        qtbot.waitUntil(lambda: (view.shown.low, view.shown.high) == ends, timeout=20_000)
        assert view.range_bar.range_box.currentData() == RangeKind.AUTOMATIC


def test_the_histogram_counts_the_pixels_and_stands_on_its_colours(heat):
    view = heat.trace_view
    spread = view.shown.histogram
    values = view.shown_buffer.counter(Counter.BOX_TESTS)
    assert spread.counts.sum() == values.size
    assert (spread.low, spread.high) == (values.min(), values.max())
    assert f"max {values.max():,}" in view.histogram.figures.text()
    left, right = (place_of_value(view.histogram, v).x() for v in (values.min(), values.max()))
    assert 0 <= left < right <= view.histogram.width()
    assert view.histogram.geometry().bottom() == view.canvas.rect().bottom()


def test_typing_ends_fixes_values_or_moves_percentiles(heat, qtbot):
    bar = heat.trace_view.range_bar
    bar.high.setFocus()
    bar.high.selectAll()
    end = round(heat.trace_view.shown.low) + 3
    QTest.keyClicks(bar.high, str(end))
    QTest.keyClick(bar.high, Qt.Key.Key_Return)
    assert (image_state(heat).range_kind, image_state(heat).range_high) == (RangeKind.FIXED, end)
    bar.range_box.setFocus()
    QTest.keyClick(bar.range_box, Qt.Key.Key_Down)
    assert image_state(heat).range_kind is RangeKind.PERCENTILE
    assert bar.high.suffix() == " %"
    bar.high.setFocus()
    bar.high.selectAll()
    QTest.keyClicks(bar.high, "50")
    QTest.keyClick(bar.high, Qt.Key.Key_Return)
    image = image_state(heat)
    assert (image.range_kind, image.range_low, image.range_high) == (RangeKind.PERCENTILE, 1.0, 50.0)
    values = heat.trace_view.shown_buffer.counter(Counter.BOX_TESTS)
    qtbot.waitUntil(lambda: heat.trace_view.shown.high == np.percentile(values, 50), timeout=20_000)
    assert bar.high.value() == 50.0  # the percentile, not its value
    bar.low.setFocus()
    bar.low.selectAll()
    QTest.keyClicks(bar.low, "60")  # beyond the other end: refused, the field goes back
    QTest.keyClick(bar.low, Qt.Key.Key_Return)
    assert (image_state(heat).range_low, bar.low.value()) == (1.0, 1.0)


def test_palettes_are_chosen_and_stepped_through(heat, qtbot):
    bar = heat.trace_view.range_bar
    bar.palette_box.setFocus()
    QTest.keyClick(bar.palette_box, Qt.Key.Key_Down)
    assert image_state(heat).palette == "plasma"
    heat.trace_view.canvas.setFocus()
    for name in (*list(PALETTES)[2:], "viridis"):
        QTest.keyClick(heat, Qt.Key.Key_P)
        assert image_state(heat).palette == name == bar.palette_box.currentData()
        qtbot.waitUntil(lambda name=name: heat.trace_view.shown.legend.palette == name, timeout=20_000)
    assert all(not bar.palette_box.itemIcon(i).isNull() for i in range(bar.palette_box.count()))


def test_keys_step_through_modes_and_hide_the_histogram(heat):
    names = list(MODES)
    place = names.index("box_tests")
    QTest.keyClick(heat, Qt.Key.Key_BracketRight)
    assert image_state(heat).mode == names[place + 1] == heat.mode_box.currentData()
    QTest.keyClick(heat, Qt.Key.Key_BracketLeft)
    assert image_state(heat).mode == "box_tests"
    view = heat.trace_view
    assert view.histogram.isVisible()
    assert not view.legend.isVisible()
    QTest.keyClick(heat, Qt.Key.Key_G)
    assert not view.histogram.isVisible()
    assert view.legend.isVisible()
    assert not heat.actions_["show_histogram"].isChecked()
    QTest.keyClick(heat, Qt.Key.Key_G)
    assert view.histogram.isVisible()
    heat.session.set_image_mode("normal")
    assert not view.histogram.isVisible()
    assert not view.range_bar.isVisible()


def test_x_shows_what_lies_behind_and_the_log_follows(culling_lab, qtbot):
    window = culling_lab
    pick_a_hit(window, qtbot)
    size = window.trace_view.device_size()
    QTest.keyClick(window, Qt.Key.Key_X)
    assert image_state(window).mode == "x_ray_surfaces"
    assert window.actions_["x_ray"].isChecked()
    qtbot.waitUntil(
        lambda: window.trace_view.shown.mode.is_x_ray and window.session.log.x_ray and is_complete(window),
        timeout=20_000,
    )
    assert window.trace_view.device_size() == size
    surfaces = window.trace_view.shown_buffer.x_ray_counter(X_RAY_COUNTERS[0])
    y, x = np.unravel_index(np.argmax(surfaces[: -window.trace_view.histogram.height()]), surfaces.shape)
    click_pixel(window, int(x), int(y))
    qtbot.waitUntil(lambda: window.session.log.pixel == (x, y) and window.is_settled, timeout=20_000)
    assert window.session.log.x_ray_count(X_RAY_COUNTERS[0]) == surfaces[y, x] > 2
    assert "x-ray events" in window.ray_log.ray.text()
    read_out = window.trace_view.read_out
    assert read_out.values["x_ray_surfaces"].text() == str(surfaces[y, x])
    assert read_out.names["x_ray_surfaces"].property("role") == "heading"
    assert read_out.names[Counter.COMMITS].property("role") == "muted"
    QTest.mouseClick(window.tool_bar.widgetForAction(window.actions_["x_ray"]), LEFT)
    assert image_state(window).mode == "shaded"
    qtbot.waitUntil(lambda: not window.session.log.x_ray, timeout=20_000)


def test_headings_of_the_modes_cannot_be_chosen(window):
    box = window.mode_box
    model = box.model()
    headings = [i for i in range(box.count()) if box.itemText(i) in KIND_WORDS.values()]
    assert len(headings) == len(KIND_WORDS)
    assert all(not model.flags(model.index(i, 0)) & Qt.ItemFlag.ItemIsSelectable for i in headings)
    assert {box.itemData(i) for i in range(box.count()) if i not in headings} == set(MODES)


@pytest.mark.parametrize("width", [1280, 1600])
def test_the_read_out_shows_all_counters_and_cuts_none(culling_lab, qtbot, width):
    window, read_out = culling_lab, culling_lab.trace_view.read_out
    window.resize(width, 900)
    settle(window, qtbot)
    canvas = window.trace_view.canvas
    send_move(canvas.viewport(), place_of(canvas, 60, 60), Qt.MouseButton.NoButton)
    qtbot.waitUntil(lambda: read_out.values["Pixel"].text() == "60,60", timeout=5000)
    few = sum(name.isVisible() for name in read_out.names.values())
    QTest.mouseClick(read_out.more, LEFT)
    assert sum(name.isVisible() for name in read_out.names.values()) == len(read_out.names) > few
    assert {*Counter, *(x_ray.key for x_ray in X_RAY_COUNTERS)} <= set(read_out.values)
    QTest.qWait(50)
    for labels in (read_out.names, read_out.values):
        for label in labels.values():
            assert label.fontMetrics().horizontalAdvance(label.text()) <= label.width(), label.text()
    QTest.mouseClick(read_out.more, LEFT)
    assert sum(name.isVisible() for name in read_out.names.values()) == few


def test_a_pixel_whose_record_is_at_fault_says_so(cornell):
    """Such a picture fails as a whole; a cursor over its coarse pass must not."""
    window = cornell
    buffer = window.trace_view.shown_buffer
    y, x = (int(v[0]) for v in np.nonzero(buffer.hit))
    nothing = HitGroupTable((HitGroup(HitGroupType.PROCEDURAL_PRIMITIVE, ABSENT, ABSENT),))
    world = build_world(replace(buffer.world.scene, hit_groups=nothing))
    faulty = replace(buffer, request=replace(buffer.request, world=world))
    read_out = window.trace_view.read_out
    read_out.show_pixel(faulty, (x, y))
    assert read_out.values["t"].text() == "fault"
    assert "HG-4" in read_out.values["t"].toolTip()
    assert read_out.values[Counter.COMMITS].text() == "–"
    read_out.show_pixel(buffer, (x, y))
    assert read_out.values[Counter.COMMITS].text() != "–"
    assert "HG-4" not in read_out.values["t"].toolTip()


def test_saving_writes_what_the_dialog_says(heat, qtbot, tmp_path, monkeypatch):
    sizes = []
    for number, chosen in enumerate(("PNG with its legend (*.png)", "PNG, the picture alone (*.png)")):
        path = tmp_path / f"{number}.png"
        answer = lambda *_, path=path, chosen=chosen: (str(path), chosen)  # noqa: E731
        monkeypatch.setattr(QFileDialog, "getSaveFileName", answer)
        heat.actions_["save_image"].trigger()
        qtbot.waitUntil(lambda path=path: path.exists() and heat.is_settled, timeout=20_000)
        with Image.open(path) as image:
            sizes.append(image.size)
    width, height = heat.trace_view.device_size()
    assert sizes[1] == (width, height)
    assert sizes[0][1] > height + 40
    heat.save_image(tmp_path / "a.tiff")
    assert heat.banner.isVisible()
    assert ".npz" in heat.banner.text.text()


def test_the_camera_box_shows_long_names(window, qtbot, tmp_path):
    text = (SCENES / "cornell" / "scene.toml").read_text()
    name = "behind the tall box"
    camera = f'\n[[camera]]\nname = "{name}"\nposition = [0, 1, 9]\nlook_at = [0, 1, 0]\n'
    (tmp_path / "scene.toml").write_text(text + camera)
    for file in (SCENES / "cornell").iterdir():
        if file.name != "scene.toml" and file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    open_and_settle(window, qtbot, tmp_path / "scene.toml")
    box = window.camera_box
    place = box.findText(name)
    assert place >= 0
    assert box.width() >= box.fontMetrics().horizontalAdvance(name) + 20
    assert box.itemData(place, Qt.ItemDataRole.ToolTipRole) == name


def test_what_is_drawn_of_the_instances_fits_into_a_narrow_view(window, qtbot):
    window.resize(1280, 800)
    open_and_settle(window, qtbot, SCENES / "sphereflake")
    view = window.structure_view.view
    assert "in full" in view.counts.text()
    assert view.counts.geometry().right() <= view.width()
    assert view.counts.height() >= view.counts.heightForWidth(view.counts.width()) > 0
