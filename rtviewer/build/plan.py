"""From build flags to the parameters of a build: the only place where a build flag decides how to build."""

from __future__ import annotations

from dataclasses import dataclass

from rtviewer.accel import layout
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.rules import check_build_flags, require
from rtviewer.errors import StructureError

UNIMPLEMENTED: dict[BuildFlag, str] = {
    BuildFlag.ALLOW_UPDATE: "updates are not there yet",
    BuildFlag.ALLOW_COMPACTION: "compacting copies are not there yet",
    BuildFlag.PREFER_FAST_TRACE: "there is one builder so far, the binned SAH of the default",
    BuildFlag.PREFER_FAST_BUILD: "there is one builder so far, the binned SAH of the default",
    BuildFlag.MINIMIZE_MEMORY: "there is one memory layout so far",
    BuildFlag.PERFORM_UPDATE: "updates are not there yet",
    BuildFlag.DEHYDRATE: "dehydrated structures are not there yet",
}
"""Flags that are legal but cannot be honoured yet; asking for one is refused, and controls for them say why."""


@dataclass(frozen=True)
class BuildPlan:
    """``leaf_size``: most primitives in a leaf. ``pack_width``: primitives tested in one step.
    ``element_size``: bytes of a leaf element. ``grain``: ranges up to
    this many references are built by one thread; it does not depend on the number of threads, and neither does the
    result."""

    leaf_size: int
    pack_width: int
    element_size: int
    grain: int


def plan(
    flags: BuildFlag,
    kind: AccelerationStructureType,
    profile: Profile = DEFAULT_PROFILE,
    *,
    procedural: bool = False,
) -> BuildPlan:
    """The plan for a first build; ``procedural``: the geometry is AABBs.

    Raises InvalidInputError for an illegal flag word (BF-*), StructureError for a flag that is not there yet.
    """
    require(check_build_flags(flags, kind, profile), "BuildRaytracingAccelerationStructure")
    for flag, reason in UNIMPLEMENTED.items():
        if flags & flag:
            raise StructureError(f"{flag.name} cannot be used: {reason}")
    if kind is AccelerationStructureType.TOP_LEVEL:
        return BuildPlan(leaf_size=1, pack_width=1, element_size=layout.INSTANCE_LEAF.itemsize, grain=1 << 14)
    element = layout.BOX_PACK if procedural else layout.TRIANGLE_PACK
    return BuildPlan(leaf_size=8, pack_width=4, element_size=element.itemsize, grain=1 << 15)
