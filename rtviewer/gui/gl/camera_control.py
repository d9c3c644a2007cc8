"""Orbit, pan, zoom, fit and focus as functions from camera to camera, and the matrices that agree with Camera.rays."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rtviewer.scene.camera import Camera, Vector

NEAREST_TO_POLE = 0.5
"""Degrees kept between the view direction and the up axis, so that the horizon never turns over."""


def _vector(values: NDArray[np.float64]) -> Vector:
    return float(values[0]), float(values[1]), float(values[2])


def orbit(camera: Camera, degrees_right: float, degrees_up: float) -> Camera:
    """Turn around the point looked at; the distance stays, the up axis stays up."""
    up = np.asarray(camera.up, np.float64)
    up = up / np.linalg.norm(up)
    centre = np.asarray(camera.look_at, np.float64)
    arm = np.subtract(camera.position, camera.look_at, dtype=np.float64)
    distance = float(np.linalg.norm(arm))
    if distance == 0:
        return camera
    arm = _rotated(arm, up, math.radians(-degrees_right))
    from_up = math.degrees(math.acos(float(np.clip(arm @ up / distance, -1, 1))))
    turned = min(max(from_up - degrees_up, NEAREST_TO_POLE), 180 - NEAREST_TO_POLE)
    axis = np.cross(up, arm)
    if np.linalg.norm(axis) < 1e-9 * distance:
        axis = camera.basis()[0]
    arm = _rotated(arm, axis / np.linalg.norm(axis), math.radians(turned - from_up))
    return replace(camera, position=_vector(centre + arm), name="")


def _rotated(v: NDArray[np.float64], axis: NDArray[np.float64], angle: float) -> NDArray[np.float64]:
    c, s = math.cos(angle), math.sin(angle)
    return v * c + np.cross(axis, v) * s + axis * (axis @ v) * (1 - c)  # type: ignore[no-any-return]


def world_height(camera: Camera) -> float:
    """Scene units that the picture is high at the point looked at."""
    if camera.orthographic_height is not None:
        return camera.orthographic_height
    distance = float(np.linalg.norm(np.subtract(camera.position, camera.look_at)))
    return 2 * distance * math.tan(math.radians(camera.vertical_fov) / 2)


def pan(camera: Camera, fraction_right: float, fraction_up: float) -> Camera:
    """Move sideways, in fractions of the picture's height."""
    right, up, _ = camera.basis()
    step = world_height(camera) * (fraction_right * right + fraction_up * up)
    return replace(
        camera,
        position=_vector(np.asarray(camera.position) + step),
        look_at=_vector(np.asarray(camera.look_at) + step),
        name="",
    )


def zoom(camera: Camera, factor: float) -> Camera:
    """Bring the eye to ``factor`` times its distance (an orthographic picture to ``factor`` times its height)."""
    centre = np.asarray(camera.look_at, np.float64)
    arm = np.asarray(camera.position, np.float64) - centre
    height = None if camera.orthographic_height is None else camera.orthographic_height * factor
    return replace(camera, position=_vector(centre + arm * factor), orthographic_height=height, name="")


def framed(camera: Camera, bounds: NDArray[np.float64], aspect: float = 1.0) -> Camera:
    """Same direction, moved so that ``bounds`` (2, 3) fill the picture."""
    centre = bounds.sum(0) / 2
    radius = float(np.linalg.norm(bounds[1] - centre)) or 1.0
    forward = camera.basis()[2]
    half = math.radians(camera.vertical_fov) / 2
    narrow = min(half, math.atan(math.tan(half) * aspect))
    distance = radius / math.sin(narrow)
    height = None if camera.orthographic_height is None else 2.0 * radius / min(aspect, 1.0)
    return replace(
        camera, position=_vector(centre - forward * distance), look_at=_vector(centre),
        orthographic_height=height, name="",
    )  # fmt: skip


def world_to_view(camera: Camera) -> NDArray[np.float64]:
    """(4, 4): x right, y up, z toward the viewer."""
    right, up, forward = camera.basis()
    matrix = np.eye(4)
    matrix[0, :3], matrix[1, :3], matrix[2, :3] = right, up, -forward
    matrix[:3, 3] = -matrix[:3, :3] @ np.asarray(camera.position, np.float64)
    return matrix


def view_to_clip(camera: Camera, aspect: float, near: float, far: float) -> NDArray[np.float64]:
    """(4, 4) of OpenGL's clip space; ``aspect`` is width over height. The same pyramid that Camera.rays fills."""
    matrix = np.zeros((4, 4))
    if camera.orthographic_height is not None:
        half = camera.orthographic_height / 2
        matrix[0, 0], matrix[1, 1] = 1 / (half * aspect), 1 / half
        matrix[2, 2], matrix[2, 3] = -2 / (far - near), -(far + near) / (far - near)
        matrix[3, 3] = 1
        return matrix
    scale = 1 / math.tan(math.radians(camera.vertical_fov) / 2)
    matrix[0, 0], matrix[1, 1] = scale / aspect, scale
    matrix[2, 2], matrix[2, 3] = -(far + near) / (far - near), -2 * far * near / (far - near)
    matrix[3, 2] = -1
    return matrix


def clip_range(camera: Camera, bounds: NDArray[np.float64] | None) -> tuple[float, float]:
    """Near and far distances that hold the bounds and the ends of rays drawn past them."""
    if bounds is None:
        return 0.01, 1000.0
    centre = bounds.sum(0) / 2
    radius = float(np.linalg.norm(bounds[1] - centre)) or 1.0
    distance = float((centre - np.asarray(camera.position)) @ camera.basis()[2])
    far = max(distance, 0.0) + 4 * radius
    if camera.orthographic_height is not None:
        return distance - 4 * radius, far
    return max(distance - 1.5 * radius, far * 2e-4), far


def pixel_of(camera: Camera, width: int, height: int, point: NDArray[np.float64]) -> tuple[float, float] | None:
    """Where an image shows a world point, in pixels from its top left corner; None outside it or behind the eye."""
    clip = view_to_clip(camera, width / height, 1e-3, 1e3) @ world_to_view(camera) @ np.append(point, 1.0)
    if clip[3] <= 0:
        return None
    x, y = clip[:2] / clip[3]
    return ((x + 1) / 2 * width, (1 - y) / 2 * height) if abs(x) <= 1 and abs(y) <= 1 else None
