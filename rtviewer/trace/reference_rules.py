"""The decisions of the oracle that a test may replace by wrong ones, and the flag rules as look-up tables.

Opacity, facing and culling are not written a second time: the tables are filled by ``dxr.rules`` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.flags import GeometryFlag, InstanceFlag, RayFlag
from rtviewer.dxr.rules import effective_opacity, hit_kind, is_facing_culled

Bools = NDArray[np.bool_]
Floats = NDArray[np.float32]


def edge_belongs(sign: NDArray[np.float64], e_kx: NDArray[np.float64], e_ky: NDArray[np.float64]) -> Bools:
    """Step 5 of the method [TRI-5]: whether an edge that the ray meets exactly belongs to the triangle.

    ``sign`` of det, ``e`` the directed edge in the projection; the inward normal is (sign*e_ky, -sign*e_kx).
    """
    n_kx, n_ky = sign * e_ky, -sign * e_kx
    belongs: Bools = (n_ky < 0) | ((n_ky == 0) & (n_kx > 0))
    return belongs


def in_interval(is_triangle: Bools, t: Floats, t_min: Floats, t_end: Floats) -> Bools:
    """RAY-6 on float32 values [RAY-10]: open for triangles, closed for procedurals; false for NaN [PROC-7]."""
    return np.where(is_triangle, (t > t_min) & (t < t_end), (t >= t_min) & (t <= t_end))


def offer_keys(
    instance: NDArray[np.int32], geometry: NDArray[np.int32], primitive: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Keys by which candidates are offered, smaller first, most significant first: descending indices [DET-5]."""
    return -instance, -geometry, -primitive


@dataclass(frozen=True)
class ReferenceRules:
    """The three rules that a comparison with recordings must be able to see broken. The defaults are the right ones."""

    edge_belongs: Callable[[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]], Bools] = edge_belongs
    in_interval: Callable[[Bools, Floats, Floats, Floats], Bools] = in_interval
    offer_keys: Callable[
        [NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]],
        tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]],
    ] = offer_keys


@cache
def _opacity_table() -> NDArray[np.uint8]:
    """``[geometry flags & 1, instance flags & 15, ray flags & 255]``: Opacity by OPQ-1 to OPQ-4."""
    table = np.empty((2, 16, 256), np.uint8)
    for geometry, instance, ray in np.ndindex(table.shape):
        table[geometry, instance, ray] = effective_opacity(GeometryFlag(geometry), InstanceFlag(instance), RayFlag(ray))
    return table


@cache
def _facing_table() -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """``[clockwise, instance flags & 15]``: hit kind; ``[clockwise, instance flags & 15, ray flags & 255]``: culled."""
    kinds = np.empty((2, 16), np.int32)
    culled = np.empty((2, 16, 256), np.bool_)
    for clockwise, instance in np.ndindex(kinds.shape):
        kind = hit_kind(bool(clockwise), InstanceFlag(instance))
        kinds[clockwise, instance] = kind
        for ray in range(256):
            culled[clockwise, instance, ray] = is_facing_culled(kind, InstanceFlag(instance), RayFlag(ray))
    return kinds, culled


def opacities(
    geometry_flags: NDArray[np.uint32], instance_flags: int, ray_flags: NDArray[np.uint32]
) -> NDArray[np.uint8]:
    """``dxr.rules.Opacity`` of candidates: geometry and ray flags one per candidate, all in one instance."""
    found: NDArray[np.uint8] = _opacity_table()[geometry_flags & 1, instance_flags & 15, ray_flags & 255]
    return found


def facings(
    clockwise: Bools, instance_flags: int, ray_flags: NDArray[np.uint32]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Hit kind and whether the ray culls it, of triangle hits in one instance [FACE-1, FACE-2, CULL-3]."""
    kinds, culled = _facing_table()
    side = clockwise.astype(np.int64)
    return kinds[side, instance_flags & 15], culled[side, instance_flags & 15, ray_flags & 255]
