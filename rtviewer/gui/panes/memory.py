"""The simulated address space: what lives where, which structure refers to which, and the copies made."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QModelIndex
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QStackedLayout, QVBoxLayout, QWidget

from rtviewer.accel.layout import STATE_DEHYDRATED
from rtviewer.gui.binding import listen, quiet
from rtviewer.gui.models.numpy_table import Column, NumpyTableModel
from rtviewer.gui.panes.pane import Pane, PaneContext, label
from rtviewer.gui.theme import Theme, monospaced
from rtviewer.gui.widgets.address_map import AddressMap, Allocation
from rtviewer.gui.widgets.table import fit_columns, make_table
from rtviewer.gui.widgets.text import format_bytes, format_count
from rtviewer.session.document import TOP_LEVEL, Document
from rtviewer.session.events import CopyMade, DocumentChanged

EMPTY = "Nothing is open.\nOpen a scene: the addresses of its structures and of copies made from them appear here."
KIND_WORDS = {"top": "top level", "bottom": "bottom level", "copy": "copy"}


def allocations_of(document: Document) -> list[Allocation]:
    """Everything that has an address, in order of address."""
    world = document.world
    found = [
        Allocation(
            world.structure(index).name or ("TLAS" if index == TOP_LEVEL else f"BLAS {index}"),
            world.structure(index).address, world.structure(index).size,
            "top" if index == TOP_LEVEL else "bottom", index,
        )
        for index in world.structure_indices
    ]  # fmt: skip
    for number, record in enumerate(document.copies):
        if record.copy is not None:
            name = f"{record.source_name} ({record.mode.name.lower()})"
            found.append(
                Allocation(name, record.copy.address, record.copy.size, "copy", record.structure, copy_number=number)
            )
    return sorted(found, key=lambda allocation: allocation.address)


def references_of(document: Document) -> dict[int, int]:
    """Address to how many instances of the top level refer to it."""
    addresses, counts = np.unique(document.world.tlas.instance_descs["AccelerationStructure"], return_counts=True)
    return {int(address): int(count) for address, count in zip(addresses, counts, strict=True) if address}


def memory_columns(document: Document, allocations: list[Allocation]) -> list[Column]:
    references, used = references_of(document), {allocation.address for allocation in allocations}
    stray = sum(count for address, count in references.items() if address not in used)
    words, states = [], []
    for allocation in allocations:
        record = document.copies[allocation.copy_number] if allocation.copy_number >= 0 else None
        structure = record.copy if record is not None else document.world.structure(allocation.structure)
        assert structure is not None
        states.append("dehydrated" if int(structure.header["state"]) == STATE_DEHYDRATED else "live")
        count = references.get(allocation.address, 0)
        if allocation.kind == "top":
            held = len([address for address in references if address in used])
            lost = f", {format_count(stray, 'instance')} without a structure there (BLD-10)" if stray else ""
            instances = format_count(sum(references.values()), "instance")
            words.append(f"refers to {format_count(held, 'bottom level')} by {instances}{lost}")
        elif allocation.kind == "copy":
            words.append("referred to by nothing: a copy")
        else:
            words.append(
                f"referred to by {format_count(count, 'instance')} of the TLAS" if count else "referred to by nothing"
            )

    def numbers(values: list[int]) -> np.ndarray:
        return np.array(values, np.int64)

    def hexadecimal(value: int) -> str:
        return f"0x{value:X}"

    return [
        Column("Address", numbers([a.address for a in allocations]), "First byte; a multiple of 256", hexadecimal),
        Column("End", numbers([a.end for a in allocations]), "First byte after it", hexadecimal),
        Column("Size", numbers([a.size for a in allocations]), "Bytes", format_bytes),
        Column("Structure", np.array([a.name for a in allocations], object), numeric=False),
        Column("Kind", np.array([KIND_WORDS[a.kind] for a in allocations], object), numeric=False),
        Column("State", np.array(states, object), "live, or dehydrated (Xbox)", numeric=False),
        Column("References", np.array(words, object), "Who refers to whom", numeric=False),
    ]


class MemoryPane(Pane):
    name = "memory"
    title = "Memory"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.allocations: list[Allocation] = []
        self.map = AddressMap()
        self.map.chosen.connect(self._block_clicked)
        self.model = NumpyTableModel(self)
        self.table = make_table(self.model, "Memory")
        self.table.selectionModel().currentRowChanged.connect(self._chosen)
        self.total = label("", "muted")
        self.use, self.forget = QPushButton("Use instead of its source"), QPushButton("Forget copy")
        self.use.setToolTip("Trace the copy: it takes its source's place, and the TLAS is built over it (CP-16)")
        self.forget.setToolTip("Drop the copy")
        self.use.clicked.connect(lambda: self.session.use_copy(self._copy_number()))
        self.forget.clicked.connect(lambda: self.session.forget_copy(self._copy_number()))
        self.empty = label(EMPTY, "empty", wrap=True)
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 4, 0, 0)
        column.setSpacing(3)
        line = QHBoxLayout()
        line.setContentsMargins(8, 0, 8, 0)
        line.addWidget(self.total, 1)
        line.addWidget(self.use)
        line.addWidget(self.forget)
        column.addLayout(line)
        column.addWidget(self.map)
        column.addWidget(self.table, 1)
        self.stack = QStackedLayout(self)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(content)
        listen(self, self.session, {DocumentChanged: lambda _: self._show(), CopyMade: lambda _: self._show()})
        self._show()
        self.follow_theme()

    def _show(self) -> None:
        document = self.session.document
        self.allocations = allocations_of(document) if document else []
        self.model.set_columns(memory_columns(document, self.allocations) if document else [])
        self.map.set_allocations(self.allocations)
        self.stack.setCurrentIndex(1 if self.allocations else 0)
        fit_columns(self.table, 240)
        if self.allocations:
            copies = sum(1 for a in self.allocations if a.kind == "copy")
            size = format_bytes(sum(a.size for a in self.allocations))
            span = format_bytes(self.allocations[-1].end - self.allocations[0].address)
            text = f"{format_count(len(self.allocations), 'structure')}, {size} in {span} of addresses"
            self.total.setText(text + (f", {format_count(copies, 'copy', 'copies')} among them" if copies else ""))
        self._show_buttons()

    def _row(self) -> int:
        index = self.table.currentIndex()
        return self.model.source_row(index.row()) if index.isValid() else -1

    def _copy_number(self) -> int:
        row = self._row()
        return self.allocations[row].copy_number if row >= 0 else -1

    def _show_buttons(self) -> None:
        for button in (self.use, self.forget):
            button.setEnabled(self._copy_number() >= 0)

    def _block_clicked(self, row: int) -> None:
        self.table.setCurrentIndex(self.model.index(self.model.view_row(row), 0))

    def _chosen(self, current: QModelIndex, _: QModelIndex) -> None:
        self._show_buttons()
        row = self._row()
        if row < 0:
            return
        allocation, document = self.allocations[row], self.session.document
        referenced: frozenset[int] = frozenset()
        if allocation.kind == "top" and document is not None:
            addresses = references_of(document)
            referenced = frozenset(i for i, a in enumerate(self.allocations) if a.address in addresses)
        self.map.set_marked(row, referenced)
        if allocation.kind != "copy":
            with quiet(self.table.selectionModel()):
                self.session.select(structure=allocation.structure, box=0)

    def retint(self, theme: Theme) -> None:
        self.model.set_number_font(monospaced())
        self.map.set_theme(theme)
