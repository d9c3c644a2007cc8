"""What the device wrote where: one record per acceleration structure, and the test that the bytes are still those.

A structure is usable only where a build or a copy put it. The record keeps a generation, which grows with every
write, and a hash of the bytes; bytes that came any other way are refused by name [CP-7]. Passing the test is also what
makes it safe to follow the references inside the bytes.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.structure import Structure


@dataclass(eq=False)
class Record:
    """One structure in memory.

    ``place``: of its first byte in simulated physical memory. ``generation``: number of the write that made it.
    ``blas_generations``, of a top level: generation of every bottom level it was built over, by address [BLD-6]; None
    where none was known when it was written, which is so after a deserialization until the first trace [SER-5].
    ``unsynchronized``: written and not yet followed by a barrier [ST-4].
    """

    structure: Structure
    place: int
    generation: int
    content_hash: bytes
    blas_generations: dict[int, int | None] = field(default_factory=dict)
    unsynchronized: bool = True

    @property
    def end(self) -> int:
        return self.place + self.structure.size

    @property
    def is_intact(self) -> bool:
        """The bytes are those that the device wrote."""
        return hash_of(self.structure.data) == self.content_hash

    @property
    def is_dehydrated(self) -> bool:
        return int(self.structure.header["state"]) == layout.STATE_DEHYDRATED


class Contents:
    """All records, by place."""

    def __init__(self) -> None:
        self._places: list[int] = []
        self._records: list[Record] = []
        self.generation = 0

    def at(self, place: int) -> Record | None:
        """The structure that starts at ``place``, if the device wrote one there and nothing over it."""
        i = bisect_left(self._places, place)
        return self._records[i] if i < len(self._places) and self._places[i] == place else None

    def put(
        self,
        structure: Structure,
        place: int,
        memory: NDArray[np.uint8],
        blas_generations: Mapping[int, int | None] | None = None,
    ) -> Record:
        """Write the bytes of ``structure`` to ``memory`` and remember it; forgets what it overwrites."""
        data = structure.data
        memory[: len(data)] = data
        view = memory[: len(data)]
        view.flags.writeable = False
        self.generation += 1
        self.forget(place, place + len(data))
        record = Record(
            Structure(view, structure.name, structure.address), place, self.generation, hash_of(view),
            dict(blas_generations or {}),
        )  # fmt: skip
        i = bisect_left(self._places, place)
        self._places.insert(i, place)
        self._records.insert(i, record)
        return record

    def forget(self, start: int, end: int) -> None:
        """Drop every record that overlaps [start, end)."""
        first = bisect_left(self._places, start)
        if first and self._records[first - 1].end > start:
            first -= 1
        last = bisect_left(self._places, end)
        del self._places[first:last], self._records[first:last]

    def within(self, start: int, end: int) -> list[Record]:
        """Records that start in [start, end), in order."""
        return self._records[bisect_left(self._places, start) : bisect_right(self._places, end - 1)]


def hash_of(data: NDArray[np.uint8]) -> bytes:
    """Eight bytes that change with any byte of ``data``."""
    return hashlib.blake2b(data.data, digest_size=8).digest()


def looks_like_structure(data: NDArray[np.uint8]) -> bool:
    """The bytes begin as a structure does, whoever put them there."""
    return data[: len(layout.MAGIC)].tobytes() == layout.MAGIC
