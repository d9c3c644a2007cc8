"""Built-in spheres where nothing is counted or logged: four at once, and a box is looked at only where one is hit.

``procedurals.test_box`` asks the box first and offers what the program reports. Here the roots come first: a sphere
without a root inside the interval changes nothing, whatever its box says. Hits are the same to the bit.
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import emit, inline_jit, jit
from rtviewer.kernels.candidates import (
    commit,
    find_geometry,
    first_of_geometry,
    outside_interval,
    tie_verdict,
)
from rtviewer.kernels.constants import (
    BOX_PACK_HIGH,
    BOX_PACK_IDS,
    OPACITY_OPAQUE,
    PROGRAM_SPHERE,
    UNUSED_LANE,
    VERDICT_COMMITTED,
    VERDICT_NONE,
)
from rtviewer.kernels.intersections import SPHERE_KIND
from rtviewer.kernels.memory import load_f32, load_i64, store_f64
from rtviewer.kernels.state import (
    INTERSECTION,
    OBJECT_ORIGIN,
    SPHERE_RAY,
    WORLD,
    WORLD_RECORD_COUNT,
    WORLD_REPEAT,
)

SLACK = 2.0**-40
"""Covers the roundings of a point on the ray and of a plane's distance many times, relative to their coordinates."""


@jit
def begin_spheres(walk):
    """Whether all boxes of a structure hold built-in spheres that nobody asks about twice; if so, the ray for them."""
    world = load_i64(walk + WORLD)
    if load_i64(walk + INTERSECTION) != PROGRAM_SPHERE or load_i64(world + WORLD_RECORD_COUNT) >= 0:
        return False
    if load_i64(world + WORLD_REPEAT) != 0:
        return False
    for word in range(6):
        store_f64(walk + SPHERE_RAY + 8 * word, np.float64(load_f32(walk + OBJECT_ORIGIN + 4 * word)))
    return True


@intrinsic
def _spheres_intrinsic(typing_context, pack, ray, t_min, end, out):
    def generate(context, builder, signature, arguments):
        pack, ray, t_min, end, out = arguments
        origin, direction = (
            [
                emit.splat(builder, emit.load(builder, ray, at + 8 * axis, emit.DOUBLE), emit.DOUBLE4)
                for axis in range(3)
            ]
            for at in (0, 24)
        )
        half = emit.constant(emit.DOUBLE4, 0.5)

        def planes(row):
            return [
                builder.fpext(emit.load(builder, pack, row + 16 * axis, emit.FLOAT4), emit.DOUBLE4) for axis in range(3)
            ]

        def product(a, b):
            x, y, z = (builder.fmul(p, q) for p, q in zip(a, b, strict=True))
            return builder.fadd(builder.fadd(x, y), z)

        low, high = planes(0), planes(BOX_PACK_HIGH)
        middle = [builder.fmul(half, builder.fadd(p, q)) for p, q in zip(low, high, strict=True)]
        relative = [builder.fsub(p, q) for p, q in zip(origin, middle, strict=True)]
        side = [builder.fsub(q, p) for p, q in zip(low, high, strict=True)]
        shortest = emit.smaller(builder, emit.smaller(builder, side[2], side[1]), side[0])
        radius = builder.fmul(half, shortest)
        a, b = product(direction, direction), product(direction, relative)
        c = builder.fsub(product(relative, relative), builder.fmul(radius, radius))
        discriminant = builder.fsub(builder.fmul(b, b), builder.fmul(a, c))
        zero = emit.constant(emit.DOUBLE4, 0.0)
        meets = builder.and_(builder.fcmp_ordered(">", a, zero), builder.fcmp_ordered(">=", discriminant, zero))
        identity = emit.load(builder, pack, BOX_PACK_IDS, emit.INT4X32)
        meets = builder.and_(meets, builder.icmp_signed("!=", identity, emit.constant(emit.INT4X32, int(UNUSED_LANE))))
        bits = emit.mask(builder, meets)
        result = emit.Choice(builder, [emit.INT32])
        with result.when(builder.icmp_signed("==", bits, ir.Constant(emit.INT32, 0))):
            result.give(bits)
        root, minus_b = emit.square_root(builder, discriminant), builder.fneg(b)
        inside = []
        first, last = (emit.splat(builder, value, emit.FLOAT4) for value in (t_min, end))
        for row, sum_ in enumerate((builder.fsub(minus_b, root), builder.fadd(minus_b, root))):
            t = builder.fptrunc(builder.fdiv(sum_, a), emit.FLOAT4)
            emit.store(builder, t, out, 16 * row)
            inside.append(builder.and_(builder.fcmp_ordered(">=", t, first), builder.fcmp_ordered("<=", t, last)))
        result.give_else(emit.mask(builder, builder.and_(meets, builder.or_(*inside))))
        return result.values[0]

    i64, f32 = types.int64, types.float32
    return types.uint32(i64, i64, f32, f32, i64), generate


if numba.config.DISABLE_JIT:
    from rtviewer.kernels.vector_portable import spheres
else:
    spheres = _spheres_intrinsic
    """spheres(pack, ray, t_min, end, out) -> mask. ``ray``: address of six float64, origin and direction. Bits 0-3:
    lanes of a box pack with a root of ``programs.sphere_roots`` in t_min <= t <= end. Where a line meets a sphere,
    ``out`` receives near roots and far roots, (2, 4) float32."""


@inline_jit
def meet_sphere(at, roots, number, geometries, geometry_count, walk):
    """An opaque sphere with a root in the interval: of its program's reports the second where the first is refused.

    ``at``: address of the box's lane; ``roots``: of its near root, the far one 16 bytes after. No shader is asked, so
    a hit is committed here (``triangles.meet_triangle``). Returns whether that was all: not where the hit is so near
    to the box's planes that the box has to be asked, and nothing is done."""
    t, kind = load_f32(roots), np.int64(SPHERE_KIND)
    if is_refused(t, number, walk):
        t, kind = load_f32(roots + 16), np.int64(SPHERE_KIND + 1)
        if is_refused(t, number, walk):
            return True
    if not is_surely_inside(at, t, walk):
        return False
    geometry = find_geometry(geometries, geometry_count, number)
    primitive = number - first_of_geometry(geometries, geometry)
    commit(
        False, t, kind, np.float32(primitive) + np.float32(0.25), np.float32(kind), OPACITY_OPAQUE, number, geometry,
        primitive, VERDICT_COMMITTED, walk, None,
    )  # fmt: skip
    return True


@jit
def is_refused(t, number, walk):
    """Whether the interval or a tie keeps a report of an opaque sphere out."""
    if outside_interval(False, t, walk) != VERDICT_NONE:
        return True
    return tie_verdict(False, t, OPACITY_OPAQUE, number, walk) != VERDICT_NONE


@inline_jit
def is_surely_inside(at, t, walk):
    """Whether the point at ``t``, which is inside the ray's interval, is so far inside the box that no plane's distance
    can be rounded past ``t``: then the box makes a candidate (``procedurals.test_box``)."""
    inside = True
    for axis in range(3):
        low, high = np.float64(load_f32(at + 16 * axis)), np.float64(load_f32(at + BOX_PACK_HIGH + 16 * axis))
        origin, along = np.float64(load_f32(walk + OBJECT_ORIGIN + 4 * axis)), np.float64(t)
        along *= np.float64(load_f32(walk + OBJECT_ORIGIN + 12 + 4 * axis))
        point, slack = origin + along, SLACK * (((abs(origin) + abs(along)) + abs(low)) + abs(high))
        inside = inside & (point - low > slack) & (high - point > slack)
    return inside
