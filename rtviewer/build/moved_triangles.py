"""Moved triangles in an old tree: one compiled pass over the leaves, and exact looks at what that pass is unsure of.

The pass reads vertices through the indices, writes packs and boxes, and notes what is rare: a NaN, and triangles whose
area float32 cannot tell from zero. Triangles that are not in the tree are inactive or degenerate for ever; they are few
and are looked at in numpy.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure
from rtviewer.build.kept_memory import KeptMemory
from rtviewer.build.workers import together
from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag
from rtviewer.scene.primitives import degenerate_triangles, inactive_triangles, transformed_vertices

PROCESSORS = os.cpu_count() or 1
PARTS, SMALLEST_PART, LARGEST_PART = 8, 128, 1024
"""How many parts there should be for each processor, and how many nodes one may have; the result does not depend on
it."""
SMALL = 4_000
"""Packs from which other threads are worth waking."""

_scratch = KeptMemory()


@dataclass
class MovedTriangles:
    """What an update reads of its inputs: vertices after the transform and uint32 indices, per geometry, contiguous.

    ``first`` (m + 1,) int64: numbers of the geometries' first primitives, and of all. Indices must be in range.
    """

    inputs: BlasInputs
    vertices: list[NDArray[np.float32]] = field(default_factory=list)
    indices: list[NDArray[np.uint32]] = field(default_factory=list)

    def __post_init__(self) -> None:
        triangles = [g for g in self.inputs.geometries if isinstance(g, TrianglesGeometry)]
        self.vertices = [np.ascontiguousarray(transformed_vertices(g), np.float32) for g in triangles]
        self.indices = [
            np.arange(3 * g.primitive_count, dtype=np.uint32) if g.indices is None
            else np.ascontiguousarray(g.indices, np.uint32).ravel()
            for g in triangles
        ]  # fmt: skip
        self.first = np.concatenate([[0], np.cumsum([g.primitive_count for g in triangles], dtype=np.int64)])

    def rows(self) -> NDArray[np.int64]:
        """Geometry rows as ``kernels.refit`` reads them."""
        rows = np.zeros((len(self.vertices), 5), np.int64)
        for row, geometry in enumerate(self.inputs.geometries):
            flags = int(geometry.flags)
            bits = layout.ID_OPAQUE if flags & GeometryFlag.OPAQUE else 0
            bits |= layout.ID_NO_DUPLICATE if flags & GeometryFlag.NO_DUPLICATE_ANYHIT_INVOCATION else 0
            rows[row] = (
                self.first[row],
                self.first[row + 1],
                self.vertices[row].ctypes.data,
                self.indices[row].ctypes.data,
                bits,
            )
        return rows

    def geometry_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self.first, numbers, side="right") - 1

    def corners(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """(k, 3, 3) float32: corners of the triangles ``numbers``."""
        corners = np.empty((len(numbers), 3, 3), np.float32)
        geometry = self.geometry_of(numbers)
        for row in np.unique(geometry):
            mine = geometry == row
            corners[mine] = self.vertices[row][self.indices[row].reshape(-1, 3)[numbers[mine] - self.first[row]]]
        return corners

    def per_geometry(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """(m,) how many of ``numbers`` are in each geometry."""
        return np.bincount(self.geometry_of(numbers), minlength=len(self.vertices))


@dataclass(frozen=True)
class Refitted:
    """``sound``: no NaN, and nothing turned active or inactive; the rest holds only then. ``reach``: largest finite
    coordinate of an active triangle. ``degenerate`` (m,): degenerate ones of each geometry."""

    sound: bool
    reach: float = 0.0
    degenerate: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


def fill_triangles(source: Structure, target: Structure, moved: MovedTriangles) -> Refitted:
    """Write nodes, packs and vertices of ``target`` from the topology of ``source`` and moved triangles.

    ``target``: the size and sections of ``source``, whose nodes and packs are not written yet. Bits do not depend on
    the number of threads.
    """
    reach, degenerate = 0.0, np.zeros(len(moved.vertices), np.int64)
    inactive, out = source.section(SectionKind.INACTIVE), left_out(source)
    if len(out):
        corners = moved.corners(out)
        dead = inactive_triangles(corners)
        bits = np.unpackbits(inactive, bitorder="little")
        if not np.array_equal(bits[out], dead) or int(bits.sum()) != int(dead.sum()) or np.isnan(corners[~dead]).any():
            return Refitted(False)
        reach = _finite_reach(corners[~dead])
        degenerate += moved.per_geometry(out[degenerate_triangles(corners) & ~dead])
    elif inactive.any():
        return Refitted(False)
    if not len(source.nodes):
        return Refitted(True, reach, degenerate)
    doubtful = _run(source, target, moved)
    if not len(doubtful):
        return Refitted(True, max(reach, _reach_of_root(target)), degenerate)
    ids = target.packs["id"]
    numbers = (ids[doubtful >> 2, doubtful & 3] & layout.PRIMITIVE_BITS).astype(np.int64)
    corners = moved.corners(numbers)
    if np.isnan(corners).any():
        return Refitted(False)
    reach = max(reach, _reach_of_root(target))
    if np.isinf(corners).any():
        inside = ids[ids != layout.UNUSED_LANE] & layout.PRIMITIVE_BITS
        reach = max(reach, _finite_reach(moved.corners(inside.astype(np.int64))))
    flat = degenerate_triangles(corners)
    ids[doubtful[flat] >> 2, doubtful[flat] & 3] |= layout.ID_DEGENERATE
    degenerate += moved.per_geometry(numbers[flat])
    return Refitted(True, reach, degenerate)


def _reach_of_root(structure: Structure) -> float:
    """The largest finite coordinate of the root's boxes; with infinities it may be less than that of the triangles."""
    root = structure.nodes[:1].view(np.float32)[:48]
    return _finite_reach(root)


def _finite_reach(corners: NDArray[np.float32]) -> float:
    sizes = np.abs(corners)
    return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))


def left_out(structure: Structure) -> NDArray[np.int64]:
    """Numbers of the primitives that are not in the tree."""
    count = int(structure.header["input_count"])
    if int(structure.header["active_count"]) == count:
        return np.empty(0, np.int64)
    out = np.ones(count, np.bool_)
    ids = structure.packs["id"]
    out[ids[ids != layout.UNUSED_LANE] & layout.PRIMITIVE_BITS] = False
    return np.flatnonzero(out)


def _run(source: Structure, target: Structure, moved: MovedTriangles) -> NDArray[np.int32]:
    """Run the compiled pass; returns the lanes that it is unsure of, four times the pack's index plus the lane."""
    from rtviewer.kernels import refit
    from rtviewer.kernels.refit_lanes import ELEMENT_SIZE

    places = {kind: (first, count) for kind, _, count, first in source.section_table}
    indexed = SectionKind.INDEXED_PACKS in places
    packs_at, packs = places[SectionKind.INDEXED_PACKS if indexed else SectionKind.TRIANGLE_PACKS]
    nodes_at, nodes = places[SectionKind.NODES]
    grain = min(max(nodes // (PARTS * PROCESSORS), SMALLEST_PART), LARGEST_PART)
    # Triangles of different leaves share rows of vertices.
    threads = 1 if indexed or packs < SMALL else min(PROCESSORS, -(-nodes // grain))
    room, rows = int(refit.room_size(grain)), moved.rows()
    boxes_at = threads * room
    doubtful_at = boxes_at + ELEMENT_SIZE * nodes
    scratch = _scratch.lend(doubtful_at + 16 * packs, None)
    at, before, after = scratch.ctypes.data, source.data.ctypes.data, target.data.ctypes.data
    work = np.array(
        [
            before + nodes_at, after + nodes_at, before + packs_at, after + packs_at, rows.ctypes.data, len(rows),
            after + places[SectionKind.INDICES][0] if indexed else 0,
            after + places[SectionKind.VERTICES][0] if indexed else 0,
            nodes, at + boxes_at, grain, 0, at + doubtful_at, 0,
        ],
        np.int64,
    )  # fmt: skip
    address = work.ctypes.data
    together(lambda thread: refit.refit_parts(address, at + room * thread), threads)
    refit.join_parts(after + nodes_at, nodes, at + boxes_at)
    return scratch[doubtful_at:].view(np.int32)[: work[-1]].copy()
