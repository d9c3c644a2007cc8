"""When rays may be walked in packets, and what hit-or-miss dispatches say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.dxr.descs import IDENTITY, AabbsGeometry, BlasInputs, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag, InstanceFlag, PipelineFlag, RayFlag
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.errors import InvalidInputError
from rtviewer.trace import packets
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import RayBatch, TraceSettings

TRIANGLE, OTHER, BOX = 256, 512, 768
OPAQUE, NONE = GeometryFlag.OPAQUE, GeometryFlag.NONE


def geometry(flags: GeometryFlag, kind: int) -> TrianglesGeometry | AabbsGeometry:
    if kind == BOX:
        return AabbsGeometry(np.float32([[-1, -1, -1, 1, 1, 1]]), flags)
    corners = np.float32([[-1, -1, 0], [1, -1, 0], [0, 1, 0]])
    return TrianglesGeometry(corners, np.uint32([[0, 1, 2]]), flags=flags)


def dispatcher_of(*instances: tuple[int, GeometryFlag, InstanceFlag, int]) -> Dispatcher:
    """Instances as (kind, geometry flags, instance flags, mask), all at one place."""
    blases, addresses = {}, []
    for number, (kind, flags, _, _) in enumerate(instances):
        addresses.append(kind + 0x10000 * number)
        blases[addresses[-1]] = build_blas(BlasInputs((geometry(flags, kind),)))
    count = len(instances)
    table = InstanceInputs(
        np.repeat(IDENTITY[None], count, 0), np.arange(count, dtype=np.uint32) + 40,
        np.uint8([mask for *_, mask in instances]), np.arange(count, dtype=np.uint32) + 7,
        np.uint8([int(flags) for _, _, flags, _ in instances]), np.uint64(addresses),
    )  # fmt: skip
    return Dispatcher(build_tlas(table, blases=blases), blases)


RAYS = RayBatch.make(np.float32([[0.01 * i, 0, 5] for i in range(40)]), np.float32([[0, 0, -1]] * 40))
PLAIN = (TRIANGLE, OPAQUE, InstanceFlag.NONE, 0xFF)
ALPHA = (TRIANGLE, NONE, InstanceFlag.NONE, 0x0F)
FORCED = (TRIANGLE, OPAQUE, InstanceFlag.FORCE_NON_OPAQUE, 0xFF)
SPHERE = (BOX, OPAQUE, InstanceFlag.NONE, 0xFF)
FIRST = RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of rays of the calls that were walked in packets."""
    seen: list[int] = []
    trace = packets.PacketCall.trace
    monkeypatch.setattr(packets.PacketCall, "trace", lambda self, rays: (seen.append(len(rays)), trace(self, rays))[1])
    return seen


@pytest.mark.rule("OPQ-2", "OPQ-3", "OPQ-4", "CULL-1", "MASK-1", "PF-1")
@pytest.mark.parametrize(
    ("instances", "settings", "expected"),
    [
        ([PLAIN], {}, True),
        ([PLAIN, ALPHA], {}, True),
        ([PLAIN, ALPHA], {"any_hit": AnyHitProgram.ALPHA_MASK}, True),
        ([PLAIN, ALPHA], {"any_hit": AnyHitProgram.ACCEPT_AND_END_SEARCH}, False),
        ([PLAIN, ALPHA], {"any_hit": AnyHitProgram.ACCEPT_AND_END_SEARCH, "hit_only": True}, True),
        ([PLAIN, ALPHA], {"any_hit": AnyHitProgram.IGNORE_ODD_PRIMITIVES_END_AT_EVEN}, False),
        ([PLAIN, ALPHA], {"repeat_calls": True}, False),
        ([PLAIN], {"repeat_calls": True}, True),
        ([PLAIN, ALPHA], {"mask": 0xF0}, True),
        ([PLAIN, ALPHA], {"ray_flags": RayFlag.FORCE_OPAQUE}, True),
        ([PLAIN, ALPHA], {"ray_flags": RayFlag.CULL_NON_OPAQUE}, True),
        ([PLAIN], {"ray_flags": RayFlag.FORCE_NON_OPAQUE}, True),
        ([PLAIN], {"any_hit": AnyHitProgram.ACCEPT_AND_END_SEARCH}, True),
        ([FORCED], {}, True),
        ([FORCED], {"any_hit": AnyHitProgram.ACCEPT_AND_END_SEARCH}, False),
        ([FORCED], {"ray_flags": RayFlag.FORCE_OPAQUE}, True),
        ([SPHERE], {}, False),
        ([SPHERE, PLAIN], {}, True),
        ([SPHERE, PLAIN], {"ray_flags": RayFlag.SKIP_TRIANGLES}, False),
        ([SPHERE, PLAIN], {"pipeline_flags": PipelineFlag.SKIP_TRIANGLES}, False),
        ([PLAIN], {"ray_flags": FIRST}, False),
        ([PLAIN], {"ray_flags": FIRST, "hit_only": True}, True),
        ([PLAIN], {"ray_flags": np.zeros(40, np.uint32)}, True),
        ([PLAIN], {"ray_flags": np.arange(40, dtype=np.uint32) % 2}, False),
        ([PLAIN], {"mask": np.arange(40, dtype=np.uint32) + 1}, False),
    ],
)
def test_when_packets_are_used(calls: list[int], instances: list, settings: dict, expected: bool) -> None:
    dispatcher, asked = dispatcher_of(*instances), TraceSettings(**settings)
    got = dispatcher.trace(RAYS, asked).hits
    assert calls == ([40] if expected else [])
    alone = dispatcher.trace(RAYS, asked, counters=True).hits
    assert len(calls) == int(expected), "counters are of single rays"
    for name in ("hit", "instance_id", "hit_group_index", "hit_kind", "t", "attributes"):
        np.testing.assert_array_equal(getattr(got, name), getattr(alone, name), err_msg=name)


def test_few_rays_and_logs_walk_alone(calls: list[int]) -> None:
    dispatcher = dispatcher_of(PLAIN)
    dispatcher.trace(RAYS.part(0, packets.FEWEST_RAYS - 1), TraceSettings())
    dispatcher.walk(RAYS, TraceSettings())
    assert calls == []


@pytest.mark.parametrize("counters", [False, True])
@pytest.mark.parametrize("instances", [[PLAIN], [ALPHA], [SPHERE]])
def test_hit_only_tells_hit_or_miss_and_nothing_else(instances: list, counters: bool) -> None:
    dispatcher = dispatcher_of(*instances)
    rays = RayBatch.make(RAYS.origin, RAYS.direction * np.where(np.arange(40) % 3, 1, -1)[:, None], 0, 20)
    full = dispatcher.trace(rays, TraceSettings()).hits
    only = dispatcher.trace(rays, TraceSettings(hit_only=True), counters=counters).hits
    np.testing.assert_array_equal(only.hit, full.hit)
    assert 0 < only.hit.sum() < 40
    for name in ("instance_index", "geometry_index", "primitive_index", "hit_kind", "instance_id", "hit_group_index"):
        assert (getattr(only, name) == -1).all(), name
    assert (only.t == 20).all()
    assert (only.attributes == 0).all()


def test_settings_are_checked_once_and_not_confused() -> None:
    """A call is kept for settings that are the same object; arrays in them may change between calls."""
    dispatcher, flags = dispatcher_of(PLAIN), np.zeros(40, np.uint32)
    asked = TraceSettings(ray_flags=flags)
    assert dispatcher.trace(RAYS, asked).hits.hit.all()
    flags[:] = int(RayFlag.SKIP_TRIANGLES)
    assert not dispatcher.trace(RAYS, asked).hits.hit.any()
    single = TraceSettings()
    assert dispatcher.trace(RAYS, single).hits.hit.all()
    assert not dispatcher.trace(RAYS, replace(single, mask=0)).hits.hit.any()
    with pytest.raises(InvalidInputError):
        dispatcher.trace(RAYS, TraceSettings(ray_flags=RayFlag.FORCE_OPAQUE | RayFlag.CULL_OPAQUE))


def test_an_array_of_a_wrong_shape_is_refused() -> None:
    rays = RayBatch(RAYS.origin, RAYS.direction[:20], RAYS.t_min, RAYS.t_max)
    with pytest.raises(ValueError, match="shape"):
        dispatcher_of(PLAIN).trace(rays, TraceSettings())


def test_read_only_and_strided_rays_are_traced() -> None:
    origin = np.zeros((40, 6), np.float32)
    origin[:, ::2] = RAYS.origin
    rays = RayBatch(origin[:, ::2], RAYS.direction.copy(), RAYS.t_min, RAYS.t_max)
    rays.direction.setflags(write=False)
    assert dispatcher_of(PLAIN).trace(rays, TraceSettings()).hits.hit.all()


def test_rays_that_part_walk_alone(calls: list[int]) -> None:
    """Each would be alone in its packet: neighbours of a camera go together, bounces do not."""
    random = np.random.default_rng(1)
    bounces = random.normal(size=(1000, 3)).astype(np.float32)
    assert not packets.go_together(bounces)
    assert packets.go_together(np.abs(bounces))
    assert packets.go_together(bounces[:1])
    rays = RayBatch.make(np.zeros((1000, 3), np.float32), bounces)
    dispatcher_of(PLAIN).trace(rays, TraceSettings())
    assert calls == []
