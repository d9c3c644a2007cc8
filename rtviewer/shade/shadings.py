"""Closest-hit and miss shading by name: what the image mode ``shaded`` runs for a ray. Adding one is adding a row.

A pixel starts as PAYLOAD. The closest-hit shading of the committed hit writes it, unless the ray has
a flag to skip it or the hit group has none (TRAV-2, ACC-4); a ray with a hit never runs the miss shading (TRAV-3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from rtviewer.errors import RtviewerError
from rtviewer.shade.palettes import SURFACE_COLOURS, encode_srgb, surface_colours
from rtviewer.shade.picture import Picture

Shader = Callable[[Picture, NDArray[np.bool_]], NDArray[np.uint8]]
"""Picture and (rows, columns) bool of the k pixels it runs for, to (k, 3) uint8 sRGB."""

PAYLOAD = (12, 12, 14)
"""What a pixel is before a shading writes it."""
SKY_LOW = np.array([0.62, 0.66, 0.72], np.float32)
SKY_HIGH = np.array([0.16, 0.26, 0.44], np.float32)
SKY_STEPS = 2048
LIGHT_STEPS = 2048
AMBIENT = 0.12


@dataclass(frozen=True)
class Shading:
    name: str
    text: str
    shader: Shader


def _facing(picture: Picture, pixels: NDArray[np.bool_]) -> NDArray[np.float32]:
    _, direction = picture.rays
    here = np.flatnonzero(pixels)
    cosine = np.einsum("ni,ni->n", picture.normals.reshape(-1, 3)[here], direction.reshape(-1, 3)[here])
    absolute: NDArray[np.float32] = np.nan_to_num(np.abs(cosine, out=cosine), copy=False).astype(np.float32, copy=False)
    return absolute


def _lambert(picture: Picture, pixels: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """One look-up per pixel: the light in steps finer than eight bits can show, a row of the table for each tint."""
    light = (_facing(picture, pixels) * np.float32(LIGHT_STEPS - 1) + np.float32(0.5)).astype(np.int32)
    surface = picture.surface_index[pixels] % SURFACE_COLOURS
    return _lambert_table()[np.minimum(light, LIGHT_STEPS - 1) + LIGHT_STEPS * surface]


@cache
def _lambert_table() -> NDArray[np.uint8]:
    """(SURFACE_COLOURS * LIGHT_STEPS, 3) uint8."""
    light = AMBIENT + (1 - AMBIENT) * np.linspace(0, 1, LIGHT_STEPS, dtype=np.float32)[:, None]
    tints = surface_colours(np.arange(SURFACE_COLOURS))[:, None]
    return encode_srgb(tints * light).reshape(-1, 3)


def _flat(picture: Picture, pixels: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return encode_srgb(surface_colours(picture.surface_index[pixels]))


def _clay(picture: Picture, pixels: NDArray[np.bool_]) -> NDArray[np.uint8]:
    light = (AMBIENT + (1 - AMBIENT) * _facing(picture, pixels))[:, None]
    return encode_srgb((np.array([0.72, 0.68, 0.64], np.float32) * light).astype(np.float32))


def _distance(picture: Picture, pixels: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """White where the nearest hit is, darker with the distance; in the picture's own range."""
    t = picture.t[pixels].astype(np.float64)
    low, high = (float(t.min()), float(t.max())) if len(t) else (0.0, 1.0)
    share = 1.0 - 0.9 * (t - low) / max(high - low, np.finfo(np.float64).tiny)
    return encode_srgb(np.repeat(share[:, None], 3, 1).astype(np.float32))


def _sky(picture: Picture, pixels: NDArray[np.bool_]) -> NDArray[np.uint8]:
    _, direction = picture.rays
    upward = (direction @ picture.camera.basis()[1].astype(np.float32))[pixels]
    steps = (np.clip(0.5 + 0.9 * upward, 0, 1) * np.float32(SKY_STEPS - 1) + np.float32(0.5)).astype(np.int32)
    colours: NDArray[np.uint8] = _sky_table()[steps]
    return colours


@cache
def _sky_table() -> NDArray[np.uint8]:
    """(SKY_STEPS, 3) uint8 from straight down to straight up: finer than eight bits can show."""
    share = np.linspace(0, 1, SKY_STEPS, dtype=np.float32)[:, None]
    return encode_srgb(SKY_LOW + (SKY_HIGH - SKY_LOW) * share)


def _plain(red: int, green: int, blue: int) -> Shader:
    def shader(_: Picture, pixels: NDArray[np.bool_]) -> NDArray[np.uint8]:
        return np.broadcast_to(np.array([red, green, blue], np.uint8), (int(pixels.sum()), 3))

    return shader


CLOSEST_HIT: dict[str, Shading] = {
    row.name: row
    for row in (
        Shading("lambert", "White light from the eye on a tint per geometry", _lambert),
        Shading("flat", "The tint of the geometry, without light", _flat),
        Shading("clay", "White light from the eye on one grey", _clay),
        Shading("distance", "Near hits white, far ones dark", _distance),
    )
}
MISS: dict[str, Shading] = {
    row.name: row
    for row in (
        Shading("sky", "A sky, lighter near the horizon", _sky),
        Shading("black", "Black", _plain(0, 0, 0)),
        Shading("white", "White", _plain(255, 255, 255)),
        Shading("magenta", "A colour that no surface has, so that every hole shows", _plain(255, 0, 255)),
    )
}
LOCAL = ("lambert", "flat", "clay")
"""Closest-hit shadings that go by the pixel, as all miss shadings do; the others look at the whole picture."""
DEFAULT_CLOSEST_HIT, DEFAULT_MISS = "lambert", "sky"


def run(picture: Picture, closest_hit: str, miss: str) -> NDArray[np.uint8]:
    """(rows, columns, 3) uint8. Raises RtviewerError for a name that is not in its table."""
    for name, table, word in ((closest_hit, CLOSEST_HIT, "closest-hit"), (miss, MISS, "miss")):
        if name not in table:
            raise RtviewerError(f"no {word} shading {name!r}: there are {', '.join(table)}")
    colours = np.empty((*picture.hit.shape, 3), np.uint8)
    colours[...] = PAYLOAD
    rows = colours.reshape(-1, 3)
    for pixels, shading in (
        (picture.hit & picture.has_closest_hit, CLOSEST_HIT[closest_hit]),
        (~picture.hit, MISS[miss]),
    ):
        rows[np.flatnonzero(pixels)] = shading.shader(picture, pixels)
    return colours
