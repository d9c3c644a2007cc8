"""The vector steps of a packet: box tests meet whatever a ray of the packet would meet, and all processors agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rtviewer.kernels import jit, packet_state
from rtviewer.kernels.packet_vector import (
    begin_part,
    set_group,
    set_space,
    take_columns,
    transform_part,
    visit_children,
)
from rtviewer.kernels.ray_box import MARGIN, TINY, WIDEN
from tests.unit.kernels.test_vector import FINITE, numbers

RAYS = packet_state.LANES * packet_state.PARTS


@jit
def fill(packet, origin, direction, t_min, t_max):
    """All parts from (n, 3), (n, 3), (n,) and (n,) float32 at addresses; the bits of the first part's rays."""
    bits = np.uint32(0)
    for part in range(packet_state.PARTS):
        own = packet + packet_state.PART_SIZE * part
        take_columns(origin + 192 * part, own)
        take_columns(direction + 192 * part, own + 192)
        some = begin_part(own, t_min + 64 * part, t_max + 64 * part, np.uint32(0xFFFF))
        bits = some if part == 0 else bits
    return bits


@jit
def visit(packet, node, reach, octant, group, entries, refs):
    for part in range(packet_state.PARTS):
        set_space(packet + packet_state.PART_SIZE * part, reach, np.float32(0.0), np.float32(1.0))
    bounds = packet + packet_state.BOUNDS_WORLD
    set_group(packet, packet, bounds, octant, group)
    return visit_children(node, packet, packet, bounds, octant, group, entries, 0, refs)


@jit
def transform(packet, matrix):
    return transform_part(packet, matrix)


def block(rays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, int]:
    packet = np.zeros(packet_state.PACKET_REFS + 64, np.uint8)
    return packet, fill(packet.ctypes.data, *(column.ctypes.data for column in rays))


def random_rays(random: np.random.Generator, special: bool) -> tuple[np.ndarray, ...]:
    direction = (
        np.abs(numbers(random, 3 * RAYS, FINITE if special else None)) * np.repeat([[1, -1, 1]], RAYS, 0).ravel()
    )
    direction = np.nan_to_num(direction, posinf=1e30, neginf=-1e30).astype(np.float32)
    origin = random.normal(0, 2, 3 * RAYS).astype(np.float32)
    t_min = random.choice(np.float32([0, 0.5]), RAYS)
    return origin, direction, t_min, random.choice(np.float32([1, 5, np.inf]), RAYS)


def meets(node: np.ndarray, origin: np.ndarray, direction: np.ndarray, t_min: float, t_max: float) -> np.ndarray:
    """(8,) what a ray meets by ``ray_box`` for planes moved outward, in numpy."""
    margin = max(np.float32(np.float32(3) + np.abs(origin).max()) * MARGIN, TINY)
    entry, leave = np.full(8, t_min, np.float32), np.full(8, np.inf, np.float32)
    with np.errstate(all="ignore"):
        for axis in range(3):
            reciprocal = np.float32(1) / direction[axis] if direction[axis] != 0 else np.float32(np.inf)
            if abs(reciprocal) == np.inf and direction[axis] != 0:
                continue
            low = (node[2 * axis] - (origin[axis] + margin)) * reciprocal
            high = (node[2 * axis + 1] - (origin[axis] - margin)) * reciprocal
            near, far = (high, low) if direction[axis] < 0 else (low, high)
            entry, leave = np.where(near > entry, near, entry), np.where(far < leave, far, leave)
        return ~(entry > leave * WIDEN) & ~(entry > np.float32(t_max) * WIDEN)


@pytest.mark.parametrize("special", [False, True])
def test_children_are_met_when_a_ray_meets_them(special: bool) -> None:
    """Far to near by the node's order, each with the rays that meet it and with no other."""
    random = np.random.default_rng(5)
    stacked = left_out = 0
    for _ in range(60):
        node = np.zeros((8, 8), np.float32)
        planes = np.sort(random.normal(0, 2, (3, 2, 8)).astype(np.float32), 1)
        node[:6] = planes.reshape(6, 8)
        node[:6, 7] = [np.inf, -np.inf] * 3
        words = node.view(np.int32)
        words[6] = [11, 12, 13, 14, 15, 16, 17, 0]
        order = random.permutation(8)
        octant = 0b101
        words[7] = order << (3 * octant)
        rays = random_rays(random, special)
        packet, bits = block(rays)
        assert bits == 0xFFFF
        group = (2**64 - 1, 0xFFFF0000, 0x8001000100010001)[int(random.integers(3))]
        # Zero goes with the positive: such rays are of another group.
        group &= sum(1 << i for i in range(RAYS) if rays[1].reshape(RAYS, 3)[i, 1] < 0)
        entries, refs = np.zeros((16, packet_state.ENTRY_VECTORS // 4), np.float32), np.zeros(16, np.int32)
        size, last = visit(
            packet.ctypes.data, node.ctypes.data, np.float32(3), octant, np.uint64(group),
            entries.ctypes.data, refs.ctypes.data,
        )  # fmt: skip
        origin, direction = rays[0].reshape(RAYS, 3), rays[1].reshape(RAYS, 3)
        met = np.array([meets(node, origin[i], direction[i], rays[2][i], rays[3][i]) for i in range(RAYS)])
        met &= np.array([group >> i & 1 for i in range(RAYS)], np.bool_)[:, None]
        met[:, 7] = False
        expected = [lane for lane in order if met[:, lane].any()]
        assert list(refs[:size]) == [11 + lane for lane in expected]
        for row, lane in zip(entries, expected, strict=False):
            entered = int(row.view(np.uint64)[packet_state.ENTRY_BITS // 8])
            np.testing.assert_array_equal([entered >> i & 1 for i in range(RAYS)], met[:, lane])
        top = met[:, expected[-1]] if expected else np.zeros(RAYS, np.bool_)
        assert int(last) == sum(1 << i for i in range(RAYS) if top[i])
        stacked, left_out = stacked + size, left_out + 7 - size
    assert stacked > 50
    assert left_out > 50


def test_a_transform_rounds_every_operation() -> None:
    random = np.random.default_rng(6)
    rays = random_rays(random, False)
    packet, _ = block(rays)
    matrix = random.normal(0, 1, (3, 4)).astype(np.float32)
    assert transform(packet.ctypes.data, matrix.ctypes.data) == 0xFFFF
    origin, direction = rays[0].reshape(RAYS, 3).T, rays[1].reshape(RAYS, 3).T
    space = packet[packet_state.PACKET_OBJECT :][:384].view(np.float32).reshape(2, 3, 16)
    for axis, m in enumerate(matrix):
        np.testing.assert_array_equal(
            space[0, axis], (((m[0] * origin[0] + m[1] * origin[1]) + m[2] * origin[2]) + m[3])[:16]
        )
        np.testing.assert_array_equal(
            space[1, axis], ((m[0] * direction[0] + m[1] * direction[1]) + m[2] * direction[2])[:16]
        )


def test_rays_that_break_rules_are_told() -> None:
    """RAY-2 and RAY-3 make a ray invalid; an infinite one (RAY-5) is only not traced."""
    origin, direction = np.ones((RAYS, 3), np.float32), np.ones((RAYS, 3), np.float32)
    t_min, t_max = np.zeros(RAYS, np.float32), np.ones(RAYS, np.float32)
    origin[1, 2], direction[2, 0], t_min[3], t_max[4], t_min[5], t_min[6] = np.nan, np.nan, np.nan, np.nan, -1, 2
    origin[7, 0], direction[8, 1] = np.inf, -np.inf
    _, bits = block((origin.ravel(), direction.ravel(), t_min, t_max))
    assert bits >> 16 == 0b1111110
    assert bits & 0xFFFF == 0xFFFF & ~0b111111110


@pytest.mark.slow
def test_vectors_of_other_widths_give_the_same_bits() -> None:
    """Those that every processor of the family has; and without the JIT there are no packets at all."""
    from tests.properties.packet_cases import digests

    root = Path(__file__).parents[3]
    script = "import json; from tests.properties.packet_cases import digests; print(json.dumps(digests()))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=280,
        env={**os.environ, "PYTHONPATH": str(root), "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == digests()
