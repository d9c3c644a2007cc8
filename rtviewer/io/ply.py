"""PLY: ASCII and both binary forms, elements and properties in any order.

Own parsing, because polygons must become fans in file order (mixed ones too) and counts must be checked against the
bytes that are there before anything is allocated.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtviewer.errors import FileFormatError
from rtviewer.io.triangle_input import (
    deactivate_partial_nan,
    fan_triangles,
    float32_positions,
    keep_triangles_in_range,
    opaque_triangles,
    places,
    single_mesh_scene,
)
from rtviewer.scene.scene import Scene

SCALAR_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8", "int64": "i8", "uint64": "u8",
}  # fmt: skip
FORMATS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
MAX_HEADER_BYTES = 1 << 20
LIST_NAMES = ("vertex_indices", "vertex_index")


@dataclass(frozen=True)
class Property:
    """``count_type`` is the type of a list's length, empty for a plain value."""

    name: str
    type: str
    count_type: str = ""


@dataclass
class Element:
    """One ``element`` of a header: ``count`` rows of ``properties``."""

    name: str
    count: int
    properties: list[Property]

    @property
    def has_list(self) -> bool:
        return any(p.count_type for p in self.properties)


@dataclass
class _Lists:
    """A list property of all rows: ``values`` one after another, ``counts`` of each row."""

    values: NDArray[np.float64]
    counts: NDArray[np.int64]


_Column = NDArray[np.float64] | _Lists


def read_ply(path: Path, data: bytes) -> Scene:
    """Read a PLY file as one opaque triangle geometry placed once.

    Raises FileFormatError when the header is not understood, when counts do not fit the bytes that follow, when there
    are no x, y, z, or when faces come as strips.
    """
    byte_order, elements, start = _header(path, data)
    vertex = next((e for e in elements if e.name == "vertex"), None)
    if vertex is None:
        raise FileFormatError(path, "the header has no element 'vertex'", field="element")
    if any(e.name == "tristrips" and e.count for e in elements):
        raise FileFormatError(path, "triangle strips (element 'tristrips') are not read, only faces", field="element")
    reader = _AsciiBody(path, data, start) if byte_order == "" else _BinaryBody(path, data, start, byte_order)
    wanted = {e.name for e in elements} & {"vertex", "face"}
    columns: dict[str, dict[str, _Column]] = {}
    for element in elements:
        if not wanted <= columns.keys():  # what follows both is not read
            columns[element.name] = reader.element(element)
    return _scene(path, columns["vertex"], columns.get("face", {}))


def _scene(path: Path, vertex: dict[str, _Column], face: dict[str, _Column]) -> Scene:
    axes = [vertex.get(axis) for axis in "xyz"]
    missing = [axis for axis, values in zip("xyz", axes, strict=True) if not isinstance(values, np.ndarray)]
    if missing:
        raise FileFormatError(path, f"element 'vertex' has no property {', '.join(missing)}", field="property")
    vertices = float32_positions(np.stack([a for a in axes if isinstance(a, np.ndarray)], axis=1))
    warnings: list[str] = []
    polygons = next((face[name] for name in LIST_NAMES if name in face), None)
    if polygons is None:
        polygons = _Lists(np.empty(0), np.empty(0, np.int64))
    if not isinstance(polygons, _Lists):
        raise FileFormatError(path, "the vertex numbers of 'face' must be a list property", field=LIST_NAMES[0])
    with np.errstate(invalid="ignore"):  # numbers beyond the range of int64 and NaN name no vertex
        in_range = (polygons.values >= 0) & (polygons.values < len(vertices))
    corners = np.where(in_range, polygons.values, -1).astype(np.int64)
    short = np.flatnonzero(polygons.counts < 3)
    if len(short):
        named = places([f"face {row}" for row in short])
        warnings.append(f"{path.name}: {len(short)} face(s) with fewer than 3 corners were dropped: {named}")
    triangles, row = fan_triangles(corners, polygons.counts)
    indices, kept = keep_triangles_in_range(triangles, len(vertices), lambda k: f"face {row[k]}", warnings, path.name)
    vertices = deactivate_partial_nan(vertices, indices, lambda k: f"face {row[kept[k]]}", warnings, path.name)
    return single_mesh_scene(opaque_triangles(vertices, indices, path.stem), path.stem, str(path), warnings)


def _header(path: Path, data: bytes) -> tuple[str, list[Element], int]:
    """Byte order (empty for ASCII), elements, and the offset of the first byte after the header."""
    byte_order: str | None = None
    elements: list[Element] = []
    offset = 0
    while True:
        end = data.find(b"\n", offset, MAX_HEADER_BYTES)
        if end < 0:
            carriage = data.find(b"\r", offset, MAX_HEADER_BYTES)  # lines that end in CR only
            if carriage < 0:
                raise FileFormatError(path, "the header has no line 'end_header'", offset=offset)
            end = carriage
        elif b"\r" in data[offset : end - 1]:
            end = data.index(b"\r", offset)
        words = data[offset:end].decode("latin-1").split()
        if offset == 0 and words != ["ply"]:
            raise FileFormatError(path, "not a PLY file", offset=0, expected="ply", found=" ".join(words)[:20])
        if words == ["end_header"]:
            break
        where = offset
        offset = end + 1
        if not words or words[0] in ("ply", "comment", "obj_info"):
            continue
        if words[0] == "format" and len(words) == 3 and words[1] in FORMATS:
            byte_order = FORMATS[words[1]]
        elif words[0] == "element" and len(words) == 3 and words[2].isascii() and words[2].isdigit():
            if any(e.name == words[1] for e in elements):
                raise FileFormatError(path, f"element {words[1]!r} is declared twice", offset=where, field="element")
            elements.append(Element(words[1], int(words[2][:20]), []))
        elif words[0] == "property" and elements:
            elements[-1].properties.append(_property(path, words, where))
        else:
            raise FileFormatError(path, "header line not understood", offset=where, found=" ".join(words)[:60])
    if byte_order is None:
        raise FileFormatError(path, "the header has no line 'format'", expected=f"one of {', '.join(FORMATS)}")
    return byte_order, elements, end + 1


def _property(path: Path, words: list[str], offset: int) -> Property:
    if len(words) == 3 and words[1] in SCALAR_TYPES:
        return Property(words[2], SCALAR_TYPES[words[1]])
    if len(words) == 5 and words[1] == "list" and words[2] in SCALAR_TYPES and words[3] in SCALAR_TYPES:
        count_type = SCALAR_TYPES[words[2]]
        if count_type[0] != "f":
            return Property(words[4], SCALAR_TYPES[words[3]], count_type)
    raise FileFormatError(
        path, "property not understood", offset=offset, found=" ".join(words)[:60],
        expected="'property TYPE NAME' or 'property list COUNT_TYPE TYPE NAME'",
    )  # fmt: skip


class _BinaryBody:
    """Reads elements in order. A row whose lists are as long as the first row's is read in bulk, others one by one."""

    def __init__(self, path: Path, data: bytes, offset: int, byte_order: str) -> None:
        self.path, self.data, self.offset, self.byte_order = path, data, offset, byte_order

    def element(self, element: Element) -> dict[str, _Column]:
        smallest = sum(np.dtype(p.count_type or p.type).itemsize for p in element.properties)
        self._require(element, smallest * element.count)
        if not element.count or not element.properties:
            return {p.name: _empty(p) for p in element.properties}
        lengths = self._first_lengths(element)
        row = np.dtype([(str(i), *self._field(p, lengths[i])) for i, p in enumerate(element.properties)])
        if self.offset + row.itemsize * element.count <= len(self.data):
            table = np.frombuffer(self.data, row, element.count, self.offset)
            if self._is_uniform(element, table, lengths):
                self.offset += row.itemsize * element.count
                return self._columns(element, table)
        return self._walk(element)

    def _require(self, element: Element, size: int) -> None:
        left = len(self.data) - self.offset
        if size > left:
            raise FileFormatError(
                self.path, f"{element.count} rows do not fit into the rest of the file", offset=self.offset,
                field=f"element {element.name}", expected=f"at least {size} bytes", found=left,
            )  # fmt: skip

    def _field(self, prop: Property, length: int) -> tuple[object, ...]:
        if not prop.count_type:
            return (self.byte_order + prop.type,)
        return (np.dtype([("n", self.byte_order + prop.count_type), ("v", self.byte_order + prop.type, (length,))]),)

    def _first_lengths(self, element: Element) -> list[int]:
        lengths, offset = [], self.offset
        for prop in element.properties:
            length = self._length(element, prop, offset) if prop.count_type else 0
            lengths.append(length)
            offset += np.dtype(prop.type).itemsize * (length if prop.count_type else 1)
            offset += np.dtype(prop.count_type).itemsize if prop.count_type else 0
        return lengths

    def _length(self, element: Element, prop: Property, offset: int) -> int:
        """A list's length at ``offset``, checked against the bytes that are left."""
        kind = np.dtype(self.byte_order + prop.count_type)
        if offset + kind.itemsize > len(self.data):
            raise self._cut_short(element, offset)
        length = int(np.frombuffer(self.data, kind, 1, offset)[0])
        left = len(self.data) - offset - kind.itemsize
        if length < 0 or length * np.dtype(prop.type).itemsize > left:
            raise FileFormatError(
                self.path, "a list is longer than the rest of the file", offset=offset,
                field=f"{element.name}.{prop.name}", expected=f"at most {left} bytes", found=length,
            )  # fmt: skip
        return length

    def _cut_short(self, element: Element, offset: int) -> FileFormatError:
        return FileFormatError(self.path, "the file is cut short", offset=offset, field=f"element {element.name}")

    @staticmethod
    def _is_uniform(element: Element, table: NDArray[np.void], lengths: list[int]) -> bool:
        return all(
            not prop.count_type or bool((table[str(i)]["n"] == lengths[i]).all())
            for i, prop in enumerate(element.properties)
        )

    @staticmethod
    def _columns(element: Element, table: NDArray[np.void]) -> dict[str, _Column]:
        columns: dict[str, _Column] = {}
        for i, prop in enumerate(element.properties):
            if prop.count_type:
                values = table[str(i)]["v"].astype(np.float64)
                counts = np.full(len(table), values.shape[1], np.int64)
                columns[prop.name] = _Lists(values.ravel(), counts)
            else:
                columns[prop.name] = table[str(i)].astype(np.float64)
        return columns

    def _walk(self, element: Element) -> dict[str, _Column]:
        """Rows of different lengths: find where each value lies, row by row, and keep the face list."""
        wanted = next((p for p in element.properties if p.count_type and p.name in LIST_NAMES), None)
        sizes = [np.dtype(p.type).itemsize for p in element.properties]
        scalars: dict[str, list[float]] = {p.name: [] for p in element.properties if not p.count_type}
        parts: list[NDArray[np.generic]] = []
        counts: list[int] = []
        offset = self.offset
        kinds = [np.dtype(self.byte_order + p.type) for p in element.properties]
        for _ in range(element.count):
            for prop, size, kind in zip(element.properties, sizes, kinds, strict=True):
                if not prop.count_type:
                    if offset + size > len(self.data):
                        raise self._cut_short(element, offset)
                    if element.name == "vertex":
                        scalars[prop.name].append(float(np.frombuffer(self.data, kind, 1, offset)[0]))
                    offset += size
                    continue
                length = self._length(element, prop, offset)
                offset += np.dtype(prop.count_type).itemsize
                if prop is wanted:
                    parts.append(np.frombuffer(self.data, kind, length, offset))
                    counts.append(length)
                offset += length * size
        self.offset = offset
        columns: dict[str, _Column] = {name: np.array(values, np.float64) for name, values in scalars.items()}
        if wanted is not None:
            columns[wanted.name] = _Lists(np.concatenate(parts).astype(np.float64), np.array(counts, np.int64))
        return columns


class _AsciiBody:
    """Reads elements as one line for each row. More values on a line than the header declares are stepped over."""

    def __init__(self, path: Path, data: bytes, offset: int) -> None:
        self.path = path
        self.lines = [line for line in data[offset:].replace(b"\r", b"\n").split(b"\n") if line.strip()]
        self.position = 0

    def element(self, element: Element) -> dict[str, _Column]:
        left = len(self.lines) - self.position
        if element.count > left and element.properties:
            raise FileFormatError(
                self.path, f"{element.count} rows do not fit into the rest of the file",
                field=f"element {element.name}", expected=f"{element.count} lines", found=left,
            )  # fmt: skip
        if not element.count or not element.properties:
            return {p.name: _empty(p) for p in element.properties}
        lines = self.lines[self.position : self.position + element.count]
        self.position += element.count
        return self._lists(element, lines) if element.has_list else self._scalars(element, lines)

    def _scalars(self, element: Element, lines: list[bytes]) -> dict[str, _Column]:
        width = len(element.properties)
        rows = [line.split()[:width] for line in lines]
        short = next((row for row, words in enumerate(rows) if len(words) < width), None)
        if short is not None:
            raise self._error(element, short, "the line is cut short", f"{width} values", len(rows[short]))
        values = self._numbers(element, [word for words in rows for word in words]).reshape(-1, width)
        return {p.name: values[:, i] for i, p in enumerate(element.properties)}

    def _lists(self, element: Element, lines: list[bytes]) -> dict[str, _Column]:
        scalars: dict[str, list[bytes]] = {p.name: [] for p in element.properties if not p.count_type}
        lists: dict[str, tuple[list[bytes], list[int]]] = {p.name: ([], []) for p in element.properties if p.count_type}
        for row, line in enumerate(lines):
            words, position = line.split(), 0
            for prop in element.properties:
                if position >= len(words):
                    raise self._error(element, row, f"no value for {prop.name}", "more values", len(words))
                if not prop.count_type:
                    scalars[prop.name].append(words[position])
                    position += 1
                    continue
                left = len(words) - position - 1
                length = int(words[position]) if words[position].isdigit() and len(words[position]) < 19 else -1
                if not 0 <= length <= left:
                    found = words[position][:20].decode("latin-1")
                    message = f"the length of list {prop.name} does not fit the line"
                    raise self._error(element, row, message, f"0 to {left}", found)
                values, counts = lists[prop.name]
                values += words[position + 1 : position + 1 + length]
                counts.append(length)
                position += 1 + length
        columns: dict[str, _Column] = {name: self._numbers(element, column) for name, column in scalars.items()}
        for name, (values, counts) in lists.items():
            columns[name] = _Lists(self._numbers(element, values), np.array(counts, np.int64))
        return columns

    def _error(self, element: Element, row: int, message: str, expected: object, found: object) -> FileFormatError:
        field = f"element {element.name}, row {row}"
        return FileFormatError(self.path, message, field=field, expected=expected, found=found)

    def _numbers(self, element: Element, words: list[bytes]) -> NDArray[np.float64]:
        try:
            return np.array([float(word) for word in words], np.float64)
        except ValueError as error:
            raise FileFormatError(self.path, f"not a number: {error}", field=f"element {element.name}") from error


def _empty(prop: Property) -> _Column:
    return _Lists(np.empty(0), np.empty(0, np.int64)) if prop.count_type else np.empty(0)
