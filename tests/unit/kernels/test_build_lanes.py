"""The vector loops of the builder give the numbers of their portable twins."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.accel.structure import aligned_bytes
from rtviewer.build.reference_rows import SOURCE
from rtviewer.kernels import binning, chunks, jit, leaves, morton, references

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 1e-30, 3e5, -3e5, 0.5, 2.0], np.float32)


@jit
def call_half_area(frame):
    return references.half_area(frame)


@jit
def call_node(children, node_boxes, element_boxes, box_out, node_out, node_base, element_base):
    leaves.write_node(children, node_boxes, element_boxes, box_out, node_out, node_base, element_base)


@jit
def call_packs(refs, keys, packs, count, sources, source_count, in_order, out, stride, ids_at, boxes):
    leaves.triangle_packs(refs, keys, packs, count, sources, source_count, in_order, out, stride, ids_at, boxes)


def floats(count: int) -> np.ndarray:
    return aligned_bytes(4 * count).view(np.float32)


def random_rows(random: np.random.Generator, count: int, special: bool) -> np.ndarray:
    """References with ids in the lanes that are no coordinates."""
    points = random.normal(0, 2, (count, 2, 3)).astype(np.float32)
    if special:
        points = np.where(random.random(points.shape) < 0.4, random.choice(SPECIAL, points.shape), points)
    rows = floats(8 * count).reshape(-1, 8)
    rows[:, :3], rows[:, 4:7] = -points.min(1), points.max(1)
    rows.view(np.int32)[:, 3] = random.integers(-(1 << 31), 1 << 29, count)
    rows.view(np.int32)[:, 7] = random.integers(0, 5, count)
    return rows


def at(array: np.ndarray, row: int = 0) -> int:
    return int(array.ctypes.data + row * array.strides[0])


COORDINATES = [0, 1, 2, 4, 5, 6]


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("count", [1, 2, 9, 40, 700])
def test_a_binned_split(count: int, special: bool) -> None:
    random = np.random.default_rng(count)
    rows = random_rows(random, count, special)
    frames = [floats(16), floats(16)]
    chunks.measure_chunk(at(rows), at(rows, count), at(frames[0]))
    references.measure_portable(at(rows), at(rows, count), at(frames[1]))
    used = COORDINATES + [8 + k for k in COORDINATES]
    np.testing.assert_array_equal(frames[0][used], frames[1][used])
    assert call_half_area(at(frames[0])) == references.half_area_portable(at(frames[0]))

    bins = min(32, 4 + count // 16)
    boxes = [floats(24 * bins).reshape(-1, 3, 8) for _ in range(2)]
    chunks.bin_chunk(at(rows), at(rows, count), at(frames[0]), bins, at(boxes[0]))
    binning.fill_bins_portable(at(rows), at(rows, count), at(frames[0]), bins, at(boxes[1]))
    np.testing.assert_array_equal(boxes[0][..., COORDINATES], boxes[1][..., COORDINATES])
    counts = [b.view(np.int32)[..., binning.COUNT_LANE] for b in boxes]
    np.testing.assert_array_equal(*counts)
    assert (counts[0].sum(0) == count).all()

    halves, scratch = [floats(32), floats(32)], floats(4 * 32)
    plane = chunks.choose_plane(at(boxes[0]), bins, count, 2, at(scratch), at(halves[0]))
    assert plane == binning.best_plane_portable(at(boxes[0]), bins, count, 2, at(scratch), at(halves[1]))
    if count == 1:
        assert plane == -1
        return
    for half in (0, 16):
        np.testing.assert_array_equal(*(h[half : half + 8][COORDINATES] for h in halves))
    axis, first = plane >> 32, plane & 0xFFFFFFFF
    moved = [np.concatenate([rows, rows]) for _ in range(2)]
    middles = []
    for out, partition, half in zip(moved, (chunks.partition_chunk, binning.partition_portable), halves, strict=True):
        end = partition(at(rows), at(rows, count), at(frames[0]), bins, axis, first, at(out), at(out, count), at(half))
        middles.append((end - at(out)) // 32)
    assert middles[0] == middles[1] == counts[0][:first, axis].sum()
    np.testing.assert_array_equal(moved[0].view(np.int32), moved[1].view(np.int32))
    centres = [h[[8, 9, 10, 12, 13, 14, 24, 25, 26, 28, 29, 30]] for h in halves]
    np.testing.assert_array_equal(*centres)
    both = np.concatenate([moved[0][: middles[0]], moved[0][count : 2 * count - middles[0]]])
    np.testing.assert_array_equal(np.sort(both.view(np.int32)[:, 3]), np.sort(rows.view(np.int32)[:, 3]))


def sources_of(random: np.random.Generator, indexed: bool, special: bool) -> tuple[np.ndarray, list[np.ndarray]]:
    """Two sources of 40 triangles each."""
    table, held = np.zeros(2, SOURCE), []
    for number in range(2):
        vertices = random.normal(0, 1, (120, 3)).astype(np.float32)
        if special:
            vertices = np.where(
                random.random((120, 3)) < 0.3, random.choice([*SPECIAL, np.nan, np.inf], (120, 3)), vertices
            )
            vertices = vertices.astype(np.float32)
        indices = random.integers(0, 120, (40, 3)).astype(np.uint32)
        held += [vertices, indices]
        addresses = vertices.ctypes.data, indices.ctypes.data if indexed else 0
        table[number] = (*addresses, 40 * number, 0x20000000 * number, number)
    return table, held


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("indexed", [False, True])
def test_references_of_triangles(indexed: bool, special: bool) -> None:
    table, _held = sources_of(np.random.default_rng(5), indexed, special)
    results = []
    for make in (chunks.reference_triangles, references.triangle_references_portable):
        rows, status, frame = floats(8 * 40).reshape(-1, 8), np.zeros(40, np.uint8), floats(16)
        kinds = make(at(table, 1), 3, 40, at(rows), at(status), at(frame))
        results.append((rows, status, frame, kinds))
    (rows, status, frame, kinds), (rows2, status2, frame2, kinds2) = results
    np.testing.assert_array_equal(status, status2)
    assert kinds == kinds2 == np.bitwise_or.reduce(status)
    sound = (status == references.SURE) | (status == references.DOUBTFUL)
    np.testing.assert_array_equal(rows[sound][:, COORDINATES], rows2[sound][:, COORDINATES])
    np.testing.assert_array_equal(rows.view(np.int32)[:, [3, 7]], rows2.view(np.int32)[:, [3, 7]])
    assert (rows.view(np.int32)[3:, 3] == 0x20000000 + 40 + np.arange(3, 40)).all()
    assert special == bool(((status == references.INACTIVE) | (status == references.BROKEN)).any())
    if not special:
        np.testing.assert_array_equal(frame[COORDINATES], frame2[COORDINATES])


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("source_count", [1, 2])
@pytest.mark.parametrize("with_keys", [False, True])
@pytest.mark.parametrize("ids_at", [0, 144])
def test_packs(indexed: bool, source_count: int, with_keys: bool, ids_at: int) -> None:
    random = np.random.default_rng(6)
    table, _held = sources_of(random, indexed, False)
    total = 40 * source_count
    rows = floats(8 * total).reshape(-1, 8)
    status, frame = np.zeros(total, np.uint8), floats(16)
    for number in range(source_count):
        chunks.reference_triangles(
            at(table, number), 0, 40, at(rows, 40 * number), status.ctypes.data + 40 * number, at(frame)
        )
    keys = random.permutation(total).astype(np.int64) | (np.arange(total) << morton.ROW_BITS)
    sizes = random.integers(1, 5, 12)
    ends = np.cumsum(sizes)
    packs = np.stack([ends - sizes, ends], 1).astype(np.int32)
    stride = ids_at + 16
    results = []
    for write in (call_packs, leaves.triangle_packs_portable):
        out, boxes = aligned_bytes(stride * 12), floats(8 * 12).reshape(-1, 8)
        write(
            at(rows), at(keys) if with_keys else 0, at(packs), 12, at(table), source_count, int(source_count == 1),
            at(out), stride, ids_at, at(boxes),
        )  # fmt: skip
        results.append((out, boxes))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1][:, COORDINATES], results[1][1][:, COORDINATES])


@pytest.mark.parametrize("lanes", range(1, 9))
def test_nodes(lanes: int) -> None:
    random = np.random.default_rng(lanes)
    node_boxes, element_boxes = random_rows(random, 20, True), random_rows(random, 40, True)
    node_boxes[1, :3], node_boxes[1, 4:7] = np.inf, np.inf  # infinite boxes keep their place in the orders
    children = np.zeros(8, np.int32)
    children[:lanes] = random.permutation(
        np.array([1, 2, 9, 19, ~(0 << 2), ~(3 << 2 | 1), ~(7 << 2 | 3), ~(30 << 2 | 2)])
    )[:lanes]
    results = []
    for write in (call_node, leaves.node_portable):
        node, box = floats(64), floats(8)
        write(at(children), at(node_boxes), at(element_boxes), at(box), at(node), 1000, 500)
        results.append((node, box))
    (node, box), (node2, box2) = results
    np.testing.assert_array_equal(node[:48], node2[:48])
    np.testing.assert_array_equal(node.view(np.int32)[48:], node2.view(np.int32)[48:])
    np.testing.assert_array_equal(box[COORDINATES], box2[COORDINATES])
    orders = node.view(np.uint32)[56:, None] >> (3 * np.arange(8, dtype=np.uint32)) & 7
    assert (np.sort(orders, 0) == np.arange(8)[:, None]).all()


def test_morton_keys_follow_the_centres() -> None:
    random = np.random.default_rng(8)
    rows = random_rows(random, 300, False)
    frame, keys, portable = floats(16), np.zeros(300, np.int64), np.zeros(300, np.int64)
    chunks.measure_chunk(at(rows), at(rows, 300), at(frame))
    morton.make_keys(at(rows), 0, 300, at(frame), at(keys))
    morton.write_keys_portable(at(rows), 0, 300, at(frame), at(portable))
    np.testing.assert_array_equal(keys, portable)
    np.testing.assert_array_equal(keys & morton.ROW_MASK, np.arange(300))
    cells = (keys >> morton.ROW_BITS) & morton.CODE_MASK
    x = sum(((cells >> (3 * bit + 2)) & 1) << bit for bit in range(12))
    centre = (rows[:, 4] - rows[:, 0]).astype(np.float64)
    expected = (centre - centre.min()) / (centre.max() - centre.min()) * 4095
    assert np.abs(x - expected).max() <= 1.01


def test_morton_cuts_are_where_the_highest_bit_turns() -> None:
    codes = np.sort(np.random.default_rng(9).integers(0, 1 << 36, 500, dtype=np.int64))
    keys = codes << morton.ROW_BITS
    for first, end in ((0, 500), (17, 60), (400, 402), (250, 251 + 40)):
        middle = int(morton.split_morton(at(keys), first, end))
        bit = 1 << (int(codes[first] ^ codes[end - 1]).bit_length() - 1)
        assert (codes[first:middle] & bit == 0).all()
        assert (codes[middle:end] & bit != 0).all()
    same = np.full(10, 5, np.int64) << morton.ROW_BITS
    assert morton.split_morton(at(same), 0, 10) == 5
