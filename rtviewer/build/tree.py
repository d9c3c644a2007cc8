"""From references to a tree, on all cores: large ranges node by node, the rest as whole subtrees.

What is cut where depends on the references only: chunks that threads share are added up without regard to their order,
and which ranges become subtrees of their own is a matter of size. The result is the same for any number of threads.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure, aligned_bytes
from rtviewer.build.plan import BuildPlan, Method
from rtviewer.build.reference_rows import ReferenceRows, empty_rows
from rtviewer.build.workers import Workers

SHARED_CUT = 1 << 18
"""Ranges from this size on are cut by all threads together."""
OWN_TASK = 1 << 11
"""Ranges below this are built where they are found: handing them to a thread would take longer."""
TREE_SHARE, FIRST_TREE_SHARE = 0.8, 0.3
"""Part of the progress that is told when the topology is there, and when it is there but is to be improved."""


@dataclass
class TopNode:
    """A node above the grain. ``parts``: ranges of rows; ``frames`` (parts, 16) float32; ``slack``: bytes that its
    subtrees may take beyond their exact cost; ``children``: what became of each part."""

    parts: list[tuple[int, int]]
    frames: NDArray[np.float32]
    slack: int
    children: list[TopNode | Subtree | None] = field(default_factory=list)
    index: int = 0


@dataclass
class Subtree:
    """Topology of a range, as ``kernels.topology`` makes it: ``children`` (nodes, 8) int32, ``packs`` (elements, 2)
    int32."""

    children: NDArray[np.int32]
    packs: NDArray[np.int32]
    depth: int
    node_base: int = 0
    pack_base: int = 0


@dataclass
class Tree:
    """A finished topology: ``parts[0]`` holds the nodes above the grain, if there are any, and their leaves."""

    parts: list[Subtree]
    depth: int

    @property
    def node_count(self) -> int:
        return sum(len(part.children) for part in self.parts)

    @property
    def element_count(self) -> int:
        return sum(len(part.packs) for part in self.parts)


class _Room:
    """Scratch of one subtree at a time, for up to ``count`` references."""

    def __init__(self, count: int, leaf_size: int) -> None:
        from rtviewer.kernels.cuts import WORKSPACE_BYTES
        from rtviewer.kernels.topology import PENDING_BYTES

        # A node that is not full has only leaves of one pack below it, a full one has eight children, so nodes stay
        # below a third of the references; with one reference a leaf, below all of them.
        nodes = (count // 3 if leaf_size > 1 else count) + 2
        self.children = np.empty((nodes, 8), np.int32)
        self.packs = np.empty((count, 2), np.int32)
        self.pending = np.empty(PENDING_BYTES * (count // (leaf_size + 1) + 9), np.uint8)
        self.workspace = aligned_bytes(WORKSPACE_BYTES)


def topology_share(plan: BuildPlan) -> float:
    """Progress at the end of :func:`build_tree`."""
    return FIRST_TREE_SHARE if plan.improved_leaf else TREE_SHARE


def build_tree(rows: ReferenceRows, plan: BuildPlan, budget: int, workers: Workers) -> Tree:
    """Topology over all ``rows``; permutes them, or leaves their order in ``rows.keys``.

    Uses ``rows.spare`` or, where there is none, memory of its own; nothing is left on that side.

    ``budget``: bytes that nodes and leaf elements may take; kept by construction.
    """
    if not rows.count:
        return Tree([], 0)
    if plan.method is Method.MORTON:
        from rtviewer.build.morton_order import sort_rows

        sort_rows(rows, workers)
    tree = _Builder(rows, plan, budget, workers).run()
    rows.spare = None
    return tree


class _Builder:
    """The tasks of one build."""

    def __init__(self, rows: ReferenceRows, plan: BuildPlan, budget: int, workers: Workers) -> None:
        from rtviewer.kernels.exact_cost import fill_table, node_cost, pack_count

        self.rows, self.plan, self.workers = rows, plan, workers
        if rows.spare is None and not plan.only_keys:
            rows.spare = empty_rows(rows.count)
        self.pack_shift = plan.pack_width.bit_length() - 1
        packs = int(pack_count(rows.count, self.pack_shift))
        self.table = np.empty(packs + 1, np.int32)
        fill_table(self.table.ctypes.data, packs + 1)
        self.costs = (plan.leaf_size, self.pack_shift, plan.element_size, self.table.ctypes.data)
        self.slack = budget - int(node_cost(rows.count, *self.costs[1:]))
        self.cancel = np.zeros(1, np.int32)
        self.rooms: list[_Room] = []
        self.done = 0

    def run(self) -> Tree:
        rows = self.rows
        if rows.count <= self.plan.grain:
            subtree = self._subtree(0, rows.count, self.slack, rows.frame)
            return Tree([subtree], subtree.depth)
        try:
            root = self._shared_cut(0, rows.count, self.slack, rows.frame)
            self._finish_below(root)
        except BaseException:
            self.cancel[0] = 1
            raise
        return _numbered(root, self.plan)

    def _finish_below(self, root: TopNode) -> None:
        """Cut the largest ranges with all threads at once, then the others each on a thread."""
        # Looking for a bit in sorted keys takes no time worth sharing.
        shared = self.plan.grain + 1 if self.plan.method is Method.MORTON else SHARED_CUT
        small: list[tuple[TopNode, int, int]] = []
        large = [root]
        while large:
            node = large.pop()
            for lane, slack in self._shares(node):
                first, end = node.parts[lane]
                if end - first >= shared:
                    child = self._shared_cut(first, end, slack, node.frames[lane])
                    node.children[lane] = child
                    large.append(child)
                else:
                    small.append((node, lane, slack))
        tasks: dict[Future[Any], tuple[TopNode, int]] = {}
        for node, lane, slack in sorted(small, key=lambda task: _size(task[0], task[1]), reverse=True):
            self._start(tasks, node, lane, slack)
        while tasks:
            future = self.workers.next_done()
            node, lane = tasks.pop(future)
            child = node.children[lane] = future.result()
            if isinstance(child, TopNode):
                for next_lane, slack in self._shares(child):
                    self._start(tasks, child, next_lane, slack)
            else:
                self.done += _size(node, lane)
            self.workers.report(topology_share(self.plan) * self.done / self.rows.count)

    def _start(self, tasks: dict[Future[Any], tuple[TopNode, int]], node: TopNode, lane: int, slack: int) -> None:
        first, end = node.parts[lane]
        if end - first < OWN_TASK:
            node.children[lane] = self._subtree(first, end, slack, node.frames[lane])
            self.done += end - first
            return
        build = self._cut if end - first > self.plan.grain else self._subtree
        tasks[self.workers.start(partial(build, first, end, slack, node.frames[lane]))] = (node, lane)

    def _shares(self, node: TopNode) -> list[tuple[int, int]]:
        """(lane, slack) of the parts that are not leaves: the node's slack in proportion to what each part holds."""
        node.children = [None] * len(node.parts)
        inner = []
        for lane in range(len(node.parts)):
            if _size(node, lane) <= layout.MAX_LEAF_ELEMENTS * self.plan.pack_width:
                self.done += _size(node, lane)
                node.parts[lane] = self.rows.brought_home(*node.parts[lane])
            else:
                inner.append(lane)
        total = sum(_size(node, lane) for lane in inner)
        return [(lane, node.slack * _size(node, lane) // total) for lane in inner]

    # --- one range ------------------------------------------------------------------------------------------------

    def _addresses(self, first: int) -> tuple[int, int, int]:
        """References, scratch for the range that starts at ``first``, keys."""
        rows = self.rows
        scratch = rows.address_of(rows.other_side(first)) if rows.spare is not None else 0
        return rows.base_of(first), scratch, rows.keys_address

    def _subtree(self, first: int, end: int, slack: int, frame: NDArray[np.float32]) -> Subtree:
        from rtviewer.kernels.topology import build_range

        first, end = self.rows.brought_home(first, end)
        room = self.rooms.pop() if self.rooms else self._new_room()
        _set_frame(room.workspace, frame)
        nodes, elements, depth = build_range(
            *self._addresses(first), int(self.plan.method), first, end, *self.costs, slack,
            room.children.ctypes.data, room.packs.ctypes.data, room.pending.ctypes.data,
            room.workspace.ctypes.data, self.cancel.ctypes.data,
        )  # fmt: skip
        result = Subtree(room.children[:nodes].copy(), room.packs[:elements].copy(), int(depth))
        self.rooms.append(room)
        return result

    def _new_room(self) -> _Room:
        return _Room(min(self.rows.count, self.plan.grain), self.plan.leaf_size)

    def _cut(self, first: int, end: int, slack: int, frame: NDArray[np.float32]) -> TopNode:
        """One node, by one thread."""
        from rtviewer.kernels.cuts import WORKSPACE_BYTES
        from rtviewer.kernels.topology import cut_within

        first, end = self.rows.brought_home(first, end)
        workspace = aligned_bytes(WORKSPACE_BYTES)
        _set_frame(workspace, frame)
        number, left = cut_within(
            *self._addresses(first), int(self.plan.method), first, end, *self.costs, slack, workspace.ctypes.data
        )
        return _top_node(workspace, number, left)

    def _shared_cut(self, first: int, end: int, slack: int, frame: NDArray[np.float32]) -> TopNode:
        """One node, by all threads: as ``kernels.topology.cut_within``, each split in chunks."""
        if self.plan.method is Method.MORTON or end - first < SHARED_CUT:
            return self._cut(first, end, slack, frame)
        from rtviewer.build.shared_split import SharedSplit
        from rtviewer.kernels import topology
        from rtviewer.kernels.cuts import WORKSPACE_BYTES, cut_exactly
        from rtviewer.kernels.exact_cost import node_cost

        workspace = aligned_bytes(WORKSPACE_BYTES)
        _set_frame(workspace, frame)
        at, method = workspace.ctypes.data, int(self.plan.method)
        sizes = self.plan.leaf_size, self.pack_shift
        topology.set_part(at, 0, first, end, method, 0, *sizes)
        split = SharedSplit(self.rows, workspace, sizes, self.workers)
        number = 1
        while number < layout.WIDTH:
            chosen = int(topology.part_to_cut(at, number))
            if chosen < 0:
                break
            split.run(chosen, number)
            number += 1
        exact = int(node_cost(end - first, *self.costs[1:]))
        surplus = int(topology.parts_cost(at, number, *self.costs)) - exact
        if surplus > slack:
            split.gather(number, first)
            number = int(cut_exactly(self.rows.base_of(first), method, first, end, self.pack_shift, at))
            surplus = int(topology.parts_cost(at, number, *self.costs)) - exact
        return _top_node(workspace, number, slack - surplus)


def _size(node: TopNode, lane: int) -> int:
    first, end = node.parts[lane]
    return end - first


def _set_frame(workspace: NDArray[np.uint8], frame: NDArray[np.float32]) -> None:
    from rtviewer.kernels.cuts import FRAMES_AT

    workspace[FRAMES_AT : FRAMES_AT + 64].view(np.float32)[:] = frame


def _top_node(workspace: NDArray[np.uint8], number: int, slack: int) -> TopNode:
    from rtviewer.kernels.cuts import FRAMES_AT, PARTS_AT

    ranges = workspace[PARTS_AT : PARTS_AT + 24 * number].view(np.int64).reshape(-1, 3)
    frames = workspace[FRAMES_AT : FRAMES_AT + 64 * number].view(np.float32).reshape(-1, 16).copy()
    return TopNode([(int(row[0]), int(row[1])) for row in ranges], frames, int(slack))


def _numbered(root: TopNode, plan: BuildPlan) -> Tree:
    """Give every node and leaf element its place: nodes above the grain breadth first, then subtrees in that order."""
    tops: list[TopNode] = [root]
    subtrees: list[Subtree] = []
    root.index, levels, level, depth = 0, [root], 1, 0
    while levels:
        below = []
        for node in levels:
            for child in node.children:
                if isinstance(child, TopNode):
                    child.index = len(tops)
                    tops.append(child)
                    below.append(child)
                elif child is not None:
                    subtrees.append(child)
                    depth = max(depth, level + child.depth)
        depth = max(depth, level)
        levels, level = below, level + 1
    children = np.zeros((len(tops), layout.WIDTH), np.int32)
    packs: list[tuple[int, int]] = []
    base = len(tops)
    for subtree in subtrees:
        subtree.node_base = base
        base += len(subtree.children)
    for node in tops:
        for lane, (child, (first, end)) in enumerate(zip(node.children, node.parts, strict=True)):
            if child is None:
                elements = -(-(end - first) // plan.pack_width)
                children[node.index, lane] = ~(len(packs) << 2 | (elements - 1))
                packs += [(k, min(k + plan.pack_width, end)) for k in range(first, end, plan.pack_width)]
            else:
                children[node.index, lane] = child.index if isinstance(child, TopNode) else child.node_base
    element_base = len(packs)
    for subtree in subtrees:
        subtree.pack_base = element_base
        element_base += len(subtree.packs)
    top = Subtree(children, np.array(packs, np.int32).reshape(-1, 2), depth)
    return Tree([top, *subtrees], depth)


# --- bytes --------------------------------------------------------------------------------------------------------

ELEMENTS: dict[SectionKind, int] = {
    SectionKind.TRIANGLE_PACKS: 0,
    SectionKind.INDEXED_PACKS: 1,
    SectionKind.BOX_PACKS: 2,
    SectionKind.INSTANCE_LEAVES: 3,
}
"""Kinds of leaf element by the numbers of ``kernels.leaves``."""


def fill_tree(
    tree: Tree, rows: ReferenceRows, structure: Structure, kind: SectionKind, workers: Workers
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Write nodes and leaf elements into their sections; returns root bounds (2, 3) float32 and, for instances, whose
    leaves are written by the caller, the instance of each leaf (elements,) int32.

    Boxes are exact float32 unions from the primitives upward.
    """
    boxes = np.empty((tree.node_count, 8), np.float32)
    order = np.empty(tree.element_count if kind is SectionKind.INSTANCE_LEAVES else 0, np.int32)
    if not tree.parts:
        return np.array([[np.inf] * 3, [-np.inf] * 3], np.float32), order
    elements, size = structure.section(kind).ctypes.data, layout.ELEMENT_DTYPES[kind].itemsize
    if kind is SectionKind.INSTANCE_LEAVES:
        elements, size = order.ctypes.data, order.itemsize
    nodes = structure.section(SectionKind.NODES).ctypes.data

    def fill(part: Subtree) -> None:
        from rtviewer.kernels.leaves import fill_elements, fill_nodes

        element_boxes = np.empty((len(part.packs), 8), np.float32)
        fill_elements(
            ELEMENTS[kind], rows.address, rows.keys_address, part.packs.ctypes.data, len(part.packs),
            rows.sources.ctypes.data, len(rows.sources), int(rows.in_order), elements + size * part.pack_base,
            element_boxes.ctypes.data,
        )  # fmt: skip
        fill_nodes(
            part.children.ctypes.data, len(part.children), boxes.ctypes.data + 32 * part.node_base,
            element_boxes.ctypes.data, nodes + layout.NODE.itemsize * part.node_base, part.node_base, part.pack_base,
        )  # fmt: skip

    def fill_all(batch: list[Subtree]) -> None:
        for part in batch:
            fill(part)

    pending = {workers.start(partial(fill_all, batch)): batch for batch in _batches(tree.parts[1:], 8 * workers.count)}
    done, total = 0, sum(len(part.packs) for part in tree.parts[1:])
    while pending:
        future = workers.next_done()
        done += sum(len(part.packs) for part in pending.pop(future))
        future.result()
        workers.report(TREE_SHARE + (1 - TREE_SHARE) * done / total)
    fill(tree.parts[0])
    if len(tree.parts) == 1:
        workers.report(1.0)
    root = boxes[0]
    return np.stack([-root[:3], root[4:7]]), order


def _batches(parts: list[Subtree], number: int) -> list[list[Subtree]]:
    """About ``number`` batches of similar work, the largest first."""
    least = sum(len(part.packs) for part in parts) / number
    batches: list[list[Subtree]] = []
    size = least
    for part in sorted(parts, key=lambda part: len(part.packs), reverse=True):
        if size >= least:
            batches.append([])
            size = 0
        batches[-1].append(part)
        size += len(part.packs)
    return batches
