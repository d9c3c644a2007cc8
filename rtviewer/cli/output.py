"""How commands print: JSON to stdout, tables for people, progress to a terminal's stderr."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

_BEYOND_ASCII = "\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
UNSAFE = re.compile(f"[\x00-\x1f{_BEYOND_ASCII}]")
"""Control characters, those that turn the direction of text, and bytes of a path that are not UTF-8."""
UNSAFE_IN_JSON = re.compile(f"[{_BEYOND_ASCII}]")
"""The rest of them is escaped in JSON already."""


def print_json(value: Any) -> None:
    """Print JSON that every reader accepts: NaN and infinity become null, numpy scalars and tuples what they are."""
    text = json.dumps(_plain(value), indent=2, allow_nan=False, ensure_ascii=False)
    click.echo(UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def printable(text: str) -> str:
    """Text of a file or a path, fit for a terminal: control characters as ``\\x1b``, so that none is obeyed."""
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)


def print_line(text: str, *, err: bool = False) -> None:
    """Print one line, :func:`printable`."""
    click.echo(printable(text), err=err)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, left: int = 1) -> None:
    """Print a table; the first ``left`` columns left-aligned, the others right, as numbers are."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
    # A pipe has no width: lines there are as long as they need to be.
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 240).print(table)


def print_facts(facts: Sequence[tuple[str, Any]]) -> None:
    """Print names and values, one pair a line."""
    width = max((len(name) for name, _ in facts), default=0)
    for name, value in facts:
        print_line(f"{name:<{width}}  {value}")


@contextmanager
def progress_bar() -> Iterator[Callable[[float, str], None] | None]:
    """A progress callback that draws on a terminal, None where stderr is none."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda fraction, text: progress.update(task, completed=fraction, description=text)


def bytes_text(count: int) -> str:
    """``1536`` as ``1.5 KiB``."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"


def seconds_text(seconds: float) -> str:
    """Milliseconds below one second."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def number_text(value: float | None) -> str:
    """A float32's shortest text."""
    import numpy as np

    if value is None or math.isnan(value):
        return "-"
    with np.errstate(over="ignore"):  # bounds can be beyond float32's range
        return str(np.float32(value))
