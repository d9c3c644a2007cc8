"""What every pane is given, and the base that re-tints itself when the theme changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
    make_background: Callable[[], Background]
    """Another thread for a pane's own work, ended with the window."""


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


class ComputedPane(Pane):
    """A pane whose contents take time: made off this thread, and only while somebody can see them.

    ``request`` says what is asked for (None: nothing is open), ``compute`` makes it on any thread, ``show_contents``
    shows it (or emptiness), ``show_failure`` the error instead.
    """

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._own = context.make_background()
        self._is_stale = True
        self._is_seen = False
        self._newest = 0

    def invalidate(self) -> None:
        """What is shown is out of date: make it anew, now or when the pane is next seen."""
        self._is_stale = True
        if self._is_seen:
            self._refresh()

    def set_seen(self, is_seen: bool) -> None:
        """Told by the dock: a pane behind another tab counts as visible for Qt."""
        self._is_seen = is_seen
        if is_seen and self._is_stale:
            self._refresh()

    def _refresh(self) -> None:
        self._is_stale = False
        self._newest += 1
        number, request = self._newest, self.request()
        if request is None:
            self.show_contents(None)
            return

        def done(contents: Any) -> None:
            if number == self._newest:
                self.show_contents(contents)

        def failed(error: Exception) -> None:
            if number == self._newest:
                self.show_failure(error)

        self._own.run(lambda: self.compute(request), done, failed)

    def request(self) -> Any:
        raise NotImplementedError

    @staticmethod
    def compute(request: Any) -> Any:
        raise NotImplementedError

    def show_contents(self, contents: Any) -> None:
        raise NotImplementedError

    def show_failure(self, error: Exception) -> None:
        raise NotImplementedError


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
