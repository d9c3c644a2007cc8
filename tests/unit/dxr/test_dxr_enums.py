"""Values and spelling of every enumeration and constant, against tables written down here once more."""

from __future__ import annotations

from enum import Enum

import pytest

from rtviewer.dxr import flags, limits
from rtviewer.dxr.formats import VERTEX_LAYOUTS, IndexFormat, VertexFormat
from rtviewer.dxr.profile import Tier
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram

TABLES: dict[type[Enum], dict[str, int]] = {
    flags.AccelerationStructureType: {"TOP_LEVEL": 0, "BOTTOM_LEVEL": 1, "OPACITY_MICROMAP_ARRAY": 2},
    flags.BuildFlag: {
        "NONE": 0x00,
        "ALLOW_UPDATE": 0x01,
        "ALLOW_COMPACTION": 0x02,
        "PREFER_FAST_TRACE": 0x04,
        "PREFER_FAST_BUILD": 0x08,
        "MINIMIZE_MEMORY": 0x10,
        "PERFORM_UPDATE": 0x20,
        "ALLOW_OMM_LINKAGE_UPDATE": 0x40,
        "ALLOW_DISABLE_OMMS": 0x80,
        "ALLOW_DATA_ACCESS": 0x100,
        "DEHYDRATE": 0x40000000,
    },
    flags.ElementsLayout: {"ARRAY": 0, "ARRAY_OF_POINTERS": 1},
    flags.GeometryType: {"TRIANGLES": 0, "PROCEDURAL_PRIMITIVE_AABBS": 1, "OMM_TRIANGLES": 2},
    flags.GeometryFlag: {"NONE": 0, "OPAQUE": 0x1, "NO_DUPLICATE_ANYHIT_INVOCATION": 0x2},
    flags.InstanceFlag: {
        "NONE": 0x00,
        "TRIANGLE_CULL_DISABLE": 0x01,
        "TRIANGLE_FRONT_COUNTERCLOCKWISE": 0x02,
        "FORCE_OPAQUE": 0x04,
        "FORCE_NON_OPAQUE": 0x08,
        "FORCE_OMM_2_STATE": 0x10,
        "DISABLE_OMMS": 0x20,
    },
    flags.RayFlag: {
        "NONE": 0x000,
        "FORCE_OPAQUE": 0x001,
        "FORCE_NON_OPAQUE": 0x002,
        "ACCEPT_FIRST_HIT_AND_END_SEARCH": 0x004,
        "SKIP_CLOSEST_HIT_SHADER": 0x008,
        "CULL_BACK_FACING_TRIANGLES": 0x010,
        "CULL_FRONT_FACING_TRIANGLES": 0x020,
        "CULL_OPAQUE": 0x040,
        "CULL_NON_OPAQUE": 0x080,
        "SKIP_TRIANGLES": 0x100,
        "SKIP_PROCEDURAL_PRIMITIVES": 0x200,
        "FORCE_OMM_2_STATE": 0x400,
        "COHERENT_RAYS_HINT": 0x1000,
    },
    flags.PipelineFlag: {
        "NONE": 0x000,
        "SKIP_TRIANGLES": 0x100,
        "SKIP_PROCEDURAL_PRIMITIVES": 0x200,
        "ALLOW_OPACITY_MICROMAPS": 0x400,
    },
    flags.RayQueryFlag: {"NONE": 0, "ALLOW_OPACITY_MICROMAPS": 0x1},
    flags.CopyMode: {
        "CLONE": 0,
        "COMPACT": 1,
        "VISUALIZATION_DECODE_FOR_TOOLS": 2,
        "SERIALIZE": 3,
        "DESERIALIZE": 4,
        "SERIALIZE_AND_COMPRESS": 0x80000005,
        "SERIALIZE_AND_COMPRESS_FOR_GPU": 0x80000006,
    },
    flags.PostbuildInfoType: {"COMPACTED_SIZE": 0, "TOOLS_VISUALIZATION": 1, "SERIALIZATION": 2, "CURRENT_SIZE": 3},
    flags.SerializedDataType: {"RAYTRACING_ACCELERATION_STRUCTURE": 0, "APPLICATION_SPECIFIC_DRIVER_STATE": 1},
    flags.DriverMatchingIdentifierStatus: {
        "COMPATIBLE_WITH_DEVICE": 0,
        "UNSUPPORTED_TYPE": 1,
        "UNRECOGNIZED": 2,
        "INCOMPATIBLE_VERSION": 3,
        "INCOMPATIBLE_TYPE": 4,
    },
    flags.HeaderPostambleType: {"NONE": 0, "BOTTOM_LEVEL_POINTERS": 0, "BLOCKS": 0xFFFFFFFF},
    flags.HitKind: {"TRIANGLE_FRONT_FACE": 254, "TRIANGLE_BACK_FACE": 255},
    flags.CommittedStatus: {"NOTHING": 0, "TRIANGLE_HIT": 1, "PROCEDURAL_PRIMITIVE_HIT": 2},
    flags.CandidateType: {"NON_OPAQUE_TRIANGLE": 0, "PROCEDURAL_PRIMITIVE": 1},
    flags.ResourceState: {
        "RAYTRACING_ACCELERATION_STRUCTURE": 0x400000,
        "UNORDERED_ACCESS": 0x8,
        "NON_PIXEL_SHADER_RESOURCE": 0x40,
    },
    Tier: {"TIER_1_0": 10, "TIER_1_1": 11, "TIER_1_2": 12},
    VertexFormat: {
        "R32G32_FLOAT": 16,
        "R32G32B32_FLOAT": 6,
        "R16G16_FLOAT": 34,
        "R16G16B16A16_FLOAT": 10,
        "R16G16_SNORM": 37,
        "R16G16B16A16_SNORM": 13,
        "R16G16B16A16_UNORM": 11,
        "R16G16_UNORM": 35,
        "R10G10B10A2_UNORM": 24,
        "R8G8B8A8_UNORM": 28,
        "R8G8_UNORM": 49,
        "R8G8B8A8_SNORM": 31,
        "R8G8_SNORM": 51,
    },
    IndexFormat: {"UNKNOWN": 0, "R32_UINT": 42, "R16_UINT": 57},
}

# Names that [H] or a misprint spells differently (NOTE-9): legal beside those above, for the same value.
ALIASES: dict[type[Enum], dict[str, int]] = {flags.BuildFlag: {"ALLOW_OMM_UPDATE": 0x40}}


@pytest.mark.rule("PROF-2", "HK-2", "XB-2")
@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_names_and_values_are_those_of_the_specification(kind: type[Enum]) -> None:
    found = {name: int(member.value) for name, member in kind.__members__.items()}
    assert found == TABLES[kind] | ALIASES.get(kind, {})


def test_no_enum_of_the_flags_module_is_missing_from_the_tables() -> None:
    defined = {
        value
        for value in vars(flags).values()
        if isinstance(value, type) and issubclass(value, Enum) and value.__module__ == flags.__name__
    }
    assert defined <= set(TABLES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACCELERATION_STRUCTURE_BYTE_ALIGNMENT", 256),
        ("INSTANCE_DESCS_BYTE_ALIGNMENT", 16),
        ("TRANSFORM3X4_BYTE_ALIGNMENT", 16),
        ("AABB_BYTE_ALIGNMENT", 8),
        ("POSTBUILD_INFO_BYTE_ALIGNMENT", 8),
        ("OPACITY_MICROMAP_ARRAY_BYTE_ALIGNMENT", 128),
        ("OPACITY_MICROMAP_OC1_MAX_SUBDIVISION_LEVEL", 12),
        ("MAX_GEOMETRIES_PER_BOTTOM_LEVEL_ACCELERATION_STRUCTURE", 16_777_216),
        ("MAX_PRIMITIVES_PER_BOTTOM_LEVEL_ACCELERATION_STRUCTURE", 536_870_912),
        ("MAX_INSTANCES_PER_TOP_LEVEL_ACCELERATION_STRUCTURE", 16_777_216),
        ("MAX_INSTANCE_ID", 16_777_215),
        ("MAX_INSTANCE_CONTRIBUTION_TO_HIT_GROUP_INDEX", 16_777_215),
        ("MAX_INSTANCE_MASK", 255),
        ("MAX_HIT_KIND", 127),
        ("MAX_ATTRIBUTE_SIZE_IN_BYTES", 32),
        ("MAX_DECLARABLE_TRACE_RECURSION_DEPTH", 31),
        ("SHADER_RECORD_BYTE_ALIGNMENT", 32),
        ("SHADER_TABLE_BYTE_ALIGNMENT", 64),
        ("MAX_SHADER_RECORD_STRIDE", 4096),
        ("MAX_RAY_GENERATION_SHADER_THREADS", 1_073_741_824),
        ("SHADER_IDENTIFIER_SIZE_IN_BYTES", 32),
    ],
)
@pytest.mark.rule("LIM-1", "LIM-2", "LIM-3", "LIM-4", "LIM-5", "LIM-6", "LIM-7", "HK-1")
def test_limits(name: str, value: int) -> None:
    assert getattr(limits, name) == value


def test_no_limit_is_untested() -> None:
    """A constant added to the module needs a row above."""
    mark = next(m for m in test_limits.pytestmark if m.name == "parametrize")  # type: ignore[attr-defined]
    assert {name for name in vars(limits) if name.isupper()} == {name for name, _ in mark.args[1]}


# name: component bytes, bytes read, coordinates, tier, may encode NaN
VERTEX_TABLE = {
    "R32G32_FLOAT": (4, 8, 2, 10, True),
    "R32G32B32_FLOAT": (4, 12, 3, 10, True),
    "R16G16_FLOAT": (2, 4, 2, 10, True),
    "R16G16B16A16_FLOAT": (2, 6, 3, 10, True),
    "R16G16_SNORM": (2, 4, 2, 10, False),
    "R16G16B16A16_SNORM": (2, 6, 3, 10, False),
    "R16G16B16A16_UNORM": (2, 6, 3, 11, False),
    "R16G16_UNORM": (2, 4, 2, 11, False),
    "R10G10B10A2_UNORM": (4, 4, 3, 11, False),
    "R8G8B8A8_UNORM": (1, 3, 3, 11, False),
    "R8G8_UNORM": (1, 2, 2, 11, False),
    "R8G8B8A8_SNORM": (1, 3, 3, 11, False),
    "R8G8_SNORM": (1, 2, 2, 11, False),
}


@pytest.mark.rule("VF-1", "VF-2", "VF-3", "ALIGN-5", "INA-4", "PROF-3")
def test_vertex_layouts() -> None:
    found = {kind.name: tuple(layout) for kind, layout in VERTEX_LAYOUTS.items()}
    assert found == VERTEX_TABLE
    assert all(isinstance(layout.tier, Tier) for layout in VERTEX_LAYOUTS.values())


def test_program_numbers_are_those_of_the_recordings() -> None:
    assert [p.name for p in sorted(AnyHitProgram)] == [
        "ACCEPT", "IGNORE", "IGNORE_ODD_PRIMITIVES", "ACCEPT_AND_END_SEARCH", "IGNORE_ODD_GEOMETRIES",
        "IGNORE_ODD_PRIMITIVES_END_AT_EVEN", "ALPHA_MASK", "CHECKER",
    ]  # fmt: skip
    assert [p.name for p in sorted(IntersectionProgram)] == [
        "SPHERE", "BOX", "SPHERE_FAR_FIRST", "NOTHING", "REPORT_T", "TORUS", "TORUS_FAR_FIRST",
    ]  # fmt: skip
    assert [int(p) for p in sorted(AnyHitProgram)] == list(range(8))
    assert [int(p) for p in sorted(IntersectionProgram)] == list(range(7))
