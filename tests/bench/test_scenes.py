"""Meshes, rays and boxes of the measurements are what they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rtviewer.trace.request import TraceSettings
from tests.bench.product import ProductTree, trace_settings
from tests.bench.scenes import FULL, QUICK, SCENES, TINY, foliage, hall, primary_rays, secondary_rays


@pytest.mark.parametrize("name", list(SCENES))
def test_a_scene_is_the_same_every_time(name: str) -> None:
    size = replace(TINY, name="test")
    first, second = SCENES[name](size), SCENES[name](size)
    np.testing.assert_array_equal(first.mesh.vertices, second.mesh.vertices)
    np.testing.assert_array_equal(first.mesh.indices, second.mesh.indices)
    assert first.mesh.indices.max(initial=0) <= len(first.mesh.vertices)
    assert np.isfinite(first.mesh.vertices).all()
    if first.boxes is not None:
        np.testing.assert_array_equal(first.boxes, second.boxes)
    assert first.primitive_count > 0


def test_full_scenes_have_the_sizes_that_targets_speak_of() -> None:
    assert len(hall().indices) == 273_344
    assert FULL.soup == 1_000_000
    assert 20 * 4**FULL.sphere == 1_310_720
    assert FULL.strands * 2 * 40 == 480_000
    assert FULL.instances == QUICK.instances == 10_000


def test_sixteen_rays_that_follow_each_other_are_a_block_of_pixels() -> None:
    scene = SCENES["torus"](TINY)
    rays = primary_rays(scene, 128)
    right, up, forward = scene.camera.basis()
    depth = rays.direction @ forward
    half = 64 / np.tan(np.radians(scene.camera.vertical_fov) / 2)
    column = np.floor(64 + half * (rays.direction @ right) / depth).astype(int)
    row = np.floor(64 - half * (rays.direction @ up) / depth).astype(int)
    assert len(np.unique(row * 128 + column)) == 128 * 128
    for axis in (column, row):
        blocks = axis.reshape(-1, 16)
        assert (blocks.max(1) - blocks.min(1) == 3).all()
        tiles = axis.reshape(-1, 64 * 64)
        assert (tiles.max(1) - tiles.min(1) == 63).all()


def test_bounces_leave_the_surface_and_shadow_rays_end_at_the_light() -> None:
    scene = SCENES["instances"](TINY)
    rays = primary_rays(scene, TINY.pixels)
    hits = ProductTree(scene).dispatcher.trace(rays, TraceSettings()).hits
    diffuse, shadow = secondary_rays(scene, rays, hits)
    assert len(diffuse) == len(shadow) == hits.hit.sum() > 20
    reached = rays.origin[hits.hit] + rays.direction[hits.hit] * hits.t[hits.hit, None]
    np.testing.assert_allclose(diffuse.origin, reached, atol=1e-3)
    ends = shadow.origin + shadow.direction * shadow.t_max[:, None]
    assert np.abs(ends - np.asarray(scene.light)).max() < 0.5
    np.testing.assert_allclose(np.linalg.norm(diffuse.direction, axis=1), 1, atol=1e-5)


def test_leaves_are_two_triangles_of_which_the_odd_one_is_a_hole() -> None:
    scene = SCENES["foliage"](TINY)
    mesh = foliage(50)
    assert len(mesh.indices) == 100
    corners = mesh.vertices[mesh.indices].astype(np.float64)
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    np.testing.assert_allclose(area[0::2], area[1::2], rtol=1e-4)
    rays = primary_rays(scene, TINY.pixels)
    dispatcher = ProductTree(scene).dispatcher
    seen = dispatcher.trace(rays, trace_settings(scene, occlusion=False)).hits.primitive_index
    everything = dispatcher.trace(rays, TraceSettings()).hits.primitive_index
    assert (seen[seen >= 0] % 2 == 0).all()
    assert (everything[everything >= 0] % 2 == 1).any()


def test_a_quarter_of_the_bounces_starts_inside_a_sphere() -> None:
    scene = SCENES["spheres"](TINY)
    rays = primary_rays(scene, TINY.pixels)
    hits = ProductTree(scene).dispatcher.trace(rays, TraceSettings()).hits
    diffuse, shadow = secondary_rays(scene, rays, hits)
    assert scene.boxes is not None
    # The box's middle is where the intersection program puts the sphere.
    centre, radius = scene.boxes.reshape(-1, 2, 3).mean(1), (scene.boxes[:, 3] - scene.boxes[:, 0]) / 2
    surface = np.linalg.norm(
        rays.origin[hits.hit]
        + rays.direction[hits.hit] * hits.t[hits.hit, None]
        - centre[hits.primitive_index[hits.hit]],
        axis=1,
    )
    np.testing.assert_allclose(surface, radius[hits.primitive_index[hits.hit]], rtol=1e-4)
    inside = (np.linalg.norm(diffuse.origin[:, None] - centre, axis=2) < radius * 0.999).any(1)
    assert inside[::4].all()
    assert inside.mean() < 0.3
    np.testing.assert_array_equal(diffuse.origin, shadow.origin)
