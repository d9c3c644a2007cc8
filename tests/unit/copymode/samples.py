"""Structures that between them have every section kind, and states that only a history gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from rtviewer.accel.structure import Structure
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.build.refit import update_blas
from rtviewer.copymode.dehydrate import dehydrate
from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag, GeometryFlag
from rtviewer.scene.generators import icosphere, random_boxes, soup
from tests.worlds import Placement, blas_address, boxes, instance_table, mesh, scale, translate, triangles

NAN = float("nan")
COMPACTABLE = BuildFlag.ALLOW_COMPACTION
UPDATABLE = BuildFlag.ALLOW_COMPACTION | BuildFlag.ALLOW_UPDATE

MIXED = BlasInputs(
    (
        mesh(icosphere(1), GeometryFlag.OPAQUE, translate(1, 2, 3)),
        triangles(),
        triangles(
            [[NAN, 0, 0], [1, 0, 0], [0, 1, 0]], [[9, 9, 9], [9, 9, 9], [9, 9, 9]], [[0, 0, 5], [1, 0, 5], [0, 1, 5]],
            flags=GeometryFlag.NO_DUPLICATE_ANYHIT_INVOCATION,
        ),
        mesh(soup(60)),
    ),
    "mixed",
)  # fmt: skip
"""Triangles with transform, an empty geometry, an inactive and a degenerate primitive."""

BOXES = BlasInputs(
    (
        boxes(random_boxes(40)),
        boxes(),
        boxes([NAN, 0, 0, 1, 1, 1], [2, 3, 4, 0, 0, 0], [0, 0, 0, 1, 2, 3], flags=GeometryFlag.OPAQUE),
    ),
    "boxes",
)
"""Boxes, of which one is inactive and one inverted."""

PLACEMENTS = [
    Placement(0, translate(1, 0, 0), instance_id=7, mask=3, contribution=5),
    Placement(-1),
    Placement(1, scale(2)),
    Placement(0, translate(0, 4, 0)),
    Placement(0, scale(0.0)),
]
"""Instances of two bottom levels: a NULL, a repeated and a singular one among them."""


@dataclass(frozen=True, eq=False)
class Sample:
    structure: Structure
    inputs: BlasInputs | None = None


RECIPES = {
    name + label: (inputs, flags)
    for name, inputs in (("triangles", MIXED), ("boxes", BOXES), ("empty", BlasInputs()))
    for label, flags in (
        ("", COMPACTABLE),
        (" small", COMPACTABLE | BuildFlag.MINIMIZE_MEMORY),
        (" updatable", UPDATABLE),
        (" small updatable", UPDATABLE | BuildFlag.MINIMIZE_MEMORY),
        (" fast build", COMPACTABLE | BuildFlag.PREFER_FAST_BUILD),
    )
}
AFTER_UPDATES = "triangles after the last update"
BOTTOM_NAMES = [*RECIPES, AFTER_UPDATES]
TOP_NAMES = ["instances", "instances updatable", "no instances"]
NAMES = [*BOTTOM_NAMES, *TOP_NAMES]
"""Names of all samples, known without building any."""


@cache
def samples() -> dict[str, Sample]:
    """Every kind of live structure, by name."""
    found = {name: Sample(build_blas(inputs, flags), inputs) for name, (inputs, flags) in RECIPES.items()}
    final = update_blas(found["triangles updatable"].structure, MIXED, COMPACTABLE)
    found[AFTER_UPDATES] = Sample(final, MIXED)
    blases = {blas_address(0): found["triangles"].structure, blas_address(1): found["boxes"].structure}
    for name, flags in (("instances", COMPACTABLE), ("instances updatable", UPDATABLE)):
        found[name] = Sample(build_tlas(instance_table(PLACEMENTS), flags, blases=blases))
    found["no instances"] = Sample(build_tlas(instance_table([]), COMPACTABLE, blases=blases))
    return found


@cache
def dehydrated_samples() -> dict[str, Sample]:
    """Dehydrated structures with their inputs, by name."""
    found = {}
    for name, flags in (("dehydrated", BuildFlag.NONE), ("dehydrated small", BuildFlag.MINIMIZE_MEMORY)):
        found[name] = Sample(dehydrate(build_blas(MIXED, flags), MIXED), MIXED)
    return found


def with_geometry(index: int, **changes: object) -> BlasInputs:
    """MIXED with fields of one geometry changed."""
    geometries = list(MIXED.geometries)
    geometries[index] = replace(geometries[index], **changes)
    return replace(MIXED, geometries=tuple(geometries))


def moved_vertex(geometry: TrianglesGeometry) -> np.ndarray:
    """The vertices with one of them a little elsewhere."""
    vertices = geometry.vertices.copy()
    vertices[-1, 1] = np.nextafter(vertices[-1, 1], np.float32(np.inf))
    return vertices
