"""Leaves of spheres where nothing is counted or logged: four at once, and a box is looked at only where one is hit.

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
    opacity_of,
    outside_interval,
    tie_verdict,
)
from rtviewer.kernels.constants import (
    BOX_PACK_HIGH,
    BOX_PACK_IDS,
    BOX_PACK_SIZE,
    OPACITY_OPAQUE,
    PRIMITIVE_BITS,
    PROGRAM_SPHERE,
    UNUSED_LANE,
    VERDICT_COMMITTED,
    VERDICT_NONE,
)
from rtviewer.kernels.intersections import SPHERE_KIND
from rtviewer.kernels.memory import load_f32, load_i32, load_i64, store_f64
from rtviewer.kernels.procedurals import test_box
from rtviewer.kernels.ray_box import box_interval
from rtviewer.kernels.state import (
    ENDED,
    INTERSECTION,
    OBJECT_ORIGIN,
    SPHERE_RAY,
    SPHERE_ROOTS,
    T_CURRENT,
    T_MAX,
    T_MIN,
    WORLD,
    WORLD_RECORD_COUNT,
    WORLD_REPEAT,
)
from rtviewer.kernels.vector import lowest_bit

SLACK = 2.0**-40
"""Covers the roundings of a point on the ray and of a plane's distance many times, relative to their coordinates."""


@inline_jit
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
def test_sphere_leaf(packs, first, last, geometries, geometry_count, walk):
    """All spheres of a leaf, in storage order, until the search ends."""
    for pack in range(first, last):
        address = packs + pack * BOX_PACK_SIZE
        roots = walk + SPHERE_ROOTS
        lanes = spheres(address, walk + SPHERE_RAY, load_f32(walk + T_MIN), load_f32(walk + T_CURRENT), roots)
        while lanes != 0:
            lane = lowest_bit(lanes)
            lanes &= lanes - np.uint32(1)
            at, identity = address + 4 * lane, np.int64(load_i32(address + BOX_PACK_IDS + 4 * lane))
            if opacity_of(identity, walk) == OPACITY_OPAQUE:
                near, far = load_f32(roots + 4 * lane), load_f32(roots + 16 + 4 * lane)
                meet_sphere(at, near, far, identity & PRIMITIVE_BITS, geometries, geometry_count, walk)
            else:  # culled, or somebody has to be asked
                test_box(at, geometries, geometry_count, walk, np.int64(0), None, None)
            if load_i64(walk + ENDED) != 0:
                return


@inline_jit
def meet_sphere(at, near, far, number, geometries, geometry_count, walk):
    """An opaque sphere with a root in the interval: the reports of its program, the second where the first is refused.

    No shader is asked, so a hit is committed here (``triangles.meet_triangle``)."""
    t = near
    for step in range(2):
        verdict = outside_interval(False, t, walk)
        if verdict == VERDICT_NONE:
            verdict = tie_verdict(False, t, OPACITY_OPAQUE, number, walk)
        if verdict == VERDICT_NONE:
            if not is_surely_inside(at, t, walk) and not is_candidate(at, walk):
                return
            geometry = find_geometry(geometries, geometry_count, number)
            primitive = number - first_of_geometry(geometries, geometry)
            kind = np.int64(SPHERE_KIND + step)
            commit(
                False, t, kind, np.float32(primitive) + np.float32(0.25), np.float32(kind), OPACITY_OPAQUE, number,
                geometry, primitive, VERDICT_COMMITTED, walk, None,
            )  # fmt: skip
            return
        t = far


@inline_jit
def is_surely_inside(at, t, walk):
    """Whether the point at ``t``, which is inside the ray's interval, is so far inside the box that ``is_candidate``
    holds: no plane's distance can be rounded past ``t``."""
    inside = True
    for axis in range(3):
        low, high = np.float64(load_f32(at + 16 * axis)), np.float64(load_f32(at + BOX_PACK_HIGH + 16 * axis))
        origin, along = np.float64(load_f32(walk + OBJECT_ORIGIN + 4 * axis)), np.float64(t)
        along *= np.float64(load_f32(walk + OBJECT_ORIGIN + 12 + 4 * axis))
        point, slack = origin + along, SLACK * (((abs(origin) + abs(along)) + abs(low)) + abs(high))
        inside = inside & (point - low > slack) & (high - point > slack)
    return inside


@jit
def is_candidate(at, walk):
    """Whether the ray's interval is in the box, as ``procedurals.test_box`` has it."""
    ray = walk + OBJECT_ORIGIN
    entry, leave, _, _ = box_interval(
        np.float64(load_f32(at)), np.float64(load_f32(at + 16)), np.float64(load_f32(at + 32)),
        np.float64(load_f32(at + 48)), np.float64(load_f32(at + 64)), np.float64(load_f32(at + 80)),
        np.float64(load_f32(ray)), np.float64(load_f32(ray + 4)), np.float64(load_f32(ray + 8)),
        np.float64(load_f32(ray + 12)), np.float64(load_f32(ray + 16)), np.float64(load_f32(ray + 20)),
    )  # fmt: skip
    return max(entry, np.float64(load_f32(walk + T_MIN))) <= min(leave, np.float64(load_f32(walk + T_MAX)))
