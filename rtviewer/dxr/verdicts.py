"""The closed lists of a ray's log: kinds of event, and the one verdict each candidate gets.

Verdicts stand in the order in which the tests are made (CULL-5): a candidate that fails several gets the first. Values
are written by the compiled walk, so they never change meaning; new ones are appended.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np


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
    Verdict.BOX_MISSED: VerdictMeaning("box missed", "TRI-7", "missed"),
    Verdict.BOX_BEYOND_CURRENT_END: VerdictMeaning("box beyond the current end", "TRI-7", "interval"),
    Verdict.EMPTY_STRUCTURE: VerdictMeaning("bottom-level structure is empty", "BLD-11", "excluded"),
}


class Counter(IntEnum):
    """Per-ray counters: column numbers of the counter array. Each is defined once, here."""

    TLAS_NODES_VISITED = 0
    BLAS_NODES_VISITED = 1
    BOX_TESTS = 2
    BOX_HITS = 3
    INSTANCES_ENTERED = 4
    INSTANCES_REJECTED = 5
    TRIANGLE_TESTS = 6
    TRIANGLE_HITS = 7
    PROCEDURAL_TESTS = 8
    PROCEDURAL_REPORTS = 9
    ANY_HIT_CALLS = 10
    COMMITS = 11
    REJECTED_CULLED = 12
    REJECTED_MISSED = 13
    REJECTED_FACING = 14
    REJECTED_INTERVAL = 15
    STACK_HIGH_WATER = 16


COUNTER_MEANINGS: dict[Counter, str] = {
    Counter.TLAS_NODES_VISITED: "top-level nodes whose children were tested",
    Counter.BLAS_NODES_VISITED: "bottom-level nodes whose children were tested",
    Counter.BOX_TESTS: "child boxes tested, one per occupied child of a visited node",
    Counter.BOX_HITS: "child boxes that the ray meets inside its current interval",
    Counter.INSTANCES_ENTERED: "instances whose bottom-level structure was walked",
    Counter.INSTANCES_REJECTED: "instances reached but not entered (mask, type skip, opacity cull, inactive, singular)",
    Counter.TRIANGLE_TESTS: "triangles tested",
    Counter.TRIANGLE_HITS: "triangles that the ray's line meets, before facing and interval",
    Counter.PROCEDURAL_TESTS: "procedural boxes tested",
    Counter.PROCEDURAL_REPORTS: "hits reported by intersection programs",
    Counter.ANY_HIT_CALLS: "any-hit invocations",
    Counter.COMMITS: "hits committed",
    Counter.REJECTED_CULLED: "candidates culled by opacity inside an entered instance",
    Counter.REJECTED_MISSED: "candidates that the ray's line misses",
    Counter.REJECTED_FACING: "triangle hits culled by facing",
    Counter.REJECTED_INTERVAL: "hits outside the current interval, or ties lost",
    Counter.STACK_HIGH_WATER: "most entries on the traversal stack at one time",
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
