"""Updates: new positions, boxes and instances in a structure of the same topology (section 3.8 of the rules)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.encode import seal, set_header
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure, aligned_bytes
from rtviewer.build.builder import instance_descs, write_instance_leaves
from rtviewer.build.corners import CornerTables
from rtviewer.build.input_arrays import check_geometry_arrays, check_instance_arrays
from rtviewer.build.leaves import primitive_bounds, update_records, write_geometries
from rtviewer.build.references import PrimitiveReferences, instance_references, primitive_references
from rtviewer.dxr.descs import BlasInputs, InstanceInputs
from rtviewer.dxr.flags import BuildFlag
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.rules import check_build_flags, require
from rtviewer.errors import Violation, violation

CALL = "BuildRaytracingAccelerationStructure (update)"
SECTION = "Acceleration structure update constraints"


def update_blas(
    source: Structure,
    inputs: BlasInputs,
    flags: BuildFlag,
    *,
    name: str = "",
    address: int = 0,
    profile: Profile = DEFAULT_PROFILE,
) -> Structure:
    """A bottom level with the source's topology and new positions; the source is left as it is (UPD-5).

    ``flags``: the update's word; PERFORM_UPDATE is understood. Guarantees: size as the source's (UPD-6), hits as of a
    fresh build (UPD-13), and a compacting copy may drop the update data once ALLOW_UPDATE is dropped (CP-15).

    Raises InvalidInputError with every violation (UPD-*, INA-3, INA-7, GEO-4).
    """
    violations = check_build_flags(
        flags | BuildFlag.PERFORM_UPDATE, source.type, profile, source_flags=source.build_flags
    )
    require(check_geometry_arrays(inputs), CALL)
    require([*violations, *check_blas_update(source, inputs)], CALL)
    references = primitive_references(inputs, profile, keep_degenerate=True)
    require(_check_activity(source, references), CALL)
    target = _copy(source, name, address)
    fill_blas(target, inputs, references)
    set_header(target, build_flags=int(flags & ~BuildFlag.PERFORM_UPDATE))
    return seal(target)


def check_blas_update(source: Structure, inputs: BlasInputs) -> list[Violation]:
    """UPD-7, UPD-8 and UPD-9: what may not change between a source and the inputs of its update."""
    if source.is_top_level:
        text = "the source is a top-level structure and the inputs are geometries"
        return [violation("UPD-7", text, field="Inputs.Type", section=SECTION)]
    rows = source.geometries
    if len(rows) != len(inputs.geometries):
        text = f"the number of geometries must stay {len(rows)}"
        return [violation("UPD-8", text, field="Inputs.NumDescs", value=len(inputs.geometries), section=SECTION)]
    found: list[Violation] = []
    old, new = source.section(SectionKind.UPDATE), update_records(inputs)
    for index, geometry in enumerate(inputs.geometries):
        field = f"Inputs.pGeometryDescs[{index}]"
        same = {
            "Type": (int(rows["type"][index]), int(geometry.type)),
            "Flags": (int(rows["flags"][index]), int(geometry.flags)),
            "primitive count": (int(rows["primitive_count"][index]), geometry.primitive_count),
        }
        if index < len(old):
            for key in ("vertex_count", "index_count", "vertex_format", "index_format"):
                same[key] = (int(old[key][index]), int(new[key][index]))
        for key, (before, after) in same.items():
            if before != after:
                text = f"{key} must stay {before}"
                found.append(violation("UPD-8", text, field=f"{field}.{key}", value=after, section=SECTION))
        if index < len(old) and old["index_hash"][index] != new["index_hash"][index]:
            text = "index contents must not change"
            found.append(violation("UPD-8", text, field=f"{field}.Triangles.IndexBuffer", section=SECTION))
        if bool(rows["has_transform"][index]) != (getattr(geometry, "transform", None) is not None):
            text = "Transform3x4 must not change between NULL and non-NULL"
            found.append(violation("UPD-9", text, field=f"{field}.Triangles.Transform3x4", section=SECTION))
    return sorted(found)


def _check_activity(source: Structure, references: PrimitiveReferences) -> list[Violation]:
    """INA-7: primitives stay active or inactive."""
    count = int(source.header["input_count"])
    before = np.unpackbits(source.section(SectionKind.INACTIVE), count=count, bitorder="little").astype(np.bool_)
    found = []
    for number in np.flatnonzero(before != references.inactive)[:8]:
        geometry, primitive = source.geometry_and_primitive(np.array([number], np.int32))
        change = "inactive to active" if before[number] else "active to inactive"
        text = f"primitive {int(primitive[0])} changes from {change}"
        field = f"Inputs.pGeometryDescs[{int(geometry[0])}]"
        found.append(violation("INA-7", text, field=field, value=change, section="Inactive primitives and instances"))
    return found


def fill_blas(target: Structure, inputs: BlasInputs, references: PrimitiveReferences) -> None:
    """Write positions, boxes and counts of ``inputs`` into a structure whose topology fits them (not sealed)."""
    from rtviewer.kernels.refit import element_bounds

    packs = target.packs
    ids = packs["id"]
    number = np.where(ids == layout.UNUSED_LANE, 0, ids & layout.PRIMITIVE_BITS)
    used = ids != layout.UNUSED_LANE
    if len(ids):
        packs["id"] = np.where(used, number | references.flags[number], layout.UNUSED_LANE)
    if target.is_procedural:
        boxes = np.where(used[:, None, :], references.primitives[number].transpose(0, 2, 1), np.float32(0))
        packs["low"], packs["high"] = boxes[:, :3], boxes[:, 3:]
    elif target.is_indexed:
        in_tree = np.zeros(inputs.primitive_count, np.bool_)
        in_tree[number[used]] = True
        CornerTables(inputs, in_tree).write(target.section(SectionKind.INDICES), target.section(SectionKind.VERTICES))
    elif len(ids):
        corners = references.primitives[number].transpose(0, 2, 3, 1)  # pack, corner, axis, lane
        packs["vertices"] = np.where(used[:, None, None, :], corners, np.float32(0))
    everything = primitive_bounds(references, np.arange(len(references.primitives), dtype=np.int32))
    elements = np.empty((len(ids), 6), np.float32)
    element_bounds(packs["id"], everything, elements)
    active = np.zeros(len(everything), np.bool_)
    active[number[used]] = True
    _refit(target, elements, everything[active])
    write_geometries(target, inputs, references)
    set_header(target, max_abs=references.reach, degenerate_count=int(references.degenerate.sum()))


def update_tlas(
    source: Structure,
    instances: InstanceInputs,
    flags: BuildFlag,
    *,
    blases: Mapping[int, Structure],
    name: str = "",
    address: int = 0,
    profile: Profile = DEFAULT_PROFILE,
) -> Structure:
    """A top level with the source's topology over changed instances (UPD-11); guarantees as :func:`update_blas`.

    Raises InvalidInputError with every violation (UPD-1, UPD-2, UPD-7, UPD-11, UPD-12 and those of a build).
    """
    violations = check_build_flags(
        flags | BuildFlag.PERFORM_UPDATE, source.type, profile, source_flags=source.build_flags
    )
    require(check_instance_arrays(instances), CALL)
    require([*violations, *check_tlas_update(source, instances)], CALL)
    references = instance_references(instances, blases, profile)
    target = _copy(source, name, address)
    target.section(SectionKind.INSTANCE_DESCS)[:] = instance_descs(instances)
    order = target.section(SectionKind.INSTANCE_LEAVES)["instance"].astype(np.int32)
    write_instance_leaves(target, references, order)
    place = np.empty(len(instances), np.int64)
    place[references.ids] = np.arange(len(references.ids))
    elements = references.bounds[place[order]] if len(order) else np.empty((0, 6), np.float32)
    _refit(target, np.ascontiguousarray(elements), references.bounds)
    set_header(
        target,
        max_abs=references.reach,
        condition=min(references.condition, float(np.finfo(np.float32).max)),
        build_flags=int(flags & ~BuildFlag.PERFORM_UPDATE),
    )
    return seal(target)


def check_tlas_update(source: Structure, instances: InstanceInputs) -> list[Violation]:
    """UPD-7, UPD-11 and UPD-12."""
    if not source.is_top_level:
        text = "the source is a bottom-level structure and the inputs are instances"
        return [violation("UPD-7", text, field="Inputs.Type", section=SECTION)]
    before = source.instance_descs["AccelerationStructure"]
    if len(before) != len(instances):
        text = f"the number of instances must stay {len(before)}"
        return [violation("UPD-11", text, field="Inputs.NumDescs", value=len(instances), section=SECTION)]
    text = "an instance must not change between a NULL and a non-NULL bottom level"
    return [
        violation("UPD-12", text, field=f"InstanceDescs[{i}].AccelerationStructure", section=SECTION)
        for i in np.flatnonzero((before == 0) != (instances.blas_address == 0))[:8]
    ]


def _copy(source: Structure, name: str, address: int) -> Structure:
    data = aligned_bytes(source.size)
    data[:] = source.data
    return Structure(data, name or source.name, address or source.address)


def _refit(target: Structure, elements: NDArray[np.float32], contents: NDArray[np.float32]) -> None:
    """Boxes of all nodes from those of the leaf elements; ``contents`` (k, 6): boxes of all that is in the tree."""
    from rtviewer.kernels.refit import refit_nodes

    nodes = target.section(SectionKind.NODES).view(np.float32).reshape(-1, 64)
    refit_nodes(nodes, nodes.view(np.int32), elements)
    if len(contents):
        set_header(target, bounds=np.stack([contents[:, :3].min(0), contents[:, 3:].max(0)]))
