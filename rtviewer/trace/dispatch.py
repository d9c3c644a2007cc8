"""The border between requests and kernels: validate, canonicalise, call, echo.

A Dispatcher turns byte views into a table of base addresses once; kernels follow only those. It keeps the structures
alive, may be used by several threads at once, and every call traces its own rays only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import GeometryFlag, PipelineFlag, RayFlag
from rtviewer.dxr.layouts import low_24
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.dxr.rules import check_ray_flags, require
from rtviewer.dxr.verdicts import Counter
from rtviewer.errors import InvalidInputError, violation
from rtviewer.trace.request import EVENT, Hits, RayBatch, TraceResult, TraceSettings, Walk

if TYPE_CHECKING:
    from rtviewer.kernels.traverse import Arguments, Found, Rays, Stack, World

ALL_KINDS = 0xFF


def trace(
    tlas: Structure,
    blases: Mapping[int, Structure],
    rays: RayBatch,
    settings: TraceSettings,
    *,
    counters: bool = False,
    profile: Profile = DEFAULT_PROFILE,
) -> TraceResult:
    """Trace rays against a top level whose bottom levels live at the addresses of ``blases``. See Dispatcher.trace."""
    return Dispatcher(tlas, blases, profile).trace(rays, settings, counters=counters)


class Dispatcher:
    """Traces rays against one top-level structure.

    Raises InvalidInputError when an instance refers to an address where no bottom-level structure lives (BLD-10).
    """

    def __init__(
        self, tlas: Structure, blases: Mapping[int, Structure], profile: Profile = DEFAULT_PROFILE
    ) -> None:
        self.tlas = tlas
        self.profile = profile
        self._used = self._resolve(blases)
        descs = tlas.instance_descs
        self._instance_id = low_24(descs["InstanceIDAndMask"]).astype(np.int64)
        self._contribution = low_24(descs["InstanceContributionAndFlags"]).astype(np.int64)

    def _resolve(self, blases: Mapping[int, Structure]) -> dict[int, Structure]:
        used: dict[int, Structure] = {}
        for address in np.unique(self.tlas.instance_descs["AccelerationStructure"]):
            if address == 0:
                continue
            blas = blases.get(int(address))
            if blas is None or blas.is_top_level:
                field = f"{self.tlas.name or 'TLAS'}.AccelerationStructure"
                text = "an instance refers to an address where no bottom-level structure lives"
                raise InvalidInputError([violation("BLD-10", text, field=field, value=f"{int(address):#x}")], "trace")
            used[int(address)] = blas
        return used

    @cached_property
    def _world(self) -> World:
        from rtviewer.kernels import state
        from rtviewer.kernels.traverse import World

        def base(structure: Structure, kind: SectionKind) -> int:
            return structure.data.ctypes.data + structure.section_offset(kind)

        bottom = np.zeros((max(len(self._used), 1), state.BLAS_ROW_SIZE), np.int64)
        reach = np.zeros(len(bottom), np.float32)
        for row, blas in enumerate(self._used.values()):
            triangles = len(blas.triangle_packs) > 0 or not len(blas.box_packs)
            opaque = (blas.geometries["flags"] & int(GeometryFlag.OPAQUE)) != 0
            active = blas.geometries["active_count"] > 0
            bottom[row, state.BLAS_NODE_ADDRESS] = base(blas, SectionKind.NODES)
            bottom[row, state.BLAS_LEAF_ADDRESS] = base(
                blas, SectionKind.TRIANGLE_PACKS if triangles else SectionKind.BOX_PACKS
            )
            bottom[row, state.BLAS_GEOMETRY_ADDRESS] = base(blas, SectionKind.GEOMETRIES)
            bottom[row, state.BLAS_GEOMETRY_COUNT] = len(blas.geometries)
            bottom[row, state.BLAS_NODE_COUNT] = len(blas.nodes)
            bottom[row, state.BLAS_IS_TRIANGLES] = triangles
            bottom[row, state.BLAS_HAS_OPAQUE] = (opaque & active).any()
            bottom[row, state.BLAS_HAS_NON_OPAQUE] = (~opaque & active).any()
            reach[row] = blas.header["max_abs"]
        top = np.zeros(state.TOP_ROW_SIZE, np.int64)
        top[state.TOP_NODE_ADDRESS] = base(self.tlas, SectionKind.NODES)
        top[state.TOP_LEAF_ADDRESS] = base(self.tlas, SectionKind.INSTANCE_LEAVES)
        top[state.TOP_DESC_ADDRESS] = base(self.tlas, SectionKind.INSTANCE_DESCS)
        top[state.TOP_NODE_COUNT] = len(self.tlas.nodes)
        addresses = self.tlas.instance_descs["AccelerationStructure"]
        known = np.array(list(self._used), np.uint64)  # np.unique gave them sorted
        rows = np.searchsorted(known, addresses).astype(np.int32)
        instance_blas = np.where(addresses == 0, np.int32(-1), rows)
        top_reach = np.array([self.tlas.header["max_abs"], self.tlas.header["condition"]], np.float32)
        return World(top, top_reach, bottom, reach, np.ascontiguousarray(instance_blas, np.int32))

    @cached_property
    def stack_size(self) -> int:
        """Entries a walk can need: seven siblings and one child per level, and the two roots."""
        deepest = max((int(b.header["depth"]) for b in self._used.values()), default=0)
        return 8 * (int(self.tlas.header["depth"]) + deepest) + 16

    def trace(self, rays: RayBatch, settings: TraceSettings, *, counters: bool = False) -> TraceResult:
        """Trace every ray of the batch on the calling thread; the GIL is released meanwhile.

        Rays that break RAY-2 or RAY-3 are marked invalid and miss; infinite origins or directions miss (RAY-5).

        Raises InvalidInputError for an illegal flag word (RF-*), with PipelineFlag bits or-ed in (RF-6), or a program
        number that does not exist.
        """
        return self._run(rays, settings, counters, None)

    def walk(
        self, rays: RayBatch, settings: TraceSettings, *, limit: int = 1_000_000, kinds: int = ALL_KINDS
    ) -> Walk:
        """Trace and log. ``limit``: most events in all; ``kinds``: bit k set where events of EventKind k are wanted."""
        from rtviewer.kernels.events import Log

        count = len(rays)
        log = Log(
            np.zeros(limit, EVENT),
            np.zeros(1, np.int64),
            np.zeros(count + 1, np.int64),
            np.zeros(1, np.int64),
            np.full(1, kinds, np.int64),
        )
        result = self._run(rays, settings, True, log)
        events = log.rows[: int(log.cursor[0])].copy()
        truncated = np.zeros(count, np.bool_)
        if log.lost[0]:
            truncated = log.offsets[1:] >= limit
        return Walk(events, log.offsets, truncated, result)

    def _run(self, rays: RayBatch, settings: TraceSettings, counters: bool, log: Any) -> TraceResult:
        from rtviewer.kernels.traverse import Found, Rays, trace_rays

        count = len(rays)
        arguments = self._arguments(settings, count)
        invalid, skip = _invalid_rays(rays)
        prepared = Rays(
            _rows(rays.origin, (count, 3)), _rows(rays.direction, (count, 3)),
            _rows(rays.t_min, (count,)), _rows(rays.t_max, (count,)), skip,
        )  # fmt: skip
        found = Found(
            np.empty(count, np.float32), np.empty((count, 4), np.int32), np.empty((count, 2), np.float32)
        )
        counted = np.zeros((count, len(Counter)), np.int32) if counters else None
        world = self._world
        start = time.perf_counter()
        trace_rays(world, prepared, arguments, found, counted, log, self._stack(), 0, count)
        seconds = time.perf_counter() - start
        return TraceResult(self._hits(found, invalid, settings), counted, settings, seconds)

    def _stack(self) -> Stack:
        from rtviewer.kernels.traverse import Stack

        size = self.stack_size
        return Stack(
            np.empty(size, np.int32), np.empty(size, np.float32), np.empty(size, np.float32), np.empty(size, np.int64)
        )

    def _arguments(self, settings: TraceSettings, count: int) -> Arguments:
        from rtviewer.kernels.traverse import Arguments

        skips = settings.pipeline_flags & (PipelineFlag.SKIP_TRIANGLES | PipelineFlag.SKIP_PROCEDURAL_PRIMITIVES)
        flags = per_ray(settings.ray_flags, count, np.uint32) | np.uint32(int(skips))  # PF-1
        for word in np.unique(flags):
            require(check_ray_flags(RayFlag(int(word)), self.profile), "TraceRay")
        any_hit = per_ray(settings.any_hit, count, np.uint32)
        intersection = per_ray(settings.intersection, count, np.uint32)
        for name, numbers, table in (
            ("any-hit", any_hit, AnyHitProgram),
            ("intersection", intersection, IntersectionProgram),
        ):
            unknown = np.setdiff1d(numbers, [int(p) for p in table])
            if len(unknown):
                text = f"there is no {name} program {int(unknown[0])}: use 0 to {len(table) - 1}"
                raise InvalidInputError([violation("TRAV-5", text, field=name, value=int(unknown[0]))], "TraceRay")
        return Arguments(
            flags,
            per_ray(settings.mask, count, np.uint32),
            any_hit,
            intersection,
            per_ray(settings.report_t, count, np.float32),
        )

    def _hits(self, found: Found, invalid: NDArray[np.bool_], settings: TraceSettings) -> Hits:
        count = len(found.t)
        index = found.index
        hit = index[:, 0] >= 0
        instance = np.where(hit, index[:, 0], 0)
        if len(self._instance_id):
            instance_id = np.where(hit, self._instance_id[instance], -1)
            contribution = self._contribution[instance]
        else:
            instance_id = np.full(count, -1, np.int64)
            contribution = np.zeros(count, np.int64)
        ray_part = per_ray(settings.ray_contribution, count, np.uint32).astype(np.int64) & 0xF
        multiplier = per_ray(settings.multiplier, count, np.uint32).astype(np.int64) & 0xF
        record = ray_part + multiplier * index[:, 1].astype(np.int64) + contribution  # HG-1
        columns = np.ascontiguousarray(index.T)
        return Hits(
            hit, found.t, columns[0], columns[1], columns[2], columns[3],
            instance_id, found.attributes, np.where(hit, record, -1), invalid,
        )  # fmt: skip


def per_ray(value: Any, count: int, dtype: Any) -> NDArray[Any]:
    """One value, or one per ray, as a contiguous (1,) or (n,) array."""
    array = np.atleast_1d(np.asarray(value))
    if dtype is np.uint32 and array.dtype != np.uint32:
        array = array.astype(np.int64) & 0xFFFFFFFF
    array = np.ascontiguousarray(array, dtype)
    if array.shape not in ((1,), (count,)):
        raise ValueError(f"expected one value or {count}, got an array of shape {array.shape}")
    return array


def _rows(array: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
    if array.shape != shape:
        raise ValueError(f"rays: expected an array of shape {shape}, got {array.shape}")
    out = np.ascontiguousarray(array, np.float32)
    return out if out.flags.writeable else out.copy()


def _invalid_rays(rays: RayBatch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(breaks RAY-2 or RAY-3, is not to be traced)."""
    values = np.concatenate([rays.origin, rays.direction], 1)
    invalid = np.isnan(values).any(1) | np.isnan(rays.t_min) | np.isnan(rays.t_max)
    invalid |= (rays.t_min < 0) | (rays.t_min > rays.t_max)
    return invalid, invalid | np.isinf(values).any(1)
