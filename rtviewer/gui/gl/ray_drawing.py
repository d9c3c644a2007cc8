"""A logged ray as segments and marks: whole, or as far as the log has been stepped."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.verdicts import VERDICTS, EventKind, Verdict
from rtviewer.gui.gl.geometry import exit_distance, point_rows, segment_rows
from rtviewer.gui.theme import FAMILIES, Theme, rgba
from rtviewer.session.raylog import RayLog

MAX_CANDIDATES = 2000
"""Marks drawn: of more, those met last."""
FAMILY_OF_VERDICT = np.array([FAMILIES.index(VERDICTS[verdict].family) for verdict in Verdict])
ACCEPTED = FAMILIES.index("accepted")
MARK, ACCEPTED_MARK, CURRENT_MARK = 4.5, 6.0, 9.0
"""Radii in pixels."""


def ray_segments(log: RayLog, position: int, theme: Theme) -> NDArray[np.void]:
    """The ray to its end at a position, thin from there on, and thick the interval of the box the position is about."""
    origin, direction = np.asarray(log.origin, np.float64), np.asarray(log.direction, np.float64)
    bounds = log.world.bounds
    past = exit_distance(bounds, origin, direction) if bounds is not None else 1.0
    limit = min(log.rays.t_max, past)
    now = log.playback.ray_end(position)
    end = min(now, limit)
    hit = log.result.hit if position < 0 else bool(np.searchsorted(log.playback.commits, position, side="right"))
    family = "accepted" if hit else "missed" if position < 0 else "entered"
    rows = [_line(origin, direction, log.rays.t_min, end, theme.families[family], 1.0, 2.5)]
    if limit > end:
        rows.append(_line(origin, direction, end, limit, theme.families["excluded"], 0.5, 1.2))
    interval = _box_interval(log, position, limit)
    if interval is not None:
        rows.append(_line(origin, direction, *interval, theme.accent, 1.0, 5.0))
    return np.concatenate(rows)


def _line(
    origin: NDArray[np.float64], direction: NDArray[np.float64], low: float, high: float, colour: str, alpha: float,
    width: float,
) -> NDArray[np.void]:  # fmt: skip
    points = np.array([origin + low * direction, origin + high * direction], np.float32)
    return segment_rows(points, rgba(colour, alpha), width)


def _box_interval(log: RayLog, position: int, limit: float) -> tuple[float, float] | None:
    """Where the ray is in the box of a node or instance event; None for candidates and boxes that it misses."""
    if position < 0 or position >= len(log.events):
        return None
    event = log.events[position]
    if int(event["kind"]) in (EventKind.CANDIDATE, EventKind.REPORT):
        return None
    low, high = float(event["t"]), min(float(event["t_exit"]), limit)
    return (low, high) if math.isfinite(low) and low < high else None


def candidate_points(log: RayLog, position: int, theme: Theme) -> NDArray[np.void]:
    """Marks of the candidates met until a position, the farthest first; the one it is about is larger."""
    met = log.playback.met(position)[-MAX_CANDIDATES:]
    t = log.events["t"][met].astype(np.float64)
    met, t = (values[np.argsort(-t, kind="stable")] for values in (met, t))
    points = np.asarray(log.origin, np.float64) + t[:, None] * np.asarray(log.direction, np.float64)
    families = FAMILY_OF_VERDICT[log.events["verdict"][met]]
    tints = np.array([rgba(theme.families[family]) for family in FAMILIES], np.float32)[families]
    sizes = np.where(families == ACCEPTED, ACCEPTED_MARK, MARK).astype(np.float32)
    sizes[met == position] = CURRENT_MARK
    return point_rows(points.astype(np.float32), tints, sizes)
