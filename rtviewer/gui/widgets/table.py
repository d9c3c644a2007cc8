"""Table and tree views set up the same way everywhere."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QAbstractItemModel, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QTreeView

LAST_WIDTH = 90
"""Pixels that the last column has at least."""


class FittingTable(QTableView):
    """Shows as many columns as fit whole, the most important first; the others come when there is room.

    ``importance``: column titles, the most important first; the columns keep their places. Nothing is cut but the last
    text, and what is hidden stands in the rows' tooltips (see ``NumpyTableModel.explains_rows``).
    """

    def __init__(self, importance: Sequence[str], widest: int = 150) -> None:
        super().__init__()
        self._importance, self._widest = tuple(importance), widest
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit()

    def fit(self) -> None:
        """Choose columns and widths for the width there is."""
        model = self.model()
        if model is None or not model.columnCount():
            return
        titles = [str(model.headerData(i, Qt.Orientation.Horizontal)) for i in range(model.columnCount())]
        header = self.horizontalHeader()
        for column in range(len(titles)):
            header.setSectionHidden(column, False)
        widths = [
            min(max(self.sizeHintForColumn(i), header.sectionSizeHint(i)) + 2, self._widest) for i in range(len(titles))
        ]
        order = sorted(range(len(titles)), key=lambda i: _rank(self._importance, titles[i]))
        left, shown = self.viewport().width(), set()
        for column in order:
            if shown and widths[column] > left:
                break
            shown.add(column)
            left -= widths[column]
        for column, width in enumerate(widths):
            header.setSectionHidden(column, column not in shown)
            if column in shown:
                header.resizeSection(column, width)


def _rank(importance: tuple[str, ...], title: str) -> int:
    return importance.index(title) if title in importance else len(importance)


def make_table(
    model: QAbstractItemModel, name: str, *, sortable: bool = True, view: QTableView | None = None
) -> QTableView:
    """A dense table of whole rows; sections sized from a few rows, never from all of them."""
    view = view or QTableView()
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
    """Columns as wide as the first rows need, none wider than ``widest`` pixels; the last one takes what is left."""
    count = view.model().columnCount()
    for column in range(count - 1):
        view.resizeColumnToContents(column)
        view.setColumnWidth(column, min(view.columnWidth(column), widest))
    if count:
        view.setColumnWidth(count - 1, LAST_WIDTH)  # it is stretched from there, so that long texts need no scroll bar
