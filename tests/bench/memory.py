"""How much memory a build takes at its peak, in a process that gives freed blocks back at once.

``python -m tests.bench.memory SIZE SCENE...`` is that process: it prints ``{scene: {flags: [peak, result]}}`` in bytes.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from pathlib import Path

from rtviewer.build.builder import build_blas
from tests.bench.facts import Fact, run_child
from tests.bench.product import ADDRESS, blas_inputs
from tests.bench.rows import PRODUCT_BUILDS
from tests.bench.scenes import SCENES, SIZES, TINY, BenchScene, Size

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "NUMBA_NUM_THREADS": "1"}
LARGE_ENOUGH = 8 << 20
"""Bytes of a result below which pages and allocator blur the ratio."""


def peak_name(builder: str) -> str:
    return f"memory at the peak of a build / result, {builder}, worst scene"


def measure_memory(size: Size, scenes: list[str]) -> list[Fact]:
    """The worst ratio of each builder over the scenes whose result is large enough to tell."""
    names = [peak_name(builder) for builder in PRODUCT_BUILDS]
    if not (STATUS.exists() and CLEAR.exists()):
        return [Fact(name, None, "x", "only Linux tells a process's peak") for name in names]
    found = run_child(["-m", "tests.bench.memory", size.name, *scenes], ALLOCATOR)
    facts = []
    for name, builder in zip(names, PRODUCT_BUILDS, strict=True):
        ratios = {
            s: rows[builder][0] / rows[builder][1] for s, rows in found.items() if rows[builder][1] > LARGE_ENOUGH
        }
        if not ratios:
            facts.append(Fact(name, None, "x", f"no result over {LARGE_ENOUGH >> 20} MB"))
            continue
        worst = max(ratios, key=lambda scene: ratios[scene])
        facts.append(Fact(name, ratios[worst], "x", f"{worst}: {found[worst][builder][0] / 2**20:.0f} MB"))
    return facts


def _kilobytes(field: str) -> int:
    line = next(line for line in STATUS.read_text("utf-8").splitlines() if line.startswith(field + ":"))
    return int(line.split()[1])


def peak_of_builds(scene: BenchScene) -> dict[str, tuple[int, int]]:
    """For each builder: bytes by which the process grew at most, and bytes that the structure uses."""
    inputs = blas_inputs(scene)
    found = {}
    for name, flags in PRODUCT_BUILDS.items():
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        CLEAR.write_text("5", "utf-8")  # forgets the peak so far
        before = _kilobytes("VmRSS")
        structure = build_blas(inputs, flags, address=ADDRESS)
        found[name] = (_kilobytes("VmHWM") - before) * 1024, structure.used_size
        del structure
    return found


def main(arguments: list[str]) -> None:
    size, scenes = SIZES[arguments[0]], arguments[1:]
    peak_of_builds(SCENES["torus"](TINY))  # loads the kernels
    print(json.dumps({name: peak_of_builds(SCENES[name](size)) for name in scenes}))


if __name__ == "__main__":
    main(sys.argv[1:])
