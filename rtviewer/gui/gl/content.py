"""What stands in the structure view: items made from a world, shown by view settings, selection and ray.

The heavy arrays are prepared off the GUI thread (``prepare``, pure); ``SceneContent`` uploads them and switches items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtviewer.gui.gl.boxes import BoxesItem
from rtviewer.gui.gl.detail import full_counts, screen_sizes
from rtviewer.gui.gl.geometry import (
    BOX_ROW,
    CODE_COUNT,
    INSTANCE_ROW,
    POINT_ROW,
    SEGMENT_ROW,
    BoxSet,
    BoxSource,
    box_segments,
    collect_boxes,
    instance_box_rows,
    instance_transforms,
    procedural_soup,
    procedural_soup_geometries,
    readable_depth,
    segment_rows,
    triangle_soup,
    triangle_soup_geometries,
)
from rtviewer.gui.gl.mesh import MeshItem
from rtviewer.gui.gl.ray_drawing import candidate_points, ray_segments
from rtviewer.gui.gl.scene_view import SceneView
from rtviewer.gui.gl.segments import PointsItem, SegmentsItem
from rtviewer.gui.theme import DEPTH_COLOURS, LEAF_COLOURS, Theme, rgba
from rtviewer.session.document import TOP_LEVEL, World
from rtviewer.session.hit_records import sphere_geometries
from rtviewer.session.raylog import RayLog
from rtviewer.session.state import Selection, ViewSettings
from rtviewer.shade.palettes import index_colours
from rtviewer.shade.picture import first_surfaces

SOFTWARE_BOX_BUDGET = 4096
HARDWARE_BOX_BUDGET = 500_000
MOVING_TRIANGLES = 20_000
FEWEST_TRIANGLES = 2_000
MOVING_SECONDS = 0.012
"""What a frame may take in software while the camera moves: more, and the traced picture beside it stutters."""
STILL_TRIANGLES = 250_000
"""Triangles of instances drawn in full in software, while the camera moves and when it rests (about 70 ms)."""
HIDDEN_ALPHA = 0.3
IDENTITY = np.eye(3, 4, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Arrays of one world: ``soups`` and the geometry number of their triangles per bottom level, and the
    instances that show each of them."""

    world: World
    soups: tuple[NDArray[np.float32], ...]
    surfaces: tuple[NDArray[np.int64], ...]
    transforms: NDArray[np.float32]
    blas_of_instance: NDArray[np.int64]
    tints: NDArray[np.float32]
    bounds: NDArray[np.float64] | None


def prepare(world: World, before: Prepared | None = None) -> Prepared:
    """Everything that takes time: triangle soups and trees. Runs on any thread.

    Arrays of bottom levels that are still those of ``before`` are its very arrays.
    """
    soups: list[NDArray[np.float32]] = []
    surfaces: list[NDArray[np.int64]] = []
    for index, (first, blas) in enumerate(zip(first_surfaces(world.blases), world.blases, strict=False)):
        if before is not None and _is_same(before.world, world, index):
            soups.append(before.soups[index])
            surfaces.append(before.surfaces[index])
            continue
        spheres = sphere_geometries(world, index)
        soups.append(np.concatenate([triangle_soup(blas), procedural_soup(blas, spheres)]))
        numbers = [triangle_soup_geometries(blas), procedural_soup_geometries(blas, spheres)]
        surfaces.append(first + np.concatenate(numbers))
    for index in world.structure_indices:
        world.tree(index)
    transforms = instance_transforms(world.tlas)
    tints = index_colours(np.arange(len(transforms))).astype(np.float32) / 255
    return Prepared(
        world, tuple(soups), tuple(surfaces), transforms, world.instance_blas.astype(np.int64), tints, world.bounds
    )


def _is_same(before: World, after: World, index: int) -> bool:
    """Whether the drawing of a bottom level, and the numbers of its geometries, are what they were."""
    if len(before.blases) != len(after.blases) or before.blases[index] is not after.blases[index]:
        return False
    return bool(first_surfaces(before.blases)[index] == first_surfaces(after.blases)[index]) and bool(
        np.array_equal(sphere_geometries(before, index), sphere_geometries(after, index))
    )


class SceneContent:
    """Owns the items of one view. Call ``show_world``, then ``show`` on changes of view settings, selection or ray."""

    def __init__(self, view: SceneView) -> None:
        self.view = view
        self.prepared: Prepared | None = None
        self.theme: Theme | None = None
        self.settings = ViewSettings()
        self.meshes: list[MeshItem] = []
        self.full_instances: tuple[int, int] | None = None
        """Instances drawn in full, and all shown, when not all are drawn in full."""
        self.draws_everything = False
        self._moving_triangles = MOVING_TRIANGLES
        self.boxes = BoxesItem()
        self.instance_boxes = BoxesItem()
        self.highlight = SegmentsItem(through=True)
        self.ray = SegmentsItem()
        self.hidden_ray = SegmentsItem(through=True)
        """The same ray faintly, for where surfaces hide it."""
        self.marks = PointsItem()
        for depth, item in enumerate(
            (self.boxes, self.instance_boxes, self.hidden_ray, self.ray, self.highlight, self.marks), 1
        ):
            item.setDepthValue(10 * depth)
            view.addItem(item)
        view.moving_started.connect(self._coarse)
        view.settled.connect(self._full)
        view.moving_painted.connect(self._adapt)

    @property
    def box_budget(self) -> int:
        return SOFTWARE_BOX_BUDGET if self.view.is_software else HARDWARE_BOX_BUDGET

    # World

    def show_world(self, prepared: Prepared | None) -> None:
        kept = prepared.soups if prepared is not None else ()
        for item in self.meshes[len(kept) :]:
            self.view.removeItem(item)
        del self.meshes[len(kept) :]
        self.prepared = prepared
        self.boxes.set_boxes(None)
        self.instance_boxes.set_boxes(None)
        if prepared is None:
            self.view.bounds = None
            self.show_selection(Selection())
            self.show_ray(None)
            self.view.set_counts("")
            return
        while len(self.meshes) < len(prepared.soups):
            self.meshes.append(MeshItem())
            self.view.addItem(self.meshes[-1])
        for item, soup, surfaces in zip(self.meshes, prepared.soups, prepared.surfaces, strict=True):
            item.set_mesh(soup, surfaces)
        self._place()
        self._tint_meshes()

    def show_settings(self, settings: ViewSettings) -> None:
        old, self.settings = self.settings, settings
        if self.prepared is None:
            return
        if (old.scope, old.hidden_instances) != (settings.scope, settings.hidden_instances):
            self._place()
        for item in self.meshes:
            item.fill, item.wire = settings.show_geometry, settings.show_wireframe
        self.instance_boxes.setVisible(settings.show_instance_boxes)
        for drawn in (self.ray, self.hidden_ray, self.marks):
            drawn.setVisible(settings.show_rays and settings.scope == TOP_LEVEL)
        self.show_boxes()

    def _shown_instances(self, blas: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Transforms and numbers of the instances of a bottom level that are drawn in this scope."""
        prepared = self.prepared
        assert prepared is not None
        if self.settings.scope != TOP_LEVEL:
            return IDENTITY[None][: int(blas == self.settings.scope)], np.zeros(
                int(blas == self.settings.scope), np.int64
            )
        mine = prepared.blas_of_instance == blas
        if self.settings.hidden_instances:
            mine = mine & ~np.isin(np.arange(len(mine)), list(self.settings.hidden_instances))
        numbers = np.flatnonzero(mine)
        return prepared.transforms[numbers], numbers

    def _place(self) -> None:
        """Upload instances for the scope, and the bounds the camera's clip planes must hold."""
        prepared = self.prepared
        assert prepared is not None
        scope = self.settings.scope
        self._place_meshes(STILL_TRIANGLES)
        self.view.bounds = self.scope_bounds()
        if scope == TOP_LEVEL:
            roots = [blas.bounds for blas in prepared.world.blases]
            shown = np.ones(len(prepared.transforms), np.bool_)
            shown[[i for i in self.settings.hidden_instances if i < len(shown)]] = False
            rows = instance_box_rows(roots, prepared.blas_of_instance[shown], prepared.transforms[shown])
        else:
            rows = np.empty(0, BOX_ROW)
        rows = rows[: self.box_budget]
        self.instance_boxes.set_boxes(BoxSet(rows, 0, np.array([0, len(rows)]), 1, len(rows), False))
        self.boxes.set_boxes(None)
        self.show_boxes()

    def _place_meshes(self, budget: int) -> None:
        """Upload the instances shown; in software the largest on screen first, as many in full as ``budget`` allows."""
        prepared = self.prepared
        assert prepared is not None
        shown = [self._shown_instances(blas) for blas in range(len(self.meshes))]
        everything = sum(item.triangle_count * len(t) for item, (t, _) in zip(self.meshes, shown, strict=True))
        orders: list[NDArray[np.int64]] | None = None
        counts: list[int] = []
        if self.view.is_software and everything > budget and not self.draws_everything:
            sizes = [
                screen_sizes(self.view.camera, blas.bounds, transforms)
                for blas, (transforms, _) in zip(prepared.world.blases, shown, strict=True)
            ]
            orders, counts = full_counts(sizes, [item.triangle_count for item in self.meshes], budget)
        self.full_instances = (sum(counts), sum(len(t) for t, _ in shown)) if orders is not None else None
        for blas, (item, (transforms, numbers)) in enumerate(zip(self.meshes, shown, strict=True)):
            order = orders[blas] if orders is not None else slice(None)
            rows = np.empty(len(transforms), INSTANCE_ROW)
            rows["rows"] = transforms[order]
            rows["tint"] = self._tints(numbers[order])
            item.set_instances(rows)
            item.full_count = counts[blas] if orders is not None else None
            item.fill, item.wire = self.settings.show_geometry, self.settings.show_wireframe

    def scope_bounds(self) -> NDArray[np.float64] | None:
        """What is shown: the world, or one bottom level in object space."""
        if self.prepared is None:
            return None
        if self.settings.scope == TOP_LEVEL:
            return self.prepared.bounds
        bounds = self.prepared.world.blases[self.settings.scope].bounds
        return None if bounds is None else bounds.astype(np.float64)

    # Boxes

    def _sources(self) -> list[BoxSource]:
        prepared, scope = self.prepared, self.settings.scope
        assert prepared is not None
        if scope != TOP_LEVEL:
            return [BoxSource(prepared.world.tree(scope), IDENTITY[None], 0)]
        top = prepared.world.tree(TOP_LEVEL)
        below = max(len(top.level_start) - 1, 0)
        sources = [BoxSource(top, IDENTITY[None], 0)]
        for blas in range(len(prepared.world.blases)):
            transforms, _ = self._shown_instances(blas)
            sources.append(BoxSource(prepared.world.tree(blas), transforms, below))
        return [source for source in sources if len(source.tree) and len(source.transforms)]

    def level_count(self) -> int:
        """Levels of boxes in this scope."""
        if self.prepared is None:
            return 0
        return max((source.last_level + 1 for source in self._sources()), default=0)

    def readable_depth(self) -> int:
        """The deepest level down to which the boxes can be told apart on a screen; -1 when that is all of them."""
        return readable_depth(self._sources() if self.prepared is not None else [])

    def show_boxes(self) -> None:
        """Upload what the depth range needs and say how much of the whole is shown."""
        if self.prepared is None:
            return
        low, high = self.settings.depth_low, self.settings.depth_high
        boxes = self.boxes.boxes
        if boxes is None or not boxes.covers(low, high):
            boxes = collect_boxes(self._sources(), low, high, self.box_budget)
            self.boxes.set_boxes(boxes)
        self.boxes.set_levels(low, high)
        self.boxes.setVisible(self.settings.show_boxes)
        lines = [self._count_text(boxes), self._detail_text()]
        self.view.set_counts("\n".join(line for line in lines if line))

    def _detail_text(self) -> str:
        if self.full_instances is None or not (self.settings.show_geometry or self.settings.show_wireframe):
            return ""
        full, shown = self.full_instances
        return f"{full:,} of {shown:,} instances in full, smaller ones as their boxes" if full < shown else ""

    def _count_text(self, boxes: BoxSet) -> str:
        if not self.settings.show_boxes:
            return ""
        first, last = boxes.range_of(self.settings.depth_low, self.settings.depth_high)
        if not boxes.total:
            return "no boxes: nothing here can be hit"
        slots = np.searchsorted(boxes.level_start, [first, max(last - 1, first)], side="right") - 1
        deepest = boxes.first_level + int(slots[1])
        from_level = min(max(self.settings.depth_low, 0), deepest)
        wanted = self.settings.depth_high if self.settings.depth_high >= 0 else boxes.level_count - 1
        cut = boxes.budget_spent and wanted >= boxes.last_level
        why = f"\ndrawing stops at {self.box_budget:,} boxes" if cut else ""
        return f"shown {last - first:,} of {boxes.total:,} boxes, depth {from_level}–{deepest}{why}"

    # Selection

    def show_selection(self, selection: Selection) -> None:
        """The selected box thick, the way to its root thinner; the selected primitive outlined."""
        prepared, theme = self.prepared, self.theme
        rows: list[NDArray[np.void]] = []
        if prepared is not None and theme is not None:
            rows = self._selection_rows(prepared, theme, selection)
        self.highlight.set_rows(np.concatenate(rows) if rows else np.empty(0, SEGMENT_ROW))

    def _selection_rows(self, prepared: Prepared, theme: Theme, selection: Selection) -> list[NDArray[np.void]]:
        world, scope = prepared.world, self.settings.scope
        structure = selection.structure
        if structure >= len(world.blases) or (scope != TOP_LEVEL and structure != scope):
            return []
        transform = self._placement(prepared, selection)
        if transform is None:
            return []
        rows: list[NDArray[np.void]] = []
        tree = world.tree(structure)
        strong, weak = rgba(theme.accent), rgba(theme.accent, 0.55)
        if 0 <= selection.box < len(tree):
            for box in tree.path_to_root(selection.box)[1:]:
                rows.append(box_segments(tree.low[box], tree.high[box], transform, weak, 1.6))
            rows.append(box_segments(tree.low[selection.box], tree.high[selection.box], transform, strong, 3.0))
        if structure == TOP_LEVEL and 0 <= selection.instance < len(prepared.transforms):
            blas = int(prepared.blas_of_instance[selection.instance])
            bounds = world.blases[blas].bounds if blas >= 0 else None
            if bounds is not None:
                placed = prepared.transforms[selection.instance]
                rows.append(box_segments(bounds[0], bounds[1], placed, rgba(theme.warning), 2.0))
        if structure >= 0 and selection.primitive >= 0:
            corners = primitive_corners(world, selection)
            if corners is not None:
                placed_corners = corners @ transform[:, :3].T + transform[:, 3]
                rows.append(segment_rows(placed_corners[[0, 1, 2, 0]], rgba(theme.warning), 3.0))
        return rows

    def _placement(self, prepared: Prepared, selection: Selection) -> NDArray[np.float32] | None:
        """Where the selected structure stands in this scope; None when it is not shown."""
        if selection.structure == TOP_LEVEL or self.settings.scope != TOP_LEVEL:
            return IDENTITY
        instance, users_of = selection.instance, prepared.blas_of_instance
        if 0 <= instance < len(users_of) and users_of[instance] == selection.structure:
            return prepared.transforms[instance]
        users = np.flatnonzero(prepared.blas_of_instance == selection.structure)
        return prepared.transforms[users[0]] if len(users) else None

    # Ray

    def show_ray(self, log: RayLog | None, position: int = -1) -> None:
        """The ray to its end, and a point for every candidate that has a t, coloured by its verdict's family; with a
        position, as far as the log has come there."""
        theme = self.theme
        if log is None or theme is None:
            self.ray.set_rows(np.empty(0, SEGMENT_ROW))
            self.hidden_ray.set_rows(np.empty(0, SEGMENT_ROW))
            self.marks.set_rows(np.empty(0, POINT_ROW))
            return
        segments = ray_segments(log, position, theme)
        faint = segments.copy()
        faint["tint"][:, 3] *= HIDDEN_ALPHA
        self.ray.set_rows(segments)
        self.hidden_ray.set_rows(faint)
        self.marks.set_rows(candidate_points(log, position, theme))

    # Look

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.view.set_theme(theme)
        codes = np.zeros((CODE_COUNT, 4), np.float32)
        shades = DEPTH_COLOURS[theme.name]
        for level in range(CODE_COUNT // 2):
            colour = shades[min(level, len(shades) - 1)]
            alpha = 0.85 if level < 2 else 0.5  # deep levels are many: they must not hide what they enclose
            codes[2 * level] = rgba(colour, alpha)
            codes[2 * level + 1] = rgba(LEAF_COLOURS[theme.name], 0.5)
        self.boxes.set_colours(codes)
        self.instance_boxes.set_colours(np.broadcast_to(np.array(rgba(theme.warning, 0.9), np.float32), codes.shape))
        self.marks.rim = rgba(theme.view)
        self._tint_meshes()

    def _tint_meshes(self) -> None:
        if self.theme is None:
            return
        for item in self.meshes:
            item.wire_colour = rgba(self.theme.wire, 0.8)
        if self.prepared is not None and self.meshes:
            self._place()

    def _tints(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        assert self.prepared is not None
        base = np.array(rgba(self.theme.mesh if self.theme else "#a0a0a0")[:3], np.float32)
        return (
            0.78 * base + 0.22 * self.prepared.tints[numbers]
            if len(self.prepared.tints)
            else base[None].repeat(len(numbers), 0)
        )

    def draw_everything(self) -> None:
        """Spare no instance, however long a frame takes: for pictures that nobody waits for."""
        self.draws_everything = True
        if self.prepared is not None:
            self._full()
            self._place()

    def _coarse(self) -> None:
        if self.view.is_software and self.prepared is not None:
            for item in self.meshes:
                item.budget = self._moving_triangles
            self._place_meshes(self._moving_triangles)

    def _adapt(self, seconds: float) -> None:
        """Draw less, or more again, while the camera moves, by what the last frame took."""
        if 0.5 * MOVING_SECONDS <= seconds <= MOVING_SECONDS:
            return
        share = min(max(0.75 * MOVING_SECONDS / max(seconds, 1e-6), 0.25), 1.5)
        wanted = round(min(max(self._moving_triangles * share, FEWEST_TRIANGLES), MOVING_TRIANGLES))
        if wanted != self._moving_triangles:
            self._moving_triangles = wanted
            self._coarse()

    def _full(self) -> None:
        for item in self.meshes:
            item.budget = None
        if self.view.is_software and self.prepared is not None:
            self._place_meshes(STILL_TRIANGLES)
            self.show_boxes()


def primitive_corners(world: World, selection: Selection) -> NDArray[np.float32] | None:
    """(3, 3) object-space corners of the selected triangle; None for a procedural or inactive primitive."""
    structure = world.blases[selection.structure]
    if structure.is_procedural or not len(structure.packs) or selection.geometry >= len(structure.geometries):
        return None
    number = int(structure.geometries["first_primitive"][selection.geometry]) + selection.primitive
    tree, first, last = world.tree(selection.structure), 0, len(structure.packs)
    if 0 <= selection.box < len(tree) and tree.is_leaf(selection.box):  # all packs are many
        first = int(tree.first_element[selection.box])
        last = first + int(tree.element_count[selection.box])
    ids = structure.packs["id"][first:last].ravel()
    found = np.flatnonzero((ids >= 0) & ((ids & 0x1FFFFFFF) == number))
    if not len(found):
        return None
    pack, lane = divmod(int(found[0]), 4)
    corners: NDArray[np.float32] = structure.pack_corners(first + pack, first + pack + 1)[0, :, :, lane]
    return corners
