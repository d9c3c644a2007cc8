"""Hit-group records of the oracle's candidates: which programs a candidate runs, and which records it may not use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.flags import GeometryType
from rtviewer.dxr.shader_table import ABSENT, AS_GIVEN, HitGroupTable, fits, hit_group_index
from rtviewer.errors import InvalidInputError, violation

NO_FAULT, OUTSIDE_TABLE, WRONG_TYPE = 0, 1, 2


@dataclass(frozen=True)
class Calls:
    """The part of TraceRay calls that chooses programs; ``table`` None where every geometry has all shaders.

    ``ray_contribution``, ``multiplier``, ``any_hit``, ``intersection``: (n,) int64, one per ray.
    """

    table: HitGroupTable | None
    ray_contribution: NDArray[np.int64]
    multiplier: NDArray[np.int64]
    any_hit: NDArray[np.int64]
    intersection: NDArray[np.int64]


@dataclass(frozen=True)
class Lookup:
    """Per candidate, (m,): ``record`` int64 hit-group index [HG-1]; ``any_hit``, ``intersection`` int64 program
    numbers, ABSENT where the hit group has none [OPQ-5, TRAV-4]; ``fault`` uint8."""

    record: NDArray[np.int64]
    any_hit: NDArray[np.int64]
    intersection: NDArray[np.int64]
    fault: NDArray[np.uint8]

    @property
    def has_no_any_hit(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.any_hit == ABSENT
        return found


def look_up(
    calls: Calls, ray: NDArray[np.int64], geometry: NDArray[np.int32], contribution: int, *, is_triangles: bool
) -> Lookup:
    """Records and programs of candidates in one instance: ``ray`` (m,) positions in ``calls``, ``geometry`` (m,).

    A candidate at fault gets no programs: it stands for an error, not for a hit.
    """
    place = hit_group_index(
        calls.ray_contribution[ray], calls.multiplier[ray], geometry.astype(np.int64), np.int64(contribution)
    )
    fault = np.full(len(ray), NO_FAULT, np.uint8)
    if calls.table is None:
        return Lookup(place, calls.any_hit[ray], calls.intersection[ray], fault)
    at = place * (1 if calls.table.stride else 0)  # HG-3
    outside = at >= len(calls.table.records)
    fault[outside] = OUTSIDE_TABLE
    any_hit, intersection = np.full(len(ray), ABSENT, np.int64), np.full(len(ray), ABSENT, np.int64)
    kind = GeometryType.TRIANGLES if is_triangles else GeometryType.PROCEDURAL_PRIMITIVE_AABBS
    for number in np.unique(at[~outside]):
        record, rows = calls.table.records[number], np.flatnonzero(at == number)
        if not fits(record, kind):
            fault[rows] = WRONG_TYPE
            continue
        for program, given, out in (
            (record.any_hit, calls.any_hit, any_hit),
            (record.intersection, calls.intersection, intersection),
        ):
            out[rows] = given[ray[rows]] if program == AS_GIVEN else int(program)
    return Lookup(place, any_hit, intersection, fault)


def hit_group_fault(ray: int, fault: int, record: int) -> InvalidInputError:
    """The error of a ray that met a record which it may not use [HG-4, TRAV-5]."""
    rule, text = {
        OUTSIDE_TABLE: ("HG-4", "the hit-group index is outside the table"),
        WRONG_TYPE: ("TRAV-5", "the hit group is of the other kind than the geometry (triangles or procedural)"),
    }[fault]
    section = "Hit group table indexing"
    problem = violation(rule, f"ray {ray}: {text}", field="HitGroupIndex", value=record, section=section)
    return InvalidInputError([problem], "TraceRay")
