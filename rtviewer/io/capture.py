"""Captures (``.rtcap``): a whole world in one file, a zip of ``manifest.json`` and one serialized blob a structure.

Entries are stored without compression and with a fixed date, so the same world gives the same bytes everywhere.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

from rtviewer.errors import FileFormatError
from rtviewer.io.bounded_read import read_bytes
from rtviewer.io.image_file import replaced
from rtviewer.io.structure_set import (
    FILE_NAME,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    MAX_STRUCTURES,
    StructureEntry,
    StructureSet,
    blobs_of,
    manifest_of,
    read_manifest,
    set_from,
)

CAPTURE_SUFFIX = ".rtcap"
MAX_UNPACKED_BYTES = 8 << 30
MAX_GROWTH = 64
"""A capture packed by other tools may unpack to this many times its size; more is a bomb."""
SMALL_BYTES = 1 << 20
"""Below this, growth is not looked at."""
FIXED_DATE = (1980, 1, 1, 0, 0, 0)


def write_capture(path: Path, content: StructureSet) -> None:
    """Write a capture; whole or not at all. Raises RtviewerError when the file system refuses."""
    with replaced(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(MANIFEST), manifest_of(content))
        for file, blob in blobs_of(content):
            archive.writestr(_entry(file), blob.tobytes())


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, FIXED_DATE)
    entry.external_attr = 0o644 << 16
    entry.create_system = 3  # else it depends on where this runs
    return entry


def read_capture(path: Path, data: bytes | None = None) -> StructureSet:
    """Read a capture; ``data`` saves reading the file again.

    Raises FileFormatError for anything but a zip of a manifest and the blobs it names: other names or paths, names that
    occur twice, sizes that are not the declared ones, checksums, encryption, and bombs, before they unpack.
    """
    data = read_bytes(path) if data is None else data
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = _checked_entries(path, archive, len(data))
            manifest = read_manifest(path, _unpack(path, archive, entries[MANIFEST]))
            named = {entry.file for entry in manifest.structures}
            if extra := set(entries) - named - {MANIFEST}:
                raise FileFormatError(path, "an entry that the manifest does not name", field=min(extra))

            def read(entry: StructureEntry) -> bytes:
                if entry.file not in entries:
                    raise FileFormatError(path, "a structure of the manifest is missing", field=entry.file)
                return _unpack(path, archive, entries[entry.file])

            return set_from(path, manifest, read)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError, ValueError) as error:
        raise FileFormatError(path, f"damaged or not a capture: {error}") from error


def _checked_entries(path: Path, archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Entries by name, when their table can be trusted: nothing is unpacked before."""
    table = archive.infolist()
    if len(table) > MAX_STRUCTURES + 1:
        raise FileFormatError(path, "too many entries", expected=f"at most {MAX_STRUCTURES + 1}", found=len(table))
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in table:
        if entry.filename != MANIFEST and not FILE_NAME.fullmatch(entry.filename):
            found = repr(entry.filename[:100])
            raise FileFormatError(path, "not a name for an entry", expected=f"{MANIFEST} or NAME.rtblob", found=found)
        if entry.filename in entries:
            raise FileFormatError(path, "two entries of one name", field=entry.filename)
        if entry.flag_bits & 1:
            raise FileFormatError(path, "an encrypted entry", field=entry.filename)
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            method = f"method {entry.compress_type}"
            raise FileFormatError(path, "unknown compression", field=entry.filename, found=method)
        entries[entry.filename] = entry
    if MANIFEST not in entries:
        raise FileFormatError(path, "the manifest is missing", field=MANIFEST)
    if entries[MANIFEST].file_size > MAX_MANIFEST_BYTES:
        size_found = entries[MANIFEST].file_size
        raise FileFormatError(path, "too large for a manifest", expected=MAX_MANIFEST_BYTES, found=size_found)
    unpacked = sum(entry.file_size for entry in table)
    most = min(MAX_UNPACKED_BYTES, max(size * MAX_GROWTH, SMALL_BYTES))
    if unpacked > most:
        raise FileFormatError(path, "unpacks to too much", expected=f"at most {most} bytes", found=unpacked)
    return entries


def _unpack(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """An entry's bytes, never more than it declares; reading to the end also checks its checksum."""
    with archive.open(entry) as file:
        data = file.read(entry.file_size)
        more = file.read(1)
    if len(data) != entry.file_size or more:
        found = f"more than {entry.file_size}" if more else len(data)
        raise FileFormatError(path, "another size than declared", field=entry.filename, found=found)
    return data
