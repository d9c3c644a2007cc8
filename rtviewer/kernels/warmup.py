"""Compiles what the product uses by calling it on the smallest inputs; ``kernels.warm_up`` is the way in.

The signatures are those the borders (``trace.dispatch``, ``build.builder``) canonicalise to. A test runs this, then the
product, and asserts that nothing new was compiled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rtviewer.accel import layout
from rtviewer.kernels import chunks, corners, cuts, exact_cost, leaves, morton, refit, state, topology


def compile_all(progress: Callable[[float, str], None] | None = None) -> None:
    steps = [
        ("builder", _builder),
        ("tracer", lambda: _tracer(False, False)),
        ("tracer with counters", lambda: _tracer(True, False)),
        ("ray log", lambda: _tracer(True, True)),
    ]
    for number, (name, step) in enumerate(steps):
        if progress:
            progress(number / len(steps), f"compiling the {name}")
        step()
    if progress:
        progress(1.0, "compiled")


def _builder() -> None:
    """Builds of one triangle, of boxes and of instances touch every kernel; the shared steps are called by name."""
    rows, frame = np.zeros((64, 8), np.float32), np.zeros(64, np.float32)
    at, frames = rows.ctypes.data, frame.ctypes.data
    table, cancel = np.zeros(64, np.int32), np.zeros(1, np.int32)
    workspace, room = np.zeros(cuts.WORKSPACE_BYTES, np.uint8), np.zeros(4096, np.uint8)
    work, free = workspace.ctypes.data, room.ctypes.data
    exact_cost.fill_table(table.ctypes.data, 8)
    exact_cost.pack_count(1, 2)
    exact_cost.node_cost(1, 2, 160, table.ctypes.data)
    chunks.reference_triangles(at, 0, 0, at, at, frames)
    chunks.measure_chunk(at, at, frames)
    chunks.bin_chunk(at, at, frames, 4, work)
    chunks.choose_plane(work, 4, 1, 2, free, frames)
    chunks.partition_chunk(at, at, frames, 4, 0, 1, free, free, frames)
    chunks.move_chunk(at, at, free)
    costs = (8, 2, 160, table.ctypes.data)
    topology.build_range(at, free, 0, 0, 0, 1, *costs, 4096, free, free, free, work, cancel.ctypes.data)
    topology.cut_within(at, free, 0, 0, 0, 1, *costs, 4096, work)
    topology.set_part(work, 0, 0, 1, 0, 0)
    topology.part_to_cut(work, 1, 8, 2)
    topology.parts_cost(work, 1, *costs)
    topology.copy_frame(frames, frames)
    cuts.split_in_the_middle(at, 0, 2, work)
    cuts.cut_exactly(at, 0, 0, 1, 2, work)
    digits = np.zeros(morton.DIGITS, np.int64)
    morton.make_keys(at, 0, 0, frames, at)
    morton.count_digits(at, 0, 0, 28, digits.ctypes.data)
    morton.scatter_keys(at, 0, 0, 28, digits.ctypes.data, at)
    leaves.fill_elements(0, at, 0, free, 0, at, 1, 0, free, free)
    leaves.fill_nodes(free, 0, free, free, free, 0, 0)
    corners.number_vertices(0, 0, 0, 0, at)
    corners.write_corners(0, 0, 0, at, 0, at, 0, at, at)
    bounds = np.zeros((1, 6), np.float32)
    leaves.triangle_bounds(np.zeros((1, 3, 3), np.float32), np.zeros(1, np.int32), bounds)
    packs, nodes = np.zeros(1, layout.TRIANGLE_PACK), np.zeros((1, 64), np.float32)
    refit.element_bounds(packs["id"], bounds, np.zeros((1, 6), np.float32))
    refit.refit_nodes(nodes, nodes.view(np.int32), np.zeros((1, 6), np.float32))


def _tracer(counting: bool, logging: bool) -> None:
    from rtviewer.kernels.traverse import trace_rays

    world, batch, log, walk = (
        np.zeros(size, np.uint8).ctypes.data
        for size in (state.WORLD_SIZE, state.BATCH_SIZE, state.LOG_SIZE, state.WALK_SIZE)
    )
    trace_rays(world, batch, 0 if counting else None, log if logging else None, walk, 0, 0)
