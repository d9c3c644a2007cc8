"""A ray's log as a table; rows are worded when they are shown."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor, QIcon

from rtviewer.dxr.verdicts import VERDICTS, EventKind, Verdict
from rtviewer.session.raylog import LogRow, RayLog

Index = QModelIndex | QPersistentModelIndex

COLUMNS = (
    ("Step", "Order in which the events happened", True),
    ("Event", "What was met", False),
    ("Where", "TLAS or instance; then node, or geometry : primitive", False),
    ("t", "Candidate's t, or where the ray enters the box; in multiples of the ray's direction", True),
    ("End", "The ray's end when the test was made: TMax, or the closest hit so far", True),
    ("Verdict", "What became of it; one colour and icon per family", False),
    ("Rule", "Rule of the specification that decided", False),
    ("Explanation", "The same in words, with the numbers that decided", False),
)
STEP, EVENT, WHERE, T, END, VERDICT, RULE, TEXT = range(len(COLUMNS))
EVENT_WORDS = {
    EventKind.NODE_ENTERED: "node entered",
    EventKind.NODE_SKIPPED: "node skipped",
    EventKind.INSTANCE_ENTERED: "instance entered",
    EventKind.INSTANCE_SKIPPED: "instance skipped",
    EventKind.CANDIDATE: "candidate",
    EventKind.REPORT: "report",
    EventKind.REPEATED: "call repeated",
}
_FAMILY_OF_VERDICT = [VERDICTS[verdict].family for verdict in Verdict]
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


def number(value: float) -> str:
    """t or end in six digits; blank where it does not apply."""
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return f"{value:.6g}"


def place(row: LogRow) -> str:
    """Where an event happened, in a few characters."""
    outer = "TLAS" if row.level == 0 else f"instance {row.instance}"
    if row.kind in (EventKind.INSTANCE_ENTERED, EventKind.INSTANCE_SKIPPED):
        return f"instance {row.instance}"
    if row.is_candidate or row.kind is EventKind.REPEATED:
        return f"{outer} · {row.geometry}:{row.primitive}"
    return f"{outer} · node {row.box}" if row.box >= 0 else outer


class EventsModel(QAbstractTableModel):
    """Shows ``log`` filtered by kinds and verdict families."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._log: RayLog | None = None
        self._shown: NDArray[np.int64] = np.empty(0, np.int64)
        self._kinds: frozenset[EventKind] = frozenset(EventKind)
        self._families: frozenset[str] = frozenset(_FAMILY_OF_VERDICT)
        self._colours: dict[str, QColor] = {}
        self._icons: dict[str, QIcon] = {}
        self._number_font: Any = None
        self._row = lru_cache(maxsize=2048)(self._make_row)

    def set_log(self, log: RayLog | None) -> None:
        self.beginResetModel()
        self._log = log
        self._row.cache_clear()
        self._filter()
        self.endResetModel()

    def set_filter(self, kinds: frozenset[EventKind], families: frozenset[str]) -> None:
        self.beginResetModel()
        self._kinds, self._families = kinds, families
        self._filter()
        self.endResetModel()

    def set_look(self, colours: dict[str, QColor], icons: dict[str, QIcon], number_font: Any) -> None:
        """Colour and icon of each family."""
        self._colours, self._icons, self._number_font = colours, icons, number_font
        if len(self._shown):
            self.dataChanged.emit(self.index(0, 0), self.index(len(self._shown) - 1, len(COLUMNS) - 1))

    def _filter(self) -> None:
        if self._log is None:
            self._shown = np.empty(0, np.int64)
            return
        events = self._log.events
        verdicts = [v for v in Verdict if VERDICTS[v].family in self._families]
        kept = np.isin(events["kind"], [int(kind) for kind in self._kinds]) & np.isin(events["verdict"], verdicts)
        self._shown = np.flatnonzero(kept)

    def _make_row(self, event: int) -> LogRow:
        assert self._log is not None
        return self._log.row(event)

    def log_row(self, row: int) -> LogRow:
        """The event shown in a row."""
        return self._row(int(self._shown[row]))

    def row_of_event(self, event: int) -> int:
        """The row an event is shown in, -1 when it is filtered out."""
        found = np.flatnonzero(self._shown == event)
        return int(found[0]) if len(found) else -1

    def text(self) -> str:
        """All shown rows as tab-separated lines under a line of titles."""
        lines = ["\t".join(title for title, _, _ in COLUMNS)]
        for row in range(len(self._shown)):
            lines.append("\t".join(self._text(self.log_row(row), column) for column in range(len(COLUMNS))))
        return "\n".join(lines)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._shown)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(COLUMNS)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        column = index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(self.log_row(index.row()), column)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if COLUMNS[column][2] else _LEFT
        if role == Qt.ItemDataRole.FontRole and (COLUMNS[column][2] or column == RULE):
            return self._number_font
        if role == Qt.ItemDataRole.ForegroundRole and column == VERDICT:
            return self._colours.get(self.log_row(index.row()).family)
        if role == Qt.ItemDataRole.DecorationRole and column == VERDICT:
            return self._icons.get(self.log_row(index.row()).family)
        if role == Qt.ItemDataRole.ToolTipRole and column in (TEXT, VERDICT):
            row = self.log_row(index.row())
            return f"{row.text}\n[{row.rule}]"
        return None

    @staticmethod
    def _text(row: LogRow, column: int) -> str:
        if column == STEP:
            return str(row.index)
        if column == EVENT:
            indent = "  " * (min(row.depth, 12) + (0 if row.level == 0 else 1))
            return indent + EVENT_WORDS[row.kind]
        if column == WHERE:
            return place(row)
        if column == T:
            return number(row.t)
        if column == END:
            return number(row.t_current)
        if column == VERDICT:
            return "entered" if row.verdict is Verdict.NONE else VERDICTS[row.verdict].text
        return row.rule if column == RULE else row.text

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation is not Qt.Orientation.Horizontal or not 0 <= section < len(COLUMNS):
            return None
        title, tip, is_number = COLUMNS[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return title
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip
        return (_RIGHT if is_number else _LEFT) if role == Qt.ItemDataRole.TextAlignmentRole else None
