"""Ranges of memory that a call touches, and the rules about them: alignment, bounds, state, overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rtviewer.device.address_space import AddressSpace
from rtviewer.device.buffers import SECTION as STATE_SECTION
from rtviewer.device.buffers import Buffer
from rtviewer.dxr.flags import ResourceState
from rtviewer.errors import Violation, violation


@dataclass(frozen=True)
class Access:
    """A range as the call's fields give it.

    ``alignments``: multiples that the address must be of, each with its rule. ``bounds_rule``: broken when the range
    does not lie inside a buffer.
    """

    field: str
    address: int
    size: int
    state: ResourceState
    alignments: tuple[tuple[int, str], ...] = ()
    bounds_rule: str = "GEO-6"
    section: str = ""


@dataclass(frozen=True)
class Range:
    """An access that was found: [start, end) in physical memory, and the bytes to read or write."""

    field: str
    start: int
    end: int
    buffer: Buffer
    offset: int

    @property
    def bytes(self) -> NDArray[np.uint8]:
        return self.buffer.memory[self.offset : self.offset + self.end - self.start]

    def overlaps(self, other: Range) -> bool:
        return self.start < other.end and other.start < self.end


def resolve(space: AddressSpace, access: Access) -> tuple[Range | None, list[Violation]]:
    """Find the range; None when its bytes are not there. The violations are of alignment, bounds and state."""
    found = check_alignments(access)
    place = space.find(access.address) if access.address else None
    if place is None:
        what = "the address is NULL" if not access.address else "the address lies in no buffer"
        text = f"{what}; {access.size} bytes are needed there"
        found.append(_broken(access, access.bounds_rule, text, f"{access.address:#x}"))
        return None, found
    buffer, offset = place
    if access.size > buffer.size - offset:
        text = f"{access.size} bytes are needed, {buffer.size - offset} are left in buffer {buffer.name!r}"
        found.append(_broken(access, access.bounds_rule, text, f"{access.address:#x}"))
        return None, found
    found += check_state_of(buffer, access.state, access.field)
    start = buffer.place + offset
    return Range(access.field, start, start + access.size, buffer, offset), found


def check_alignments(access: Access) -> list[Violation]:
    return [
        _broken(access, rule, f"the address must be a multiple of {multiple}", f"{access.address:#x}")
        for multiple, rule in access.alignments
        if access.address % multiple
    ]


def check_state_of(buffer: Buffer, wanted: ResourceState, field: str) -> list[Violation]:
    """ST-1: reads of inputs may share the buffer with other reads; the other two states stand alone."""
    if buffer.state & wanted:
        return []
    text = f"buffer {buffer.name!r} must be in state {wanted.name}"
    value = buffer.state.name or f"{int(buffer.state):#x}"
    return [violation("ST-1", text, field=field, value=value, section=STATE_SECTION)]


def _broken(access: Access, rule: str, text: str, value: str) -> Violation:
    return violation(rule, text, field=access.field, value=value, section=access.section)


def check_overlaps(written: Sequence[Range], read: Iterable[Range], rule: str, section: str) -> list[Violation]:
    """``rule`` for every pair that shares a byte and of which at least one is written."""
    pairs = list(combinations(written, 2)) + [(w, r) for r in read for w in written]
    return [
        violation(rule, f"must not overlap {b.field}", field=a.field, value=_shared(a, b), section=section)
        for a, b in pairs
        if a.overlaps(b)
    ]


def _shared(a: Range, b: Range) -> str:
    return f"{min(a.end, b.end) - max(a.start, b.start)} bytes shared"
