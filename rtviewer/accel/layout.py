"""Byte layout of an acceleration structure: header, section table, nodes and leaves.

A structure is its bytes. Offsets are from its first byte and multiples of 64; nothing names the structure's own address
(CP-7), so equal inputs give equal bytes. ``LAYOUT_VERSION`` changes with every change of a dtype here; serialized blobs
carry it.

Node (256 bytes), eight children as structure of arrays: bounds per axis, child reference, octant order. An empty lane
has minimum +inf, maximum -inf and child 0 (the root is never a child). A reference >= 0 is a node index, larger than
its parent's; a negative one is a leaf: ``~ref >> 2`` the first leaf element, ``(~ref & 3) + 1`` how many follow.

Leaf elements are packs of four triangles (160 bytes), packs of four boxes (112 bytes), packs of four triangle ids whose
corners are in the index and vertex sections (16 bytes, MINIMIZE_MEMORY), or single instances (64 bytes). A pack lane's
id is the primitive's number in the structure (geometries one after the other, counting every input) with its
geometry's flags above it; a sign bit marks a degenerate triangle, which is kept for updates and never hit; -1 an
unused lane.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

LAYOUT_VERSION = 2
MAGIC = b"RTVACCEL"
SECTION_ALIGNMENT = 64
WIDTH = 8
PACK_WIDTH = 4
MAX_LEAF_ELEMENTS = 4

PRIMITIVE_BITS = 0x1FFFFFFF
"""LIM-2: numbers are below 2^29, which leaves the three bits above for flags."""
ID_OPAQUE = 0x20000000
ID_NO_DUPLICATE = 0x40000000
ID_DEGENERATE = -0x80000000
UNUSED_LANE = -1


class SectionKind(IntEnum):
    NODES = 1
    TRIANGLE_PACKS = 2
    BOX_PACKS = 3
    GEOMETRIES = 4
    INSTANCE_DESCS = 5
    INSTANCE_LEAVES = 6
    INDEXED_PACKS = 7
    INDICES = 8
    VERTICES = 9
    UPDATE = 10
    INACTIVE = 11


NODE = np.dtype(
    [
        ("min_x", "<f4", (8,)),
        ("max_x", "<f4", (8,)),
        ("min_y", "<f4", (8,)),
        ("max_y", "<f4", (8,)),
        ("min_z", "<f4", (8,)),
        ("max_z", "<f4", (8,)),
        ("child", "<i4", (8,)),
        ("order", "<u4", (8,)),
    ]
)
"""``order``: lane r, bits 3*octant to 3*octant+2: the child that comes r-th from far to near for direction octant."""

TRIANGLE_PACK = np.dtype([("vertices", "<f4", (3, 3, 4)), ("id", "<i4", (4,))])
"""``vertices[corner, axis, lane]``: positions after the geometry transform, bit-exact."""

INDEXED_PACK = np.dtype([("id", "<i4", (4,))])

TRIANGLE_INDICES = np.dtype([("vertex", "<u4", (3,))])
"""One row per input triangle: rows of VERTICES. Rows of triangles that are not in the tree are zero."""

VERTEX = np.dtype([("position", "<f4", (3,))])
"""After the geometry transform."""

UPDATE_RECORD = np.dtype(
    [
        ("vertex_count", "<u4"),
        ("index_count", "<u4"),
        ("vertex_format", "<u4"),
        ("index_format", "<u4"),
        ("index_hash", "<u8"),
        ("pad", "<u8"),
    ]
)
"""One per geometry, only with ALLOW_UPDATE: what an update must not change (UPD-8). ``vertex_format`` 0 when the inputs
did not come from a buffer."""

INACTIVE_BITS = np.dtype("u1")
"""Only with ALLOW_UPDATE: one bit per input primitive, lowest first, set where it is inactive (INA-7)."""

BOX_PACK = np.dtype([("low", "<f4", (3, 4)), ("high", "<f4", (3, 4)), ("id", "<i4", (4,))])
"""``low[axis, lane]``; input boxes, an inverted one collapsed to its centre (DEG-4)."""

GEOMETRY = np.dtype(
    [
        ("type", "<u4"),
        ("flags", "<u4"),
        ("primitive_count", "<u4"),
        ("first_primitive", "<u4"),
        ("active_count", "<u4"),
        ("degenerate_count", "<u4"),
        ("has_transform", "<u4"),
        ("reserved", "<u4"),
    ]
)

INSTANCE_LEAF = np.dtype([("world_to_object", "<f4", (3, 4)), ("instance", "<i4"), ("state", "<u4"), ("pad", "<u8")])
"""``state``: INSTANCE_SINGULAR where the transform cannot be inverted (INST-5)."""

INSTANCE_SINGULAR = 1

SECTION = np.dtype([("kind", "<u4"), ("element_size", "<u4"), ("count", "<u8"), ("offset", "<u8")])

MAX_SECTIONS = 8

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("layout_version", "<u4"),
        ("type", "<u4"),
        ("build_flags", "<u4"),
        ("section_count", "<u4"),
        ("size_in_bytes", "<u8"),
        ("input_count", "<u4"),
        ("active_count", "<u4"),
        ("degenerate_count", "<u4"),
        ("depth", "<u4"),
        ("bounds", "<f4", (2, 3)),
        ("max_abs", "<f4"),
        ("condition", "<f4"),
        ("used_size", "<u8"),
        ("input_hash", "<u8"),
        ("state", "<u4"),
        ("reserved", "<u4", (3,)),
        ("sections", SECTION, (MAX_SECTIONS,)),
    ]
)
"""``input_count``: primitives or instances given; ``active_count``: those in the tree; ``degenerate_count``: degenerate
ones among the input (DEG-1). ``depth``: levels of nodes, 0 when there is none. ``bounds``: of the root, +inf to -inf
when empty. ``max_abs``: largest finite absolute coordinate. ``condition``: largest product of the norms of an
instance's transform and its inverse (1 for a bottom level); both size the conservative widening of box tests.
``used_size``: bytes in use from the start, a multiple of 256; the rest is room that the build did not need.
``input_hash``: of what a rehydration must bring again, 0 where there is none. ``state``: STATE_*."""

STATE_LIVE = 0
STATE_DEHYDRATED = 1

ELEMENT_DTYPES: dict[SectionKind, np.dtype[Any]] = {
    SectionKind.NODES: NODE,
    SectionKind.TRIANGLE_PACKS: TRIANGLE_PACK,
    SectionKind.BOX_PACKS: BOX_PACK,
    SectionKind.GEOMETRIES: GEOMETRY,
    SectionKind.INSTANCE_LEAVES: INSTANCE_LEAF,
    SectionKind.INDEXED_PACKS: INDEXED_PACK,
    SectionKind.INDICES: TRIANGLE_INDICES,
    SectionKind.VERTICES: VERTEX,
    SectionKind.UPDATE: UPDATE_RECORD,
    SectionKind.INACTIVE: INACTIVE_BITS,
}
