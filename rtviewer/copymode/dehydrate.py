"""DEHYDRATE and rehydration (Xbox): a bottom level without its geometry, and the geometry brought back.

Dehydrated bytes keep the topology: nodes with their children and orders, packs with their ids, indices. Boxes, corners,
bounds and everything else that came from a vertex are zero, so they deflate well. A stored hash tells whether the
inputs of a rehydration are those of the build.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.encode import seal, set_header
from rtviewer.accel.invariants import check
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure, aligned_bytes
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag, format_flags
from rtviewer.dxr.rules import require
from rtviewer.errors import DamagedBytesError, Violation, violation
from rtviewer.scene.primitives import degenerate_triangles, inactive_triangles, triangle_corners

BUILD_CALL = "BuildRaytracingAccelerationStructure (DEHYDRATE)"
REHYDRATE_CALL = "RehydrateRaytracingAccelerationStructure"
SECTION = "Xbox: D3D12XBOX_RAYTRACING_ACCELERATION_STRUCTURE_BUILD_FLAG_DEHYDRATE"

_REFUSED_WITH = BuildFlag.ALLOW_UPDATE | BuildFlag.PERFORM_UPDATE | BuildFlag.ALLOW_COMPACTION


def is_dehydrated(structure: Structure) -> bool:
    return int(structure.header["state"]) == layout.STATE_DEHYDRATED


def check_live(structure: Structure, done: str) -> list[Violation]:
    """XB-5: a dehydrated structure may not be ``done`` (for instance ``"compacted"``)."""
    if not is_dehydrated(structure):
        return []
    text = f"a dehydrated structure cannot be {done}: rehydrate it first, or store its bytes as they are"
    return [violation("XB-5", text, field=structure.name or "source", value="dehydrated", section=SECTION)]


def check_dehydrate(
    flags: BuildFlag, kind: AccelerationStructureType, *, procedural: bool = False, field: str = "Inputs.Flags"
) -> list[Violation]:
    """XB-12: what DEHYDRATE is not legal with; empty when ``flags`` lack it. ``procedural``: a geometry is AABBs."""
    if not flags & BuildFlag.DEHYDRATE:
        return []
    found: list[Violation] = []
    if kind is not AccelerationStructureType.BOTTOM_LEVEL:
        text = "DEHYDRATE is for bottom-level structures"
        found.append(violation("XB-12", text, field="Inputs.Type", value=kind.name, section=SECTION))
    if procedural:
        text = "DEHYDRATE is for triangles"
        found.append(violation("XB-12", text, field="Inputs.pGeometryDescs", value="AABBs", section=SECTION))
    if flags & _REFUSED_WITH:
        text = f"DEHYDRATE cannot be combined with {format_flags(flags & _REFUSED_WITH)}"
        found.append(violation("XB-12", text, field=field, value=f"{int(flags):#x}", section=SECTION))
    return sorted(found)


def inputs_hash(inputs: BlasInputs) -> int:
    """64 bits of everything a rehydration must bring again: counts, formats, flags, indices, positions, transforms."""
    digest = hashlib.blake2b(digest_size=8)
    for geometry in inputs.geometries:
        words = [int(geometry.type), int(geometry.flags), geometry.primitive_count]
        arrays: list[NDArray[np.generic]] = []
        if isinstance(geometry, TrianglesGeometry):
            indexed, moved = geometry.indices is not None, geometry.transform is not None
            words += [len(geometry.vertices), int(geometry.vertex_format), int(indexed), int(moved)]
            words.append(int(geometry.index_format) if indexed else 0)
            arrays = [a for a in (geometry.vertices, geometry.indices, geometry.transform) if a is not None]
        else:
            arrays = [geometry.aabbs]
        digest.update(np.array(words, "<u8").tobytes())
        for array in arrays:
            digest.update(np.ascontiguousarray(array).data)
    return int.from_bytes(digest.digest(), "little")


def dehydrate(source: Structure, inputs: BlasInputs, *, name: str = "", address: int = 0) -> Structure:
    """The source without its geometry: same size and topology, all that came from vertices zero [XB-3, XB-4, XB-10].

    ``inputs``: what the source was built from; their hash is stored. The stored flags gain DEHYDRATE.

    Raises InvalidInputError for what cannot be dehydrated (XB-12) or already is (XB-5).
    """
    refusals = check_dehydrate(
        source.build_flags | BuildFlag.DEHYDRATE,
        source.type,
        procedural=not source.is_top_level and source.is_procedural,
    )
    require([*refusals, *check_live(source, "dehydrated again")], BUILD_CALL)
    target = _writable_copy(source, name, address)
    nodes = target.section(SectionKind.NODES)
    occupied = nodes["min_x"] <= nodes["max_x"]
    for field in ("min_x", "max_x", "min_y", "max_y", "min_z", "max_z"):
        nodes[field] = np.where(occupied, np.float32(0), nodes[field])  # an empty lane's infinities are no geometry
    _fill_corners(target, None)
    set_header(
        target,
        build_flags=int(source.build_flags | BuildFlag.DEHYDRATE),
        state=layout.STATE_DEHYDRATED,
        input_hash=inputs_hash(inputs),
        bounds=np.zeros((2, 3), np.float32),
        max_abs=0.0,
    )
    return seal(target)


def read_dehydrated(data: bytes | NDArray[np.uint8], *, name: str = "", address: int = 0) -> Structure:
    """A dehydrated structure from raw bytes, which may come from anywhere [XB-6].

    Raises DamagedBytesError for bytes that are no sound dehydrated structure; the rule is XB-6.
    """
    view = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else np.ascontiguousarray(data).view(np.uint8)
    copy = aligned_bytes(len(view))
    copy[:] = view
    structure = Structure(copy, name, address)
    problems = check(structure)
    if problems:
        raise DamagedBytesError(
            name, "XB-6", "these bytes are not a dehydrated structure", offset=0, field="structure",
            expected="a sound structure", found=problems[0], call=REHYDRATE_CALL,
        )  # fmt: skip
    require(check_rehydratable(structure), REHYDRATE_CALL)
    return seal(structure)


def check_rehydratable(source: Structure) -> list[Violation]:
    """XB-8: the source of a rehydration is a dehydrated bottom level of triangles."""
    if is_dehydrated(source) and not source.is_top_level and not source.is_procedural:
        return []
    text = "the source of a rehydration must be a dehydrated bottom level of triangles"
    value = "dehydrated, but not of triangles" if is_dehydrated(source) else "not dehydrated"
    return [violation("XB-8", text, field="SourceAccelerationStructureData", value=value, section=SECTION)]


def check_rehydrate_inputs(dehydrated: Structure, inputs: BlasInputs) -> list[Violation]:
    """XB-11: ``inputs`` are those of the build, by counts first and by the stored hash then."""
    rows, found = dehydrated.geometries, []
    if len(rows) != len(inputs.geometries):
        text = f"the structure has {len(rows)} geometries"
        found.append(_differs(text, "Inputs.NumDescs", len(inputs.geometries)))
    for index, (row, geometry) in enumerate(zip(rows, inputs.geometries, strict=False)):
        field = f"Inputs.pGeometryDescs[{index}]"
        if int(row["type"]) != int(geometry.type) or isinstance(geometry, AabbsGeometry):
            found.append(_differs("the geometry was triangles", f"{field}.Type", int(geometry.type)))
        if int(row["flags"]) != int(geometry.flags):
            found.append(
                _differs(f"the geometry's flags were {int(row['flags'])}", f"{field}.Flags", int(geometry.flags))
            )
        if int(row["primitive_count"]) != geometry.primitive_count:
            text = f"the geometry had {int(row['primitive_count'])} primitives"
            found.append(_differs(text, f"{field}.Triangles", geometry.primitive_count))
    if not found:
        stored, given = int(dehydrated.header["input_hash"]), inputs_hash(inputs)
        if stored != given:
            text = f"formats, indices or positions differ from those of the build (hash {stored:#x})"
            found.append(_differs(text, "Inputs.pGeometryDescs", hex(given)))
    return sorted(found)


def _differs(text: str, field: str, value: object) -> Violation:
    return violation("XB-11", text, field=field, value=value, section=SECTION)


def rehydrate(dehydrated: Structure, inputs: BlasInputs, *, name: str = "", address: int = 0) -> Structure:
    """The structure that the inputs built, from its dehydrated bytes: same bytes as without DEHYDRATE [XB-10].

    Raises InvalidInputError for a source that is not dehydrated (XB-8) or inputs of another build (XB-11).
    """
    require(check_rehydratable(dehydrated), REHYDRATE_CALL)
    require(check_rehydrate_inputs(dehydrated, inputs), REHYDRATE_CALL)
    corners = np.concatenate(
        [np.empty((0, 3, 3), np.float32)]
        + [triangle_corners(g) for g in inputs.geometries if isinstance(g, TrianglesGeometry)]
    )
    _require_fitting(dehydrated, corners)
    target = _writable_copy(dehydrated, name, address)
    _fill_corners(target, corners)
    boxes = _refit(target, corners)
    set_header(
        target,
        build_flags=int(dehydrated.build_flags & ~BuildFlag.DEHYDRATE),
        state=layout.STATE_LIVE,
        input_hash=0,
        bounds=_union(boxes),
        max_abs=_reach(corners),
    )
    return seal(target)


def _require_fitting(dehydrated: Structure, corners: NDArray[np.float32]) -> None:
    """The tree holds exactly what a build of the inputs puts in, and one position for each vertex.

    Stored bytes may be damaged and a hash forged; what comes out must be a structure all the same.
    """
    number = _numbers(dehydrated)
    in_tree = ~inactive_triangles(corners) & ~degenerate_triangles(corners)
    fits = np.array_equal(np.sort(number), np.flatnonzero(in_tree))
    if fits and dehydrated.is_indexed:
        rows = dehydrated.section(SectionKind.INDICES)["vertex"][number]
        positions = np.empty((len(dehydrated.section(SectionKind.VERTICES)), 3), np.float32)
        positions[rows] = corners[number]
        fits = np.array_equal(positions[rows], corners[number])
    if not fits:
        text = "the tree in the dehydrated bytes is not one of these inputs"
        require([_differs(text, "SourceAccelerationStructureData", "damaged")], REHYDRATE_CALL)


def _numbers(structure: Structure) -> NDArray[np.int32]:
    """Numbers of the triangles in the tree, in leaf order."""
    ids: NDArray[np.int32] = structure.packs["id"]
    numbers: NDArray[np.int32] = ids[ids != layout.UNUSED_LANE] & layout.PRIMITIVE_BITS
    return numbers


def _writable_copy(source: Structure, name: str, address: int) -> Structure:
    data = aligned_bytes(source.size)
    data[:] = source.data
    return Structure(data, name or source.name, address or source.address)


def _fill_corners(target: Structure, corners: NDArray[np.float32] | None) -> None:
    """Write ``corners`` (n, 3, 3) of all inputs into the packs or the vertex section; None writes zeros."""
    if target.is_indexed:
        vertices = target.section(SectionKind.VERTICES)["position"]
        if corners is None:
            vertices[:] = 0
        else:
            number = _numbers(target)
            vertices[target.section(SectionKind.INDICES)["vertex"][number]] = corners[number]
        return
    packs = target.section(SectionKind.TRIANGLE_PACKS)
    if corners is None:
        packs["vertices"] = 0
    elif len(packs):
        used = packs["id"] != layout.UNUSED_LANE
        number = np.where(used, packs["id"] & layout.PRIMITIVE_BITS, 0)
        lanes = corners[number].transpose(0, 2, 3, 1)  # pack, corner, axis, lane
        packs["vertices"] = np.where(used[:, None, None, :], lanes, np.float32(0))


def _refit(target: Structure, corners: NDArray[np.float32]) -> NDArray[np.float32]:
    """Boxes of all lanes from those of the triangles; returns the boxes (k, 6) of the triangles in the tree."""
    ids = target.packs["id"]
    if not len(ids):
        return np.empty((0, 6), np.float32)
    from rtviewer.kernels.refit import element_bounds, element_nodes

    boxes = np.ascontiguousarray(np.concatenate([corners.min(1), corners.max(1)], 1))
    elements = np.zeros((len(ids), 8), np.float32)
    element_bounds(ids.ctypes.data, ids.strides[0], len(ids), boxes.ctypes.data, elements.ctypes.data)
    nodes = target.section(SectionKind.NODES)
    of_nodes = np.empty((len(nodes), 8), np.float32)
    element_nodes(nodes.ctypes.data, len(nodes), elements.ctypes.data, of_nodes.ctypes.data)
    in_tree: NDArray[np.float32] = boxes[_numbers(target)]
    return in_tree


def _union(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    if not len(boxes):
        return np.array([[np.inf] * 3, [-np.inf] * 3], np.float32)
    return np.stack([boxes[:, :3].min(0), boxes[:, 3:].max(0)])


def _reach(corners: NDArray[np.float32]) -> float:
    """The largest finite coordinate of an active triangle, degenerate ones included, as a build finds it."""
    values = np.abs(corners[~inactive_triangles(corners)])
    return float(np.max(values, initial=0.0, where=np.isfinite(values)))
