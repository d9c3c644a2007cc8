"""What a hand does with the mouse in the two views, and what is then on the screen."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from rtviewer.gui.screenshot import pixel_to_pick

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
