"""Steps of a cut that several threads share: each takes a chunk of a large range, and their bins are added up."""

from __future__ import annotations

from rtviewer.kernels import jit
from rtviewer.kernels.binning import best_plane, fill_bins, move_rows, partition
from rtviewer.kernels.references import measure, triangle_references


@jit
def reference_triangles(source, first, end, out, status, frame):
    """``references.triangle_references`` for a chunk of triangles."""
    return triangle_references(source, first, end, out, status, frame)


@jit
def measure_chunk(at, end, frame):
    """``references.measure`` for a chunk of references."""
    measure(at, end, frame)


@jit
def bin_chunk(at, end, frame, bin_count, bins):
    """``binning.fill_bins`` for a chunk of references."""
    fill_bins(at, end, frame, bin_count, bins)


@jit
def choose_plane(bins, bin_count, total, pack_shift, scratch, frames):
    """``binning.best_plane`` over the sum of all chunks."""
    return best_plane(bins, bin_count, total, pack_shift, scratch, frames)


@jit
def partition_chunk(at, end, frame, bin_count, axis, plane, left, right, frames):
    """``binning.partition`` for a chunk; ``left`` and ``right`` are where its references go."""
    return partition(at, end, frame, bin_count, axis, plane, left, right, frames)


@jit
def move_chunk(at, end, target):
    """Copy the references between two addresses."""
    move_rows(at, end, target)
