"""A folder of structures: one blob a structure and ``manifest.json``, as ``copy --mode serialize`` writes it."""

from __future__ import annotations

from pathlib import Path

from rtviewer.errors import FileFormatError, RtviewerError
from rtviewer.io.blob_file import read_blob, write_blob
from rtviewer.io.bounded_read import read_bytes
from rtviewer.io.image_file import replaced
from rtviewer.io.structure_set import (
    MANIFEST,
    MAX_MANIFEST_BYTES,
    StructureEntry,
    StructureSet,
    blobs_of,
    manifest_of,
    read_manifest,
    set_from,
)


def write_folder(folder: Path, content: StructureSet) -> list[Path]:
    """Write a set into ``folder``, which is made when it is not there; returns the files written.

    The manifest comes last, so a folder with a manifest is complete. Raises RtviewerError when the folder holds a
    scene, or when the file system refuses.
    """
    if (folder / "scene.toml").exists():
        raise RtviewerError(f"{folder} holds a scene.toml; structures are written into a folder of their own")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)
    except OSError as error:
        raise RtviewerError(f"cannot write {folder}: {error.strerror or error}") from error
    written = []
    for file, blob in blobs_of(content):
        write_blob(folder / file, blob)
        written.append(folder / file)
    with replaced(folder / MANIFEST) as temporary:
        temporary.write_bytes(manifest_of(content))
    return [*written, folder / MANIFEST]


def read_folder(manifest_file: Path) -> StructureSet:
    """Read the set that a ``manifest.json`` describes; blobs lie beside it. Raises FileFormatError."""
    manifest = read_manifest(manifest_file, read_bytes(manifest_file, limit=MAX_MANIFEST_BYTES))

    def read(entry: StructureEntry) -> bytes:
        file = manifest_file.parent / entry.file
        if file.is_symlink():
            raise FileFormatError(file, "a link; blobs are read only from beside their manifest")
        return read_blob(file)

    return set_from(manifest_file, manifest, read)
