"""Recordings repeated with other build flags, with copies and with updates: outcomes must be those of the first run.

Variants are named as the recordings name theirs: ``f3_compact_update`` is the scene built with flag word 3, every
structure compacted, then updated to the second state (or to the same inputs where there is none).
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag
from rtviewer.dxr.profile import DEFAULT_PROFILE
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.dxr.rules import check_build_flags
from rtviewer.io.recording import RecordedResult, Recording
from rtviewer.session.conformance_engines import (
    OTHER_PLACE,
    AnyHitLog,
    BuiltScene,
    SceneInputs,
    build_scene,
    moved_instances,
    remake_blases,
    update_scene,
)
from rtviewer.session.conformance_judge import KINDS, Key, Mismatch, Plan
from rtviewer.trace.reference import ReferenceResult
from rtviewer.trace.reference_search import ends_at_first_hit
from rtviewer.trace.request import Hits


def variant_words() -> tuple[BuildFlag, ...]:
    """The 24 words of build flags that a first build may have [BF-1, BF-2]."""
    known = int(DEFAULT_PROFILE.known_build_flags)
    words = [BuildFlag(word) for word in range(known + 1)]
    return tuple(w for w in words if not check_build_flags(w, AccelerationStructureType.BOTTOM_LEVEL))


@dataclass(frozen=True)
class VariantReport:
    """One comparison of a scene: ``compared`` plus all ``excluded`` are its rays."""

    compared: int
    excluded: Mapping[str, int]
    mismatches: Mapping[str, int]
    examples: tuple[Mismatch, ...] = ()

    @classmethod
    def of(cls, plan: Plan, found: Sequence[Mismatch]) -> VariantReport:
        """What following ``plan`` found."""
        return cls(int(np.count_nonzero(plan.compared)), plan.excluded(), _tally(found), tuple(found))

    def to_json(self) -> dict[str, Any]:
        return {"compared": self.compared, "excluded": dict(self.excluded), "mismatches": dict(self.mismatches)}


def _tally(found: Sequence[Mismatch]) -> dict[str, int]:
    tally = Tally(mismatch.kind for mismatch in found)
    return {kind: tally[kind] for kind in KINDS if tally[kind]}


@dataclass(frozen=True)
class Base:
    """A state of a recording, what the oracle says of it, and what the first run answered: ``hits`` and ``log``."""

    recording: Recording
    recorded: RecordedResult
    oracle: ReferenceResult
    hits: Hits
    log: AnyHitLog

    @cached_property
    def calls(self) -> list[list[Key]]:
        return self.log.of_rays()

    @property
    def inputs(self) -> SceneInputs:
        state = self.recording.first
        return SceneInputs(state.blases, state.instances, state.blas_of)

    def trace(self, built: BuiltScene) -> tuple[Hits, AnyHitLog]:
        return built.trace(self.recording.rays, self.recording.settings)

    @cached_property
    def depends_on_order(self) -> NDArray[np.bool_]:
        """(n,) bool: the order of enumeration may choose the hit. A first hit ends the search, any-hit may end it, or
        a program reports a t at which the ray is not in its box."""
        n, settings = len(self.recording), self.recording.settings
        flags = np.broadcast_to(np.asarray(settings.ray_flags), (n,))
        any_hit = np.broadcast_to(np.asarray(settings.any_hit), (n,))
        program = np.broadcast_to(np.asarray(settings.intersection), (n,))
        depends = ends_at_first_hit(flags) | (np.isin(any_hit, ENDING_PROGRAMS) & self.may_call_any_hit)
        return np.asarray(depends | (program == IntersectionProgram.REPORT_T), np.bool_)

    @cached_property
    def may_call_any_hit(self) -> NDArray[np.bool_]:
        return np.asarray(np.diff(self.oracle.any_hit_candidates.offsets) > 0, np.bool_)


ENDING_PROGRAMS = [int(AnyHitProgram.ACCEPT_AND_END_SEARCH), int(AnyHitProgram.IGNORE_ODD_PRIMITIVES_END_AT_EVEN)]


def run_variants(first: Base, second: Base | None, words: Sequence[BuildFlag]) -> dict[str, VariantReport]:
    """Every variant of a scene under each of ``words``, by name.

    Copies must answer exactly as what they were copied from [CP-10]; builds and updates as the first run, exactly where
    DET-5 decides and else as the rules accept [BF-10, UPD-13].
    """
    from rtviewer.build.plan import plan
    from rtviewer.copymode.compact import check_compactable

    reports: dict[str, VariantReport] = {}
    for word in words:
        name = f"f{int(word)}"
        built = build_scene(first.inputs, word)
        answer = first.trace(built)
        reports[name] = compare_outcome(first, *answer)
        copies = {"clone": _clone(built, first), "serial": _serialize(built)}
        if not check_compactable(built.tlas):
            copies["compact"] = _compact(built, first)
        for kind, copy in copies.items():
            reports[f"{name}_{kind}"] = compare_copy(answer, first.trace(copy))
        after = second or first
        if second is not None:
            reports[f"{name}_rebuilt2"] = compare_outcome(second, *second.trace(build_scene(second.inputs, word)))
        if plan(word, AccelerationStructureType.TOP_LEVEL, DEFAULT_PROFILE).updatable:
            sources = {"update": (built, True), "update_dst": (built, False)}
            if "compact" in copies:
                sources["compact_update"] = (copies["compact"], True)
            for kind, (source, in_place) in sources.items():
                inputs = after.inputs
                if kind == "compact_update":  # it lives where the copies were put
                    inputs = _moved(inputs)
                updated = update_scene(source, inputs, word, in_place=in_place)
                reports[f"{name}_{kind}"] = compare_outcome(after, *after.trace(updated))
    return reports


def compare_outcome(base: Base, hits: Hits, log: AnyHitLog) -> VariantReport:
    """Another run of a state against the first one: to the bit where DET-5 decides, else within what the rules accept.

    Both runs have the same arithmetic, so that no ray is left out for being near an edge.
    """
    calls = log.of_rays()
    different = differences(base.hits, hits)
    exact = ~base.depends_on_order & ~base.may_call_any_hit
    found = _mismatches({kind: rays & exact for kind, rays in different.items()}, base.hits, hits)
    other_calls = np.array([set(a) != set(b) for a, b in zip(base.calls, calls, strict=True)], np.bool_)
    differs = np.logical_or.reduce([*different.values(), other_calls])
    for ray in np.flatnonzero(differs):
        if not exact[ray]:
            found += _judge_hit(base, hits, int(ray))
        found += _judge_calls(base, hits, calls[ray], int(ray))
    return VariantReport(len(hits), {}, _tally(found), tuple(found))


def _judge_hit(base: Base, hits: Hits, ray: int) -> list[Mismatch]:
    """Hit or miss stays [ACC-6]; a hit is one that some order commits; only where order counts may t change."""
    hit, t = bool(hits.hit[ray]), float(hits.t[ray])
    if hit != bool(base.hits.hit[ray]):
        return [Mismatch(ray, "outcome", str(not hit), str(hit))]
    if not hit:
        return []
    accepted = base.oracle.accepted
    columns = (hits.instance_index, hits.geometry_index, hits.primitive_index, hits.hit_kind)
    key = (int(columns[0][ray]), int(columns[1][ray]), int(columns[2][ray]), int(columns[3][ray]))
    if key not in accepted.keys(ray):
        return [Mismatch(ray, "primitive", f"one of {accepted.keys(ray)}", str(key))]
    row = int(accepted.offsets[ray]) + accepted.keys(ray).index(key)
    expected = float(accepted.t[row] if base.depends_on_order[ray] else base.hits.t[ray])
    found = [] if t == expected else [Mismatch(ray, "t", str(expected), str(t))]
    if not np.array_equal(hits.attributes[ray], accepted.attributes[row]):
        found.append(Mismatch(ray, "barycentrics", str(accepted.attributes[row]), str(hits.attributes[ray])))
    return found


def _judge_calls(base: Base, hits: Hits, calls: list[Key], ray: int) -> list[Mismatch]:
    """AH-1: any-hit runs for candidates only, and for all that are nearer than the hit unless the search may end."""
    candidates = base.oracle.any_hit_candidates
    possible, t = candidates.keys(ray), candidates.t[candidates.of(ray)]
    end = float(hits.t[ray]) if hits.hit[ray] else np.inf
    nearer = {key for key, at in zip(possible, t, strict=True) if at < end}
    missing = set() if base.depends_on_order[ray] else nearer - set(calls)
    extra = set(calls) - set(possible)
    if missing or extra:
        return [Mismatch(ray, "any_hit", f"calls for {sorted(missing)}", f"calls for {sorted(extra)}")]
    return []


def compare_copy(source: tuple[Hits, AnyHitLog], copy: tuple[Hits, AnyHitLog]) -> VariantReport:
    """Every ray, every value, every any-hit call in its order [CP-10]."""
    found = _mismatches(differences(source[0], copy[0]), source[0], copy[0])
    for ray, (before, after) in enumerate(zip(source[1].of_rays(), copy[1].of_rays(), strict=True)):
        if before != after:
            found.append(Mismatch(ray, "any_hit", str(before), str(after)))
    return VariantReport(len(copy[0]), {}, _tally(found), tuple(found))


_FIELDS = {
    "outcome": "hit",
    "instance": "instance_index",
    "geometry": "geometry_index",
    "primitive": "primitive_index",
    "instance_id": "instance_id",
    "hit_kind": "hit_kind",
    "t": "t",
    "barycentrics": "attributes",
    "record": "hit_group_index",
}


def differences(a: Hits, b: Hits) -> dict[str, NDArray[np.bool_]]:
    """Per kind of mismatch, (n,) bool: rays whose values are not the same bits."""
    found = {}
    for kind, name in _FIELDS.items():
        left, right = getattr(a, name), getattr(b, name)
        if left.dtype == np.float32:
            left, right = left.view(np.uint32), right.view(np.uint32)
        differs = left != right
        found[kind] = differs if differs.ndim == 1 else differs.any(axis=1)
    return found


def _mismatches(different: Mapping[str, NDArray[np.bool_]], before: Hits, after: Hits) -> list[Mismatch]:
    return [
        Mismatch(int(ray), kind, str(getattr(before, _FIELDS[kind])[ray]), str(getattr(after, _FIELDS[kind])[ray]))
        for kind, rays in different.items()
        for ray in np.flatnonzero(rays)
    ]


def _moved(inputs: SceneInputs) -> SceneInputs:
    return SceneInputs(inputs.blases, moved_instances(inputs.instances, OTHER_PLACE), inputs.blas_of)


def _clone(built: BuiltScene, base: Base) -> BuiltScene:
    """Clones of the bottom levels, and the clone of a top level built over them."""
    from rtviewer.build.builder import build_tlas
    from rtviewer.copymode.clone import clone

    blases = remake_blases(built, lambda source, _, address: clone(source, address=address), OTHER_PLACE)
    tlas = build_tlas(_moved(base.inputs).instances, built.tlas.build_flags, blases=blases)
    return BuiltScene(clone(tlas, address=OTHER_PLACE), blases)


def _compact(built: BuiltScene, base: Base) -> BuiltScene:
    """Compacting copies of the bottom levels, and that of a top level built over them [CP-16]."""
    from rtviewer.build.builder import build_tlas
    from rtviewer.copymode.compact import compact

    blases = remake_blases(built, lambda source, _, address: compact(source, address=address), OTHER_PLACE)
    tlas = build_tlas(_moved(base.inputs).instances, built.tlas.build_flags, blases=blases)
    return BuiltScene(compact(tlas, address=OTHER_PLACE), blases)


def _serialize(built: BuiltScene) -> BuiltScene:
    """Every structure through a blob; the top level's pointers patched to where the bottom levels went [SER-5]."""
    from rtviewer.copymode.deserialize import deserialize
    from rtviewer.copymode.serialize import serialize

    def restore(source: Structure, _: int, address: int) -> Structure:
        return deserialize(serialize(source), address=address)

    blases = remake_blases(built, restore, OTHER_PLACE)
    old = built.tlas.instance_descs["AccelerationStructure"]
    pointers = np.where(old == 0, old, old + np.uint64(OTHER_PLACE))
    return BuiltScene(deserialize(serialize(built.tlas), address=OTHER_PLACE, pointers=pointers), blases)
