"""One flag: a check box with the specification's name, and below it its meaning or the rule that refused it."""

from __future__ import annotations

from enum import IntFlag

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QCheckBox, QLabel, QVBoxLayout, QWidget

from rtviewer.gui.binding import show_checked


def flag_tip(flag: IntFlag) -> str:
    """Tooltip of a flag: meaning, rule, value, and Vulkan's name where it differs."""
    meaning = flag.meaning  # type: ignore[attr-defined]
    vulkan = f"\nVulkan: {meaning.vulkan}" if meaning.vulkan else "\nVulkan: same name"
    return f"{flag.name} = 0x{int(flag):X}\n{meaning.text}.\nRule {meaning.rule}{vulkan}"


class FlagRow(QWidget):
    """``toggled(flag, on)`` says what the user wants; what is shown comes only from ``show_state``."""

    toggled = Signal(object, bool)

    def __init__(self, flag: IntFlag, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.flag = flag
        self._on = False
        meaning = flag.meaning  # type: ignore[attr-defined]
        self.box = QCheckBox(str(flag.name))
        self.box.setAccessibleName(str(flag.name))
        self.box.setAccessibleDescription(meaning.text)
        self.box.setToolTip(flag_tip(flag))
        self.box.clicked.connect(self._clicked)
        self.note = QLabel(meaning.text)
        self.note.setWordWrap(True)
        self.note.setTextFormat(Qt.TextFormat.PlainText)
        self.note.setToolTip(flag_tip(flag))
        small = QFont(self.note.font())
        small.setPointSizeF(max(small.pointSizeF() - 1.0, 7.0))
        self.note.setFont(small)
        self.note.setContentsMargins(22, 0, 4, 0)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 3, 2, 3)
        layout.setSpacing(0)
        layout.addWidget(self.box)
        layout.addWidget(self.note)
        self._set_note("muted", meaning.text)

    def show_state(self, on: bool, unavailable: str = "", conflict: str = "") -> None:
        """``unavailable``: why the profile has it not (disables it); ``conflict``: the rule it would break."""
        self._on = on
        show_checked(self.box, on)
        self.box.setEnabled(not unavailable)
        tip = flag_tip(self.flag) + (f"\n\nNow: {conflict or unavailable}" if conflict or unavailable else "")
        self.box.setToolTip(tip)
        self.note.setToolTip(tip)
        self._set_note("muted", unavailable or self.flag.meaning.text)  # type: ignore[attr-defined]

    def refuse(self, sentence: str) -> None:
        """Show why the wish was not granted; the box goes back to what is set."""
        show_checked(self.box, self._on)
        self._set_note("refusal", sentence)

    @property
    def refusal(self) -> str:
        """The sentence shown, empty when nothing was refused."""
        return self.note.text() if self.note.property("role") == "refusal" else ""

    def _clicked(self, on: bool) -> None:
        self.toggled.emit(self.flag, on)
        show_checked(self.box, self._on)  # what is set is what the state says

    def _set_note(self, role: str, text: str) -> None:
        if self.note.text() != text:
            self.note.setText(text)
        if self.note.property("role") != role:
            self.note.setProperty("role", role)
            self.note.style().unpolish(self.note)
            self.note.style().polish(self.note)
