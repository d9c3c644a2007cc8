"""``rtviewer doctor --warm-up``: everything is compiled afterwards, what an image needs first."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from rtviewer import kernels

ROOT = Path(__file__).parents[2]

WARM_UP = """
import io, json, sys
from contextlib import redirect_stdout
from numba.core import event
from rtviewer.cli.main import run

class Listener(event.Listener):
    def __init__(self): self.names = []
    def on_start(self, e): self.names.append(str(e.data.get("dispatcher")))
    def on_end(self, e): pass

def answer(*words):
    text = io.StringIO()
    with redirect_stdout(text):
        code = run([str(word) for word in words])
    return code, text.getvalue()

code, report = answer("doctor", "--warm-up", "--json")
listener = Listener()
with event.install_listener("numba:compile", listener):
    codes = [answer(*words)[0] for words in json.loads(sys.argv[1])]
print(json.dumps(dict(code=code, report=json.loads(report), codes=codes, compiled=listener.names)))
"""


def test_after_it_no_command_compiles_anything(tmp_path):
    scene = ROOT / "scenes/culling_lab"
    commands = [
        ["trace", scene, "--size", "16x16"],
        ["trace", scene, "--size", "16x16", "--mode", "box_tests"],
        ["ray", scene, "--pixel", "4,4"],
        *(
            ["build", scene, "--build-flags", flags]
            for flags in ("PREFER_FAST_BUILD", "PREFER_FAST_TRACE", "MINIMIZE_MEMORY")
        ),
    ]
    words = json.dumps([[str(word) for word in command] for command in commands])
    done = subprocess.run(
        [sys.executable, "-c", WARM_UP, words], capture_output=True, text=True, timeout=280, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["report"]["kernel_cache"]["files"] > 10
    assert answer["report"]["kernel_cache"]["folder"] == str(kernels.CACHE_FOLDER)
    assert answer["codes"] == [0] * len(commands), done.stderr
    assert answer["compiled"] == []


def test_what_an_image_needs_is_compiled_first():
    steps: list[tuple[float, str]] = []
    kernels.warm_up(lambda fraction, text: steps.append((fraction, text)))
    fractions, texts = zip(*steps, strict=True)
    assert list(fractions) == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)

    def first(word: str) -> int:
        return next(number for number, text in enumerate(texts) if word in text)

    assert first("builder") < first("tracer") < first("counters")
    assert first("tracer") < first("log")
