"""Watertight ray and triangle test with exact edge ownership (rules file 6.3; Woop et al., JCGT 2013).

Shear in float32 with every operation rounded by itself: it depends on ray and vertex only, so triangles that share a
vertex see the same bits. Edge functions in float64 of those float32 values: both products are exact there, so signs are
exact. ``ray_setup`` makes the shear; ``trace.reference`` has the same formulas in numpy.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.extremes import largest, least


@jit
def owns_edge(sign, edge_x, edge_y):
    """Step 5: whether a ray exactly on a directed edge belongs to the triangle. ``edge`` float64 in (kx, ky)."""
    normal_x = sign * edge_y
    normal_y = -sign * edge_x
    return normal_y < 0.0 or (normal_y == 0.0 and normal_x > 0.0)


@jit
def edge_functions(ax, ay, bx, by, cx, cy):
    """Step 3: (U, V, W) in float64 from float32 sheared corners."""
    ax64, ay64 = np.float64(ax), np.float64(ay)
    bx64, by64 = np.float64(bx), np.float64(by)
    cx64, cy64 = np.float64(cx), np.float64(cy)
    u = cx64 * by64 - cy64 * bx64
    v = ax64 * cy64 - ay64 * cx64
    w = bx64 * ay64 - by64 * ax64
    return u, v, w


@jit
def covers(u, v, w, det, ax, ay, bx, by, cx, cy):
    """Steps 4 and 5: whether the ray's line belongs to the triangle."""
    if not (least(u, least(v, w)) >= 0.0 or largest(u, largest(v, w)) <= 0.0):
        return False
    if not (det > 0.0 or det < 0.0):
        return False
    sign = 1.0 if det > 0.0 else -1.0
    if u == 0.0 and not owns_edge(sign, np.float64(cx) - np.float64(bx), np.float64(cy) - np.float64(by)):
        return False
    if v == 0.0 and not owns_edge(sign, np.float64(ax) - np.float64(cx), np.float64(ay) - np.float64(cy)):
        return False
    return w != 0.0 or owns_edge(sign, np.float64(bx) - np.float64(ax), np.float64(by) - np.float64(ay))
