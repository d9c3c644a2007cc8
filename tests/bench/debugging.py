"""From a picked pixel to the whole log of its ray, and what recording costs an image that records nothing."""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from rtviewer.errors import RtviewerError
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.document import build_world
from rtviewer.session.raylog import walk_pixel
from rtviewer.session.state import RaySettings
from tests.bench.facts import ROOT, Fact, child_environment
from tests.bench.measure import interleave
from tests.bench.product import ProductTrace, ProductTree, blas_inputs, trace_settings
from tests.bench.rows import Plan
from tests.bench.scenes import SCENES, SIZES, TINY, Size, primary_rays

PICK, PICK_WORST = "picked pixel to full log, soup", "picked pixel to full log, soup, slowest pixel"
RECORDER = "image kernel / the same without the recorder's source"
WIDTH, HEIGHT, COLUMNS, ROWS = 1280, 720, 8, 6
"""A picture, and of how many pixels of it logs are taken."""
RECORDER_ROUNDS, RECORDER_RAYS = 15, 1 << 20
"""Two per cent are to be told apart: many rounds of at least so many rays."""
RECORDING = ("log_", "report_boxes", "add_event", "set_verdict")
"""How names of functions begin that only record; a test holds that the sources have them."""


# --- logs ---------------------------------------------------------------------------------------------------------


def measure_log(size: Size) -> list[Fact]:
    """Median and slowest of a grid of pixels, after one log of each: the walk, and every row with its sentence."""
    scene = SCENES["soup"](size)
    world = build_world(Scene(scene.name, (blas_inputs(scene),), (Instance(0),), (scene.camera,)))
    columns = ((np.arange(COLUMNS) + 0.5) * WIDTH / COLUMNS).astype(int)
    rows = ((np.arange(ROWS) + 0.5) * HEIGHT / ROWS).astype(int)
    pixels = [(int(x), int(y)) for y in rows for x in columns]
    seconds, events = [], []
    for pixel in (pixels[0], *pixels):  # the first one is no measure: it numbers the boxes of the structure
        started = time.perf_counter()
        log = walk_pixel(world, scene.camera, (WIDTH, HEIGHT), pixel, RaySettings())
        events.append(len(list(log)))
        seconds.append(time.perf_counter() - started)
    note = f"{len(pixels)} pixels, {int(np.median(events[1:]))} events in the middle, {max(events)} at most"
    return [
        Fact(PICK, statistics.median(seconds[1:]) * 1e3, "ms", note),
        Fact(PICK_WORST, max(seconds[1:]) * 1e3, "ms", f"{scene.primitive_count:,} triangles"),
    ]


# --- the recorder -------------------------------------------------------------------------------------------------


class _WithoutRecorder(ast.NodeTransformer):
    """Takes out of a module of kernels whatever runs only when there is a log."""

    def __init__(self) -> None:
        self.removed = 0

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if not ast.unparse(node.test).startswith(("log is not None", "log != 0")):
            return node
        self.removed += 1
        return node.orelse or ast.Pass()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name.startswith(RECORDING):
            self.removed += 1
            gives = any(isinstance(part, ast.Return) and part.value is not None for part in ast.walk(node))
            node.body = ast.parse("return 0" if gives else "pass").body
            return node
        self.generic_visit(node)
        return node


def without_recorder(source: str) -> tuple[str, int]:
    """A module's source without its recording parts, and how many were taken out."""
    transformer = _WithoutRecorder()
    tree = ast.fix_missing_locations(transformer.visit(ast.parse(source)))
    return ast.unparse(tree), transformer.removed


def measure_recorder(size: Size, plan: Plan) -> list[Fact]:
    """Primary rays of the torus on one thread, in two processes by turns: our sources, and a copy of them in which
    nothing is left that records. Both find the same hits; a slower first one would be the recorder's cost."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        ignored = shutil.ignore_patterns("__pycache__")
        for package in ("rtviewer", "tests"):
            shutil.copytree(ROOT / package, copy / package, ignore=ignored)
        removed = 0
        for module in sorted((copy / "rtviewer/kernels").glob("*.py")):
            text, count = without_recorder(module.read_text("utf-8"))
            removed += count
            if count:
                module.write_text(text, "utf-8")
        if not removed:
            raise RtviewerError("nothing in the kernels looks like a recorder: this measure must be brought up to date")
        with _Worker(ROOT, size) as ours, _Worker(copy, size) as stripped:
            if ours.found != stripped.found:
                raise RtviewerError("kernels without a recorder find other hits")
            samples = interleave({"ours": ours.run, "stripped": stripped.run}, max(plan.rounds, RECORDER_ROUNDS))
    ratio = samples["ours"].median / samples["stripped"].median
    return [Fact(RECORDER, ratio, "x time", f"{removed} pieces taken out, ± {samples['ours'].spread:.0%}")]


class _Worker:
    """A process that traces the same rays each time it is asked."""

    def __init__(self, root: Path, size: Size) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.debugging", size.name], cwd=root, env=child_environment(root),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.found = ""

    def __enter__(self) -> _Worker:
        self.found = self._read()
        return self

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.kill()
            raise RtviewerError("a process that measures the recorder ended early")
        return str(json.loads(line))

    def run(self) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return float(self._read())

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def main(size: Size) -> None:
    """The worker: a digest of what was hit, then CPU seconds for every line read."""
    scene = SCENES["torus"](size)
    rays = primary_rays(scene, size.pixels)
    with ThreadPoolExecutor(1) as pool:
        trace = ProductTrace(ProductTree(scene).dispatcher, rays, trace_settings(scene, occlusion=False), pool)
        trace.run(1)
        found = trace.found(scene.primitive_count, occlusion=False)
        print(json.dumps(hashlib.sha256(found.tobytes()).hexdigest()), flush=True)
        repeats = -(-RECORDER_RAYS // len(rays)) if size is not TINY else 1
        for _ in sys.stdin:
            print(sum(trace.run(1).cpu for _ in range(repeats)), flush=True)


if __name__ == "__main__":
    main(SIZES[sys.argv[1]])
