"""Sorting references by Morton codes on all cores."""

from __future__ import annotations

from functools import partial

import numpy as np

from rtviewer.build.reference_rows import ReferenceRows
from rtviewer.build.workers import Workers


def sort_rows(rows: ReferenceRows, workers: Workers) -> None:
    """Give ``rows`` sorted ``keys``. Equal codes stay in input order, so pieces do not show in the result."""
    from rtviewer.kernels.morton import DIGIT_BITS, DIGITS, ROW_BITS, count_digits, make_keys, scatter_keys

    pieces = workers.pieces(rows.count)
    keys, spare = np.empty(rows.count, np.int64), np.empty(rows.count, np.int64)
    workers.all([partial(make_keys, rows.address, a, b, rows.frame.ctypes.data, keys.ctypes.data) for a, b in pieces])
    for shift in range(ROW_BITS, 64, DIGIT_BITS):
        counts = np.empty((len(pieces), DIGITS), np.int64)
        workers.all(
            [
                partial(count_digits, keys.ctypes.data, a, b, shift, counts[k].ctypes.data)
                for k, (a, b) in enumerate(pieces)
            ]
        )
        running = np.cumsum(counts.T.ravel()) - counts.T.ravel()  # digit by digit, and in each piece by piece
        places = np.ascontiguousarray(running.reshape(DIGITS, len(pieces)).T)
        workers.all(
            [
                partial(scatter_keys, keys.ctypes.data, a, b, shift, places[k].ctypes.data, spare.ctypes.data)
                for k, (a, b) in enumerate(pieces)
            ]
        )
        keys, spare = spare, keys
    rows.keys = keys
