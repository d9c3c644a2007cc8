"""What a bottom level holds beside its nodes: leaf elements, corners of indexed packs, tables, update data."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure
from rtviewer.build.plan import BuildPlan
from rtviewer.build.references import PrimitiveReferences
from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.dxr.formats import IndexFormat


def primitive_bounds(references: PrimitiveReferences, ids: NDArray[np.int32]) -> NDArray[np.float32]:
    """(k, 6) float32 boxes of the primitives ``ids``."""
    if not references.is_triangles:
        return references.primitives[ids]
    from rtviewer.kernels.leaves import triangle_bounds

    bounds = np.empty((len(ids), 6), np.float32)
    triangle_bounds(references.primitives, ids, bounds)
    return bounds


def leaf_kind(references: PrimitiveReferences, build_plan: BuildPlan) -> SectionKind:
    """The kind of leaf element."""
    if not references.is_triangles:
        return SectionKind.BOX_PACKS
    return SectionKind.INDEXED_PACKS if build_plan.indexed else SectionKind.TRIANGLE_PACKS


def update_sections(
    inputs: BlasInputs, references: PrimitiveReferences, build_plan: BuildPlan
) -> dict[SectionKind, NDArray[np.generic]]:
    """The finished rows of the sections that updates need, where the plan asks for them."""
    if not build_plan.updatable:
        return {}
    return {
        SectionKind.UPDATE: update_records(inputs),
        SectionKind.INACTIVE: np.packbits(references.inactive, bitorder="little"),
    }


def update_records(inputs: BlasInputs) -> NDArray[np.void]:
    """What an update must not change, per geometry (UPD-8)."""
    records = np.zeros(len(inputs.geometries), layout.UPDATE_RECORD)
    for record, geometry in zip(records, inputs.geometries, strict=True):
        if not isinstance(geometry, TrianglesGeometry):
            continue
        record["vertex_count"] = len(geometry.vertices)
        record["vertex_format"] = int(geometry.vertex_format)
        if geometry.indices is not None:
            record["index_count"] = 3 * len(geometry.indices)
            record["index_format"] = int(geometry.index_format)
            record["index_hash"] = content_hash(geometry.indices)
        else:
            record["index_format"] = int(IndexFormat.UNKNOWN)
    return records


def content_hash(*arrays: NDArray[np.generic]) -> int:
    """64 bits of the contents of arrays."""
    digest = hashlib.blake2b(digest_size=8)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return int.from_bytes(digest.digest(), "little")


def write_geometries(structure: Structure, inputs: BlasInputs, references: PrimitiveReferences) -> None:
    """Fill the geometry table."""
    rows = structure.section(SectionKind.GEOMETRIES)
    if not len(rows):
        return
    rows["type"] = [int(g.type) for g in inputs.geometries]
    rows["flags"] = [int(g.flags) for g in inputs.geometries]
    rows["primitive_count"] = references.counts
    rows["first_primitive"] = np.cumsum(references.counts) - references.counts
    rows["active_count"] = references.active
    rows["degenerate_count"] = references.degenerate
    rows["has_transform"] = [getattr(g, "transform", None) is not None for g in inputs.geometries]
