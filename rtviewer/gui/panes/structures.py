"""One row per structure, the top level first."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QStackedLayout, QWidget

from rtviewer.dxr.flags import format_flags
from rtviewer.gui.binding import follow, listen, quiet
from rtviewer.gui.models.numpy_table import Column, NumpyTableModel
from rtviewer.gui.panes.pane import Pane, PaneContext, label
from rtviewer.gui.theme import Theme, monospaced
from rtviewer.gui.widgets.table import FittingTable, make_table
from rtviewer.gui.widgets.text import format_bytes
from rtviewer.session.document import World
from rtviewer.session.events import DocumentChanged
from rtviewer.session.state import State

EMPTY = "Nothing is open.\nOpen a mesh or scene (Ctrl+O), or drop a file here."


IMPORTANCE = ("Structure", "Size", "Inputs", "SAH", "Depth", "Nodes", "ms", "Build flags", "Address")
"""Columns in the order in which they get the room there is."""


def structure_columns(world: World) -> list[Column]:
    """Rows in order of structure index: the top level, then the bottom levels. Computes statistics."""
    indices = list(world.structure_indices)
    structures = [world.structure(i) for i in indices]
    stats = [world.statistics(i) for i in indices]

    def column(values: list[object], dtype: type = object) -> np.ndarray:
        return np.array(values, dtype)

    names = [s.name or ("TLAS" if i < 0 else f"BLAS {i}") for i, s in zip(indices, structures, strict=True)]
    headers = [s.header for s in structures]
    return [
        Column("Structure", column(names), "TLAS is the top-level structure, BLAS a bottom-level one", numeric=False),
        Column(
            "Inputs", column([int(h["input_count"]) for h in headers], np.int64),
            "Primitives of a BLAS, instances of the TLAS", lambda v: f"{v:,}",
        ),
        Column("Size", column([s.size for s in structures], np.int64), "Bytes of the structure", format_bytes),
        Column(
            "Depth", column([int(h["depth"]) for h in headers], np.int64), "Levels of nodes from the root down",
        ),
        Column(
            "Nodes", column([int(s.node_count) for s in stats], np.int64), "Inner nodes of up to 8 children",
            lambda v: f"{v:,}",
        ),
        Column(
            "SAH", column([float(s.sah) for s in stats], np.float64),
            "Surface area heuristic: expected cost of a ray that enters", lambda v: f"{v:.2f}",
        ),
        Column(
            "ms", column([world.build_seconds(i) * 1e3 for i in indices], np.float64), "Build time in milliseconds",
            lambda v: f"{v:,.1f}",
        ),
        Column(
            "Address", column([s.address for s in structures], np.int64), "Simulated GPU address",
            lambda v: f"0x{v:X}",
        ),
        Column(
            "Build flags", column([format_flags(s.build_flags) for s in structures]),
            "Flags it was built with, read from its bytes", numeric=False,
        ),
    ]  # fmt: skip


class StructuresPane(Pane):
    name = "structures"
    title = "Structures"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.model = NumpyTableModel(self)
        self.model.explains_rows = True
        self.table = FittingTable(IMPORTANCE)
        make_table(self.model, "Structures", view=self.table)
        self.setMinimumWidth(190)
        self.table.setStatusTip("Click: show its node tree. Double-click: show it alone, in its object space.")
        self.table.selectionModel().currentRowChanged.connect(self._chosen)
        self.table.doubleClicked.connect(self._enter)
        self.empty = label(EMPTY, "empty", wrap=True)
        self.stack = QStackedLayout(self)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(self.table)
        listen(self, self.session, {DocumentChanged: self._document_changed})
        follow(self, self.session.store, {"selection"}, self._select)
        self.follow_theme()

    def _document_changed(self, event: DocumentChanged) -> None:
        if event.document is None:
            self.show_columns([])

    def show_columns(self, columns: list[Column]) -> None:
        """Rows computed by the window's background."""
        self.model.set_columns(columns)
        self.stack.setCurrentIndex(1 if self.model.rowCount() else 0)
        self.table.fit()
        self._select(self.session.state)

    def set_menu(self, actions: list[QAction]) -> None:
        """What the context menu of a row offers; a right click selects the row first."""
        self.table.addActions(actions)
        self.table.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)

    def _select(self, state: State) -> None:
        row = self.model.view_row(state.selection.structure + 1)
        if row == self.table.currentIndex().row():
            return
        with quiet(self.table.selectionModel()):
            self.table.setCurrentIndex(self.model.index(row, 0))
        if row >= 0:
            self.table.scrollTo(self.model.index(row, 0))
        self.table.viewport().update()

    def _chosen(self, current: QModelIndex, _: QModelIndex) -> None:
        if current.isValid():
            self.session.select(structure=self.model.source_row(current.row()) - 1, box=0)

    def _enter(self, index: QModelIndex) -> None:
        self.session.set_scope(self.model.source_row(index.row()) - 1)

    def retint(self, theme: Theme) -> None:
        self.model.set_number_font(monospaced())
