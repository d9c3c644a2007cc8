"""The vector steps of an update: four triangles of a pack, the lanes of a node, 32 words of an index buffer.

Each is one intrinsic (see ``emit``) with a portable twin in numpy that runs where the JIT is off. Minima and maxima are
taken in a fixed order, so the bits of a box depend on its triangles alone.
"""

from __future__ import annotations

import ctypes

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import emit, emit_loops
from rtviewer.kernels.constants import PRIMITIVE_BITS

ELEMENT_SIZE = 32
"""Bytes of the box of a leaf element or a node: minimum x, y, z, any, maximum x, y, z, 0; float32. Of nodes the last is
1 while the box is not known."""
IDS_AHEAD, INDICES_AHEAD, VERTICES_AHEAD = 40, 20, 10
"""How many packs before its turn the ids of a pack are asked for, its indices, its vertices and where it goes to."""
SCAN_SIZE = 160
"""Bytes of a scan in the making, uint32x8 each: four hashes, the largest word."""
SCAN_WORDS = 32
"""Words of one step of a scan."""

UNSURE = np.float32(2.0**-20)
"""Sixteen unit roundoffs: what rounding can make of a difference of two products of differences, relative to the sum
of the products, is below half of this."""
TOO_SMALL = np.float32(1e-30)
"""Differences below this may be what underflow left of zero, or of something else."""

_INT4, _INT8 = ir.VectorType(emit.INT32, 4), ir.VectorType(emit.INT32, 8)
_MULTIPLIER, _TURN = 0x9E3779B1, 13
"""2^32 over the golden ratio, odd."""


def _shuffled(builder, vector, lanes):
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(emit.INT32, len(lanes)), list(lanes)))


def _blend(builder, a, b, lanes):
    return builder.shuffle_vector(a, b, ir.Constant(_INT4, lanes))


def _reduced(builder, vector, choose):
    """One value of all lanes, by halves."""
    while vector.type.count > 1:
        half = vector.type.count // 2
        if half == 1:
            low, high = (builder.extract_element(vector, ir.Constant(emit.INT32, k)) for k in range(2))
            return choose(builder, low, high)
        vector = choose(
            builder, _shuffled(builder, vector, range(half)), _shuffled(builder, vector, range(half, 2 * half))
        )
    return vector


def _vertex(builder, address):
    """x, y, z of a vertex in the lower lanes of a vector; twelve bytes are read and no more."""
    pointer = builder.inttoptr(address, emit.FLOAT4.as_pointer())
    mask = ir.Constant(ir.VectorType(emit.BOOL, 4), [1, 1, 1, 0])
    return _call(builder, "llvm.masked.load.v4f32.p0", emit.FLOAT4, [pointer, mask, emit.constant(emit.FLOAT4, 0.0)])


def _call(builder, name, result, arguments):
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(builder.module.globals.get(name) or ir.Function(builder.module, kind, name), arguments)


def _places(builder, identity, row):
    """Addresses of the vertices of a pack, [corner][lane]; an unused lane repeats the lane before it."""
    first, vertices, indices = (emit.load(builder, row, offset, emit.INT64) for offset in (0, 16, 24))
    places, before = [[], [], []], None
    for lane in range(4):
        number = builder.extract_element(identity, ir.Constant(emit.INT32, lane))
        if before is not None:
            number = builder.select(builder.icmp_signed("==", number, ir.Constant(emit.INT32, -1)), before, number)
        before = number
        number = builder.zext(builder.and_(number, ir.Constant(emit.INT32, PRIMITIVE_BITS)), emit.INT64)
        stored = builder.add(indices, builder.mul(builder.sub(number, first), ir.Constant(emit.INT64, 12)))
        for k in range(3):
            vertex = builder.zext(emit.load(builder, stored, 4 * k, emit.INT32), emit.INT64)
            places[k].append(builder.add(vertices, builder.mul(vertex, ir.Constant(emit.INT64, 12))))
    return places


def _transposed(builder, a, b, c, d):
    """Three vectors of four: the first lanes of all, the second, the third."""
    low_ab, low_cd = _blend(builder, a, b, [0, 4, 1, 5]), _blend(builder, c, d, [0, 4, 1, 5])
    high_ab, high_cd = _blend(builder, a, b, [2, 6, 3, 7]), _blend(builder, c, d, [2, 6, 3, 7])
    return [
        _blend(builder, low_ab, low_cd, [0, 1, 4, 5]),
        _blend(builder, low_ab, low_cd, [2, 3, 6, 7]),
        _blend(builder, high_ab, high_cd, [0, 1, 4, 5]),
    ]


def _of_lanes(builder, x, y, z, choose):
    """x, y, z of one vector each, reduced over their lanes, side by side; the fourth lane is any."""
    low_xy, high_xy = _blend(builder, x, y, [0, 4, 1, 5]), _blend(builder, x, y, [2, 6, 3, 7])
    low_z, high_z = _blend(builder, z, z, [0, 0, 1, 1]), _blend(builder, z, z, [2, 2, 3, 3])
    xy, zz = choose(builder, low_xy, high_xy), choose(builder, low_z, high_z)  # x y x y, z z z z
    return choose(builder, _blend(builder, xy, zz, [0, 1, 4, 5]), _blend(builder, xy, zz, [2, 3, 6, 7]))


def _absolute(builder, vector):
    bits = builder.bitcast(vector, ir.VectorType(emit.INT32, vector.type.count))
    return builder.bitcast(builder.and_(bits, emit.constant(bits.type, 0x7FFFFFFF)), vector.type)


def _has_area(builder, corners):
    """Whether some component of the cross product is surely not zero: together they are larger than what rounding
    could have made of three zeros. Never where a coordinate is not finite, which makes a sum infinite or NaN."""
    u, v = ([builder.fsub(corners[k][axis], corners[0][axis]) for axis in range(3)] for k in (1, 2))
    area, size = emit.constant(emit.FLOAT4, 0.0), emit.constant(emit.FLOAT4, 0.0)
    for i, j in ((1, 2), (2, 0), (0, 1)):
        p, q = builder.fmul(u[i], v[j]), builder.fmul(u[j], v[i])
        area = builder.fadd(area, _absolute(builder, builder.fsub(p, q)))
        size = builder.fadd(size, builder.fadd(_absolute(builder, p), _absolute(builder, q)))
    bound = builder.fmul(size, emit.constant(emit.FLOAT4, float(UNSURE)))
    return builder.fcmp_ordered(">", area, builder.fadd(bound, emit.constant(emit.FLOAT4, float(TOO_SMALL))))


@intrinsic
def _pack_intrinsic(typing_context, identities, row, out, new_identities, element):
    def generate(context, builder, signature, arguments):
        identities, row, out, new_identities, element = arguments
        identity = emit.load(builder, identities, 0, _INT4)
        used = builder.icmp_signed("!=", identity, emit.constant(_INT4, -1))
        places = _places(builder, identity, row)
        corners = [_transposed(builder, *(_vertex(builder, place) for place in corner)) for corner in places]
        bits = emit.splat(builder, emit.load(builder, row, 32, emit.INT32), _INT4)
        number = builder.or_(builder.and_(identity, emit.constant(_INT4, PRIMITIVE_BITS)), bits)
        emit.store(builder, builder.select(used, number, identity), new_identities, 0)
        for corner, values in enumerate(corners):
            for axis, value in enumerate(values):
                value = builder.select(used, value, emit.constant(emit.FLOAT4, 0.0))
                emit.store(builder, value, out, 48 * corner + 16 * axis)
        for choose, offset in ((emit.smaller, 0), (emit.larger, 16)):
            ends = [choose(builder, a, choose(builder, b, c)) for a, b, c in zip(*corners, strict=True)]
            box = _of_lanes(builder, *ends, choose)
            emit.store(builder, _blend(builder, box, emit.constant(emit.FLOAT4, 0.0), [0, 1, 2, 7]), element, offset)
        return emit.mask(builder, builder.and_(used, builder.not_(_has_area(builder, corners))))

    return types.uint32(*[types.int64] * 5), generate


@intrinsic
def _fetch_intrinsic(typing_context, packs, ids, target, size, row):
    def generate(context, builder, signature, arguments):
        packs, ids, target, size, row = arguments
        first, end, vertices, indices = (emit.load(builder, row, 8 * k, emit.INT64) for k in range(4))

        def later(step, base):
            number = builder.sext(emit.load(builder, packs, 4 * step, emit.INT32), emit.INT64)
            return builder.add(base, builder.mul(number, size))

        def stored(identities, lane):
            """Where the indices of a lane's triangle are, or of the row's first if it is not in the row."""
            number = emit.load(builder, identities, 4 * lane, emit.INT32)
            number = builder.zext(builder.and_(number, ir.Constant(emit.INT32, PRIMITIVE_BITS)), emit.INT64)
            number = builder.sub(number, first)
            inside = builder.icmp_unsigned("<", number, builder.sub(end, first))
            number = builder.select(inside, number, ir.Constant(emit.INT64, 0))
            return builder.add(indices, builder.mul(number, ir.Constant(emit.INT64, 12)))

        emit.prefetch(builder, later(IDS_AHEAD, ids))
        far, near, out = later(INDICES_AHEAD, ids), later(VERTICES_AHEAD, ids), later(VERTICES_AHEAD, target)
        for line in range(0, 192, 64):
            emit.prefetch(builder, builder.add(out, ir.Constant(emit.INT64, line)), write=True)
        for lane in range(4):
            emit.prefetch(builder, stored(far, lane))
            at = stored(near, lane)
            for corner in range(3):
                vertex = builder.zext(emit.load(builder, at, 4 * corner, emit.INT32), emit.INT64)
                emit.prefetch(builder, builder.add(vertices, builder.mul(vertex, ir.Constant(emit.INT64, 12))))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


@intrinsic
def _in_row_intrinsic(typing_context, identities, row):
    def generate(context, builder, signature, arguments):
        identities, row = arguments
        identity = emit.load(builder, identities, 0, _INT4)
        first, end = (
            emit.splat(builder, builder.trunc(emit.load(builder, row, at, emit.INT64), emit.INT32), _INT4)
            for at in (0, 8)
        )
        number = builder.and_(identity, emit.constant(_INT4, PRIMITIVE_BITS))
        outside = builder.icmp_unsigned(">=", builder.sub(number, first), builder.sub(end, first))
        used = builder.icmp_signed("!=", identity, emit.constant(_INT4, -1))
        return builder.icmp_unsigned("==", emit.mask(builder, builder.and_(used, outside)), ir.Constant(emit.INT32, 0))

    return types.boolean(types.int64, types.int64), generate


@intrinsic
def _list_intrinsic(typing_context, node, listed, packs, leaves):
    def generate(context, builder, signature, arguments):
        node, listed, packs, leaves = arguments
        children, zero = emit.load(builder, node, 192, _INT8), emit.constant(_INT8, 0)
        code, is_leaf = builder.not_(children), builder.icmp_signed("<", children, zero)
        more = builder.and_(code, emit.constant(_INT8, 3))
        count = builder.select(is_leaf, builder.add(more, emit.constant(_INT8, 1)), zero)
        end = count
        for step in (1, 2, 4):
            lanes = [*range(8, 8 + step), *range(8 - step)]
            end = builder.add(end, builder.shuffle_vector(end, zero, ir.Constant(_INT8, lanes)))
        start = builder.add(builder.sub(end, count), emit.splat(builder, builder.trunc(listed, emit.INT32), _INT8))
        renumbered = builder.or_(builder.shl(start, emit.constant(_INT8, 2)), more)
        emit.store(builder, builder.not_(renumbered), leaves, 0)
        first = builder.lshr(code, emit.constant(_INT8, 2))
        for lane in range(8):
            at, number = (builder.extract_element(v, ir.Constant(emit.INT32, lane)) for v in (start, first))
            at = builder.mul(builder.zext(at, emit.INT64), ir.Constant(emit.INT64, 4))
            numbers = builder.add(emit.splat(builder, number, _INT4), ir.Constant(_INT4, list(range(4))))
            emit.store(builder, numbers, builder.add(packs, at), 0)
        total = builder.extract_element(end, ir.Constant(emit.INT32, 7))
        return builder.add(listed, builder.zext(total, emit.INT64))

    return types.int64(*[types.int64] * 4), generate


def _constant_box(builder, name, values):
    """The address of a box that does not change."""
    if name in builder.module.globals:
        box = builder.module.globals[name]
    else:
        box = ir.GlobalVariable(builder.module, ir.ArrayType(emit.FLOAT, 8), name)
        box.initializer = ir.Constant(box.value_type, values)
        box.global_constant = True
        box.linkage = "internal"
    return builder.ptrtoint(box, emit.INT64)


def _addresses(builder, children, leaves, elements, boxes, last):
    """Where the first box of each lane is, int64x8: of a leaf element, a node, none, or one that is not known yet."""
    wide, zero = ir.VectorType(emit.INT64, 8), emit.constant(_INT8, 0)

    def at(base, numbers):
        offset = builder.shl(builder.zext(numbers, wide), emit.constant(wide, 5))
        return builder.add(emit.splat(builder, base, wide), offset)

    missing = emit.splat(builder, _constant_box(builder, "rtviewer.missing", [0.0] * 7 + [1.0]), wide)
    nowhere = [float("inf")] * 3 + [0.0] + [float("-inf")] * 3 + [0.0]
    nothing = emit.splat(builder, _constant_box(builder, "rtviewer.nothing", nowhere), wide)
    end = emit.splat(builder, builder.trunc(last, emit.INT32), _INT8)
    known = builder.icmp_signed("<", children, end)
    inner = builder.select(known, at(boxes, children), missing)
    inner = builder.select(builder.icmp_signed("==", children, zero), nothing, inner)
    first = builder.lshr(builder.not_(leaves), emit.constant(_INT8, 2))
    return builder.select(builder.icmp_signed("<", children, zero), at(elements, first), inner)


@intrinsic
def _node_intrinsic(typing_context, source, target, leaves, elements, boxes, last, out):
    def generate(context, builder, signature, arguments):
        source, target, leaves, elements, boxes, last, out = arguments
        children = emit.load(builder, source, 192, _INT8)
        leaves = emit.load(builder, leaves, 0, _INT8)
        places = _addresses(builder, children, leaves, elements, boxes, last)
        is_leaf = builder.icmp_signed("<", children, emit.constant(_INT8, 0))
        more = builder.and_(builder.not_(leaves), emit.constant(_INT8, 3))
        more = builder.select(is_leaf, more, emit.constant(_INT8, 0))
        lanes = [
            _lane_box(builder, *(builder.extract_element(v, ir.Constant(emit.INT32, k)) for v in (places, more)))
            for k in range(8)
        ]
        for end, choose in enumerate((emit.smaller, emit.larger)):
            own = [box[end] for box in lanes]
            halves = [_transposed(builder, *own[half : half + 4]) for half in (0, 4)]
            for axis in range(3):
                wide = builder.shuffle_vector(halves[0][axis], halves[1][axis], ir.Constant(_INT8, list(range(8))))
                emit.store(builder, wide, target, 64 * axis + 32 * end)
            while len(own) > 1:
                half = len(own) // 2
                own = [choose(builder, a, b) for a, b in zip(own[:half], own[half:], strict=True)]
            emit.store(builder, own[0], out, 16 * end)
        emit.store(builder, children, target, 192)
        emit.store(builder, emit.load(builder, source, 224, _INT8), target, 224)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), generate


@intrinsic
def _union_intrinsic(typing_context, node, out):
    def generate(context, builder, signature, arguments):
        node, out = arguments
        for end, choose in enumerate((emit.smaller, emit.larger)):
            for axis in range(3):
                plane = emit.load(builder, node, 64 * axis + 32 * end, emit.FLOAT8)
                emit.store(builder, _reduced(builder, plane, choose), out, 16 * end + 4 * axis)
        emit.store(builder, ir.Constant(emit.FLOAT, 0.0), out, 28)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def _lane_box(builder, first, more):
    """(minimum, maximum) of the box at an address and up to three ``more`` behind it."""
    more = builder.zext(more, emit.INT64)
    low = high = None
    for k in range(4):  # every lane reads four: fewer repeat the last
        step = ir.Constant(emit.INT64, k)
        step = builder.select(builder.icmp_unsigned("<", step, more), step, more)
        at = builder.add(first, builder.mul(step, ir.Constant(emit.INT64, ELEMENT_SIZE)))
        a, b = emit.load(builder, at, 0, emit.FLOAT4), emit.load(builder, at, 16, emit.FLOAT4)
        low, high = (a, b) if low is None else (emit.smaller(builder, a, low), emit.larger(builder, b, high))
    return low, high


@intrinsic
def _scan_intrinsic(typing_context, words, count, scan):
    def generate(context, builder, signature, arguments):
        words, count, scan = arguments
        turn, rest = emit.constant(_INT8, _TURN), emit.constant(_INT8, 32 - _TURN)

        def body(step, carried):
            at, changed = emit_loops.offset(builder, words, step, 4 * SCAN_WORDS), []
            largest = carried[4]
            for part in range(4):
                value = emit.load(builder, at, 32 * part, _INT8)
                hashed = builder.xor(carried[part], value)
                hashed = builder.or_(builder.shl(hashed, turn), builder.lshr(hashed, rest))
                changed.append(builder.mul(hashed, emit.constant(_INT8, _MULTIPLIER)))
                largest = builder.select(builder.icmp_unsigned(">", value, largest), value, largest)
            return *changed, largest

        start = [emit.load(builder, scan, 32 * part, _INT8) for part in range(5)]
        zero = ir.Constant(emit.INT64, 0)
        for part, value in enumerate(emit_loops.loop(builder, zero, count, 1, start, body)):
            emit.store(builder, value, scan, 32 * part)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


# --- the same without the JIT -------------------------------------------------------------------------------------


def _view(address, count, kind=np.float32):
    pointer = ctypes.cast(int(address), ctypes.POINTER(ctypes.c_uint8))
    return np.ctypeslib.as_array(pointer, (count * np.dtype(kind).itemsize,)).view(kind)


def pack_portable(identities, row, out, new_identities, element):
    """As ``refit_pack``, in numpy."""
    identity = _view(identities, 4, np.int32)
    first, _, vertices, indices, flags = (int(value) for value in _view(row, 5, np.int64))
    used, number = identity != -1, identity & PRIMITIVE_BITS
    points = np.zeros((3, 3, 4), np.float32)  # corner, axis, lane
    for lane in np.flatnonzero(used):
        for corner, vertex in enumerate(_view(indices + 12 * (int(number[lane]) - first), 3, np.uint32).tolist()):
            points[corner, :, lane] = _view(vertices + 12 * vertex, 3)
    _view(new_identities, 4, np.int32)[:] = np.where(used, number | flags, -1)
    _view(out, 36)[:] = points.ravel()
    with np.errstate(all="ignore"):
        _view(element, 3)[:] = points[:, :, used].min((0, 2))
        _view(element + 16, 3)[:] = points[:, :, used].max((0, 2))
        u, v = points[1] - points[0], points[2] - points[0]
        area = size = np.zeros(4, np.float32)
        for i, j in ((1, 2), (2, 0), (0, 1)):
            p, q = u[i] * v[j], u[j] * v[i]
            area, size = area + np.abs(p - q), size + (np.abs(p) + np.abs(q))
        certain = area > size * UNSURE + TOO_SMALL
    return np.uint32((1 << np.arange(4))[used & ~certain].sum())


def in_row_portable(identities, row):
    """As ``is_in_row``, in numpy."""
    identity, (first, end) = _view(identities, 4, np.int32), _view(row, 2, np.int64)
    number = identity & PRIMITIVE_BITS
    return bool(((identity == -1) | (first <= number) & (number < end)).all())


def list_portable(node, listed, packs, leaves):
    """As ``list_leaves``, in numpy."""
    for lane, child in enumerate(_view(node + 192, 8, np.int32).tolist()):
        _view(packs + 4 * listed, 4, np.int32)[:] = np.arange(4) + (~child >> 2)
        _view(leaves + 4 * lane, 1, np.int32)[0] = ~(int(listed) << 2 | ~child & 3)
        listed += (~child & 3) + 1 if child < 0 else 0
    return listed


def node_portable(source, target, leaves, elements, boxes, last, out):
    """As ``node_lanes``, in numpy."""
    low, high = np.full((8, 4), np.inf, np.float32), np.full((8, 4), -np.inf, np.float32)
    unknown = False
    for lane, child in enumerate(_view(source + 192, 8, np.int32).tolist()):
        if child < 0:
            leaf = ~int(_view(leaves + 4 * lane, 1, np.int32)[0])
            found = _view(elements + ELEMENT_SIZE * (leaf >> 2), 8 * ((leaf & 3) + 1)).reshape(-1, 2, 4)
            low[lane], high[lane] = found[:, 0].min(0), found[:, 1].max(0)
        elif 0 < child < last:
            low[lane], high[lane] = _view(boxes + ELEMENT_SIZE * child, 8).reshape(2, 4)
            unknown |= bool(high[lane, 3])
        unknown |= child >= last
    _view(target, 64)[:] = _view(source, 64)
    planes = _view(target, 48).reshape(3, 2, 8)
    planes[:, 0], planes[:, 1] = low[:, :3].T, high[:, :3].T
    _view(out, 8)[:] = *low.min(0)[:3], 0, *high.max(0)[:3], unknown


def union_portable(node, out):
    """As ``union_of_lanes``, in numpy."""
    planes = _view(node, 48).reshape(3, 2, 8)
    _view(out, 3)[:], _view(out + 16, 4)[:] = planes[:, 0].min(1), [*planes[:, 1].max(1), 0]


def scan_portable(words, count, scan):
    """As ``scan_words``, in numpy."""
    state, largest = _view(scan, 32, np.uint32), _view(scan + 128, 8, np.uint32)
    for step in range(int(count)):
        value = _view(words + 4 * SCAN_WORDS * step, SCAN_WORDS, np.uint32)
        mixed = state ^ value
        state[:] = (mixed << np.uint32(_TURN) | mixed >> np.uint32(32 - _TURN)) * np.uint32(_MULTIPLIER)
        largest[:] = np.maximum(largest, value.reshape(4, 8).max(0))


if numba.config.DISABLE_JIT:
    refit_pack, node_lanes, union_of_lanes, scan_words = pack_portable, node_portable, union_portable, scan_portable
    list_leaves, is_in_row = list_portable, in_row_portable

    def fetch_ahead(packs, ids, target, size, row):
        pass
else:
    refit_pack = _pack_intrinsic
    """refit_pack(identities, row, out, new_identities, element) -> mask. ``identities``: address of four pack ids, the
    first one used; ``row``: of the geometry row (``refit``) that all are in; ``out``: where the 36 floats of a pack go,
    ``new_identities``: where its ids do, with the row's flag bits; ``element``: where its box goes (ELEMENT_SIZE
    bytes). Bits 0-3: lanes that may be degenerate, or have an infinity or a NaN."""
    fetch_ahead = _fetch_intrinsic
    """fetch_ahead(packs, ids, target, size, row): ask for the cache lines that packs later in a list will need.
    ``packs``: address of the turn's int32 in that list, of which IDS_AHEAD more are read; ``ids``, ``target``: where
    the first pack's ids are and where its bytes go, ``size`` from one pack to the next. Triangles that are not in the
    geometry row are left out."""
    is_in_row = _in_row_intrinsic
    """is_in_row(identities, row): whether all used lanes of a pack are triangles of one geometry."""
    list_leaves = _list_intrinsic
    """list_leaves(node, listed, packs, leaves) -> how many are listed now: append the leaf elements of a node to a list
    of int32 that has ``listed``, and write its eight references to ``leaves`` with leaves numbered by that list. Up to
    four int32 behind the list may be written, too."""
    node_lanes = _node_intrinsic
    """node_lanes(source, target, leaves, elements, boxes, last, out): copy the node at ``source`` (which may be
    ``target``) with new boxes: of leaf lanes from ``elements``, of inner lanes from ``boxes``, a box for each node.
    ``leaves``: address of its eight references with leaves numbered as ``elements`` are; those to nodes do not matter.
    The node's own box goes to ``out``; it is not known, like lanes of it, where a child is ``last`` or later, or has no
    known box."""
    union_of_lanes = _union_intrinsic
    """union_of_lanes(node, out): the box of a node, known, from all its lanes; the same bits as from ``node_lanes``."""
    scan_words = _scan_intrinsic
    """scan_words(words, count, scan): mix ``count`` times 32 uint32 into a scan (SCAN_SIZE bytes): each lane's hash is
    ``rotate(hash ^ word) * odd``, which depends on every word of the lane and their order; and the largest word."""
