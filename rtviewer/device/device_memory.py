"""The memory of one device: address space and buffers, the structures in them, barriers.

The calls are functions over this; it knows nothing of how structures are built or copied.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping

import numpy as np

from rtviewer.accel import layout
from rtviewer.accel.structure import Structure
from rtviewer.copymode.dehydrate import read_dehydrated
from rtviewer.device.address_space import AddressSpace, Heap
from rtviewer.device.buffers import (
    AS,
    SECTION,
    Buffer,
    HeapType,
    check_creation,
    check_transition,
)
from rtviewer.device.contents import Contents, Record, looks_like_structure
from rtviewer.device.memory_access import Access, Range, check_alignments, check_state_of, resolve
from rtviewer.dxr.flags import ResourceState
from rtviewer.dxr.limits import ACCELERATION_STRUCTURE_BYTE_ALIGNMENT
from rtviewer.dxr.profile import Profile
from rtviewer.dxr.rules import require
from rtviewer.errors import InvalidInputError, Violation, violation


class DeviceMemory:
    """See the module."""

    def __init__(self, profile: Profile, debug: bool) -> None:
        self.profile, self.debug = profile, debug
        self.space = AddressSpace()
        self.contents = Contents()
        self.warnings: list[Violation] = []
        self._heaps: list[Heap] = []
        self._barriers_are_recorded = False
        self._scribbles = 0

    # --- buffers --------------------------------------------------------------------------------------------------

    def create_heap(self, size: int, name: str = "") -> Heap:
        """See Device.create_heap."""
        size, name = operator.index(size), name or f"heap {len(self._heaps)}"
        require(_check_size(size, name), "CreateHeap")
        try:
            heap = self.space.allocate(size, name)
        except (MemoryError, ValueError) as error:  # ValueError: more than numpy can count
            text = "there is not as much memory on this machine"
            raise InvalidInputError(
                [violation("GEO-6", text, field=f"{name}.size", value=size)], "CreateHeap"
            ) from error
        self._heaps.append(heap)
        return heap

    def create_buffer(
        self,
        size: int,
        state: ResourceState,
        name: str,
        heap_type: HeapType,
        unordered_access: bool,
        heap: Heap | None,
        heap_offset: int,
    ) -> Buffer:
        """See Device.create_buffer."""
        size, heap_offset = operator.index(size), operator.index(heap_offset)
        found = check_creation(state, heap_type, unordered_access, name) + _check_size(size, name)
        if heap is not None:
            found += _check_placement(heap, heap_offset, size, state, name)
        require(found, "CreateBuffer")
        if heap is None:
            heap = self.create_heap(size, name)
            address = heap.place
        else:
            address = self.space.reserve(size)
        place = heap.place + heap_offset
        memory = heap.data[heap_offset : heap_offset + size]
        buffer = Buffer(name, size, address, state, memory, place, heap_type)
        heap.buffers.append(buffer)
        self.space.add(buffer)
        return buffer

    def free(self, buffer: Buffer) -> None:
        """Its addresses name nothing any more; memory that no other buffer stands on is gone with what it holds."""
        if buffer.freed:
            raise ValueError(f"buffer {buffer.name!r} is freed already")
        buffer.freed = True
        self.space.remove(buffer)
        for heap in self._heaps:
            if buffer in heap.buffers:
                heap.buffers.remove(buffer)
                if not heap.buffers:
                    self.contents.forget(heap.place, heap.place + heap.size)

    def transition(self, buffer: Buffer, state: ResourceState) -> None:
        require(check_transition(buffer, state), "ResourceBarrier")
        buffer.state = state

    def barrier(self, buffer: Buffer | None) -> None:
        """From now on a missing barrier is worth a warning [ST-4]."""
        self._barriers_are_recorded = True
        start, end = (0, 1 << 64) if buffer is None else (buffer.place, buffer.place + buffer.size)
        for record in self.contents.within(start, end):
            record.unsynchronized = False

    # --- ranges ---------------------------------------------------------------------------------------------------

    def resolve(self, access: Access) -> tuple[Range | None, list[Violation]]:
        return resolve(self.space, access)

    def live(
        self, address: int, field: str, rule: str, section: str, alignments: tuple[str, ...] = ("ALIGN-1",)
    ) -> tuple[Record | None, list[Violation]]:
        """The structure that the device wrote at ``address``; None with ``rule``, or CP-7, when none is there.

        Also checks ``alignments``, all of 256 bytes, and ST-1; ST-4 as a warning.
        """
        multiples = tuple((ACCELERATION_STRUCTURE_BYTE_ALIGNMENT, name) for name in alignments)
        found = check_alignments(Access(field, address, 0, AS, multiples, section=section))
        place = self.space.find(address) if address else None
        if place is None:
            what = "the address is NULL" if not address else "the address lies in no buffer"
            text = f"a live acceleration structure is needed here: {what}"
            return None, [*found, violation(rule, text, field=field, value=f"{address:#x}", section=section)]
        buffer, offset = place
        found += check_state_of(buffer, AS, field)
        record = self.contents.at(buffer.place + offset)
        if record is None and looks_like_structure(buffer.memory[offset:]):
            return None, [*found, _foreign_bytes(address, field, "they were not written here by a build or a copy")]
        if record is None or record.end > buffer.place + buffer.size:
            text = "no acceleration structure starts at this address"
            if record is not None:
                text = f"the structure here runs past the end of buffer {buffer.name!r}"
            return None, [*found, violation(rule, text, field=field, value=f"{address:#x}", section=section)]
        if not record.is_intact:
            what = f"they changed after the device wrote them (generation {record.generation})"
            return None, [*found, _foreign_bytes(address, field, what)]
        if record.unsynchronized and self._barriers_are_recorded:
            text = "no UAV barrier stands between the write of this structure and its use"
            found.append(violation("ST-4", text, field=field, value=f"{address:#x}", section=SECTION, warning=True))
        return record, found

    def adopt_dehydrated(self, address: int, field: str) -> list[Violation]:
        """Take raw bytes at an address as the dehydrated structure that they claim to be [XB-6].

        XB-6 when they make the claim but are not sound; nothing when they make none, or the device wrote them.
        """
        place = self.space.find(address) if address else None
        if place is None or not place[0].holds_structures or address % ACCELERATION_STRUCTURE_BYTE_ALIGNMENT:
            return []
        buffer, offset = place
        room = buffer.memory[offset:]
        record = self.contents.at(buffer.place + offset)
        if (record is not None and record.is_intact) or len(room) < layout.HEADER.itemsize:
            return []
        header = room[: layout.HEADER.itemsize].view(layout.HEADER)[0]
        if not looks_like_structure(room) or int(header["state"]) != layout.STATE_DEHYDRATED:
            return []
        try:
            structure = read_dehydrated(room[: int(header["size_in_bytes"])], name=buffer.name, address=address)
        except InvalidInputError as error:
            return [violation(v.rule, v.message, field=field, value=v.value, section=SECTION) for v in error.violations]
        self.store(address, structure)
        return []

    def range_of(self, record: Record, address: int, field: str) -> Range:
        """The bytes of a structure that :meth:`live` found at ``address``."""
        place = self.space.find(address)
        assert place is not None
        return Range(field, record.place, record.end, *place)

    def store(
        self, address: int, structure: Structure, blas_generations: Mapping[int, int | None] | None = None
    ) -> Record:
        """Write a structure to a destination that was checked."""
        place = self.space.find(address)
        assert place is not None
        buffer, offset = place
        return self.contents.put(structure, buffer.place + offset, buffer.memory[offset:], blas_generations)

    def scribble(self, scratch: Range) -> None:
        """Leave something in scratch memory that no call may rely on, another thing every time [BLD-7]."""
        if self.debug:
            self._scribbles += 1
            scratch.bytes[:] = (np.arange(len(scratch.bytes)) * 31 + self._scribbles * 97).astype(np.uint8)

    def name_at(self, address: int) -> str:
        """The name of the buffer at an address, with the offset where it is not 0."""
        place = self.space.find(address)
        if place is None:
            return f"{address:#x}"
        buffer, offset = place
        return f"{buffer.name}+{offset:#x}" if offset else buffer.name

    def warn(self, violations: list[Violation]) -> None:
        """Keep the warnings [ERR-4]."""
        self.warnings += sorted(v for v in violations if v.warning)


def _check_size(size: int, name: str) -> list[Violation]:
    if size >= 1:
        return []
    return [violation("GEO-6", "memory has at least one byte", field=f"{name}.size", value=size)]


def _foreign_bytes(address: int, field: str, what: str) -> Violation:
    text = f"the bytes look like an acceleration structure, but {what}; structures move by copy calls only"
    section = "D3D12_RAYTRACING_ACCELERATION_STRUCTURE_COPY_MODE"
    return violation("CP-7", text, field=field, value=f"{address:#x}", section=section)


def _check_placement(heap: Heap, offset: int, size: int, state: ResourceState, name: str) -> list[Violation]:
    """Bounds and alignment in the heap, and ST-3."""
    found: list[Violation] = []
    if offset % ACCELERATION_STRUCTURE_BYTE_ALIGNMENT:
        text = "a buffer is placed at a multiple of 256"
        found.append(violation("ALIGN-1", text, field=f"{name}.heap_offset", value=offset, section=SECTION))
    if offset < 0 or offset + size > heap.size:
        text = f"{size} bytes do not fit into a heap of {heap.size}"
        found.append(violation("GEO-6", text, field=f"{name}.heap_offset", value=offset, section=SECTION))
    start, end = heap.place + offset, heap.place + offset + size
    for other in heap.buffers:
        shares = other.place < end and start < other.place + other.size
        if shares and other.holds_structures != bool(state & AS):
            text = f"structures and other data may not share memory; buffer {other.name!r} is there"
            found.append(violation("ST-3", text, field=f"{name}.heap_offset", value=offset, section=SECTION))
    return found
