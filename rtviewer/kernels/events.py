"""Counting and logging; both vanish where the address is None."""

from __future__ import annotations

import numpy as np

from rtviewer.dxr.verdicts import CANDIDATE_REASONS, EVENT, INSTANCE_REASONS, Counter, Verdict
from rtviewer.kernels import jit
from rtviewer.kernels.extremes import largest
from rtviewer.kernels.memory import load_i32, load_i64, store_f32, store_i32, store_i64, store_u8
from rtviewer.kernels.state import LOG_COUNT, LOG_KINDS, LOG_LIMIT, LOG_LOST, LOG_ROWS

EVENT_SIZE = EVENT.itemsize
KIND, LEVEL, VERDICT, HIT_KIND, INSTANCE, NODE, LANE, GEOMETRY, PRIMITIVE, STACK_SIZE, T, T_EXIT, T_CURRENT, U, V, W = (
    EVENT.fields[name][1] for name in EVENT.names
)


def _columns(reasons: dict[Verdict, Counter]) -> np.ndarray:
    columns = np.full(max(Verdict) + 1, -1, np.int64)
    for verdict, counter in reasons.items():
        columns[verdict] = counter
    columns.setflags(write=False)
    return columns


INSTANCE_REASON_OF = _columns(INSTANCE_REASONS)
"""(verdicts,) int64: the counter of an instance's verdict, -1 for none; likewise of a candidate's."""
CANDIDATE_REASON_OF = _columns(CANDIDATE_REASONS)


@jit
def count(counters, which, amount):
    """Add to a column of a ray's counters, (counter count,) int32 at an address."""
    if counters is not None:
        at = counters + 4 * which
        store_i32(at, np.int32(load_i32(at) + amount))


@jit
def count_reason(counters, column, verdict):
    """Count a final verdict under its reason; ``column``: INSTANCE_REASON_OF or CANDIDATE_REASON_OF."""
    if counters is not None:
        which = column[verdict]
        if which >= 0:
            count(counters, which, 1)


@jit
def count_most(counters, which, value):
    """Keep the largest value seen."""
    if counters is not None:
        at = counters + 4 * which
        store_i32(at, np.int32(largest(np.int64(load_i32(at)), value)))


@jit
def add_event(
    log, kind, level, verdict, hit_kind, instance, node, lane, geometry, primitive, stack_size,
    t, t_exit, t_current, u, v, w,
):  # fmt: skip
    """Append an event; returns its address, 0 where it was not wanted or found no room."""
    if load_i64(log + LOG_KINDS) >> kind & 1 == 0:
        return np.int64(0)
    number = load_i64(log + LOG_COUNT)
    if number >= load_i64(log + LOG_LIMIT):
        store_i64(log + LOG_LOST, load_i64(log + LOG_LOST) + 1)
        return np.int64(0)
    row = load_i64(log + LOG_ROWS) + number * EVENT_SIZE
    store_u8(row + KIND, np.uint8(kind))
    store_u8(row + LEVEL, np.uint8(level))
    store_u8(row + VERDICT, np.uint8(verdict))
    store_u8(row + HIT_KIND, np.uint8(hit_kind))
    store_i32(row + INSTANCE, np.int32(instance))
    store_i32(row + NODE, np.int32(node))
    store_i32(row + LANE, np.int32(lane))
    store_i32(row + GEOMETRY, np.int32(geometry))
    store_i32(row + PRIMITIVE, np.int32(primitive))
    store_i32(row + STACK_SIZE, np.int32(stack_size))
    store_f32(row + T, np.float32(t))
    store_f32(row + T_EXIT, np.float32(t_exit))
    store_f32(row + T_CURRENT, np.float32(t_current))
    store_f32(row + U, np.float32(u))
    store_f32(row + V, np.float32(v))
    store_f32(row + W, np.float32(w))
    store_i64(log + LOG_COUNT, number + 1)
    return row


@jit
def set_verdict(row, verdict):
    """Change the verdict of a logged event."""
    store_u8(row + VERDICT, np.uint8(verdict))
