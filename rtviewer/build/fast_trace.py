"""PREFER_FAST_TRACE: a finished tree made better.

The leaf elements of the tree stay as they are. It becomes binary, parts of it move to where they enlarge fewer boxes
(``kernels.binary_tree``), and the cheapest eight-wide tree in it is taken (``kernels.collapse``). Before any move that
is at least as good as the tree it came from, which is one of those in it. Where it would not fit into the budget, nodes
get dearer until it does; else the tree stays what it was.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.stats import ELEMENT_COST, NODE_COST
from rtviewer.build.plan import BuildPlan
from rtviewer.build.reference_rows import ReferenceRows
from rtviewer.build.tree import TREE_SHARE, Subtree, Tree, topology_share
from rtviewer.build.workers import Share, Workers

ROUNDS, ENOUGH = 3, 0.005
"""Most rounds of moves; they end when one makes the tree's areas smaller by less than this part."""
SHARE = 3
"""In each round, one node in so many is a candidate: those with the largest boxes."""
GRAIN = 1 << 12
"""Candidates of one task."""
PART = 1 << 14
"""Leaf elements of the subtrees that are collapsed on their own; neither this nor GRAIN depends on threads."""
NODE_BYTES = 256
FEWEST = 16
"""Trees of fewer elements have nothing to gain."""


def improved_tree(tree: Tree, rows: ReferenceRows, plan: BuildPlan, budget: int, workers: Workers) -> Tree:
    """A better tree over the leaf elements of ``tree``, or ``tree`` itself where ``plan`` asks for none.

    ``budget``: bytes of nodes and leaf elements, kept. The result does not depend on the number of threads.

    Tells its progress and raises CancelledError while it looks for places.
    """
    if not plan.improved_leaf or tree.element_count < FEWEST:
        return tree
    binary = BinaryTree(tree, rows, workers)
    before = binary.inner_area()
    start = topology_share(plan)
    step = (TREE_SHARE - start) / (ROUNDS + 1)
    for number in range(ROUNDS):
        binary.improve((start + number * step, start + (number + 1) * step))
        after = binary.inner_area()
        if not after < (1.0 - ENOUGH) * before:
            break
        before = after
    workers.check()
    workers.report(TREE_SHARE - step)
    room = (budget - tree.element_count * plan.element_size) // NODE_BYTES
    improved = binary.collapsed(plan.improved_leaf, room)
    workers.report(TREE_SHARE)
    return improved or tree


class BinaryTree:
    """Arrays of ``kernels.binary_tree``. ``packs`` (m, 2) int32: the range of references of each leaf element."""

    def __init__(self, tree: Tree, rows: ReferenceRows, workers: Workers) -> None:
        from rtviewer.kernels import binary_tree

        self.workers = workers
        children, self.packs = _joined(tree)
        elements = len(self.packs)
        self.count = 2 * elements - 1
        self.boxes = np.empty((self.count, 8), np.float32)
        self.links = np.empty((self.count, 4), np.int32)
        self.areas = np.empty(self.count, np.float32)
        roots = np.empty(len(children), np.int64)

        def measure(part: int) -> None:
            first, last = part * PART, min((part + 1) * PART, elements)
            binary_tree.element_boxes(rows.address, self.packs.ctypes.data, first, last, self.boxes.ctypes.data)

        workers.each(measure, -(-elements // PART))
        self.root = binary_tree.from_wide(
            children.ctypes.data, 32, len(children), elements, self.boxes.ctypes.data, self.links.ctypes.data,
            roots.ctypes.data,
        )  # fmt: skip
        self.inner_area()

    def inner_area(self) -> float:
        """The sum of the areas of inner nodes; notes the area of every node."""
        from rtviewer.kernels.binary_tree import inner_area

        boxes, links = self.boxes.ctypes.data, self.links.ctypes.data
        return float(inner_area(boxes, links, 0, self.count, self.areas.ctypes.data))

    def improve(self, share: Share | None = None) -> int:
        """One round: the largest nodes look for better places on all threads, then move; returns how many moved."""
        from rtviewer.kernels import binary_tree

        boxes, links = self.boxes.ctypes.data, self.links.ctypes.data
        candidates = self._candidates()
        places, savings = np.empty(len(candidates), np.int32), np.empty(len(candidates), np.float32)

        def search(part: int) -> None:
            first, last = part * GRAIN, min((part + 1) * GRAIN, len(candidates))
            stack = np.empty(binary_tree.STACK_SIZE, np.uint8)
            binary_tree.find_places(
                boxes, links, candidates.ctypes.data, first, last, places.ctypes.data, savings.ctypes.data,
                stack.ctypes.data,
            )  # fmt: skip

        self.workers.each(search, -(-len(candidates) // GRAIN), share=share)
        found = np.flatnonzero(places >= 0)
        order = found[np.argsort(-savings[found], kind="stable")]
        touched = np.zeros(self.count, np.uint8)
        return int(
            binary_tree.move(
                boxes, links, candidates.ctypes.data, places.ctypes.data, order.ctypes.data, len(order),
                touched.ctypes.data,
            )
        )  # fmt: skip

    def _candidates(self) -> NDArray[np.int32]:
        """The nodes with the largest boxes that have a grandparent, by number."""
        wanted = self.count // SHARE
        limit = np.partition(self.areas, self.count - wanted)[self.count - wanted]
        parent = self.links[:, 0]
        chosen = np.flatnonzero((self.areas >= limit) & (parent >= 0) & (parent != self.root))
        return chosen.astype(np.int32)

    def collapsed(self, leaf_elements: int, most_nodes: int) -> Tree | None:
        """The cheapest eight-wide tree, nodes dearer until there are at most ``most_nodes``; None if that fails."""
        collapse = _Collapse(self, leaf_elements)
        price = 0.0
        for _ in range(4):
            tree = collapse.run(price)
            if tree.node_count <= most_nodes:
                return tree
            price = 4.0 * price or float(np.median(self.areas[len(self.packs) :]))
        return None


class _Collapse:
    """The dynamic programming over one binary tree: subtrees of up to PART elements on threads, then what is above."""

    def __init__(self, binary: BinaryTree, leaf_elements: int) -> None:
        from rtviewer.kernels import collapse

        self.binary, self.leaf_elements = binary, leaf_elements
        self.sizes = np.empty(binary.count, np.int32)
        self.costs = np.empty((binary.count, collapse.COSTS // 4), np.float32)
        self.choices = np.empty(binary.count, np.int64)
        order, links = np.empty(binary.count, np.int32), binary.links.ctypes.data
        collapse.order_nodes(links, binary.root, order.ctypes.data)
        collapse.measure(links, order.ctypes.data, binary.count, self.sizes.ctypes.data)
        small = self.sizes <= PART
        parent = binary.links[:, 0]
        self.top = np.ascontiguousarray(order[~small[order]])
        self.subtrees = np.flatnonzero(small & ((parent < 0) | ~small[parent]))
        self.order = order

    def run(self, price: float) -> Tree:
        """The wide tree that is cheapest when every node costs ``price`` more."""

        def choose(part: int) -> None:
            from rtviewer.kernels.collapse import order_nodes

            root = int(self.subtrees[part])
            order = np.empty(2 * int(self.sizes[root]) - 1, np.int32)
            order_nodes(self.binary.links.ctypes.data, root, order.ctypes.data)
            self._choose(order, price)

        self.binary.workers.each(choose, len(self.subtrees))
        self._choose(self.top, price)
        return self._tree()

    def _choose(self, order: NDArray[np.int32], price: float) -> None:
        from rtviewer.kernels.collapse import choose

        choose(
            self.binary.boxes.ctypes.data, self.binary.links.ctypes.data, order.ctypes.data, len(order),
            np.float32(NODE_COST), np.float32(price), np.float32(ELEMENT_COST), self.leaf_elements,
            self.costs.ctypes.data, self.choices.ctypes.data,
        )  # fmt: skip

    def _tree(self) -> Tree:
        """Nodes of large subtrees breadth first, then the others, each a part of its own."""
        tops, below, level, depth = [self.binary.root], list[tuple[int, int, int, int]](), [1], 0
        rows: list[list[int]] = []
        packs: list[int] = []
        for index, root in enumerate(tops):  # grows while it is walked
            row = [0] * 8
            for lane, item in enumerate(self._lanes(root)):
                if not self.choices[item] & 1:
                    elements = self._elements(item)
                    row[lane] = ~(len(packs) << 2 | (len(elements) - 1))
                    packs += elements
                elif self.sizes[item] > PART:
                    row[lane] = len(tops)
                    tops.append(item)
                    level.append(level[index] + 1)
                else:
                    below.append((index, lane, item, level[index]))
            rows.append(row)
            depth = max(depth, level[index])
        children = np.array(rows, np.int32)
        written: dict[int, Subtree] = {}

        def write(part: int) -> None:
            written[part] = self._subtree(below[part][2])

        self.binary.workers.each(write, len(below))
        parts = [written[part] for part in range(len(below))]
        node_base, pack_base = len(tops), len(packs)
        for (index, lane, _, above), part in zip(below, parts, strict=True):
            children[index, lane] = part.node_base = node_base
            part.pack_base = pack_base
            node_base += len(part.children)
            pack_base += len(part.packs)
            depth = max(depth, above + part.depth)
        top = Subtree(children, self.binary.packs[np.array(packs, np.int64)], depth)
        return Tree([top, *parts], depth)

    def _lanes(self, node: int) -> list[int]:
        from rtviewer.kernels.collapse import WORKPLACE, gather

        room = np.empty(WORKPLACE, np.uint8)
        at = room.ctypes.data
        number = gather(self.binary.links.ctypes.data, self.choices.ctypes.data, node, at, at + 64)
        return [int(item) for item in room[: 8 * number].view(np.int64)]

    def _elements(self, node: int) -> list[int]:
        from rtviewer.kernels.collapse import WORKPLACE, list_elements

        elements, stack = np.empty(8, np.int32), np.empty(WORKPLACE, np.uint8)
        number = list_elements(self.binary.links.ctypes.data, node, elements.ctypes.data, 0, stack.ctypes.data)
        return [int(element) for element in elements[:number]]

    def _subtree(self, root: int) -> Subtree:
        from rtviewer.kernels.collapse import PLACE_SIZE, WORKPLACE, write_nodes

        size = int(self.sizes[root])
        children, elements = np.empty((size, 8), np.int32), np.empty(size, np.int32)
        pending = np.empty(WORKPLACE + PLACE_SIZE * size, np.uint8)
        count, placed, levels = write_nodes(
            self.binary.links.ctypes.data, self.choices.ctypes.data, root, children.ctypes.data, elements.ctypes.data,
            pending.ctypes.data,
        )  # fmt: skip
        return Subtree(children[:count].copy(), self.binary.packs[elements[:placed]], int(levels))


def _joined(tree: Tree) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Children (n, 8) and packs (m, 2) of all parts of a tree, numbered through."""
    children = []
    for part in tree.parts:
        moved = np.where(part.children > 0, part.children + part.node_base, part.children)
        children.append(np.where(moved < 0, moved - (part.pack_base << 2), moved))
    return (
        np.ascontiguousarray(np.concatenate(children), np.int32),
        np.concatenate([part.packs for part in tree.parts]),
    )
