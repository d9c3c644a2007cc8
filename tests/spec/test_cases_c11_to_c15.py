"""Cases C11 to C15: faults that people met in other tools, with small inputs and the right results.

Masks, mirrors, scales, indices, formats.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rtviewer.device.checks_inputs import check_inputs
from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.formats import IndexFormat, VertexFormat
from rtviewer.dxr.profile import Profile
from rtviewer.dxr.programs import IntersectionProgram
from rtviewer.dxr.raw_descs import BuildInputs, GeometryDesc, GpuVirtualAddressAndStride, TrianglesDesc
from rtviewer.dxr.vertex_data import decode_vertices
from rtviewer.errors import InvalidInputError
from rtviewer.io.registry import load_scene
from rtviewer.scene.generators import box
from rtviewer.scene.inputs import scene_statistics
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.document import build_world, problems_of
from rtviewer.shade.normals import HitPlaces, world_normals
from tests.worlds import (
    BACK,
    DOWN,
    FRONT,
    TRIANGLE,
    UP,
    Placement,
    assert_sound,
    asset,
    mesh,
    one_blas,
    scale,
    translate,
    triangles,
    world,
    world_of_scene,
)

SQUARE = triangles(
    [[-1, -1, 0], [1, -1, 0], [1, 1, 0]],
    [[-1, -1, 0], [1, 1, 0], [-1, 1, 0]],
)
UNIT_CUBE = box((0, 0, 0), (1, 1, 1))


# --- C11: masks ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("MASK-1", "MASK-2", "INST-3")
def test_c11_masks_of_three_cubes() -> None:
    masks = [0x00, 0x01, 0x80]
    cubes = world(
        mesh(UNIT_CUBE), placements=[Placement(transform=translate(2 * i, 0, 0), mask=m) for i, m in enumerate(masks)]
    )
    assert_sound(cubes)
    origins = [(2 * i + 0.4, 0.3, 5) for i in range(3)]
    expected = {
        0xFF: [0, 1, 1],
        0x01: [0, 1, 0],
        0x80: [0, 0, 1],
        0x00: [0, 0, 0],
        0x101: [0, 1, 0],
        0xFFFFFF00: [0, 0, 0],
    }
    for mask, hit in expected.items():
        hits = cubes.trace_checked(origins, DOWN, mask=mask)
        assert hits.hit.tolist() == [bool(h) for h in hit], hex(mask)
        assert (hits.t[hits.hit] == 4).all()
    per_ray = np.array([0x01, 0x101, 0x80], np.uint32)
    assert cubes.trace_checked(origins, DOWN, mask=per_ray).hit.tolist() == [False, True, True]


@pytest.mark.rule("MASK-1", "INST-3")
def test_c11_a_mask_of_zero_is_warned_about() -> None:
    blas = BlasInputs((mesh(UNIT_CUBE),))
    scene = Scene("cubes", (blas,), (Instance(0, mask=0x01), Instance(0, mask=0x00), Instance(0, mask=0x80)))
    found = [p for p in problems_of(build_world(scene)) if p.rule == "MASK-1"]
    assert [(p.severity, p.instance) for p in found] == [("warning", 1)]
    assert "mask is 0" in found[0].text


# --- C12: mirrored instances --------------------------------------------------------------------------------------

MIRROR = scale(-1, 1, 1)
TO_A, TO_B = (0.25, 0.25), (-0.25, 0.25)


@pytest.mark.rule("FACE-1", "FACE-3", "CULL-3", "HK-2")
def test_c12_a_mirroring_instance_keeps_its_facing() -> None:
    pair = world(triangles(TRIANGLE), placements=[Placement(), Placement(transform=MIRROR)])
    above = [(x, y, 1) for x, y in (TO_A, TO_B)]
    below = [(x, y, -1) for x, y in (TO_A, TO_B)]
    for origins, direction, kind, kept, removed in (
        (above, DOWN, FRONT, RayFlag.CULL_BACK_FACING_TRIANGLES, RayFlag.CULL_FRONT_FACING_TRIANGLES),
        (below, UP, BACK, RayFlag.CULL_FRONT_FACING_TRIANGLES, RayFlag.CULL_BACK_FACING_TRIANGLES),
    ):
        for flags in (RayFlag.NONE, kept):
            hits = pair.trace_checked(origins, direction, ray_flags=flags)
            assert hits.hit.all()
            assert (hits.t == 1).all()
            assert hits.instance_index.tolist() == [0, 1]
            assert (hits.hit_kind == kind).all()
        assert not pair.trace_checked(origins, direction, ray_flags=removed).hit.any()


@pytest.mark.rule("FACE-3", "GEO-7")
def test_c12_a_transform_baked_into_the_vertices_flips_the_winding() -> None:
    baked = world(triangles(TRIANGLE, transform=MIRROR), triangles(np.float32(TRIANGLE) * [-1, 1, 1]))
    for flags, hit in ((RayFlag.NONE, True), (RayFlag.CULL_BACK_FACING_TRIANGLES, False)):
        hits = baked.trace_checked((*TO_B, 1), DOWN, ray_flags=flags)
        assert hits.hit[0] == hit
    assert baked.trace_checked((*TO_B, 1), DOWN).hit_kind[0] == BACK
    kinds = [int(row[3]) for row in baked.all_hits_checked((*TO_B, 1), DOWN)[0]]
    assert kinds == [BACK, BACK]


@pytest.mark.rule("FACE-3")
def test_c12_the_normal_stays_on_its_side() -> None:
    scene = Scene("pair", (BlasInputs((triangles(TRIANGLE),)),), (Instance(0), Instance(0, MIRROR)))
    pair = world_of_scene(scene)
    origin, direction = np.float32([(*TO_A, 1), (*TO_B, 1)]), np.float32([DOWN, DOWN])
    hits = pair.trace_checked(origin, direction)
    places = HitPlaces(
        hits.instance_index, hits.geometry_index, hits.primitive_index, hits.hit_kind, origin, direction, hits.t
    )
    transforms = np.stack([i.transform for i in scene.instances])
    normals = world_normals(places, scene, np.int32([0, 0]), transforms, IntersectionProgram.SPHERE)
    np.testing.assert_allclose(normals, [UP, UP], atol=1e-6)
    moved = np.float32(TRIANGLE) @ MIRROR[:, :3].T
    assert np.cross(moved[1] - moved[0], moved[2] - moved[0])[2] < 0  # the wrong way


@pytest.mark.rule("FACE-3", "CULL-3")
@pytest.mark.parametrize("name", ["gltf-scenes/one_face_123_mirror.gltf", "gltf-scenes/PalmTree.gltf"])
def test_c12_files_with_mirrored_nodes(name: str) -> None:
    scene = load_scene(asset(name))
    assert scene_statistics(scene).instances_mirrored == 1
    built = world_of_scene(scene)
    assert_sound(built)
    mirrored = next(k for k, i in enumerate(scene.instances) if np.linalg.det(i.transform[:, :3]) < 0)
    transform = scene.instances[mirrored].transform.astype(np.float64)
    geometry = scene.blases[scene.instances[mirrored].blas].geometries[0]
    assert isinstance(geometry, TrianglesGeometry)
    indices = np.arange(3)[None] if geometry.indices is None else geometry.indices[:40]
    corners = geometry.vertices[indices].astype(np.float64)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    keep = np.linalg.norm(normals, axis=1) > 0
    corners, normals = corners[keep], normals[keep] / np.linalg.norm(normals[keep], axis=1, keepdims=True)
    centres = corners.mean(1) @ transform[:, :3].T + transform[:, 3]
    outward = normals @ transform[:, :3].T * np.sign(normals @ transform[:, :3].T @ np.eye(3)).any()
    reach = np.linalg.norm(corners[:, 1] - corners[:, 0], axis=1, keepdims=True) * 0.01
    for sign, kind in ((1, FRONT), (-1, BACK)):
        rows = built.all_hits_checked(centres + sign * reach * outward, -sign * outward)
        met = [any((r[:, 0] == mirrored) & (r[:, 3] == kind)) for r in rows]
        assert all(met)


# --- C13: scaled instances and long rays --------------------------------------------------------------------------

UNIT_SQUARE = triangles(SQUARE.vertices.reshape(-1, 3, 3) * 0.5)
BIG = Placement(transform=scale(10))
SMALL = Placement(transform=np.float32([[0.1, 0, 0, 0], [0, 0.1, 0, 0], [0, 0, 0.1, 1]]))


@pytest.mark.rule("RAY-1", "INST-1", "INST-8", "RAY-6")
def test_c13_t_counts_in_world_directions() -> None:
    big = world(UNIT_SQUARE, placements=[BIG])
    origins, directions = [(0, 0, 5), (0, 0, 5)], [(0, 0, -1), (0, 0, -2)]
    assert big.trace_checked(origins, directions).t.tolist() == [5, 2.5]
    assert not big.trace_checked(origins[0], directions[0], t_max=4.9).hit[0]
    assert big.trace_checked(origins[0], directions[0], t_max=5.1).t[0] == 5
    assert not big.trace_checked(origins[0], directions[0], t_min=5.05).hit[0]
    both = world(UNIT_SQUARE, placements=[BIG, SMALL])
    hits = both.trace_checked(origins, directions)
    np.testing.assert_allclose(hits.t, [4, 2], rtol=1e-6)
    assert hits.instance_index.tolist() == [1, 1]
    points = np.float32(origins) + hits.t[:, None] * np.float32(directions)
    np.testing.assert_allclose(points, [(0, 0, 1)] * 2, atol=1e-5)


@pytest.mark.rule("RAY-1")
@pytest.mark.parametrize("power", [-20, -3, 1, 7, 30])
def test_c13_a_longer_direction_divides_t(power: int) -> None:
    both = world(UNIT_SQUARE, placements=[BIG, SMALL])
    rng = np.random.default_rng(5)
    origins = rng.uniform(-4, 4, (200, 3)) + [0, 0, 6]
    directions = (rng.uniform(-3, 3, (200, 3)) * [1, 1, 0.2] - origins).astype(np.float32)
    factor = np.float32(2.0**power)
    one, other = both.trace_checked(origins, directions), both.trace_checked(origins, directions * factor)
    assert one.hit.sum() > 20
    np.testing.assert_array_equal(one.instance_index, other.instance_index)
    np.testing.assert_array_equal(one.primitive_index, other.primitive_index)
    np.testing.assert_array_equal(one.t[one.hit] / factor, other.t[one.hit])


# --- C14: indices out of range ------------------------------------------------------------------------------------


@pytest.mark.rule("GEO-4", "ERR-2")
def test_c14_an_index_out_of_range_is_refused_by_name() -> None:
    vertices = np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])
    geometry = TrianglesGeometry(vertices, np.uint32([[0, 1, 2], [0, 2, 7]]))
    with pytest.raises(InvalidInputError) as raised:
        world([triangles(TRIANGLE), geometry])
    assert raised.value.rules == ("GEO-4",)
    problem = raised.value.violations[0]
    assert problem.field.startswith("Inputs.pGeometryDescs[1].Triangles")
    for part in ("triangle 1", "index 7", "(3)"):
        assert part in problem.message


@pytest.mark.rule("GEO-4", "GEO-1")
def test_c14_the_last_vertex_and_0xffff_are_legal() -> None:
    vertices = np.zeros((65_536, 3), np.float32)
    vertices[[0, 1, 0xFFFF]] = TRIANGLE
    last = world(TrianglesGeometry(vertices, np.uint32([[0, 1, 0xFFFF]])))
    assert last.trace_checked((0.25, 0.25, 1), DOWN).t[0] == 1


@pytest.mark.parametrize(("name", "kept"), [("gltf-broken/IndexOutOfRange.gltf", 11), ("obj/malformed.obj", 9)])
def test_c14_files_lose_only_the_bad_triangles_and_say_so(name: str, kept: int) -> None:
    scene = load_scene(asset(name))
    assert scene_statistics(scene).triangles_stored == kept
    assert any("[GEO-4]" in warning and Path(name).name in warning for warning in scene.warnings)
    assert_sound(world_of_scene(scene))


@pytest.mark.rule("GEO-4", "GEO-6")
def test_c14_an_offset_into_the_vertex_buffer_counts() -> None:
    """Four vertices from the fifth of eight on: the largest legal index is 8 - 4 - 1."""
    buffer = np.zeros((8, 3), np.float32)
    buffer[4:] = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]
    part = decode_vertices(buffer.view(np.uint8).reshape(-1), 4 * 12, 12, 4, VertexFormat.R32G32B32_FLOAT)
    good = world(TrianglesGeometry(part, np.uint32([[0, 1, 2], [1, 3, 2]])))
    assert good.trace_checked([(0.25, 0.25, 1), (0.75, 0.75, 1)], DOWN).primitive_index.tolist() == [0, 1]
    with pytest.raises(InvalidInputError, match="GEO-4"):
        world(TrianglesGeometry(part, np.uint32([[0, 1, 2], [1, 4, 2]])))
    with pytest.raises(InvalidInputError, match="GEO-6"):
        decode_vertices(buffer.view(np.uint8).reshape(-1), 4 * 12, 12, 5, VertexFormat.R32G32B32_FLOAT)


@pytest.mark.rule("GEO-3", "ERR-4")
def test_c14_five_indices_are_one_triangle_and_a_warning() -> None:
    stride = GpuVirtualAddressAndStride(0x1000, 12)
    desc = TrianglesDesc(
        index_format=IndexFormat.R16_UINT, index_count=5, vertex_count=4, index_buffer=0x2000, vertex_buffer=stride
    )
    assert desc.primitive_count == 1
    found = check_inputs(BuildInputs.bottom_level([GeometryDesc(triangles=desc)]), Profile())
    assert [(v.rule, v.warning) for v in found] == [("GEO-3", True)]
    assert found[0].field == "Inputs.pGeometryDescs[0].Triangles.IndexCount"
    assert found[0].value == "5"


# --- C15: formats, strides, offsets -------------------------------------------------------------------------------


@pytest.mark.rule("GEO-7")
def test_c15_a_geometry_transform_scales_the_box() -> None:
    plain, doubled = one_blas(triangles(TRIANGLE)), one_blas(triangles(TRIANGLE, transform=scale(2)))
    np.testing.assert_array_equal(plain.bounds, [[0, 0, 0], [1, 1, 0]])
    np.testing.assert_array_equal(doubled.bounds, [[0, 0, 0], [2, 2, 0]])


def _stored(values: object, dtype: str, stride: int, lead: int = 0) -> np.ndarray:  # type: ignore[type-arg]
    """Rows of ``values`` written ``stride`` bytes apart behind ``lead`` bytes of noise; the gaps are noise too."""
    rows = np.ascontiguousarray(values, dtype)
    data = np.full(lead + (len(rows) - 1) * stride + rows.shape[1] * rows.itemsize, 0xEE, np.uint8)
    for i, row in enumerate(rows):
        data[lead + i * stride :][: row.nbytes] = row.view(np.uint8)
    return data


CORNERS = np.float32([[0, 0], [1, 0], [0, 1]])
CORNERS_16 = np.int16(CORNERS * 32767)


@pytest.mark.rule("VF-1", "VF-2", "VF-3", "GEO-5")
@pytest.mark.parametrize(
    ("vertex_format", "data", "offset", "stride"),
    [
        (VertexFormat.R32G32_FLOAT, _stored(CORNERS, "<f4", 8), 0, 8),
        (VertexFormat.R16G16_FLOAT, _stored(CORNERS, "<f2", 4), 0, 4),
        (VertexFormat.R16G16B16A16_FLOAT, _stored(np.c_[CORNERS, 0 * CORNERS], "<f2", 8), 0, 8),
        (VertexFormat.R16G16B16A16_FLOAT, _stored(np.c_[CORNERS, [0, 0, 0]], "<f2", 6), 0, 6),
        (VertexFormat.R16G16B16A16_SNORM, _stored(np.c_[CORNERS_16, 0 * CORNERS_16], "<i2", 8), 0, 8),
        (VertexFormat.R16G16B16A16_SNORM, _stored(np.c_[CORNERS_16, [0, 0, 0]], "<i2", 6), 0, 6),
        (VertexFormat.R32G32B32_FLOAT, _stored(np.c_[CORNERS, [0, 0, 0]], "<f4", 32), 0, 32),
        (VertexFormat.R32G32B32_FLOAT, _stored(np.c_[CORNERS, [0, 0, 0]], "<f4", 12, lead=12), 12, 12),
        (VertexFormat.R32G32B32_FLOAT, _stored(np.c_[CORNERS, [0, 0, 0]], "<f4", 32, lead=4), 4, 32),
    ],
    ids=["f32x2", "f16x2", "f16x4", "f16x4 in 6", "snorm16", "snorm16 in 6", "stride 32", "offset 12", "offset 4"],
)  # fmt: skip
def test_c15_one_triangle_in_many_formats(
    vertex_format: VertexFormat,
    data: np.ndarray,
    offset: int,
    stride: int,  # type: ignore[type-arg]
) -> None:
    vertices = decode_vertices(data, offset, stride, 3, vertex_format)
    np.testing.assert_array_equal(vertices, np.c_[CORNERS, [0, 0, 0]])
    one = world(TrianglesGeometry(vertices), TrianglesGeometry(vertices, transform=scale(2)))
    np.testing.assert_array_equal(one.blas(0).bounds, [[0, 0, 0], [1, 1, 0]])
    np.testing.assert_array_equal(one.blas(1).bounds, [[0, 0, 0], [2, 2, 0]])


@pytest.mark.rule("VF-1", "INA-4")
def test_c15_the_two_smallest_signed_values_are_both_minus_one() -> None:
    data = _stored([[-32768, -32767, 0], [32767, -32768, 0], [0, 32767, -32767]], "<i2", 6)
    found = decode_vertices(data, 0, 6, 3, VertexFormat.R16G16B16A16_SNORM)
    np.testing.assert_array_equal(found, [[-1, -1, 0], [1, -1, 0], [0, 1, -1]])
    every = np.arange(-32768, 32768, dtype="<i2")[:, None].repeat(2, 1)
    decoded = decode_vertices(_stored(every, "<i2", 4), 0, 4, len(every), VertexFormat.R16G16_SNORM)
    assert not np.isnan(decoded).any()
    assert (np.diff(decoded[1:, 0]) > 0).all()
    assert (decoded[:, 2] == 0).all()
