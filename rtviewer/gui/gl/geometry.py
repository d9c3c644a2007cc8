"""Vertex and instance arrays of the structure view, made with numpy alone, so that they are tested without a context.

Knows structures, trees and logs; knows no GL and no widget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.layout import UNUSED_LANE
from rtviewer.accel.navigate import Tree
from rtviewer.accel.structure import Structure

BOX_ROW = np.dtype([("rows", "<f4", (3, 4)), ("low", "<f4", (3,)), ("high", "<f4", (3,)), ("code", "<f4")])
INSTANCE_ROW = np.dtype([("rows", "<f4", (3, 4)), ("tint", "<f4", (3,))])
SEGMENT_ROW = np.dtype([("from", "<f4", (3,)), ("to", "<f4", (3,)), ("tint", "<f4", (4,)), ("width", "<f4")])
POINT_ROW = np.dtype([("at", "<f4", (3,)), ("tint", "<f4", (4,)), ("size", "<f4")])

CODE_COUNT = 64
"""Colour codes of boxes: 2 * level + (1 for a leaf), clamped to the last two."""

MOST_SPHERES = 4096
"""A bottom level of more procedurals is drawn as boxes."""
READABLE_BOXES = 100
"""Boxes that a screen shows at once without becoming a tangle."""

_IDENTITY = np.eye(3, 4, dtype=np.float32)
_EDGES = np.array(
    [(0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (1, 3), (4, 6), (5, 7), (0, 4), (1, 5), (2, 6), (3, 7)]
)  # corner numbers, bit per axis
_FACES = np.array(
    [(0, 2, 1), (1, 2, 3), (4, 5, 6), (5, 7, 6), (0, 1, 4), (1, 5, 4),
     (2, 6, 3), (3, 6, 7), (0, 4, 2), (2, 4, 6), (1, 3, 5), (3, 7, 5)]
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class BoxSet:
    """Boxes to upload, level by level. ``level_start`` (levels + 1,): first row of each level, counted from
    ``first_level``. ``total``: boxes there are, uploaded or not. ``budget_spent``: some boxes of the asked levels are
    not here because the budget ended."""

    rows: NDArray[np.void]
    first_level: int
    level_start: NDArray[np.int64]
    level_count: int
    total: int
    budget_spent: bool

    def range_of(self, low: int, high: int) -> tuple[int, int]:
        """Rows of levels low to high, inclusive; -1 for all below."""
        last = len(self.level_start) - 1
        first_slot = min(max(low - self.first_level, 0), last)
        end_slot = last if high < 0 else min(max(high - self.first_level + 1, 0), last)
        return int(self.level_start[first_slot]), int(self.level_start[max(end_slot, first_slot)])

    def covers(self, low: int, high: int) -> bool:
        """Whether levels low to high are here as completely as the budget would allow."""
        if low < self.first_level:
            return False
        wanted = self.level_count - 1 if high < 0 else min(high, self.level_count - 1)
        if self.budget_spent:
            return wanted < self.last_level or low == self.first_level
        return wanted <= self.last_level

    @property
    def last_level(self) -> int:
        """The deepest level of which a box is here; below ``first_level`` when there is none."""
        return self.first_level + len(self.level_start) - 2


@dataclass(frozen=True, eq=False)
class BoxSource:
    """One tree and where it stands: ``transforms`` (m, 3, 4) object to world, ``first_level`` of its root here."""

    tree: Tree
    transforms: NDArray[np.float32]
    first_level: int

    def level_size(self, level: int) -> int:
        """Boxes of a level of the view, over all placements."""
        own = level - self.first_level
        if not 0 <= own < len(self.tree.level_start) - 1:
            return 0
        return int(self.tree.level_start[own + 1] - self.tree.level_start[own]) * len(self.transforms)

    @property
    def last_level(self) -> int:
        return self.first_level + len(self.tree.level_start) - 2


def collect_boxes(sources: Sequence[BoxSource], low: int, high: int, budget: int) -> BoxSet:
    """Boxes of levels low to high (-1 for all below), coarse levels first, at most ``budget`` of them."""
    level_count = max((source.last_level + 1 for source in sources), default=0)
    total = sum(source.level_size(level) for source in sources for level in range(level_count))
    last_level = level_count - 1 if high < 0 else min(high, level_count - 1)
    low = min(max(low, 0), max(level_count - 1, 0))
    parts: list[NDArray[np.void]] = []
    starts, left, partial = [0], budget, False
    for level in range(low, last_level + 1):
        added = 0
        for source in sources:
            size = source.level_size(level)
            taken = min(size, left)
            partial |= taken < size
            if taken:
                parts.append(_level_rows(source, level, taken))
                left -= taken
                added += taken
        if not added:
            break
        starts.append(starts[-1] + added)
        if partial:
            break
    rows = np.concatenate(parts) if parts else np.empty(0, BOX_ROW)
    return BoxSet(rows, low, np.array(starts, np.int64), level_count, total, partial)


def readable_depth(sources: Sequence[BoxSource], limit: int = READABLE_BOXES) -> int:
    """The deepest level down to which no more than ``limit`` boxes are drawn; -1 when that is all there are."""
    level_count = max((source.last_level + 1 for source in sources), default=0)
    drawn = 0
    for level in range(level_count):
        drawn += sum(source.level_size(level) for source in sources)
        if drawn > limit:
            return max(level - 1, 0)
    return -1


def _level_rows(source: BoxSource, level: int, count: int) -> NDArray[np.void]:
    tree, own = source.tree, level - source.first_level
    first, last = int(tree.level_start[own]), int(tree.level_start[own + 1])
    placement, box = np.divmod(np.arange(count), last - first)
    box = box + first
    rows = np.empty(count, BOX_ROW)
    rows["rows"] = source.transforms[placement]
    rows["low"], rows["high"] = tree.low[box], tree.high[box]
    leaf = (tree.node[box] < 0).astype(np.float32)
    rows["code"] = np.minimum(2 * level, CODE_COUNT - 2) + leaf
    return rows


def instance_transforms(tlas: Structure) -> NDArray[np.float32]:
    """(n, 3, 4) float32 object-to-world of every instance."""
    return np.ascontiguousarray(tlas.instance_descs["Transform"], np.float32).reshape(-1, 3, 4)


def instance_box_rows(
    bounds: Sequence[NDArray[np.float32] | None], blas_of_instance: NDArray[np.int64], transforms: NDArray[np.float32]
) -> NDArray[np.void]:
    """The root box of each instance's bottom level, where it has one that holds something."""
    rows = np.empty(len(blas_of_instance), BOX_ROW)
    kept = np.zeros(len(blas_of_instance), np.bool_)
    for blas, box in enumerate(bounds):
        mine = blas_of_instance == blas
        if box is not None:
            kept |= mine
            rows["low"][mine], rows["high"][mine] = box[0], box[1]
    rows["rows"], rows["code"] = transforms, 0
    return rows[kept]


def triangle_soup(structure: Structure) -> NDArray[np.float32]:
    """(n, 3, 3) float32: corners of every active triangle of a bottom level once, in object space.

    Mixed in a fixed order, so that the first k of them are a fair sample of the whole surface.
    """
    if structure.is_procedural or not len(structure.packs):
        return np.empty((0, 3, 3), np.float32)
    corners = structure.pack_corners().transpose(0, 3, 1, 2).reshape(-1, 3, 3)
    return np.ascontiguousarray(corners[_soup_lanes(structure)])


def triangle_soup_geometries(structure: Structure) -> NDArray[np.int64]:
    """(n,) int64: geometry index of every triangle of ``triangle_soup``, in its order."""
    if structure.is_procedural or not len(structure.packs):
        return np.empty(0, np.int64)
    return structure.geometry_and_primitive(structure.packs["id"].ravel()[_soup_lanes(structure)])[0]


def _soup_lanes(structure: Structure) -> NDArray[np.int64]:
    """Lanes of the packs, one for each triangle, mixed."""
    ids = structure.packs["id"].ravel()
    _, first = np.unique(ids, return_index=True)  # a split triangle stands in several packs
    first = first[ids[first] != UNUSED_LANE]
    count = len(first)
    stride = max(int(count * 0.6180339887), 1)
    while np.gcd(stride, count) != 1:
        stride += 1
    lanes: NDArray[np.int64] = first[np.arange(count) * stride % max(count, 1)]
    return lanes


def procedural_soup(structure: Structure, spheres: NDArray[np.bool_]) -> NDArray[np.float32]:
    """(n, 3, 3) float32: what stands for procedural primitives: the spheres inscribed in their boxes for the geometries
    marked in ``spheres`` (geometries,), then the boxes of the others."""
    low, high, _, is_round = _procedurals(structure, spheres)
    centre, radius = (low + high)[is_round] / 2, (high - low)[is_round].min(1) / 2
    balls = (centre[:, None, None] + radius[:, None, None, None] * _sphere()[None]).reshape(-1, 3, 3)
    return np.concatenate([balls.astype(np.float32), box_soup(low[~is_round], high[~is_round])])


def procedural_soup_geometries(structure: Structure, spheres: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(n,) int64: geometry index of every triangle of ``procedural_soup``, in its order."""
    _, _, geometry, is_round = _procedurals(structure, spheres)
    return np.concatenate([geometry[is_round].repeat(len(_sphere())), geometry[~is_round].repeat(len(_FACES))])


def _procedurals(structure: Structure, spheres: NDArray[np.bool_]) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Lowest and highest corner (n, 3), geometry (n,) and whether it is drawn as a sphere (n,), in storage order."""
    packs = structure.box_packs
    if not len(packs):
        nothing = np.empty((0, 3), np.float32)
        return nothing, nothing, np.empty(0, np.int64), np.empty(0, np.bool_)
    ids = packs["id"].ravel()
    used = ids != UNUSED_LANE
    low = packs["low"].transpose(0, 2, 1).reshape(-1, 3)[used]
    high = packs["high"].transpose(0, 2, 1).reshape(-1, 3)[used]
    geometry = structure.geometry_and_primitive(ids[used])[0].astype(np.int64)
    return low, high, geometry, spheres[geometry] & (len(low) <= MOST_SPHERES)


def box_soup(low: NDArray[np.float32], high: NDArray[np.float32]) -> NDArray[np.float32]:
    """(12 n, 3, 3) float32: the faces of n boxes, given by (n, 3) corners."""
    corner = np.array([[c & 1, c >> 1 & 1, c >> 2 & 1] for c in range(8)], np.float32)
    corners = low[:, None] + corner[None] * (high - low)[:, None]
    return np.ascontiguousarray(corners[:, _FACES].reshape(-1, 3, 3), np.float32)


def _sphere(rings: int = 12, sectors: int = 20) -> NDArray[np.float32]:
    """(n, 3, 3) float32: a unit sphere."""
    polar, around = np.meshgrid(np.linspace(0, np.pi, rings + 1), np.linspace(0, 2 * np.pi, sectors + 1), indexing="ij")
    points = np.stack([np.sin(polar) * np.cos(around), np.cos(polar), np.sin(polar) * np.sin(around)], -1)
    a, b, c, d = points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:]
    triangles = np.concatenate([np.stack([a, b, c], 2).reshape(-1, 3, 3), np.stack([a, c, d], 2).reshape(-1, 3, 3)])
    area = np.linalg.norm(np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]), axis=1)
    return triangles[area > 1e-9].astype(np.float32)


def box_segments(
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    transform: NDArray[np.float32] | None,
    tint: Sequence[float],
    width: float,
) -> NDArray[np.void]:
    """The 12 edges of a box as SEGMENT_ROW rows; ``transform`` (3, 4) places it."""
    corner = np.array([[c & 1, c >> 1 & 1, c >> 2 & 1] for c in range(8)], np.float32)
    points = low + corner * (np.asarray(high) - low)
    matrix = _IDENTITY if transform is None else transform
    points = points @ matrix[:, :3].T + matrix[:, 3]
    rows = np.empty(12, SEGMENT_ROW)
    rows["from"], rows["to"] = points[_EDGES[:, 0]], points[_EDGES[:, 1]]
    rows["tint"], rows["width"] = tint, width
    return rows


def segment_rows(points: NDArray[np.float32], tint: Sequence[float], width: float) -> NDArray[np.void]:
    """A polyline of (n, 3) points as n - 1 segments."""
    rows = np.empty(max(len(points) - 1, 0), SEGMENT_ROW)
    rows["from"], rows["to"] = points[:-1], points[1:]
    rows["tint"], rows["width"] = tint, width
    return rows


def point_rows(points: NDArray[np.float32], tints: NDArray[np.float32], sizes: NDArray[np.float32]) -> NDArray[np.void]:
    rows = np.empty(len(points), POINT_ROW)
    rows["at"], rows["tint"], rows["size"] = points, tints, sizes
    return rows


def exit_distance(bounds: NDArray[np.float64], origin: NDArray[np.float64], direction: NDArray[np.float64]) -> float:
    """How far along a ray that never ends is worth drawing: past the bounds, by a quarter of their diagonal."""
    diagonal = float(np.linalg.norm(bounds[1] - bounds[0])) or 1.0
    length = float(np.linalg.norm(direction)) or 1.0
    centre = (bounds[0] + bounds[1]) / 2
    return (float(np.linalg.norm(centre - origin)) + 0.75 * diagonal) / length
