"""Damages bytes in every way it can think of and gives them to the readers: a program, so that a crash is not its
caller's.

    python -m tests.properties.hostile blobs --count 2000
    python -m tests.properties.hostile blobs --only 1234      one case again

Each case depends on target, seed and its number only. A case ends well when the bytes are refused with an error of
ours, or give a structure that keeps every invariant and can be walked, decoded and copied. Anything else ends the
program: another exception, more memory than the bytes can account for, a crash.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rtviewer.accel import layout
from rtviewer.accel.invariants import check
from rtviewer.accel.navigate import tree_of
from rtviewer.accel.stats import statistics
from rtviewer.accel.structure import Structure, aligned_bytes
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.copymode.clone import clone
from rtviewer.copymode.compact import compact
from rtviewer.copymode.decode import decode, decoded_size
from rtviewer.copymode.dehydrate import is_dehydrated, read_dehydrated, rehydrate
from rtviewer.copymode.deserialize import deserialize
from rtviewer.copymode.differences import differences
from rtviewer.copymode.identify import describe_blob
from rtviewer.copymode.read_decode import DecodedBlas, DecodedTlas, read_decode
from rtviewer.copymode.serialize import PAYLOAD_HEADER, payload_checksum, serialize
from rtviewer.dxr.descs import BlasInputs
from rtviewer.dxr.flags import BuildFlag
from rtviewer.errors import RtviewerError
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import RayBatch, TraceSettings
from tests.properties.strategies import random_rays
from tests.unit.copymode.driver_decode import Block, Boxes, Triangles, written
from tests.unit.copymode.samples import MIXED, dehydrated_samples, samples
from tests.worlds import Placement, blas_address, instance_table, one_blas, scale, triangles

MEMORY_ALLOWED = 256 << 20
"""Address space that all cases together may take beyond what the program has after its first trace."""
LARGEST_DECODE = 1 << 20
"""Inactive primitives take no bytes in a structure and 36 in a decode, so a decode may rightly be asked to be huge."""

EXTREMES = (0, 1, 2, 3, 4, 255, 256, 257, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0x1FFFFFFF,
            0x20000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x7F7FFFFF, 0x00000001, 0x80000000)  # fmt: skip
"""Counts, references and floats (infinities, quiet and signalling NaN, largest, smallest) as 32-bit words."""
LONG_EXTREMES = (
    0,
    1,
    255,
    256,
    1 << 31,
    1 << 32,
    (1 << 32) - 1,
    1 << 40,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
)

Random = np.random.Generator


# --- damaging -----------------------------------------------------------------------------------------------------


def damage(data: np.ndarray, random: Random, hot: int) -> np.ndarray:
    """A copy with one to four changes; half of them within the first ``hot`` bytes, where counts and offsets are."""
    out = data.copy()
    if random.random() < 0.1:
        out = out[: int(random.integers(0, len(out) + 1))].copy()
    for _ in range(int(random.integers(1, 5)) if len(out) else 0):
        reach = min(len(out), hot) if random.random() < 0.5 else len(out)
        _CHANGES[int(random.integers(len(_CHANGES)))](out, int(random.integers(reach)), random)
    return out


def _flip_bit(out: np.ndarray, at: int, random: Random) -> None:
    out[at] ^= 1 << int(random.integers(8))


def _set_byte(out: np.ndarray, at: int, random: Random) -> None:
    out[at] = random.integers(256)


def _set_word(out: np.ndarray, at: int, random: Random) -> None:
    _put(out, at & ~3, struct.pack("<I", EXTREMES[int(random.integers(len(EXTREMES)))]))


def _set_long(out: np.ndarray, at: int, random: Random) -> None:
    _put(out, at & ~7, struct.pack("<Q", LONG_EXTREMES[int(random.integers(len(LONG_EXTREMES)))]))


def _step_word(out: np.ndarray, at: int, random: Random) -> None:
    at &= ~3
    word = int.from_bytes(out[at : at + 4].tobytes(), "little")
    _put(out, at, struct.pack("<I", (word + int(random.choice([-256, -64, -4, -1, 1, 4, 64, 256]))) & 0xFFFFFFFF))


def _copy_word(out: np.ndarray, at: int, random: Random) -> None:
    """A value that stands somewhere else: an offset for a count, a child for another."""
    source = int(random.integers(len(out))) & ~3
    _put(out, at & ~3, out[source : source + 4].tobytes())


def _clear(out: np.ndarray, at: int, random: Random) -> None:
    out[at : at + int(random.integers(1, 65))] = int(random.choice([0, 255]))


def _put(out: np.ndarray, at: int, raw: bytes) -> None:
    room = out[at : at + len(raw)]
    room[:] = np.frombuffer(raw, np.uint8)[: len(room)]


_CHANGES = (_flip_bit, _set_byte, _set_word, _set_word, _set_long, _step_word, _copy_word, _clear)


# --- using what was accepted --------------------------------------------------------------------------------------


def rays() -> RayBatch:
    return random_rays(7, 24, lattice=True)


def use(structure: Structure) -> None:
    """What passed every check must stand all that is done with structures."""
    problems = check(structure)
    assert not problems, problems
    if is_dehydrated(structure):
        return
    statistics(structure, tree_of(structure))
    walk(structure)
    assert check(clone(structure)) == []
    assert check(deserialize(serialize(structure))) == []
    if structure.build_flags & BuildFlag.ALLOW_COMPACTION:
        assert check(compact(structure)) == []
    if decoded_size(structure) <= LARGEST_DECODE:
        assert len(decode(structure)) == decoded_size(structure)


def walk(structure: Structure) -> None:
    if structure.is_top_level:
        small = one_blas(triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]]))
        addresses = structure.instance_descs["AccelerationStructure"]
        dispatcher = Dispatcher(structure, {int(a): small for a in np.unique(addresses) if a})
    else:
        table = instance_table([Placement(0), Placement(0, scale(-2))])
        blases = {blas_address(0): structure}
        dispatcher = Dispatcher(build_tlas(table, blases=blases), blases)
    log = dispatcher.walk(rays(), TraceSettings(any_hit=2), limit=20_000)
    assert len(log.result.hits) == len(rays())


# --- targets ------------------------------------------------------------------------------------------------------


def _pick(items: list[np.ndarray], random: Random) -> np.ndarray:
    return items[int(random.integers(len(items)))]


class Target:
    """``run(random)`` damages something and reads it; it returns or raises an error of ours."""

    def __init__(self) -> None:
        self.structures = [sample.structure for sample in samples().values()]
        self.blobs = [serialize(structure) for structure in self.structures]
        self.dehydrated = [sample.structure.data for sample in dehydrated_samples().values()]
        self.decodes = [(decode(structure, 0x4_0000_0000), 0x4_0000_0000) for structure in self.structures]
        self.decodes += [(data, BASE_OF_DRIVERS) for data in _driver_decodes()]

    def blobs_as_they_are(self, random: Random) -> None:
        blob = damage(_pick(self.blobs, random), random, 200)
        if len(blob) >= 56:
            described = describe_blob(blob)
            assert described.payload[1] <= max(len(blob), 56)
        use(deserialize(blob))

    def forged_blobs(self, random: Random) -> None:
        """With sizes and checksum made to fit, so that what is inside is what gets read."""
        blob = _pick(self.blobs, random)
        begin = 56 + 8 * int(blob[48:52].view("<u4")[0]) + PAYLOAD_HEADER.itemsize
        body = damage(blob[begin:], random, layout.HEADER.itemsize)
        forged = np.concatenate([blob[:begin], body])
        _put(forged, 32, struct.pack("<QQ", len(forged), len(body)))
        _put(forged, begin - 16, struct.pack("<Q", len(body)))
        _put(forged, begin - 8, struct.pack("<Q", payload_checksum(forged)))
        use(deserialize(forged))

    def structures_as_they_are(self, random: Random) -> None:
        data = damage(self.structures[int(random.integers(len(self.structures)))].data, random, layout.HEADER.itemsize)
        copy = aligned_bytes(len(data))
        copy[:] = data
        structure = Structure(copy)
        problems = check(structure)
        if problems:
            raise Refused("; ".join(problems))
        use(structure)

    def dehydrated_bytes(self, random: Random) -> None:
        structure = read_dehydrated(damage(_pick(self.dehydrated, random), random, layout.HEADER.itemsize))
        use(structure)
        use(rehydrate(structure, MIXED))

    def decode_buffers(self, random: Random) -> None:
        data, base = self.decodes[int(random.integers(len(self.decodes)))]
        read = read_decode(damage(data, random, 8 + 56 * 4), base if random.random() < 0.5 else None)
        if isinstance(read, DecodedTlas):
            differences(read, read.instance_inputs())
            return
        assert isinstance(read, DecodedBlas)
        differences(read, MIXED)
        inputs = read.blas_inputs()
        if inputs.primitive_count < 5000:
            use(build_blas(BlasInputs(inputs.geometries), BuildFlag.ALLOW_UPDATE))


TARGETS: dict[str, Callable[[Target, Random], None]] = {
    "blobs": Target.blobs_as_they_are,
    "forged": Target.forged_blobs,
    "structures": Target.structures_as_they_are,
    "dehydrated": Target.dehydrated_bytes,
    "decodes": Target.decode_buffers,
}

BASE_OF_DRIVERS = 0x2_4680_0100


class Refused(RtviewerError):
    """The invariants name a problem."""


def _driver_decodes() -> list[np.ndarray]:
    """Buffers with what ours never have: indices, transforms, other formats, shared blocks."""
    random = np.random.default_rng(11)
    half = Block(random.normal(0, 2, (40, 4)).astype("<f2").tobytes(), 8)
    small = Block(random.integers(0, 256, 300, np.uint8).tobytes())
    short = Block(random.integers(0, 40, 90).astype("<u2").tobytes())
    long = Block(random.integers(0, 40, 60).astype("<u4").tobytes())
    matrix = Block(random.normal(0, 1, 12).astype("<f4").tobytes(), 16)
    low = random.normal(0, 2, (20, 3)).astype("<f4")
    both = Block(np.concatenate([low, low + 1], 1).astype("<f4").tobytes(), 8)
    meshes = [
        Triangles(half, 10, 40, 8, short, 57, 90, matrix, 1),
        Triangles(half, 34, 40, 8, long, 42, 60, None, 2),
        Triangles(small, 28, 75, 4),
        Triangles(small, 24, 75, 4, short, 57, 30),
    ]
    return [written(meshes), written(meshes, reverse=True, tail=40), written([Boxes(both, 20, 24), Boxes(both, 9, 48)])]


# --- the program --------------------------------------------------------------------------------------------------


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_ALLOWED
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=0.0, help="go on for so long, whatever the count")
    parser.add_argument("--only", type=int, default=None, help="number of one case")
    parser.add_argument("--place", type=Path, default=None, help="a file that always holds the case being run")
    options = parser.parse_args()
    target, run = Target(), TARGETS[options.target]
    for structure in target.structures:
        use(structure)  # compiles the kernels, and shows that undamaged samples pass
    _limit_memory()
    place = os.open(options.place, os.O_RDWR | os.O_CREAT) if options.place else None
    accepted = refused = 0
    slowest = (0.0, -1)
    start, case = time.monotonic(), options.only or 0
    while options.only == case or (options.only is None and _goes_on(case, start, options)):
        if place is not None:
            os.pwrite(place, f"{case:12d}".encode(), 0)
        began = time.monotonic()
        try:
            run(target, np.random.default_rng([options.seed, case]))
            accepted += 1
        except RtviewerError:
            refused += 1
        except BaseException:
            print(f"case {case} of {options.target}, seed {options.seed}", file=sys.stderr)
            raise
        slowest = max(slowest, (time.monotonic() - began, case))
        case += 1
    print(json.dumps({"accepted": accepted, "refused": refused, "slowest": slowest[0], "slowest_case": slowest[1]}))


def _goes_on(case: int, start: float, options: argparse.Namespace) -> bool:
    return case < options.count or time.monotonic() - start < options.seconds


if __name__ == "__main__":
    main()
