"""Inputs of builds: types, flags, layouts, formats, counts and addresses, each rule by a call on a device."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from rtviewer.build.builder import counts_of as counts_of_arrays
from rtviewer.device.checks_inputs import counts_of
from rtviewer.device.read_inputs import Memory, read_geometries
from rtviewer.dxr.flags import (
    AccelerationStructureType,
    BuildFlag,
    ElementsLayout,
    GeometryFlag,
    GeometryType,
    InstanceFlag,
    RayFlag,
)
from rtviewer.dxr.formats import VERTEX_LAYOUTS, IndexFormat, VertexFormat
from rtviewer.dxr.profile import Profile, Tier
from rtviewer.dxr.raw_descs import AabbsDesc, BuildDesc, BuildInputs, GeometryDesc, InstanceDesc, TrianglesDesc
from rtviewer.errors import InvalidInputError
from tests.unit.device.scenes import (
    BOX,
    FORWARD,
    TIER_1_0,
    TIER_1_2,
    TRIANGLE,
    XBOX,
    Lab,
    address_and_stride,
    assert_equal_hits,
    bottom,
    moved,
    rays_at,
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


# --- types, flags, layouts ----------------------------------------------------------------------------------------


@pytest.mark.rule("AST-1", "PRE-10")
@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6, 99, 0xFFFFFFFF])
@pytest.mark.parametrize("profile", [Profile(), TIER_1_2], ids=str)
def test_other_types_are_never_built(kind: int, profile: Profile) -> None:
    lab = Lab(profile)
    inputs = replace(bottom(lab.triangles(TRIANGLE)), type=kind)
    desc = replace(lab.build_desc(bottom(lab.triangles(TRIANGLE))), inputs=inputs)
    with lab.refused("AST-1") as error:
        lab.device.build(desc)
    assert ("DXR 2" in str(error[0])) == (kind in range(3, 7))
    with lab.refused("AST-1"):
        lab.device.get_prebuild_info(inputs)


@pytest.mark.rule("BF-1", "BF-7", "BF-8", "XB-1", "PROF-1", "PROF-2", "PROF-3")
@pytest.mark.parametrize("profile", PROFILES, ids=str)
def test_every_single_build_flag_bit_against_each_profile(profile: Profile) -> None:
    known = {1 << i for i in range(6)} | ({0x40, 0x80} if profile.tier == Tier.TIER_1_2 else set())
    known |= {0x40000000} if profile.xbox else set()
    assert [int(t) for t in Tier] == [10, 11, 12]
    for bit in (1 << i for i in range(32)):
        expected = () if bit in known else ("BF-1",)
        if bit == 0x40 and profile.tier == Tier.TIER_1_2:
            expected = ("BF-7",)
        elif bit == 0x40:
            expected = ("BF-1", "BF-7")
        assert rules_of_prebuild(bottom(dummy(), flags=bit), profile) == expected, hex(bit)
    if profile.tier == Tier.TIER_1_2:
        top = BuildInputs.top_level(1, 16, 0x41)
        assert rules_of_prebuild(top, profile) == ("BF-8",)
        assert rules_of_prebuild(replace(top, flags=0x80), profile) == ("BF-8",)


@pytest.mark.rule("BF-2", "BF-4", "BF-5", "BF-6")
@pytest.mark.parametrize("word", range(64))
def test_of_the_six_base_bits_only_one_pair_excludes_another(word: int) -> None:
    both = BuildFlag.PREFER_FAST_TRACE | BuildFlag.PREFER_FAST_BUILD
    expected = ("BF-2",) if word & both == both else ()
    assert rules_of_prebuild(bottom(dummy(), flags=word)) == expected
    assert rules_of_prebuild(BuildInputs.top_level(1, 16, word)) == expected
    if word & BuildFlag.PERFORM_UPDATE or expected:
        return
    lab = Lab()
    hits = lab.trace(lab.tlas(lab.blas(flags=word), flags=word))
    assert hits.t.tolist() == [5.0]


@pytest.mark.rule("EL-1")
def test_other_layouts_are_refused() -> None:
    lab = Lab()
    for inputs in (bottom(dummy()), BuildInputs.top_level(1, 16)):
        with lab.refused("EL-1"):
            lab.device.get_prebuild_info(replace(inputs, descs_layout=2))


@pytest.mark.rule("EL-1", "BLD-14", "ALIGN-3")
def test_an_array_and_an_array_of_pointers_build_the_same_structure() -> None:
    lab = Lab()
    geometries = [lab.triangles(TRIANGLE), lab.triangles(moved(TRIANGLE, 2))]
    addresses = [
        lab.build(BuildInputs.bottom_level(geometries, layout=layout))
        for layout in (ElementsLayout.ARRAY, ElementsLayout.ARRAY_OF_POINTERS)
    ]
    first, second = (lab.structure(a).data for a in addresses)
    np.testing.assert_array_equal(first, second)
    descs = [InstanceDesc(instance_id=i, acceleration_structure=addresses[0]) for i in range(3)]
    plain = lab.build(lab.instances(*descs))
    rows = [lab.put(descs[i].to_bytes().ljust(80, b"\7")) for i in (0, 1, 2)]  # apart from each other
    scattered = lab.put(np.uint64(rows))
    pointers = BuildInputs.top_level(3, scattered, layout=ElementsLayout.ARRAY_OF_POINTERS)
    np.testing.assert_array_equal(lab.structure(plain).data, lab.structure(lab.build(pointers)).data)


@pytest.mark.rule("GF-1", "GF-4")
def test_geometry_flags_and_types() -> None:
    for bit in (1 << i for i in range(32)):
        expected = () if bit in (1, 2) else ("GF-1",)
        assert rules_of_prebuild(bottom(replace(dummy(), flags=bit))) == expected
    assert rules_of_prebuild(bottom(replace(dummy(), flags=3))) == ()
    for kind in (2, 3, 0xFFFFFFFF):
        for profile in (Profile(), TIER_1_2):
            assert rules_of_prebuild(bottom(replace(dummy(), type=kind)), profile) == ("GF-4",)


@pytest.mark.rule("GF-1", "GF-2", "GF-3")
@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_geometry_flags_reach_the_structure_for_both_types(flags: int) -> None:
    lab = Lab()
    for desc in (lab.triangles(TRIANGLE, flags=flags), lab.boxes(BOX, flags)):
        structure = lab.structure(lab.blas(desc))
        assert structure.geometries["flags"].tolist() == [flags]
        hits = lab.trace(lab.tlas(structure.address), ray_flags=RayFlag.CULL_OPAQUE)
        assert bool(hits.hit[0]) == (not flags & GeometryFlag.OPAQUE)


@pytest.mark.rule("IF-1", "IF-2", "IF-4")
def test_every_instance_flag_bit_and_pair() -> None:
    lab = Lab()
    blas = lab.blas()
    for word in range(256):
        inputs = lab.instances(InstanceDesc(flags=word, acceleration_structure=blas))
        expected = ("IF-1",) if word & 0xF0 else ()
        expected += ("IF-2",) if word & 0x0C == 0x0C else ()
        desc = lab.build_desc(inputs)
        if expected:
            with lab.refused(*expected):
                lab.device.build(desc)
        else:
            lab.device.build(desc)


@pytest.mark.rule("IF-4", "RF-8")
def test_facing_flags_do_nothing_to_boxes() -> None:
    lab = Lab()
    blas = lab.blas(lab.boxes(BOX))
    hits = []
    for flags in (InstanceFlag.NONE, InstanceFlag.TRIANGLE_CULL_DISABLE | InstanceFlag.TRIANGLE_FRONT_COUNTERCLOCKWISE):
        tlas = lab.tlas(InstanceDesc(flags=flags, acceleration_structure=blas))
        hits.append(lab.trace(tlas, ray_flags=RayFlag.CULL_BACK_FACING_TRIANGLES))
    assert hits[0].hit.all()
    assert_equal_hits(*hits)


@pytest.mark.rule("IF-1", "IF-3")
def test_opacity_micromap_flags_of_an_instance_need_the_tier_and_the_build_flag() -> None:
    lab = Lab(TIER_1_2)
    plain, with_flag = lab.blas(), lab.blas(flags=BuildFlag.ALLOW_DISABLE_OMMS)
    lab.tlas(InstanceDesc(flags=InstanceFlag.FORCE_OMM_2_STATE, acceleration_structure=plain))
    lab.tlas(InstanceDesc(flags=InstanceFlag.DISABLE_OMMS, acceleration_structure=with_flag))
    bad = lab.build_desc(lab.instances(InstanceDesc(flags=InstanceFlag.DISABLE_OMMS, acceleration_structure=plain)))
    with lab.refused("IF-3"):
        lab.device.build(bad)
    for word in (0x40, 0x80):
        bad = lab.build_desc(lab.instances(InstanceDesc(flags=word, acceleration_structure=plain)))
        with lab.refused("IF-1"):
            lab.device.build(bad)


# --- formats ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("VF-1", "PROF-3")
def test_vertex_formats_by_tier() -> None:
    legal = {int(f) for f in VertexFormat}
    for value in range(140):
        desc = bottom(dummy(vertex_format=value))
        assert rules_of_prebuild(desc) == (() if value in legal else ("VF-1",)), value
    for vertex_format, layout in VERTEX_LAYOUTS.items():
        expected = () if layout.tier == Tier.TIER_1_0 else ("VF-1",)
        assert rules_of_prebuild(bottom(dummy(vertex_format=vertex_format)), TIER_1_0) == expected


@pytest.mark.rule("VF-1", "VF-2", "VF-3", "GEO-7")
@pytest.mark.parametrize("vertex_format", list(VertexFormat), ids=lambda f: f.name)
def test_a_triangle_in_every_format_is_hit_where_it_is(vertex_format: VertexFormat) -> None:
    """The corners (0,0), (0,1), (1,0), with a transform that doubles them."""
    layout = VERTEX_LAYOUTS[vertex_format]
    stored = {
        "FLOAT": {4: np.float32, 2: np.float16},
        "SNORM": {2: np.int16, 1: np.int8},
        "UNORM": {2: np.uint16, 1: np.uint8},
    }
    if vertex_format is VertexFormat.R10G10B10A2_UNORM:
        data: object = np.uint32([0, 1023 << 10, 1023])
    else:
        family = stored[vertex_format.name.rsplit("_", 1)[1]]
        dtype = family[layout.component_size]
        top = 1 if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
        data = (TRIANGLE[:, : layout.components] * top).astype(dtype)
    lab = Lab()
    desc = lab.raw_triangles(data, 3, vertex_format)  # type: ignore[arg-type]
    double = lab.put(np.float32([[2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0]]), "transform")
    desc = replace(desc, triangles=replace(desc.triangles, transform3x4=double))
    blas = lab.blas(desc)
    np.testing.assert_array_equal(lab.structure(blas).bounds, [[0, 0, 0], [2, 2, 0]])
    hits = lab.trace(lab.tlas(blas), (0.4, 0.8, -5), FORWARD)
    assert hits.t.tolist() == [5.0]
    np.testing.assert_allclose(hits.attributes, [[0.4, 0.2]], rtol=1e-6)


@pytest.mark.rule("VF-4", "ALIGN-5")
def test_the_stride_of_packed_vertices() -> None:
    lab = Lab()
    data = np.zeros(64, np.uint8)
    for stride, warnings, errors in ((4, [], ()), (8, ["VF-4"], ()), (0, ["VF-4"], ()), (6, [], ("ALIGN-5", "VF-4"))):
        desc = lab.raw_triangles(data, 3, VertexFormat.R10G10B10A2_UNORM, stride)
        build = lab.build_desc(bottom(desc))
        if errors:
            with lab.refused(*errors):
                lab.device.build(build)
        else:
            lab.device.build(build)
        assert lab.warned() == warnings


@pytest.mark.rule("IX-1", "GEO-2")
@pytest.mark.parametrize(
    ("buffer", "count", "index_format", "rules"),
    [
        (0, 0, IndexFormat.UNKNOWN, ()),
        (4, 3, IndexFormat.R16_UINT, ()),
        (4, 3, IndexFormat.R32_UINT, ()),
        (4, 3, IndexFormat.UNKNOWN, ("GEO-2",)),
        (4, 3, 62, ("IX-1",)),
        (4, 3, 41, ("IX-1",)),
        (0, 3, IndexFormat.UNKNOWN, ("GEO-2",)),
        (0, 0, IndexFormat.R32_UINT, ("GEO-2",)),
        (0, 3, IndexFormat.R16_UINT, ("GEO-2", "GEO-2")),
        (0, 0, 62, ("IX-1",)),
    ],
)
def test_index_buffers_and_formats(buffer: int, count: int, index_format: int, rules: tuple[str, ...]) -> None:
    desc = dummy(index_buffer=buffer, index_count=count, index_format=index_format)
    assert rules_of_prebuild(bottom(desc)) == rules


# --- alignment ----------------------------------------------------------------------------------------------------


def _off(desc: GeometryDesc, lab: Lab, **changes: object) -> BuildInputs:
    del lab
    if desc.is_procedural:
        return bottom(replace(desc, aabbs=replace(desc.aabbs, **changes)))  # type: ignore[arg-type]
    return bottom(replace(desc, triangles=replace(desc.triangles, **changes)))  # type: ignore[arg-type]


ALIGNED: dict[str, tuple[str, Callable[[Lab], BuildInputs]]] = {
    "instance array": ("ALIGN-3", lambda lab: BuildInputs.top_level(1, lab.put(np.zeros(96, np.uint8)) + 8)),
    "pointer array": (
        "ALIGN-3",
        lambda lab: BuildInputs.top_level(
            1, lab.put(np.zeros(96, np.uint8)) + 4, layout=ElementsLayout.ARRAY_OF_POINTERS
        ),
    ),
    "pointee": (
        "ALIGN-3",
        lambda lab: BuildInputs.top_level(
            1,
            lab.put(np.uint64([lab.put(np.zeros(96, np.uint8)) + 8])),
            layout=ElementsLayout.ARRAY_OF_POINTERS,
        ),
    ),
    "transform": (
        "ALIGN-4",
        lambda lab: _off(lab.triangles(TRIANGLE), lab, transform3x4=lab.put(np.zeros(64, np.uint8)) + 8),
    ),
    "float vertices": (
        "ALIGN-5",
        lambda lab: _off(
            lab.triangles(TRIANGLE), lab, vertex_buffer=address_and_stride(lab.put(np.zeros(99, np.uint8)) + 2, 12)
        ),
    ),
    "stride of float vertices": (
        "ALIGN-5",
        lambda lab: _off(
            lab.triangles(TRIANGLE), lab, vertex_buffer=address_and_stride(lab.put(np.zeros(99, np.uint8)), 14)
        ),
    ),
    "16-bit vertices": (
        "ALIGN-5",
        lambda lab: _off(
            lab.triangles(TRIANGLE),
            lab,
            vertex_format=VertexFormat.R16G16B16A16_SNORM,
            vertex_buffer=address_and_stride(lab.put(np.zeros(99, np.uint8)) + 1, 8),
        ),
    ),
    "packed vertices": (
        "ALIGN-5",
        lambda lab: _off(
            lab.triangles(TRIANGLE),
            lab,
            vertex_format=VertexFormat.R10G10B10A2_UNORM,
            vertex_buffer=address_and_stride(lab.put(np.zeros(99, np.uint8)) + 2, 4),
        ),
    ),
    "32-bit indices": (
        "ALIGN-6",
        lambda lab: _off(lab.triangles(TRIANGLE, [0, 1, 2]), lab, index_buffer=lab.put(np.zeros(64, np.uint8)) + 2),
    ),
    "16-bit indices": (
        "ALIGN-6",
        lambda lab: _off(
            lab.triangles(TRIANGLE, [0, 1, 2], index_dtype=np.uint16),
            lab,
            index_buffer=lab.put(np.zeros(64, np.uint8)) + 1,
        ),
    ),
    "boxes": (
        "ALIGN-7",
        lambda lab: _off(lab.boxes(BOX), lab, aabbs=address_and_stride(lab.put(np.zeros(64, np.uint8)) + 4, 24)),
    ),
    "stride of boxes": (
        "ALIGN-7",
        lambda lab: _off(lab.boxes(BOX), lab, aabbs=address_and_stride(lab.put(np.zeros(64, np.uint8)), 28)),
    ),
}  # fmt: skip


@pytest.mark.rule("ALIGN-3", "ALIGN-4", "ALIGN-5", "ALIGN-6", "ALIGN-7", "ALIGN-11")
@pytest.mark.parametrize("what", ALIGNED)
def test_an_input_off_by_half_its_alignment_is_refused_at_the_build_only(what: str) -> None:
    rule, make = ALIGNED[what]
    lab = Lab()
    build = lab.build_desc(make(lab))
    with lab.refused(rule):
        lab.device.build(build)


@pytest.mark.rule("ALIGN-5")
def test_byte_formats_may_stand_anywhere() -> None:
    lab = Lab()
    data = np.zeros(64, np.uint8)
    data[1:10] = np.uint8([0, 0, 0, 0, 255, 0, 255, 0, 0])
    desc = lab.raw_triangles(data, 3, VertexFormat.R8G8B8A8_UNORM, 3)
    moved_by_one = address_and_stride(desc.triangles.vertex_buffer.start_address + 1, 3)
    desc = replace(desc, triangles=replace(desc.triangles, vertex_buffer=moved_by_one))
    assert lab.trace(lab.tlas(lab.blas(desc))).t.tolist() == [5.0]


@pytest.mark.rule("ALIGN-1", "ALIGN-2")
def test_structures_and_scratch_stand_at_multiples_of_256() -> None:
    lab = Lab()
    inputs = bottom(lab.triangles(TRIANGLE), flags=BuildFlag.ALLOW_UPDATE)
    desc = lab.build_desc(inputs)
    big = lab.buffer_at(lab.tlas(lab.build(inputs)))
    dest = lab.device.create_buffer(1 << 16, big.state, "dest").address + 128
    with lab.refused("ALIGN-1"):
        lab.device.build(replace(desc, dest_acceleration_structure_data=dest))
    scratch = lab.buffer_at(desc.scratch_acceleration_structure_data)
    roomy = lab.device.create_buffer(1 << 16, scratch.state, "scratch").address + 128
    with lab.refused("ALIGN-2"):
        lab.device.build(replace(desc, scratch_acceleration_structure_data=roomy))
    source = lab.build(inputs)
    update = lab.build_desc(replace(inputs, flags=BuildFlag.ALLOW_UPDATE | BuildFlag.PERFORM_UPDATE), source=source)
    with lab.refused("ALIGN-1", "UPD-1"):
        lab.device.build(replace(update, source_acceleration_structure_data=source + 128))
    top = lab.build_desc(lab.instances(InstanceDesc(acceleration_structure=source + 128)))
    with lab.refused("ALIGN-1"):
        lab.device.build(top)
    with lab.refused("ALIGN-1", "BLD-10"):
        lab.trace(big.address + 128)


@pytest.mark.rule("ALIGN-11", "PRE-1", "ST-5")
def test_prebuild_info_takes_any_address() -> None:
    odd = GeometryDesc(
        triangles=TrianglesDesc(
            1, IndexFormat.R32_UINT, VertexFormat.R32G32B32_FLOAT, 3, 3, 1, address_and_stride(1, 5)
        )
    )
    boxes = GeometryDesc(GeometryType.PROCEDURAL_PRIMITIVE_AABBS, aabbs=AabbsDesc(9, address_and_stride(1, 3)))
    for inputs in (bottom(odd), bottom(boxes), BuildInputs.top_level(9, 1)):
        assert rules_of_prebuild(inputs) == ()


# --- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("LIM-1", "LIM-2", "LIM-3", "LIM-8")
def test_limits_are_judged_by_counts_before_memory_is_touched() -> None:
    lab = Lab()
    geometry = dummy(vertex_count=0)
    lab.device.get_prebuild_info(BuildInputs.bottom_level((geometry,) * (1 << 24)))
    with lab.refused("LIM-1"):
        lab.device.get_prebuild_info(BuildInputs.bottom_level((geometry,) * ((1 << 24) + 1)))
    boxes = GeometryDesc(GeometryType.PROCEDURAL_PRIMITIVE_AABBS, aabbs=AabbsDesc(1 << 29, address_and_stride(8, 24)))
    lab.device.get_prebuild_info(bottom(boxes))
    with lab.refused("LIM-2"):
        lab.device.get_prebuild_info(bottom(replace(boxes, aabbs=replace(boxes.aabbs, aabb_count=(1 << 29) + 1))))
    with lab.refused("LIM-2"):
        lab.device.get_prebuild_info(bottom(replace(boxes, aabbs=replace(boxes.aabbs, aabb_count=(1 << 64) - 1))))
    half = dummy(index_buffer=4, index_format=IndexFormat.R32_UINT, index_count=3 << 28)
    lab.device.get_prebuild_info(bottom(half, half))
    with lab.refused("LIM-2"):
        lab.device.get_prebuild_info(bottom(half, half, dummy()))
    lab.device.get_prebuild_info(BuildInputs.top_level(1 << 24, 16))
    with lab.refused("LIM-3"):
        lab.device.get_prebuild_info(BuildInputs.top_level((1 << 24) + 1, 16))
    with lab.refused("BLD-8", "BLD-8", "LIM-3"):
        lab.device.build(BuildDesc(0, BuildInputs.top_level((1 << 24) + 1, 16)))


@pytest.mark.rule("LIM-4", "ERR-5")
@pytest.mark.parametrize(
    ("name", "largest"),
    [
        ("instance_id", (1 << 24) - 1),
        ("instance_contribution_to_hit_group_index", (1 << 24) - 1),
        ("instance_mask", 255),
        ("flags", 255),
    ],
)
def test_values_that_a_field_cannot_hold_are_refused(name: str, largest: int) -> None:
    InstanceDesc(**{name: largest})  # type: ignore[arg-type]
    for value in (largest + 1, -1):
        with pytest.raises(InvalidInputError) as raised:
            InstanceDesc(**{name: value})  # type: ignore[arg-type]
        assert raised.value.rules == ("LIM-4",)


# --- sizes follow from counts -------------------------------------------------------------------------------------


@pytest.mark.rule("PRE-1", "PRE-6")
@pytest.mark.parametrize("flags", [0, BuildFlag.MINIMIZE_MEMORY, BuildFlag.ALLOW_UPDATE, BuildFlag(0x11)])
def test_counts_of_descs_are_counts_of_their_contents(flags: BuildFlag) -> None:
    lab = Lab()
    vertices, indices = sphere(1)
    triangles = [
        lab.triangles(vertices, indices), lab.triangles(vertices[:7]), lab.triangles(vertices, indices[:2].ravel()[:5]),
        GeometryDesc(), lab.triangles(vertices, np.empty((0, 3))),
    ]  # fmt: skip
    for descs in (triangles, [lab.boxes(np.tile(BOX, (5, 1))), lab.boxes(BOX[:0])]):
        for some in [descs, *combinations(descs, 2)]:
            inputs = bottom(*some, flags=flags)
            decoded = read_geometries(inputs, Memory(lab.device._memory.space))
            assert counts_of(inputs) == counts_of_arrays(decoded)
            info = lab.device.get_prebuild_info(inputs)
            assert lab.structure(lab.build(inputs)).size == info.result_data_max_size_in_bytes


@pytest.mark.rule("XB-1", "XB-17", "RF-1")
def test_the_coherence_hint_changes_no_result() -> None:
    lab, vertices_and_indices = Lab(XBOX), sphere()
    tlas = lab.tlas(lab.blas(lab.triangles(*vertices_and_indices)))
    origins, directions = rays_at((0, 0, 0), 500)
    plain = lab.trace(tlas, origins, directions)
    hinted = lab.trace(tlas, origins, directions, ray_flags=RayFlag.COHERENT_RAYS_HINT)
    assert_equal_hits(plain, hinted)
    lab = Lab()
    tlas = lab.tlas(lab.blas())
    with lab.refused("RF-1"):
        lab.trace(tlas, ray_flags=RayFlag.COHERENT_RAYS_HINT)


def test_the_type_of_a_top_level_is_zero() -> None:
    assert BuildInputs.top_level(1, 2).type == AccelerationStructureType.TOP_LEVEL
