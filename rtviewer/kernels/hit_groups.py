"""Which hit-group record a candidate has, and which programs it names (section 6.9 of the rules)."""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.constants import PROGRAM_AS_GIVEN, RECORD_NULL, RECORD_TRIANGLES
from rtviewer.kernels.memory import load_f32, load_i32, load_i64, store_i64
from rtviewer.kernels.state import (
    ANY_HIT,
    ENDED,
    FAULT,
    FAULT_BITS,
    FAULT_OUTSIDE_TABLE,
    FAULT_WRONG_TYPE,
    INSTANCE_CONTRIBUTION,
    INTERSECTION,
    MULTIPLIER,
    QUERY_DECIDED,
    QUERY_DECISIONS,
    QUERY_NEXT,
    RAY_CONTRIBUTION,
    WORLD,
    WORLD_RECORD_COUNT,
    WORLD_RECORD_STEP,
    WORLD_RECORDS,
)


@jit
def record_of(geometry, is_triangle, walk):
    """Address of the hit-group record of a candidate (HG-1); 0 where there is no table or the index is at fault.

    An index outside the table (HG-4) and a record of the other kind (TRAV-5) end the ray and are reported.
    """
    world = load_i64(walk + WORLD)
    count_of_records = load_i64(world + WORLD_RECORD_COUNT)
    if count_of_records < 0:
        return np.int64(0)
    index = load_i64(walk + RAY_CONTRIBUTION) + load_i64(walk + MULTIPLIER) * geometry
    index += load_i64(walk + INSTANCE_CONTRIBUTION)
    place = index * load_i64(world + WORLD_RECORD_STEP)
    fault = 0
    if place >= count_of_records:
        fault = FAULT_OUTSIDE_TABLE
    else:
        kind = load_i32(load_i64(world + WORLD_RECORDS) + 16 * place)
        if kind != RECORD_NULL and (kind == RECORD_TRIANGLES) != is_triangle:
            fault = FAULT_WRONG_TYPE
    if fault != 0:
        store_i64(walk + FAULT, np.int64(fault | index << FAULT_BITS))
        store_i64(walk + ENDED, np.int64(1))
        return np.int64(0)
    return load_i64(world + WORLD_RECORDS) + 16 * place


@jit
def any_hit_program(record, walk):
    """The any-hit program of a record: its own, the dispatch's, or PROGRAM_ABSENT."""
    if record == 0:
        return load_i64(walk + ANY_HIT)
    program = np.int64(load_i32(record + 4))
    return load_i64(walk + ANY_HIT) if program == PROGRAM_AS_GIVEN else program


@jit
def intersection_program(record, walk):
    """The intersection program of a record, likewise; a NULL record has none, so its boxes are never hit (TRAV-4)."""
    if record == 0:
        return load_i64(walk + INTERSECTION)
    program = np.int64(load_i32(record + 8))
    return load_i64(walk + INTERSECTION) if program == PROGRAM_AS_GIVEN else program


@jit
def next_decision(walk):
    """(decided, t): what the caller of an inline query did with this candidate; undecided ends the walk."""
    number = load_i64(walk + QUERY_NEXT)
    if number >= load_i64(walk + QUERY_DECIDED):
        store_i64(walk + ENDED, np.int64(1))
        return False, np.float32(np.nan)
    store_i64(walk + QUERY_NEXT, number + 1)
    return True, load_f32(load_i64(walk + QUERY_DECISIONS) + 4 * number)
