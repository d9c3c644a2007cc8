"""``rtviewer doctor``: what this machine offers, and whether everything that is needed works."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from rtviewer.cli.options import output_options, profile_options
from rtviewer.cli.output import bytes_text, print_facts, print_json, progress_bar
from rtviewer.dxr.flags import format_flags
from rtviewer.dxr.profile import Profile

PACKAGES = (
    "rtviewer", "numpy", "numba", "llvmlite", "PySide6-Essentials", "pyqtgraph", "PyOpenGL", "pillow", "OpenEXR",
)  # fmt: skip

# Runs in a child process, because a broken driver or a missing display can end a process without an exception.
OPENGL_PROBE = """
import json, sys
from PySide6.QtGui import QGuiApplication, QOffscreenSurface, QOpenGLContext
application = QGuiApplication(sys.argv[:1])
context, surface = QOpenGLContext(), QOffscreenSurface()
surface.create()
if not context.create() or not context.makeCurrent(surface):
    sys.exit("no OpenGL context can be made")
texts = {name: context.functions().glGetString(number)
         for name, number in (("vendor", 0x1F00), ("renderer", 0x1F01), ("version", 0x1F02))}
print(json.dumps(texts | {"platform": application.platformName()}))
"""
PROBE_SECONDS = 30


@click.command("doctor")
@click.option("--warm-up", is_flag=True, help="Compile all kernels into the cache now.")
@output_options
@profile_options
def command(warm_up: bool, as_json: bool, profile: Profile) -> int:
    """Say what this machine offers: versions, OpenGL, threads, kernel cache.

    Exit code 1 when a package is not installed (OpenEXR may be missing), or when there is a display and OpenGL does
    not work on it. Without a display OpenGL is only reported: the commands other than view do not need it.
    """
    from rtviewer.gui.display import display_problem
    from rtviewer.session.jobs import default_threads

    if warm_up:
        from rtviewer.kernels import warm_up as compile_kernels

        with progress_bar() as progress:
            compile_kernels(progress)
    no_display = display_problem()
    report: dict[str, Any] = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": platform.machine(),
        "threads": default_threads(),
        "profile": {
            "name": str(profile),
            "build_flags": format_flags(profile.known_build_flags),
            "ray_flags": format_flags(profile.known_ray_flags),
        },
        "versions": {name: installed_version(name) for name in PACKAGES},
        "opengl": opengl(no_display),
        "kernel_cache": kernel_cache(),
    }
    if as_json:
        print_json(report)
    else:
        _print(report)
    needed = [name for name in PACKAGES if name != "OpenEXR"]
    is_missing = any(report["versions"][name] is None for name in needed)
    return 1 if is_missing or (no_display is None and not report["opengl"]["available"]) else 0


def installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def opengl(no_display: str | None) -> dict[str, Any]:
    """What OpenGL says in a child process; ``available`` False with the reason when it fails or has no display."""
    import json

    if no_display:
        return {"available": False, "reason": f"no display: {no_display}"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", OPENGL_PROBE], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"available": False, "reason": str(error)}
    if done.returncode == 0:
        try:
            return {"available": True, **json.loads(done.stdout)}
        except ValueError:
            return {"available": False, "reason": "the OpenGL check printed something else than its answer"}
    return {"available": False, "reason": failure_reason(done.stderr, done.returncode)}


def failure_reason(printed: str, code: int) -> str:
    """The cause in what a failed check printed: of a traceback its last line, else everything but Qt's advice."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        return lines[-1]
    told = [line for line in lines if not line.startswith(("This application failed to start", "Available platform"))]
    return "; ".join(told) or f"the check ended with code {code}"


def kernel_cache() -> dict[str, Any]:
    """Where compiled kernels are kept, and how many files and bytes there are."""
    from rtviewer.kernels import CACHE_FOLDER

    files = [file for file in CACHE_FOLDER.rglob("*") if file.is_file()] if CACHE_FOLDER.is_dir() else []
    return {"folder": str(CACHE_FOLDER), "files": len(files), "bytes": sum(file.stat().st_size for file in files)}


def _print(report: dict[str, Any]) -> None:
    gl, cache = report["opengl"], report["kernel_cache"]
    print_facts(
        [
            ("python", report["python"]),
            ("system", f"{report['system']}, {report['processor']}"),
            ("threads", report["threads"]),
            ("profile", report["profile"]["name"]),
            *((name, found or "not installed") for name, found in report["versions"].items()),
            ("OpenGL", f"{gl['version']}, {gl['renderer']}" if gl["available"] else f"not available: {gl['reason']}"),
            ("kernel cache", f"{cache['folder']}, {cache['files']} files, {bytes_text(cache['bytes'])}"),
        ]
    )
