"""Single numbers of the whole program, beside the tables of the scenes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtviewer.errors import RtviewerError

ROOT = Path(__file__).parents[2]
CHILD_SECONDS = 600


@dataclass(frozen=True)
class Fact:
    """``value`` None: not measured, ``note`` says why. ``unit``: ``s``, ``ms``, ``x`` (a ratio), ``rays`` and so on."""

    name: str
    value: float | None
    unit: str
    note: str = ""


def child_environment(root: Path = ROOT, **changes: str) -> dict[str, str]:
    """The environment of a process of this benchmark that takes its sources from ``root``."""
    return {**os.environ, "PYTHONPATH": str(root), **changes}


def run_child(arguments: Sequence[str], changes: Mapping[str, str] | None = None) -> Any:
    """What a Python process printed as JSON on its last line. Raises RtviewerError when it fails."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=CHILD_SECONDS, check=False,
        env=child_environment(**(changes or {})),
    )  # fmt: skip
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"code {done.returncode}"]
        raise RtviewerError(f"{' '.join(arguments[:2])[:80]} failed: {lines[-1]}")
    return json.loads(done.stdout.splitlines()[-1])
