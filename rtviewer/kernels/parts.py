"""Parts of the walk that are compiled by themselves and called by address.

What a kernel calls is compiled into everything that Python calls it through: the walk of slots, or what becomes of a
candidate, into each walk that there is. A part is compiled once, when a dispatch first needs it, and its address stands
in the world block (``state``). What costs a call anyway loses nothing by it. ``part_library`` has the parts.
"""

from __future__ import annotations

import ctypes

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import inline_jit

WALK_LEVEL = types.int64(types.int64, types.int64, types.int64, types.int64, types.int64)
"""Five words and a result that says nothing, but where the part says what it is: ``walk_leaves`` (blas, walk, base,
counters, log), ``walk_slots``, the boxes of a leaf, and the parts of packets (``packet``, ``packet_any_hit``)."""
OFFER = types.int64(
    types.int64, types.float32, types.int64, types.float32, types.float32, types.int64, types.int64, types.int64,
    types.int64, types.int64, types.int64,
)  # fmt: skip
"""offer(is_triangle, t, kind, attribute_0, attribute_1, opacity, number, geometries, geometry_count, walk, counters) ->
verdict; counters 0 where there are none."""


def _call(signature, context, builder, arguments):
    kinds = [context.get_value_type(kind) for kind in signature.args]
    function = ir.FunctionType(context.get_value_type(signature.return_type), kinds).as_pointer()
    return builder.call(builder.inttoptr(arguments[0], function), arguments[1:])


def _call_by_python(signature):
    kinds = {types.int64: ctypes.c_int64, types.float32: ctypes.c_float}
    function = ctypes.CFUNCTYPE(kinds[signature.return_type], *(kinds[kind] for kind in signature.args))
    return lambda address, *arguments: function(int(address))(
        *(float(a) if kind == types.float32 else int(a) for a, kind in zip(arguments, signature.args, strict=True))
    )


@intrinsic
def _walk_level_intrinsic(typing_context, address, blas, walk, base, counters, log):
    def generate(context, builder, signature, arguments):
        return _call(WALK_LEVEL, context, builder, arguments)

    return WALK_LEVEL.return_type(types.int64, *WALK_LEVEL.args), generate


@intrinsic
def _offer_intrinsic(
    typing_context, address, is_triangle, t, kind, a, b, opacity, number, first, count, walk, counters
):
    def generate(context, builder, signature, arguments):
        return _call(OFFER, context, builder, arguments)

    return OFFER.return_type(types.int64, *OFFER.args), generate


if numba.config.DISABLE_JIT:
    call_walk_level, call_offer = _call_by_python(WALK_LEVEL), _call_by_python(OFFER)
else:
    call_walk_level, call_offer = _walk_level_intrinsic, _offer_intrinsic


@inline_jit
def or_zero(address):
    """An address that may be None, for a part."""
    if address is None:
        return 0
    return address
