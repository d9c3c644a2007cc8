"""Tracers that recordings are compared with: builder with compiled kernels, and the brute-force oracle.

An engine is any callable with the signature of :class:`Engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.structure import Structure
from rtviewer.dxr.descs import BlasInputs, InstanceInputs
from rtviewer.dxr.flags import BuildFlag
from rtviewer.errors import StructureError
from rtviewer.session.conformance_judge import Key
from rtviewer.trace.reference import ReferenceRules, trace_reference
from rtviewer.trace.request import Hits, RayBatch, TraceSettings


@dataclass(frozen=True)
class SceneInputs:
    """What an engine builds from. ``blas_of``: per instance the position in ``blases``, -1 for none; the addresses in
    ``instances`` are those of ``io.recording.address_of``.

    ``before``: the scene is to be reached by an update of that one, ``in_place`` or at other addresses; an engine
    without structures may ignore it, for an update behaves as a build of its inputs [UPD-13].
    """

    blases: tuple[BlasInputs, ...]
    instances: InstanceInputs
    blas_of: NDArray[np.int32]
    before: SceneInputs | None = None
    in_place: bool = True


@dataclass(frozen=True)
class AnyHitLog:
    """The any-hit calls of n rays: rows ``offsets[i]:offsets[i + 1]`` of ray i, in the order made.

    ``offsets`` (n + 1,) int64, ``rows`` (m, 4) int64: instance, geometry, primitive, hit kind.
    """

    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]

    def of_rays(self) -> list[list[Key]]:
        rows: list[Key] = [(i, g, p, k) for i, g, p, k in self.rows.tolist()]
        return [rows[first:last] for first, last in pairwise(self.offsets.tolist())]


class Engine(Protocol):
    """Traces rays in a scene; every setting may be one value or one per ray."""

    def __call__(self, scene: SceneInputs, rays: RayBatch, settings: TraceSettings) -> tuple[Hits, AnyHitLog]: ...


def reference_engine(rules: ReferenceRules | None = None) -> Engine:
    """The oracle as an engine, with other rules when a test asks for wrong ones."""

    def trace(scene: SceneInputs, rays: RayBatch, settings: TraceSettings) -> tuple[Hits, AnyHitLog]:
        result = trace_reference(scene.blases, scene.instances, scene.blas_of.tolist(), rays, settings, rules=rules)
        log = result.any_hit_log
        rows = np.stack([log.instance, log.geometry, log.primitive, log.hit_kind], axis=1).astype(np.int64)
        return result.hits, AnyHitLog(log.offsets, rows)

    return trace


@dataclass(frozen=True)
class BuiltScene:
    """Structures of a scene; ``blases`` by address."""

    tlas: Structure
    blases: Mapping[int, Structure]

    def trace(self, rays: RayBatch, settings: TraceSettings) -> tuple[Hits, AnyHitLog]:
        """Hits of an image, and the any-hit calls read off the walks of the same rays."""
        from rtviewer.trace.dispatch import Dispatcher
        from rtviewer.trace.walk import CANDIDATE_KINDS, any_hit_calls

        dispatcher = Dispatcher(self.tlas, self.blases)
        hits = dispatcher.trace(rays, settings).hits
        story = dispatcher.walk(rays, settings, kinds=CANDIDATE_KINDS, limit=LOG_LIMIT)
        if story.truncated.any():
            raise StructureError(f"more than {LOG_LIMIT} candidates in one scene: its any-hit calls cannot be judged")
        return hits, AnyHitLog(*any_hit_calls(story))


LOG_LIMIT = 1 << 20
"""Most candidate events of one scene; the recordings need far fewer."""

OTHER_PLACE = 1 << 32
"""How far away from its source a copy or an update that is not in place lives."""

Remake = Callable[[Structure, int, int], Structure]
"""Another bottom level from one: the structure, its number, and the address where it will live."""


def build_scene(scene: SceneInputs, flags: BuildFlag) -> BuiltScene:
    """Build every structure of a scene afresh with one word of build flags."""
    from rtviewer.build.builder import build_blas, build_tlas
    from rtviewer.io.recording import address_of

    blases = {
        address_of(i): build_blas(blas, flags, name=blas.name, address=address_of(i))
        for i, blas in enumerate(scene.blases)
    }
    return BuiltScene(build_tlas(scene.instances, flags, blases=blases), blases)


def remake_blases(built: BuiltScene, remake: Remake, moved: int) -> dict[int, Structure]:
    """Every bottom level made anew, ``moved`` bytes from where it was."""
    sources = sorted(built.blases.items())
    return {
        address + moved: remake(source, number, address + moved) for number, (address, source) in enumerate(sources)
    }


def moved_instances(instances: InstanceInputs, moved: int) -> InstanceInputs:
    """The same instances of bottom levels that live ``moved`` bytes from where they were."""
    addresses = instances.blas_address
    return replace(instances, blas_address=np.where(addresses == 0, addresses, addresses + np.uint64(moved)))


def update_scene(built: BuiltScene, scene: SceneInputs, flags: BuildFlag, *, in_place: bool) -> BuiltScene:
    """Update every structure to the inputs of ``scene``; the sources have the same flags [UPD-1, UPD-2]."""
    from rtviewer.build.refit import update_blas, update_tlas

    def update(source: Structure, number: int, address: int) -> Structure:
        return update_blas(source, scene.blases[number], flags, address=address)

    moved = 0 if in_place else OTHER_PLACE
    blases = remake_blases(built, update, moved)
    instances = moved_instances(scene.instances, moved)
    return BuiltScene(update_tlas(built.tlas, instances, flags, blases=blases), blases)


def kernels_engine(build_flags: BuildFlag = BuildFlag.NONE) -> Engine:
    """Builder, refit and compiled tracer as an engine."""

    def trace(scene: SceneInputs, rays: RayBatch, settings: TraceSettings) -> tuple[Hits, AnyHitLog]:
        if scene.before is None:
            return build_scene(scene, build_flags).trace(rays, settings)
        flags = build_flags | BuildFlag.ALLOW_UPDATE
        source = build_scene(scene.before, flags)
        return update_scene(source, scene, flags, in_place=scene.in_place).trace(rays, settings)

    return trace


ENGINES: Mapping[str, Callable[[], Engine]] = {"kernels": kernels_engine, "reference": reference_engine}
