"""Updates: new positions, boxes and instances in a structure of the same topology (section 3.8 of the rules)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.encode import seal, set_header
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure
from rtviewer.build.builder import instance_descs, write_instance_leaves
from rtviewer.build.input_arrays import check_geometry_arrays, check_instance_arrays
from rtviewer.build.kept_memory import KeptMemory
from rtviewer.build.leaves import index_scans, update_records
from rtviewer.build.moved_triangles import MovedTriangles, fill_triangles
from rtviewer.build.references import PrimitiveReferences, check_blas, instance_references, primitive_references
from rtviewer.dxr.descs import BlasInputs, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.rules import check_build_flags, require
from rtviewer.errors import Violation, violation

CALL = "BuildRaytracingAccelerationStructure (update)"
SECTION = "Acceleration structure update constraints"

_results = KeptMemory()


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
    scans = index_scans(inputs)
    require([*violations, *check_blas_update(source, inputs, scans)], CALL)
    target = _fresh(source, name, address)
    if source.is_procedural:
        _fill_boxes(source, target, inputs, profile)
    else:
        _require_indices(inputs, scans, profile)
        refitted = fill_triangles(source, target, MovedTriangles(inputs))
        if not refitted.sound:
            _explain(source, inputs, profile)
        _finish(target, refitted.reach, refitted.degenerate)
    set_header(target, build_flags=int(flags & ~BuildFlag.PERFORM_UPDATE))
    return seal(target)


def _require_indices(inputs: BlasInputs, scans: Sequence[tuple[int, int]], profile: Profile) -> None:
    """GEO-4, and the rules that counts and flags decide."""
    require(check_blas(inputs, profile), CALL)
    for geometry, (_, largest) in zip(inputs.geometries, scans, strict=True):
        if not isinstance(geometry, TrianglesGeometry) or geometry.indices is None:
            continue
        # Wider or signed indices were scanned modulo 2^32.
        if largest >= len(geometry.vertices) or geometry.indices.dtype != np.uint32:
            primitive_references(inputs, profile)
            return


def _explain(source: Structure, inputs: BlasInputs, profile: Profile) -> None:
    """What the fast pass found wrong, with every violation by name (INA-3, INA-7)."""
    references = primitive_references(inputs, profile, keep_degenerate=True)
    require(_check_activity(source, references), CALL)
    raise AssertionError("an update found something wrong that no rule explains")


def check_blas_update(
    source: Structure, inputs: BlasInputs, scans: Sequence[tuple[int, int]] | None = None
) -> list[Violation]:
    """UPD-7, UPD-8 and UPD-9: what may not change between a source and the inputs of its update.

    ``scans``: of the indices, as ``leaves.index_scans`` gives them, where the caller has them.
    """
    if source.is_top_level:
        text = "the source is a top-level structure and the inputs are geometries"
        return [violation("UPD-7", text, field="Inputs.Type", section=SECTION)]
    rows = source.geometries
    if len(rows) != len(inputs.geometries):
        text = f"the number of geometries must stay {len(rows)}"
        return [violation("UPD-8", text, field="Inputs.NumDescs", value=len(inputs.geometries), section=SECTION)]
    found: list[Violation] = []
    old, new = source.section(SectionKind.UPDATE), update_records(inputs, scans)
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


def _fill_boxes(source: Structure, target: Structure, inputs: BlasInputs, profile: Profile) -> None:
    """Write moved boxes, what encloses them, and counts (not sealed)."""
    from rtviewer.kernels.refit import element_bounds

    references = primitive_references(inputs, profile, keep_degenerate=True)
    require(_check_activity(source, references), CALL)
    target.section(SectionKind.NODES)[:] = source.nodes
    packs, ids = target.packs, source.packs["id"]
    used = ids != layout.UNUSED_LANE
    number = np.where(used, ids & layout.PRIMITIVE_BITS, 0)
    if len(packs):
        packs["id"] = np.where(used, number | references.flags[number], layout.UNUSED_LANE)
        boxes = np.where(used[:, None, :], references.primitives[number].transpose(0, 2, 1), np.float32(0))
        packs["low"], packs["high"] = boxes[:, :3], boxes[:, 3:]
    elements = np.zeros((len(packs), 8), np.float32)
    if len(packs):
        everything, identities = np.ascontiguousarray(references.primitives), packs["id"]
        element_bounds(
            identities.ctypes.data, identities.strides[0], len(packs), everything.ctypes.data, elements.ctypes.data
        )
    refit_boxes(target, elements)
    _finish(target, references.reach, references.degenerate)


def _finish(target: Structure, reach: float, degenerate: NDArray[np.int64]) -> None:
    """Header fields and degenerate counts, and the bounds of a structure whose nodes are written."""
    rows = target.section(SectionKind.GEOMETRIES)
    rows["degenerate_count"] = degenerate
    set_header(target, max_abs=reach, degenerate_count=int(degenerate.sum()))
    _set_bounds(target)


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
    target = _fresh(source, name, address)
    target.section(SectionKind.NODES)[:] = source.nodes
    target.section(SectionKind.INSTANCE_DESCS)[:] = instance_descs(instances)
    order = source.instance_leaves["instance"].astype(np.int32)
    write_instance_leaves(target, references, order)
    place = np.empty(len(instances), np.int64)
    place[references.ids] = np.arange(len(references.ids))
    elements = np.zeros((len(order), 8), np.float32)
    elements[:, [0, 1, 2, 4, 5, 6]] = references.bounds[place[order]]
    refit_boxes(target, elements)
    _set_bounds(target)
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


def _fresh(source: Structure, name: str, address: int) -> Structure:
    """A structure with the source's header and small sections; nodes and leaf elements may be anything.

    Between sections and behind them it is zero, since kept memory is reused for the same table only.
    """
    table = source.header["sections"].tobytes()
    target = Structure(_results.lend(source.size, table), name or source.name, address or source.address)
    header = source.data[: layout.HEADER.itemsize]
    target.data[: len(header)] = header
    written = (SectionKind.NODES, SectionKind.TRIANGLE_PACKS, SectionKind.BOX_PACKS, SectionKind.INDEXED_PACKS)
    for kind, size, count, first in source.section_table:
        if kind not in written:
            target.data[first : first + count * size] = source.data[first : first + count * size]
    return target


def refit_boxes(target: Structure, elements: NDArray[np.float32]) -> None:
    """Boxes of all nodes of a writable structure from those of its leaf elements, (m, 8) float32 as in
    ``kernels.refit_lanes``."""
    from rtviewer.kernels.refit import element_nodes

    nodes = target.section(SectionKind.NODES)
    boxes = np.empty((len(nodes), 8), np.float32)
    element_nodes(nodes.ctypes.data, len(nodes), elements.ctypes.data, boxes.ctypes.data)


def _set_bounds(target: Structure) -> None:
    """The header's bounds are those of all lanes of the root."""
    nodes = target.section(SectionKind.NODES)
    if len(nodes):
        lanes = nodes[:1].view(np.float32)[:48].reshape(3, 2, layout.WIDTH)
        set_header(target, bounds=np.array([lanes[:, 0].min(1), lanes[:, 1].max(1)], np.float32))
