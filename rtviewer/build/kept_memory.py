"""Memory of results that nobody holds any more, for the next results like them.

A fresh page of memory costs more than an update has to do with it. Structures stay what they were, values that never
change: memory comes back when the last view of it is gone, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.structure import aligned_bytes

MOST = 2
"""Pieces of memory that are kept: what an update in place leaves behind, and one more."""


class _Lease:
    """What all views of lent bytes hold on to."""

    def __init__(self, memory: NDArray[np.uint8], give_back: Callable[[NDArray[np.uint8]], None]) -> None:
        self._memory, self._give_back = memory, give_back

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._memory.__array_interface__

    def __del__(self) -> None:
        self._give_back(self._memory)


class KeptMemory:
    """Lends bytes to those who write the same places; all calls may come from any thread."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._free: list[tuple[Hashable, NDArray[np.uint8]]] = []

    def lend(self, size: int, use: Hashable) -> NDArray[np.uint8]:
        """(size,) uint8, 64-aligned, zero but for what earlier borrowers of the same size wrote for the same ``use``.

        They come back by themselves once no array looks at them.
        """
        memory = self._matching((size, use))
        if memory is None:
            memory = aligned_bytes(size)
        return np.asarray(_Lease(memory, partial(self._take_back, (size, use))))

    def _matching(self, key: Hashable) -> NDArray[np.uint8] | None:
        """Single calls of list methods only: what is given back meanwhile is neither lost nor lent twice."""
        others, found = [], None
        while self._free and found is None:
            try:
                kept = self._free.pop()
            except IndexError:
                break
            if kept[0] == key:
                found = kept[1]
            else:
                others.append(kept)
        self._free.extend(reversed(others[: self._most - 1]))
        return found

    def _take_back(self, key: Hashable, memory: NDArray[np.uint8]) -> None:
        self._free.append((key, memory))
        if len(self._free) > self._most:
            del self._free[: -self._most]
