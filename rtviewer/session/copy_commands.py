"""The verbs on structures: copies of every mode, saving, and update experiments.

What takes time runs in the background and is dropped when the document changed meanwhile. A verb that a rule forbids is
refused at once and returns the Refusal.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rtviewer.dxr.flags import CopyMode
from rtviewer.errors import RtviewerError
from rtviewer.session.copies import (
    check_copy,
    check_saving,
    free_address,
    made_copy,
    read_copy,
    save_world,
    sizes_of,
    used_copy,
)
from rtviewer.session.document import TOP_LEVEL, Document, World, problems_of
from rtviewer.session.events import CopyMade, Refusal
from rtviewer.session.jobs import Job, Lane
from rtviewer.session.live_work import LiveWork
from rtviewer.session.records import CopyRecord, SizeRow, UpdateKind
from rtviewer.session.updates import check_update, updated_document

CHANGED_MEANWHILE = Refusal("the structures changed meanwhile, so nothing was done")


class CopyCommands(LiveWork):
    """Verbs of a session that act on the structures of the open document."""

    def sizes(self) -> tuple[SizeRow, ...]:
        """Every size of every structure, the top level first; empty when nothing is open."""
        world = self.world
        return tuple(sizes_of(world, index) for index in world.structure_indices) if world else ()

    def copy_structure(
        self, mode: CopyMode, structure: int = TOP_LEVEL, file: Path | str | None = None
    ) -> Job | Refusal:
        """Copy a structure of the document. A new one (clone, compact, deserialize) and bytes alike become the last of
        ``document.copies``; bytes (serialize, decode) are written to ``file`` when there is one."""
        document = self._document
        if document is None or structure not in document.world.structure_indices:
            return self._refuse(Refusal("no such structure is open"))
        if found := check_copy(document.world.structure(structure), mode):
            return self._refuse(Refusal.of(found))
        address = free_address(document.world, document.copies)
        path = Path(file) if file else None
        name = document.world.structure(structure).name

        def work(_: Job) -> CopyRecord:
            return made_copy(document.world, structure, mode, address, path)

        return self._submit(Lane.COPY, f"copying {name}", work, lambda record: self._keep_copy(document.world, record))

    def deserialize_file(self, file: Path | str, structure: int) -> Job | Refusal:
        """Read a blob file into the document, as a copy that may take the place of ``structure`` (``use_copy``)."""
        document = self._document
        if document is None or structure not in document.world.structure_indices:
            return self._refuse(Refusal("no such structure is open"))
        address = free_address(document.world, document.copies)

        def work(_: Job) -> CopyRecord:
            return read_copy(document.world, structure, Path(file), address)

        return self._submit(
            Lane.COPY, f"reading {Path(file).name}", work, lambda record: self._keep_copy(document.world, record)
        )

    def _keep_copy(self, world: World, record: CopyRecord) -> None:
        document = self._document
        if document is None or document.world is not world:
            self._refuse(CHANGED_MEANWHILE)
            return
        if record.copy is not None:  # another copy may have ended since this one's address was chosen
            copy = replace(record.copy, address=free_address(world, document.copies))
            record = replace(record, copy=copy)
        self._document = replace(document, copies=(*document.copies, record))
        self._tell(CopyMade(self._document, record))

    def forget_copy(self, number: int) -> Refusal | None:
        """Drop one of ``document.copies`` by its position."""
        document = self._document
        if document is None or not 0 <= number < len(document.copies):
            return self._refuse(Refusal(f"there is no copy {number}"))
        record = document.copies[number]
        self._document = replace(document, copies=(*document.copies[:number], *document.copies[number + 1 :]))
        self._tell(CopyMade(self._document, record))
        return None

    def use_copy(self, number: int) -> Job | Refusal:
        """Trace a copy instead of its source: it takes the source's place in the world.

        A bottom level lives at a new address then, so the top level is built again over it (CP-16).
        """
        document = self._document
        if document is None or not 0 <= number < len(document.copies):
            return self._refuse(Refusal(f"there is no copy {number}"))
        record = document.copies[number]
        if record.copy is None:
            return self._refuse(Refusal(f"copy {number} is bytes of {record.mode.name}, no structure to trace"))

        def work(_: Job) -> Document:
            world = used_copy(document.world, record)
            scene = world.scene if record.file else document.scene
            return replace(document, scene=scene, world=world, problems=problems_of(world))

        return self._submit(
            Lane.COPY, f"using {record.source_name}", work, lambda after: self._replace(document, after)
        )

    def save(self, path: Path | str) -> Job | Refusal:
        """Write the open world: a capture (``.rtcap``), or a folder where the path has no suffix."""
        document = self._document
        if document is None:
            return self._refuse(Refusal("nothing is open that could be saved"))
        try:
            check_saving(Path(path))
        except RtviewerError as error:
            return self._refuse(Refusal.of_error(error))
        world, camera = document.world, self.state.camera
        if not world.scene.cameras:  # the camera of the window is what a scene without one shows
            world = replace(world, scene=replace(world.scene, cameras=(camera,)))
        return self._submit(
            Lane.COPY, f"writing {Path(path).name}", lambda _: save_world(world, Path(path)), lambda _: None
        )

    def deform(self, structure: int, amount: float, kind: UpdateKind = UpdateKind.UPDATE_IN_PLACE) -> Job | Refusal:
        """Swirl a bottom level's mesh by ``amount`` turns, and update or rebuild its structure; the numbers become the
        last of ``document.updates``. Refused without ALLOW_UPDATE (UPD-1), unless it is a rebuild."""
        document, profile = self._document, self.state.profile
        if document is None or not 0 <= structure < len(document.world.blases):
            return self._refuse(Refusal("an update experiment needs a bottom level"))
        if found := check_update(document.world, structure, kind, profile):
            return self._refuse(Refusal.of(found))

        def work(_: Job) -> Document:
            after = updated_document(document, structure, amount, kind, profile)
            return replace(after, problems=problems_of(after.world))

        def show(after: Document) -> None:
            current = self._document
            if current is not None and current is not document and current.scene is document.scene:
                self.deform(structure, amount, kind)  # the step before this one ended meanwhile: start from there
            else:
                self._replace(document, after)

        return self._submit(Lane.COPY, f"{kind}", work, show)

    def _replace(self, before: Document, after: Document) -> None:
        """Show a changed world, unless another document took the place of the one it was made from."""
        if self._document is before:
            self._show_rebuilt(after)
        else:
            self._refuse(CHANGED_MEANWHILE)
