"""``rtviewer view``: the window. The only command that loads Qt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rtviewer.cli.options import PIXEL, ExpectedType, Number, check_mode, profile_options
from rtviewer.dxr.profile import Profile
from rtviewer.errors import RtviewerError

if TYPE_CHECKING:
    from rtviewer.session.state import Expected


@click.command("view")
@click.argument("file", metavar="[FILE]", required=False, type=click.Path())
@click.option("--screenshot", type=click.Path(path_type=Path), help="Draw the window once to this PNG and exit.")
@click.option("--panes", metavar="NAME,NAME", help="Panes to show, separated by commas.  [default: the usual layout]")
@click.option("--mode", metavar="MODE", help="Image mode; `rtviewer trace --modes` lists all.  [default: shaded]")
@click.option("--pixel", type=PIXEL, help="With --screenshot: log the ray of this pixel of a 960x540 picture.")
@click.option("--step", type=Number(0, 2**31 - 1), metavar="EVENT", help="With --screenshot: stand on this event.")
@click.option("--expect", type=ExpectedType(), help="With --screenshot: say what became of this instance or primitive.")
@click.option(
    "--blas",
    metavar="FILE...",
    multiple=True,
    help="Bottom levels of a top level that comes alone (a blob or a dump), in the order of the addresses that its "
    "instances name; or ADDRESS=FILE.",
)
@click.option(
    "--base-address",
    type=Number(0, 2**63 - 1),
    metavar="ADDRESS",
    help="FILE is a tools-visualization dump whose buffer lay at this GPU address.  [default: inferred]",
)
@profile_options
def command(
    file: str | None, screenshot: Path | None, panes: str | None, mode: str | None,
    blas: tuple[str, ...], base_address: int | None, profile: Profile,
    pixel: tuple[int, int] | None, step: int | None, expect: Expected | None,
) -> int:  # fmt: skip
    """Open the window on FILE; with --screenshot, draw it to a file and exit."""
    if screenshot is not None and screenshot.suffix.lower() != ".png":
        raise click.UsageError(f"--screenshot writes PNG: {screenshot} should end in .png")
    if mode is not None:
        check_mode(mode)
    if file is None and (blas or base_address is not None):
        raise click.UsageError("--blas and --base-address go with a FILE")
    if screenshot is None and (pixel, step, expect) != (None, None, None):
        raise click.UsageError("--pixel, --step and --expect go with --screenshot")
    from rtviewer.io.bottom_level_files import BottomLevelFile
    from rtviewer.io.registry import resolve

    if file is not None:
        resolve(file)  # a file that is not there is told before anything about the display
    try:
        from rtviewer.gui.app import run
    except ImportError as error:
        raise RtviewerError(f"the window cannot be loaded ({error}); `rtviewer doctor` says what is missing") from error
    names = tuple(name.strip() for name in (panes or "").split(",") if name.strip())
    bottom_levels = [BottomLevelFile.parse(text) for text in blas]
    code: int = run(
        file, screenshot=screenshot, panes=names, profile=profile, bottom_levels=bottom_levels,
        base_address=base_address, mode=mode or "", pixel=pixel, step=step, expected=expect,
    )  # fmt: skip
    return code
