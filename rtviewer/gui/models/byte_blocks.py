"""Where the fields of decodes, blobs and structures stand in their bytes, with words for packed and coded values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import (
    AccelerationStructureType,
    BuildFlag,
    GeometryFlag,
    GeometryType,
    HeaderPostambleType,
    InstanceFlag,
    format_flags,
)
from rtviewer.dxr.formats import IndexFormat, VertexFormat
from rtviewer.dxr.layouts import (
    GEOMETRY_DESC,
    INSTANCE_DESC,
    SERIALIZED_BLOCK,
    SERIALIZED_HEADER1,
    TOOLS_VISUALIZATION_HEADER,
)
from rtviewer.gui.models.byte_fields import Block, Meaning, Span
from rtviewer.gui.widgets.text import format_count

MAX_DESC_BLOCKS = 4096
"""Geometries listed one by one; a union's members are chosen per geometry, so each is a block of its own."""


def _enum(kind: Any) -> Meaning:
    def words(value: Any) -> str:
        try:
            return str(kind(int(value)).name)
        except ValueError:
            return f"no such {kind.__name__}"

    return words


def _flags(kind: Any) -> Meaning:
    return lambda value: format_flags(kind(int(value)))


INSTANCE_MEANINGS: dict[str, Meaning] = {
    "InstanceIDAndMask": lambda word: f"InstanceID {int(word) & 0xFFFFFF}, mask 0x{int(word) >> 24:02X}",
    "InstanceContributionAndFlags": lambda word: (
        f"contribution {int(word) & 0xFFFFFF}, {format_flags(InstanceFlag(int(word) >> 24))}"
    ),
    "Transform": lambda _: "3 rows of 4, object to world",
    "AccelerationStructure": lambda address: "bottom level" if int(address) else "none: inactive (INST-2)",
}
GEOMETRY_MEANINGS: dict[str, Meaning] = {
    "Type": _enum(GeometryType),
    "Flags": _flags(GeometryFlag),
    "Triangles.IndexFormat": _enum(IndexFormat),
    "Triangles.VertexFormat": _enum(VertexFormat),
    "Triangles.Transform3x4": lambda address: "" if int(address) else "none",
    "Triangles.IndexBuffer": lambda address: "" if int(address) else "none: not indexed",
}
STRUCTURE_MEANINGS: dict[str, Meaning] = {
    "type": _enum(AccelerationStructureType),
    "build_flags": _flags(BuildFlag),
}


def decode_blocks(data: NDArray[np.uint8], base_address: int) -> list[Block | Span]:
    """Header, descs and data of a tools-visualization buffer made at ``base_address``."""
    head = TOOLS_VISUALIZATION_HEADER
    row = data[: head.itemsize].view(head)[0]
    count, offset = int(row["NumDescs"]), head.itemsize
    blocks: list[Block | Span] = [
        Block(
            "Header",
            0,
            head,
            1,
            {"Type": _enum(AccelerationStructureType), "NumDescs": lambda n: format_count(int(n), "desc")},
        )
    ]
    if int(row["Type"]) == AccelerationStructureType.TOP_LEVEL:
        return [*blocks, Block("InstanceDesc", offset, INSTANCE_DESC, count, INSTANCE_MEANINGS)]
    descs = data[offset : offset + count * GEOMETRY_DESC.itemsize].view(GEOMETRY_DESC)
    for index, desc in enumerate(descs[:MAX_DESC_BLOCKS]):
        is_triangles = int(desc["Type"]) == GeometryType.TRIANGLES
        skipped = {"OmmTriangles", "AABBs" if is_triangles else "Triangles"}
        where = offset + index * GEOMETRY_DESC.itemsize
        blocks.append(Block(f"GeometryDesc[{index}]", where, GEOMETRY_DESC, 1, GEOMETRY_MEANINGS, frozenset(skipped)))
        part = desc["Triangles"]["VertexBuffer"] if is_triangles else desc["AABBs"]["AABBs"]
        number = int(desc["Triangles"]["VertexCount"] if is_triangles else desc["AABBs"]["AABBCount"])
        start, size = int(part["StartAddress"]) - base_address, number * int(part["StrideInBytes"])
        if int(part["StartAddress"]) and 0 < start <= len(data):
            what = "vertices" if is_triangles else "AABBs"
            name = f"geometry {index} {what}"
            blocks.append(Span(name, start, size, f"{number:,} of {int(part['StrideInBytes'])} bytes"))
    return blocks


def blob_blocks(data: NDArray[np.uint8], structure: Structure | None) -> list[Block | Span]:
    """Header, pointers and payload of a serialized blob; ``structure``: what was serialized, when that is ours."""
    from rtviewer.copymode.identify import describe_blob
    from rtviewer.copymode.serialize import PAYLOAD_HEADER

    description = describe_blob(data)
    meanings: dict[str, Meaning] = {
        "DriverMatchingIdentifier.DriverOpaqueGUID.Data1": lambda _: f"GUID {description.guid}",
        "SerializedSizeInBytesIncludingHeader": lambda n: f"{len(data):,} bytes are here",
        "HeaderPostambleType": _enum(HeaderPostambleType),
    }
    blocks: list[Block | Span] = [Block("Header", 0, SERIALIZED_HEADER1, 1, meanings)]
    head = SERIALIZED_HEADER1.itemsize
    blocks += [Block("Block", block.offset, SERIALIZED_BLOCK) for block in description.blocks]
    if len(description.pointers):
        words: dict[str, Meaning] = {"": lambda address: f"0x{int(address):X}"}
        blocks.append(Block("Pointer", head, np.dtype("<u8"), len(description.pointers), words))
    begin, end = description.payload
    if structure is None:
        return [*blocks, Span("Payload", begin, end - begin, "the driver's own bytes: never guessed at (SER-8)")]
    blocks.append(Block("Payload header", begin, PAYLOAD_HEADER))
    return blocks + structure_blocks(structure, begin + PAYLOAD_HEADER.itemsize)


def structure_blocks(structure: Structure, offset: int = 0) -> list[Block | Span]:
    """Header and sections of a structure whose bytes begin at ``offset``."""
    blocks: list[Block | Span] = [Block("Structure header", offset, layout.HEADER, 1, STRUCTURE_MEANINGS)]
    for entry in structure.header["sections"][: int(structure.header["section_count"])]:
        kind, count = SectionKind(int(entry["kind"])), int(entry["count"])
        size = int(entry["element_size"]) * count
        name = kind.name.replace("_", " ").lower()
        words = f"section {int(entry['kind'])}: {count:,} of {int(entry['element_size'])} bytes"
        blocks.append(Span(name, offset + int(entry["offset"]), size, words))
    return blocks
