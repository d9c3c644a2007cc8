"""Packets find what single rays find, to the bit. A call with counters walks rays alone: the two are compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtviewer.dxr.flags import BuildFlag, RayFlag
from rtviewer.scene.generators import icosphere
from rtviewer.trace import dispatch, packets
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import Hits, RayBatch, TraceSettings
from tests.properties.packet_cases import (
    all_opaque,
    assert_equal_hits,
    bundled_rays,
    one_way_settings,
    pinhole,
    sphere_dispatcher,
)
from tests.properties.strategies import SEEDS, random_world
from tests.properties.test_tracing import FLAGS, dispatcher_of


class Packed:
    """Counts the calls that were walked in packets."""

    def __init__(self) -> None:
        self.calls = 0


@pytest.fixture(scope="module")
def packed() -> Packed:
    counter, trace = Packed(), packets.PacketCall.trace

    def counting(self: packets.PacketCall, rays: RayBatch) -> tuple[Hits, float]:
        counter.calls += 1
        return trace(self, rays)

    patch = pytest.MonkeyPatch()
    patch.setattr(packets.PacketCall, "trace", counting)
    patch.setattr(dispatch, "go_together", lambda directions: True)
    yield counter
    patch.undo()


def compare(dispatcher: Dispatcher, rays: RayBatch, asked: TraceSettings) -> Hits:
    """Both ways, hits and hit or miss alone; the hits."""
    alone = dispatcher.trace(rays, asked, counters=True).hits
    got = dispatcher.trace(rays, asked).hits
    assert_equal_hits(got, alone)
    for extra in (RayFlag.NONE, RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH):
        only = replace(asked, hit_only=True, ray_flags=int(asked.ray_flags) | extra)
        shadow = dispatcher.trace(rays, only).hits
        assert_equal_hits(shadow, dispatcher.trace(rays, only, counters=True).hits)
        np.testing.assert_array_equal(shadow.hit, alone.hit)
    return got


@pytest.mark.rule("DET-5", "RAY-6", "RAY-7", "CULL-1", "CULL-2", "CULL-3", "MASK-1", "OPQ-3", "INST-5", "INST-8")
@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), count=st.integers(8, 150), flags=FLAGS)
def test_packets_equal_single_rays(packed: Packed, seed: int, lattice: bool, count: int, flags: BuildFlag) -> None:
    """Ties, exact edges, mirrored and singular transforms, procedurals among triangles, any flags that are legal."""
    asked, before = one_way_settings(seed), packed.calls
    dispatcher = dispatcher_of(all_opaque(random_world(seed, lattice)), flags)
    compare(dispatcher, bundled_rays(seed, count, lattice), asked)
    triangles, asks = packets.PacketRules(dispatcher.tlas, dispatcher.blases).meets(
        int(asked.ray_flags), int(asked.mask)
    )
    assert packed.calls - before == (3 if triangles else 0)
    assert not asks or not (int(asked.ray_flags) & RayFlag.FORCE_OPAQUE)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, lattice=st.booleans())
def test_worlds_where_programs_may_run(packed: Packed, seed: int, lattice: bool) -> None:
    """Worlds with geometry that is not opaque: the answer is the same whether or not flags make them opaque."""
    compare(dispatcher_of(random_world(seed, lattice)), bundled_rays(seed, 70, lattice), one_way_settings(seed))


@pytest.mark.parametrize("flags", [BuildFlag.NONE, BuildFlag.MINIMIZE_MEMORY, BuildFlag.PREFER_FAST_BUILD])
@pytest.mark.parametrize("instances", [1, 7])
def test_pictures(packed: Packed, flags: BuildFlag, instances: int) -> None:
    """Deep trees: rays that stay together, that part, and that are left over."""
    dispatcher, before = sphere_dispatcher(4, flags, instances=instances), packed.calls
    for eye, spread in (
        ((0.1, 0.2, 3.0), 0.6),
        ((0.0, 0.0, 0.0), 0.9),
        ((0.01, 0.0, 1.2), 3.0),
        ((0.0, 9.0, 30.0), 0.5),
    ):
        hits = compare(dispatcher, pinhole(eye, 40, spread), TraceSettings())
        assert hits.hit.any()
    assert packed.calls - before == 12
    random = np.random.default_rng(3)
    scattered = RayBatch.make(
        random.normal(0, 1, (500, 3)), random.normal(0, 1, (500, 3)), 0.0, random.choice([0.5, 9], 500)
    )
    compare(dispatcher, scattered, TraceSettings(ray_flags=RayFlag.CULL_BACK_FACING_TRIANGLES))


@pytest.mark.rule("TRI-5")
@pytest.mark.parametrize("eye", [(0.0, 0.0, 0.0), (0.013, -0.027, 0.041)])
def test_no_ray_slips_through_vertices_and_edges(packed: Packed, eye: tuple[float, float, float]) -> None:
    mesh, dispatcher = icosphere(4), sphere_dispatcher(4)
    corners = mesh.vertices[mesh.indices].astype(np.float64)
    middles = np.concatenate([(corners[:, k] + corners[:, (k + 1) % 3]) / 2 for k in range(3)])
    for targets in (mesh.vertices.astype(np.float64), middles):
        direction = (targets - eye).astype(np.float32)
        order = np.lexsort([np.argmax(np.abs(direction), 1), *(direction < 0).T])
        rays = RayBatch.make(np.broadcast_to(np.float32(eye), direction.shape), direction[order])
        assert compare(dispatcher, rays, TraceSettings()).hit.all()


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e20, 2.0**123.5, 1e38])
def test_tiny_and_huge_coordinates(packed: Packed, scale: float) -> None:
    dispatcher, rays = sphere_dispatcher(2, scale=scale), pinhole((0.1, 0.2, 2.0), 12)
    moved = RayBatch.make(rays.origin * np.float32(scale), rays.direction)
    assert compare(dispatcher, moved, TraceSettings()).hit.any()


def test_many_threads_share_a_call(packed: Packed) -> None:
    from concurrent.futures import ThreadPoolExecutor

    dispatcher, rays, asked = sphere_dispatcher(3), pinhole((0.1, 0.2, 3.0), 64), TraceSettings()
    expected = dispatcher.trace(rays, asked, counters=True).hits
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: dispatcher.trace(rays, asked), range(24)):
            assert_equal_hits(result.hits, expected)
