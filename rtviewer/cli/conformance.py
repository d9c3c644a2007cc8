"""``rtviewer conformance``: compare with recordings from a driver."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtviewer.cli.options import output_options, profile_options
from rtviewer.cli.output import print_json, print_line, print_table, progress_bar
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile

if TYPE_CHECKING:
    from rtviewer.session.conformance import AnyHitLog, ConformanceReport, Engine, SceneInputs
    from rtviewer.trace.request import Hits, RayBatch, TraceSettings


@click.command("conformance")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--engine",
    type=click.Choice(["kernels", "reference"]),
    default="kernels",
    show_default=True,
    help="What is compared: the compiled tracer, or the brute-force oracle.",
)
@click.option(
    "--variants",
    is_flag=True,
    help="Repeat every scene with all legal build flags, as clone, compacted, serialized and updated structures.",
)
@output_options
@profile_options
def command(folder: Path, engine: str, variants: bool, as_json: bool, profile: Profile) -> int:
    """Trace every recording in DIR (scenes/ and results/) and compare; exit code 1 on any mismatch."""
    from rtviewer.session.conformance import run_conformance, variant_words

    if variants and engine != "kernels":
        raise click.UsageError("--variants needs --engine kernels: the oracle builds no structures")
    repetitions: dict[str, Any] = {"variants": variant_words()} if variants else {}
    with progress_bar() as progress:
        report = run_conformance(
            folder,
            checked_engine(engine, profile),
            None if progress is None else lambda done, count, name: progress(done / count, name),
            **repetitions,
        )
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)
    return 1 if report.mismatches else 0


def checked_engine(name: str, profile: Profile) -> str | Engine:
    """The engine of that name; with another profile than the default, one that first checks every ray's flags by it."""
    if profile == DEFAULT_PROFILE:
        return name
    import numpy as np

    from rtviewer.dxr.flags import RayFlag
    from rtviewer.dxr.rules import check_ray_flags, require
    from rtviewer.session.conformance import ENGINES

    engine = ENGINES[name]()

    def trace(scene: SceneInputs, rays: RayBatch, settings: TraceSettings) -> tuple[Hits, AnyHitLog]:
        for word in np.unique(np.asarray(settings.ray_flags)):
            require(check_ray_flags(RayFlag(int(word)), profile), "TraceRay")
        return engine(scene, rays, settings)

    return trace


def _print(report: ConformanceReport) -> None:
    scenes = report.to_json()["scenes"]
    rows = []
    for scene in scenes:
        notes = [f"{count} {kind}" for kind, count in scene["mismatches"].items() if count]
        notes += [f"{count} excluded: {reason}" for reason, count in scene["excluded"].items() if count]
        skipped = scene["skipped_reason"]
        notes = [f"skipped: {skipped}"] if skipped else notes
        if scene["variants"]:
            notes.append(f"{len(scene['variants'])} variants")
        wrong = sum(scene["mismatches"].values())
        rows.append((scene["name"], "; ".join(notes), scene["rays"], scene["compared"], wrong))
    print_table("", ("scene", "notes", "rays", "compared", "mismatches"), rows, left=2)
    compared = sum(scene["compared"] for scene in scenes)
    print_line(f"{report.mismatches:,} mismatches in {compared:,} compared rays of {len(scenes)} scenes")
