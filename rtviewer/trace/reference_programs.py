"""Procedural candidates and the built-in programs, written so that a compiled kernel can repeat them step by step.

All arithmetic is float64 on float32 inputs; a reported t is rounded once to float32. Boxes are inputs after DEG-4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.scene.material import GeometryMaterials
from rtviewer.trace.reference_materials import checker_cells, checker_cubes, masked_out
from rtviewer.trace.reference_torus import MOST_ROOTS, torus_roots

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

MOST_REPORTS = MOST_ROOTS
"""Reports that one call of a built-in program makes at most."""

IGNORED, ACCEPTED, ACCEPTED_AND_ENDED = 0, 1, 2
"""What an any-hit program decides."""


class BoxInterval(NamedTuple):
    """Where lines meet boxes, (n,) each.

    ``entry`` and ``exit`` float64, -inf and +inf when no axis limits them; ``entry_axis`` and ``exit_axis`` int64, the
    axis that set them, the first on ties, 0 for none; ``outside`` bool: beside the box on an axis with direction 0.
    """

    entry: Float64
    exit: Float64
    entry_axis: NDArray[np.int64]
    exit_axis: NDArray[np.int64]
    outside: NDArray[np.bool_]


def box_interval(origin: Float32, direction: Float32, box: Float32) -> BoxInterval:
    """Slabs of row-wise pairs of object-space rays (n, 3) and boxes (n, 6).

    Per axis with d != 0: t0 = (low - o)/d, t1 = (high - o)/d, exchanged if d < 0; entry is the largest t0, exit the
    smallest t1. An axis with d == 0 only asks low <= o <= high [TRI-7].
    """
    o, d, b = origin.astype(np.float64), direction.astype(np.float64), box.astype(np.float64)
    n = len(o)
    entry, exit_ = np.full(n, -np.inf), np.full(n, np.inf)
    entry_axis, exit_axis = np.zeros(n, np.int64), np.zeros(n, np.int64)
    outside = np.zeros(n, np.bool_)
    with np.errstate(all="ignore"):
        for axis in range(3):
            low, high = b[:, axis], b[:, axis + 3]
            flat = d[:, axis] == 0
            outside |= flat & ~((low <= o[:, axis]) & (o[:, axis] <= high))
            at_low, at_high = (low - o[:, axis]) / d[:, axis], (high - o[:, axis]) / d[:, axis]
            backward = d[:, axis] < 0
            t0, t1 = np.where(backward, at_high, at_low), np.where(backward, at_low, at_high)
            later = ~flat & (t0 > entry)
            entry[later], entry_axis[later] = t0[later], axis
            sooner = ~flat & (t1 < exit_)
            exit_[sooner], exit_axis[sooner] = t1[sooner], axis
    return BoxInterval(entry, exit_, entry_axis, exit_axis, outside)


def is_offered(interval: BoxInterval, t_min: Float32, t_end: Float32) -> NDArray[np.bool_]:
    """PROC-1: the line is inside the closed box somewhere in the closed interval [t_min, t_end]."""
    first = np.maximum(interval.entry, t_min.astype(np.float64))
    last = np.minimum(interval.exit, t_end.astype(np.float64))
    return ~interval.outside & (first <= last)


class Reports(NamedTuple):
    """What an intersection program will report for each candidate.

    ``report_count`` int64 0 to 4; ``t`` (n, 4) float32 and ``kind`` (n, 4) int32, in the order of reporting;
    ``always``: later reports are made even when one was accepted.
    """

    report_count: NDArray[np.int64]
    t: Float32
    kind: NDArray[np.int32]
    always: NDArray[np.bool_]


def run_intersection(
    program: NDArray[np.int64], report_t: Float32, origin: Float32, direction: Float32, box: Float32
) -> Reports:
    """The reports of row-wise candidates: program number (negative for none), reported t, object-space ray and box."""
    n = len(program)
    reports = Reports(
        np.zeros(n, np.int64),
        np.zeros((n, MOST_REPORTS), np.float32),
        np.zeros((n, MOST_REPORTS), np.int32),
        np.zeros(n, np.bool_),
    )
    is_sphere = (program == IntersectionProgram.SPHERE) | (program == IntersectionProgram.SPHERE_FAR_FIRST)
    is_torus = (program == IntersectionProgram.TORUS) | (program == IntersectionProgram.TORUS_FAR_FIRST)
    for rows, work in (
        (np.flatnonzero(is_sphere), _report_sphere),
        (np.flatnonzero(is_torus), _report_torus),
        (np.flatnonzero(program == IntersectionProgram.BOX), _report_box),
    ):
        if len(rows):
            work(reports, rows, program[rows], origin[rows], direction[rows], box[rows])
    given = program == IntersectionProgram.REPORT_T
    reports.report_count[given], reports.t[given, 0], reports.kind[given, 0] = 1, report_t[given], 5
    return reports


def _dot(a: Float64, b: Float64) -> Float64:
    return (a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1]) + a[:, 2] * b[:, 2]


def _report_sphere(
    reports: Reports,
    rows: NDArray[np.int64],
    program: NDArray[np.int64],
    origin: Float32,
    direction: Float32,
    box: Float32,
) -> None:
    """Roots of |o + t*d - centre|^2 = radius^2; a zero direction reports nothing."""
    o, d, b = origin.astype(np.float64), direction.astype(np.float64), box.astype(np.float64)
    with np.errstate(all="ignore"):
        side = b[:, 3:] - b[:, :3]
        radius = 0.5 * np.minimum(side[:, 0], np.minimum(side[:, 1], side[:, 2]))
        from_centre = o - 0.5 * (b[:, :3] + b[:, 3:])
        square = _dot(d, d)
        half = _dot(d, from_centre)
        rest = _dot(from_centre, from_centre) - radius * radius
        discriminant = half * half - square * rest
        root = np.sqrt(discriminant)
        near, far = ((-half - root) / square).astype(np.float32), ((-half + root) / square).astype(np.float32)
    meets = (square > 0) & (discriminant >= 0)
    far_first = program == IntersectionProgram.SPHERE_FAR_FIRST
    reports.report_count[rows] = np.where(meets, 2, 0)
    reports.t[rows, 0], reports.t[rows, 1] = np.where(far_first, far, near), np.where(far_first, near, far)
    reports.kind[rows, 0], reports.kind[rows, 1] = np.where(far_first, 65, 0), np.where(far_first, 64, 1)
    reports.always[rows] = far_first


def _report_box(
    reports: Reports,
    rows: NDArray[np.int64],
    program: NDArray[np.int64],
    origin: Float32,
    direction: Float32,
    box: Float32,
) -> None:
    """Entry with kind 16 + axis, exit with 32 + axis; a line beside the box reports nothing."""
    interval = box_interval(origin, direction, box)
    meets = ~interval.outside & (interval.entry <= interval.exit)
    reports.report_count[rows] = np.where(meets, 2, 0)
    with np.errstate(all="ignore"):
        reports.t[rows, 0], reports.t[rows, 1] = interval.entry, interval.exit
    reports.kind[rows, 0] = 16 + interval.entry_axis
    reports.kind[rows, 1] = 32 + interval.exit_axis


def _report_torus(
    reports: Reports,
    rows: NDArray[np.int64],
    program: NDArray[np.int64],
    origin: Float32,
    direction: Float32,
    box: Float32,
) -> None:
    """All roots of the ring, kinds 0 to 3 from near to far, or 64 to 67 from far to near."""
    count, t = torus_roots(origin, direction, box)
    far_first = program == IntersectionProgram.TORUS_FAR_FIRST
    number = np.arange(MOST_REPORTS)[None]
    order = np.where(far_first[:, None], np.maximum(count[:, None] - 1 - number, 0), number)
    reports.report_count[rows] = count
    reports.t[rows] = np.take_along_axis(t, order, axis=1)
    reports.kind[rows] = order + np.where(far_first, 64, 0)[:, None]
    reports.always[rows] = far_first


class Places(NamedTuple):
    """Where hits lie, for the programs that look at it: of triangles ``barycentrics`` (m, 2) float32; of procedurals
    the object-space ray, ``origin`` and ``direction`` (m, 3) float32."""

    is_triangles: bool
    barycentrics: Float32
    origin: Float32
    direction: Float32


def run_any_hit(
    program: NDArray[np.int64],
    geometry: NDArray[np.int32],
    primitive: NDArray[np.int32],
    t: Float32,
    places: Places,
    materials: GeometryMaterials,
) -> NDArray[np.int64]:
    """(m, 4) IGNORED, ACCEPTED or ACCEPTED_AND_ENDED of row-wise calls, one for each report at ``t`` (m, 4) of a
    candidate in one bottom level [AH-5, AH-6]; a negative program is none: ACCEPTED."""
    odd_primitive, odd_geometry = primitive % 2 == 1, geometry % 2 == 1
    ignored = (
        (program == AnyHitProgram.IGNORE)
        | ((program == AnyHitProgram.IGNORE_ODD_PRIMITIVES) & odd_primitive)
        | ((program == AnyHitProgram.IGNORE_ODD_GEOMETRIES) & odd_geometry)
        | ((program == AnyHitProgram.IGNORE_ODD_PRIMITIVES_END_AT_EVEN) & odd_primitive)
    )
    cut_out = np.zeros(t.shape, np.bool_)
    checker = np.flatnonzero(program == AnyHitProgram.CHECKER)
    if places.is_triangles:
        for rows, is_out in (
            (np.flatnonzero(program == AnyHitProgram.ALPHA_MASK), masked_out),
            (checker, checker_cells),
        ):
            hits = is_out(materials, geometry[rows], primitive[rows], places.barycentrics[rows])
            cut_out[rows] = hits[:, None]
    else:
        cut_out[checker] = checker_cubes(t[checker], places.origin[checker], places.direction[checker])
    ends = (program == AnyHitProgram.ACCEPT_AND_END_SEARCH) | (
        program == AnyHitProgram.IGNORE_ODD_PRIMITIVES_END_AT_EVEN
    )
    accepted = np.where(ends, ACCEPTED_AND_ENDED, ACCEPTED)[:, None]
    return np.where(ignored[:, None] | cut_out, IGNORED, accepted)
