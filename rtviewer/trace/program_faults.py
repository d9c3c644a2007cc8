"""What a trace refuses about programs and hit-group records: before it starts, and what a walk met on its way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.limits import MAX_HIT_KIND
from rtviewer.dxr.programs import (
    FIRST_USER_PROGRAM,
    QUERY,
    AnyHitProgram,
    IntersectionProgram,
    ProgramKind,
    ProgramTable,
)
from rtviewer.errors import InvalidInputError, Violation, violation

CALL = "TraceRay"


def check_programs(
    any_hit: NDArray[np.uint32], intersection: NDArray[np.uint32], programs: ProgramTable, *, inline: bool
) -> None:
    """InvalidInputError for a number without a program of its kind (TRAV-5), and for a TraceRay call where the file of
    programs declares a recursion depth of 0 (LIM-6)."""
    found: list[Violation] = []
    for kind, numbers, table in (
        (ProgramKind.ANY_HIT, any_hit, AnyHitProgram),
        (ProgramKind.INTERSECTION, intersection, IntersectionProgram),
    ):
        own = [FIRST_USER_PROGRAM + i for i, program in enumerate(programs.programs) if program.kind is kind]
        unknown = np.setdiff1d(numbers, [QUERY] if inline else [*(int(p) for p in table), *own])
        if len(unknown):
            text = f"there is no {kind.word} program {int(unknown[0])}: use 0 to {len(table) - 1}"
            text += f", or {own[0]} to {own[-1]} of {programs.file}" if own else ""
            found.append(violation("TRAV-5", text, field=kind.word, value=int(unknown[0])))
    if programs.max_recursion_depth == 0 and not inline:
        text = f"{programs.file} declares MAX_TRACE_RECURSION_DEPTH 0, so no ray may be traced: a TraceRay call needs 1"
        found.append(violation("LIM-6", text, field="MAX_TRACE_RECURSION_DEPTH", value=0))
    if found:
        raise InvalidInputError(found, CALL)


def raise_fault(ray: int, word: int, programs: ProgramTable) -> None:
    """InvalidInputError for a ray that met a hit-group record it may not use (HG-4, TRAV-5) or a user's program that
    did what it may not (HK-1, TRAV-1). ``word``: a fault word of ``kernels.state``, 0 for none."""
    if word:
        raise InvalidInputError([fault_violation(ray, word, programs)], CALL)


def fault_violation(ray: int, word: int, programs: ProgramTable) -> Violation:
    """A fault word of ``kernels.state`` in words."""
    from rtviewer.kernels import state

    fault, rest = word & 0xFF, word >> state.FAULT_BITS
    value = word >> state.FAULT_VALUE_BITS
    place = rest & ((1 << (state.FAULT_VALUE_BITS - state.FAULT_BITS)) - 1)
    name = programs.name_of(FIRST_USER_PROGRAM + place)
    where: dict[str, Any] = {"field": "HitGroupIndex", "value": rest, "section": "Hit group table indexing"}
    own: dict[str, Any] = {"field": name, "value": value, "section": "TraceRay control flow"}
    table: dict[int, tuple[str, str, dict[str, Any]]] = {
        state.FAULT_OUTSIDE_TABLE: ("HG-4", "the hit-group index is outside the table", where),
        state.FAULT_WRONG_TYPE: (
            "TRAV-5", "the hit group is of the other kind than the geometry (triangles or procedural)", where,
        ),
        state.FAULT_UNKNOWN_ACTION: (
            "TRAV-1", f"any-hit program {name!r} of {programs.file} returned an unknown action: 0 ignores the hit, "
            "1 accepts it, 2 accepts it and ends the search", own,
        ),
        state.FAULT_HIT_KIND: (
            "HK-1", f"intersection program {name!r} of {programs.file} reported a hit kind outside 0 to {MAX_HIT_KIND}",
            own | {"section": "ReportHit"},
        ),
        state.FAULT_RAISED: (
            "TRAV-1", f"program {name!r} of {programs.file} raised an exception", own | {"value": "exception"},
        ),
        state.FAULT_NO_PROGRAM: ("TRAV-5", "there is no program of that number", own | {"field": "program"}),
    }  # fmt: skip
    rule, text, facts = table[fault]
    return violation(rule, f"ray {ray}: {text}", **facts)
