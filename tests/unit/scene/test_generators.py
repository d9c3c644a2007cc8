from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rtviewer.scene import generators
from rtviewer.scene.mesh import Mesh, joined

CLOSED: list[tuple[str, Callable[[], Mesh], int, float]] = [
    ("box", generators.box, 12, 8.0),
    ("icosahedron", lambda: generators.icosphere(0), 20, 2.5361507),
    ("sphere", lambda: generators.icosphere(4), 20 * 4**4, 4.0 / 3.0 * np.pi),
    ("torus", lambda: generators.torus(1.0, 0.25, 200, 100), 2 * 200 * 100, 2 * np.pi**2 * 0.25**2),
]
FAMILY: list[Callable[[], Mesh]] = [
    generators.quad, generators.box, generators.icosphere, generators.torus, generators.bowl, generators.wave,
    generators.soup, generators.city,
]  # fmt: skip


def corners(mesh: Mesh) -> np.ndarray:
    return mesh.vertices.astype(np.float64)[mesh.indices]


def normals(mesh: Mesh) -> np.ndarray:
    a, b, c = np.moveaxis(corners(mesh), 1, 0)
    return np.cross(b - a, c - a)


@pytest.mark.parametrize(("make", "triangles", "volume"), [c[1:] for c in CLOSED], ids=[c[0] for c in CLOSED])
def test_closed_meshes_are_closed_and_face_outwards(make: Callable[[], Mesh], triangles: int, volume: float) -> None:
    mesh = make()
    a, b, c = np.moveaxis(corners(mesh), 1, 0)
    assert len(mesh.indices) == triangles
    np.testing.assert_allclose((a * np.cross(b, c)).sum() / 6, volume, rtol=0.01)  # positive: fronts are outside
    edges = mesh.indices[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2).tolist()
    directed = {tuple(edge) for edge in edges}
    assert len(directed) == len(edges)
    assert all((b, a) in directed for a, b in directed)  # each edge is used once in each direction


@pytest.mark.parametrize("make", FAMILY, ids=lambda make: make.__name__)
def test_types_range_and_determinism(make: Callable[[], Mesh]) -> None:
    mesh, again = make(), make()
    assert (mesh.vertices.dtype, mesh.indices.dtype) == (np.float32, np.uint32)
    assert mesh.vertices.flags.c_contiguous
    assert mesh.indices.flags.c_contiguous
    assert mesh.indices.max() == len(mesh.vertices) - 1
    assert mesh.vertices.tobytes() == again.vertices.tobytes()
    assert mesh.indices.tobytes() == again.indices.tobytes()
    assert (np.linalg.norm(normals(mesh), axis=1) > 0).all()


def test_fronts_of_open_meshes() -> None:
    quad = generators.quad((0, 0, 0), (2, 0, 0), (0, 3, 0), divisions=5)
    assert len(quad.indices) == 50
    np.testing.assert_allclose(normals(quad).sum(axis=0), [0, 0, 12], atol=1e-5)
    assert (normals(generators.wave())[:, 1] > 0).all()
    bowl = generators.bowl(2.0, 90.0)
    assert ((normals(bowl) * corners(bowl).mean(axis=1)).sum(axis=1) > 0).all()
    assert bowl.vertices[:, 1].max() == pytest.approx(0, abs=1e-6)
    assert bowl.vertices[:, 1].min() == -2


def test_random_ones_follow_their_seed() -> None:
    assert generators.soup(9, seed=1).vertices.tobytes() != generators.soup(9, seed=2).vertices.tobytes()
    assert generators.random_boxes(9, seed=1).tobytes() != generators.random_boxes(9, seed=2).tobytes()
    assert generators.random_boxes(9, seed=1).tobytes() == generators.random_boxes(9, seed=1).tobytes()


def test_boxes() -> None:
    boxes = generators.random_boxes(200, 4.0, 0.1, 0.3)
    size = boxes[:, 3:] - boxes[:, :3]
    assert boxes.dtype == np.float32
    assert size.min() > 0.099
    assert size.max() < 0.301
    assert np.abs(boxes[:, :3] + size / 2).max() <= 2.0
    lattice = generators.lattice_boxes((2, 1, 3), spacing=2.0, edge=1.0)
    assert lattice[:2].tolist() == [[-1.5, -0.5, -2.5, -0.5, 0.5, -1.5], [0.5, -0.5, -2.5, 1.5, 0.5, -1.5]]
    assert len(lattice) == 6


@pytest.mark.parametrize(("depth", "count"), [(0, 1), (1, 10), (2, 91), (3, 820)])
def test_sphereflake_spheres_touch_their_parents(depth: int, count: int) -> None:
    placements = generators.sphereflake_placements(depth)
    assert placements.shape == (count, 3, 4)
    linear, centres = placements[:, :, :3], placements[:, :, 3]
    radius = np.cbrt(np.linalg.det(linear))
    np.testing.assert_allclose(linear @ np.swapaxes(linear, 1, 2), radius[:, None, None] ** 2 * np.eye(3), atol=1e-12)
    for child in range(1, count):
        parent = (child - 1) // 9
        distance = np.linalg.norm(centres[child] - centres[parent])
        assert radius[child] == pytest.approx(radius[parent] / 3)
        assert distance == pytest.approx(radius[child] + radius[parent])
    # Away from the grandparent: no sphere sits where its parent is attached.
    for child in range(10, count):
        parent = (child - 1) // 9
        grandparent = (parent - 1) // 9
        out, along = centres[child] - centres[parent], centres[parent] - centres[grandparent]
        assert out @ along >= -1e-12


def test_joined_keeps_order_and_offsets() -> None:
    both = joined([generators.box(), generators.quad()])
    assert len(both.indices) == 14
    assert both.indices[12:].min() == 8
    assert len(joined([]).indices) == 0


def test_reversed_turns_every_triangle() -> None:
    box = generators.box()
    np.testing.assert_allclose(normals(box.reversed()), -normals(box))
