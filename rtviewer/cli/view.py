"""``rtviewer view``: the window. The only command that loads Qt."""

from __future__ import annotations

from pathlib import Path

import click

from rtviewer.cli.options import profile_options
from rtviewer.dxr.profile import Profile
from rtviewer.errors import RtviewerError


@click.command("view")
@click.argument("file", metavar="[FILE]", required=False, type=click.Path())
@click.option("--screenshot", type=click.Path(path_type=Path), help="Draw the window once to this PNG and exit.")
@click.option("--panes", metavar="NAME,NAME", help="Panes to show, separated by commas.  [default: the usual layout]")
@profile_options
def command(file: str | None, screenshot: Path | None, panes: str | None, profile: Profile) -> int:
    """Open the window on FILE; with --screenshot, draw it to a file and exit."""
    if screenshot is not None and screenshot.suffix.lower() != ".png":
        raise click.UsageError(f"--screenshot writes PNG: {screenshot} should end in .png")
    try:
        from rtviewer.gui.app import run
    except ImportError as error:
        raise RtviewerError(f"the window cannot be loaded ({error}); `rtviewer doctor` says what is missing") from error
    names = tuple(name.strip() for name in (panes or "").split(",") if name.strip())
    code: int = run(file, screenshot=screenshot, panes=names, profile=profile)
    return code
