"""A ray's log, and what can be read off it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import HitKind
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.verdicts import ANY_HIT_RAN, EventKind
from rtviewer.trace.dispatch import ALL_KINDS, Dispatcher
from rtviewer.trace.request import RayBatch, TraceSettings, Walk

CANDIDATE_KINDS = 1 << EventKind.CANDIDATE | 1 << EventKind.REPORT


def walk(
    tlas: Structure,
    blases: Mapping[int, Structure],
    rays: RayBatch,
    settings: TraceSettings,
    *,
    limit: int = 1_000_000,
    kinds: int = ALL_KINDS,
    profile: Profile = DEFAULT_PROFILE,
) -> Walk:
    """Trace rays and log every event, by the same loop that makes images. See Dispatcher.walk."""
    return Dispatcher(tlas, blases, profile).walk(rays, settings, limit=limit, kinds=kinds)


def any_hit_calls(log: Walk) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Any-hit invocations per ray, in the order made: offsets (n + 1,) and rows (m, 4) int64 of instance, geometry,
    primitive, hit kind. A triangle's are its candidate events, a procedural's its reports."""
    events = log.events
    triangle = (events["kind"] == EventKind.CANDIDATE) & (events["hit_kind"] >= HitKind.TRIANGLE_FRONT_FACE)
    called = (triangle | (events["kind"] == EventKind.REPORT)) & np.isin(
        events["verdict"], [int(v) for v in ANY_HIT_RAN]
    )
    before = np.concatenate([[0], np.cumsum(called)])
    names = ("instance", "geometry", "primitive", "hit_kind")
    rows = np.stack([events[called][name].astype(np.int64) for name in names], 1)
    return before[log.offsets].astype(np.int64), rows
