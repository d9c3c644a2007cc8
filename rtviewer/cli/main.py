"""``rtviewer``: finds the command, runs it, and turns errors into one line and an exit code.

Exit codes: 0 done; 1 a check failed; 2 the user's mistake; 3 a mistake of this program; 130 interrupted.
Command modules are imported only when they are needed, and they import what they run only when they run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import click

from rtviewer.cli.output import print_line
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
    sys.stdout = sys.stdout or _nowhere()  # None when who started us closed them
    sys.stderr = sys.stderr or _nowhere()
    debug = "--debug" in words
    try:
        words = spread_blas([word for word in words if word != "--debug"])
        result: Any = cli.main(words, prog_name="rtviewer", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt, CancelledError):
        return _report("interrupted", INTERRUPTED)
    except (BrokenPipeError, SystemExit):
        # The reader of our output went away. click and rich make SystemExit of that; nothing here raises one.
        _drop_output()
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
        if unwritten := _output_error(error):
            _drop_output()
        if debug:
            raise
        if unwritten:
            return _report(unwritten, USER_MISTAKE)
        text = f"internal error, {type(error).__name__}: {error} (--debug shows where)"
        return _report(text, OWN_MISTAKE)


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _output_error(error: Exception) -> str:
    """What to say when what is printed cannot be written; empty for any other error. Those of files name the file."""
    if not isinstance(error, OSError) or error.errno is None or error.filename is not None:
        return ""
    return f"cannot write the output: {error.strerror}"


def _drop_output() -> None:
    """Let what is still to be printed go nowhere; else closing stdout at exit would complain once more."""
    with suppress(OSError, ValueError):  # a stdout that is no file has nothing to drop
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def spread_blas(words: list[str]) -> list[str]:
    """``--blas A B C`` as ``--blas A --blas B --blas C``, up to the next option.

    SOURCE is the word that belongs to no option; without one it is the last file of the last ``--blas`` that has more
    than one.
    """
    if "--blas" not in words:
        return words
    name = words[0] if words[0] in COMMANDS else "view"
    with_value = _options_with_value(name)
    has_source = False
    groups: list[list[str]] = []  # the words in order: "--blas" with its files, other options with their value, others
    for number, word in enumerate(words):
        last = groups[-1] if groups else [""]
        if word == "--" and last[0] not in with_value - {"--blas"}:
            groups.append(words[number:])
            has_source = has_source or number + 1 < len(words)
            break
        if last[0] in with_value and len(last) == 1:
            last.append(word)
        elif word.startswith("-"):
            groups.append([word])
        elif last[0] == "--blas":
            last.append(word)
        else:
            groups.append([word])
            has_source = has_source or number > 0 or word not in COMMANDS
    several = [group for group in groups if group[0] == "--blas" and len(group) > 2]
    if several and not has_source:
        groups.insert(groups.index(several[-1]) + 1, [several[-1].pop()])
    spread: list[str] = []
    for group in groups:
        if group[0] == "--blas" and len(group) > 1:
            spread += [word for file in group[1:] for word in ("--blas", file)]
        else:
            spread += group
    return spread


def _options_with_value(name: str) -> set[str]:
    """Every spelling of a command's options that take the word after them."""
    command: click.Command = import_module(f"rtviewer.cli.{name}").command
    options = [option for option in command.params if isinstance(option, click.Option) and not option.is_flag]
    return {spelling for option in options for spelling in option.opts}


def _report(text: str, code: int) -> int:
    with suppress(OSError):  # nobody reads stderr either
        print_line(f"rtviewer: {' '.join(text.split())}", err=True)
    return code
