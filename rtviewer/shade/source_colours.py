"""Colours of the shaded picture for rays that are not the camera's own: what they found at what the camera sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.scene.ray_sources import DiffuseRays, ImageSource, OcclusionRays, ShadowRays, spec_of
from rtviewer.shade.heatmap import NO_VALUE
from rtviewer.shade.legend import Legend
from rtviewer.shade.palettes import encode_srgb, surface_colours
from rtviewer.shade.picture import Picture, Receivers
from rtviewer.shade.shadings import AMBIENT, SKY_HIGH, SKY_LOW

Colours = NDArray[np.floating[Any]]

SHADE = np.array([0.10, 0.13, 0.24], np.float32)
"""Of a tint, what is left where the light is hidden: bluish, so that shadow and a dark tint differ."""
AVERTED = np.array([0.035, 0.035, 0.035], np.float32)


def source_colours(picture: Picture, receivers: Receivers) -> NDArray[np.uint8]:
    """(rows, columns, 3) uint8: a receiver's colour by what its ray found, NO_VALUE where the camera sees nothing."""
    colours = np.empty((*receivers.has_ray.shape, 3), np.uint8)
    colours[...] = NO_VALUE[:3]
    seen = receivers.has_ray
    if seen.any():
        colours[seen] = encode_srgb(_COLOURS[type(receivers.source)](picture, receivers))
    return colours


def source_legend(source: ImageSource) -> Legend:
    """What those colours mean."""
    return Legend(f"Shaded: {spec_of(source).label.lower()}", "", note=_NOTES[type(source)])


def _shadow(picture: Picture, receivers: Receivers) -> Colours:
    """Lambert's law where the light is seen; tints in shadow and where the surface faces away."""
    seen = receivers.has_ray
    cosine = _cosine(receivers.normal[seen], receivers.direction[seen])
    tint = surface_colours(receivers.surface_index[seen])
    lit = tint * (AMBIENT + (1 - AMBIENT) * np.maximum(cosine, 0.0))[:, None]
    dark = np.where((cosine > 0)[:, None], tint * SHADE, tint * AVERTED)
    return np.where((picture.hit[seen] | (cosine <= 0))[:, None], dark, lit).astype(np.float32)


def _diffuse(picture: Picture, receivers: Receivers) -> Colours:
    """The receiver's tint times what the bounce ray sees: sky, or a tint lit from the ray's origin."""
    seen, direction = receivers.has_ray, receivers.direction
    incoming = np.empty((*seen.shape, 3), np.float32)
    upward = direction @ picture.camera.basis()[1].astype(np.float32)
    share = np.clip(0.5 + 0.5 * upward, 0, 1)[..., None]
    incoming[...] = SKY_LOW + (SKY_HIGH - SKY_LOW) * share
    hit = picture.hit
    facing = np.abs(_cosine(picture.normals[hit], direction[hit]))
    incoming[hit] = surface_colours(picture.surface_index[hit]) * (AMBIENT + (1 - AMBIENT) * facing)[:, None]
    return surface_colours(receivers.surface_index[seen]) * incoming[seen]  # type: ignore[no-any-return]


def _occlusion(_: Picture, receivers: Receivers) -> Colours:
    """Grey by the open fraction, white for open."""
    fraction = receivers.open_fraction[receivers.has_ray]
    return np.broadcast_to(fraction[:, None], (len(fraction), 3))


def _cosine(normals: NDArray[np.float32], directions: NDArray[np.float32]) -> NDArray[np.float64]:
    """Between normals of length 1 and directions of any length; 0 for none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        towards = directions.astype(np.float64)
        towards /= np.sqrt((towards * towards).sum(-1))[..., None]
        return np.nan_to_num((normals * towards).sum(-1))  # type: ignore[no-any-return]


_COLOURS: dict[type, Callable[[Picture, Receivers], Colours]] = {
    ShadowRays: _shadow,
    DiffuseRays: _diffuse,
    OcclusionRays: _occlusion,
}
_NOTES: dict[type, str] = {
    ShadowRays: "bright: the light is seen; blue: something hides it; nearly black: faces away from it",
    DiffuseRays: "the surface's tint times what its bounce ray sees: sky, or another surface's tint",
    OcclusionRays: "white: no ray within the radius met anything; black: all did",
}
