"""A message over the views that stays until it is dismissed: what went wrong, while what was open stays open."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QToolButton, QWidget

from rtviewer.errors import RtviewerError
from rtviewer.gui.theme import Appearance, Theme

LONGEST = 600
"""Characters shown; the rest is in the copied text."""


class Banner(QFrame):
    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "banner")
        self._appearance = appearance
        self._full = ""
        self.icon = QLabel()
        self.text = QLabel()
        self.text.setWordWrap(True)
        self.text.setTextFormat(Qt.TextFormat.PlainText)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.copy, self.close_button = QToolButton(), QToolButton()
        for button, tip, call in (
            (self.copy, "Copy the whole message", lambda: QGuiApplication.clipboard().setText(self._full)),
            (self.close_button, "Dismiss", self.dismiss),
        ):
            button.setAutoRaise(True)
            button.setToolTip(tip)
            button.setAccessibleName(tip)
            button.clicked.connect(call)
        line = QHBoxLayout(self)
        line.setContentsMargins(10, 6, 6, 6)
        line.addWidget(self.icon)
        line.addWidget(self.text, 1)
        line.addWidget(self.copy)
        line.addWidget(self.close_button)
        self.hide()
        appearance.changed.connect(self._retint)
        self._retint(appearance.theme)

    def show_error(self, error: BaseException, details: str = "") -> None:
        """Ours speak for themselves; anything else is named as a fault of the program."""
        sentence = str(error) if isinstance(error, RtviewerError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, RtviewerError):
            sentence = f"Something went wrong inside rtviewer; the session goes on. {sentence}"
        self.show_text(sentence, details)

    def show_text(self, sentence: str, details: str = "") -> None:
        """A sentence, and more for whoever copies it: a refusal, or an error."""
        self._full = f"{sentence}\n{details}" if details else sentence
        self.text.setText(sentence if len(sentence) <= LONGEST else sentence[: LONGEST - 1] + "…")
        self.show()

    def dismiss(self) -> None:
        self.hide()

    def _retint(self, theme: Theme) -> None:
        self.icon.setPixmap(self._appearance.icon("mdi6.alert-circle-outline", theme.error).pixmap(18, 18))
        self.copy.setIcon(self._appearance.icon("mdi6.content-copy"))
        self.close_button.setIcon(self._appearance.icon("mdi6.close"))
