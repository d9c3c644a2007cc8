"""One deformation for every mesh, so that updates can be tried on any scene: a swirl about the vertical axis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, Geometry


def deformed(inputs: BlasInputs, amount: float) -> BlasInputs:
    """The inputs with every position turned about the vertical axis through the middle of their bounds.

    ``amount``: turns at the outermost position; inner ones turn less, in proportion to their distance. 0 gives
    ``inputs`` itself. Boxes keep their size and move with their centre. What is not finite stays as it is, so the same
    primitives are active (INA-7); flags, indices and counts are the input's (UPD-8).
    """
    if amount == 0.0 or not inputs.geometries:
        return inputs
    centres = [_centres(geometry) for geometry in inputs.geometries]
    every = np.concatenate(centres)
    finite = every[np.isfinite(every).all(1)]
    if not len(finite):
        return inputs
    middle = 0.5 * (finite.min(0) + finite.max(0))
    radius = float(np.hypot(finite[:, 0] - middle[0], finite[:, 2] - middle[2]).max()) or 1.0
    moved = [_swirled(part, middle, radius, amount) for part in centres]
    return replace(
        inputs,
        geometries=tuple(
            _moved(geometry, before, after)
            for geometry, before, after in zip(inputs.geometries, centres, moved, strict=True)
        ),
    )


def _centres(geometry: Geometry) -> NDArray[np.float64]:
    if isinstance(geometry, AabbsGeometry):
        boxes = geometry.aabbs.astype(np.float64)
        with np.errstate(invalid="ignore"):
            centres: NDArray[np.float64] = 0.5 * (boxes[:, :3] + boxes[:, 3:])
        return centres
    return geometry.vertices.astype(np.float64)


def _swirled(
    points: NDArray[np.float64], middle: NDArray[np.float64], radius: float, amount: float
) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        x, z = points[:, 0] - middle[0], points[:, 2] - middle[2]
        angle = 2.0 * np.pi * amount * np.hypot(x, z) / radius
        cosine, sine = np.cos(angle), np.sin(angle)
        turned = np.stack([middle[0] + cosine * x + sine * z, points[:, 1], middle[2] - sine * x + cosine * z], axis=1)
    finite = np.isfinite(points).all(axis=1, keepdims=True)
    return np.where(finite, turned, points)


def _moved(geometry: Geometry, before: NDArray[np.float64], after: NDArray[np.float64]) -> Geometry:
    with np.errstate(over="ignore"):
        if isinstance(geometry, AabbsGeometry):
            with np.errstate(invalid="ignore"):
                step = np.where(np.isfinite(before), after - before, 0.0)
            boxes = geometry.aabbs.astype(np.float64) + np.concatenate([step, step], axis=1)
            return replace(geometry, aabbs=np.ascontiguousarray(boxes, np.float32))
        return replace(geometry, vertices=np.ascontiguousarray(after, np.float32))
