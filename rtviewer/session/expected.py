"""What became of an instance, geometry or primitive that the user expected a ray to hit: one sentence and its evidence.

Read off the log's events and the structures; nothing is traced again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.verdicts import VERDICTS, EventKind, Verdict
from rtviewer.errors import RtviewerError
from rtviewer.session import explain
from rtviewer.session.document import TOP_LEVEL, World
from rtviewer.session.left_out import why_left_out
from rtviewer.session.playback import ACCEPTED
from rtviewer.session.state import Expected

if TYPE_CHECKING:
    from rtviewer.session.raylog import RayLog

ENDED = (
    Verdict.FIRST_HIT_ENDED_SEARCH,
    Verdict.ANY_HIT_ENDED_SEARCH,
    Verdict.ANY_HIT_ACCEPTED_FIRST_HIT_ENDED_SEARCH,
)
NEARNESS = (
    Verdict.MISSED,
    Verdict.CULLED_OPAQUE,
    Verdict.CULLED_NON_OPAQUE,
    Verdict.FRONT_FACE_CULLED,
    Verdict.BACK_FACE_CULLED,
    Verdict.NOTHING_REPORTED,
    Verdict.AT_OR_BEFORE_T_MIN,
    Verdict.ANY_HIT_IGNORED,
    Verdict.AT_OR_BEYOND_CURRENT_END,
    Verdict.TIE_LOST,
    *(Verdict(verdict) for verdict in ACCEPTED),
)
"""Of several candidates the one that came farthest through the tests tells the story: from far to near to a hit."""

MAX_EVIDENCE = 64
"""Events named as evidence; there may be millions of boxes that were missed."""


@dataclass(frozen=True)
class Explanation:
    """``sentence``: what became of it, with its rule at the end. ``verdict``: what decided; NONE where the walk never
    came so far. ``events``: positions in the log that show it, the deciding one first."""

    expected: Expected
    sentence: str
    verdict: Verdict
    rule: str
    events: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "explanation": self.sentence,
            "deciding_verdict": self.verdict.name.lower(),
            "deciding_rule": self.rule,
            "evidence": list(self.events),
        }


@dataclass(frozen=True)
class _Fate:
    """An explanation without its subject."""

    text: str
    verdict: Verdict
    rule: str
    events: tuple[int, ...] = ()


def check_expected(world: World, expected: Expected) -> None:
    """RtviewerError when there is no such instance, or when it has no such geometry or primitive (-1: any)."""
    instance, geometry, primitive = expected.instance, expected.geometry, expected.primitive
    count = len(world.tlas.instance_descs)
    if not 0 <= instance < count:
        raise RtviewerError(f"there are {count:,} instances, none is {instance}")
    if geometry < 0:
        if primitive >= 0:
            raise RtviewerError(f"primitive {primitive} of which geometry? A primitive index counts in its geometry")
        return
    blas = world.blas_of_instance(instance)
    counts = world.blases[blas].geometries["primitive_count"].tolist() if blas >= 0 else []
    if geometry >= len(counts):
        raise RtviewerError(f"instance {instance} has {len(counts):,} geometries, none is {geometry}")
    if primitive >= counts[geometry]:
        raise RtviewerError(
            f"geometry {geometry} of instance {instance} has {counts[geometry]:,} primitives, none is {primitive}"
        )


def explain_expected(log: RayLog, expected: Expected) -> Explanation:
    """What became of what was expected. RtviewerError when the world has no such thing.

    Of an x-ray the ray itself tells, for an x-ray replaces no hit by a nearer one; its events are then not those shown.
    """
    check_expected(log.world, expected)
    if log.x_ray:
        from rtviewer.session.raylog import walk_ray

        own = walk_ray(log.world, log.origin, log.direction, log.rays, profile=log.profile)
        return replace(explain_expected(own, expected), events=())
    fate = _fate(log, expected)
    return Explanation(
        expected, f"{expected.text}{fate.text} [{fate.rule}]", fate.verdict, fate.rule, fate.events[:MAX_EVIDENCE]
    )


def _fate(log: RayLog, expected: Expected) -> _Fate:
    """In the order in which a walk would come to it: structure, instance, boxes, candidates."""
    events, instance = log.events, expected.instance
    absent = _not_in_structure(log, expected)
    if absent is not None:
        return absent
    if not len(events):
        why = "; ".join(log.warnings) or "the top level holds nothing that can be hit"
        return _Fate(f" was never reached: {why}", Verdict.NONE, "RAY-5")
    of_instance = events["instance"] == instance
    skipped = np.flatnonzero(of_instance & (events["kind"] == EventKind.INSTANCE_SKIPPED))
    entered = np.flatnonzero(of_instance & (events["kind"] == EventKind.INSTANCE_ENTERED))
    if len(skipped) and not len(entered):
        first = int(skipped[0])
        return _at(log, first, f" was never entered: {explain.instance_sentence(log, first)}")
    if not len(entered):
        return _lost_on_the_way(log, expected, TOP_LEVEL, " was never reached: ")
    found = _candidates(log, expected)
    if not len(found):
        return _no_candidate(log, expected, entered)
    return _fate_of_candidates(log, expected, found)


def _at(log: RayLog, index: int, text: str, *more: int) -> _Fate:
    return _Fate(text, Verdict(int(log.events["verdict"][index])), explain.rule_of(log, index), (index, *more))


def _not_in_structure(log: RayLog, expected: Expected) -> _Fate | None:
    """Instances without a structure, and input that no tree holds."""
    world, instance = log.world, expected.instance
    blas = world.blas_of_instance(instance)
    if blas < 0:
        why = explain.inactive_instance(world, instance)
        return _Fate(f" is not in the structure: {why}", Verdict.INACTIVE_INSTANCE, "INST-2")
    if expected.geometry < 0:
        return None
    structure = world.blases[blas]
    if expected.primitive < 0:
        row = structure.geometries[expected.geometry]
        if int(row["active_count"]):
            return None
        why = f"none of its {int(row['primitive_count']):,} primitives is active"
        return _Fate(f" is not in the structure: {why}", Verdict.NONE, "INA-6")
    if world.tree(blas).box_of_item(expected.geometry, expected.primitive) >= 0:
        return None
    inputs = world.scene.blases[blas] if blas < len(world.scene.blases) else None
    why, rule = why_left_out(inputs, expected.geometry, expected.primitive)
    return _Fate(f" is not in the structure: {why}", Verdict.NONE, rule)


def _candidates(log: RayLog, expected: Expected) -> NDArray[np.int64]:
    """Events that tell what became of candidates: a procedural that reported is told by its reports."""
    events = log.events
    report = events["kind"] == EventKind.REPORT
    has_report = np.append(report[1:], False) & ~report
    of_it = (events["instance"] == expected.instance) & (
        report | ((events["kind"] == EventKind.CANDIDATE) & ~has_report)
    )
    if expected.geometry >= 0:
        of_it &= events["geometry"] == expected.geometry
    if expected.primitive >= 0:
        of_it &= events["primitive"] == expected.primitive
    return np.flatnonzero(of_it)


def _fate_of_candidates(log: RayLog, expected: Expected, found: NDArray[np.int64]) -> _Fate:
    """The story of the candidate that came nearest to being the hit, and how many others there were."""
    verdicts = log.events["verdict"][found]
    rank = np.array([NEARNESS.index(Verdict(int(v))) if Verdict(int(v)) in NEARNESS else -1 for v in verdicts])
    best = found[rank == rank.max()]
    t = np.nan_to_num(log.events["t"][best].astype(np.float64), nan=np.inf)
    accepted = Verdict(int(log.events["verdict"][best[0]])).value in ACCEPTED
    index = int(best[-1] if accepted else best[np.argmin(t)])  # of hits the last one stood longest
    if accepted:
        return _committed(log, expected, index)
    named = "" if expected.primitive >= 0 else f"{explain.primitive_name(log, index)}: "
    others = "" if expected.primitive >= 0 or len(found) == 1 else _others(log, found[found != index])
    return _at(log, index, f": {named}{explain.candidate_sentence(log, index)}{others}")


def _others(log: RayLog, found: NDArray[np.int64]) -> str:
    """``; of 7 other candidates 6 missed, 1 back face culled``."""
    values, counts = np.unique(log.events["verdict"][found], return_counts=True)
    ranked = sorted(zip(counts.tolist(), values.tolist(), strict=True), reverse=True)
    told = ", ".join(f"{count} {VERDICTS[Verdict(value)].text}" for count, value in ranked)
    return f"; of {len(found)} other candidate{'s' if len(found) > 1 else ''} {told}"


def _committed(log: RayLog, expected: Expected, index: int) -> _Fate:
    """The hit itself, or one that another hit replaced."""
    event, result = log.events[index], log.result
    later = log.playback.commits
    later = later[later > index]
    t = explain.number(event["t"])
    if not len(later):
        found = f", geometry {result.geometry_index}, primitive {result.primitive_index}"
        named = "" if expected.primitive >= 0 else found
        why = explain.candidate_sentence(log, index).removeprefix(f"t = {t}, ")
        return _at(log, index, f" is what the ray hit{named}, at t = {t}: {why}")
    last = int(later[-1])
    named = "" if expected.primitive >= 0 else f"{explain.primitive_name(log, index)}: "
    if log.events["t"][last] == event["t"]:
        text = f": {named}it was committed at t = {t}, then {explain.item_of(log, last)} at the same t took its place"
        return _Fate(text, Verdict.TIE_LOST, "DET-5", (index, last))
    by = explain.distance(event["t"], log.events["t"][last])
    nearer = f"{explain.item_of(log, last)} at t = {explain.number(log.events['t'][last])}"
    text = f": {named}it was committed at t = {t}, then a nearer hit (by {by}) replaced it: {nearer}"
    return _Fate(text, Verdict.AT_OR_BEYOND_CURRENT_END, "RAY-7", (index, last))


def _no_candidate(log: RayLog, expected: Expected, entered: NDArray[np.int64]) -> _Fate:
    """The instance was entered, but no candidate of what was expected was tested."""
    blas = log.world.blas_of_instance(expected.instance)
    if expected.primitive >= 0:
        return _lost_on_the_way(log, expected, blas, " was never tested: ")
    events = log.events
    boxes = (events["kind"] == EventKind.NODE_SKIPPED) & (events["level"] == 1)
    found = np.flatnonzero(boxes & (events["instance"] == expected.instance))
    if not len(found):
        return _ended_before(log, " was entered, but nothing of it was tested: ")
    beyond = found[events["verdict"][found] == Verdict.BOX_BEYOND_CURRENT_END]
    missed = found[events["verdict"][found] == Verdict.BOX_MISSED]
    told = [f"{len(missed):,} missed"] if len(missed) else []
    told += [f"{len(beyond):,} beyond the current end, {explain.end_cause(log, int(beyond[0]))}"] if len(beyond) else []
    text = " was entered, but the ray came to none of its primitives: of the boxes not entered " + ", ".join(told)
    deciding = int(beyond[0] if len(beyond) else missed[0])
    rest = [int(i) for i in found if i != deciding][:MAX_EVIDENCE]
    return _at(log, deciding, text, int(entered[0]), *rest)


def _lost_on_the_way(log: RayLog, expected: Expected, structure: int, prefix: str) -> _Fate:
    """The node above an item at which the walk turned away, or that the walk ended before it."""
    world, events = log.world, log.events
    tree = world.tree(structure)
    top = structure == TOP_LEVEL
    leaf = tree.box_of_item(expected.instance) if top else tree.box_of_item(expected.geometry, expected.primitive)
    here = (events["kind"] == EventKind.NODE_SKIPPED) & (events["level"] == (0 if top else 1))
    if not top:
        here &= events["instance"] == expected.instance
    path = set(tree.path_to_root(leaf))
    for index in np.flatnonzero(here).tolist():
        box = tree.box_of(int(events["node"][index]), int(events["lane"][index]))
        if box not in path:
            continue
        beyond = int(events["verdict"][index]) == Verdict.BOX_BEYOND_CURRENT_END
        behind = log.playback.commits
        behind = behind[behind < index]
        hidden = "it is occluded: " if beyond and len(behind) else ""
        evidence = (int(behind[-1]),) if hidden else ()
        return _at(log, index, f"{prefix}{hidden}{explain.node_sentence(log, index, box)}", *evidence)
    return _ended_before(log, prefix)


def _ended_before(log: RayLog, prefix: str) -> _Fate:
    if log.truncated:
        return _Fate(f"{prefix}the log is full and ends before it", Verdict.NONE, "TRAV-7")
    hits = log.playback.commits
    ended = hits[np.isin(log.events["verdict"][hits], [int(v) for v in ENDED])]
    if not len(ended):
        return _Fate(f"{prefix}the walk ended before it", Verdict.NONE, "TRAV-7")
    last = int(ended[-1])
    text = f"{prefix}the search ended before it, at {explain.item_of(log, last)}"
    return _at(log, last, f"{text}: {explain.candidate_sentence(log, last)}")
