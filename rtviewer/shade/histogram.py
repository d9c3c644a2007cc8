"""How the numbers of a heat map are spread: bars between values, and the few figures that sum them up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_BINS = 128


@dataclass(frozen=True, eq=False)
class Histogram:
    """``edges`` (n + 1,) float64, ascending; ``counts`` (n,) int64: values from one edge to the next.

    Bins of whole numbers have their edges halfway between them. ``count``: numbers in all; ``left_out``: those that are
    NaN or infinite and in no bin. ``low``, ``high``, ``mean``, ``p50``, ``p95`` of the finite ones, 0 without any.
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    count: int
    left_out: int
    low: float
    high: float
    mean: float
    p50: float
    p95: float


def histogram(values: NDArray[np.floating[Any]], *, whole: bool = False, bins: int = MOST_BINS) -> Histogram:
    """The spread of ``values``, any shape, in at most ``bins`` bins of equal width over the finite ones.

    ``whole``: they are whole numbers, so bins hold as many of them each and none stays empty for its width alone.
    """
    finite = values[np.isfinite(values)].astype(np.float64)
    left_out = int(values.size - finite.size)
    if not finite.size:
        return Histogram(np.array([0.0, 1.0]), np.zeros(1, np.int64), 0, left_out, 0.0, 0.0, 0.0, 0.0, 0.0)
    low, high = float(finite.min()), float(finite.max())
    if whole:
        width = max(1, -(-int(high - low + 1) // bins))
        last = int(high - low) // width + 1
        edges = low - 0.5 + width * np.arange(last + 1, dtype=np.float64)
        counts = np.bincount(((finite - low) // width).astype(np.int64), minlength=last)
    elif high > low and np.isfinite(high - low):
        counts, edges = np.histogram(finite, bins, (low, high))
    else:
        half = max(abs(low) * 0.01, 0.5)
        edges, counts = np.array([low - half, low + half]), np.array([finite.size])
    middle, most = np.percentile(finite, [50, 95])
    return Histogram(
        edges, counts.astype(np.int64), finite.size, left_out, low, high, float(finite.mean()), float(middle),
        float(most),
    )  # fmt: skip
