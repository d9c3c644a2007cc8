"""The triangles of a leaf against the rays of a packet, as vector code.

Three sieves: the box of each triangle against what bounds a part, float32 edge values for each ray of it, and for what
is left the decision in float64, half a part at a time (``packet_vector`` says why the result is a single ray's). Each
sieve lists what it lets through before the next begins: code without branches keeps the processor busy.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import emit
from rtviewer.kernels import packet_state as at
from rtviewer.kernels.constants import BACK_FACE, FRONT_FACE, ID_OPAQUE, PRIMITIVE_BITS, TRIANGLE_PACK_SIZE
from rtviewer.kernels.emit import FLOAT, FLOAT4, FLOAT8, INT32, INT64
from rtviewer.kernels.packet_vector import (
    AXES,
    DOUBLE8,
    FLOAT16,
    INFINITY,
    INT4,
    INT8,
    all_lanes,
    bits_of,
    number,
    outer_interval,
    part_of,
    spread,
)
from rtviewer.kernels.ray_box import WIDEN

BOOL8 = ir.VectorType(emit.BOOL, 8)
FIRST_TRIANGLE_KIND = min(FRONT_FACE, BACK_FACE)


@intrinsic
def test_leaf(typing_context, pack, count, space, packet, octant, kx, ky, kz, active):
    """One or two packs of triangles at an address; kx, ky, kz are axes times 16.

    Commits hits (``packet_state``) and returns the bits of the rays that have a new one. Where only hit or miss is
    asked, such a ray is done.
    """

    def generate(context, builder, signature, arguments):
        pack, count, space, packet, octant, *axes, active = arguments
        two = builder.icmp_signed(">", count, number(1))
        second = builder.select(two, builder.add(pack, number(TRIANGLE_PACK_SIZE)), pack)
        usable = _usable(builder, pack, second, packet)
        usable = builder.and_(usable, builder.select(two, ir.Constant(INT32, 0xFF), ir.Constant(INT32, 0x0F)))
        near, far = _boxes(builder, pack, second, octant)
        pairs = ir.Constant(INT32, 0)
        for part in range(at.PARTS):
            bounds = builder.add(space, number(at.PART_SIZE * part + at.SPACE_BOUNDS))
            met = builder.and_(emit.mask(builder, outer_interval(builder, bounds, near, far, FLOAT8)), usable)
            own = builder.and_(active, ir.Constant(INT64, 0xFFFF << 16 * part))
            met = builder.select(builder.icmp_unsigned("!=", own, number(0)), met, ir.Constant(INT32, 0))
            pairs = builder.or_(pairs, builder.shl(met, ir.Constant(INT32, 8 * part)))
        listed = builder.add(packet, number(at.CANDIDATES))
        with emit.Loop(builder, pairs, [number(0)]) as pair:
            part = builder.lshr(pair.lane, ir.Constant(INT32, 3))
            lane = builder.zext(pair.lane, INT64)
            of_pack = builder.select(_is_set(builder, lane, 4), second, pack)
            corner = builder.add(of_pack, builder.shl(builder.and_(lane, number(3)), number(2)))
            possible = _possible(builder, corner, axes, part_of(builder, space, part))
            possible = builder.and_(possible, bits_of(builder, active, part))
            (size,) = pair.carried
            for half in (0, 1):
                bits = builder.and_(builder.lshr(possible, ir.Constant(INT32, 8 * half)), ir.Constant(INT32, 0xFF))
                slot = builder.add(listed, builder.shl(size, number(4)))
                emit.store(builder, corner, slot, 0)
                emit.store(builder, bits, slot, 8)
                place = builder.add(builder.shl(part, ir.Constant(INT32, 1)), ir.Constant(INT32, half))
                emit.store(builder, place, slot, 12)
                some = builder.icmp_unsigned("!=", bits, ir.Constant(INT32, 0))
                size = builder.add(size, builder.zext(some, INT64))
            pair.next = [size]
        size = pair.results[0]
        # As many bits as are listed, at most 64.
        places = builder.lshr(number(-1), builder.and_(builder.sub(number(64), size), number(63)))
        places = builder.select(builder.icmp_unsigned("==", size, number(0)), number(0), places)
        hit_only = emit.load(builder, packet, at.HIT_ONLY, INT32)
        with emit.Loop(builder, places, [number(0)]) as each:
            slot = builder.add(listed, builder.shl(each.lane, number(4)))
            corner, bits = emit.load(builder, slot, 0, INT64), emit.load(builder, slot, 8, INT32)
            place = emit.load(builder, slot, 12, INT32)
            found = _decide(builder, space, packet, axes, corner, place, bits, hit_only)
            shift = builder.zext(builder.shl(place, ir.Constant(INT32, 3)), INT64)
            each.next = [builder.or_(each.carried[0], builder.shl(builder.zext(found, INT64), shift))]
        return each.results[0]

    address = types.int64
    return types.uint64(*[address] * 8, types.uint64), generate


def _is_set(builder, word, bit):
    return builder.icmp_unsigned("!=", builder.and_(word, number(bit)), number(0))


def _possible(builder, corner, axes, space):
    """Bits of the rays of a part that float32 edge values do not reject (step 3 of the method)."""
    shear = [emit.load(builder, space, at.SPACE_SHEAR + at.VECTOR * row, FLOAT16) for row in range(5)]
    x, y, _ = _shear(builder, corner, axes, shear)
    edges = [_edge(builder, x, y, p, q) for p, q in ((2, 1), (0, 2), (1, 0))]
    low = emit.smaller(builder, edges[0], emit.smaller(builder, edges[1], edges[2]))
    high = emit.larger(builder, edges[0], emit.larger(builder, edges[1], edges[2]))
    zero = all_lanes(FLOAT16, 0)
    mixed = builder.and_(builder.fcmp_ordered("<", low, zero), builder.fcmp_ordered(">", high, zero))
    return emit.mask(builder, builder.not_(mixed))


def _eight(builder, pack, second, offset, kind=FLOAT4):
    """Four lanes of each of two packs."""
    parts = [emit.load(builder, address, offset, kind) for address in (pack, second)]
    return builder.shuffle_vector(*parts, ir.Constant(INT8, list(range(8))))


def _boxes(builder, pack, second, octant):
    """The planes of each triangle's box that rays of an octant meet first and last, per axis."""
    near, far = [], []
    for axis in AXES:
        corners = [_eight(builder, pack, second, 48 * corner + 16 * axis) for corner in range(3)]
        low, high = (
            choose(builder, corners[0], choose(builder, corners[1], corners[2]))
            for choose in (emit.smaller, emit.larger)
        )
        positive = builder.trunc(builder.lshr(octant, number(axis)), emit.BOOL)
        near.append(builder.select(positive, low, high))
        far.append(builder.select(positive, high, low))
    return near, far


def _usable(builder, pack, second, packet):
    """Bits of the triangles that have an area and are not culled by opacity."""
    identity = _eight(builder, pack, second, 144, INT4)
    has_area = builder.icmp_signed(">=", identity, all_lanes(INT8, 0))
    opaque = builder.icmp_signed("!=", builder.and_(identity, all_lanes(INT8, ID_OPAQUE)), all_lanes(INT8, 0))
    culled = builder.select(
        opaque, spread(builder, packet, at.CULLED_OPAQUE, INT8), spread(builder, packet, at.CULLED_NON_OPAQUE, INT8)
    )
    return emit.mask(builder, builder.and_(has_area, builder.icmp_signed("==", culled, all_lanes(INT8, 0))))


def _shear(builder, corner, axes, shear):
    """Sheared corners, float32 (steps 1 and 2 of the method): x of the three, y, and what is along the ray."""
    kx, ky, kz = axes
    kind = shear[0].type
    xs, ys, zs = [], [], []
    for number_of_corner in range(3):

        def relative(axis, origin, offset=48 * number_of_corner):
            value = emit.load(builder, builder.add(corner, axis), offset, FLOAT)
            return builder.fsub(emit.splat(builder, value, kind), origin)

        along = relative(kz, shear[2])
        xs.append(builder.fsub(relative(kx, shear[0]), builder.fmul(shear[3], along)))
        ys.append(builder.fsub(relative(ky, shear[1]), builder.fmul(shear[4], along)))
        zs.append(along)
    return xs, ys, zs


def _edge(builder, x, y, p, q):
    return builder.fsub(builder.fmul(x[p], y[q]), builder.fmul(y[p], x[q]))


def _decide(builder, space, packet, axes, corner, place, bits, hit_only):
    """Eight rays against one triangle by the rules (``ray_triangle.covers``, ``candidates.test_triangle``); commits.

    ``place``: twice the part, plus 1 for its upper half. Returns the bits of the rays that have a new hit.
    """
    part, half = (
        builder.zext(builder.lshr(place, ir.Constant(INT32, 1)), INT64),
        builder.zext(builder.and_(place, ir.Constant(INT32, 1)), INT64),
    )
    start = builder.mul(part, number(at.PART_SIZE))
    narrow_offset = builder.add(start, builder.shl(half, number(5)))
    narrow = builder.add(packet, narrow_offset)
    wide = builder.add(builder.add(packet, start), builder.shl(half, number(6)))
    own = builder.add(space, narrow_offset)
    shear = [emit.load(builder, own, at.SPACE_SHEAR + at.VECTOR * row, FLOAT8) for row in range(6)]
    x, y, along = _shear(builder, corner, axes, shear)
    z = [builder.fmul(shear[5], value) for value in along]
    x, y, z = ([builder.fpext(value, DOUBLE8) for value in values] for values in (x, y, z))
    u, v, w = edges = [_edge(builder, x, y, p, q) for p, q in ((2, 1), (0, 2), (1, 0))]
    det = builder.fadd(builder.fadd(u, v), w)
    zero = all_lanes(DOUBLE8, 0)

    def every(relation):
        first, second, third = (builder.fcmp_ordered(relation, edge, zero) for edge in edges)
        return builder.and_(first, builder.and_(second, third))

    positive = builder.fcmp_ordered(">", det, zero)
    inside = builder.and_(
        builder.or_(every(">="), every("<=")), builder.or_(positive, builder.fcmp_ordered("<", det, zero))
    )
    culled = builder.select(
        positive, spread(builder, packet, at.CULLED_POSITIVE, INT8), spread(builder, packet, at.CULLED_NEGATIVE, INT8)
    )
    inside = builder.and_(inside, builder.icmp_signed("==", culled, all_lanes(INT8, 0)))
    inside = builder.and_(inside, emit.lanes(builder, bits, 8))
    on_edge = None
    for edge in edges:
        touched = builder.fcmp_ordered("==", edge, zero)
        on_edge = touched if on_edge is None else builder.or_(on_edge, touched)
    none = ir.Constant(INT32, 0)
    some_on_edge = emit.mask(builder, builder.and_(on_edge, inside))
    inside = emit.when(
        builder,
        builder.icmp_unsigned("!=", some_on_edge, none),
        lambda: builder.and_(inside, _owned(builder, edges, positive, x, y)),
        inside,
    )

    def commit():
        total = builder.fadd(builder.fmul(u, z[0]), builder.fmul(v, z[1]))
        total = builder.fadd(total, builder.fmul(w, z[2]))
        t = builder.fptrunc(builder.fdiv(total, det), FLOAT8)
        return _commit(builder, packet, corner, place, narrow, wide, inside, positive, t, (v, w, det), hit_only)

    return emit.when(builder, builder.icmp_unsigned("!=", emit.mask(builder, inside), none), commit, none)


def _owned(builder, edges, positive, x, y):
    """Whether a ray exactly on an edge belongs to the triangle (``ray_triangle.owns_edge``)."""
    zero = all_lanes(DOUBLE8, 0)
    sign = builder.select(positive, all_lanes(DOUBLE8, 1), all_lanes(DOUBLE8, -1))
    owned = None
    for edge, (last, first) in zip(edges, ((2, 1), (0, 2), (1, 0)), strict=True):
        across = builder.fmul(sign, builder.fsub(x[last], x[first]))
        up = builder.fmul(sign, builder.fsub(y[last], y[first]))
        level = builder.and_(builder.fcmp_ordered("==", across, zero), builder.fcmp_ordered(">", up, zero))
        owns = builder.or_(builder.fcmp_ordered(">", across, zero), level)
        good = builder.or_(builder.fcmp_ordered("!=", edge, zero), owns)
        owned = good if owned is None else builder.and_(owned, good)
    return owned


def _commit(builder, packet, corner, place, narrow, wide, inside, positive, t, attributes, hit_only):
    """What lies in the rays' intervals (RAY-6, DET-5) and is not ignored becomes their hit; its bits."""
    end = emit.load(builder, narrow, at.PACKET_END, FLOAT8)
    after = builder.fcmp_ordered(">", t, emit.load(builder, narrow, at.PACKET_T_MIN, FLOAT8))
    inside = builder.and_(inside, after)
    word = emit.load(builder, corner, 144, INT32)
    identity = emit.splat(builder, builder.and_(word, ir.Constant(INT32, int(PRIMITIVE_BITS))), INT8)
    ask = emit.load(builder, packet, at.ASK, INT64)
    may_ask = builder.icmp_unsigned("!=", ask, number(0))
    entered = spread(builder, packet, at.ENTERED, INT8)
    nearer = builder.and_(inside, builder.fcmp_ordered("<", t, end))
    equal = builder.and_(inside, builder.fcmp_ordered("==", t, end))

    def of_ties():
        instance = emit.load(builder, narrow, at.PACKET_INSTANCE, INT8)
        committed = emit.load(builder, narrow, at.PACKET_NUMBER, INT8)
        kind = emit.load(builder, narrow, at.PACKET_KIND, INT8)
        may = builder.and_(
            builder.icmp_signed(">=", instance, all_lanes(INT8, 0)),
            builder.icmp_signed(">=", kind, all_lanes(INT8, FIRST_TRIANGLE_KIND)),  # a procedural's hit stays
        )
        same = builder.icmp_signed("==", entered, instance)
        larger = builder.and_(same, builder.icmp_signed(">", identity, committed))
        larger = builder.or_(builder.icmp_signed(">", entered, instance), larger)
        by_order = builder.and_(equal, builder.icmp_signed(">=", instance, all_lanes(INT8, 0)))
        emit.when(builder, may_ask, lambda: _put_in_doubt(builder, packet, place, by_order), none)
        wins = builder.and_(
            builder.and_(equal, may), builder.and_(larger, emit.splat(builder, builder.not_(may_ask), BOOL8))
        )
        return builder.or_(nearer, wins)

    none = ir.Constant(INT32, 0)
    some_equal = builder.icmp_unsigned("!=", emit.mask(builder, equal), none)
    hit = emit.when(builder, some_equal, of_ties, nearer)
    hit = emit.when(builder, may_ask, lambda: _accepted(builder, packet, ask, word, hit, attributes), hit)
    bits = emit.mask(builder, hit)
    asked = builder.icmp_unsigned("!=", hit_only, none)

    def write_all():
        kind = builder.select(
            positive, spread(builder, packet, at.KIND_POSITIVE, INT8), spread(builder, packet, at.KIND_NEGATIVE, INT8)
        )
        emit.store_where(builder, hit, identity, narrow, at.PACKET_NUMBER)
        emit.store_where(builder, hit, kind, narrow, at.PACKET_KIND)
        for value, offset in zip(attributes, (at.PACKET_V, at.PACKET_W, at.PACKET_DET), strict=True):
            emit.store_where(builder, hit, value, wide, offset)
        return t

    new_end = emit.when(builder, builder.not_(asked), write_all, all_lanes(FLOAT8, -INFINITY))
    emit.store_where(builder, hit, new_end, narrow, at.PACKET_END)
    widened = builder.fmul(new_end, all_lanes(FLOAT8, WIDEN))
    emit.store_where(builder, hit, widened, narrow, at.PACKET_WIDE_END)
    emit.store_where(builder, hit, entered, narrow, at.PACKET_INSTANCE)
    return bits


def _put_in_doubt(builder, packet, place, rays):
    shift = builder.zext(builder.shl(place, ir.Constant(INT32, 3)), INT64)
    bits = builder.shl(builder.zext(emit.mask(builder, rays), INT64), shift)
    emit.store(builder, builder.or_(bits, emit.load(builder, packet, at.IN_DOUBT, INT64)), packet, at.IN_DOUBT)
    return ir.Constant(INT32, 0)


def _accepted(builder, packet, ask, identity, hit, attributes):
    """Those of the hits that any-hit programs accept: all where the triangle counts as opaque."""
    none = ir.Constant(INT32, 0)
    opaque = builder.icmp_signed("!=", builder.and_(identity, ir.Constant(INT32, int(ID_OPAQUE))), none)
    asked = builder.select(
        opaque,
        emit.load(builder, packet, at.ASKED_OPAQUE, INT32),
        emit.load(builder, packet, at.ASKED_NON_OPAQUE, INT32),
    )
    bits = emit.mask(builder, hit)
    asked = builder.and_(builder.icmp_signed("!=", asked, none), builder.icmp_unsigned("!=", bits, none))

    def call():
        for row, value in enumerate(attributes):
            emit.store(builder, value, packet, at.OFFERED + at.VECTOR * row)
        walk = emit.load(builder, packet, at.WALK, INT64)
        arguments = [packet, walk, builder.zext(identity, INT64), builder.zext(bits, INT64), number(0)]
        kind = ir.FunctionType(INT64, [INT64] * 5).as_pointer()
        return emit.lanes(builder, builder.call(builder.inttoptr(ask, kind), arguments), 8)

    return emit.when(builder, asked, call, hit)
