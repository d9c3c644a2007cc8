"""What a dispatch asks and what comes back. Results echo the request, so a picture can say what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.flags import PipelineFlag, RayFlag
from rtviewer.dxr.programs import NO_PROGRAMS, AnyHitProgram, IntersectionProgram, ProgramTable
from rtviewer.dxr.shader_table import HitGroupTable
from rtviewer.dxr.verdicts import EVENT as EVENT

PerRayU32: TypeAlias = int | NDArray[np.uint32]
"""One value for all rays, or an (n,) uint32 array with one for each."""
PerRayF32: TypeAlias = float | NDArray[np.float32]


@dataclass(frozen=True)
class RayBatch:
    """n rays: ``origin`` and ``direction`` (n, 3) float32, ``t_min`` and ``t_max`` (n,) float32. C-contiguous."""

    origin: NDArray[np.float32]
    direction: NDArray[np.float32]
    t_min: NDArray[np.float32]
    t_max: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.origin)

    @classmethod
    def make(
        cls, origin: object, direction: object, t_min: PerRayF32 = 0.0, t_max: PerRayF32 = float("inf")
    ) -> RayBatch:
        """From anything array-like; scalars of the interval are repeated."""
        origins = np.ascontiguousarray(np.atleast_2d(np.asarray(origin, np.float32)))
        directions = np.ascontiguousarray(np.atleast_2d(np.asarray(direction, np.float32)))
        n = len(origins)
        return cls(
            origins,
            directions,
            np.ascontiguousarray(np.broadcast_to(np.asarray(t_min, np.float32), (n,))),
            np.ascontiguousarray(np.broadcast_to(np.asarray(t_max, np.float32), (n,))),
        )

    def part(self, first: int, last: int) -> RayBatch:
        return RayBatch(
            self.origin[first:last], self.direction[first:last], self.t_min[first:last], self.t_max[first:last]
        )


@dataclass(frozen=True)
class TraceSettings:
    """Everything of a TraceRay call but the rays; each value is for all rays or per ray.

    ``ray_flags``: legal words only, checked by the dispatch. ``mask``: 32 bits, the low 8 count (MASK-2).
    ``any_hit`` and ``intersection`` are program numbers (``dxr.programs``); ``report_t`` is what
    IntersectionProgram.REPORT_T reports. The next three are TraceRay's shader-table arguments (HG-1, HG-2).
    ``hit_groups``: the table that they index; None where every geometry has all shaders. ``programs``: a user's, that
    numbers from FIRST_USER_PROGRAM on and names in records mean. ``repeat_calls``: the debug switch that calls any-hit
    and intersection programs twice for geometry without NO_DUPLICATE_ANYHIT_INVOCATION (AH-7, PROC-8).
    ``x_ray``: find out what lies along the whole ray. Every hit that would be committed were nothing nearer is counted
    as a commit and logged as SURFACE_PASSED, and the walk goes on; so each ray misses, and its counters and log tell.
    ``hit_only``: only whether something was hit is wanted, as of shadow rays: of a hit, too, all columns of Hits but
    ``hit`` and ``invalid`` say what they say of a miss.
    """

    ray_flags: PerRayU32 | RayFlag = RayFlag.NONE
    mask: PerRayU32 = 0xFF
    any_hit: PerRayU32 = AnyHitProgram.ACCEPT
    intersection: PerRayU32 = IntersectionProgram.SPHERE
    report_t: PerRayF32 = 0.0
    ray_contribution: PerRayU32 = 0
    multiplier: PerRayU32 = 0
    miss_index: PerRayU32 = 0
    pipeline_flags: PipelineFlag = PipelineFlag.NONE
    hit_groups: HitGroupTable | None = None
    x_ray: bool = False
    programs: ProgramTable = NO_PROGRAMS
    repeat_calls: bool = False
    hit_only: bool = False


@dataclass(frozen=True)
class Hits:
    """One row per ray, (n,) unless said otherwise.

    ``hit`` bool. ``t`` float32, the ray's t_max where missed. ``instance_index``, ``geometry_index``,
    ``primitive_index``, ``hit_kind`` int32, -1 where missed. ``instance_id`` int64, -1 where missed.
    ``attributes`` (n, 2) float32: barycentrics of a triangle (TRI-1), (primitive index + 0.25, hit kind) of a
    procedural, 0 where missed. ``hit_group_index`` int64 by HG-1, -1 where missed. ``invalid`` bool: the ray breaks
    RAY-2 or RAY-3 and was not traced (RAY-4).
    """

    hit: NDArray[np.bool_]
    t: NDArray[np.float32]
    instance_index: NDArray[np.int32]
    geometry_index: NDArray[np.int32]
    primitive_index: NDArray[np.int32]
    hit_kind: NDArray[np.int32]
    instance_id: NDArray[np.int64]
    attributes: NDArray[np.float32]
    hit_group_index: NDArray[np.int64]
    invalid: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.hit)


HIT_FIELDS: tuple[tuple[str, Any, Any, tuple[int, ...]], ...] = (
    ("hit", np.bool_, False, ()),
    ("t", np.float32, np.inf, ()),
    ("instance_index", np.int32, -1, ()),
    ("geometry_index", np.int32, -1, ()),
    ("primitive_index", np.int32, -1, ()),
    ("hit_kind", np.int32, -1, ()),
    ("instance_id", np.int64, -1, ()),
    ("attributes", np.float32, 0, (2,)),
    ("hit_group_index", np.int64, -1, ()),
    ("invalid", np.bool_, False, ()),
)
"""Fields of Hits: name, dtype, value where missed, axes after the pixel's."""


@dataclass(frozen=True)
class TraceResult:
    """Hits, counters when asked for, and the echo of what was asked.

    ``counters`` (n, len(Counter)) int32 or None. ``seconds``: wall time inside the kernels.
    """

    hits: Hits
    counters: NDArray[np.int32] | None
    settings: TraceSettings
    seconds: float


@dataclass(frozen=True)
class Walk:
    """The logs of n rays: events of ray i are ``events[offsets[i]:offsets[i + 1]]``, in the order made.

    ``truncated`` (n,) bool: the log hit its limit and the rest of that ray's events is missing.
    """

    events: NDArray[np.void]
    offsets: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    result: TraceResult
