"""One pass over an index buffer: a hash of its contents and its largest index (UPD-8, GEO-4)."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray


def scan_indices(indices: NDArray[np.uint32]) -> tuple[int, int]:
    """(hash, largest) of indices, any shape: 64 bits that depend on every index and their order, and the largest one,
    -1 when there is none."""
    from rtviewer.kernels.refit import scan
    from rtviewer.kernels.refit_lanes import SCAN_SIZE, SCAN_WORDS

    words = np.ascontiguousarray(indices, np.uint32).ravel()
    state = np.zeros(SCAN_SIZE // 4 + SCAN_WORDS, np.uint32)
    scan(words.ctypes.data, len(words), state.ctypes.data)
    digest = hashlib.blake2b(state[:SCAN_WORDS].tobytes() + len(words).to_bytes(8, "little"), digest_size=8)
    largest = int(state[SCAN_WORDS : SCAN_SIZE // 4].max()) if len(words) else -1
    return int.from_bytes(digest.digest(), "little"), largest
