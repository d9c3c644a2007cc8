"""The Ray source pane, the tool bar's box and the light in the structure view, by real clicks, keys and drags."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox, QLineEdit

from rtviewer.gui.gl.light_handle import moved_across
from rtviewer.gui.panes.read_out import t_text
from rtviewer.gui.widgets.parameter_field import parsed, value_text
from rtviewer.scene.camera import Camera
from rtviewer.scene.ray_sources import IMAGE_SOURCES, SOURCES, OcclusionRays, ShadowRays, SourceKind, default_light
from tests.gui.conftest import is_complete
from tests.gui.gestures import LEFT, click_pixel, image_of, pick_a_hit, send_move

CAMERA, SHADOW, DIFFUSE, OCCLUSION = (spec.kind for spec in IMAGE_SOURCES)


@pytest.fixture
def shown(cornell, qtbot):
    """Cornell with the Ray source pane in front."""
    cornell.show_panes(["ray_source"])
    qtbot.waitUntil(lambda: cornell.ray_source.source.isVisible(), timeout=5000)
    return cornell


def settle(window, qtbot):
    def done():
        buffer = window.trace_view.shown_buffer
        return is_complete(window) and buffer.request.source == window.session.state.source.active

    qtbot.waitUntil(done, timeout=30_000)


def choose(box: QComboBox, data) -> None:
    """Step to the entry with keys, as a user does."""
    steps = box.findData(data) - box.currentIndex()
    box.setFocus()
    for _ in range(abs(steps)):
        QTest.keyClick(box, Qt.Key.Key_Down if steps > 0 else Qt.Key.Key_Up)
    assert box.currentData() == data


def type_into(edit: QLineEdit, text: str) -> None:
    edit.setFocus()
    edit.selectAll()
    QTest.keyClicks(edit, text)
    QTest.keyClick(edit, Qt.Key.Key_Return)


def field(window, kind, name):
    return window.ray_source.fields[kind, name]


def test_every_source_is_offered_in_both_places(shown, qtbot):
    for box in (shown.ray_source.source, shown.tool_bar.source_box):
        assert [box.itemText(i) for i in range(box.count())] == [spec.label for spec in IMAGE_SOURCES]
        for place, spec in enumerate(IMAGE_SOURCES):
            assert box.itemData(place, Qt.ItemDataRole.ToolTipRole) == spec.tip


@pytest.mark.parametrize("where", ["pane", "tool bar"])
def test_choosing_a_source_traces_it(shown, qtbot, where):
    box = shown.ray_source.source if where == "pane" else shown.tool_bar.source_box
    other = shown.tool_bar.source_box if where == "pane" else shown.ray_source.source
    for kind in (SHADOW, DIFFUSE, OCCLUSION, CAMERA):
        choose(box, kind)
        settle(shown, qtbot)
        assert shown.session.state.source.kind is kind
        assert other.currentData() == kind
        assert (shown.trace_view.shown_buffer.receivers is None) == (kind is CAMERA)
        caption = shown.trace_view.caption.text()
        assert caption == ("Shaded" if kind is CAMERA else f"{SOURCES[kind].ray}s: Shaded")
        visible = {key for key, item in shown.ray_source.fields.items() if item.isVisible() and key[0] in IMAGE_KINDS}
        assert visible == {(kind, parameter.name) for parameter in SOURCES[kind].parameters}
        assert shown.ray_source.at_eye.isVisible() == (kind is SHADOW)
        assert shown.ray_source.logged.isVisible() == (kind is not CAMERA)


IMAGE_KINDS = {spec.kind for spec in IMAGE_SOURCES}


def test_typing_a_light(shown, qtbot):
    choose(shown.ray_source.source, SHADOW)
    settle(shown, qtbot)
    edit = field(shown, SHADOW, "light")
    assert edit.automatic.isChecked()
    assert edit.text.text() == value_text(default_light(shown.session.world.bounds))
    type_into(edit.text, "0.25, 1.5 0.5")
    settle(shown, qtbot)
    assert shown.session.state.source.shadow == ShadowRays((0.25, 1.5, 0.5))
    assert not edit.automatic.isChecked()
    for wrong, said in (("1, 2", "is not of the form x, y, z"), ("a, b, c", "not of the form"), ("1,2,inf", "finite")):
        type_into(edit.text, wrong)
        assert said in shown.ray_source.message.text()
        assert shown.ray_source.message.isVisible()
        assert shown.session.state.source.shadow == ShadowRays((0.25, 1.5, 0.5))
        assert edit.text.text() == "0.25, 1.5, 0.5"
    QTest.mouseClick(edit.automatic, LEFT)
    settle(shown, qtbot)
    assert shown.session.state.source.shadow == ShadowRays()
    assert not shown.ray_source.message.isVisible()
    QTest.mouseClick(edit.automatic, LEFT)
    assert shown.session.light_position() == pytest.approx(default_light(shown.session.world.bounds))
    assert shown.session.state.source.shadow.light is not None
    type_into(edit.text, " ")
    assert shown.session.state.source.shadow == ShadowRays(), "an empty field is the automatic value"


def test_the_light_goes_to_the_eye(shown, qtbot):
    choose(shown.ray_source.source, SHADOW)
    settle(shown, qtbot)
    QTest.mouseClick(shown.ray_source.at_eye, LEFT)
    settle(shown, qtbot)
    assert shown.session.light_position() == shown.session.state.camera.position
    facing = shown.trace_view.shown_buffer
    assert facing.hit[facing.receivers.has_ray].mean() < 0.01, "from the eye nothing seen is in shadow"


def test_counts_have_spin_boxes_and_say_why_not(shown, qtbot):
    choose(shown.ray_source.source, OCCLUSION)
    settle(shown, qtbot)
    samples, sample = field(shown, OCCLUSION, "samples").spin, field(shown, OCCLUSION, "shown").spin
    samples.setFocus()
    samples.selectAll()
    QTest.keyClicks(samples, "3")
    QTest.keyClick(samples, Qt.Key.Key_Return)
    settle(shown, qtbot)
    assert shown.session.state.source.occlusion == OcclusionRays(samples=3)
    sample.setFocus()
    for _ in range(2):
        QTest.keyClick(sample, Qt.Key.Key_Up)
    assert shown.session.state.source.occlusion.shown == 2
    QTest.keyClick(sample, Qt.Key.Key_Up)
    assert "the samples are 0 to 2" in shown.ray_source.message.text()
    assert sample.value() == 2
    type_into(field(shown, OCCLUSION, "seed").text, "4294967295")
    type_into(field(shown, OCCLUSION, "radius").text, "0.5")
    settle(shown, qtbot)
    assert shown.session.state.source.occlusion == OcclusionRays(0.5, 3, 2, 4294967295)
    type_into(field(shown, OCCLUSION, "seed").text, "1.5")
    assert "not a whole number" in shown.ray_source.message.text()
    type_into(field(shown, OCCLUSION, "radius").text, "-1")
    assert "above 0" in shown.ray_source.message.text()
    assert shown.session.state.source.occlusion.radius == 0.5
    QTest.mouseClick(field(shown, OCCLUSION, "radius").automatic, LEFT)
    assert shown.session.state.source.occlusion.radius is None


def test_a_seed_changes_the_bounce(shown, qtbot):
    choose(shown.ray_source.source, DIFFUSE)
    settle(shown, qtbot)
    before = shown.trace_view.shown_buffer.receivers.direction
    type_into(field(shown, DIFFUSE, "seed").text, "12")
    settle(shown, qtbot)
    assert not np.array_equal(before, shown.trace_view.shown_buffer.receivers.direction)


def test_a_source_without_room_in_the_interval_says_the_rule(shown, qtbot):
    shown.session.set_interval(2.0, 9.0)
    choose_refused = shown.tool_bar.source_box
    choose_refused.setFocus()
    QTest.keyClick(choose_refused, Qt.Key.Key_Down)
    assert choose_refused.currentData() == CAMERA
    assert shown.session.state.source.kind is CAMERA
    shown.ray_source.source.setFocus()
    QTest.keyClick(shown.ray_source.source, Qt.Key.Key_Down)
    assert "RAY-2" in shown.ray_source.message.text()


def test_the_pixels_ray_or_its_camera_ray_is_logged(shown, qtbot):
    choose(shown.ray_source.source, SHADOW)
    settle(shown, qtbot)
    seen = np.argwhere(shown.trace_view.shown_buffer.receivers.has_ray)
    y, x = seen[len(seen) // 3].tolist()
    click_pixel(shown, x, y)
    qtbot.waitUntil(lambda: shown.session.log is not None and shown.is_settled, timeout=20_000)
    assert shown.session.log.source is SHADOW
    assert f"shadow ray of pixel {x},{y}" in shown.ray_log.ray.text()
    logged = shown.ray_source.logged
    assert [logged.itemText(i) for i in range(2)] == ["the pixel's shadow ray", "the camera ray it starts from"]
    choose(logged, True)
    qtbot.waitUntil(lambda: shown.session.log.source is CAMERA, timeout=20_000)
    assert shown.ray_log.ray.text().startswith(f"pixel {x},{y}")
    choose(logged, False)
    qtbot.waitUntil(lambda: shown.session.log.source is SHADOW, timeout=20_000)


def test_a_pixel_without_a_ray_says_so_in_the_read_out(culling_lab, qtbot):
    culling_lab.session.set_source(SHADOW)
    settle(culling_lab, qtbot)
    buffer = culling_lab.trace_view.shown_buffer
    y, x = np.argwhere(~buffer.receivers.has_ray)[0].tolist()
    culling_lab.trace_view.read_out.show_pixel(buffer, (x, y))
    values = culling_lab.trace_view.read_out.values
    assert values["t"].text() == "no ray"
    y, x = np.argwhere(buffer.hit)[0].tolist()
    culling_lab.trace_view.read_out.show_pixel(buffer, (x, y))
    assert values["t"].text() == t_text(float(buffer.t[y, x]))
    assert float(t_text(1.63111e-05)) == 1.63e-05
    assert t_text(0.0638693) == "0.0638693"
    assert values["Primitive"].text() == str(buffer.primitive_index[y, x])


def test_a_pixel_without_a_ray_logs_its_camera_ray_and_says_why(culling_lab, qtbot):
    culling_lab.session.set_source(DIFFUSE)
    settle(culling_lab, qtbot)
    empty = np.argwhere(~culling_lab.trace_view.shown_buffer.receivers.has_ray)
    y, x = empty[len(empty) // 2].tolist()
    click_pixel(culling_lab, x, y)
    qtbot.waitUntil(lambda: culling_lab.session.log is not None and culling_lab.is_settled, timeout=20_000)
    assert culling_lab.session.log.source is CAMERA
    text = culling_lab.ray_log.ray.text()
    assert text.startswith(f"pixel {x},{y} · the camera ray hits nothing")


# --- single rays --------------------------------------------------------------------------------------------------


def test_a_ray_is_typed_and_logged(shown, qtbot):
    origin, direction = (field(shown, SourceKind.TYPED, name) for name in ("origin", "direction"))
    type_into(origin.text, "0.1, 1, 4")
    type_into(direction.text, "0, 0, -2")
    assert shown.session.log is None, "typing alone logs nothing"
    QTest.mouseClick(shown.ray_source.log_ray, LEFT)
    qtbot.waitUntil(lambda: shown.session.log is not None, timeout=20_000)
    log = shown.session.log
    assert (log.source, log.direction) == (SourceKind.TYPED, (0.0, 0.0, -2.0))
    assert "typed ray" in shown.ray_log.ray.text()
    type_into(direction.text, "0, nan, 0")
    QTest.mouseClick(shown.ray_source.log_ray, LEFT)
    assert "RAY-3" in shown.ray_source.ray_message.text()
    assert shown.ray_source.ray_message.isVisible()
    type_into(direction.text, "up")
    assert "not of the form" in shown.ray_source.message.text()


def test_the_logged_ray_can_be_taken_further(shown, qtbot):
    pick_a_hit(shown, qtbot)
    log = shown.session.log
    origin = field(shown, SourceKind.TYPED, "origin")
    assert origin.value() == pytest.approx(log.origin)
    QTest.mouseClick(shown.ray_source.log_ray, LEFT)
    qtbot.waitUntil(lambda: shown.session.log is not log and shown.session.log.pixel is None, timeout=20_000)
    assert shown.session.log.result.t == log.result.t


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-30, 3.4e38, float("inf"), 4294967295])
def test_numbers_in_fields_read_back(value):
    radius = SOURCES[OCCLUSION].parameters[0]
    assert np.float32(parsed(radius, value_text(value))) == np.float32(value)


# --- the light in the structure view ------------------------------------------------------------------------------


def light_place(window) -> QPoint:
    view = window.structure_view.view
    return view.position_of(np.array(window.session.light_position()))


def test_the_light_is_drawn_and_only_for_shadows(shown, qtbot):
    handle = shown.structure_view.light
    assert handle.position is None
    before = image_of(shown)
    choose(shown.ray_source.source, SHADOW)
    settle(shown, qtbot)
    assert handle.position == shown.session.light_position()
    assert len(handle.mark.rows) == 1
    after = image_of(shown)
    at = light_place(shown)
    region = (slice(at.y() - 14, at.y() + 14), slice(at.x() - 14, at.x() + 14))
    assert (after[region] != before[region]).any()
    shown.session.set_scope(0)
    assert handle.position is None
    shown.session.set_scope(-1)
    assert handle.position is not None
    choose(shown.ray_source.source, CAMERA)
    settle(shown, qtbot)
    assert len(handle.mark.rows) == 0


def test_dragging_the_light_moves_it_and_the_shadow(shown, qtbot):
    choose(shown.ray_source.source, SHADOW)
    settle(shown, qtbot)
    view, session = shown.structure_view.view, shown.session
    camera, before = session.state.camera, session.light_position()
    shadows = shown.trace_view.shown_buffer.hit
    start = light_place(shown)
    QTest.mousePress(view, LEFT, pos=start)
    for step in (QPoint(-10, 5), QPoint(-40, 25), QPoint(-80, 50)):
        send_move(view, start + step, LEFT)
    QTest.mouseRelease(view, LEFT, pos=start + QPoint(-80, 50))
    settle(shown, qtbot)
    assert session.state.camera == camera, "the view did not turn"
    after = session.light_position()
    assert after != before
    moved = light_place(shown) - start
    assert abs(moved.x() + 80) <= 2
    assert abs(moved.y() - 50) <= 2
    forward = camera.basis()[2]
    assert abs((np.array(after) - before) @ forward) < 1e-9, "across the view"
    assert not np.array_equal(shadows, shown.trace_view.shown_buffer.hit)
    assert not field(shown, SHADOW, "light").automatic.isChecked()
    view_before = session.state.camera
    away = QPoint(30, view.height() - 40)
    QTest.mousePress(view, LEFT, pos=away)
    send_move(view, away + QPoint(60, 0), LEFT)
    QTest.mouseRelease(view, LEFT, pos=away + QPoint(60, 0))
    assert session.state.camera != view_before, "elsewhere the view turns"
    assert session.light_position() == after


def test_the_cursor_says_what_can_be_dragged(shown, qtbot):
    choose(shown.ray_source.source, SHADOW)
    settle(shown, qtbot)
    view = shown.structure_view.view
    send_move(view, light_place(shown), Qt.MouseButton.NoButton)
    assert view.cursor().shape() is Qt.CursorShape.SizeAllCursor
    send_move(view, QPoint(20, view.height() - 30), Qt.MouseButton.NoButton)
    assert view.cursor().shape() is Qt.CursorShape.ArrowCursor


def test_moves_across_orthographic_views_too():
    camera = Camera((0, 0, 5), (0, 0, 0), orthographic_height=2.0)
    assert moved_across(camera, 100, (0, 0, 1), 50, 0) == pytest.approx((1, 0, 1))
    assert moved_across(camera, 100, (0, 0, 1), 0, 25) == pytest.approx((0, -0.5, 1))
    assert QPointF(0, 0).manhattanLength() == 0
