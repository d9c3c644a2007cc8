"""Files of rays that an application recorded: NPZ or CSV in, the same with results out.

What a ray holds is not judged here: NaN, empty intervals and any flag word are kept, and who traces them says which
rule they break (RAY-2 to RAY-4). What is refused is a file that does not say what its rays are.
"""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.errors import FileFormatError
from rtviewer.io.bounded_read import read_bytes
from rtviewer.io.image_file import replaced, write_hits
from rtviewer.io.recording import Archive

RAY_SUFFIXES = (".npz", ".csv")
MAX_RAYS = 1 << 23
"""With results and counters that is more than a gigabyte."""
MAX_CSV_BYTES = 1 << 30
LINES_AT_ONCE = 4096
"""Of a CSV, formatted before other threads get a turn."""

ARRAYS: dict[str, tuple[str, ...]] = {
    "origin": ("origin", "ray_origin"),
    "direction": ("direction", "ray_direction"),
    "t_min": ("t_min", "ray_tmin"),
    "t_max": ("t_max", "ray_tmax"),
    "flags": ("flags", "ray_flags"),
    "mask": ("mask", "ray_mask"),
}
"""Arrays of an NPZ: their name, and that in recordings of a driver. The last two may be missing."""
OPTIONAL = ("flags", "mask")
AXES = "xyz"
CSV_COLUMNS = tuple(
    column
    for name in ARRAYS
    for column in ([f"{name}_{axis}" for axis in AXES] if name in ("origin", "direction") else [name])
)
"""Columns of a CSV, in any order; the last two may be missing."""


@dataclass(frozen=True, eq=False)
class RayTable:
    """n rays of a file: ``origin``, ``direction`` (n, 3) float32; ``t_min``, ``t_max`` (n,) float32; ``flags``,
    ``mask`` (n,) uint32, None where the file has none. ``ignored``: names of what else the file holds."""

    name: str
    origin: NDArray[np.float32]
    direction: NDArray[np.float32]
    t_min: NDArray[np.float32]
    t_max: NDArray[np.float32]
    flags: NDArray[np.uint32] | None = None
    mask: NDArray[np.uint32] | None = None
    ignored: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.origin)


def ray_suffix(path: Path) -> str:
    """The suffix of a file of rays. Raises FileFormatError when it is neither .npz nor .csv."""
    suffix = path.suffix.lower()
    if suffix not in RAY_SUFFIXES:
        expected = " or ".join(RAY_SUFFIXES)
        raise FileFormatError(
            path, "unknown kind of ray file", field="suffix", expected=expected, found=suffix or "none"
        )
    return suffix


def read_rays(path: Path | str) -> RayTable:
    """Read a file of rays.

    Raises FileFormatError naming array, or line and column: what is missing, of another shape or type, no number, or
    beyond float32's (of flags and masks: uint32's) range.
    """
    file = Path(path)
    try:
        table = _read_npz(file) if ray_suffix(file) == ".npz" else _read_csv(file)
    except MemoryError as error:
        raise FileFormatError(file, "not enough memory to read this file") from error
    if len(table) > MAX_RAYS:
        raise FileFormatError(file, "too many rays", expected=f"at most {MAX_RAYS:,}", found=f"{len(table):,}")
    return table


def _read_npz(path: Path) -> RayTable:
    archive = Archive(path)
    found = {name: next((key for key in keys if key in archive), None) for name, keys in ARRAYS.items()}
    missing = [name for name, key in found.items() if key is None and name not in OPTIONAL]
    if missing:
        there = ", ".join(sorted(archive)[:12]) or "nothing"
        raise FileFormatError(path, "array is missing", field=missing[0], found=there)
    used = {name: key for name, key in found.items() if key is not None}
    with np.errstate(over="ignore"):
        origin = archive.take(used["origin"], np.float32, None, 3)
        count = len(origin)
        arrays = {
            "origin": origin,
            "direction": archive.take(used["direction"], np.float32, count, 3),
            "t_min": archive.take(used["t_min"], np.float32, count),
            "t_max": archive.take(used["t_max"], np.float32, count),
        }
    for name, values in arrays.items():
        overflown = np.isinf(values)
        if overflown.any() and np.isfinite(archive.raw(used[name])[overflown]).any():
            raise FileFormatError(path, "a number is beyond float32's range", field=used[name])
    for name in OPTIONAL:
        if name in used:
            arrays[name] = archive.take(used[name], np.uint32, count)
    return RayTable(path.name, **arrays, ignored=tuple(sorted(set(archive) - set(used.values()))))


def _read_csv(path: Path) -> RayTable:
    data = read_bytes(path, limit=MAX_CSV_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(path, "not UTF-8 text", offset=error.start) from error
    lines = _rows(path, text)
    header = [name.strip().lower() for name in next(lines, (0, []))[1]]
    if not header:
        raise FileFormatError(path, "the file is empty", expected=f"a header: {','.join(CSV_COLUMNS)}")
    twice = [name for name in header if name in CSV_COLUMNS and header.count(name) > 1]
    if twice:
        raise FileFormatError(path, "two columns have the same name", field=twice[0])
    missing = [name for name in CSV_COLUMNS if name not in header and name not in OPTIONAL]
    if missing:
        expected = ",".join(name for name in CSV_COLUMNS if name not in OPTIONAL)
        raise FileFormatError(
            path, "column is missing", field=missing[0], expected=expected, found=",".join(header)[:200]
        )
    names = [name for name in CSV_COLUMNS if name in header]
    places = [header.index(name) for name in names]
    values = _csv_numbers(path, lines, names, places, len(header))
    with np.errstate(over="ignore"):
        floats = values[:, :8].astype(np.float32)
    if beyond := np.argwhere(np.isinf(floats) & np.isfinite(values[:, :8])).tolist():
        row, column = beyond[0]
        raise FileFormatError(path, f"ray {row}: a number is beyond float32's range", field=names[column])
    words = {
        name: np.ascontiguousarray(values[:, names.index(name)].astype(np.uint32)) for name in OPTIONAL if name in names
    }
    return RayTable(
        path.name, np.ascontiguousarray(floats[:, 0:3]), np.ascontiguousarray(floats[:, 3:6]),
        np.ascontiguousarray(floats[:, 6]), np.ascontiguousarray(floats[:, 7]), **words,
        ignored=tuple(name for name in header if name not in CSV_COLUMNS),
    )  # fmt: skip


def _rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and cells of all lines that are not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise FileFormatError(path, f"line {reader.line_num}: not CSV: {error}") from error


def _csv_numbers(
    path: Path, lines: Iterator[tuple[int, list[str]]], names: Sequence[str], places: Sequence[int], width: int
) -> NDArray[np.float64]:
    """(n, len(names)) float64, which holds every float32 and uint32."""
    numbers = array("d")
    float_places, word_places = places[:8], places[8:]
    for line, cells in lines:
        if len(cells) != width:
            raise FileFormatError(path, f"line {line}: wrong number of values", expected=width, found=len(cells))
        try:
            numbers.extend([float(cells[place]) for place in float_places])
            if word_places:
                numbers.extend([_word(cells[place]) for place in word_places])
        except (ValueError, OverflowError):
            raise _bad_cell(path, line, cells, names, places) from None
        if len(numbers) > MAX_RAYS * len(names):
            raise FileFormatError(path, "too many rays", expected=f"at most {MAX_RAYS:,}")
    return np.frombuffer(numbers, np.float64).reshape(-1, len(names)) if numbers else np.empty((0, len(names)))


def _word(text: str) -> int:
    word = int(text, 0)
    if not 0 <= word <= 0xFFFFFFFF:
        raise ValueError
    return word


def _bad_cell(path: Path, line: int, cells: list[str], names: Sequence[str], places: Sequence[int]) -> FileFormatError:
    """The error of the first value of a line that is no number."""
    for name, place in zip(names, places, strict=True):
        is_word = name in OPTIONAL
        try:
            _word(cells[place]) if is_word else float(cells[place])
        except (ValueError, OverflowError):
            expected = "a whole number from 0 to 0xffffffff" if is_word else "a number"
            break
    return FileFormatError(
        path, f"line {line}: not a number that can be used", field=name, expected=expected,
        found=repr(cells[place][:40]),
    )  # fmt: skip


def write_ray_columns(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays of n rows: as they are (.npz), or as CSV with a column for each, ``name_x`` and so on for vectors.

    Floats are written so that float32 reads back the same. Raises FileFormatError for another suffix, RtviewerError
    when the file system refuses.
    """
    if ray_suffix(path) == ".npz":
        write_hits(path, columns)
        return
    names: list[str] = []
    flat: list[NDArray[Any]] = []
    for name, values in columns.items():
        width = 1 if values.ndim == 1 else values.shape[1]
        axes = [""] if values.ndim == 1 else [f"_{axis}" for axis in (AXES if width == 3 else "uv")]
        names += [name + axis for axis in axes]
        flat += list(values.reshape(len(values), width).T)
    line = ",".join(_FORMATS[column.dtype.kind] for column in flat) + "\n"
    with replaced(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(names) + "\n")
        for first in range(0, len(flat[0]) if flat else 0, LINES_AT_ONCE):
            part = [_cells(column[first : first + LINES_AT_ONCE]) for column in flat]
            file.write("".join([line % row for row in zip(*part, strict=True)]))


_FORMATS = {"f": "%.9g", "b": "%d", "i": "%d", "u": "%d", "U": "%s"}
"""By numpy's kind of a column; nine digits give a float32 back."""


def _cells(values: NDArray[Any]) -> list[Any]:
    """Values to be formatted; text in quotes where it has to be."""
    if values.dtype.kind != "U":
        return values.tolist()  # type: ignore[no-any-return]
    return ['"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text for text in values.tolist()]
