"""Sentences for a ray's log: what an event means with its numbers, and why an expected thing was not hit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rtviewer.dxr.flags import GeometryFlag, GeometryType, InstanceFlag
from rtviewer.dxr.programs import program_name
from rtviewer.dxr.rules import Opacity, effective_opacity
from rtviewer.dxr.verdicts import VERDICTS, EventKind, Verdict
from rtviewer.session.document import TOP_LEVEL
from rtviewer.session.hit_records import NO_ANY_HIT, record_of

if TYPE_CHECKING:
    from rtviewer.session.raylog import RayLog

ACCEPTED = tuple(int(verdict) for verdict, meaning in VERDICTS.items() if meaning.family == "accepted")

OF_HITS: dict[Verdict, str] = {
    Verdict.COMMITTED: "opaque: committed without any-hit, the ray now ends here",
    Verdict.FIRST_HIT_ENDED_SEARCH: "opaque: committed, and ACCEPT_FIRST_HIT_AND_END_SEARCH ends the search",
    Verdict.ANY_HIT_ACCEPTED: "any-hit {program} accepted it: committed, the ray now ends here",
    Verdict.ANY_HIT_ACCEPTED_FIRST_HIT_ENDED_SEARCH: (
        "any-hit {program} accepted it, and ACCEPT_FIRST_HIT_AND_END_SEARCH ends the search"
    ),
    Verdict.ANY_HIT_ENDED_SEARCH: "any-hit {program} accepted it and ended the search",
    Verdict.ANY_HIT_IGNORED: "any-hit {program} ignored it: nothing is committed and the search goes on",
    Verdict.SURFACE_PASSED: "a hit if nothing were nearer: the x-ray counts it as a surface and goes on",
}
"""Sentences of candidates that passed every test."""

# Edge opposite the vertex whose weight is negative: u weighs v1, v weighs v2, w weighs v0 (TRI-1).
EDGES = ("v2-v0", "v0-v1", "v1-v2")


def number(value: float) -> str:
    """A float32 as its shortest text."""
    return "infinity" if value == math.inf else str(np.float32(value))


def is_procedural(log: RayLog, index: int) -> bool:
    """Whether an event is about a procedural primitive."""
    event = log.events[index]
    if int(event["level"]) == 0 or int(event["geometry"]) < 0:
        return False
    blas = log.world.blas_of_instance(int(event["instance"]))
    kind = int(log.world.blases[blas].geometries["type"][int(event["geometry"])])
    return kind == GeometryType.PROCEDURAL_PRIMITIVE_AABBS


def rule_of(log: RayLog, index: int) -> str:
    """The rule that an event's verdict rests on."""
    event = log.events[index]
    verdict, kind = Verdict(int(event["verdict"])), EventKind(int(event["kind"]))
    if kind is EventKind.INSTANCE_ENTERED:
        return "INST-8"
    if kind is EventKind.NODE_ENTERED:
        return "TRI-7"
    if kind is EventKind.REPEATED:
        return "PROC-8" if is_procedural(log, index) else "AH-7"
    if _acts_opaque(log, index):
        return "OPQ-5"
    if is_procedural(log, index):
        if verdict in (Verdict.NONE, Verdict.MISSED):
            return "PROC-1"
        if kind is EventKind.REPORT and math.isnan(float(event["t"])):
            return "PROC-7"
        if verdict in (Verdict.AT_OR_BEFORE_T_MIN, Verdict.AT_OR_BEYOND_CURRENT_END):
            return "PROC-2"
        if verdict is Verdict.CULLED_OPAQUE or verdict is Verdict.CULLED_NON_OPAQUE:
            return "CULL-2"
    return VERDICTS[verdict].rule


def sentence(log: RayLog, index: int, structure: int, box: int) -> str:
    """What happened at an event, with the numbers that decided it."""
    event = log.events[index]
    kind = EventKind(int(event["kind"]))
    if kind in (EventKind.NODE_ENTERED, EventKind.NODE_SKIPPED):
        return _node(log, index, box)
    if kind in (EventKind.INSTANCE_ENTERED, EventKind.INSTANCE_SKIPPED):
        return f"instance {int(event['instance'])}: {_instance(log, index)}"
    if kind is EventKind.REPEATED:
        again = "its intersection program runs" if is_procedural(log, index) else "any-hit may be called"
        return f"{_primitive(log, index)}: {again} once more, by the switch that repeats calls"
    what = "report of" if kind is EventKind.REPORT else "candidate"
    return f"{what} {_primitive(log, index)}: {_candidate(log, index)}"


def _node(log: RayLog, index: int, box: int) -> str:
    event = log.events[index]
    verdict = Verdict(int(event["verdict"]))
    low, high, end = number(event["t"]), number(event["t_exit"]), number(event["t_current"])
    if verdict is Verdict.BOX_MISSED:
        return f"node {box}: the ray does not meet its box after TMin {number(log.rays.t_min)}"
    if verdict is Verdict.BOX_BEYOND_CURRENT_END:
        return f"node {box}: its box begins at t = {low}, beyond the current end {end}"
    if box == 0 and int(event["node"]) < 0 and math.isnan(float(event["t"])):
        return "root node entered"
    return f"node {box} entered: the ray is in its box from t = {low} to {high}"


def _instance(log: RayLog, index: int) -> str:
    event = log.events[index]
    instance, verdict = int(event["instance"]), Verdict(int(event["verdict"]))
    desc = log.world.tlas.instance_descs[instance]
    mask = int(desc["InstanceIDAndMask"]) >> 24
    flags = InstanceFlag(int(desc["InstanceContributionAndFlags"]) >> 24)
    blas = log.world.blas_of_instance(instance)
    name = log.world.blases[blas].name if blas >= 0 else ""
    if verdict is Verdict.NONE:
        return f"entered, its rays go on in the object space of {name}"
    if verdict is Verdict.INACTIVE_INSTANCE:
        return "it has no bottom-level structure (address 0), so it is inactive"
    if verdict is Verdict.MASK_EXCLUDED:
        return f"mask 0x{mask:02X} AND ray mask 0x{log.rays.mask & 0xFF:02X} is 0"
    if verdict is Verdict.SINGULAR_TRANSFORM:
        return "its transform cannot be inverted, so there is no object-space ray"
    if verdict is Verdict.TRIANGLES_SKIPPED:
        return "the ray has SKIP_TRIANGLES and the instance holds triangles"
    if verdict is Verdict.PROCEDURALS_SKIPPED:
        return "the ray has SKIP_PROCEDURAL_PRIMITIVES and the instance holds procedural primitives"
    if verdict in (Verdict.CULLED_OPAQUE, Verdict.CULLED_NON_OPAQUE):
        return _opacity_cull(verdict, flags, "all its geometry")
    if verdict is Verdict.EMPTY_STRUCTURE:
        return f"{name} holds nothing that can be hit"
    return VERDICTS[verdict].text


def _opacity_cull(verdict: Verdict, instance: InstanceFlag, what: str, geometry: GeometryFlag | None = None) -> str:
    """Steps 1 to 3 of the opacity rules in words."""
    opaque = verdict is Verdict.CULLED_OPAQUE
    state, flag = ("opaque", "CULL_OPAQUE") if opaque else ("non-opaque", "CULL_NON_OPAQUE")
    if instance & (InstanceFlag.FORCE_OPAQUE | InstanceFlag.FORCE_NON_OPAQUE):
        why = f" by the instance's FORCE_{'OPAQUE' if opaque else 'NON_OPAQUE'}"
    elif geometry is not None:
        why = f" by its geometry flags {geometry.name or 'NONE'}"
    else:
        why = ""
    return f"{what} is {state}{why} and the ray has {flag}"


def _primitive(log: RayLog, index: int) -> str:
    event = log.events[index]
    what = "box" if is_procedural(log, index) else "triangle"
    return f"{what} {int(event['primitive'])} of geometry {int(event['geometry'])}"


def _candidate(log: RayLog, index: int) -> str:
    event = log.events[index]
    verdict = Verdict(int(event["verdict"]))
    procedural = is_procedural(log, index)
    t, end = number(event["t"]), number(event["t_current"])
    if verdict is Verdict.NONE:
        return "its intersection program runs" if procedural else "tested"
    if verdict is Verdict.MISSED:
        return "the ray does not meet it inside its interval" if procedural else _missed_triangle(log, index)
    if verdict in (Verdict.CULLED_OPAQUE, Verdict.CULLED_NON_OPAQUE):
        instance = int(event["instance"])
        flags = int(log.world.tlas.instance_descs["InstanceContributionAndFlags"][instance]) >> 24
        blas = log.world.blases[log.world.blas_of_instance(instance)]
        geometry = GeometryFlag(int(blas.geometries["flags"][int(event["geometry"])]))
        return _opacity_cull(verdict, InstanceFlag(flags), "it", geometry)
    if verdict is Verdict.BACK_FACE_CULLED:
        return f"seen from behind at t = {t} and the ray has CULL_BACK_FACING_TRIANGLES"
    if verdict is Verdict.FRONT_FACE_CULLED:
        return f"seen from the front at t = {t} and the ray has CULL_FRONT_FACING_TRIANGLES"
    if verdict is Verdict.AT_OR_BEFORE_T_MIN and math.isnan(float(event["t"])):
        return "t is NaN, which is never inside the interval"
    if verdict is Verdict.AT_OR_BEFORE_T_MIN:
        return f"t = {t} is {'before' if procedural else 'at or before'} TMin {number(log.rays.t_min)}"
    if verdict is Verdict.AT_OR_BEYOND_CURRENT_END:
        return f"t = {t} is {'beyond' if procedural else 'at or beyond'} the current end {end}"
    if verdict is Verdict.TIE_LOST:
        return f"t = {t} equals that of the committed hit, which goes first"
    if verdict is Verdict.NOTHING_REPORTED:
        return "its intersection program reported no hit"
    if _acts_opaque(log, index):
        ends = ", and ACCEPT_FIRST_HIT_AND_END_SEARCH ends the search"
        return f"t = {t}, {NO_ANY_HIT}; committed" + (ends if verdict is Verdict.FIRST_HIT_ENDED_SEARCH else "")
    record = record_of(log.world, log.rays, int(event["instance"]), int(event["geometry"]))
    program = record.any_hit if record is not None else program_name(log.rays.any_hit)
    return f"t = {t}, " + OF_HITS[verdict].format(program=program)


def _acts_opaque(log: RayLog, index: int) -> bool:
    """Whether a hit was committed without any-hit only because its hit group has none (OPQ-5)."""
    event = log.events[index]
    committed = (Verdict.COMMITTED, Verdict.FIRST_HIT_ENDED_SEARCH)
    if log.world.scene.hit_groups is None or int(event["verdict"]) not in committed:
        return False
    instance, geometry = int(event["instance"]), int(event["geometry"])
    record = record_of(log.world, log.rays, instance, geometry)
    blas = log.world.blases[log.world.blas_of_instance(instance)]
    own = GeometryFlag(int(blas.geometries["flags"][geometry]))
    placed = InstanceFlag(int(log.world.tlas.instance_descs["InstanceContributionAndFlags"][instance]) >> 24)
    opacity = effective_opacity(own, placed, log.rays.ray_flags)
    return record is not None and not record.any_hit and opacity is Opacity.NON_OPAQUE


def _missed_triangle(log: RayLog, index: int) -> str:
    """Which edge the ray passes outside of, from the signs of the scaled edge values."""
    event = log.events[index]
    values = [float(event[name]) for name in ("u", "v", "w")]
    if not all(math.isfinite(value) for value in values):
        return "the ray meets it edge-on, or it is degenerate: its projected area is 0"
    outside = [f"{edge} ({number(value)})" for edge, value in zip(EDGES, values, strict=True) if value < 0]
    if outside:
        return f"outside edge {' and '.join(outside)}"
    on_edge = [edge for edge, value in zip(EDGES, values, strict=True) if value == 0]
    if on_edge:
        return f"exactly on edge {' and '.join(on_edge)}, which belongs to the triangle on its other side"
    return "the ray's line misses it"


def why_not(log: RayLog, instance: int, geometry: int = -1, primitive: int = -1) -> str:
    """One sentence: what became of an instance, or of one of its primitives, that was expected to be hit."""
    world, events = log.world, log.events
    result = log.result
    wants_primitive = primitive >= 0
    named = f"instance {instance}" + (f", geometry {geometry}, primitive {primitive}" if wants_primitive else "")
    is_primitive = (result.geometry_index, result.primitive_index) == (geometry, primitive)
    if result.hit and result.instance_index == instance and (is_primitive or not wants_primitive):
        return f"{named} is what the ray hit, at t = {number(result.t)}"
    of_instance = events["instance"] == instance
    skipped = np.flatnonzero(of_instance & (events["kind"] == EventKind.INSTANCE_SKIPPED))
    if len(skipped):
        return f"{named} was never entered: {_instance(log, int(skipped[0]))} [{rule_of(log, int(skipped[0]))}]"
    if not np.any(of_instance & (events["kind"] == EventKind.INSTANCE_ENTERED)):
        return f"{named} was never reached: {_lost_on_the_way(log, TOP_LEVEL, instance, -1, instance)}"
    candidate = of_instance & np.isin(events["kind"], (EventKind.CANDIDATE, EventKind.REPORT))
    if wants_primitive:
        candidate &= (events["geometry"] == geometry) & (events["primitive"] == primitive)
    found = np.flatnonzero(candidate)
    if wants_primitive and not len(found):
        blas = world.blas_of_instance(instance)
        return f"{named} was never tested: {_lost_on_the_way(log, blas, geometry, primitive, instance)}"
    if not len(found):
        return f"{named} was entered, but the ray came to none of its primitives"
    return f"{named}: {_fate(log, found, wants_primitive)}"


def _fate(log: RayLog, found: np.ndarray, wants_primitive: bool) -> str:  # type: ignore[type-arg]
    """What became of candidates: the last accepted one was replaced, else the verdict, or the most frequent ones."""
    verdicts = log.events["verdict"][found]
    accepted = found[np.isin(verdicts, ACCEPTED)]
    if len(accepted):
        t = number(log.events["t"][accepted[-1]])
        return f"it was committed at t = {t}, then a nearer hit at t = {number(log.result.t)} replaced it [RAY-7]"
    last = int(found[-1])
    if wants_primitive or len(found) == 1:
        return f"{_candidate(log, last)} [{rule_of(log, last)}]"
    values, counts = np.unique(verdicts, return_counts=True)
    ranked = sorted(zip(counts, values, strict=True), reverse=True)
    return f"{len(found)} candidates were tested: " + ", ".join(
        f"{count} {VERDICTS[Verdict(int(value))].text}" for count, value in ranked
    )


def _lost_on_the_way(log: RayLog, structure: int, first: int, second: int, instance: int) -> str:
    """The node above an item at which the walk turned away, or that the walk ended before it."""
    world, events = log.world, log.events
    tree = world.tree(structure)
    leaf = tree.box_of_item(first, second)
    if leaf < 0 and structure == TOP_LEVEL:
        return "it has no bottom-level structure that could be hit, so it is inactive and not in the tree [INST-2]"
    if leaf < 0:
        return "it is inactive or degenerate input and not in the tree [INA-1]"
    here = (events["kind"] == EventKind.NODE_SKIPPED) & (events["level"] == (0 if structure == TOP_LEVEL else 1))
    if structure != TOP_LEVEL:
        here &= events["instance"] == instance
    path = set(tree.path_to_root(leaf))
    for index in np.flatnonzero(here):
        box = tree.box_of(int(events["node"][index]), int(events["lane"][index]))
        if box in path:
            return f"{_node(log, int(index), box)} [{rule_of(log, int(index))}]"
    if log.truncated:
        return "the log ends before it"
    return "the search ended before it"
