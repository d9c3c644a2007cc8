"""``rtviewer build``: build structures; print sizes, times, quality."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtviewer.cli.options import OutputPath, build_options, output_options, profile_options, source_options
from rtviewer.cli.output import bytes_text, print_json, print_line, print_table, progress_bar, seconds_text
from rtviewer.dxr.flags import BuildFlag, format_flags
from rtviewer.dxr.profile import Profile

if TYPE_CHECKING:
    from rtviewer.session.document import World


@click.command("build")
@source_options
@build_options
@click.option("-o", "--output", type=OutputPath(), help="Capture to write: .rtcap, or a folder.")
@output_options
@profile_options
def command(
    source: str, files: dict[str, Any], build_flags: BuildFlag, tlas_build_flags: BuildFlag, output: Path | None,
    as_json: bool, profile: Profile,
) -> None:  # fmt: skip
    """Build the structures of a scene; print sizes, times and quality; write them as a capture.

    A SOURCE of finished structures is built again from what its bottom levels hold.
    """
    from rtviewer.session.copies import check_saving, save_world
    from rtviewer.session.document import build_world
    from rtviewer.session.opening import load_document
    from rtviewer.session.state import BuildSettings

    if output is not None:
        check_saving(output)  # before the work, not after
    with progress_bar() as progress:
        settings = BuildSettings(build_flags, tlas_build_flags)
        document = load_document(source, settings, progress, profile=profile, **files)
        world = document.world
        if not document.has_inputs:
            world = build_world(document.scene, settings, progress, profile=profile)
    if output is not None:
        save_world(world, output)
    rows = [structure_row(world, index) for index in world.structure_indices]
    if as_json:
        print_json({"structures": rows})
        return
    _print(rows)
    for problem in document.problems:
        print_line(f"{problem.severity}: {problem.text}")
    if output is not None:
        print_line(f"wrote {output}")


def structure_row(world: World, index: int) -> dict[str, Any]:
    """One structure as ``build --json`` lists it; ``compacted_size`` is None without ALLOW_COMPACTION (POST-4)."""
    from rtviewer.session.copies import sizes_of

    structure, statistics, sizes = world.structure(index), world.statistics(index), sizes_of(world, index)
    return {
        "name": structure.name,
        "level": "top" if structure.is_top_level else "bottom",
        "flags": format_flags(structure.build_flags),
        "address": structure.address,
        "current_size": structure.size,
        "compacted_size": sizes.compacted,
        "serialized_size": sizes.serialized,
        "decoded_size": sizes.decoded,
        "prebuild": {
            "result_data_max_size_in_bytes": sizes.result_max,
            "scratch_data_size_in_bytes": sizes.scratch,
            "update_scratch_data_size_in_bytes": sizes.update_scratch,
        },
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
    print_line(f"{len(rows):,} structures, {bytes_text(total)}, {seconds_text(sum(row['seconds'] for row in rows))}")
