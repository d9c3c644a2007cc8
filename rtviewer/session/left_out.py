"""Input that no tree holds, or that no ray hits: how much of it a bottom level has, and which primitives they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.layout import ID_DEGENERATE, UNUSED_LANE
from rtviewer.accel.structure import Structure
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, Geometry
from rtviewer.scene.primitives import (
    degenerate_triangles,
    inactive_boxes,
    inactive_triangles,
    normalised_boxes,
    triangle_corners,
)

MAX_NAMED = 8
"""Primitives that are named; more are counted."""


@dataclass(frozen=True)
class LeftOut:
    """Numbers of inactive [INA-1, INA-2] and degenerate [DEG-1] primitives, and where the first few are.

    The places are texts such as ``primitives 1, 5 of geometry 0``; empty where the inputs do not tell.
    """

    inactive: int
    degenerate: int
    inactive_places: str
    degenerate_places: str


def left_out(blas: Structure, inputs: BlasInputs) -> LeftOut:
    """What a bottom level left out. Counts are the structure's own, so they also hold for one without its inputs."""
    degenerate = int(blas.header["degenerate_count"])
    absent = int(blas.header["input_count"]) - int(blas.header["active_count"])
    inactive = absent - (degenerate - _degenerates_in_tree(blas, degenerate))
    if not (inactive or degenerate):
        return LeftOut(0, 0, "", "")
    found = [_classified(geometry) for geometry in inputs.geometries]
    return LeftOut(
        inactive, degenerate, _places([f[0] for f in found], inactive), _places([f[1] for f in found], degenerate)
    )


def _degenerates_in_tree(blas: Structure, degenerate: int) -> int:
    """Degenerate boxes are always there, degenerate triangles only where an update may move them [DEG-7]."""
    if blas.is_procedural:
        return degenerate
    ids = blas.packs["id"]
    return int(((ids != UNUSED_LANE) & (ids & ID_DEGENERATE != 0)).sum())


def _classified(geometry: Geometry) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Primitives of one geometry that are inactive, and those that are degenerate."""
    if isinstance(geometry, AabbsGeometry):
        inactive, boxes = inactive_boxes(geometry.aabbs), normalised_boxes(geometry.aabbs)
        degenerate = (boxes[:, :3] == boxes[:, 3:]).all(1) & ~inactive
    else:
        corners = triangle_corners(geometry)
        inactive = inactive_triangles(corners)
        degenerate = degenerate_triangles(corners) & ~inactive
    return np.flatnonzero(inactive), np.flatnonzero(degenerate)


def _places(primitives: list[NDArray[np.int64]], count: int) -> str:
    """The first few by geometry; nothing when the inputs have another number of them than the structure."""
    if sum(len(p) for p in primitives) != count or not count:
        return ""
    left, parts = MAX_NAMED, []
    for geometry, numbers in enumerate(primitives):
        named = numbers[:left]
        left -= len(named)
        if len(named):
            word = "primitive" if len(named) == 1 else "primitives"
            parts.append(f"{word} {', '.join(str(n) for n in named)} of geometry {geometry}")
    more = f", and {count - MAX_NAMED:,} more" if count > MAX_NAMED else ""
    return "; ".join(parts) + more


def why_left_out(inputs: BlasInputs | None, geometry: int, primitive: int) -> tuple[str, str]:
    """Why no tree holds a primitive, with the coordinate that says so, and the rule.

    ``inputs`` is None, or empty of that geometry, where the structure came without what it was built from.
    """
    unknown = "it is inactive or degenerate input, which no tree holds", "INA-6"
    if inputs is None or geometry >= len(inputs.geometries):
        return unknown
    given = inputs.geometries[geometry]
    if primitive >= given.primitive_count:
        return unknown
    if isinstance(given, AabbsGeometry):
        is_nan = bool(np.isnan(given.aabbs[primitive, 0]))
        return ("its MinX is NaN, so it is inactive", "INA-2") if is_nan else unknown
    corners = triangle_corners(given)[primitive]
    corner = np.flatnonzero(np.isnan(corners[:, 0]))
    if len(corner):
        return f"the x of its vertex {int(corner[0])} is NaN, so it is inactive", "INA-1"
    if bool(degenerate_triangles(corners[None])[0]):
        listed = ", ".join("(" + ", ".join(str(x) for x in row) + ")" for row in corners)
        return f"it is degenerate, its vertices {listed} lie on one line", "DEG-7"
    return unknown
