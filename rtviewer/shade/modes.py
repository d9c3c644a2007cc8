"""The table of image modes. Adding a mode is adding a row to ``_ROWS``.

A mode either colours hits itself (``colours``) or gives numbers (``values``) that a palette and a range colour.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.counters import COUNTERS, X_RAY_COUNTERS, Counter, CounterMeaning
from rtviewer.dxr.flags import GeometryFlag, HitKind, InstanceFlag
from rtviewer.dxr.rules import Opacity, effective_opacity
from rtviewer.errors import RtviewerError
from rtviewer.shade import shadings
from rtviewer.shade.heatmap import NO_VALUE, heatmap, value_range
from rtviewer.shade.histogram import Histogram, histogram
from rtviewer.shade.legend import Legend, scale_legend
from rtviewer.shade.palettes import index_colours
from rtviewer.shade.picture import Picture
from rtviewer.shade.source_colours import source_colours, source_legend

Colour = tuple[int, int, int]

INVALID: Colour = (255, 0, 255)
FRONT: Colour = (74, 144, 217)
BACK: Colour = (240, 152, 56)
PROCEDURAL: Colour = (150, 200, 90)
OPAQUE: Colour = (74, 144, 217)
NON_OPAQUE: Colour = (245, 205, 80)
HIT: Colour = (226, 190, 110)
MISS: Colour = (70, 74, 82)

BAND_ROWS = 96
"""Rows that one thread colours at a time."""
MOST_ENTRIES = 8
"""Indices that a legend names."""


@dataclass(frozen=True)
class Mode:
    """One way to colour an image. Exactly one of ``colours`` and ``values`` is there.

    ``colours``: Picture to (rows, columns, 3) uint8 for pixels that hit. ``values``: Picture to (rows, columns)
    numbers, NaN for none. ``counters``: those it needs, of the x-ray where ``is_x_ray``. ``entries``: named colours of
    an attribute mode; ``index``: the Picture's field whose values name them instead; ``note``: a text.
    """

    name: str
    label: str
    tooltip: str
    kind: Literal["attribute", "heat", "x-ray"]
    unit: str = ""
    colours: Callable[[Picture], NDArray[np.uint8]] | None = None
    values: Callable[[Picture], NDArray[np.floating[Any]]] | None = None
    counters: tuple[Counter, ...] = ()
    entries: tuple[tuple[str, Colour], ...] = ()
    note: str = ""
    shows_misses: bool = False
    """Whether ``colours`` has a colour for pixels that hit nothing, too."""
    index: str = ""
    whole: bool = False
    """Values are whole numbers."""

    @property
    def is_x_ray(self) -> bool:
        """Whether it shows what lies along the whole ray, not what the ray met up to its hit."""
        return self.kind == "x-ray"

    @property
    def needs_counters(self) -> bool:
        """Whether the ray's own counters are needed."""
        return bool(self.counters) and not self.is_x_ray

    @property
    def has_range(self) -> bool:
        """Whether palette and range play a part."""
        return self.values is not None


@dataclass(frozen=True, eq=False)
class Shaded:
    """A coloured picture: ``rgba`` (height, width, 4) uint8, and what its colours mean.

    ``low``, ``high``: values of the palette's ends that were used (0 and 1 for a mode without a range).
    ``histogram``: of a mode with a range.
    """

    rgba: NDArray[np.uint8]
    mode: Mode
    legend: Legend
    low: float = 0.0
    high: float = 1.0
    histogram: Histogram | None = None


def shade(
    picture: Picture,
    mode_name: str,
    palette_name: str = "viridis",
    range_kind: str = "automatic",
    low: float = 0.0,
    high: float = 1.0,
    *,
    pool: Executor | None = None,
) -> Shaded:
    """Colour a picture; the RGBA has the picture's full width and height, each pixel repeated ``step`` times.

    ``pool``: runs bands of rows beside each other where a pixel's colour depends on that pixel alone.
    Raises RtviewerError for an unknown mode and for one whose counters the picture has not.
    """
    mode = MODES.get(mode_name)
    if mode is None:
        raise RtviewerError(f"no image mode {mode_name!r}: there are {', '.join(MODES)}")
    if mode.needs_counters and picture.counters is None:
        raise RtviewerError(f"mode {mode_name} needs counters and the picture was traced without")
    if mode.is_x_ray and picture.x_ray is None:
        raise RtviewerError(f"mode {mode_name} needs an x-ray and the picture was traced without")
    spread = None
    if mode.values is not None:
        values = mode.values(picture)
        if picture.receivers is not None:
            values = np.where(picture.receivers.has_ray, values, np.nan)
        counted = values[~picture.invalid]
        spread = histogram(counted, whole=mode.whole)
        low, high = value_range(counted, range_kind, low, high)
        rgba = heatmap(values, palette_name, low, high)
        legend = scale_legend(mode.label, mode.unit, palette_name, low, high, whole=mode.whole)
    else:
        rgba = _colour(picture, mode, pool)
        low, high = 0.0, 1.0
        entries, note = _index_entries(picture, mode) if mode.index else (mode.entries, mode.note)
        legend = Legend(mode.label, mode.unit, entries=entries, note=note)
        if mode.colours is _shaded and picture.receivers is not None:
            legend = source_legend(picture.receivers.source)
    rgba[picture.invalid] = (*INVALID, 255)
    return Shaded(_repeated(rgba, picture), mode, legend, low, high, spread)


def _index_entries(picture: Picture, mode: Mode) -> tuple[tuple[tuple[str, Colour], ...], str]:
    """The indices seen most, in ascending order with their colours, and how many more there are."""
    seen, counts = np.unique(getattr(picture, mode.index)[picture.hit], return_counts=True)
    shown = np.sort(seen[np.argsort(-counts, kind="stable")[:MOST_ENTRIES]])
    colours = index_colours(np.maximum(shown, 0))
    entries = tuple(
        (str(value), (int(red), int(green), int(blue)))
        for value, (red, green, blue) in zip(shown.tolist(), colours.tolist(), strict=True)
    )
    more = len(seen) - len(entries)
    return entries, f"and {more:,} more" if more else ""


def _colour(picture: Picture, mode: Mode, pool: Executor | None) -> NDArray[np.uint8]:
    assert mode.colours is not None
    rgba = np.empty((*picture.hit.shape, 4), np.uint8)
    rgba[..., 3] = 255
    is_local = mode.colours is _shaded and picture.receivers is None and picture.closest_hit in shadings.LOCAL
    if pool is None or not is_local:
        rgba[..., :3] = mode.colours(picture)
    else:
        colours = mode.colours

        def colour_band(first: int) -> None:
            rgba[first : first + BAND_ROWS, :, :3] = colours(picture.band(first, first + BAND_ROWS))

        for _ in pool.map(colour_band, range(0, len(rgba), BAND_ROWS)):
            pass  # raises what a band raised
    if not mode.shows_misses:
        rgba[~picture.hit] = NO_VALUE
    elif picture.receivers is not None:
        rgba[~picture.receivers.has_ray] = NO_VALUE
    return rgba


def _repeated(rgba: NDArray[np.uint8], picture: Picture) -> NDArray[np.uint8]:
    if picture.step > 1:
        rgba = rgba.repeat(picture.step, 0).repeat(picture.step, 1)
    return np.ascontiguousarray(rgba[: picture.height, : picture.width])


def _shaded(picture: Picture) -> NDArray[np.uint8]:
    """The picture's closest-hit and miss shadings; of another source than the camera what its rays found."""
    if picture.receivers is not None:
        return source_colours(picture, picture.receivers)
    return shadings.run(picture, picture.closest_hit, picture.miss)


def _normal(picture: Picture) -> NDArray[np.uint8]:
    colours: NDArray[np.uint8] = np.rint(np.nan_to_num(picture.normals * 0.5 + 0.5) * 255).astype(np.uint8)
    return colours


def _barycentrics(picture: Picture) -> NDArray[np.uint8]:
    """Weights of v0, v1 and v2 as red, green and blue; a procedural hit has none and is grey."""
    v1, v2 = picture.attributes[..., 0], picture.attributes[..., 1]
    colours = np.clip(np.stack([1 - v1 - v2, v1, v2], -1), 0, 1)
    colours[_is_procedural(picture)] = 0.5
    rounded: NDArray[np.uint8] = np.rint(colours * 255).astype(np.uint8)
    return rounded


def _is_procedural(picture: Picture) -> NDArray[np.bool_]:
    procedural: NDArray[np.bool_] = picture.hit & (picture.hit_kind < HitKind.TRIANGLE_FRONT_FACE)
    return procedural


def _facing(picture: Picture) -> NDArray[np.uint8]:
    colours = np.empty((*picture.hit.shape, 3), np.uint8)
    colours[...] = PROCEDURAL
    colours[picture.hit_kind == HitKind.TRIANGLE_FRONT_FACE] = FRONT
    colours[picture.hit_kind == HitKind.TRIANGLE_BACK_FACE] = BACK
    return colours


def _indices(name: str) -> Callable[[Picture], NDArray[np.uint8]]:
    def colours(picture: Picture) -> NDArray[np.uint8]:
        return index_colours(np.maximum(getattr(picture, name), 0))

    return colours


def _opacity(picture: Picture) -> NDArray[np.uint8]:
    """What the hit counted as after all overrides (OPQ-1 to OPQ-4)."""
    colours = np.zeros((*picture.hit.shape, 3), np.uint8)
    hit = picture.hit
    instance, geometry = picture.instance_index[hit], picture.geometry_index[hit]
    blas = picture.blas_of_instance[instance]
    flags = np.concatenate([np.zeros(0, np.uint32), *(structure.geometries["flags"] for structure in picture.blases)])
    word = flags[picture.first_surface[blas] + geometry].astype(np.int64) << 8 | picture.instance_flags[instance]
    unique, row = np.unique(word, return_inverse=True)
    table = np.zeros((len(unique), 3), np.uint8)
    for i, both in enumerate(unique):
        opacity = effective_opacity(GeometryFlag(int(both) >> 8), InstanceFlag(int(both) & 0xFF), picture.ray_flags)
        table[i] = OPAQUE if opacity is Opacity.OPAQUE else NON_OPAQUE
    colours[hit] = table[row]
    return colours


def _open_fraction(picture: Picture) -> NDArray[np.floating[Any]]:
    if picture.receivers is not None:
        return picture.receivers.open_fraction
    return np.where(picture.hit, np.float32(0), np.float32(1))


def _hit_t(picture: Picture) -> NDArray[np.floating[Any]]:
    return np.where(picture.hit, picture.t, np.float32(np.nan))


def _sum_of(*counters: Counter) -> Callable[[Picture], NDArray[np.floating[Any]]]:
    def values(picture: Picture) -> NDArray[np.floating[Any]]:
        assert picture.counters is not None
        total: NDArray[np.float64] = picture.counters[..., [int(c) for c in counters]].sum(-1).astype(np.float64)
        return total

    return values


def _x_ray_sum_of(*counters: Counter) -> Callable[[Picture], NDArray[np.floating[Any]]]:
    def values(picture: Picture) -> NDArray[np.floating[Any]]:
        assert picture.x_ray is not None
        total: NDArray[np.float64] = picture.x_ray[..., [int(c) for c in counters]].sum(-1).astype(np.float64)
        return total

    return values


def _heat(name: str, label: str, meaning: CounterMeaning, *counters: Counter) -> Mode:
    unit = f"{meaning.unit} per ray"
    return Mode(name, label, meaning.tip, "heat", unit, values=_sum_of(*counters), counters=counters, whole=True)


def _x_ray(name: str, label: str, meaning: CounterMeaning, *counters: Counter) -> Mode:
    unit = f"{meaning.unit} per ray"
    return Mode(name, label, meaning.tip, "x-ray", unit, values=_x_ray_sum_of(*counters), counters=counters, whole=True)


def _index(name: str, label: str, tooltip: str, field: str) -> Mode:
    return Mode(name, label, tooltip, "attribute", colours=_indices(field), index=field)


def _miss(picture: Picture) -> NDArray[np.uint8]:
    colours: NDArray[np.uint8] = np.where(picture.hit[..., None], np.array(HIT, np.uint8), np.array(MISS, np.uint8))
    return colours


_ROWS: tuple[Mode, ...] = (
    Mode(
        "shaded", "Shaded", "The closest-hit and miss shadings of the programs", "attribute", colours=_shaded,
        shows_misses=True,
    ),
    Mode(
        "normal", "Normal", "Geometric normal in world space, on the front's side", "attribute", colours=_normal,
        note="red x, green y, blue z; -1 to 1 as dark to bright",
    ),
    Mode(
        "barycentrics", "Barycentrics", "Weights of the triangle's vertices (TRI-1)", "attribute",
        colours=_barycentrics,
        entries=(("v0", (255, 0, 0)), ("v1", (0, 255, 0)), ("v2", (0, 0, 255)), ("procedural", (128, 128, 128))),
    ),
    Mode(
        "t", "T", "Where on the ray the hit is (RAY-1)", "attribute", "lengths of the ray's direction", values=_hit_t,
    ),
    Mode(
        "facing", "Facing", "Hit kind: front or back face (FACE-1, FACE-2)", "attribute", colours=_facing,
        entries=(("front face (254)", FRONT), ("back face (255)", BACK), ("procedural (0-127)", PROCEDURAL)),
    ),
    _index("hit_kind", "Hit kind", "HitKind(): 254 front, 255 back, else the intersection program's own", "hit_kind"),
    _index("instance", "Instance index", "Position of the instance in the TLAS (SV-1)", "instance_index"),
    _index("instance_id", "InstanceID", "The instance's 24-bit user value (SV-1)", "instance_id"),
    _index("geometry", "Geometry index", "Position of the geometry in its BLAS", "geometry_index"),
    _index("primitive", "Primitive index", "Position of the primitive in its geometry (SV-1)", "primitive_index"),
    _index("hit_group", "Hit-group index", "Record of the hit-group table (HG-1)", "hit_group_index"),
    Mode(
        "opacity", "Opacity", "Opaque or not after all overrides (OPQ-1 to OPQ-4)", "attribute", colours=_opacity,
        entries=(("opaque", OPAQUE), ("non-opaque", NON_OPAQUE)),
    ),
    Mode(
        "miss", "Hit or miss", "Whether the ray committed a hit; where not, the miss shader runs (HG-2)", "attribute",
        colours=_miss, shows_misses=True, entries=(("hit", HIT), ("miss", MISS), ("invalid ray (RAY-4)", INVALID)),
    ),
    Mode(
        "open_fraction", "Open fraction",
        "Of the pixel's rays those that met nothing: lit by the light, or open to the surroundings", "attribute",
        "of the pixel's rays", values=_open_fraction,
    ),
    _heat(
        "nodes_visited", "Nodes visited",
        CounterMeaning("Nodes", "nodes", "nodes whose children were tested, both levels together"),
        Counter.TLAS_NODES_VISITED, Counter.BLAS_NODES_VISITED,
    ),
    *(_heat(c.key, c.key.replace("_", " ").capitalize(), meaning, c) for c, meaning in COUNTERS.items()),
    *(_x_ray(x.key, f"X-ray {x.name.replace('_', ' ')}", x.meaning, *x.columns) for x in X_RAY_COUNTERS),
)  # fmt: skip

KIND_WORDS: dict[str, str] = {
    "attribute": "Hit attributes", "heat": "Counters", "x-ray": "X-ray: the whole ray",
}  # fmt: skip
"""What the kinds of mode are called, in the order they are offered."""

MODES: dict[str, Mode] = {mode.name: mode for mode in _ROWS}
"""All modes by name, in the order they are offered."""
