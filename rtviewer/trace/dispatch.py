"""The border between requests and kernels: validate, canonicalise, call, echo.

A Dispatcher turns byte views into a table of base addresses once; kernels follow only those. It keeps the structures
alive, may be used by several threads at once, and every call traces its own rays only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.layout import STATE_DEHYDRATED, SectionKind
from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import GeometryFlag, InstanceFlag, PipelineFlag, RayFlag
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.programs import ProgramTable
from rtviewer.dxr.rules import Opacity, check_ray_flags, effective_opacity, require
from rtviewer.dxr.verdicts import Counter
from rtviewer.errors import InvalidInputError, violation
from rtviewer.scene.material import GeometryMaterials
from rtviewer.trace.materials import material_rows
from rtviewer.trace.packets import (
    FEWEST_RAYS,
    PacketCall,
    PacketRules,
    ended_by_any_hit,
    go_together,
    may_walk_in_packets,
    only_hit_or_miss,
)
from rtviewer.trace.program_faults import check_programs, raise_fault
from rtviewer.trace.request import EVENT, Hits, RayBatch, TraceResult, TraceSettings, Walk
from rtviewer.trace.slots import Slots

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
        self,
        tlas: Structure,
        blases: Mapping[int, Structure],
        profile: Profile = DEFAULT_PROFILE,
        materials: Mapping[int, GeometryMaterials] | None = None,
    ) -> None:
        """``materials``: shader resources of bottom levels by address, one entry a geometry; without, no mask."""
        self.tlas = tlas
        self.profile = profile
        self.materials: Mapping[int, GeometryMaterials] = materials or {}
        self._used = self._resolve(blases)
        self._asks_shaders: dict[int, bool] = {}
        self._arguments_of: dict[tuple[Any, ...], tuple[ProgramTable, tuple[NDArray[Any], ...]]] = {}
        self._packets: tuple[tuple[NDArray[Any], ...] | None, tuple[bool, bool], PacketCall | None]
        self._packets = None, (False, False), None

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
            leaves = _leaf_section(blas)
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
        _put(world, state.WORLD_ONLY_LEAF, self._only_leaf())
        reach = self.tlas.header["max_abs"], self.tlas.header["condition"]
        world[state.WORLD_REACH :][:8].view(np.float32)[:] = reach
        masks, kept = material_rows(self._used, self.materials)
        _put(world, state.WORLD_MATERIALS, masks)
        return world, rows, instance_blas.view(np.uint8), *kept

    def _only_leaf(self) -> int:
        """Address of the leaf of the only instance that the top level holds, if its box there holds all of it; else 0.

        A structure from outside, or one whose bottom level has been updated since, may have a smaller box. Then rays
        that miss the box must miss what is beside it.
        """
        nodes, leaves = self.tlas.nodes, self.tlas.section(SectionKind.INSTANCE_LEAVES)
        if len(nodes) != 1 or len(leaves) != 1:
            return 0
        desc = self.tlas.instance_descs[int(leaves[0]["instance"])]
        blas = self._used.get(int(desc["AccelerationStructure"]))
        if blas is None or not len(blas.nodes):
            return 0
        root, lane = blas.nodes[0], int(np.flatnonzero(nodes[0]["child"])[0])
        low = np.array([root[f"min_{axis}"].min() for axis in "xyz"], np.float64)
        high = np.array([root[f"max_{axis}"].max() for axis in "xyz"], np.float64)
        corners = np.where((np.arange(8)[:, None] >> np.arange(3)) & 1, high, low)
        matrix = desc["Transform"].astype(np.float64)
        with np.errstate(all="ignore"):
            placed = corners @ matrix[:, :3].T + matrix[:, 3]
        outer_low = np.array([nodes[0][f"min_{axis}"][lane] for axis in "xyz"], np.float64)
        outer_high = np.array([nodes[0][f"max_{axis}"][lane] for axis in "xyz"], np.float64)
        is_inside = bool((placed >= outer_low).all() and (placed <= outer_high).all())
        return leaves.ctypes.data if is_inside else 0

    @cached_property
    def stack_size(self) -> int:
        """Entries a walk can need: seven siblings and one child per level, and the two roots."""
        deepest = max((int(b.header["depth"]) for b in self._used.values()), default=0)
        return 8 * (int(self.tlas.header["depth"]) + deepest) + 16

    def trace(self, rays: RayBatch, settings: TraceSettings, *, counters: bool = False) -> TraceResult:
        """Trace every ray of the batch on the calling thread; the GIL is released meanwhile.

        An x-ray always counts: its counters are all that it has to say.
        Rays that break RAY-2 or RAY-3 are marked invalid and miss; infinite origins or directions miss (RAY-5).

        Raises InvalidInputError for an illegal flag word (RF-*), with PipelineFlag bits or-ed in (RF-6), or a program
        number that does not exist.
        """
        return self._run(rays, settings, counters or settings.x_ray, None)[0]

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
        """The result, and with a log, which needs counters, the number of events after each ray."""
        from rtviewer.kernels import state

        count = len(rays)
        arguments = self._arguments(settings, count, inline=decisions is not None)
        if not counters:
            call = self._packet_call(settings, arguments) if len(rays) >= FEWEST_RAYS else None
            if call is not None and go_together(rays.direction):
                hits, seconds = call.trace(rays)
                return TraceResult(hits, None, settings, seconds), np.zeros(0, np.int64)
            if call is not None and settings.hit_only:  # any hit answers
                arguments = ended_by_any_hit(arguments)
        columns = (
            _rows(rays.origin, (count, 3)), _rows(rays.direction, (count, 3)),
            _rows(rays.t_min, (count,)), _rows(rays.t_max, (count,)),
        )  # fmt: skip
        hits = _empty_hits(count)
        ends = np.zeros(count if log is not None else 0, np.int64)
        batch = _batch_block(columns, arguments, hits, ends)
        counted = np.zeros((count, len(Counter)), np.int32) if counters else None
        table = settings.hit_groups
        records = table.rows_with(settings.programs) if table is not None else np.zeros((0, 4), np.int32)
        programs = np.array([own.address for own in settings.programs.programs], np.int64)
        world = self._world_of(settings, records, programs)
        self._put_parts(world, arguments[0], settings, counters=counters)
        start = time.perf_counter()
        if counted is not None:
            self._trace_alone(world, batch, counted, log, decisions)
        else:
            self._trace_side_by_side(world, batch, count)
        seconds = time.perf_counter() - start
        del records, programs  # the world pointed to them
        fault, ray = (int(batch[offset // 8]) for offset in (state.BATCH_FAULT, state.BATCH_FAULT_RAY))
        raise_fault(ray, fault, settings.programs)
        if settings.hit_only:
            hits = only_hit_or_miss(hits.hit, hits.invalid, columns[3])
        return TraceResult(hits, counted, settings, seconds), ends

    def _trace_alone(
        self,
        world: NDArray[np.uint8],
        batch: NDArray[np.int64],
        counted: NDArray[np.int32],
        log: NDArray[np.int64] | None,
        decisions: NDArray[np.float32] | None,
    ) -> None:
        """Ray after ray, with counters."""
        from rtviewer.kernels import state
        from rtviewer.kernels.traverse import trace_rays

        walk, arrays = self._walk_block()
        if decisions is not None:
            _put(walk, state.QUERY_DECISIONS, decisions.ctypes.data)
            _put(walk, state.QUERY_DECIDED, len(decisions))
        trace_rays(
            world.ctypes.data, batch.ctypes.data, counted.ctypes.data, 0 if log is None else log.ctypes.data,
            walk.ctypes.data, 0, len(counted),
        )  # fmt: skip
        del arrays  # the walk pointed to them

    def _trace_side_by_side(self, world: NDArray[np.uint8], batch: NDArray[np.int64], count: int) -> None:
        """Many rays at a time, without counters."""
        from rtviewer.kernels.stream import trace_stream

        slots = Slots(self.stack_size)
        trace_stream(world.ctypes.data, batch.ctypes.data, slots.address, 0, count)

    @cached_property
    def _packet_rules(self) -> PacketRules:
        return PacketRules(self.tlas, self._used)

    def _packet_call(self, settings: TraceSettings, arguments: tuple[NDArray[Any], ...]) -> PacketCall | None:
        """What traces packets of rays (``trace.packets``) with these arguments; None where they may not be used."""
        if settings.hit_groups is not None:
            return None
        known, known_modes, call = self._packets
        modes = settings.hit_only, settings.repeat_calls
        if known is not arguments or known_modes != modes:  # _arguments keeps those that are made of the same
            call = None
            if may_walk_in_packets(self._packet_rules, arguments, settings):
                world = self._world[0].copy()
                self._put_parts(world, arguments[0], settings, counters=False)
                asks = self._packet_rules.meets(int(arguments[0][0]), int(arguments[1][0]))[1]
                call = PacketCall(arguments, world, self._packet_rules.identities, self.stack_size, settings, asks=asks)
            self._packets = arguments, modes, call
        return call

    def _walk_block(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The block of a walk, and the arrays of its stack."""
        from rtviewer.kernels import state

        room = self.stack_size + state.STACK_SLACK
        walk, arrays = np.zeros(state.WALK_SIZE, np.uint8), np.empty(20 * room, np.uint8)
        places = arrays.ctypes.data
        _put(walk, state.STACK_PLACES, places)
        _put(walk, state.STACK_REFERENCES, places + 8 * room)
        _put(walk, state.STACK_ENTRIES, places + 12 * room)
        _put(walk, state.STACK_EXITS, places + 16 * room)
        return walk, arrays

    def _world_of(
        self, settings: TraceSettings, records: NDArray[np.int32], programs: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        """The world block with the tables of a call; calls on other threads may have others."""
        from rtviewer.kernels import state

        table = settings.hit_groups
        world = self._world[0].copy()
        _put(world, state.WORLD_RECORDS, records.ctypes.data)
        _put(world, state.WORLD_RECORD_COUNT, len(records) if table is not None else -1)
        _put(world, state.WORLD_RECORD_STEP, 0 if table is not None and table.stride == 0 else 1)
        _put(world, state.WORLD_PROGRAMS, programs.ctypes.data)
        _put(world, state.WORLD_PROGRAM_COUNT, len(programs))
        _put(world, state.WORLD_REPORT, settings.programs.report)
        _put(world, state.WORLD_REPEAT, int(settings.repeat_calls))
        return world

    def _put_parts(
        self, world: NDArray[np.uint8], flags: NDArray[np.uint32], settings: TraceSettings, *, counters: bool
    ) -> None:
        """Addresses of the parts of the walk that this call can need; what it cannot need is not compiled."""
        from rtviewer.kernels import part_library, state, stream

        kind = part_library.COUNTING if counters else part_library.PLAIN
        if counters:
            _put(world, state.WORLD_WALK_LEAVES, part_library.address_of(part_library.counting_leaves))
        else:
            _put(world, state.WORLD_WALK_SLOTS, part_library.address_of(stream.walk_slots))
            if SectionKind.BOX_PACKS in self._leaf_sections:
                _put(world, state.WORLD_TEST_BOXES, part_library.address_of(part_library.plain_boxes))
        if settings.hit_groups is not None or any(
            self._may_ask_shaders(int(word)) for word in (flags if len(flags) == 1 else np.unique(flags))
        ):
            _put(world, state.WORLD_OFFER, part_library.address_of(part_library.OFFERS[kind]))

    def _may_ask_shaders(self, ray_flags: int) -> bool:
        """Whether rays with these flags can meet something else than opaque triangles, and so need a program."""
        known = self._asks_shaders.get(ray_flags)
        if known is None:
            from rtviewer.kernels.state import X_RAY

            word = RayFlag(ray_flags & ~X_RAY)
            known = SectionKind.BOX_PACKS in self._leaf_sections or any(
                effective_opacity(GeometryFlag(geometry), InstanceFlag(instance), word) is Opacity.NON_OPAQUE
                for geometry, instance in self._opacity_flags
            )
            self._asks_shaders[ray_flags] = known
        return known

    @cached_property
    def _leaf_sections(self) -> frozenset[SectionKind]:
        return frozenset(_leaf_section(blas) for blas in self._used.values())

    @cached_property
    def _opacity_flags(self) -> list[tuple[int, int]]:
        """Flags of geometry and of instance that may meet."""
        instances = np.unique(self.tlas.instance_descs["InstanceContributionAndFlags"] >> 24)
        geometries = {int(flag) for blas in self._used.values() for flag in np.unique(blas.geometries["flags"])}
        return [(geometry, int(instance)) for geometry in geometries for instance in instances]

    def _arguments(self, settings: TraceSettings, count: int, *, inline: bool) -> tuple[NDArray[Any], ...]:
        """The arguments of each ray as (1,) or (n,) arrays, in the order of the batch block."""
        values = (
            settings.ray_flags, settings.mask, settings.any_hit, settings.intersection, settings.ray_contribution,
            settings.multiplier, settings.report_t,
        )  # fmt: skip
        if any(isinstance(value, np.ndarray) for value in values):
            return self._checked_arguments(settings, count, inline=inline)
        # Small batches would spend their time here.
        key = (*values, settings.pipeline_flags, settings.x_ray, id(settings.programs), inline)
        known = self._arguments_of.get(key)
        if known is None:
            known = settings.programs, self._checked_arguments(settings, count, inline=inline)
            self._arguments_of = {key: known}  # one: callers on other threads read the old one or the new one
        return known[1]

    def _checked_arguments(self, settings: TraceSettings, count: int, *, inline: bool) -> tuple[NDArray[Any], ...]:
        skips = settings.pipeline_flags & (PipelineFlag.SKIP_TRIANGLES | PipelineFlag.SKIP_PROCEDURAL_PRIMITIVES)
        flags = per_ray(settings.ray_flags, count, np.uint32) | np.uint32(int(skips))  # PF-1
        for word in np.unique(flags):
            require(check_ray_flags(RayFlag(int(word)), self.profile, inline=inline), "TraceRay")
        if settings.x_ray:
            from rtviewer.kernels.state import X_RAY

            flags = flags | np.uint32(X_RAY)
        any_hit = per_ray(settings.any_hit, count, np.uint32)
        intersection = per_ray(settings.intersection, count, np.uint32)
        check_programs(any_hit, intersection, settings.programs, inline=inline)
        return (
            flags,
            per_ray(settings.mask, count, np.uint32),
            any_hit,
            intersection,
            per_ray(settings.ray_contribution, count, np.uint32),
            per_ray(settings.multiplier, count, np.uint32),
            per_ray(settings.report_t, count, np.float32),
        )


def _leaf_section(blas: Structure) -> SectionKind:
    if blas.is_procedural:
        return SectionKind.BOX_PACKS
    return SectionKind.INDEXED_PACKS if blas.is_indexed else SectionKind.TRIANGLE_PACKS


def _empty_hits(count: int) -> Hits:
    return Hits(
        np.empty(count, np.bool_), np.empty(count, np.float32), np.empty(count, np.int32), np.empty(count, np.int32),
        np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int64),
        np.empty((count, 2), np.float32), np.empty(count, np.int64), np.empty(count, np.bool_),
    )  # fmt: skip


def _batch_block(
    columns: tuple[NDArray[np.float32], ...],
    arguments: tuple[NDArray[Any], ...],
    hits: Hits,
    ends: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The batch block of ``kernels.state``: where the kernels find rays and arguments, and leave results."""
    from rtviewer.kernels import state

    batch = np.zeros(state.BATCH_SIZE // 8, np.int64)

    def point(offset: int, array: NDArray[Any]) -> None:
        batch[offset // 8] = array.__array_interface__["data"][0]

    for number, column in enumerate(columns):
        point(state.BATCH_ORIGIN + 8 * number, column)
    for number, array in enumerate(arguments):
        point(state.BATCH_FLAGS + 16 * number, array)
        batch[(state.BATCH_FLAGS + 16 * number) // 8 + 1] = array.itemsize if len(array) > 1 else 0
    point(state.BATCH_HIT, hits.hit)
    point(state.BATCH_INVALID, hits.invalid)
    point(state.BATCH_FOUND_T, hits.t)
    point(state.BATCH_INSTANCE_INDEX, hits.instance_index)
    point(state.BATCH_GEOMETRY_INDEX, hits.geometry_index)
    point(state.BATCH_PRIMITIVE_INDEX, hits.primitive_index)
    point(state.BATCH_HIT_KIND, hits.hit_kind)
    point(state.BATCH_ATTRIBUTES, hits.attributes)
    point(state.BATCH_INSTANCE_ID, hits.instance_id)
    point(state.BATCH_HIT_GROUP, hits.hit_group_index)
    point(state.BATCH_LOG_END, ends)
    return batch


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
    return np.ascontiguousarray(array, np.float32)
