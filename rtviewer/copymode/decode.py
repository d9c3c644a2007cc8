"""VISUALIZATION_DECODE_FOR_TOOLS: a structure as the descs and buffers that would build it (section 7 of the rules)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.sizes import align
from rtviewer.accel.structure import Structure
from rtviewer.copymode.dehydrate import check_live
from rtviewer.dxr.flags import GeometryType
from rtviewer.dxr.formats import IndexFormat, VertexFormat
from rtviewer.dxr.layouts import AABB, GEOMETRY_DESC, INSTANCE_DESC, TOOLS_VISUALIZATION_HEADER
from rtviewer.dxr.rules import require

HEADER_SIZE = TOOLS_VISUALIZATION_HEADER.itemsize
BLOCK_ALIGNMENT = 16
VERTEX_SIZE = 12
TRIANGLE_SIZE = 3 * VERTEX_SIZE


def decoded_size(source: Structure) -> int:
    """DecodedSizeInBytes: exactly what :func:`decode` writes [VIS-15, POST-10].

    Raises InvalidInputError for a dehydrated source (XB-5).
    """
    require(check_live(source, "asked for a decoded size"), "EmitRaytracingAccelerationStructurePostbuildInfo")
    if source.is_top_level:
        return align(HEADER_SIZE + len(source.instance_descs) * INSTANCE_DESC.itemsize, BLOCK_ALIGNMENT)
    return _blocks(source)[1]


def decode(source: Structure, base_address: int = 0) -> NDArray[np.uint8]:
    """(decoded_size,) uint8: header, descs and their data, GPUVAs counted from ``base_address`` [VIS-1].

    A top level's descs are its input to the bit, all of them [VIS-2, VIS-13]; bottom levels need not be there [VIS-10].
    A bottom level gives its geometries in order with type and flags as built [VIS-3, VIS-8]: triangles as float3
    without indices or transform [VIS-4, VIS-5, VIS-11], boxes as given [VIS-12], each block at a multiple of 16
    [VIS-14].

    Raises InvalidInputError for a dehydrated source (XB-5).
    """
    require(check_live(source, "decoded"), "CopyRaytracingAccelerationStructure (VISUALIZATION_DECODE_FOR_TOOLS)")
    data = np.zeros(decoded_size(source), np.uint8)
    rows = source.instance_descs if source.is_top_level else source.geometries
    header = data[:HEADER_SIZE].view(TOOLS_VISUALIZATION_HEADER)
    header["Type"], header["NumDescs"] = int(source.type), len(rows)
    if source.is_top_level:
        data[HEADER_SIZE : HEADER_SIZE + len(rows) * INSTANCE_DESC.itemsize].view(INSTANCE_DESC)[:] = rows
        return data
    offsets, _ = _blocks(source)
    descs = data[HEADER_SIZE : HEADER_SIZE + len(rows) * GEOMETRY_DESC.itemsize].view(GEOMETRY_DESC)
    _write_descs(descs, source, np.where(offsets > 0, offsets + np.uint64(base_address), np.uint64(0)))
    primitives = decoded_boxes(source) if source.is_procedural else decoded_triangles(source)
    for row, offset in zip(rows, offsets.tolist(), strict=True):
        first, count = int(row["first_primitive"]), int(row["primitive_count"])
        block = primitives[first : first + count].reshape(-1).view(np.uint8)
        data[offset : offset + len(block)] = block
    return data


def decoded_triangles(source: Structure) -> NDArray[np.float32]:
    """(input_count, 3, 3) float32: corners of every input triangle, all NaN where it is not in the tree [VIS-11]."""
    corners = np.full((int(source.header["input_count"]), 3, 3), np.nan, np.float32)
    ids = source.packs["id"]
    used = ids != layout.UNUSED_LANE
    corners[ids[used] & layout.PRIMITIVE_BITS] = source.pack_corners().transpose(0, 3, 1, 2)[used]
    return corners


def decoded_boxes(source: Structure) -> NDArray[np.float32]:
    """(input_count, 6) float32: every input box, all NaN where it is not in the tree [VIS-12, DEG-4]."""
    boxes = np.full((int(source.header["input_count"]), 6), np.nan, np.float32)
    packs = source.box_packs
    used = packs["id"] != layout.UNUSED_LANE
    numbers = packs["id"][used] & layout.PRIMITIVE_BITS
    boxes[numbers, :3] = packs["low"].transpose(0, 2, 1)[used]
    boxes[numbers, 3:] = packs["high"].transpose(0, 2, 1)[used]
    return boxes


def _blocks(source: Structure) -> tuple[NDArray[np.uint64], int]:
    """Where each geometry's data begins, 0 for an empty one, and the size of the whole [VIS-14, VIS-15]."""
    counts = source.geometries["primitive_count"].astype(np.int64)
    size = AABB.itemsize if source.is_procedural else TRIANGLE_SIZE
    lengths = -(-counts * size // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT
    begin = align(HEADER_SIZE + len(counts) * GEOMETRY_DESC.itemsize, BLOCK_ALIGNMENT)
    ends = begin + np.cumsum(lengths)
    offsets = np.where(counts > 0, ends - lengths, 0).astype(np.uint64)
    return offsets, int(ends[-1]) if len(ends) else begin


def _write_descs(descs: NDArray[np.void], source: Structure, addresses: NDArray[np.uint64]) -> None:
    rows = source.geometries
    descs["Type"], descs["Flags"] = rows["type"], rows["flags"]
    counts = rows["primitive_count"]
    if source.is_procedural:
        boxes = descs["AABBs"]
        boxes["AABBCount"] = counts
        boxes["AABBs"]["StartAddress"] = addresses
        boxes["AABBs"]["StrideInBytes"] = AABB.itemsize
        return
    assert not len(rows) or int(rows["type"][0]) == GeometryType.TRIANGLES
    triangles = descs["Triangles"]
    triangles["IndexFormat"] = int(IndexFormat.UNKNOWN)
    triangles["VertexFormat"] = int(VertexFormat.R32G32B32_FLOAT)
    triangles["VertexCount"] = 3 * counts
    triangles["VertexBuffer"]["StartAddress"] = addresses
    triangles["VertexBuffer"]["StrideInBytes"] = VERTEX_SIZE
