"""The vector tests give the bits of their portable twins, whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.kernels import jit, ray_setup, spheres, vector, vector_portable
from rtviewer.kernels.state import SHEAR_SCALE

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 1e-45, 3e38, -3e38, 1e-38, 0.5, 2.0], np.float32)
FINITE = SPECIAL[np.isfinite(SPECIAL)]


@jit
def call_boxes(node, slab, t_min, end, out):
    return vector.boxes(node, slab, t_min, end, out)


@jit
def call_stack_children(node, slab, t_min, end, references, entries, size, octant):
    return vector.stack_children(node, slab, t_min, end, references, entries, size, octant)


@jit
def call_triangles(pack, kx, ky, kz, shear, t_min, end, out):
    return vector.triangles(pack, kx, ky, kz, shear, t_min, end, out)


@jit
def call_box_pack(pack, slab, t_min, end):
    return vector.box_pack(pack, slab, t_min, end)


@jit
def call_spheres(pack, ray, t_min, end, out):
    return spheres.spheres(pack, ray, t_min, end, out)


@jit
def call_lowest_bit(mask):
    return vector.lowest_bit(mask)


@jit
def call_set_slab(slab, ray, reach):
    usual = ray_setup.is_usual(ray, reach)
    ray_setup.set_slab(slab, ray, reach, usual)
    return usual


@jit
def call_set_shear(shear, ray, reach):
    return ray_setup.set_shear(shear, ray, reach)


@jit
def call_octant_of(ray):
    return ray_setup.octant_of(ray)


def numbers(random: np.random.Generator, count: int, choice: np.ndarray | None) -> np.ndarray:
    values = random.normal(0, 2, count).astype(np.float32)
    if choice is not None:
        values = np.where(random.random(count) < 0.4, random.choice(choice, count), values)
    return np.ascontiguousarray(values, np.float32)


def a_node(random: np.random.Generator, special: bool) -> np.ndarray:
    """(64,) float32: seven boxes and an empty lane, with orders for all octants."""
    node = numbers(random, 64, SPECIAL if special else None).reshape(8, 8)
    low, high = node[[0, 2, 4]].copy(), node[[1, 3, 5]].copy()
    node[[0, 2, 4]], node[[1, 3, 5]] = np.minimum(low, high), np.maximum(low, high)
    node[:6, 7] = [np.inf, -np.inf] * 3
    words = node.view(np.int32)
    words[6] = [*random.integers(-100, 100, 7) * 2 + 1, 0]
    orders = np.stack([random.permutation(8) for _ in range(8)], 1)  # rank, octant
    words[7] = (orders << 3 * np.arange(8)).sum(1)
    return node.ravel()


def same_bits(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_array_equal(a.view(np.uint32) * ~np.isnan(a), b.view(np.uint32) * ~np.isnan(b))


@pytest.mark.parametrize("special", [False, True])
def test_boxes_and_visits(special: bool) -> None:
    random = np.random.default_rng(1)
    met, visits = 0, np.zeros(9, int)
    for _ in range(500):
        node = a_node(random, special)
        ray, slab = numbers(random, 6, FINITE if special else None), np.zeros(15, np.float32)
        call_set_slab(slab.ctypes.data, ray.ctypes.data, np.float32(3))
        a, b = np.zeros(16, np.float32), np.zeros(16, np.float32)
        t_min, end = np.float32(0.25), np.float32(random.choice([1.0, 5.0, np.inf]))
        got = call_boxes(node.ctypes.data, slab.ctypes.data, t_min, end, a.ctypes.data)
        assert got == vector_portable.boxes(node.ctypes.data, slab.ctypes.data, t_min, end, b.ctypes.data)
        same_bits(a, b)
        met += bin(got & 0xFF).count("1")
        assert got & 0x8080 == 0, "the empty lane"
        stacks = [(np.full(24, -5, np.int32), np.full(24, 0.5, np.float32)) for _ in range(2)]
        octant = random.choice([call_octant_of(ray.ctypes.data), vector_portable.UNORDERED])
        taken, expected = (
            stack(node.ctypes.data, slab.ctypes.data, t_min, end, r.ctypes.data, e.ctypes.data, 3, octant)
            for stack, (r, e) in zip((call_stack_children, vector_portable.stack_children), stacks, strict=True)
        )
        size = 3 + bin(got & 0xFF).count("1")
        assert taken == expected == (stacks[1][0][size - 1], stacks[1][1][size - 1], size - 1)
        np.testing.assert_array_equal(stacks[0][0][:size], stacks[1][0][:size])
        same_bits(stacks[0][1][:size], stacks[1][1][:size])
        visits[bin(got & 0xFF).count("1")] += 1
    assert met > 50
    assert (visits[:4] > 0).all()


@pytest.mark.parametrize("special", [False, True])
def test_box_packs(special: bool) -> None:
    random, met = np.random.default_rng(5), 0
    for _ in range(400):
        corners = numbers(random, 24, SPECIAL if special else None).reshape(2, 3, 4)
        pack = np.stack([np.minimum(*corners), np.maximum(*corners)])
        ray, slab = numbers(random, 6, FINITE if special else None), np.zeros(15, np.float32)
        call_set_slab(slab.ctypes.data, ray.ctypes.data, np.float32(3))
        arguments = (pack.ctypes.data, slab.ctypes.data, np.float32(0.25), np.float32(random.choice([1.0, np.inf])))
        got = call_box_pack(*arguments)
        assert got == vector_portable.box_pack(*arguments)
        met += bin(got).count("1")
    assert met > 50


@pytest.mark.parametrize("special", [False, True])
def test_spheres(special: bool) -> None:
    random, found = np.random.default_rng(6), 0
    for _ in range(2000):
        pack = numbers(random, 28, SPECIAL if special else None)
        pack[:12], pack[12:24] = np.minimum(pack[:12], pack[12:24]) - 1, np.maximum(pack[:12], pack[12:24]) + 1
        pack[24:].view(np.int32)[:] = [7, 9, random.integers(-1, 3), -1]
        ray = numbers(random, 6, FINITE if special else None).astype(np.float64)
        a, b = np.zeros(8, np.float32), np.zeros(8, np.float32)
        t_min, end = np.float32(0.25), np.float32(random.choice([1.0, 5.0, np.inf]))
        got, expected = (
            test(pack.ctypes.data, ray.ctypes.data, t_min, end, out.ctypes.data)
            for test, out in ((call_spheres, a), (vector_portable.spheres, b))
        )
        assert got == expected
        assert not got & 8, "the unused lane"
        if got:
            same_bits(a, b)
        found += bin(got).count("1")
    assert found > 100


@pytest.mark.parametrize("special", [False, True])
def test_triangles(special: bool) -> None:
    random = np.random.default_rng(2)
    found = 0
    for _ in range(2000):
        pack = numbers(random, 40, SPECIAL if special else None)
        pack[36:].view(np.int32)[:] = [7, 9, random.integers(-1, 3), -1]
        ray, shear = numbers(random, 6, None), np.zeros(8, np.float32)
        kz = call_set_shear(shear.ctypes.data, ray.ctypes.data, np.float32(3))
        kx, ky = 16 * ((kz + 1) % 3), 16 * ((kz + 2) % 3)
        a, b = np.zeros(36, np.float32), np.zeros(36, np.float32)
        t_min, end = np.float32(0.0), np.float32(random.choice([1.0, 5.0, np.inf]))
        got, expected = (
            triangles(pack.ctypes.data, kx, ky, 16 * kz, shear.ctypes.data, t_min, end, out.ctypes.data)
            for triangles, out in ((call_triangles, a), (vector_portable.triangles, b))
        )
        assert got == expected
        if got:
            same_bits(a[32:], b[32:])
            real_a, real_b = a[:32].view(np.float64), b[:32].view(np.float64)
            np.testing.assert_array_equal(real_a, real_b)
        found += bin(got).count("1")
    assert found > 20


@pytest.mark.parametrize("special", [False, True])
def test_slab_shear_and_octant(special: bool) -> None:
    """The usual slab equals the one for any ray, where both may be used."""
    random, usual_rays = np.random.default_rng(3), 0
    for _ in range(500):
        ray = numbers(random, 6, FINITE if special else None)
        reach = np.float32(random.choice([0.5, 3.0, 2.0**126 if special else 7.0]))
        address = ray.ctypes.data
        a, b = np.zeros(15, np.float32), np.zeros(15, np.float32)
        usual = call_set_slab(a.ctypes.data, address, reach)
        assert usual == vector_portable.is_usual(address, reach)
        ray_setup.set_any_slab(b.ctypes.data, address, reach, False)
        np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))
        usual_rays += usual
        assert not np.isnan(a[:12]).any()
        assert np.isfinite(a[[0, 1, 2, 6, 7, 8]]).all()
        c, d = np.zeros(8, np.float32), np.zeros(8, np.float32)
        kz = call_set_shear(c.ctypes.data, address, reach)
        assert kz == vector_portable.set_shear(d.ctypes.data, address, reach)
        same_bits(c, d)
        assert c[SHEAR_SCALE // 4] in (1.0, 0.125)
        assert call_octant_of(address) == vector_portable.octant_of(address)
    assert 0 < usual_rays <= 500


def test_an_empty_lane_is_missed_by_every_ray() -> None:
    """Its child is 0, the root: whoever met it would walk in circles."""
    random = np.random.default_rng(4)
    node = np.zeros((8, 8), np.float32)
    node[[0, 2, 4]], node[[1, 3, 5]] = np.inf, -np.inf
    out = np.zeros(16, np.float32)
    for value in (*FINITE, np.float32(3.4e38), np.float32(-3.4e38)):
        for _ in range(20):
            ray, slab = random.choice([*FINITE, value, value], 6).astype(np.float32), np.zeros(15, np.float32)
            call_set_slab(slab.ctypes.data, ray.ctypes.data, np.float32(3e38))
            mask = call_boxes(node.ctypes.data, slab.ctypes.data, np.float32(0), np.float32(np.inf), out.ctypes.data)
            assert mask == 0


def test_lowest_bit() -> None:
    for mask in (1, 2, 6, 0x80, 0xFF, 0x80000000):
        assert call_lowest_bit(np.uint32(mask)) == (mask & -mask).bit_length() - 1
