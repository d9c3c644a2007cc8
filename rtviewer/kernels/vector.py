"""The inner tests as vector code: eight boxes of a node, four triangles of a pack.

Each is one intrinsic (see ``emit``). Every lane does the same operations in the same order as the twins in
``vector_portable``, which run where the JIT is off and which tests compare bit for bit.
"""

from __future__ import annotations

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import emit
from rtviewer.kernels.constants import BOX_PACK_HIGH, NODE_CHILD, NODE_ORDER, NODE_SIZE, PACK_IDS
from rtviewer.kernels.state import SLAB_FAR, SLAB_FAR_RECIPROCAL, SLAB_PLANES, SLAB_RECIPROCAL
from rtviewer.kernels.vector_portable import UNORDERED


def _near_and_far(builder, node, slab, reciprocal_row):
    """Distances along the ray to the planes of eight boxes that are met first and last, for each axis."""
    near, far = [], []
    for axis in range(3):
        first = builder.zext(emit.load(builder, slab, SLAB_PLANES + 4 * axis, emit.INT32), emit.INT64)
        last = builder.xor(first, ir.Constant(emit.INT64, 32))
        near.append(_distance(builder, builder.add(node, first), slab, axis, 0, SLAB_RECIPROCAL, emit.FLOAT8))
        far.append(_distance(builder, builder.add(node, last), slab, axis, SLAB_FAR, reciprocal_row, emit.FLOAT8))
    return near, far


def _distance(builder, planes, slab, axis, origin_row, reciprocal_row, kind):
    """Along the ray to the planes of one axis at an address."""
    origin, reciprocal = (
        emit.splat(builder, emit.load(builder, slab, row + 4 * axis, emit.FLOAT), kind)
        for row in (origin_row, reciprocal_row)
    )
    return builder.fmul(builder.fsub(emit.load_at(builder, planes, kind), origin), reciprocal)


def _slabs(builder, near, far, t_min, end):
    """(entries, which boxes the ray meets inside the interval).

    The steps stand in a tree rather than in a row: what the next node is waits for them.
    """
    # What is no number rejects nothing: in the first place it is dropped, in the comparison it lets through.
    begin = emit.larger(builder, near[2], emit.splat(builder, t_min, near[2].type))
    last = emit.smaller(builder, far[2], emit.splat(builder, end, far[2].type))
    entry = emit.larger(builder, emit.larger(builder, near[0], near[1]), begin)
    leave = emit.smaller(builder, emit.smaller(builder, far[0], far[1]), last)
    return entry, builder.fcmp_unordered("<=", entry, leave)


@intrinsic
def _boxes_intrinsic(typing_context, node, slab, t_min, end, out):
    def generate(context, builder, signature, arguments):
        node, slab, t_min, end, out = arguments
        near, far = _near_and_far(builder, node, slab, SLAB_FAR_RECIPROCAL)
        entry, met = _slabs(builder, near, far, t_min, end)
        _, far = _near_and_far(builder, node, slab, SLAB_RECIPROCAL)
        emit.store(builder, entry, out, 0)
        emit.store(builder, emit.smaller(builder, emit.smaller(builder, far[0], far[1]), far[2]), out, 32)
        child = emit.load(builder, node, NODE_CHILD, emit.INT8X32)
        occupied = builder.icmp_signed("!=", child, emit.constant(emit.INT8X32, 0))
        eight = ir.Constant(emit.INT32, 8)
        return builder.or_(emit.mask(builder, met), builder.shl(emit.mask(builder, occupied), eight))

    return types.uint32(types.int64, types.int64, types.float32, types.float32, types.int64), generate


TAKEN = types.Tuple((types.int64, types.float32, types.int64))


@intrinsic
def _stack_children_intrinsic(typing_context, node, slab, t_min, end, references, entries, size, octant):
    def generate(context, builder, signature, arguments):
        node, slab, t_min, end, references, entries, size, octant = arguments
        near, far = _near_and_far(builder, node, slab, SLAB_FAR_RECIPROCAL)
        entry, met = _slabs(builder, near, far, t_min, end)
        threefold = builder.mul(builder.trunc(octant, emit.INT32), ir.Constant(emit.INT32, 3))
        order = emit.load(builder, node, NODE_ORDER, emit.INT8X32)
        order = builder.lshr(order, emit.splat(builder, threefold, emit.INT8X32))
        as_stored = ir.Constant(emit.INT8X32, list(range(8)))
        unordered = builder.icmp_signed("==", octant, ir.Constant(emit.INT64, UNORDERED))
        order = builder.select(unordered, as_stored, order)
        child = emit.load(builder, node, NODE_CHILD, emit.INT8X32)
        child = builder.select(met, child, emit.constant(emit.INT8X32, 0))
        count = builder.zext(builder.ctpop(emit.mask(builder, met)), emit.INT64)
        child = emit.permute8(builder, child, order)
        met = builder.icmp_signed("!=", child, emit.constant(emit.INT8X32, 0))
        offset = builder.shl(size, ir.Constant(emit.INT64, 2))
        children = emit.store_chosen(builder, child, met, builder.add(references, offset))
        begins = emit.store_chosen(builder, emit.permute8(builder, entry, order), met, builder.add(entries, offset))
        # From registers: a load would wait for the wider store to reach the cache, and all that follows for the load.
        last = builder.sub(count, ir.Constant(emit.INT64, 1))
        top, below = builder.add(size, last), builder.sub(offset, ir.Constant(emit.INT64, 4))
        # Where none is met, the lane asked for is the last one and holds what was on top. A choice between single
        # values would become a branch, which is guessed wrongly too often.
        last = builder.trunc(last, emit.INT32)
        is_old = ir.Constant(emit.INT8X32, [8] * 7 + [-1])
        is_old = builder.icmp_signed("==", emit.splat(builder, last, emit.INT8X32), is_old)
        taken = []
        for packed, stack in ((children, references), (begins, entries)):
            old = emit.load(builder, builder.add(stack, below), 0, emit.INT32)
            packed = builder.bitcast(packed, emit.INT8X32)
            packed = builder.select(is_old, emit.splat(builder, old, emit.INT8X32), packed)
            lane = emit.permute8(builder, packed, emit.splat(builder, last, emit.INT8X32))
            taken.append(builder.extract_element(lane, ir.Constant(emit.INT32, 0)))
        taken = [builder.sext(taken[0], emit.INT64), builder.bitcast(taken[1], emit.FLOAT), top]
        return context.make_tuple(builder, TAKEN, taken)

    i64, f32 = types.int64, types.float32
    return TAKEN(i64, i64, f32, f32, i64, i64, i64, i64), generate


@intrinsic
def _fetch_intrinsic(typing_context, address):
    def generate(context, builder, signature, arguments):
        for line in range(0, NODE_SIZE, 64):
            emit.prefetch(builder, builder.add(arguments[0], ir.Constant(emit.INT64, line)))
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def _box_pack_intrinsic(typing_context, pack, slab, t_min, end):
    def generate(context, builder, signature, arguments):
        pack, slab, t_min, end = arguments
        near, far = [], []
        for axis in range(3):
            turned = emit.load(builder, slab, SLAB_PLANES + 4 * axis, emit.INT32)
            turned = builder.icmp_signed(
                "!=", builder.and_(turned, ir.Constant(emit.INT32, 32)), ir.Constant(emit.INT32, 0)
            )
            low, high = (builder.add(pack, ir.Constant(emit.INT64, row + 16 * axis)) for row in (0, BOX_PACK_HIGH))
            first, last = builder.select(turned, high, low), builder.select(turned, low, high)
            near.append(_distance(builder, first, slab, axis, 0, SLAB_RECIPROCAL, emit.FLOAT4))
            far.append(_distance(builder, last, slab, axis, SLAB_FAR, SLAB_FAR_RECIPROCAL, emit.FLOAT4))
        return emit.mask(builder, _slabs(builder, near, far, t_min, end)[1])

    return types.uint32(types.int64, types.int64, types.float32, types.float32), generate


def _sheared(builder, pack, axes, shear):
    """Steps 1 and 2 of the method for four triangles: x, y and distance along the ray of each corner."""
    kx, ky, kz = axes
    origin_x, origin_y, origin_z, shear_x, shear_y, shear_z = (
        emit.splat(builder, emit.load(builder, shear, 4 * k, emit.FLOAT), emit.FLOAT4) for k in range(6)
    )
    x, y, z = [], [], []
    for corner in range(3):
        at = builder.add(pack, ir.Constant(emit.INT64, 48 * corner))

        def relative(offset, origin, at=at):
            return builder.fsub(emit.load_at(builder, builder.add(at, offset), emit.FLOAT4), origin)

        along = relative(kz, origin_z)
        x.append(builder.fsub(relative(kx, origin_x), builder.fmul(shear_x, along)))
        y.append(builder.fsub(relative(ky, origin_y), builder.fmul(shear_y, along)))
        z.append(builder.fmul(shear_z, along))
    return x, y, z


def _edges(builder, x, y):
    """Edge functions U, V, W of sheared corners, in the corners' precision."""
    return [builder.fsub(builder.fmul(x[p], y[q]), builder.fmul(y[p], x[q])) for p, q in ((2, 1), (0, 2), (1, 0))]


def _may_cover(builder, edges):
    """Whether no two edges are of different signs. A product that vanishes and what is no number let through."""
    least = emit.smaller(builder, emit.smaller(builder, edges[0], edges[1]), edges[2])
    most = emit.larger(builder, emit.larger(builder, edges[0], edges[1]), edges[2])
    return builder.fcmp_unordered(">=", builder.fmul(least, most), emit.constant(edges[0].type, 0.0))


def _may_be_inside(builder, z, end):
    """Whether t can be in 0 < t <= end: it lies between the corners' distances, whose weights are not negative."""
    least = emit.smaller(builder, emit.smaller(builder, z[0], z[1]), z[2])
    most = emit.larger(builder, emit.larger(builder, z[0], z[1]), z[2])
    before = builder.fcmp_unordered("<=", least, emit.splat(builder, end, emit.FLOAT4))
    return builder.and_(before, builder.fcmp_unordered(">", most, emit.constant(emit.FLOAT4, 0.0)))


def _distances(builder, edges, z):
    """(t, area) from float64 edges and the corners' distances; t is rounded to float32."""
    u, v, w = edges
    area = builder.fadd(builder.fadd(u, v), w)
    a, b, c = (builder.fpext(value, emit.DOUBLE4) for value in z)
    total = builder.fadd(builder.fadd(builder.fmul(u, a), builder.fmul(v, b)), builder.fmul(w, c))
    return builder.fptrunc(builder.fdiv(total, area), emit.FLOAT4), area


@intrinsic
def _triangles_intrinsic(typing_context, pack, kx, ky, kz, shear, t_min, end, out):
    def generate(context, builder, signature, arguments):
        pack, kx, ky, kz, shear, t_min, end, out = arguments
        x, y, z = _sheared(builder, pack, (kx, ky, kz), shear)
        identity = emit.load(builder, pack, PACK_IDS, emit.INT4X32)
        has_area = builder.icmp_signed(">=", identity, emit.constant(emit.INT4X32, 0))
        possible = builder.and_(has_area, _may_be_inside(builder, z, end))
        possible = builder.and_(possible, _may_cover(builder, _edges(builder, x, y)))
        bits = emit.mask(builder, possible)
        result = emit.Choice(builder, [emit.INT32])
        with result.when(builder.icmp_signed("==", bits, ir.Constant(emit.INT32, 0))):
            result.give(bits)
        wide_x, wide_y = ([builder.fpext(value, emit.DOUBLE4) for value in values] for values in (x, y))
        edges = _edges(builder, wide_x, wide_y)
        t, area = _distances(builder, edges, z)
        for row, value in enumerate((*edges, area, t)):
            emit.store(builder, value, out, 32 * row)
        has_area = builder.fcmp_ordered("!=", area, emit.constant(emit.DOUBLE4, 0.0))
        covers = builder.and_(has_area, _may_cover(builder, edges))
        after = builder.fcmp_ordered(">", t, emit.splat(builder, t_min, emit.FLOAT4))
        before = builder.fcmp_ordered("<=", t, emit.splat(builder, end, emit.FLOAT4))
        inside = builder.and_(covers, builder.and_(after, before))
        result.give_else(emit.mask(builder, builder.and_(possible, inside)))
        return result.values[0]

    i64, f32 = types.int64, types.float32
    return types.uint32(i64, i64, i64, i64, i64, f32, f32, i64), generate


@intrinsic
def _lowest_bit_intrinsic(typing_context, mask):
    def generate(context, builder, signature, arguments):
        return builder.zext(builder.cttz(arguments[0], ir.Constant(emit.BOOL, 1)), emit.INT64)

    return types.int64(types.uint32), generate


if numba.config.DISABLE_JIT:
    from rtviewer.kernels.vector_portable import box_pack, boxes, fetch, lowest_bit, stack_children, triangles
else:
    boxes = _boxes_intrinsic
    """boxes(node, slab, t_min, end, out) -> mask. ``node`` address of a node, ``slab`` of a slab, ``t_min`` and widened
    ``end`` float32; ``out`` address of 16 float32 that receive eight entries and eight exits. Bits 0-7: children the
    ray meets inside the interval; bits 8-15: occupied lanes."""
    stack_children = _stack_children_intrinsic
    """stack_children(node, slab, t_min, end, references, entries, size, octant) -> (reference, entry, size). Stacks the
    children that the ray meets, farthest first in the node's order for the octant, or UNORDERED as they are stored;
    then takes what is on top, of which there has to be something: its reference, where the ray enters it, the entries
    below. ``references`` and ``entries``: addresses of the stack's arrays, of which eight elements from ``size`` on are
    overwritten."""
    fetch = _fetch_intrinsic
    """fetch(address): ask for the memory of a node's size at an address, which may be any."""
    box_pack = _box_pack_intrinsic
    """box_pack(pack, slab, t_min, end) -> mask. Bits 0-3: boxes of a pack that the ray may meet inside the interval."""
    triangles = _triangles_intrinsic
    """triangles(pack, kx, ky, kz, shear, t_min, end, out) -> mask. Byte offsets of the axes in a corner; ``shear``
    address of a shear of scale 1 (``ray_triangle.set_shear``). Bits 0-3: lanes that the ray meets in t_min < t <= end,
    edges that may belong to a neighbour included. Where there is one, ``out`` receives U, V, W and area, (4, 4)
    float64, and t, (4,) float32."""
    lowest_bit = _lowest_bit_intrinsic
    """Index of the lowest set bit of a uint32 that is not 0."""
