"""Rules that the CPU-visible fields of build inputs decide: flags, types, formats, counts, limits (PRE-10).

No address is followed and no memory is touched, so counts may be as large as their fields (LIM-8). The same checks
stand before prebuild info and before a build.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rtviewer.accel.sizes import Counts
from rtviewer.copymode.dehydrate import check_dehydrate
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag, ElementsLayout, GeometryFlag, GeometryType
from rtviewer.dxr.formats import VERTEX_LAYOUTS, IndexFormat, VertexFormat
from rtviewer.dxr.limits import (
    MAX_GEOMETRIES_PER_BOTTOM_LEVEL_ACCELERATION_STRUCTURE,
    MAX_INSTANCES_PER_TOP_LEVEL_ACCELERATION_STRUCTURE,
    MAX_PRIMITIVES_PER_BOTTOM_LEVEL_ACCELERATION_STRUCTURE,
)
from rtviewer.dxr.profile import Profile
from rtviewer.dxr.raw_descs import AabbsDesc, BuildInputs, GeometryDesc, TrianglesDesc
from rtviewer.dxr.rules import check_build_flags, check_geometry_flags
from rtviewer.errors import Violation, violation

INPUTS_SECTION = "D3D12_BUILD_RAYTRACING_ACCELERATION_STRUCTURE_INPUTS"
TRIANGLES_SECTION = "D3D12_RAYTRACING_GEOMETRY_TRIANGLES_DESC"
AABBS_SECTION = "D3D12_RAYTRACING_GEOMETRY_AABBS_DESC"
LIMITS_SECTION = "Geometry limits"

DXR_2_TYPES = range(3, 7)


def known_type(inputs: BuildInputs) -> AccelerationStructureType | None:
    """Top or bottom level; None for every other value of ``Type``."""
    value = int(inputs.type)
    return AccelerationStructureType(value) if value in (0, 1) else None


def geometry_descs(inputs: BuildInputs) -> Sequence[GeometryDesc]:
    """The descs that ``NumDescs`` covers, none for a top level."""
    return () if inputs.is_top_level else inputs.geometry_descs[: inputs.num_descs]


def desc_field(inputs: BuildInputs, index: int) -> str:
    """``Inputs.pGeometryDescs[3]``."""
    name = "ppGeometryDescs" if inputs.descs_layout == ElementsLayout.ARRAY_OF_POINTERS else "pGeometryDescs"
    return f"Inputs.{name}[{index}]"


def check_inputs(inputs: BuildInputs, profile: Profile, source_flags: BuildFlag | None = None) -> list[Violation]:
    """AST-1, BF-*, BLD-1, UPD-1, UPD-2, EL-1, XB-12, LIM-1 to LIM-3 and what each desc says by itself.

    ``source_flags``: what the source of an update was built with; None for a first build, whose flags may not ask for
    an update. When a limit on descs is passed, the descs are not looked at.
    """
    kind = known_type(inputs)
    found = _check_type(inputs) + _check_layout(inputs)
    flags_for = kind if kind is not None else AccelerationStructureType.BOTTOM_LEVEL
    found += check_build_flags(BuildFlag(int(inputs.flags)), flags_for, profile, source_flags=source_flags)
    too_many = _check_desc_count(inputs)
    if kind is None or too_many:
        return sorted(found + too_many)
    if kind is AccelerationStructureType.BOTTOM_LEVEL:
        found += _check_geometries(inputs, profile)
    procedural = any(d.is_procedural for d in geometry_descs(inputs))
    return sorted(found + check_dehydrate(BuildFlag(int(inputs.flags)), kind, procedural=procedural))


def check_prebuild(inputs: BuildInputs, profile: Profile) -> list[Violation]:
    """The same for prebuild info, where PERFORM_UPDATE asks for nothing [PRE-9, PRE-10]."""
    # On plain numbers: the complement of an enum's member knows no bits beyond the enum's own.
    flags = int(inputs.flags) & ~int(BuildFlag.PERFORM_UPDATE)
    first = BuildInputs(
        inputs.type, flags, inputs.num_descs, inputs.descs_layout, inputs.instance_descs,
        inputs.geometry_descs,
    )  # fmt: skip
    return [v for v in check_inputs(first, profile) if not v.warning]


def counts_of(inputs: BuildInputs) -> Counts:
    """What sizes depend on [PRE-1]; the inputs have passed the checks."""
    if inputs.is_top_level:
        return Counts(instances=inputs.num_descs)
    triangles = boxes = vertices = 0
    for group in _groups(geometry_descs(inputs)):
        count = group.desc.primitive_count
        if group.desc.is_procedural:
            boxes += count * group.times
        else:
            triangles += count * group.times
            vertices += min(group.desc.triangles.vertex_count, 3 * count) * group.times
    return Counts(triangles=triangles, boxes=boxes, geometries=inputs.num_descs, vertices=vertices)


@dataclass
class _Group:
    """One desc object and where in the sequence it stands."""

    desc: GeometryDesc
    first: int
    times: int = 1


def _groups(descs: Sequence[GeometryDesc]) -> list[_Group]:
    """Descs that are one object are judged once: a test of the limits repeats one desc millions of times."""
    groups: dict[int, _Group] = {}
    for index, desc in enumerate(descs):
        group = groups.get(id(desc))
        if group is None:
            groups[id(desc)] = _Group(desc, index)
        else:
            group.times += 1
    return list(groups.values())


def _check_type(inputs: BuildInputs) -> list[Violation]:
    if known_type(inputs) is not None:
        return []
    value = int(inputs.type)
    text = "the type must be TOP_LEVEL (0) or BOTTOM_LEVEL (1)"
    if value in DXR_2_TYPES:
        text += "; 3 to 6 are DXR 2 objects, which this call never builds"
    elif value == AccelerationStructureType.OPACITY_MICROMAP_ARRAY:
        text += "; opacity micromap arrays are not supported"
    return [violation("AST-1", text, field="Inputs.Type", value=value, section=INPUTS_SECTION)]


def _check_layout(inputs: BuildInputs) -> list[Violation]:
    value = int(inputs.descs_layout)
    if value in (ElementsLayout.ARRAY, ElementsLayout.ARRAY_OF_POINTERS):
        return []
    text = "the layout must be ARRAY (0) or ARRAY_OF_POINTERS (1)"
    return [violation("EL-1", text, field="Inputs.DescsLayout", value=value, section="D3D12_ELEMENTS_LAYOUT")]


def _check_desc_count(inputs: BuildInputs) -> list[Violation]:
    """LIM-1, LIM-3, and that the descs are there."""
    count, field = inputs.num_descs, "Inputs.NumDescs"
    if inputs.is_top_level:
        if count > MAX_INSTANCES_PER_TOP_LEVEL_ACCELERATION_STRUCTURE:
            return [violation("LIM-3", "at most 2^24 instances", field=field, value=count, section=LIMITS_SECTION)]
        return []
    if count > MAX_GEOMETRIES_PER_BOTTOM_LEVEL_ACCELERATION_STRUCTURE:
        return [violation("LIM-1", "at most 2^24 geometries", field=field, value=count, section=LIMITS_SECTION)]
    if count > len(inputs.geometry_descs):
        text = f"only {len(inputs.geometry_descs)} geometry descs are there"
        return [violation("GEO-6", text, field=field, value=count, section=INPUTS_SECTION)]
    return []


def _check_geometries(inputs: BuildInputs, profile: Profile) -> list[Violation]:
    """GF-1, GF-4, BLD-2, LIM-2 and the triangles' and boxes' own rules."""
    found: list[Violation] = []
    total = 0
    groups = _groups(geometry_descs(inputs))
    for group in groups:
        desc, field = group.desc, desc_field(inputs, group.first)
        found += check_geometry_flags(GeometryFlag(int(desc.flags)), profile, field=f"{field}.Flags")
        if int(desc.type) not in (GeometryType.TRIANGLES, GeometryType.PROCEDURAL_PRIMITIVE_AABBS):
            text = "the type must be TRIANGLES (0) or PROCEDURAL_PRIMITIVE_AABBS (1)"
            if int(desc.type) == GeometryType.OMM_TRIANGLES:
                text += "; opacity micromaps are not supported"
            section = "D3D12_RAYTRACING_GEOMETRY_TYPE"
            found.append(violation("GF-4", text, field=f"{field}.Type", value=int(desc.type), section=section))
            continue
        total += desc.primitive_count * group.times
        if desc.is_procedural:
            found += _check_boxes(desc.aabbs, f"{field}.AABBs")
        else:
            found += _check_triangles(desc.triangles, profile, f"{field}.Triangles")
    if len({group.desc.is_procedural for group in groups}) > 1:
        first = next(g for g in groups if g.desc.is_procedural != groups[0].desc.is_procedural)
        text = "a bottom-level structure holds triangles or AABBs, not both"
        field = f"{desc_field(inputs, first.first)}.Type"
        section = "Geometry and acceleration structures"
        found.append(violation("BLD-2", text, field=field, value=int(first.desc.type), section=section))
    if total > MAX_PRIMITIVES_PER_BOTTOM_LEVEL_ACCELERATION_STRUCTURE:
        text = "at most 2^29 primitives, all geometries together"
        field = "Inputs.pGeometryDescs"
        found.append(violation("LIM-2", text, field=field, value=total, section=LIMITS_SECTION))
    return found


def _check_triangles(desc: TrianglesDesc, profile: Profile, field: str) -> list[Violation]:
    """VF-1, VF-4, IX-1, GEO-2, and GEO-3 as a warning."""
    found: list[Violation] = []

    def broken(rule: str, text: str, name: str, value: object, warning: bool = False) -> None:
        found.append(
            violation(rule, text, field=f"{field}.{name}", value=value, section=TRIANGLES_SECTION, warning=warning)
        )

    layout = VERTEX_LAYOUTS.get(VertexFormat(desc.vertex_format)) if desc.vertex_format in _VERTEX_FORMATS else None
    if layout is None:
        broken("VF-1", "the format is none of the thirteen vertex formats", "VertexFormat", int(desc.vertex_format))
    elif layout.tier > profile.tier:
        text = f"{VertexFormat(desc.vertex_format).name} needs tier {layout.tier}, the device is {profile}"
        broken("VF-1", text, "VertexFormat", int(desc.vertex_format))
    legal = desc.index_format in _INDEX_FORMATS
    if not legal:
        broken("IX-1", "the format must be UNKNOWN, R16_UINT or R32_UINT", "IndexFormat", int(desc.index_format))
    elif desc.index_buffer and desc.index_format == IndexFormat.UNKNOWN:
        broken("GEO-2", "an index buffer needs R16_UINT or R32_UINT", "IndexFormat", int(desc.index_format))
    elif not desc.index_buffer and desc.index_format != IndexFormat.UNKNOWN:
        broken("GEO-2", "without an index buffer the format is UNKNOWN", "IndexFormat", int(desc.index_format))
    if not desc.index_buffer and desc.index_count:
        broken("GEO-2", "without an index buffer the count is 0", "IndexCount", desc.index_count)
    name, count = ("IndexCount", desc.index_count) if desc.index_buffer else ("VertexCount", desc.vertex_count)
    if count % 3:
        broken("GEO-3", f"not a multiple of 3: the last {count % 3} are ignored", name, count, warning=True)
    return found


def _check_boxes(desc: AabbsDesc, field: str) -> list[Violation]:
    """GEO-9 as a warning."""
    stride = desc.aabbs.stride_in_bytes & 0xFFFFFFFF
    if not 0 < stride < 24 or stride % 8:
        return []
    text = "boxes overlap in memory: an AABB takes 24 bytes"
    name = f"{field}.AABBs.StrideInBytes"
    return [violation("GEO-9", text, field=name, value=stride, section=AABBS_SECTION, warning=True)]


_VERTEX_FORMATS = frozenset(int(f) for f in VertexFormat)
_INDEX_FORMATS = frozenset(int(f) for f in IndexFormat)
