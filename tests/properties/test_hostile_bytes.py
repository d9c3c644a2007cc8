"""Bytes from anywhere: refused with an error, or a sound structure; never a crash, a hang or memory without end.

The cases run in programs of their own (``tests.properties.hostile``) under a memory limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.accel.structure import Structure, aligned_bytes
from rtviewer.copymode.decode import decode
from rtviewer.copymode.dehydrate import read_dehydrated
from rtviewer.copymode.deserialize import deserialize
from rtviewer.copymode.read_decode import read_decode
from rtviewer.copymode.serialize import serialize
from rtviewer.errors import FileFormatError, InvalidInputError
from tests.unit.copymode.samples import NAMES, dehydrated_samples, samples

COUNTS = {"blobs": 2000, "forged": 3000, "structures": 3000, "dehydrated": 2000, "decodes": 2500}
SLOWEST = 10.0
"""Seconds that one case may take, on a busy machine."""


@pytest.mark.slow
@pytest.mark.rule("SER-12", "XB-6", "VIS-1")
@pytest.mark.parametrize("target", COUNTS)
def test_damaged_bytes(target: str, fuzz_seconds: float, tmp_path: Path, root: Path) -> None:
    place = tmp_path / "case"
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.properties.hostile", target, "--place", str(place)]
    command += ["--count", str(COUNTS[target]), "--seconds", str(fuzz_seconds)]
    if fuzz_seconds:
        command += ["--seed", str(int(np.random.default_rng().integers(1 << 31)))]
    try:
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=240 + 2 * fuzz_seconds, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"hangs at case {place.read_text()}: {' '.join(command)}")
    assert done.returncode == 0, f"case {place.read_text()} of {' '.join(command)}\n{done.stderr[-3000:]}"
    told = json.loads(done.stdout)
    assert told["accepted"] + told["refused"] >= COUNTS[target]
    assert told["refused"] > COUNTS[target] // 4
    assert told["accepted"] > 0
    assert told["slowest"] < SLOWEST, told


@pytest.mark.rule("SER-12", "XB-6", "VIS-1")
@pytest.mark.parametrize("name", NAMES)
def test_every_truncation(name: str) -> None:
    """Blobs, decodes and structures cut at every kind of place; a decode may lose no more than its padding."""
    structure = samples()[name].structure
    blob, shown = serialize(structure), decode(structure, 0x10000)
    for length in _lengths(len(blob)):
        with pytest.raises(FileFormatError):
            deserialize(blob[:length])
    needed = 8 + 64 * len(structure.instance_descs) if structure.is_top_level else len(shown) - 15
    for length in _lengths(min(needed, len(shown) - 15)):
        with pytest.raises(InvalidInputError):
            read_decode(shown[:length], 0x10000)
    for length in _lengths(structure.size):
        cut = aligned_bytes(length)
        cut[:] = structure.data[:length]
        assert check(Structure(cut))


@pytest.mark.rule("XB-6")
@pytest.mark.parametrize("name", ["dehydrated", "dehydrated small"])
def test_every_truncation_of_dehydrated_bytes(name: str) -> None:
    data = dehydrated_samples()[name].structure.data
    for length in _lengths(len(data)):
        with pytest.raises(FileFormatError):
            read_dehydrated(data[:length])


def _lengths(size: int) -> list[int]:
    """All small ones, every 37th after that, and all of the last."""
    return sorted({*range(min(size, 130)), *range(130, size, 37), *range(max(size - 20, 0), size)})
