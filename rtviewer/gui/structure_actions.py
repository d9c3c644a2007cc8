"""The copy modes as actions on the selected structure: they ask for files where needed and say what was done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog, QWidget

from rtviewer.dxr.flags import CopyMode
from rtviewer.gui.binding import listen
from rtviewer.gui.widgets.banner import Banner
from rtviewer.gui.widgets.text import format_bytes, format_change
from rtviewer.session.commands import Session
from rtviewer.session.events import CopyMade, Refusal
from rtviewer.session.records import CopyRecord

PANE_OF_MODE = {
    CopyMode.CLONE: "memory",
    CopyMode.COMPACT: "memory",
    CopyMode.DESERIALIZE: "memory",
    CopyMode.SERIALIZE: "blob",
    CopyMode.VISUALIZATION_DECODE_FOR_TOOLS: "decode",
}
"""Where the result of each mode is looked at."""


def made_text(record: CopyRecord) -> str:
    """What a copy was and what it took."""
    change = format_change(record.data_size, record.source_size)
    size = f"{format_bytes(record.source_size)} to {format_bytes(record.data_size)}" + (
        f" ({change})" if change else ""
    )
    target = f", written to {Path(record.file).name}" if record.file and record.copy is None else ""
    return f"{record.mode.name} of {record.source_name}: {size}{target}"


class StructureActions(QObject):
    """``say`` shows a line for a while, ``show_pane`` brings a dock to the front."""

    def __init__(
        self,
        owner: QWidget,
        session: Session,
        banner: Banner,
        say: Callable[[str], None],
        show_pane: Callable[[str], None],
    ) -> None:
        super().__init__(owner)
        self._owner, self.session, self._banner = owner, session, banner
        self._say, self._show_pane = say, show_pane
        self._copy_count = 0
        listen(owner, session, {CopyMade: self._made})

    def commands(self) -> dict[str, Callable[[], None]]:
        """By the ids of the action table."""
        return {
            "clone": lambda: self.copy(CopyMode.CLONE),
            "compact": lambda: self.copy(CopyMode.COMPACT),
            "serialize": self.serialize,
            "decode": self.decode,
            "deserialize": self.deserialize,
            "save_capture": self.save_capture,
        }

    @property
    def structure(self) -> int:
        return self.session.state.selection.structure

    def copy(self, mode: CopyMode, file: str | None = None) -> None:
        """Copy the selected structure; a refusal is told over the views."""
        self._tell(self.session.copy_structure(mode, self.structure, file))

    def serialize(self) -> None:
        from rtviewer.io.blob_file import BLOB_SUFFIX

        name = self._ask_where("Serialize to", BLOB_SUFFIX, "Serialized structures")
        if name:
            self.copy(CopyMode.SERIALIZE, name)

    def decode(self) -> None:
        from rtviewer.io.dump import DUMP_SUFFIX

        name = self._ask_where("Decode for tools to", DUMP_SUFFIX, "Tools-visualization dumps")
        if name:
            self.copy(CopyMode.VISUALIZATION_DECODE_FOR_TOOLS, name)

    def deserialize(self) -> None:
        """Read a blob into the document, as a copy that can take the selected structure's place."""
        from rtviewer.io.blob_file import BLOB_SUFFIX

        if not self._is_open():
            return
        kinds = f"Serialized structures (*{BLOB_SUFFIX});;All files (*)"
        name, _ = QFileDialog.getOpenFileName(self._owner, "Deserialize", "", kinds)
        if name:
            self._tell(self.session.deserialize_file(name, self.structure))

    def save_capture(self) -> None:
        """Write all structures, settings and the camera to one file."""
        from rtviewer.io.capture import CAPTURE_SUFFIX

        document = self.session.document
        if document is None:
            self._tell(Refusal("nothing is open that could be saved"))
            return
        stem = Path(document.title).stem
        kinds = f"Captures (*{CAPTURE_SUFFIX})"
        name, _ = QFileDialog.getSaveFileName(self._owner, "Save capture", f"{stem}{CAPTURE_SUFFIX}", kinds)
        if name and self._tell(self.session.save(_with_suffix(name, CAPTURE_SUFFIX))):
            self._say(f"Saving {Path(name).name}")

    def _ask_where(self, title: str, suffix: str, kind: str) -> str:
        """A file name from the user, empty when they thought better of it."""
        if not self._is_open():
            return ""
        world = self.session.world
        assert world is not None
        stem = world.structure(self.structure).name or "structure"
        name, _ = QFileDialog.getSaveFileName(self._owner, title, f"{stem}{suffix}", f"{kind} (*{suffix})")
        return _with_suffix(name, suffix) if name else ""

    def _is_open(self) -> bool:
        if self.session.world is None:
            self._tell(Refusal("no such structure is open"))
            return False
        return True

    def _tell(self, outcome: Any) -> bool:
        """Whether it was begun; a refusal goes over the views."""
        if isinstance(outcome, Refusal):
            self._banner.show_text(outcome.text)
            return False
        self._banner.dismiss()
        return True

    def _made(self, event: CopyMade) -> None:
        is_new = bool(event.document.copies) and event.document.copies[-1] is event.record
        if is_new:
            self._say(made_text(event.record))
            self._show_pane(PANE_OF_MODE[event.record.mode])
        else:
            self._say(f"Forgot a copy of {event.record.source_name}")


def _with_suffix(name: str, suffix: str) -> str:
    return name if Path(name).suffix else f"{name}{suffix}"
