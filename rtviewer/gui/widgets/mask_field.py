"""An 8-bit mask as eight buttons, bit 7 first, and a hex field."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QToolButton, QWidget

from rtviewer.gui.binding import show_checked, show_text
from rtviewer.gui.theme import monospaced


class MaskField(QWidget):
    """``edited(text_or_int)`` is the user's wish; ``show_mask`` shows what is set."""

    edited = Signal(object)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._mask = 0
        self.bits: list[QToolButton] = []
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        for bit in range(7, -1, -1):
            button = QToolButton()
            button.setText(str(bit))
            button.setCheckable(True)
            button.setProperty("role", "bit")
            button.setFont(monospaced())
            button.setAccessibleName(f"{name} bit {bit}")
            button.setToolTip(f"Bit {bit} (0x{1 << bit:02X}) of the {name.lower()}")
            button.clicked.connect(lambda on, bit=bit: self._flip(bit, on))
            layout.addWidget(button, 1)
            self.bits.insert(0, button)
        self.hex = QLineEdit()
        self.hex.setFont(monospaced())
        self.hex.setFixedWidth(58)
        self.hex.setAccessibleName(f"{name} in hex")
        self.hex.setToolTip("Hexadecimal, 0x00 to 0xFF")
        self.hex.editingFinished.connect(self._typed)
        layout.addWidget(self.hex)

    def show_mask(self, mask: int) -> None:
        self._mask = mask
        for bit, button in enumerate(self.bits):
            show_checked(button, bool(mask >> bit & 1))
        show_text(self.hex, f"0x{mask:02X}")

    def restore(self) -> None:
        """Take back what was typed."""
        with QSignalBlocker(self.hex):
            self.hex.setModified(False)
            self.hex.setText(f"0x{self._mask:02X}")

    def _flip(self, bit: int, on: bool) -> None:
        self.edited.emit(self._mask | 1 << bit if on else self._mask & ~(1 << bit))
        show_checked(self.bits[bit], bool(self._mask >> bit & 1))

    def _typed(self) -> None:
        if self.hex.isModified():
            self.hex.setModified(False)
            self.edited.emit(self.hex.text())
