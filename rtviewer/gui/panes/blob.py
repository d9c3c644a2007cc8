"""A serialized blob: the selected structure's own, or one of another driver that was opened to be looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from PySide6.QtWidgets import QHBoxLayout, QPushButton, QStackedLayout, QVBoxLayout, QWidget

from rtviewer.accel.structure import Structure
from rtviewer.copymode.identify import BlobDescription, describe_blob
from rtviewer.dxr.flags import CopyMode, DriverMatchingIdentifierStatus
from rtviewer.gui.binding import follow, listen
from rtviewer.gui.models.byte_blocks import blob_blocks
from rtviewer.gui.models.byte_fields import ByteFields
from rtviewer.gui.panes.pane import ComputedPane, PaneContext, label
from rtviewer.gui.theme import Theme
from rtviewer.gui.widgets.byte_inspector import ByteInspector
from rtviewer.gui.widgets.elided_label import ElidedLabel
from rtviewer.session.events import BlobChanged, DocumentChanged
from rtviewer.session.opening import BlobDocument
from rtviewer.session.state import State

EMPTY = (
    "Nothing is open.\nOpen a scene and select a structure to see it serialized, "
    "or open a serialized blob of any driver."
)
STATUS_WORDS = {
    DriverMatchingIdentifierStatus.COMPATIBLE_WITH_DEVICE: "can be deserialized here",
    DriverMatchingIdentifierStatus.UNSUPPORTED_TYPE: "no acceleration structure",
    DriverMatchingIdentifierStatus.UNRECOGNIZED: "another driver's, its payload is opaque",
    DriverMatchingIdentifierStatus.INCOMPATIBLE_VERSION: "ours, of another version",
    DriverMatchingIdentifierStatus.INCOMPATIBLE_TYPE: "of another type than asked for",
}


@dataclass(frozen=True, eq=False)
class ShownBlob:
    name: str
    description: BlobDescription
    fields: ByteFields


def shown_structure(structure: Structure) -> ShownBlob:
    """A structure of ours, serialized. Runs on any thread."""
    from rtviewer.session.copies import copy_to_bytes

    data = copy_to_bytes(structure, CopyMode.SERIALIZE)
    return ShownBlob(structure.name, describe_blob(data), ByteFields(data, blob_blocks(data, structure)))


def shown_foreign(blob: BlobDocument) -> ShownBlob:
    """A blob whose payload means nothing to us."""
    from rtviewer.copymode.identify import as_bytes

    data = as_bytes(blob.data)
    return ShownBlob(blob.title, blob.description, ByteFields(data, blob_blocks(data, None)))


def size_text(description: BlobDescription) -> str:
    """The size as the sum it must be (SER-2)."""
    begin, end = description.payload
    return (
        f"{description.serialized_size:,} bytes = 56 + 8 × {len(description.pointers):,} pointers + "
        f"{end - begin:,} payload; {description.deserialized_size:,} once deserialized"
    )


class BlobPane(ComputedPane):
    name = "blob"
    title = "Blob"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.shown: ShownBlob | None = None
        self.caption = label("", "heading")
        self.status = label("", "", "CheckDriverMatchingIdentifier (SER-8)")
        self.size = ElidedLabel()
        self.problems = label("", "refusal", wrap=True)
        self.close_foreign = QPushButton("Back to the selected structure")
        self.close_foreign.clicked.connect(lambda: self.session.show_blob(None))
        self.inspector = ByteInspector("Blob")
        self.empty = label(EMPTY, "empty", wrap=True)
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 2, 0, 0)
        column.setSpacing(2)
        line = QHBoxLayout()
        line.setContentsMargins(8, 0, 8, 0)
        line.setSpacing(12)
        line.addWidget(self.caption)
        line.addWidget(self.status)
        line.addWidget(self.size, 1)
        line.addWidget(self.close_foreign)
        column.addLayout(line)
        column.addWidget(self.problems)
        column.addWidget(self.inspector, 1)
        self.stack = QStackedLayout(self)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(content)
        self._source: object = None
        listen(
            self,
            self.session,
            {DocumentChanged: lambda _: self.invalidate(), BlobChanged: lambda _: self.invalidate()},
        )
        follow(self, self.session.store, {"selection"}, self._select)
        self.follow_theme()

    def _select(self, state: State) -> None:
        if self.session.blob is None and self._source is not self._wanted():
            self.invalidate()

    def _wanted(self) -> Structure | BlobDocument | None:
        world, index = self.session.world, self.session.state.selection.structure
        if self.session.blob is not None:
            return self.session.blob
        return world.structure(index) if world is not None and index < len(world.blases) else None

    def request(self) -> Structure | BlobDocument | None:
        self._source = wanted = self._wanted()
        return wanted

    @staticmethod
    def compute(request: Any) -> Any:
        return shown_foreign(request) if isinstance(request, BlobDocument) else shown_structure(request)

    def show_contents(self, contents: ShownBlob | None) -> None:
        self.shown = contents
        self.empty.setText(EMPTY)
        self.stack.setCurrentIndex(1 if contents else 0)
        self.inspector.set_fields(contents.fields if contents else None)
        self.close_foreign.setVisible(self.session.blob is not None)
        if contents is None:
            return
        description = contents.description
        self.caption.setText(contents.name)
        self.status.setText(f"{description.status.name}: {STATUS_WORDS[description.status]}")
        self.size.setText(size_text(description))
        self.size.setToolTip(size_text(description))
        self.problems.setText("\n".join(description.problems))
        self.problems.setVisible(bool(description.problems))

    def show_failure(self, error: Exception) -> None:
        self.empty.setText(str(error))
        self.stack.setCurrentIndex(0)

    def retint(self, theme: Theme) -> None:
        self.inspector.set_theme(theme)
