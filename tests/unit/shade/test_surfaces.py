"""Rays that start on a surface do not meet the primitive they start from, at any scale and under any transform."""

import numpy as np
import pytest

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, TrianglesGeometry
from rtviewer.dxr.programs import IntersectionProgram
from rtviewer.scene.generators import icosphere, soup
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.document import build_world
from rtviewer.shade.normals import HitPlaces
from rtviewer.shade.surfaces import OFFSET, surface_points
from rtviewer.trace.request import RayBatch, TraceSettings

RAYS = 4000


def hits_of(world, batch, settings):
    hits = world.dispatcher().trace(batch, settings).hits
    at = np.flatnonzero(hits.hit)
    places = HitPlaces(
        hits.instance_index[at], hits.geometry_index[at], hits.primitive_index[at], hits.hit_kind[at],
        batch.origin[at], batch.direction[at], hits.t[at],
    )  # fmt: skip
    return hits, at, places


def points_of(world, batch, settings, rows=slice(None)):
    hits, at, places = hits_of(world, batch, settings)
    places = places.part(np.arange(len(at))[rows])
    transforms = world.tlas.instance_descs["Transform"]
    program = IntersectionProgram(int(settings.intersection))
    return places, surface_points(
        places, hits.attributes[at][rows], world.scene, world.instance_blas, transforms, program
    )


def rays_at(bounds, seed=0, count=RAYS):
    """Rays from outside towards points of the bounds."""
    rng = np.random.default_rng(seed)
    centre, size = bounds.mean(0), np.ptp(bounds, axis=0)
    target = rng.uniform(bounds[0], bounds[1], (count, 3))
    away = rng.normal(size=(count, 3))
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    origin = centre + away * np.linalg.norm(size) * 1.5
    return RayBatch.make(origin.astype(np.float32), (target - origin).astype(np.float32))


def rotation(seed):
    q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    return q


def placed(linear, translation):
    return np.concatenate([linear, np.reshape(translation, (3, 1))], 1).astype(np.float32)


SQUEEZED = rotation(3) @ np.diag([30.0, 1.0, 0.02]) @ rotation(4)
TRANSFORMS = {
    "identity": placed(np.eye(3), [0, 0, 0]),
    "rotated": placed(rotation(1), [0.3, -2, 5]),
    "far": placed(rotation(2), [20_000, -3_000, 70_000]),
    "tiny": placed(1e-4 * rotation(5), [1e-3, 0, 2e-3]),
    "tiny, far": placed(1e-3 * rotation(5), [50, 60, 70]),
    "huge": placed(1e6 * rotation(6), [0, 1e5, 0]),
    "mirrored": placed(np.diag([-1.0, 1, 1]), [3, 0, 0]),
    "squeezed": placed(SQUEEZED, [1, 2, 3]),
}
OFFSETS = {"at the origin": (0.0, 0.0, 0.0), "far in object space": (5_000.0, 0.0, -9_000.0)}


def sphere_mesh(offset):
    mesh = icosphere(3, 1.0, offset)
    return TrianglesGeometry(mesh.vertices, mesh.indices)


def soup_mesh(offset):
    mesh = soup(300, 10.0, seed=4)
    return TrianglesGeometry((mesh.vertices + np.float32(offset)).astype(np.float32), mesh.indices)


def balls(offset):
    low = np.random.default_rng(0).uniform(-5, 5, (60, 3)) + offset
    return AabbsGeometry(np.concatenate([low, low + 1.5], 1).astype(np.float32))


def floor(offset):
    """Two triangles of which one corner is far away."""
    corners = np.array([[-1, 0, -1], [4000, 0, -1], [-1, 0, 4000], [4000, 0.5, 4000]]) + np.asarray(offset)
    return TrianglesGeometry(corners.astype(np.float32), np.array([[0, 2, 1], [1, 2, 3]], np.uint32))


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    ("geometry", "program"),
    [
        (sphere_mesh, IntersectionProgram.SPHERE),
        (soup_mesh, IntersectionProgram.SPHERE),
        (floor, IntersectionProgram.SPHERE),
        (balls, IntersectionProgram.SPHERE),
        (balls, IntersectionProgram.BOX),
    ],
)
def test_no_ray_away_from_a_surface_meets_where_it_starts(geometry, program, transform, offset):
    inputs = BlasInputs((geometry(OFFSETS[offset]),))
    world = build_world(Scene("s", (inputs,), (Instance(0, TRANSFORMS[transform]),)))
    settings = TraceSettings(intersection=program)
    places, points = points_of(world, rays_at(world.bounds), settings)
    assert len(places.t) > 20
    directions = np.random.default_rng(1).normal(size=points.normal.shape)
    directions *= np.sign((directions * points.normal).sum(1))[:, None]
    grazing = np.arange(len(directions)) % 4 == 0  # a quarter nearly along the surface
    along = directions - (directions * points.normal).sum(1)[:, None] * points.normal
    directions[grazing] = along[grazing] + 1e-3 * points.normal[grazing] * np.linalg.norm(
        along[grazing], axis=1, keepdims=True
    )
    batch = RayBatch.make(points.origins(), directions.astype(np.float32))
    again = world.dispatcher().trace(batch, settings).hits
    same = (
        again.hit
        & (again.instance_index == places.instance)
        & (again.geometry_index == places.geometry)
        & (again.primitive_index == places.primitive)
    )
    assert np.count_nonzero(same) == 0


def test_the_offset_is_small_beside_the_scene():
    world = build_world(Scene("s", (BlasInputs((sphere_mesh((0, 0, 0)),)),), (Instance(0),)))
    _, points = points_of(world, rays_at(world.bounds), TraceSettings())
    lifted = np.linalg.norm(points.origins() - points.point, axis=1)
    assert lifted.max() < 1e-5
    assert np.all(lifted > 0)
    assert np.allclose(lifted, OFFSET * points.reach, rtol=0.2)


def test_without_the_offset_rays_do_meet_their_own_surface():
    """The test above can fail."""
    world = build_world(Scene("s", (BlasInputs((sphere_mesh((0, 0, 0)),)),), (Instance(0, TRANSFORMS["far"]),)))
    places, points = points_of(world, rays_at(world.bounds), TraceSettings())
    batch = RayBatch.make(points.point.astype(np.float32), points.normal.astype(np.float32))
    again = world.dispatcher().trace(batch, TraceSettings()).hits
    assert np.count_nonzero(again.hit & (again.primitive_index == places.primitive)) > 0


def test_points_lie_on_the_ray_and_normals_face_it():
    geometries = (sphere_mesh((0, 0, 0)), soup_mesh((0, 0, 0)))
    world = build_world(Scene("s", (BlasInputs(geometries),), (Instance(0, TRANSFORMS["squeezed"]),)))
    places, points = points_of(world, rays_at(world.bounds), TraceSettings())
    on_ray = places.origin + places.t[:, None].astype(np.float64) * places.direction
    away = np.abs(((points.point - on_ray) * points.normal).sum(1))
    assert away.max() < 1e-3
    assert (OFFSET * points.reach).max() < 1e-3
    assert np.all((points.normal * places.direction).sum(1) <= 0)
    assert np.abs(np.linalg.norm(points.normal, axis=1) - 1).max() < 1e-6


def test_a_point_is_the_same_alone_and_among_others():
    inputs = (BlasInputs((sphere_mesh((0, 0, 0)), soup_mesh((1, 0, 0)))), BlasInputs((balls((0, 0, 0)),)))
    instances = tuple(Instance(i % 2, transform) for i, transform in enumerate(TRANSFORMS.values()))
    world = build_world(Scene("s", inputs, instances[:5]))
    batch = rays_at(np.array([[-6.0, -6, -6], [6, 6, 6]]))
    _, whole = points_of(world, batch, TraceSettings())
    assert len(whole.reach) > 100
    for rows in ([0], [17], [3, 99], list(range(40, 47))):
        _, part = points_of(world, batch, TraceSettings(), np.array(rows))
        for name in ("point", "normal", "reach"):
            assert np.array_equal(getattr(part, name), getattr(whole, name)[rows]), name


@pytest.mark.parametrize("program", [IntersectionProgram.SPHERE, IntersectionProgram.BOX])
def test_points_of_procedurals_lie_on_their_surface(program):
    world = build_world(Scene("s", (BlasInputs((balls((0, 0, 0)),)),), (Instance(0),)))
    settings = TraceSettings(intersection=program)
    places, points = points_of(world, rays_at(world.bounds), settings)
    boxes = world.scene.blases[0].geometries[0].aabbs[places.primitive].astype(np.float64)
    centre, half = (boxes[:, :3] + boxes[:, 3:]) / 2, (boxes[:, 3:] - boxes[:, :3]) / 2
    away = np.abs(points.point - centre)
    if program is IntersectionProgram.SPHERE:
        assert np.abs(np.linalg.norm(away, axis=1) - half.min(1)).max() < 1e-12
    else:
        assert np.all((away == half).any(axis=1) | (np.abs(away - half).min(1) < 1e-15))


def test_a_point_that_no_built_in_program_means_stays_on_the_ray():
    world = build_world(Scene("s", (BlasInputs((balls((0, 0, 0)),)),), (Instance(0),)))
    settings = TraceSettings(intersection=IntersectionProgram.REPORT_T, report_t=0.25)
    batch = rays_at(world.bounds)
    places, points = points_of(world, batch, settings)
    assert len(places.t) > 100
    assert np.allclose(points.point, places.origin + 0.25 * places.direction, atol=1e-5)


def test_no_hits_have_no_points():
    world = build_world(Scene("s", (BlasInputs((sphere_mesh((0, 0, 0)),)),), (Instance(0),)))
    batch = RayBatch.make([[0, 0, 9]], [[0, 0, 1]])
    _, points = points_of(world, batch, TraceSettings())
    assert points.origins().shape == (0, 3)
