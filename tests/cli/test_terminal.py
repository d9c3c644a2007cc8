"""What reaches a terminal, and what happens when nothing can: control characters, closed and full outputs."""

import json
import subprocess
import sys

import numpy as np
import pytest

from rtviewer.cli.main import run
from rtviewer.cli.output import number_text, printable

OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
SCENE = """[[blas]]
name = "p\\u001b[31m\\u009bq"
[[blas.geometry]]
type = "triangles"
vertices = [[-1, -1, 0], [1, -1, 0], [1, 1, 0]]
indices = [[0, 1, 2]]
[[instance]]
blas = "p\\u001b[31m\\u009bq"
"""


def shell(words, redirection):
    return subprocess.run(
        f"set -o pipefail; '{sys.executable}' -m rtviewer {words} {redirection}", shell=True, executable="/bin/bash",
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def mesh(tmp_path):
    path = tmp_path / "one.obj"
    path.write_text(OBJ)
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize("command", ["info FILE", "info FILE --json", "build FILE", "trace --help"])
@pytest.mark.parametrize("redirection", ["| true", ">&-", ">&- 2>&-"])
def test_output_that_nobody_reads_is_no_error(mesh, command, redirection):
    done = shell(command.replace("FILE", f"'{mesh}'"), redirection)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
@pytest.mark.parametrize("command", ["info FILE", "info FILE --json", "build FILE", "--help"])
def test_output_that_cannot_be_written_is_one_line(mesh, command):
    done = shell(command.replace("FILE", f"'{mesh}'"), ">/dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith("rtviewer: cannot write the output: ")
    assert done.stderr.count("\n") == 1


def test_control_characters_of_names_are_not_obeyed(tmp_path, capsys):
    path = tmp_path / "scene.toml"
    path.write_text(SCENE)
    assert run(["build", str(path)]) == 0
    out = capsys.readouterr().out
    assert r"p\x1b[31m\x9bq" in out
    assert not set(out) & {"\x1b", "\x9b"}
    assert run(["build", str(path), "--json"]) == 0
    out = capsys.readouterr().out
    assert not set(out) & {"\x1b", "\x9b"}
    assert json.loads(out)["structures"][1]["name"] == "p\x1b[31m\x9bq"
    assert run(["info", "no\x1b[31mwhere.obj"]) == 2
    assert r"no\x1b[31mwhere.obj" in capsys.readouterr().err


def test_printable_keeps_every_other_character():
    assert printable("Dächer, 東京, 👩\u200d🚀 \\x") == "Dächer, 東京, 👩\u200d🚀 \\x"
    assert printable("a\nb\tc\x7f\u202e\udce9") == r"a\nb\tc\x7f\u202e\udce9"


def test_numbers_beyond_float32_print_without_a_warning():
    assert number_text(1e39) == "inf"
    assert number_text(float("nan")) == number_text(None) == "-"
    assert number_text(np.float32(0.1)) == "0.1"
