"""The swirl that update experiments deform meshes with."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, TrianglesGeometry
from rtviewer.scene.deform import deformed
from rtviewer.scene.generators import wave
from rtviewer.scene.primitives import inactive_triangles, triangle_corners


def sheet() -> BlasInputs:
    mesh = wave(12, 12)
    vertices = mesh.vertices.copy()
    vertices[5, 0] = np.nan
    vertices[9] = np.inf
    return BlasInputs((TrianglesGeometry(vertices, mesh.indices),), "sheet")


def test_nothing_moves_by_nothing() -> None:
    inputs = sheet()
    assert deformed(inputs, 0.0) is inputs
    assert deformed(BlasInputs(), 1.0) == BlasInputs()


@pytest.mark.parametrize("amount", [0.1, -0.5, 3.0])
def test_a_swirl_keeps_heights_distances_and_activity(amount: float) -> None:
    inputs = sheet()
    (before,), (after,) = inputs.geometries, deformed(inputs, amount).geometries
    assert isinstance(before, TrianglesGeometry)
    assert isinstance(after, TrianglesGeometry)
    assert after.indices is before.indices
    finite = np.isfinite(before.vertices).all(1)
    assert np.array_equal(after.vertices[~finite], before.vertices[~finite], equal_nan=True)
    assert np.array_equal(after.vertices[:, 1], before.vertices[:, 1])
    middle = 0.5 * (before.vertices[finite].min(0) + before.vertices[finite].max(0))[[0, 2]]
    old = np.hypot(*(before.vertices[finite][:, [0, 2]] - middle).T)
    new = np.hypot(*(after.vertices[finite][:, [0, 2]] - middle).T)
    np.testing.assert_allclose(new, old, atol=1e-5)
    turned = np.abs(after.vertices[finite] - before.vertices[finite]).max(1)
    assert turned[old > 1].max() > 0.5
    assert np.array_equal(inactive_triangles(triangle_corners(after)), inactive_triangles(triangle_corners(before)))


def test_the_outermost_position_turns_by_the_amount() -> None:
    points = np.array([[1, 0, 0], [-1, 0, 0], [0, 0, 0.5]], np.float32)
    (after,) = deformed(BlasInputs((TrianglesGeometry(points),)), 0.25).geometries
    assert isinstance(after, TrianglesGeometry)
    assert np.abs(after.vertices[0]).argmax() == 2
    assert np.array_equal(after.vertices[:2, 1], points[:2, 1])


def test_boxes_move_whole() -> None:
    boxes = np.array([[1, 0, 0, 2, 1, 1], [-2, 0, -1, -1, 1, 0], [np.nan, 0, 0, 1, 1, 1]], np.float32)
    (after,) = deformed(BlasInputs((AabbsGeometry(boxes),)), 0.3).geometries
    assert isinstance(after, AabbsGeometry)
    np.testing.assert_allclose(after.aabbs[:2, 3:] - after.aabbs[:2, :3], 1.0, atol=1e-6)
    assert not np.allclose(after.aabbs[:2], boxes[:2])
    assert np.array_equal(after.aabbs[2], boxes[2], equal_nan=True)
