"""Which palette a heat map has, and which values get its ends: one row of controls for the state's image settings."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QIcon, QImage, QPixmap
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QHBoxLayout, QWidget

from rtviewer.gui.binding import follow, quiet, show_choice
from rtviewer.session.commands import Session
from rtviewer.session.state import ImageSettings, RangeKind, State
from rtviewer.shade.legend import scale_image
from rtviewer.shade.modes import MODES, Shaded
from rtviewer.shade.palettes import PALETTES

_TOOLTIP = Qt.ItemDataRole.ToolTipRole
PERCENTILES = (1.0, 99.0)
SWATCH = QSize(26, 11)
KINDS = (
    ("auto", RangeKind.AUTOMATIC, "The least and the greatest value in the picture (Shift+C)"),
    ("fixed", RangeKind.FIXED, "The two values beside; C takes the present ends"),
    ("percent", RangeKind.PERCENTILE, "The values at the two percentiles beside: outliers do not squeeze the palette"),
)


class RangeBar(QWidget):
    """Palette, kind of range, and its two ends."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._shown: Shaded | None = None
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(5)
        self.palette_box = QComboBox()
        self.palette_box.setAccessibleName("Palette")
        self.palette_box.setToolTip("Palette of numbers (P for the next)")
        self.palette_box.setIconSize(SWATCH)
        for name, note in PALETTES.items():
            self.palette_box.addItem(_swatch(name), name, name)
            self.palette_box.setItemData(self.palette_box.count() - 1, note, _TOOLTIP)
        self.palette_box.activated.connect(lambda _: session.set_palette(self.palette_box.currentData()))
        self.range_box = QComboBox()
        self.range_box.setAccessibleName("Range")
        self.range_box.setToolTip("Which values get the palette's ends; auto (Shift+C) follows the picture")
        for text, kind, tip in KINDS:
            self.range_box.addItem(text, kind)
            self.range_box.setItemData(self.range_box.count() - 1, tip, _TOOLTIP)
        self.range_box.activated.connect(lambda _: self._kind_chosen())
        self.low, self.high = self._end("Range low"), self._end("Range high")
        for widget in (self.palette_box, self.range_box, self.low, self.high):
            line.addWidget(widget)
        line.addStretch(1)
        follow(self, session.store, {"image"}, self._show_state)

    def _end(self, name: str) -> QDoubleSpinBox:
        box = QDoubleSpinBox()
        box.setAccessibleName(name)
        box.setToolTip(f"{name}: typing fixes the range, or moves the percentile")
        box.setButtonSymbols(QDoubleSpinBox.ButtonSymbols.NoButtons)
        box.setKeyboardTracking(False)
        box.setRange(-1e9, 1e9)
        box.setGroupSeparatorShown(True)
        box.setFixedWidth(box.fontMetrics().horizontalAdvance("0" * 7) + 10)
        box.valueChanged.connect(lambda _: self._end_typed())
        return box

    def show_shaded(self, shaded: Shaded | None) -> None:
        """The ends that the picture uses."""
        self._shown = shaded
        self._show_ends(self._session.state.image)

    def _show_state(self, state: State) -> None:
        image = state.image
        show_choice(self.palette_box, image.palette)
        show_choice(self.range_box, image.range_kind)
        self._show_ends(image)

    def _show_ends(self, image: ImageSettings) -> None:
        is_percentile = image.range_kind is RangeKind.PERCENTILE
        values = (image.range_low, image.range_high)
        if image.range_kind is RangeKind.AUTOMATIC:
            values = (self._shown.low, self._shown.high) if self._shown is not None else (0.0, 1.0)
        decimals = 1 if is_percentile else _decimals(image, *values)
        for box, value in zip((self.low, self.high), values, strict=True):
            with quiet(box):
                box.setDecimals(decimals)
                box.setSuffix(" %" if is_percentile else "")
                box.setValue(value)

    def _kind_chosen(self) -> None:
        kind = RangeKind(self.range_box.currentData())  # Qt keeps a plain str of it
        if kind is RangeKind.PERCENTILE:
            self._session.set_range(kind, *PERCENTILES)
        elif kind is RangeKind.FIXED:
            self.fix()
        else:
            self._session.set_range(kind)

    def _end_typed(self) -> None:
        kind = self._session.state.image.range_kind
        kind = kind if kind is RangeKind.PERCENTILE else RangeKind.FIXED
        if self._session.set_range(kind, self.low.value(), self.high.value()) is not None:
            self._show_state(self._session.state)  # refused: the fields go back

    def fix(self) -> None:
        """Fix the range at the ends that the picture shown uses."""
        if self._shown is not None and self._shown.mode.has_range:
            self._session.set_range(RangeKind.FIXED, self._shown.low, self._shown.high)


def _decimals(image: ImageSettings, low: float, high: float) -> int:
    """Enough digits to tell two thousandths of the range apart; none for whole ends of whole numbers."""
    if MODES[image.mode].whole and low == int(low) and high == int(high):
        return 0
    span = max(high - low, abs(high) * 1e-6, 1e-6)
    return int(np.clip(3 - np.floor(np.log10(span)), 1, 6))


def _swatch(name: str) -> QIcon:
    strip = scale_image(name, SWATCH.width(), SWATCH.height())
    image = QImage(strip.data, SWATCH.width(), SWATCH.height(), strip.strides[0], QImage.Format.Format_RGBA8888)
    return QIcon(QPixmap.fromImage(image.copy()))
