"""No ray passes between triangles of a closed mesh, and what they share belongs to exactly one of them.

The full size, beside Embree, is part of ``./run bench cracks``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from rtviewer.scene.camera import Camera
from rtviewer.scene.mesh import Mesh
from rtviewer.trace.request import RayBatch, TraceSettings
from tests.bench.cracks import ASIDE, CENTRE, ClosedMesh, edge_middles, rays_at
from tests.bench.product import HIT_ONLY, SHADOW
from tests.bench.scenes import BenchScene, displaced_sphere

SUBDIVISIONS = 5
"""20,480 triangles, 10,242 vertices, 30,720 edges."""


@pytest.fixture(scope="module")
def sphere() -> BenchScene:
    return BenchScene("sphere", displaced_sphere(SUBDIVISIONS), Camera((0, 0, 3), (0, 0, 0)), (3, 4, 3))


@pytest.fixture(scope="module")
def closed(sphere: BenchScene) -> ClosedMesh:
    return ClosedMesh(sphere)


def targets_of(mesh: Mesh, place: str) -> NDArray[np.float32]:
    return mesh.vertices if place == "vertices" else edge_middles(mesh)


def in_packets(rays: RayBatch, seed: int) -> RayBatch:
    """The rays in an order in which neighbours in the batch are neighbours in space, so that they share packets."""
    places = np.lexsort(np.round(rays.direction.T * 16))
    order = places if seed == 0 else np.random.default_rng(seed).permutation(len(rays))
    columns = (rays.origin, rays.direction, rays.t_min, rays.t_max)
    return RayBatch(*(np.ascontiguousarray(column[order]) for column in columns))


PLACES = pytest.mark.parametrize("place", ["vertices", "edge middles"])
ORIGINS = pytest.mark.parametrize("origin", [CENTRE, ASIDE], ids=["centre", "aside"])


@pytest.mark.rule("TRI-3", "TRI-5")
@PLACES
@ORIGINS
@pytest.mark.parametrize("seed", [0, 1], ids=["neighbours", "shuffled"])
def test_no_ray_from_inside_escapes(
    place: str, origin: tuple[float, float, float], seed: int, sphere: BenchScene, closed: ClosedMesh
) -> None:
    rays = in_packets(rays_at(targets_of(sphere.mesh, place), origin), seed)
    assert closed.misses(rays) == 0
    assert closed.opaque.trace(rays, TraceSettings(ray_flags=SHADOW, **HIT_ONLY)).hits.hit.all()


@pytest.mark.rule("TRI-3", "TRI-5")
@PLACES
def test_from_the_centre_each_ray_has_exactly_one_owner(place: str, sphere: BenchScene, closed: ClosedMesh) -> None:
    crossings = closed.crossings(rays_at(targets_of(sphere.mesh, place), CENTRE))
    assert np.unique(crossings.back).tolist() == [1]
    assert np.unique(crossings.front).tolist() == [0]


@pytest.mark.rule("TRI-3", "TRI-5")
@PLACES
def test_from_aside_a_ray_leaves_once_more_than_it_enters(place: str, sphere: BenchScene, closed: ClosedMesh) -> None:
    crossings = closed.crossings(rays_at(targets_of(sphere.mesh, place), ASIDE))
    assert np.unique(crossings.back - crossings.front).tolist() == [1]
    assert crossings.front.max() > 0


@pytest.mark.rule("TRI-2")
@PLACES
@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e10, 1e30])
def test_it_holds_at_every_size(place: str, scale: float, sphere: BenchScene) -> None:
    small = displaced_sphere(3)
    mesh = Mesh.of(small.vertices.astype(np.float64) * scale, small.indices)
    closed = ClosedMesh(replace(sphere, mesh=mesh))
    rays = rays_at(targets_of(mesh, place), CENTRE)
    assert closed.misses(rays) == 0
    crossings = closed.crossings(rays)
    assert np.unique(crossings.back).tolist() == [1]
    assert np.unique(crossings.front).tolist() == [0]


def test_a_hole_and_a_doubled_triangle_are_noticed(sphere: BenchScene) -> None:
    small = displaced_sphere(2)
    rays = rays_at(edge_middles(small), CENTRE)
    holed = ClosedMesh(replace(sphere, mesh=Mesh(small.vertices, np.ascontiguousarray(small.indices[1:]))))
    assert holed.misses(rays) > 0
    doubled = Mesh(small.vertices, np.concatenate([small.indices, small.indices[:1]]))
    assert ClosedMesh(replace(sphere, mesh=doubled)).crossings(rays).back.max() == 2
