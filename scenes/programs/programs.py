"""Programs for this scene: an any-hit program that cuts stripes, and an intersection program for upright cylinders.

    rtviewer trace scenes/programs --programs scenes/programs/programs.py --any-hit stripes --intersection cylinder \
        -o picture.png

A program takes one argument, the candidate, and is compiled by numba, so it is written in the part of Python that numba
knows. It may read, all of section 6.9 of the DXR rules:

    instance_index, instance_id, geometry_index, primitive_index, ray_flags, ray_t_min,
    ray_t_current         any-hit: t of the hit being reported; intersection: the closest committed so far,
    hit_kind              any-hit only: 254 front face, 255 back face, else what the intersection program reported,
    attributes[8]         any-hit only: barycentrics of a triangle in the first two, else what was reported,
    world_ray_origin[3], world_ray_direction[3], object_ray_origin[3], object_ray_direction[3],
    object_to_world[3, 4] the instance's transform,
    aabb[6]               of a procedural primitive, in object space: minimum, then maximum.

An any-hit program returns a member of rt.HitAction: IGNORE, ACCEPT or ACCEPT_AND_END_SEARCH. An intersection program
calls rt.report_hit(candidate, t, kind, attributes) as often as it likes; it tells whether the hit was accepted.
"""

import math

import rtviewer as rt

MAX_ATTRIBUTE_SIZE_IN_BYTES = 12

STRIPES = 6.0
SIDE, TOP = 0, 1


@rt.any_hit_program
def stripes(candidate):
    """Cuts every second stripe around the y axis out, wherever the surface comes from."""
    t = candidate.ray_t_current
    x = candidate.object_ray_origin[0] + t * candidate.object_ray_direction[0]
    z = candidate.object_ray_origin[2] + t * candidate.object_ray_direction[2]
    turn = math.atan2(z, x) / math.pi * STRIPES
    if math.floor(turn) % 2 == 1:
        return rt.HitAction.IGNORE
    return rt.HitAction.ACCEPT


@rt.intersection_program
def cylinder(candidate):
    """The upright cylinder in the box: side and lids, both ends of the ray's way through it."""
    low, high = candidate.aabb[:3], candidate.aabb[3:]
    ox = candidate.object_ray_origin[0] - 0.5 * (low[0] + high[0])
    oz = candidate.object_ray_origin[2] - 0.5 * (low[2] + high[2])
    oy = candidate.object_ray_origin[1]
    dx, dy, dz = candidate.object_ray_direction
    radius = 0.5 * min(high[0] - low[0], high[2] - low[2])
    a = dx * dx + dz * dz
    b = ox * dx + oz * dz
    c = ox * ox + oz * oz - radius * radius
    enter, leave = -math.inf, math.inf
    enter_kind, leave_kind = TOP, TOP
    if a > 0.0:
        root = b * b - a * c
        if root < 0.0:
            return
        enter, leave = (-b - math.sqrt(root)) / a, (-b + math.sqrt(root)) / a
        enter_kind, leave_kind = SIDE, SIDE
    elif c > 0.0:
        return
    if dy != 0.0:
        first, last = (low[1] - oy) / dy, (high[1] - oy) / dy
        first, last = min(first, last), max(first, last)
        if first > enter:
            enter, enter_kind = first, TOP
        if last < leave:
            leave, leave_kind = last, TOP
    elif not low[1] <= oy <= high[1]:
        return
    if enter > leave:
        return
    height = (oy + enter * dy - low[1]) / (high[1] - low[1])
    if not rt.report_hit(candidate, enter, enter_kind, (height, enter, 0.0)):
        height = (oy + leave * dy - low[1]) / (high[1] - low[1])
        rt.report_hit(candidate, leave, leave_kind, (height, leave, 1.0))
