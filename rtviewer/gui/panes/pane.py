"""What every pane is given, and the base that re-tints itself when the theme changes."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from rtviewer.gui.theme import Appearance, Theme
from rtviewer.gui.worker import Background
from rtviewer.session.commands import Session

STRIP_HEIGHT = 34
"""Pixels of the strip below each of the two views: equal, so that the views are."""


@dataclass(frozen=True)
class PaneContext:
    session: Session
    appearance: Appearance
    background: Background


class Pane(QWidget):
    """``name`` is the dock's object name, ``title`` its caption."""

    name = ""
    title = ""

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = context.session
        self.appearance = context.appearance
        self.background = context.background
        self.setObjectName(f"{self.name}_pane")
        self.setAccessibleName(self.title)

    def follow_theme(self) -> None:
        """Call at the end of a subclass's constructor: ``retint`` now and on every change."""
        self.appearance.changed.connect(self.retint)
        self.retint(self.appearance.theme)

    def retint(self, theme: Theme) -> None:
        """Take colours and icons from ``theme``."""


def label(text: str = "", role: str = "", tip: str = "", *, wrap: bool = False) -> QLabel:
    """A label with a role of the style sheet: ``muted``, ``heading``, ``empty``, ``refusal``."""
    made = QLabel(text)
    made.setProperty("role", role)
    made.setToolTip(tip)
    made.setWordWrap(wrap)
    made.setTextFormat(Qt.TextFormat.PlainText)
    if role == "empty":
        made.setAlignment(Qt.AlignmentFlag.AlignCenter)
    return made
