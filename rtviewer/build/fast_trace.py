"""PREFER_FAST_TRACE: a finished tree made better.

The leaf elements of the tree stay as they are. It becomes binary, parts of it move to where they enlarge fewer boxes
(``kernels.binary_tree``), and the cheapest eight-wide tree in it is taken (``kernels.collapse``). Where that would not
fit into the budget, nodes get dearer until it does; else the tree stays what it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtviewer.build.parallel import run_tasks
from rtviewer.errors import CancelledError

NODE_COST, ELEMENT_COST = 1.0, 0.6
"""What visiting a node and testing a leaf element take, relative to each other; measured with the tracer."""
ROUNDS = 4
SHARE = 2
"""In each round, one node in so many is a candidate: those with the largest boxes."""
GRAIN = 4096

Progress = Callable[[float], None]
Cancelled = Callable[[], bool]


@dataclass(frozen=True)
class ImprovedTree:
    """``nodes`` (n, 64) float32 rows of the layout; ``packs`` (m, 2) int32 in their new order; ``depth``: levels."""

    nodes: NDArray[np.float32]
    packs: NDArray[np.int32]
    depth: int


def improved_tree(
    bounds: NDArray[np.float32],
    nodes: NDArray[np.float32],
    packs: NDArray[np.int32],
    leaf_elements: int,
    most_nodes: int,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> ImprovedTree | None:
    """A better tree over the leaf elements of a finished one, or None where there is nothing to gain.

    ``bounds`` (k, 6) float32 of the references, ``packs`` (m, 2) int32: the range of references of each leaf element,
    ``nodes`` (n, 64) float32; all contiguous. The result has leaves of up to ``leaf_elements`` and at most ``most_nodes``
    nodes, and does not depend on the number of threads.

    Raises CancelledError.
    """
    if len(packs) < 16:
        return None
    tree = BinaryTree(bounds, nodes, packs)
    for step in range(ROUNDS):
        if cancelled is not None and cancelled():
            raise CancelledError("the build was cancelled")
        tree.improve()
        if progress:
            progress((step + 1) / ROUNDS)
    return tree.collapsed(packs, leaf_elements, most_nodes)


class BinaryTree:
    """Arrays of ``kernels.binary_tree``."""

    def __init__(self, bounds: NDArray[np.float32], nodes: NDArray[np.float32], packs: NDArray[np.int32]) -> None:
        from rtviewer.kernels import binary_tree

        count = len(packs)
        self.count = 2 * count - 1
        self.boxes = np.zeros((self.count, 8), np.float32)
        self.links = np.zeros((self.count, 4), np.int32)
        self.areas = np.empty(self.count, np.float32)
        self.stacks: list[NDArray[np.uint8]] = []
        roots = np.empty(len(nodes), np.int64)

        def measure(part: int) -> None:
            first, last = part * GRAIN, min((part + 1) * GRAIN, count)
            binary_tree.element_boxes(bounds.ctypes.data, packs.ctypes.data, first, last, self.boxes.ctypes.data)

        run_tasks(measure, -(-count // GRAIN))
        self.root = binary_tree.from_wide(
            nodes.ctypes.data + 192, 256, len(nodes), count, self.boxes.ctypes.data, self.links.ctypes.data, roots.ctypes.data
        )

    def improve(self) -> float:
        """One round of moves; returns the sum of the areas of inner nodes before it."""
        from rtviewer.kernels import binary_tree

        boxes, links = self.boxes.ctypes.data, self.links.ctypes.data
        total = binary_tree.inner_area(boxes, links, 0, self.count, self.areas.ctypes.data)
        candidates = self._candidates()
        places, savings = np.empty(len(candidates), np.int32), np.empty(len(candidates), np.float32)

        def search(part: int) -> None:
            first, last = part * GRAIN, min((part + 1) * GRAIN, len(candidates))
            stack = np.empty(binary_tree.PENDING * 4096 + 64, np.uint8)
            binary_tree.find_places(
                boxes, links, candidates.ctypes.data, first, last, places.ctypes.data, savings.ctypes.data,
                stack.ctypes.data,
            )  # fmt: skip

        run_tasks(search, -(-len(candidates) // GRAIN))
        found = np.flatnonzero(places >= 0)
        order = found[np.argsort(-savings[found], kind="stable")]
        touched = np.zeros(self.count, np.uint8)
        self.found = len(order)
        self.moved = binary_tree.move(
            boxes, links, candidates.ctypes.data, places.ctypes.data, order.ctypes.data, len(order), touched, self.root
        )
        return float(total)

    def _candidates(self) -> NDArray[np.int32]:
        """The nodes with the largest boxes that have a grandparent, by number."""
        wanted = self.count // SHARE
        limit = np.partition(self.areas, self.count - wanted)[self.count - wanted]
        parent = self.links[:, 0]
        chosen = np.flatnonzero((self.areas >= limit) & (parent >= 0) & (parent != self.root))
        return chosen[: 2 * wanted].astype(np.int32)

    def collapsed(self, packs: NDArray[np.int32], leaf_elements: int, most_nodes: int) -> ImprovedTree | None:
        """The cheapest wide tree of at most ``most_nodes`` nodes."""
        from rtviewer.kernels import collapse

        boxes, links = self.boxes.ctypes.data, self.links.ctypes.data
        order = np.empty(self.count, np.int32)
        collapse.order_nodes(links, self.root, order.ctypes.data)
        costs = np.empty((self.count, collapse.COSTS // 4), np.float32)
        choices = np.empty(self.count, np.int64)
        out = np.empty((most_nodes, 64), np.float32)
        elements = np.empty(len(packs), np.int32)
        pending = np.empty(collapse.WORKPLACE + collapse.PLACE_SIZE * most_nodes, np.uint8)
        price = np.float32(0.0)
        for _ in range(4):
            collapse.choose(
                boxes, links, order.ctypes.data, 0, self.count, np.float32(NODE_COST), price, np.float32(ELEMENT_COST),
                leaf_elements, costs.ctypes.data, choices.ctypes.data,
            )  # fmt: skip
            count, depth = collapse.write_nodes(
                boxes, links, choices.ctypes.data, self.root, out.ctypes.data, most_nodes, elements.ctypes.data,
                pending.ctypes.data,
            )  # fmt: skip
            if count:
                return ImprovedTree(out[:count], packs[elements], int(depth))
            typical = np.float32(np.median(self.areas[len(packs) :]))
            price = typical if price == 0.0 else price * np.float32(4.0)
        return None
