"""The references of a build as memory that kernels permute."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROW_BYTES = 32
SOURCE = np.dtype([("vertices", "<u8"), ("indices", "<u8"), ("first", "<i8"), ("id", "<i4"), ("owner", "<i4")])
"""A row of ``kernels.references``' table of sources."""

COORDINATES = [0, 1, 2, 4, 5, 6]
SMALLEST_REACH, LARGEST_REACH = 2.0**-20, 2.0**40
"""Within these, float32 areas of boxes neither overflow nor vanish."""


@dataclass
class ReferenceRows:
    """``data``: (n, 8) float32, 64-aligned, rows as in ``kernels.references``, of which the first ``count`` are
    references. ``frame``: (16,) float32 around them. ``sources``: (m,) SOURCE. ``keys``: Morton keys that give the rows
    an order, or None. ``in_order``: row i was written for triangle i of the only source. ``spare``: as many rows again,
    room for cuts to move references to and fro; numbers from ``count`` on stand for its rows. ``held``: arrays whose
    addresses are in ``sources``."""

    data: NDArray[np.float32]
    count: int
    frame: NDArray[np.float32]
    sources: NDArray[np.void]
    keys: NDArray[np.int64] | None = None
    in_order: bool = False
    spare: NDArray[np.float32] | None = None
    held: list[NDArray[Any]] = field(default_factory=list)

    @property
    def address(self) -> int:
        return int(self.data.ctypes.data)

    @property
    def keys_address(self) -> int:
        return 0 if self.keys is None else int(self.keys.ctypes.data)

    def base_of(self, row: int) -> int:
        """Where row 0 would be if all rows were on the side of this one."""
        if row < self.count or self.spare is None:
            return self.address
        return int(self.spare.ctypes.data) - ROW_BYTES * self.count

    def address_of(self, row: int) -> int:
        return self.base_of(row) + ROW_BYTES * row

    def other_side(self, row: int) -> int:
        return row + self.count if row < self.count else row - self.count

    def brought_home(self, first: int, end: int) -> tuple[int, int]:
        """Move a range that is on the spare side to its place among the first rows; returns where it is then."""
        from rtviewer.kernels.chunks import move_chunk

        if first < self.count:
            return first, end
        at = self.address_of(first)
        move_chunk(at, at + ROW_BYTES * (end - first), self.address_of(first - self.count))
        return first - self.count, end - self.count

    def measure(self) -> None:
        """Set the frame anew."""
        from rtviewer.kernels.chunks import measure_chunk

        self.frame = np.empty(16, np.float32)
        measure_chunk(self.address, self.address + ROW_BYTES * self.count, self.frame.ctypes.data)

    def fit(self, reach: float) -> None:
        """Scale the rows so that cuts can calculate with them in float32, when they are huge, tiny or infinite.

        ``reach``: largest finite coordinate. Infinite ones count as two to four times that. Boxes of nodes do not come
        from here.
        """
        finite = not self.count or bool(np.isfinite(self.frame[COORDINATES]).all())
        if finite and (reach == 0.0 or SMALLEST_REACH <= reach <= LARGEST_REACH):
            return
        limit = 2.0 ** (math.frexp(reach or 1.0)[1] + 1)  # a power of two: no rounding
        used = self.data[: self.count]
        for column in COORDINATES:
            used[:, column] = np.clip(used[:, column].astype(np.float64), -limit, limit) / limit
        self.measure()


def empty_rows(count: int) -> NDArray[np.float32]:
    """(count, 8) float32, its first byte 64-aligned; what is in it is not said."""
    raw = np.empty(ROW_BYTES * count + 64, np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + ROW_BYTES * count].view(np.float32).reshape(-1, 8)


def rows_in(memory: NDArray[np.uint8], count: int) -> NDArray[np.float32]:
    """(count, 8) float32 at the start of aligned memory."""
    return memory[: ROW_BYTES * count].view(np.float32).reshape(-1, 8)


def write_boxes(out: NDArray[np.float32], boxes: NDArray[np.float32], words: NDArray[np.int32], owner: int) -> None:
    """Rows of boxes (n, 6) float32 with their id words."""
    out[:, :3], out[:, 4:7] = -boxes[:, :3], boxes[:, 3:]
    out.view(np.int32)[:, 3], out.view(np.int32)[:, 7] = words, owner


def instance_rows(
    bounds: NDArray[np.float32], ids: NDArray[np.int32], instance_count: int, reach: float
) -> ReferenceRows:
    """Rows of active instances ``ids`` with world boxes ``bounds`` (k, 6); an id is the instance's number."""
    every = np.zeros((instance_count, 6), np.float32)
    every[ids] = bounds
    sources = np.zeros(1, SOURCE)
    sources["vertices"] = every.ctypes.data
    data = empty_rows(len(ids))
    write_boxes(data, bounds, ids, 0)
    rows = ReferenceRows(data, len(ids), np.empty(0, np.float32), sources, held=[every])
    rows.measure()
    rows.fit(reach)
    return rows
