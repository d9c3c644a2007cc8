"""Whether a triangle has an area is exact, though float32 is asked first [DEG-1]."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.build.builder import build_blas
from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry


def lines(scale: float, count: int = 300) -> np.ndarray:
    """(count, 3, 3) float32: a point, another, and the one as far behind that; no sum or product is rounded."""
    random = np.random.default_rng(5)
    start, step = random.integers(-200, 200, (2, count, 3))
    step[:, 0] = 2 * step[:, 0] + 1  # never nothing
    points = start[:, None] + step[:, None] * np.arange(3)[None, :, None]
    return (points * scale).astype(np.float32)


def degenerates(corners: np.ndarray) -> int:
    structure = build_blas(BlasInputs((TrianglesGeometry(corners.reshape(-1, 3)),)))
    return int(structure.header["degenerate_count"])


@pytest.mark.rule("DEG-1")
@pytest.mark.parametrize("exponent", [-140, -75, -72, -70, -66, -60, -50, -20, 0, 30, 60, 64, 100, 115])
def test_lines_have_none_and_the_slightest_bend_has_one(exponent: int) -> None:
    """Products of such coordinates vanish, lose digits, or overflow in float32."""
    straight = lines(2.0**exponent)
    assert degenerates(straight) == len(straight)
    bent = straight.copy()
    bent[:, 2, 1] = np.nextafter(bent[:, 2, 1], np.float32(np.inf))
    assert degenerates(bent) == 0


def rounded_lines(scale: float, count: int = 3000) -> np.ndarray:
    """(count, 3, 3) float32 on the line (t, 3 t, 5 t), one point so near 0 that edges from it are rounded."""
    random = np.random.default_rng(6)
    far = random.integers(1 << 19, 1 << 20, (count, 2)) * 64 * random.choice([-1, 1], (count, 2))
    near = 2 * random.integers(0, 8, (count, 1)) + 1
    t = np.concatenate([near, far], 1).astype(np.float64)
    return (t[:, :, None] * [1, 3, 5] * scale).astype(np.float32)


@pytest.mark.rule("DEG-1")
@pytest.mark.parametrize("exponent", [*range(-104, -94), -80, 0, 30])
def test_edges_that_are_rounded_make_no_area_either(exponent: int) -> None:
    """Of products that float32 rounds to its smallest numbers, two may differ where the exact ones are equal."""
    corners = rounded_lines(2.0**exponent)
    corners = corners[corners[:, 1, 0] != corners[:, 2, 0]]
    assert degenerates(corners) == len(corners)
