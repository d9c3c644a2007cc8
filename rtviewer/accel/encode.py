"""Laying out a new structure: one allocation, header and section table, sections for a builder to fill."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.sizes import align
from rtviewer.accel.structure import Structure, aligned_bytes
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag
from rtviewer.dxr.layouts import INSTANCE_DESC

FILLED = (SectionKind.NODES, SectionKind.TRIANGLE_PACKS, SectionKind.INDEXED_PACKS, SectionKind.BOX_PACKS)
"""Sections of which a builder writes every byte."""


def element_size(kind: SectionKind) -> int:
    """Bytes of one element."""
    dtype = np.dtype(INSTANCE_DESC) if kind is SectionKind.INSTANCE_DESCS else layout.ELEMENT_DTYPES[kind]
    return dtype.itemsize


def allocate(
    kind: AccelerationStructureType,
    flags: BuildFlag,
    sections: Sequence[tuple[SectionKind, int]],
    *,
    size: int = 0,
    name: str = "",
    address: int = 0,
    memory: NDArray[np.uint8] | None = None,
    used_before: int = 0,
) -> Structure:
    """A structure with its header's constant fields and section table written and its sections zero.

    ``sections``: kind and element count, in the order they are laid out; each starts 64-aligned. ``size``: bytes of the
    whole, of which the sections take the first; at least what they take, rounded up to 256. ``memory``: ``size`` bytes
    from ``aligned_bytes`` to use, whose first ``used_before`` may hold anything; those in sections of ``FILLED`` kinds
    stay as they are. The returned structure is still writable; :func:`seal` ends that.
    """
    offset = align(layout.HEADER.itemsize, layout.SECTION_ALIGNMENT)
    table = np.zeros(layout.MAX_SECTIONS, layout.SECTION)
    for row, (section, count) in enumerate(sections):
        table[row] = (section, element_size(section), count, offset)
        offset = align(offset + count * element_size(section), layout.SECTION_ALIGNMENT)
    used = align(offset)
    data = aligned_bytes(max(used, size)) if memory is None or len(memory) < used else memory
    structure = Structure(data, name, address)
    _clear(data, used_before, table)
    header = structure.data[: layout.HEADER.itemsize].view(layout.HEADER)
    header["magic"] = layout.MAGIC
    header["layout_version"] = layout.LAYOUT_VERSION
    header["type"] = int(kind)
    header["build_flags"] = int(flags & ~BuildFlag.PERFORM_UPDATE)  # BF-9
    header["section_count"] = len(sections)
    header["size_in_bytes"] = structure.size
    header["used_size"] = used
    header["sections"] = table
    header["bounds"] = [[np.inf] * 3, [-np.inf] * 3]
    header["condition"] = 1.0
    return structure


def _clear(data: NDArray[np.uint8], used_before: int, table: NDArray[np.void]) -> None:
    """Zero what was used before, but for sections that are about to be filled to the last byte."""
    begin = 0
    for row in table[np.isin(table["kind"], FILLED)]:
        first, size = int(row["offset"]), int(row["element_size"]) * int(row["count"])
        data[begin : min(first, used_before)] = 0
        begin = max(begin, first + size)
    data[begin:used_before] = 0


def set_header(structure: Structure, **fields: int | float | NDArray[np.float32]) -> None:
    """Write header fields of a structure that is not sealed."""
    header = structure.data[: layout.HEADER.itemsize].view(layout.HEADER)
    for field, value in fields.items():
        header[field] = value


def seal(structure: Structure) -> Structure:
    """Make the bytes read-only and return a structure whose views are too."""
    structure.data.flags.writeable = False
    return Structure(structure.data, structure.name, structure.address)
