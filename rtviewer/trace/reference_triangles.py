"""Ray against triangle by the method of section 6.3 of the rules, every ray against every triangle.

Which numbers are float32 and which float64, and the order of every operation, are part of the method: the kernels
write the same formula, and both give the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtviewer.trace.reference_rules import ReferenceRules

HUGE = 2.0**124
"""From here on coordinates are scaled by 1/8 (step 7), so that no float32 difference overflows."""

PAIRS_AT_A_TIME = 1 << 13
"""Rays times triangles: working arrays stay in the cache and below the size that malloc hands back to the system."""

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]


class TriangleHits(NamedTuple):
    """Meetings of rays with triangles, one row each, before culling and interval.

    ``ray``, ``triangle`` int64 positions in what was passed; ``t`` float32; ``barycentrics`` (n, 2) float32 [TRI-1];
    ``clockwise`` bool: the vertices appear clockwise from the ray's origin [FACE-1].
    """

    ray: NDArray[np.int64]
    triangle: NDArray[np.int64]
    t: Float32
    barycentrics: Float32
    clockwise: NDArray[np.bool_]


def meet_triangles(
    origin: Float32, direction: Float32, corners: Float32, largest_coordinate: float, rules: ReferenceRules
) -> TriangleHits:
    """All meetings of n object-space rays, (n, 3) float32 and finite, with m triangles, (m, 3, 3) float32.

    ``largest_coordinate`` of the whole structure decides the scale of step 7. Zero directions meet nothing [RAY-5].
    """
    parts: list[TriangleHits] = []
    longest = np.argmax(np.abs(direction), axis=1)  # the first on ties
    nonzero = (direction != 0).any(axis=1)
    scaled = (largest_coordinate >= HUGE) | (np.abs(origin).max(axis=1, initial=0.0) >= HUGE)
    step = max(1, PAIRS_AT_A_TIME // max(1, len(corners)))
    for is_scaled in np.unique(scaled):
        scale = 0.125 if is_scaled else 1.0  # step 7
        vertices = np.ascontiguousarray((corners * np.float32(scale)).transpose(1, 2, 0))
        for kz in range(3):
            group = np.flatnonzero(nonzero & (longest == kz) & (scaled == is_scaled))
            for first in range(0, len(group), step):
                rays = group[first : first + step]
                found = _meet_group(origin[rays], direction[rays], vertices, kz, scale, rules)
                parts.append(found._replace(ray=rays[found.ray]))
    return join(parts)


def join(parts: list[TriangleHits]) -> TriangleHits:
    """One table of several."""
    if not parts:
        none = np.empty(0, np.int64)
        return TriangleHits(none, none, np.empty(0, np.float32), np.empty((0, 2), np.float32), np.empty(0, np.bool_))
    return TriangleHits(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _meet_group(
    origin: Float32, direction: Float32, v: Float32, kz: int, scale: float, rules: ReferenceRules
) -> TriangleHits:
    """Rays with one longest axis ``kz`` and one scale; ``v`` (corner, axis, triangle) scaled vertices."""
    kx, ky = (kz + 1) % 3, (kz + 2) % 3
    with np.errstate(all="ignore"):
        # Steps 1 and 2: shear in float32; every array below is (rays, triangles), one per corner.
        sx, sy = direction[:, kx] / direction[:, kz], direction[:, ky] / direction[:, kz]
        sz = np.float32(1.0) / direction[:, kz]
        o = origin * np.float32(scale)
        a_kz = [v[i, kz] - o[:, kz, None] for i in range(3)]
        x = [((v[i, kx] - o[:, kx, None]) - sx[:, None] * a_kz[i]).astype(np.float64) for i in range(3)]
        y = [((v[i, ky] - o[:, ky, None]) - sy[:, None] * a_kz[i]).astype(np.float64) for i in range(3)]

        # Step 3: edge functions in float64.
        u = x[2] * y[1] - y[2] * x[1]
        v_edge = x[0] * y[2] - y[0] * x[2]
        w = x[1] * y[0] - y[1] * x[0]

        # Step 4: signs; a NaN satisfies neither side.
        same = ((u >= 0) & (v_edge >= 0) & (w >= 0)) | ((u <= 0) & (v_edge <= 0) & (w <= 0))
        ray, triangle = np.nonzero(same)
        u, v_edge, w = u[ray, triangle], v_edge[ray, triangle], w[ray, triangle]
        det = (u + v_edge) + w
        x, y = [c[ray, triangle] for c in x], [c[ray, triangle] for c in y]
        z = [(sz[ray] * c[ray, triangle]).astype(np.float64) for c in a_kz]

        # Step 5: who owns an edge that is met exactly.
        meets = det != 0
        sign = np.sign(det)
        for edge, start, end in ((u, 1, 2), (v_edge, 2, 0), (w, 0, 1)):
            owned = rules.edge_belongs(sign, x[end] - x[start], y[end] - y[start])
            meets &= (edge != 0) | owned

        # Step 6: values from the float64 numbers, rounded once.
        t = (((u * z[0] + v_edge * z[1]) + w * z[2]) / det) / scale
        barycentrics = np.stack([v_edge / det, w / det], axis=1).astype(np.float32)
        t = t.astype(np.float32)
        clockwise = (det > 0) == (direction[ray, kz] > 0)
    return TriangleHits(ray[meets], triangle[meets], t[meets], barycentrics[meets], clockwise[meets])
