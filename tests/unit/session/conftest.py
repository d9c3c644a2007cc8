"""A small world with one of everything a ray can meet, built once."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag, InstanceFlag
from rtviewer.scene.camera import Camera
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.commands import Session
from rtviewer.session.document import Document, World, build_world

# Outward counter-clockwise: front faces by FACE-1.
QUAD = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], np.float32)
QUAD_INDICES = np.array([[0, 1, 2], [0, 2, 3]], np.uint32)


def moved(x: float, y: float, z: float, scale: float = 1.0) -> np.ndarray:
    matrix = np.eye(3, 4, dtype=np.float32) * np.float32(scale)
    matrix[:, 3] = x, y, z
    return matrix


@pytest.fixture(scope="session")
def scene() -> Scene:
    """Seen from +z, one behind the other: pane 0 (mask 2), pane 1 (non-opaque), pane 2 (back to the camera), pane 3.

    Beside them a sphere (4), an instance without a structure (5), one that is flat (6) and one of an empty level (7).
    """
    opaque = TrianglesGeometry(QUAD, QUAD_INDICES, flags=GeometryFlag.OPAQUE, name="opaque")
    clear = TrianglesGeometry(QUAD, QUAD_INDICES, name="clear")
    sphere = AabbsGeometry(np.array([[-1, -1, -1, 1, 1, 1]], np.float32), name="sphere")
    turned = moved(0, 0, -2)
    turned[0, 0] = turned[2, 2] = -1
    flat = moved(6, 0, 0)
    flat[2, 2] = 0
    return Scene(
        "lab",
        (
            BlasInputs((opaque,), "pane"),
            BlasInputs((opaque, clear), "two panes"),
            BlasInputs((sphere,), "ball"),
            BlasInputs((), "nothing"),
        ),
        (
            Instance(0, moved(0, 0, 0), mask=0x02, instance_id=70),
            Instance(0, moved(0, 0, -1), flags=InstanceFlag.FORCE_NON_OPAQUE, instance_id=71),
            Instance(0, turned, instance_id=72),
            Instance(1, moved(0, 0, -3), instance_id=73, contribution=5),
            Instance(2, moved(3, 0, 0), instance_id=74),
            Instance(-1),
            Instance(0, flat),
            Instance(3),
        ),
        (Camera((0, 0, 10), (0, 0, 0), name="front"), Camera((0, 0, -10), (0, 0, 0), name="behind")),
    )


@pytest.fixture(scope="session")
def world(scene: Scene) -> World:
    return build_world(scene)


@pytest.fixture
def live(world, scene):
    """A session that traces and colours by itself, with its first picture finished."""
    session = Session(live=True, threads=2)
    session.set_image_size(64, 36)
    session.show_document(Document(None, scene, world))
    assert session.wait()
    yield session
    session.close()
