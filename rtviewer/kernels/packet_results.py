"""What the rays of a packet have hit, written to the columns of results as vector code (see ``packet_vector``)."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import emit
from rtviewer.kernels import packet_state as at
from rtviewer.kernels.emit import INT32, INT64
from rtviewer.kernels.packet_vector import DOUBLE, FLOAT16, INT16, all_lanes, number


@intrinsic
def hit_lanes(typing_context, packet, instance):
    """Bits of the rays that have a hit, and above them of those that hit one instance."""

    def generate(context, builder, signature, arguments):
        packet, instance = arguments
        found = emit.load(builder, packet, at.PACKET_INSTANCE, INT16)
        wanted = emit.splat(builder, builder.trunc(instance, INT32), INT16)
        same = emit.mask(builder, builder.icmp_signed("==", found, wanted))
        hit = emit.mask(builder, builder.icmp_signed(">=", found, all_lanes(INT16, 0)))
        return builder.or_(hit, builder.shl(same, ir.Constant(INT32, 16)))

    return types.uint32(types.int64, types.int64), generate


def _write(builder, request, column, ray, value, size):
    start = builder.add(emit.load(builder, request, column, INT64), builder.mul(ray, number(size)))
    builder.store(value, builder.inttoptr(start, value.type.as_pointer()), align=1)


def _hit_or_miss(builder, request, packet, ray, invalid):
    """Write hit and invalid; which rays hit."""
    byte16 = ir.VectorType(ir.IntType(8), 16)
    found = emit.load(builder, packet, at.PACKET_INSTANCE, INT16)
    hit = builder.icmp_signed(">=", found, all_lanes(INT16, 0))
    _write(builder, request, at.REQUEST_HIT, ray, builder.zext(hit, byte16), 1)
    _write(builder, request, at.REQUEST_INVALID, ray, builder.zext(emit.lanes(builder, invalid, 16), byte16), 1)
    return hit


@intrinsic
def write_hit_or_miss(typing_context, request, packet, ray, invalid):
    """The two columns that are wanted where only hit or miss is asked; parameters as of ``write_columns``."""

    def generate(context, builder, signature, arguments):
        _hit_or_miss(builder, *arguments)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3, types.uint32), generate


@intrinsic
def write_columns(typing_context, request, packet, ray, invalid, instance_id, hit_group):
    """All columns of the results of 16 rays from ``ray`` on, as if all hits were in the only geometry of one instance.

    ``packet`` is the block of their part, ``invalid`` has the bits of those that break RAY-2 or RAY-3.
    """

    def generate(context, builder, signature, arguments):
        request, packet, ray, invalid, instance_id, hit_group = arguments
        long16 = ir.VectorType(INT64, 16)

        def write(column, value, size):
            _write(builder, request, column, ray, value, size)

        found = emit.load(builder, packet, at.PACKET_INSTANCE, INT16)
        hit = _hit_or_miss(builder, request, packet, ray, invalid)
        end, t_max = (emit.load(builder, packet, offset, FLOAT16) for offset in (at.PACKET_END, at.PACKET_T_MAX))
        write(at.REQUEST_T, builder.select(hit, end, t_max), 4)
        nothing = all_lanes(INT16, -1)
        primitive, kind = (emit.load(builder, packet, offset, INT16) for offset in (at.PACKET_NUMBER, at.PACKET_KIND))
        for column, value in (
            (at.REQUEST_INSTANCE, found),
            (at.REQUEST_GEOMETRY, all_lanes(INT16, 0)),
            (at.REQUEST_PRIMITIVE, primitive),
            (at.REQUEST_KIND, kind),
        ):
            write(column, builder.select(hit, value, nothing), 4)
        for column, value in ((at.REQUEST_INSTANCE_ID, instance_id), (at.REQUEST_HIT_GROUP, hit_group)):
            write(column, builder.select(hit, emit.splat(builder, value, long16), all_lanes(long16, -1)), 8)
        wide = ir.VectorType(DOUBLE, 16)
        det = emit.load(builder, packet, at.PACKET_DET, wide)
        pair = []
        for offset in (at.PACKET_V, at.PACKET_W):
            share = builder.fptrunc(builder.fdiv(emit.load(builder, packet, offset, wide), det), FLOAT16)
            pair.append(builder.select(hit, share, all_lanes(FLOAT16, 0)))
        order = [16 * (place % 2) + place // 2 for place in range(32)]
        attributes = builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(INT32, 32), order))
        write(at.REQUEST_ATTRIBUTES, attributes, 8)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3, types.uint32, types.int64, types.int64), generate
