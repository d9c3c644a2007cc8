"""``rtviewer trace``: trace an image."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from rtviewer.cli.options import (
    BEYOND,
    OutputPath,
    build_options,
    check_mode,
    fits_float32,
    output_options,
    profile_options,
    ray_options,
    refuse_build_flags,
    source_options,
    view_camera,
    view_options,
)
from rtviewer.cli.output import (
    number_text,
    print_facts,
    print_json,
    print_line,
    print_table,
    progress_bar,
    seconds_text,
)
from rtviewer.cli.ray_source_options import ray_source_options, sent_by
from rtviewer.dxr.counters import X_RAY_COUNTERS, Counter
from rtviewer.dxr.flags import BuildFlag, format_flags
from rtviewer.dxr.profile import Profile
from rtviewer.scene.ray_sources import spec_of

if TYPE_CHECKING:
    from rtviewer.session.image import ImageBuffer
    from rtviewer.session.state import ImageSettings


@click.command("trace")
@source_options
@ray_source_options
@ray_options
@view_options
@build_options
@click.option("--mode", default="shaded", show_default=True, metavar="MODE", help="Image mode; --modes lists all.")
@click.option(
    "--modes",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda *call: list_modes(*call),
    help="List image modes and counters with their units and rules, and exit.",
)
@click.option("--x-ray", is_flag=True, help="Also count what lies along the whole ray, behind the first hit.")
@click.option(
    "--palette",
    default="viridis",
    show_default=True,
    metavar="NAME",
    help="Palette of numbers: viridis, plasma, magma, inferno, turbo or grey.",
)
@click.option("--range", "limits", metavar="LOW,HIGH", help="Values, or percentiles as 1%,99%.  [default: automatic]")
@click.option(
    "--closest-hit", default="lambert", show_default=True, metavar="NAME", help="Shading of hits, mode shaded."
)
@click.option("--miss", default="sky", show_default=True, metavar="NAME", help="Shading of misses, mode shaded.")
@click.option("-o", "--output", type=OutputPath(), help="Image to write: .png, float .exr, or .npz as --hits.")
@click.option("--legend", is_flag=True, help="Draw the legend below a .png.")
@click.option("--hits", type=OutputPath(".npz"), help="Write hits and counters of every pixel as .npz.")
@output_options
@profile_options
def command(
    source: str, files: dict[str, Any], sending: dict[str, Any], ray: dict[str, Any], size: tuple[int, int],
    camera: str | None, build_flags: BuildFlag, tlas_build_flags: BuildFlag, mode: str, x_ray: bool, palette: str,
    limits: str | None, closest_hit: str, miss: str, legend: bool, output: Path | None, hits: Path | None,
    as_json: bool, profile: Profile,
) -> None:  # fmt: skip
    """Trace an image through a scene's camera; print what was hit and what it cost.

    Of another source than the camera, everything is about that source's rays: they start at what plain camera rays hit
    (no ray flags, mask 0xFF), off the surface by what its coordinates are rounded by; ray options are theirs.
    """
    from rtviewer.io.image_file import write_hits
    from rtviewer.session.document import scene_rays
    from rtviewer.session.image_tracing import trace_image
    from rtviewer.session.opening import load_document
    from rtviewer.session.picture_file import check_picture_path, hit_arrays, save_picture
    from rtviewer.session.state import BuildSettings
    from rtviewer.shade.modes import MODES

    settings = with_shadings(image_settings(mode, palette, limits), closest_hit, miss)
    if output is not None:
        check_picture_path(output)  # before the work, not after
    with progress_bar() as progress:
        document = load_document(
            source, BuildSettings(build_flags, tlas_build_flags), progress, profile=profile, **files
        )
        refuse_build_flags(document, build_flags, tlas_build_flags)
        scene = document.scene
        buffer = trace_image(
            document.world, view_camera(scene, camera), size, scene_rays(scene, **ray),
            counters=True, x_ray=x_ray or MODES[settings.mode].is_x_ray, progress=progress, profile=profile,
            source=sent_by(scene, sending),
        )  # fmt: skip
    if output is not None:
        save_picture(output, buffer, settings, legend=legend)
    if hits is not None:
        write_hits(hits, hit_arrays(buffer))
    summary = trace_summary(buffer)
    if as_json:
        print_json(summary)
        return
    _print(summary)
    for path in (output, hits):
        if path is not None:
            print_line(f"wrote {path}")


def list_modes(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the table of modes, kind by kind, and end."""
    from rtviewer.shade.modes import KIND_WORDS, MODES

    if not wanted or context.resilient_parsing:
        return
    for kind, words in KIND_WORDS.items():
        rows = [(mode.name, mode.unit, mode.tooltip) for mode in MODES.values() if mode.kind == kind]
        print_table(words, ("mode", "unit", "what it shows"), rows, left=3)
    context.exit()


def image_settings(mode: str, palette: str, limits: str | None) -> ImageSettings:
    """Mode, palette and range from their texts; click.UsageError when one of them is wrong."""
    from rtviewer.session.state import ImageSettings, RangeKind
    from rtviewer.shade.palettes import PALETTES

    check_mode(mode)
    if palette not in PALETTES:
        raise click.UsageError(f"there is no palette {palette!r}: use one of {', '.join(PALETTES)}")
    if limits is None:
        return ImageSettings(mode, palette)
    kind = RangeKind.PERCENTILE if limits.count("%") == 2 else RangeKind.FIXED
    try:
        low, high = (float(part) for part in limits.replace("%", "").split(","))
    except ValueError:
        raise click.UsageError(f"{limits!r} is no range: use LOW,HIGH or LOW%,HIGH%") from None
    if not all(math.isfinite(end) and fits_float32(end) for end in (low, high)):
        raise click.UsageError(f"{limits!r} is no range: an end is not finite or {BEYOND}")
    top = 100.0 if kind is RangeKind.PERCENTILE else float("inf")
    if not low <= high <= top or (kind is RangeKind.PERCENTILE and low < 0):
        raise click.UsageError(f"{limits!r} is no range: the lower end comes first, percentiles are 0% to 100%")
    return ImageSettings(mode, palette, kind, low, high)


def with_shadings(settings: ImageSettings, closest_hit: str, miss: str) -> ImageSettings:
    """The settings with shadings by name; click.UsageError for a name that is not in its table."""
    from rtviewer.shade.shadings import CLOSEST_HIT, MISS

    for name, table, option in ((closest_hit, CLOSEST_HIT, "--closest-hit"), (miss, MISS, "--miss")):
        if name not in table:
            raise click.UsageError(f"{option}: there is no shading {name!r}: use one of {', '.join(table)}")
    return replace(settings, closest_hit=closest_hit, miss=miss)


def trace_summary(buffer: ImageBuffer) -> dict[str, Any]:
    """What ``trace --json`` prints. ``seconds``: wall time of tracing, without loading and building."""
    from rtviewer.session.source_rays import source_settings

    seen = buffer.receivers
    rays = buffer.width * buffer.height if seen is None else int(np.count_nonzero(seen.has_ray))
    hit_count = int(np.count_nonzero(buffer.hit))
    summary: dict[str, Any] = {
        "size": [buffer.width, buffer.height],
        "source": source_facts(buffer),
        "ray_flags": format_flags(buffer.rays.ray_flags),
        "mask": buffer.rays.mask,
        "t_min": buffer.rays.t_min,
        "t_max": buffer.rays.t_max if seen is None else source_settings(buffer.rays, seen.source).t_max,
        "rays": rays,
        "hits": hit_count,
        "misses": rays - hit_count,
        "seconds": buffer.seconds,
        "counters": {counter.key: _distribution(buffer.counter(counter)) for counter in Counter},
    }
    if buffer.x_ray is not None:
        summary["counters"] |= {x.key: _distribution(buffer.x_ray_counter(x)) for x in X_RAY_COUNTERS}
    return summary


def source_facts(buffer: ImageBuffer) -> dict[str, Any]:
    """The source with its parameters, automatic ones filled in; ``open_fraction``: mean over the pixels with rays."""
    seen = buffer.receivers
    source = buffer.request.source if seen is None else seen.source
    facts: dict[str, Any] = {"kind": str(spec_of(source).kind), **asdict(source)}
    if seen is not None:
        facts["open_fraction"] = float(seen.open_fraction[seen.has_ray].mean()) if seen.has_ray.any() else None
    return facts


def _distribution(values: NDArray[np.int32]) -> dict[str, Any]:
    middle, high = np.percentile(values, [50, 95])
    return {
        "min": int(values.min()), "mean": float(values.mean()), "p50": float(middle), "p95": float(high),
        "max": int(values.max()),
    }  # fmt: skip


def _fact_text(name: str, value: Any) -> str:
    """``light 0 2 0``."""
    if name == "kind":
        return str(value)
    numbers = value if isinstance(value, tuple) else (value,)
    texts = [str(number) if isinstance(number, int) else number_text(number) for number in numbers]
    return f"{name.replace('_', ' ')} {' '.join(texts)}"


def _print(summary: dict[str, Any]) -> None:
    width, height = summary["size"]
    rate = summary["rays"] / summary["seconds"] / 1e6 if summary["seconds"] else 0.0
    print_facts(
        [
            ("image", f"{width} x {height}"),
            ("source", ", ".join(_fact_text(name, value) for name, value in summary["source"].items())),
            ("ray flags", summary["ray_flags"]),
            ("mask", f"0x{summary['mask']:02X}"),
            ("t", f"{number_text(summary['t_min'])} to {number_text(summary['t_max'])}"),
            ("hits", f"{summary['hits']:,} of {summary['rays']:,} rays"),
            ("time", f"{seconds_text(summary['seconds'])}, {rate:.2f} million rays per second, counting"),
        ]
    )
    rows = [
        (name, c["min"], f"{c['mean']:.2f}", f"{c['p50']:g}", f"{c['p95']:g}", c["max"])
        for name, c in summary["counters"].items()
    ]
    print_table("", ("counter, per ray", "min", "mean", "p50", "p95", "max"), rows)
