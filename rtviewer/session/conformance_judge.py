"""Whether a tracer's answers agree with a recording, ray by ray.

Follows "How to compare an implementation" in ``tests/golden/driver/README.md``; numbers in comments are its points.
What the recording leaves open (order of enumeration, several hits at one t) is judged by the oracle's sets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.flags import HitKind, RayFlag
from rtviewer.dxr.rules import check_ray_flags
from rtviewer.dxr.shader_table import hit_group_index
from rtviewer.io.recording import RecordedResult, Recording
from rtviewer.trace.reference import CandidateRows, ReferenceResult
from rtviewer.trace.request import Hits

Key = tuple[int, int, int, int]
"""Instance, geometry, primitive, hit kind."""

KINDS = (
    "outcome",
    "instance",
    "geometry",
    "primitive",
    "instance_id",
    "hit_kind",
    "t",
    "barycentrics",
    "record",
    "any_hit",
)

ROBUST, ORDER_DEPENDENT, ANY_HIT_EXACT, NOT_MODELLED = 1, 2, 8, 16
ILL_CONDITIONED, SAME_SURFACE, AXIS_EXACT = 32, 64, 128
"""Bits of ``ray_class``."""

SAME_T = 1e-6
LOGGED_CALLS = 32
TINY_ORIGIN = 1e-30
NULL_MISS_RECORD = 2


@dataclass(frozen=True)
class Plan:
    """What is compared of each ray, (n,) each.

    ``reason`` object: why a ray is left out, "" for compared ones. ``hit`` bool: the recorded outcome, where ``known``:
    if neither closest-hit nor miss shader ran and both may be absent, it can be either, and that neither runs and the
    any-hit calls are compared. ``details``: the recording tells which hit. ``only_t``: outcome and t count, the winner
    is free. ``t_tolerance`` relative, ``barycentric_tolerance`` absolute.
    """

    reason: NDArray[np.object_]
    hit: NDArray[np.bool_]
    known: NDArray[np.bool_]
    details: NDArray[np.bool_]
    only_t: NDArray[np.bool_]
    t_tolerance: NDArray[np.float64]
    barycentric_tolerance: NDArray[np.float64]

    @property
    def compared(self) -> NDArray[np.bool_]:
        return np.asarray(self.reason == "", np.bool_)

    def excluded(self) -> dict[str, int]:
        """Rays left out, by reason."""
        reasons, counts = np.unique(self.reason[~self.compared].astype(str), return_counts=True)
        return {str(reason): int(count) for reason, count in zip(reasons, counts, strict=True)}


def legal_flags(recording: Recording) -> NDArray[np.bool_]:
    """(n,) bool: the ray's flags are legal together with those of the pipeline [RF-6]."""
    flags = np.broadcast_to(np.asarray(recording.settings.ray_flags), (len(recording),))
    words, of_ray = np.unique(flags, return_inverse=True)
    pipeline = int(recording.settings.pipeline_flags)
    legal = [not check_ray_flags(RayFlag(int(word) | pipeline)) for word in words]
    found: NDArray[np.bool_] = np.array(legal, np.bool_)[of_ray]
    return found


def plan(recording: Recording, recorded: RecordedResult) -> Plan:
    """Choose rays and tolerances by the scene's tags and the rays' classes."""
    n, tags, classes = len(recording), recording.tags, recorded.ray_class
    reason = np.full(n, "", object)
    only_t = np.zeros(n, np.bool_)
    t_tolerance, barycentric_tolerance = np.full(n, 1e-3), np.full(n, 1e-3)  # 6
    robust, exact_axis = classes & ROBUST != 0, classes & AXIS_EXACT != 0
    origin = np.abs(recording.rays.origin)
    tiny = ((origin > 0) & (origin < TINY_ORIGIN)).any(axis=1)
    if tags & {"edge-exact", "interval-exact"}:  # 1, 12
        reason[tiny] = "origin component below 1e-30, which the recorded driver flushes to zero"
        t_tolerance[:], barycentric_tolerance[:] = 1e-6, 1e-6
    elif "surface" in tags:  # 10
        reason[exact_axis & tiny] = "origin component below 1e-30, which the recorded driver flushes to zero"
        same_surface = classes & SAME_SURFACE != 0
        reason[~robust & ~exact_axis & ~same_surface] = "not robust: no class bit of 1, 64, 128"
        only_t = same_surface & ~exact_axis & ~robust
        t_tolerance[exact_axis] = 1e-5
    elif recording.name == "bumpy_sphere_5k":  # 2
        only_t = ~robust
    else:
        reason[~robust] = "not robust: class bit 1 is not set"
    if "thin" in tags:  # 11
        ill = classes & ILL_CONDITIONED != 0
        t_tolerance[ill], barycentric_tolerance[ill] = 1e-2, np.inf
    reason[classes & NOT_MODELLED != 0] = "recorded result differs from the rules' model (class bit 16)"  # 3
    reason[~legal_flags(recording)] = "ray flags and pipeline flags are not legal together (RF-6)"
    hit, details, known = _recorded_outcome(recording, recorded)
    return Plan(reason, hit, known, details, only_t, t_tolerance, barycentric_tolerance)


def _recorded_outcome(
    recording: Recording, recorded: RecordedResult
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Hit, hit with details, outcome known: a hit without closest-hit shader shows as neither hit nor miss."""
    n = len(recording)
    silent = ~recorded.missed & ~recorded.closest_hit_ran
    flags = np.broadcast_to(np.asarray(recording.settings.ray_flags), (n,))
    null_miss = np.broadcast_to(np.asarray(recording.settings.miss_index) & 0xFFFF, (n,)) == NULL_MISS_RECORD
    may_skip = (flags & RayFlag.SKIP_CLOSEST_HIT_SHADER) != 0
    may_skip |= any(not record.closest_hit for record in recording.records)
    hit = recorded.closest_hit_ran | (silent & ~null_miss)
    return hit, recorded.closest_hit_ran, ~(silent & null_miss & may_skip)


@dataclass(frozen=True)
class Mismatch:
    """One disagreement, for people."""

    ray: int
    kind: str
    recorded: str
    found: str


@dataclass
class Judge:
    """Compares the answers of one tracer on one scene; call :meth:`run` once."""

    recording: Recording
    recorded: RecordedResult
    hits: Hits
    log: list[list[Key]]
    oracle: ReferenceResult

    def run(self, only: NDArray[np.bool_] | None = None) -> tuple[Plan, list[Mismatch]]:
        """The plan followed, and every mismatch, at most one of each kind per ray; ``only`` (n,) leaves rays out."""
        self.found: list[Mismatch] = []
        self.plan = plan(self.recording, self.recorded)
        for ray in np.flatnonzero(self.plan.compared if only is None else self.plan.compared & only):
            self._judge_ray(int(ray))
        return self.plan, self.found

    def _judge_ray(self, ray: int) -> None:
        hit, expected = bool(self.hits.hit[ray]), bool(self.plan.hit[ray])
        order_dependent = bool(self.recorded.ray_class[ray] & ORDER_DEPENDENT)
        if hit != expected and self.plan.known[ray]:
            self._report(ray, "outcome", "hit" if expected else "miss", "hit" if hit else "miss")
            return
        if hit and self.plan.only_t[ray]:
            if self.plan.details[ray]:
                self._compare_t(ray, float(self.recorded.t[ray]))
            return
        if not hit:
            self._judge_miss(ray)
        elif order_dependent:  # 4
            self._judge_free_hit(ray)
        elif self._judge_closest_hit(ray) and self.plan.details[ray]:
            self._judge_hit(ray)
        if not self.plan.only_t[ray]:
            self._judge_any_hit(ray, order_dependent)

    def _judge_miss(self, ray: int) -> None:
        """The miss record that ran [HG-2]."""
        record = self._setting("miss_index", ray) & 0xFFFF
        if self.recorded.missed[ray] and record != int(self.recorded.miss_record[ray]):
            self._report(ray, "record", f"miss record {self.recorded.miss_record[ray]}", f"miss record {record}")

    def _judge_closest_hit(self, ray: int) -> bool:
        """Whether a closest-hit shader runs must be as recorded, for the hit or for another at its t [TRAV-1]."""
        runs = bool(self.recorded.closest_hit_ran[ray])
        if self._runs_closest_hit(ray, self._key(ray)) == runs:
            return True
        accepted, t = self.oracle.accepted, float(self.hits.t[ray])
        for key, other in zip(accepted.keys(ray), accepted.t[accepted.of(ray)], strict=True):
            if _is_close(float(other), t, SAME_T) and self._runs_closest_hit(ray, key) == runs:
                return True
        texts = ("closest-hit did not run", "closest-hit ran")
        self._report(ray, "outcome", texts[runs], texts[not runs])
        return False

    def _runs_closest_hit(self, ray: int, key: Key) -> bool:
        if self._setting("ray_flags", ray) & RayFlag.SKIP_CLOSEST_HIT_SHADER:
            return False
        return self.recording.records[self._record(ray, key)].closest_hit

    def _record(self, ray: int, key: Key) -> int:
        """HG-1, by the inputs."""
        contribution = int(self.recording.first.instances.contribution[key[0]])
        ray_part, multiplier = self._setting("ray_contribution", ray), self._setting("multiplier", ray)
        return int(hit_group_index(ray_part, multiplier, key[1], contribution))

    def _setting(self, name: str, ray: int) -> int:
        value = np.asarray(getattr(self.recording.settings, name))
        return int(value[ray] if value.ndim else value)

    def _judge_free_hit(self, ray: int) -> None:
        """Any accepted candidate is right."""
        key = self._key(ray)
        row = _find(self.oracle.accepted, ray, key)
        if row is not None:
            self._compare_values(ray, float(self.oracle.accepted.t[row]), self.oracle.accepted.attributes[row])
            self._compare_instance_fields(ray)
            return
        legal = self.oracle.accepted.keys(ray)
        for depth, kind in enumerate(("instance", "geometry", "primitive", "hit_kind"), start=1):
            if key[:depth] not in {other[:depth] for other in legal}:
                self._report(ray, kind, f"one of {legal}", key)
                return

    def _judge_hit(self, ray: int) -> None:
        """The recorded hit, or another at the same t."""
        r = self.recorded
        recorded_key = (int(r.instance[ray]), int(r.geometry[ray]), int(r.primitive[ray]), int(r.hit_kind[ray]))
        key = self._key(ray)
        if key != recorded_key:
            row = self._tied_row(ray, key, recorded_key)
            if row is not None:  # 5, 13
                self._compare_t(ray, float(r.t[ray]))
                self._compare_barycentrics(ray, self.oracle.accepted.attributes[row])
                self._compare_instance_fields(ray)
                return
            for kind, found, expected in zip(
                ("instance", "geometry", "primitive", "hit_kind"), key, recorded_key, strict=True
            ):
                if found != expected:
                    self._report(ray, kind, expected, found)
        self._compare_values(ray, float(r.t[ray]), r.attributes[ray])
        for kind, found, expected in (
            ("instance_id", int(self.hits.instance_id[ray]), int(r.instance_id[ray])),
            ("record", int(self.hits.hit_group_index[ray]), int(r.record[ray])),
        ):
            if found != expected:
                self._report(ray, kind, expected, found)

    def _tied_row(self, ray: int, key: Key, recorded_key: Key) -> int | None:
        """The oracle's row of the found hit, if the rules accept it and it lies at the t of the recorded one."""
        accepted = self.oracle.accepted
        row = _find(accepted, ray, key)
        if row is None:
            return None
        recorded_row = _find(accepted, ray, recorded_key)
        other = float(self.recorded.t[ray] if recorded_row is None else accepted.t[recorded_row])
        loses_to_procedural = "ties" in self.recording.tags and _is_triangle(key) and not _is_triangle(recorded_key)
        return row if _is_close(float(accepted.t[row]), other, SAME_T) and not loses_to_procedural else None

    def _judge_any_hit(self, ray: int, order_dependent: bool) -> None:
        """7, on the tracer's own log."""
        own = set(self.log[ray])
        candidates = self.oracle.any_hit_candidates
        possible = candidates.keys(ray)
        if order_dependent:
            needed: set[Key] = set()
            allowed = set(possible)
        elif self.recorded.ray_class[ray] & ANY_HIT_EXACT:
            rows = self.recorded.any_hit_rows
            part = rows[self.recorded.any_hit_offsets[ray] : self.recorded.any_hit_offsets[ray + 1]]
            needed = {(int(i), int(g), int(p), int(k)) for i, g, p, k in part}
            allowed = needed if self.recorded.any_hit_count[ray] <= LOGGED_CALLS else set(possible)
        else:
            end = float(self.hits.t[ray]) if self.hits.hit[ray] else np.inf
            t = candidates.t[candidates.of(ray)]
            needed = {key for key, at in zip(possible, t, strict=True) if at < end}
            allowed = set(possible)
        if not needed <= own:
            self._report(ray, "any_hit", f"calls for {sorted(needed - own)}", "no such calls")
        elif not own <= allowed:
            self._report(ray, "any_hit", "no such calls", f"calls for {sorted(own - allowed)}")

    def _key(self, ray: int) -> Key:
        h = self.hits
        return (
            int(h.instance_index[ray]),
            int(h.geometry_index[ray]),
            int(h.primitive_index[ray]),
            int(h.hit_kind[ray]),
        )

    def _compare_values(self, ray: int, t: float, attributes: NDArray[np.float32]) -> None:
        self._compare_t(ray, t)
        self._compare_barycentrics(ray, attributes)

    def _compare_t(self, ray: int, t: float) -> None:
        found = float(self.hits.t[ray])
        if not _is_close(found, t, float(self.plan.t_tolerance[ray])):
            self._report(ray, "t", t, found)

    def _compare_barycentrics(self, ray: int, attributes: NDArray[np.float32]) -> None:
        found = self.hits.attributes[ray]
        tolerance = self.plan.barycentric_tolerance[ray]
        if tolerance < np.inf and not bool((np.abs(found - attributes) <= tolerance).all()):
            self._report(ray, "barycentrics", attributes.tolist(), found.tolist())

    def _compare_instance_fields(self, ray: int) -> None:
        """InstanceID and record of a hit that the recording does not show, by the inputs [HG-1]."""
        instances, key = self.recording.first.instances, self._key(ray)
        for kind, found, expected in (
            ("instance_id", int(self.hits.instance_id[ray]), int(instances.instance_id[key[0]])),
            ("record", int(self.hits.hit_group_index[ray]), self._record(ray, key)),
        ):
            if found != expected:
                self._report(ray, kind, expected, found)

    def _report(self, ray: int, kind: str, recorded: object, found: object) -> None:
        self.found.append(Mismatch(ray, kind, str(recorded), str(found)))


def _find(rows: CandidateRows, ray: int, key: Key) -> int | None:
    """The row of a candidate of one ray, None when it is not there."""
    keys = rows.keys(ray)
    return int(rows.offsets[ray]) + keys.index(key) if key in keys else None


def _is_triangle(key: Key) -> bool:
    return key[3] >= HitKind.TRIANGLE_FRONT_FACE


def _is_close(found: float, expected: float, tolerance: float) -> bool:
    """Relative; equal infinities are close, NaN is not."""
    return found == expected or abs(found - expected) <= tolerance * abs(expected)
