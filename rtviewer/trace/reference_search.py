"""From candidates to hits: TRAV-1 followed literally, in the order of DET-5, for all rays side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.flags import RayFlag
from rtviewer.trace.reference_programs import ACCEPTED_AND_ENDED, IGNORED, MOST_REPORTS
from rtviewer.trace.reference_rules import Floats, ReferenceRules


@dataclass(frozen=True)
class Candidates:
    """Every candidate that reached the interval test (CULL-5 steps 1 to 7 passed), sorted by ray, then as offered.

    ``ray`` (m,) int64; ``instance``, ``geometry``, ``primitive`` (m,) int32; ``is_triangle``, ``opaque`` (m,) bool,
    opaque by OPQ-1 to OPQ-5. ``record`` (m,) int64: hit-group index [HG-1]; ``fault`` (m,) uint8 as in
    ``reference_hit_groups``. Up to four reports each (a triangle has one): ``report_count`` (m,) int64, ``t`` (m, 4)
    float32, ``kind`` (m, 4) int32, ``always`` (m,) bool as in ``reference_programs.Reports``; ``decision`` (m, 4)
    int64: what any-hit says to each; ``barycentrics`` (m, 2) float32.
    """

    ray: NDArray[np.int64]
    instance: NDArray[np.int32]
    geometry: NDArray[np.int32]
    primitive: NDArray[np.int32]
    is_triangle: NDArray[np.bool_]
    opaque: NDArray[np.bool_]
    decision: NDArray[np.int64]
    record: NDArray[np.int64]
    fault: NDArray[np.uint8]
    report_count: NDArray[np.int64]
    t: NDArray[np.float32]
    kind: NDArray[np.int32]
    always: NDArray[np.bool_]
    barycentrics: NDArray[np.float32]

    def attributes(self, row: NDArray[np.int64], slot: NDArray[np.int64]) -> NDArray[np.float32]:
        """(n, 2) float32 attributes of reports ``slot`` of candidates ``row``."""
        reported = np.stack([self.primitive[row] + np.float32(0.25), self.kind[row, slot]], axis=1)
        return np.where(self.is_triangle[row, None], self.barycentrics[row], reported.astype(np.float32))


@dataclass(frozen=True)
class CandidateRows:
    """Candidates of n rays, ragged: rows ``offsets[i]:offsets[i + 1]`` belong to ray i.

    ``offsets`` (n + 1,) int64. Per row: ``instance``, ``geometry``, ``primitive``, ``hit_kind`` int32, ``t`` float32,
    ``attributes`` (m, 2) float32, ``is_triangle`` bool.
    """

    offsets: NDArray[np.int64]
    instance: NDArray[np.int32]
    geometry: NDArray[np.int32]
    primitive: NDArray[np.int32]
    hit_kind: NDArray[np.int32]
    t: NDArray[np.float32]
    attributes: NDArray[np.float32]
    is_triangle: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.t)

    def of(self, ray: int) -> slice:
        """The rows of one ray."""
        return slice(int(self.offsets[ray]), int(self.offsets[ray + 1]))

    def keys(self, ray: int) -> list[tuple[int, int, int, int]]:
        """(instance, geometry, primitive, hit kind) of one ray's rows, in order."""
        part = self.of(ray)
        columns = (self.instance[part], self.geometry[part], self.primitive[part], self.hit_kind[part])
        return [(int(i), int(g), int(p), int(k)) for i, g, p, k in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Committed:
    """Per ray: position of the committed candidate and of its report, -1 where the ray misses; and its t."""

    row: NDArray[np.int64]
    slot: NDArray[np.int64]
    t: NDArray[np.float32]


def rows_of(candidates: Candidates, ray_count: int, row: NDArray[np.int64], slot: NDArray[np.int64]) -> CandidateRows:
    """Reports ``slot`` of candidates ``row`` as a ragged table; the order given is kept within each ray."""
    order = np.argsort(candidates.ray[row], kind="stable")
    row, slot = row[order], slot[order]
    offsets = np.zeros(ray_count + 1, np.int64)
    np.cumsum(np.bincount(candidates.ray[row], minlength=ray_count), out=offsets[1:])
    return CandidateRows(
        offsets,
        candidates.instance[row],
        candidates.geometry[row],
        candidates.primitive[row],
        candidates.kind[row, slot],
        candidates.t[row, slot],
        candidates.attributes(row, slot),
        candidates.is_triangle[row],
    )


def ends_at_first_hit(ray_flags: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """ACC-1: whether the first committed hit of each ray ends its search."""
    return np.asarray(ray_flags & RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH != 0, np.bool_)


def search(
    candidates: Candidates,
    t_min: Floats,
    t_max: Floats,
    ray_flags: NDArray[np.uint32],
    rules: ReferenceRules,
) -> tuple[Committed, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """What each ray commits, and its any-hit calls as (candidate row, report) in the order made.

    The k-th candidates of all rays are processed together; each ray sees its own in the order of the table [TRAV-1].
    """
    n = len(t_min)
    row_of, slot_of, t_end = np.full(n, -1, np.int64), np.full(n, -1, np.int64), t_max.copy()
    ended = np.zeros(n, np.bool_)
    first_ends = ends_at_first_hit(ray_flags)
    counts = np.bincount(candidates.ray, minlength=n)
    starts = np.cumsum(counts) - counts
    calls: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for k in range(int(counts.max(initial=0))):
        rays = np.flatnonzero((counts > k) & ~ended)
        accepted = np.zeros(len(rays), np.bool_)
        for slot in range(MOST_REPORTS):
            row = starts[rays] + k
            offered = (candidates.report_count[row] > slot) & ~ended[rays]
            if slot > 0:
                offered &= candidates.always[row] | ~accepted
            at = np.flatnonzero(offered)
            ray, row = rays[at], row[at]
            t = candidates.t[row, slot]
            inside = rules.in_interval(candidates.is_triangle[row], t, t_min[ray], t_end[ray])
            at, ray, row, t = at[inside], ray[inside], row[inside], t[inside]
            called = ~candidates.opaque[row]
            calls.append((row[called], np.full(np.count_nonzero(called), slot, np.int64)))
            decision = candidates.decision[row, slot]
            commits = ~called | (decision != IGNORED)
            accepted[at] |= commits
            ends = commits & (first_ends[ray] | (called & (decision == ACCEPTED_AND_ENDED)))
            t_end[ray[commits]] = t[commits]
            row_of[ray[commits]], slot_of[ray[commits]] = row[commits], slot
            ended[ray[ends]] = True
    none = np.empty(0, np.int64)
    log = (np.concatenate([none, *(c[0] for c in calls)]), np.concatenate([none, *(c[1] for c in calls)]))
    return Committed(row_of, slot_of, t_end), log


def possible(
    candidates: Candidates,
    t_min: Floats,
    t_max: Floats,
    ray_flags: NDArray[np.uint32],
    rules: ReferenceRules,
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """What some order could commit, and on what some order could run any-hit, each as (candidate row, report).

    Judged against the whole interval of the ray. A report after an accepted one of the same call counts only when the
    program makes it anyway and the first did not end the search for certain [PROC-4].
    """
    ray = candidates.ray
    row = np.arange(len(ray))
    ends = ends_at_first_hit(ray_flags)[ray]
    offered = np.ones(len(ray), np.bool_)
    accepted: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    called: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for slot in range(MOST_REPORTS):
        accepts = candidates.opaque | (candidates.decision[:, slot] != IGNORED)
        offered = offered & (candidates.report_count > slot)
        inside = offered & rules.in_interval(candidates.is_triangle, candidates.t[:, slot], t_min[ray], t_max[ray])
        for rows, out in ((row[inside & accepts], accepted), (row[inside & ~candidates.opaque], called)):
            out.append((rows, np.full(len(rows), slot, np.int64)))
        was_accepted = inside & accepts
        offered = offered & ~(was_accepted & (ends | ~candidates.always))
    return _both(accepted), _both(called)


def _both(parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
