"""``rtviewer``: finds the command, runs it, and turns errors into one line and an exit code.

Exit codes: 0 done; 1 a check failed; 2 the user's mistake; 3 a mistake of this program; 130 interrupted.
Command modules are imported only when they are needed, and they import what they run only when they run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from rtviewer.errors import CancelledError, RtviewerError

COMMANDS: dict[str, str] = {
    "view": "Open the window, or draw it to a file.",
    "info": "Say what a scene, structures or a dump contain.",
    "build": "Build structures; print sizes, times, quality.",
    "trace": "Trace an image.",
    "ray": "Tell one ray's story, hit by hit.",
    "copy": "Copy structures in any mode.",
    "conformance": "Compare with recordings from a driver.",
    "doctor": "Say what this machine offers.",
}

CHECK_FAILED, USER_MISTAKE, OWN_MISTAKE, INTERRUPTED = 1, 2, 3, 130


class LazyCommands(click.Group):
    """Commands by name, imported on use; a first word that is a path means ``view``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"rtviewer.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and looks_like_path(args[0]):
            args = ["view", *args]
        return super().resolve_command(ctx, args)


def looks_like_path(word: str) -> bool:
    """Whether a word that is no command names a file, there or not."""
    return not word.startswith("-") and (bool(set(word) & {"/", os.sep, "."}) or Path(word).exists())


@click.group(
    cls=LazyCommands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="`rtviewer FILE` opens the window on FILE. `rtviewer COMMAND --help` explains a command.",
)
@click.version_option(version("rtviewer"), message="rtviewer %(version)s")
@click.option("--debug", is_flag=True, help="Show a traceback with errors.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """Visualizer and debugger for ray tracing acceleration structures with DXR semantics."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(run(words))


def run(words: list[str]) -> int:
    """Run the command line; returns the exit code. ``--debug`` is taken wherever it stands."""
    debug = "--debug" in words
    words = spread_blas([word for word in words if word != "--debug"])
    try:
        result: Any = cli.main(words, prog_name="rtviewer", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt, CancelledError):
        return _report("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away; without this, closing stdout at exit would complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except click.ClickException as error:
        if debug:
            raise
        return _report(error.format_message(), USER_MISTAKE)
    except RtviewerError as error:
        if debug:
            raise
        return _report(str(error), USER_MISTAKE)
    except Exception as error:
        if debug:
            raise
        text = f"internal error, {type(error).__name__}: {error} (--debug shows where)"
        return _report(text, OWN_MISTAKE)


def spread_blas(words: list[str]) -> list[str]:
    """``SOURCE --blas A B C`` as ``SOURCE --blas A --blas B --blas C``; only where SOURCE stands before the options,
    because it could not be told from a file otherwise."""
    if len(words) < 2 or words[1].startswith("-"):
        return words
    spread: list[str] = []
    is_inside = False
    for word in words:
        if word.startswith("-"):
            is_inside = word == "--blas"
        elif is_inside and spread[-1] != "--blas":
            spread.append("--blas")
        spread.append(word)
    return spread


def _report(text: str, code: int) -> int:
    click.echo(f"rtviewer: {' '.join(text.split())}", err=True)
    return code
