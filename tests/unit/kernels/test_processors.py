"""Code for AVX-512, for AVX2 and for any x86-64 gives the same bits: structures, hits, counters, logs.

Each kind is a process of its own with its own folder of compiled kernels. A cold one compiles everything.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding
import pytest

ROOT = Path(__file__).parents[3]
BASE = "+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16,+sahf,+mmx,+fxsr"
AVX2 = f"{BASE},+avx,+avx2,+fma,+bmi,+bmi2,+lzcnt,+movbe,+f16c"
AVX512 = f"{AVX2},+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl"


@dataclass(frozen=True)
class Processor:
    """``name`` and ``features`` as numba takes them; ``needs``: what the machine must have to run the code; ``bits``:
    width of the vectors it must use."""

    name: str
    features: str
    needs: tuple[str, ...]
    bits: int


PROCESSORS = {
    "AVX-512": Processor("skylake-avx512", AVX512, ("avx512f", "avx512bw", "avx512dq", "avx512vl"), 512),
    "AVX2": Processor("haswell", f"{AVX2},-avx512f", ("avx2", "fma", "bmi2"), 256),
    "portable": Processor("generic", "", (), 128),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="only x86-64 has these kinds"),
]


@cache
def answers_of(name: str, features: str) -> dict[str, Any]:
    """What ``processor_answers`` prints for a processor; empty strings mean this machine's own."""
    environment = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")}
    environment |= {"PYTHONPATH": str(ROOT)}
    if name:
        environment |= {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.kernels.processor_answers"], cwd=ROOT, capture_output=True, text=True,
        timeout=850, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("kind", list(PROCESSORS))
def test_every_processor_gives_the_same_bits(kind: str) -> None:
    wanted = PROCESSORS[kind]
    has = llvmlite.binding.get_host_cpu_features()
    missing = [feature for feature in wanted.needs if not has.get(feature)]
    if missing:
        pytest.skip(f"this machine has no {', '.join(missing)}")
    here, there = answers_of("", ""), answers_of(wanted.name, wanted.features)
    assert there["vector_bits"] == wanted.bits
    assert there["folder"] != here["folder"]
    assert len(here["answers"]) > 500
    assert here["answers"].keys() == there["answers"].keys()
    assert [name for name, digest in here["answers"].items() if there["answers"][name] != digest] == []
