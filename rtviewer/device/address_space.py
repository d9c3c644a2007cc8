"""Simulated memory: heaps of bytes at places that never repeat, and addresses that name them.

Addresses are multiples of 256, the same in every run, and are never given out twice, so an address of freed memory can
always be told from a live one. Every allocation is followed by a gap that belongs to nobody: running past the end of a
buffer never lands in the next one. Address 0 is NULL.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.sizes import align
from rtviewer.accel.structure import aligned_bytes
from rtviewer.device.buffers import Buffer

FIRST_ADDRESS = 0x1_0000_0000
GAP = 0x1_0000


@dataclass(eq=False)
class Heap:
    """Bytes that buffers stand on. ``place``: where its first byte is in simulated physical memory; ranges that overlap
    there overlap in fact, whatever addresses name them. ``data`` (size,) uint8, its first byte 64-aligned in memory."""

    place: int
    data: NDArray[np.uint8]
    name: str = ""
    buffers: list[Buffer] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.data)


class AddressSpace:
    """Gives out addresses and finds the buffer at one."""

    def __init__(self) -> None:
        self._next = FIRST_ADDRESS
        self._starts: list[int] = []
        self._buffers: list[Buffer] = []

    def reserve(self, size: int) -> int:
        """A 256-aligned address at which ``size`` bytes and a gap are nobody else's, now or later."""
        address = self._next
        self._next += align(size, GAP) + GAP
        return address

    def allocate(self, size: int, name: str = "") -> Heap:
        """Zeroed memory. Raises MemoryError when there is not as much; no address is used up then."""
        data = aligned_bytes(size)
        return Heap(self.reserve(size), data, name)

    def add(self, buffer: Buffer) -> None:
        """Make a buffer findable; its address came from :meth:`reserve`."""
        place = bisect_right(self._starts, buffer.address)
        self._starts.insert(place, buffer.address)
        self._buffers.insert(place, buffer)

    def remove(self, buffer: Buffer) -> None:
        """Its addresses name nothing from now on."""
        place = bisect_right(self._starts, buffer.address) - 1
        del self._starts[place], self._buffers[place]

    def find(self, address: int) -> tuple[Buffer, int] | None:
        """The buffer that an address lies in, and the offset of the address in it; None where there is none.

        The end of a buffer still belongs to it, with nothing left to read: an empty range may start there.
        """
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        buffer = self._buffers[place]
        offset = address - buffer.address
        return (buffer, offset) if offset <= buffer.size else None

    def __iter__(self) -> Iterator[Buffer]:
        return iter(tuple(self._buffers))
