"""Meshes, cameras and rays of the measurements; the same arguments give the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.scene.camera import Camera, Vector
from rtviewer.scene.generators import box, icosphere, scatter_placements
from rtviewer.scene.mesh import Mesh, joined
from rtviewer.trace.request import Hits, RayBatch

TILE, PACKET = 64, 4
"""Pixels along the edge of a tile, and of the block of 16 that follow each other."""


@dataclass(frozen=True, eq=False)
class BenchScene:
    """``placements``: (n, 3, 4) float32 object-to-world, or None when the mesh stands once, where it is. ``cut_out``:
    triangles are not opaque, and those with odd numbers are holes. ``boxes``: (n, 6) float32 minimum and maximum, each
    with a sphere in its middle as wide as its shortest side, instead of a mesh, which is then empty."""

    name: str
    mesh: Mesh
    camera: Camera
    light: Vector
    placements: NDArray[np.float32] | None = None
    cut_out: bool = False
    boxes: NDArray[np.float32] | None = None

    @property
    def primitive_count(self) -> int:
        """Of the one bottom level."""
        return len(self.mesh.indices) if self.boxes is None else len(self.boxes)

    @property
    def is_plain(self) -> bool:
        """Opaque triangles that stand once: what all tracers can do, and what builds and refits are measured on."""
        return self.placements is None and self.boxes is None and not self.cut_out


@dataclass(frozen=True)
class Size:
    """How much to measure. ``pixels``: edge of the square picture, a multiple of the tile. The rest: of the meshes."""

    name: str
    pixels: int
    torus: tuple[int, int]
    sphere: int
    strands: int
    soup: int
    instances: int
    leaves: int
    balls: int


FULL = Size("full", 1024, (400, 100), 8, 6000, 1_000_000, 10_000, 100_000, 100_000)
QUICK = Size("quick", 256, (400, 100), 6, 1500, 100_000, 10_000, 20_000, 20_000)
TINY = Size("tiny", 64, (24, 12), 2, 10, 500, 30, 200, 100)
SIZES = {size.name: size for size in (FULL, QUICK, TINY)}


# --- meshes -------------------------------------------------------------------------------------------------------


def _lattice(rows: int, columns: int, *, closed_rows: bool = False, closed_columns: bool = False) -> NDArray[np.int64]:
    """(n, 3): two triangles for each cell of a lattice of rows x columns points; closed directions join their ends."""
    cells = (rows if closed_rows else rows - 1, columns if closed_columns else columns - 1)
    row, column = (a.ravel() for a in np.indices(cells))
    next_row, next_column = (row + 1) % rows, (column + 1) % columns
    a, b = row * columns + column, next_row * columns + column
    c, d = next_row * columns + next_column, row * columns + next_column
    return np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])


def _grid(first: NDArray[Any], second: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = np.meshgrid(first, second, indexing="ij")
    return a, b


def _turn(count: int) -> NDArray[np.float64]:
    return np.arange(count, dtype=np.float64) * (2 * np.pi / count)


def bumpy_torus(segments: int, sides: int) -> Mesh:
    """A ring around y with ripples of two sizes."""
    around, across = _grid(_turn(segments), _turn(sides))
    coarse, fine = np.sin(13 * around) * np.cos(7 * across), np.sin(60 * around) * np.sin(30 * across)
    radius = 0.4 * (1 + 0.15 * coarse + 0.03 * fine)
    distance = 1 + radius * np.cos(across)
    points = np.stack([distance * np.cos(around), radius * np.sin(across), distance * np.sin(around)], -1)
    return Mesh.of(points, _lattice(segments, sides, closed_rows=True, closed_columns=True))


def displaced_sphere(subdivisions: int) -> Mesh:
    """A closed sphere with bumps of three sizes, 20 * 4**subdivisions triangles."""
    sphere = icosphere(subdivisions)
    x, y, z = sphere.vertices.astype(np.float64).T
    radius = 1 + 0.12 * np.sin(5 * x + 3 * y) * np.cos(7 * z)
    radius += 0.03 * np.sin(31 * x) * np.sin(37 * y) * np.sin(29 * z)
    radius += 0.006 * np.sin(151 * x + 2) * np.sin(163 * y) * np.sin(141 * z)
    return Mesh.of(np.stack([x, y, z], 1) * radius[:, None], sphere.indices)


def hairball(strands: int, segments: int = 40, seed: int = 1) -> Mesh:
    """Thin curled ribbons out of a middle: long slanted triangles that overlap much."""
    random = np.random.default_rng(seed)

    def directions() -> NDArray[np.float64]:
        vectors = random.normal(size=(strands, 3))
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

    outward, curl, phase = directions(), random.normal(size=(strands, 1, 3)) * 0.5, random.random((strands, 1)) * 6.28
    along = np.linspace(0, 1, segments + 1)[None]
    wave = np.stack([np.sin(9 * along + phase), np.cos(8 * along + phase), np.sin(7 * along - phase)], -1)
    middle = outward[:, None] * (0.2 + 0.8 * along[..., None]) + curl * along[..., None] ** 2 + 0.05 * wave
    side = np.cross(outward, directions())
    side *= 0.002 / np.linalg.norm(side, axis=1, keepdims=True)
    points = np.stack([middle - side[:, None], middle + side[:, None]], 2)
    strand = _lattice(segments + 1, 2)
    first = np.arange(strands)[:, None, None] * (2 * (segments + 1))
    return Mesh.of(points, strand[None] + first)


def sized_soup(count: int, seed: int = 2) -> Mesh:
    """Random triangles in a cube, sizes spread over more than a factor of ten."""
    random = np.random.default_rng(seed)
    centres = random.uniform(-1, 1, (count, 1, 3))
    size = 0.012 * np.exp(random.normal(size=(count, 1, 1)) * 0.6)
    return Mesh.of(centres + random.normal(size=(count, 3, 3)) * size, np.arange(3 * count))


def foliage(leaves: int, seed: int = 5) -> Mesh:
    """Leaf cards of two triangles on the crowns of trees in a row of rows; with every second triangle cut away, a ray
    passes many holes."""
    random = np.random.default_rng(seed)
    trees = max(leaves // 2000, 4)
    side = int(np.ceil(np.sqrt(trees)))
    tree = random.integers(0, trees, leaves)
    ground = np.stack([tree % side - (side - 1) / 2, np.zeros(leaves), tree // side - (side - 1) / 2], 1) * 1.5
    outward = _unit(random.normal(size=(leaves, 3)))
    crown = outward * (0.35 + 0.65 * random.random((leaves, 1)) ** 0.5) * [1.0, 1.3, 1.0]
    along = _unit(outward + random.normal(size=(leaves, 3)))
    across = _unit(np.cross(along, random.normal(size=(leaves, 3))))
    size = 0.05 * np.exp(random.normal(size=(leaves, 1)) * 0.3)
    middle = ground + crown + [0, 1.5, 0]
    corners = [middle + size * (a * along + b * across) for a, b in ((-1, -1), (1, -1), (-1, 1), (1, 1))]
    return Mesh.of(np.stack(corners, 1), _lattice(2, 2)[None] + np.arange(leaves)[:, None, None] * 4)


def balls(count: int, seed: int = 6) -> NDArray[np.float32]:
    """(n, 6) float32: boxes of spheres of many sizes, some of which overlap."""
    random = np.random.default_rng(seed)
    centre = random.uniform(-1, 1, (count, 3))
    radius = 1.1 * count ** (-1 / 3) * np.exp(random.normal(size=(count, 1)) * 0.4)
    return np.ascontiguousarray(np.concatenate([centre - radius, centre + radius], 1), np.float32)


def hall(seed: int = 3) -> Mesh:
    """A long hall of two storeys: few large walls, fluted columns, arches, drapes and much small clutter."""
    random = np.random.default_rng(seed)
    rings = [_ring(random) for _ in range(12)]
    return joined([*_walls(), *_columns(), *_arches(), *_drapes(), *rings, *(_crate(random) for _ in range(700))])


def _walls() -> list[Mesh]:
    walls: list[tuple[Vector, Vector]] = [
        ((-15, -0.2, -7), (15, 0, 7)),
        ((-15, 0, -7.3), (15, 9, -7)),
        ((-15, 0, 7), (15, 9, 7.3)),
        ((-15.3, 0, -7), (-15, 9, 7)),
        ((15, 0, -7), (15.3, 9, 7)),
        ((-15, 4, -7), (15, 4.3, -4)),
        ((-15, 4, 4), (15, 4.3, 7)),
        ((-15, 9, -7), (15, 9.2, -3)),
        ((-15, 9, 3), (15, 9.2, 7)),
    ]
    return [box(low, high) for low, high in walls]


def _columns() -> list[Mesh]:
    around, up = _grid(_turn(72), np.linspace(0, 1, 24))
    radius = 0.35 * (1 + 0.05 * np.sin(18 * around)) * (1 + 0.5 * np.exp(-30 * up) + 0.6 * np.exp(-30 * (1 - up)))
    triangles = _lattice(72, 24, closed_rows=True)
    return [
        Mesh.of(np.stack([x + radius * np.cos(around), foot + up * tall, z + radius * np.sin(around)], -1), triangles)
        for x in np.linspace(-13, 13, 11)
        for z in (-4, 4)
        for foot, tall in ((0, 3.2), (4.3, 3.8))
    ]


def _arches() -> list[Mesh]:
    along, across = _grid(np.linspace(0, np.pi, 40), np.linspace(0, 2 * np.pi, 10))
    radius = 1.2 + 0.15 * np.cos(across)
    triangles = _lattice(40, 10)
    return [
        Mesh.of(
            np.stack([x + radius * np.cos(along), 3.2 + 0.7 * radius * np.sin(along), z + 0.3 * np.sin(across)], -1),
            triangles,
        )
        for x in np.linspace(-11.7, 11.7, 10)
        for z in (-4, 4)
    ]


def _drapes() -> list[Mesh]:
    across, up = _grid(np.linspace(0, 1, 80), np.linspace(0, 1, 50))
    triangles = _lattice(80, 50)
    return [
        Mesh.of(
            np.stack([x + 2.2 * (across - 0.5), 1 + 2.8 * up, z + 0.12 * np.sin(25 * across + 3 * up)], -1), triangles
        )
        for x in np.linspace(-11.7, 11.7, 10)[1::2]
        for z in (-4.2, 4.2)
    ]


def _ring(random: np.random.Generator) -> Mesh:
    around, across = _grid(_turn(48), _turn(24))
    place = np.array([random.uniform(-13, 13), 0.3 + random.uniform(0, 0.2), random.uniform(-3, 3)])
    distance = 1 + 0.4 * np.cos(across)
    points = np.stack([distance * np.cos(around), 0.4 * np.sin(across), distance * np.sin(around)], -1)
    size = random.uniform(0.15, 0.4)
    return Mesh.of(place + size * points, _lattice(48, 24, closed_rows=True, closed_columns=True))


def _crate(random: np.random.Generator) -> Mesh:
    x, z = random.uniform(-14, 14), random.uniform(-6.5, 6.5)
    wide, tall, deep = random.uniform(0.02, 0.15, 3)
    return box((x - wide, 0, z - deep), (x + wide, 2 * tall, z + deep))


# --- scenes -------------------------------------------------------------------------------------------------------


def _torus_scene(size: Size) -> BenchScene:
    return BenchScene("torus", bumpy_torus(*size.torus), Camera((0.9, 1.7, 2.2), (0, -0.1, 0)), (3, 4, 3))


def _hall_scene(size: Size) -> BenchScene:
    return BenchScene("hall", hall(), Camera((-13, 2.2, 0.7), (4, 3.1, -0.4), vertical_fov=70.0), (2, 8, 0))


def _hairball_scene(size: Size) -> BenchScene:
    return BenchScene("hairball", hairball(size.strands), Camera((0.5, 0.6, 2.6), (0, 0, 0)), (3, 4, 3))


def _sphere_scene(size: Size) -> BenchScene:
    return BenchScene("sphere", displaced_sphere(size.sphere), Camera((0, 0.6, 2.6), (0, 0, 0)), (3, 4, 3))


def _soup_scene(size: Size) -> BenchScene:
    return BenchScene("soup", sized_soup(size.soup), Camera((0.4, 0.5, 3.2), (0, 0, 0)), (3, 4, 3))


def _instances_scene(size: Size) -> BenchScene:
    placements = scatter_placements(size.instances, (20.0, 20.0, 20.0), (0.2, 0.4), seed=4).astype(np.float32)
    return BenchScene("instances", bumpy_torus(24, 12), Camera((16, 14, 28), (0, 0, 0)), (20, 30, 20), placements)


def _foliage_scene(size: Size) -> BenchScene:
    mesh = foliage(size.leaves)
    reach = float(np.abs(mesh.vertices[:, [0, 2]]).max())
    camera = Camera((0.3 * reach, 2.2 + 0.5 * reach, 0.8 * reach), (0, 1.3, 0), vertical_fov=40.0)
    return BenchScene("foliage", mesh, camera, (reach, 3 * reach, reach), cut_out=True)


def _balls_scene(size: Size) -> BenchScene:
    nothing = Mesh.of(np.zeros((0, 3)), np.zeros((0, 3), np.int64))
    return BenchScene("spheres", nothing, Camera((0.9, 1.2, 2.8), (0, 0, 0)), (3, 4, 3), boxes=balls(size.balls))


SCENES: dict[str, Callable[[Size], BenchScene]] = {
    "torus": _torus_scene,
    "hall": _hall_scene,
    "hairball": _hairball_scene,
    "sphere": _sphere_scene,
    "soup": _soup_scene,
    "instances": _instances_scene,
    "foliage": _foliage_scene,
    "spheres": _balls_scene,
}
MESHES = ("torus", "hall", "hairball", "sphere", "soup")
"""The scenes that targets take geometric means over."""


# --- rays ---------------------------------------------------------------------------------------------------------


def primary_rays(scene: BenchScene, pixels: int) -> RayBatch:
    """Camera rays, tile by tile and in a tile block by block, so that 16 that follow each other are neighbours."""
    row, column = (a.ravel() for a in np.indices((pixels, pixels)))
    keys = [a // step for step in (TILE, PACKET, 1) for a in (row, column)]
    order = np.lexsort(keys[::-1])
    return RayBatch.make(*scene.camera.rays(pixels, pixels, column[order], row[order]))


def secondary_rays(scene: BenchScene, rays: RayBatch, hits: Hits, seed: int = 7) -> tuple[RayBatch, RayBatch]:
    """(diffuse, shadow): from where ``rays`` hit, a cosine-distributed bounce and a ray to a jittered light. On spheres
    every fourth starts inside the one that was hit."""
    random = np.random.default_rng(seed)
    hit = hits.hit
    direction = rays.direction[hit].astype(np.float64)
    point = rays.origin[hit] + direction * hits.t[hit, None].astype(np.float64)
    normal = _normals(scene, point, hits.primitive_index[hit], hits.instance_index[hit])
    normal *= np.where((normal * direction).sum(1) > 0, -1.0, 1.0)[:, None]
    origin = point + normal * 1e-4
    if scene.boxes is not None:
        low, high = np.split(scene.boxes[hits.primitive_index[hit][::4]].astype(np.float64), 2, axis=1)
        origin[::4] = point[::4] - normal[::4] * 0.25 * (high - low)
    bounce = normal + 0.999 * _unit(random.normal(size=origin.shape))
    to_light = np.asarray(scene.light) + random.uniform(-0.3, 0.3, origin.shape) - origin
    distance = np.linalg.norm(to_light, axis=1)
    return (
        RayBatch.make(origin.reshape(-1, 3), _unit(bounce)),
        RayBatch.make(origin, to_light / distance[:, None], t_max=(distance * 0.999).astype(np.float32)),
    )


def _normals(
    scene: BenchScene, points: NDArray[np.float64], primitives: NDArray[np.int32], instances: NDArray[np.int32]
) -> NDArray[np.float64]:
    """(n, 3) float64 unit normals in the world of what was hit at ``points``; zero for triangles without area."""
    if scene.boxes is not None:
        boxes = scene.boxes[primitives].astype(np.float64)
        return _unit(points - (boxes[:, :3] + boxes[:, 3:]) / 2)
    corners = scene.mesh.vertices[scene.mesh.indices[primitives]].astype(np.float64)
    if scene.placements is not None:
        matrix = scene.placements[instances].astype(np.float64)
        corners = np.einsum("nij,nkj->nki", matrix[:, :, :3], corners) + matrix[:, None, :, 3]
    return _unit(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30))
