"""Decodes as a driver other than ours might write them: any legal formats, strides, sharing and order of blocks."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BASE = 0x2_4680_0100 & ~0xFF


@dataclass(frozen=True)
class Block:
    """Bytes of a geometry's data; the same object used twice lies in the buffer once."""

    data: bytes
    alignment: int = 4


@dataclass(frozen=True)
class Triangles:
    vertices: Block
    vertex_format: int
    vertex_count: int
    stride: int
    indices: Block | None = None
    index_format: int = 0
    index_count: int = 0
    transform: Block | None = None
    flags: int = 0


@dataclass(frozen=True)
class Boxes:
    data: Block
    count: int
    stride: int
    flags: int = 0


def written(
    geometries: list[Triangles | Boxes], *, base: int = BASE, gap: int = 0, tail: int = 0, reverse: bool = False
) -> NDArray[np.uint8]:
    """The buffer. ``gap``: bytes between descs and data; ``tail``: bytes behind; ``reverse``: last block first."""
    end = 8 + 56 * len(geometries) + gap
    places: dict[int, int] = {}
    blocks = [b for g in geometries for b in _blocks(g)]
    content = bytearray()
    for block in blocks[::-1] if reverse else blocks:
        if id(block) in places:
            continue
        content += bytes(-(end + len(content)) % block.alignment)
        places[id(block)] = end + len(content)
        content += block.data

    def address(block: Block | None) -> int:
        return 0 if block is None else base + places[id(block)]

    head = struct.pack("<II", 1, len(geometries))
    for g in geometries:
        if isinstance(g, Boxes):
            head += struct.pack("<IIQQQ24x", 1, g.flags, g.count, address(g.data), g.stride)
        else:
            head += struct.pack(
                "<IIQIIIIQQQ", 0, g.flags, address(g.transform), g.index_format, g.vertex_format, g.index_count,
                g.vertex_count, address(g.indices), address(g.vertices), g.stride,
            )  # fmt: skip
    return np.frombuffer(head + bytes(gap) + bytes(content) + b"\xcc" * tail, np.uint8).copy()


def _blocks(geometry: Triangles | Boxes) -> list[Block]:
    if isinstance(geometry, Boxes):
        return [geometry.data]
    return [b for b in (geometry.transform, geometry.indices, geometry.vertices) if b is not None]
