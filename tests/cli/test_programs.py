"""Programs on the command line: built-in names, a user's file, the debug switch, shadings by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rtviewer.cli.main import run
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.shade.shadings import CLOSEST_HIT, MISS

FOLDER = Path(__file__).parents[2] / "scenes" / "programs"
FILE = str(FOLDER / "programs.py")
TRACE = ["trace", str(FOLDER), "--size", "48x32", "--json"]
RAY = ["ray", str(FOLDER), "--size", "48x32", "--pixel", "24,14", "--json"]


def answer(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict:
    assert run(words) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_every_name_is_an_option_and_in_the_help(capsys):
    assert run(["trace", "--help"]) == 0
    text = "".join(capsys.readouterr().out.split())
    for program in (*AnyHitProgram, *IntersectionProgram):
        assert program.name.lower() in text
    hits = [answer([*TRACE, "--intersection", p.name.lower()], capsys)["hits"] for p in IntersectionProgram]
    assert len(set(hits)) > 3


def test_a_users_file_is_used_only_when_named(capsys):
    plain = answer([*TRACE, "--any-hit", "accept", "--intersection", "box"], capsys)
    own = answer([*TRACE, "--programs", FILE, "--any-hit", "stripes", "--intersection", "user:cylinder"], capsys)
    assert own["hits"] < plain["hits"]
    assert run([*TRACE, "--any-hit", "stripes"]) == 2
    assert "is no program" in capsys.readouterr().err
    assert run([*TRACE, "--programs", FILE, "--any-hit", "cylinder"]) == 2
    assert "there is no any-hit program 'cylinder'" in capsys.readouterr().err


def test_a_file_that_does_not_load_is_an_error_with_its_line(tmp_path, capsys):
    (tmp_path / "own.py").write_text("x = 1\ny = x.z\n")
    assert run([*TRACE, "--programs", str(tmp_path / "own.py")]) != 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "own.py:2: AttributeError" in err


@pytest.mark.rule("AH-7", "PROC-8")
def test_repeated_calls_show_in_the_log(capsys):
    words = [*RAY, "--any-hit", "ignore"]
    once, twice = answer(words, capsys), answer([*words, "--repeat-calls"], capsys)
    kinds = [event["kind"] for event in twice["events"]]
    assert "repeated" not in [event["kind"] for event in once["events"]]
    assert kinds.count("repeated") > 0
    assert twice["counters"]["any_hit_calls"] == 2 * once["counters"]["any_hit_calls"]
    assert {event["rule"] for event in twice["events"] if event["kind"] == "repeated"} == {"AH-7"}


def test_shadings_by_name(tmp_path, capsys):
    pictures = {}
    for name in CLOSEST_HIT:
        answer([*TRACE, "--closest-hit", name, "--miss", "magenta", "-o", str(tmp_path / "a.png")], capsys)
        pictures[name] = np.asarray(Image.open(tmp_path / "a.png"))
        assert tuple(pictures[name][0, 0, :3]) == (255, 0, 255)
    assert len({picture.tobytes() for picture in pictures.values()}) == len(CLOSEST_HIT)
    assert run([*TRACE, "--miss", "nothing"]) == 2
    error = capsys.readouterr().err
    assert all(name in error for name in MISS)
