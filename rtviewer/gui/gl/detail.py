"""Which instances are drawn in full when the processor draws: the largest on screen, until the budget is spent.

The rest is drawn as the solid boxes of their bottom levels: a sphere of four pixels looks the same either way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rtviewer.scene.camera import Camera


def screen_sizes(
    camera: Camera, bounds: NDArray[np.float32] | None, transforms: NDArray[np.float32]
) -> NDArray[np.float64]:
    """(m,) float64: radius over distance of each placement of a box; inf around the eye, 0 of nothing."""
    if bounds is None:
        return np.zeros(len(transforms))
    centre, radius = bounds.astype(np.float64).mean(0), float(np.linalg.norm(bounds[1] - bounds[0])) / 2
    matrix = transforms[:, :, :3].astype(np.float64)
    placed = matrix @ centre + transforms[:, :, 3]
    sizes = radius * np.sqrt(np.einsum("mij,mij->mj", matrix, matrix).max(1))
    if camera.orthographic_height is not None:
        return sizes
    away = np.linalg.norm(placed - np.asarray(camera.position), axis=1) - sizes
    return np.where(away > 0, sizes / np.maximum(away, 1e-12), np.inf)


def full_counts(
    sizes: Sequence[NDArray[np.float64]], triangles: Sequence[int], budget: int
) -> tuple[list[NDArray[np.int64]], list[int]]:
    """For each mesh the order of its instances, largest first, and how many of them are drawn in full.

    At least the largest instance of all is. Guarantees that the triangles of those in full stay within ``budget``
    unless that one alone exceeds it.
    """
    orders = [np.argsort(-size, kind="stable") for size in sizes]
    mesh = np.concatenate([np.full(len(size), i) for i, size in enumerate(sizes)]) if sizes else np.empty(0, int)
    size = np.concatenate(list(sizes)) if sizes else np.empty(0)
    by_size = np.argsort(-size, kind="stable")
    cost = np.asarray(triangles, np.int64)[mesh[by_size]] if len(mesh) else np.empty(0, np.int64)
    fits = np.cumsum(cost) <= budget
    if len(fits):
        fits[0] = True
    counts = np.bincount(mesh[by_size][fits], minlength=len(sizes)) if len(fits) else np.zeros(len(sizes), int)
    return orders, [int(count) for count in counts]
