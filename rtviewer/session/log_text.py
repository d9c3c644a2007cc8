"""A ray's log as text, CSV and JSON: what the window copies and the command line writes."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rtviewer.dxr.verdicts import VERDICTS, EventKind, Verdict
from rtviewer.session.hlsl import ray_as_hlsl

if TYPE_CHECKING:
    from rtviewer.session.raylog import LogRow, RayLog


class LogFormat(StrEnum):
    TEXT = "text"
    CSV = "csv"
    JSON = "json"


EVENT_WORDS = {
    EventKind.NODE_ENTERED: "node entered",
    EventKind.NODE_SKIPPED: "node skipped",
    EventKind.INSTANCE_ENTERED: "instance entered",
    EventKind.INSTANCE_SKIPPED: "instance skipped",
    EventKind.CANDIDATE: "candidate",
    EventKind.REPORT: "report",
    EventKind.REPEATED: "call repeated",
}


EVENTS_A_BREATH = 200
"""Events that are put into words at a stretch."""


def number_text(value: float) -> str:
    """t or end in six digits; blank where it does not apply."""
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return f"{value:.6g}"


def place_text(row: LogRow) -> str:
    """Where an event happened, in a few characters."""
    outer = "TLAS" if row.level == 0 else f"instance {row.instance}"
    if row.kind in (EventKind.INSTANCE_ENTERED, EventKind.INSTANCE_SKIPPED):
        return f"instance {row.instance}"
    if row.is_candidate or row.kind is EventKind.REPEATED:
        return f"{outer} · {row.geometry}:{row.primitive}"
    return f"{outer} · node {row.box}" if row.box >= 0 else outer


def _event_text(row: LogRow) -> str:
    return "  " * (min(row.depth, 12) + (0 if row.level == 0 else 1)) + EVENT_WORDS[row.kind]


def verdict_text(row: LogRow) -> str:
    return "entered" if row.verdict is Verdict.NONE else VERDICTS[row.verdict].text


@dataclass(frozen=True)
class LogColumn:
    title: str
    tip: str
    is_number: bool
    text: Callable[[LogRow], str]


COLUMNS = (
    LogColumn("Step", "Order in which the events happened", True, lambda row: str(row.index)),
    LogColumn("Event", "What was met", False, _event_text),
    LogColumn("Where", "TLAS or instance; then node, or geometry : primitive", False, place_text),
    LogColumn(
        "t", "Candidate's t, or where the ray enters the box; in multiples of the ray's direction", True,
        lambda row: number_text(row.t),
    ),
    LogColumn(
        "End", "The ray's end when the test was made: TMax, or the closest hit so far", True,
        lambda row: number_text(row.t_current),
    ),
    LogColumn("Verdict", "What became of it; one colour and icon per family", False, verdict_text),
    LogColumn("Rule", "Rule of the specification that decided", False, lambda row: row.rule),
    LogColumn("Explanation", "The same in words, with the numbers that decided", False, lambda row: row.text),
)  # fmt: skip

CSV_FIELDS = (
    "step", "kind", "level", "depth", "structure", "node", "instance", "geometry", "primitive", "t", "t_exit",
    "t_current", "u", "v", "w", "hit_kind", "stack_size", "verdict", "rule", "text",
)  # fmt: skip


def _exact(value: float) -> str:
    """A float32 so that reading it gives it back; blank where it does not apply."""
    return "" if math.isnan(value) else f"{value:.9g}"


def _csv_row(row: LogRow) -> list[Any]:
    return [
        row.index, row.kind.name.lower(), "bottom" if row.level else "top", row.depth, row.structure, row.box,
        row.instance, row.geometry, row.primitive, *(_exact(v) for v in (row.t, row.t_exit, row.t_current, *row.edges)),
        row.hit_kind, row.stack_size, row.verdict.name.lower(), row.rule, row.text,
    ]  # fmt: skip


def _rows(log: RayLog, events: Iterable[int]) -> Iterator[LogRow]:
    """Rows of events, with a breath now and then: a thread that only computes can keep a window from drawing."""
    for number, event in enumerate(events):
        if number % EVENTS_A_BREATH == 0:
            time.sleep(0.001)
        yield log.row(int(event))


def log_as(log: RayLog, form: LogFormat, events: Iterable[int]) -> str:
    """The events of some positions. Text has the ray before and the result after them; JSON is that of
    ``rtviewer ray --json`` with these events only; CSV has one line each under a line of names, -1 or nothing where
    a number does not apply. Takes about 30 microseconds an event."""
    rows = _rows(log, events)
    if form is LogFormat.JSON:
        return json.dumps(log.to_json(rows), indent=1, allow_nan=False)
    if form is LogFormat.CSV:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(CSV_FIELDS)
        writer.writerows(_csv_row(row) for row in rows)
        return out.getvalue()
    lines = ["\t".join(column.title for column in COLUMNS)]
    lines += ["\t".join(column.text(row) for column in COLUMNS) for row in rows]
    return "\n".join([ray_as_hlsl(log.origin, log.direction, log.rays), "", *lines, "", log.result_text()])
