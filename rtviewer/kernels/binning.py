"""Binned surface area heuristic (Wald 2007) over references, as three loops of vector code.

Cost counts packs, not primitives, because a pack is tested in one step. ``bins`` holds for each bin and axis 32 bytes:
the box (-minimum | maximum) of its references, and in lane 3 how many they are, an int32. Sums and maxima do not depend
on order, so bins that several threads filled can be added up.
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import emit, emit_loops
from rtviewer.kernels.emit import FLOAT, FLOAT4, FLOAT8, INT32, INT64
from rtviewer.kernels.emit_loops import INT4, INT8, long
from rtviewer.kernels.references import FRAME_BYTES, REFERENCE_BYTES, centres_of, floats_at, rows_at

BINS = 32
BIN_BYTES = 96
BINS_BYTES = BINS * BIN_BYTES
COST_BYTES = 16
COUNT_LANE = 3
WITH_COUNT = [8 + k if k == COUNT_LANE else k for k in range(8)]

ALMOST = np.float32(0.999)
"""Keeps the largest centre in the last bin, whatever rounding does."""
SMALLEST = np.float32(1e-30)


def _grid(builder, frame, bin_count):
    """(-smallest doubled centre, bins per unit) of a frame, four lanes each."""
    centres = emit.load(builder, frame, 32, FLOAT8)
    start = emit_loops.low(builder, centres)
    extent = emit.larger(
        builder,
        builder.fadd(start, emit_loops.high(builder, centres)),
        emit.constant(FLOAT4, float(SMALLEST)),
    )
    number = builder.fmul(builder.sitofp(bin_count, FLOAT), ir.Constant(FLOAT, float(ALMOST)))
    return start, builder.fdiv(emit.splat(builder, number, FLOAT4), extent)


@intrinsic
def _fill_bins_intrinsic(typing_context, at, end, frame, bin_count, bins):
    def generate(context, builder, signature, arguments):
        at, end, frame, bin_count, bins = arguments
        start, scale = _grid(builder, frame, bin_count)
        last = emit.splat(builder, builder.trunc(builder.sub(bin_count, long(1)), INT32), INT4)

        limits = [0.0 if k == COUNT_LANE else -emit_loops.INFINITY for k in range(8)]
        empty, one = ir.Constant(FLOAT8, limits), ir.Constant(INT8, [int(k == COUNT_LANE) for k in range(8)])

        def clear(slot, _):
            emit.store(builder, empty, slot, 0)
            return ()

        emit_loops.loop(builder, bins, emit_loops.offset(builder, bins, bin_count, BIN_BYTES), 32, (), clear)

        def body(at, _):
            box = emit.load_at(builder, at, FLOAT8)
            place = builder.fmul(builder.fadd(emit_loops.doubled_centre(builder, box), start), scale)
            place = builder.fptosi(place, INT4)
            place = builder.select(builder.icmp_signed("<", place, last), place, last)
            for axis in range(3):
                k = builder.zext(emit_loops.lane(builder, place, axis), INT64)
                slot = builder.add(emit_loops.offset(builder, bins, k, BIN_BYTES), long(32 * axis))
                found = emit.load_at(builder, slot, FLOAT8)
                count = builder.bitcast(builder.add(builder.bitcast(found, INT8), one), FLOAT8)
                united = emit.larger(builder, box, found)
                emit.store(builder, emit_loops.shuffle(builder, united, count, WITH_COUNT), slot, 0)
            return ()

        emit_loops.loop(builder, at, end, REFERENCE_BYTES, (), body)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


@intrinsic
def _best_plane_intrinsic(typing_context, bins, bin_count, total, pack_shift, scratch, frames):
    def generate(context, builder, signature, arguments):
        bins, bin_count, total, pack_shift, scratch, frames = arguments
        shift = builder.trunc(pack_shift, INT32)
        up = builder.sub(builder.shl(ir.Constant(INT32, 1), shift), ir.Constant(INT32, 1))
        up, shift = emit.splat(builder, up, INT4), emit.splat(builder, shift, INT4)
        total = emit.splat(builder, builder.trunc(total, INT32), INT4)
        empty = emit_loops.nothing()

        def add(k, boxes, number):
            row = emit_loops.offset(builder, bins, k, BIN_BYTES)
            added = [emit.load(builder, row, 32 * axis, FLOAT8) for axis in range(3)]
            first = emit_loops.shuffle(builder, added[0], added[1], (COUNT_LANE, 8 + COUNT_LANE))
            found = emit_loops.shuffle(builder, added[2], added[2], (COUNT_LANE, COUNT_LANE))
            found = emit_loops.shuffle(builder, first, found, range(4))
            number = builder.add(number, builder.bitcast(found, INT4))
            boxes = [emit.larger(builder, a, b) for a, b in zip(added, boxes, strict=True)]
            packs = builder.sitofp(builder.lshr(builder.add(number, up), shift), FLOAT4)
            return boxes, number, builder.fmul(emit_loops.half_areas(builder, *boxes), packs)

        def from_right(step, carried):
            k = builder.sub(bin_count, step)
            boxes, number, cost = add(k, carried[:3], carried[3])
            emit.store(builder, cost, emit_loops.offset(builder, scratch, k, COST_BYTES), 0)
            return (*boxes, number)

        zero = emit.constant(INT4, 0)
        emit_loops.loop(builder, long(1), bin_count, 1, (empty, empty, empty, zero), from_right)

        def from_left(k, carried):
            boxes, number, cost = add(builder.sub(k, long(1)), carried[:3], carried[3])
            cost = builder.fadd(cost, emit.load_at(builder, emit_loops.offset(builder, scratch, k, COST_BYTES), FLOAT4))
            some = builder.and_(builder.icmp_signed(">", number, zero), builder.icmp_signed("<", number, total))
            better = builder.and_(some, builder.fcmp_ordered("<", cost, carried[4]))
            plane = emit.splat(builder, builder.trunc(k, INT32), INT4)
            return (
                *boxes,
                number,
                builder.select(better, cost, carried[4]),
                builder.select(better, plane, carried[5]),
            )

        dearest = emit.constant(FLOAT4, emit_loops.INFINITY)
        found = emit_loops.loop(builder, long(1), bin_count, 1, (empty, empty, empty, zero, dearest, zero), from_left)
        costs, planes = found[4:]
        best, plane = emit_loops.lane(builder, costs, 0), emit_loops.lane(builder, planes, 0)
        axis = ir.Constant(INT64, 0)
        for k in (1, 2):
            cost = emit_loops.lane(builder, costs, k)
            better = builder.fcmp_ordered("<", cost, best)
            best = builder.select(better, cost, best)
            plane = builder.select(better, emit_loops.lane(builder, planes, k), plane)
            axis = builder.select(better, long(k), axis)
        plane = builder.zext(plane, INT64)
        column = builder.add(bins, builder.mul(axis, long(32)))

        def unite(k, carried):
            box = emit.load_at(builder, emit_loops.offset(builder, column, k, BIN_BYTES), FLOAT8)
            return (emit.larger(builder, box, carried[0]),)

        emit.store(builder, emit_loops.loop(builder, long(0), plane, 1, (empty,), unite)[0], frames, 0)
        right = emit_loops.loop(builder, plane, bin_count, 1, (empty,), unite)[0]
        emit.store(builder, right, frames, FRAME_BYTES)
        result = builder.or_(builder.shl(axis, long(32)), plane)
        return builder.select(
            builder.fcmp_ordered("<", best, ir.Constant(FLOAT, emit_loops.INFINITY)), result, long(-1)
        )

    return types.int64(*[types.int64] * 6), generate


@intrinsic
def _partition_intrinsic(typing_context, at, end, frame, bin_count, axis, plane, left, right, frames):
    def generate(context, builder, signature, arguments):
        at, end, frame, bin_count, axis, plane, left, right, frames = arguments
        start, scale = _grid(builder, frame, bin_count)
        axis_lane = builder.trunc(axis, INT32)
        start, scale = builder.extract_element(start, axis_lane), builder.extract_element(scale, axis_lane)
        column = builder.mul(axis, long(4))
        limit = emit.splat(builder, builder.sitofp(plane, FLOAT), FLOAT8)
        empty = emit_loops.nothing()

        def body(at, carried):
            left, right, left_centres, right_centres = carried
            box = emit.load_at(builder, at, FLOAT8)
            place = builder.add(at, column)
            value = builder.fsub(emit.load(builder, place, 16, FLOAT), emit.load(builder, place, 0, FLOAT))
            value = builder.fmul(builder.fadd(value, start), scale)
            beyond = builder.fcmp_ordered(">=", emit.splat(builder, value, FLOAT8), limit)
            is_right = emit_loops.lane(builder, beyond, 0)
            emit.store(builder, box, builder.select(is_right, right, left), 0)
            step = builder.mul(builder.zext(is_right, INT64), long(REFERENCE_BYTES))
            centre = emit_loops.as_box(builder, emit_loops.doubled_centre(builder, box))
            return (
                builder.add(left, builder.sub(long(REFERENCE_BYTES), step)),
                builder.add(right, step),
                emit.larger(builder, builder.select(beyond, empty, centre), left_centres),
                emit.larger(builder, builder.select(beyond, centre, empty), right_centres),
            )

        found = emit_loops.loop(builder, at, end, REFERENCE_BYTES, (left, right, empty, empty), body)
        emit.store(builder, found[2], frames, 32)
        emit.store(builder, found[3], frames, FRAME_BYTES + 32)
        return found[0]

    return types.int64(*[types.int64] * 9), generate


@intrinsic
def _move_rows_intrinsic(typing_context, source, end, target):
    def generate(context, builder, signature, arguments):
        source, end, target = arguments

        def body(at, carried):
            emit.store(builder, emit.load_at(builder, at, FLOAT8), carried[0], 0)
            return (builder.add(carried[0], long(REFERENCE_BYTES)),)

        emit_loops.loop(builder, source, end, REFERENCE_BYTES, (target,), body)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


# --- the same in numpy --------------------------------------------------------------------------------------------


def _grid_portable(frame, bin_count):
    centres = floats_at(frame + 32, 8)
    extent = np.maximum(centres[:4] + centres[4:], SMALLEST)
    return centres[:4], np.float32(bin_count) * ALMOST / extent


def fill_bins_portable(at, end, frame, bin_count, bins):
    bin_count = int(bin_count)
    start, scale = _grid_portable(frame, bin_count)
    boxes = floats_at(bins, bin_count * 24).reshape(-1, 3, 8)
    rows = rows_at(at, end)
    place = np.minimum(((centres_of(rows) + start) * scale).astype(np.int32), bin_count - 1)
    boxes[:] = -np.inf
    for axis in range(3):
        with np.errstate(invalid="ignore"):
            np.maximum.at(boxes[:, axis], place[:, axis], rows)
        boxes.view(np.int32)[:, axis, COUNT_LANE] = np.bincount(place[:, axis], minlength=bin_count)


def _costs_portable(boxes, numbers, pack_shift):
    """Cost of everything up to and including each row, (n, 3)."""
    with np.errstate(all="ignore"):
        united = np.maximum.accumulate(boxes, 0)
        x, y, z = np.moveaxis(united[:, :, :3] + united[:, :, 4:7], 2, 0)
        packs = (np.cumsum(numbers, 0, dtype=np.int32) + (1 << pack_shift) - 1) >> pack_shift
        return ((x * y + y * z) + z * x) * packs.astype(np.float32)


def best_plane_portable(bins, bin_count, total, pack_shift, scratch, frames):
    bin_count, pack_shift = int(bin_count), int(pack_shift)
    boxes = floats_at(bins, bin_count * 24).reshape(-1, 3, 8).copy()
    numbers = boxes.view(np.int32)[:, :, COUNT_LANE].copy()
    boxes[:, :, [3, 7]] = 0
    left = _costs_portable(boxes[:-1], numbers[:-1], pack_shift)
    right = _costs_portable(boxes[:0:-1], numbers[:0:-1], pack_shift)[::-1]
    before = np.cumsum(numbers, 0)[:-1]
    with np.errstate(all="ignore"):
        costs = np.where((before > 0) & (before < total), left + right, np.float32(np.inf))
    best = (np.inf, 0, 0)
    for axis in range(3):
        plane = int(costs[:, axis].argmin())
        if costs[plane, axis] < best[0]:
            best = (costs[plane, axis], axis, plane + 1)
    cost, axis, plane = best
    floats_at(frames, 8)[:] = boxes[:plane, axis].max(0, initial=-np.inf)
    floats_at(frames + FRAME_BYTES, 8)[:] = boxes[plane:, axis].max(0, initial=-np.inf)
    return axis << 32 | plane if cost < np.inf else -1


def partition_portable(at, end, frame, bin_count, axis, plane, left, right, frames):
    start, scale = _grid_portable(frame, bin_count)
    rows = rows_at(at, end).copy()
    centres = centres_of(rows)
    beyond = (centres[:, axis] + start[axis]) * scale[axis] >= np.float32(plane)
    both = np.concatenate([-centres, centres], 1)
    for chosen, target, result in ((~beyond, left, frames), (beyond, right, frames + FRAME_BYTES)):
        rows_at(target, target + REFERENCE_BYTES * int(chosen.sum()))[:] = rows[chosen]
        floats_at(result + 32, 8)[:] = both[chosen].max(0, initial=-np.inf)
    return left + REFERENCE_BYTES * int((~beyond).sum())


def move_rows_portable(source, end, target):
    rows = rows_at(source, end).copy()
    rows_at(target, target + REFERENCE_BYTES * len(rows))[:] = rows


if numba.config.DISABLE_JIT:
    fill_bins, best_plane, partition = fill_bins_portable, best_plane_portable, partition_portable
    move_rows = move_rows_portable
else:
    fill_bins = _fill_bins_intrinsic
    """fill_bins(at, end, frame, bin_count, bins): clear the bins, then add the references between two addresses
    to the bin of their doubled centre on each axis; ``frame`` bounds all centres."""
    best_plane = _best_plane_intrinsic
    """best_plane(bins, bin_count, total, pack_shift, scratch, frames) -> axis << 32 | first bin of the right
    part, or -1 when no plane has references on both sides. The geometry boxes of both parts go to ``frames``."""
    partition = _partition_intrinsic
    """partition(at, end, frame, bin_count, axis, plane, left, right, frames) -> end of the left part. Copies the
    references between two addresses in their order to ``left`` and ``right`` and writes the boxes of their centres to
    ``frames``. ``left`` may be ``at``; else the three places must not overlap."""
    move_rows = _move_rows_intrinsic
    """move_rows(source, end, target): copy references."""
