"""What a selection means in a world: its box in the tree, its bounds, and what a view's pixel shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.flags import RayFlag
from rtviewer.scene.camera import Camera
from rtviewer.session.document import TOP_LEVEL, World
from rtviewer.session.primary_rays import pixel_ray, trace_settings
from rtviewer.session.state import RaySettings, Selection


def with_box(world: World, selection: Selection) -> Selection:
    """The selection with its structure and box filled in: the leaf that holds the instance or primitive.

    A primitive of an instance belongs to that instance's bottom level. A box that is given is kept when it exists.
    """
    structure = selection.structure
    if structure == TOP_LEVEL and selection.instance >= 0 and selection.primitive >= 0:
        structure = world.blas_of_instance(selection.instance)
    if structure >= len(world.blases):
        return Selection()
    tree = world.tree(structure)
    box = selection.box if selection.box < len(tree) else -1
    if box < 0 and structure >= 0 and selection.primitive >= 0:
        box = tree.box_of_item(selection.geometry, selection.primitive)
    elif box < 0 and structure == TOP_LEVEL and selection.instance >= 0:
        box = tree.box_of_item(selection.instance)
    return replace(selection, structure=structure, box=box)


def selection_bounds(world: World, selection: Selection) -> NDArray[np.float64] | None:
    """(2, 3) float64 of the selected box or instance; None when nothing with bounds is selected.

    In world space when an instance is named or the box is one of the top level, else in the structure's object space.
    """
    structure, instance = selection.structure, selection.instance
    bounds: NDArray[np.float64] | None = None
    if selection.box >= 0 and (structure >= 0 or instance < 0):
        tree = world.tree(structure)
        if selection.box < len(tree):
            bounds = np.stack([tree.low[selection.box], tree.high[selection.box]]).astype(np.float64)
    elif instance >= 0:
        structure = world.blas_of_instance(instance)
        root = world.blases[structure].bounds if structure >= 0 else None
        bounds = None if root is None else np.asarray(root, np.float64)
    if bounds is None or not np.isfinite(bounds).all():
        return None
    if structure >= 0 and instance >= 0:
        return transformed_bounds(bounds, world.tlas.instance_descs["Transform"][instance])
    return bounds


def transformed_bounds(bounds: NDArray[np.float64], transform: NDArray[np.float32]) -> NDArray[np.float64]:
    """Bounds (2, 3) float64 of the eight transformed corners of a box."""
    corners = np.array([[bounds[(i >> axis) & 1, axis] for axis in range(3)] for i in range(8)])
    matrix = np.asarray(transform, np.float64)
    moved = corners @ matrix[:, :3].T + matrix[:, 3]
    return np.stack([moved.min(0), moved.max(0)])


def pick_selection(
    world: World, scope: int, camera: Camera, width: int, height: int, x: int, y: int, rays: RaySettings
) -> Selection:
    """What a structure view shows at pixel (x, y), nothing culled or masked; an empty selection where it shows nothing.

    Traced without the scene's hit groups, so what rays are refused for (HG-4) can still be picked.
    ``scope``: TOP_LEVEL for world space, else the bottom level that is shown in object space.
    """
    seen = world if scope == TOP_LEVEL else world.object_space(scope)
    settings = trace_settings(replace(rays, ray_flags=RayFlag.FORCE_OPAQUE, mask=0xFF))
    hits = seen.dispatcher().trace(pixel_ray(camera, width, height, x, y), settings, counters=False).hits
    if not hits.hit[0]:
        return Selection(structure=scope)
    instance = int(hits.instance_index[0])
    geometry, primitive = int(hits.geometry_index[0]), int(hits.primitive_index[0])
    if scope != TOP_LEVEL:
        return with_box(world, Selection(scope, geometry=geometry, primitive=primitive))
    return with_box(world, Selection(TOP_LEVEL, instance=instance, geometry=geometry, primitive=primitive))
