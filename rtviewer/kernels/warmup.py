"""Compiles what the product uses by calling it on the smallest inputs; ``kernels.warm_up`` is the way in.

The signatures are those the borders (``trace.dispatch``, ``build.builder``) canonicalise to. A test runs this, then the
product, and asserts that nothing new was compiled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rtviewer.kernels import (
    binary_tree,
    chunks,
    collapse,
    corners,
    cuts,
    exact_cost,
    leaves,
    morton,
    refit,
    state,
    topology,
)


def compile_all(progress: Callable[[float, str], None] | None = None) -> None:

    steps = [
        ("builder", _builder),
        ("tracer", _tracer),
        ("tracer of packets", _packets),
        ("tracer with counters and ray log", _watched_tracer),
        ("updates", _refit),
        ("builder for fast traces", _improver),
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
    topology.set_part(work, 0, 0, 1, 0, 0, 8, 2)
    topology.part_to_cut(work, 1)
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


def _refit() -> None:
    empty = np.zeros(128, np.int64)
    at = empty.ctypes.data
    refit.element_bounds(at, 16, 0, at, at)
    refit.element_nodes(at, 0, at, at)
    refit.join_parts(at, 0, at)
    refit.refit_parts(at, at)
    refit.scan(at, 0, at)


def _improver() -> None:
    """On a tree of two leaf elements, whose parent is the root."""
    boxes, choices = np.zeros((4, 8), np.float32), np.zeros(4, np.int64)
    links = np.array([[2, -1, 0, 0], [2, -1, 0, 0], [-1, 0, 1, 0]], np.int32)
    room, order = np.zeros(1 << 16, np.uint8), np.array([2, 0, 1], np.int32)
    box, link, at, free = boxes.ctypes.data, links.ctypes.data, order.ctypes.data, room.ctypes.data
    binary_tree.element_boxes(box, free, 0, 0, box)
    binary_tree.from_wide(free, 32, 0, 0, free, free, free)
    binary_tree.inner_area(box, link, 0, 0, free)
    binary_tree.find_places(box, link, at, 0, 0, free, free, free)
    binary_tree.move(box, link, at, free, free, 0, free)
    collapse.order_nodes(link, 2, free)
    collapse.measure(link, at, 3, free)
    one = np.float32(1.0)
    collapse.choose(box, link, at, 3, one, one, one, 1, free, choices.ctypes.data)
    collapse.gather(link, choices.ctypes.data, 2, free, free + 64)
    collapse.list_elements(link, 2, free, 0, free + 64)
    collapse.write_nodes(link, choices.ctypes.data, 2, free + 32768, free + 16384, free)


def _tracer() -> None:
    from rtviewer.kernels import part_library, stream

    for part in (stream.walk_slots, part_library.plain_boxes, part_library.OFFERS[part_library.PLAIN]):
        part_library.address_of(part)
    world, batch, room = (np.zeros(size, np.uint8) for size in (state.WORLD_SIZE, state.BATCH_SIZE, state.STREAM_SIZE))
    world.view(np.int64)[state.WORLD_WALK_SLOTS // 8] = part_library.address_of(stream.walk_slots)
    stream.trace_stream(world.ctypes.data, batch.ctypes.data, room.ctypes.data, 0, 0)


def _watched_tracer() -> None:
    from rtviewer.kernels import part_library
    from rtviewer.kernels.traverse import trace_rays

    for part in (part_library.counting_leaves, part_library.OFFERS[part_library.COUNTING]):
        part_library.address_of(part)
    blocks = [np.zeros(size, np.uint8) for size in (state.WORLD_SIZE, state.BATCH_SIZE, state.WALK_SIZE)]
    world, batch, walk = (block.ctypes.data for block in blocks)
    trace_rays(world, batch, 0, 0, walk, 0, 0)


def _packets() -> None:
    from rtviewer.kernels import packet, packet_alone, packet_any_hit, packet_state, part_library

    if packet.AVAILABLE:
        parts = packet.enter_group, packet.walk_group, packet_alone.walk_alone, packet_any_hit.ask_group
        for part in parts:
            part_library.address_of(part)
        sizes = (packet_state.PACKET_REFS, state.WALK_SIZE, state.WORLD_SIZE, state.STREAM_SIZE)
        blocks = [np.zeros(size, np.uint8) for size in sizes]
        request = np.zeros(packet_state.REQUEST_SIZE // 8, np.int64)
        places = (
            packet_state.REQUEST_PACKET, packet_state.REQUEST_WALK, packet_state.REQUEST_WORLD,
            packet_state.REQUEST_STREAM,
        )  # fmt: skip
        for offset, block in zip(places, blocks, strict=True):
            request[offset // 8] = block.ctypes.data
        packet.trace_packets(request.ctypes.data, 0, 0)
