from __future__ import annotations

import numpy as np
import pytest

from rtviewer.scene.camera import Camera, aimed, fitting_camera


def test_rays_go_through_pixel_centres_with_0_0_top_left() -> None:
    camera = Camera((0, 0, 5), (0, 0, 0), vertical_fov=90.0)
    origin, direction = camera.rays(4, 2, np.array([0, 3, 1]), np.array([0, 1, 0]))
    assert origin.tolist() == [[0, 0, 5]] * 3
    np.testing.assert_allclose(
        direction / -direction[:, 2:], [[-1.5, 0.5, -1], [1.5, -0.5, -1], [-0.5, 0.5, -1]], atol=1e-6
    )
    np.testing.assert_allclose(np.linalg.norm(direction, axis=1), 1, atol=1e-6)


def test_orthographic_rays_are_parallel() -> None:
    camera = Camera((0, 0, 5), (0, 0, 0), orthographic_height=4.0)
    origin, direction = camera.rays(2, 2, np.array([0, 1]), np.array([0, 1]))
    assert direction.tolist() == [[0, 0, -1]] * 2
    assert origin.tolist() == [[-1, 1, 5], [1, -1, 5]]


@pytest.mark.parametrize("up", [(0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (1.0, 1.0, 1.0)])
def test_looking_along_up_still_gives_a_frame(up: tuple[float, float, float]) -> None:
    basis = Camera((0, 0, 0), up, up=up).basis()
    np.testing.assert_allclose(basis @ basis.T, np.eye(3), atol=1e-9)


@pytest.mark.parametrize("bounds", [None, np.array([[0.0, 0, 0], [0, 0, 0]]), np.array([[-1.0, -2, -3], [4, 5, 6]])])
def test_the_fitting_camera_sees_the_bounds(bounds: np.ndarray | None) -> None:
    camera = fitting_camera(bounds)
    assert np.isfinite(camera.position).all()
    corners = np.array([[-1.0, -1, -1], [1, 1, 1]]) if bounds is None else bounds
    centre = corners.mean(axis=0)
    np.testing.assert_allclose(camera.look_at, centre)
    right, up, forward = camera.basis()
    np.testing.assert_allclose(forward, np.array([-1, -0.7, -1]) / np.linalg.norm([-1, -0.7, -1]), atol=1e-9)
    seen = np.array([[x, y, z] for x in corners[:, 0] for y in corners[:, 1] for z in corners[:, 2]]) - camera.position
    limit = np.tan(np.radians(camera.vertical_fov / 2)) * (1 + 1e-9)
    assert (np.abs(seen @ up) <= limit * (seen @ forward)).all()
    assert (np.abs(seen @ right) <= limit * (seen @ forward)).all()


def test_bounds_as_large_as_float32_give_a_camera_without_a_crash() -> None:
    largest = float(np.finfo(np.float32).max)
    camera = fitting_camera(np.array([[-largest] * 3, [largest] * 3]))
    origin, direction = camera.rays(1, 1, np.array([0]), np.array([0]))
    assert np.isinf(origin).all()
    np.testing.assert_allclose(np.linalg.norm(direction), 1, atol=1e-6)


def test_a_camera_is_aimed_at_the_depth_of_the_scene_and_sees_the_same() -> None:
    bounds = np.array([[-1.0, -1.0, -11.0], [3.0, 1.0, -9.0]])
    camera = Camera((0.0, 0.0, 0.0), (0.0, 0.0, -1.0))
    turned = aimed(camera, bounds)
    assert turned.look_at == (0.0, 0.0, -10.0)
    column, row = np.array([3]), np.array([1])
    for a, b in zip(camera.rays(8, 4, column, row), turned.rays(8, 4, column, row), strict=True):
        np.testing.assert_array_equal(a, b)
    assert aimed(camera, -bounds) is camera
    assert aimed(camera, None) is camera
