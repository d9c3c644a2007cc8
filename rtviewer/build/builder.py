"""Builds bottom-level and top-level structures. The same input gives the same bytes, whatever threads do."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.encode import allocate, seal, set_header
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.sizes import Counts, result_size, tree_budget
from rtviewer.accel.structure import Structure
from rtviewer.build.fast_trace import improved_tree
from rtviewer.build.leaves import leaf_sections, reference_bounds, write_geometries, write_packs
from rtviewer.build.plan import BuildPlan, Method, plan
from rtviewer.build.references import InstanceReferences, instance_references, primitive_references
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, InstanceInputs
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag
from rtviewer.dxr.layouts import INSTANCE_DESC, pack_24_8
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.errors import CancelledError

LARGEST_LEAF = layout.MAX_LEAF_ELEMENTS

Progress = Callable[[float], None]
Cancelled = Callable[[], bool]


def build_blas(
    inputs: BlasInputs,
    flags: BuildFlag = BuildFlag.NONE,
    *,
    name: str = "",
    address: int = 0,
    profile: Profile = DEFAULT_PROFILE,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> Structure:
    """Build a bottom-level structure; inputs may be freed or changed afterwards (BLD-3).

    Guarantees: bytes depend on ``inputs`` and ``flags`` only. ``progress`` gets fractions from 0 to 1; ``cancelled`` is
    asked often.

    Raises InvalidInputError for broken rules, StructureError for a flag not there yet, CancelledError.
    """
    procedural = any(isinstance(g, AabbsGeometry) for g in inputs.geometries)
    build_plan = plan(flags, AccelerationStructureType.BOTTOM_LEVEL, profile, procedural=procedural)
    references = primitive_references(inputs, profile, keep_degenerate=build_plan.updatable)
    counts = counts_of(inputs)
    tree = _build_tree(
        reference_bounds(references), references.ids.copy(), build_plan, tree_budget(counts, flags), progress, cancelled
    )
    leaf_kind, content = leaf_sections(inputs, references, build_plan)
    structure = allocate(
        AccelerationStructureType.BOTTOM_LEVEL,
        flags,
        [
            (SectionKind.NODES, tree.node_count),
            (leaf_kind, len(tree.packs)),
            (SectionKind.GEOMETRIES, len(references.counts)),
            *[(kind, len(rows)) for kind, rows in content.items()],
        ],
        size=result_size(counts, flags),
        name=name or inputs.name,
        address=address,
    )
    tree.write_nodes(structure)
    write_packs(structure, references, tree.packs, tree.ids)
    for kind, rows in content.items():
        structure.section(kind)[:] = rows
    write_geometries(structure, inputs, references)
    set_header(
        structure,
        input_count=len(references.primitives),
        active_count=len(references.ids),
        degenerate_count=int(references.degenerate.sum()),
        depth=tree.depth,
        bounds=tree.bounds,
        max_abs=references.reach,
    )
    return seal(structure)


def build_tlas(
    instances: InstanceInputs,
    flags: BuildFlag = BuildFlag.NONE,
    *,
    blases: Mapping[int, Structure],
    name: str = "",
    address: int = 0,
    profile: Profile = DEFAULT_PROFILE,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> Structure:
    """Build a top-level structure over ``instances``; ``blases`` says what lives at which address.

    Guarantees and errors as :func:`build_blas`.
    """
    build_plan = plan(flags, AccelerationStructureType.TOP_LEVEL, profile)
    references = instance_references(instances, blases, profile)
    counts = Counts(instances=len(instances))
    tree = _build_tree(
        references.bounds.copy(), references.ids.copy(), build_plan, tree_budget(counts, flags), progress, cancelled
    )
    structure = allocate(
        AccelerationStructureType.TOP_LEVEL,
        flags,
        [
            (SectionKind.NODES, tree.node_count),
            (SectionKind.INSTANCE_LEAVES, len(tree.packs)),
            (SectionKind.INSTANCE_DESCS, len(instances)),
        ],
        size=result_size(counts, flags),
        name=name,
        address=address,
    )
    tree.write_nodes(structure)
    _write_instances(structure, instances, references, tree)
    set_header(
        structure,
        input_count=len(instances),
        active_count=len(references.ids),
        depth=tree.depth,
        bounds=tree.bounds,
        max_abs=references.reach,
        condition=min(references.condition, float(np.finfo(np.float32).max)),
    )
    return seal(structure)


def counts_of(inputs: BlasInputs) -> Counts:
    """What the size of a bottom-level structure depends on."""
    triangles = boxes = vertices = 0
    for geometry in inputs.geometries:
        if isinstance(geometry, AabbsGeometry):
            boxes += geometry.primitive_count
        else:
            triangles += geometry.primitive_count
            vertices += min(len(geometry.vertices), 3 * geometry.primitive_count)
    return Counts(triangles, boxes, len(inputs.geometries), vertices)


# --- the tree -----------------------------------------------------------------------------------------------------


@dataclass
class _TopNode:
    """A node above the grain: its parts, and what became of each (a node, a leaf range or a subtree)."""

    parts: NDArray[np.int64]
    number: int
    slack: int
    """Bytes that its subtrees may take beyond their exact cost."""
    children: list[Any] = field(default_factory=list)
    index: int = 0


@dataclass
class _Subtree:
    nodes: NDArray[np.float32]
    packs: NDArray[np.int32]
    depth: int
    node_base: int = 0
    pack_base: int = 0


@dataclass
class _Leaf:
    first: int
    last: int
    pack_base: int = 0


@dataclass
class _Tree:
    """A finished tree, before it has bytes. ``ids``: primitives in leaf order; ``packs`` (n, 2): ranges of ``ids``."""

    bounds_of: NDArray[np.float32]
    ids: NDArray[np.int32]
    build_plan: BuildPlan
    root: _TopNode | _Subtree | None
    packs: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 2), np.int32))
    node_count: int = 0
    depth: int = 0
    tops: list[_TopNode] = field(default_factory=list)
    subtrees: list[_Subtree] = field(default_factory=list)

    @property
    def bounds(self) -> NDArray[np.float32]:
        if not len(self.ids):
            return np.array([[np.inf] * 3, [-np.inf] * 3], np.float32)
        return np.stack([self.bounds_of[:, :3].min(0), self.bounds_of[:, 3:].max(0)])

    def number(self) -> None:
        """Give every node and pack its place: top nodes breadth first, then subtrees in the same order."""
        ranges: list[NDArray[np.int32]] = []
        pack_count = 0
        level: list[_TopNode | _Subtree] = [self.root] if self.root is not None else []
        depth = 0
        while level:
            below: list[_TopNode | _Subtree] = []
            for item in level:
                if isinstance(item, _Subtree):
                    item.pack_base = pack_count
                    pack_count += len(item.packs)
                    ranges.append(item.packs)
                    self.subtrees.append(item)
                    self.depth = max(self.depth, depth + item.depth)
                    continue
                item.index = len(self.tops)
                self.tops.append(item)
                self.depth = max(self.depth, depth + 1)
                for child in item.children:
                    if isinstance(child, _Leaf):
                        child.pack_base = pack_count
                        edges = np.arange(child.first, child.last, self.build_plan.pack_width, dtype=np.int32)
                        ends = np.minimum(edges + self.build_plan.pack_width, child.last)
                        ranges.append(np.stack([edges, ends], 1).astype(np.int32))
                        pack_count += len(edges)
                    else:
                        below.append(child)
            level = below
            depth += 1
        base = len(self.tops)
        for subtree in self.subtrees:
            subtree.node_base = base
            base += len(subtree.nodes)
        self.node_count = base
        self.packs = np.concatenate(ranges) if ranges else self.packs

    def write_nodes(self, structure: Structure) -> None:
        """Write all nodes into the structure's section, references relocated."""
        self.write_rows(structure.section(SectionKind.NODES).view(np.float32).reshape(-1, 64))

    def write_rows(self, nodes: NDArray[np.float32]) -> None:
        """As above, into (node_count, 64) float32."""
        from rtviewer.kernels.wide_builder import leaf_reference, relocate, write_top_node

        children = nodes.view(np.int32)
        for top in self.tops:
            references = np.zeros(8, np.int32)
            for lane, child in enumerate(top.children):
                if isinstance(child, _Leaf):
                    elements = -(-(child.last - child.first) // self.build_plan.pack_width)
                    references[lane] = leaf_reference(child.pack_base, elements)
                else:
                    references[lane] = child.index if isinstance(child, _TopNode) else child.node_base
            write_top_node(self.bounds_of, top.parts, top.number, references, nodes, children, top.index)
        for subtree in self.subtrees:
            relocate(
                subtree.nodes.view(np.int32), len(subtree.nodes), subtree.node_base, subtree.pack_base,
                children[subtree.node_base :],
            )  # fmt: skip


def _build_tree(
    bounds: NDArray[np.float32],
    ids: NDArray[np.int32],
    build_plan: BuildPlan,
    budget: int,
    progress: Progress | None,
    cancelled: Cancelled | None,
) -> _Tree:
    """Build over all references. Ranges above the grain are cut node by node, the rest whole, on all cores."""
    keys = np.empty(0, np.uint64)
    if build_plan.method is Method.MORTON and len(ids):
        bounds, ids, keys = _in_morton_order(bounds, ids)
    tree = _Tree(bounds, ids, build_plan, None)
    if not len(ids):
        return tree
    work = _Work(bounds, ids, keys, build_plan, budget, progress, cancelled)
    tree.root = work.run()
    tree.number()
    if build_plan.improved_leaf:
        return _improved(tree, budget, progress, cancelled)
    return tree


def _improved(tree: _Tree, budget: int, progress: Progress | None, cancelled: Cancelled | None) -> _Tree:
    """A better tree over the same leaf elements, or the tree itself where there is none (PREFER_FAST_TRACE)."""
    plan, nodes = tree.build_plan, np.empty((tree.node_count, 64), np.float32)
    tree.write_rows(nodes)
    room = (budget - len(tree.packs) * plan.element_size) // nodes[0].nbytes
    better = improved_tree(tree.bounds_of, nodes, tree.packs, plan.improved_leaf, room, progress, cancelled)
    if better is None:
        return tree
    result = _Tree(tree.bounds_of, tree.ids, plan, _Subtree(better.nodes, better.packs, better.depth))
    result.number()
    return result


def _in_morton_order(
    bounds: NDArray[np.float32], ids: NDArray[np.int32]
) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.uint64]]:
    from rtviewer.kernels.cuts import morton_codes

    keys = np.empty(len(ids), np.uint64)
    morton_codes(bounds, keys)
    order = np.argsort(keys, kind="stable")
    return bounds[order], ids[order], keys[order]


class _Work:
    """The tasks of one build and the pool they run on."""

    def __init__(
        self,
        bounds: NDArray[np.float32],
        ids: NDArray[np.int32],
        keys: NDArray[np.uint64],
        build_plan: BuildPlan,
        budget: int,
        progress: Progress | None,
        cancelled: Cancelled | None,
    ) -> None:
        self.bounds, self.ids, self.keys, self.plan, self.budget = bounds, ids, keys, build_plan, budget
        self.progress, self.cancelled = progress, cancelled
        self.cancel = np.zeros(1, np.uint8)
        self.done = 0

    def run(self) -> _TopNode | _Subtree:
        from rtviewer.kernels.exact_cost import node_cost

        count = len(self.ids)
        slack = self.budget - node_cost(count, self.plan.pack_width, self.plan.element_size)
        if count <= self.plan.grain:
            return self._subtree(0, count, slack)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            tasks: dict[Future[Any], tuple[_TopNode | None, int, int, int]] = {}
            tasks[pool.submit(self._cut, 0, count, slack)] = (None, 0, 0, count)
            root: _TopNode | None = None
            try:
                while tasks:
                    finished, _ = wait(tasks, timeout=0.05, return_when=FIRST_COMPLETED)
                    self._stop_if_cancelled()
                    for future in finished:
                        parent, lane, first, last = tasks.pop(future)
                        result = future.result()
                        if parent is not None:
                            parent.children[lane] = result
                        if isinstance(result, _TopNode):
                            root = root or result
                            self._submit_children(pool, tasks, result)
                        else:
                            self.done += last - first
                    if self.progress:
                        self.progress(self.done / count)
            except BaseException:
                self.cancel[0] = 1
                raise
        assert root is not None
        return root

    def _submit_children(
        self, pool: ThreadPoolExecutor, tasks: dict[Future[Any], tuple[_TopNode | None, int, int, int]], node: _TopNode
    ) -> None:
        """Hand out the node's slack in proportion to what each part holds, and send the parts to the pool."""
        node.children = [None] * node.number
        inner: list[tuple[int, int, int]] = []
        for lane in range(node.number):
            first, last = int(node.parts[lane, 0]), int(node.parts[lane, 1])
            if last - first <= LARGEST_LEAF * self.plan.pack_width:
                node.children[lane] = _Leaf(first, last)
                self.done += last - first
            else:
                inner.append((lane, first, last))
        total = sum(last - first for _, first, last in inner)
        for lane, first, last in inner:
            slack = node.slack * (last - first) // total
            build = self._cut if last - first > self.plan.grain else self._subtree
            tasks[pool.submit(build, first, last, slack)] = (node, lane, first, last)

    def _stop_if_cancelled(self) -> None:
        if self.cancelled is not None and self.cancelled():
            self.cancel[0] = 1
            raise CancelledError("the build was cancelled")

    def _cut(self, first: int, last: int, slack: int) -> _TopNode:
        from rtviewer.kernels.wide_builder import build_top_node

        parts = np.zeros((8, 2), np.int64)
        number, left = build_top_node(
            self.bounds, self.ids, self.keys, int(self.plan.method), first, last,
            self.plan.leaf_size, self.plan.pack_width, self.plan.element_size, slack, parts,
        )  # fmt: skip
        return _TopNode(parts, number, left)

    def _subtree(self, first: int, last: int, slack: int) -> _Subtree:
        from rtviewer.kernels.exact_cost import node_cost
        from rtviewer.kernels.wide_builder import build_range

        count = last - first
        # A node that is not full has only leaves of one pack below it, a full one has eight children, so nodes stay
        # below a third of the references; with one reference a leaf, below all of them.
        capacity = (count // 3 if self.plan.leaf_size > 1 else count) + 2
        nodes = np.empty((capacity, 64), np.float32)
        packs = np.empty((count, 2), np.int32)
        node_count, pack_count, depth = build_range(
            self.bounds, self.ids, self.keys, int(self.plan.method), first, last,
            self.plan.leaf_size, self.plan.pack_width, self.plan.element_size,
            node_cost(count, self.plan.pack_width, self.plan.element_size) + slack,
            nodes, nodes.view(np.int32), packs, self.cancel,
        )  # fmt: skip
        if node_count == 0:
            raise CancelledError("the build was cancelled")
        return _Subtree(nodes[:node_count].copy(), packs[:pack_count].copy(), depth)


# --- the top level's tables ---------------------------------------------------------------------------------------


def instance_descs(instances: InstanceInputs) -> NDArray[np.void]:
    """INSTANCE_DESC rows of the inputs, as an application would write them (section 2 of the rules)."""
    rows = np.zeros(len(instances), INSTANCE_DESC)
    rows["Transform"] = instances.transform
    rows["InstanceIDAndMask"] = pack_24_8(instances.instance_id, instances.mask.astype(np.uint32))
    rows["InstanceContributionAndFlags"] = pack_24_8(instances.contribution, instances.flags.astype(np.uint32))
    rows["AccelerationStructure"] = instances.blas_address
    return rows


def write_instance_leaves(structure: Structure, references: InstanceReferences, order: NDArray[np.int32]) -> None:
    """Instance leaves of the instances ``order``, one after the other."""
    leaves = structure.section(SectionKind.INSTANCE_LEAVES)
    leaves["world_to_object"] = references.world_to_object[order]
    leaves["instance"] = order
    leaves["state"] = np.where(references.singular[order], layout.INSTANCE_SINGULAR, 0)


def _write_instances(
    structure: Structure, instances: InstanceInputs, references: InstanceReferences, tree: _Tree
) -> None:
    structure.section(SectionKind.INSTANCE_DESCS)[:] = instance_descs(instances)
    order = tree.ids[tree.packs[:, 0]] if len(tree.packs) else np.empty(0, np.int32)
    write_instance_leaves(structure, references, order)
