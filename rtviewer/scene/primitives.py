"""What a build and the oracle both read off the inputs: corners, boxes, who is inactive, who is degenerate, inverses.

One definition for builder, kernels' inputs and brute force, so that they can only disagree about the tree. Every
float32 result is made of float32 operations rounded one by one, in the order written here.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry

_ROUNDING = 2.0**-53
_SPLITTER = 2.0**27 + 1.0


def transform_points(matrix: NDArray[np.float32], points: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n, 3) float32: ``((m00*x + m01*y) + m02*z) + m03`` per row, each operation rounded to float32.

    ``matrix`` (3, 4) or (n, 3, 4) float32, ``points`` (n, 3) float32. Equal points give equal results (GEO-7).
    """
    x, y, z = points[:, 0], points[:, 1], points[:, 2]
    out = np.empty(points.shape, np.float32)
    with np.errstate(all="ignore"):
        for axis in range(3):
            row = matrix[..., axis, :]
            out[:, axis] = ((row[..., 0] * x + row[..., 1] * y) + row[..., 2] * z) + row[..., 3]
    return out


def transform_directions(matrix: NDArray[np.float32], directions: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n, 3) float32: as :func:`transform_points` without the translation (INST-8)."""
    x, y, z = directions[:, 0], directions[:, 1], directions[:, 2]
    out = np.empty(directions.shape, np.float32)
    with np.errstate(all="ignore"):
        for axis in range(3):
            row = matrix[..., axis, :]
            out[:, axis] = (row[..., 0] * x + row[..., 1] * y) + row[..., 2] * z
    return out


def transformed_vertices(geometry: TrianglesGeometry) -> NDArray[np.float32]:
    """(vertex_count, 3) float32: the vertices after the geometry transform [GEO-7]; without one, the input itself."""
    if geometry.transform is None:
        return geometry.vertices
    return transform_points(np.asarray(geometry.transform, np.float32), geometry.vertices)


def triangle_corners(geometry: TrianglesGeometry) -> NDArray[np.float32]:
    """(primitive_count, 3, 3) float32: the three transformed vertices of every triangle, in input order."""
    vertices = transformed_vertices(geometry)
    if geometry.indices is None:
        return vertices[: geometry.primitive_count * 3].reshape(-1, 3, 3)
    return vertices[geometry.indices]


def inactive_triangles(corners: NDArray[np.float32]) -> NDArray[np.bool_]:
    """(n,) bool: the x of any corner is NaN [INA-1]. ``corners`` (n, 3, 3) float32, after the geometry transform."""
    nan: NDArray[np.bool_] = np.isnan(corners[:, :, 0])
    return nan[:, 0] | nan[:, 1] | nan[:, 2]


def degenerate_triangles(corners: NDArray[np.float32]) -> NDArray[np.bool_]:
    """(n,) bool: the corners lie on one line or in one point, in exact arithmetic [DEG-1].

    Guarantees: a triangle with any area, however small, is not degenerate; one without is, whatever rounding a tracer
    would do to it, so leaving degenerates out of builds and of the oracle is what makes them never hit [DEG-3]. A
    triangle with a non-finite coordinate is not called degenerate [INA-8].
    """
    degenerate = np.zeros(len(corners), np.bool_)
    with np.errstate(all="ignore"):
        doubtful = np.flatnonzero(~_has_certain_area(corners))
        if len(doubtful) == 0:
            return degenerate
        some = corners[doubtful].astype(np.float64)
        finite = np.isfinite(some).all((1, 2))
        doubtful, some = doubtful[finite], some[finite]
        u, u_error = _exact_difference(some[:, 1], some[:, 0])
        v, v_error = _exact_difference(some[:, 2], some[:, 0])
        degenerate[doubtful] = _cross_is_zero(u, v)
    for row in np.flatnonzero((u_error != 0).any(1) | (v_error != 0).any(1)):
        # Coordinates more than 2^29 apart: even float64 cannot hold the edges.
        degenerate[doubtful[row]] = _is_collinear(some[row])
    return degenerate


def _has_certain_area(corners: NDArray[np.float32]) -> NDArray[np.bool_]:
    """True where some component of the cross product exceeds what rounding could have made of zero."""
    wide = corners.astype(np.float64)
    u, v = wide[:, 1] - wide[:, 0], wide[:, 2] - wide[:, 0]
    certain: NDArray[np.bool_] = np.zeros(len(corners), np.bool_)
    for i, j in ((1, 2), (2, 0), (0, 1)):
        p, q = u[:, i] * v[:, j], u[:, j] * v[:, i]
        certain |= np.abs(p - q) > (8 * _ROUNDING) * (np.abs(p) + np.abs(q))
    return certain


def _exact_difference(
    a: NDArray[np.float64], b: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """a - b as rounded value and exact remainder."""
    difference = a - b
    part = difference - a
    return difference, (a - (difference - part)) - (b + part)


def _exact_product(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """a * b as rounded value and exact remainder; the pair identifies the product."""
    product = a * b
    a_high = _SPLITTER * a - (_SPLITTER * a - a)
    b_high = _SPLITTER * b - (_SPLITTER * b - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _cross_is_zero(u: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.bool_]:
    zero: NDArray[np.bool_] = np.ones(len(u), np.bool_)
    for i, j in ((1, 2), (2, 0), (0, 1)):
        p, p_rest = _exact_product(u[:, i], v[:, j])
        q, q_rest = _exact_product(u[:, j], v[:, i])
        zero &= (p == q) & (p_rest == q_rest)
    return zero


def _is_collinear(corners: NDArray[np.float64]) -> bool:
    a, b, c = ([Fraction(float(x)) for x in corner] for corner in corners)
    u, v = [q - p for p, q in zip(a, b, strict=True)], [q - p for p, q in zip(a, c, strict=True)]
    return all(u[i] * v[j] == u[j] * v[i] for i, j in ((1, 2), (2, 0), (0, 1)))


def inactive_boxes(aabbs: NDArray[np.float32]) -> NDArray[np.bool_]:
    """(n,) bool: MinX is NaN [INA-2]. ``aabbs`` (n, 6) float32."""
    return np.isnan(aabbs[:, 0])


def normalised_boxes(aabbs: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n, 6) float32: boxes inverted on any axis become the point ``0.5*(min+max)`` on all three axes [DEG-4].

    The centre is taken in float64 and rounded once, so it cannot overflow; between opposite infinities it is 0.
    """
    inverted = (aabbs[:, :3] > aabbs[:, 3:]).any(1)
    if not inverted.any():
        return aabbs
    boxes = aabbs.copy()
    some = aabbs[inverted].astype(np.float64)
    with np.errstate(all="ignore"):
        total = some[:, :3] + some[:, 3:]
    opposite = np.isnan(total) & ~np.isnan(some[:, :3]) & ~np.isnan(some[:, 3:])
    centre = (0.5 * np.where(opposite, 0.0, total)).astype(np.float32)
    boxes[inverted] = np.concatenate([centre, centre], 1)
    return boxes


def largest_coordinate(blas: BlasInputs) -> float:
    """The largest finite |coordinate| over all active primitives after geometry transforms, 0 when there is none.

    From 2^124 on, the triangle test works on coordinates scaled by 1/8 (rules file 6.3, step 7).
    """
    largest = 0.0
    for geometry in blas.geometries:
        if isinstance(geometry, TrianglesGeometry):
            corners = triangle_corners(geometry)
            values = np.abs(corners[~inactive_triangles(corners)])
        else:
            values = np.abs(geometry.aabbs[~inactive_boxes(geometry.aabbs)])
        values = values[np.isfinite(values)]
        if values.size:
            largest = max(largest, float(values.max()))
    return largest


def invert_transforms(transforms: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """World-to-object (n, 3, 4) float32 of object-to-world (n, 3, 4) float32, and (n,) bool: not invertible [INST-5].

    Adjugate over determinant in float64, stored in float32 [INST-9]; the translation is ``-(inverse * t)`` with the
    float64 inverse. Singular: a determinant that rounding alone could have made of zero, or a result that float32
    cannot hold. Singular rows are all zero. Each row depends on its own transform only.
    """
    m = transforms.astype(np.float64)
    a, t = m[:, :, :3], m[:, :, 3]
    out = np.zeros(transforms.shape, np.float32)
    with np.errstate(all="ignore"):
        adjugate = np.empty_like(a)
        for i in range(3):
            for j in range(3):
                p, q, r, s = (j + 1) % 3, (j + 2) % 3, (i + 1) % 3, (i + 2) % 3
                adjugate[:, i, j] = a[:, p, r] * a[:, q, s] - a[:, p, s] * a[:, q, r]
        terms = a[:, 0, :] * adjugate[:, :, 0]
        determinant = (terms[:, 0] + terms[:, 1]) + terms[:, 2]
        size = np.zeros(len(a))
        for k in range(3):
            r, s = (k + 1) % 3, (k + 2) % 3
            size += np.abs(a[:, 0, k]) * (np.abs(a[:, 1, r] * a[:, 2, s]) + np.abs(a[:, 1, s] * a[:, 2, r]))
        inverse = adjugate / determinant[:, None, None]
        out[:, :, :3] = inverse
        for i in range(3):
            row = inverse[:, i]
            out[:, i, 3] = -((row[:, 0] * t[:, 0] + row[:, 1] * t[:, 1]) + row[:, 2] * t[:, 2])
        invertible = (np.abs(determinant) > (4 * _ROUNDING) * size) & np.isfinite(out).all((1, 2))
    out[~invertible] = 0
    return out, ~invertible
