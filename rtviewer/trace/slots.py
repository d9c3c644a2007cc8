"""Memory for rays that are walked side by side (``kernels.stream``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SLOTS = 16
"""Rays that are walked at a time: enough that what one waits for comes while the others have their turns, and few
enough that all stay in the nearest cache."""
LINE = 64
"""Bytes of a cache line."""


class Slots:
    """The stream block of ``kernels.state`` with its slots, for calls on one thread."""

    def __init__(self, stack_size: int, walk: NDArray[np.uint8] | None = None) -> None:
        """``stack_size``: entries a walk can need. ``walk``: the block of a walk that every slot begins as."""
        from rtviewer.kernels import state

        room = -(-(stack_size + state.STACK_SLACK) // 2) * 2
        size = -(-(state.WALK_SIZE + 8 * room) // LINE) * LINE
        if size // LINE % 2 == 0:
            size += LINE  # an odd number of lines: slots do not compete for the same places of a cache
        memory = np.zeros(SLOTS * size + LINE, np.uint8)
        first = -memory.ctypes.data % LINE
        slots = memory[first:][: SLOTS * size].reshape(SLOTS, size)
        if walk is not None:
            slots[:, : state.WALK_SIZE] = walk
        lists = np.zeros(4 * SLOTS, np.int64)
        block = np.array([slots.ctypes.data, size, SLOTS, room, lists.ctypes.data, 0, 0], np.int64)
        self.address = block.ctypes.data
        self._kept = block, memory, lists
