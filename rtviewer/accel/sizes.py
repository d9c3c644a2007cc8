"""How many bytes a structure takes, from counts alone: what prebuild info reports and what a build keeps to.

Sizes are linear in every count, so they are monotone (PRE-3), and depend on nothing else (PRE-1). The tree's part is a
budget that the builder keeps by construction (``kernels.binned_sah``); the default's is at most 72 bytes a triangle
and a constant.
"""

from __future__ import annotations

from dataclasses import dataclass

from rtviewer.accel import layout
from rtviewer.dxr.limits import ACCELERATION_STRUCTURE_BYTE_ALIGNMENT

TRIANGLE_BUDGET = 70
BOX_BUDGET = 50
INSTANCE_BUDGET = 160
"""Bytes of nodes and leaf elements per primitive. Cut exactly, triangles take at most 62 (17 of them: five packs and a
node), boxes 48, instances 116; the rest is room for cuts by area."""
TREE_CONSTANT = 512
"""Lets a single primitive have its node and element."""


@dataclass(frozen=True)
class Counts:
    """What a size depends on. ``primitives``: triangles or boxes of all geometries; ``instances`` of a top level."""

    triangles: int = 0
    boxes: int = 0
    geometries: int = 0
    instances: int = 0


def align(size: int, alignment: int = ACCELERATION_STRUCTURE_BYTE_ALIGNMENT) -> int:
    return -(-size // alignment) * alignment


def tree_budget(counts: Counts) -> int:
    """Bytes that nodes and leaf elements may take together."""
    per_primitive = TRIANGLE_BUDGET * counts.triangles + BOX_BUDGET * counts.boxes + INSTANCE_BUDGET * counts.instances
    return per_primitive + TREE_CONSTANT


def result_size(counts: Counts) -> int:
    """ResultDataMaxSizeInBytes: the size of every structure that was never compacted (PRE-6). A multiple of 256."""
    tables = counts.geometries * layout.GEOMETRY.itemsize + counts.instances * 64
    padding = 3 * layout.SECTION_ALIGNMENT
    return align(layout.HEADER.itemsize + tree_budget(counts) + tables + padding)
