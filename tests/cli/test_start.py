"""The command line as a process: what it loads, and that it ends as it should."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rtviewer.cli.main import LazyCommands, cli, looks_like_path

ROOT = Path(__file__).parents[2]
HEAVY = ("numba", "llvmlite", "PySide6", "pyqtgraph", "OpenGL", "trimesh")


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )


def test_help_loads_nothing_heavy():
    done = python(f"""
import sys
from rtviewer.cli.main import run
assert run(["--help"]) == 0
loaded = [name for name in {(*HEAVY, "numpy")!r} if name in sys.modules]
assert not loaded, loaded
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["info", "build", "trace", "ray", "conformance", "doctor", "view"])
def test_a_commands_help_loads_neither_qt_nor_numba(command):
    done = python(f"""
import sys
from rtviewer.cli.main import run
assert run([{command!r}, "--help"]) == 0
loaded = [name for name in {HEAVY!r} if name in sys.modules]
assert not loaded, loaded
""")
    assert done.returncode == 0, done.stderr


def test_working_commands_never_load_qt(tmp_path):
    path = tmp_path / "one.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    done = python(f"""
import sys
from rtviewer.cli.main import run
path = {str(path)!r}
for words in (["info", path], ["build", path], ["trace", path, "--size", "8x8"], ["ray", path, "--pixel", "4,4"]):
    assert run(words) == 0, words
loaded = [name for name in ("PySide6", "pyqtgraph", "OpenGL") if name in sys.modules]
assert not loaded, loaded
""")
    assert done.returncode == 0, done.stderr


def test_module_and_script_are_the_same():
    done = subprocess.run(
        [sys.executable, "-m", "rtviewer", "--version"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout.split()[0]) == (0, "rtviewer")
    done = subprocess.run(
        [sys.executable, "-m", "rtviewer", "info", "nowhere.obj"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("rtviewer: nowhere.obj")


def test_doctor_answers_without_a_display():
    import os

    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run(
        [sys.executable, "-m", "rtviewer", "doctor", "--json"], capture_output=True, text=True, timeout=120,
        check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["versions"]["numpy"]
    assert report["threads"] >= 1
    assert report["kernel_cache"]["folder"]
    assert "trimesh" not in report["versions"]  # only tests use it
    assert report["profile"]["name"] == "tier 1.1"
    assert "ALLOW_UPDATE" in report["profile"]["build_flags"]
    if sys.platform == "linux":
        assert report["opengl"]["available"] is False
        assert "no display" in report["opengl"]["reason"]


def test_a_closed_pipe_is_no_error(tmp_path):
    path = tmp_path / "one.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    done = subprocess.run(
        f"'{sys.executable}' -m rtviewer ray '{path}' --pixel 400,270 --json | head -c 1", shell=True,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout == "{"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "command"),
    [(["scenes/cornell"], "view"), (["mesh.glb"], "view"), (["view", "x"], "view"), (["info", "x"], "info")],
)
def test_a_path_means_the_window(words, command):
    group = cli
    assert isinstance(group, LazyCommands)
    name, found, _ = group.resolve_command(group.make_context("rtviewer", ["info"]), words)
    assert (name, found.name) == (command, command)


def test_words_that_are_no_paths():
    assert not looks_like_path("biuld")
    assert not looks_like_path("--json")
    assert looks_like_path("../a")
