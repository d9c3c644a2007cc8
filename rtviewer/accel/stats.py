"""What a structure is like: counts, bytes by section, depth, fill, surface area heuristic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.navigate import Tree, tree_of
from rtviewer.accel.structure import Structure

NODE_COST = 1.0
ELEMENT_COST = 0.5
"""Cost of testing the children of a node, and of testing one leaf element; only their ratio means anything. Trees made
cheapest with elements at 0.4 to 0.6 of a node were traced fastest."""


@dataclass(frozen=True)
class StructureStatistics:
    """``sah``: expected cost of a ray that meets the root, in node tests; 0 when empty. ``depth``: levels of nodes.
    ``fill``: occupied part of the leaf elements' lanes, 0 to 1. ``bytes_by_section`` adds up to the size, padding and
    header included."""

    sah: float
    depth: int
    node_count: int
    leaf_count: int
    element_count: int
    primitive_count: int
    active_count: int
    degenerate_count: int
    fill: float
    bytes_by_section: dict[str, int]


def half_areas(low: NDArray[np.float32], high: NDArray[np.float32]) -> NDArray[np.float64]:
    """Half the surface of boxes, (n,) float64. Infinite extents count as the largest float32."""
    with np.errstate(invalid="ignore"):  # a box at infinity has no extent there
        extent = np.clip(np.nan_to_num(high.astype(np.float64) - low.astype(np.float64)), 0.0, 3.4e38)
    x, y, z = extent[:, 0], extent[:, 1], extent[:, 2]
    areas: NDArray[np.float64] = x * y + y * z + z * x
    return areas


def box_costs(tree: Tree) -> NDArray[np.float64]:
    """Own cost of every box relative to the root, (n,) float64: area over the root's, times what is tested inside.

    A root without area (a point, or a segment along an axis) makes every box count as fully met, so nothing is divided
    by zero.
    """
    areas = half_areas(tree.low, tree.high)
    share = areas / areas[0] if len(areas) and areas[0] > 0 else np.ones(len(areas))
    return share * np.where(tree.node >= 0, NODE_COST, ELEMENT_COST * tree.element_count)


def statistics(structure: Structure, tree: Tree | None = None) -> StructureStatistics:
    """Walk the nodes once. ``tree``: pass it when it is there already."""
    tree = tree or tree_of(structure)
    header = structure.header
    leaves = tree.node < 0
    packs = structure.packs
    elements = len(structure.instance_leaves) if structure.is_top_level else len(packs)
    fill = 1.0
    if not structure.is_top_level and len(packs):
        fill = float((packs["id"] != layout.UNUSED_LANE).mean())
    return StructureStatistics(
        sah=float(box_costs(tree).sum()),
        depth=int(header["depth"]),
        node_count=len(structure.nodes),
        leaf_count=int(leaves.sum()),
        element_count=elements,
        primitive_count=int(header["input_count"]),
        active_count=int(header["active_count"]),
        degenerate_count=int(header["degenerate_count"]),
        fill=fill,
        bytes_by_section=bytes_by_section(structure),
    )


def bytes_by_section(structure: Structure) -> dict[str, int]:
    """Bytes of each section by name, ``header`` first; ``padding`` is what alignment adds, ``unused`` the room the
    build did not need."""
    found = {"header": layout.HEADER.itemsize}
    for entry in structure.header["sections"][: int(structure.header["section_count"])]:
        name = SectionKind(int(entry["kind"])).name.lower()
        found[name] = int(entry["element_size"]) * int(entry["count"])
    found["padding"] = structure.used_size - sum(found.values())
    found["unused"] = structure.size - structure.used_size
    return found
