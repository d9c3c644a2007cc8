"""Packets whose rays ask any-hit programs find what single rays find, to the bit, ties included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.dxr.descs import IDENTITY, BlasInputs, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag, GeometryFlag, InstanceFlag, RayFlag
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.scene.generators import icosphere
from rtviewer.scene.material import AlphaTexture, Material
from rtviewer.scene.mesh import Mesh
from rtviewer.trace import dispatch, packets
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import Hits, RayBatch, TraceSettings
from tests.bench.scenes import SCENES, TINY, primary_rays
from tests.properties.packet_cases import assert_equal_hits, bundled_rays, one_way_settings, pinhole
from tests.properties.strategies import SEEDS, random_world
from tests.properties.test_programs import SHAPES, dispatcher_of, random_materials

ENDING = (AnyHitProgram.ACCEPT_AND_END_SEARCH, AnyHitProgram.IGNORE_ODD_PRIMITIVES_END_AT_EVEN)
ADDRESS = 0x10000


@pytest.fixture(scope="module")
def calls() -> Iterator[list[int]]:
    """Numbers of rays of the calls that were walked in packets; all may be, whatever their directions."""
    seen: list[int] = []
    trace = packets.PacketCall.trace

    def counting(self: packets.PacketCall, rays: RayBatch) -> tuple[Hits, float]:
        seen.append(len(rays))
        return trace(self, rays)

    patch = pytest.MonkeyPatch()
    patch.setattr(packets.PacketCall, "trace", counting)
    patch.setattr(dispatch, "go_together", lambda directions: True)
    yield seen
    patch.undo()


def compare(dispatcher: Dispatcher, rays: RayBatch, asked: TraceSettings) -> Hits:
    """In packets and, as everything that counts, alone; the hits."""
    got = dispatcher.trace(rays, asked).hits
    assert_equal_hits(got, dispatcher.trace(rays, asked, counters=True).hits)
    only = replace(asked, hit_only=True)
    shadow = dispatcher.trace(rays, only).hits
    assert_equal_hits(shadow, dispatcher.trace(rays, only, counters=True).hits)
    np.testing.assert_array_equal(shadow.hit, got.hit)
    return got


def sheet(mesh: Mesh, flags: GeometryFlag = GeometryFlag.NONE) -> TrianglesGeometry:
    return TrianglesGeometry(mesh.vertices, mesh.indices, flags=flags)


def placed(
    *geometries: TrianglesGeometry,
    flags: tuple[InstanceFlag, ...] = (InstanceFlag.NONE,),
    material: Material | None = None,
) -> Dispatcher:
    """Instances of all geometries together, each half a unit above the one before, with these flags."""
    count = len(flags)
    blas = build_blas(BlasInputs(geometries), BuildFlag.NONE, address=ADDRESS)
    transforms = np.repeat(IDENTITY[None], count, 0).astype(np.float32)
    transforms[:, 1, 3] = 0.5 * np.arange(count)
    numbers = np.arange(count, dtype=np.uint32)
    table = InstanceInputs(
        transforms, numbers, np.full(count, 0xFF, np.uint8), numbers, np.uint8([int(word) for word in flags]),
        np.full(count, ADDRESS, np.uint64),
    )  # fmt: skip
    materials = {ADDRESS: [material] * len(geometries)} if material else None
    return Dispatcher(build_tlas(table, blases={ADDRESS: blas}), {ADDRESS: blas}, materials=materials)


@pytest.mark.rule("AH-1", "AH-5", "RAY-6", "TRAV-7", "OPQ-2", "OPQ-4", "DET-5")
@settings(max_examples=200, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), count=st.integers(8, 150), any_hit=st.sampled_from(list(AnyHitProgram)))
def test_packets_with_any_hit_equal_single_rays(
    calls: list[int], seed: int, lattice: bool, count: int, any_hit: AnyHitProgram
) -> None:
    """Opaque and other geometry, masks, procedurals, forced opacity, ties."""
    world, random = random_world(seed, lattice), np.random.default_rng(seed ^ 0x5A)
    dispatcher = dispatcher_of(world, BuildFlag(int(random.choice([0, 4, 8, 16]))), random_materials(seed, world))
    asked = replace(one_way_settings(seed), any_hit=any_hit, intersection=int(random.choice(SHAPES)))
    before = len(calls)
    compare(dispatcher, bundled_rays(seed, count, lattice), asked)
    triangles, asks = packets.PacketRules(dispatcher.tlas, dispatcher.blases).meets(
        int(asked.ray_flags), int(asked.mask)
    )
    whole = triangles and not (asks and any_hit in ENDING)
    assert len(calls) - before == int(whole) + int(triangles)


@pytest.mark.rule("RAY-6", "TRAV-7")
@pytest.mark.parametrize("any_hit", [AnyHitProgram.ACCEPT, AnyHitProgram.IGNORE_ODD_GEOMETRIES, AnyHitProgram.CHECKER])
def test_ties_are_decided_by_the_order_of_one_ray(calls: list[int], any_hit: AnyHitProgram) -> None:
    rays, before = pinhole((0.1, 0.2, 3.0), 40), len(calls)
    mixed = compare(placed(*[sheet(icosphere(4))] * 4), rays, TraceSettings(any_hit=any_hit))
    assert len(calls) == before + 2
    assert mixed.hit.any()
    # DET-5 would have said the last of all for every ray.
    assert (mixed.geometry_index[mixed.hit] < (3 if any_hit is AnyHitProgram.ACCEPT else 4)).any()


@pytest.mark.rule("RAY-6", "TRAV-7")
@pytest.mark.parametrize("large", [20, 1000])
@pytest.mark.parametrize("small_flags", [GeometryFlag.NONE, GeometryFlag.OPAQUE])
def test_ties_of_rays_that_were_put_aside(calls: list[int], large: int, small_flags: GeometryFlag) -> None:
    """Triangles of two sizes in one plane: the few rays at a small one go on alone, after all have met the large."""
    random = np.random.default_rng(11)

    def scattered(rows: int, size: float) -> Mesh:
        corners = random.uniform(-1, 1, (rows, 1, 3)) + random.normal(size=(rows, 3, 3)) * size
        corners[:, :, 2] = 0
        return Mesh.of(corners.reshape(-1, 3), np.arange(3 * rows).reshape(-1, 3))

    dispatcher = placed(sheet(scattered(large, 4 / (large + 1))), sheet(scattered(3000, 0.01), small_flags))
    along = pinhole((0.0, 0.0, 1.0), 48).direction * np.float32([1, 1, 0])
    rays = RayBatch.make(along + np.float32([0, 0, 2]), np.broadcast_to(np.float32([0, 0, -1]), along.shape))
    before = len(calls)
    for any_hit in (AnyHitProgram.ACCEPT, AnyHitProgram.CHECKER, AnyHitProgram.IGNORE_ODD_PRIMITIVES):
        hits = compare(dispatcher, rays, TraceSettings(any_hit=any_hit))
        assert set(hits.geometry_index.tolist()) == {-1, 0, 1}
        assert (hits.t[hits.hit] == 2).all()
    assert len(calls) == before + 6


@pytest.mark.parametrize("any_hit", [AnyHitProgram.IGNORE_ODD_PRIMITIVES, AnyHitProgram.ALPHA_MASK])
def test_holes_are_seen_through(calls: list[int], any_hit: AnyHitProgram) -> None:
    texture = AlphaTexture(np.uint8([[0, 255], [255, 0]]), nearest=True)
    texcoords = np.tile(np.float32([[0, 0], [1, 0], [0, 1]]), (20 * 4**4, 1, 1))
    dispatcher = placed(sheet(icosphere(4)), material=Material(True, 0.5, 1.0, texture, texcoords))
    rays, before = pinhole((0.1, 0.2, 3.0), 64), len(calls)
    closed = compare(dispatcher, rays, TraceSettings(ray_flags=RayFlag.FORCE_OPAQUE)).hit
    hits = compare(dispatcher, rays, TraceSettings(any_hit=any_hit))
    assert len(calls) == before + 4
    assert 0.4 * closed.sum() < (hits.hit & (hits.t < 2.7)).sum() < 0.95 * closed.sum()


def test_foliage_is_walked_in_packets(calls: list[int]) -> None:
    scene = SCENES["foliage"](TINY)
    dispatcher, before = placed(sheet(scene.mesh)), len(calls)
    rays = primary_rays(scene, 64)
    hits = compare(dispatcher, rays, TraceSettings(any_hit=AnyHitProgram.IGNORE_ODD_PRIMITIVES))
    assert len(calls) == before + 2
    assert hits.hit.any()
    assert not (hits.primitive_index[hits.hit] & 1).any()


@pytest.mark.rule("AH-7")
def test_repeated_calls_are_made_alone(calls: list[int]) -> None:
    """A call is kept for the next with the same arguments, but not for one that repeats."""
    dispatcher, rays = placed(sheet(icosphere(4))), pinhole((0.1, 0.2, 3.0), 16)
    asked = TraceSettings(any_hit=AnyHitProgram.IGNORE_ODD_PRIMITIVES)
    for repeat, packed in ((False, 1), (True, 0), (False, 1)):
        before = len(calls)
        dispatcher.trace(rays, replace(asked, repeat_calls=repeat))
        assert len(calls) == before + packed


def test_instances_that_force_opacity_are_not_asked(calls: list[int]) -> None:
    dispatcher = placed(sheet(icosphere(3)), flags=(InstanceFlag.NONE, InstanceFlag.FORCE_OPAQUE))
    hits = compare(dispatcher, pinhole((0.3, 0.4, 4.0), 40), TraceSettings(any_hit=AnyHitProgram.IGNORE))
    assert set(hits.instance_index[hits.hit].tolist()) == {1}
