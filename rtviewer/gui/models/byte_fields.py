"""Bytes as rows of named fields, made when they are shown: what stands at which offset, and what it means.

A ``Block`` is a run of equal records (header, descs, nodes); a ``Span`` is a run of bytes that is named as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.gui.widgets.text import format_bytes

MOST_NUMBERS = 12
"""Numbers of an array field that are written out."""

HEXADECIMAL = (
    "StartAddress", "AccelerationStructure", "IndexBuffer", "Transform3x4", "IDAndMask", "AndFlags", "build_flags",
    "checksum", "input_hash", "Data1", "Data2", "Data3",
)  # fmt: skip
"""Ends of names of fields whose numbers are addresses, packed bits or hashes."""

Meaning = Callable[[Any], str]


@dataclass(frozen=True)
class FieldRow:
    """``offset`` and ``size`` in bytes; ``meaning`` may be empty."""

    offset: int
    size: int
    name: str
    value: str
    meaning: str = ""


@dataclass(frozen=True)
class Leaf:
    """A field of a record that is no record itself."""

    name: str
    offset: int
    dtype: np.dtype[Any]


@cache
def leaves_of(dtype: np.dtype[Any], skipped: frozenset[str] = frozenset()) -> tuple[Leaf, ...]:
    """All leaf fields in order of offset, names joined by dots; ``skipped`` top-level names are left out."""
    found: list[Leaf] = []
    for name in dtype.names or ():
        inner, offset = dtype.fields[name][:2]  # type: ignore[index]
        if name in skipped:
            continue
        if inner.names:
            found += [Leaf(f"{name}.{leaf.name}", offset + leaf.offset, leaf.dtype) for leaf in leaves_of(inner)]
        else:
            found.append(Leaf(name, offset, inner))
    return tuple(sorted(found, key=lambda leaf: leaf.offset))


@dataclass(frozen=True)
class Block:
    """``count`` records of ``dtype`` from byte ``offset``. ``meanings``: leaf name to words for its value."""

    name: str
    offset: int
    dtype: np.dtype[Any]
    count: int = 1
    meanings: Mapping[str, Meaning] = field(default_factory=dict)
    skipped: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        return self.dtype.itemsize * self.count

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        if self.dtype.names:
            return leaves_of(self.dtype, self.skipped)
        return (Leaf("", 0, self.dtype),)

    @property
    def row_count(self) -> int:
        return self.count * len(self.leaves)

    def row(self, number: int, data: NDArray[np.uint8]) -> FieldRow:
        record, leaf = divmod(number, len(self.leaves))
        chosen = self.leaves[leaf]
        offset = self.offset + record * self.dtype.itemsize + chosen.offset
        raw = data[offset : offset + chosen.dtype.itemsize]
        name = f"{self.name}[{record}]" if self.count > 1 else self.name
        name = f"{name}.{chosen.name}" if chosen.name else name
        if len(raw) < chosen.dtype.itemsize:
            return FieldRow(offset, chosen.dtype.itemsize, name, "beyond the end of the bytes")
        value = np.frombuffer(raw.tobytes(), chosen.dtype.base).reshape(chosen.dtype.shape)
        meaning = self.meanings.get(chosen.name)
        return FieldRow(
            offset, chosen.dtype.itemsize, name, _text(value, chosen.name), meaning(value.ravel()[0]) if meaning else ""
        )

    def row_at(self, offset: int) -> int:
        record, inside = divmod(offset - self.offset, self.dtype.itemsize)
        starts = [leaf.offset for leaf in self.leaves]
        return record * len(starts) + max(bisect_right(starts, inside) - 1, 0)


@dataclass(frozen=True)
class Span:
    """Bytes named as a whole."""

    name: str
    offset: int
    size: int
    meaning: str = ""
    value: str = ""

    @property
    def row_count(self) -> int:
        return 1

    def row(self, number: int, data: NDArray[np.uint8]) -> FieldRow:
        return FieldRow(self.offset, self.size, self.name, self.value or format_bytes(self.size), self.meaning)

    def row_at(self, offset: int) -> int:
        return 0


class ByteFields(Sequence[FieldRow]):
    """Rows of all blocks over ``data`` (n,) uint8, in order of offset."""

    def __init__(self, data: NDArray[np.uint8], blocks: Sequence[Block | Span] = ()) -> None:
        self.data = data
        self.blocks = sorted((b for b in blocks if b.row_count and b.size), key=lambda block: block.offset)
        self._first = np.cumsum([0, *(block.row_count for block in self.blocks)]).tolist()

    def __len__(self) -> int:
        return int(self._first[-1])

    def __getitem__(self, number: int) -> FieldRow:  # type: ignore[override]
        if not 0 <= number < len(self):
            raise IndexError(number)
        block = bisect_right(self._first, number) - 1
        return self.blocks[block].row(number - self._first[block], self.data)

    def row_at(self, offset: int) -> int:
        """The row whose bytes hold ``offset``; -1 when no block does."""
        block = bisect_right([b.offset for b in self.blocks], offset) - 1
        if block < 0 or offset >= self.blocks[block].offset + self.blocks[block].size:
            return -1
        return int(self._first[block]) + self.blocks[block].row_at(offset)


def _text(value: NDArray[Any], name: str) -> str:
    if value.dtype.kind == "S":
        return repr(value.ravel()[0].decode("latin-1"))
    if value.dtype == np.uint8:
        return value.tobytes().hex(" ")
    shown = [_number(number, name) for number in value.ravel()[:MOST_NUMBERS].tolist()]
    return "  ".join(shown) + (" …" if value.size > MOST_NUMBERS else "")


def _number(value: float, name: str) -> str:
    if isinstance(value, float):
        return f"{value:.7g}"
    return f"0x{value:X}" if name.endswith(HEXADECIMAL) else str(value)
