"""Any legal tools-visualization buffer, a real driver's too, back to build inputs.

A dump is what an application wrote to disk after a VISUALIZATION_DECODE_FOR_TOOLS copy: the bytes as they were, with
GPUVAs that counted from where the buffer lay. Nothing in it is trusted: every range is checked against the bytes, and
memory stays in proportion to them whatever the counts say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.copymode.identify import as_bytes
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, Geometry, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import AccelerationStructureType, GeometryFlag, GeometryType
from rtviewer.dxr.formats import VERTEX_LAYOUTS, IndexFormat, VertexFormat
from rtviewer.dxr.layouts import GEOMETRY_DESC, INSTANCE_DESC, TOOLS_VISUALIZATION_HEADER, high_8, low_24
from rtviewer.dxr.limits import ACCELERATION_STRUCTURE_BYTE_ALIGNMENT
from rtviewer.dxr.vertex_data import (
    AABB_SIZE,
    INDEX_SIZES,
    TRANSFORM_SIZE,
    decode_aabbs,
    decode_indices,
    decode_transform,
    decode_vertices,
    strided_extent,
    vertices_extent,
)
from rtviewer.errors import DamagedBytesError, InvalidInputError

HEADER_SIZE = TOOLS_VISUALIZATION_HEADER.itemsize

LARGEST_GROWTH = 16
"""Bytes in memory per byte of the buffer: an 8-bit position of 2 bytes becomes 12."""
GROWTH_CONSTANT = 1 << 16


@dataclass(frozen=True, eq=False)
class DecodedTlas:
    """``descs`` (n,) INSTANCE_DESC, as the buffer holds them."""

    descs: NDArray[np.void]

    def instance_inputs(self) -> InstanceInputs:
        """What a build of this decode is given [VIS-2, VIS-16]."""
        ids, offsets = self.descs["InstanceIDAndMask"], self.descs["InstanceContributionAndFlags"]
        return InstanceInputs(
            transform=np.ascontiguousarray(self.descs["Transform"], np.float32),
            instance_id=low_24(ids).astype(np.uint32),
            mask=high_8(ids).astype(np.uint8),
            contribution=low_24(offsets).astype(np.uint32),
            flags=high_8(offsets).astype(np.uint8),
            blas_address=np.ascontiguousarray(self.descs["AccelerationStructure"], np.uint64),
        )


@dataclass(frozen=True, eq=False)
class DecodedBlas:
    """``descs`` (n,) GEOMETRY_DESC as the buffer holds them and ``geometries`` as they decode, in the same order.

    ``base_address``: where the buffer lay. ``is_base_certain``: it was given, or no other 256-aligned one fits.
    """

    descs: NDArray[np.void]
    geometries: tuple[Geometry, ...]
    base_address: int
    is_base_certain: bool

    def blas_inputs(self, name: str = "") -> BlasInputs:
        """What a build of this decode is given [VIS-16]."""
        return BlasInputs(self.geometries, name)


def read_decode(
    data: bytes | NDArray[np.uint8], base_address: int | None = None, *, name: str = ""
) -> DecodedTlas | DecodedBlas:
    """Read a decode of a top or bottom level in any formats, strides and order of blocks that are legal [VIS-1, VIS-4].

    ``base_address``: GPUVA of the first byte; None takes the 256-aligned one (CP-2) that puts the lowest GPUVA behind
    the descs as closely as possible. Bytes behind the last block may be anything.

    Raises DamagedBytesError with the place in the bytes and the rule.
    """
    view = as_bytes(data)
    if len(view) < HEADER_SIZE:
        raise _damaged(name, "VIS-1", "a decode begins with a header", 0, "header", f"{HEADER_SIZE} bytes", len(view))
    header = view[:HEADER_SIZE].copy().view(TOOLS_VISUALIZATION_HEADER)[0]
    kind, count = int(header["Type"]), int(header["NumDescs"])
    if kind == AccelerationStructureType.TOP_LEVEL:
        return DecodedTlas(_descs(view, count, INSTANCE_DESC, name))
    if kind == AccelerationStructureType.BOTTOM_LEVEL:
        return _Reader(view, _descs(view, count, GEOMETRY_DESC, name), base_address, name).read()
    raise _damaged(name, "AST-1", "only decodes of top and bottom levels can be read", 0, "Type", "0 or 1", kind)


def _descs(view: NDArray[np.uint8], count: int, dtype: np.dtype[Any], name: str) -> NDArray[np.void]:
    end = HEADER_SIZE + count * dtype.itemsize
    if end > len(view):
        held = (len(view) - HEADER_SIZE) // dtype.itemsize
        text = "the descs do not fit into the bytes"
        raise _damaged(name, "VIS-1", text, 4, "NumDescs", f"at most {held} with {len(view)} bytes", count)
    return view[HEADER_SIZE:end].copy().view(dtype)


@dataclass(frozen=True)
class _Range:
    """Bytes that a desc refers to: GPUVA, length, and the field that says so."""

    address: int
    extent: int
    offset: int
    field: str


class _Reader:
    """Reads the geometries of one decode; equal ranges are decoded once and shared."""

    def __init__(self, view: NDArray[np.uint8], descs: NDArray[np.void], base_address: int | None, name: str) -> None:
        self.view, self.descs, self.name = view, descs, name
        self.given_base = base_address
        self.room = LARGEST_GROWTH * len(view) + GROWTH_CONSTANT
        self.primitive_room = self.room // AABB_SIZE
        self.cache: dict[tuple[object, ...], NDArray[Any]] = {}
        self.base = 0

    def read(self) -> DecodedBlas:
        ranges = [r for index, desc in enumerate(self.descs) for r in self._ranges(index, desc)]
        certain = self.given_base is not None
        if self.given_base is not None:
            self.base = self.given_base
        elif ranges:
            self.base, certain = self._inferred_base(ranges)
        else:
            certain = True
        for r in ranges:
            if r.address < self.base or r.address - self.base + r.extent > len(self.view):
                raise _damaged(
                    self.name, "VIS-1", "a GPUVA points outside the buffer; was it written at another base address?",
                    r.offset, r.field, f"{r.extent} bytes from {self.base:#x} to {self.base + len(self.view):#x}",
                    f"{r.address:#x}",
                )  # fmt: skip
        geometries = tuple(self._geometry(index, desc) for index, desc in enumerate(self.descs))
        return DecodedBlas(self.descs, geometries, self.base, certain)

    # --- where things are -----------------------------------------------------------------------------------------

    def _ranges(self, index: int, desc: np.void) -> list[_Range]:
        """What a desc refers to, after the checks that need no memory."""
        self._check(index, int(desc["Type"]) in (0, 1), "GF-4", "Type", 0, "0 or 1", int(desc["Type"]))
        self._check(index, int(desc["Flags"]) < 4, "GF-1", "Flags", 4, "bits 0x1 and 0x2", hex(int(desc["Flags"])))
        if int(desc["Type"]) == GeometryType.PROCEDURAL_PRIMITIVE_AABBS:
            boxes = desc["AABBs"]
            count, buffer = int(boxes["AABBCount"]), boxes["AABBs"]
            extent = strided_extent(count, int(buffer["StrideInBytes"]), AABB_SIZE)
            self._spend_primitives(index, count, "AABBs.AABBCount", 8)
            return self._range(index, count, int(buffer["StartAddress"]), extent, "AABBs.AABBs.StartAddress", 16)
        return self._triangle_ranges(index, desc["Triangles"])

    def _triangle_ranges(self, index: int, triangles: np.void) -> list[_Range]:
        formats = tuple(int(f) for f in VERTEX_LAYOUTS)
        vertex_format, index_format = int(triangles["VertexFormat"]), int(triangles["IndexFormat"])
        self._check(
            index, vertex_format in formats, "VF-1", "Triangles.VertexFormat", 20, "a vertex format", vertex_format
        )
        vertices, indices = int(triangles["VertexCount"]), int(triangles["IndexCount"])
        address = int(triangles["IndexBuffer"])
        if address == 0:
            legal = indices == 0 and index_format == IndexFormat.UNKNOWN
            found = f"{indices} indices of format {index_format}"
            self._check(index, legal, "GEO-2", "Triangles.IndexBuffer", 32, "no indices without a buffer", found)
        else:
            legal = index_format in [int(f) for f in INDEX_SIZES]
            self._check(index, legal, "IX-1", "Triangles.IndexFormat", 16, "R16_UINT or R32_UINT", index_format)
        self._spend_primitives(index, (indices if address else vertices) // 3, "Triangles", 24)
        stride = int(triangles["VertexBuffer"]["StrideInBytes"])
        extent = vertices_extent(vertices, stride, VertexFormat(vertex_format))
        start = int(triangles["VertexBuffer"]["StartAddress"])
        ranges = self._range(index, vertices, start, extent, "Triangles.VertexBuffer.StartAddress", 40)
        if address:
            size = INDEX_SIZES[IndexFormat(index_format)]
            ranges += self._range(index, indices, address, indices * size, "Triangles.IndexBuffer", 32)
        if int(triangles["Transform3x4"]):
            transform = int(triangles["Transform3x4"])
            ranges += self._range(index, 1, transform, TRANSFORM_SIZE, "Triangles.Transform3x4", 8)
        return ranges

    def _range(self, index: int, count: int, address: int, extent: int, field: str, offset: int) -> list[_Range]:
        if not count:
            return []
        self._check(index, address != 0, "GEO-8", field, offset, f"an address, for {count} elements", "0x0")
        self._check(index, extent <= len(self.view), "GEO-6", field, offset, f"at most {len(self.view)} bytes", extent)
        return [_Range(address, extent, self._offset(index, offset), f"GeometryDescs[{index}].{field}")]

    def _inferred_base(self, ranges: list[_Range]) -> tuple[int, bool]:
        """The base that puts the lowest GPUVA closest behind the descs, and whether it is the only one that fits."""
        lowest = min(r.address for r in ranges)
        behind = HEADER_SIZE + len(self.descs) * GEOMETRY_DESC.itemsize
        first = behind + (lowest - behind) % ACCELERATION_STRUCTURE_BYTE_ALIGNMENT
        base = lowest - first
        highest = max(r.address + r.extent for r in ranges)
        if base < 0 or highest - base > len(self.view):
            worst = max(ranges, key=lambda r: r.address + r.extent)
            raise _damaged(
                self.name, "VIS-1", "no base address fits all GPUVAs; give the one the buffer had", worst.offset,
                worst.field, f"at most {len(self.view) - behind} bytes behind the descs", f"{highest - lowest} bytes",
            )  # fmt: skip
        return base, highest - base + ACCELERATION_STRUCTURE_BYTE_ALIGNMENT > len(self.view)

    # --- what is there --------------------------------------------------------------------------------------------

    def _geometry(self, index: int, desc: np.void) -> Geometry:
        flags, name = GeometryFlag(int(desc["Flags"])), f"geometry {index}"
        if int(desc["Type"]) == GeometryType.PROCEDURAL_PRIMITIVE_AABBS:
            return AabbsGeometry(self._boxes(index, desc["AABBs"]), flags, name)
        triangles = desc["Triangles"]
        vertex_format = VertexFormat(int(triangles["VertexFormat"]))
        vertices = self._vertices(index, triangles, vertex_format)
        if not int(triangles["IndexBuffer"]):
            return TrianglesGeometry(vertices, None, self._transform(triangles), flags, name, vertex_format)
        index_format = IndexFormat(int(triangles["IndexFormat"]))
        rows = self._indices(index, triangles, index_format)
        largest = int(rows.max()) if len(rows) else -1
        text = f"indices below VertexCount {len(vertices)}"
        self._check(index, largest < len(vertices), "GEO-4", "Triangles.IndexBuffer", 32, text, largest)
        transform = self._transform(triangles)
        return TrianglesGeometry(vertices, rows, transform, flags, name, vertex_format, index_format)

    def _boxes(self, index: int, boxes: np.void) -> NDArray[np.float32]:
        count, buffer = int(boxes["AABBCount"]), boxes["AABBs"]
        if not count:
            return np.empty((0, 6), np.float32)
        place, stride = int(buffer["StartAddress"]) - self.base, int(buffer["StrideInBytes"])
        key = ("boxes", place, stride, count)
        if key not in self.cache:
            self._spend(index, count * AABB_SIZE)
            self.cache[key] = np.ascontiguousarray(decode_aabbs(self.view, place, stride, count))
        return self.cache[key]

    def _vertices(self, index: int, triangles: np.void, vertex_format: VertexFormat) -> NDArray[np.float32]:
        count, buffer = int(triangles["VertexCount"]), triangles["VertexBuffer"]
        if not count:
            return np.empty((0, 3), np.float32)
        place, stride = int(buffer["StartAddress"]) - self.base, int(buffer["StrideInBytes"])
        key = ("vertices", place, stride, count, vertex_format)
        if key not in self.cache:
            self._spend(index, count * 12)
            self.cache[key] = np.ascontiguousarray(decode_vertices(self.view, place, stride, count, vertex_format))
        return self.cache[key]

    def _indices(self, index: int, triangles: np.void, index_format: IndexFormat) -> NDArray[np.uint32]:
        """Whole triangles only: one or two indices too many are ignored [GEO-3]."""
        count, place = int(triangles["IndexCount"]) // 3 * 3, int(triangles["IndexBuffer"]) - self.base
        if not count:
            return np.empty((0, 3), np.uint32)
        key = ("indices", place, count, index_format)
        if key not in self.cache:
            self._spend(index, count * 4)
            self.cache[key] = decode_indices(self.view, place, count, index_format).reshape(-1, 3)
        return self.cache[key]

    def _transform(self, triangles: np.void) -> NDArray[np.float32] | None:
        address = int(triangles["Transform3x4"])
        return decode_transform(self.view, address - self.base) if address else None

    # --- refusals -------------------------------------------------------------------------------------------------

    def _spend(self, index: int, size: int) -> None:
        """Keep memory in proportion: ranges that overlap many times over are no decode."""
        self.room -= size
        self._check(index, self.room >= 0, "VIS-1", "", 0, "data that overlap only where they are equal", "many copies")

    def _spend_primitives(self, index: int, count: int, field: str, offset: int) -> None:
        self.primitive_room -= count
        fits = self.primitive_room >= 0
        self._check(index, fits, "VIS-1", field, offset, f"primitives that {len(self.view)} bytes can hold", count)

    def _offset(self, index: int, offset: int) -> int:
        return HEADER_SIZE + index * GEOMETRY_DESC.itemsize + offset

    def _check(
        self, index: int, is_legal: bool, rule: str, field: str, offset: int, expected: object, found: object
    ) -> None:
        if not is_legal:
            path = f"GeometryDescs[{index}].{field}".rstrip(".")
            text = "a geometry desc of the decode is not legal"
            raise _damaged(self.name, rule, text, self._offset(index, offset), path, expected, found)


def _damaged(
    name: str, rule: str, message: str, offset: int, field: str, expected: object, found: object
) -> InvalidInputError:
    return DamagedBytesError(name, rule, message, offset=offset, field=field, expected=expected, found=found)
