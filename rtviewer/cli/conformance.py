"""``rtviewer conformance``: compare with recordings from a driver."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rtviewer.cli.options import output_options
from rtviewer.cli.output import print_json, print_table, progress_bar

if TYPE_CHECKING:
    from rtviewer.session.conformance import ConformanceReport


@click.command("conformance")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--engine",
    type=click.Choice(["kernels", "reference"]),
    default="kernels",
    show_default=True,
    help="What is compared: the compiled tracer, or the brute-force oracle.",
)
@output_options
def command(folder: Path, engine: str, as_json: bool) -> int:
    """Trace every recording in DIR (scenes/ and results/) and compare; exit code 1 on any mismatch."""
    from rtviewer.session.conformance import run_conformance

    with progress_bar() as progress:
        report = run_conformance(
            folder, engine, None if progress is None else lambda done, count, name: progress(done / count, name)
        )
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)
    return 1 if report.mismatches else 0


def _print(report: ConformanceReport) -> None:
    scenes = report.to_json()["scenes"]
    rows = []
    for scene in scenes:
        notes = [f"{count} {kind}" for kind, count in scene["mismatches"].items() if count]
        notes += [f"{count} excluded: {reason}" for reason, count in scene["excluded"].items() if count]
        skipped = scene["skipped_reason"]
        notes = [f"skipped: {skipped}"] if skipped else notes
        wrong = sum(scene["mismatches"].values())
        rows.append((scene["name"], "; ".join(notes), scene["rays"], scene["compared"], wrong))
    print_table("", ("scene", "notes", "rays", "compared", "mismatches"), rows, left=2)
    compared = sum(scene["compared"] for scene in scenes)
    click.echo(f"{report.mismatches:,} mismatches in {compared:,} compared rays of {len(scenes)} scenes")
