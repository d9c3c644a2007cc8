"""Stepping through a ray's log: where to stop, what stood on the traversal stack, how far the ray reached.

A log holds no stack: it is worked out from the events, for all of them at once, so jumping anywhere costs the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.structure import Structure
from rtviewer.dxr.verdicts import VERDICTS, EventKind, Verdict
from rtviewer.scene.primitives import invert_transforms, transform_directions, transform_points
from rtviewer.session.document import TOP_LEVEL, World
from rtviewer.session.state import LogFilter

if TYPE_CHECKING:
    from rtviewer.session.raylog import RayLog


class Stop(StrEnum):
    """What one can go to in a log, beside a verdict."""

    EVENT = "event"
    NODE = "node entered"
    INSTANCE = "instance"
    CANDIDATE = "candidate"
    COMMIT = "commit"


ACCEPTED = tuple(
    int(verdict)
    for verdict, meaning in VERDICTS.items()
    if meaning.family == "accepted" and verdict is not Verdict.SURFACE_PASSED
)
"""Verdicts of hits that are committed; what an x-ray passes shortens no ray."""

StopAt: TypeAlias = Stop | Verdict

PUSHED = np.dtype(
    [("pushed", "<i8"), ("popped", "<i8"), ("slot", "<i4"), ("level", "<i4"), ("instance", "<i4"), ("node", "<i4"),
     ("lane", "<i4"), ("t", "<f8"), ("t_exit", "<f8")]
)  # fmt: skip
"""One entry of the stack: it stands there for the events after ``pushed`` and before ``popped``, at height ``slot``.

``node``, ``lane``: the box, as in EVENT. ``t``, ``t_exit``: its slab interval. An entry that was never taken off has
``popped`` equal to the number of events and an interval computed here, without the kernel's allowances.
"""


@dataclass(frozen=True)
class StackEntry:
    """One box that waits on the stack. ``box``: its number in the structure's Tree; ``is_taken``: it was taken off
    later; else the search ended first."""

    structure: int
    box: int
    instance: int
    t: float
    t_exit: float
    is_taken: bool


class Playback:
    """Questions about positions in one log. A position is an event's number, or -1 for the whole log."""

    def __init__(self, log: RayLog) -> None:
        self._log = log

    # Where to stop

    def stops(self, stop: StopAt) -> NDArray[np.int64]:
        """Positions (k,) int64 at which there is what is asked for, ascending.

        A verdict is stopped at where an event has it; a commit where the ray got shorter.
        """
        events, kinds = self._log.events, self._log.events["kind"]
        if isinstance(stop, Verdict):
            return np.flatnonzero((events["verdict"] == int(stop)) & (kinds != EventKind.NODE_ENTERED))
        if stop is Stop.COMMIT:
            return self.commits
        if stop is Stop.NODE:
            return np.flatnonzero(kinds == EventKind.NODE_ENTERED)
        if stop is Stop.INSTANCE:
            return self._log.indices_of(EventKind.INSTANCE_ENTERED, EventKind.INSTANCE_SKIPPED)
        if stop is Stop.CANDIDATE:
            return self._log.indices_of(EventKind.CANDIDATE, EventKind.REPORT)
        return np.arange(len(events))

    def next(
        self, position: int, stop: StopAt = Stop.EVENT, *, backwards: bool = False, count: int = 1, within: LogFilter
    ) -> int:
        """The ``count``-th position on, or back, where ``stop`` is among the events that ``within`` shows.

        The last one there is where there are fewer, -1 where there is none. From the whole log (-1) forwards begins
        with the first, backwards with the last.
        """
        places = self.stops(stop)
        if within != LogFilter():
            places = places[np.isin(places, self.shown(within), assume_unique=True)]
        if backwards:
            before = len(places) if position < 0 else int(np.searchsorted(places, position))
            return int(places[max(before - count, 0)]) if before else -1
        after = int(np.searchsorted(places, position, side="right"))
        return int(places[min(after + count, len(places)) - 1]) if after < len(places) else -1

    def shown(self, within: LogFilter) -> NDArray[np.int64]:
        """Positions (k,) int64 of the events that a filter lets through, ascending."""
        if within == LogFilter():
            return np.arange(len(self._log.events))
        events = self._log.events
        kinds, verdicts = np.zeros(256, np.bool_), np.zeros(256, np.bool_)
        kinds[[int(kind) for kind in within.kinds]] = True
        verdicts[[int(v) for v, meaning in VERDICTS.items() if meaning.family in within.families]] = True
        return np.flatnonzero(kinds[events["kind"]] & verdicts[events["verdict"]])

    def verdicts(self) -> dict[Verdict, int]:
        """Verdicts that this log has, and how many events have each; in the order of the tests."""
        entered = self._log.events["kind"] == EventKind.NODE_ENTERED
        counts = np.bincount(self._log.events["verdict"][~entered], minlength=256)
        return {verdict: int(counts[verdict]) for verdict in Verdict if verdict is not Verdict.NONE and counts[verdict]}

    # What there was

    @cached_property
    def commits(self) -> NDArray[np.int64]:
        """Positions (k,) int64 of the events that committed a hit, in order.

        A procedural's candidate only repeats what became of its reports, so it is not among them.
        """
        events = self._log.events
        own = (events["kind"] == EventKind.REPORT) | (
            (events["kind"] == EventKind.CANDIDATE) & np.isnan(events["t_exit"])
        )
        return np.flatnonzero(own & np.isin(events["verdict"], ACCEPTED))

    def prepare(self) -> None:
        """Work out what is kept; then no question about a long log takes time. On any thread."""
        len(self.commits)
        len(self.pushed)

    def ray_end(self, position: int) -> float:
        """The ray's end once the event had happened: TMax, or the t committed last."""
        if position < 0 or position >= len(self._log.events):
            return self._log.result.t if self._log.result.hit else float(np.float32(self._log.rays.t_max))
        done = np.searchsorted(self.commits, position, side="right")
        event = self._log.events[self.commits[done - 1] if done else position]
        return float(event["t"] if done else event["t_current"])

    def met(self, position: int) -> NDArray[np.int64]:
        """Positions (k,) int64 of the candidates that have a t and were met up to an event, or in the whole log."""
        end = len(self._log.events) if position < 0 else position + 1
        events = self._log.events[:end]
        candidate = (events["kind"] == EventKind.CANDIDATE) | (events["kind"] == EventKind.REPORT)
        return np.flatnonzero(candidate & np.isfinite(events["t"]) & (events["verdict"] != int(Verdict.MISSED)))

    def stack(self, position: int) -> tuple[StackEntry, ...]:
        """The traversal stack when an event happened, the next to be taken off first; as many entries as the event's
        ``stack_size`` says. For the whole log: what was left when the search ended."""
        pushed = self.pushed
        at = len(self._log.events) - 0.5 if position < 0 else position
        here = pushed[(pushed["pushed"] < at) & (pushed["popped"] > at)]
        here = here[np.argsort(-here["slot"], kind="stable")]
        return tuple(self._entry(row) for row in here)

    def _entry(self, row: np.void) -> StackEntry:
        world, instance = self._log.world, int(row["instance"])
        structure = TOP_LEVEL if int(row["level"]) == 0 else world.blas_of_instance(instance)
        box = world.tree(structure).box_of(int(row["node"]), int(row["lane"]))
        is_taken = int(row["popped"]) < len(self._log.events)
        return StackEntry(structure, box, instance, float(row["t"]), float(row["t_exit"]), is_taken)

    @cached_property
    def pushed(self) -> NDArray[np.void]:
        """Every entry that ever stood on the stack, PUSHED rows."""
        return stack_of(self._log.world, self._log.events, self._log.origin, self._log.direction)


def stack_of(
    world: World, events: NDArray[np.void], origin: tuple[float, float, float], direction: tuple[float, float, float]
) -> NDArray[np.void]:
    """PUSHED rows of the events of one ray.

    An entered inner node puts those of its children on the stack that are not among the skipped ones right after it; an
    entered instance the root of its bottom level. An entry is taken off by the next event at its height.
    """
    count, kinds = len(events), events["kind"]
    entered, skipped = kinds == EventKind.NODE_ENTERED, kinds == EventKind.NODE_SKIPPED
    inner, occupied = _entered_nodes(world, events, entered)
    at = np.arange(count)
    last = np.maximum.accumulate(np.where(skipped, -1, at)) if count else at  # the last event that skipped no node
    tested = skipped & (last >= 0)
    tested &= (inner[last] >= 0) & (events["node"] == inner[last]) & (events["level"] == events["level"][last])
    done, missed = at.copy(), np.zeros(count, np.int64)
    np.maximum.at(done, last[tested], at[tested])
    np.bitwise_or.at(missed, last[tested], 1 << events["lane"][tested].astype(np.int64))
    met = occupied & ~missed
    parents = np.flatnonzero(inner >= 0)
    rows = _push_rows(events, parents, met, done)
    pops = np.flatnonzero(entered | (skipped & ~tested))
    _take_off(rows, events, pops, count)
    _fill_left(rows, world, events, inner, met, origin, direction)
    return rows


def _structures_of(world: World, events: NDArray[np.void]) -> NDArray[np.int64]:
    """Structure index per event: -1 for the top level."""
    if not len(world.instance_blas):
        return np.full(len(events), TOP_LEVEL, np.int64)
    below = world.instance_blas[np.maximum(events["instance"], 0)].astype(np.int64)
    return np.where(events["level"] == 0, TOP_LEVEL, below)


def _entered_nodes(
    world: World, events: NDArray[np.void], entered: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Per event the inner node that it entered, -1 for others, and the bits of that node's occupied lanes."""
    inner, occupied = np.full(len(events), -1, np.int64), np.zeros(len(events), np.int64)
    structures = _structures_of(world, events)
    for structure in np.unique(structures[entered]).tolist():
        nodes = world.structure(structure).nodes
        rows = np.flatnonzero(entered & (structures == structure))
        node, lane = events["node"][rows], events["lane"][rows]
        reached = np.where(node < 0, 0, nodes["child"][np.maximum(node, 0), np.maximum(lane, 0)])
        is_inner = reached >= 0
        inner[rows[is_inner]] = reached[is_inner]
        filled = nodes["min_x"][reached[is_inner]] <= nodes["max_x"][reached[is_inner]]
        occupied[rows[is_inner]] = (filled.astype(np.int64) << np.arange(8)).sum(1)
    return inner, occupied


def _push_rows(
    events: NDArray[np.void], parents: NDArray[np.int64], met: NDArray[np.int64], done: NDArray[np.int64]
) -> NDArray[np.void]:
    """Roots and children as they were put on the stack, not taken off yet; ``node`` is the pushing event for now."""
    counts = np.array([int(bits).bit_count() for bits in met[parents].tolist()], np.int64)
    of_parent = np.repeat(parents, counts)
    above = np.arange(len(of_parent)) - np.repeat(np.cumsum(counts) - counts, counts)
    roots = np.flatnonzero(events["kind"] == EventKind.INSTANCE_ENTERED)
    first = 1 if len(events) else 0
    rows = np.zeros(first + len(roots) + len(of_parent), PUSHED)
    rows["popped"] = len(events)
    rows["node"] = -1
    rows["lane"] = -1
    if first:
        rows[0] = (-1, len(events), 0, 0, -1, -1, -1, 0.0, 0.0)
    below = rows[first : first + len(roots)]
    below["pushed"], below["slot"], below["level"] = roots, events["stack_size"][roots], 1
    below["instance"] = events["instance"][roots]
    children = rows[first + len(roots) :]
    children["pushed"] = done[of_parent]
    children["slot"] = events["stack_size"][of_parent] + above
    children["level"], children["instance"] = events["level"][of_parent], events["instance"][of_parent]
    children["node"] = of_parent
    return rows


def _take_off(rows: NDArray[np.void], events: NDArray[np.void], pops: NDArray[np.int64], count: int) -> None:
    """Match every entry with the next event that took off one of its height, and take the box from there."""
    heights = events["stack_size"][pops].astype(np.int64)
    keys = heights * (count + 1) + pops
    order = np.argsort(keys)
    keys, pops = keys[order], pops[order]
    place = np.searchsorted(keys, rows["slot"].astype(np.int64) * (count + 1) + rows["pushed"] + 1)
    found = place < len(keys)
    found[found] &= keys[place[found]] // (count + 1) == rows["slot"][found]
    event = pops[place[found]]
    rows["popped"][found] = event
    for name in ("node", "lane", "t", "t_exit"):
        rows[name][found] = events[name][event]


def _fill_left(
    rows: NDArray[np.void],
    world: World,
    events: NDArray[np.void],
    inner: NDArray[np.int64],
    met: NDArray[np.int64],
    origin: tuple[float, float, float],
    direction: tuple[float, float, float],
) -> None:
    """Which boxes the entries are that were never taken off: the lanes left of each parent, farthest lowest."""
    left = np.flatnonzero((rows["popped"] == len(events)) & (rows["node"] >= 0))
    taken = rows["popped"] < len(events)
    structures, parents = _structures_of(world, events), rows["node"][left].copy()
    for parent in np.unique(parents).tolist():
        mine = left[parents == parent]
        node = int(inner[parent])
        same_run = taken & (rows["node"] == node) & (rows["pushed"] == rows["pushed"][mine[0]])
        gone = set(rows["lane"][same_run].tolist())
        lanes = [lane for lane in range(8) if int(met[parent]) >> lane & 1 and lane not in gone]
        structure = int(structures[parent])
        ray = _ray_in(world, int(events["instance"][parent]) if structure != TOP_LEVEL else -1, origin, direction)
        entry, leave = _slabs(world.structure(structure), node, lanes, *ray)
        farthest_first = np.argsort(-entry, kind="stable")[: len(mine)]
        mine = mine[np.argsort(rows["slot"][mine], kind="stable")]
        rows["node"][mine] = node
        rows["lane"][mine] = np.asarray(lanes)[farthest_first]
        rows["t"][mine], rows["t_exit"][mine] = entry[farthest_first], leave[farthest_first]


def _ray_in(
    world: World, instance: int, origin: tuple[float, float, float], direction: tuple[float, float, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ray in an instance's object space (INST-8), or with -1 in world space."""
    o, d = np.asarray([origin], np.float32), np.asarray([direction], np.float32)
    if instance >= 0:
        transform = world.tlas.instance_descs["Transform"][instance].reshape(1, 3, 4).astype(np.float32)
        matrix = invert_transforms(transform)[0][0]
        o, d = transform_points(matrix, o), transform_directions(matrix, d)
    return o[0].astype(np.float64), d[0].astype(np.float64)


def _slabs(
    structure: Structure, node: int, lanes: list[int], origin: NDArray[np.float64], direction: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Slab intervals (k,) float64 of some children of a node."""
    row = structure.nodes[node]
    low = np.stack([row[f"min_{axis}"][lanes] for axis in "xyz"], 1).astype(np.float64)
    high = np.stack([row[f"max_{axis}"][lanes] for axis in "xyz"], 1).astype(np.float64)
    with np.errstate(all="ignore"):
        first, second = (low - origin) / direction, (high - origin) / direction
        entry = np.fmax.reduce(np.fmin(first, second), axis=1)
        leave = np.fmin.reduce(np.fmax(first, second), axis=1)
    return np.maximum(np.nan_to_num(entry, nan=0.0), 0.0), np.nan_to_num(leave, nan=np.inf)
