"""A copy of a whole document, or of one of its structures, to files: what ``rtviewer copy`` does."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rtviewer.dxr.flags import CopyMode
from rtviewer.errors import FileFormatError, RtviewerError
from rtviewer.session.copies import MODE_NAMES, check_saving, copied_world, copy_to_bytes, save_world, structure_named
from rtviewer.session.document import Document, World

BYTES_MODES = (CopyMode.SERIALIZE, CopyMode.VISUALIZATION_DECODE_FOR_TOOLS)


@dataclass(frozen=True)
class CopyRow:
    """One structure that was copied; sizes in bytes."""

    name: str
    level: str
    source_size: int
    size: int
    file: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def check_output(mode: str, output: Path, structure: str | None) -> None:
    """Whether a mode can write this name; raises FileFormatError or RtviewerError with the legal ones."""
    from rtviewer.io.blob_file import BLOB_SUFFIX
    from rtviewer.io.dump import DUMP_SUFFIX

    kind = MODE_NAMES[mode]
    if kind not in BYTES_MODES:
        check_saving(output)
        return
    single = BLOB_SUFFIX if kind is CopyMode.SERIALIZE else DUMP_SUFFIX
    suffix = output.suffix.lower()
    if suffix == single:
        if structure is None:
            raise RtviewerError(f"{output} holds one structure: say which with --structure, or name a folder")
    elif suffix and not output.is_dir():
        raise FileFormatError(output, f"{mode} does not write this", expected=f"{single} or a folder", found=suffix)


def copy_source(
    document: Document, mode: str, output: Path, structure: str | None = None
) -> tuple[list[CopyRow], list[Path]]:
    """Copy every structure of a document, or the named one, and write the result; returns rows and the files written.

    Raises InvalidInputError when a rule forbids a copy (CP-12), RtviewerError for names and files.
    """
    world, kind = document.world, MODE_NAMES[mode]
    chosen = list(world.structure_indices) if structure is None else [structure_named(world, structure)]
    if kind is CopyMode.DESERIALIZE and document.has_inputs:
        raise RtviewerError("deserialize takes what was serialized: a blob, a folder or a capture, not a scene")
    if kind in BYTES_MODES:
        return _bytes_to_files(world, kind, chosen, output, structure is not None)
    copied = copied_world(world, kind, chosen)
    rows = [_row(world, index, copied.structure(index).size) for index in chosen]
    return rows, save_world(copied, output)


def _bytes_to_files(
    world: World, kind: CopyMode, chosen: list[int], output: Path, is_single: bool
) -> tuple[list[CopyRow], list[Path]]:
    from rtviewer.copymode.serialize import serialized_size
    from rtviewer.io.blob_file import BLOB_SUFFIX, write_blob
    from rtviewer.io.dump import DUMP_SUFFIX, write_dump
    from rtviewer.io.structure_set import file_names
    from rtviewer.session.structures import set_of

    if kind is CopyMode.SERIALIZE and not is_single:
        files = save_world(world, output)
        rows = [
            _row(world, index, serialized_size(world.structure(index)), files[number].name)
            for number, index in enumerate(chosen)
        ]
        return rows, files
    suffix, write = (BLOB_SUFFIX, write_blob) if kind is CopyMode.SERIALIZE else (DUMP_SUFFIX, write_dump)
    names = dict(zip(world.structure_indices, file_names(set_of(world)), strict=True))
    if output.suffix.lower() != suffix:
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RtviewerError(f"cannot write {output}: {error.strerror or error}") from error
    rows, written = [], []
    for index in chosen:
        file = output if output.suffix.lower() == suffix else output / Path(names[index]).with_suffix(suffix)
        data = copy_to_bytes(world.structure(index), kind, world.structure(index).address)
        write(file, data)
        rows.append(_row(world, index, len(data), file.name))
        written.append(file)
    return rows, written


def _row(world: World, index: int, size: int, file: str = "") -> CopyRow:
    structure = world.structure(index)
    level = "top" if structure.is_top_level else "bottom"
    return CopyRow(structure.name, level, structure.size, size, file)
