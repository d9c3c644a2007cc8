"""Small structures for the tests of files that hold them."""

from __future__ import annotations

import numpy as np

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag, GeometryFlag, InstanceFlag
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.io.structure_set import StructureSet
from rtviewer.scene.camera import Camera
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.document import World, build_world
from rtviewer.session.state import BuildSettings
from rtviewer.session.structures import set_of


def small_world(flags: BuildFlag = BuildFlag.NONE) -> World:
    """Triangles with a transform, an inactive and a degenerate one, boxes, an empty level, and a NULL instance."""
    random = np.random.default_rng(3)
    vertices = random.normal(0, 1, (60, 3)).astype(np.float32)
    vertices[7, 0] = np.nan
    indices = random.integers(8, 60, (40, 3)).astype(np.uint32)
    indices[3] = [7, 8, 9]
    indices[5] = [10, 10, 11]
    turned = np.array([[0, -1, 0, 0.3], [1.5, 0, 0, 0], [0, 0, 0.7, -0.1]], np.float32)
    boxes = np.array([[-1, -1, -1, 0, 0, 0], [0.2, 0.1, 0, 1, 1, 1], [2, 2, 2, 1, 1, 1]], np.float32)
    vertices_only = TrianglesGeometry(vertices[8:38], None, turned, name="second")
    moved = np.eye(3, 4, dtype=np.float32)
    moved[:, 3] = 3, 0, 0
    first = TrianglesGeometry(vertices, indices, None, GeometryFlag.OPAQUE, "first")
    scene = Scene(
        "small",
        (
            BlasInputs((first, vertices_only), "mesh / with a slash"),
            BlasInputs((AabbsGeometry(boxes, name="balls"),), "balls"),
            BlasInputs((), "nothing"),
        ),
        (
            Instance(0, instance_id=5, mask=0x7F, name="here"),
            Instance(1, moved, contribution=1, name="there"),
            Instance(0, -moved, flags=InstanceFlag.FORCE_NON_OPAQUE),
            Instance(-1),
            Instance(2),
        ),
        (Camera((1, 2, 8), (1, 0, 0), name="front"), Camera((0, 9, 0), (0, 0, 0), (0, 0, 1), 45, 4.0)),
        AnyHitProgram.IGNORE_ODD_PRIMITIVES,
        IntersectionProgram.BOX,
    )
    return build_world(scene, BuildSettings(flags, flags))


def small_set(flags: BuildFlag = BuildFlag.NONE) -> StructureSet:
    return set_of(small_world(flags))


def assert_same_sets(first: StructureSet, second: StructureSet) -> None:
    """Equal in all but the room that builds leave unused."""
    for field in (
        "name",
        "instance_names",
        "geometry_names",
        "cameras",
        "any_hit",
        "intersection",
        "blas_flags",
        "tlas_flags",
        "hit_groups",
    ):
        assert getattr(first, field) == getattr(second, field), field
    assert len(first.structures) == len(second.structures)
    for before, after in zip(first.structures, second.structures, strict=True):
        assert (before.name, before.address) == (after.name, after.address)
        assert after.size == before.used_size
        skip = 256  # the header states the size
        assert np.array_equal(before.data[skip : before.used_size], after.data[skip:])
