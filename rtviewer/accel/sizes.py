"""How many bytes a structure takes, from counts alone: what prebuild info reports and what a build keeps to.

Sizes are linear in every count, so they are monotone (PRE-3), and depend on nothing else (PRE-1). The tree's part is a
budget that the builder keeps by construction (``kernels.topology``); the default's is at most 72 bytes a triangle
and a constant.
"""

from __future__ import annotations

from dataclasses import dataclass

from rtviewer.accel import layout
from rtviewer.dxr.flags import BuildFlag
from rtviewer.dxr.limits import ACCELERATION_STRUCTURE_BYTE_ALIGNMENT

TRIANGLE_BUDGET = 70
INDEXED_BUDGET = 22
BOX_BUDGET = 50
INSTANCE_BUDGET = 160
SMALL_INSTANCE_BUDGET = 120
"""Bytes of nodes and leaf elements per primitive; the last with MINIMIZE_MEMORY. Cut exactly, triangles take at most 62
(17 of them: five packs and a node), ids of triangles 20, boxes 48, instances 116; the rest is room for cuts by area."""
TREE_CONSTANT = 512
"""Lets a single primitive have its node and element."""
INSTANCE_DESC_SIZE = 64


@dataclass(frozen=True)
class Counts:
    """What a size depends on.

    ``triangles``, ``boxes``: of all geometries. ``vertices``: summed over geometries, the smaller of the vertex count
    and three per triangle: no more can be referenced. ``instances``: of a top level.
    """

    triangles: int = 0
    boxes: int = 0
    geometries: int = 0
    vertices: int = 0
    instances: int = 0


def align(size: int, alignment: int = ACCELERATION_STRUCTURE_BYTE_ALIGNMENT) -> int:
    return -(-size // alignment) * alignment


def tree_budget(counts: Counts, flags: BuildFlag = BuildFlag.NONE) -> int:
    """Bytes that nodes and leaf elements may take together."""
    small = bool(flags & BuildFlag.MINIMIZE_MEMORY)
    per_triangle = INDEXED_BUDGET if small else TRIANGLE_BUDGET
    per_instance = SMALL_INSTANCE_BUDGET if small else INSTANCE_BUDGET
    return per_triangle * counts.triangles + BOX_BUDGET * counts.boxes + per_instance * counts.instances + TREE_CONSTANT


def result_size(counts: Counts, flags: BuildFlag = BuildFlag.NONE) -> int:
    """ResultDataMaxSizeInBytes: the size of every structure that was never compacted (PRE-6). A multiple of 256."""
    size = layout.HEADER.itemsize + tree_budget(counts, flags)
    size += counts.geometries * layout.GEOMETRY.itemsize + counts.instances * INSTANCE_DESC_SIZE
    if flags & BuildFlag.MINIMIZE_MEMORY:
        size += counts.triangles * layout.TRIANGLE_INDICES.itemsize + counts.vertices * layout.VERTEX.itemsize
    if flags & BuildFlag.ALLOW_UPDATE:
        primitives = counts.triangles + counts.boxes
        size += counts.geometries * layout.UPDATE_RECORD.itemsize + (primitives + 7) // 8
    return align(size + layout.MAX_SECTIONS * layout.SECTION_ALIGNMENT)


REFERENCE_SIZE = 32
"""Bytes of scratch per reference: a box, an id and a source. Cuts that move references use the result's memory too."""
TOPOLOGY_SIZE = 16
"""Bytes per reference of the tree before it is written: node's children, and the ranges of leaf elements."""
KEY_SIZE = 16
"""Bytes per reference of Morton keys, and of room to sort them."""
IMPROVED_SIZE = 56
"""Bytes per reference of the binary tree that PREFER_FAST_TRACE improves."""
SCRATCH_CONSTANT = 4096


def scratch_size(counts: Counts, flags: BuildFlag = BuildFlag.NONE) -> int:
    """ScratchDataSizeInBytes: references and topology, and what the builder needs beside them."""
    per_reference = REFERENCE_SIZE + TOPOLOGY_SIZE
    if flags & BuildFlag.PREFER_FAST_BUILD:
        per_reference += KEY_SIZE
    if flags & BuildFlag.PREFER_FAST_TRACE:
        per_reference += IMPROVED_SIZE
    return align((counts.triangles + counts.boxes + counts.instances) * per_reference + SCRATCH_CONSTANT)


def update_scratch_size(counts: Counts, flags: BuildFlag = BuildFlag.NONE) -> int:
    """UpdateScratchDataSizeInBytes: one word per leaf element's box; 0 without ALLOW_UPDATE (PRE-4)."""
    if not flags & BuildFlag.ALLOW_UPDATE:
        return 0
    return align(4 * (counts.triangles + counts.boxes + counts.instances) + SCRATCH_CONSTANT)
