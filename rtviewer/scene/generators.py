"""Deterministic meshes, boxes and placements. Same arguments, same bytes; random ones take a seed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rtviewer.scene.mesh import Mesh, joined

Vector = tuple[float, float, float]


def quad(origin: Vector = (-1, -1, 0), u: Vector = (2, 0, 0), v: Vector = (0, 2, 0), divisions: int = 1) -> Mesh:
    """A parallelogram of 2 x ``divisions`` squared triangles from ``origin`` along ``u`` and ``v``; front is u x v."""
    steps = np.linspace(0.0, 1.0, divisions + 1)
    along_v, along_u = np.meshgrid(steps, steps, indexing="ij")
    points = np.asarray(origin) + along_u[..., None] * np.asarray(u) + along_v[..., None] * np.asarray(v)
    return Mesh.of(points, _lattice(divisions, divisions))


def _lattice(rows: int, columns: int) -> NDArray[np.int64]:
    """(2 * rows * columns, 3): two triangles for each cell of a lattice of (rows + 1) x (columns + 1) points."""
    row, column = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    a = (row * (columns + 1) + column).ravel()
    b, c, d = a + 1, a + columns + 2, a + columns + 1
    return np.stack([a, b, c, a, c, d], axis=1).reshape(-1, 3)


def box(low: Vector = (-1, -1, -1), high: Vector = (1, 1, 1)) -> Mesh:
    """A closed box of 12 triangles and 8 vertices, fronts outside."""
    corners = np.array([[(low, high)[(i >> axis) & 1][axis] for axis in range(3)] for i in range(8)])
    sides = [(0, 4, 6, 2), (1, 3, 7, 5), (0, 1, 5, 4), (2, 6, 7, 3), (0, 2, 3, 1), (4, 5, 7, 6)]
    return Mesh.of(corners, [t for a, b, c, d in sides for t in ((a, b, c), (a, c, d))])


def icosphere(subdivisions: int = 3, radius: float = 1.0, centre: Vector = (0, 0, 0)) -> Mesh:
    """A sphere of 20 * 4**subdivisions triangles made from an icosahedron, fronts outside."""
    vertices, triangles = _icosahedron()
    for _ in range(subdivisions):
        vertices, triangles = _split_in_four(vertices, triangles)
        vertices /= np.linalg.norm(vertices, axis=1, keepdims=True)
    return Mesh.of(vertices * radius + np.asarray(centre), triangles)


def _icosahedron() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Twelve unit vertices: the poles and two rings of five, the lower one turned by half a step."""
    turn = 2.0 * np.pi / 5.0
    height, ring = 1.0 / math.sqrt(5.0), 2.0 / math.sqrt(5.0)
    upper = [(ring * math.cos(k * turn), height, ring * math.sin(k * turn)) for k in range(5)]
    lower = [(ring * math.cos((k + 0.5) * turn), -height, ring * math.sin((k + 0.5) * turn)) for k in range(5)]
    triangles = []
    for k in range(5):
        n = (k + 1) % 5
        triangles += [(0, 1 + n, 1 + k), (1 + k, 1 + n, 6 + k), (6 + k, 1 + n, 6 + n), (11, 6 + k, 6 + n)]
    return np.array([(0.0, 1.0, 0.0), *upper, *lower, (0.0, -1.0, 0.0)]), np.array(triangles)


def _split_in_four(
    vertices: NDArray[np.float64], triangles: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    edges = np.sort(triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    unique, number = np.unique(edges, axis=0, return_inverse=True)
    middles = (vertices[unique[:, 0]] + vertices[unique[:, 1]]) * 0.5
    ab, bc, ca = (number.reshape(-1, 3) + len(vertices)).T
    a, b, c = triangles.T
    split = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=1).reshape(-1, 3)
    return np.concatenate([vertices, middles]), split


def torus(major: float = 1.0, minor: float = 0.35, segments: int = 48, sides: int = 24) -> Mesh:
    """A ring around the y axis, 2 * segments * sides triangles, fronts outside. The seam shares its vertices."""
    around = np.arange(segments) * (2.0 * np.pi / segments)
    across = np.arange(sides) * (2.0 * np.pi / sides)
    distance = major + minor * np.cos(across)[None, :]
    points = np.stack(
        [
            distance * np.cos(around)[:, None],
            np.broadcast_to(minor * np.sin(across)[None, :], (segments, sides)),
            distance * np.sin(around)[:, None],
        ],
        axis=2,
    )
    return Mesh.of(points, _closed_lattice(segments, sides))


def _closed_lattice(rows: int, columns: int) -> NDArray[np.int64]:
    """Like :func:`_lattice`, but the last row and column join the first."""
    row, column = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    next_row, next_column = (row + 1) % rows, (column + 1) % columns
    a, b = row * columns + column, row * columns + next_column
    c, d = next_row * columns + next_column, next_row * columns + column
    return np.stack([a, b, c, a, c, d], axis=2).reshape(-1, 3)


def bowl(radius: float = 1.0, opening: float = 90.0, segments: int = 32, rings: int = 12) -> Mesh:
    """A thin open cap of a sphere around -y, fronts outside: from inside, every triangle is seen from behind.

    ``opening`` in degrees: the angle from -y to the rim, 90 for half a sphere.
    """
    angle = np.linspace(0.0, math.radians(opening), rings + 1)
    around = np.linspace(0.0, 2.0 * np.pi, segments + 1)
    points = radius * np.stack(
        [
            np.sin(angle)[:, None] * np.cos(around)[None, :],
            np.broadcast_to(-np.cos(angle)[:, None], (rings + 1, segments + 1)),
            np.sin(angle)[:, None] * np.sin(around)[None, :],
        ],
        axis=2,
    )
    triangles = _lattice(rings, segments)
    at_pole = np.arange(len(triangles)) < 2 * segments
    # The first ring is a point: of each of its cells the triangle with two corners there is left out.
    return Mesh.of(points, triangles[~at_pole | (np.arange(len(triangles)) % 2 == 1)]).reversed()


def wave(
    columns: int = 64, rows: int = 64, size: float = 10.0, height: float = 0.4, waves: float = 3.0, phase: float = 0.0
) -> Mesh:
    """A rippled square in x and z around the origin, fronts up (+y); ``phase`` in radians moves the ripples."""
    x = np.linspace(-size / 2, size / 2, columns + 1)
    z = np.linspace(-size / 2, size / 2, rows + 1)
    depth, across = np.meshgrid(z, x, indexing="ij")
    radius = np.hypot(across, depth) / size
    points = np.stack([across, height * np.cos(2.0 * np.pi * waves * radius * 2.0 + phase), depth], axis=2)
    return Mesh.of(points, _lattice(rows, columns)).reversed()


def soup(count: int = 1000, extent: float = 10.0, size: float = 0.5, seed: int = 1) -> Mesh:
    """``count`` unconnected random triangles: centres in a cube of edge ``extent``, corners within ``size`` of them."""
    random = np.random.default_rng(seed)
    centres = (random.random((count, 1, 3)) - 0.5) * extent
    corners = centres + (random.random((count, 3, 3)) * 2.0 - 1.0) * size
    return Mesh.of(corners, np.arange(count * 3))


def city(blocks: int = 8, spacing: float = 2.0, seed: int = 1) -> Mesh:
    """``blocks`` squared houses (boxes) of random height on a street grid, standing on y = 0 around the origin."""
    random = np.random.default_rng(seed)
    first = -0.5 * spacing * (blocks - 1)
    houses = []
    for row in range(blocks):
        for column in range(blocks):
            x, z = first + column * spacing, first + row * spacing
            width, depth, tall = random.random(3)
            half_x, half_z = spacing * (0.2 + 0.2 * width), spacing * (0.2 + 0.2 * depth)
            top = spacing * (0.3 + 3.0 * tall**3)
            houses.append(box((x - half_x, 0.0, z - half_z), (x + half_x, top, z + half_z)))
    return joined(houses)


def random_boxes(
    count: int = 100, extent: float = 10.0, smallest: float = 0.2, largest: float = 0.6, seed: int = 1
) -> NDArray[np.float32]:
    """(count, 6) float32 cubes for procedural spheres: random centres in a cube of edge ``extent``, random edges."""
    random = np.random.default_rng(seed)
    centres = (random.random((count, 3)) - 0.5) * extent
    half = 0.5 * (smallest + (largest - smallest) * random.random((count, 1)))
    return np.concatenate([centres - half, centres + half], axis=1).astype(np.float32)


def lattice_boxes(
    counts: tuple[int, int, int] = (3, 3, 3), spacing: float = 1.0, edge: float = 0.8
) -> NDArray[np.float32]:
    """(nx * ny * nz, 6) float32 equal cubes on a lattice around the origin, x fastest."""
    centres = lattice_points(counts, (spacing, spacing, spacing))
    return np.concatenate([centres - edge / 2, centres + edge / 2], axis=1).astype(np.float32)


def lattice_points(counts: tuple[int, int, int], spacing: Vector) -> NDArray[np.float64]:
    """(nx * ny * nz, 3) float64 points of a lattice centred on the origin, x fastest, then y, then z."""
    axes = [(np.arange(n) - (n - 1) / 2) * step for n, step in zip(counts, spacing, strict=True)]
    z, y, x = np.meshgrid(axes[2], axes[1], axes[0], indexing="ij")
    return np.stack([x.ravel(), y.ravel(), z.ravel()], axis=1)


def scatter_placements(count: int, extent: Vector, scale: tuple[float, float], seed: int) -> NDArray[np.float64]:
    """(count, 3, 4) float64: random places in a box of edges ``extent``, turned about y, scaled between two bounds."""
    random = np.random.default_rng(seed)
    places = (random.random((count, 3)) - 0.5) * np.asarray(extent)
    angle = random.random(count) * (2.0 * np.pi)
    size = scale[0] + (scale[1] - scale[0]) * random.random(count)
    placements = np.zeros((count, 3, 4))
    placements[:, 0, 0], placements[:, 0, 2] = size * np.cos(angle), size * np.sin(angle)
    placements[:, 1, 1] = size
    placements[:, 2, 0], placements[:, 2, 2] = -size * np.sin(angle), size * np.cos(angle)
    placements[:, :, 3] = places
    return placements


def sphereflake_placements(depth: int = 4, shrink: float = 1.0 / 3.0) -> NDArray[np.float64]:
    """(n, 3, 4) float64 placements of a unit sphere: one in the middle, nine smaller ones on every sphere.

    Six sit around the equator and three nearer the pole that points away from the parent; each touches its parent.
    ``depth`` 0 is one sphere; n = (9 ** (depth + 1) - 1) / 8.
    """
    around = np.radians(np.concatenate([np.arange(6) * 60.0, np.arange(3) * 120.0 + 30.0]))
    from_pole = np.radians(np.repeat([90.0, 40.0], [6, 3]))
    outward = np.stack(
        [np.sin(from_pole) * np.cos(around), np.cos(from_pole), np.sin(from_pole) * np.sin(around)], axis=1
    )
    children = np.stack([_frame(direction) for direction in outward])
    frames, centres, radius = np.eye(3)[None], np.zeros((1, 3)), 1.0
    levels = [_placements(frames, centres, radius)]
    for _ in range(depth):
        directions = np.einsum("nij,kj->nki", frames, outward)
        centres = (centres[:, None] + directions * (radius * (1.0 + shrink))).reshape(-1, 3)
        frames = np.einsum("nij,kjl->nkil", frames, children).reshape(-1, 3, 3)
        radius *= shrink
        levels.append(_placements(frames, centres, radius))
    return np.concatenate(levels)


def _frame(up: NDArray[np.float64]) -> NDArray[np.float64]:
    """(3, 3) rotation that takes +y to the unit vector ``up``."""
    side = np.array([1.0, 0.0, 0.0]) if abs(up[0]) < 0.9 else np.array([0.0, 0.0, 1.0])
    third = np.cross(side, up)
    third /= np.linalg.norm(third)
    return np.stack([np.cross(up, third), up, third], axis=1)


def _placements(frames: NDArray[np.float64], centres: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    return np.concatenate([frames * radius, centres[:, :, None]], axis=2)
