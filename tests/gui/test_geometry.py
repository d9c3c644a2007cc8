"""Vertex arrays and camera mathematics: pure numpy, no context."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rtviewer.dxr.flags import BuildFlag
from rtviewer.gui.gl import camera_control
from rtviewer.gui.gl.content import prepare, primitive_corners
from rtviewer.gui.gl.detail import full_counts, screen_sizes
from rtviewer.gui.gl.geometry import (
    BoxSource,
    box_segments,
    collect_boxes,
    exit_distance,
    instance_transforms,
    readable_depth,
    triangle_soup,
)
from rtviewer.io.registry import load_scene
from rtviewer.scene.camera import Camera
from rtviewer.session.document import build_world
from rtviewer.session.state import BuildSettings, Selection
from tests.gui.conftest import SCENES

CAMERAS = [
    Camera((3.0, 2.0, 4.0), (0.1, 0.2, -0.3)),
    Camera((0.0, 5.0, 0.0), (0.0, 0.0, 0.0), vertical_fov=80.0),
    Camera((1.0, 1.0, 9.0), (0.0, 0.0, 0.0), orthographic_height=4.0),
    Camera((1.0, -4.0, 2.0), (0.0, 0.0, 0.0), up=(0.0, 0.0, 1.0), vertical_fov=20.0),
]


@pytest.mark.parametrize("camera", CAMERAS)
def test_matrices_show_a_pixels_ray_at_that_pixel(camera):
    width, height = 640, 360
    columns, rows = np.array([0, 639, 320, 17]), np.array([0, 359, 180, 300])
    origin, direction = camera.rays(width, height, columns, rows)
    clip = camera_control.view_to_clip(camera, width / height, 0.01, 100.0) @ camera_control.world_to_view(camera)
    for t in (0.5, 3.0, 20.0):
        points = np.concatenate([origin + t * direction, np.ones((4, 1))], 1) @ clip.T
        x = (points[:, 0] / points[:, 3] + 1) / 2 * width
        y = (1 - points[:, 1] / points[:, 3]) / 2 * height
        np.testing.assert_allclose(x, columns + 0.5, atol=2e-3)
        np.testing.assert_allclose(y, rows + 0.5, atol=2e-3)


@pytest.mark.parametrize("camera", CAMERAS)
def test_pixel_of_is_the_inverse_of_rays(camera):
    origin, direction = camera.rays(200, 100, np.array([37]), np.array([81]))
    place = camera_control.pixel_of(camera, 200, 100, (origin + 2 * direction)[0].astype(float))
    assert place == pytest.approx((37.5, 81.5), abs=1e-3)
    behind = (origin - 2 * direction)[0].astype(float)
    if camera.orthographic_height is None:
        assert camera_control.pixel_of(camera, 200, 100, behind) is None


def distance(camera: Camera) -> float:
    return float(np.linalg.norm(np.subtract(camera.position, camera.look_at)))


@pytest.mark.parametrize("camera", CAMERAS)
def test_orbit_keeps_distance_target_and_horizon(camera):
    turned = camera
    for step in ((30, 10), (-80, 200), (5, -400), (170, 3)):
        turned = camera_control.orbit(turned, *step)
        assert distance(turned) == pytest.approx(distance(camera))
        assert turned.look_at == camera.look_at
        up = np.asarray(camera.up) / np.linalg.norm(camera.up)
        assert turned.basis()[1] @ up > 0  # never upside down
    assert turned.position != camera.position


def test_dragging_right_turns_the_scene_right():
    camera = Camera((0.0, 0.0, 5.0), (0.0, 0.0, 0.0))
    near = np.array([0.0, 0.0, 1.0])
    x_before, _ = camera_control.pixel_of(camera, 100, 100, near)
    x_after, _ = camera_control.pixel_of(camera_control.orbit(camera, 10, 0), 100, 100, near)
    assert x_after > x_before
    _, y_before = camera_control.pixel_of(camera, 100, 100, near)
    _, y_after = camera_control.pixel_of(camera_control.orbit(camera, 0, 10), 100, 100, near)
    assert y_after > y_before  # dragging down shows the scene from above


@pytest.mark.parametrize("camera", CAMERAS)
def test_pan_moves_what_is_looked_at_with_the_mouse(camera):
    centre = np.asarray(camera.look_at, float)
    x0, y0 = camera_control.pixel_of(camera, 300, 200, centre)
    x1, y1 = camera_control.pixel_of(camera_control.pan(camera, -0.1, 0.05), 300, 200, centre)
    assert (x1 - x0, y1 - y0) == pytest.approx((20, 10), abs=1e-6)


@pytest.mark.parametrize("camera", CAMERAS)
@pytest.mark.parametrize("aspect", [0.5, 1.0, 2.0])
def test_framed_shows_all_corners(camera, aspect):
    bounds = np.array([[-3.0, 10.0, 2.0], [5.0, 11.0, 7.0]])
    framed = camera_control.framed(camera, bounds, aspect)
    for corner in np.ndindex(2, 2, 2):
        point = np.array([bounds[corner[a], a] for a in range(3)])
        assert camera_control.pixel_of(framed, round(400 * aspect), 400, point) is not None


def test_zoom_scales_distance_and_orthographic_height():
    assert distance(camera_control.zoom(CAMERAS[0], 0.5)) == pytest.approx(distance(CAMERAS[0]) / 2)
    assert camera_control.zoom(CAMERAS[2], 0.5).orthographic_height == 2.0


@pytest.fixture(scope="module")
def flake(kernels_ready):
    return build_world(load_scene(SCENES / "sphereflake"))


@pytest.fixture(scope="module")
def lab(kernels_ready):
    return build_world(load_scene(SCENES / "culling_lab"))


def sources(world):
    top = world.tree(-1)
    found = [BoxSource(top, np.eye(3, 4, dtype=np.float32)[None], 0)]
    transforms = instance_transforms(world.tlas)
    for blas in range(len(world.blases)):
        found.append(BoxSource(world.tree(blas), transforms[world.instance_blas == blas], len(top.level_start) - 1))
    return found


def test_all_boxes_are_collected_when_the_budget_allows(flake):
    boxes = collect_boxes(sources(flake), 0, 4, 1_000_000)
    assert not boxes.budget_spent
    assert boxes.first_level == 0
    assert boxes.last_level == 4
    assert boxes.total == sum(len(s.tree) * len(s.transforms) for s in sources(flake))
    for level in range(5):
        first, last = boxes.range_of(level, level)
        assert last - first == sum(s.level_size(level) for s in sources(flake))
        codes = boxes.rows["code"][first:last]
        assert set(np.unique(codes // 2)) == {level}


def test_a_budget_keeps_coarse_levels_and_admits_it(flake):
    boxes = collect_boxes(sources(flake), 0, -1, 1000)
    assert boxes.budget_spent
    assert len(boxes.rows) == 1000 < boxes.total
    whole = collect_boxes(sources(flake), 0, -1, 100_000)
    np.testing.assert_array_equal(boxes.rows, whole.rows[:1000])
    assert boxes.last_level == 4
    assert boxes.covers(0, 3)
    assert boxes.covers(3, 3)
    assert not boxes.covers(4, 4)
    later = collect_boxes(sources(flake), 4, 4, 1000)
    assert later.first_level == 4
    assert len(later.rows) > 0


def test_every_placed_box_encloses_its_children_and_its_triangles(lab):
    soups = prepare(lab).soups
    for index, blas in enumerate(lab.blases):
        soup, bounds = triangle_soup(blas), blas.bounds
        assert len(soup) == int(blas.header["active_count"]) or len(blas.box_packs)
        if len(soup):
            np.testing.assert_array_equal(soup.reshape(-1, 3).min(0), bounds[0])
            np.testing.assert_array_equal(soup.reshape(-1, 3).max(0), bounds[1])
        elif bounds is None:
            assert not int(blas.header["active_count"])  # nothing there that could be drawn
            assert not len(soups[index])
        else:
            assert len(soups[index])
            assert np.all(soups[index] >= bounds[0] - 1e-4)
            assert np.all(soups[index] <= bounds[1] + 1e-4)


def test_every_triangle_drawn_knows_its_geometry(lab):
    prepared = prepare(lab)
    first = 0
    for blas, soup, surfaces in zip(lab.blases, prepared.soups, prepared.surfaces, strict=True):
        count = len(blas.geometries)
        assert len(surfaces) == len(soup)
        assert set(surfaces) <= set(range(first, first + count))
        if not blas.is_procedural:
            share = np.bincount(surfaces - first, minlength=count)
            assert list(share) == list(blas.geometries["active_count"])
        first += count


def test_a_small_layout_is_drawn_like_the_default_one(lab):
    small = build_world(lab.scene, BuildSettings(BuildFlag.MINIMIZE_MEMORY))
    assert any(blas.is_indexed for blas in small.blases)
    for one, other in zip(lab.blases, small.blases, strict=True):
        here, there = (np.unique(triangle_soup(s).reshape(-1, 9), axis=0) for s in (one, other))
        np.testing.assert_array_equal(here, there)
    selection = Selection(structure=0, geometry=0, primitive=5)
    np.testing.assert_array_equal(primitive_corners(small, selection), primitive_corners(lab, selection))


def test_the_readable_depth_is_the_last_one_within_the_limit(flake):
    every = sources(flake)
    sizes = [sum(source.level_size(level) for source in every) for level in range(6)]
    assert readable_depth(every, sum(sizes[:3])) == 2
    assert readable_depth(every, sum(sizes[:3]) - 1) == 1
    assert readable_depth(every, 0) == 0
    assert readable_depth(every, 10**9) == -1
    assert readable_depth([], 5) == -1


def test_box_edges_are_twelve_and_placed():
    move = np.array([[2, 0, 0, 10], [0, 1, 0, 0], [0, 0, 1, 0]], np.float32)
    rows = box_segments(np.zeros(3, np.float32), np.ones(3, np.float32), move, (1, 0, 0, 1), 2.0)
    ends = np.concatenate([rows["from"], rows["to"]])
    lengths = np.linalg.norm(rows["to"] - rows["from"], axis=1)
    assert sorted(lengths) == [1] * 8 + [2] * 4
    assert (ends[:, 0].min(), ends[:, 0].max()) == (10, 12)
    assert len({tuple(sorted([tuple(a), tuple(b)])) for a, b in zip(rows["from"], rows["to"], strict=True)}) == 12


def test_a_ray_without_end_is_drawn_past_the_scene():
    bounds = np.array([[-1.0, -1, -1], [1, 1, 1]])
    for scale in (1.0, 0.01):
        far = exit_distance(bounds, np.array([0.0, 0, 10]), np.array([0.0, 0, -scale]))
        assert 10 - far * scale < -1


def test_camera_names_do_not_outlive_a_move():
    named = replace(CAMERAS[0], name="front")
    assert camera_control.orbit(named, 1, 0).name == ""


def test_the_largest_on_screen_are_drawn_in_full_within_the_budget():
    near, far = np.eye(3, 4, dtype=np.float32), np.eye(3, 4, dtype=np.float32)
    far[2, 3] = -50
    bounds = np.array([[-1, -1, -1], [1, 1, 1]], np.float32)
    camera = Camera((0.0, 0.0, 5.0), (0.0, 0.0, 0.0))
    sizes = screen_sizes(camera, bounds, np.stack([far, near, far * np.float32([[4, 4, 4, 1]] * 3)]))
    assert list(np.argsort(-sizes)) == [1, 2, 0]
    assert np.isinf(screen_sizes(Camera((0.5, 0.0, 0.0), (0.0, 0.0, 0.0)), bounds, near[None]))[0]
    orders, counts = full_counts([sizes, np.array([1e-6])], [100, 10], 230)
    assert list(orders[0]) == [1, 2, 0]
    assert counts == [2, 0]
    assert full_counts([sizes], [1000], 10)[1] == [1]
    assert full_counts([sizes], [1], 10)[1] == [3]
    assert full_counts([], [], 10) == ([], [])
