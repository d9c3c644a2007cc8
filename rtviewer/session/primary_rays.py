"""The camera's rays and what they are traced with: what the panes set as the dispatch takes it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.programs import ProgramKind
from rtviewer.errors import RtviewerError
from rtviewer.scene.camera import Camera
from rtviewer.scene.scene import Scene
from rtviewer.session.state import RaySettings
from rtviewer.trace.request import RayBatch, TraceSettings


def trace_settings(rays: RaySettings, scene: Scene | None = None) -> TraceSettings:
    """The settings of the pane as the dispatch takes them, with the scene's hit groups when it is given.

    Raises ProgramError where a user's program is named that is not loaded.
    """
    programs = rays.programs
    return TraceSettings(
        ray_flags=rays.ray_flags,
        mask=rays.mask,
        any_hit=programs.number(ProgramKind.ANY_HIT, rays.any_hit),
        intersection=programs.number(ProgramKind.INTERSECTION, rays.intersection),
        ray_contribution=rays.ray_contribution,
        multiplier=rays.multiplier,
        miss_index=rays.miss_index,
        hit_groups=scene.hit_groups if scene is not None else None,
        programs=programs,
        repeat_calls=rays.repeat_calls,
    )


def camera_rays(
    camera: Camera, width: int, height: int, columns: NDArray[np.int64], rows: NDArray[np.int64], rays: RaySettings
) -> RayBatch:
    """The rays of some pixels of an image, with the settings' interval."""
    origin, direction = camera.rays(width, height, columns, rows)
    return RayBatch.make(origin, direction, rays.t_min, rays.t_max)


def pixel_ray(camera: Camera, width: int, height: int, x: int, y: int, rays: RaySettings | None = None) -> RayBatch:
    """The one ray through the centre of pixel (x, y); (0, 0) is top left."""
    if not (0 <= x < width and 0 <= y < height):
        raise RtviewerError(f"pixel {x},{y} is outside the {width} x {height} image")
    return camera_rays(camera, width, height, np.array([x]), np.array([y]), rays or RaySettings())
