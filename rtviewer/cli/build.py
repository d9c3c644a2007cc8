"""``rtviewer build``: build structures; print sizes, times, quality."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rtviewer.cli.options import SOURCE, build_options, output_options, profile_options
from rtviewer.cli.output import bytes_text, print_json, print_table, progress_bar, seconds_text
from rtviewer.dxr.flags import BuildFlag, format_flags
from rtviewer.dxr.profile import Profile

if TYPE_CHECKING:
    from rtviewer.session.document import World


@click.command("build")
@SOURCE
@build_options
@output_options
@profile_options
def command(source: str, build_flags: BuildFlag, tlas_build_flags: BuildFlag, as_json: bool, profile: Profile) -> None:
    """Build the structures of a scene; print sizes, times and quality."""
    from rtviewer.session.document import load_document
    from rtviewer.session.state import BuildSettings

    with progress_bar() as progress:
        settings = BuildSettings(build_flags, tlas_build_flags)
        document = load_document(source, settings, progress, profile=profile)
    rows = [structure_row(document.world, index) for index in document.world.structure_indices]
    if as_json:
        print_json({"structures": rows})
        return
    _print(rows)
    for problem in document.problems:
        click.echo(f"{problem.severity}: {problem.text}")


def structure_row(world: World, index: int) -> dict[str, Any]:
    """One structure as ``build --json`` lists it; what needs operations that are not there yet is None."""
    structure, statistics = world.structure(index), world.statistics(index)
    return {
        "name": structure.name,
        "level": "top" if structure.is_top_level else "bottom",
        "flags": format_flags(structure.build_flags),
        "address": structure.address,
        "current_size": structure.size,
        "compacted_size": None,
        "prebuild": None,
        "counts": {
            "nodes": statistics.node_count,
            "leaves": statistics.leaf_count,
            "elements": statistics.element_count,
            "primitives": statistics.primitive_count,
            "active": statistics.active_count,
            "degenerate": statistics.degenerate_count,
        },
        "bytes_by_section": dict(statistics.bytes_by_section),
        "sah": statistics.sah,
        "depth": statistics.depth,
        "seconds": world.build_seconds(index),
    }


def _print(rows: list[dict[str, Any]]) -> None:
    columns = ("name", "level", "flags", "address", "size", "primitives", "active", "nodes", "depth", "SAH", "time")
    print_table(
        "",
        columns,
        [
            (
                row["name"], row["level"], row["flags"], f"{row['address']:#x}", bytes_text(row["current_size"]),
                f"{row['counts']['primitives']:,}", f"{row['counts']['active']:,}", f"{row['counts']['nodes']:,}",
                row["depth"], f"{row['sah']:.2f}", seconds_text(row["seconds"]),
            )
            for row in rows
        ],
        left=3,
    )  # fmt: skip
    total = sum(row["current_size"] for row in rows)
    click.echo(f"{len(rows):,} structures, {bytes_text(total)}, {seconds_text(sum(row['seconds'] for row in rows))}")
