"""Contents of builds: geometry, instances, inactive and degenerate input, each rule by a call on a device."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from rtviewer.dxr.flags import (
    BuildFlag,
    GeometryType,
)
from rtviewer.dxr.formats import VertexFormat
from rtviewer.dxr.profile import Profile, Tier
from rtviewer.dxr.programs import IntersectionProgram
from rtviewer.dxr.raw_descs import AabbsDesc, BuildInputs, GeometryDesc, InstanceDesc, TrianglesDesc
from rtviewer.errors import InvalidInputError
from tests.unit.device.scenes import (
    BOX,
    NOWHERE,
    ORIGIN,
    TRIANGLE,
    Lab,
    address_and_stride,
    assert_equal_hits,
    bottom,
    moved,
    sphere,
)

NAN, INF = math.nan, math.inf
PROFILES = [Profile(tier, xbox) for tier in Tier for xbox in (False, True)]


def dummy(**more: object) -> GeometryDesc:
    """Triangles of three vertices at an address that means nothing: for prebuild info."""
    values = {"vertex_count": 3, "vertex_buffer": address_and_stride(1, 12)} | more
    return GeometryDesc(triangles=TrianglesDesc(**values))  # type: ignore[arg-type]


def rules_of_prebuild(inputs: BuildInputs, profile: Profile | None = None) -> tuple[str, ...]:
    """The rules that prebuild info says are broken."""
    lab = Lab(profile) if profile else Lab()
    try:
        lab.device.get_prebuild_info(inputs)
    except InvalidInputError as error:
        return error.rules
    return ()


# --- geometry -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("BLD-2")
def test_one_bottom_level_holds_one_kind_of_geometry() -> None:
    lab = Lab()
    inputs = bottom(lab.triangles(TRIANGLE), lab.triangles(TRIANGLE), lab.boxes(BOX))
    with lab.refused("BLD-2") as error:
        lab.device.get_prebuild_info(inputs)
    assert error[0].violations[0].field == "Inputs.pGeometryDescs[2].Type"
    desc = replace(lab.build_desc(bottom(lab.triangles(TRIANGLE))), inputs=inputs)
    with lab.refused("BLD-2", "BLD-8", "BLD-8"):
        lab.device.build(replace(desc, dest_acceleration_structure_data=0, scratch_acceleration_structure_data=0))


@pytest.mark.rule("GEO-1", "GEO-3")
def test_no_index_is_a_restart_marker() -> None:
    vertices = np.zeros((65536, 3), np.float32)
    vertices[[0, 1, 65535]] = TRIANGLE
    lab = Lab()
    for dtype in (np.uint16, np.uint32):
        hits = lab.trace(lab.tlas(lab.blas(lab.triangles(vertices, [0, 1, 0xFFFF], index_dtype=dtype))))
        assert hits.t.tolist() == [5.0]


@pytest.mark.rule("GEO-3", "ERR-4")
@pytest.mark.parametrize("count", [5, 7, 8])
def test_a_count_that_is_no_multiple_of_three_is_warned_of(count: int) -> None:
    lab = Lab()
    points = np.concatenate([moved(TRIANGLE, z=float(i)) for i in range(3)])[:count]
    plain = lab.blas(lab.triangles(points))
    assert lab.warned() == ["GEO-3"]
    indexed = lab.blas(lab.triangles(points, range(count)))
    assert lab.warned() == ["GEO-3"]
    for blas in (plain, indexed):
        assert int(lab.structure(blas).header["input_count"]) == count // 3
    assert_equal_hits(lab.trace(lab.tlas(plain)), lab.trace(lab.tlas(indexed)))


@pytest.mark.rule("GEO-4", "ERR-1", "ERR-2")
@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_an_index_beyond_the_last_vertex_is_refused_at_the_build_only(dtype: type[np.unsignedinteger]) -> None:
    lab = Lab()
    desc = lab.triangles([*TRIANGLE, [0, 0, 1]], [0, 1, 2, 0, 2, 7], index_dtype=dtype)
    build = lab.build_desc(bottom(desc))  # prebuild info does not look
    with lab.refused("GEO-4") as error:
        lab.device.build(build)
    text = str(error[0])
    assert "triangle 1" in text
    assert "pGeometryDescs[0].Triangles.IndexBuffer" in text
    assert error[0].call == "BuildRaytracingAccelerationStructure"
    assert error[0].violations[0].section == "D3D12_RAYTRACING_GEOMETRY_TRIANGLES_DESC"
    lab.blas(lab.triangles(np.zeros((8, 3)), [0, 1, 2, 0, 2, 7], index_dtype=dtype))
    last = replace(desc, triangles=replace(desc.triangles, vertex_count=7))
    two = lab.build_desc(bottom(last, desc))
    with lab.refused("GEO-4", "GEO-6"):  # of seven vertices the buffer holds four
        lab.device.build(two)


@pytest.mark.rule("GEO-5")
def test_strides() -> None:
    lab = Lab()
    wide = np.full((3, 8), 99, np.float32)
    wide[:, :3] = TRIANGLE
    desc = lab.raw_triangles(wide, 3, VertexFormat.R32G32B32_FLOAT, 32)
    assert lab.trace(lab.tlas(lab.blas(desc))).t.tolist() == [5.0]
    plain = lab.triangles(TRIANGLE)
    start = plain.triangles.vertex_buffer.start_address
    high = replace(plain, triangles=replace(plain.triangles, vertex_buffer=address_and_stride(start, (1 << 32) + 12)))
    np.testing.assert_array_equal(lab.structure(lab.blas(high)).data, lab.structure(lab.blas(plain)).data)
    still = replace(plain, triangles=replace(plain.triangles, vertex_buffer=address_and_stride(start, 0)))
    blas = lab.blas(still)
    assert int(lab.structure(blas).header["degenerate_count"]) == 1
    assert not lab.trace(lab.tlas(blas)).hit.any()


@pytest.mark.rule("GEO-6")
def test_every_input_must_lie_inside_its_buffer() -> None:
    lab = Lab()
    good = lab.triangles(TRIANGLE, [0, 1, 2], np.eye(3, 4))
    lab.blas(good)
    triangles = good.triangles
    short: list[TrianglesDesc] = []
    for name in ("vertex_count", "index_count"):
        short.append(replace(triangles, **{name: getattr(triangles, name) + 1}))
    vertices = lab.put(TRIANGLE.tobytes()[:-4])
    short.append(replace(triangles, vertex_buffer=address_and_stride(vertices, 12)))
    short.append(replace(triangles, vertex_buffer=address_and_stride(triangles.vertex_buffer.start_address, 16)))
    short.append(replace(triangles, index_buffer=lab.put(np.uint32([0, 1]))))
    short.append(replace(triangles, transform3x4=lab.put(np.zeros(11, np.float32))))
    short.append(replace(triangles, transform3x4=NOWHERE))
    for bad in short:
        build = lab.build_desc(bottom(replace(good, triangles=bad)))
        with lab.refused("GEO-6"):
            lab.device.build(build)
    lab.warned()
    boxes = lab.boxes(BOX)
    bad_boxes = replace(boxes, aabbs=replace(boxes.aabbs, aabb_count=2))
    build = lab.build_desc(bottom(bad_boxes))
    with lab.refused("GEO-6"):
        lab.device.build(build)
    # The last vertex needs only what is read of it.
    tight = lab.raw_triangles(np.zeros(2 * 16 + 12, np.uint8), 3, VertexFormat.R32G32B32_FLOAT, 16)
    lab.blas(tight)


@pytest.mark.rule("GEO-6")
def test_fewer_descs_than_announced() -> None:
    with Lab().refused("GEO-6"):
        Lab().device.get_prebuild_info(replace(bottom(dummy()), num_descs=2))
    more = replace(bottom(dummy(), replace(dummy(), flags=99)), num_descs=1)
    assert rules_of_prebuild(more) == ()


@pytest.mark.rule("GEO-8")
def test_null_buffers_with_elements_are_refused() -> None:
    lab = Lab()
    for desc in (
        GeometryDesc(triangles=TrianglesDesc(vertex_count=3, vertex_buffer=address_and_stride(0, 12))),
        GeometryDesc(GeometryType.PROCEDURAL_PRIMITIVE_AABBS, aabbs=AabbsDesc(1, address_and_stride(0, 24))),
    ):
        build = lab.build_desc(bottom(desc))
        with lab.refused("GEO-8"):
            lab.device.build(build)
    build = lab.build_desc(BuildInputs.top_level(1, 0))
    with lab.refused("GEO-8"):
        lab.device.build(build)
    lab.blas(GeometryDesc())
    lab.blas(GeometryDesc(GeometryType.PROCEDURAL_PRIMITIVE_AABBS))


@pytest.mark.rule("GEO-7")
def test_a_geometry_transform_equals_moving_the_vertices() -> None:
    vertices, indices = sphere()
    matrix = np.float32([[0.3, 1.7, -0.2, 4], [-1.1, 0.4, 0.9, -2], [0.6, 0.1, 1.3, 0.5]])
    x, y, z = vertices.T
    by_hand = np.stack([((m[0] * x + m[1] * y) + m[2] * z) + m[3] for m in matrix], 1)
    lab = Lab()
    one = lab.structure(lab.blas(lab.triangles(vertices, indices, matrix)))
    two = lab.structure(lab.blas(lab.triangles(by_hand, indices)))
    np.testing.assert_array_equal(one.triangle_packs, two.triangle_packs)
    np.testing.assert_array_equal(one.nodes, two.nodes)


@pytest.mark.rule("GEO-9", "GEO-10", "GEO-11")
def test_strides_of_boxes() -> None:
    lab = Lab()
    floats = np.arange(24, dtype=np.float32)
    for stride, warnings in ((24, []), (32, []), (0, []), (8, ["GEO-9"]), (16, ["GEO-9"]), ((1 << 32) + 24, [])):
        real = stride & 0xFFFFFFFF
        rows = [floats[i * real // 4 :][:6] for i in range(3)]
        aabbs = AabbsDesc(3, address_and_stride(lab.put(floats), stride))
        structure = lab.structure(lab.blas(GeometryDesc(GeometryType.PROCEDURAL_PRIMITIVE_AABBS, aabbs=aabbs)))
        assert lab.warned() == warnings
        packs = structure.box_packs
        order = np.argsort(packs["id"].ravel()[:3])
        low = packs["low"].transpose(0, 2, 1).reshape(-1, 3)[:3][order]
        high = packs["high"].transpose(0, 2, 1).reshape(-1, 3)[:3][order]
        np.testing.assert_array_equal(np.concatenate([low, high], 1), rows)


# --- instances ----------------------------------------------------------------------------------------------------


def place(transform: object, **more: int) -> InstanceDesc:
    return InstanceDesc(np.asarray(transform, np.float32), **more)


SHIFTED = [[1, 0, 0, 3], [0, 1, 0, 0], [0, 0, 1, 2]]


@pytest.mark.rule("INST-1", "INST-2", "INST-3", "INST-4", "BLD-12", "INA-5")
def test_instances_null_masked_and_shared() -> None:
    lab = Lab()
    blas = lab.blas()
    tlas = lab.tlas(
        InstanceDesc(acceleration_structure=0, instance_id=7),
        InstanceDesc(instance_mask=0, acceleration_structure=blas),
        place(SHIFTED, instance_id=9, instance_mask=0x0F, acceleration_structure=blas),
        place([[1, 0, 0, NAN]] * 3),  # inactive, so its matrix does not matter
        InstanceDesc(instance_id=11, acceleration_structure=blas, instance_mask=0x10),
    )
    hits = lab.trace(tlas, [ORIGIN, (3.2, 0.2, -5)])
    assert hits.instance_index.tolist() == [4, 2]
    assert hits.instance_id.tolist() == [11, 9]
    assert hits.t.tolist() == [5.0, 7.0]
    assert not lab.trace(tlas, mask=0x20).hit.any()


@pytest.mark.rule("INST-5")
def test_a_singular_transform_is_warned_of_and_never_hit() -> None:
    lab = Lab()
    blas = lab.blas()
    flat = place([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]], acceleration_structure=blas)
    tlas = lab.tlas(flat, InstanceDesc(acceleration_structure=blas))
    assert lab.warned() == ["INST-5"]
    assert lab.trace(tlas).instance_index.tolist() == [1]


@pytest.mark.rule("INST-6")
@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("at", [(0, 0), (1, 2), (2, 3)])
def test_a_transform_that_is_not_finite_is_refused(value: float, at: tuple[int, int]) -> None:
    lab = Lab()
    matrix = np.eye(3, 4, dtype=np.float32)
    matrix[at] = value
    build = lab.build_desc(lab.instances(place(matrix, acceleration_structure=lab.blas())))
    with lab.refused("INST-6"):
        lab.device.build(build)


@pytest.mark.rule("INST-7", "DEG-1", "BLD-11")
def test_an_instance_of_an_empty_structure_is_a_point() -> None:
    lab = Lab()
    empty, full = lab.build(bottom()), lab.blas()
    structure = lab.structure(lab.tlas(place(SHIFTED, acceleration_structure=empty), full))
    assert int(structure.header["active_count"]) == 2
    np.testing.assert_allclose(structure.bounds, [[0, 0, 0], [3, 1, 2]], atol=1e-6)
    assert lab.trace(structure.address, [ORIGIN, (3.2, 0.2, -5)]).instance_index.tolist() == [1, -1]


# --- inactive and degenerate --------------------------------------------------------------------------------------


@pytest.mark.rule("INA-1", "INA-2", "INA-6", "DEG-8")
def test_inactive_primitives_are_never_hit_and_keep_their_number() -> None:
    lab = Lab()
    for corner in range(3):
        points = np.stack([TRIANGLE, TRIANGLE])
        points[0, corner, 0] = NAN
        hits = lab.trace(lab.tlas(lab.blas(lab.triangles(points))))
        assert (hits.t.tolist(), hits.primitive_index.tolist()) == ([5.0], [1])
    rows = np.concatenate([BOX, BOX])
    rows[0, 0] = NAN
    hits = lab.trace(lab.tlas(lab.blas(lab.boxes(rows))), intersection=IntersectionProgram.BOX)
    assert hits.primitive_index.tolist() == [1]


@pytest.mark.rule("INA-3", "INA-4", "INA-5", "ERR-3")
def test_nan_elsewhere_is_refused_unless_a_transform_spreads_it_to_x() -> None:
    lab = Lab()
    points = TRIANGLE.copy()
    points[1, 1] = NAN
    build = lab.build_desc(bottom(lab.triangles(points)))
    with lab.refused("INA-3"):
        lab.device.build(build)
    boxes = BOX.copy()
    boxes[0, 5] = NAN
    build = lab.build_desc(bottom(lab.boxes(boxes)))
    with lab.refused("INA-3"):
        lab.device.build(build)
    # With a transform that mixes axes x becomes NaN too.
    spread = lab.structure(lab.blas(lab.triangles(points, transform=np.eye(3, 4))))
    assert int(spread.header["active_count"]) == 0
    snorm = lab.raw_triangles(np.int16([0, 0, 0, 32767, 32767, 0]), 3, VertexFormat.R16G16_SNORM)
    assert int(lab.structure(lab.blas(snorm)).header["active_count"]) == 1
    nan = lab.put(np.full((3, 4), NAN, np.float32))
    gone = replace(snorm, triangles=replace(snorm.triangles, transform3x4=nan))
    assert int(lab.structure(lab.blas(gone)).header["active_count"]) == 0


@pytest.mark.rule("INA-6", "DEG-3", "DEG-8", "BLD-12")
def test_numbers_stay_stable_among_inactive_and_degenerate_primitives() -> None:
    random = np.random.default_rng(5)
    lab = Lab()
    groups, wanted = [], {}
    for g in range(4):
        kinds = random.integers(0, 3, 40)
        points = np.stack([moved(TRIANGLE, 3.0 * i, 3.0 * g) for i in range(40)])
        points[kinds == 1, random.integers(0, 3), 0] = NAN
        points[kinds == 2, 2] = points[kinds == 2, 0]
        groups.append(lab.triangles(points))
        wanted |= {(g, i): kinds[i] == 0 for i in range(40)}
    tlas = lab.tlas(lab.blas(*groups))
    keys = list(wanted)
    hits = lab.trace(tlas, [(3.0 * i + 0.2, 3.0 * g + 0.2, -5) for g, i in keys])
    found = list(zip(hits.geometry_index.tolist(), hits.primitive_index.tolist(), strict=True))
    assert found == [key if wanted[key] else (-1, -1) for key in keys]


@pytest.mark.rule("INA-8")
def test_infinite_coordinates_are_warned_of_and_disturb_nobody() -> None:
    lab = Lab()
    points = np.stack([TRIANGLE, TRIANGLE])
    points[0, 0, 0] = INF
    blas = lab.blas(lab.triangles(points))
    assert lab.warned() == ["INA-8"]
    assert lab.trace(lab.tlas(blas)).primitive_index.tolist() == [1]
    lab.blas(lab.boxes([[-INF] * 3 + [INF] * 3]))
    assert lab.warned() == ["INA-8"]


@pytest.mark.rule("DEG-1", "DEG-2", "DEG-3", "DEG-4")
def test_lines_points_and_flat_or_inverted_boxes() -> None:
    lab = Lab()
    line, point = [[0, 0, 0], [1, 1, 1], [3, 3, 3]], [[2, 2, 2]] * 3
    structure = lab.structure(lab.blas(lab.triangles([line, point, TRIANGLE])))
    assert (int(structure.header["degenerate_count"]), int(structure.header["active_count"])) == (2, 1)
    boxes = [[0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0], [1, 0, 0, 3, 4, -2]]
    structure = lab.structure(lab.blas(lab.boxes(boxes)))
    assert int(structure.header["degenerate_count"]) == 2
    lanes = {int(i) & 0xFFFF: lane for lane, i in enumerate(structure.box_packs["id"][0]) if i >= 0}
    low = structure.box_packs["low"][0].T
    assert low[lanes[2]].tolist() == [2, 2, -1]
    assert structure.box_packs["high"][0].T[lanes[2]].tolist() == [2, 2, -1]


@pytest.mark.rule("DEG-5", "DEG-6", "DEG-7")
def test_what_an_update_may_revive_is_kept() -> None:
    """Coincident corners with three indices are kept for updates; a repeated index never can be a triangle."""
    lab = Lab()
    points = np.float32([[0, 0, 0], [0, 0, 0], [0, 0, 0], *TRIANGLE])
    indices = [[0, 1, 2], [3, 3, 4], [3, 4, 5]]
    plain = lab.structure(lab.blas(lab.triangles(points, indices)))
    assert int(plain.header["active_count"]) == 1
    inputs = bottom(lab.triangles(points, indices), flags=BuildFlag.ALLOW_UPDATE)
    source = lab.build(inputs)
    assert 2 <= int(lab.structure(source).header["active_count"]) <= 3
    assert lab.trace(lab.tlas(source)).primitive_index.tolist() == [2]
    revived = points.copy()
    revived[:3] = moved(TRIANGLE, z=-1)
    updated = lab.update(source, bottom(lab.triangles(revived, indices), flags=BuildFlag.ALLOW_UPDATE))
    hits = lab.trace(lab.tlas(updated))
    assert (hits.primitive_index.tolist(), hits.t.tolist()) == ([0], [4.0])


@pytest.mark.rule("DEG-7")
def test_a_point_box_stays_a_candidate_with_and_without_updates() -> None:
    lab = Lab()
    for flags in (BuildFlag.NONE, BuildFlag.ALLOW_UPDATE):
        tlas = lab.tlas(lab.blas(lab.boxes([[0, 0, 0, 0, 0, 0]]), flags=flags))
        hits = lab.trace(tlas, (0, 0, -5), intersection=IntersectionProgram.REPORT_T, report_t=5.0)
        assert hits.hit.tolist() == [True]
