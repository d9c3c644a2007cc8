"""What is compiled, where it is kept, and that the modes without the JIT and with bounds checks agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rtviewer.kernels import compilation

TRACE = """
import json, sys
import numpy as np
from rtviewer.kernels import CACHE_FOLDER
from tests.properties.strategies import random_rays, random_settings, random_world
from tests.properties.test_tracing import dispatcher_of
out = []
for seed in range({worlds}):
    world, rays = random_world(seed, bool(seed & 1)), random_rays(seed, 16, bool(seed & 1))
    settings = random_settings(seed, 16, any_hit=[0, 1, 2, 3, 4, 5], accept_first=True)
    log = dispatcher_of(world).walk(rays, settings)
    hits = log.result.hits
    out.append([hits.t.view(np.uint32).tolist(), hits.primitive_index.tolist(), log.result.counters.tolist()])
print(json.dumps(dict(out=out, folder=str(CACHE_FOLDER))))
"""


def run(script: str, **environment: str) -> dict[str, object]:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=280,
        env={**os.environ, "PYTHONPATH": str(root), **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_without_the_jit_results_are_the_same() -> None:
    script = TRACE.format(worlds=4)
    assert run(script, NUMBA_DISABLE_JIT="1")["out"] == run(script)["out"]


@pytest.mark.slow
def test_bounds_checks_find_nothing(tmp_path: Path) -> None:
    script = TRACE.format(worlds=12)
    assert run(script, NUMBA_BOUNDSCHECK="1", XDG_CACHE_HOME=str(tmp_path))["out"] == run(script)["out"]


def test_the_installed_numba_is_one_that_the_short_way_was_tried_with() -> None:
    """When this fails for a new numba: see whether the next test passes with it, then add it to KNOWN_VERSIONS. Until
    then kernels are compiled whole, which takes three times as long."""
    assert compilation.BY_PARTS or os.environ.get("RTVIEWER_WHOLE_KERNELS") == "1"


@pytest.mark.slow
def test_compiled_whole_results_are_the_same(tmp_path: Path) -> None:
    script = TRACE.format(worlds=12)
    whole, by_parts = run(script, RTVIEWER_WHOLE_KERNELS="1", XDG_CACHE_HOME=str(tmp_path)), run(script)
    assert whole["out"] == by_parts["out"]
    assert Path(str(whole["folder"])).name != Path(str(by_parts["folder"])).name


COMPILED = """
import json
from numba.core import event
compiled = []
class Listener(event.Listener):
    def on_start(self, e): compiled.append(str(e.data.get("dispatcher")))
    def on_end(self, e): pass
import rtviewer.kernels as kernels
kernels.warm_up()
with event.install_listener("numba:compile", Listener()):
    {rest}
print(json.dumps(dict(compiled=compiled)))
"""

PRODUCT = """
    from rtviewer.session.document import build_world
    from rtviewer.io.registry import load_scene
    from rtviewer.scene.camera import fitting_camera
    from rtviewer.trace.request import RayBatch, TraceSettings
    world = build_world(load_scene("scenes/culling_lab"))
    rays = RayBatch.make([[0, 0, 5]], [[0, 0, -1]])
    world.dispatcher().trace(rays, TraceSettings())
    world.dispatcher().trace(rays, TraceSettings(), counters=True)
    many = RayBatch.make([[0, 0, 5]] * 20, [[0, 0, -1]] * 20)
    world.dispatcher().trace(many, TraceSettings(ray_flags=1))
    world.dispatcher().trace(many, TraceSettings(ray_flags=1, hit_only=True))
    world.dispatcher().walk(rays, TraceSettings())
"""


def test_warm_up_compiles_all_that_the_product_uses() -> None:
    assert run(COMPILED.format(rest=PRODUCT.strip()))["compiled"] == []


def test_a_second_process_compiles_nothing() -> None:
    run("import rtviewer.kernels as k, json; k.warm_up(); print(json.dumps({}))")
    script = """
import json
from numba.core import event
compiled = []
class Listener(event.Listener):
    def on_start(self, e): compiled.append(str(e.data.get("dispatcher")))
    def on_end(self, e): pass
import rtviewer.kernels as kernels
with event.install_listener("numba:compile", Listener()):
    kernels.warm_up()
print(json.dumps(dict(compiled=compiled)))
"""
    assert run(script)["compiled"] == []


def test_the_cache_folder_depends_on_the_processor(tmp_path: Path) -> None:
    ask = "import json, rtviewer.kernels as k; print(json.dumps({'folder': str(k.CACHE_FOLDER)}))"
    assert run(ask)["folder"] != run(ask, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")["folder"]
