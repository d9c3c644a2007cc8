"""Table and tree views set up the same way everywhere."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QTreeView


def make_table(model: QAbstractItemModel, name: str, *, sortable: bool = True) -> QTableView:
    """A dense table of whole rows; sections sized from a few rows, never from all of them."""
    view = QTableView()
    view.setModel(model)
    view.setAccessibleName(name)
    view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    view.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    view.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    view.setAlternatingRowColors(True)
    view.setShowGrid(False)
    view.setWordWrap(False)
    view.setSortingEnabled(False)
    if sortable:
        view.horizontalHeader().setSortIndicator(-1, view.horizontalHeader().sortIndicatorOrder())
        view.setSortingEnabled(True)
    view.verticalHeader().hide()
    view.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
    view.verticalHeader().setDefaultSectionSize(view.fontMetrics().height() + 6)
    view.horizontalHeader().setHighlightSections(False)
    view.horizontalHeader().setResizeContentsPrecision(40)
    view.horizontalHeader().setStretchLastSection(True)
    view.horizontalHeader().setMinimumSectionSize(32)
    view.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    view.setTabKeyNavigation(False)
    return view


def fit_columns(view: QTableView | QTreeView, widest: int = 360) -> None:
    """Columns as wide as the first rows need, none wider than ``widest`` pixels."""
    count = view.model().columnCount()
    for column in range(count):
        view.resizeColumnToContents(column)
        width = view.columnWidth(column)
        if width > widest and column < count - 1:
            view.setColumnWidth(column, widest)
