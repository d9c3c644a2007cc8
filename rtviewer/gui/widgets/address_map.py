"""The simulated address space as a strip: one block a structure, in order of address, to scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QHelpEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from rtviewer.gui.theme import Theme

LEAST = 3.0
"""Pixels that the smallest block still has."""
HEIGHT = 30


@dataclass(frozen=True)
class Allocation:
    """``kind``: ``top``, ``bottom`` or ``copy``. ``structure``: index in the world, -1 the top level."""

    name: str
    address: int
    size: int
    kind: str
    structure: int
    copy_number: int = -1

    @property
    def end(self) -> int:
        return self.address + self.size


class AddressMap(QWidget):
    """``chosen(row)`` tells which allocation was clicked; ``set_marked`` outlines one."""

    chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Address map")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.allocations: tuple[Allocation, ...] = ()
        self._marked = -1
        self._referenced: frozenset[int] = frozenset()
        self._theme: Theme | None = None

    def set_allocations(self, allocations: Sequence[Allocation]) -> None:
        """In order of address."""
        self.allocations = tuple(allocations)
        self._marked = -1
        self.update()

    def set_marked(self, row: int, referenced: frozenset[int] = frozenset()) -> None:
        """Outline one allocation, and underline those it refers to."""
        self._marked, self._referenced = row, referenced
        self.update()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(400, HEIGHT)

    def blocks(self) -> list[QRectF]:
        """Where each allocation is painted: widths in proportion to sizes, none below ``LEAST``."""
        total = sum(allocation.size for allocation in self.allocations)
        room = self.width() - LEAST * len(self.allocations)
        left, found = 0.0, []
        for allocation in self.allocations:
            width = LEAST + max(room, 0.0) * allocation.size / (total or 1)
            found.append(QRectF(left, 2, width, HEIGHT - 8))
            left += width
        return found

    def row_at(self, x: float) -> int:
        for row, block in enumerate(self.blocks()):
            if block.left() <= x < block.right():
                return row
        return -1

    def paintEvent(self, event: QPaintEvent) -> None:
        theme = self._theme
        if theme is None:
            return
        painter = QPainter(self)
        colours = {
            "top": QColor(theme.accent),
            "bottom": QColor(theme.families["accepted"]),
            "copy": QColor(theme.families["interval"]),
        }
        for row, (allocation, block) in enumerate(zip(self.allocations, self.blocks(), strict=True)):
            inner = block.adjusted(0, 0, -1, 0)
            colour = colours[allocation.kind]
            colour.setAlpha(210 if row % 2 else 150)
            painter.fillRect(inner, colour)
            if row == self._marked:
                painter.setPen(QColor(theme.text))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(inner.adjusted(0.5, 0.5, -0.5, -0.5))
            if row in self._referenced:
                painter.fillRect(QRectF(inner.left(), HEIGHT - 5, inner.width(), 3), QColor(theme.text))
            name = painter.fontMetrics().elidedText(
                allocation.name, Qt.TextElideMode.ElideRight, int(inner.width()) - 8
            )
            if len(name) > 1:
                painter.setPen(QColor(theme.text))
                painter.drawText(inner.adjusted(4, 0, -4, 0), Qt.AlignmentFlag.AlignVCenter, name)
        painter.end()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        row = self.row_at(event.position().x())
        if row >= 0:
            self.chosen.emit(row)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip:
            assert isinstance(event, QHelpEvent)
            row = self.row_at(event.pos().x())
            if row >= 0:
                what = self.allocations[row]
                QToolTip.showText(event.globalPos(), f"{what.name}: 0x{what.address:X} to 0x{what.end:X}", self)
            return True
        return super().event(event)
