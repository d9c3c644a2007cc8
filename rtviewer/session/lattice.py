"""The pixels of one pass of a picture: every ``step``-th in x and y, in tiles, and the arrays of what they found."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.counters import Counter
from rtviewer.scene.ray_sources import resolved
from rtviewer.session.coarse import CoarseBuffer
from rtviewer.session.image import ImageBuffer, ImageRequest
from rtviewer.session.source_rays import Found
from rtviewer.shade.picture import RECEIVER_FIELDS, Receivers
from rtviewer.trace.request import HIT_FIELDS, TraceResult

TILE_POINTS = 64
"""A tile is this many lattice points wide and high: 4,096 rays, or 3,072 where the pass before traced the others. That
is about 10 ms of one thread for a slow scene, which bounds how long a cancelled image keeps running."""
BLOCK_POINTS = 4
"""Rays of 4 x 4 neighbouring lattice points follow each other, as packets of 16 want."""
RECEIVER_PREFIX = "receiver."
"""Of the names of receivers' arrays among those of a lattice."""
WHOLE = ((0, 0),)
NEW = ((0, 1), (1, 0), (1, 1))
"""Of every 2 x 2 points those that the pass of twice the step has not traced, as (down, across)."""


class Tile(NamedTuple):
    """A part of a lattice: its first point and how many points it has in x and y."""

    x: int
    y: int
    width: int
    height: int


def tiles(request: ImageRequest, step: int, points: int = TILE_POINTS) -> list[Tile]:
    """The tiles of a pass, nearest to the picture's centre first: that is where the eye is."""
    width, height = -(-request.width // step), -(-request.height // step)
    made = [
        Tile(x, y, min(points, width - x), min(points, height - y))
        for y in range(0, height, points)
        for x in range(0, width, points)
    ]
    middle = ((width - points) / 2, (height - points) / 2)
    return sorted(made, key=lambda tile: (tile.x - middle[0]) ** 2 + (tile.y - middle[1]) ** 2)


@lru_cache(maxsize=64)
def _pattern(width: int, height: int, whole: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Columns and rows of a tile's points in tracing order: lattice by lattice of WHOLE or NEW, in blocks."""
    stride = 1 if whole else 2
    columns, rows = [], []
    for down, across in WHOLE if whole else NEW:
        row, column = (a.ravel() for a in np.indices((-(-(height - down) // stride), -(-(width - across) // stride))))
        block = BLOCK_POINTS
        order = np.lexsort([column % block, row % block, column // block, row // block])
        columns.append(column[order] * stride + across)
        rows.append(row[order] * stride + down)
    return np.concatenate(columns), np.concatenate(rows)


class Lattice:
    """The arrays of a pass, padded so that blocks can be filled by reshaping; several threads may store at once."""

    def __init__(self, request: ImageRequest, step: int) -> None:
        self.request, self.step = request, step
        self.width, self.height = -(-request.width // step), -(-request.height // step)
        edge = 2 * BLOCK_POINTS
        self._shape = (-(-self.height // edge) * edge, -(-self.width // edge) * edge)
        kinds = {name: (dtype, axes) for name, dtype, _, axes in HIT_FIELDS}
        if request.counters:
            kinds["counters"] = np.int32, (len(Counter),)
        if request.x_ray:
            kinds["x_ray"] = np.int32, (len(Counter),)
        if request.has_receivers:
            kinds |= {RECEIVER_PREFIX + name: (dtype, axes) for name, dtype, _, axes in RECEIVER_FIELDS}
        self._arrays: dict[str, NDArray[Any]] = {
            name: np.empty((*self._shape, *axes), dtype) for name, (dtype, axes) in kinds.items()
        }

    def take(self, before: Lattice) -> int:
        """Keep what the lattice of twice the step holds; how many points that is."""
        for name, array in self._arrays.items():
            array[: self.height : 2, : self.width : 2] = before._arrays[name][: before.height, : before.width]
        return before.width * before.height

    def pixels(self, tile: Tile, whole: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Columns and rows (n,) of the picture's pixels that a tile traces, in tracing order.

        ``whole``: all of its points, else those that ``take`` has not brought.
        """
        columns, rows = _pattern(tile.width, tile.height, whole)
        return (columns + tile.x) * self.step, (rows + tile.y) * self.step

    def store(self, tile: Tile, whole: bool, result: TraceResult | Found, x_ray: NDArray[np.int32] | None) -> None:
        """Write what the rays of ``pixels`` found."""
        for name, _, _, _ in HIT_FIELDS:
            self._store(tile, whole, name, getattr(result.hits, name))
        if result.counters is not None:
            self._store(tile, whole, "counters", result.counters)
        if x_ray is not None:
            self._store(tile, whole, "x_ray", x_ray)
        if isinstance(result, Found):
            for name, _, _, _ in RECEIVER_FIELDS:
                self._store(tile, whole, RECEIVER_PREFIX + name, result.receivers[name])

    def _store(self, tile: Tile, whole: bool, name: str, values: NDArray[Any]) -> None:
        array, block, stride = self._arrays[name], BLOCK_POINTS, 1 if whole else 2
        edge = block * stride
        if tile.width % edge or tile.height % edge:
            columns, rows = _pattern(tile.width, tile.height, whole)
            array[rows + tile.y, columns + tile.x] = values
            return
        height, width = self._shape
        axes = array.shape[2:]
        blocks = array.reshape(height // edge, block, stride, width // edge, block, stride, *axes)
        down, across = tile.height // edge, tile.width // edge
        blocks = blocks[tile.y // edge :][:down, :, :, tile.x // edge :][:, :, :, :across]
        parts = values.reshape(-1, down, across, block, block, *axes)
        for part, (row, column) in zip(parts, WHOLE if whole else NEW, strict=True):
            blocks[:, :, row, :, :, column] = part.swapaxes(1, 2)

    def picture(self, seconds: float, rays_traced: int) -> ImageBuffer:
        """What was traced; the lattice is not written any more."""
        arrays = {name: array[: self.height, : self.width] for name, array in self._arrays.items()}
        counters, x_ray = arrays.pop("counters", None), arrays.pop("x_ray", None)
        started = {name: arrays.pop(name) for name in list(arrays) if name.startswith(RECEIVER_PREFIX)}
        receivers = None
        if started:
            source = resolved(self.request.source, self.request.world.bounds)
            receivers = Receivers(source, **{name.removeprefix(RECEIVER_PREFIX): a for name, a in started.items()})
        if self.step > 1:
            return CoarseBuffer(
                self.request, self.step, arrays, counters=counters, x_ray=x_ray, receivers=receivers,
                seconds=seconds, rays_traced=rays_traced,
            )  # fmt: skip
        whole: dict[str, Any] = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return ImageBuffer(
            self.request, **whole,
            counters=None if counters is None else np.ascontiguousarray(counters),
            x_ray=None if x_ray is None else np.ascontiguousarray(x_ray),
            valid=np.ones((self.height, self.width), np.bool_),
            seconds=seconds, rays_traced=rays_traced, receivers=receivers,
        )  # fmt: skip
