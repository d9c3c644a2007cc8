"""Sentences for a ray's log: what an event means, with the numbers that decided it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rtviewer.dxr.flags import GeometryFlag, GeometryType, InstanceFlag
from rtviewer.dxr.programs import program_name
from rtviewer.dxr.rules import Opacity, effective_opacity
from rtviewer.dxr.verdicts import VERDICTS, EventKind, Verdict
from rtviewer.scene.primitives import invert_transforms, transform_directions, transform_points
from rtviewer.session.hit_records import NO_ANY_HIT, record_of

if TYPE_CHECKING:
    from rtviewer.session.document import World
    from rtviewer.session.raylog import RayLog

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
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    return str(np.float32(value))


def distance(first: float, second: float) -> str:
    """How far two float32 are apart, in four digits."""
    return f"{abs(float(first) - float(second)):.4g}"


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
        return node_sentence(log, index, box)
    if kind in (EventKind.INSTANCE_ENTERED, EventKind.INSTANCE_SKIPPED):
        return f"instance {int(event['instance'])}: {instance_sentence(log, index)}"
    if kind is EventKind.REPEATED:
        again = "its intersection program runs" if is_procedural(log, index) else "any-hit may be called"
        return f"{primitive_name(log, index)}: {again} once more, by the switch that repeats calls"
    what = "report of" if kind is EventKind.REPORT else "candidate"
    return f"{what} {primitive_name(log, index)}: {candidate_sentence(log, index)}"


def node_sentence(log: RayLog, index: int, box: int) -> str:
    """Why a node was or was not entered, with its slab interval and the ray's end."""
    event = log.events[index]
    verdict = Verdict(int(event["verdict"]))
    low, high, end = number(event["t"]), number(event["t_exit"]), number(event["t_current"])
    if verdict is Verdict.BOX_MISSED:
        why = missed_slabs(float(event["t"]), float(event["t_exit"]), log.rays.t_min)
        return f"node {box}: the ray does not meet its box after TMin {number(log.rays.t_min)}: {why}"
    if verdict is Verdict.BOX_BEYOND_CURRENT_END:
        by = _by(event["t"], event["t_current"])
        return f"node {box}: its box begins at t = {low}, beyond the current end {end}{by}, {end_cause(log, index)}"
    if box == 0 and int(event["node"]) < 0:
        return f"root node entered, whatever its box: the ray goes from t = {low} to {end}"
    return f"node {box} entered: the ray is in its box from t = {low} to {high}, and ends at {end}"


def missed_slabs(entry: float, leave: float, t_min: float) -> str:
    """Why a slab interval is empty: ``entry`` is the last plane pair entered or TMin, ``leave`` the first one left."""
    if not (math.isfinite(entry) and math.isfinite(leave)):
        return "it runs beside one of the box's three pairs of planes"
    if entry <= np.float32(t_min):
        return f"it has left the box's planes at t = {number(leave)}"
    return f"it leaves one pair of the box's planes at t = {number(leave)} and reaches another only at {number(entry)}"


def end_cause(log: RayLog, index: int) -> str:
    """Who set the ray's end that an event was judged against: the hit committed last before it, or TMax."""
    before = log.playback.commits
    place = int(np.searchsorted(before, index)) - 1
    return f"set by the hit of {item_of(log, int(before[place]))}" if place >= 0 else "the ray's TMax"


def item_of(log: RayLog, index: int) -> str:
    """``instance 3, geometry 0, primitive 5`` of a candidate's event."""
    event = log.events[index]
    return f"instance {int(event['instance'])}, geometry {int(event['geometry'])}, primitive {int(event['primitive'])}"


def instance_sentence(log: RayLog, index: int) -> str:
    """Why an instance was or was not entered."""
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
        return inactive_instance(log.world, instance)
    if verdict is Verdict.MASK_EXCLUDED:
        return f"mask 0x{mask:02X} AND ray mask 0x{log.rays.mask & 0xFF:02X} is 0"
    if verdict is Verdict.SINGULAR_TRANSFORM:
        determinant = float(np.linalg.det(desc["Transform"].reshape(3, 4)[:, :3].astype(np.float64)))
        return f"its transform cannot be inverted (determinant {determinant:.4g}), so there is no object-space ray"
    if verdict is Verdict.OBJECT_RAY_NOT_FINITE:
        return _overflow(log, desc["Transform"].reshape(3, 4))
    if verdict is Verdict.TRIANGLES_SKIPPED:
        return f"the ray has SKIP_TRIANGLES and the instance holds triangles (those of {name})"
    if verdict is Verdict.PROCEDURALS_SKIPPED:
        return f"the ray has SKIP_PROCEDURAL_PRIMITIVES and the instance holds procedural primitives (those of {name})"
    if verdict in (Verdict.CULLED_OPAQUE, Verdict.CULLED_NON_OPAQUE):
        return _opacity_cull(verdict, flags, "all its geometry")
    if verdict is Verdict.EMPTY_STRUCTURE:
        header = log.world.blases[blas].header
        inputs, active = int(header["input_count"]), int(header["active_count"])
        return f"{name} holds nothing that can be hit: of its {inputs:,} primitives {active:,} are active"
    return VERDICTS[verdict].text


def inactive_instance(world: World, instance: int) -> str:
    """Why an instance without a structure is never hit (INST-2); also of those that no tree holds."""
    address = int(world.tlas.instance_descs["AccelerationStructure"][instance])
    return f"it has no bottom-level structure (address {address:#x}), so it is inactive"


def _overflow(log: RayLog, transform: np.ndarray) -> str:  # type: ignore[type-arg]
    """The object-space ray that is beyond float32 (INST-9)."""
    matrix = invert_transforms(transform[None].astype(np.float32))[0][0]
    with np.errstate(all="ignore"):
        origin = transform_points(matrix, np.asarray([log.origin], np.float32))[0]
        direction = transform_directions(matrix, np.asarray([log.direction], np.float32))[0]
    parts = [f"{name} ({', '.join(number(v) for v in values)})" for name, values in
             (("origin", origin), ("direction", direction)) if not np.isfinite(values).all()]  # fmt: skip
    return f"the ray overflows float32 in its object space: {' and '.join(parts)}"


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


def primitive_name(log: RayLog, index: int) -> str:
    """``triangle 5 of geometry 0``, or ``box`` of a procedural."""
    event = log.events[index]
    what = "box" if is_procedural(log, index) else "triangle"
    return f"{what} {int(event['primitive'])} of geometry {int(event['geometry'])}"


def candidate_sentence(log: RayLog, index: int) -> str:
    """What became of a candidate or report, and by which numbers."""
    event = log.events[index]
    verdict = Verdict(int(event["verdict"]))
    procedural = is_procedural(log, index)
    t, end = number(event["t"]), number(event["t_current"])
    if verdict is Verdict.NONE:
        return "its intersection program runs" if procedural else "tested"
    if verdict is Verdict.MISSED:
        return _missed_box(log, index) if procedural else _missed_triangle(log, index)
    if verdict in (Verdict.CULLED_OPAQUE, Verdict.CULLED_NON_OPAQUE):
        instance = int(event["instance"])
        flags = int(log.world.tlas.instance_descs["InstanceContributionAndFlags"][instance]) >> 24
        blas = log.world.blases[log.world.blas_of_instance(instance)]
        geometry = GeometryFlag(int(blas.geometries["flags"][int(event["geometry"])]))
        return _opacity_cull(verdict, InstanceFlag(flags), "it", geometry)
    if verdict is Verdict.BACK_FACE_CULLED:
        return f"seen from behind at t = {t}{_turned(log, index)} and the ray has CULL_BACK_FACING_TRIANGLES"
    if verdict is Verdict.FRONT_FACE_CULLED:
        return f"seen from the front at t = {t}{_turned(log, index)} and the ray has CULL_FRONT_FACING_TRIANGLES"
    if verdict is Verdict.AT_OR_BEFORE_T_MIN and math.isnan(float(event["t"])):
        return "t is NaN, which is never inside the interval"
    if verdict is Verdict.AT_OR_BEFORE_T_MIN:
        by = _by(event["t"], log.rays.t_min)
        return f"t = {t} is {'before' if procedural else 'at or before'} TMin {number(log.rays.t_min)}{by}"
    if verdict is Verdict.AT_OR_BEYOND_CURRENT_END:
        by = _by(event["t"], event["t_current"])
        side = "beyond" if procedural else "at or beyond"
        return f"t = {t} is {side} the current end {end}{by}, {end_cause(log, index)}"
    if verdict is Verdict.TIE_LOST:
        return f"t = {t} equals that of the committed hit, which goes first: {_winner(log, index, procedural)}"
    if verdict is Verdict.NOTHING_REPORTED:
        entry, leave = number(event["t"]), number(event["t_exit"])
        return f"the ray is in it from t = {entry} to {leave}; {_program(log, index, True)} reported no hit"
    if verdict is Verdict.RETURNED_TO_CALLER:
        return f"Proceed() returns it to the caller, at t = {t}"
    if verdict is Verdict.HIT_GROUP_FAULT:
        return VERDICTS[verdict].text
    if _acts_opaque(log, index):
        ends = ", and ACCEPT_FIRST_HIT_AND_END_SEARCH ends the search"
        return f"t = {t}, {NO_ANY_HIT}; committed" + (ends if verdict is Verdict.FIRST_HIT_ENDED_SEARCH else "")
    return f"t = {t}, " + OF_HITS[verdict].format(program=_program(log, index, False))


def _program(log: RayLog, index: int, is_intersection: bool) -> str:
    """Name of the any-hit or intersection program that a candidate's record, or the ray, names."""
    event = log.events[index]
    record = record_of(log.world, log.rays, int(event["instance"]), int(event["geometry"]))
    if not is_intersection:
        return record.any_hit if record is not None else program_name(log.rays.any_hit)
    name = record.intersection if record is not None else program_name(log.rays.intersection)
    return f"intersection program {name}" if name else "its record has no intersection shader, which"


def _by(value: float, limit: float) -> str:
    """How far a t is outside, where that is any distance."""
    return f" (by {distance(value, limit)})" if math.isfinite(value) and value != np.float32(limit) else ""


def _turned(log: RayLog, index: int) -> str:
    """The instance's flag that took part in the decision which side is the front (FACE-2)."""
    instance = int(log.events["instance"][index])
    flags = InstanceFlag(int(log.world.tlas.instance_descs["InstanceContributionAndFlags"][instance]) >> 24)
    turned = flags & InstanceFlag.TRIANGLE_FRONT_COUNTERCLOCKWISE
    return f" (the instance has {InstanceFlag.TRIANGLE_FRONT_COUNTERCLOCKWISE.name})" if turned else ""


def _winner(log: RayLog, index: int, procedural: bool) -> str:
    """The committed hit that keeps its place at equal t (DET-5)."""
    before = log.playback.commits
    place = int(np.searchsorted(before, index)) - 1
    if place < 0:
        return "it came first"
    held = int(before[place])
    if is_procedural(log, held) != procedural:
        return f"{item_of(log, held)} is procedural"
    return f"{item_of(log, held)} has the {'smaller' if procedural else 'larger'} indices"


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


def _missed_box(log: RayLog, index: int) -> str:
    """Where the ray's line is in a procedural box, against the ray's whole interval (PROC-1)."""
    event = log.events[index]
    entry, leave = float(event["t"]), float(event["t_exit"])
    if not entry <= leave:
        return f"the ray does not meet it inside its interval: {missed_slabs(entry, leave, -math.inf)}"
    interval = f"{number(log.rays.t_min)} to {number(log.rays.t_max)}"
    return f"the ray is in it from t = {number(entry)} to {number(leave)}, outside its interval {interval}"


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
    return "it is degenerate: it has no area, so no ray hits it"
