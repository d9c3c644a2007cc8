"""Worlds and rays that packets of rays are compared with single rays on; what tests and their subprocesses share."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace

import numpy as np

from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.dxr.descs import IDENTITY, BlasInputs, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag, GeometryFlag, RayFlag
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.scene.generators import icosphere
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import Hits, RayBatch, TraceSettings
from tests.properties.strategies import LEGAL_RAY_FLAGS, RandomWorld, random_rays, random_world

FIRST_HIT = RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH
WORDS = [word for word in LEGAL_RAY_FLAGS if not word & FIRST_HIT]
OPAQUE_WORDS = [word for word in WORDS if word & (RayFlag.FORCE_OPAQUE | RayFlag.CULL_NON_OPAQUE)]


def bits(hits: Hits) -> dict[str, np.ndarray]:
    """All columns, floats as their bits."""
    columns = {field.name: getattr(hits, field.name) for field in fields(Hits)}
    return {name: c.view(np.uint32) if c.dtype == np.float32 else c for name, c in columns.items()}


def assert_equal_hits(got: Hits, expected: Hits) -> None:
    for (name, a), b in zip(bits(got).items(), bits(expected).values(), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)


def all_opaque(world: RandomWorld) -> RandomWorld:
    """The world with every geometry opaque, so that no any-hit program can run."""

    def opaque(inputs: BlasInputs) -> BlasInputs:
        return replace(
            inputs, geometries=tuple(replace(g, flags=g.flags | GeometryFlag.OPAQUE) for g in inputs.geometries)
        )

    instances = replace(world.instances, flags=world.instances.flags & 0x3)
    return replace(world, blases=tuple(map(opaque, world.blases)), instances=instances)


def bundled_rays(seed: int, count: int, lattice: bool) -> RayBatch:
    """Random rays, many of which go nearly or exactly the same way as the one before; some are invalid or infinite."""
    random, rays = np.random.default_rng(seed ^ 0xB00), random_rays(seed, count, lattice)
    length = int(random.choice([1, 3, 16, 64]))
    leader = np.arange(count) // length * length
    spread = random.choice([0.0, 1e-6, 0.02, 0.3], (count, 1))
    origin, direction = rays.origin[leader], rays.direction[leader]
    if random.random() < 0.7:
        direction = (direction + spread * random.normal(0, 1, (count, 3))).astype(np.float32)
    if random.random() < 0.3:
        origin = (origin + spread * random.normal(0, 1, (count, 3))).astype(np.float32)
    for array in (origin, direction):
        bad = random.random(count) < 0.02
        array[bad, random.integers(0, 3)] = random.choice([np.nan, np.inf, -np.inf, 3e38, 1e-42, 0.0])
    t_min = rays.t_min.copy()
    t_min[random.random(count) < 0.02] = -1
    return RayBatch.make(origin, direction, t_min, rays.t_max)


def one_way_settings(seed: int) -> TraceSettings:
    """The same for all rays."""
    random = np.random.default_rng(seed ^ 0x0E)
    return TraceSettings(
        ray_flags=int(random.choice(WORDS if random.random() < 0.5 else OPAQUE_WORDS)),
        mask=int(random.choice([0xFF, 0xFF, 1, 0x80, 0x101])),
        intersection=int(random.integers(0, 4)),
        ray_contribution=int(random.integers(0, 32)),
        multiplier=int(random.integers(0, 32)),
    )


def sphere_dispatcher(
    subdivisions: int, flags: BuildFlag = BuildFlag.NONE, *, scale: float = 1.0, instances: int = 1
) -> Dispatcher:
    """A closed sphere around the origin, ``instances`` times: turned a little, but for the first, and shifted."""
    mesh = icosphere(subdivisions)
    vertices = (mesh.vertices * np.float32(scale)).astype(np.float32)
    blas = build_blas(BlasInputs((TrianglesGeometry(vertices, mesh.indices, flags=GeometryFlag.OPAQUE),)), flags)
    transforms = np.repeat(IDENTITY[None], instances, 0).astype(np.float32)
    for number in range(1, instances):
        c, s = np.cos(number), np.sin(number)
        transforms[number, :, :3] = [[c, -s, 0], [s, c, 0], [0, 0, -1 if number & 1 else 1]]
        transforms[number, :, 3] = [1.5 * number, 0.25 * number, 0]
    count = len(transforms)
    table = InstanceInputs(
        transforms, np.arange(count, dtype=np.uint32), np.full(count, 0xFF, np.uint8), np.zeros(count, np.uint32),
        np.zeros(count, np.uint8), np.full(count, 256, np.uint64),
    )  # fmt: skip
    return Dispatcher(build_tlas(table, flags, blases={256: blas}), {256: blas})


def pinhole(eye: tuple[float, float, float], pixels: int, spread: float = 0.6) -> RayBatch:
    """Rays from a point towards -z, 4 x 4 neighbours together."""
    row, column = (a.ravel() for a in np.indices((pixels, pixels)))
    order = np.lexsort([column, row, column // 4, row // 4])
    across = (column[order] + 0.5) / pixels * 2 - 1
    up = (row[order] + 0.5) / pixels * 2 - 1
    direction = np.stack([spread * across, spread * up, -np.ones(len(order))], 1)
    return RayBatch.make(np.broadcast_to(np.float32(eye), direction.shape), direction)


def digests() -> list[str]:
    """One of all bits of the results for each of some worlds, hits and hit or miss alone."""
    from tests.properties.test_tracing import dispatcher_of

    found = []

    def add(dispatcher: Dispatcher, rays: RayBatch, asked: TraceSettings) -> None:
        for only in (False, True):
            columns = bits(dispatcher.trace(rays, replace(asked, hit_only=only)).hits).values()
            found.append(hashlib.sha256(b"".join(column.tobytes() for column in columns)).hexdigest())

    for flags in (BuildFlag.NONE, BuildFlag.MINIMIZE_MEMORY):
        add(sphere_dispatcher(3, flags, instances=3), pinhole((0.1, 0.2, 3.0), 36), TraceSettings())
    for seed in range(20):
        world = all_opaque(random_world(seed, bool(seed & 1)))
        add(dispatcher_of(world), bundled_rays(seed, 70, bool(seed & 1)), one_way_settings(seed))
        asking = replace(one_way_settings(seed), any_hit=seed % len(AnyHitProgram))
        add(dispatcher_of(random_world(seed, bool(seed & 1))), bundled_rays(seed, 70, bool(seed & 1)), asking)
    return found
