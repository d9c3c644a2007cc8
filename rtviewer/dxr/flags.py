"""Enumerations of DirectX Raytracing with the specification's values and spelling, without its prefixes.

Each member carries one line of meaning and the rule that governs it, so that a checkbox, an option and a help page can
be made from the member alone. Vulkan's name stands beside it where it differs. Values are unsigned 32-bit (XB-2).
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import NamedTuple, TypeVar

F = TypeVar("F", bound=IntFlag)


class Meaning(NamedTuple):
    """What a control made from a flag shows."""

    text: str
    rule: str
    vulkan: str = ""


class _Described:
    """Mixin: members look their meaning up in the table ``MEANINGS`` beside the enums."""

    name: str

    @property
    def meaning(self) -> Meaning:
        return MEANINGS[type(self).__name__][str(self.name)]

    @property
    def label(self) -> str:
        """``CULL_OPAQUE`` as ``Cull opaque``."""
        return str(self.name).replace("_", " ").capitalize()

    @property
    def option(self) -> str:
        """``CULL_OPAQUE`` as ``cull-opaque``."""
        return str(self.name).lower().replace("_", "-")


class AccelerationStructureType(_Described, IntEnum):
    TOP_LEVEL = 0
    BOTTOM_LEVEL = 1
    OPACITY_MICROMAP_ARRAY = 2


class BuildFlag(_Described, IntFlag):
    NONE = 0
    ALLOW_UPDATE = 0x1
    ALLOW_COMPACTION = 0x2
    PREFER_FAST_TRACE = 0x4
    PREFER_FAST_BUILD = 0x8
    MINIMIZE_MEMORY = 0x10
    PERFORM_UPDATE = 0x20
    ALLOW_OMM_LINKAGE_UPDATE = 0x40
    ALLOW_OMM_UPDATE = 0x40
    """The header's name for the same bit (NOTE-9)."""
    ALLOW_DISABLE_OMMS = 0x80
    ALLOW_DATA_ACCESS = 0x100
    DEHYDRATE = 0x40000000


class ElementsLayout(IntEnum):
    ARRAY = 0
    ARRAY_OF_POINTERS = 1


class GeometryType(IntEnum):
    TRIANGLES = 0
    PROCEDURAL_PRIMITIVE_AABBS = 1
    OMM_TRIANGLES = 2


class GeometryFlag(_Described, IntFlag):
    NONE = 0
    OPAQUE = 0x1
    NO_DUPLICATE_ANYHIT_INVOCATION = 0x2


class InstanceFlag(_Described, IntFlag):
    NONE = 0
    TRIANGLE_CULL_DISABLE = 0x1
    TRIANGLE_FRONT_COUNTERCLOCKWISE = 0x2
    FORCE_OPAQUE = 0x4
    FORCE_NON_OPAQUE = 0x8
    FORCE_OMM_2_STATE = 0x10
    DISABLE_OMMS = 0x20


class RayFlag(_Described, IntFlag):
    NONE = 0
    FORCE_OPAQUE = 0x1
    FORCE_NON_OPAQUE = 0x2
    ACCEPT_FIRST_HIT_AND_END_SEARCH = 0x4
    SKIP_CLOSEST_HIT_SHADER = 0x8
    CULL_BACK_FACING_TRIANGLES = 0x10
    CULL_FRONT_FACING_TRIANGLES = 0x20
    CULL_OPAQUE = 0x40
    CULL_NON_OPAQUE = 0x80
    SKIP_TRIANGLES = 0x100
    SKIP_PROCEDURAL_PRIMITIVES = 0x200
    FORCE_OMM_2_STATE = 0x400
    COHERENT_RAYS_HINT = 0x1000


class PipelineFlag(IntFlag):
    NONE = 0
    SKIP_TRIANGLES = 0x100
    SKIP_PROCEDURAL_PRIMITIVES = 0x200
    ALLOW_OPACITY_MICROMAPS = 0x400


class RayQueryFlag(IntFlag):
    NONE = 0
    ALLOW_OPACITY_MICROMAPS = 0x1


class CopyMode(IntEnum):
    CLONE = 0
    COMPACT = 1
    VISUALIZATION_DECODE_FOR_TOOLS = 2
    SERIALIZE = 3
    DESERIALIZE = 4
    SERIALIZE_AND_COMPRESS = 0x80000005
    SERIALIZE_AND_COMPRESS_FOR_GPU = 0x80000006


class PostbuildInfoType(IntEnum):
    COMPACTED_SIZE = 0
    TOOLS_VISUALIZATION = 1
    SERIALIZATION = 2
    CURRENT_SIZE = 3


class SerializedDataType(IntEnum):
    RAYTRACING_ACCELERATION_STRUCTURE = 0
    APPLICATION_SPECIFIC_DRIVER_STATE = 1


class DriverMatchingIdentifierStatus(IntEnum):
    COMPATIBLE_WITH_DEVICE = 0
    UNSUPPORTED_TYPE = 1
    UNRECOGNIZED = 2
    INCOMPATIBLE_VERSION = 3
    INCOMPATIBLE_TYPE = 4


class HeaderPostambleType(IntEnum):
    NONE = 0
    BOTTOM_LEVEL_POINTERS = 0
    BLOCKS = 0xFFFFFFFF


class HitKind(IntEnum):
    """Hit kinds of triangles; a program's own are 0 to 127 (HK-1)."""

    TRIANGLE_FRONT_FACE = 254
    TRIANGLE_BACK_FACE = 255


class CommittedStatus(IntEnum):
    NOTHING = 0
    TRIANGLE_HIT = 1
    PROCEDURAL_PRIMITIVE_HIT = 2


class CandidateType(IntEnum):
    NON_OPAQUE_TRIANGLE = 0
    PROCEDURAL_PRIMITIVE = 1


class ResourceState(IntFlag):
    """The three states of buffers that ray tracing distinguishes (section 1.13)."""

    UNORDERED_ACCESS = 0x8
    NON_PIXEL_SHADER_RESOURCE = 0x40
    RAYTRACING_ACCELERATION_STRUCTURE = 0x400000


MEANINGS: dict[str, dict[str, Meaning]] = {
    "AccelerationStructureType": {
        "TOP_LEVEL": Meaning("Instances of bottom-level structures", "AST-1"),
        "BOTTOM_LEVEL": Meaning("Triangles or boxes in object space", "AST-1"),
        "OPACITY_MICROMAP_ARRAY": Meaning("Opacity of micro-triangles (tier 1.2)", "AST-1"),
    },
    "BuildFlag": {
        "NONE": Meaning("Default quality, not updatable, not compactable", "BF-1"),
        "ALLOW_UPDATE": Meaning("The result may later be the source of an update", "BF-3"),
        "ALLOW_COMPACTION": Meaning("The result may later be the source of a COMPACT copy", "BF-4"),
        "PREFER_FAST_TRACE": Meaning("A better tree for two to three times the build time", "BF-2"),
        "PREFER_FAST_BUILD": Meaning("A worse tree for a third to half of the build time", "BF-2"),
        "MINIMIZE_MEMORY": Meaning(
            "Smaller scratch and result, may cost build and trace time", "BF-5", vulkan="LOW_MEMORY"
        ),
        "PERFORM_UPDATE": Meaning("This build is an update of an earlier structure", "BF-6", vulkan="mode UPDATE"),
        "ALLOW_OMM_LINKAGE_UPDATE": Meaning("Opacity micromap links may change in updates (tier 1.2)", "BF-7"),
        "ALLOW_DISABLE_OMMS": Meaning("Instances may switch opacity micromaps off (tier 1.2)", "BF-8"),
        "ALLOW_DATA_ACCESS": Meaning("Shaders may read vertices back (not shipped)", "BF-1"),
        "DEHYDRATE": Meaning("Write geometry as zeros, to be rehydrated before use (Xbox)", "XB-3"),
    },
    "GeometryFlag": {
        "NONE": Meaning("Any-hit may run any number of times", "GF-1"),
        "OPAQUE": Meaning("Behaves as if there were no any-hit shader", "GF-2"),
        "NO_DUPLICATE_ANYHIT_INVOCATION": Meaning("Any-hit runs at most once per ray and intersection", "GF-3"),
    },
    "InstanceFlag": {
        "NONE": Meaning("Geometry flags and default winding hold", "IF-1"),
        "TRIANGLE_CULL_DISABLE": Meaning(
            "The ray's face culling has no effect on this instance", "CULL-3", vulkan="TRIANGLE_FACING_CULL_DISABLE"
        ),
        "TRIANGLE_FRONT_COUNTERCLOCKWISE": Meaning(
            "Swaps front and back for this instance", "FACE-2", vulkan="TRIANGLE_FLIP_FACING"
        ),
        "FORCE_OPAQUE": Meaning("All geometry acts as opaque; the ray may overrule", "OPQ-2"),
        "FORCE_NON_OPAQUE": Meaning(
            "All geometry acts as non-opaque; the ray may overrule", "OPQ-2", vulkan="FORCE_NO_OPAQUE"
        ),
        "FORCE_OMM_2_STATE": Meaning("Opacity micromaps act as 2-state (tier 1.2)", "OMM-8"),
        "DISABLE_OMMS": Meaning("Opacity micromaps are ignored (tier 1.2)", "IF-3"),
    },
    "RayFlag": {
        "NONE": Meaning("Closest hit, no culling", "RF-1"),
        "FORCE_OPAQUE": Meaning("All geometry is opaque: no any-hit runs", "OPQ-4", vulkan="OPAQUE"),
        "FORCE_NON_OPAQUE": Meaning(
            "All geometry is non-opaque: any-hit runs where present", "OPQ-4", vulkan="NO_OPAQUE"
        ),
        "ACCEPT_FIRST_HIT_AND_END_SEARCH": Meaning(
            "The first committed hit ends the search, as shadow rays want", "ACC-1", vulkan="TERMINATE_ON_FIRST_HIT"
        ),
        "SKIP_CLOSEST_HIT_SHADER": Meaning("No closest-hit shader runs; the miss shader still does", "RF-5"),
        "CULL_BACK_FACING_TRIANGLES": Meaning("Triangles seen from behind are not there", "CULL-3"),
        "CULL_FRONT_FACING_TRIANGLES": Meaning("Triangles seen from the front are not there", "CULL-3"),
        "CULL_OPAQUE": Meaning("Opaque geometry is not there (before the ray's own forcing)", "OPQ-3"),
        "CULL_NON_OPAQUE": Meaning(
            "Non-opaque geometry is not there (before the ray's own forcing)", "OPQ-3", vulkan="CULL_NO_OPAQUE"
        ),
        "SKIP_TRIANGLES": Meaning("No triangle is there, whatever its instance says", "CULL-1"),
        "SKIP_PROCEDURAL_PRIMITIVES": Meaning("No procedural primitive is there", "CULL-1", vulkan="SKIP_AABBS"),
        "FORCE_OMM_2_STATE": Meaning("Opacity micromaps act as 2-state (tier 1.2)", "OMM-8"),
        "COHERENT_RAYS_HINT": Meaning("Says that rays run alike; changes no result (Xbox)", "XB-17"),
    },
}


def members(kind: type[IntFlag], *, known: int = 0xFFFFFFFF) -> list[IntFlag]:
    """The single-bit members of a flag enum whose bit is in ``known``, in order of value."""
    return [member for member in kind if int(member) & known]


def format_flags(flags: IntFlag) -> str:
    """A flag word as the names of its bits, ``NONE`` for 0; unknown bits in hex."""
    kind = type(flags)
    names = [str(m.name) for m in kind if int(m) & int(flags)]
    rest = int(flags) & ~sum(int(m) for m in kind)
    return " | ".join([*names, *([f"0x{rest:X}"] if rest else [])]) or "NONE"


def parse_flags(kind: type[F], text: str) -> F:
    """Read a flag word from text.

    Accepts names without prefix in any case with ``-`` or ``_``, HLSL spelling (``RAY_FLAG_A | RAY_FLAG_B``), commas,
    and numbers (``0x30``), in any mixture.

    Raises
    ------
    ValueError
        An item is neither a name nor a number; the message lists what would be.
    """
    word = 0
    for item in text.replace("|", ",").split(","):
        name = item.strip().upper().replace("-", "_")
        if not name:
            continue
        for prefix in ("D3D12_", "D3D12XBOX_", "XBOX_", "RAYTRACING_", "ACCELERATION_STRUCTURE_"):
            name = name.removeprefix(prefix)
        for prefix in ("RAY_FLAG_", "BUILD_FLAG_", "INSTANCE_FLAG_", "GEOMETRY_FLAG_"):
            name = name.removeprefix(prefix)
        if name in kind.__members__:
            word |= int(kind[name])
            continue
        try:
            number = int(item.strip(), 0)
            if number < 0:
                raise ValueError
            word |= number
        except ValueError:
            names = ", ".join(str(m.name) for m in kind)
            raise ValueError(f"{item.strip()!r} is not a {kind.__name__}: use a number or one of {names}") from None
    if not 0 <= word <= 0xFFFFFFFF:
        raise ValueError(f"{word:#x} does not fit into 32 bits")
    return kind(word)
