"""``rtviewer ray``: one ray's story, hit by hit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtviewer.cli.options import (
    PIXEL,
    VECTOR,
    ExpectedType,
    Number,
    OutputPath,
    build_options,
    output_options,
    profile_options,
    ray_options,
    refuse_build_flags,
    source_options,
    view_camera,
    view_options,
)
from rtviewer.cli.output import number_text, print_facts, print_json, print_line, print_table, progress_bar
from rtviewer.cli.ray_results import show_results
from rtviewer.cli.ray_source_options import ray_source_options, sent_by
from rtviewer.dxr.counters import X_RAY_COUNTERS
from rtviewer.dxr.flags import BuildFlag, format_flags
from rtviewer.dxr.profile import Profile
from rtviewer.scene.ray_sources import SOURCES, SourceKind

if TYPE_CHECKING:
    from rtviewer.session.raylog import RayLog
    from rtviewer.session.state import Expected

Vector = tuple[float, float, float]

SHOWN_EVIDENCE = 3
"""Events that are printed below an explanation."""


TYPED = {parameter.name: parameter.tip for parameter in SOURCES[SourceKind.TYPED].parameters}
FILE = {parameter.name: parameter.tip for parameter in SOURCES[SourceKind.FILE].parameters}


def sentence(tip: str) -> str:
    """A parameter's tip as an option's help."""
    return f"{tip[0].upper()}{tip[1:]}."


@click.command("ray")
@source_options
@click.option("--pixel", type=PIXEL, help="The ray through this pixel's centre; 0,0 is top left.")
@click.option("--camera-ray", is_flag=True, help="With --source: the camera ray that found where the pixel's starts.")
@click.option("--origin", type=VECTOR, help=sentence(TYPED["origin"]))
@click.option("--direction", type=VECTOR, help=sentence(TYPED["direction"]))
@click.option("--rays", "rays_file", metavar="FILE", type=click.Path(path_type=Path), help=sentence(FILE["path"]))
@click.option("--number", type=Number(0, 2**31), metavar="N", help="With --rays: the log of its ray N, counted from 0.")
@click.option("--sort", default="index", show_default=True, metavar="COLUMN", help="Of --rays; a wrong one lists all.")
@click.option("--descending", is_flag=True, help="Largest first.")
@click.option("--only", type=click.Choice(["hit", "miss", "invalid"]), help="Of --rays, list those.")
@click.option("--limit", type=Number(0, 2**31), default=20, show_default=True, metavar="N", help="Rays to list.")
@click.option("--results", type=OutputPath(), help="Write all rays of --rays with what they hit, as .npz or .csv.")
@click.option(
    "--expect",
    type=ExpectedType(),
    help="Say in one sentence what became of this instance, geometry or primitive, and why.",
)
@click.option("--x-ray", is_flag=True, help="Log what lies along the whole ray: no hit is committed or ends the walk.")
@ray_source_options
@ray_options
@view_options
@build_options
@output_options
@profile_options
def command(
    source: str, files: dict[str, Any], pixel: tuple[int, int] | None, camera_ray: bool, origin: Vector | None,
    direction: Vector | None, rays_file: Path | None, number: int | None, sort: str, descending: bool,
    only: str | None, limit: int, results: Path | None, sending: dict[str, Any],
    expect: Expected | None, x_ray: bool, ray: dict[str, Any], size: tuple[int, int], camera: str | None,
    build_flags: BuildFlag, tlas_build_flags: BuildFlag, as_json: bool, profile: Profile,
) -> None:  # fmt: skip
    """Tell one ray's story: nodes, instances and candidates in the order met, each candidate with its verdict.

    A node's number is its place in the breadth-first tree of its structure, as in the window's node tree. With --rays a
    whole file of rays is traced and listed, each with its own interval, flags and mask.
    """
    from rtviewer.io.ray_file import ray_suffix, read_rays
    from rtviewer.session.document import scene_rays
    from rtviewer.session.expected import check_expected, explain_expected
    from rtviewer.session.opening import load_document
    from rtviewer.session.ray_list import trace_list, walk_listed
    from rtviewer.session.raylog import walk_pixel, walk_ray
    from rtviewer.session.state import BuildSettings

    check_which(pixel, origin, direction, rays_file)
    if rays_file is None and (number is not None or results is not None or only is not None):
        raise click.UsageError("--number, --only and --results go with --rays FILE")
    if pixel is None and (sending or camera_ray):
        raise click.UsageError("--source, its parameters and --camera-ray go with --pixel X,Y")
    if results is not None:
        ray_suffix(results)
    table = read_rays(rays_file) if rays_file is not None else None
    with progress_bar() as progress:
        document = load_document(
            source, BuildSettings(build_flags, tlas_build_flags), progress, profile=profile, **files
        )
        refuse_build_flags(document, build_flags, tlas_build_flags)
    if expect is not None:
        check_expected(document.world, expect)
    rays = scene_rays(document.scene, **ray)
    if table is not None and number is None:
        traced = trace_list(document.world, table, rays, profile=profile)
        show_results(traced, sort=sort, descending=descending, only=only, limit=limit, as_json=as_json, results=results)
        return
    if table is not None:
        log = walk_listed(document.world, table, number or 0, rays, profile=profile, x_ray=x_ray)
    elif pixel is not None:
        log = walk_pixel(
            document.world, view_camera(document.scene, camera), size, pixel, rays, sent_by(document.scene, sending),
            camera_ray=camera_ray, profile=profile, x_ray=x_ray,
        )  # fmt: skip
    else:
        assert origin is not None
        assert direction is not None
        log = walk_ray(document.world, origin, direction, rays, profile=profile, x_ray=x_ray)
    if as_json:
        answer = log.to_json()
        print_json(answer | explain_expected(log, expect).to_json() if expect else answer)
        return
    _print(log)
    if expect is not None:
        explanation = explain_expected(log, expect)
        print_line(explanation.sentence)
        for event in explanation.events[:SHOWN_EVIDENCE]:
            print_line(f"  event {event}: {log.row(event).text}")
        if len(explanation.events) > SHOWN_EVIDENCE:
            print_line(f"  and {len(explanation.events) - SHOWN_EVIDENCE} more; --json lists them")


def check_which(
    pixel: tuple[int, int] | None, origin: Vector | None, direction: Vector | None, rays_file: Path | None
) -> None:
    """click.UsageError unless exactly one way to say which ray is used, and wholly."""
    is_typed = origin is not None or direction is not None
    half = (origin is None) != (direction is None)
    if half or [pixel is not None, is_typed, rays_file is not None].count(True) != 1:
        raise click.UsageError("give either --pixel X,Y, or --origin x,y,z and --direction x,y,z, or --rays FILE")


def _print(log: RayLog) -> None:
    rays = log.rays
    print_facts(
        [
            ("source", SOURCES[log.source].ray),
            ("origin", " ".join(number_text(value) for value in log.origin)),
            ("direction", " ".join(number_text(value) for value in log.direction)),
            ("t", f"{number_text(rays.t_min)} to {number_text(rays.t_max)}"),
            ("ray flags", format_flags(rays.ray_flags)),
            ("mask", f"0x{rays.mask & 0xFF:02X}"),
        ]
    )
    for warning in log.warnings:
        print_line(f"warning: {warning}")
    rows = [
        (
            row.index, "  " * row.depth + ("BLAS " if row.level else "TLAS ") + row.kind.name.lower(),
            "" if row.verdict.name == "NONE" else row.verdict.name.lower(), row.rule, number_text(row.t),
            number_text(row.t_current), row.text,
        )
        for row in log
    ]  # fmt: skip
    print_table("", ("#", "event", "verdict", "rule", "t", "end", "what happened"), rows, left=7)
    if log.truncated:
        print_line("the log is full: later events are missing")
    result = log.result
    if result.hit:
        print_line(
            f"hit: t {number_text(result.t)}, instance {result.instance_index} (id {result.instance_id}), "
            f"geometry {result.geometry_index}, primitive {result.primitive_index}, kind {result.hit_kind}, "
            f"attributes {number_text(result.attributes[0])} {number_text(result.attributes[1])}"
        )
    else:
        print_line("miss")
    print_line(result.formula)
    print_line(", ".join(f"{counter.key} {count}" for counter, count in log.counters.items() if count))
    if log.x_ray_counters:
        print_line("x-ray: " + ", ".join(f"{counter.key} {log.x_ray_count(counter)}" for counter in X_RAY_COUNTERS))
