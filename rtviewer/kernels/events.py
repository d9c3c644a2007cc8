"""Counting and logging; both vanish where the array is None."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rtviewer.kernels import jit


class Log(NamedTuple):
    """Where events go. ``rows`` (limit,) of the EVENT dtype; ``cursor`` (1,) int64: rows written; ``offsets``
    (n + 1,) int64: first row of each ray; ``dropped`` (n,) is derived from ``lost`` (1,) int64: rows that found no
    room; ``kinds`` (1,) int64: bit k set where events of kind k are wanted."""

    rows: np.ndarray
    cursor: np.ndarray
    offsets: np.ndarray
    lost: np.ndarray
    kinds: np.ndarray


@jit
def count(counters, which, amount):
    if counters is not None:
        counters[which] += amount


@jit
def count_most(counters, which, value):
    """Keep the largest value seen."""
    if counters is not None:
        counters[which] = max(counters[which], value)


@jit
def add_event(
    log, kind, level, verdict, hit_kind, instance, node, lane, geometry, primitive, stack_size,
    t, t_exit, t_current, u, v, w,
):  # fmt: skip
    """Append an event; returns its row, -1 where it was not wanted or found no room."""
    if log.kinds[0] >> kind & 1 == 0:
        return -1
    row = log.cursor[0]
    if row >= len(log.rows):
        log.lost[0] += 1
        return -1
    event = log.rows[row]
    event.kind = kind
    event.level = level
    event.verdict = verdict
    event.hit_kind = hit_kind
    event.instance = instance
    event.node = node
    event.lane = lane
    event.geometry = geometry
    event.primitive = primitive
    event.stack_size = stack_size
    event.t = t
    event.t_exit = t_exit
    event.t_current = t_current
    event.u = u
    event.v = v
    event.w = w
    log.cursor[0] = row + 1
    return row
