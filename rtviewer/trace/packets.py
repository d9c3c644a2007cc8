"""When a dispatch may walk its rays in packets of 16, and that dispatch.

A packet meets candidates in another order than its rays would alone. That shows nowhere as long as no program runs that
could notice: hits are opaque (so ties go by DET-5) or any-hit programs only look at the hit (rays with ties are then
traced again alone), no hit-group table decides what runs or faults, and the first hit met is not asked for, unless
nothing is told of it but that there is one. Counters and logs tell of one ray's walk and are not made here.
"""

from __future__ import annotations

import threading
import time
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import GeometryFlag, InstanceFlag, RayFlag
from rtviewer.dxr.layouts import low_24
from rtviewer.dxr.programs import FIRST_USER_PROGRAM, AnyHitProgram
from rtviewer.dxr.rules import Opacity, effective_opacity
from rtviewer.trace.request import Hits, RayBatch, TraceSettings
from rtviewer.trace.slots import Slots

LANES = 16
FEWEST_RAYS = 8
"""Fewer are walked alone: a packet that is less than half full is no faster."""
SAMPLED_BLOCKS, SAMPLED_RAYS = 8, 64
BUILT_IN = frozenset(AnyHitProgram)
ORDERLESS = BUILT_IN - {AnyHitProgram.ACCEPT_AND_END_SEARCH, AnyHitProgram.IGNORE_ODD_PRIMITIVES_END_AT_EVEN}
"""Any-hit programs that say the same of a hit whatever was hit before, and leave the rest of the search alone."""
COLUMNS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "hit": (np.dtype(np.bool_), ()),
    "t": (np.dtype(np.float32), ()),
    "instance_index": (np.dtype(np.int32), ()),
    "geometry_index": (np.dtype(np.int32), ()),
    "primitive_index": (np.dtype(np.int32), ()),
    "hit_kind": (np.dtype(np.int32), ()),
    "instance_id": (np.dtype(np.int64), ()),
    "attributes": (np.dtype(np.float32), (2,)),
    "hit_group_index": (np.dtype(np.int64), ()),
    "invalid": (np.dtype(np.bool_), ()),
}
"""Columns of Hits in order: dtype, axes after the ray's."""
SIZES = [np.dtype(dtype).itemsize * (axes[0] if axes else 1) for dtype, axes in COLUMNS.values()]
STARTS = np.cumsum([0, *SIZES[:-1]], dtype=np.int64)
"""Where each begins in a block for all, times the rays there is room for."""
ROW_SIZE = sum(SIZES)
ATTRIBUTES = list(COLUMNS).index("attributes")
KEPT_CONSTANTS = 1 << 16
"""Constant columns are kept for the next call for no more rays than this."""


class PacketRules:
    """What of a top level decides whether packets may be used. Made once for a Dispatcher."""

    def __init__(self, tlas: Structure, blases: dict[int, Structure]) -> None:
        """``blases``: by address, those that instances refer to."""
        descs = tlas.instance_descs
        addresses = descs["AccelerationStructure"]
        flags = descs["InstanceContributionAndFlags"] >> 24
        masks = descs["InstanceIDAndMask"] >> 24
        kinds = np.unique(np.stack([addresses, flags, masks], 1).astype(np.uint64), axis=0)
        self._kinds = [
            (int(flag), int(mask), blases[int(address)].is_procedural, *_opacities(blases[int(address)]))
            for address, flag, mask in kinds
            if address != 0
        ]

        self.identities = (
            low_24(descs["InstanceIDAndMask"]).astype(np.int64),
            low_24(descs["InstanceContributionAndFlags"]).astype(np.int64),
        )
        """(instances,) ids and contributions."""
        self._answers: dict[tuple[int, int], tuple[bool, bool]] = {}

    def meets(self, ray_flags: int, mask: int) -> tuple[bool, bool]:
        """Whether rays with these flags and mask can meet triangles, and whether anything that is not opaque."""
        key = ray_flags, mask & 0xFF
        if key not in self._answers:
            self._answers[key] = self._meets(*key)
        return self._answers[key]

    def _meets(self, ray_flags: int, mask: int) -> tuple[bool, bool]:
        triangles = asks = False
        for instance_flags, instance_mask, procedural, has_opaque, has_non_opaque in self._kinds:
            skipped = RayFlag.SKIP_PROCEDURAL_PRIMITIVES if procedural else RayFlag.SKIP_TRIANGLES
            if mask & instance_mask == 0 or ray_flags & skipped:
                continue
            of_opaque, of_non_opaque = _opacity_table(ray_flags)[instance_flags & 0xF]
            if (has_opaque and of_opaque is Opacity.NON_OPAQUE) or (
                has_non_opaque and of_non_opaque is Opacity.NON_OPAQUE
            ):
                asks = True
            triangles = triangles or not procedural
        return triangles, asks


def _opacities(blas: Structure) -> tuple[bool, bool]:
    """Whether there is active opaque geometry, and active geometry that is not."""
    opaque = (blas.geometries["flags"] & int(GeometryFlag.OPAQUE)) != 0
    active = blas.geometries["active_count"] > 0
    return bool((opaque & active).any()), bool((~opaque & active).any())


@lru_cache(maxsize=64)
def _opacity_table(ray_flags: int) -> tuple[tuple[Opacity, Opacity], ...]:
    """For every word of instance flags: what becomes of opaque and of non-opaque geometry."""

    def of(geometry: GeometryFlag, word: int) -> Opacity:
        return effective_opacity(geometry, InstanceFlag(word), RayFlag(ray_flags))

    return tuple((of(GeometryFlag.OPAQUE, word), of(GeometryFlag.NONE, word)) for word in range(16))


def go_together(directions: NDArray[np.float32]) -> bool:
    """Whether neighbours among rays go the same way, as those of a camera do; bounces do not, and would walk alone
    after the work of grouping them. Looks at some blocks of rays only; hits do not depend on the answer."""
    count = len(directions)
    starts = np.arange(0, count, max(count // SAMPLED_BLOCKS, SAMPLED_RAYS))[:, None]
    signs = (directions[np.minimum(starts + np.arange(SAMPLED_RAYS), count - 1)] > 0) @ np.array([1, 2, 4])
    largest = (signs[:, :, None] == np.arange(8)).sum(1).max(1)
    return bool(largest.mean() >= SAMPLED_RAYS / 2)


def only_hit_or_miss(hit: NDArray[np.bool_], invalid: NDArray[np.bool_], t_max: NDArray[np.float32]) -> Hits:
    """Hits of TraceSettings.hit_only; ``t_max`` (n,) of the rays. The constant columns cannot be written to."""
    make = _constant_columns if len(hit) <= KEPT_CONSTANTS else _constant_columns.__wrapped__
    word, wide, pair = make(len(hit))
    return Hits(hit, t_max.copy(), word, word, word, word, wide, pair, wide, invalid)


@lru_cache(maxsize=8)
def _constant_columns(count: int) -> tuple[NDArray[Any], ...]:
    """(n,) int32 and int64 of -1, (n, 2) float32 of 0."""
    columns = np.full(count, -1, np.int32), np.full(count, -1, np.int64), np.zeros((count, 2), np.float32)
    for column in columns:
        column.setflags(write=False)
    return columns


class PacketCall:
    """All of a dispatch in packets but the rays: made once for settings that are the same for all rays."""

    def __init__(
        self,
        arguments: tuple[NDArray[Any], ...],
        world: NDArray[np.uint8],
        identities: tuple[NDArray[np.int64], NDArray[np.int64]],
        stack_size: int,
        settings: TraceSettings,
        *,
        asks: bool,
    ) -> None:
        """``arguments``: as the dispatch makes them, of which the first value counts. ``world``: a block of
        ``kernels.state`` without hit groups, with the parts of a walk. ``identities``: as of PacketRules. Both are
        kept. ``asks``: whether an any-hit program may be asked."""
        from rtviewer.kernels import packet, packet_alone, packet_any_hit, packet_state, part_library, state

        self._kernel = packet.trace_packets
        table = world.view(np.int64)
        table[state.WORLD_RECORD_COUNT // 8] = -1
        table[state.WORLD_ENTER_GROUP // 8] = part_library.address_of(packet.enter_group)
        table[state.WORLD_WALK_GROUP // 8] = part_library.address_of(packet.walk_group)
        table[state.WORLD_WALK_ALONE // 8] = part_library.address_of(packet_alone.walk_alone)
        if asks:
            table[state.WORLD_ASK_GROUP // 8] = part_library.address_of(packet_any_hit.ask_group)
        self._walk = np.zeros(state.WALK_SIZE, np.uint8)
        self._walk[state.OPACITY_KEY :][:4].view(np.int32)[:] = -1
        # What a ray has put aside lies below what it stacks.
        self._room = stack_size + packet_state.ASIDE_ROOM
        ray_flags, mask, any_hit, intersection, contribution, multiplier, report_t = (v[0] for v in arguments)
        self._walk[state.REPORT_T :][:4].view(np.float32)[:] = report_t
        first_hit = int(RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH) if settings.hit_only else 0  # any hit answers
        words = self._walk.view(np.int64)
        words[state.RAY_FLAGS // 8] = int(ray_flags) | first_hit
        words[state.RAY_MASK // 8] = mask
        words[state.ANY_HIT // 8] = any_hit
        words[state.INTERSECTION // 8] = intersection
        words[state.RAY_CONTRIBUTION // 8] = int(contribution) & 0xF
        words[state.MULTIPLIER // 8] = int(multiplier) & 0xF
        self._entries = stack_size + LANES
        self._packet_size = packet_state.PACKET_REFS + self._entries * (4 + packet_state.ENTRY_VECTORS) + 192
        self._hit_only = settings.hit_only
        self._world, self._identities = world, identities
        self._of_thread = threading.local()

    def _request(self) -> tuple[NDArray[np.int64], int]:
        """The calling thread's request but for rays and results, and its address. It is used again and again: making
        one takes longer than tracing some packets."""
        known: tuple[NDArray[np.int64], int, Any] | None = getattr(self._of_thread, "request", None)
        if known is None:
            packet, walk = np.empty(self._packet_size, np.uint8), self._walk.copy()
            slots = Slots(self._room, self._walk)
            blocks = (*self._identities, packet, walk, self._world)
            ids, contributions, at, *others = (block.ctypes.data for block in blocks)
            request = np.array(
                [0] * 5
                + [int(self._hit_only)]
                + [0] * 10
                + [ids, contributions, -(-at // 64) * 64, *others, self._entries, slots.address]
            )
            known = request, request.ctypes.data, (blocks, slots)
            self._of_thread.request = known
        return known[:2]

    def trace(self, rays: RayBatch) -> tuple[Hits, float]:
        """The hits and the seconds in the kernel. Several threads may call it at once."""
        count = len(rays)
        inputs = (
            _column(rays.origin, (count, 3)), _column(rays.direction, (count, 3)),
            _column(rays.t_min, (count,)), _column(rays.t_max, (count,)),
        )  # fmt: skip
        request, address = self._request()
        request[:5] = (*[column.__array_interface__["data"][0] for column in inputs], count)
        padded = -(-count // LANES) * LANES
        block = np.empty(padded * (2 if self._hit_only else ROW_SIZE) + 64, np.uint8)
        base = block.__array_interface__["data"][0]
        block, base = block[-base % 64 :], base + -base % 64
        if self._hit_only:
            request[6], request[15] = base, base + padded
        else:
            request[6:16] = _plan(count)[0] + base
        start = time.perf_counter()
        self._kernel(address, 0, count)
        seconds = time.perf_counter() - start
        if self._hit_only:
            hit, invalid = (block[at : at + count].view(np.bool_) for at in (0, padded))
            return only_hit_or_miss(hit, invalid, inputs[3]), seconds
        return Hits(*_columns_in(block, count)), seconds


def may_walk_in_packets(rules: PacketRules, arguments: tuple[NDArray[Any], ...], settings: TraceSettings) -> bool:
    """Whether rays with these arguments may. ``arguments``: as of PacketCall."""
    from rtviewer.kernels.packet import AVAILABLE

    if settings.hit_groups is not None or settings.x_ray or not AVAILABLE:
        return False
    if any(values.size > 1 and (values[1:] != values[:1]).any() for values in arguments):
        return False
    flags, mask, any_hit, intersection = (int(values[0]) for values in arguments[:4])
    if flags & RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH and not settings.hit_only:
        return False
    triangles, asks = rules.meets(flags, mask)
    if asks and (settings.repeat_calls or any_hit not in (BUILT_IN if settings.hit_only else ORDERLESS)):
        return False
    return triangles and intersection < FIRST_USER_PROGRAM


def ended_by_any_hit(arguments: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
    """Arguments of rays that may walk in packets and of which only hit or miss is asked, for a walk of single rays."""
    return arguments[0] | np.uint32(int(RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH)), *arguments[1:]


@lru_cache(maxsize=64)
def _plan(count: int) -> tuple[NDArray[np.int64], list[tuple[slice, Any]]]:
    """Where the columns of Hits stand in one block of memory, with room for whole packets behind each: their offsets,
    and the same with their dtypes."""
    starts = STARTS * (-(-count // LANES) * LANES)
    ends = starts + np.array(SIZES) * count
    slices = [slice(*ends) for ends in zip(starts.tolist(), ends.tolist(), strict=True)]
    return starts, list(zip(slices, [dtype for dtype, _ in COLUMNS.values()], strict=True))


def _columns_in(block: NDArray[np.uint8], count: int) -> list[NDArray[Any]]:
    """The columns of Hits in a block of memory."""
    columns: list[NDArray[Any]] = [block[where].view(dtype) for where, dtype in _plan(count)[1]]
    columns[ATTRIBUTES] = columns[ATTRIBUTES].reshape(count, 2)
    return columns


def _column(array: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
    if array.shape != shape:
        raise ValueError(f"rays: expected an array of shape {shape}, got {array.shape}")
    return np.ascontiguousarray(array, np.float32)
