"""A structure as typed read-only views on its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.layout import SectionKind
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag
from rtviewer.dxr.layouts import INSTANCE_DESC


@dataclass(frozen=True, eq=False)
class Structure:
    """One acceleration structure.

    ``data``: (size,) uint8, read-only, its first byte 64-aligned in memory. ``name`` is for people; ``address`` is the
    simulated GPU address it lives at (0 when it lives nowhere). Neither is in the bytes.

    Views trust the bytes: what comes from outside goes through ``accel.invariants`` first.
    """

    data: NDArray[np.uint8]
    name: str = ""
    address: int = 0

    @cached_property
    def header(self) -> np.void:
        return self.data[: layout.HEADER.itemsize].view(layout.HEADER)[0]  # type: ignore[no-any-return]

    @property
    def type(self) -> AccelerationStructureType:
        return AccelerationStructureType(int(self.header["type"]))

    @property
    def is_top_level(self) -> bool:
        return self.type is AccelerationStructureType.TOP_LEVEL

    @property
    def build_flags(self) -> BuildFlag:
        """The flags it was built with (BF-9); ask these, never a checkbox."""
        return BuildFlag(int(self.header["build_flags"]))

    @property
    def size(self) -> int:
        """Bytes, room that the build did not need included."""
        return len(self.data)

    @property
    def used_size(self) -> int:
        """Bytes in use: what a compacting copy leaves. A multiple of 256."""
        return int(self.header["used_size"])

    def section(self, kind: SectionKind) -> NDArray[Any]:
        """Elements of a section as a structured array; empty when there is none."""
        dtype = np.dtype(INSTANCE_DESC) if kind is SectionKind.INSTANCE_DESCS else layout.ELEMENT_DTYPES[kind]
        for found, _, count, first in self.section_table:
            if found == kind:
                return self.data[first : first + count * dtype.itemsize].view(dtype)
        return np.empty(0, dtype)

    @cached_property
    def section_table(self) -> list[tuple[int, int, int, int]]:
        """Kind, element size, element count and offset of each section, as the header has them."""
        table: list[tuple[int, int, int, int]] = self.header["sections"][: int(self.header["section_count"])].tolist()
        return table

    def section_offset(self, kind: SectionKind) -> int:
        """Bytes from the start of the structure; 0 when there is no such section."""
        return next((first for found, _, _, first in self.section_table if found == kind), 0)

    @cached_property
    def nodes(self) -> NDArray[np.void]:
        return self.section(SectionKind.NODES)

    @cached_property
    def triangle_packs(self) -> NDArray[np.void]:
        return self.section(SectionKind.TRIANGLE_PACKS)

    @cached_property
    def box_packs(self) -> NDArray[np.void]:
        return self.section(SectionKind.BOX_PACKS)

    @cached_property
    def indexed_packs(self) -> NDArray[np.void]:
        return self.section(SectionKind.INDEXED_PACKS)

    @property
    def is_procedural(self) -> bool:
        """A bottom level of boxes."""
        return self.section_offset(SectionKind.BOX_PACKS) != 0

    @property
    def is_indexed(self) -> bool:
        """A bottom level whose packs hold ids only (MINIMIZE_MEMORY)."""
        return self.section_offset(SectionKind.INDEXED_PACKS) != 0

    @property
    def packs(self) -> NDArray[np.void]:
        """The leaf elements of a bottom level, of whichever kind; each has an ``id`` (4,) int32."""
        if self.is_procedural:
            return self.box_packs
        return self.indexed_packs if self.is_indexed else self.triangle_packs

    def pack_corners(self, first: int = 0, last: int | None = None) -> NDArray[np.float32]:
        """Corners of the triangles in packs ``first`` to ``last - 1``, (packs, 3, 3, 4) float32 as in TRIANGLE_PACK.

        0 in unused lanes.
        """
        if not self.is_indexed:
            corners: NDArray[np.float32] = self.triangle_packs["vertices"][first:last]
            return corners
        ids = self.indexed_packs["id"][first:last]
        used = ids != layout.UNUSED_LANE
        number = np.where(used, ids & layout.PRIMITIVE_BITS, 0)
        positions = self.section(SectionKind.VERTICES)["position"]
        if not len(positions):
            return np.zeros((len(ids), 3, 3, 4), np.float32)
        rows = self.section(SectionKind.INDICES)["vertex"][number]  # pack, lane, corner
        return np.where(used[:, None, None, :], positions[rows].transpose(0, 2, 3, 1), np.float32(0.0))

    @cached_property
    def geometries(self) -> NDArray[np.void]:
        return self.section(SectionKind.GEOMETRIES)

    @cached_property
    def instance_descs(self) -> NDArray[np.void]:
        """INSTANCE_DESC rows in instance order, bit-identical to the build's input (VIS-2)."""
        return self.section(SectionKind.INSTANCE_DESCS)

    @cached_property
    def instance_leaves(self) -> NDArray[np.void]:
        """One row per active instance, in leaf order."""
        return self.section(SectionKind.INSTANCE_LEAVES)

    @property
    def bounds(self) -> NDArray[np.float32] | None:
        """Root bounds (2, 3) float32, None when nothing is active."""
        bounds: NDArray[np.float32] = self.header["bounds"]
        return bounds if int(self.header["active_count"]) else None

    def geometry_and_primitive(self, ids: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Geometry index and primitive index of pack ids; -1, -1 for unused lanes."""
        number = np.asarray(ids, np.int64) & layout.PRIMITIVE_BITS
        first = self.geometries["first_primitive"].astype(np.int64)
        geometry = np.searchsorted(first, number, side="right") - 1
        primitive = number - first[geometry] if len(first) else number
        unused = np.asarray(ids) == layout.UNUSED_LANE
        return np.where(unused, -1, geometry), np.where(unused, -1, primitive)


def aligned_bytes(size: int, *, zeroed: bool = True) -> NDArray[np.uint8]:
    """(size,) uint8 whose first byte is 64-aligned, so that a node is one to four cache lines.

    ``zeroed``: otherwise what is in them is not said. Large ones are backed by large pages where the system lets numpy
    ask for them.
    """
    raw = np.zeros(size + 64, np.uint8) if zeroed else np.empty(size + 64, np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + size]
