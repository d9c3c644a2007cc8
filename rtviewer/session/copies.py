"""The copy modes on the structures of a world: pure functions, the verbs are in ``copy_commands``."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.sizes import Counts, result_size, scratch_size, update_scratch_size
from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import CopyMode
from rtviewer.errors import FileFormatError, RtviewerError, StructureError, Violation
from rtviewer.session.document import TOP_LEVEL, World
from rtviewer.session.records import CopyRecord, SizeRow
from rtviewer.session.structures import next_address, set_of, with_structure

MODE_NAMES: dict[str, CopyMode] = {
    "clone": CopyMode.CLONE,
    "compact": CopyMode.COMPACT,
    "visualization-decode": CopyMode.VISUALIZATION_DECODE_FOR_TOOLS,
    "serialize": CopyMode.SERIALIZE,
    "deserialize": CopyMode.DESERIALIZE,
}
"""The modes by the names that the command line and the window give them."""


def counts_of_structure(world: World, index: int) -> Counts:
    """What the prebuild sizes of a structure's inputs depend on."""
    from rtviewer.build.builder import counts_of

    if index == TOP_LEVEL:
        return Counts(instances=len(world.tlas.instance_descs))
    return counts_of(world.scene.blases[index])


def sizes_of(world: World, index: int) -> SizeRow:
    """All sizes of one structure; nothing is copied for it."""
    from rtviewer.copymode.compact import check_compactable, compacted_size
    from rtviewer.copymode.decode import decoded_size
    from rtviewer.copymode.serialize import serialized_size

    structure, counts = world.structure(index), counts_of_structure(world, index)
    flags = structure.build_flags
    return SizeRow(
        name=structure.name,
        result_max=result_size(counts, flags),
        scratch=scratch_size(counts, flags),
        update_scratch=update_scratch_size(counts, flags),
        current=structure.size,
        compacted=None if check_compactable(structure) else compacted_size(structure),
        serialized=serialized_size(structure),
        decoded=decoded_size(structure),
    )


def copy_to_new(structure: Structure, mode: CopyMode, address: int) -> Structure:
    """A structure at ``address`` by CLONE, COMPACT, or SERIALIZE and DESERIALIZE; the source stays as it is (CP-4).

    Raises InvalidInputError with the rule (CP-12, XB-5), StructureError for a mode that gives no structure.
    """
    from rtviewer.copymode.clone import clone
    from rtviewer.copymode.compact import compact
    from rtviewer.copymode.deserialize import deserialize
    from rtviewer.copymode.serialize import serialize

    if mode is CopyMode.CLONE:
        return clone(structure, name=structure.name, address=address)
    if mode is CopyMode.COMPACT:
        return compact(structure, name=structure.name, address=address)
    if mode is CopyMode.DESERIALIZE:
        return deserialize(serialize(structure), name=structure.name, address=address)
    raise StructureError(f"{mode.name} gives no structure")


def copy_to_bytes(structure: Structure, mode: CopyMode, address: int = 0) -> NDArray[np.uint8]:
    """The bytes of SERIALIZE, or of VISUALIZATION_DECODE_FOR_TOOLS as of a buffer at ``address``."""
    from rtviewer.copymode.decode import decode
    from rtviewer.copymode.serialize import serialize

    if mode is CopyMode.SERIALIZE:
        return serialize(structure)
    if mode is CopyMode.VISUALIZATION_DECODE_FOR_TOOLS:
        return decode(structure, address)
    raise StructureError(f"{mode.name} gives a structure, not bytes")


def made_copy(world: World, index: int, mode: CopyMode, address: int, file: Path | None = None) -> CopyRecord:
    """Copy one structure: to ``address``, or its bytes to ``file`` when there is one.

    Raises InvalidInputError when a rule forbids it, RtviewerError when the file cannot be written.
    """
    from rtviewer.io.blob_file import write_blob
    from rtviewer.io.dump import write_dump

    structure = world.structure(index)
    start = time.perf_counter()
    if mode in (CopyMode.SERIALIZE, CopyMode.VISUALIZATION_DECODE_FOR_TOOLS):
        data = copy_to_bytes(structure, mode, address)
        seconds = time.perf_counter() - start
        if file is not None:
            (write_blob if mode is CopyMode.SERIALIZE else write_dump)(file, data)
        size, copy = len(data), None
    else:
        if file is not None:
            raise RtviewerError(f"{mode.name} makes a structure in the document; save the document to keep it")
        copy = copy_to_new(structure, mode, address)
        seconds = time.perf_counter() - start
        size = copy.size
    return CopyRecord(mode, index, structure.name, structure.size, size, seconds, copy, str(file or ""))


def check_copy(structure: Structure, mode: CopyMode) -> list[Violation]:
    """Why a live structure cannot be copied in this mode (CP-12)."""
    from rtviewer.copymode.compact import check_compactable

    return check_compactable(structure) if mode is CopyMode.COMPACT else []


def read_copy(world: World, index: int, file: Path, address: int) -> CopyRecord:
    """DESERIALIZE of a blob file, meant for the place of structure ``index``.

    Raises FileFormatError for a blob that is refused, one of the other level, and a top level whose pointers name
    addresses where no bottom level of this world lives (BLD-10).
    """
    from rtviewer.io.blob_file import read_blob
    from rtviewer.io.structure_set import check_pointers, deserialized

    source = world.structure(index)
    data = read_blob(file)
    start = time.perf_counter()
    copy = deserialized(file, data, name=source.name, address=address)
    seconds = time.perf_counter() - start
    if copy.is_top_level != source.is_top_level:
        level = "top" if copy.is_top_level else "bottom"
        raise FileFormatError(file, f"the blob is a {level} level, {source.name} is not")
    if copy.is_top_level:
        check_pointers(file, copy, world.blases)
    return CopyRecord(CopyMode.DESERIALIZE, index, source.name, source.size, copy.size, seconds, copy, str(file))


def used_copy(world: World, record: CopyRecord) -> World:
    """The world with a copy in its source's place, at the copy's address."""
    assert record.copy is not None
    after = with_structure(world, record.structure, record.copy)
    return replaced_inputs(after, record.structure) if record.file else after


def free_address(world: World, copies: tuple[CopyRecord, ...] = ()) -> int:
    """Where the next copy can live: beyond everything there is."""
    return next_address([world.tlas, *world.blases, *(c.copy for c in copies if c.copy is not None)])


def copied_world(world: World, mode: CopyMode, indices: list[int]) -> World:
    """The world with copies (clone, compact, deserialize) in place of the structures ``indices``, laid out anew.

    Bottom levels move, so the top level is built again over their new addresses (CP-16) before it is copied itself.
    """
    for index in sorted(indices, reverse=True):  # the top level last
        address = free_address(world)
        world = with_structure(world, index, copy_to_new(world.structure(index), mode, address))
    return world


def structure_named(world: World, name: str) -> int:
    """The index of a structure by name, by number (``0`` and up: bottom levels), or ``TLAS``.

    Raises RtviewerError with the names there are, also when several have that name.
    """
    found = [index for index in world.structure_indices if world.structure(index).name == name]
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        numbers = ", ".join(str(index) for index in found)
        raise RtviewerError(f"{len(found)} structures are called {name!r}: say which by number, {numbers}")
    if name.upper() == "TLAS":
        return TOP_LEVEL
    if name.isdecimal() and int(name) < len(world.blases):
        return int(name)
    there = ", ".join(repr(world.structure(index).name) for index in list(world.structure_indices)[:20])
    raise RtviewerError(f"there is no structure {name!r}: there are {there}")


def save_world(world: World, path: Path) -> list[Path]:
    """Write a capture (``.rtcap``) or, where ``path`` has no suffix, a folder; returns the files written.

    Raises FileFormatError for another suffix, RtviewerError when the file system refuses.
    """
    from rtviewer.io.capture import CAPTURE_SUFFIX, write_capture
    from rtviewer.io.structure_folder import write_folder

    check_saving(path)
    if path.suffix.lower() == CAPTURE_SUFFIX:
        write_capture(path, set_of(world))
        return [path]
    return write_folder(path, set_of(world))


def check_saving(path: Path) -> None:
    """Whether structures can be saved under this name, before anything is done."""
    from rtviewer.io.capture import CAPTURE_SUFFIX

    suffix = path.suffix.lower()
    if suffix not in ("", CAPTURE_SUFFIX) and not path.is_dir():
        expected = f"{CAPTURE_SUFFIX}, or a folder"
        raise FileFormatError(path, "structures are not written as this", expected=expected, found=suffix)
    if suffix == CAPTURE_SUFFIX and path.is_dir():
        raise FileFormatError(path, "there is a folder of that name")


def replaced_inputs(world: World, index: int) -> World:
    """The world whose scene shows what its structure ``index`` holds, after bytes from elsewhere took its place."""
    from rtviewer.session.structures import instances_of, recovered_inputs

    scene = world.scene
    if index == TOP_LEVEL:
        position = {blas.address: number for number, blas in enumerate(world.blases)}
        return replace(world, scene=replace(scene, instances=instances_of(world.tlas, position)))
    blases = (*scene.blases[:index], recovered_inputs(world.blases[index]), *scene.blases[index + 1 :])
    return replace(world, scene=replace(scene, blases=blases))
