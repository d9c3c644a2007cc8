"""The tracers to compare with: found, compiled against and called.

Embree is the shared library inside the embreex wheel; tinybvh is a header in a folder that the user names. Each is
driven by a C++ file of ours, compiled at first use into the user's cache folder.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from rtviewer.errors import RtviewerError
from rtviewer.trace.request import RayBatch
from tests.bench.scenes import BenchScene

DRIVERS = Path(__file__).parent / "drivers"
COMPILE = ("g++", "-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", "-pthread")


class PeerMissingError(RtviewerError):
    """A peer cannot be measured here; the text says what is missing and how to get it."""


@dataclass(frozen=True)
class Timing:
    """``wall`` seconds, and ``cpu`` seconds: of the process for builds, of the calling thread for rays."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Peers:
    """What can be measured, and for what cannot, why."""

    embree: ctypes.CDLL | None
    embree_missing: str
    tinybvh: ctypes.CDLL | None
    tinybvh_missing: str


def find_peers(tinybvh_folder: Path | None) -> Peers:
    """Load both drivers, compiled when needed. A peer that is not there is no error; one that does not compile is."""
    embree = tinybvh = None
    embree_missing = tinybvh_missing = ""
    try:
        embree = load_embree()
    except PeerMissingError as error:
        embree_missing = str(error)
    try:
        tinybvh = load_tinybvh(tinybvh_folder)
    except PeerMissingError as error:
        tinybvh_missing = str(error)
    return Peers(embree, embree_missing, tinybvh, tinybvh_missing)


# --- compiling ----------------------------------------------------------------------------------------------------


def compile_driver(source: Path, includes: Sequence[Path] = ()) -> Path:
    """The shared library of a driver, from the cache when compiler and sources are the same.

    Raises PeerMissingError without g++, RtviewerError with the compiler's first lines when it fails.
    """
    if shutil.which(COMPILE[0]) is None:
        raise PeerMissingError("g++ is not installed (Debian: apt-get install g++)")
    digest = hashlib.sha256(" ".join(COMPILE).encode())
    version = subprocess.run([COMPILE[0], "-v"], capture_output=True, text=True, check=False)
    digest.update(version.stderr.encode() + _processor().encode())
    headers = sorted(header for folder in (DRIVERS, *includes) for header in folder.glob("*.h"))
    for file in (source, *headers):
        digest.update(file.read_bytes())
    folder = Path(platformdirs.user_cache_dir("rtviewer", appauthor=False)) / "bench"
    library = folder / f"{source.stem}-{digest.hexdigest()[:16]}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = library.with_suffix(f".{os.getpid()}.tmp")
    command = [*COMPILE, *(f"-I{include}" for include in includes), str(source), "-o", str(unfinished)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        unfinished.unlink(missing_ok=True)
        raise RtviewerError(f"{source.name} does not compile:\n" + "\n".join(done.stderr.splitlines()[:8]))
    unfinished.replace(library)
    return library


def _processor() -> str:
    """What ``-march=native`` depends on, so that a cache folder may be shared by machines."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text("utf-8", errors="replace").splitlines() if facts.exists() else []
    return "".join(line for line in lines[:40] if line.startswith(("model name", "flags", "Features")))


def embree_folder() -> Path | None:
    """Where the embreex wheel keeps its shared libraries; None when it is not installed."""
    spec = importlib.util.find_spec("embreex")
    return None if spec is None or spec.origin is None else Path(spec.origin).parents[1] / "embreex.libs"


def load_embree() -> ctypes.CDLL:
    """Our driver over the wheel's library. Raises PeerMissingError."""
    folder = embree_folder()
    if folder is None:
        raise PeerMissingError("embreex is not installed (pip install '.[bench]')")
    libraries = [next(iter(sorted(folder.glob(pattern))), None) for pattern in ("libtbb*", "libembree4*")]
    if None in libraries:
        raise PeerMissingError(f"{folder} has no Embree 4: this kind of wheel is not known")
    driver_file = compile_driver(DRIVERS / "embree.cpp")
    for library in libraries:
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    driver = ctypes.CDLL(str(driver_file))
    driver.embree_build.restype = ctypes.c_void_p
    driver.embree_refit.restype = driver.embree_trace.restype = ctypes.c_bool
    return driver


def load_tinybvh(folder: Path | None) -> ctypes.CDLL:
    """Our driver with tinybvh's header compiled in. Raises PeerMissingError."""
    if folder is None:
        raise PeerMissingError("no folder given (--tinybvh DIR, the folder of tiny_bvh.h)")
    if not (folder / "tiny_bvh.h").is_file():
        raise PeerMissingError(f"{folder} has no tiny_bvh.h")
    driver = ctypes.CDLL(str(compile_driver(DRIVERS / "tinybvh.cpp", [folder.resolve()])))
    driver.tinybvh_build.restype = ctypes.c_void_p
    return driver


# --- calling ------------------------------------------------------------------------------------------------------


class Quality(IntEnum):
    """Embree's build qualities."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2


ROBUST = 4
"""Embree's scene flag for watertight traversal."""
DYNAMIC = 1
"""Embree's scene flag without which nothing is refitted."""


class Kind(IntEnum):
    """How Embree is asked; numbers of the driver."""

    CLOSEST = 0
    OCCLUDED = 1
    CLOSEST_16 = 2
    OCCLUDED_16 = 3


class Inputs(ctypes.Structure):
    """What the driver builds, field by field as in ``embree.cpp``."""

    _fields_ = [
        ("vertices", ctypes.c_void_p), ("vertex_count", ctypes.c_int64),
        ("indices", ctypes.c_void_p), ("triangle_count", ctypes.c_int64),
        ("boxes", ctypes.c_void_p), ("box_count", ctypes.c_int64),
        ("transforms", ctypes.c_void_p), ("instance_count", ctypes.c_int64),
        ("cut_out", ctypes.c_int), ("quality", ctypes.c_int), ("flags", ctypes.c_int), ("threads", ctypes.c_int),
    ]  # fmt: skip


class Answers:
    """What a peer writes for n rays."""

    def __init__(self, count: int) -> None:
        self.t = np.zeros(count, np.float32)
        self.primitive = np.full(count, -1, np.int32)
        self.instance = np.zeros(count, np.int32)


class EmbreeTree:
    """One Embree scene on a device of its own. While devices with different ``threads`` live, the fewest rule."""

    def __init__(
        self, driver: ctypes.CDLL, scene: BenchScene, quality: Quality, threads: int, *, flags: int = 0
    ) -> None:
        self._driver = driver
        vertices, indices = scene.mesh.vertices, scene.mesh.indices
        padded = np.zeros((len(vertices) + 2, 3), np.float32)  # Embree reads 16 bytes of every vertex
        padded[:-2] = vertices
        self._alive = padded, indices, scene.boxes, scene.placements  # Embree keeps their addresses
        seconds, sizes = np.zeros(2), np.zeros(2, np.int64)
        inputs = Inputs(
            _pointer(padded), len(vertices), _pointer(indices), len(indices),
            *_maybe(scene.boxes), *_maybe(scene.placements),
            int(scene.cut_out), int(quality), flags, threads,
        )  # fmt: skip
        handle = driver.embree_build(ctypes.byref(inputs), _pointer(seconds), _pointer(sizes))
        if not handle:
            raise RtviewerError(f"Embree failed to build {scene.name}")
        self._handle = ctypes.c_void_p(handle)
        self.timing = Timing(*seconds.tolist())
        self.bytes_used, self.bytes_peak = (int(size) for size in sizes)

    def refit(self) -> Timing:
        seconds = np.zeros(2)
        if not self._driver.embree_refit(self._handle, _pointer(seconds)):
            raise RtviewerError("Embree failed to refit")
        return Timing(*seconds.tolist())

    def trace(self, rays: RayBatch, kind: Kind, threads: int, answers: Answers) -> Timing:
        seconds = np.zeros(2)
        good = self._driver.embree_trace(
            self._handle, _pointer(rays.origin), _pointer(rays.direction), _pointer(rays.t_max), _count(len(rays)),
            int(kind), threads, _pointer(answers.t), _pointer(answers.primitive), _pointer(answers.instance),
            _pointer(seconds),
        )  # fmt: skip
        if not good:
            raise RtviewerError("Embree failed to trace")
        return Timing(*seconds.tolist())

    def release(self) -> None:
        self._driver.embree_release(self._handle)


class TinybvhTree:
    """tinybvh's BVH8_CPU of a mesh, and with ``refits`` its two-wide tree, the one that refits."""

    def __init__(self, driver: ctypes.CDLL, scene: BenchScene, *, refits: bool = False) -> None:
        self._driver = driver
        seconds, sizes = np.zeros(2), np.zeros(2, np.int64)
        handle = driver.tinybvh_build(
            _pointer(scene.mesh.vertices), _pointer(scene.mesh.indices), _count(scene.primitive_count), int(refits),
            _pointer(seconds), _pointer(sizes),
        )  # fmt: skip
        self._handle = ctypes.c_void_p(handle)
        self.timing = Timing(*seconds.tolist())
        self.bytes_used, self.bytes_peak = (int(size) for size in sizes)

    def refit(self) -> Timing:
        seconds = np.zeros(2)
        self._driver.tinybvh_refit(self._handle, _pointer(seconds))
        return Timing(*seconds.tolist())

    def trace(self, rays: RayBatch, occlusion: bool, threads: int, answers: Answers) -> Timing:
        seconds = np.zeros(2)
        self._driver.tinybvh_trace(
            self._handle, _pointer(rays.origin), _pointer(rays.direction), _pointer(rays.t_max), _count(len(rays)),
            int(occlusion), threads, _pointer(answers.t), _pointer(answers.primitive), _pointer(seconds),
        )  # fmt: skip
        return Timing(*seconds.tolist())

    def release(self) -> None:
        self._driver.tinybvh_release(self._handle)


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


def _maybe(array: NDArray[Any] | None) -> tuple[ctypes.c_void_p | None, int]:
    """Address and length, or nothing of the kind."""
    return (None, 0) if array is None else (_pointer(array), len(array))


def _count(number: int) -> ctypes.c_int64:
    return ctypes.c_int64(number)
