"""The vector tests give the bits of their portable twins, whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.kernels import jit
from rtviewer.kernels.ray_box import set_slab
from rtviewer.kernels.ray_triangle import set_shear
from rtviewer.kernels.vector import boxes, boxes_portable, lowest_bit, triangles, triangles_portable

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 1e-45, 3e38, -3e38, 1e-38, 0.5, 2.0], np.float32)


@jit
def call_boxes(node, slab, t_min, end, out):
    return boxes(node, slab, t_min, end, out)


@jit
def call_triangles(pack, kx, ky, kz, shear):
    return triangles(pack, kx, ky, kz, shear)


@jit
def call_lowest_bit(mask):
    return lowest_bit(mask)


def numbers(random: np.random.Generator, count: int, special: bool) -> np.ndarray:
    values = random.normal(0, 2, count).astype(np.float32)
    if special:
        values = np.where(random.random(count) < 0.4, random.choice(SPECIAL, count), values)
    return np.ascontiguousarray(values, np.float32)


@pytest.mark.parametrize("special", [False, True])
def test_boxes(special: bool) -> None:
    random = np.random.default_rng(1)
    met = 0
    for _ in range(400):
        node = numbers(random, 64, special).reshape(8, 8)
        node[[0, 2, 4]], node[[1, 3, 5]] = (
            np.minimum(node[[0, 2, 4]], node[[1, 3, 5]]),
            np.maximum(node[[0, 2, 4]], node[[1, 3, 5]]),
        )
        node[:6, 7] = [np.inf, -np.inf] * 3
        ray, slab = numbers(random, 6, special), np.zeros(12, np.float32)
        set_slab(slab.ctypes.data, ray.ctypes.data, np.float32(3))
        a, b = np.zeros(16, np.float32), np.zeros(16, np.float32)
        t_min, end = np.float32(0.25), np.float32(random.choice([1.0, 5.0, np.inf]))
        got = call_boxes(node.ctypes.data, slab.ctypes.data, t_min, end, a.ctypes.data)
        assert got == boxes_portable(node.ctypes.data, slab.ctypes.data, t_min, end, b.ctypes.data)
        np.testing.assert_array_equal(a.view(np.uint32) * ~np.isnan(a), b.view(np.uint32) * ~np.isnan(b))
        met += bin(got & 0xFF).count("1")
        assert got >> 15 == 0, "the empty lane"
    assert met > 50


@pytest.mark.parametrize("special", [False, True])
def test_triangles(special: bool) -> None:
    random = np.random.default_rng(2)
    possible = 0
    for _ in range(400):
        pack = numbers(random, 40, special)
        pack[36:].view(np.int32)[:] = [7, 9, random.integers(-1, 3), -1]
        ray, shear = numbers(random, 6, False), np.zeros(8, np.float32)
        kz = set_shear(shear.ctypes.data, ray.ctypes.data, np.float32(3e38 if special else 3))
        kx, ky = 16 * ((kz + 1) % 3), 16 * ((kz + 2) % 3)
        got = call_triangles(pack.ctypes.data, kx, ky, 16 * kz, shear.ctypes.data)
        assert got == triangles_portable(pack.ctypes.data, kx, ky, 16 * kz, shear.ctypes.data)
        possible += bin(got & 15).count("1")
    assert possible > 20


def test_lowest_bit() -> None:
    for mask in (1, 2, 6, 0x80, 0xFF, 0x80000000):
        assert call_lowest_bit(np.uint32(mask)) == (mask & -mask).bit_length() - 1
