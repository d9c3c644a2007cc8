"""An edit for one parameter of a ray source, made from its row in the table of sources."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QSpinBox, QToolButton, QWidget

from rtviewer.gui.binding import quiet
from rtviewer.gui.theme import monospaced
from rtviewer.scene.ray_sources import Parameter, ParameterKind

MAX_SPIN = 2**31 - 1


def number_text(value: float) -> str:
    """The shortest digits that read back to the same float32; a whole number beyond as it is."""
    return str(value) if isinstance(value, int) else str(np.float32(value)).removesuffix(".0")


def value_text(value: Any) -> str:
    """Three numbers with commas, or one."""
    return ", ".join(number_text(v) for v in value) if isinstance(value, tuple) else number_text(value)


def parsed(parameter: Parameter, text: str) -> Any:
    """What the user typed; None for the automatic value. ValueError with a sentence when it is not of the form."""
    words = text.replace(",", " ").replace(";", " ").strip("()[] ").split()
    if not words and parameter.automatic:
        return None
    count = 3 if parameter.kind in (ParameterKind.POSITION, ParameterKind.DIRECTION) else 1
    form = "x, y, z" if count == 3 else "a number"
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        raise ValueError(f"{parameter.label}: {text.strip()[:40]!r} is not of the form {form}")
    if parameter.kind is not ParameterKind.COUNT:
        return tuple(numbers) if count == 3 else numbers[0]
    if not (math.isfinite(numbers[0]) and numbers[0] == int(numbers[0])):
        raise ValueError(f"{parameter.label}: {text.strip()[:40]!r} is not a whole number")
    return int(numbers[0])


class ParameterField(QWidget):
    """``edited(value)`` when the user finished an edit, ``refused(sentence)`` when it is not of the form.

    A small count is a spin box, everything else a line; a parameter with an automatic value has a button for it.
    """

    edited = Signal(object)
    refused = Signal(str)

    def __init__(self, parameter: Parameter, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.parameter = parameter
        self._shown = ""
        tip = f"{parameter.tip[0].upper()}{parameter.tip[1:]}"
        if parameter.automatic:
            tip += f". Empty: {parameter.automatic}"
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        self.spin: QSpinBox | None = None
        self.text: QLineEdit | None = None
        if parameter.kind is ParameterKind.COUNT and parameter.high <= MAX_SPIN:
            self.spin = QSpinBox()
            self.spin.setRange(parameter.low, parameter.high)
            self.spin.setKeyboardTracking(False)
            self.spin.valueChanged.connect(lambda value: self.edited.emit(value))
        else:
            self.text = QLineEdit()
            self.text.editingFinished.connect(self._typed)
        control = self.spin or self.text
        assert control is not None
        control.setFont(monospaced())
        control.setAccessibleName(parameter.label)
        control.setToolTip(tip)
        line.addWidget(control, 1)
        self.automatic = QToolButton()
        self.automatic.setText("Auto")
        self.automatic.setCheckable(True)
        self.automatic.setAutoRaise(True)
        self.automatic.setAccessibleName(f"{parameter.label} by itself")
        self.automatic.setToolTip(f"{parameter.label}: {parameter.automatic}")
        self.automatic.clicked.connect(self._automatic_clicked)
        self.automatic.setVisible(bool(parameter.automatic))
        line.addWidget(self.automatic)

    def show_value(self, value: Any, resolved: Any) -> None:
        """Show a value; None as what it stands for (``resolved``), with the button down."""
        with quiet(self.automatic):
            self.automatic.setChecked(value is None)
        shown = resolved if value is None else value
        if self.spin is not None:
            with quiet(self.spin):
                self.spin.setValue(int(shown))
        elif self.text is not None and not (self.text.hasFocus() and self.text.isModified()):
            self._shown = value_text(shown)
            with quiet(self.text):
                self.text.setText(self._shown)
                self.text.setModified(False)
                self.text.setCursorPosition(0)

    def value(self) -> Any:
        """What stands in the field now. ValueError as in :func:`parsed`."""
        if self.spin is not None:
            return self.spin.value()
        assert self.text is not None
        return parsed(self.parameter, self.text.text())

    def restore(self) -> None:
        """Go back to what was last shown."""
        if self.text is not None:
            with quiet(self.text):
                self.text.setText(self._shown)
                self.text.setModified(False)

    def _typed(self) -> None:
        assert self.text is not None
        if not self.text.isModified():
            return
        self.text.setModified(False)
        try:
            value = self.value()
        except ValueError as error:
            self.restore()
            self.refused.emit(str(error))
        else:
            self.edited.emit(value)

    def _automatic_clicked(self, on: bool) -> None:
        try:
            self.edited.emit(None if on else self.value())
        except ValueError as error:
            self.refused.emit(str(error))
