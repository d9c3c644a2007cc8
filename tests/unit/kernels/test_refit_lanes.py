"""The vector steps of an update equal their portable twins bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.kernels import jit, refit_lanes

STRANGE = np.array([0.0, -0.0, 1e-30, 1e-42, 3e38, np.inf, -np.inf, 1.0], np.float32)


@jit
def call_pack(identities, row, out, new_identities, element):
    return refit_lanes.refit_pack(identities, row, out, new_identities, element)


@jit
def call_leaves(source, target, elements):
    refit_lanes.leaf_lanes(source, target, elements)


@jit
def call_join(child, lane):
    refit_lanes.join_child(child, lane)


@jit
def call_scan(words, scan):
    refit_lanes.scan_words(words, scan)


@pytest.mark.parametrize("seed", range(60))
def test_a_pack(seed: int) -> None:
    random = np.random.default_rng(seed)
    count, first = 12, 1000
    vertices = random.normal(size=(20, 3)).astype(np.float32)
    if seed % 3 == 1:
        vertices = random.integers(-2, 3, (20, 3)).astype(np.float32)
    if seed % 3 == 2:
        vertices = random.choice(STRANGE, (20, 3))
    indices = random.integers(0, 20, (count, 3)).astype(np.uint32)
    row = np.array([first, first + count, vertices.ctypes.data, indices.ctypes.data, 0x20000000], np.int64)
    used = random.integers(1, 5)
    identities = (first + random.integers(0, count, 4)).astype(np.int32)
    identities[used:] = -1
    identities[0] |= np.int32(-0x80000000)
    results = []
    for work in (call_pack, refit_lanes.pack_portable):
        out, new, element = np.full(36, 7, np.float32), np.zeros(4, np.int32), np.zeros(8, np.float32)
        mask = work(*(a.ctypes.data for a in (identities, row, out, new, element)))
        results.append((int(mask), out, new, element[:3], element[4:7]))
    assert results[0][0] == results[1][0]
    for got, expected in zip(results[0][1:], results[1][1:], strict=True):
        assert np.array_equal(got, expected), seed
    assert (results[0][2] >= -1).all()
    assert (results[0][2][:used] & 0x20000000).all()


@pytest.mark.parametrize("seed", range(20))
def test_the_leaf_lanes_of_a_node_and_the_union_of_a_node(seed: int) -> None:
    random = np.random.default_rng(seed)
    elements = random.normal(size=(40, 8)).astype(np.float32)
    node = random.normal(size=64).astype(np.float32)
    children = node.view(np.int32)[48:56]
    children[:] = [~(int(random.integers(0, 36)) << 2 | int(random.integers(0, 4))) for _ in range(8)]
    children[random.permutation(8)[:3]] = [0, 5, 17]
    results = []
    for leaves, join in (
        (call_leaves, call_join),
        (refit_lanes.leaves_portable, refit_lanes.join_portable),
    ):
        target, parent = np.zeros(64, np.float32), np.zeros(64, np.float32)
        leaves(node.ctypes.data, target.ctypes.data, elements.ctypes.data)
        join(target.ctypes.data, parent.ctypes.data + 4 * (seed % 8))
        results.append((target, parent))
    assert np.array_equal(results[0][0].view(np.int32), results[1][0].view(np.int32))
    assert np.array_equal(results[0][1], results[1][1])
    lane = int(np.flatnonzero(children < 0)[0])
    first, number = ~int(children[lane]) >> 2, (~int(children[lane]) & 3) + 1
    assert results[0][0][lane] == elements[first : first + number, 0].min()


def test_a_scan_step() -> None:
    random = np.random.default_rng(1)
    words = random.integers(0, 1 << 32, 32, dtype=np.uint32)
    states = [np.arange(40, dtype=np.uint32) for _ in range(2)]
    call_scan(words.ctypes.data, states[0].ctypes.data)
    refit_lanes.scan_portable(words.ctypes.data, states[1].ctypes.data)
    assert np.array_equal(states[0], states[1])
    assert states[0][32:].max() == words.max()
