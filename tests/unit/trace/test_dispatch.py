"""The border of the tracer, and the watertightness of what is behind it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, Geometry, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag, PipelineFlag, RayFlag
from rtviewer.dxr.profile import Profile, Tier
from rtviewer.dxr.verdicts import Verdict
from rtviewer.errors import InvalidInputError
from rtviewer.scene.generators import icosphere
from rtviewer.trace.dispatch import Dispatcher, trace
from rtviewer.trace.request import RayBatch, TraceSettings
from rtviewer.trace.walk import any_hit_calls

ADDRESS = 0x100


def one_instance(geometry: Geometry, **changes: object) -> Dispatcher:
    blas = build_blas(BlasInputs((geometry,)), address=ADDRESS)
    row = dict(  # noqa: C408
        transform=np.eye(3, 4, dtype=np.float32)[None],
        instance_id=np.array([5], np.uint32),
        mask=np.array([0xFF], np.uint8),
        contribution=np.array([9], np.uint32),
        flags=np.array([0], np.uint8),
        blas_address=np.array([ADDRESS], np.uint64),
    )
    return Dispatcher(build_tlas(InstanceInputs(**{**row, **changes}), blases={ADDRESS: blas}), {ADDRESS: blas})


def triangle() -> TrianglesGeometry:
    return TrianglesGeometry(np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0]], np.float32), flags=GeometryFlag.OPAQUE)


TOWARD = RayBatch.make([[0.2, 0.2, -5]], [[0, 0, 1]])


@pytest.mark.rule("FACE-4", "SV-1", "HG-1")
def test_the_check_vector() -> None:
    hits = one_instance(triangle()).trace(TOWARD, TraceSettings(ray_contribution=0x12, multiplier=0x31)).hits
    assert (hits.hit[0], hits.t[0], hits.hit_kind[0], hits.instance_id[0]) == (True, 5.0, 254, 5)
    np.testing.assert_allclose(hits.attributes[0], [0.2, 0.2], rtol=1e-6)
    assert hits.hit_group_index[0] == (0x12 & 0xF) + (0x31 & 0xF) * 0 + 9


@pytest.mark.rule("RF-1", "RF-2", "RF-3", "RF-4", "RF-6", "PF-1")
def test_illegal_flag_words_are_refused_whole() -> None:
    dispatcher = one_instance(triangle())
    for word in (0x3, 0x30, 0x300, 0x110, 0x800, 0x400):
        with pytest.raises(InvalidInputError, match="RF-"):
            dispatcher.trace(TOWARD, TraceSettings(ray_flags=word))
        with pytest.raises(InvalidInputError, match="RF-"):
            dispatcher.trace(TOWARD, TraceSettings(ray_flags=np.array([word], np.uint32)))
    with pytest.raises(InvalidInputError, match="RF-3"):
        dispatcher.trace(
            TOWARD,
            TraceSettings(ray_flags=RayFlag.CULL_BACK_FACING_TRIANGLES, pipeline_flags=PipelineFlag.SKIP_TRIANGLES),
        )
    assert not dispatcher.trace(TOWARD, TraceSettings(pipeline_flags=PipelineFlag.SKIP_TRIANGLES)).hits.hit[0]
    old = Dispatcher(dispatcher.tlas, dispatcher._used, Profile(Tier.TIER_1_0))
    with pytest.raises(InvalidInputError, match="RF-1"):
        old.trace(TOWARD, TraceSettings(ray_flags=RayFlag.SKIP_TRIANGLES))


@pytest.mark.rule("RAY-2", "RAY-3", "RAY-4", "RAY-5")
def test_rays_that_cannot_be_traced_are_marked() -> None:
    nan, inf = np.nan, np.inf
    rays = RayBatch.make(
        [[0.2, 0.2, -5], [nan, 0, 0], [0.2, 0.2, -5], [0.2, 0.2, -5], [inf, 0, 0], [0.2, 0.2, -5], [0.2, 0.2, 0]],
        [[0, 0, 1], [0, 0, 1], [0, nan, 1], [0, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]],
        [-0.0, 0, 0, -1, 0, 3, 0],
        [inf, inf, inf, inf, inf, 2, inf],
    )
    hits = one_instance(triangle()).trace(rays, TraceSettings()).hits
    np.testing.assert_array_equal(hits.invalid, [False, True, True, True, False, True, False])
    np.testing.assert_array_equal(hits.hit, [True] + [False] * 6)


@pytest.mark.rule("BLD-10", "RAY-9")
def test_a_missing_bottom_level_is_an_error_and_an_empty_top_level_a_miss() -> None:
    dispatcher = one_instance(triangle())
    with pytest.raises(InvalidInputError, match="BLD-10"):
        Dispatcher(dispatcher.tlas, {})
    none = one_instance(triangle(), blas_address=np.array([0], np.uint64))
    assert not none.trace(TOWARD, TraceSettings()).hits.hit[0]


def test_arrays_of_the_wrong_shape_are_refused() -> None:
    dispatcher = one_instance(triangle())
    with pytest.raises(ValueError, match="expected one value or 1"):
        dispatcher.trace(TOWARD, TraceSettings(mask=np.zeros(3, np.uint32)))
    with pytest.raises(InvalidInputError, match="any-hit program 17"):
        dispatcher.trace(TOWARD, TraceSettings(any_hit=17))


@pytest.mark.rule("DET-3")
def test_threads_may_share_a_dispatcher() -> None:
    mesh = icosphere(4)
    dispatcher = one_instance(TrianglesGeometry(mesh.vertices, mesh.indices))
    random = np.random.default_rng(5)
    rays = RayBatch.make(random.normal(0, 3, (4000, 3)), random.normal(0, 1, (4000, 3)))
    whole = dispatcher.trace(rays, TraceSettings()).hits
    with ThreadPoolExecutor(4) as pool:
        parts = list(
            pool.map(lambda i: dispatcher.trace(rays.part(i, i + 100), TraceSettings()).hits, range(0, 4000, 100))
        )
    np.testing.assert_array_equal(np.concatenate([p.t for p in parts]), whole.t)
    np.testing.assert_array_equal(np.concatenate([p.primitive_index for p in parts]), whole.primitive_index)


@pytest.mark.rule("TRI-2", "TRI-3", "TRI-7")
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30, 3.1e38])
def test_rays_at_every_vertex_and_edge_of_a_closed_mesh_hit_exactly_once(scale: float) -> None:
    """Any-hit ignores everything and is logged, so a double hit would show as well as a crack."""
    mesh = icosphere(4)
    vertices = (mesh.vertices * np.float32(scale)).astype(np.float32)
    dispatcher = one_instance(TrianglesGeometry(vertices, mesh.indices))
    edges = np.unique(np.sort(mesh.indices[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), 1), axis=0)
    halves = vertices[edges].astype(np.float64).mean(1)
    targets = np.concatenate([vertices.astype(np.float64), halves]) / scale
    rays = RayBatch.make(np.zeros_like(targets), targets)
    log = dispatcher.walk(rays, TraceSettings(any_hit=1), kinds=1 << 4, limit=4_000_000)
    offsets, _ = any_hit_calls(log)
    calls = np.diff(offsets)
    assert (calls == 1).all(), f"{(calls == 0).sum()} misses, {(calls > 1).sum()} double hits of {len(calls)}"


def test_a_log_that_is_full_says_so() -> None:
    mesh = icosphere(3)
    dispatcher = one_instance(TrianglesGeometry(mesh.vertices, mesh.indices))
    rays = RayBatch.make([[0, 0, 0]] * 3, [[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    full = dispatcher.walk(rays, TraceSettings())
    assert not full.truncated.any()
    some = dispatcher.walk(rays, TraceSettings(), limit=int(full.offsets[1]) + 2)
    np.testing.assert_array_equal(some.truncated, [False, True, True])
    np.testing.assert_array_equal(some.result.hits.t, full.result.hits.t)


def test_the_function_is_the_dispatcher() -> None:
    dispatcher = one_instance(triangle())
    result = trace(dispatcher.tlas, dispatcher._used, TOWARD, TraceSettings(mask=0x1FF), counters=True)
    assert result.hits.hit[0]
    assert result.settings.mask == 0x1FF
    assert result.counters is not None


@pytest.mark.rule("RAY-5", "INST-8")
def test_a_ray_that_overflows_in_object_space_hits_nothing_there() -> None:
    small = np.eye(3, 4, dtype=np.float32)[None] * np.float32(1e-30)
    box = AabbsGeometry(np.array([[-1, -1, -1, 1, 1, 1]], np.float32), GeometryFlag.OPAQUE)
    dispatcher = one_instance(box, transform=small)
    rays = RayBatch.make([[0, 0, -1e20]], [[0, 0, 1e20]])
    log = dispatcher.walk(rays, TraceSettings())
    assert not log.result.hits.hit[0]
    assert Verdict.OBJECT_RAY_NOT_FINITE in log.events["verdict"]
