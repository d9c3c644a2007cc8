"""A list of rays with what each of them hit: traced in one go, sorted, filtered, exported. Window and command line ask
the same columns and the same order."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.counters import Counter
from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.rules import check_ray_flags, require
from rtviewer.errors import CancelledError, InvalidInputError, RtviewerError
from rtviewer.scene.ray_sources import SourceKind
from rtviewer.session.primary_rays import trace_settings
from rtviewer.session.state import RaySettings
from rtviewer.trace.request import HIT_FIELDS, Hits, RayBatch

if TYPE_CHECKING:
    from rtviewer.io.ray_file import RayTable
    from rtviewer.session.document import Cancelled, Progress, World
    from rtviewer.session.raylog import RayLog

CHUNK = 8192
"""Rays that one thread traces between two looks at whether to go on: about 20 ms."""


class RayStatus(StrEnum):
    """What became of a listed ray."""

    HIT = "hit"
    MISS = "miss"
    INVALID = "invalid"


@dataclass(frozen=True, eq=False)
class RayList:
    """n listed rays and their results.

    ``rays``: the settings for all that the file does not say. ``hits``, ``counters`` (n, len(Counter)) int32 as in
    TraceResult. ``problem`` (n,) uint8: position in ``problems`` of why a ray was not traced, or is surely not meant;
    the first problem is none, and those from ``first_warning`` on do not stop a ray (RAY-5). ``seconds``: wall time.
    """

    table: RayTable
    world: World
    rays: RaySettings
    profile: Profile
    hits: Hits
    counters: NDArray[np.int32]
    problem: NDArray[np.uint8]
    problems: tuple[str, ...]
    seconds: float

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def status(self) -> NDArray[np.uint8]:
        """(n,) uint8: position in RayStatus."""
        codes = np.where(self.hits.invalid, 2, np.where(self.hits.hit, 0, 1))
        return codes.astype(np.uint8)

    def count(self, status: RayStatus) -> int:
        """How many rays have a status."""
        return int(np.count_nonzero(self.status == list(RayStatus).index(status)))

    def settings_of(self, index: int) -> RaySettings:
        """The settings that a ray is traced with; see :func:`listed_settings`."""
        return listed_settings(self.table, index, self.rays)

    def order(
        self, column: str = "index", *, descending: bool = False, only: Collection[RayStatus] = tuple(RayStatus)
    ) -> NDArray[np.int64]:
        """Numbers of the rays with one of some statuses, sorted by a column; equal ones stay in the file's order, NaN
        comes last.

        RtviewerError for a column that there is not.
        """
        if column not in COLUMNS:
            raise RtviewerError(f"there is no column {column!r}: use one of {', '.join(COLUMNS)}")
        kept = np.isin(self.status, [code for code, status in enumerate(RayStatus) if status in only])
        rows = np.flatnonzero(kept)
        if column == "index":
            return rows[::-1] if descending else rows
        values = COLUMNS[column].values(self)[rows]
        if values.dtype.kind != "f":
            values = values.astype(np.int64)
        return rows[np.argsort(-values if descending else values, kind="stable")]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, for a file: rays as a file of rays has them, then the arrays of ``trace --hits``."""
        table, hits = self.table, self.hits
        arrays: dict[str, NDArray[Any]] = {
            "origin": table.origin, "direction": table.direction, "t_min": table.t_min, "t_max": table.t_max,
        }  # fmt: skip
        if table.flags is not None:
            arrays["flags"] = table.flags
        if table.mask is not None:
            arrays["mask"] = table.mask
        arrays |= {
            "hit": hits.hit, "t": hits.t, "instance_index": hits.instance_index, "instance_id": hits.instance_id,
            "geometry_index": hits.geometry_index, "primitive_index": hits.primitive_index, "hit_kind": hits.hit_kind,
            "barycentrics": hits.attributes, "hit_group_index": hits.hit_group_index, "invalid": hits.invalid,
            "problem": np.array(self.problems)[self.problem],
        }  # fmt: skip
        return arrays | {counter.key: self.counters[:, counter] for counter in Counter}

    def row_json(self, index: int) -> dict[str, Any]:
        """One ray as plain values by column; -1 stands for none, as in arrays."""
        return {name: column.text(self, column.values(self)[index]) for name, column in COLUMNS.items()}


@dataclass(frozen=True)
class ListColumn:
    """A column of the list: ``values`` (n,) to sort by, ``kind`` of what is shown of them."""

    title: str
    tip: str
    values: Callable[[RayList], NDArray[Any]]
    kind: str = "number"
    """``number``, ``whole`` (none below 0), ``hex``, ``status`` or ``problem``."""

    def text(self, rays: RayList, value: Any) -> Any:
        """What is shown of one value: a number, None for none, or text."""
        if self.kind == "number":
            return float(value)
        if self.kind == "status":
            return str(list(RayStatus)[int(value)])
        if self.kind == "problem":
            return rays.problems[int(value)]
        return int(value) if int(value) >= 0 else None


def _of_table(name: str, axis: int) -> Callable[[RayList], NDArray[Any]]:
    return lambda rays: getattr(rays.table, name)[:, axis]  # type: ignore[no-any-return]


def _of_hits(name: str) -> Callable[[RayList], NDArray[Any]]:
    return lambda rays: getattr(rays.hits, name)  # type: ignore[no-any-return]


def _word(name: str, setting: str) -> Callable[[RayList], NDArray[Any]]:
    def values(rays: RayList) -> NDArray[Any]:
        own = getattr(rays.table, name)
        return np.broadcast_to(np.uint32(getattr(rays.rays, setting)), (len(rays),)) if own is None else own

    return values


COLUMNS: dict[str, ListColumn] = {
    "index": ListColumn("Ray", "Position in the file", lambda rays: np.arange(len(rays)), "whole"),
    "status": ListColumn(
        "Result", "hit, miss, or invalid: not traced (RAY-4)", lambda rays: rays.status, "status"
    ),
    "t": ListColumn(
        "t", "Where the hit is, in lengths of the direction (RAY-1); TMax where missed", _of_hits("t")
    ),
    "instance_index": ListColumn("Instance", "InstanceIndex", _of_hits("instance_index"), "whole"),
    "instance_id": ListColumn("ID", "InstanceID", _of_hits("instance_id"), "whole"),
    "geometry_index": ListColumn("Geometry", "GeometryIndex", _of_hits("geometry_index"), "whole"),
    "primitive_index": ListColumn("Primitive", "PrimitiveIndex", _of_hits("primitive_index"), "whole"),
    "hit_kind": ListColumn(
        "Kind", "254 front face, 255 back face, else the intersection program's own", _of_hits("hit_kind"), "whole"
    ),
    "hit_group_index": ListColumn(
        "Hit group", "Record of the hit-group table (HG-1)", _of_hits("hit_group_index"), "whole"
    ),
    "nodes_visited": ListColumn(
        "Nodes", "Nodes whose children were tested, both levels together",
        lambda rays: rays.counters[:, [Counter.TLAS_NODES_VISITED, Counter.BLAS_NODES_VISITED]].sum(1), "whole",
    ),
    **{
        f"{name}_{axis}": ListColumn(f"{title} {axis}", f"{title} of the ray", _of_table(name, place))
        for name, title in (("origin", "Origin"), ("direction", "Direction"))
        for place, axis in enumerate("xyz")
    },
    "t_min": ListColumn("TMin", "Start of the ray's interval", lambda rays: rays.table.t_min),
    "t_max": ListColumn("TMax", "End of the ray's interval", lambda rays: rays.table.t_max),
    "flags": ListColumn(
        "Flags", "Ray flags: the file's, else those of the Ray flags pane", _word("flags", "ray_flags"), "hex"
    ),
    "mask": ListColumn("Mask", "InstanceInclusionMask, likewise", _word("mask", "mask"), "hex"),
    "problem": ListColumn(
        "Problem", "Why the ray is invalid, or what is surely not meant", lambda rays: rays.problem, "problem"
    ),
}  # fmt: skip
"""Columns by name, in the order shown."""


def problems_of_rays(table: RayTable, profile: Profile = DEFAULT_PROFILE) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """Which rule each ray breaks: (n,) uint8 positions in the texts, of which the first is empty.

    RAY-3 and RAY-2 and illegal flag words (RF-*) make a ray invalid; RAY-5 warns.
    """
    nan = np.isnan(table.origin).any(axis=1) | np.isnan(table.direction).any(axis=1)
    nan |= np.isnan(table.t_min) | np.isnan(table.t_max)
    endless = np.isinf(table.origin).any(axis=1) | np.isinf(table.direction).any(axis=1)
    texts = [""]
    code = np.zeros(len(table), np.uint8)

    def mark(which: Any, text: str) -> None:
        if which.any():
            if text not in texts:
                texts.append(text)
            code[which] = texts.index(text)

    mark(~table.direction.any(axis=1), "warning: [RAY-5] a direction of zero hits no triangle")
    mark(endless, "warning: [RAY-5] origin or direction is infinite: the ray misses everything")
    mark(table.t_min > table.t_max, "[RAY-2] TMin is above TMax")
    mark(table.t_min < 0, "[RAY-2] TMin is below 0")
    if table.flags is not None:
        for text, which in _illegal_words(table.flags, profile).items():
            mark(which, text)
    mark(nan, "[RAY-3] origin, direction, TMin and TMax must not be NaN")
    return code, tuple(texts)


def _illegal_words(flags: NDArray[np.uint32], profile: Profile) -> dict[str, NDArray[np.bool_]]:
    """For every way in which flag words are illegal, the rays that have such a word."""
    words, place = np.unique(flags, return_inverse=True)
    unknown = (words & ~np.uint32(int(profile.known_ray_flags))) != 0
    texts = np.full(len(words), "", object)
    texts[unknown] = f"[RF-1] the flag word has bits that {profile} does not know"
    for position in np.flatnonzero(~unknown):  # few: there are only so many flags
        found = check_ray_flags(RayFlag(int(words[position])), profile)
        texts[position] = "; ".join(f"[{v.rule}] {v.message}" for v in found)
    return {text: (texts == text)[place] for text in dict.fromkeys(texts.tolist()) if text}


def trace_list(
    world: World,
    table: RayTable,
    rays: RaySettings,
    *,
    profile: Profile = DEFAULT_PROFILE,
    threads: int | None = None,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> RayList:
    """Trace every ray of a file with its own interval, flags and mask; ``rays`` say the rest.

    Results do not depend on ``threads``. Raises InvalidInputError by HG-4 or TRAV-5 naming the first ray that meets
    such a record, by RF-* for the flags of ``rays``, and CancelledError.
    """
    from rtviewer.session.jobs import default_threads

    require(check_ray_flags(rays.ray_flags, profile), "trace")
    problem, texts = problems_of_rays(table, profile)
    is_bad = np.array([bool(text) and not text.startswith("warning") for text in texts])[problem]
    started = _clock()
    tracing = _Tracing(world, table, rays, is_bad, profile)
    count = threads or default_threads()
    firsts = range(0, len(table), CHUNK)
    done = 0
    with ThreadPoolExecutor(count, thread_name_prefix="trace-list") as pool:
        for _ in pool.map(lambda first: None if cancelled and cancelled() else tracing.run(first), firsts):
            done += CHUNK
            if progress is not None:
                progress(min(done / len(table), 1.0), "tracing rays")
    if cancelled is not None and cancelled():
        raise CancelledError("the list was cancelled")
    return RayList(table, world, rays, profile, tracing.hits, tracing.counters, problem, texts, _clock() - started)


def walk_listed(
    world: World,
    table: RayTable,
    index: int,
    rays: RaySettings,
    *,
    profile: Profile = DEFAULT_PROFILE,
    x_ray: bool = False,
) -> RayLog:
    """The log of one ray of a file, as ``trace_list`` traces it; ``x_ray``: of the whole ray.

    Raises RtviewerError for a number that no ray has, InvalidInputError when the ray breaks a rule.
    """
    from rtviewer.session.raylog import walk_ray

    if not 0 <= index < len(table):
        raise RtviewerError(f"{table.name} has {len(table):,} rays, none is {index}")
    origin, direction = (tuple(getattr(table, name)[index].tolist()) for name in ("origin", "direction"))
    settings = listed_settings(table, index, rays)
    return walk_ray(
        world, origin, direction, settings, profile=profile, x_ray=x_ray, source=SourceKind.FILE, list_index=index
    )  # fmt: skip


def listed_settings(table: RayTable, index: int, rays: RaySettings) -> RaySettings:
    """The settings that a ray of a file is traced with: its own interval, flags and mask over ``rays``."""
    return replace(
        rays,
        t_min=float(table.t_min[index]),
        t_max=float(table.t_max[index]),
        ray_flags=rays.ray_flags if table.flags is None else RayFlag(int(table.flags[index])),
        mask=rays.mask if table.mask is None else int(table.mask[index]),
    )


def _clock() -> float:
    import time

    return time.perf_counter()


class _Tracing:
    """Arrays being filled, a chunk at a time."""

    def __init__(
        self, world: World, table: RayTable, rays: RaySettings, is_bad: NDArray[np.bool_], profile: Profile
    ) -> None:
        self._table, self._is_bad = table, is_bad
        self._dispatcher = world.dispatcher(profile)
        self._settings = trace_settings(rays, world.scene)
        count = len(table)
        self.hits = Hits(**{name: np.full((count, *axes), missed, dtype) for name, dtype, missed, axes in HIT_FIELDS})
        self.counters = np.zeros((count, len(Counter)), np.int32)

    def run(self, first: int) -> None:
        """Trace the chunk from ray ``first`` on."""
        table, rows = self._table, slice(first, first + CHUNK)
        bad = self._is_bad[rows]
        settings = self._settings
        if table.flags is not None:
            settings = replace(settings, ray_flags=np.where(bad, np.uint32(0), table.flags[rows]))
        if table.mask is not None:
            settings = replace(settings, mask=table.mask[rows])
        # NaN marks what must not be traced: an illegal flag word would stop them all.
        t_min = np.where(bad, np.float32(np.nan), table.t_min[rows])
        batch = RayBatch.make(table.origin[rows], table.direction[rows], t_min, table.t_max[rows])
        try:
            result = self._dispatcher.trace(batch, settings, counters=True)
        except InvalidInputError as error:
            raise _renumbered(error, first) from None
        for name, _, _, _ in HIT_FIELDS:
            getattr(self.hits, name)[rows] = getattr(result.hits, name)
        assert result.counters is not None
        self.counters[rows] = result.counters


def _renumbered(error: InvalidInputError, first: int) -> InvalidInputError:
    """The same with the ray's number in the list: ``ray 3: ...`` of a chunk."""
    found = []
    for item in error.violations:
        head, _, rest = item.message.partition(": ")
        number = head.removeprefix("ray ")
        is_numbered = head.startswith("ray ") and number.isdecimal()
        found.append(replace(item, message=f"ray {first + int(number)}: {rest}") if is_numbered else item)
    return InvalidInputError(found, error.call)
