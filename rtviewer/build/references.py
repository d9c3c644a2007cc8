"""What of the inputs goes into a tree: active, non-degenerate primitives and active instances, with their boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.layout import ID_DEGENERATE, ID_NO_DUPLICATE, ID_OPAQUE
from rtviewer.accel.structure import Structure
from rtviewer.build.input_arrays import check_geometry_arrays, check_instance_arrays
from rtviewer.build.reference_rows import COORDINATES, SOURCE, ReferenceRows, empty_rows, rows_in, write_boxes
from rtviewer.build.workers import Workers
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, Geometry, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag, InstanceFlag
from rtviewer.dxr.limits import (
    ACCELERATION_STRUCTURE_BYTE_ALIGNMENT,
    MAX_GEOMETRIES_PER_BOTTOM_LEVEL_ACCELERATION_STRUCTURE,
    MAX_INSTANCE_CONTRIBUTION_TO_HIT_GROUP_INDEX,
    MAX_INSTANCE_ID,
    MAX_INSTANCE_MASK,
    MAX_INSTANCES_PER_TOP_LEVEL_ACCELERATION_STRUCTURE,
    MAX_PRIMITIVES_PER_BOTTOM_LEVEL_ACCELERATION_STRUCTURE,
)
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.rules import check_geometry_flags, check_instance_flags, require
from rtviewer.errors import Violation, violation
from rtviewer.scene.primitives import (
    degenerate_triangles,
    inactive_boxes,
    invert_transforms,
    normalised_boxes,
    transformed_vertices,
    triangle_corners,
)

SURE, INACTIVE, BROKEN, DOUBTFUL, FLAT = range(5)
"""What is said of a primitive; the first four are numbers of ``kernels.references``."""

CALL = "BuildRaytracingAccelerationStructure"


def check_blas(inputs: BlasInputs, profile: Profile = DEFAULT_PROFILE) -> list[Violation]:
    """Rules that counts and flags alone decide: BLD-2, GF-1, LIM-1, LIM-2. Touches no array's content (LIM-8)."""
    found: list[Violation] = []
    kinds = {type(g) for g in inputs.geometries}
    if len(kinds) > 1:
        text = "a bottom-level structure holds triangles or AABBs, not both"
        found.append(
            violation("BLD-2", text, field="Inputs.pGeometryDescs", section="Geometry and acceleration structures")
        )
    if len(inputs.geometries) > MAX_GEOMETRIES_PER_BOTTOM_LEVEL_ACCELERATION_STRUCTURE:
        text = "at most 2^24 geometries"
        found.append(
            violation("LIM-1", text, field="Inputs.NumDescs", value=len(inputs.geometries), section="Geometry limits")
        )
    if inputs.primitive_count > MAX_PRIMITIVES_PER_BOTTOM_LEVEL_ACCELERATION_STRUCTURE:
        text = "at most 2^29 primitives, all geometries together"
        found.append(
            violation(
                "LIM-2", text, field="Inputs.pGeometryDescs", value=inputs.primitive_count, section="Geometry limits"
            )
        )
    for index, geometry in enumerate(inputs.geometries):
        found += check_geometry_flags(geometry.flags, profile, field=f"Inputs.pGeometryDescs[{index}].Flags")
    return sorted(found)


def _indices_in_range(geometry: TrianglesGeometry, index: int) -> list[Violation]:
    """GEO-4."""
    if geometry.indices is None or not len(geometry.indices):
        return []
    field = f"Inputs.pGeometryDescs[{index}].Triangles.IndexBuffer"
    section = "D3D12_RAYTRACING_GEOMETRY_TRIANGLES_DESC"
    largest = int(geometry.indices.max())
    smallest = 0 if geometry.indices.dtype.kind == "u" else int(geometry.indices.min())
    if smallest < 0:
        triangle = int(np.flatnonzero((geometry.indices < 0).any(1))[0])
        text = f"triangle {triangle} uses a negative index; indices count from 0"
        return [violation("GEO-4", text, field=field, value=smallest, section=section)]
    if largest < len(geometry.vertices):
        return []
    triangle = int(np.flatnonzero((geometry.indices >= len(geometry.vertices)).any(1))[0])
    text = f"triangle {triangle} uses index {largest} or another beyond the last vertex ({len(geometry.vertices) - 1})"
    return [violation("GEO-4", text, field=field, value=largest, section=section)]


def _nan_violation(geometry: int, primitive: int) -> Violation:
    text = (
        f"primitive {primitive} is active but has a NaN coordinate; legal is NaN in the x of a vertex (or MinX), "
        "which makes it inactive"
    )
    field = f"Inputs.pGeometryDescs[{geometry}]"
    return violation("INA-3", text, field=field, value="NaN", section="Inactive primitives and instances")


@dataclass(frozen=True)
class PrimitiveReferences:
    """Primitives of a bottom level, geometries one after the other.

    ``status`` (n,) uint8: SURE, INACTIVE (INA-1, INA-2) or FLAT (DEG-1) for every input; ``kept`` (n,) bool: those that
    go into the tree, None when all do. Per geometry (m,) int64: ``counts``, ``active``, ``degenerate``. ``reach``:
    largest finite coordinate of an active primitive, degenerate ones included. ``rows``: those kept, as a build needs
    them.
    """

    inputs: BlasInputs
    status: NDArray[np.uint8]
    kept: NDArray[np.bool_] | None
    counts: NDArray[np.int64]
    active: NDArray[np.int64]
    degenerate: NDArray[np.int64]
    reach: float
    rows: ReferenceRows

    @property
    def is_triangles(self) -> bool:
        return not any(isinstance(g, AabbsGeometry) for g in self.inputs.geometries)

    @cached_property
    def primitives(self) -> NDArray[np.float32]:
        """(n, 3, 3) float32 corners or (n, 6) float32 boxes of every input."""
        empty = np.empty((0, 3, 3) if self.is_triangles else (0, 6), np.float32)
        parts = [
            normalised_boxes(g.aabbs) if isinstance(g, AabbsGeometry) else triangle_corners(g)
            for g in self.inputs.geometries
        ]
        return np.ascontiguousarray(np.concatenate([empty, *parts]), np.float32)

    @cached_property
    def ids(self) -> NDArray[np.int32]:
        """(k,) int32: those that go into the tree."""
        return _numbers(self.kept, len(self.status))

    @cached_property
    def flags(self) -> NDArray[np.int32]:
        """(n,) int32: flag bits of a pack lane."""
        words = np.repeat(np.array([_id_bits(g) for g in self.inputs.geometries], np.int32), self.counts)
        if self.is_triangles:
            words[self.status == FLAT] |= np.int32(ID_DEGENERATE)
        return words

    @cached_property
    def inactive(self) -> NDArray[np.bool_]:
        """(n,) bool: INA-1, INA-2."""
        inactive: NDArray[np.bool_] = self.status == INACTIVE
        return inactive


def _numbers(kept: NDArray[np.bool_] | None, count: int) -> NDArray[np.int32]:
    return np.arange(count, dtype=np.int32) if kept is None else np.flatnonzero(kept).astype(np.int32)


def _id_bits(geometry: Geometry) -> int:
    opaque = ID_OPAQUE if geometry.flags & GeometryFlag.OPAQUE else 0
    return opaque | (ID_NO_DUPLICATE if geometry.flags & GeometryFlag.NO_DUPLICATE_ANYHIT_INVOCATION else 0)


def primitive_references(
    inputs: BlasInputs,
    profile: Profile = DEFAULT_PROFILE,
    *,
    keep_degenerate: bool = False,
    workers: Workers | None = None,
    memory: Callable[[], NDArray[np.uint8] | None] | None = None,
) -> PrimitiveReferences:
    """Decode geometries and leave out what can never be hit: inactive (INA-*) and degenerate triangles (DEG-7).

    ``keep_degenerate``: degenerate triangles stay, marked, unless they repeat an index and so are degenerate for ever
    (DEG-5). ``memory``: asked, when inputs have been checked, where rows may be put that are of one geometry and in its
    order; None for nowhere. The caller may overwrite it as soon as keys are made.

    Raises InvalidInputError with every violation found.
    """
    require(check_geometry_arrays(inputs), CALL)
    require(check_blas(inputs, profile), CALL)
    geometries = list(enumerate(inputs.geometries))
    require([v for i, g in geometries if isinstance(g, TrianglesGeometry) for v in _indices_in_range(g, i)], CALL)
    if workers is not None:
        return _Reader(inputs, keep_degenerate, workers).read(memory() if memory else None)
    with Workers() as own:
        return _Reader(inputs, keep_degenerate, own).read(memory() if memory else None)


class _Reader:
    """Reads all geometries into rows; most inputs need no more than that."""

    def __init__(self, inputs: BlasInputs, keep_degenerate: bool, workers: Workers) -> None:
        self.inputs, self.keep_degenerate, self.workers = inputs, keep_degenerate, workers
        self.counts = np.array([g.primitive_count for g in inputs.geometries], np.int64)
        self.first = np.cumsum(self.counts) - self.counts
        total = int(self.counts.sum())
        self.status = np.zeros(total, np.uint8)
        self.sources = np.zeros(len(inputs.geometries), SOURCE)
        self.sources["first"], self.sources["owner"] = self.first, np.arange(len(self.first))
        self.sources["id"] = [_id_bits(geometry) for geometry in inputs.geometries]
        self.rows = ReferenceRows(empty_rows(0), total, np.full(16, -np.inf, np.float32), self.sources)
        self.kept: NDArray[np.bool_] | None = None
        self.degenerate = np.zeros(len(inputs.geometries), np.int64)

    def read(self, memory: NDArray[np.uint8] | None) -> PrimitiveReferences:
        total = len(self.status)
        lent = memory is not None and [type(g) for g in self.inputs.geometries] == [TrianglesGeometry]
        self.rows.data = rows_in(memory, total) if lent and memory is not None else empty_rows(total)
        kinds = 0
        for index, geometry in enumerate(self.inputs.geometries):
            if isinstance(geometry, AabbsGeometry):
                kinds |= self._read_boxes(index, geometry)
            else:
                kinds |= self._read_triangles(index, geometry)
        if kinds:
            self._judge()
        self.rows.in_order = self.kept is None and len(self.counts) == 1
        reach = self._reach()
        active = self.counts.copy()
        if self.kept is not None:
            self._drop()
            active = np.array([self.kept[self._slice(i)].sum() for i in range(len(active))], np.int64)
        if lent and not self.rows.in_order:
            self.rows.data = self.rows.data[: self.rows.count].copy()
        self.rows.fit(reach)
        return PrimitiveReferences(
            self.inputs, self.status, self.kept, self.counts, active, self.degenerate, reach, self.rows
        )

    def _slice(self, index: int) -> slice:
        return slice(int(self.first[index]), int(self.first[index] + self.counts[index]))

    def _read_triangles(self, index: int, geometry: TrianglesGeometry) -> int:
        from rtviewer.kernels.chunks import reference_triangles

        vertices = np.ascontiguousarray(transformed_vertices(geometry), np.float32)
        self.sources[index]["vertices"] = vertices.ctypes.data
        self.rows.held.append(vertices)
        if geometry.indices is not None:
            indices = np.ascontiguousarray(geometry.indices, np.uint32)
            self.sources[index]["indices"] = indices.ctypes.data
            self.rows.held.append(indices)
        source = self.sources.ctypes.data + SOURCE.itemsize * index
        first = int(self.first[index])
        out, status = self.rows.address_of(first), self.status.ctypes.data + first
        pieces = self.workers.pieces(geometry.primitive_count)
        frames = np.empty((len(pieces), 16), np.float32)
        kinds = self.workers.all(
            [
                partial(reference_triangles, source, a, b, out, status, frames[k].ctypes.data)
                for k, (a, b) in enumerate(pieces)
            ]
        )
        self.rows.frame = np.maximum(self.rows.frame, frames.max(0))
        return int(np.bitwise_or.reduce(kinds))

    def _read_boxes(self, index: int, geometry: AabbsGeometry) -> int:
        boxes = np.ascontiguousarray(normalised_boxes(geometry.aabbs), np.float32)
        self.sources[index]["vertices"] = boxes.ctypes.data
        self.rows.held.append(boxes)
        part = self._slice(index)
        words = np.arange(part.start, part.stop, dtype=np.int32) | np.int32(_id_bits(geometry))
        write_boxes(self.rows.data[part], boxes, words, index)
        inactive = inactive_boxes(geometry.aabbs)
        flat = (boxes[:, :3] == boxes[:, 3:]).all(1)
        broken = np.isnan(boxes).any(1)
        self.status[part] = np.where(inactive, INACTIVE, np.where(broken, BROKEN, np.where(flat, FLAT, SURE)))
        return 1  # boxes are few: judge them always

    def _judge(self) -> None:
        """Refuse what is broken, settle what is doubtful, decide what the tree keeps."""
        found: list[Violation] = []
        kept = np.ones(len(self.status), np.bool_)
        for index, geometry in enumerate(self.inputs.geometries):
            part = self._slice(index)
            status = self.status[part]
            broken = np.flatnonzero(status == BROKEN)
            if len(broken):
                found.append(_nan_violation(index, int(broken[0])))
            if isinstance(geometry, TrianglesGeometry):
                self._settle(part.start, status, geometry)
                flat = status == FLAT
                kept[part] = (status != INACTIVE) & (~flat | (self.keep_degenerate & ~_repeats_an_index(geometry)))
            else:
                kept[part] = status != INACTIVE
            self.degenerate[index] = np.count_nonzero(status == FLAT)
        require(found, CALL)
        self.kept = kept

    def _settle(self, first: int, status: NDArray[np.uint8], geometry: TrianglesGeometry) -> None:
        """Exact arithmetic says which doubtful triangles are degenerate; those are marked in their rows."""
        doubtful = np.flatnonzero(status == DOUBTFUL)
        flat = degenerate_triangles(_corners_of(geometry, doubtful))
        status[doubtful] = np.where(flat, FLAT, SURE)
        self.rows.data.view(np.int32)[first + doubtful[flat], 3] |= np.int32(ID_DEGENERATE)

    def _reach(self) -> float:
        """The largest finite coordinate of what is not inactive."""
        box, active = self.rows.frame[:8], len(self.status)
        if self.kept is not None:
            rows = self.rows.data[self.status != INACTIVE]
            box, active = rows.max(0, initial=-np.inf), len(rows)
        if not active:
            return 0.0
        if np.isfinite(box[COORDINATES]).all():
            return float(np.abs(box[COORDINATES]).max())
        reach = 0.0
        for index, geometry in enumerate(self.inputs.geometries):
            primitives = (
                normalised_boxes(geometry.aabbs) if isinstance(geometry, AabbsGeometry) else triangle_corners(geometry)
            )
            values = np.abs(primitives[self.status[self._slice(index)] != INACTIVE])
            reach = max(reach, float(np.max(values, initial=0.0, where=np.isfinite(values))))
        return reach

    def _drop(self) -> None:
        """Close the gaps that primitives outside the tree leave, and measure what stays."""
        rows, kept = self.rows, self.kept
        assert kept is not None
        if not kept.all():
            some = rows.data[: len(kept)][kept]
            rows.count = len(some)
            rows.data[: rows.count] = some
        rows.measure()


def _corners_of(geometry: TrianglesGeometry, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    vertices = transformed_vertices(geometry)
    corners = 3 * rows[:, None] + np.arange(3) if geometry.indices is None else geometry.indices[rows]
    return vertices[corners]


def _repeats_an_index(geometry: TrianglesGeometry) -> NDArray[np.bool_]:
    """DEG-5 and DEG-6: equal indices, not equal positions."""
    if geometry.indices is None:
        return np.zeros(geometry.primitive_count, np.bool_)
    a, b, c = geometry.indices[:, 0], geometry.indices[:, 1], geometry.indices[:, 2]
    repeats: NDArray[np.bool_] = (a == b) | (b == c) | (c == a)
    return repeats


@dataclass(frozen=True)
class InstanceReferences:
    """Active instances. ``ids`` (k,) int32 instance indices; ``bounds`` (k, 6) float32 world boxes, outward rounded;
    ``world_to_object`` (n, 3, 4) float32 and ``singular`` (n,) bool of all instances; ``condition``: largest product of
    the norms of a transform and its inverse; ``reach``: largest finite coordinate or translation."""

    ids: NDArray[np.int32]
    bounds: NDArray[np.float32]
    world_to_object: NDArray[np.float32]
    singular: NDArray[np.bool_]
    condition: float
    reach: float
    warnings: tuple[Violation, ...]


def check_instances(
    instances: InstanceInputs, blases: Mapping[int, Structure], profile: Profile = DEFAULT_PROFILE
) -> list[Violation]:
    """Rules LIM-3, LIM-4, IF-1, IF-2, ALIGN-1, BLD-10, INST-6; INST-1 and ERR-5 alone when arrays are not as stated."""
    if found := check_instance_arrays(instances):
        return found
    count = len(instances)
    if count > MAX_INSTANCES_PER_TOP_LEVEL_ACCELERATION_STRUCTURE:
        found.append(
            violation(
                "LIM-3", "at most 2^24 instances", field="Inputs.NumDescs", value=count, section="Geometry limits"
            )
        )
    section = "D3D12_RAYTRACING_INSTANCE_DESC"
    for name, values, limit in (
        ("InstanceID", instances.instance_id, MAX_INSTANCE_ID),
        ("InstanceContributionToHitGroupIndex", instances.contribution, MAX_INSTANCE_CONTRIBUTION_TO_HIT_GROUP_INDEX),
        ("InstanceMask", instances.mask, MAX_INSTANCE_MASK),
        ("Flags", instances.flags, 0xFF),
    ):
        for i in np.flatnonzero((values < 0) | (values > limit))[:8]:
            found.append(
                violation(
                    "LIM-4",
                    f"{name} must be from 0 to {limit}",
                    field=f"InstanceDescs[{i}].{name}",
                    value=values[i],
                    section=section,
                )
            )
    for word in np.unique(instances.flags):
        for problem in check_instance_flags(InstanceFlag(int(word)), profile):
            i = int(np.flatnonzero(instances.flags == word)[0])
            found.append(
                violation(
                    problem.rule,
                    problem.message,
                    field=f"InstanceDescs[{i}].Flags",
                    value=problem.value,
                    section=section,
                )
            )
    for address in np.unique(instances.blas_address[instances.blas_address != 0]):
        i = int(np.flatnonzero(instances.blas_address == address)[0])
        field = f"InstanceDescs[{i}].AccelerationStructure"
        if address % ACCELERATION_STRUCTURE_BYTE_ALIGNMENT:
            found.append(
                violation(
                    "ALIGN-1",
                    "the address must be a multiple of 256",
                    field=field,
                    value=f"{address:#x}",
                    section=section,
                )
            )
        elif int(address) not in blases or blases[int(address)].is_top_level:
            text = "no bottom-level structure lives at this address"
            found.append(violation("BLD-10", text, field=field, value=f"{address:#x}", section=section))
    bad = ~np.isfinite(instances.transform).all((1, 2)) & (instances.blas_address != 0)
    for i in np.flatnonzero(bad)[:8]:
        text = "a transform with a NaN or an infinity needs a NULL AccelerationStructure"
        found.append(
            violation("INST-6", text, field=f"InstanceDescs[{i}].Transform", value="not finite", section=section)
        )
    return sorted(found)


def instance_references(
    instances: InstanceInputs, blases: Mapping[int, Structure], profile: Profile = DEFAULT_PROFILE
) -> InstanceReferences:
    """World boxes of active instances: corners of the bottom level's bounds through the transform, in float64, rounded
    outward. An instance of an empty structure is a point at its translation (INST-7).

    Raises InvalidInputError with every violation found.
    """
    violations = check_instances(instances, blases, profile)
    require(violations, CALL)
    ids = np.flatnonzero(instances.blas_address != 0).astype(np.int32)
    world_to_object, singular = invert_transforms(instances.transform)
    for i in np.flatnonzero(singular & (instances.blas_address != 0))[:8]:
        text = "the transform cannot be inverted: no ray can hit this instance"
        violations.append(
            violation(
                "INST-5",
                text,
                field=f"InstanceDescs[{i}].Transform",
                value="singular",
                section="Instance transform",
                warning=True,
            )
        )
    transform = instances.transform[ids].astype(np.float64)
    boxes = np.zeros((len(ids), 2, 3))
    for address in np.unique(instances.blas_address[ids]):
        bounds = blases[int(address)].bounds
        boxes[instances.blas_address[ids] == address] = 0.0 if bounds is None else bounds
    corners = np.stack([boxes[:, [(k >> a) & 1 for a in range(3)], range(3)] for k in range(8)], 1)
    with np.errstate(all="ignore"):
        world = np.einsum("nij,nkj->nki", transform[:, :, :3], corners) + transform[:, None, :, 3]
        low, high = world.min(1), world.max(1)
        bounds = np.concatenate(
            [
                np.nextafter(low.astype(np.float32), np.float32(-np.inf)),
                np.nextafter(high.astype(np.float32), np.float32(np.inf)),
            ],
            1,
        )
    unknown = np.array([-np.inf] * 3 + [np.inf] * 3, np.float32)  # infinite input boxes: 0 x infinity
    bounds = np.where(np.isnan(bounds), unknown, bounds)
    usable = ids[~singular[ids]]
    forward = np.abs(instances.transform[usable][:, :, :3].astype(np.float64)).sum(2).max(1)
    back = np.abs(world_to_object[usable][:, :, :3].astype(np.float64)).sum(2).max(1)
    values = np.abs(np.concatenate([bounds.ravel(), instances.transform[ids][:, :, 3].ravel()]))
    values = values[np.isfinite(values)]
    return InstanceReferences(
        ids,
        np.ascontiguousarray(bounds, np.float32),
        world_to_object,
        singular,
        float(max(1.0, np.max(forward * back, initial=1.0))),
        float(values.max(initial=0.0)),
        tuple(violations),
    )
