"""The node tree as flat arrays, for drawing, listing and walking without an object per node.

Boxes are numbered breadth first: 0 is the root, the children of a box are consecutive, levels are contiguous ranges.
A box is an inner node or a leaf; what a leaf holds are elements of the structure's leaf section.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.layout import PRIMITIVE_BITS, UNUSED_LANE
from rtviewer.accel.structure import Structure


@dataclass(frozen=True, eq=False)
class Tree:
    """n boxes. All arrays (n,) int32 unless said otherwise.

    ``low``, ``high`` (n, 3) float32. ``parent``: box number, -1 for the root. ``depth``: 0 for the root.
    ``first_child``, ``child_count``: boxes below; 0 for leaves. ``node``: node index, -1 for leaves.
    ``first_element``, ``element_count``: of the leaf section; 0 for inner nodes. ``parent_node``, ``lane``: where the
    box stands in the bytes, -1 for the root. ``level_start`` (depth + 1,): first box of each level, then n.
    """

    structure: Structure
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    first_child: NDArray[np.int32]
    child_count: NDArray[np.int32]
    node: NDArray[np.int32]
    first_element: NDArray[np.int32]
    element_count: NDArray[np.int32]
    parent_node: NDArray[np.int32]
    lane: NDArray[np.int32]
    level_start: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.parent)

    def is_leaf(self, box: int) -> bool:
        return int(self.node[box]) < 0

    def path_to_root(self, box: int) -> list[int]:
        """Box numbers from ``box`` up to 0."""
        path = [box]
        while self.parent[path[-1]] >= 0:
            path.append(int(self.parent[path[-1]]))
        return path

    def box_of(self, parent_node: int, lane: int) -> int:
        """The box in a lane of a node; 0 for the root (``parent_node`` -1); -1 when the lane is empty."""
        if parent_node < 0:
            return 0
        return int(self._box_of_lane()[parent_node, lane])

    def _box_of_lane(self) -> NDArray[np.int32]:
        table: NDArray[np.int32] | None = getattr(self, "_lanes", None)
        if table is None:
            table = np.full((max(len(self.structure.nodes), 1), 8), -1, np.int32)
            below = self.parent_node >= 0
            table[self.parent_node[below], self.lane[below]] = np.flatnonzero(below).astype(np.int32)
            object.__setattr__(self, "_lanes", table)
        return table

    def leaf_items(self, box: int) -> NDArray[np.int64]:
        """What a leaf holds: (k, 2) int64 rows (geometry, primitive), or (instance, -1) in a top level."""
        first, count = int(self.first_element[box]), int(self.element_count[box])
        structure = self.structure
        if structure.is_top_level:
            instances = structure.instance_leaves["instance"][first : first + count].astype(np.int64)
            return np.stack([instances, np.full_like(instances, -1)], 1)
        ids = structure.packs["id"][first : first + count].ravel()
        geometry, primitive = structure.geometry_and_primitive(ids[ids != UNUSED_LANE])
        return np.stack([geometry, primitive], 1)

    def box_of_item(self, first: int, second: int = -1) -> int:
        """The leaf that holds (geometry, primitive) or (instance, -1); -1 when none does."""
        structure = self.structure
        if structure.is_top_level:
            found = np.flatnonzero(structure.instance_leaves["instance"] == first)
            element = int(found[0]) if len(found) else -1
        else:
            geometries = structure.geometries
            if not (0 <= first < len(geometries) and 0 <= second < int(geometries["primitive_count"][first])):
                return -1
            ids = structure.packs["id"]
            number = int(geometries["first_primitive"][first]) + second
            found = np.flatnonzero(((ids & PRIMITIVE_BITS) == number) & (ids != UNUSED_LANE))
            element = int(found[0]) // 4 if len(found) else -1
        if element < 0:
            return -1
        leaves = np.flatnonzero((self.first_element <= element) & (element < self.first_element + self.element_count))
        return int(leaves[0]) if len(leaves) else -1


def tree_of(structure: Structure) -> Tree:
    """Number the boxes of a structure breadth first. Time and memory linear in the number of nodes."""
    header = structure.header
    nodes = structure.nodes
    if not len(nodes):
        return _assemble(structure, [])
    low, high = header["bounds"]
    root = {
        "low": low[None], "high": high[None],
        "parent": np.array([-1]), "node": np.array([0]), "first_element": np.array([0]),
        "element_count": np.array([0]), "parent_node": np.array([-1]), "lane": np.array([-1]),
    }  # fmt: skip
    levels = [root]
    first_box = 0
    while True:
        above = levels[-1]
        inner = np.flatnonzero(above["node"] >= 0)
        if not len(inner):
            break
        parents = nodes[above["node"][inner]]
        filled = parents["min_x"] <= parents["max_x"]
        row, lane = np.nonzero(filled)
        ref = parents["child"][row, lane]
        leaf = ref < 0
        levels.append(
            {
                "low": np.stack([parents[f"min_{a}"][row, lane] for a in "xyz"], 1),
                "high": np.stack([parents[f"max_{a}"][row, lane] for a in "xyz"], 1),
                "parent": first_box + inner[row],
                "node": np.where(leaf, -1, ref),
                "first_element": np.where(leaf, ~ref >> 2, 0),
                "element_count": np.where(leaf, (~ref & 3) + 1, 0),
                "parent_node": above["node"][inner][row],
                "lane": lane,
            }
        )
        first_box += len(above["node"])
    return _assemble(structure, levels)


def _assemble(structure: Structure, levels: list[dict[str, NDArray[np.generic]]]) -> Tree:
    def column(name: str) -> NDArray[np.int32]:
        return np.concatenate([level[name] for level in levels]).astype(np.int32) if levels else np.empty(0, np.int32)

    def points(name: str) -> NDArray[np.float32]:
        return (
            np.concatenate([level[name] for level in levels]).astype(np.float32)
            if levels
            else np.empty((0, 3), np.float32)
        )

    parent = column("parent")
    count = len(parent)
    child_count = np.bincount(parent[parent >= 0], minlength=count).astype(np.int32)
    first_child = np.zeros(count, np.int32)
    below = np.flatnonzero(parent >= 0)
    first_child[parent[below[::-1]]] = below[::-1]  # the first child is written last
    sizes = [len(level["node"]) for level in levels]
    depth = np.repeat(np.arange(len(levels), dtype=np.int32), sizes)
    return Tree(
        structure, points("low"), points("high"), parent, depth, first_child, child_count, column("node"),
        column("first_element"), column("element_count"), column("parent_node"), column("lane"),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )  # fmt: skip
