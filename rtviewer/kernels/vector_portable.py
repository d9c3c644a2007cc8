"""The numpy twins of the vector tests, lane by lane the same operations; see ``vector`` for what they are."""

from __future__ import annotations

import ctypes

import numpy as np

NONE = -(1 << 40)
"""No reference: no node or leaf has this one."""
UNORDERED = 8
"""No octant: the order of children does not matter."""
HUGE = np.float32(2.0**124)
"""Coordinates from here on are scaled by 1/8 before the shear, so that differences cannot overflow (method, step 7)."""


def _floats(address, count):
    return np.ctypeslib.as_array(ctypes.cast(int(address), ctypes.POINTER(ctypes.c_float)), (count,))


def is_usual(ray, reach):
    values = np.abs([*_floats(ray, 6), np.float32(reach)])
    return bool(values[3:6].min() >= np.finfo(np.float32).tiny and values.max() < 2.0**125)


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


def _near_and_far(planes, slab):
    """Distances to the planes met first and last, and to the last by the narrower reciprocal, for each axis.

    ``planes`` (3, 2, n): low and high ones of each axis."""
    values = _floats(slab, 15)
    near, far, exits = [], [], []
    with np.errstate(all="ignore"):
        for axis in range(3):
            origin, reciprocal, far_origin, far_reciprocal = values[axis:12:3]
            turned = int(values[12 + axis :].view(np.int32)[0]) // 32 & 1
            near.append((planes[axis, turned] - origin) * reciprocal)
            far.append((planes[axis, 1 - turned] - far_origin) * far_reciprocal)
            exits.append((planes[axis, 1 - turned] - far_origin) * reciprocal)
    return near, far, exits


def _slabs(near, far, t_min, end):
    """(entries, met)."""
    entry = _larger(_larger(near[0], near[1]), _larger(near[2], np.float32(t_min)))
    last = _smaller(_smaller(far[0], far[1]), _smaller(far[2], np.float32(end)))
    return entry, ~(entry > last)


def _node_slabs(node, slab, t_min, end):
    """(entries, exits, met), eight each."""
    near, far, exits = _near_and_far(_floats(node, 48).reshape(3, 2, 8), slab)
    entry, met = _slabs(near, far, t_min, end)
    return entry, _smaller(_smaller(exits[0], exits[1]), exits[2]), met


def _larger(a, b):
    return np.where(a > b, a, b)


def _smaller(a, b):
    return np.where(a < b, a, b)


def boxes(node, slab, t_min, end, out):
    entry, leave, met = _node_slabs(node, slab, t_min, end)
    result = _floats(out, 16)
    result[:8], result[8:] = entry, leave
    occupied = _floats(node, 56)[48:].view(np.int32) != 0
    bits = 1 << np.arange(8)
    return np.uint32(int(bits[met].sum()) | int(bits[occupied].sum()) << 8)


def stack_children(node, slab, t_min, end, references, entries, size, octant):
    entry, _, met = _node_slabs(node, slab, t_min, end)
    words = _floats(node, 64).view(np.int32)
    child = words[48:56]
    order = range(8) if octant == UNORDERED else words[56:].view(np.uint32) >> np.uint32(3 * octant) & np.uint32(7)
    lanes = [int(lane) for lane in order if met[lane]]
    for lane in lanes:
        _floats(references + 4 * size, 1).view(np.int32)[0] = child[lane]
        _floats(entries + 4 * size, 1)[0] = entry[lane]
        size += 1
    taken = _floats(references + 4 * (size - 1), 1).view(np.int32)[0], _floats(entries + 4 * (size - 1), 1)[0]
    return int(taken[0]), taken[1], size - 1


def fetch(address):
    pass


def box_pack(pack, slab, t_min, end):
    planes = _floats(pack, 24).reshape(2, 3, 4).transpose(1, 0, 2)
    near, far, _ = _near_and_far(planes, slab)
    return np.uint32(int((1 << np.arange(4))[_slabs(near, far, t_min, end)[1]].sum()))


def triangles(pack, kx, ky, kz, shear, t_min, end, out):
    corners = _floats(pack, 36).reshape(3, 3, 4)
    identity = _floats(pack, 40)[36:].view(np.int32)
    ray = _floats(shear, 6)
    with np.errstate(all="ignore"):
        z = corners[:, kz // 16] - ray[2]
        x = (corners[:, kx // 16] - ray[0]) - ray[3] * z
        y = (corners[:, ky // 16] - ray[1]) - ray[4] * z
        a, b, c = ray[5] * z
        beyond = _smaller(_smaller(a, b), c) > np.float32(end)
        behind = _larger(_larger(a, b), c) <= 0
        possible = (identity >= 0) & ~beyond & ~behind & _may_cover(_edges(x, y))
        edges = _edges(x.astype(np.float64), y.astype(np.float64))
        area = (edges[0] + edges[1]) + edges[2]
        a, b, c = (value.astype(np.float64) for value in (a, b, c))
        t = (((edges[0] * a + edges[1] * b) + edges[2] * c) / area).astype(np.float32)
        inside = _may_cover(edges) & ((area > 0) | (area < 0)) & (t > np.float32(t_min)) & (t <= np.float32(end))
    if possible.any():
        results = _floats(out, 36)
        results[:32].view(np.float64).reshape(4, 4)[:] = [*edges, area]
        results[32:] = t
    return np.uint32(int((1 << np.arange(4))[possible & inside].sum()))


def _edges(x, y):
    return np.stack([x[p] * y[q] - y[p] * x[q] for p, q in ((2, 1), (0, 2), (1, 0))])


def _may_cover(edges):
    least = _smaller(_smaller(edges[0], edges[1]), edges[2])
    most = _larger(_larger(edges[0], edges[1]), edges[2])
    return ~(least * most < 0)


def spheres(pack, ray, t_min, end, out):
    low, high = _floats(pack, 24).reshape(2, 3, 4).astype(np.float64)
    identity = _floats(pack, 28)[24:].view(np.int32)
    values = _floats(ray, 12).view(np.float64)
    with np.errstate(all="ignore"):
        x, y, z = values[:3, None] - 0.5 * (low + high)
        side = high - low
        radius = 0.5 * _smaller(_smaller(side[2], side[1]), side[0])
        dx, dy, dz = values[3:]
        a, b = (dx * dx + dy * dy) + dz * dz, (dx * x + dy * y) + dz * z
        discriminant = b * b - a * (((x * x + y * y) + z * z) - radius * radius)
        meets = (a > 0) & (discriminant >= 0) & (identity != -1)
        root = np.sqrt(discriminant)
        t = np.stack([(-b - root) / a, (-b + root) / a]).astype(np.float32)
    if meets.any():
        _floats(out, 8).reshape(2, 4)[:] = t
    inside = ((t >= np.float32(t_min)) & (t <= np.float32(end))).any(axis=0)
    return np.uint32(int((1 << np.arange(4))[meets & inside].sum()))


def lowest_bit(mask):
    return (int(mask) & -int(mask)).bit_length() - 1
