"""The closed lists of a ray's log: kinds of event, and the one verdict each candidate gets.

Verdicts stand in the order in which the tests are made (CULL-5): a candidate that fails several gets the first. Values
are written by the compiled walk, so they never change meaning; new ones are appended.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import NamedTuple

import numpy as np

from rtviewer.dxr.counters import COUNTER_MEANINGS as COUNTER_MEANINGS
from rtviewer.dxr.counters import Counter as Counter


@unique
class EventKind(IntEnum):
    """What happened at one step of the walk."""

    NODE_ENTERED = 0
    NODE_SKIPPED = 1
    INSTANCE_ENTERED = 2
    INSTANCE_SKIPPED = 3
    CANDIDATE = 4
    REPORT = 5
    """An intersection program reported a hit; the verdict says what became of it."""
    REPEATED = 6
    """The debug switch offers the candidate again: any-hit or the intersection program is called once more (AH-7,
    PROC-8). What follows is that second call."""


@unique
class Verdict(IntEnum):
    NONE = 0
    """The event is no candidate, or a node or an instance that was entered."""
    INACTIVE_INSTANCE = 1
    MASK_EXCLUDED = 2
    SINGULAR_TRANSFORM = 3
    TRIANGLES_SKIPPED = 4
    PROCEDURALS_SKIPPED = 5
    CULLED_OPAQUE = 6
    CULLED_NON_OPAQUE = 7
    MISSED = 8
    BACK_FACE_CULLED = 9
    FRONT_FACE_CULLED = 10
    AT_OR_BEFORE_T_MIN = 11
    AT_OR_BEYOND_CURRENT_END = 12
    TIE_LOST = 13
    NOTHING_REPORTED = 14
    ANY_HIT_ACCEPTED = 15
    ANY_HIT_IGNORED = 16
    ANY_HIT_ENDED_SEARCH = 17
    COMMITTED = 18
    FIRST_HIT_ENDED_SEARCH = 19
    BOX_MISSED = 20
    """A node: the ray does not meet the box."""
    BOX_BEYOND_CURRENT_END = 21
    """A node: the ray meets the box only beyond its current end."""
    EMPTY_STRUCTURE = 22
    """An instance whose bottom-level structure holds nothing that can be hit."""
    ANY_HIT_ACCEPTED_FIRST_HIT_ENDED_SEARCH = 23
    OBJECT_RAY_NOT_FINITE = 24
    """An instance: its transform makes the ray overflow."""
    HIT_GROUP_FAULT = 25
    """The candidate's hit-group record is outside the table or of the other kind: an error that ends the ray."""
    RETURNED_TO_CALLER = 26
    """An inline query's candidate: Proceed() returns true."""
    SURFACE_PASSED = 27
    """A hit that would be committed were nothing nearer; an x-ray counts it and goes on."""


ANY_HIT_RAN = frozenset(
    {
        Verdict.ANY_HIT_ACCEPTED,
        Verdict.ANY_HIT_IGNORED,
        Verdict.ANY_HIT_ENDED_SEARCH,
        Verdict.ANY_HIT_ACCEPTED_FIRST_HIT_ENDED_SEARCH,
    }
)


class VerdictMeaning(NamedTuple):
    text: str
    rule: str
    family: str
    """``entered``, ``excluded``, ``missed``, ``interval`` or ``accepted``: one colour each, in log, 3D and legend."""


VERDICTS: dict[Verdict, VerdictMeaning] = {
    Verdict.NONE: VerdictMeaning("entered", "RAY-11", "entered"),
    Verdict.INACTIVE_INSTANCE: VerdictMeaning("instance has no bottom-level structure", "INST-2", "excluded"),
    Verdict.MASK_EXCLUDED: VerdictMeaning("mask excluded", "MASK-1", "excluded"),
    Verdict.SINGULAR_TRANSFORM: VerdictMeaning("transform cannot be inverted", "INST-5", "excluded"),
    Verdict.OBJECT_RAY_NOT_FINITE: VerdictMeaning("the ray overflows in object space", "RAY-5", "excluded"),
    Verdict.RETURNED_TO_CALLER: VerdictMeaning("returned to the caller of Proceed()", "INL-2", "entered"),
    Verdict.HIT_GROUP_FAULT: VerdictMeaning(
        "hit-group record outside the table or of the other kind", "HG-4", "excluded"
    ),
    Verdict.TRIANGLES_SKIPPED: VerdictMeaning("triangles skipped", "CULL-1", "excluded"),
    Verdict.PROCEDURALS_SKIPPED: VerdictMeaning("procedural primitives skipped", "CULL-1", "excluded"),
    Verdict.CULLED_OPAQUE: VerdictMeaning("culled as opaque", "OPQ-3", "excluded"),
    Verdict.CULLED_NON_OPAQUE: VerdictMeaning("culled as non-opaque", "OPQ-3", "excluded"),
    Verdict.MISSED: VerdictMeaning("missed", "TRI-5", "missed"),
    Verdict.BACK_FACE_CULLED: VerdictMeaning("back face culled", "CULL-3", "excluded"),
    Verdict.FRONT_FACE_CULLED: VerdictMeaning("front face culled", "CULL-3", "excluded"),
    Verdict.AT_OR_BEFORE_T_MIN: VerdictMeaning("t at or before TMin", "RAY-6", "interval"),
    Verdict.AT_OR_BEYOND_CURRENT_END: VerdictMeaning("t at or beyond the current end", "RAY-6", "interval"),
    Verdict.TIE_LOST: VerdictMeaning("tie lost", "DET-5", "interval"),
    Verdict.NOTHING_REPORTED: VerdictMeaning("intersection program reported nothing", "PROC-2", "missed"),
    Verdict.ANY_HIT_ACCEPTED: VerdictMeaning("any-hit accepted, committed", "AH-1", "accepted"),
    Verdict.ANY_HIT_IGNORED: VerdictMeaning("any-hit ignored", "AH-5", "excluded"),
    Verdict.ANY_HIT_ENDED_SEARCH: VerdictMeaning("any-hit accepted and ended the search", "AH-6", "accepted"),
    Verdict.COMMITTED: VerdictMeaning("committed", "OPQ-6", "accepted"),
    Verdict.FIRST_HIT_ENDED_SEARCH: VerdictMeaning("committed, first hit ended the search", "ACC-1", "accepted"),
    Verdict.ANY_HIT_ACCEPTED_FIRST_HIT_ENDED_SEARCH: VerdictMeaning(
        "any-hit accepted, first hit ended the search", "ACC-1", "accepted"
    ),
    Verdict.SURFACE_PASSED: VerdictMeaning("surface, the x-ray goes on", "TRAV-1", "accepted"),
    Verdict.BOX_MISSED: VerdictMeaning("box missed", "TRI-7", "missed"),
    Verdict.BOX_BEYOND_CURRENT_END: VerdictMeaning("box beyond the current end", "TRI-7", "interval"),
    Verdict.EMPTY_STRUCTURE: VerdictMeaning("bottom-level structure is empty", "BLD-11", "excluded"),
}


REASONS: dict[Verdict, Counter] = {
    Verdict.MASK_EXCLUDED: Counter.INSTANCES_MASK_EXCLUDED,
    Verdict.INACTIVE_INSTANCE: Counter.INSTANCES_UNUSABLE,
    Verdict.EMPTY_STRUCTURE: Counter.INSTANCES_UNUSABLE,
    Verdict.SINGULAR_TRANSFORM: Counter.INSTANCES_UNUSABLE,
    Verdict.OBJECT_RAY_NOT_FINITE: Counter.INSTANCES_UNUSABLE,
    Verdict.BACK_FACE_CULLED: Counter.REJECTED_BACK_FACE,
    Verdict.FRONT_FACE_CULLED: Counter.REJECTED_FRONT_FACE,
    Verdict.AT_OR_BEFORE_T_MIN: Counter.REJECTED_BEFORE_T_MIN,
    Verdict.AT_OR_BEYOND_CURRENT_END: Counter.REJECTED_BEYOND_END,
    Verdict.TIE_LOST: Counter.REJECTED_TIE_LOST,
    Verdict.NOTHING_REPORTED: Counter.REJECTED_NOTHING_REPORTED,
    Verdict.ANY_HIT_IGNORED: Counter.REJECTED_ANY_HIT_IGNORED,
}
"""The counter of each verdict that takes something away, alike for instances and candidates; ``INSTANCE_REASONS`` and
``CANDIDATE_REASONS`` add those that differ."""

INSTANCE_REASONS: dict[Verdict, Counter] = REASONS | {
    Verdict.TRIANGLES_SKIPPED: Counter.INSTANCES_TYPE_SKIPPED,
    Verdict.PROCEDURALS_SKIPPED: Counter.INSTANCES_TYPE_SKIPPED,
    Verdict.CULLED_OPAQUE: Counter.INSTANCES_OPACITY_CULLED,
    Verdict.CULLED_NON_OPAQUE: Counter.INSTANCES_OPACITY_CULLED,
}

CANDIDATE_REASONS: dict[Verdict, Counter] = REASONS | {
    Verdict.CULLED_OPAQUE: Counter.REJECTED_OPAQUE,
    Verdict.CULLED_NON_OPAQUE: Counter.REJECTED_NON_OPAQUE,
}

EVENT = np.dtype(
    [
        ("kind", "u1"),
        ("level", "u1"),
        ("verdict", "u1"),
        ("hit_kind", "u1"),
        ("instance", "<i4"),
        ("node", "<i4"),
        ("lane", "<i4"),
        ("geometry", "<i4"),
        ("primitive", "<i4"),
        ("stack_size", "<i4"),
        ("t", "<f4"),
        ("t_exit", "<f4"),
        ("t_current", "<f4"),
        ("u", "<f4"),
        ("v", "<f4"),
        ("w", "<f4"),
    ]
)
"""One row of a ray's log.

``kind`` EventKind, ``verdict`` Verdict, ``level`` 0 top, 1 bottom. ``node`` and ``lane``: the node whose child ``lane``
the event is about (a node event), or the node that led here (-1 for the root). ``t`` and ``t_exit``: slab interval of a
box, or in ``t`` the candidate's t. ``t_current``: the ray's end when the test was made. ``u``, ``v``, ``w``: scaled
edge values of a triangle, (V, W, U)/det, of which u, v are the barycentrics of a hit and the sign tells the failing
edge of a miss; attributes of a procedural. Indices that do not apply are -1.
"""
