"""The line that answers "why not this?" about what is selected, and leads to the event that decided."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from rtviewer.gui.panes.pane import label
from rtviewer.session.commands import Session
from rtviewer.session.expected import Explanation

HINT = "Select an instance or primitive in a view, tree or table, then ask what became of it."


class ExpectedLine(QWidget):
    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._events: tuple[int, ...] = ()
        self.ask = QToolButton()
        self.ask.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.sentence = label(HINT, "muted", wrap=True)
        self.sentence.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.evidence = QToolButton()
        self.evidence.setAutoRaise(True)
        self.evidence.setAccessibleName("Go to the deciding event")
        self.evidence.clicked.connect(self._go)
        self.forget = QToolButton()
        self.forget.setAutoRaise(True)
        self.forget.setText("×")
        self.forget.setAccessibleName("Forget what was expected")
        self.forget.setToolTip("Ask about nothing any more")
        self.forget.clicked.connect(session.expect_nothing)
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.addWidget(self.ask)
        line.addWidget(self.sentence, 1)
        line.addWidget(self.evidence)
        line.addWidget(self.forget)
        self.show_explanation(None)

    def set_actions(self, action: Callable[[str], QAction]) -> None:
        self.ask.setDefaultAction(action("why_not"))

    def show_explanation(self, explanation: Explanation | None) -> None:
        """The sentence, with a button for its first event; a hint where nothing is asked."""
        self._events = explanation.events if explanation else ()
        self.sentence.setText(explanation.sentence if explanation else HINT)
        role = "" if explanation else "muted"
        if self.sentence.property("role") != role:
            self.sentence.setProperty("role", role)
            self.sentence.style().polish(self.sentence)
        self.evidence.setVisible(bool(self._events))
        self.forget.setVisible(explanation is not None)
        if self._events:
            self.evidence.setText(f"event {self._events[0]:,}")
            listed = ", ".join(f"{event:,}" for event in self._events[:8])
            more = ", …" if len(self._events) > 8 else ""
            self.evidence.setToolTip(f"Go to the event that decided. Evidence: {listed}{more}")

    def _go(self) -> None:
        if self._events:
            self._session.seek_log(self._events[0])
