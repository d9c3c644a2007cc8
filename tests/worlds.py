"""Small worlds for tests: bottom levels, one top level over them, and the oracle beside the tracer.

place = Placement(transform=scale(10))
square = world(mesh(quad()), placements=[place])
hits = square.trace([(0, 0, 5)], [(0, 0, -1)]).hits
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.encode import allocate, seal, set_header
from rtviewer.accel.invariants import check
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure, aligned_bytes
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.dxr.descs import IDENTITY, AabbsGeometry, BlasInputs, Geometry, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag, GeometryFlag, InstanceFlag, RayFlag
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.scene.inputs import instance_inputs
from rtviewer.scene.mesh import Mesh
from rtviewer.scene.scene import Scene
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.reference import ReferenceResult, trace_reference
from rtviewer.trace.request import Hits, RayBatch, TraceResult, TraceSettings, Walk
from rtviewer.trace.walk import CANDIDATE_KINDS, any_hit_calls

SHARED = Path(__file__).parents[2] / "shared"
"""Where assets, rules and cases are in a full checkout; tests that need it skip without it."""
ASSETS = SHARED / "assets"

FIRST_ADDRESS = 0x10000
"""Bottom level i lives at (i + 1) times this."""

TLAS_ADDRESS = 0x100


FRONT, BACK = 254, 255
"""Hit kinds of triangles."""

DOWN, UP = (0, 0, -1), (0, 0, 1)
TRIANGLE = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
"""Front seen from above."""


# --- inputs -------------------------------------------------------------------------------------------------------


def triangles(*corners: object, flags: GeometryFlag = GeometryFlag.NONE, transform: object = None) -> TrianglesGeometry:
    """A triangle list; each argument is one triangle, or an array of several, (..., 3, 3)."""
    parts = [np.asarray(c, np.float32).reshape(-1, 3) for c in corners]
    vertices = np.ascontiguousarray(np.concatenate([np.empty((0, 3), np.float32), *parts]))
    matrix = None if transform is None else np.ascontiguousarray(transform, np.float32)
    return TrianglesGeometry(vertices, None, matrix, flags)


def mesh(source: Mesh, flags: GeometryFlag = GeometryFlag.NONE, transform: object = None) -> TrianglesGeometry:
    """An indexed geometry of a generated mesh."""
    matrix = None if transform is None else np.ascontiguousarray(transform, np.float32)
    return TrianglesGeometry(source.vertices, source.indices, matrix, flags)


def boxes(*aabbs: object, flags: GeometryFlag = GeometryFlag.NONE) -> AabbsGeometry:
    """Procedural primitives; each argument is (min x, y, z, max x, y, z), or an array of several, (..., 6)."""
    parts = [np.asarray(a, np.float32).reshape(-1, 6) for a in aabbs]
    return AabbsGeometry(np.ascontiguousarray(np.concatenate([np.empty((0, 6), np.float32), *parts])), flags)


def translate(x: float, y: float, z: float) -> NDArray[np.float32]:
    matrix = IDENTITY.copy()
    matrix[:, 3] = x, y, z
    return matrix


def scale(x: float, y: float | None = None, z: float | None = None) -> NDArray[np.float32]:
    """One factor for all axes, or three."""
    factors = [x, x if y is None else y, x if z is None else z]
    return np.concatenate([np.diag(factors), np.zeros((3, 1))], axis=1).astype(np.float32)


@dataclass(frozen=True)
class Placement:
    """One instance. ``blas``: number of the bottom level, -1 for none (INST-2)."""

    blas: int = 0
    transform: NDArray[np.float32] = field(default_factory=lambda: IDENTITY)
    instance_id: int = 0
    mask: int = 0xFF
    contribution: int = 0
    flags: InstanceFlag = InstanceFlag.NONE


def blas_address(number: int) -> int:
    """Where bottom level ``number`` lives; 0 for -1."""
    return (number + 1) * FIRST_ADDRESS


def instance_table(placements: Sequence[Placement]) -> InstanceInputs:
    transforms = [p.transform for p in placements]
    return InstanceInputs(
        transform=np.array(transforms, np.float32).reshape(-1, 3, 4),
        instance_id=np.array([p.instance_id for p in placements], np.uint32),
        mask=np.array([p.mask for p in placements], np.uint8),
        contribution=np.array([p.contribution for p in placements], np.uint32),
        flags=np.array([int(p.flags) for p in placements], np.uint8),
        blas_address=np.array([blas_address(p.blas) for p in placements], np.uint64),
    )


# --- worlds -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class World:
    """Built structures with the inputs they were made of."""

    inputs: tuple[BlasInputs, ...]
    instances: InstanceInputs
    blas_of: tuple[int, ...]
    blases: dict[int, Structure]
    tlas: Structure

    @cached_property
    def dispatcher(self) -> Dispatcher:
        return Dispatcher(self.tlas, self.blases)

    def blas(self, number: int = 0) -> Structure:
        return self.blases[blas_address(number)]

    def trace(self, origin: object, direction: object, **more: Any) -> TraceResult:
        """``t_min`` and ``t_max`` go to the rays, ``counters`` to the tracer, the rest is TraceSettings."""
        rays, settings, counters = _split(origin, direction, more)
        return self.dispatcher.trace(rays, settings, counters=counters)

    def walk(self, origin: object, direction: object, **more: Any) -> Walk:
        rays, settings, _ = _split(origin, direction, more)
        return self.dispatcher.walk(rays, settings)

    def all_hits(self, origin: object, direction: object, **more: Any) -> list[NDArray[np.int64]]:
        """Per ray, every hit inside its interval: (k, 4) rows of instance, geometry, primitive, hit kind.

        The any-hit log of a trace in which any-hit ignores every hit, sorted.
        """
        more = {"ray_flags": RayFlag.FORCE_NON_OPAQUE, "any_hit": AnyHitProgram.IGNORE} | more
        rays, settings, _ = _split(origin, direction, more)
        log = self.dispatcher.walk(rays, settings, kinds=CANDIDATE_KINDS)
        assert not log.truncated.any()
        offsets, rows = any_hit_calls(log)
        parts = [rows[a:b] for a, b in pairwise(offsets)]
        return [part[np.lexsort(part.T[::-1])] for part in parts]

    def reference(self, origin: object, direction: object, **more: Any) -> ReferenceResult:
        """What brute force over the inputs says."""
        rays, settings, _ = _split(origin, direction, more)
        return trace_reference(self.inputs, self.instances, self.blas_of, rays, settings)

    def trace_checked(self, origin: object, direction: object, **more: Any) -> Hits:
        """Trace, and require the hits of brute force.

        Everything is opaque unless ``ray_flags`` says otherwise, so that DET-5 decides ties; not for traces in which
        order decides (any-hit that accepts, first hit).
        """
        more = {"ray_flags": RayFlag.FORCE_OPAQUE} | more
        hits = self.trace(origin, direction, **more).hits
        assert_same_hits(hits, self.reference(origin, direction, **more).hits)
        return hits

    def all_hits_checked(self, origin: object, direction: object, **more: Any) -> list[NDArray[np.int64]]:
        """All hits, and require that they are those of brute force, each once."""
        found = self.all_hits(origin, direction, **more)
        more = {"ray_flags": RayFlag.FORCE_NON_OPAQUE, "any_hit": AnyHitProgram.IGNORE} | more
        log = self.reference(origin, direction, **more).any_hit_log
        for ray, rows in enumerate(found):
            assert [tuple(row) for row in rows.tolist()] == sorted(log.keys(ray)), f"ray {ray}"
        return found


def _split(origin: object, direction: object, more: dict[str, Any]) -> tuple[RayBatch, TraceSettings, bool]:
    more = dict(more)
    interval = {name: more.pop(name) for name in ("t_min", "t_max") if name in more}
    counters = bool(more.pop("counters", False))
    origins, directions = np.broadcast_arrays(np.atleast_2d(origin), np.atleast_2d(direction))  # type: ignore[call-overload]
    return RayBatch.make(origins, directions, **interval), TraceSettings(**more), counters


def with_blas(built: World, number: int, structure: Structure) -> World:
    """The same world with other bytes at the address of bottom level ``number``; the top level stays as it is."""
    return replace(built, blases=built.blases | {blas_address(number): structure})


def one_blas(*geometries: Geometry, name: str = "", flags: BuildFlag = BuildFlag.NONE) -> Structure:
    """One built bottom level of the geometries."""
    return build_blas(BlasInputs(tuple(geometries)), flags, name=name)


def world(
    *bottom_levels: Geometry | Sequence[Geometry],
    placements: Sequence[Placement] | None = None,
    flags: BuildFlag = BuildFlag.NONE,
) -> World:
    """Build a world. Each argument is one bottom level: a geometry or a list of them. ``flags`` are for all builds.

    Without ``placements`` every bottom level is placed once, where it is.
    """
    groups = [tuple(g) if isinstance(g, (list, tuple)) else (g,) for g in bottom_levels]
    inputs = tuple(BlasInputs(group) for group in groups)
    placed = [Placement(blas=i) for i in range(len(inputs))] if placements is None else list(placements)
    return _build(inputs, instance_table(placed), tuple(p.blas for p in placed), flags)


def world_of_scene(scene: Scene) -> World:
    """Build what a loader read."""
    addresses = [blas_address(i) for i in range(len(scene.blases))]
    table = instance_inputs(scene, addresses)
    return _build(scene.blases, table, tuple(i.blas for i in scene.instances))


def _build(
    inputs: tuple[BlasInputs, ...], table: InstanceInputs, blas_of: tuple[int, ...], flags: BuildFlag = BuildFlag.NONE
) -> World:
    blases = {blas_address(i): build_blas(b, flags, address=blas_address(i)) for i, b in enumerate(inputs)}
    tlas = build_tlas(table, flags, blases=blases, name="TLAS", address=TLAS_ADDRESS)
    return World(inputs, table, blas_of, blases, tlas)


def assert_same_hits(found: Hits, wanted: Hits) -> None:
    """Every column equal, t and attributes to the bit (the sign of zero aside)."""
    for name in (
        "invalid", "hit", "instance_index", "geometry_index", "primitive_index", "hit_kind", "t", "attributes",
        "instance_id", "hit_group_index",
    ):  # fmt: skip
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), f"Hits.{name}")


def chain_blas(corners: NDArray[np.float32], width: int = 2) -> Structure:
    """A bottom level as deep as it can be: a node holds ``width - 1`` triangles and, in its last lane, all the rest.

    ``corners`` (n, 3, 3), n = k * (width - 1) + 1 for k nodes. The last lane counts as the nearest for every direction.
    No builder would make it on purpose; walks must survive it all the same.
    """
    count, step = len(corners), width - 1
    node_count = (count - 1) // step
    assert node_count * step + 1 == count
    assert 2 <= width <= layout.WIDTH
    kinds = (SectionKind.NODES, node_count), (SectionKind.TRIANGLE_PACKS, count), (SectionKind.GEOMETRIES, 1)
    structure = allocate(AccelerationStructureType.BOTTOM_LEVEL, BuildFlag.NONE, kinds, name="chain")
    packs, nodes = structure.section(SectionKind.TRIANGLE_PACKS), structure.section(SectionKind.NODES)
    packs["id"] = layout.UNUSED_LANE
    packs["id"][:, 0] = np.arange(count)
    packs["vertices"][:, :, :, 0] = corners
    low, high = corners.min(1), corners.max(1)
    for axis, letter in enumerate("xyz"):
        rest_low = np.minimum.accumulate(low[::-1, axis])[::-1][step::step]
        rest_high = np.maximum.accumulate(high[::-1, axis])[::-1][step::step]
        nodes[f"min_{letter}"], nodes[f"max_{letter}"] = np.inf, -np.inf
        nodes[f"min_{letter}"][:, :step] = low[:-1, axis].reshape(node_count, step)
        nodes[f"max_{letter}"][:, :step] = high[:-1, axis].reshape(node_count, step)
        nodes[f"min_{letter}"][:, step], nodes[f"max_{letter}"][:, step] = rest_low, rest_high
    nodes["child"][:, :step] = ~(4 * np.arange(count - 1)).reshape(node_count, step)
    nodes["child"][:, step] = [*range(1, node_count), ~(4 * (count - 1))]
    order = [lane for lane in range(8) if lane != step] + [step]  # far to near
    nodes["order"] = np.array(order, np.uint32) * np.uint32(0o11111111)
    row = structure.section(SectionKind.GEOMETRIES)
    row["primitive_count"] = row["active_count"] = count
    set_header(
        structure,
        input_count=count,
        active_count=count,
        depth=node_count,
        bounds=np.stack([low.min(0), high.max(0)]),
        max_abs=float(np.abs(corners).max()),
    )
    return seal(structure)


def assert_sound(built: World) -> None:
    """The invariants hold for every structure of a world."""
    for structure in (built.tlas, *built.blases.values()):
        assert check(structure) == []


def asset(name: str) -> Path:
    """A file of the shared assets; skips the test without it."""
    path = ASSETS / name
    if not path.exists():
        pytest.skip(f"{name} is not beside the checkout")
    return path


# --- bytes --------------------------------------------------------------------------------------------------------


def writable_copy(structure: Structure) -> Structure:
    """The same bytes, aligned and writable, for tests that damage them."""
    data = aligned_bytes(structure.size)
    data[:] = structure.data
    return Structure(data, structure.name, structure.address)
