"""The oracle's ring: every line against the quartic, in numpy, step by step as ``kernels.torus`` has it.

The kernel's file says how the ring lies in its box and why the roots are found as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

MOST_ROOTS = 4
BISECTIONS = 54
BOUND = 1.0001

TURNS = np.array([[1, 2, 0], [2, 0, 1], [0, 1, 2]])
"""Per axis, which components a vector has when the ring's axis is last."""


class Ring(NamedTuple):
    """Rings inscribed in boxes: (n,) ``axis``, ``outer`` radius, ``tube`` radius; (n, 3) ``centre``."""

    axis: NDArray[np.int64]
    outer: Float64
    tube: Float64
    centre: Float64


def inscribed_rings(box: Float32) -> Ring:
    """The rings of (n, 6) boxes."""
    b = box.astype(np.float64)
    side = b[:, 3:] - b[:, :3]
    axis = np.argmin(side, axis=1)
    turned = np.take_along_axis(side, TURNS[axis], axis=1)
    outer = 0.5 * np.minimum(turned[:, 0], turned[:, 1])
    return Ring(axis, outer, np.minimum(0.5 * side.min(axis=1), 0.25 * outer), 0.5 * (b[:, :3] + b[:, 3:]))


def torus_roots(origin: Float32, direction: Float32, box: Float32) -> tuple[NDArray[np.int64], Float32]:
    """(how many, (n, 4) float32 t from near to far, zeros after) of row-wise rays (n, 3) and boxes (n, 6)."""
    with np.errstate(all="ignore"):
        return _roots(origin, direction, box)


def _roots(origin: Float32, direction: Float32, box: Float32) -> tuple[NDArray[np.int64], Float32]:
    ring, d = inscribed_rings(box), direction.astype(np.float64)
    c = origin.astype(np.float64) - ring.centre
    square = _dot(d, d)
    nearest = -_dot(d, c) / square
    length = np.sqrt(square)
    turns = TURNS[ring.axis]
    q = np.take_along_axis((c + nearest[:, None] * d) / ring.outer[:, None], turns, axis=1)
    u = np.take_along_axis(d / length[:, None], turns, axis=1)
    distance = _dot(q, q)
    meets = (ring.tube > 0) & (square > 0) & (distance < BOUND)
    end = np.sqrt(BOUND - distance)
    small = ring.tube / ring.outer
    wide = 1.0 - small
    along = _dot(q, u)
    k = (distance + wide * wide) - small * small
    four = 4.0 * (wide * wide)
    c3 = 4.0 * along
    c2 = (4.0 * (along * along) + 2.0 * k) - four * (u[:, 0] * u[:, 0] + u[:, 1] * u[:, 1])
    c1 = 4.0 * (along * k) - 2.0 * (four * (q[:, 0] * u[:, 0] + q[:, 1] * u[:, 1]))
    c0 = k * k - four * (q[:, 0] * q[:, 0] + q[:, 1] * q[:, 1])

    def quartic(s: Float64) -> Float64:
        return (((s + c3) * s + c2) * s + c1) * s + c0

    def slope(s: Float64) -> Float64:
        return ((4.0 * s + 3.0 * c3) * s + 2.0 * c2) * s + c1

    inner = 36.0 * (c3 * c3) - 96.0 * c2
    root = np.sqrt(inner)
    bends = [
        np.where(inner > 0, np.minimum(np.maximum((-6.0 * c3 + sign * root) / 24.0, -end), end), -end)
        for sign in (-1.0, 1.0)
    ]
    turns_at = []
    for low, high in ((-end, bends[0]), (bends[0], bends[1]), (bends[1], end)):
        there, s = _bisect(slope, low, high)
        turns_at.append(np.where(there, s, high))
    count, t = np.zeros(len(d), np.int64), np.zeros((len(d), MOST_ROOTS), np.float32)
    scale = ring.outer / length
    low = -end
    for high in (*turns_at, end):
        there, s = _bisect(quartic, low, high)
        rows = np.flatnonzero(there & meets)
        t[rows, count[rows]] = (nearest + s * scale).astype(np.float32)[rows]
        count[rows] += 1
        low = high
    return count, t


def _bisect(function: Callable[[Float64], Float64], low: Float64, high: Float64) -> tuple[Bools, Float64]:
    """(changes sign, where) in parts where the function is monotone."""
    is_negative = function(low) < 0
    found = is_negative != (function(high) < 0)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        same = (function(middle) < 0) == is_negative
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return found, 0.5 * (low + high)


def _dot(a: Float64, b: Float64) -> Float64:
    return (a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1]) + a[:, 2] * b[:, 2]
