"""What a picture's colours mean, as data that window and command line draw: a scale with ticks, or named colours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtviewer.shade.palettes import palette


@dataclass(frozen=True)
class Tick:
    """``position`` 0 at the low end, 1 at the high end."""

    position: float
    text: str


@dataclass(frozen=True)
class Legend:
    """``palette`` is the palette's name and the ticks stand on it, or ``entries`` are (text, (r, g, b)) rows."""

    title: str
    unit: str = ""
    palette: str = ""
    low: float = 0.0
    high: float = 1.0
    ticks: tuple[Tick, ...] = ()
    entries: tuple[tuple[str, tuple[int, int, int]], ...] = ()
    note: str = ""


def scale_legend(
    title: str, unit: str, palette_name: str, low: float, high: float, *, count: int = 5, whole: bool = False
) -> Legend:
    """The legend of a heat map whose palette spans ``low`` to ``high``; ``whole``: values are whole numbers."""
    return Legend(title, unit, palette_name, low, high, nice_ticks(low, high, count, whole=whole))


def nice_ticks(low: float, high: float, count: int = 5, *, whole: bool = False) -> tuple[Tick, ...]:
    """About ``count`` round values (steps of 1, 2 or 5 times a power of ten), and always both ends.

    ``whole``: no step below 1.
    """
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return (Tick(0.0, value_text(low, 1.0)),)
    raw = (high - low) / max(count - 1, 1)
    raw = max(raw, 1.0) if whole else raw
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.8)
    first = math.ceil(low / step)
    inner = [first * step + i * step for i in range(int((high - low) / step) + 2)]
    inner = [value for value in inner if low + 0.3 * step < value < high - 0.3 * step]
    return tuple(Tick((value - low) / (high - low), value_text(value, step)) for value in [low, *inner, high])


def value_text(value: float, step: float) -> str:
    """A value with the digits that steps of ``step`` need."""
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    digits = max(0, 1 - math.floor(math.log10(abs(step)))) if step else 3
    return f"{value:.{digits}f}" if digits < 7 and abs(value) < 1e7 else f"{value:.3g}"


def scale_image(palette_name: str, length: int, thickness: int, *, vertical: bool = False) -> NDArray[np.uint8]:
    """The palette as a strip, RGBA uint8: (thickness, length, 4), low left, or (length, thickness, 4), low below."""
    steps = np.rint(np.linspace(0, 255, length)).astype(np.int64)
    line = np.full((length, 4), 255, np.uint8)
    line[:, :3] = palette(palette_name)[steps]
    if vertical:
        return np.ascontiguousarray(np.broadcast_to(line[::-1, None], (length, thickness, 4)))
    return np.ascontiguousarray(np.broadcast_to(line[None], (thickness, length, 4)))
