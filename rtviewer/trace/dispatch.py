"""The border between requests and kernels: validate, canonicalise, call, echo.

A Dispatcher turns byte views into a table of base addresses once; kernels follow only those. It keeps the structures
alive, may be used by several threads at once, and every call traces its own rays only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.layout import STATE_DEHYDRATED, SectionKind
from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import GeometryFlag, PipelineFlag, RayFlag
from rtviewer.dxr.layouts import low_24
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.programs import QUERY, AnyHitProgram, IntersectionProgram
from rtviewer.dxr.rules import check_ray_flags, require
from rtviewer.dxr.shader_table import hit_group_index
from rtviewer.dxr.verdicts import Counter
from rtviewer.errors import InvalidInputError, violation
from rtviewer.trace.packets import FEWEST_RAYS, PacketCall, PacketRules, only_hit_or_miss, packet_call
from rtviewer.trace.request import EVENT, Hits, RayBatch, TraceResult, TraceSettings, Walk

if TYPE_CHECKING:
    from rtviewer.kernels.traverse import Arguments, Found

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

    def __init__(self, tlas: Structure, blases: Mapping[int, Structure], profile: Profile = DEFAULT_PROFILE) -> None:
        self.tlas = tlas
        self.profile = profile
        self._used = self._resolve(blases)
        self._checked: tuple[TraceSettings, Arguments] | None = None
        self._packets: tuple[TraceSettings | None, PacketCall | None] = None, None
        descs = tlas.instance_descs
        self._instance_id = low_24(descs["InstanceIDAndMask"]).astype(np.int64)
        self._contribution = low_24(descs["InstanceContributionAndFlags"]).astype(np.int64)

    @property
    def blases(self) -> dict[int, Structure]:
        """The bottom levels that instances refer to, by address."""
        return self._used

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
            if int(blas.header["state"]) == STATE_DEHYDRATED:
                text = "a dehydrated structure must be rehydrated before it is traced"
                field = f"{self.tlas.name or 'TLAS'}.AccelerationStructure"
                raise InvalidInputError([violation("XB-5", text, field=field, value=f"{int(address):#x}")], "trace")
            used[int(address)] = blas
        return used

    @cached_property
    def _world(self) -> tuple[NDArray[np.uint8], ...]:
        """The world block of ``kernels.state`` and, to keep them alive, the tables that it points to."""
        from rtviewer.kernels import state

        def base(structure: Structure, kind: SectionKind) -> int:
            return structure.data.ctypes.data + structure.section_offset(kind)

        rows = np.zeros((max(len(self._used), 1), state.BLAS_ROW_SIZE), np.uint8)
        for row, blas in zip(rows, self._used.values(), strict=False):
            triangles = not blas.is_procedural
            leaves = SectionKind.INDEXED_PACKS if blas.is_indexed else SectionKind.TRIANGLE_PACKS
            if blas.is_procedural:
                leaves = SectionKind.BOX_PACKS
            if blas.is_indexed:
                _put(row, state.BLAS_INDICES, base(blas, SectionKind.INDICES))
                _put(row, state.BLAS_VERTICES, base(blas, SectionKind.VERTICES))
            opaque = (blas.geometries["flags"] & int(GeometryFlag.OPAQUE)) != 0
            active = blas.geometries["active_count"] > 0
            _put(row, state.BLAS_NODES, base(blas, SectionKind.NODES))
            _put(row, state.BLAS_LEAVES, base(blas, leaves))
            _put(row, state.BLAS_GEOMETRIES, base(blas, SectionKind.GEOMETRIES))
            _put(row, state.BLAS_GEOMETRY_COUNT, len(blas.geometries))
            _put(row, state.BLAS_NODE_COUNT, len(blas.nodes))
            _put(row, state.BLAS_IS_TRIANGLES, int(triangles))
            _put(row, state.BLAS_HAS_OPAQUE, int((opaque & active).any()))
            _put(row, state.BLAS_HAS_NON_OPAQUE, int((~opaque & active).any()))
            row[state.BLAS_REACH :][:4].view(np.float32)[:] = blas.header["max_abs"]
        addresses = self.tlas.instance_descs["AccelerationStructure"]
        known = np.array(list(self._used), np.uint64)  # np.unique gave them sorted
        instance_blas = np.where(addresses == 0, -1, np.searchsorted(known, addresses)).astype(np.int32)
        world = np.zeros(state.WORLD_SIZE, np.uint8)
        _put(world, state.WORLD_NODES, base(self.tlas, SectionKind.NODES))
        _put(world, state.WORLD_LEAVES, base(self.tlas, SectionKind.INSTANCE_LEAVES))
        _put(world, state.WORLD_DESCS, base(self.tlas, SectionKind.INSTANCE_DESCS))
        _put(world, state.WORLD_NODE_COUNT, len(self.tlas.nodes))
        _put(world, state.WORLD_BLASES, rows.ctypes.data)
        _put(world, state.WORLD_INSTANCE_BLAS, instance_blas.ctypes.data)
        reach = self.tlas.header["max_abs"], self.tlas.header["condition"]
        world[state.WORLD_REACH :][:8].view(np.float32)[:] = reach
        return world, rows, instance_blas.view(np.uint8)

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
        return self._run(rays, settings, counters, None)[0]

    def walk(self, rays: RayBatch, settings: TraceSettings, *, limit: int = 1_000_000, kinds: int = ALL_KINDS) -> Walk:
        """Trace and log. ``limit``: most events in all; ``kinds``: bit k set where events of EventKind k are wanted."""
        return self._walk(rays, settings, limit, kinds, None)

    def _walk(
        self,
        rays: RayBatch,
        settings: TraceSettings,
        limit: int,
        kinds: int,
        decisions: NDArray[np.float32] | None,
    ) -> Walk:
        from rtviewer.kernels import state

        count = len(rays)
        events = np.zeros(limit, EVENT)
        log = np.array([events.ctypes.data, limit, 0, 0, kinds], np.int64)
        result, ends = self._run(rays, settings, True, log, decisions)
        written, lost = int(log[state.LOG_COUNT // 8]), int(log[state.LOG_LOST // 8])
        offsets = np.concatenate([[0], ends]).astype(np.int64)
        truncated = offsets[1:] >= limit if lost else np.zeros(count, np.bool_)
        return Walk(events[:written].copy(), offsets, truncated, result)

    def query(self, rays: RayBatch, settings: TraceSettings, decisions: NDArray[np.float32]) -> Walk:
        """One ray of an inline query (``trace.query``), up to the first candidate that is not decided.

        ``decisions`` (k,) float32: for each candidate in the order met, the t to commit or NaN. The walk is
        deterministic, so asking again with one more decision goes on where it stopped.
        """
        return self._walk(rays, settings, 1_000_000, ALL_KINDS, decisions)

    def _run(
        self,
        rays: RayBatch,
        settings: TraceSettings,
        counters: bool,
        log: NDArray[np.int64] | None,
        decisions: NDArray[np.float32] | None = None,
    ) -> tuple[TraceResult, NDArray[np.int64]]:
        """The result, and with a log the number of events after each ray."""
        from rtviewer.kernels import state
        from rtviewer.kernels.traverse import Found, Rays, trace_rays

        count = len(rays)
        if not counters and log is None and decisions is None:
            packed = self._in_packets(rays, settings)
            if packed is not None:
                return packed, np.zeros(0, np.int64)
        arguments = self._arguments(settings, count, inline=decisions is not None)
        invalid, skip = _invalid_rays(rays)
        prepared = Rays(
            _rows(rays.origin, (count, 3)), _rows(rays.direction, (count, 3)),
            _rows(rays.t_min, (count,)), _rows(rays.t_max, (count,)), skip,
        )  # fmt: skip
        found = Found(
            np.empty(count, np.float32), np.empty((count, 4), np.int32), np.empty((count, 2), np.float32),
            np.zeros(count, np.int64), np.zeros(count if log is not None else 0, np.int64),
        )  # fmt: skip
        counted = np.zeros((count, len(Counter)), np.int32) if counters else None
        walk = np.zeros(state.STACK + self.stack_size * state.ENTRY_SIZE + 64, np.uint8)
        table = settings.hit_groups
        records = table.rows if table is not None else np.zeros((0, 4), np.int32)
        world = self._world[0].copy()  # calls on other threads may have other tables
        _put(world, state.WORLD_RECORDS, records.ctypes.data)
        _put(world, state.WORLD_RECORD_COUNT, len(records) if table is not None else -1)
        _put(world, state.WORLD_RECORD_STEP, 0 if table is not None and table.stride == 0 else 1)
        if decisions is not None:
            _put(walk, state.QUERY_DECISIONS, decisions.ctypes.data)
            _put(walk, state.QUERY_DECIDED, len(decisions))
        start = time.perf_counter()
        trace_rays(
            world.ctypes.data, prepared, arguments, found, counted, log.ctypes.data if log is not None else None,
            walk.ctypes.data, 0, count,
        )  # fmt: skip
        seconds = time.perf_counter() - start
        _raise_faults(found.fault)
        hits = self._hits(found, invalid, settings)
        if settings.hit_only:
            hits = only_hit_or_miss(hits, prepared.t_max)
        return TraceResult(hits, counted, settings, seconds), found.log_end

    @cached_property
    def _packet_rules(self) -> PacketRules:
        return PacketRules(self.tlas, self._used)

    def _in_packets(self, rays: RayBatch, settings: TraceSettings) -> TraceResult | None:
        """The result by packets of rays (``trace.packets``); None where they may not be used or are no faster."""
        if len(rays) < FEWEST_RAYS:
            return None
        asked, call = self._packets
        if asked is not settings:
            arguments, identities = (
                self._arguments(settings, len(rays), inline=False),
                (self._instance_id, self._contribution),
            )
            call = packet_call(self._packet_rules, arguments, self._world[0], identities, self.stack_size, settings)
            if _is_same_for_all(settings):
                self._packets = settings, call
        if call is None:
            return None
        hits, seconds = call.trace(rays)
        return TraceResult(hits, None, settings, seconds)

    def _arguments(self, settings: TraceSettings, count: int, *, inline: bool) -> Arguments:
        """Checked and canonical; kept for the next call with the same settings where they are the same for all rays."""
        if self._checked is not None and self._checked[0] is settings and not inline:
            return self._checked[1]
        arguments = self._checked_arguments(settings, count, inline=inline)
        if not inline and _is_same_for_all(settings):
            self._checked = settings, arguments
        return arguments

    def _checked_arguments(self, settings: TraceSettings, count: int, *, inline: bool) -> Arguments:
        from rtviewer.kernels.traverse import Arguments

        skips = settings.pipeline_flags & (PipelineFlag.SKIP_TRIANGLES | PipelineFlag.SKIP_PROCEDURAL_PRIMITIVES)
        flags = per_ray(settings.ray_flags, count, np.uint32) | np.uint32(int(skips))  # PF-1
        for word in np.unique(flags):
            require(check_ray_flags(RayFlag(int(word)), self.profile, inline=inline), "TraceRay")
        any_hit = per_ray(settings.any_hit, count, np.uint32)
        intersection = per_ray(settings.intersection, count, np.uint32)
        for name, numbers, table in (
            ("any-hit", any_hit, AnyHitProgram),
            ("intersection", intersection, IntersectionProgram),
        ):
            unknown = np.setdiff1d(numbers, [QUERY] if inline else [int(p) for p in table])
            if len(unknown):
                text = f"there is no {name} program {int(unknown[0])}: use 0 to {len(table) - 1}"
                raise InvalidInputError([violation("TRAV-5", text, field=name, value=int(unknown[0]))], "TraceRay")
        return Arguments(
            flags,
            per_ray(settings.mask, count, np.uint32),
            any_hit,
            intersection,
            per_ray(settings.ray_contribution, count, np.uint32),
            per_ray(settings.multiplier, count, np.uint32),
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
        ray_part = per_ray(settings.ray_contribution, count, np.uint32).astype(np.int64)
        multiplier = per_ray(settings.multiplier, count, np.uint32).astype(np.int64)
        record = hit_group_index(ray_part, multiplier, index[:, 1].astype(np.int64), contribution)
        columns = np.ascontiguousarray(index.T)
        return Hits(
            hit, found.t, columns[0], columns[1], columns[2], columns[3],
            instance_id, found.attributes, np.where(hit, record, -1), invalid,
        )  # fmt: skip


def _is_same_for_all(settings: TraceSettings) -> bool:
    """Whether no value is an array, which could be another's for each ray and could change."""
    return not any(isinstance(getattr(settings, field.name), np.ndarray) for field in fields(settings))


def _raise_faults(faults: NDArray[np.int64]) -> None:
    """HG-4 and TRAV-5: the first ray that met a hit-group record it may not use."""
    from rtviewer.kernels import state

    bad = np.flatnonzero(faults)
    if not len(bad):
        return
    fault, record = int(faults[bad[0]]) & 0xFF, int(faults[bad[0]]) >> state.FAULT_BITS
    if fault == state.FAULT_OUTSIDE_TABLE:
        rule, text = "HG-4", "the hit-group index is outside the table"
    else:
        rule, text = "TRAV-5", "the hit group is of the other kind than the geometry (triangles or procedural)"
    text = f"ray {bad[0]}: {text}"
    section = "Hit group table indexing"
    raise InvalidInputError([violation(rule, text, field="HitGroupIndex", value=record, section=section)], "TraceRay")


def _put(block: NDArray[np.uint8], offset: int, value: int) -> None:
    block[offset : offset + 8].view(np.int64)[:] = value


def per_ray(value: Any, count: int, dtype: Any) -> NDArray[Any]:
    """One value, or one per ray, as a contiguous (1,) or (n,) array."""
    array = np.atleast_1d(np.asarray(value))
    if dtype is np.uint32 and array.dtype != np.uint32:
        wide = array.astype(np.int64)
        if len(wide) and not (wide.min() >= 0 and wide.max() <= 0xFFFFFFFF):
            bad = int(wide.min()) if wide.min() < 0 else int(wide.max())
            text = "the value does not fit into 32 bits without a sign"
            raise InvalidInputError([violation("ERR-5", text, field="TraceRay", value=bad)], "TraceRay")
        array = wide
    array = np.ascontiguousarray(array, dtype)
    if array.shape not in ((1,), (count,)):
        raise ValueError(f"expected one value or {count}, got an array of shape {array.shape}")
    return array


def _rows(array: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
    if array.shape != shape:
        raise ValueError(f"rays: expected an array of shape {shape}, got {array.shape}")
    return np.array(array, np.float32, order="C")  # a copy: kernels take writable arrays only, and callers' may not be


def _invalid_rays(rays: RayBatch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(breaks RAY-2 or RAY-3, is not to be traced)."""
    values = np.concatenate([rays.origin, rays.direction], 1)
    invalid = np.isnan(values).any(1) | np.isnan(rays.t_min) | np.isnan(rays.t_max)
    invalid |= (rays.t_min < 0) | (rays.t_min > rays.t_max)
    return invalid, invalid | np.isinf(values).any(1)
