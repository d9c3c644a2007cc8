"""The log of the picked ray: every event with a verdict, a bar to step through them, the stack, and "why not this?"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from PySide6.QtCore import QModelIndex, QSize, Qt
from PySide6.QtGui import QAction, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QMenu,
    QSplitter,
    QStackedLayout,
    QTableView,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from rtviewer.dxr.verdicts import EventKind
from rtviewer.gui.binding import follow, listen, quiet, show_checked
from rtviewer.gui.log_player import DEFAULT_SPEED, SPEEDS, LogPlayer
from rtviewer.gui.models.events import END, RULE, EventsModel
from rtviewer.gui.models.ray_source import RaySource
from rtviewer.gui.panes.expected_line import ExpectedLine
from rtviewer.gui.panes.log_stack import WIDTH as STACK_WIDTH
from rtviewer.gui.panes.log_stack import LogStack
from rtviewer.gui.panes.pane import Pane, PaneContext, label
from rtviewer.gui.theme import FAMILIES, FAMILY_ICONS, FAMILY_WORDS, Theme, monospaced
from rtviewer.gui.widgets.elided_label import ElidedLabel
from rtviewer.gui.widgets.table import LAST_WIDTH, fit_columns, make_table
from rtviewer.gui.widgets.transport import TransportBar
from rtviewer.session.events import LogChanged
from rtviewer.session.log_text import LogFormat, log_as, number_text
from rtviewer.session.playback import Stop, StopAt
from rtviewer.session.raylog import RayLog
from rtviewer.session.state import State

NODES = frozenset((EventKind.NODE_ENTERED, EventKind.NODE_SKIPPED))
INSTANCES = frozenset((EventKind.INSTANCE_ENTERED, EventKind.INSTANCE_SKIPPED))
CANDIDATES = frozenset((EventKind.CANDIDATE, EventKind.REPORT, EventKind.REPEATED))
KIND_CHOICES = (
    ("All events", frozenset(EventKind)),
    ("Candidates", CANDIDATES),
    ("Instances and candidates", INSTANCES | CANDIDATES),
    ("Instances", INSTANCES),
    ("Nodes", NODES),
    ("Reports", frozenset((EventKind.REPORT,))),
)
COPY_CHOICES = ((LogFormat.TEXT, "Copy as text"), (LogFormat.CSV, "Copy as CSV"), (LogFormat.JSON, "Copy as JSON"))
SPARE_COLUMNS = (END, RULE)
"""Of the event one stands on they are told above and below the table, of all others by tooltips."""
WIDEST = 125
"""Pixels of a column but the last one's, so that the stack has room beside the table."""
EMPTY = "No ray is picked.\nClick a pixel of the Trace view to see what its ray met, hit by hit."


def _told(log: RayLog, position: int) -> str:
    """The sentence of the event one stands on, or of the whole log its result."""
    if position >= 0:
        row = log.row(position)
        return f"{row.text} [{row.rule}]"
    return log.result_text() + (" The log is cut short." if log.truncated else "")


class LogTable(QTableView):
    """Keeps the event one stands on in view, and hides what is told elsewhere where there is no room."""

    def __init__(self) -> None:
        super().__init__()
        self._widths: list[int] = []

    def fit(self) -> None:
        """Columns as wide as the first rows need."""
        for column in SPARE_COLUMNS:
            self.setColumnHidden(column, False)
        fit_columns(self, WIDEST)
        self.setColumnWidth(END, max(self.columnWidth(END), 70))
        self._widths = [self.columnWidth(column) for column in range(self.model().columnCount() - 1)]
        self._spare()

    def _spare(self) -> None:
        needed = sum(self._widths) + LAST_WIDTH
        for column in SPARE_COLUMNS:
            is_spared = bool(self._widths) and needed > self.viewport().width()
            self.setColumnHidden(column, is_spared)
            needed -= self._widths[column] if is_spared else 0

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._spare()
        if self.currentIndex().isValid():
            self.scrollTo(self.currentIndex(), self.ScrollHint.PositionAtCenter)


class RayLogPane(Pane):
    name = "ray_log"
    title = "Ray log"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._source = RaySource()
        self._copying = context.make_background()
        self.player = LogPlayer(self, self.session)
        self.model = EventsModel(self)
        self.table = LogTable()
        make_table(self.model, "Ray log", sortable=False, view=self.table)
        self.table.setIconSize(QSize(14, 14))
        self.table.selectionModel().currentRowChanged.connect(self._row_chosen)
        self.result = label("", wrap=True)
        self.result.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.ray = ElidedLabel()
        self.ray.setFont(monospaced(-1))
        self.transport = TransportBar(SPEEDS, DEFAULT_SPEED)
        self.transport.speed_chosen.connect(self.player.set_speed)
        self.log_stack = LogStack()
        self.expected = ExpectedLine(self.session)
        self.empty = label(EMPTY, "empty")
        self.stack = QStackedLayout(self)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(self._content())
        listen(self, self.session, {LogChanged: self._changed})
        self.follow_theme()
        self._changed(LogChanged(self.session.log))
        follow(self, self.session.store, {"log_filter"}, self._show_filter)
        follow(self, self.session.store, {"log_position", "log_filter"}, self._show_position)
        follow(self, self.session.store, {"expected"}, lambda _: self._show_explanation())

    # Making

    def _content(self) -> QWidget:
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(self._filters())
        column.addWidget(self.transport)
        self.splitter = QSplitter(Qt.Orientation.Horizontal)
        self.splitter.setHandleWidth(5)
        self.splitter.addWidget(self.table)
        self.splitter.addWidget(self.log_stack)
        self.splitter.setStretchFactor(0, 1)
        self.log_stack.hide()
        column.addWidget(self.splitter, 1)
        footer = QVBoxLayout()
        footer.setContentsMargins(8, 2, 8, 4)
        footer.setSpacing(1)
        footer.addWidget(self.expected)
        footer.addWidget(self.result)
        column.addLayout(footer)
        return content

    def _filters(self) -> QHBoxLayout:
        line = QHBoxLayout()
        line.setContentsMargins(8, 4, 8, 0)
        self.kinds = QComboBox()
        self.kinds.setAccessibleName("Kinds of event shown")
        self.kinds.setToolTip("Kinds of event shown, stepped through and copied")
        for text, kinds in KIND_CHOICES:
            self.kinds.addItem(text, kinds)
        self.kinds.currentIndexChanged.connect(lambda _: self._refilter())
        line.addWidget(self.kinds)
        self.families: dict[str, QToolButton] = {}
        for family in FAMILIES:
            button = QToolButton()
            button.setText(family)
            button.setCheckable(True)
            button.setChecked(True)
            button.setAutoRaise(True)
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
            button.setIconSize(QSize(14, 14))
            button.setToolTip(f"Show or hide: {FAMILY_WORDS[family]}")
            button.setAccessibleName(f"Show {family}")
            button.clicked.connect(lambda _: self._refilter())
            self.families[family] = button
            line.addWidget(button)
        line.addWidget(self.ray, 1)
        line.addWidget(self._copy_button())
        return line

    def _copy_button(self) -> QToolButton:
        self.copy = QToolButton()
        self.copy.setAutoRaise(True)
        self.copy.setToolTip(
            "Copy the shown events with the ray and its result: as text, or from the arrow as CSV or JSON"
        )
        self.copy.setAccessibleName("Copy ray log")
        self.copy.setPopupMode(QToolButton.ToolButtonPopupMode.MenuButtonPopup)
        self.copy.clicked.connect(lambda: self.copy_log(LogFormat.TEXT))
        menu = QMenu(self.copy)
        for form, text in COPY_CHOICES:
            menu.addAction(text).triggered.connect(lambda _=False, form=form: self.copy_log(form))
        self.copy.setMenu(menu)
        return self.copy

    def commands(self) -> dict[str, Callable[[], Any]]:
        """By the ids of the action table."""
        step = self.session.step_log

        def both(name: str, stop: StopAt) -> dict[str, Callable[[], Any]]:
            return {
                f"log_next_{name}": lambda: step(stop),
                f"log_previous_{name}": lambda: step(stop, backwards=True),
            }

        return {
            "log_play": self.player.toggle,
            "log_step": step,
            "log_back": lambda: step(backwards=True),
            "log_first": lambda: (self.session.seek_log(-1), step()),
            "log_last": lambda: (self.session.seek_log(-1), step(backwards=True)),
            "log_whole": lambda: self.session.seek_log(-1),
            "log_next": lambda: step(self.transport.stop),
            "log_previous": lambda: step(self.transport.stop, backwards=True),
            **both("candidate", Stop.CANDIDATE),
            **both("instance", Stop.INSTANCE),
            **both("commit", Stop.COMMIT),
            "copy_log": lambda: self.copy_log(LogFormat.TEXT),
            "why_not": self.session.expect_selected,
        }

    def set_actions(self, action: Callable[[str], QAction]) -> None:
        """Give the buttons their actions of the table."""
        self.transport.set_actions(action)
        self.expected.set_actions(action)
        play = action("log_play")
        play.setCheckable(True)
        play.triggered.connect(lambda _=False: play.setChecked(self.player.is_playing))
        self.player.changed.connect(play.setChecked)

    # The log

    def copy_log(self, form: LogFormat) -> None:
        """Put the shown events on the clipboard, as soon as they are worded: a long log takes seconds."""
        log = self.session.log
        if log is None:
            return
        shown = log.playback.shown(self.session.state.log_filter)

        def done(text: str) -> None:
            self.copy.setEnabled(True)
            QGuiApplication.clipboard().setText(text)

        def failed(error: Exception) -> None:
            self.copy.setEnabled(True)
            raise error

        self.copy.setEnabled(False)
        self._copying.run(lambda: log_as(log, form, shown), done, failed)

    def _changed(self, event: LogChanged) -> None:
        log = event.log
        self.stack.setCurrentIndex(0 if log is None else 1)
        if log is None:
            self.model.set_log(None)
            return
        self.ray.setText(f"{self._source.words(log)} · {len(log):,} {'x-ray ' if log.x_ray else ''}events")
        self.ray.setToolTip(self.session.ray_desc_text())
        if log.is_same_walk(self.model.log):
            return  # the same ray, known by another name
        self.model.set_log(log)
        self.transport.set_verdicts(log.playback.verdicts())
        self.table.fit()
        self._show_position(self.session.state)
        self._show_explanation()

    def _show_explanation(self) -> None:
        self.expected.show_explanation(self.session.explanation)

    def _show_position(self, state: State) -> None:
        """Stand on the event stepped to; of the whole log, on the last accepted one."""
        log = self.session.log
        if log is None or not log.is_same_walk(self.model.log):
            return
        playback, position = log.playback, state.log_position
        self.transport.show_position(position, len(log), number_text(playback.ray_end(position)))
        self.log_stack.show_entries(playback.stack(position))
        self._show_stack(position >= 0)
        self.result.setText(_told(log, position))
        self.result.setToolTip("" if position < 0 else log.result_text())
        last = playback.commits[-1:] if position < 0 else np.array([position])
        self._stand_on(self.model.row_of_event(int(last[0])) if len(last) else -1)

    def _show_stack(self, on: bool) -> None:
        """Beside the table while one steps; the whole log has the room for its sentences."""
        if self.log_stack.isHidden() == on:
            self.log_stack.setVisible(on)
            if on:
                self.splitter.setSizes([max(self.splitter.width() - STACK_WIDTH, STACK_WIDTH), STACK_WIDTH])

    def _stand_on(self, row: int) -> None:
        """Select a row without telling the session, which knows."""
        if row == self.table.currentIndex().row():
            return
        with quiet(self.table.selectionModel()):
            self.table.setCurrentIndex(self.model.index(row, 0) if row >= 0 else QModelIndex())
        if row >= 0:
            self.table.scrollTo(self.model.index(row, 0), self.table.ScrollHint.PositionAtCenter)
        self.table.viewport().update()

    def _show_filter(self, state: State) -> None:
        self.model.set_filter(state.log_filter)
        with quiet(self.kinds):
            choices = [kinds for _, kinds in KIND_CHOICES]  # Qt finds no frozenset
            kinds = state.log_filter.kinds
            self.kinds.setCurrentIndex(choices.index(kinds) if kinds in choices else -1)
        for family, button in self.families.items():
            show_checked(button, family in state.log_filter.families)

    def _refilter(self) -> None:
        shown = {family for family, button in self.families.items() if button.isChecked()}
        self.session.set_log_filter(self.kinds.currentData(), shown)

    def _row_chosen(self, current: QModelIndex, _: QModelIndex) -> None:
        if current.isValid():
            self.player.stop()
            self.session.seek_log(self.model.event_of(current.row()))

    def retint(self, theme: Theme) -> None:
        colours = {family: self.appearance.family_colour(family) for family in FAMILIES}
        icons = {family: self.appearance.icon(FAMILY_ICONS[family], theme.families[family]) for family in FAMILIES}
        self.model.set_look(colours, icons, monospaced())
        for family, button in self.families.items():
            button.setIcon(icons[family])
        self.copy.setIcon(self.appearance.icon("mdi6.content-copy"))
