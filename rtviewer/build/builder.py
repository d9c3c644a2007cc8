"""Builds bottom-level and top-level structures. The same input gives the same bytes, whatever threads do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.encode import allocate, seal, set_header
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.sizes import Counts, result_size, tree_budget
from rtviewer.accel.structure import Structure, aligned_bytes
from rtviewer.build.corners import CornerTables
from rtviewer.build.fast_trace import improved_tree
from rtviewer.build.leaves import leaf_kind, update_sections, write_geometries
from rtviewer.build.plan import BuildPlan, plan
from rtviewer.build.reference_rows import ROW_BYTES, ReferenceRows, instance_rows, rows_in
from rtviewer.build.references import InstanceReferences, instance_references, primitive_references
from rtviewer.build.tree import build_tree, fill_tree
from rtviewer.build.workers import Cancelled, Progress, Workers
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, InstanceInputs
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag
from rtviewer.dxr.layouts import INSTANCE_DESC, pack_24_8
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile


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
    with Workers(progress, cancelled) as workers:
        memory = ResultMemory(partial(counts_of, inputs), flags, build_plan)
        references = primitive_references(
            inputs, profile, keep_degenerate=build_plan.updatable, workers=workers, memory=memory.for_rows
        )
        memory.lend_to(references.rows)
        tree = build_tree(references.rows, build_plan, tree_budget(memory.counts, flags), workers)
        tree = improved_tree(tree, references.rows, build_plan, tree_budget(memory.counts, flags), workers)
        kind, content = leaf_kind(references, build_plan), update_sections(inputs, references, build_plan)
        corners = CornerTables(inputs, references.kept) if kind is SectionKind.INDEXED_PACKS else None
        structure = allocate(
            AccelerationStructureType.BOTTOM_LEVEL,
            flags,
            [
                (SectionKind.NODES, tree.node_count),
                (kind, tree.element_count),
                (SectionKind.GEOMETRIES, len(references.counts)),
                *(corners.sections if corners else ()),
                *[(section, len(rows)) for section, rows in content.items()],
            ],
            size=len(memory.data),
            name=name or inputs.name,
            address=address,
            memory=memory.data,
            used_before=memory.used,
        )
        bounds, _ = fill_tree(tree, references.rows, structure, kind, workers)
    if corners:
        corners.write(structure.section(SectionKind.INDICES), structure.section(SectionKind.VERTICES))
    for section, rows in content.items():
        structure.section(section)[:] = rows
    write_geometries(structure, inputs, references)
    set_header(
        structure,
        input_count=len(references.status),
        active_count=references.rows.count,
        degenerate_count=int(references.degenerate.sum()),
        depth=tree.depth,
        bounds=bounds,
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
    rows = instance_rows(references.bounds, references.ids, len(instances), references.reach)
    with Workers(progress, cancelled) as workers:
        memory = ResultMemory(partial(Counts, instances=len(instances)), flags, build_plan)
        memory.lend_to(rows)
        tree = build_tree(rows, build_plan, tree_budget(memory.counts, flags), workers)
        tree = improved_tree(tree, rows, build_plan, tree_budget(memory.counts, flags), workers)
        structure = allocate(
            AccelerationStructureType.TOP_LEVEL,
            flags,
            [
                (SectionKind.NODES, tree.node_count),
                (SectionKind.INSTANCE_LEAVES, tree.element_count),
                (SectionKind.INSTANCE_DESCS, len(instances)),
            ],
            size=len(memory.data),
            name=name,
            address=address,
            memory=memory.data,
            used_before=memory.used,
        )
        bounds, order = fill_tree(tree, rows, structure, SectionKind.INSTANCE_LEAVES, workers)
    structure.section(SectionKind.INSTANCE_DESCS)[:] = instance_descs(instances)
    write_instance_leaves(structure, references, order)
    set_header(
        structure,
        input_count=len(instances),
        active_count=rows.count,
        depth=tree.depth,
        bounds=bounds,
        max_abs=references.reach,
        condition=min(references.condition, float(np.finfo(np.float32).max)),
    )
    return seal(structure)


COMES_ZEROED = 32 << 20
"""Bytes from which memory is fresh from the system and zero at no cost; of less, only what is not filled is cleared."""


class ResultMemory:
    """``data``: the bytes of the result, lent to a build until its tree is there; nothing is written to them before,
    and every result is larger than the rows of its references.

    They take rows that are read for their keys alone, or are the spare side of rows that are moved. ``used``: how many
    of them may be other than zero.
    """

    def __init__(self, counts: Callable[[], Counts], flags: BuildFlag, build_plan: BuildPlan) -> None:
        self._count, self._flags, self._only_keys = counts, flags, build_plan.only_keys

    @cached_property
    def counts(self) -> Counts:
        """Asked for when inputs have been checked."""
        return self._count()

    @cached_property
    def data(self) -> NDArray[np.uint8]:
        size = result_size(self.counts, self._flags)
        return aligned_bytes(size, zeroed=size >= COMES_ZEROED)

    @property
    def used(self) -> int:
        if len(self.data) < COMES_ZEROED:
            return len(self.data)
        return ROW_BYTES * (self.counts.triangles + self.counts.boxes + self.counts.instances)

    def for_rows(self) -> NDArray[np.uint8] | None:
        return self.data if self._only_keys else None

    def lend_to(self, rows: ReferenceRows) -> None:
        if not self._only_keys:
            rows.spare = rows_in(self.data, rows.count)


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
