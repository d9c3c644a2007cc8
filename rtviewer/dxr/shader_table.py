"""Hit-group tables and their indexing (section 6.9 of the rules), reduced to what decides a hit.

A record names a hit group; here a hit group says which of its shaders exist and which built-in program stands in for
each. Without a table every geometry has all shaders, with the programs that the dispatch names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.flags import GeometryType
from rtviewer.dxr.limits import MAX_SHADER_RECORD_STRIDE, SHADER_RECORD_BYTE_ALIGNMENT
from rtviewer.dxr.programs import NO_PROGRAMS, AnyHitProgram, IntersectionProgram, ProgramKind, ProgramTable
from rtviewer.errors import InvalidInputError, violation

AS_GIVEN = -2
"""A program number: the one that the dispatch names."""
ABSENT = -1


class HitGroupType(IntEnum):
    TRIANGLES = 0
    PROCEDURAL_PRIMITIVE = 1
    NULL = 2
    """A NULL shader identifier: runs nothing (HG-3)."""


@dataclass(frozen=True)
class HitGroup:
    """``any_hit``, ``intersection``: a program, AS_GIVEN, ABSENT, or a str that names a program of a user.
    ``intersection`` is for procedurals only."""

    type: HitGroupType
    any_hit: int | AnyHitProgram | str = AS_GIVEN
    intersection: int | IntersectionProgram | str = ABSENT
    closest_hit: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        """ValueError for a program that does not exist, or one that the type cannot have."""
        for value, table in ((self.any_hit, AnyHitProgram), (self.intersection, IntersectionProgram)):
            if not isinstance(value, str) and value not in (AS_GIVEN, ABSENT, *map(int, table)):
                raise ValueError(f"{value} is not a program of {table.__name__}: use AS_GIVEN, ABSENT or a member")
        if self.type is HitGroupType.NULL and (self.any_hit, self.intersection) != (ABSENT, ABSENT):
            raise ValueError("a NULL hit group has no shaders")
        if self.type is HitGroupType.TRIANGLES and self.intersection != ABSENT:
            raise ValueError("a hit group for triangles has no intersection shader (TRAV-5)")


TRIANGLES = HitGroup(HitGroupType.TRIANGLES)
PROCEDURAL = HitGroup(HitGroupType.PROCEDURAL_PRIMITIVE, AS_GIVEN, AS_GIVEN)
NULL = HitGroup(HitGroupType.NULL, ABSENT, ABSENT, closest_hit=False)

# Columns of ``HitGroupTable.rows``.
COLUMN_TYPE, COLUMN_ANY_HIT, COLUMN_INTERSECTION, COLUMN_CLOSEST_HIT = range(4)


@dataclass(frozen=True)
class HitGroupTable:
    """Records in order. ``stride`` 0 makes every index point to the first record (HG-3).

    Raises InvalidInputError for a stride that is not a multiple of 32 in 0 to 4096 (LIM-7).
    """

    records: tuple[HitGroup, ...]
    stride: int = 32

    def __post_init__(self) -> None:
        if self.stride not in range(0, MAX_SHADER_RECORD_STRIDE + 1, SHADER_RECORD_BYTE_ALIGNMENT):
            text = f"the stride must be a multiple of {SHADER_RECORD_BYTE_ALIGNMENT} up to {MAX_SHADER_RECORD_STRIDE}"
            field, section = "HitGroupTable.StrideInBytes", "Shader record stride"
            raise InvalidInputError([violation("LIM-7", text, field=field, value=self.stride, section=section)])

    @classmethod
    def of(cls, records: Sequence[HitGroup]) -> HitGroupTable:
        return cls(tuple(records))

    @property
    def rows(self) -> NDArray[np.int32]:
        """(records, 4) int32: type, any-hit, intersection, closest-hit. See ``rows_with``."""
        return self.rows_with(NO_PROGRAMS)

    def rows_with(self, programs: ProgramTable) -> NDArray[np.int32]:
        """``rows`` with a user's programs by their numbers. Raises ProgramError for a name that is not in the table."""
        any_hit, intersection = ProgramKind.ANY_HIT, ProgramKind.INTERSECTION
        rows = [
            (
                int(r.type), programs.number(any_hit, r.any_hit), programs.number(intersection, r.intersection),
                int(r.closest_hit),
            )
            for r in self.records
        ]  # fmt: skip
        return np.array(rows, np.int32).reshape(-1, 4)


def hit_group_index(ray_contribution: Any, multiplier: Any, geometry_index: Any, instance_contribution: Any) -> Any:
    """HG-1: only the low four bits of the first two count. Arrays or integers."""
    return (ray_contribution & 0xF) + (multiplier & 0xF) * geometry_index + instance_contribution


def fits(record: HitGroup, geometry: GeometryType) -> bool:
    """TRAV-5: a record of the other kind may not be used; a NULL one may."""
    if record.type is HitGroupType.NULL:
        return True
    procedural = geometry is GeometryType.PROCEDURAL_PRIMITIVE_AABBS
    return procedural == (record.type is HitGroupType.PROCEDURAL_PRIMITIVE)
