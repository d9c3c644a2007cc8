"""Which combinations of flags are legal, and what they decide: opacity, facing, culling.

Checks return every violation, sorted (ERR-3), and raise nothing; callers that must stop call :func:`require`. The
decisions are pure functions on flag words; ``kernels.culling`` is their compiled twin and is compared with them over
all legal combinations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import IntEnum, IntFlag
from itertools import combinations
from typing import TypeVar

from rtviewer.dxr.flags import (
    AccelerationStructureType,
    BuildFlag,
    GeometryFlag,
    HitKind,
    InstanceFlag,
    PipelineFlag,
    RayFlag,
    format_flags,
)
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.errors import InvalidInputError, Violation, violation

# Groups of flags of which at most one may be set, with their rule.
RAY_FLAG_EXCLUSIONS: tuple[tuple[str, tuple[RayFlag, ...]], ...] = (
    ("RF-2", (RayFlag.FORCE_OPAQUE, RayFlag.FORCE_NON_OPAQUE, RayFlag.CULL_OPAQUE, RayFlag.CULL_NON_OPAQUE)),
    ("RF-3", (RayFlag.CULL_BACK_FACING_TRIANGLES, RayFlag.CULL_FRONT_FACING_TRIANGLES, RayFlag.SKIP_TRIANGLES)),
    ("RF-4", (RayFlag.SKIP_TRIANGLES, RayFlag.SKIP_PROCEDURAL_PRIMITIVES)),
)
BUILD_FLAG_EXCLUSIONS: tuple[tuple[str, tuple[BuildFlag, ...]], ...] = (
    ("BF-2", (BuildFlag.PREFER_FAST_TRACE, BuildFlag.PREFER_FAST_BUILD)),
)
INSTANCE_FLAG_EXCLUSIONS: tuple[tuple[str, tuple[InstanceFlag, ...]], ...] = (
    ("IF-2", (InstanceFlag.FORCE_OPAQUE, InstanceFlag.FORCE_NON_OPAQUE)),
)

F = TypeVar("F", bound=IntFlag)


def require(violations: Iterable[Violation], call: str = "") -> None:
    """Raise InvalidInputError when a violation is not just a warning."""
    errors = [v for v in violations if not v.warning]
    if errors:
        raise InvalidInputError(errors, call)


def _check_exclusions(
    word: int, groups: Iterable[tuple[str, tuple[F, ...]]], field: str, section: str
) -> list[Violation]:
    found = []
    for rule, group in groups:
        for a, b in combinations([flag for flag in group if word & int(flag)], 2):
            text = f"{a.name} and {b.name} are mutually exclusive: set at most one"
            found.append(violation(rule, text, field=field, value=f"{word:#x}", section=section))
    return found


def _check_known(word: int, known: IntFlag, rule: str, field: str, section: str, profile: Profile) -> list[Violation]:
    unknown = word & ~int(known)
    if not unknown:
        return []
    named = format_flags(type(known)(unknown))
    text = f"{named} is not available in {profile}; legal bits are {int(known):#x}"
    return [violation(rule, text, field=field, value=f"{word:#x}", section=section)]


def check_build_flags(
    flags: BuildFlag,
    kind: AccelerationStructureType,
    profile: Profile = DEFAULT_PROFILE,
    *,
    source_flags: BuildFlag | None = None,
    field: str = "Inputs.Flags",
) -> list[Violation]:
    """Rules BF-1, BF-2, BF-7, BF-8, and with PERFORM_UPDATE, BLD-1, UPD-1 and UPD-2.

    ``source_flags`` are the flags the source of an update was built with (BF-9), None when there is no source.
    """
    word, section = int(flags), "D3D12_RAYTRACING_ACCELERATION_STRUCTURE_BUILD_FLAGS"
    found = _check_known(word, profile.known_build_flags, "BF-1", field, section, profile)
    found += _check_exclusions(word, BUILD_FLAG_EXCLUSIONS, field, section)
    if word & BuildFlag.ALLOW_OMM_LINKAGE_UPDATE and not word & BuildFlag.ALLOW_UPDATE:
        text = "ALLOW_OMM_LINKAGE_UPDATE requires ALLOW_UPDATE"
        found.append(violation("BF-7", text, field=field, value=f"{word:#x}", section=section))
    if kind is AccelerationStructureType.OPACITY_MICROMAP_ARRAY:
        updates_of_array = BuildFlag(word) & (BuildFlag.ALLOW_UPDATE | BuildFlag.PERFORM_UPDATE)
        if updates_of_array:
            text = f"an opacity micromap array cannot be updated: {format_flags(updates_of_array)} is not supported"
            found.append(violation("BF-8", text, field=field, value=f"{word:#x}", section=section))
    bottom_only = BuildFlag.ALLOW_OMM_LINKAGE_UPDATE | BuildFlag.ALLOW_DISABLE_OMMS
    if word & bottom_only and kind is not AccelerationStructureType.BOTTOM_LEVEL:
        text = f"{format_flags(BuildFlag(word & bottom_only))} is legal only for a bottom-level structure"
        found.append(violation("BF-8", text, field=field, value=f"{word:#x}", section=section))
    updates = bool(word & BuildFlag.PERFORM_UPDATE)
    if updates != (source_flags is not None):
        text = (
            "PERFORM_UPDATE needs a source structure"
            if updates
            else "a source structure is legal only with PERFORM_UPDATE"
        )
        found.append(violation("BLD-1", text, field=field, value=f"{word:#x}", section=section))
    if updates and source_flags is not None:
        section = "Acceleration structure update constraints"
        if not source_flags & BuildFlag.ALLOW_UPDATE:
            text = "the source was built without ALLOW_UPDATE and cannot be updated"
            found.append(violation("UPD-1", text, field=field, value=f"{int(source_flags):#x}", section=section))
        changed = (word ^ int(source_flags)) & ~int(BuildFlag.ALLOW_UPDATE | BuildFlag.PERFORM_UPDATE)
        if changed:
            text = f"an update must keep its source's {format_flags(BuildFlag(changed))}"
            found.append(violation("UPD-2", text, field=field, value=f"{word:#x}", section=section))
    return sorted(found)


def check_update_flags(
    source_flags: BuildFlag, kind: AccelerationStructureType, profile: Profile = DEFAULT_PROFILE
) -> list[Violation]:
    """Why a structure that was built with these flags cannot be updated under the same flags (UPD-1, BF-*)."""
    return check_build_flags(source_flags | BuildFlag.PERFORM_UPDATE, kind, profile, source_flags=source_flags)


def check_ray_flags(
    flags: RayFlag,
    profile: Profile = DEFAULT_PROFILE,
    *,
    inline: bool = False,
    pipeline: PipelineFlag = PipelineFlag.NONE,
    field: str = "RayFlags",
) -> list[Violation]:
    """Rules RF-1 to RF-6, on the effective word: the call's flags with the pipeline's SKIP bits.

    ``inline`` is true for TraceRayInline, which ignores ``pipeline`` (PF-1) and refuses SKIP_CLOSEST_HIT_SHADER.
    """
    section = "Ray flags"
    skips = PipelineFlag.SKIP_TRIANGLES | PipelineFlag.SKIP_PROCEDURAL_PRIMITIVES
    word = int(flags) | (0 if inline else int(pipeline & skips))
    found = _check_known(word, profile.known_ray_flags, "RF-1", field, section, profile)
    found += _check_exclusions(word, RAY_FLAG_EXCLUSIONS, field, section)
    if inline and word & RayFlag.SKIP_CLOSEST_HIT_SHADER:
        text = "SKIP_CLOSEST_HIT_SHADER is not allowed in an inline query, which has no closest-hit shader"
        found.append(violation("RF-5", text, field=field, value=f"{word:#x}", section=section))
    return sorted(found)


def check_instance_flags(
    flags: InstanceFlag, profile: Profile = DEFAULT_PROFILE, *, field: str = "Flags"
) -> list[Violation]:
    """Rules IF-1 and IF-2."""
    word, section = int(flags), "D3D12_RAYTRACING_INSTANCE_FLAGS"
    found = _check_known(word, profile.known_instance_flags, "IF-1", field, section, profile)
    return sorted(found + _check_exclusions(word, INSTANCE_FLAG_EXCLUSIONS, field, section))


def check_geometry_flags(
    flags: GeometryFlag, profile: Profile = DEFAULT_PROFILE, *, field: str = "Flags"
) -> list[Violation]:
    """Rule GF-1."""
    return _check_known(
        int(flags), profile.known_geometry_flags, "GF-1", field, "D3D12_RAYTRACING_GEOMETRY_FLAGS", profile
    )


def check_ray_interval(t_min: float, t_max: float) -> list[Violation]:
    """Rules RAY-2 and RAY-3 for the interval of one ray; infinity is legal for both ends."""
    section = "Ray extents"
    found = [
        violation("RAY-3", f"{name} must not be NaN", field=name, value=value, section=section)
        for name, value in (("TMin", t_min), ("TMax", t_max))
        if math.isnan(value)
    ]
    if t_min < 0:
        found.append(violation("RAY-2", "TMin must not be negative", field="TMin", value=t_min, section=section))
    if t_min > t_max:
        text = f"TMin must not exceed TMax ({t_max})"
        found.append(violation("RAY-2", text, field="TMin", value=t_min, section=section))
    return sorted(found)


class Opacity(IntEnum):
    """What steps 1 to 4 of section 6.5 make of a candidate."""

    NON_OPAQUE = 0
    OPAQUE = 1
    CULLED_OPAQUE = 2
    CULLED_NON_OPAQUE = 3


def effective_opacity(geometry: GeometryFlag, instance: InstanceFlag, ray: RayFlag) -> Opacity:
    """Opacity after overrides and culling by flags, OPQ-1 to OPQ-4. A missing any-hit shader (OPQ-5) comes after."""
    opaque = bool(geometry & GeometryFlag.OPAQUE)  # OPQ-1
    if instance & InstanceFlag.FORCE_OPAQUE:  # OPQ-2
        opaque = True
    elif instance & InstanceFlag.FORCE_NON_OPAQUE:
        opaque = False
    if opaque and ray & RayFlag.CULL_OPAQUE:  # OPQ-3
        return Opacity.CULLED_OPAQUE
    if not opaque and ray & RayFlag.CULL_NON_OPAQUE:
        return Opacity.CULLED_NON_OPAQUE
    if ray & RayFlag.FORCE_OPAQUE:  # OPQ-4
        opaque = True
    elif ray & RayFlag.FORCE_NON_OPAQUE:
        opaque = False
    return Opacity.OPAQUE if opaque else Opacity.NON_OPAQUE


def hit_kind(clockwise: bool, instance: InstanceFlag) -> HitKind:
    """FACE-1 and FACE-2. ``clockwise``: the vertices appear clockwise from the object-space ray origin."""
    front = clockwise != bool(instance & InstanceFlag.TRIANGLE_FRONT_COUNTERCLOCKWISE)
    return HitKind.TRIANGLE_FRONT_FACE if front else HitKind.TRIANGLE_BACK_FACE


def is_facing_culled(kind: HitKind, instance: InstanceFlag, ray: RayFlag) -> bool:
    """CULL-3: whether the ray's face culling removes a triangle hit of this kind."""
    if instance & InstanceFlag.TRIANGLE_CULL_DISABLE:
        return False
    if kind is HitKind.TRIANGLE_BACK_FACE:
        return bool(ray & RayFlag.CULL_BACK_FACING_TRIANGLES)
    return bool(ray & RayFlag.CULL_FRONT_FACING_TRIANGLES)


def runs_closest_hit(ray: RayFlag, has_shader: bool) -> bool:
    """ACC-4 and TRAV-2: whether the closest-hit shader of the committed hit runs."""
    return has_shader and not ray & RayFlag.SKIP_CLOSEST_HIT_SHADER


def is_type_skipped(is_triangle: bool, ray: RayFlag) -> bool:
    """CULL-1."""
    return bool(ray & (RayFlag.SKIP_TRIANGLES if is_triangle else RayFlag.SKIP_PROCEDURAL_PRIMITIVES))


def is_mask_excluded(ray_mask: int, instance_mask: int) -> bool:
    """MASK-1 and MASK-2: only the low 8 bits of the ray's mask count."""
    return not ray_mask & instance_mask & 0xFF
