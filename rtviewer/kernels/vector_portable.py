"""The numpy twins of the vector tests, lane by lane the same operations; see ``vector`` for what they are."""

from __future__ import annotations

import ctypes

import numpy as np

from rtviewer.kernels.ray_box import WIDEN

NONE = -(1 << 40)
"""No reference: no node or leaf has this one."""
HUGE = np.float32(2.0**124)
"""Coordinates from here on are scaled by 1/8 before the shear, so that differences cannot overflow (method, step 7)."""


def _floats(address, count):
    return np.ctypeslib.as_array(ctypes.cast(int(address), ctypes.POINTER(ctypes.c_float)), (count,))


def set_shear(shear, ray, reach):
    values, result = _floats(ray, 6), _floats(shear, 7)
    origin, direction = values[:3], values[3:]
    kz = int(np.argmax(np.abs(direction)))
    axes = [(kz + 1) % 3, (kz + 2) % 3, kz]
    scale = np.float32(0.125 if max(np.float32(reach), np.abs(origin).max()) >= HUGE else 1)
    with np.errstate(all="ignore"):
        result[:3] = origin[axes] * scale
        result[3:5] = direction[axes[:2]] / direction[kz]
        result[5] = np.float32(1) / direction[kz]
    result[6] = scale
    return kz


def octant_of(ray):
    return int((~np.signbit(_floats(ray, 6)[3:]) << np.arange(3)).sum())


def _slabs(node, slab, t_min, end):
    """(entries, exits, met, occupied), eight each."""
    planes, ray = _floats(node, 48).reshape(6, 8), _floats(slab, 16).reshape(4, 4)
    entry = leave = None
    with np.errstate(all="ignore"):
        for axis in range(3):
            near_row = int(ray[3].view(np.int32)[axis]) // 32
            near = (planes[near_row] - ray[0, axis]) * ray[2, axis]
            far = (planes[near_row ^ 1] - ray[1, axis]) * ray[2, axis]
            entry = near if entry is None else np.where(near > entry, near, entry)
            leave = far if leave is None else np.where(far < leave, far, leave)
        entry = np.where(np.float32(t_min) > entry, np.float32(t_min), entry)
        met = ~(entry > leave * WIDEN) & ~(entry > np.float32(end))
    occupied = _floats(node, 56)[48:].view(np.int32) != 0
    return entry, leave, met & occupied, occupied


def boxes(node, slab, t_min, end, out):
    entry, leave, met, occupied = _slabs(node, slab, t_min, end)
    result = _floats(out, 16)
    result[:8], result[8:] = entry, leave
    bits = 1 << np.arange(8)
    return np.uint32(int(bits[met].sum()) | int(bits[occupied].sum()) << 8)


def visit(node, slab, t_min, end, references, entries, size, octant):
    entry, _, met, _ = _slabs(node, slab, t_min, end)
    words = _floats(node, 64).view(np.int32)
    child, order = words[48:56], words[56:].view(np.uint32) >> np.uint32(3 * octant) & np.uint32(7)
    lanes = [int(lane) for lane in order if met[lane]]
    if not lanes:
        return NONE, size
    for lane in lanes[:-1]:
        _floats(references + 4 * size, 1).view(np.int32)[0] = child[lane]
        _floats(entries + 4 * size, 1)[0] = entry[lane]
        size += 1
    return int(child[lanes[-1]]), size


def triangles(pack, kx, ky, kz, shear, t_min, end, out):
    corners = _floats(pack, 36).reshape(3, 3, 4)
    identity = _floats(pack, 40)[36:].view(np.int32)
    ray = _floats(shear, 6)
    with np.errstate(all="ignore"):
        z = corners[:, kz // 16] - ray[2]
        x = (corners[:, kx // 16] - ray[0]) - ray[3] * z
        y = (corners[:, ky // 16] - ray[1]) - ray[4] * z
        possible = (identity >= 0) & ~_both_signs(_edges(x, y))
        edges = _edges(x.astype(np.float64), y.astype(np.float64))
        area = (edges[0] + edges[1]) + edges[2]
        a, b, c = (ray[5] * z).astype(np.float64)
        t = (((edges[0] * a + edges[1] * b) + edges[2] * c) / area).astype(np.float32)
        inside = ~_both_signs(edges) & ((area > 0) | (area < 0)) & (t > np.float32(t_min)) & (t <= np.float32(end))
    if possible.any():
        results = _floats(out, 36)
        results[:32].view(np.float64).reshape(4, 4)[:] = [*edges, area]
        results[32:] = t
    return np.uint32(int((1 << np.arange(4))[possible & inside].sum()))


def _edges(x, y):
    return np.stack([x[p] * y[q] - y[p] * x[q] for p, q in ((2, 1), (0, 2), (1, 0))])


def _both_signs(edges):
    return (edges < 0).any(0) & (edges > 0).any(0)


def lowest_bit(mask):
    return (int(mask) & -int(mask)).bit_length() - 1
