"""The any-hit and intersection programs, by number and name: the built-in ones, and how those of a user are named.

Numbers 0 to 5 and 0 to 4 are those of the recordings in ``tests/golden/driver``; kernels and oracle implement each once
(``kernels.programs``, ``trace.reference_programs``). Above the dispatch a user's program goes by its name, a str; its
number, from FIRST_USER_PROGRAM on, exists only in one trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from rtviewer.dxr.limits import (
    MAX_ATTRIBUTE_SIZE_IN_BYTES,
    MAX_DECLARABLE_TRACE_RECURSION_DEPTH,
)
from rtviewer.errors import ProgramError, Violation, violation

QUERY = 0x7FFF
"""Any-hit and intersection number of an inline query: the caller decides (``trace.query``)."""

FIRST_USER_PROGRAM = 0x10000
"""Number of the first program of a user's table; the k-th has this plus k."""

USER_PREFIX = "user:"
"""What a scene file writes before the name of a user's program."""


class AnyHitProgram(IntEnum):
    ACCEPT = 0
    """Return plainly: the hit is committed."""
    IGNORE = 1
    """IgnoreHit() always."""
    IGNORE_ODD_PRIMITIVES = 2
    ACCEPT_AND_END_SEARCH = 3
    IGNORE_ODD_GEOMETRIES = 4
    IGNORE_ODD_PRIMITIVES_END_AT_EVEN = 5
    """Ignore odd primitive indices, accept even ones and end the search."""
    ALPHA_MASK = 6
    """Ignore where the material's alpha is below its cut-off (``scene.material``); accept where there is no mask."""
    CHECKER = 7
    """Ignore every second cell. Triangles: squares of 1/8 in texture coordinates, in barycentrics where there are
    none. Procedurals: cubes of edge 1/4 in object space."""


class IntersectionProgram(IntEnum):
    SPHERE = 0
    """Sphere in the box's centre, radius half the shortest side: near root (kind 0); if not accepted, far (kind 1)."""
    BOX = 1
    """The box: entry (kind 16 + axis); if not accepted, exit (kind 32 + axis)."""
    SPHERE_FAR_FIRST = 2
    """Both roots always: far (kind 65), then near (kind 64)."""
    NOTHING = 3
    """Never reports."""
    REPORT_T = 4
    """Reports the dispatch's ``report_t`` with kind 5."""
    TORUS = 5
    """Ring around the box's shortest side: up to four roots from near to far (kinds 0 to 3) until one is accepted."""
    TORUS_FAR_FIRST = 6
    """Several hits: all roots of the ring always, from far to near (kinds 67 to 64, 64 the nearest)."""


ANY_HIT_MEANINGS: dict[AnyHitProgram, str] = {
    AnyHitProgram.ACCEPT: "Accept every hit",
    AnyHitProgram.IGNORE: "IgnoreHit() always",
    AnyHitProgram.IGNORE_ODD_PRIMITIVES: "Ignore odd primitive indices",
    AnyHitProgram.ACCEPT_AND_END_SEARCH: "Accept and end the search",
    AnyHitProgram.IGNORE_ODD_GEOMETRIES: "Ignore odd geometry indices",
    AnyHitProgram.IGNORE_ODD_PRIMITIVES_END_AT_EVEN: "Ignore odd primitives, accept an even one and end the search",
    AnyHitProgram.ALPHA_MASK: "Ignore where the material's alpha texture is below its cut-off",
    AnyHitProgram.CHECKER: "Cut every second cell of a checker pattern out",
}
INTERSECTION_MEANINGS: dict[IntersectionProgram, str] = {
    IntersectionProgram.SPHERE: "Sphere inscribed in the box: near root, then far",
    IntersectionProgram.BOX: "The box itself: entry, then exit",
    IntersectionProgram.SPHERE_FAR_FIRST: "Sphere, several hits: far root, then near",
    IntersectionProgram.NOTHING: "Reports nothing",
    IntersectionProgram.REPORT_T: "Reports one given t",
    IntersectionProgram.TORUS: "Ring inscribed in the box: up to four roots, nearest first",
    IntersectionProgram.TORUS_FAR_FIRST: "Ring, several hits: all roots, farthest first",
}
"""One line each, for controls and help."""

AnyHitChoice = AnyHitProgram | str
"""A built-in program, or a user's by name."""
IntersectionChoice = IntersectionProgram | str


class HitAction(IntEnum):
    """What an any-hit program of a user returns (AH-5, AH-6)."""

    IGNORE = 0
    ACCEPT = 1
    ACCEPT_AND_END_SEARCH = 2


class ProgramKind(IntEnum):
    ANY_HIT = 0
    INTERSECTION = 1

    @property
    def word(self) -> str:
        """``any-hit`` or ``intersection``."""
        return self.name.lower().replace("_", "-")


MARK = "rtviewer_program"

Function = TypeVar("Function", bound=Callable[..., object])


def any_hit_program(function: Function) -> Function:
    """Mark a function of a user's file as an any-hit program: it takes a candidate and returns an action."""
    setattr(function, MARK, ProgramKind.ANY_HIT)
    return function


def intersection_program(function: Function) -> Function:
    """Mark a function of a user's file as an intersection program: it takes a candidate and calls ``report_hit``."""
    setattr(function, MARK, ProgramKind.INTERSECTION)
    return function


NO_TRACE = "[TRAV-6] TraceRay may not be called from an any-hit or intersection program"


def report_hit(candidate: Any, t: float, kind: int, attributes: tuple[float, ...] = ()) -> bool:
    """ReportHit: whether the hit was accepted (PROC-2). For a user's intersection programs, where it is compiled.

    ``t`` is float32 for the tracer; ``kind`` 0 to 127 (HK-1); ``attributes`` up to eight numbers, as many as the file
    declares bytes for (LIM-5), of which results keep the first two. Once the search has ended it does nothing (PROC-4).
    """
    raise ProgramError("report_hit works inside a compiled intersection program only")


def trace_ray(*arguments: Any) -> None:
    """TraceRay is allowed in ray generation, closest hit and miss only: a program that calls it is refused (TRAV-6)."""
    raise ProgramError(NO_TRACE)


@dataclass(frozen=True)
class UserProgram:
    """One compiled program of a user. ``address``: of a C function int64(int64), which gets the address of a block
    (``kernels.candidate_block``). ``line``: of its ``def`` in the file; ``text``: first line of its docstring."""

    name: str
    kind: ProgramKind
    address: int
    line: int = 0
    text: str = ""


@dataclass(frozen=True, eq=False)
class ProgramTable:
    """The programs of one file. ``report`` is the address that intersection programs report hits to. ``kept`` holds
    what the addresses point into. The two sizes are what the file declares (LIM-5, LIM-6)."""

    file: str = ""
    programs: tuple[UserProgram, ...] = ()
    report: int = 0
    max_attribute_size: int = 8
    max_recursion_depth: int = 1
    kept: tuple[object, ...] = ()

    def names(self, kind: ProgramKind) -> tuple[str, ...]:
        return tuple(program.name for program in self.programs if program.kind is kind)

    def find(self, kind: ProgramKind, name: str) -> UserProgram | None:
        return next((p for p in self.programs if p.kind is kind and p.name == name), None)

    def number(self, kind: ProgramKind, program: int | str) -> int:
        """The number that a trace knows a program by. Raises ProgramError for a name that is not in the table."""
        if not isinstance(program, str):
            return int(program)
        for place, own in enumerate(self.programs):
            if own.kind is kind and own.name == program:
                return FIRST_USER_PROGRAM + place
        raise ProgramError(missing_text(kind, program, self))

    def name_of(self, number: int) -> str:
        """The name of a user's program by number; its number as text where there is none."""
        place = number - FIRST_USER_PROGRAM
        return self.programs[place].name if 0 <= place < len(self.programs) else str(number)


NO_PROGRAMS = ProgramTable()


def missing_text(kind: ProgramKind, name: str, table: ProgramTable) -> str:
    """Why a user's program cannot be used, and what to do."""
    if not table.programs:
        return (
            f"the {kind.word} program {name!r} is a user's, and no file of programs is loaded: such a file is code and "
            f"is loaded only when asked for (--programs FILE, or Load programs in the window)"
        )
    there = ", ".join(repr(own) for own in table.names(kind)) or "none"
    return f"there is no {kind.word} program {name!r} in {table.file}: there are {there}"


def program_name(program: AnyHitProgram | IntersectionProgram | str) -> str:
    """``IGNORE``, or ``user:stripes``: as scene files write it."""
    return USER_PREFIX + program if isinstance(program, str) else program.name


def named_by_user(text: str) -> str | None:
    """``stripes`` of ``user:stripes``; None for text of another form. Raises ValueError for what cannot be a name."""
    if not text.lower().startswith(USER_PREFIX):
        return None
    name = text[len(USER_PREFIX) :]
    if not name.isidentifier():
        raise ValueError(f"{name!r} cannot be the name of a program: after {USER_PREFIX} stands the name of a function")
    return name


def check_declarations(attribute_size: object, recursion_depth: object) -> list[Violation]:
    """LIM-5 and LIM-6: what a file of programs declares about hit attributes (bytes) and nesting."""
    found = []
    for name, value, most, rule, section in (
        ("MAX_ATTRIBUTE_SIZE_IN_BYTES", attribute_size, MAX_ATTRIBUTE_SIZE_IN_BYTES, "LIM-5",
         "D3D12_RAYTRACING_SHADER_CONFIG"),
        ("MAX_TRACE_RECURSION_DEPTH", recursion_depth, MAX_DECLARABLE_TRACE_RECURSION_DEPTH, "LIM-6",
         "D3D12_RAYTRACING_PIPELINE_CONFIG"),
    ):  # fmt: skip
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            text = f"{name} is a number from 0 to {most}"
            found.append(violation(rule, text, field=name, value=value, section=section))
    return found


def known_names(kind: ProgramKind, table: ProgramTable) -> Sequence[str]:
    """All names that a control offers: built-in ones in lower case, then the user's."""
    built_in = AnyHitProgram if kind is ProgramKind.ANY_HIT else IntersectionProgram
    return [member.name.lower() for member in built_in] + list(table.names(kind))
