"""From a batch of rays into the block of one walk, and from there into the columns of results."""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import inline_jit, jit
from rtviewer.kernels.constants import INSTANCE_DESC_SIZE
from rtviewer.kernels.memory import load_f32, load_i64, load_u32, store_f32, store_i32, store_i64, store_u8
from rtviewer.kernels.ray_box import INFINITY
from rtviewer.kernels.state import (
    ANY_HIT,
    ATTRIBUTE_0,
    ATTRIBUTE_1,
    BATCH_ANY_HIT,
    BATCH_ATTRIBUTES,
    BATCH_CONTRIBUTION,
    BATCH_DIRECTION,
    BATCH_FAULT,
    BATCH_FAULT_RAY,
    BATCH_FLAGS,
    BATCH_FOUND_T,
    BATCH_GEOMETRY_INDEX,
    BATCH_HIT,
    BATCH_HIT_GROUP,
    BATCH_HIT_KIND,
    BATCH_INSTANCE_ID,
    BATCH_INSTANCE_INDEX,
    BATCH_INTERSECTION,
    BATCH_INVALID,
    BATCH_MASK,
    BATCH_MULTIPLIER,
    BATCH_ORIGIN,
    BATCH_PRIMITIVE_INDEX,
    BATCH_REPORT_T,
    BATCH_T_MAX,
    BATCH_T_MIN,
    DIRECTION,
    ENDED,
    FAULT,
    HIT_GEOMETRY,
    HIT_INSTANCE,
    HIT_KIND,
    HIT_PRIMITIVE,
    INTERSECTION,
    MULTIPLIER,
    ORIGIN,
    QUERY_NEXT,
    RAY_CONTRIBUTION,
    RAY_FLAGS,
    RAY_MASK,
    REPORT_T,
    T_CURRENT,
    T_MAX,
    T_MIN,
    WORLD,
    WORLD_DESCS,
)


@jit
def argument(which, ray):
    """An argument of a ray, uint32: its own or that of all. ``which``: address of its place in the batch block."""
    return np.int64(load_u32(load_i64(which) + load_i64(which + 8) * ray))


@jit
def set_arguments(walk, batch, ray):
    """Fill the block of a walk with the arguments of a ray."""
    report_t = load_i64(batch + BATCH_REPORT_T) + load_i64(batch + BATCH_REPORT_T + 8) * ray
    store_f32(walk + REPORT_T, load_f32(report_t))
    store_i64(walk + RAY_FLAGS, argument(batch + BATCH_FLAGS, ray))
    store_i64(walk + RAY_MASK, argument(batch + BATCH_MASK, ray))
    store_i64(walk + ANY_HIT, argument(batch + BATCH_ANY_HIT, ray))
    store_i64(walk + INTERSECTION, argument(batch + BATCH_INTERSECTION, ray))
    store_i64(walk + RAY_CONTRIBUTION, argument(batch + BATCH_CONTRIBUTION, ray) & 0xF)
    store_i64(walk + MULTIPLIER, argument(batch + BATCH_MULTIPLIER, ray) & 0xF)


@inline_jit
def are_arguments_alike(batch):
    """Whether all rays of a batch have the same arguments."""
    strides = np.int64(0)
    for which in (
        BATCH_FLAGS, BATCH_MASK, BATCH_ANY_HIT, BATCH_INTERSECTION, BATCH_CONTRIBUTION, BATCH_MULTIPLIER, BATCH_REPORT_T
    ):  # fmt: skip
        strides |= load_i64(batch + which + 8)
    return strides == 0


@inline_jit
def begin_ray(walk, batch, ray):
    """Fill the block of a walk with a ray, and clear its hit; tells whether it is to be traced.

    Rays that break RAY-2 or RAY-3 are marked and, like those with an infinite component (RAY-5), miss.
    """
    origin, direction = load_i64(batch + BATCH_ORIGIN) + 12 * ray, load_i64(batch + BATCH_DIRECTION) + 12 * ray
    is_number, is_finite = True, True
    for axis in range(3):
        o, d = load_f32(origin + 4 * axis), load_f32(direction + 4 * axis)
        is_number = is_number & (o == o) & (d == d)
        is_finite = is_finite & (abs(o) < INFINITY) & (abs(d) < INFINITY)
        store_f32(walk + ORIGIN + 4 * axis, o)
        store_f32(walk + DIRECTION + 4 * axis, d)
    t_min, t_max = load_f32(load_i64(batch + BATCH_T_MIN) + 4 * ray), load_f32(load_i64(batch + BATCH_T_MAX) + 4 * ray)
    is_valid = is_number and t_min >= np.float32(0.0) and t_min <= t_max
    store_u8(load_i64(batch + BATCH_INVALID) + ray, np.uint8(0 if is_valid else 1))
    store_f32(walk + T_MIN, t_min)
    store_f32(walk + T_MAX, t_max)
    store_f32(walk + T_CURRENT, t_max)
    store_i64(walk + FAULT, np.int64(0))
    store_i64(walk + QUERY_NEXT, np.int64(0))
    store_i64(walk + HIT_INSTANCE, np.int64(-1))
    store_i64(walk + ENDED, np.int64(0))
    return is_valid and is_finite


@inline_jit
def finish_ray(walk, batch, ray):
    """Write what a ray found into the columns of the batch."""
    instance = load_i64(walk + HIT_INSTANCE)
    is_hit = instance >= 0
    geometry, primitive, kind, instance_id, record = -1, -1, -1, -1, -1
    attribute_0, attribute_1 = np.float32(0.0), np.float32(0.0)
    if is_hit:
        geometry, primitive = load_i64(walk + HIT_GEOMETRY), load_i64(walk + HIT_PRIMITIVE)
        kind = load_i64(walk + HIT_KIND)
        attribute_0, attribute_1 = load_f32(walk + ATTRIBUTE_0), load_f32(walk + ATTRIBUTE_1)
        desc = load_i64(load_i64(walk + WORLD) + WORLD_DESCS) + instance * INSTANCE_DESC_SIZE
        instance_id = np.int64(load_u32(desc + 48) & np.uint32(0xFFFFFF))
        record = load_i64(walk + RAY_CONTRIBUTION) + load_i64(walk + MULTIPLIER) * geometry
        record += np.int64(load_u32(desc + 52) & np.uint32(0xFFFFFF))  # HG-1
    store_u8(load_i64(batch + BATCH_HIT) + ray, np.uint8(1 if is_hit else 0))
    store_f32(load_i64(batch + BATCH_FOUND_T) + 4 * ray, load_f32(walk + T_CURRENT))
    store_i32(load_i64(batch + BATCH_INSTANCE_INDEX) + 4 * ray, np.int32(instance))
    store_i32(load_i64(batch + BATCH_GEOMETRY_INDEX) + 4 * ray, np.int32(geometry))
    store_i32(load_i64(batch + BATCH_PRIMITIVE_INDEX) + 4 * ray, np.int32(primitive))
    store_i32(load_i64(batch + BATCH_HIT_KIND) + 4 * ray, np.int32(kind))
    store_f32(load_i64(batch + BATCH_ATTRIBUTES) + 8 * ray, attribute_0)
    store_f32(load_i64(batch + BATCH_ATTRIBUTES) + 8 * ray + 4, attribute_1)
    store_i64(load_i64(batch + BATCH_INSTANCE_ID) + 8 * ray, np.int64(instance_id))
    store_i64(load_i64(batch + BATCH_HIT_GROUP) + 8 * ray, np.int64(record))
    fault = load_i64(walk + FAULT)
    # Rays are not finished in order; the first of the batch is told.
    if fault != 0 and (load_i64(batch + BATCH_FAULT) == 0 or ray < load_i64(batch + BATCH_FAULT_RAY)):
        store_i64(batch + BATCH_FAULT, fault)
        store_i64(batch + BATCH_FAULT_RAY, np.int64(ray))
