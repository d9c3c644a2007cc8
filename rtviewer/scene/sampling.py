"""Random directions that are a function of pixel, sample and seed alone.

Only operations that IEEE 754 rounds exactly one way are used, element by element (no library sine, no reductions): a
pixel's ray has the same bits alone, in any tile and on any machine.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_STEP_U, _STEP_V = np.uint32(0xC13FA9A9), np.uint32(0x91E10DA6)
"""1/p and 1/p^2 of the plastic number p = 1.3247..., in 1/2^32: the R2 sequence (M. Roberts, 2018)."""
_SINE = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(7))
_COSINE = tuple((-1) ** k / math.factorial(2 * k) for k in range(7))


def hashed(
    columns: NDArray[np.int64], rows: NDArray[np.int64], seed: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Two (n,) uint32 hashes of every pixel: pcg3d of Jarzynski and Olano, "Hash Functions for GPU Rendering", 2020."""
    factor, addend = np.uint32(1664525), np.uint32(1013904223)
    x = columns.astype(np.uint32) * factor + addend
    y = rows.astype(np.uint32) * factor + addend
    z = np.full(len(x), seed, np.uint32) * factor + addend
    for last in (False, True):
        x = x + y * z
        y = y + z * x
        z = z + x * y
        if not last:
            x, y, z = x ^ (x >> np.uint32(16)), y ^ (y >> np.uint32(16)), z ^ (z >> np.uint32(16))
    return x, y


def cosine_directions(
    normals: NDArray[np.float64], columns: NDArray[np.int64], rows: NDArray[np.int64], seed: int, sample: int = 0
) -> NDArray[np.float64]:
    """(n, 3) float64 unit directions about unit ``normals`` (n, 3), drawn with the cosine to them.

    Samples of one pixel spread evenly: a low-discrepancy sequence from a hashed start.
    """
    first, second = hashed(columns, rows, seed)
    steps = np.full(len(first), sample, np.uint32)
    radius2 = ((first + steps * _STEP_U).astype(np.float64) + 0.5) / 2.0**32
    cosine, sine = _unit_circle(second + steps * _STEP_V)
    radius = np.sqrt(radius2)
    tangent, bitangent = _basis(normals)
    across, along, up = (radius * cosine)[:, None], (radius * sine)[:, None], np.sqrt(1.0 - radius2)[:, None]
    directions: NDArray[np.float64] = tangent * across + bitangent * along + normals * up
    return directions


def _unit_circle(turn: NDArray[np.uint32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cosine and sine of ``turn`` / 2^32 turns (from an eighth before zero): a quadrant, and a series within it."""
    quadrant = turn >> np.uint32(30)
    part = (turn & np.uint32(0x3FFFFFFF)).astype(np.float64) / 2.0**30
    angle = (part - 0.5) * (math.pi / 2)
    square = angle * angle
    sine, cosine = np.zeros_like(angle), np.zeros_like(angle)
    for s, c in zip(reversed(_SINE), reversed(_COSINE), strict=True):
        sine, cosine = sine * square + s, cosine * square + c
    sine = sine * angle
    swapped, negative = (quadrant & 1) == 1, quadrant >= 2
    x, y = np.where(swapped, -sine, cosine), np.where(swapped, cosine, sine)
    return np.where(negative, -x, x), np.where(negative, -y, y)


def _basis(normals: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two unit vectors across each normal: Duff et al., "Building an Orthonormal Basis, Revisited", JCGT 2017."""
    x, y, z = normals[:, 0], normals[:, 1], normals[:, 2]
    sign = np.copysign(1.0, z)
    a = -1.0 / (sign + z)
    b = x * y * a
    tangent = np.stack([1.0 + sign * x * x * a, sign * b, -sign * x], 1)
    return tangent, np.stack([b, sign + y * y * a, -y], 1)
