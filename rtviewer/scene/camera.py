"""A camera as plain numbers, and its primary rays.

World axes are the scene's own. A pixel's ray goes through the pixel's centre; pixel (0, 0) is top left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Camera:
    """``vertical_fov`` in degrees; ``orthographic_height`` in scene units replaces it when not None."""

    position: Vector
    look_at: Vector
    up: Vector = (0.0, 1.0, 0.0)
    vertical_fov: float = 45.0
    orthographic_height: float | None = None
    name: str = ""

    def problem(self) -> str:
        """Why there is no picture from here, as a sentence's end; empty when there is one."""
        for name in ("position", "look_at", "up"):
            value = np.asarray(getattr(self, name))
            if value.shape != (3,) or value.dtype.kind not in "fiu" or not np.isfinite(value).all():
                return f"{name} must be three finite numbers, found {getattr(self, name)}"
        if np.array_equal(self.position, self.look_at):
            return f"look_at must differ from position, both are {self.position}"
        if self.orthographic_height is not None:
            if not 0 < self.orthographic_height < math.inf:
                return f"orthographic_height must be above 0 and finite, found {self.orthographic_height}"
        elif not 0 < self.vertical_fov < 180:
            return f"vertical_fov must be between 0 and 180 degrees, found {self.vertical_fov}"
        return ""

    def basis(self) -> NDArray[np.float64]:
        """(3, 3) float64, rows right, up, forward, orthonormal and right-handed seen along forward; read only."""
        return _basis(self.position, self.look_at, self.up)

    def rays(
        self, width: int, height: int, columns: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Origins and directions, each (n, 3) float32, of the pixels (columns[i], rows[i]) of a width x height image.

        Directions of a perspective camera are unit length before rounding; those of an orthographic one too.
        """
        right, up, forward = self.basis()
        x = (2.0 * (columns + 0.5) / width - 1.0) * (width / height)
        y = 1.0 - 2.0 * (rows + 0.5) / height
        position = np.asarray(self.position, np.float64)
        if self.orthographic_height is not None:
            half = 0.5 * self.orthographic_height
            origin = position + half * (x[:, None] * right + y[:, None] * up)
            direction = np.broadcast_to(forward, origin.shape)
        else:
            half = math.tan(math.radians(self.vertical_fov) / 2)
            # Axis by axis: rows of three keep numpy from using the processor's vectors.
            axes = [f + half * (x * r + y * u) for f, r, u in zip(forward, right, up, strict=True)]
            length = np.sqrt(axes[0] * axes[0] + axes[1] * axes[1] + axes[2] * axes[2])
            direction = np.empty((len(x), 3), np.float64)
            for axis, values in enumerate(axes):
                np.divide(values, length, out=direction[:, axis])
            origin = np.broadcast_to(position, direction.shape)
        with np.errstate(over="ignore"):  # a camera outside float32's range gives rays that the dispatch calls invalid
            return np.ascontiguousarray(origin, np.float32), np.ascontiguousarray(direction, np.float32)


@lru_cache(maxsize=16)
def _basis(position: Vector, look_at: Vector, up_vector: Vector) -> NDArray[np.float64]:
    """``Camera.basis``; kept, because every tile of a picture asks for it."""
    forward = np.subtract(look_at, position, dtype=np.float64)
    length = np.linalg.norm(forward)
    forward = forward / length if length > 0 else np.array([0.0, 0.0, -1.0])
    up = np.asarray(up_vector, np.float64)
    right = np.cross(forward, up / (np.linalg.norm(up) or 1.0))
    if np.linalg.norm(right) < 1e-9:  # looking along up, or no up: take the axis most across the view
        right = np.cross(forward, np.eye(3)[np.argmin(np.abs(forward))])
    right /= np.linalg.norm(right)
    basis = np.stack([right, np.cross(right, forward), forward])
    basis.setflags(write=False)
    return basis


def fitting_camera(
    bounds: NDArray[np.float64] | None, direction: Vector = (-1.0, -0.7, -1.0), vertical_fov: float = 45.0
) -> Camera:
    """The camera of a scene that brings none: looks along ``direction`` from where the bounds fit, y up.

    ``bounds``: (2, 3) float64 or None for an empty scene, which gets a camera at the origin's side.
    """
    if bounds is None:
        bounds = np.array([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]])
    centre = bounds.sum(0) * 0.5
    radius = float(np.linalg.norm(bounds[1] - centre)) or 1.0
    toward = np.asarray(direction, np.float64)
    toward = toward / np.linalg.norm(toward)
    distance = radius / math.sin(math.radians(vertical_fov) / 2)
    position = centre - toward * distance
    return Camera(
        (float(position[0]), float(position[1]), float(position[2])),
        (float(centre[0]), float(centre[1]), float(centre[2])),
        vertical_fov=vertical_fov,
        name="fit",
    )


def aimed(camera: Camera, bounds: NDArray[np.float64] | None) -> Camera:
    """The same view with ``look_at`` as far away as the middle of ``bounds``, so that it is a pivot worth orbiting.

    For cameras that come as a position and a direction. Nothing changes when the bounds are behind, or there are none.
    """
    if bounds is None:
        return camera
    position = np.asarray(camera.position, np.float64)
    forward = camera.basis()[2]
    depth = float(forward @ (bounds.sum(0) * 0.5 - position))
    if not depth > 0:
        return camera
    x, y, z = (position + forward * depth).tolist()
    return replace(camera, look_at=(x, y, z))
