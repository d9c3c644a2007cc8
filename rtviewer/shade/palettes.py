"""Palettes for numbers, colours for indices. All as (n, 3) uint8 sRGB.

viridis, plasma, magma and inferno follow matplotlib's palettes (CC0); turbo follows Mikhailov's. Each is given by 33
knots, linear between them, which stays within about one per cent of the original.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_KNOTS: dict[str, str] = {
    "viridis": (
        "440154470d6048186a482374472d7b4536814240863f49893b528b375a8d33638d2f6a8e2c728e297a8e26818e23898e21908c"
        "1f988b1f9f8821a68528ae8031b57b3ebc744cc26c5dc9636ece5882d34c96d83fabdc32c0df24d5e21aeae51afde725"
    ),
    "plasma": (
        "0d08872206903105963f049c4c02a15901a56600a77201a87e03a88909a69511a29f1a9ca92396b22c8ebb3587c33e80cb4778"
        "d25071d9596ae06263e66c5ceb7555f07f4ff48a48f89441fb9f3afdab33feb72dfdc328fcd025f9dd25f5eb27f0f921"
    ),
    "magma": (
        "0000040303110a0822130d331d114628115a36106a430f7650127c5d177f691c817621818226818f2a819c2e7fa9327db63779"
        "c33b75cf4170db486ae65163ee5c5ef5695cf9785dfb8761fd9668fea571feb47bfec387fed194fde0a2fceeb0fcfdbf"
    ),
    "inferno": (
        "0000040403120b0724150b37210c4a2e0a5a3c09654a0c6b57106d63146e70196e7d1e6d89226a962766a32b61af315cbb3755"
        "c63e4dd14644db4f3be35932eb6528f1711ef67f14f98d0afb9c06fcab0ffbba1ff9ca32f5d949f2e865f3f586fcffa4"
    ),
    "turbo": (
        "30123b392a734040a14456c7466be3467ff64293ff37a7fa29bbec1dcdd818dcc31ee8b031f2994cf97e6bfd648aff4da3fd3c"
        "b8f735cced34dee037edd03af8c03afdae35fe982cfb8022f56817ec520fe04009d23105c02302ac1701950d017a0403"
    ),
    "grey": "000000ffffff",
}

PALETTES: dict[str, str] = {
    "viridis": "Lightness rises evenly; safe for colour-blind eyes. The default",
    "plasma": "Lightness rises evenly, blue through red to yellow",
    "magma": "Lightness rises evenly from black through purple to cream",
    "inferno": "Lightness rises evenly from black through red to pale yellow",
    "turbo": "Many hues, to tell neighbouring values apart; lightness does not rise evenly",
    "grey": "Black to white",
}
"""Names with what they are good for, in the order they are offered; the first is the default."""

INDEX_COLOURS = 4096
SURFACE_COLOURS = 64
"""Surface colours before they repeat."""

_FIRST_SURFACES = ("dfdbd3", "b7d1e6", "ebcda6", "a6d0bf", "dfbcd0", "e4b09c", "ece3b8", "a9b8da")
"""Soft tints in the hues of Okabe and Ito's palette, in an order that keeps neighbours apart; the first is the plain
off-white of a scene of one mesh."""


@cache
def palette(name: str) -> NDArray[np.uint8]:
    """(256, 3) uint8, from the lowest value's colour to the highest's. KeyError for an unknown name."""
    knots = np.frombuffer(bytes.fromhex(_KNOTS[name]), np.uint8).reshape(-1, 3).astype(np.float64)
    at, places = np.linspace(0, 1, 256), np.linspace(0, 1, len(knots))
    table = np.stack([np.interp(at, places, knots[:, channel]) for channel in range(3)], 1)
    return _frozen(np.rint(table).astype(np.uint8))


def index_colours(indices: NDArray[np.integer[Any]]) -> NDArray[np.uint8]:
    """A colour for each index, (..., 3) uint8: always the same one, and unlike its neighbours' in hue and lightness.

    Lightness differs too, so that neighbours stay apart for colour-blind eyes. Repeats after 4,096 indices.
    """
    colours: NDArray[np.uint8] = _index_table()[np.asarray(indices) % INDEX_COLOURS]
    return colours


@cache
def _index_table() -> NDArray[np.uint8]:
    """Hue and lightness step by two irrational fractions of their range, so that nearby numbers fall far apart."""
    number = np.arange(INDEX_COLOURS)
    hue = 2 * np.pi * ((0.07 + number * 0.6180339887498949) % 1.0)
    lightness = 0.48 + 0.40 * ((0.5 + number * 0.7548776662466927) % 1.0)
    chroma = 0.13 * np.minimum(1.0, (1.0 - lightness) / 0.3)
    return _frozen(_srgb_of_oklab(lightness, chroma * np.cos(hue), chroma * np.sin(hue)))


def surface_colours(indices: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
    """A soft tint for each index, (..., 3) float32 linear light 0 to 1; always the same one for the same index.

    For lit surfaces: bright enough for shading to show, and apart in lightness as well as in hue. Repeats after 64.
    """
    colours: NDArray[np.float32] = _surface_table()[np.asarray(indices) % SURFACE_COLOURS]
    return colours


@cache
def _surface_table() -> NDArray[np.float32]:
    number = np.arange(SURFACE_COLOURS)
    hue = 2 * np.pi * ((0.21 + number * 0.6180339887498949) % 1.0)
    lightness = 0.74 + 0.13 * ((0.5 + number * 0.7548776662466927) % 1.0)
    srgb = _srgb_of_oklab(lightness, 0.05 * np.cos(hue), 0.05 * np.sin(hue))
    srgb[: len(_FIRST_SURFACES)] = np.frombuffer(bytes.fromhex("".join(_FIRST_SURFACES)), np.uint8).reshape(-1, 3)
    share = srgb / 255.0
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4).astype(np.float32)
    linear.setflags(write=False)
    return linear


def _srgb_of_oklab(
    lightness: NDArray[np.floating[Any]], a: NDArray[np.floating[Any]], b: NDArray[np.floating[Any]]
) -> NDArray[np.uint8]:
    """Oklab (Ottosson 2020), where equal steps look equal, to sRGB, clipped to what a screen shows."""
    cone = np.stack(
        [
            lightness + 0.3963377774 * a + 0.2158037573 * b,
            lightness - 0.1055613458 * a - 0.0638541728 * b,
            lightness - 0.0894841775 * a - 1.2914855480 * b,
        ]
    )
    to_linear = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.7076147010],
        ]
    )
    return encode_srgb((to_linear @ cone**3).T)


def encode_srgb(linear: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """Linear light 0 to 1, any shape, to uint8 sRGB; clipped, NaN as 0."""
    steps = np.nan_to_num(np.clip(linear, 0.0, 1.0) * 4095.0 + 0.5, nan=0.0).astype(np.int32)
    encoded: NDArray[np.uint8] = _srgb_table()[steps]
    return encoded


@cache
def _srgb_table() -> NDArray[np.uint8]:
    linear = np.arange(4096) / 4095.0
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return _frozen(np.rint(encoded * 255).astype(np.uint8))


def _frozen(table: NDArray[np.uint8]) -> NDArray[np.uint8]:
    table.setflags(write=False)
    return table
