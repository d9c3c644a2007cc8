"""What is counted along a ray, defined once: heat maps, read-out, command line, JSON and arrays are made from it.

A counter is a column of the counter array (``trace.request.TraceResult.counters``). Columns never change meaning; new
ones are appended.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import NamedTuple


@unique
class Counter(IntEnum):
    """Per-ray counters: column numbers of the counter array."""

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
    # The reasons behind INSTANCES_REJECTED.
    INSTANCES_MASK_EXCLUDED = 17
    INSTANCES_TYPE_SKIPPED = 18
    INSTANCES_OPACITY_CULLED = 19
    INSTANCES_UNUSABLE = 20
    # The reasons behind REJECTED_CULLED, REJECTED_FACING and REJECTED_INTERVAL, and those that have none above them.
    REJECTED_OPAQUE = 21
    REJECTED_NON_OPAQUE = 22
    REJECTED_BACK_FACE = 23
    REJECTED_FRONT_FACE = 24
    REJECTED_BEFORE_T_MIN = 25
    REJECTED_BEYOND_END = 26
    REJECTED_TIE_LOST = 27
    REJECTED_NOTHING_REPORTED = 28
    REJECTED_ANY_HIT_IGNORED = 29

    @property
    def key(self) -> str:
        """Its name in JSON, arrays and as a mode of the image."""
        return self.name.lower()


class CounterMeaning(NamedTuple):
    """``label`` is short; ``unit`` is what one of it is; ``rule`` is the rule that decides it, empty where the
    specification leaves it to us (how a structure is walked)."""

    label: str
    unit: str
    text: str
    rule: str = ""

    @property
    def tip(self) -> str:
        """The text with its rule, for tooltips and tables."""
        return self.text[0].upper() + self.text[1:] + (f" [{self.rule}]" if self.rule else "")


COUNTERS: dict[Counter, CounterMeaning] = {
    Counter.TLAS_NODES_VISITED: CounterMeaning("TLAS nodes", "nodes", "top-level nodes whose children were tested"),
    Counter.BLAS_NODES_VISITED: CounterMeaning("BLAS nodes", "nodes", "bottom-level nodes whose children were tested"),
    Counter.BOX_TESTS: CounterMeaning(
        "Box tests", "boxes", "child boxes tested, one per occupied child of a visited node"
    ),
    Counter.BOX_HITS: CounterMeaning(
        "Box hits", "boxes", "child boxes that the ray meets inside its current interval", "TRI-7"
    ),
    Counter.INSTANCES_ENTERED: CounterMeaning(
        "Inst. entered", "instances", "instances whose bottom-level structure was walked", "TRAV-1"
    ),
    Counter.INSTANCES_REJECTED: CounterMeaning(
        "Inst. rejected", "instances", "instances reached but not entered (mask, type, opacity, unusable)", "CULL-5"
    ),
    Counter.TRIANGLE_TESTS: CounterMeaning("Tri. tests", "triangles", "triangles tested", "TRI-1"),
    Counter.TRIANGLE_HITS: CounterMeaning(
        "Tri. hits", "triangles", "triangles that the ray's line meets, before facing and interval", "TRI-5"
    ),
    Counter.PROCEDURAL_TESTS: CounterMeaning("Proc. tests", "boxes", "procedural boxes tested", "PROC-2"),
    Counter.PROCEDURAL_REPORTS: CounterMeaning(
        "Proc. reports", "hits", "hits reported by intersection programs", "PROC-2"
    ),
    Counter.ANY_HIT_CALLS: CounterMeaning("Any-hit calls", "calls", "any-hit invocations", "AH-1"),
    Counter.COMMITS: CounterMeaning("Commits", "hits", "hits committed", "TRAV-1"),
    Counter.REJECTED_CULLED: CounterMeaning(
        "Rej. opacity", "candidates", "candidates culled by opacity inside an entered instance", "CULL-2"
    ),
    Counter.REJECTED_MISSED: CounterMeaning("Rej. missed", "candidates", "candidates that the ray misses", "TRI-5"),
    Counter.REJECTED_FACING: CounterMeaning("Rej. facing", "candidates", "triangle hits culled by facing", "CULL-3"),
    Counter.REJECTED_INTERVAL: CounterMeaning(
        "Rej. interval", "candidates", "hits outside the current interval, or ties lost", "RAY-6"
    ),
    Counter.STACK_HIGH_WATER: CounterMeaning(
        "Stack max", "entries", "most entries on the traversal stack at one time"
    ),
    Counter.INSTANCES_MASK_EXCLUDED: CounterMeaning(
        "Inst. mask", "instances", "instances not entered: mask AND ray mask is 0", "MASK-1"
    ),
    Counter.INSTANCES_TYPE_SKIPPED: CounterMeaning(
        "Inst. type skip", "instances", "instances not entered: their kind of geometry is skipped", "CULL-1"
    ),
    Counter.INSTANCES_OPACITY_CULLED: CounterMeaning(
        "Inst. opacity", "instances", "instances not entered: opacity culls all of their geometry", "OPQ-3"
    ),
    Counter.INSTANCES_UNUSABLE: CounterMeaning(
        "Inst. unusable", "instances", "instances not entered: no or an empty structure, or no inverse transform",
        "INST-2",
    ),
    Counter.REJECTED_OPAQUE: CounterMeaning("Rej. opaque", "candidates", "candidates culled as opaque", "OPQ-3"),
    Counter.REJECTED_NON_OPAQUE: CounterMeaning(
        "Rej. non-opaque", "candidates", "candidates culled as non-opaque", "OPQ-3"
    ),
    Counter.REJECTED_BACK_FACE: CounterMeaning(
        "Rej. back face", "candidates", "triangle hits culled as back faces", "CULL-3"
    ),
    Counter.REJECTED_FRONT_FACE: CounterMeaning(
        "Rej. front face", "candidates", "triangle hits culled as front faces", "CULL-3"
    ),
    Counter.REJECTED_BEFORE_T_MIN: CounterMeaning(
        "Rej. t ≤ TMin", "candidates", "hits at or before TMin", "RAY-6"
    ),
    Counter.REJECTED_BEYOND_END: CounterMeaning(
        "Rej. t ≥ end", "candidates", "hits at or beyond the ray's current end", "RAY-6"
    ),
    Counter.REJECTED_TIE_LOST: CounterMeaning(
        "Rej. tie lost", "candidates", "hits at the t of the committed one that lost the tie", "DET-5"
    ),
    Counter.REJECTED_NOTHING_REPORTED: CounterMeaning(
        "Rej. no report", "candidates", "boxes whose intersection program reported nothing", "PROC-2"
    ),
    Counter.REJECTED_ANY_HIT_IGNORED: CounterMeaning(
        "Rej. any-hit", "candidates", "hits that an any-hit program ignored", "AH-5"
    ),
}  # fmt: skip

COUNTER_MEANINGS: dict[Counter, str] = {counter: meaning.text for counter, meaning in COUNTERS.items()}


class XRayCounter(NamedTuple):
    """Sums of columns of a ray's x-ray: the walk that nothing shortens (``trace.request.TraceSettings.x_ray``)."""

    name: str
    columns: tuple[Counter, ...]
    meaning: CounterMeaning

    @property
    def key(self) -> str:
        return f"x_ray_{self.name}"


X_RAY_COUNTERS: tuple[XRayCounter, ...] = (
    XRayCounter(
        "surfaces", (Counter.COMMITS,),
        CounterMeaning(
            "X-ray surf.", "surfaces", "depth complexity: hits of the whole ray that pass mask, flags, interval and "
            "any-hit, whatever lies nearer", "TRAV-1",
        ),
    ),
    XRayCounter(
        "candidates", (Counter.TRIANGLE_TESTS, Counter.PROCEDURAL_TESTS),
        CounterMeaning(
            "X-ray cand.", "primitives", "triangles and procedural boxes tested along the whole ray", "TRAV-1"
        ),
    ),
    XRayCounter(
        "instances", (Counter.INSTANCES_ENTERED,),
        CounterMeaning("X-ray inst.", "instances", "instances entered along the whole ray", "TRAV-1"),
    ),
    XRayCounter(
        "nodes", (Counter.TLAS_NODES_VISITED, Counter.BLAS_NODES_VISITED),
        CounterMeaning("X-ray nodes", "nodes", "nodes of both levels whose children were tested along the whole ray"),
    ),
    XRayCounter(
        "any_hit_calls", (Counter.ANY_HIT_CALLS,),
        CounterMeaning("X-ray any-hit", "calls", "any-hit invocations along the whole ray", "AH-1"),
    ),
)  # fmt: skip
"""What an x-ray shows. Each is at least what the ray itself has: the difference is what its hits save, or hide."""
