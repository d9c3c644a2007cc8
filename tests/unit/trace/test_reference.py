"""The oracle against the rules, one small scene at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag, InstanceFlag, RayFlag
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.dxr.rules import Opacity, effective_opacity
from rtviewer.trace.reference import ReferenceResult, trace_reference
from rtviewer.trace.request import RayBatch, TraceSettings

FRONT, BACK = 254, 255
CLOCKWISE = [[0, 0, 0], [0, 1, 0], [1, 0, 0]]
"""Seen from z < 0: FACE-4's triangle."""


def triangles(*corners: object, flags: GeometryFlag = GeometryFlag.NONE, **more: object) -> TrianglesGeometry:
    return TrianglesGeometry(np.array(corners, np.float32).reshape(-1, 3), flags=flags, **more)  # type: ignore[arg-type]


def layers(*depths: float, flags: GeometryFlag = GeometryFlag.NONE) -> TrianglesGeometry:
    """One triangle like FACE-4's at each z."""
    corners = np.array([np.array(CLOCKWISE) + [0, 0, z] for z in depths], np.float32)
    return TrianglesGeometry(corners.reshape(-1, 3), flags=flags)


def boxes(*aabbs: Sequence[float], flags: GeometryFlag = GeometryFlag.NONE) -> AabbsGeometry:
    return AabbsGeometry(np.array(aabbs, np.float32), flags)


def instances(n: int = 1, **columns: object) -> InstanceInputs:
    """n identity instances; keyword arrays replace columns."""
    table = {
        "transform": np.tile(np.eye(3, 4, dtype=np.float32), (n, 1, 1)),
        "instance_id": np.arange(n) + 100,
        "mask": np.full(n, 0xFF),
        "contribution": np.zeros(n),
        "flags": np.zeros(n),
        "blas_address": np.full(n, 256),
    } | columns
    dtypes = {"transform": "f4", "mask": "u1", "flags": "u1", "blas_address": "u8"}
    return InstanceInputs(**{k: np.asarray(v).astype(dtypes.get(k, "u4")) for k, v in table.items()})


def trace(
    geometries: object,
    origin: object = (0.2, 0.2, -5),
    direction: object = (0, 0, 1),
    *,
    t_min: object = 0.0,
    t_max: object = np.inf,
    where: InstanceInputs | None = None,
    blas_of: Sequence[int] | None = None,
    **settings: object,
) -> ReferenceResult:
    """Trace into one BLAS of the geometries given, or into several when given a list of lists."""
    several = isinstance(geometries, list) and geometries and isinstance(geometries[0], list)
    groups = geometries if several else [geometries if isinstance(geometries, list) else [geometries]]
    blases = [BlasInputs(tuple(group)) for group in groups]
    where = where or instances(len(blases))
    blas_of = list(range(len(blases))) if blas_of is None else blas_of
    rays = RayBatch.make(origin, direction, t_min, t_max)  # type: ignore[arg-type]
    return trace_reference(blases, where, blas_of, rays, TraceSettings(**settings))  # type: ignore[arg-type]


def key(result: ReferenceResult, ray: int = 0) -> tuple[int, int, int, int] | None:
    h = result.hits
    if not h.hit[ray]:
        return None
    return tuple(  # type: ignore[return-value]
        int(c[ray]) for c in (h.instance_index, h.geometry_index, h.primitive_index, h.hit_kind)
    )


@pytest.mark.rule("FACE-4", "FACE-1", "TRI-1", "HK-2")
def test_check_vector() -> None:
    result = trace(triangles(CLOCKWISE))
    assert key(result) == (0, 0, 0, FRONT)
    assert result.hits.t[0] == 5
    np.testing.assert_array_equal(result.hits.attributes[0], np.float32([0.2, 0.2]))
    assert result.hits.instance_id[0] == 100
    assert key(trace(triangles(CLOCKWISE), (0.2, 0.2, 5), (0, 0, -1))) == (0, 0, 0, BACK)


@pytest.mark.rule("TRI-1")
def test_barycentrics_interpolate_to_the_hit_point() -> None:
    rng = np.random.default_rng(4)
    corners = rng.normal(size=(1, 3, 3)).astype(np.float32)
    weights = rng.dirichlet((1, 1, 1), 200)
    direction = rng.normal(size=(200, 3)).astype(np.float32)
    origin = (weights @ corners[0] - 2 * direction).astype(np.float32)
    result = trace(triangles(corners), origin, direction)
    hit = result.hits.hit
    assert hit.mean() > 0.95
    b = result.hits.attributes[hit]
    point = corners[0, 0] + b[:, :1] * (corners[0, 1] - corners[0, 0]) + b[:, 1:] * (corners[0, 2] - corners[0, 0])
    np.testing.assert_allclose(point, origin[hit] + result.hits.t[hit, None] * direction[hit], atol=2e-5)


@pytest.mark.rule("FACE-2", "FACE-3")
def test_facing_is_decided_in_object_space() -> None:
    mirror = np.diag([-1, 1, 1]).astype(np.float32)
    mirror = np.concatenate([mirror, np.zeros((3, 1), np.float32)], axis=1)
    ray = {"origin": (-0.2, 0.2, -5)}
    assert key(trace(triangles(CLOCKWISE), **ray, where=instances(transform=mirror[None]))) == (0, 0, 0, FRONT)  # type: ignore[arg-type]
    assert key(trace(triangles(CLOCKWISE, transform=mirror), **ray)) == (0, 0, 0, BACK)  # type: ignore[arg-type]
    flipped = instances(flags=[InstanceFlag.TRIANGLE_FRONT_COUNTERCLOCKWISE])
    assert key(trace(triangles(CLOCKWISE), where=flipped)) == (0, 0, 0, BACK)


@pytest.mark.rule("CULL-3", "RF-8")
@pytest.mark.parametrize("counterclockwise", [False, True])
@pytest.mark.parametrize("disable", [False, True])
@pytest.mark.parametrize("flag", [RayFlag.CULL_BACK_FACING_TRIANGLES, RayFlag.CULL_FRONT_FACING_TRIANGLES])
def test_face_culling(flag: RayFlag, disable: bool, counterclockwise: bool) -> None:
    word = InstanceFlag(disable | counterclockwise << 1)
    result = trace(triangles(CLOCKWISE), where=instances(flags=[word]), ray_flags=flag)
    is_front = not counterclockwise
    culled = is_front == (flag is RayFlag.CULL_FRONT_FACING_TRIANGLES) and not disable
    assert key(result) == (None if culled else (0, 0, 0, FRONT if is_front else BACK))


@pytest.mark.rule("CULL-4")
def test_a_culled_hit_in_front_has_no_effect() -> None:
    scene = [layers(0), layers(1, flags=GeometryFlag.OPAQUE)]
    result = trace(scene, ray_flags=RayFlag.CULL_NON_OPAQUE | RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH)
    assert key(result) == (0, 1, 0, FRONT)
    assert result.hits.t[0] == 6
    assert len(result.any_hit_candidates) == 0
    assert len(result.accepted) == 1


@pytest.mark.rule("CULL-1", "RF-9")
def test_type_skips() -> None:
    scene = [[layers(0)], [boxes((0, 0, 2, 1, 1, 3))]]
    both = {"where": instances(2, flags=[InstanceFlag.TRIANGLE_CULL_DISABLE, 0]), "intersection": 1}
    assert key(trace(scene, **both)) == (0, 0, 0, FRONT)  # type: ignore[arg-type]
    assert key(trace(scene, **both, ray_flags=RayFlag.SKIP_TRIANGLES)) == (1, 0, 0, 18)  # type: ignore[arg-type]
    assert key(trace(scene, **both, ray_flags=RayFlag.SKIP_PROCEDURAL_PRIMITIVES)) == (0, 0, 0, FRONT)  # type: ignore[arg-type]
    assert key(trace(scene[1:], intersection=1, ray_flags=RayFlag.SKIP_PROCEDURAL_PRIMITIVES)) is None


@pytest.mark.rule("OPQ-1", "OPQ-2", "OPQ-3", "OPQ-4", "OPQ-6")
@pytest.mark.parametrize("procedural", [False, True])
@pytest.mark.parametrize("geometry", [GeometryFlag.NONE, GeometryFlag.OPAQUE])
@pytest.mark.parametrize("instance", [0, InstanceFlag.FORCE_OPAQUE, InstanceFlag.FORCE_NON_OPAQUE])
@pytest.mark.parametrize(
    "ray",
    [
        RayFlag.NONE,
        RayFlag.FORCE_OPAQUE,
        RayFlag.FORCE_NON_OPAQUE,
        RayFlag.CULL_OPAQUE,
        RayFlag.CULL_NON_OPAQUE,
    ],
)
def test_opacity_table(procedural: bool, geometry: GeometryFlag, instance: InstanceFlag, ray: RayFlag) -> None:
    """With an any-hit that ignores everything: opaque hits, non-opaque is ignored after one call, culled never asks."""
    shape = boxes((0, 0, 0, 1, 1, 1), flags=geometry) if procedural else layers(0, flags=geometry)
    result = trace(
        shape,
        where=instances(flags=[instance]),
        ray_flags=ray,
        any_hit=AnyHitProgram.IGNORE,
        intersection=4,
        report_t=5.0,
    )
    opacity = effective_opacity(geometry, InstanceFlag(instance), ray)
    assert bool(result.hits.hit[0]) == (opacity is Opacity.OPAQUE)
    calls = 1 if opacity is Opacity.NON_OPAQUE else 0
    assert len(result.any_hit_log) == len(result.any_hit_candidates) == calls


@pytest.mark.rule("RAY-6", "RAY-8", "RAY-10")
def test_interval_ends_of_triangles_are_open() -> None:
    below, above = np.nextafter(np.float32(5), np.float32(0)), np.nextafter(np.float32(5), np.float32(9))
    t_min = np.float32([5, below, 0, 0, 5, below])
    t_max = np.float32([9, 9, 5, above, 5, above])
    result = trace(
        triangles(CLOCKWISE), np.tile([0.2, 0.2, -5], (6, 1)), np.tile([0, 0, 1], (6, 1)), t_min=t_min, t_max=t_max
    )
    assert result.hits.hit.tolist() == [False, True, False, True, False, True]
    np.testing.assert_array_equal(result.hits.t, [9, 5, 5, 5, 5, 5])


@pytest.mark.rule("RAY-6", "RAY-8", "PROC-2")
def test_interval_ends_of_procedurals_are_closed() -> None:
    below, above = np.nextafter(np.float32(5), np.float32(0)), np.nextafter(np.float32(5), np.float32(9))
    t_min = np.float32([5, above, 0, 0, 5])
    t_max = np.float32([9, 9, 5, below, 5])
    result = trace(
        boxes((0, 0, -1, 1, 1, 1)),
        np.tile([0.2, 0.2, -5], (5, 1)),
        np.tile([0, 0, 1], (5, 1)),
        t_min=t_min,
        t_max=t_max,
        intersection=IntersectionProgram.REPORT_T,
        report_t=5.0,
    )
    assert result.hits.hit.tolist() == [True, False, True, False, True]


@pytest.mark.rule("RAY-2", "RAY-3", "RAY-4", "RAY-5")
def test_invalid_infinite_and_zero_rays() -> None:
    nan, inf = np.nan, np.inf
    origins = [[0.2, 0.2, -5]] * 7 + [[nan, 0.2, -5], [inf, 0.2, -5]]
    directions = [[0, 0, 1]] * 5 + [[0, 0, nan], [0, 0, inf], [0, 0, 1], [0, 0, 1]]
    t_min = np.float32([0, -1, 2, nan, -0.0, 0, 0, 0, 0])
    t_max = np.float32([9, 9, 1, 9, 9, 9, 9, 9, 9])
    result = trace(triangles(CLOCKWISE), origins, directions, t_min=t_min, t_max=t_max)
    assert result.hits.invalid.tolist() == [False, True, True, True, False, True, False, True, False]
    assert result.hits.hit.tolist() == [True, False, False, False, True, False, False, False, False]
    still = {"direction": (0, 0, 0), "intersection": 4, "report_t": 1.0}
    assert key(trace(boxes((0, 0, 0, 1, 1, 1)), (0.5, 0.5, 0.5), **still)) == (0, 0, 0, 5)  # type: ignore[arg-type]
    assert key(trace(boxes((0, 0, 0, 1, 1, 1)), (0.5, 1.5, 0.5), **still)) is None  # type: ignore[arg-type]
    assert key(trace(triangles(CLOCKWISE), (0.2, 0.2, 0), (0, 0, 0))) is None


@pytest.mark.rule("RAY-1", "RAY-7")
def test_t_counts_in_multiples_of_the_direction_in_world_space() -> None:
    scaled = np.float32([[[2, 0, 0, 1], [0, 2, 0, 0], [0, 0, 2, 3]]])
    result = trace(triangles(CLOCKWISE), (1.4, 0.4, -5), (0, 0, 0.5), where=instances(transform=scaled))
    assert result.hits.t[0] == 16


@pytest.mark.rule("RAY-9", "BLD-11", "INST-2", "INST-5", "INST-7")
def test_nothing_to_hit() -> None:
    assert key(trace([[layers(0)]], where=instances(0), blas_of=[])) is None
    assert key(trace([[layers(0)], []], where=instances(3), blas_of=[-1, 1, -1])) is None
    singular = np.zeros((2, 3, 4), np.float32)
    singular[1] = [[1, 2, 3, 0], [4, 5, 6, 0], [7, 8, 9, 0]]
    assert key(trace([[layers(0)]], where=instances(2, transform=singular), blas_of=[0, 0])) is None


@pytest.mark.rule("INST-2", "SV-1", "HG-1", "HG-5")
def test_indices_count_what_cannot_be_hit() -> None:
    where = instances(4, instance_id=[7, 8, 9, 0xFFFFFF], contribution=[1, 2, 3, 0xFFFFFF])
    scene = [[layers(9), triangles(), layers(9, 0)]]
    result = trace(scene, where=where, blas_of=[-1, -1, -1, 0], ray_contribution=0x12, multiplier=0x23)
    assert key(result) == (3, 2, 1, FRONT)
    assert result.hits.instance_id[0] == 0xFFFFFF
    assert result.hits.hit_group_index[0] == 2 + 3 * 2 + 0xFFFFFF
    none = trace(scene, where=where, blas_of=[-1, -1, -1, 0], multiplier=0)
    assert none.hits.hit_group_index[0] == 0xFFFFFF


@pytest.mark.rule("MASK-1", "MASK-2", "INST-3")
def test_masks() -> None:
    ray_masks = np.arange(256, dtype=np.uint32)
    origins, directions = np.tile([0.2, 0.2, -5], (256, 1)), np.tile([0, 0, 1], (256, 1))
    for mask in (0, 1, 0x80, 0xA5, 0xFF):
        result = trace(layers(0), origins, directions, where=instances(mask=[mask]), mask=ray_masks | 0xFF00)
        assert result.hits.hit.tolist() == [(mask & m) != 0 for m in range(256)]


@pytest.mark.rule("INA-1", "INA-6", "DEG-3", "DEG-8")
def test_inactive_and_degenerate_triangles_are_never_hit() -> None:
    rows = [np.array(CLOCKWISE, np.float32) for _ in range(6)]
    for corner in range(3):
        rows[corner] = rows[corner].copy()
        rows[corner][corner, 0] = np.nan
    rows[3] = np.float32([[0.2, 0.2, 0]] * 3)
    rows[4] = np.float32([[0, 0, 0], [0.2, 0.2, 0], [0.4, 0.4, 0]])
    rng = np.random.default_rng(1)
    target = rows[4][0] + rng.random((500, 1)).astype(np.float32) * np.float32([0.4, 0.4, 0])
    direction = rng.normal(size=(500, 3)).astype(np.float32)
    alone = trace(triangles(*rows[:5]), target - direction, direction)
    assert not alone.hits.hit.any()
    assert key(trace(triangles(*rows))) == (0, 0, 5, FRONT)


@pytest.mark.rule("INA-5", "GEO-7")
def test_a_nan_transform_deactivates_a_geometry() -> None:
    transform = np.eye(3, 4, dtype=np.float32)
    transform[0, 3] = np.nan
    assert key(trace([layers(0), triangles(np.array(CLOCKWISE) - [0, 0, 1], transform=transform)])) == (0, 0, 0, FRONT)


@pytest.mark.rule("INA-2", "DEG-3", "DEG-4")
def test_inactive_degenerate_and_inverted_boxes() -> None:
    shapes = boxes(
        (np.nan, 0, 0, 1, 1, 1),  # inactive
        (0.25, 0.25, 0, 0.25, 0.25, 0),  # a point
        (1, 1, 1, 0, 0, 0),  # inverted: the point (0.5, 0.5, 0.5)
        (0, 0, 0, 1, -0.5, 1),  # inverted on one axis: the point (0.5, -0.25, 0.5)
    )
    origins = [[0.75, 0.75, -5], [0.25, 0.25, -5], [0.5, 0.5, -5], [0.5, -0.25, -5]]
    result = trace(shapes, origins, np.tile([0, 0, 1], (4, 1)), intersection=4, report_t=5.0)
    assert [key(result, i) for i in range(4)] == [None, (0, 0, 1, 5), (0, 0, 2, 5), (0, 0, 3, 5)]


@pytest.mark.rule("DET-5", "RAY-6")
def test_ties_within_and_between_types() -> None:
    flags = GeometryFlag.OPAQUE
    flat = boxes((0, 0, -1, 1, 1, 1), (0, 0, -1, 1, 1, 1), flags=flags)
    stack = [[layers(0, 0, flags=flags), layers(0, 0, flags=flags)], [flat, flat]]
    options = {"intersection": 4, "report_t": 5.0}
    order = {"where": instances(2), "blas_of": [0, 0]}
    assert key(trace(stack[:1], **order)) == (1, 1, 1, FRONT)  # type: ignore[arg-type]
    assert key(trace(stack[1:], **order, **options)) == (0, 0, 0, 5)  # type: ignore[arg-type]
    for blas_of in ([0, 1], [1, 0]):
        result = trace(stack, where=instances(2), blas_of=blas_of, **options)  # type: ignore[arg-type]
        assert key(result) == (blas_of.index(1), 0, 0, 5)
        assert len(result.accepted) == 8


@pytest.mark.rule("ACC-1", "ACC-3", "ACC-6", "DET-5")
def test_first_hit_of_opaque_geometry_ends_the_search() -> None:
    scene = layers(0, 1, 2, flags=GeometryFlag.OPAQUE)
    result = trace(scene, ray_flags=RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH, any_hit=AnyHitProgram.IGNORE)
    assert key(result) == (0, 0, 2, FRONT)
    assert result.hits.t[0] == 7
    assert result.accepted.keys(0) == [(0, 0, p, FRONT) for p in (2, 1, 0)]
    assert len(result.any_hit_log) == 0


@pytest.mark.rule("ACC-2", "AH-5")
def test_an_ignored_hit_is_not_the_first() -> None:
    result = trace(
        layers(0, 1, 2, 3),
        ray_flags=RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH,
        any_hit=AnyHitProgram.IGNORE_ODD_PRIMITIVES,
    )
    assert key(result) == (0, 0, 2, FRONT)
    assert [k[2] for k in result.any_hit_log.keys(0)] == [3, 2]
    assert [k[2] for k in result.accepted.keys(0)] == [2, 0]
    assert [k[2] for k in result.any_hit_candidates.keys(0)] == [3, 2, 1, 0]


@pytest.mark.rule("AH-1", "AH-5", "AH-6")
@pytest.mark.parametrize(
    ("program", "hit", "calls"),
    [
        (AnyHitProgram.ACCEPT, 0, [3, 2, 1, 0]),
        (AnyHitProgram.IGNORE, None, [3, 2, 1, 0]),
        (AnyHitProgram.IGNORE_ODD_PRIMITIVES, 0, [3, 2, 1, 0]),
        (AnyHitProgram.ACCEPT_AND_END_SEARCH, 3, [3]),
        (AnyHitProgram.IGNORE_ODD_GEOMETRIES, 0, [3, 2, 1, 0]),
        (AnyHitProgram.IGNORE_ODD_PRIMITIVES_END_AT_EVEN, 2, [3, 2]),
    ],
)
def test_any_hit_programs(program: AnyHitProgram, hit: int | None, calls: list[int]) -> None:
    result = trace(layers(0, 1, 2, 3), any_hit=program)
    assert (key(result) or (0, 0, None, 0))[2] == hit
    assert [k[2] for k in result.any_hit_log.keys(0)] == calls


@pytest.mark.rule("AH-1")
def test_no_any_hit_beyond_the_current_end() -> None:
    result = trace(layers(3, 2, 1, 0))
    assert [k[2] for k in result.any_hit_log.keys(0)] == [3]
    assert len(result.any_hit_candidates) == 4


@pytest.mark.rule("PROC-2", "PROC-3", "PROC-4", "AH-6")
def test_reports_of_one_intersection_call() -> None:
    box = boxes((0, 0, 0, 1, 1, 1))
    ray = ((0.5, 0.5, -5), (0, 0, 1))
    assert key(trace(box, *ray, intersection=0)) == (0, 0, 0, 0)
    assert trace(box, *ray, intersection=0).any_hit_log.keys(0) == [(0, 0, 0, 0)]
    inside = trace(box, (0.5, 0.5, 0.5), (0, 0, 1), intersection=0)
    assert key(inside) == (0, 0, 0, 1)  # the near root lies before TMin
    assert inside.hits.t[0] == np.float32(0.5)
    ignored = trace(box, *ray, intersection=0, any_hit=AnyHitProgram.IGNORE)
    assert key(ignored) is None
    assert ignored.any_hit_log.keys(0) == [(0, 0, 0, 0), (0, 0, 0, 1)]
    both = trace(box, *ray, intersection=2)
    assert key(both) == (0, 0, 0, 64)
    assert both.any_hit_log.keys(0) == [(0, 0, 0, 65), (0, 0, 0, 64)]
    ended = trace(box, *ray, intersection=2, ray_flags=RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH)
    assert key(ended) == (0, 0, 0, 65)
    assert ended.accepted.keys(0) == [(0, 0, 0, 65)]
    by_program = trace(box, *ray, intersection=2, any_hit=AnyHitProgram.ACCEPT_AND_END_SEARCH)
    assert key(by_program) == (0, 0, 0, 65)
    assert key(trace(box, *ray, intersection=3)) is None


@pytest.mark.rule("PROC-5", "PROC-7", "CULL-2")
def test_reports_that_are_refused() -> None:
    box = boxes((0, 0, 0, 1, 1, 1), flags=GeometryFlag.OPAQUE)
    ray = ((0.5, 0.5, -5), (0, 0, 1))
    assert key(trace(box, *ray, intersection=4, report_t=np.nan)) is None
    assert key(trace(box, *ray, intersection=4, report_t=-1.0)) is None
    assert key(trace(box, *ray, intersection=1, ray_flags=RayFlag.CULL_OPAQUE)) is None
    assert key(trace(box, *ray, intersection=1, ray_flags=RayFlag.CULL_BACK_FACING_TRIANGLES)) == (0, 0, 0, 18)


@pytest.mark.rule("XB-17")
def test_the_coherence_hint_changes_nothing() -> None:
    hinted, plain = trace(layers(1, 0), ray_flags=RayFlag.COHERENT_RAYS_HINT), trace(layers(1, 0))
    assert key(hinted) == key(plain) == (0, 0, 1, FRONT)


def test_settings_may_differ_between_rays() -> None:
    flags = np.array([0, RayFlag.CULL_FRONT_FACING_TRIANGLES, 0, 0], np.uint32)
    result = trace(
        layers(0, 1),
        np.tile([0.2, 0.2, -5], (4, 1)),
        np.tile([0, 0, 1], (4, 1)),
        ray_flags=flags,
        mask=np.array([1, 1, 0, 1], np.uint32),
        any_hit=np.array([0, 0, 0, 3], np.uint32),
    )
    assert [key(result, i) for i in range(4)] == [(0, 0, 0, FRONT), None, None, (0, 0, 1, FRONT)]
