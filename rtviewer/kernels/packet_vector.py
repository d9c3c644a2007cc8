"""The steps of a packet as vector code: sixteen rays against a box, a transform, a triangle.

Each step is one intrinsic (see ``emit``), and every lane does what the walk of one ray does: box tests bound a ray's
own (``ray_box``) from outside, and a triangle is decided by the operations of ``ray_triangle`` and ``candidates`` in
their order. So a packet meets every triangle that each of its rays would meet alone, and makes of it what the ray
would. Vectors of 16 lanes are left to LLVM to split where a processor has narrower ones.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import emit
from rtviewer.kernels import packet_state as at
from rtviewer.kernels.emit import FLOAT, INT32, INT64
from rtviewer.kernels.ray_box import MARGIN, TINY, WIDEN
from rtviewer.kernels.vector_portable import HUGE

FLOAT16, INT16 = ir.VectorType(FLOAT, 16), ir.VectorType(INT32, 16)
FLOAT8, INT8, FLOAT4, INT4 = emit.FLOAT8, ir.VectorType(INT32, 8), emit.FLOAT4, ir.VectorType(INT32, 4)
DOUBLE = ir.DoubleType()
DOUBLE8 = ir.VectorType(DOUBLE, 8)
AXES = range(3)
INFINITY = float("inf")


def number(value):
    return ir.Constant(INT64, int(value))


def all_lanes(kind, value):
    is_real = isinstance(kind.element, (ir.FloatType, ir.DoubleType))
    return emit.constant(kind, float(value) if is_real else int(value))


def spread(builder, address, offset, kind):
    """One number in memory as all lanes."""
    return emit.splat(builder, emit.load(builder, address, offset, kind.element), kind)


def _bit(builder, word, position):
    one = ir.Constant(word.type, 1)
    return builder.and_(builder.lshr(word, ir.Constant(word.type, position)), one)


@intrinsic
def lowest_lane(typing_context, bits):
    """Index of the lowest bit that is set, of bits that are not 0."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(emit.BOOL, 1))

    return types.int64(types.uint64), generate


@intrinsic
def count_lanes(typing_context, bits):
    """How many bits are set."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@intrinsic
def take_columns(typing_context, rows, out):
    """Sixteen rows of three float32 at ``rows`` to three vectors at ``out``."""

    def generate(context, builder, signature, arguments):
        rows, out = arguments
        parts = [emit.load(builder, rows, at.VECTOR * part, FLOAT16) for part in AXES]
        for axis in AXES:
            places = [3 * lane + axis for lane in range(16)]
            first = [place if place < 32 else 0 for place in places]
            joined = builder.shuffle_vector(*parts[:2], ir.Constant(INT16, first))
            last = [lane if place < 32 else place - 16 for lane, place in enumerate(places)]
            column = builder.shuffle_vector(joined, parts[2], ir.Constant(INT16, last))
            emit.store(builder, column, out, at.VECTOR * axis)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def begin_part(typing_context, packet, t_min, t_max, lanes):
    """Intervals of the rays at two addresses and an empty hit for each; ``lanes``: bits of the rays there are.

    Returns bits 0-15: rays to be traced; bits 16-31: rays that break RAY-2 or RAY-3.
    """

    def generate(context, builder, signature, arguments):
        packet, from_t_min, from_t_max, lanes = arguments
        low, high = emit.load(builder, from_t_min, 0, FLOAT16), emit.load(builder, from_t_max, 0, FLOAT16)
        invalid = builder.fcmp_unordered(">", low, high)
        invalid = builder.or_(invalid, builder.fcmp_ordered("<", low, all_lanes(FLOAT16, 0)))
        infinite = None
        for offset in range(0, 6 * at.VECTOR, at.VECTOR):
            value = emit.load(builder, packet, offset, FLOAT16)
            invalid = builder.or_(invalid, builder.fcmp_unordered("uno", value, value))
            far = builder.fcmp_ordered("==", emit.absolute(builder, value), all_lanes(FLOAT16, INFINITY))
            infinite = far if infinite is None else builder.or_(infinite, far)
        good = builder.not_(builder.or_(invalid, infinite))
        traced = builder.and_(emit.mask(builder, good), lanes)
        end = builder.select(emit.lanes(builder, traced, 16), high, all_lanes(FLOAT16, -INFINITY))
        wide = builder.fmul(end, all_lanes(FLOAT16, WIDEN))
        for value, offset in (
            (low, at.PACKET_T_MIN),
            (high, at.PACKET_T_MAX),
            (end, at.PACKET_END),
            (wide, at.PACKET_WIDE_END),
            (all_lanes(INT16, -1), at.PACKET_INSTANCE),
        ):
            emit.store(builder, value, packet, offset)
        wrong = builder.and_(emit.mask(builder, invalid), lanes)
        return builder.or_(traced, builder.shl(wrong, ir.Constant(INT32, 16)))

    return types.uint32(types.int64, types.int64, types.int64, types.uint32), generate


@intrinsic
def transform_part(typing_context, packet, matrix):
    """The rays in object space, each as ``traverse.to_object``. Returns bits of the rays that stay finite."""

    def generate(context, builder, signature, arguments):
        packet, matrix = arguments
        world = [emit.load(builder, packet, at.VECTOR * part, FLOAT16) for part in range(6)]
        finite = None
        for axis in AXES:
            m = [spread(builder, matrix, 16 * axis + 4 * k, FLOAT16) for k in range(4)]

            def sum_of(x, y, z, m=m):
                pair = builder.fadd(builder.fmul(m[0], x), builder.fmul(m[1], y))
                return builder.fadd(pair, builder.fmul(m[2], z))

            origin, direction = builder.fadd(sum_of(*world[:3]), m[3]), sum_of(*world[3:])
            for value, offset in ((origin, at.SPACE_ORIGIN), (direction, at.SPACE_DIRECTION)):
                emit.store(builder, value, packet, at.PACKET_OBJECT + offset + at.VECTOR * axis)
                good = builder.fcmp_ordered("<", emit.absolute(builder, value), all_lanes(FLOAT16, INFINITY))
                finite = good if finite is None else builder.and_(finite, good)
        return emit.mask(builder, finite)

    return types.uint32(types.int64, types.int64), generate


@intrinsic
def set_space(typing_context, space, reach, share, condition):
    """As ``ray_box.set_slab`` for each ray with max_abs = (reach + share * its largest origin) * condition; classes."""

    def generate(context, builder, signature, arguments):
        space, reach, share, condition = arguments
        origin = [emit.load(builder, space, at.SPACE_ORIGIN + at.VECTOR * axis, FLOAT16) for axis in AXES]
        direction = [emit.load(builder, space, at.SPACE_DIRECTION + at.VECTOR * axis, FLOAT16) for axis in AXES]
        largest, widths = None, [emit.absolute(builder, value) for value in direction]
        for value in origin:
            size = emit.absolute(builder, value)
            largest = size if largest is None else emit.larger(builder, size, largest)
        own = builder.fmul(emit.splat(builder, share, FLOAT16), largest)
        max_abs = builder.fmul(
            builder.fadd(emit.splat(builder, reach, FLOAT16), own), emit.splat(builder, condition, FLOAT16)
        )
        margin = builder.fmul(builder.fadd(max_abs, largest), all_lanes(FLOAT16, MARGIN))
        margin = emit.larger(builder, margin, all_lanes(FLOAT16, TINY))
        zero, one, infinity = all_lanes(FLOAT16, 0), all_lanes(FLOAT16, 1), all_lanes(FLOAT16, INFINITY)
        kind = builder.select(
            builder.fcmp_ordered(">=", largest, all_lanes(FLOAT16, HUGE)),
            all_lanes(INT16, at.CLASS_HUGE),
            all_lanes(INT16, 0),
        )
        for axis in AXES:
            negative = builder.fcmp_ordered("<", direction[axis], zero)
            still = builder.fcmp_ordered("==", direction[axis], zero)
            reciprocal = builder.select(still, infinity, builder.fdiv(one, direction[axis]))
            unbounded = builder.fcmp_ordered("==", emit.absolute(builder, reciprocal), infinity)
            silent = builder.and_(unbounded, builder.not_(still))  # so small that the axis says nothing
            sign = builder.select(negative, all_lanes(FLOAT16, -1), one)
            low = builder.select(silent, infinity, builder.fadd(origin[axis], margin))
            high = builder.select(silent, all_lanes(FLOAT16, -INFINITY), builder.fsub(origin[axis], margin))
            for value, offset in (
                (low, at.SPACE_LOW),
                (high, at.SPACE_HIGH),
                (builder.select(silent, sign, reciprocal), at.SPACE_RECIPROCAL),
            ):
                emit.store(builder, value, space, offset + at.VECTOR * axis)
            bit = builder.select(negative, all_lanes(INT16, 0), all_lanes(INT16, 1 << axis))
            kind = builder.or_(kind, bit)
        second = builder.fcmp_ordered(">", widths[1], widths[0])
        third = builder.fcmp_ordered(">", widths[2], emit.larger(builder, widths[0], widths[1]))
        kz = builder.select(second, all_lanes(INT16, 1 << at.CLASS_KZ), all_lanes(INT16, 0))
        kz = builder.select(third, all_lanes(INT16, 2 << at.CLASS_KZ), kz)
        emit.store(builder, builder.or_(kind, kz), space, at.SPACE_CLASS)
        return context.get_dummy_value()

    return types.void(types.int64, types.float32, types.float32, types.float32), generate


def part_of(builder, address, number_of_part):
    """A part's block or space; ``number_of_part`` int32."""
    offset = builder.mul(builder.zext(number_of_part, INT64), number(at.PART_SIZE))
    return builder.add(address, offset)


def bits_of(builder, bits, part):
    """The 16 bits of a part as uint32."""
    shift = builder.zext(builder.shl(part, ir.Constant(INT32, 4)), INT64)
    return builder.trunc(builder.and_(builder.lshr(bits, shift), number(0xFFFF)), INT32)


def with_bits(builder, bits, part, of_part):
    """Bits of all parts with those of one or-ed in."""
    shift = builder.zext(builder.shl(part, ir.Constant(INT32, 4)), INT64)
    return builder.or_(bits, builder.shl(builder.zext(of_part, INT64), shift))


ALL_PARTS = ir.Constant(INT32, (1 << at.PARTS) - 1)


@intrinsic
def same_class(typing_context, space, kind, wanted):
    """Bits of the rays whose class equals ``kind``, as far as the bits of ``wanted`` go."""

    def generate(context, builder, signature, arguments):
        space, kind, wanted = arguments
        kinds, asked = (emit.splat(builder, builder.trunc(value, INT32), INT16) for value in (kind, wanted))
        with emit.Loop(builder, ALL_PARTS, [number(0)]) as parts:
            own = emit.load(builder, part_of(builder, space, parts.lane), at.SPACE_CLASS, INT16)
            differ = builder.and_(builder.xor(own, kinds), asked)
            same = emit.mask(builder, builder.icmp_signed("==", differ, all_lanes(INT16, 0)))
            parts.next = [with_bits(builder, parts.carried[0], parts.lane, same)]
        return parts.results[0]

    return types.uint64(types.int64, types.int64, types.int64), generate


@intrinsic
def set_group(typing_context, space, packet, bounds, octant, group):
    """What the rays of ``group``, all of one octant, walk with: near and far origins, and the bounds of both.

    ``bounds``: address of what bounds all parts.
    """

    def generate(context, builder, signature, arguments):
        space, packet, bounds, octant, group = arguments
        nothing = all_lanes(FLOAT16, -INFINITY)
        positive = [builder.trunc(_bit(builder, octant, axis), emit.BOOL) for axis in AXES]
        # All bounds are greatest values, of the negative where the least is wanted.
        one, minus = (ir.Constant(FLOAT, value) for value in (1.0, -1.0))
        flips = [builder.select(bit, one, minus) for bit in positive]
        signs = [minus] * 3 + [one] * 3 + flips + [builder.fmul(flip, minus) for flip in flips] + [minus, one]
        row = ir.Constant(FLOAT16, ir.Undefined)
        for lane, sign in enumerate([*signs, one, one]):
            row = builder.insert_element(row, sign, ir.Constant(INT32, lane))
        with emit.Loop(builder, ALL_PARTS, [nothing]) as parts:
            own, part = part_of(builder, space, parts.lane), part_of(builder, packet, parts.lane)
            members = emit.lanes(builder, bits_of(builder, group, parts.lane), 16)
            low, high, reciprocal = (
                [emit.load(builder, own, offset + at.VECTOR * axis, FLOAT16) for axis in AXES]
                for offset in (at.SPACE_LOW, at.SPACE_HIGH, at.SPACE_RECIPROCAL)
            )
            near = [builder.select(positive[axis], low[axis], high[axis]) for axis in AXES]
            far = [builder.select(positive[axis], high[axis], low[axis]) for axis in AXES]
            for axis in AXES:
                emit.store(builder, near[axis], own, at.SPACE_NEAR + at.VECTOR * axis)
                emit.store(builder, far[axis], own, at.SPACE_FAR + at.VECTOR * axis)
            ends = [emit.load(builder, part, offset, FLOAT16) for offset in (at.PACKET_T_MIN, at.PACKET_WIDE_END)]
            columns = [*reciprocal, *reciprocal, *near, *far, *ends]
            signed = [
                builder.fmul(value, emit.splat(builder, sign, FLOAT16))
                for value, sign in zip(columns, signs, strict=True)
            ]
            greatest = emit.reduce_all(
                builder, [builder.select(members, value, nothing) for value in signed], emit.larger
            )
            emit.store(builder, builder.fmul(greatest, row), own, at.SPACE_BOUNDS)
            parts.next = [emit.larger(builder, greatest, parts.carried[0])]
        emit.store(builder, builder.fmul(parts.results[0], row), bounds, 0)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4, types.uint64), generate


@intrinsic
def set_part_shear(typing_context, space, kx, ky, kz):
    """As ``ray_triangle.set_shear`` with scale 1; kx, ky, kz are axes times 64."""

    def generate(context, builder, signature, arguments):
        space, *axes = arguments
        places = [builder.add(space, axis) for axis in axes]
        origin = [emit.load(builder, place, at.SPACE_ORIGIN, FLOAT16) for place in places]
        direction = [emit.load(builder, place, at.SPACE_DIRECTION, FLOAT16) for place in places]
        direction[2], along = all_lanes(FLOAT16, 1), direction[2]
        shear = [builder.fdiv(value, along) for value in direction]
        for part, value in enumerate(origin + shear):
            emit.store(builder, value, space, at.SPACE_SHEAR + at.VECTOR * part)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), generate


def outer_interval(builder, bounds, near_planes, far_planes, kind):
    """Conditions of the boxes that rays within bounds may meet; planes are per axis, one lane for each box."""
    least, greatest, near_origin, far_origin = (
        [spread(builder, bounds, row + 4 * axis, kind) for axis in AXES]
        for row in (at.BOUND_LEAST_RECIPROCAL, at.BOUND_GREATEST_RECIPROCAL, at.BOUND_NEAR, at.BOUND_FAR)
    )
    entry, leave = spread(builder, bounds, at.BOUND_T_MIN, kind), None
    for axis in AXES:
        near = builder.fsub(near_planes[axis], near_origin[axis])
        far = builder.fsub(far_planes[axis], far_origin[axis])
        nears, fars = ([builder.fmul(value, scale) for scale in (least[axis], greatest[axis])] for value in (near, far))
        entry = emit.larger(builder, emit.smaller(builder, *nears), entry)
        far = emit.larger(builder, *fars)
        leave = far if leave is None else emit.smaller(builder, far, leave)
    missed = builder.fcmp_ordered(">", entry, builder.fmul(leave, all_lanes(kind, WIDEN)))
    beyond = builder.fcmp_ordered(">", entry, spread(builder, bounds, at.BOUND_END, kind))
    return builder.not_(builder.or_(missed, beyond))


def _plane_offsets(builder, octant):
    """Byte offsets of the planes met first and last in a node, per axis."""
    near, far = [], []
    for axis in AXES:
        turn = builder.shl(_bit(builder, octant, axis), number(5))
        far.append(builder.add(turn, number(64 * axis)))
        near.append(builder.xor(far[-1], number(32)))
    return near, far


@intrinsic
def visit_children(typing_context, node, space, packet, bounds, octant, active, entries, size, refs):
    """Test the children of a node and stack those that an active ray meets, farthest first.

    ``entries``, ``refs``: addresses of the stack's vectors (where each ray enters, ENTRY_BITS: which do) and of its
    references. Returns the stack's new size and the bits of the rays that meet its top, 0 when nothing was stacked.
    """
    results = types.Tuple([types.int64, types.uint64])

    def generate(context, builder, signature, arguments):
        node, space, packet, bounds, octant, active, entries, size, refs = arguments
        near_at, far_at = _plane_offsets(builder, octant)
        planes = [[emit.load_at(builder, builder.add(node, o), FLOAT8) for o in side] for side in (near_at, far_at)]
        met = outer_interval(builder, bounds, *planes, FLOAT8)
        met = builder.and_(met, builder.icmp_signed("!=", emit.load(builder, node, 192, INT8), all_lanes(INT8, 0)))
        # Lane r of the order word: the child that comes r-th from far to near.
        shift = emit.splat(builder, builder.mul(builder.trunc(octant, INT32), ir.Constant(INT32, 3)), INT8)
        child = builder.and_(builder.lshr(emit.load(builder, node, 224, INT8), shift), all_lanes(INT8, 7))
        met = emit.splat(builder, emit.mask(builder, met), INT8)
        ranked = builder.trunc(builder.lshr(met, child), ir.VectorType(emit.BOOL, 8))
        emit.store(builder, builder.shl(child, all_lanes(INT8, 2)), packet, at.RANKS)
        walking = [emit.lanes(builder, builder.lshr(active, number(16 * part)), 16) for part in range(at.PARTS)]
        anyone = [
            builder.icmp_unsigned("!=", builder.and_(active, number(0xFFFF << 16 * part)), number(0))
            for part in range(at.PARTS)
        ]
        with emit.Loop(builder, emit.mask(builder, ranked), [size, number(0)]) as loop:
            place = builder.shl(builder.zext(loop.lane, INT64), number(2))
            offset = emit.load_at(builder, builder.add(builder.add(packet, number(at.RANKS)), place), INT32)
            child = builder.add(node, builder.zext(offset, INT64))
            near_planes, far_planes = (
                [emit.splat(builder, emit.load_at(builder, builder.add(child, o), FLOAT), FLOAT16) for o in side]
                for side in (near_at, far_at)
            )
            # Always stored, kept only where someone meets the box: a branch here is often guessed wrong.
            top, last = loop.carried
            slot = builder.add(entries, builder.mul(top, number(at.ENTRY_VECTORS)))
            bits = number(0)
            for part in range(at.PARTS):

                def test(part=part):
                    hit, entry = _enter_box(builder, space, packet, part, near_planes, far_planes)
                    emit.store(builder, entry, slot, at.VECTOR * part)
                    own = builder.zext(emit.mask(builder, builder.and_(hit, walking[part])), INT64)
                    return builder.shl(own, number(16 * part))

                bits = builder.or_(bits, emit.when(builder, anyone[part], test, number(0)))
            emit.store(builder, bits, slot, at.ENTRY_BITS)
            ref = builder.add(refs, builder.shl(top, number(2)))
            emit.store(builder, emit.load(builder, child, 192, INT32), ref, 0)
            any_hit = builder.icmp_unsigned("!=", bits, number(0))
            loop.next = [builder.add(top, builder.zext(any_hit, INT64)), builder.select(any_hit, bits, last)]
        return context.make_tuple(builder, signature.return_type, loop.results)

    address = types.int64
    return results(*[address] * 5, types.uint64, address, address, address), generate


def _enter_box(builder, space, packet, part, near_planes, far_planes):
    """(conditions, distances): which rays of a part meet a box, and where they enter it."""
    base = at.PART_SIZE * part
    entry, leave = emit.load(builder, packet, base + at.PACKET_T_MIN, FLOAT16), None
    for axis in AXES:
        near_origin, far_origin, reciprocal = (
            emit.load(builder, space, base + offset + at.VECTOR * axis, FLOAT16)
            for offset in (at.SPACE_NEAR, at.SPACE_FAR, at.SPACE_RECIPROCAL)
        )
        near = builder.fmul(builder.fsub(near_planes[axis], near_origin), reciprocal)
        far = builder.fmul(builder.fsub(far_planes[axis], far_origin), reciprocal)
        entry = emit.larger(builder, near, entry)
        leave = far if leave is None else emit.smaller(builder, far, leave)
    missed = builder.fcmp_ordered(">", entry, builder.fmul(leave, all_lanes(FLOAT16, WIDEN)))
    beyond = builder.fcmp_ordered(">", entry, emit.load(builder, packet, base + at.PACKET_WIDE_END, FLOAT16))
    return builder.not_(builder.or_(missed, beyond)), entry


@intrinsic
def still_active(typing_context, packet, entry):
    """Bits of the rays that enter the box of a stack entry before their current end."""

    def generate(context, builder, signature, arguments):
        packet, entry = arguments
        bits = number(0)
        for part in range(at.PARTS):
            end = emit.load(builder, packet, at.PART_SIZE * part + at.PACKET_WIDE_END, FLOAT16)
            enters = emit.load(builder, entry, at.VECTOR * part, FLOAT16)
            own = builder.zext(emit.mask(builder, builder.fcmp_ordered("<=", enters, end)), INT64)
            bits = builder.or_(bits, builder.shl(own, number(16 * part)))
        return builder.and_(bits, emit.load(builder, entry, at.ENTRY_BITS, INT64))

    return types.uint64(types.int64, types.int64), generate


@intrinsic
def shorten(typing_context, space, packet, bounds, group):
    """Make the ends within bounds new, those of each part and of all, after hits of a group's rays."""

    def generate(context, builder, signature, arguments):
        space, packet, bounds, group = arguments
        nothing = all_lanes(FLOAT16, -INFINITY)
        ends = []
        for part in range(at.PARTS):
            own = emit.load(builder, packet, at.PART_SIZE * part + at.PACKET_WIDE_END, FLOAT16)
            members = emit.lanes(builder, builder.lshr(group, number(16 * part)), 16)
            ends.append(builder.select(members, own, nothing))
        greatest = emit.reduce_all(builder, ends, emit.larger)
        farthest = None
        for part in range(at.PARTS):
            end = builder.extract_element(greatest, ir.Constant(INT32, part))
            emit.store(builder, end, space, at.PART_SIZE * part + at.SPACE_BOUNDS + at.BOUND_END)
            farthest = end if farthest is None else emit.larger(builder, end, farthest)
        emit.store(builder, farthest, bounds, at.BOUND_END)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.uint64), generate
