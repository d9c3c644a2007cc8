"""rtviewer as a contender: built and traced through the calls that everybody uses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.build.refit import update_blas
from rtviewer.dxr.descs import IDENTITY, AabbsGeometry, BlasInputs, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag, GeometryFlag, RayFlag
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import Hits, RayBatch, TraceSettings
from tests.bench.measure import one_processor
from tests.bench.peers import Timing
from tests.bench.scenes import BenchScene

ADDRESS = 0x10000
MOST_RAYS, FEWEST_RAYS = 1 << 14, 1 << 12
"""Rays of one dispatch: a 64th of all, within these. Small batches pay for their Python; large ones leave threads idle
at the end."""

SHADOW = RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH | RayFlag.SKIP_CLOSEST_HIT_SHADER
HIT_ONLY: dict[str, Any] = {"hit_only": True} if "hit_only" in {f.name for f in fields(TraceSettings)} else {}
"""Shadow rays say, where the product can be told, that nothing but whether they hit is wanted."""


def blas_inputs(scene: BenchScene) -> BlasInputs:
    if scene.boxes is not None:
        return BlasInputs((AabbsGeometry(scene.boxes, flags=GeometryFlag.OPAQUE),), scene.name)
    flags = GeometryFlag.NONE if scene.cut_out else GeometryFlag.OPAQUE
    return BlasInputs((TrianglesGeometry(scene.mesh.vertices, scene.mesh.indices, flags=flags),), scene.name)


def trace_settings(scene: BenchScene, *, occlusion: bool) -> TraceSettings:
    """What the scene's rays ask for; intersection programs are the built-in sphere's, which is the default."""
    any_hit = AnyHitProgram.IGNORE_ODD_PRIMITIVES if scene.cut_out else AnyHitProgram.ACCEPT
    if occlusion:
        return TraceSettings(ray_flags=SHADOW, any_hit=any_hit, **HIT_ONLY)
    return TraceSettings(any_hit=any_hit)


def instance_table(scene: BenchScene) -> InstanceInputs:
    """One instance as it is, or the scene's placements."""
    transforms = IDENTITY[None] if scene.placements is None else scene.placements
    count = len(transforms)
    return InstanceInputs(
        np.ascontiguousarray(transforms, np.float32),
        np.arange(count, dtype=np.uint32),
        np.full(count, 0xFF, np.uint8),
        np.zeros(count, np.uint32),
        np.zeros(count, np.uint8),
        np.full(count, ADDRESS, np.uint64),
    )


class ProductTree:
    """A bottom level and the top level over it."""

    def __init__(self, scene: BenchScene, flags: BuildFlag = BuildFlag.NONE) -> None:
        self.blas = build_blas(blas_inputs(scene), flags, address=ADDRESS)
        self.tlas = build_tlas(instance_table(scene), flags, blases={ADDRESS: self.blas})
        self.dispatcher = Dispatcher(self.tlas, {ADDRESS: self.blas})

    @property
    def measured(self) -> tuple[Structure, ...]:
        """The structures whose bytes count: the top level only where it holds more than one instance."""
        return (self.blas, self.tlas) if len(self.tlas.instance_descs) > 1 else (self.blas,)


def time_build(scene: BenchScene, flags: BuildFlag, *, on_one: bool) -> Timing:
    """A bottom level, and for scenes with placements the top level; ``on_one``: all threads on one processor."""

    def build() -> None:
        blas = build_blas(inputs, flags, address=ADDRESS)
        if instances is not None:
            build_tlas(instances, flags, blases={ADDRESS: blas})

    inputs = blas_inputs(scene)
    instances = None if scene.placements is None else instance_table(scene)
    if on_one:
        with one_processor():
            return timed(build)
    return timed(build)


def time_refit(scene: BenchScene, source: Structure) -> Timing:
    """An update of ``source``, built with ALLOW_UPDATE, with the vertices it has."""
    inputs = blas_inputs(scene)
    return timed(lambda: update_blas(source, inputs, source.build_flags | BuildFlag.PERFORM_UPDATE))


def timed(work: Callable[[], object]) -> Timing:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Timing(time.perf_counter() - wall, time.process_time() - cpu)


def tree_bytes(structure: Structure) -> int:
    """Nodes and leaf elements."""
    kinds = (
        SectionKind.NODES, SectionKind.TRIANGLE_PACKS, SectionKind.INDEXED_PACKS, SectionKind.BOX_PACKS,
        SectionKind.INSTANCE_LEAVES,
    )  # fmt: skip
    return sum(structure.section(kind).nbytes for kind in kinds)


@dataclass
class ProductTrace:
    """Traces one ray set again and again. ``kernel_shares``: part of each one-thread run spent in kernels."""

    dispatcher: Dispatcher
    rays: RayBatch
    settings: TraceSettings
    pool: ThreadPoolExecutor
    kernel_shares: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        size = min(max(len(self.rays) // 64, FEWEST_RAYS), MOST_RAYS)
        self._parts = [self.rays.part(first, first + size) for first in range(0, len(self.rays), size)]
        self._hits: list[Hits | None] = [None] * len(self._parts)

    def run(self, threads: int) -> Timing:
        """Trace all rays: on this thread, or on ``threads`` threads of the pool."""
        parts = iter(range(len(self._parts)))
        wall, cpu = time.perf_counter(), time.thread_time()
        if threads == 1:
            in_kernels = self._work(parts)
        else:
            for future in [self.pool.submit(self._work, parts) for _ in range(threads)]:
                future.result()
        timing = Timing(time.perf_counter() - wall, time.thread_time() - cpu)
        if threads == 1:
            self.kernel_shares.append(in_kernels / timing.wall)
        return timing

    def _work(self, parts: Iterator[int]) -> float:
        in_kernels = 0.0
        for part in parts:
            result = self.dispatcher.trace(self._parts[part], self.settings)
            in_kernels += result.seconds
            self._hits[part] = result.hits
        return in_kernels

    def found(self, primitive_count: int, *, occlusion: bool) -> NDArray[np.int64]:
        """(n,) what the last run hit, as :func:`hit_keys`, or for occlusion 1 and 0."""
        hits = [part for part in self._hits if part is not None]
        if occlusion:
            return np.concatenate([part.hit for part in hits]).astype(np.int64)
        primitive = np.concatenate([part.primitive_index for part in hits])
        instance = np.concatenate([part.instance_index for part in hits])
        return hit_keys(primitive, instance, primitive_count)


def hit_keys(primitive: NDArray[np.int32], instance: NDArray[np.int32], primitive_count: int) -> NDArray[np.int64]:
    """(n,) one number for instance and primitive, -1 for a miss; instance -1 stands for the only one."""
    number = np.maximum(instance.astype(np.int64), 0) * primitive_count + primitive
    return np.where(primitive < 0, -1, number)
