"""How ``rtviewer ray --rays`` traces, sorts, prints and writes a file of rays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtviewer.cli.output import number_text, print_facts, print_json, print_line, print_table, seconds_text
from rtviewer.dxr.flags import format_flags

if TYPE_CHECKING:
    from rtviewer.session.ray_list import RayList

PRINTED = (
    "index", "status", "t", "instance_index", "geometry_index", "primitive_index", "hit_kind", "nodes_visited",
    "problem",
)  # fmt: skip
"""Columns printed for people; JSON has all."""


def show_results(
    rays: RayList, *, sort: str, descending: bool, only: str | None, limit: int, as_json: bool, results: Path | None
) -> None:
    """Print a traced list, ``limit`` rays of it, and write all of it to ``results``.

    click.UsageError for a column there is not.
    """
    from rtviewer.io.ray_file import write_ray_columns
    from rtviewer.session.ray_list import COLUMNS, RayStatus

    if sort not in COLUMNS:
        raise click.UsageError(f"--sort: there is no column {sort!r}: use one of {', '.join(COLUMNS)}")
    kept = (RayStatus(only),) if only else tuple(RayStatus)
    order = rays.order(sort, descending=descending, only=kept)
    if results is not None:
        write_ray_columns(results, rays.arrays())
    summary: dict[str, Any] = {
        "file": rays.table.name,
        "rays": len(rays),
        "hits": rays.count(RayStatus.HIT),
        "misses": rays.count(RayStatus.MISS),
        "invalid": rays.count(RayStatus.INVALID),
        "seconds": rays.seconds,
        "ignored": list(rays.table.ignored),
        "listed": len(order),
        "rows": [rays.row_json(int(index)) for index in order[:limit]],
    }
    if as_json:
        print_json(summary)
        return
    _print(rays, summary)
    if results is not None:
        print_line(f"wrote {results}")


def _print(rays: RayList, summary: dict[str, Any]) -> None:
    from rtviewer.session.ray_list import COLUMNS

    own = [name for name, values in (("flags", rays.table.flags), ("mask", rays.table.mask)) if values is not None]
    print_facts(
        [
            ("file", summary["file"]),
            ("rays", f"{summary['rays']:,}: {summary['hits']:,} hit, {summary['misses']:,} miss, "
                     f"{summary['invalid']:,} invalid [RAY-4]"),
            ("ray flags", "the file's" if "flags" in own else format_flags(rays.rays.ray_flags)),
            ("mask", "the file's" if "mask" in own else f"0x{rays.rays.mask & 0xFF:02X}"),
            ("time", seconds_text(summary["seconds"])),
        ]
    )  # fmt: skip
    if summary["ignored"]:
        names = summary["ignored"]
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        print_line(f"ignored: {', '.join(names[:8])}{more}")
    rows = [[_text(row[name]) for name in PRINTED] for row in summary["rows"]]
    print_table("", [COLUMNS[name].title for name in PRINTED], rows, left=2)
    if summary["listed"] > len(rows):
        print_line(f"{summary['listed'] - len(rows):,} more rays; --limit prints more, --results writes all")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return number_text(value)
    return "-" if value is None else str(value)
