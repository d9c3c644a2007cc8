"""What the built-in intersection programs report, filled into the walk; ``candidates.test_box`` offers it."""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.constants import (
    PROGRAM_BOX,
    PROGRAM_REPORT_T,
    PROGRAM_SPHERE,
    PROGRAM_SPHERE_FAR_FIRST,
    PROGRAM_TORUS,
    PROGRAM_TORUS_FAR_FIRST,
)
from rtviewer.kernels.memory import load_f32, store_f32, store_i32
from rtviewer.kernels.programs import sphere_roots
from rtviewer.kernels.state import OBJECT_ORIGIN, REPORT_T, REPORTS
from rtviewer.kernels.torus import torus_roots

# The reports of one call: 64 bytes.
REPORT_TIMES = REPORTS
"""Four float32; with their kinds, four int32, in the order of reporting."""
REPORT_KINDS = REPORTS + 16
SORTED = REPORTS + 32
"""Four float32: roots from near to far."""

SPHERE_KIND, SPHERE_FAR_FIRST_KIND = 0, 64
TORUS_KIND, TORUS_FAR_FIRST_KIND = 0, 64


@jit
def put_report(walk, place, t, kind):
    store_f32(walk + REPORT_TIMES + 4 * place, t)
    store_i32(walk + REPORT_KINDS + 4 * place, np.int32(kind))


@jit
def fill_reports(program, at, entry, leave, entry_axis, exit_axis, walk):
    """(how many reports, whether all are made even after one was accepted) of a built-in program.

    ``at``: address of the box's lane; ``entry``, ``leave`` and their axes as of ``ray_box.box_interval``.
    """
    if program == PROGRAM_BOX:
        put_report(walk, 0, np.float32(entry), 16 + entry_axis)
        put_report(walk, 1, np.float32(leave), 32 + exit_axis)
        return 2, False
    if program == PROGRAM_REPORT_T:
        put_report(walk, np.int64(0), load_f32(walk + REPORT_T), np.int64(5))
        return 1, False
    low_x, low_y, low_z = np.float64(load_f32(at)), np.float64(load_f32(at + 16)), np.float64(load_f32(at + 32))
    high_x, high_y = np.float64(load_f32(at + 48)), np.float64(load_f32(at + 64))
    high_z = np.float64(load_f32(at + 80))
    ray = walk + OBJECT_ORIGIN
    ox, oy, oz = np.float64(load_f32(ray)), np.float64(load_f32(ray + 4)), np.float64(load_f32(ray + 8))
    dx, dy, dz = np.float64(load_f32(ray + 12)), np.float64(load_f32(ray + 16)), np.float64(load_f32(ray + 20))
    if program == PROGRAM_SPHERE or program == PROGRAM_SPHERE_FAR_FIRST:
        found, near, far = sphere_roots(low_x, low_y, low_z, high_x, high_y, high_z, ox, oy, oz, dx, dy, dz)
        if not found:
            return 0, False
        if program == PROGRAM_SPHERE:
            put_report(walk, 0, near, SPHERE_KIND)
            put_report(walk, 1, far, SPHERE_KIND + 1)
            return 2, False
        put_report(walk, 0, far, SPHERE_FAR_FIRST_KIND + 1)
        put_report(walk, 1, near, SPHERE_FAR_FIRST_KIND)
        return 2, True
    if program == PROGRAM_TORUS or program == PROGRAM_TORUS_FAR_FIRST:
        found = torus_roots(low_x, low_y, low_z, high_x, high_y, high_z, ox, oy, oz, dx, dy, dz, walk + SORTED)
        for place in range(found):
            if program == PROGRAM_TORUS:
                put_report(walk, place, load_f32(walk + SORTED + 4 * place), TORUS_KIND + place)
            else:
                number = found - 1 - place
                put_report(walk, place, load_f32(walk + SORTED + 4 * number), TORUS_FAR_FIRST_KIND + number)
        return found, program == PROGRAM_TORUS_FAR_FIRST
    return 0, False
