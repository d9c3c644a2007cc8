"""What a bottom level holds beside its nodes: leaf elements, corners of indexed packs, tables, update data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure
from rtviewer.build.index_scan import scan_indices
from rtviewer.build.plan import BuildPlan
from rtviewer.build.references import PrimitiveReferences
from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.dxr.formats import IndexFormat


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


def index_scans(inputs: BlasInputs) -> list[tuple[int, int]]:
    """(hash, largest) of each geometry's indices, see ``index_scan``; (0, -1) where there are none."""
    indices = [getattr(geometry, "indices", None) for geometry in inputs.geometries]
    return [(0, -1) if rows is None else scan_indices(rows) for rows in indices]


def update_records(inputs: BlasInputs, scans: Sequence[tuple[int, int]] | None = None) -> NDArray[np.void]:
    """What an update must not change, per geometry (UPD-8); ``scans``: as :func:`index_scans` gives them."""
    records = np.zeros(len(inputs.geometries), layout.UPDATE_RECORD)
    scans = index_scans(inputs) if scans is None else scans
    for record, geometry, (digest, _) in zip(records, inputs.geometries, scans, strict=True):
        if not isinstance(geometry, TrianglesGeometry):
            continue
        record["vertex_count"] = len(geometry.vertices)
        record["vertex_format"] = int(geometry.vertex_format)
        if geometry.indices is not None:
            record["index_count"] = 3 * len(geometry.indices)
            record["index_format"] = int(geometry.index_format)
            record["index_hash"] = digest
        else:
            record["index_format"] = int(IndexFormat.UNKNOWN)
    return records


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
