"""All sizes of all structures, and those of the selected one as bars: infos, copies, and bytes by section."""

from __future__ import annotations

from typing import Any

import numpy as np
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QScrollArea, QSplitter, QStackedLayout, QVBoxLayout, QWidget

from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import CopyMode
from rtviewer.gui.binding import follow, listen, quiet
from rtviewer.gui.models.numpy_table import Column, NumpyTableModel
from rtviewer.gui.panes.pane import ComputedPane, PaneContext, label
from rtviewer.gui.theme import Theme, monospaced
from rtviewer.gui.widgets.bar_chart import Bar, BarChart
from rtviewer.gui.widgets.table import FittingTable, make_table
from rtviewer.gui.widgets.text import format_bytes, format_change
from rtviewer.session.document import World
from rtviewer.session.events import CopyMade, DocumentChanged
from rtviewer.session.records import CopyRecord, SizeRow
from rtviewer.session.state import State

EMPTY = "Nothing is open.\nOpen a scene: all sizes of its structures, and what each copy mode would take, appear here."
FIELDS = (
    ("Prebuild", "result_max", "ResultDataMaxSizeInBytes: what the build may need, known from counts alone (PRE-1)"),
    ("Scratch", "scratch", "ScratchDataSizeInBytes of a build"),
    ("Update scratch", "update_scratch", "UpdateScratchDataSizeInBytes; 0 where the build does not allow updates"),
    ("Current", "current", "CurrentSizeInBytes: bytes of the structure as it is"),
    ("Compacted", "compacted", "CompactedSizeInBytes: what COMPACT leaves; told where the build allows it (POST-4)"),
    ("Serialized", "serialized", "SerializedSizeInBytes: 56, 8 for each pointer, and the payload (SER-2)"),
    ("Decoded", "decoded", "DecodedSizeInBytes: header, descs and data of the tools-visualization buffer (VIS-15)"),
)
IMPORTANCE = ("Structure", "Current", "Compacted", "Prebuild", "Serialized", "Decoded", "Scratch", "Update scratch")


def size_columns(rows: list[SizeRow]) -> list[Column]:
    """One row a structure; -1 stands for a size that there is not."""
    columns = [Column("Structure", np.array([row.name for row in rows], object), numeric=False)]
    for title, field, tip in FIELDS:
        values = [getattr(row, field) for row in rows]
        numbers = np.array([-1 if value is None else value for value in values], np.int64)
        columns.append(Column(title, numbers, tip, lambda value: "–" if value < 0 else format_bytes(value)))
    return columns


def size_bars(row: SizeRow, copies: list[CopyRecord]) -> list[Bar]:
    """The sizes of one structure, then those of the copies made of it."""
    bars = []
    for title, field, tip in FIELDS:
        value = getattr(row, field)
        is_quiet = value is None or field in ("result_max", "scratch", "update_scratch")
        bars.append(Bar(title, value or 0, "–" if value is None else f"{value:,} B", tip, is_quiet))
    for record in copies:
        name = f"{record.mode.name.split('_')[0].capitalize()} copy"
        bars.append(Bar(name, record.data_size, f"{record.data_size:,} B", f"{record.mode.name}, made in this session"))
    return bars


def section_bars(sections: dict[str, int]) -> list[Bar]:
    """Bytes by section, the header first."""
    whole = sum(sections.values()) or 1
    return [
        Bar(name.replace("_", " "), size, f"{size:,} B {size / whole:>4.0%}", is_quiet=name in ("padding", "unused"))
        for name, size in sections.items()
    ]


def compaction_text(row: SizeRow, structure: Structure) -> str:
    """Before and after compaction, or why there is none."""
    from rtviewer.session.copies import check_copy

    if row.compacted is None:
        reasons = "; ".join(str(found) for found in check_copy(structure, CopyMode.COMPACT))
        return f"No compaction: {reasons}. {structure.used_size:,} of {row.current:,} bytes are in use."
    change = format_change(row.compacted, row.current) or "nothing to gain"
    return f"Compaction: {row.current:,} bytes before, {row.compacted:,} after ({change})."


class SizesPane(ComputedPane):
    name = "sizes"
    title = "Sizes"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.rows: list[SizeRow] = []
        self._world: World | None = None
        self.model = NumpyTableModel(self)
        self.model.explains_rows = True
        self.table = FittingTable(IMPORTANCE)
        make_table(self.model, "Sizes", view=self.table)
        self.table.selectionModel().currentRowChanged.connect(self._chosen)
        self.heading = label("", "heading")
        self.compaction = label("", "muted", wrap=True)
        self.sizes, self.sections = BarChart("Sizes of the structure"), BarChart("Bytes by section")
        self.empty = label(EMPTY, "empty", wrap=True)
        splitter = QSplitter(Qt.Orientation.Horizontal)
        splitter.setChildrenCollapsible(False)
        splitter.addWidget(self.table)
        splitter.addWidget(self._charts())
        splitter.setSizes([500, 420])
        self.stack = QStackedLayout(self)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(splitter)
        listen(
            self, self.session, {DocumentChanged: lambda _: self.invalidate(), CopyMade: lambda _: self._show_charts()}
        )
        follow(self, self.session.store, {"selection"}, self._select)
        self.follow_theme()

    def _charts(self) -> QScrollArea:
        inner = QWidget()
        column = QVBoxLayout(inner)
        column.setContentsMargins(10, 6, 10, 6)
        column.setSpacing(4)
        for widget in (self.heading, self.sizes, self.compaction, label("Bytes by section", "heading"), self.sections):
            column.addWidget(widget)
        column.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setWidget(inner)
        return scroll

    def request(self) -> World | None:
        return self.session.world

    @staticmethod
    def compute(request: World) -> Any:
        from rtviewer.session.copies import sizes_of

        return request, [sizes_of(request, index) for index in request.structure_indices]

    def show_contents(self, contents: Any) -> None:
        self._world, self.rows = contents or (None, [])
        self.empty.setText(EMPTY)
        self.model.set_columns(size_columns(self.rows))
        self.stack.setCurrentIndex(1 if self.rows else 0)
        self.table.fit()
        self._select(self.session.state)

    def show_failure(self, error: Exception) -> None:
        self.empty.setText(str(error))
        self.stack.setCurrentIndex(0)

    def _select(self, state: State) -> None:
        row = self.model.view_row(state.selection.structure + 1)
        with quiet(self.table.selectionModel()):
            self.table.setCurrentIndex(self.model.index(row, 0))
        self.table.viewport().update()
        self._show_charts()

    def _chosen(self, current: QModelIndex, _: QModelIndex) -> None:
        if current.isValid():
            self.session.select(structure=self.model.source_row(current.row()) - 1, box=0)

    def _show_charts(self) -> None:
        from rtviewer.accel.stats import bytes_by_section

        structure, document = self.session.state.selection.structure, self.session.document
        if self._world is None or document is None or not structure + 1 < len(self.rows):
            return
        row, of = self.rows[structure + 1], self._world.structure(structure)
        self.heading.setText(row.name)
        self.sizes.set_bars(size_bars(row, [c for c in document.copies if c.structure == structure]))
        self.compaction.setText(compaction_text(row, of))
        self.sections.set_bars(section_bars(bytes_by_section(of)))

    def retint(self, theme: Theme) -> None:
        self.model.set_number_font(monospaced())
        self.sizes.set_theme(theme)
        self.sections.set_theme(theme)
