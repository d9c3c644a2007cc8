"""References of a build: boxes of primitives with their ids, 32 bytes each, permuted in place.

A reference is ``(-minimum.xyz, id, maximum.xyz, owner)``: six float32, and two int32 between them. With minima negated
a union is one maximum and the doubled centre one subtraction. ``id`` is the word that a pack lane will hold, ``owner``
the row of the table of sources that its primitive is in. Frames are boxes in the same form: 32 bytes of geometry
followed by 32 bytes of doubled centres.

Cuts calculate in float32, so coordinates must be neither huge nor infinite (``build.references`` scales such inputs;
the boxes of nodes come from the primitives themselves).
"""

from __future__ import annotations

import ctypes

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import emit, emit_loops
from rtviewer.kernels.emit import FLOAT8, INT32, INT64
from rtviewer.kernels.emit_loops import long

REFERENCE_BYTES = 32
FRAME_BYTES = 64

SOURCE_VERTICES, SOURCE_INDICES, SOURCE_FIRST, SOURCE_ID, SOURCE_OWNER = 0, 8, 16, 24, 28
SOURCE_BYTES = 32
"""A row of the table of sources: addresses of the vertices and of the uint32 indices (0: consecutive triples), the
number of its first primitive, the bits that an id has above the number, the row itself."""

SURE, INACTIVE, BROKEN, DOUBTFUL = 0, 1, 2, 3
"""What ``triangle_references`` says of a triangle: it has an area; the x of a corner is NaN [INA-1]; another coordinate
is [INA-3]; exact arithmetic must tell whether it is degenerate [DEG-1]."""

CERTAIN = 8 * 2.0**-53
CERTAIN_QUICK, SMALLEST_QUICK = 8 * 2.0**-24, 2.0**-100


def corners_at(builder, vertices, indices, number):
    """The corners of a triangle, three vectors of four lanes, the last 0; ``indices`` 0: consecutive triples."""
    return [emit_loops.point(builder, at) for at in corner_addresses(builder, vertices, indices, number)]


def corner_addresses(builder, vertices, indices, number):
    """Where the three corners of a triangle are."""
    first = builder.mul(number, long(3))
    plain = [builder.add(first, long(k)) for k in range(3)]

    def named():
        row = emit_loops.offset(builder, indices, number, 12)
        return [builder.zext(emit.load(builder, row, 4 * k, INT32), INT64) for k in range(3)]

    chosen = emit_loops.either(builder, builder.icmp_signed("!=", indices, long(0)), plain, named)
    return [emit_loops.offset(builder, vertices, index, 12) for index in chosen]


def box_of(builder, points):
    """The box (-minimum | maximum) of points of four lanes."""
    negated = [emit_loops.negative(builder, p) for p in points]
    least, most = negated[0], points[0]
    for n, p in zip(negated[1:], points[1:], strict=True):
        least, most = emit.larger(builder, n, least), emit.larger(builder, p, most)
    return emit_loops.joined(builder, least, most)


def _has_area(builder, points):
    """Whether some component of the cross product exceeds what rounding could have made of zero, in float64.

    What float32 is sure of, float64 is too; it is asked first because it costs half, and decides nearly always.
    """
    quick = _exceeds_rounding(builder, points, CERTAIN_QUICK, SMALLEST_QUICK)

    def exactly():
        wide = ir.VectorType(ir.DoubleType(), 4)
        return [_exceeds_rounding(builder, [builder.fpext(p, wide) for p in points], CERTAIN, 0.0)]

    return emit_loops.either(builder, builder.not_(quick), [quick], exactly)[0]


def _exceeds_rounding(builder, points, certain, smallest):
    """``smallest``: differences up to this may come from products too small for their precision."""
    a, b, c = points
    u, v = builder.fsub(b, a), builder.fsub(c, a)

    def turn(value, lanes):
        return emit_loops.shuffle(builder, value, value, lanes)

    p = builder.fmul(turn(u, (1, 2, 0, 3)), turn(v, (2, 0, 1, 3)))
    q = builder.fmul(turn(u, (2, 0, 1, 3)), turn(v, (1, 2, 0, 3)))

    def size_of(value):
        return emit.larger(builder, value, emit_loops.negative(builder, value))

    limit = builder.fmul(builder.fadd(size_of(p), size_of(q)), emit.constant(p.type, certain))
    if smallest:
        limit = builder.fadd(limit, emit.constant(p.type, smallest))
    exceeds = builder.fcmp_ordered(">", size_of(builder.fsub(p, q)), limit)
    return builder.icmp_unsigned("!=", builder.bitcast(exceeds, ir.IntType(4)), ir.Constant(ir.IntType(4), 0))


@intrinsic
def _triangle_references_intrinsic(typing_context, source, first, end, out, status, frame):
    def generate(context, builder, signature, arguments):
        source, first, end, out, status, frame = arguments
        word, owner = (emit.load(builder, source, at, INT32) for at in (SOURCE_ID, SOURCE_OWNER))
        number_of_first = builder.trunc(emit.load(builder, source, SOURCE_FIRST, INT64), INT32)
        word = builder.add(word, number_of_first)
        vertices, indices = (emit.load(builder, source, at, INT64) for at in (SOURCE_VERTICES, SOURCE_INDICES))

        def body(at, carried):
            geometry, centres, seen = carried
            points = corners_at(builder, vertices, indices, at)
            box = box_of(builder, points)
            nan = None
            for p in points:
                lanes = builder.fcmp_unordered("uno", p, p)
                nan = lanes if nan is None else builder.or_(nan, lanes)
            nan_x = emit_loops.lane(builder, nan, 0)
            some_nan = builder.icmp_unsigned("!=", builder.bitcast(nan, ir.IntType(4)), ir.Constant(ir.IntType(4), 0))
            kind = builder.select(
                nan_x,
                ir.Constant(INT32, INACTIVE),
                builder.select(
                    some_nan,
                    ir.Constant(INT32, BROKEN),
                    builder.select(_has_area(builder, points), ir.Constant(INT32, SURE), ir.Constant(INT32, DOUBTFUL)),
                ),
            )
            place = builder.inttoptr(builder.add(status, at), ir.IntType(8).as_pointer())
            builder.store(builder.trunc(kind, ir.IntType(8)), place)
            row = emit_loops.offset(builder, out, at, REFERENCE_BYTES)
            emit.store(builder, box, row, 0)
            emit.store(builder, builder.add(word, builder.trunc(at, INT32)), row, 12)
            emit.store(builder, owner, row, 28)
            centre = emit_loops.as_box(builder, emit_loops.doubled_centre(builder, box))
            return (
                emit.larger(builder, box, geometry),
                emit.larger(builder, centre, centres),
                builder.or_(seen, kind),
            )

        start = (emit_loops.nothing(), emit_loops.nothing(), ir.Constant(INT32, 0))
        geometry, centres, seen = emit_loops.loop(builder, first, end, 1, start, body)
        emit.store(builder, geometry, frame, 0)
        emit.store(builder, centres, frame, 32)
        return builder.zext(seen, INT64)

    return types.int64(*[types.int64] * 6), generate


@intrinsic
def _measure_intrinsic(typing_context, at, end, frame):
    def generate(context, builder, signature, arguments):
        at, end, frame = arguments

        def body(at, carried):
            box = emit.load_at(builder, at, FLOAT8)
            centre = emit_loops.as_box(builder, emit_loops.doubled_centre(builder, box))
            return emit.larger(builder, box, carried[0]), emit.larger(builder, centre, carried[1])

        start = (emit_loops.nothing(), emit_loops.nothing())
        geometry, centres = emit_loops.loop(builder, at, end, REFERENCE_BYTES, start, body)
        emit.store(builder, geometry, frame, 0)
        emit.store(builder, centres, frame, 32)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def _half_area_intrinsic(typing_context, frame):
    def generate(context, builder, signature, arguments):
        box = emit.load_at(builder, arguments[0], FLOAT8)
        return emit_loops.lane(builder, emit_loops.half_areas(builder, box, box, box), 0)

    return types.float32(types.int64), generate


@intrinsic
def _copy_row_intrinsic(typing_context, source, target):
    def generate(context, builder, signature, arguments):
        emit.store(builder, emit.load_at(builder, arguments[0], FLOAT8), arguments[1], 0)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


# --- the same in numpy --------------------------------------------------------------------------------------------


def floats_at(address, count):
    return np.ctypeslib.as_array(ctypes.cast(int(address), ctypes.POINTER(ctypes.c_float)), (int(count),))


def integer_at(address, size):
    """A signed little-endian integer of ``size`` bytes."""
    return int.from_bytes(ctypes.string_at(int(address), size), "little", signed=True)


def rows_at(address, end):
    """References from an address to another, (n, 8) float32."""
    count = (int(end) - int(address)) // REFERENCE_BYTES
    return floats_at(address, 8 * count).reshape(-1, 8) if count > 0 else np.empty((0, 8), np.float32)


def centres_of(rows):
    """(n, 4) float32, the last column 0."""
    with np.errstate(all="ignore"):
        centres = rows[:, 4:] - rows[:, :4]
    centres[:, 3] = 0
    return centres


def triangle_references_portable(source, first, end, out, status, frame):
    first, end = int(first), int(end)
    numbers = np.arange(first, end)
    indices, count = integer_at(source + SOURCE_INDICES, 8), end - first
    named = 3 * numbers[:, None] + np.arange(3)
    if indices:
        kind = ctypes.POINTER(ctypes.c_uint32)
        named = (
            np.ctypeslib.as_array(ctypes.cast(int(indices) + 12 * first, kind), (count * 3,))
            .reshape(-1, 3)
            .astype(np.int64)
        )
    vertices = floats_at(integer_at(source + SOURCE_VERTICES, 8), 3 * (int(named.max(initial=-1)) + 1)).reshape(-1, 3)
    points = vertices[named]
    rows = floats_at(out + REFERENCE_BYTES * first, 8 * count).reshape(-1, 8)
    words = rows.view(np.int32)
    rows[:, :3], rows[:, 4:7] = (-points).max(1, initial=-np.inf), points.max(1, initial=-np.inf)
    word = integer_at(source + SOURCE_ID, 4) + integer_at(source + SOURCE_FIRST, 8)
    words[:, 3] = (word + numbers).astype(np.uint32).view(np.int32)
    words[:, 7] = integer_at(source + SOURCE_OWNER, 4)
    nan = np.isnan(points).any(1)
    with np.errstate(all="ignore"):
        wide = points.astype(np.float64)
        u, v = wide[:, 1] - wide[:, 0], wide[:, 2] - wide[:, 0]
        p, q = u[:, [1, 2, 0]] * v[:, [2, 0, 1]], u[:, [2, 0, 1]] * v[:, [1, 2, 0]]
        sure = (np.abs(p - q) > CERTAIN * (np.abs(p) + np.abs(q))).any(1)
    kinds = np.where(nan[:, 0], INACTIVE, np.where(nan.any(1), BROKEN, np.where(sure, SURE, DOUBTFUL))).astype(np.uint8)
    ctypes.memmove(int(status) + first, kinds.ctypes.data, count)
    measure_portable(out + REFERENCE_BYTES * first, out + REFERENCE_BYTES * end, frame)
    return int(np.bitwise_or.reduce(kinds, initial=0))


def measure_portable(at, end, frame):
    rows, result = rows_at(at, end), floats_at(frame, 16)
    centres = centres_of(rows)
    result[:8] = rows.max(0, initial=-np.inf)
    result[8:] = np.concatenate([-centres, centres], 1).max(0, initial=-np.inf)


def half_area_portable(frame):
    box = floats_at(frame, 8)
    with np.errstate(all="ignore"):
        x, y, z = box[:3] + box[4:7]
        return np.float32((x * y + y * z) + z * x)


def copy_row_portable(source, target):
    ctypes.memmove(int(target), int(source), REFERENCE_BYTES)


if numba.config.DISABLE_JIT:
    triangle_references, measure = triangle_references_portable, measure_portable
    half_area, copy_row = half_area_portable, copy_row_portable
else:
    triangle_references = _triangle_references_intrinsic
    """triangle_references(source, first, end, out, status, frame) -> kinds found. Writes the references of triangles
    ``first`` to ``end`` of a source to rows of the same numbers at ``out``, what is to be said of each to bytes at
    ``status``, and the boxes of all of them to ``frame``. The result is 0 when every triangle is SURE."""
    measure = _measure_intrinsic
    """measure(at, end, frame): boxes of the references between two addresses."""
    half_area = _half_area_intrinsic
    """half_area(frame) -> float32: half the surface of the geometry box; of an empty one, infinity or NaN."""
    copy_row = _copy_row_intrinsic
    """copy_row(source, target): 32 bytes."""
