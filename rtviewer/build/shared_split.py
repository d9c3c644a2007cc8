"""One binned split of a large range by all threads."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.structure import aligned_bytes
from rtviewer.build.reference_rows import ROW_BYTES, ReferenceRows
from rtviewer.build.workers import Workers


class SharedSplit:
    """Splits parts of a node, whose ranges and frames are in ``workspace`` (see ``kernels.cuts``).

    ``sizes``: most primitives in a leaf, and the shift of a pack.

    References move between the two sides of ``rows``, so that every thread knows where its own go. Their order is the
    input's within each half, as when one thread does it, whatever the pieces.
    """

    def __init__(
        self, rows: ReferenceRows, workspace: NDArray[np.uint8], sizes: tuple[int, int], workers: Workers
    ) -> None:
        self.rows, self.workspace, self.sizes, self.workers = rows, workspace, sizes, workers

    def run(self, chosen: int, number: int) -> None:
        """Split part ``chosen``; the right half becomes part ``number``."""
        from rtviewer.kernels import binning, chunks, cuts
        from rtviewer.kernels.topology import copy_frame, set_part

        at = self.workspace.ctypes.data
        frame, halves = at + cuts.FRAMES_AT + 64 * chosen, at + cuts.HALVES_AT
        first, end = self._part(chosen)
        pieces = [(first + a, first + b) for a, b in self.workers.pieces(end - first)]
        bins, shares = self._bins(pieces, frame, binning.BINS)
        plane = int(
            chunks.choose_plane(bins.ctypes.data, binning.BINS, end - first, self.sizes[1], at + cuts.COSTS_AT, halves)
        )
        if plane < 0:
            middle = cuts.split_in_the_middle(self.rows.base_of(first), first, end, at)
        else:
            axis, plane = plane >> 32, plane & 0xFFFFFFFF
            lefts = [int(share[:plane, axis].sum()) for share in shares]
            first, middle, end = self._partition(pieces, lefts, frame, (binning.BINS, axis, plane), halves)
        copy_frame(halves, frame)
        copy_frame(halves + 64, at + cuts.FRAMES_AT + 64 * number)
        set_part(at, chosen, first, middle, 0, 0, *self.sizes)
        set_part(at, number, middle, end, 0, 0, *self.sizes)

    def gather(self, number: int, first: int) -> None:
        """Bring all parts of the node back to one range that starts at ``first``."""
        from rtviewer.kernels.chunks import move_chunk

        ranges = sorted((self._part(part) for part in range(number)), key=lambda part: part[0] % self.rows.count)
        for begin, end in ranges:
            target = first + (begin - first) % self.rows.count
            if target != begin:
                move_chunk(*self._addresses(begin, end), self.rows.address_of(target))

    def _addresses(self, first: int, end: int) -> tuple[int, int]:
        """Of a range, whose end may be that of its side."""
        base = self.rows.base_of(first)
        return base + ROW_BYTES * first, base + ROW_BYTES * end

    def _part(self, part: int) -> tuple[int, int]:
        from rtviewer.kernels.cuts import PARTS_AT

        first, end = self.workspace[PARTS_AT + 24 * part : PARTS_AT + 24 * part + 16].view(np.int64)
        return int(first), int(end)

    def _bins(
        self, pieces: list[tuple[int, int]], frame: int, bin_count: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Bins over all pieces, and for each piece how many references are in each bin (pieces, bins, 3)."""
        from rtviewer.kernels.binning import COUNT_LANE
        from rtviewer.kernels.chunks import bin_chunk

        boxes = np.empty((len(pieces), bin_count, 3, 8), np.float32)
        self.workers.all(
            [
                partial(bin_chunk, *self._addresses(a, b), frame, bin_count, boxes[k].ctypes.data)
                for k, (a, b) in enumerate(pieces)
            ]
        )
        shares = boxes.view(np.int32)[..., COUNT_LANE].copy()
        every = boxes.max(0)
        every.view(np.int32)[..., COUNT_LANE] = shares.sum(0)
        return every, shares

    def _partition(
        self, pieces: list[tuple[int, int]], lefts: list[int], frame: int, plane: tuple[int, int, int], halves: int
    ) -> tuple[int, int, int]:
        """Move all references to the other side, the left ones first; returns (first, middle, end) there."""
        from rtviewer.kernels.chunks import partition_chunk

        first = self.rows.other_side(pieces[0][0])
        left, right = first, first + sum(lefts)
        middle, base = right, self.rows.base_of(first)
        frames = aligned_bytes(128 * len(pieces)).view(np.float32).reshape(-1, 32)
        calls = []
        for k, (a, b) in enumerate(pieces):
            targets = base + ROW_BYTES * left, base + ROW_BYTES * right
            calls.append(
                partial(partition_chunk, *self._addresses(a, b), frame, *plane, *targets, frames[k].ctypes.data)
            )
            left += lefts[k]
            right += (b - a) - lefts[k]
        self.workers.all(calls)
        offset = halves - self.workspace.ctypes.data
        result = self.workspace[offset : offset + 128].view(np.float32)
        for half in (slice(8, 16), slice(24, 32)):
            result[half] = frames[:, half].max(0)
        return first, middle, right
