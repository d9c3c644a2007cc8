"""A table over column arrays: no object per row, sorting by a permutation that keeps the selection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

Index = QModelIndex | QPersistentModelIndex

_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True)
class Column:
    """``values`` (n,) of anything sortable; ``text`` makes what is shown of one value. ``numeric`` columns are aligned
    right and set in the fixed-pitch face."""

    title: str
    values: NDArray[Any]
    tip: str = ""
    text: Callable[[Any], str] = str
    numeric: bool = True


class NumpyTableModel(QAbstractTableModel):
    """Rows of ``columns``, in the order of the last sort. ``source_row`` and ``view_row`` translate."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._columns: list[Column] = []
        self._order: NDArray[np.int64] = np.empty(0, np.int64)
        self._number_font: Any = None
        self.explains_rows = False
        """Whether a row's tooltip lists all its values: for tables that hide columns."""

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Show other rows. All columns have one length; ValueError otherwise."""
        lengths = {len(column.values) for column in columns}
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")
        self.beginResetModel()
        self._columns = list(columns)
        self._order = np.arange(lengths.pop() if lengths else 0)
        self.endResetModel()

    def set_number_font(self, font: Any) -> None:
        self._number_font = font

    def source_row(self, row: int) -> int:
        return int(self._order[row])

    def view_row(self, source_row: int) -> int:
        """-1 when there is no such row."""
        found = np.flatnonzero(self._order == source_row)
        return int(found[0]) if len(found) else -1

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._order)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.DisplayRole:
            column = self._columns[index.column()]
            return column.text(column.values[self._order[index.row()]])
        if role == Qt.ItemDataRole.ToolTipRole and self.explains_rows:
            row = self._order[index.row()]
            return "\n".join(f"{column.title}: {column.text(column.values[row])}" for column in self._columns)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if self._columns[index.column()].numeric else _LEFT
        if role == Qt.ItemDataRole.FontRole and self._columns[index.column()].numeric:
            return self._number_font
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation is not Qt.Orientation.Horizontal or not 0 <= section < len(self._columns):
            return None
        column = self._columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.tip or column.title
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if column.numeric else _LEFT
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        if not 0 <= column < len(self._columns):
            return
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        rows = [self.source_row(index.row()) for index in before]
        permutation = np.argsort(self._columns[column].values, kind="stable")
        if order is Qt.SortOrder.DescendingOrder:
            permutation = permutation[::-1]
        self._order = permutation.astype(np.int64)
        place = np.empty_like(self._order)
        place[self._order] = np.arange(len(self._order))
        after = [self.index(int(place[row]), index.column()) for row, index in zip(rows, before, strict=True)]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()
