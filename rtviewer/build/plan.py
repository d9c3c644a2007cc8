"""From build flags to the parameters of a build: the only place where a build flag decides how to build."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from rtviewer.accel import layout
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.rules import check_build_flags, require
from rtviewer.errors import StructureError

NOT_IN_A_PLAIN_BUILD: dict[BuildFlag, str] = {
    BuildFlag.PERFORM_UPDATE: "a rebuild is no update; updates are an action of their own",
    BuildFlag.DEHYDRATE: "a dehydrated structure cannot be traced; dehydrating is an action of its own",
}
"""Flags that a plain build cannot honour; asking for one is refused, and controls for them say why."""

WITHOUT_EFFECT: dict[BuildFlag, str] = dict.fromkeys(
    (BuildFlag.ALLOW_OMM_LINKAGE_UPDATE, BuildFlag.ALLOW_DISABLE_OMMS),
    "opacity micromaps are not supported, so the flag would have no effect",
)
"""Flags that a build call takes as legal and that change nothing yet; build settings do not offer them."""


class Method(IntEnum):
    """How ranges are cut; numbers of ``kernels.cuts``."""

    BINNED = 0
    MORTON = 1


@dataclass(frozen=True)
class BuildPlan:
    """``leaf_size``: most primitives in a leaf. ``pack_width``: primitives tested in one step.
    ``element_size``: bytes of a leaf element. ``grain``: ranges up to this many references are built by one thread; it
    does not depend on the number of threads, and neither does the result. ``indexed``: packs hold ids, corners stand in
    sections of their own. ``updatable``: degenerates and update data are kept. ``improved_leaf``: most elements of a
    leaf when the tree is to be improved after it was built (``build.fast_trace``), 0 when it is not."""

    leaf_size: int
    pack_width: int
    element_size: int
    grain: int
    method: Method = Method.BINNED
    indexed: bool = False
    updatable: bool = False
    improved_leaf: int = 0

    @property
    def only_keys(self) -> bool:
        """Cuts look at keys of the references; else they move them and need room for them again."""
        return self.method is Method.MORTON


def plan(
    flags: BuildFlag,
    kind: AccelerationStructureType,
    profile: Profile = DEFAULT_PROFILE,
    *,
    procedural: bool = False,
) -> BuildPlan:
    """The plan for a first build; ``procedural``: the geometry is AABBs.

    Raises InvalidInputError for an illegal flag word (BF-*), StructureError for a flag that belongs to another action.
    """
    require(check_build_flags(flags, kind, profile), "BuildRaytracingAccelerationStructure")
    for flag, reason in NOT_IN_A_PLAIN_BUILD.items():
        if flags & flag:
            raise StructureError(f"{flag.name} cannot be used: {reason}")
    method = Method.MORTON if flags & BuildFlag.PREFER_FAST_BUILD else Method.BINNED
    improved = bool(flags & BuildFlag.PREFER_FAST_TRACE)
    small = bool(flags & BuildFlag.MINIMIZE_MEMORY)
    updatable = bool(flags & BuildFlag.ALLOW_UPDATE)
    if kind is AccelerationStructureType.TOP_LEVEL:
        size, leaf = layout.INSTANCE_LEAF.itemsize, 4 if small else 1
        return BuildPlan(leaf, 1, size, 1 << 14, method, updatable=updatable, improved_leaf=leaf if improved else 0)
    elements = 3 if small else 2
    size = layout.INDEXED_PACK.itemsize if small else layout.TRIANGLE_PACK.itemsize
    if procedural:
        size = layout.BOX_PACK.itemsize
    return BuildPlan(
        4 * elements, 4, size, 1 << 16, method, indexed=small and not procedural, updatable=updatable,
        improved_leaf=elements if improved else 0,
    )  # fmt: skip
