"""The selected structure decoded for tools: header, descs, offsets, hex beside meaning, and what the inputs say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtWidgets import QHBoxLayout, QStackedLayout, QToolButton, QVBoxLayout, QWidget

from rtviewer.dxr.flags import CopyMode
from rtviewer.gui.binding import follow, listen
from rtviewer.gui.models.byte_blocks import decode_blocks
from rtviewer.gui.models.byte_fields import ByteFields
from rtviewer.gui.panes.pane import ComputedPane, PaneContext, label
from rtviewer.gui.theme import Theme
from rtviewer.gui.widgets.byte_inspector import ByteInspector
from rtviewer.gui.widgets.text import format_bytes
from rtviewer.session.document import TOP_LEVEL, Document
from rtviewer.session.events import DocumentChanged
from rtviewer.session.state import State

EMPTY = (
    "Nothing is open.\nOpen a scene and select a structure: "
    "this shows its VISUALIZATION_DECODE_FOR_TOOLS, byte by byte."
)
MOST_SHOWN = 4
"""Differences written out; the tooltip has all that were found."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """``data`` as of a buffer at ``base_address``; ``found``: None when there are no build inputs to compare with."""

    name: str
    data: NDArray[np.uint8]
    base_address: int
    fields: ByteFields
    found: list[str] | None


def decoded(document: Document, index: int) -> Decoded:
    """The decode of one structure, and how it differs from what was built (VIS-17). Runs on any thread."""
    from rtviewer.copymode.differences import differences
    from rtviewer.copymode.read_decode import read_decode
    from rtviewer.scene.inputs import instance_inputs
    from rtviewer.session.copies import copy_to_bytes, free_address

    world = document.world
    structure, base = world.structure(index), free_address(world, document.copies)
    data = copy_to_bytes(structure, CopyMode.VISUALIZATION_DECODE_FOR_TOOLS, base)
    found = None
    if document.has_inputs:
        inputs = (
            instance_inputs(world.scene, [blas.address for blas in world.blases])
            if index == TOP_LEVEL
            else world.scene.blases[index]
        )
        found = differences(read_decode(data, base, name=structure.name), inputs)
    fields = ByteFields(data, decode_blocks(data, base))
    return Decoded(structure.name or ("TLAS" if index == TOP_LEVEL else f"BLAS {index}"), data, base, fields, found)


def difference_text(found: list[str] | None) -> str:
    """One line on what was compared, then the first differences."""
    if found is None:
        return "Opened from structures: there are no build inputs to compare with."
    if not found:
        return "Equal to the build inputs, as far as VIS-2 to VIS-8 ask."
    rest = f"\n… and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
    return "Differs from the build inputs:\n" + "\n".join(found[:MOST_SHOWN]) + rest


class DecodePane(ComputedPane):
    name = "decode"
    title = "Decode"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.decoded: Decoded | None = None
        self.caption = label("", "heading")
        self.difference = label("", "muted", wrap=True)
        self.inspector = ByteInspector("Decode")
        self.save = QToolButton()
        self.save.setAutoRaise(True)
        self.save.setToolTip("Save this decode as a dump…")
        self.save.setAccessibleName("Save decode")
        self.empty = label(EMPTY, "empty", wrap=True)
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 2, 0, 0)
        column.setSpacing(2)
        line = QHBoxLayout()
        line.setContentsMargins(8, 0, 8, 0)
        line.addWidget(self.caption)
        line.addSpacing(12)
        line.addWidget(self.difference, 1)
        line.addWidget(self.save)
        column.addLayout(line)
        column.addWidget(self.inspector, 1)
        self.stack = QStackedLayout(self)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(content)
        self._shown: tuple[object, int] | None = None
        listen(self, self.session, {DocumentChanged: lambda _: self.invalidate()})
        follow(self, self.session.store, {"selection"}, self._select)
        self.follow_theme()

    def _select(self, state: State) -> None:
        if self._shown != (self.session.world, state.selection.structure):
            self.invalidate()

    def request(self) -> tuple[Document, int] | None:
        document, index = self.session.document, self.session.state.selection.structure
        if document is None or index >= len(document.world.blases):
            self._shown = None
            return None
        self._shown = (document.world, index)
        return document, index

    @staticmethod
    def compute(request: Any) -> Any:
        return decoded(*request)

    def show_contents(self, contents: Decoded | None) -> None:
        self.decoded = contents
        self.empty.setText(EMPTY)
        self.stack.setCurrentIndex(1 if contents else 0)
        self.inspector.set_fields(contents.fields if contents else None)
        if contents is None:
            return
        self.caption.setText(f"{contents.name}: {format_bytes(len(contents.data))} at 0x{contents.base_address:X}")
        self.difference.setText(difference_text(contents.found))
        self.difference.setToolTip("\n".join(contents.found or ()))

    def show_failure(self, error: Exception) -> None:
        self.empty.setText(str(error))
        self.stack.setCurrentIndex(0)

    def retint(self, theme: Theme) -> None:
        self.inspector.set_theme(theme)
        self.save.setIcon(self.appearance.icon("mdi6.content-save-outline"))
