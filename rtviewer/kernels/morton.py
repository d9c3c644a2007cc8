"""Morton order (Lauterbach et al. 2009): keys, a radix sort in three passes, cuts at the highest differing bit.

A key is a 36-bit code of a doubled centre above a 28-bit row of the references. Passes go over the code only and keep
the order of equal digits, so the result does not depend on how the work is divided.
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import emit, emit_loops, jit
from rtviewer.kernels.emit import FLOAT4, FLOAT8, INT64
from rtviewer.kernels.emit_loops import INT4, long
from rtviewer.kernels.memory import load_i64, store_i64
from rtviewer.kernels.references import REFERENCE_BYTES, centres_of, floats_at, rows_at

ROW_BITS = 28
ROW_MASK = (1 << ROW_BITS) - 1
CODE_MASK = (1 << 36) - 1
DIGIT_BITS = 12
DIGITS = 1 << DIGIT_BITS
CELLS = np.float32(4095.0)
SMALLEST = np.float32(1e-30)

SPREAD = ((16, 0xFF0000FF), (8, 0x0F00F00F), (4, 0xC30C30C3), (2, 0x249249249))
"""Shifts and masks that put two zeros between the bits of a 12-bit number."""


@intrinsic
def _write_keys_intrinsic(typing_context, references, first, end, frame, keys):
    def generate(context, builder, signature, arguments):
        references, first, end, frame, keys = arguments
        centres = emit.load(builder, frame, 32, FLOAT8)
        start = emit_loops.low(builder, centres)
        extent = builder.fadd(start, emit_loops.high(builder, centres))
        extent = emit.larger(builder, extent, emit.constant(FLOAT4, float(SMALLEST)))
        scale = builder.fdiv(emit.constant(FLOAT4, float(CELLS)), extent)
        wide = ir.VectorType(INT64, 4)

        def body(at, _):
            box = emit.load_at(builder, emit_loops.offset(builder, references, at, REFERENCE_BYTES), FLOAT8)
            cell = builder.fmul(builder.fadd(emit_loops.doubled_centre(builder, box), start), scale)
            cell = builder.fptosi(cell, INT4)
            most = emit.constant(INT4, DIGITS - 1)
            cell = builder.select(builder.icmp_signed("<", cell, most), cell, most)
            spread = builder.zext(cell, wide)
            for shift, mask in SPREAD:
                moved = builder.shl(spread, emit.constant(wide, shift))
                spread = builder.and_(builder.or_(spread, moved), emit.constant(wide, mask))
            spread = builder.shl(spread, ir.Constant(wide, [2, 1, 0, 0]))
            key = builder.or_(
                builder.or_(emit_loops.lane(builder, spread, 0), emit_loops.lane(builder, spread, 1)),
                emit_loops.lane(builder, spread, 2),
            )
            key = builder.or_(builder.shl(key, long(ROW_BITS)), at)
            emit.store(builder, key, emit_loops.offset(builder, keys, at, 8), 0)
            return ()

        emit_loops.loop(builder, first, end, 1, (), body)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


def write_keys_portable(references, first, end, frame, keys):
    rows = rows_at(references + REFERENCE_BYTES * first, references + REFERENCE_BYTES * end)
    centres = floats_at(frame + 32, 8)
    scale = CELLS / np.maximum(centres[:4] + centres[4:], SMALLEST)
    cells = np.minimum(((centres_of(rows) + centres[:4]) * scale).astype(np.int32), DIGITS - 1).astype(np.int64)
    for shift, mask in SPREAD:
        cells = (cells | cells << shift) & mask
    codes = cells[:, 0] << 2 | cells[:, 1] << 1 | cells[:, 2]
    out = floats_at(keys, 2 * int(end)).view(np.int64)
    out[int(first) : int(end)] = codes << ROW_BITS | np.arange(int(first), int(end))


if numba.config.DISABLE_JIT:
    write_keys = write_keys_portable
else:
    write_keys = _write_keys_intrinsic
    """write_keys(references, first, end, frame, keys): int64 keys of rows ``first`` to ``end``; ``frame``
    bounds all."""


@jit
def digit_of(key, shift):
    return (key >> shift) & (DIGITS - 1)


@jit
def make_keys(references, first, end, frame, keys):
    """Keys of a range of references. All arguments int64; addresses but for the range."""
    write_keys(references, first, end, frame, keys)


@jit
def count_digits(keys, first, end, shift, counts):
    """``counts``: address of 4096 int64, how often each digit occurs in a range of keys."""
    for digit in range(DIGITS):
        store_i64(counts + 8 * digit, 0)
    for at in range(first, end):
        slot = counts + 8 * digit_of(load_i64(keys + 8 * at), shift)
        store_i64(slot, load_i64(slot) + 1)


@jit
def scatter_keys(keys, first, end, shift, places, out):
    """Move a range of keys to where ``places`` (4096 int64, changed) says for each digit, in order."""
    for at in range(first, end):
        key = load_i64(keys + 8 * at)
        slot = places + 8 * digit_of(key, shift)
        place = load_i64(slot)
        store_i64(slot, place + 1)
        store_i64(out + 8 * place, key)


@jit
def code_of(keys, at):
    """The code of a key, without its sign: a key uses all 64 bits."""
    return (load_i64(keys + 8 * at) >> ROW_BITS) & CODE_MASK


@jit
def code_difference(keys, first, end):
    """Bits in which the codes of the first and the last key of a sorted range differ."""
    return code_of(keys, first) ^ code_of(keys, end - 1)


@jit
def split_morton(keys, first, end):
    """Where the highest bit that differs in a sorted range of codes turns; the middle when none does."""
    differing = code_difference(keys, first, end)
    if differing == 0:
        return (first + end) >> 1
    low, high = first, end - 1  # the bit is clear at low, set at high
    prefix = code_of(keys, low)
    while high - low > 1:
        middle = (low + high) >> 1
        changed = code_of(keys, middle) ^ prefix
        if changed ^ differing < changed:  # the highest bit of ``differing`` is set in ``changed``
            high = middle
        else:
            low = middle
    return high
