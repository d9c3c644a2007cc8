"""Corners, inactive and degenerate primitives, boxes and inverses."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, TrianglesGeometry
from rtviewer.scene.primitives import (
    degenerate_triangles,
    inactive_boxes,
    inactive_triangles,
    invert_transforms,
    largest_coordinate,
    normalised_boxes,
    transform_directions,
    transformed_vertices,
    triangle_corners,
)

F32 = np.float32


def corners(*rows: object) -> np.ndarray:
    return np.array(rows, F32).reshape(-1, 3, 3)


@pytest.mark.rule("GEO-7")
def test_transform_rounds_every_operation() -> None:
    rng = np.random.default_rng(0)
    matrix, points = rng.normal(size=(3, 4)).astype(F32), rng.normal(size=(50, 3)).astype(F32)
    got = transformed_vertices(TrianglesGeometry(points, transform=matrix))
    assert got.dtype == F32
    for row, point in zip(got, points, strict=True):
        for axis in range(3):
            m = matrix[axis]
            expected = F32(F32(F32(F32(m[0] * point[0]) + F32(m[1] * point[1])) + F32(m[2] * point[2])) + m[3])
            assert row[axis] == expected
    turned = transform_directions(matrix, points)
    assert turned[0, 0] == F32(F32(matrix[0, 0] * points[0, 0]) + F32(matrix[0, 1] * points[0, 1])) + F32(
        matrix[0, 2] * points[0, 2]
    )


@pytest.mark.rule("GEO-1", "GEO-3", "GEO-7")
def test_corners_with_and_without_indices() -> None:
    vertices = np.arange(24, dtype=F32).reshape(8, 3)
    plain = triangle_corners(TrianglesGeometry(vertices))
    np.testing.assert_array_equal(plain, vertices[:6].reshape(2, 3, 3))
    indices = np.array([[7, 0, 3], [1, 1, 2], [5, 4, 6]], np.uint32)
    np.testing.assert_array_equal(triangle_corners(TrianglesGeometry(vertices, indices)), vertices[indices])
    assert triangle_corners(TrianglesGeometry(np.empty((0, 3), F32))).shape == (0, 3, 3)


@pytest.mark.rule("INA-1", "INA-3", "NOTE-17")
def test_a_nan_x_of_any_vertex_makes_a_triangle_inactive() -> None:
    rows = np.tile(corners([[0, 0, 0], [1, 0, 0], [0, 1, 0]]), (5, 1, 1))
    for corner in range(3):
        rows[corner, corner, 0] = np.nan
    rows[3, 1, 1] = np.nan
    assert inactive_triangles(rows).tolist() == [True, True, True, False, False]


@pytest.mark.rule("INA-2", "DEG-4")
def test_boxes() -> None:
    aabbs = np.array(
        [
            [np.nan, 0, 0, 1, 1, 1],
            [0, 0, 0, np.nan, 1, 1],
            [0, 0, 0, 1, 1, 0],
            [2, 0, 4, 1, 1, 8],
            [3e38, 0, 0, -3e38, 1, 1],
            [np.inf, np.inf, 0, -np.inf, 2, 1],
        ],
        F32,
    )
    assert inactive_boxes(aabbs).tolist() == [True, False, False, False, False, False]
    got = normalised_boxes(aabbs)
    np.testing.assert_array_equal(got[:3], aabbs[:3])
    np.testing.assert_array_equal(got[3], F32([1.5, 0.5, 6, 1.5, 0.5, 6]))
    np.testing.assert_array_equal(got[4], F32([0, 0.5, 0.5, 0, 0.5, 0.5]))
    np.testing.assert_array_equal(got[5], F32([0, np.inf, 0.5, 0, np.inf, 0.5]))
    assert normalised_boxes(aabbs[:3]) is not None
    assert (aabbs[3] == F32([2, 0, 4, 1, 1, 8])).all(), "the input is not written to"


@pytest.mark.rule("DEG-1", "DEG-6")
def test_points_and_lines_are_degenerate() -> None:
    third = F32(1) / F32(3)
    rows = corners(
        [[1, 2, 3]] * 3,
        [[0, 0, 0], [1, 1, 1], [1, 1, 1]],
        [[0, 0, 0], [1, 2, 3], [2, 4, 6]],
        [[0.1, 0.1, 0.1], [0.7, 0.7, 0.7], [0.3, 0.3, 0.3]],
        [[third, third, 1], [third * 2, third * 2, 1], [third * 4, third * 4, 1]],
        [[1e30, 0, 0], [1e-30, 0, 0], [5, 0, 0]],
    )
    assert degenerate_triangles(rows).all()
    for shift in (1, 2):
        assert degenerate_triangles(np.roll(rows, shift, axis=1)).all()


@pytest.mark.rule("DEG-1")
def test_the_smallest_area_is_not_degenerate() -> None:
    one = F32(1)
    up = np.nextafter(one, F32(2))
    tiny = np.nextafter(F32(0), one)
    rows = corners(
        [[0, 0, 0], [1, 1, 0], [2, 2, tiny]],
        [[0, 0, 0], [1, 1, 0], [1, up, 0]],
        [[1e30, 0, 0], [1e-30, 0, 0], [5, tiny, 0]],
        [[tiny, 0, 0], [0, tiny, 0], [0, 0, 0]],
        [[16777216, 1, 0], [-16777216, 3, 0], [0, np.nextafter(F32(2), one), 0]],
        [[np.inf, 0, 0], [1, 0, 0], [2, 0, 0]],
    )
    assert not degenerate_triangles(rows).any()


@pytest.mark.rule("DEG-1")
def test_degeneracy_is_exact() -> None:
    """Against rational arithmetic, on triangles that rounding makes hard to tell from lines."""
    from fractions import Fraction

    rng = np.random.default_rng(9)
    a, d = rng.normal(size=(2, 300, 3)).astype(F32)
    d = (d * F32(2.0) ** rng.integers(-30, 30, (300, 1))).astype(F32)
    k = F32([[1, 2, 3, 0.5]])[0][rng.integers(0, 4, 300)][:, None]
    rows = np.stack([a, a + d, a + k * d], axis=1)
    rows[::3, 2] = rows[::3, 0] + 2 * (rows[::3, 1] - rows[::3, 0])

    def is_line(row: np.ndarray) -> bool:
        p, q, r = ([Fraction(float(x)) for x in corner] for corner in row)
        u, v = [b - a for a, b in zip(p, q, strict=True)], [b - a for a, b in zip(p, r, strict=True)]
        return all(u[i] * v[j] == u[j] * v[i] for i, j in ((1, 2), (2, 0), (0, 1)))

    expected = [is_line(row) for row in rows]
    assert 20 < sum(expected) < 280
    assert degenerate_triangles(rows).tolist() == expected


@pytest.mark.rule("INA-8")
def test_largest_coordinate_of_active_finite_input() -> None:
    vertices = np.array([[1, -7, 2], [0, 1, 0], [1, 0, 0], [np.nan, 1e9, 0], [0, 0, 0], [0, 1, 0]], F32)
    scale = np.diag([2, 2, 2, 1]).astype(F32)[:3]
    infinite = np.array([[0, np.inf, 0], [0, 0, 3], [1, 1, 1]], F32)
    inputs = BlasInputs((TrianglesGeometry(vertices, transform=scale), TrianglesGeometry(infinite)))
    assert largest_coordinate(inputs) == 14
    aabbs = np.array([[np.nan, 0, 0, 9, 9, 9], [-3, 0, 0, 1, 1, 1]], F32)
    assert largest_coordinate(BlasInputs((AabbsGeometry(aabbs),))) == 3
    assert largest_coordinate(BlasInputs()) == 0


@pytest.mark.rule("INST-8", "INST-9")
def test_inverse() -> None:
    rng = np.random.default_rng(7)
    transforms = rng.normal(size=(200, 3, 4)).astype(F32)
    inverse, singular = invert_transforms(transforms)
    assert inverse.dtype == F32
    assert not singular.any()
    square = np.tile(np.eye(4), (200, 1, 1))
    square[:, :3] = transforms
    expected = np.linalg.inv(square)[:, :3]
    size = np.abs(expected).max(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(inverse / size, expected / size, atol=2e-7)
    one, _ = invert_transforms(transforms[17:18])
    np.testing.assert_array_equal(one[0], inverse[17])


@pytest.mark.rule("INST-5")
def test_singular_transforms() -> None:
    eye = np.eye(3, 4, dtype=F32)
    rows = np.stack([eye] * 9)
    rows[0] = 0
    rows[1, :, :3] = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    rows[2, 2] = 0
    rows[3, :, :3] = np.outer([0.1, 0.7, 0.3], [0.3, 0.2, 0.9])  # rounded, but no determinant to tell from zero
    rows[3, 2, :3] = rows[3, 0, :3] * 2
    rows[3, 1, :3] = rows[3, 0, :3] * 4
    rows[4, 0, 3] = np.inf
    rows[5, 0, 0] = np.nan
    rows[6, :, :3] *= F32(1e-42)  # the inverse overflows float32
    rows[7, :, :3] *= F32(1e-30)
    rows[8, :, :3] = [[1, 0, 0], [0, 1, 1e-6], [0, 1, 2e-6]]
    inverse, singular = invert_transforms(rows)
    assert singular.tolist() == [True] * 7 + [False] * 2
    assert not inverse[:7].any()
    np.testing.assert_allclose(inverse[7, :, :3], np.eye(3) * 1e30, rtol=1e-6)
