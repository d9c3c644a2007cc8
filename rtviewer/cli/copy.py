"""``rtviewer copy``: the copy modes on bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtviewer.cli.options import (
    OutputPath,
    build_options,
    output_options,
    profile_options,
    refuse_build_flags,
    source_options,
)
from rtviewer.cli.output import bytes_text, print_json, print_line, print_table, progress_bar
from rtviewer.dxr.flags import BuildFlag
from rtviewer.dxr.profile import Profile

if TYPE_CHECKING:
    from rtviewer.session.copy_to_files import CopyRow

MODES = ("clone", "compact", "visualization-decode", "serialize", "deserialize")


@click.command("copy")
@source_options
@click.option("--mode", type=click.Choice(MODES), required=True, help="D3D12's copy mode.")
@click.option("--structure", metavar="NAME", help="Only this one, by name or number; TLAS is the top level.")
@click.option("-o", "--output", required=True, type=OutputPath(), help="What to write, see above.")
@build_options
@output_options
@profile_options
def command(
    source: str, files: dict[str, Any], mode: str, structure: str | None, output: Path, build_flags: BuildFlag,
    tlas_build_flags: BuildFlag, as_json: bool, profile: Profile,
) -> None:  # fmt: skip
    """Copy all structures of SOURCE, or one of them, and write the result.

    clone, compact and deserialize make structures: OUT.rtcap is a capture of the world with the copies in their
    sources' places, a name without suffix a folder of blobs. serialize writes a folder with one blob a structure and
    manifest.json, or with --structure one OUT.rtblob. visualization-decode writes a folder with one dump a structure,
    or with --structure one OUT.rtdump. deserialize takes what was serialized: a blob, a folder or a capture.
    """
    from rtviewer.session.copy_to_files import check_output, copy_source
    from rtviewer.session.opening import load_document
    from rtviewer.session.state import BuildSettings

    check_output(mode, output, structure)  # before the work, not after
    with progress_bar() as progress:
        settings = BuildSettings(build_flags, tlas_build_flags)
        document = load_document(source, settings, progress, profile=profile, **files)
        refuse_build_flags(document, build_flags, tlas_build_flags)
        rows, written = copy_source(document, mode, output, structure)
    if as_json:
        print_json({"mode": mode, "structures": [row.to_json() for row in rows], "files": [str(p) for p in written]})
        return
    _print(rows)
    for path in written:
        print_line(f"wrote {path}")


def _print(rows: list[CopyRow]) -> None:
    print_table(
        "",
        ("name", "level", "source", "copy", "change"),
        [
            (
                row.name, row.level, bytes_text(row.source_size), bytes_text(row.size),
                f"{(row.size - row.source_size) / row.source_size:+.1%}",
            )
            for row in rows
        ],
        left=2,
    )  # fmt: skip
