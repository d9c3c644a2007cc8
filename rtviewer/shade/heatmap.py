"""Numbers become colours: choose a range, spread a palette over it. NaN is no number and gets no colour."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rtviewer.shade.palettes import palette

Numbers: TypeAlias = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]

NO_VALUE: tuple[int, int, int, int] = (24, 26, 30, 255)
"""RGBA where there is no value: a ray that hit nothing."""


def value_range(values: Numbers, kind: str = "automatic", low: float = 0.0, high: float = 1.0) -> tuple[float, float]:
    """The values that get the palette's two ends.

    ``automatic``: least and greatest finite value. ``fixed``: ``low`` and ``high``. ``percentile``: the values at the
    percentiles ``low`` and ``high`` (0 to 100). Without any finite value 0 and 1. The second is never the smaller.
    """
    if kind == "fixed":
        return float(low), float(max(low, high))
    finite = values[np.isfinite(values)] if np.issubdtype(values.dtype, np.floating) else values.ravel()
    if finite.size == 0:
        return 0.0, 1.0
    if kind == "percentile":
        ends = np.percentile(finite, [low, max(low, high)])
        return float(ends[0]), float(ends[1])
    return float(finite.min()), float(finite.max())


def heatmap(values: Numbers, palette_name: str, low: float, high: float) -> NDArray[np.uint8]:
    """(..., 4) uint8 RGBA of ``values`` (...): ``low`` and below the first colour, ``high`` and above the last.

    NaN gets NO_VALUE. With ``low`` equal to ``high``, values above get the last colour and the rest the first.
    """
    rgba = np.empty((*values.shape, 4), np.uint8)
    rgba[..., 3] = 255
    with np.errstate(invalid="ignore", over="ignore"):
        if high > low:
            place = (np.asarray(values, np.float64) - low) * (255.0 / (high - low))
        else:
            place = np.where(np.asarray(values, np.float64) > high, 255.0, 0.0)
    is_number = ~np.isnan(values) if np.issubdtype(values.dtype, np.floating) else np.ones(values.shape, np.bool_)
    steps = np.rint(np.clip(np.where(is_number, place, 0.0), 0.0, 255.0)).astype(np.int32)
    rgba[..., :3] = palette(palette_name)[steps]
    rgba[~is_number] = NO_VALUE
    return rgba
