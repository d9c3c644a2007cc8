"""The block that a user's program is called with: filled before the call, judged after it.

A program is a C function int64(int64) called by its address. What it may read is CANDIDATE, a record at the address it
gets; what stands before that record belongs to the walk. An intersection program reports hits through a second
function, ``user_programs.report``, whose address is there too.
"""

from __future__ import annotations

import ctypes

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import jit
from rtviewer.kernels.constants import FIRST_USER_PROGRAM, INSTANCE_DESC_SIZE
from rtviewer.kernels.extremes import largest, least
from rtviewer.kernels.memory import load_f32, load_i64, load_u32, store_f32, store_i32, store_i64
from rtviewer.kernels.parts import or_zero
from rtviewer.kernels.state import (
    CANDIDATE_BLOCK,
    DIRECTION,
    ENDED,
    FAULT,
    FAULT_BITS,
    FAULT_NO_PROGRAM,
    FAULT_RAISED,
    FAULT_UNKNOWN_ACTION,
    FAULT_VALUE_BITS,
    INSTANCE,
    OBJECT_DIRECTION,
    OBJECT_ORIGIN,
    ORIGIN,
    RAY_FLAGS,
    T_CURRENT,
    T_MIN,
    WORLD,
    WORLD_DESCS,
    WORLD_PROGRAM_COUNT,
    WORLD_PROGRAMS,
    WORLD_REPORT,
)

CANDIDATE = np.dtype(
    [
        ("instance_index", "<i4"),
        ("instance_id", "<i4"),
        ("geometry_index", "<i4"),
        ("primitive_index", "<i4"),
        ("hit_kind", "<i4"),
        ("ray_flags", "<i4"),
        ("ray_t_min", "<f4"),
        ("ray_t_current", "<f4"),
        ("attributes", "<f4", (8,)),
        ("world_ray_origin", "<f4", (3,)),
        ("world_ray_direction", "<f4", (3,)),
        ("object_ray_origin", "<f4", (3,)),
        ("object_ray_direction", "<f4", (3,)),
        ("aabb", "<f4", (6,)),
        ("object_to_world", "<f4", (3, 4)),
    ]
)
"""What a program reads (section 6.9 of the rules). ``ray_t_current``: for any-hit the t of the hit being reported, for
an intersection program the closest committed so far. ``hit_kind``: any-hit only, else -1. ``attributes``: barycentrics
of a triangle in the first two; what the intersection program gave of a procedural. ``aabb``: of a procedural, minimum
then maximum, object space; zeros for a triangle. ``object_to_world``: the instance's transform (INST-10)."""

# Before the record: 104 bytes of int64 that belong to the walk.
BLOCK_WALK = 0
BLOCK_GEOMETRIES = 8
BLOCK_GEOMETRY_COUNT = 16
BLOCK_COUNTERS = 24
"""Address or 0; likewise the log."""
BLOCK_LOG = 32
BLOCK_REPORT = 40
BLOCK_NUMBER = 48
BLOCK_REPORTED = 56
"""1 after the first report of the call."""
BLOCK_SIZE = 64
BLOCK_OPACITY = 72
BLOCK_EVENT = 80
BLOCK_ACCEPTED = 88
BLOCK_RUNS = 96
"""1 while an intersection program of a user runs."""
PUBLIC = 104
BLOCK_BYTES = PUBLIC + CANDIDATE.itemsize

AT = {name: PUBLIC + CANDIDATE.fields[name][1] for name in CANDIDATE.names}
AT_INSTANCE, AT_INSTANCE_ID, AT_GEOMETRY = AT["instance_index"], AT["instance_id"], AT["geometry_index"]
AT_PRIMITIVE, AT_KIND, AT_FLAGS = AT["primitive_index"], AT["hit_kind"], AT["ray_flags"]
AT_T_MIN, AT_T_CURRENT, AT_ATTRIBUTES = AT["ray_t_min"], AT["ray_t_current"], AT["attributes"]
AT_WORLD_RAY, AT_WORLD_DIRECTION = AT["world_ray_origin"], AT["world_ray_direction"]
AT_OBJECT_RAY, AT_OBJECT_DIRECTION = AT["object_ray_origin"], AT["object_ray_direction"]
AT_AABB, AT_TRANSFORM = AT["aabb"], AT["object_to_world"]

RAISED = -(1 << 40)
"""What a program's wrapper returns when the program raised an exception."""
LARGEST_SHOWN = 1 << 38

if numba.config.DISABLE_JIT:

    def call_program(address, block):
        return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(int(address))(int(block))

else:

    @intrinsic
    def call_program(typing_context, address, block):
        """Call an int64(int64) function by its address."""

        def generate(context, builder, signature, arguments):
            kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
            return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [arguments[1]])

        return types.int64(types.int64, types.int64), generate


@jit
def fail(walk, fault, place, value):
    """End a ray because of a program of a user: what went wrong, with which program, on which value."""
    shown = least(largest(np.int64(value), np.int64(-LARGEST_SHOWN)), np.int64(LARGEST_SHOWN))
    store_i64(walk + FAULT, np.int64(fault | place << FAULT_BITS | shown << FAULT_VALUE_BITS))
    store_i64(walk + ENDED, np.int64(1))


@jit
def program_address(program, walk):
    """Address of a user's program, 0 and a fault where there is none with that number."""
    world = load_i64(walk + WORLD)
    place = program - FIRST_USER_PROGRAM
    if place < 0 or place >= load_i64(world + WORLD_PROGRAM_COUNT):
        fail(walk, FAULT_NO_PROGRAM, 0, program)
        return np.int64(0)
    return load_i64(load_i64(world + WORLD_PROGRAMS) + 8 * place)


@jit
def fill_block(geometry, primitive, kind, t, walk):
    """Everything of the record but attributes and box; returns the block's address."""
    block = walk + CANDIDATE_BLOCK
    world, instance = load_i64(walk + WORLD), load_i64(walk + INSTANCE)
    desc = load_i64(world + WORLD_DESCS) + instance * INSTANCE_DESC_SIZE
    store_i64(block + BLOCK_WALK, walk)
    store_i64(block + BLOCK_REPORT, load_i64(world + WORLD_REPORT))
    store_i32(block + AT_INSTANCE, np.int32(instance))
    store_i32(block + AT_INSTANCE_ID, np.int32(load_u32(desc + 48) & np.uint32(0xFFFFFF)))
    store_i32(block + AT_GEOMETRY, np.int32(geometry))
    store_i32(block + AT_PRIMITIVE, np.int32(primitive))
    store_i32(block + AT_KIND, np.int32(kind))
    store_i32(block + AT_FLAGS, np.int32(load_i64(walk + RAY_FLAGS)))
    store_f32(block + AT_T_MIN, load_f32(walk + T_MIN))
    store_f32(block + AT_T_CURRENT, t)
    for axis in range(0, 12, 4):
        store_f32(block + AT_WORLD_RAY + axis, load_f32(walk + ORIGIN + axis))
        store_f32(block + AT_WORLD_DIRECTION + axis, load_f32(walk + DIRECTION + axis))
        store_f32(block + AT_OBJECT_RAY + axis, load_f32(walk + OBJECT_ORIGIN + axis))
        store_f32(block + AT_OBJECT_DIRECTION + axis, load_f32(walk + OBJECT_DIRECTION + axis))
    for word in range(0, 48, 4):
        store_f32(block + AT_TRANSFORM + word, load_f32(desc + word))
    return block


@jit
def call_any_hit(program, geometry, primitive, t, kind, attribute_0, attribute_1, walk):
    """The action of a user's any-hit program; 0, and the ray ends, where what it did is not legal."""
    address = program_address(program, walk)
    if address == 0:
        return np.int64(0)
    block = fill_block(geometry, primitive, kind, t, walk)
    if load_i64(block + BLOCK_RUNS) == 0:  # else they are what the intersection program gave
        for word in range(8, 32, 4):
            store_f32(block + AT_ATTRIBUTES + word, np.float32(0.0))
        for word in range(0, 24, 4):
            store_f32(block + AT_AABB + word, np.float32(0.0))
        store_f32(block + AT_ATTRIBUTES, attribute_0)
        store_f32(block + AT_ATTRIBUTES + 4, attribute_1)
    action = call_program(address, block + PUBLIC)
    if action < 0 or action > 2:
        fault = FAULT_RAISED if action == RAISED else FAULT_UNKNOWN_ACTION
        fail(walk, fault, program - FIRST_USER_PROGRAM, action)
        return np.int64(0)
    return action


@jit
def call_intersection(
    program, at, geometry, primitive, opacity, number, geometries, geometry_count, walk, size, event,
    counters, log,
):  # fmt: skip
    """Run a user's intersection program for the box whose lane begins at ``at``.

    Left in the block is what ``user_programs.report`` needs to offer a hit; ``event``: address of the candidate's.
    """
    address = program_address(program, walk)
    if address == 0:
        return
    block = walk + CANDIDATE_BLOCK
    store_i64(block + BLOCK_GEOMETRIES, geometries)
    store_i64(block + BLOCK_GEOMETRY_COUNT, np.int64(geometry_count))
    store_i64(block + BLOCK_COUNTERS, np.int64(or_zero(counters)))
    store_i64(block + BLOCK_LOG, np.int64(or_zero(log)))
    store_i64(block + BLOCK_NUMBER, np.int64(number))
    store_i64(block + BLOCK_REPORTED, np.int64(0))
    store_i64(block + BLOCK_SIZE, np.int64(size))
    store_i64(block + BLOCK_OPACITY, np.int64(opacity))
    store_i64(block + BLOCK_EVENT, np.int64(event))
    store_i64(block + BLOCK_ACCEPTED, np.int64(0))
    fill_block(geometry, primitive, -1, load_f32(walk + T_CURRENT), walk)
    for word in range(0, 32, 4):
        store_f32(block + AT_ATTRIBUTES + word, np.float32(0.0))
    for side in range(6):
        store_f32(block + AT_AABB + 4 * side, load_f32(at + 16 * side))
    store_i64(block + BLOCK_RUNS, np.int64(1))
    result = call_program(address, block + PUBLIC)
    store_i64(block + BLOCK_RUNS, np.int64(0))
    if result == RAISED and load_i64(walk + ENDED) == 0:  # after the end it did not run (PROC-4)
        fail(walk, FAULT_RAISED, program - FIRST_USER_PROGRAM, 0)
