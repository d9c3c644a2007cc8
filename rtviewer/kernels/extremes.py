"""The smaller and the larger of two numbers, as Python's ``min`` and ``max`` have it: the first unless the second is
really smaller or larger, so also where one is no number. numba's own are compiled as functions, for each use again."""

from __future__ import annotations

import numba
from numba import types
from numba.extending import intrinsic


def _chooser(sign):
    @intrinsic
    def choose(typing_context, a, b):
        kind = typing_context.unify_types(types.unliteral(a), types.unliteral(b))

        def generate(context, builder, signature, arguments):
            a, b = arguments
            if isinstance(kind, types.Float):
                is_better = builder.fcmp_ordered(sign, b, a)
            elif kind.signed:
                is_better = builder.icmp_signed(sign, b, a)
            else:
                is_better = builder.icmp_unsigned(sign, b, a)
            return builder.select(is_better, b, a)

        return kind(kind, kind), generate

    return choose


if numba.config.DISABLE_JIT:
    least, largest = min, max
else:
    least, largest = _chooser("<"), _chooser(">")
    """least(a, b), largest(a, b): integers or floats, brought to the type that holds both."""
