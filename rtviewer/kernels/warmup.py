"""Compiles what the product uses by calling it on the smallest inputs; ``kernels.warm_up`` is the way in.

The signatures are those the borders (``trace.dispatch``, ``build.builder``) canonicalise to. A test runs this, then the
product, and asserts that nothing new was compiled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rtviewer.kernels import cuts, exact_cost, leaves, refit, state, wide_builder


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

    corners = np.zeros((1, 3, 3), np.float32)
    ids, flags = np.zeros(1, np.int32), np.zeros(1, np.int32)
    bounds = np.zeros((1, 6), np.float32)
    leaves.triangle_bounds(corners, ids, bounds)
    nodes, packs = np.zeros((2, 64), np.float32), np.zeros((1, 2), np.int32)
    children = nodes.view(np.int32)
    keys = np.zeros(0, np.uint64)
    wide_builder.build_range(bounds, ids, keys, 0, 0, 1, 8, 4, 160, 4096, nodes, children, packs, np.zeros(1, np.uint8))
    wide_builder.relocate(children, 1, 0, 0, children)
    parts = np.zeros((8, 2), np.int64)
    wide_builder.build_top_node(bounds, ids, keys, 0, 0, 1, 8, 4, 160, 4096, parts)
    cuts.morton_codes(bounds, np.zeros(1, np.uint64))
    exact_cost.node_cost(1, 4, 160)
    wide_builder.write_top_node(bounds, parts, 0, np.zeros(8, np.int32), nodes, children, 0)
    wide_builder.leaf_reference(0, 1)
    from rtviewer.accel import layout

    triangle_packs, box_packs = np.zeros(1, layout.TRIANGLE_PACK), np.zeros(1, layout.BOX_PACK)
    leaves.write_triangle_packs(packs, ids, corners, flags, triangle_packs["vertices"], triangle_packs["id"])
    leaves.write_pack_ids(packs, ids, flags, np.zeros(1, layout.INDEXED_PACK)["id"])
    refit.element_bounds(triangle_packs["id"], bounds, np.zeros((1, 6), np.float32))
    refit.refit_nodes(nodes, children, np.zeros((1, 6), np.float32))
    leaves.write_box_packs(packs, ids, bounds, flags, box_packs["low"], box_packs["high"], box_packs["id"])


def _tracer(counting: bool, logging: bool) -> None:
    from rtviewer.kernels.traverse import trace_rays

    world, batch, log, walk = (
        np.zeros(size, np.uint8).ctypes.data
        for size in (state.WORLD_SIZE, state.BATCH_SIZE, state.LOG_SIZE, state.WALK_SIZE)
    )
    trace_rays(world, batch, 0 if counting else None, log if logging else None, walk, 0, 0)
