"""The list of rays as a table. Sorting and filtering are asked for, not done here: a million rays take their time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QModelIndex, QObject, Qt, Signal

from rtviewer.gui.models.numpy_table import Column, NumpyTableModel
from rtviewer.session.ray_list import COLUMNS, ListColumn, RayList

NAMES = tuple(COLUMNS)
NONE = "–"


def column_text(rays: RayList, column: ListColumn, value: Any) -> str:
    """What a cell shows."""
    if column.kind == "hex":
        return f"0x{int(value):02X}"
    shown = column.text(rays, value)
    if shown is None:
        return NONE
    return f"{shown:.6g}" if isinstance(shown, float) else str(shown)


def table_columns(rays: RayList) -> list[Column]:
    """The columns of a list, all its values at hand. Any thread may."""
    return [
        Column(
            column.title, np.asarray(column.values(rays)), column.tip,
            lambda value, column=column: column_text(rays, column, value),
            numeric=column.kind not in ("status", "problem"),
        )
        for column in COLUMNS.values()
    ]  # fmt: skip


class RayListModel(NumpyTableModel):
    """``order_asked(column name, descending)`` when the user clicks a header; ``set_order`` shows what came of it."""

    order_asked = Signal(str, bool)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.sorted_by = ("index", False)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        if 0 <= column < len(NAMES):
            self.sorted_by = (NAMES[column], order is Qt.SortOrder.DescendingOrder)
            self.order_asked.emit(*self.sorted_by)

    def set_rays(self, columns: list[Column], order: NDArray[np.int64]) -> None:
        """Show another list in an order."""
        self.beginResetModel()
        self._columns, self._order = columns, order
        self.endResetModel()

    def set_order(self, order: NDArray[np.int64]) -> None:
        """Show these rays in this order; what is selected stays so where it is still shown."""
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        rays = [self.source_row(index.row()) for index in before]
        self._order = order
        after = []
        for ray, index in zip(rays, before, strict=True):
            row = self.view_row(ray)
            after.append(self.index(row, index.column()) if row >= 0 else QModelIndex())
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()
