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
from rtviewer.scene.primitives import transformed_vertices


def reference_bounds(references: PrimitiveReferences) -> NDArray[np.float32]:
    """(k, 6) float32 boxes of the primitives that go into the tree."""
    return primitive_bounds(references, references.ids)


def primitive_bounds(references: PrimitiveReferences, ids: NDArray[np.int32]) -> NDArray[np.float32]:
    """(k, 6) float32 boxes of the primitives ``ids``."""
    if not references.is_triangles:
        return references.primitives[ids]
    from rtviewer.kernels.leaves import triangle_bounds

    bounds = np.empty((len(ids), 6), np.float32)
    triangle_bounds(references.primitives, ids, bounds)
    return bounds


def leaf_sections(
    inputs: BlasInputs, references: PrimitiveReferences, build_plan: BuildPlan
) -> tuple[SectionKind, dict[SectionKind, NDArray[np.generic]]]:
    """The kind of leaf element, and the finished rows of further sections that the plan asks for."""
    content: dict[SectionKind, NDArray[np.generic]] = {}
    kind = SectionKind.TRIANGLE_PACKS if references.is_triangles else SectionKind.BOX_PACKS
    if build_plan.indexed and references.is_triangles:
        kind = SectionKind.INDEXED_PACKS
        indices, vertices = corner_tables(inputs, references.ids)
        content[SectionKind.INDICES] = indices
        content[SectionKind.VERTICES] = vertices
    if build_plan.updatable:
        content[SectionKind.UPDATE] = update_records(inputs)
        content[SectionKind.INACTIVE] = np.packbits(references.inactive, bitorder="little")
    return kind, content


def corner_tables(inputs: BlasInputs, ids: NDArray[np.int32]) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """INDICES and VERTICES rows for the triangles ``ids``: every vertex that one of them uses, once, in input order.

    Depends on indices and ``ids`` only, so an update fills the same rows with moved vertices.
    """
    in_tree = np.zeros(inputs.primitive_count, np.bool_)
    in_tree[ids] = True
    indices = np.zeros(inputs.primitive_count, layout.TRIANGLE_INDICES)
    positions = []
    first_primitive = first_vertex = 0
    for geometry in inputs.geometries:
        if not isinstance(geometry, TrianglesGeometry):
            continue
        count = geometry.primitive_count
        corners = geometry.indices
        if corners is None:
            corners = np.arange(3 * count, dtype=np.uint32).reshape(-1, 3)
        rows = np.flatnonzero(in_tree[first_primitive : first_primitive + count])
        used, place = np.unique(corners[rows], return_inverse=True)
        indices["vertex"][first_primitive + rows] = (place.reshape(-1, 3) + first_vertex).astype(np.uint32)
        positions.append(transformed_vertices(geometry)[used])
        first_primitive += count
        first_vertex += len(used)
    table = np.zeros(first_vertex, layout.VERTEX)
    if first_vertex:
        table["position"] = np.concatenate(positions)
    return indices, table


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


def write_packs(
    structure: Structure, references: PrimitiveReferences, packs: NDArray[np.int32], ids: NDArray[np.int32]
) -> None:
    """Fill the leaf elements: element i holds the primitives ``ids[packs[i, 0]:packs[i, 1]]``."""
    from rtviewer.kernels.leaves import write_box_packs, write_pack_ids, write_triangle_packs

    rows = structure.packs
    primitives, flags = references.primitives, references.flags
    if structure.is_procedural:
        write_box_packs(packs, ids, primitives, flags, rows["low"], rows["high"], rows["id"])
    elif structure.is_indexed:
        write_pack_ids(packs, ids, flags, rows["id"])
    else:
        write_triangle_packs(packs, ids, primitives, flags, rows["vertices"], rows["id"])


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
