"""The vector steps of an update equal their portable twins bit for bit."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from rtviewer.kernels import jit, refit_corners, refit_lanes
from rtviewer.kernels import refit_state as state
from rtviewer.kernels.memory import add_i64, store_i32

STRANGE = np.array([0.0, -0.0, 1e-30, 1e-42, 3e38, np.inf, -np.inf, 1.0], np.float32)


@jit
def call_pack(identities, row, out, new_identities, element):
    return refit_lanes.refit_pack(identities, row, out, new_identities, element)


@jit
def call_node(source, target, leaves, elements, boxes, last, out):
    refit_lanes.node_lanes(source, target, leaves, elements, boxes, last, out)


@jit
def call_union(node, out):
    refit_lanes.union_of_lanes(node, out)


@jit
def call_list(node, listed, packs, leaves):
    return refit_lanes.list_leaves(node, listed, packs, leaves)


@jit
def call_in_row(identities, row):
    return refit_lanes.is_in_row(identities, row)


@jit
def call_gather(identities, new_identities, room):
    refit_corners.gather_pack(identities, new_identities, room)


@jit
def call_vertices(identities, points, work):
    refit_corners.write_vertices(identities, points, work)


@jit
def call_note(pack, mask, work):
    refit_corners.note_lanes(np.int32(pack), np.uint32(mask), work)


@jit
def call_add(address, count, seen):
    for _ in range(count):
        store_i32(seen + 4 * add_i64(address, 1), np.int32(1))


@jit
def call_scan(words, count, scan):
    refit_lanes.scan_words(words, count, scan)


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


@pytest.mark.parametrize("seed", range(40))
def test_the_lanes_of_a_node_and_their_union(seed: int) -> None:
    random = np.random.default_rng(seed)
    elements, boxes = (random.normal(size=(40, 8)).astype(np.float32) for _ in range(2))
    elements[:, 7] = boxes[:, 7] = 0
    boxes[17, 7] = 1
    node = random.normal(size=64).astype(np.float32)
    children = node.view(np.int32)[48:56]
    children[:] = [~(int(random.integers(0, 36)) << 2 | int(random.integers(0, 4))) for _ in range(8)]
    unknown = [[5], [17], [30], [5, 9]][seed % 4]
    lanes = random.permutation(8)[: len(unknown) + 2]
    children[lanes] = [0, 5, *unknown]
    results = []
    for lanes_of, union in (
        (call_node, call_union),
        (refit_lanes.node_portable, refit_lanes.union_portable),
    ):
        target, own, again = np.zeros(64, np.float32), np.zeros(8, np.float32), np.ones(8, np.float32)
        lanes_of(
            node.ctypes.data, target.ctypes.data, children.ctypes.data, elements.ctypes.data, boxes.ctypes.data, 30,
            own.ctypes.data,
        )  # fmt: skip
        union(target.ctypes.data, again.ctypes.data)
        assert own[7] == (seed % 4 in (1, 2))
        assert again[7] == 0
        if not own[7]:
            assert np.array_equal(np.delete(own, 3), np.delete(again, 3))
        known = np.flatnonzero(children < 30)
        results.append((target.reshape(8, 8)[:6, known], target.view(np.int32)[48:], np.delete(own, 3)))
    assert np.array_equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])
    assert np.array_equal(results[0][1][:8], children)
    if seed % 4 in (0, 3):
        assert np.array_equal(results[0][2], results[1][2])
    planes = target.reshape(8, 8)
    assert planes[0, lanes[0]] == np.inf
    assert planes[1, lanes[0]] == -np.inf
    assert np.array_equal(planes[0:6:2, lanes[1]], boxes[5, :3])
    lane = int(np.flatnonzero(children < 0)[0])
    first, number = ~int(children[lane]) >> 2, (~int(children[lane]) & 3) + 1
    assert planes[0, lane] == elements[first : first + number, 0].min()


@pytest.mark.parametrize("seed", range(20))
def test_a_list_of_leaf_elements(seed: int) -> None:
    random = np.random.default_rng(seed)
    nodes = np.zeros((5, 64), np.float32)
    children = nodes.view(np.int32)[:, 48:56]
    first, number = random.integers(0, 1 << 28, (5, 8)), random.integers(1, 5, (5, 8))
    children[:] = ~(first << 2 | (number - 1))
    inner = random.random((5, 8)) < 0.3
    children[inner] = random.integers(0, 1 << 28, inner.sum())
    expected = [f + k for f, n, i in zip(first.flat, number.flat, inner.flat, strict=True) if not i for k in range(n)]
    for step in (call_list, refit_lanes.list_portable):
        packs, leaves, listed = np.zeros(32 * 5 + 4, np.int32), np.zeros((5, 8), np.int32), 0
        for node in range(5):
            listed = int(step(nodes[node].ctypes.data, listed, packs.ctypes.data, leaves[node].ctypes.data))
        assert packs[:listed].tolist() == expected
        code = ~leaves[~inner]
        assert np.array_equal(packs[code >> 2], first[~inner])
        assert np.array_equal((code & 3) + 1, number[~inner])


@pytest.mark.parametrize("seed", range(20))
def test_a_pack_of_several_geometries(seed: int) -> None:
    random = np.random.default_rng(seed)
    vertices = [random.normal(size=(9, 3)).astype(np.float32) for _ in range(2)]
    indices = [random.integers(0, 9, (50, 3)).astype(np.uint32) for _ in range(2)]
    rows = np.array(
        [[50 * k, 50 * k + 50, vertices[k].ctypes.data, indices[k].ctypes.data, k << 29] for k in range(2)], np.int64
    )
    used = 1 + seed % 4
    number = random.integers(0, 100, 4)
    identities = np.where(np.arange(4) < used, number | (seed & 1) << 30, -1).astype(np.int32)
    in_first = bool((number[:used] < 50).all())
    assert bool(call_in_row(identities.ctypes.data, rows.ctypes.data)) == in_first
    assert refit_lanes.in_row_portable(identities.ctypes.data, rows.ctypes.data) == in_first
    for gather in (call_gather, refit_corners.gather_portable):
        room, new = np.zeros(state.PART_PACKS, np.uint8), np.zeros(4, np.int32)
        room[state.LANE_ROWS :][:32].view(np.int64)[:] = [rows[k].ctypes.data for k in (number >= 50).astype(int)]
        gather(identities.ctypes.data, new.ctypes.data, room.ctypes.data)
        owner = (number >= 50).astype(int)
        assert new.tolist() == [int(n | k << 29) for n, k in zip(number, owner, strict=True)][:used] + [-1] * (4 - used)
        out, element, at = np.zeros((3, 3, 4), np.float32), np.zeros(8, np.float32), room.ctypes.data
        call_pack(
            at + state.LANE_IDENTITIES, at + state.LANE_ROW, out.ctypes.data, at + state.LANE_IDENTITIES,
            element.ctypes.data,
        )  # fmt: skip
        for lane in range(used):
            corners = vertices[owner[lane]][indices[owner[lane]][number[lane] % 50]]
            assert np.array_equal(out[:, :, lane], corners)
        assert not out[:, :, used:].any()


def test_corners_go_where_the_index_rows_say_and_doubtful_lanes_are_noted() -> None:
    random = np.random.default_rng(0)
    indices = np.arange(30, dtype=np.uint32).reshape(10, 3)[random.permutation(10)]
    identities = np.array([7 | 1 << 29, 2, 9, -1], np.int32)
    points = random.normal(size=(3, 3, 4)).astype(np.float32)
    for write, note in (
        (call_vertices, call_note),
        (refit_corners.vertices_portable, refit_corners.note_portable),
    ):
        vertices, lanes, work = np.zeros((30, 3), np.float32), np.full(12, -1, np.int32), np.zeros(14, np.int64)
        work[state.INDEX_ROWS // 8], work[state.VERTEX_ROWS // 8] = indices.ctypes.data, vertices.ctypes.data
        work[state.DOUBTFUL // 8] = lanes.ctypes.data
        write(identities.ctypes.data, points.ctypes.data, work.ctypes.data)
        for lane, number in enumerate((7, 2, 9)):
            assert np.array_equal(vertices[indices[number]], points[:, :, lane])
        assert np.count_nonzero(vertices.any(1)) == 9
        note(5, 0b1010, work.ctypes.data)
        note(1, 0b0001, work.ctypes.data)
        assert lanes.tolist() == [21, 23, 4] + [-1] * 9
        assert work[state.DOUBTFUL_COUNT // 8] == 3


def test_threads_that_add_to_one_number_never_get_the_same_answer() -> None:
    number, seen = np.zeros(1, np.int64), np.zeros(400_000, np.int32)
    threads = [
        threading.Thread(target=call_add, args=(number.ctypes.data, 100_000, seen.ctypes.data)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert number[0] == 400_000
    assert seen.all()


@pytest.mark.parametrize("count", range(4))
def test_the_steps_of_a_scan(count: int) -> None:
    random = np.random.default_rng(count)
    words = random.integers(0, 1 << 32, 4 * 32, dtype=np.uint32)
    states = [np.arange(40, dtype=np.uint32) for _ in range(2)]
    call_scan(words.ctypes.data, count, states[0].ctypes.data)
    refit_lanes.scan_portable(words.ctypes.data, count, states[1].ctypes.data)
    assert np.array_equal(states[0], states[1])
    assert states[0][32:].max() == max(39, words[: 32 * count].max(initial=0))
