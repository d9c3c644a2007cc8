"""A ray's log as a table; rows are worded when they are shown."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor, QIcon

from rtviewer.session.log_text import COLUMNS
from rtviewer.session.raylog import LogRow, RayLog
from rtviewer.session.state import LogFilter

Index = QModelIndex | QPersistentModelIndex

STEP, EVENT, WHERE, T, END, VERDICT, RULE, TEXT = range(len(COLUMNS))
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


class EventsModel(QAbstractTableModel):
    """Shows the events of ``log`` that a filter lets through."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._log: RayLog | None = None
        self._shown: NDArray[np.int64] = np.empty(0, np.int64)
        self._filter = LogFilter()
        self._colours: dict[str, QColor] = {}
        self._icons: dict[str, QIcon] = {}
        self._number_font: Any = None
        self._row = lru_cache(maxsize=2048)(self._make_row)

    @property
    def log(self) -> RayLog | None:
        return self._log

    def set_log(self, log: RayLog | None) -> None:
        self.beginResetModel()
        self._log = log
        self._row.cache_clear()
        self._choose()
        self.endResetModel()

    def set_filter(self, within: LogFilter) -> None:
        if within == self._filter:
            return
        self.beginResetModel()
        self._filter = within
        self._choose()
        self.endResetModel()

    def set_look(self, colours: dict[str, QColor], icons: dict[str, QIcon], number_font: Any) -> None:
        """Colour and icon of each family."""
        self._colours, self._icons, self._number_font = colours, icons, number_font
        if len(self._shown):
            self.dataChanged.emit(self.index(0, 0), self.index(len(self._shown) - 1, len(COLUMNS) - 1))

    def _choose(self) -> None:
        self._shown = np.empty(0, np.int64) if self._log is None else self._log.playback.shown(self._filter)

    def _make_row(self, event: int) -> LogRow:
        assert self._log is not None
        return self._log.row(event)

    def log_row(self, row: int) -> LogRow:
        """The event shown in a row."""
        return self._row(int(self._shown[row]))

    def event_of(self, row: int) -> int:
        """The position in the log of what a row shows."""
        return int(self._shown[row])

    def row_of_event(self, event: int) -> int:
        """The row an event is shown in, -1 when it is filtered out."""
        row = int(np.searchsorted(self._shown, event))
        return row if row < len(self._shown) and self._shown[row] == event else -1

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._shown)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(COLUMNS)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        column = index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return COLUMNS[column].text(self.log_row(index.row()))
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if COLUMNS[column].is_number else _LEFT
        if role == Qt.ItemDataRole.FontRole and (COLUMNS[column].is_number or column == RULE):
            return self._number_font
        if role == Qt.ItemDataRole.ForegroundRole and column == VERDICT:
            return self._colours.get(self.log_row(index.row()).family)
        if role == Qt.ItemDataRole.DecorationRole and column == VERDICT:
            return self._icons.get(self.log_row(index.row()).family)
        if role == Qt.ItemDataRole.ToolTipRole and column in (TEXT, VERDICT):
            row = self.log_row(index.row())
            return f"{row.text}\n[{row.rule}]"
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation is not Qt.Orientation.Horizontal or not 0 <= section < len(COLUMNS):
            return None
        column = COLUMNS[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.tip
        return (_RIGHT if column.is_number else _LEFT) if role == Qt.ItemDataRole.TextAlignmentRole else None
