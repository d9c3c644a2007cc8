"""From a scene to build inputs, and the numbers that say what a scene holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, InstanceInputs
from rtviewer.dxr.limits import (
    MAX_INSTANCE_CONTRIBUTION_TO_HIT_GROUP_INDEX,
    MAX_INSTANCE_ID,
    MAX_INSTANCE_MASK,
)
from rtviewer.dxr.rules import require
from rtviewer.errors import Violation, violation
from rtviewer.scene.scene import Scene


def instance_inputs(scene: Scene, addresses: Sequence[int]) -> InstanceInputs:
    """The table a top-level build takes, one row per instance of the scene in order (BLD-12).

    ``addresses``: one address per entry of ``scene.blases``; an instance without a structure gets 0 (INST-2).
    Raises ValueError when the number of addresses is another, InvalidInputError for a field out of range (LIM-4, ERR-5)
    and for a transform that is not 3 x 4 numbers (INST-1).
    """
    if len(addresses) != len(scene.blases):
        raise ValueError(f"{len(scene.blases)} structures need as many addresses, found {len(addresses)}")
    require(list(_violations(scene)), "instances")
    with_null = np.array([*addresses, 0], np.uint64)  # blas -1 reads the last entry
    return InstanceInputs(
        transform=instance_transforms(scene),
        instance_id=np.array([i.instance_id for i in scene.instances], np.uint32),
        mask=np.array([i.mask for i in scene.instances], np.uint8),
        contribution=np.array([i.contribution for i in scene.instances], np.uint32),
        flags=np.array([int(i.flags) for i in scene.instances], np.uint8),
        blas_address=with_null[np.array([i.blas for i in scene.instances], np.int64)],
    )


def _violations(scene: Scene) -> Iterator[Violation]:
    """What a table of fixed widths would cut off or wrap around."""
    for name, rule, low, high in (
        ("blas", "ERR-5", -1, len(scene.blases) - 1),
        ("instance_id", "LIM-4", 0, MAX_INSTANCE_ID),
        ("mask", "LIM-4", 0, MAX_INSTANCE_MASK),
        ("contribution", "LIM-4", 0, MAX_INSTANCE_CONTRIBUTION_TO_HIT_GROUP_INDEX),
        ("flags", "LIM-4", 0, 0xFF),
    ):
        for index, instance in enumerate(scene.instances):
            value = getattr(instance, name)
            if not (isinstance(value, int | np.integer) and low <= value <= high):
                text = f"{name} must be an integer from {low} to {high}" + (", -1 for none" if low < 0 else "")
                yield violation(rule, text, field=f"instances[{index}].{name}", value=value)
    for index, instance in enumerate(scene.instances):
        if not _is_transform(instance.transform):
            text = "transform must be 3 rows of 4 real numbers"
            value = getattr(instance.transform, "shape", type(instance.transform).__name__)
            yield violation("INST-1", text, field=f"instances[{index}].transform", value=value)


def _is_transform(value: object) -> bool:
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        return False
    return array.shape == (3, 4) and array.dtype.kind in "fiu"


def instance_transforms(scene: Scene) -> NDArray[np.float32]:
    """(n, 3, 4) float32 object-to-world of all instances, C-contiguous; (0, 3, 4) when there are none."""
    if not scene.instances:
        return np.empty((0, 3, 4), np.float32)
    return np.stack([instance.transform for instance in scene.instances]).astype(np.float32, copy=False)


def determinants(transforms: NDArray[np.float32]) -> NDArray[np.float64]:
    """(n,) float64: determinant of the linear part of (n, 3, 4) transforms; negative mirrors, NaN where not finite."""
    a, b, c = np.moveaxis(transforms[:, :, :3].astype(np.float64), 1, 0)
    with np.errstate(invalid="ignore", over="ignore"):
        result: NDArray[np.float64] = (a * np.cross(b, c)).sum(axis=1)
    return result


def is_singular(transforms: NDArray[np.float32]) -> NDArray[np.bool_]:
    """(n,) bool: transforms without an inverse, which no ray can hit (INST-5)."""
    result: NDArray[np.bool_] = determinants(transforms) == 0.0
    return result


@dataclass(frozen=True)
class SceneStatistics:
    """What ``rtviewer info`` prints about a scene."""

    triangles_stored: int
    """Triangles of all structures, each structure once, placed or not; inactive and degenerate ones count."""
    triangles_drawn: int
    """Triangles of all instances."""
    procedurals: int
    """Boxes of all structures, each structure once."""
    geometries: int
    """Geometries of all structures."""
    instances: int
    """All instances, those without a structure too."""
    instances_mirrored: int
    """Instances whose transform has a negative determinant."""
    bounds: tuple[tuple[float, float, float], tuple[float, float, float]] | None
    """Minimum and maximum of referenced finite positions in world space, None when there are none."""
    warnings: tuple[str, ...]
    """What the reader dropped or changed."""

    def as_json(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and texts, keys as the fields."""
        return asdict(self)


def scene_statistics(scene: Scene) -> SceneStatistics:
    """Count what a scene holds. Time grows with stored positions times their instances, for the bounds."""
    triangles = [_triangle_count(blas) for blas in scene.blases]
    bounds = scene.bounds()
    corners = None
    if bounds is not None:
        (x0, y0, z0), (x1, y1, z1) = bounds.tolist()
        corners = ((x0, y0, z0), (x1, y1, z1))
    return SceneStatistics(
        triangles_stored=sum(triangles),
        triangles_drawn=sum(triangles[i.blas] for i in scene.instances if i.blas >= 0),
        procedurals=sum(blas.primitive_count for blas in scene.blases) - sum(triangles),
        geometries=sum(len(blas.geometries) for blas in scene.blases),
        instances=len(scene.instances),
        instances_mirrored=int((determinants(instance_transforms(scene)) < 0).sum()),
        bounds=corners,
        warnings=scene.warnings,
    )


def _triangle_count(blas: BlasInputs) -> int:
    return sum(g.primitive_count for g in blas.geometries if not isinstance(g, AabbsGeometry))
