"""Leaf elements and nodes of a finished tree, written where they stay, boxes from the primitives upward.

A tree comes as topology: for each node eight int32 ``children`` (see ``topology``), for each leaf element the range of
references it holds. Boxes are unions of the float32 coordinates that the structure holds, whatever the cuts were chosen
by. Everything is at addresses; ``sources`` is a table of SOURCE_BYTES rows (see ``references``).
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import emit, emit_loops, jit
from rtviewer.kernels.constants import PRIMITIVE_BITS
from rtviewer.kernels.emit import FLOAT4, FLOAT8, INT32, INT64
from rtviewer.kernels.emit_loops import INT4, INT8, long
from rtviewer.kernels.exact_cost import NODE_BYTES, WIDTH
from rtviewer.kernels.memory import load_f32, load_i32, load_i64, store_f32, store_i32
from rtviewer.kernels.morton import ROW_MASK
from rtviewer.kernels.references import (
    REFERENCE_BYTES,
    SOURCE_BYTES,
    SOURCE_FIRST,
    SOURCE_ID,
    SOURCE_INDICES,
    SOURCE_VERTICES,
    corner_addresses,
    corners_at,
    floats_at,
    integer_at,
)

TRIANGLES = 0
INDEXED = 1
BOXES = 2
INSTANCES = 3

TRIANGLE_PACK_BYTES = 160
INDEXED_PACK_BYTES = 16
BOX_PACK_BYTES = 112
IDS_IN_TRIANGLE_PACK = 144
IDS_IN_BOX_PACK = 96
AHEAD = 6
"""Corners of triangles are anywhere in memory: those of the pack so many places on are asked for early."""
LARGEST = 3.0e38
SMALLEST_INT = -(1 << 31)
SORT_LAYERS = (
    ((0, 1), (2, 3), (4, 5), (6, 7)),
    ((0, 2), (1, 3), (4, 6), (5, 7)),
    ((1, 2), (5, 6)),
    ((0, 4), (1, 5), (2, 6), (3, 7)),
    ((2, 4), (3, 5)),
    ((1, 2), (3, 4), (5, 6)),
)
"""Batcher's network for eight, largest first: pairs that are put in order, layer by layer."""


def _lane(builder, row, in_order, lone, first_source, references, sources):
    """(id word, source fields, number in its source) of the triangle in a row of the references.

    The source is the first where there is no other; where rows are ``in_order`` of its triangles too, nothing of the
    row needs to be read.
    """
    vertices, indices, first, word = first_source
    at = emit_loops.offset(builder, references, row, REFERENCE_BYTES)
    plain = builder.add(word, builder.trunc(row, INT32))
    (word,) = emit_loops.either(builder, builder.not_(in_order), [plain], lambda: [emit.load(builder, at, 12, INT32)])

    def look_up():
        owner = builder.sext(emit.load(builder, at, 28, INT32), INT64)
        source = emit_loops.offset(builder, sources, owner, SOURCE_BYTES)
        return [emit.load(builder, source, field, INT64) for field in (SOURCE_VERTICES, SOURCE_INDICES, SOURCE_FIRST)]

    vertices, indices, first = emit_loops.either(builder, builder.not_(lone), [vertices, indices, first], look_up)
    primitive = builder.zext(builder.and_(word, ir.Constant(INT32, PRIMITIVE_BITS)), INT64)
    return word, vertices, indices, builder.sub(primitive, first)


@intrinsic
def _triangle_packs_intrinsic(
    typing_context, references, keys, packs, count, sources, source_count, in_order, out, stride, ids_at, boxes
):
    def generate(context, builder, signature, arguments):
        references, keys, packs, count, sources, source_count, in_order, out, stride, ids_at, boxes = arguments
        sorted_by_keys = builder.icmp_signed("!=", keys, long(0))
        lone = builder.icmp_signed("==", source_count, long(1))
        in_order = builder.and_(builder.and_(lone, sorted_by_keys), builder.icmp_signed("!=", in_order, long(0)))
        with_corners = builder.icmp_signed("!=", ids_at, long(0))
        first_source = [
            emit.load(builder, sources, field, INT64) for field in (SOURCE_VERTICES, SOURCE_INDICES, SOURCE_FIRST)
        ] + [emit.load(builder, sources, SOURCE_ID, INT32)]
        lowest = emit.constant(FLOAT4, emit_loops.INFINITY)
        highest = emit.constant(FLOAT4, -emit_loops.INFINITY)

        def lanes_of(element):
            """(used, word, triangle) of each lane; a lane that is not used is like the last one that is."""
            pack = emit_loops.offset(builder, packs, element, 8)
            first, end = (builder.sext(emit.load(builder, pack, at, INT32), INT64) for at in (0, 4))
            last = builder.sub(end, long(1))
            for number in range(4):
                at = builder.add(first, long(number))
                used = builder.icmp_signed("<=", at, last)
                at = builder.select(used, at, last)

                def by_key(at=at):
                    key = emit.load_at(builder, emit_loops.offset(builder, keys, at, 8), INT64)
                    return [builder.and_(key, long(ROW_MASK))]

                (row,) = emit_loops.either(builder, sorted_by_keys, [at], by_key)
                word, *triangle = _lane(builder, row, in_order, lone, first_source, references, sources)
                yield used, word, triangle

        def body(element, carried):
            (place,) = carried
            later = builder.add(element, long(AHEAD))
            later = builder.select(builder.icmp_signed("<", later, count), later, element)
            for _, _, triangle in lanes_of(later):
                for corner in corner_addresses(builder, *triangle):
                    emit.prefetch(builder, corner)
            low, high, ids, lanes = lowest, highest, ir.Constant(INT4, [-1] * 4), []
            for number, (used, word, triangle) in enumerate(lanes_of(element)):
                points = corners_at(builder, *triangle)
                for point in points:
                    low, high = emit.smaller(builder, point, low), emit.larger(builder, point, high)
                mask = emit.splat(builder, builder.sext(used, INT32), INT4)
                lanes.append([builder.bitcast(builder.and_(builder.bitcast(p, INT4), mask), FLOAT4) for p in points])
                word = builder.select(used, word, ir.Constant(INT32, -1))
                ids = builder.insert_element(ids, word, ir.Constant(INT32, number))
            emit.store(builder, ids, builder.add(place, ids_at), 0)
            box = emit_loops.joined(builder, emit_loops.negative(builder, low), high)
            emit.store(builder, box, emit_loops.offset(builder, boxes, element, 32), 0)
            with builder.if_then(with_corners):
                for corner in range(3):
                    columns = emit_loops.transposed(builder, [points[corner] for points in lanes])
                    for axis in range(3):
                        emit.store(builder, columns[axis], place, 48 * corner + 16 * axis)
            return (builder.add(place, stride),)

        emit_loops.loop(builder, long(0), count, 1, (out,), body)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 11), generate


def _orders(builder, low, high):
    """Eight words: in word r, bits 3*octant to 3*octant + 2, the lane that comes r-th from far to near by centre.

    Distances become integers of the same order, whose three lowest bits make room for the lane, and a network sorts
    them; empty lanes come last. From the opposite octant the same lanes come in the opposite order: only four octants
    are sorted.
    """
    most, least = emit.constant(FLOAT8, LARGEST), emit.constant(FLOAT8, -LARGEST)
    empty = builder.fcmp_ordered(">", low[0], high[0])
    eighth = emit.constant(FLOAT8, 0.125)

    def clamped(value):
        return builder.fmul(emit.smaller(builder, emit.larger(builder, value, least), most), eighth)

    centre = [builder.fadd(clamped(a), clamped(b)) for a, b in zip(low, high, strict=True)]

    def body(octant, carried):
        key = None
        for axis in range(3):
            bit = builder.and_(builder.lshr(octant, long(axis)), long(1))
            sign = builder.sitofp(builder.sub(builder.shl(bit, long(1)), long(1)), emit.FLOAT)
            term = builder.fmul(centre[axis], emit.splat(builder, sign, FLOAT8))
            key = term if key is None else builder.fadd(key, term)
        bits = builder.bitcast(key, INT8)
        sign = builder.and_(builder.ashr(bits, emit.constant(INT8, 31)), emit.constant(INT8, 0x7FFFFFFF))
        word = builder.select(empty, emit.constant(INT8, SMALLEST_INT), builder.xor(bits, sign))
        word = builder.or_(builder.and_(word, emit.constant(INT8, -8)), ir.Constant(INT8, list(range(7, -1, -1))))
        for pairs in SORT_LAYERS:
            partner, is_first = list(range(8)), [1] * 8
            for first, second in pairs:
                partner[first], partner[second], is_first[second] = second, first, 0
            other = emit_loops.shuffle(builder, word, word, partner)
            above = builder.icmp_signed(">", word, other)
            most, least = builder.select(above, word, other), builder.select(above, other, word)
            word = builder.select(ir.Constant(ir.VectorType(emit.BOOL, 8), is_first), most, least)
        order = builder.xor(builder.and_(word, emit.constant(INT8, 7)), emit.constant(INT8, 7))

        def placed(turned):
            shift = builder.trunc(builder.mul(turned, long(3)), INT32)
            return builder.shl(order, emit.splat(builder, shift, INT8))

        opposite = placed(builder.sub(long(7), octant))
        return builder.or_(carried[0], placed(octant)), builder.or_(carried[1], opposite)

    start = (emit.constant(INT8, 0), emit.constant(INT8, 0))
    words, opposite = emit_loops.loop(builder, long(0), long(4), 1, start, body)
    return builder.or_(words, _reversed(builder, opposite, empty))


def _reversed(builder, words, empty):
    """The words of occupied ranks in opposite order, and behind them, too, those of the empty ones."""
    backward = emit_loops.shuffle(builder, words, words, range(7, -1, -1))
    both = emit_loops.room(builder, INT8, 2)
    for half in (0, 32):
        emit.store(builder, backward, both, half)
    lanes = builder.bitcast(empty, ir.IntType(8))
    number = builder.zext(builder.ctpop(lanes), INT64)
    return emit.load_at(builder, emit_loops.offset(builder, both, number, 4), INT8)


@intrinsic
def _node_intrinsic(typing_context, children, node_boxes, element_boxes, box_out, node_out, node_base, element_base):
    def generate(context, builder, signature, arguments):
        children, node_boxes, element_boxes, box_out, node_out, node_base, element_base = arguments
        boxes = emit_loops.room(builder, FLOAT8, WIDTH)

        def unite(lane, carried):
            child = emit.load_at(builder, emit_loops.offset(builder, children, lane, 4), INT32)
            child = builder.sext(child, INT64)
            is_leaf = builder.icmp_signed("<", child, long(0))
            leaf = builder.not_(child)
            first = builder.select(
                is_leaf,
                emit_loops.offset(builder, element_boxes, builder.ashr(leaf, long(2)), 32),
                emit_loops.offset(builder, node_boxes, child, 32),
            )
            count = builder.select(is_leaf, builder.add(builder.and_(leaf, long(3)), long(1)), long(1))
            count = builder.select(builder.icmp_signed("==", child, long(0)), long(0), count)

            def add(at, inner):
                return (emit.larger(builder, emit.load_at(builder, at, FLOAT8), inner[0]),)

            end = emit_loops.offset(builder, first, count, 32)
            (box,) = emit_loops.loop(builder, first, end, 32, (emit_loops.nothing(),), add)
            emit.store(builder, box, emit_loops.offset(builder, boxes, lane, 32), 0)
            return (emit.larger(builder, box, carried[0]),)

        (whole,) = emit_loops.loop(builder, long(0), long(WIDTH), 1, (emit_loops.nothing(),), unite)
        emit.store(builder, whole, box_out, 0)
        rows = [emit.load(builder, boxes, 32 * lane, FLOAT8) for lane in range(WIDTH)]
        low, high = [], []
        for half, result in ((emit_loops.low, low), (emit_loops.high, high)):
            parts = [half(builder, row) for row in rows]
            first, last = emit_loops.transposed(builder, parts[:4]), emit_loops.transposed(builder, parts[4:])
            result += [emit_loops.joined(builder, first[axis], last[axis]) for axis in range(3)]
        low = [emit_loops.negative(builder, value) for value in low]
        for axis in range(3):
            emit.store(builder, low[axis], node_out, 64 * axis)
            emit.store(builder, high[axis], node_out, 64 * axis + 32)
        child, zero = emit.load_at(builder, children, INT8), emit.constant(INT8, 0)
        base = builder.trunc(node_base, INT32)
        inner = builder.add(child, emit.splat(builder, base, INT8))
        base = builder.shl(builder.trunc(element_base, INT32), ir.Constant(INT32, 2))
        outer = builder.sub(child, emit.splat(builder, base, INT8))
        moved = builder.select(builder.icmp_signed("<", child, zero), outer, child)
        moved = builder.select(builder.icmp_signed(">", child, zero), inner, moved)
        emit.store(builder, moved, node_out, 192)
        emit.store(builder, _orders(builder, low, high), node_out, 224)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), generate


# --- the same in numpy --------------------------------------------------------------------------------------------


def triangle_packs_portable(
    references, keys, packs, count, sources, source_count, in_order, out, stride, ids_at, boxes
):
    for element in range(int(count)):
        first, end = (int(k) for k in floats_at(packs + 8 * element, 2).view(np.int32))
        place = out + stride * element
        ids, points = floats_at(place + ids_at, 4).view(np.int32), np.zeros((4, 3, 3), np.float32)
        ids[:] = -1
        for lane, at in enumerate(range(first, end)):
            row = integer_at(keys + 8 * at, 8) & ROW_MASK if keys else at
            ids[lane] = integer_at(references + REFERENCE_BYTES * row + 12, 4)
            source = sources + SOURCE_BYTES * integer_at(references + REFERENCE_BYTES * row + 28, 4)
            number = (int(ids[lane]) & PRIMITIVE_BITS) - integer_at(source + SOURCE_FIRST, 8)
            vertices, indices = integer_at(source + SOURCE_VERTICES, 8), integer_at(source + SOURCE_INDICES, 8)
            for corner in range(3):
                index = 3 * number + corner
                if indices:
                    index = integer_at(indices + 4 * index, 4) & 0xFFFFFFFF
                points[lane, corner] = floats_at(vertices + 12 * index, 3)
        flat = points[: end - first].reshape(-1, 3)
        box = floats_at(boxes + 32 * element, 8)
        box[:] = 0
        box[:3], box[4:7] = -flat.min(0), flat.max(0)
        if ids_at:
            floats_at(place, 36)[:] = points.transpose(1, 2, 0).ravel()


def node_portable(children, node_boxes, element_boxes, box_out, node_out, node_base, element_base):
    child = floats_at(children, 8).view(np.int32).astype(np.int64)
    boxes = np.full((8, 8), -np.inf, np.float32)
    for lane in range(WIDTH):
        if child[lane] > 0:
            boxes[lane] = floats_at(node_boxes + 32 * int(child[lane]), 8)
        elif child[lane] < 0:
            first, count = int(~child[lane]) >> 2, (int(~child[lane]) & 3) + 1
            boxes[lane] = floats_at(element_boxes + 32 * first, 8 * count).reshape(-1, 8).max(0)
    floats_at(box_out, 8)[:] = boxes.max(0)
    node = floats_at(node_out, 64).reshape(8, 8)
    low, high = -boxes[:, :3].T, boxes[:, 4:7].T
    node[0:6:2], node[1:6:2] = low, high
    moved = np.where(child > 0, child + node_base, np.where(child < 0, child - 4 * element_base, 0))
    node.view(np.int32)[6] = moved
    eighth = np.float32(0.125)
    limit = np.float32(LARGEST)
    centre = np.clip(low, -limit, limit) * eighth + np.clip(high, -limit, limit) * eighth
    words, occupied = np.zeros(8, np.int64), int((low[0] <= high[0]).sum())
    turned = [*range(occupied - 1, -1, -1), *range(7, occupied - 1, -1)]
    for octant in range(4):
        signs = np.array([2 * (octant >> axis & 1) - 1 for axis in range(3)], np.float32)
        key = (signs[0] * centre[0] + signs[1] * centre[1]) + signs[2] * centre[2]
        bits = key.view(np.int32)
        word = np.where(low[0] > high[0], np.int32(SMALLEST_INT), bits ^ (bits >> 31 & 0x7FFFFFFF))
        word = np.sort(word & ~7 | np.arange(7, -1, -1))[::-1]
        lanes = (word & 7 ^ 7).astype(np.int64)
        words |= lanes << 3 * octant | lanes[turned] << 3 * (7 - octant)
    node.view(np.uint32)[7] = words


if numba.config.DISABLE_JIT:
    triangle_packs, write_node = triangle_packs_portable, node_portable
else:
    triangle_packs = _triangle_packs_intrinsic
    """triangle_packs(references, keys, packs, count, sources, source_count, in_order, out, stride, ids_at, boxes):
    ``count`` packs of up to four triangles at ``out``, ``stride`` bytes apart, and the box of each to ``boxes``. Ids
    stand ``ids_at`` bytes into a pack, after the corners; with 0 there are no corners. Unused lanes are 0 and -1. Where
    ``keys`` is not 0, ranges are of keys, whose low bits are rows of the references; ``in_order``: rows are those of
    the triangles of the only source."""
    write_node = _node_intrinsic
    """write_node(children, node_boxes, element_boxes, box_out, node_out, node_base, element_base): the 256 bytes of a
    node from the boxes below it, and its own box; references move by the bases."""


@jit
def row_of(keys, at):
    return load_i64(keys + 8 * at) & ROW_MASK if keys != 0 else at


@jit
def box_at(references, row, sources):
    """Address of the six float32 of a primitive that is a box."""
    reference = references + REFERENCE_BYTES * row
    source = sources + SOURCE_BYTES * np.int64(load_i32(reference + 28))
    number = np.int64(load_i32(reference + 12)) & PRIMITIVE_BITS
    return load_i64(source + SOURCE_VERTICES) + 24 * (number - load_i64(source + SOURCE_FIRST))


@jit
def box_pack(references, keys, first, end, sources, out, box_out):
    """A pack of up to four boxes at ``out`` (0: nowhere), and the box around them at ``box_out``."""
    for k in range(8):
        store_f32(box_out + 4 * k, np.float32(-np.inf))
    if out != 0:
        for word in range(BOX_PACK_BYTES // 4):
            store_i32(out + 4 * word, np.int32(-1 if 4 * word >= IDS_IN_BOX_PACK else 0))
    for lane in range(end - first):
        row = row_of(keys, first + lane)
        box = box_at(references, row, sources)
        for axis in range(3):
            low, high = load_f32(box + 4 * axis), load_f32(box + 12 + 4 * axis)
            if -low > load_f32(box_out + 4 * axis):
                store_f32(box_out + 4 * axis, -low)
            if high > load_f32(box_out + 16 + 4 * axis):
                store_f32(box_out + 16 + 4 * axis, high)
            if out != 0:
                store_f32(out + 16 * axis + 4 * lane, low)
                store_f32(out + 48 + 16 * axis + 4 * lane, high)
        if out != 0:
            word = load_i32(references + REFERENCE_BYTES * row + 12)
            store_i32(out + IDS_IN_BOX_PACK + 4 * lane, word)


@jit
def fill_elements(kind, references, keys, packs, count, sources, source_count, in_order, out, boxes):
    """Write ``count`` leaf elements to ``out`` and their boxes. ``packs``: two int32 each, a range of references.

    For INSTANCES, ``out`` receives the id of each element's reference as int32.
    """
    if kind == TRIANGLES or kind == INDEXED:
        stride = TRIANGLE_PACK_BYTES if kind == TRIANGLES else INDEXED_PACK_BYTES
        ids_at = IDS_IN_TRIANGLE_PACK if kind == TRIANGLES else 0
        triangle_packs(references, keys, packs, count, sources, source_count, in_order, out, stride, ids_at, boxes)
        return
    for element in range(count):
        first, end = np.int64(load_i32(packs + 8 * element)), np.int64(load_i32(packs + 8 * element + 4))
        place = out + BOX_PACK_BYTES * element if kind == BOXES else np.int64(0)
        box_pack(references, keys, first, end, sources, place, boxes + 32 * element)
        if kind == INSTANCES:
            store_i32(out + 4 * element, load_i32(references + REFERENCE_BYTES * row_of(keys, first) + 12))


@jit
def fill_nodes(children, count, node_boxes, element_boxes, out, node_base, element_base):
    """Write ``count`` nodes to ``out``, the last first, since children come after their parents.

    ``node_boxes`` receives their boxes; ``element_boxes`` are those of the elements that ``children`` count from 0.
    """
    for node in range(count - 1, -1, -1):
        write_node(
            children + 4 * WIDTH * node, node_boxes, element_boxes, node_boxes + 32 * node,
            out + NODE_BYTES * node, node_base, element_base,
        )  # fmt: skip
