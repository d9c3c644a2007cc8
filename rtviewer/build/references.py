"""What of the inputs goes into a tree: active, non-degenerate primitives and active instances, with their boxes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.layout import ID_DEGENERATE, ID_NO_DUPLICATE, ID_OPAQUE
from rtviewer.accel.structure import Structure
from rtviewer.build.input_arrays import check_geometry_arrays, check_instance_arrays
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, InstanceInputs, TrianglesGeometry
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
    inactive_triangles,
    invert_transforms,
    normalised_boxes,
    triangle_corners,
)

CALL = "BuildRaytracingAccelerationStructure"


@dataclass(frozen=True)
class PrimitiveReferences:
    """Primitives of a bottom level, geometries one after the other.

    ``primitives``: (n, 3, 3) float32 corners or (n, 6) float32 boxes of every input. ``ids`` (k,) int32: those that go
    into the tree. ``flags`` (n,) int32: flag bits of a pack lane. ``inactive`` (n,) bool: INA-1, INA-2. Per geometry
    (m,) int64: ``counts``, ``active``, ``degenerate``. ``reach``: largest finite coordinate of an active primitive,
    degenerate ones included.
    """

    is_triangles: bool
    primitives: NDArray[np.float32]
    ids: NDArray[np.int32]
    flags: NDArray[np.int32]
    inactive: NDArray[np.bool_]
    counts: NDArray[np.int64]
    active: NDArray[np.int64]
    degenerate: NDArray[np.int64]
    reach: float


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
    smallest, largest = int(geometry.indices.min()), int(geometry.indices.max())
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


def primitive_references(
    inputs: BlasInputs, profile: Profile = DEFAULT_PROFILE, *, keep_degenerate: bool = False
) -> PrimitiveReferences:
    """Decode geometries and leave out what can never be hit: inactive (INA-*) and degenerate triangles (DEG-7).

    ``keep_degenerate``: degenerate triangles stay, marked, unless they repeat an index and so are degenerate for ever
    (DEG-5).

    Raises InvalidInputError with every violation found.
    """
    require(check_geometry_arrays(inputs), CALL)
    require(check_blas(inputs, profile), CALL)
    require(
        [
            v
            for i, g in enumerate(inputs.geometries)
            if isinstance(g, TrianglesGeometry)
            for v in _indices_in_range(g, i)
        ],
        CALL,
    )
    found: list[Violation] = []
    parts, kept, flags, dead = [], [], [], []
    counts, active, degenerate = [], [], []
    reach = 0.0
    for index, geometry in enumerate(inputs.geometries):
        if isinstance(geometry, AabbsGeometry):
            inactive = inactive_boxes(geometry.aabbs)
            primitives = normalised_boxes(geometry.aabbs)
            flat = (primitives[:, :3] == primitives[:, 3:]).all(1) & ~inactive
            keep = ~inactive
        else:
            primitives = triangle_corners(geometry)
            inactive = inactive_triangles(primitives)
            flat = degenerate_triangles(primitives) & ~inactive
            keep = ~inactive & (~flat | (keep_degenerate & ~_repeats_an_index(geometry)))
        axes = tuple(range(1, primitives.ndim))
        broken = np.isnan(primitives).any(axes) & ~inactive
        if broken.any():
            found.append(_nan_violation(index, int(np.flatnonzero(broken)[0])))
        coordinates = np.abs(primitives[~inactive])
        reach = max(reach, float(np.max(coordinates, initial=0.0, where=np.isfinite(coordinates))))
        bits = (ID_OPAQUE if geometry.flags & GeometryFlag.OPAQUE else 0) | (
            ID_NO_DUPLICATE if geometry.flags & GeometryFlag.NO_DUPLICATE_ANYHIT_INVOCATION else 0
        )
        parts.append(primitives)
        kept.append(keep)
        marked = np.full(len(primitives), bits, np.int32)
        if isinstance(geometry, TrianglesGeometry):
            marked[flat] |= np.int32(ID_DEGENERATE)
        flags.append(marked)
        dead.append(inactive)
        counts.append(len(primitives))
        active.append(int(keep.sum()))
        degenerate.append(int(flat.sum()))
    require(found, CALL)
    is_triangles = not any(isinstance(g, AabbsGeometry) for g in inputs.geometries)
    empty = np.empty((0, 3, 3) if is_triangles else (0, 6), np.float32)
    return PrimitiveReferences(
        is_triangles,
        np.ascontiguousarray(np.concatenate([empty, *parts]), np.float32),
        np.flatnonzero(np.concatenate([np.empty(0, np.bool_), *kept])).astype(np.int32),
        np.concatenate([np.empty(0, np.int32), *flags]),
        np.concatenate([np.empty(0, np.bool_), *dead]),
        np.array(counts, np.int64),
        np.array(active, np.int64),
        np.array(degenerate, np.int64),
        reach,
    )


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
