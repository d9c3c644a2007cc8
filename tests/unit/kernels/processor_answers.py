"""What the kernels answer on this processor, as digests: a program, so that each processor has its own process.

    NUMBA_CPU_NAME=haswell python -m tests.unit.kernels.processor_answers

Prints JSON: the width in bits of the vectors that the compiler really uses, the cache folder, and by name a digest of
every array that came out: bytes of structures, hits, counters, logs.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from rtviewer.accel.structure import Structure
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.build.refit import update_blas
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag, GeometryFlag, RayFlag
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.kernels import CACHE_FOLDER
from rtviewer.scene.mesh import Mesh
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import RayBatch, TraceSettings
from tests.bench.product import HIT_ONLY, SHADOW, instance_table
from tests.bench.scenes import SCENES, TINY, BenchScene, displaced_sphere, primary_rays, sized_soup
from tests.properties.strategies import random_rays, random_settings, random_world
from tests.properties.test_tracing import dispatcher_of

BUILDS = [BuildFlag(word) for word in range(32) if word & 0xC != 0xC]
"""All words but those with both PREFER flags."""
SEEDS = range(24)
ADDRESS = 0x10000

Named = Iterator[tuple[str, NDArray[Any]]]


@intrinsic
def _add_sixteen(typing_context, address):
    """Sixteen float32 at an address, doubled in place: as wide a step as a packet takes."""

    def generate(context, builder, signature, arguments):
        wide = ir.VectorType(ir.FloatType(), 16)
        place = builder.inttoptr(arguments[0], wide.as_pointer())
        value = builder.load(place, align=4)
        builder.store(builder.fadd(value, value), place, align=4)
        return context.get_dummy_value()

    return types.void(types.int64), generate


def vector_bits() -> int:
    """Width of the widest vectors in code compiled now."""

    def double(address):
        _add_sixteen(address)

    compiled = numba.njit("void(int64)")(double)
    text = next(iter(compiled.inspect_asm().values()))
    return max(
        [width for name, width in (("x", 128), ("y", 256), ("z", 512)) if re.search(f"%{name}mm", text)], default=0
    )


# --- scenes -------------------------------------------------------------------------------------------------------


def awkward_triangles() -> NDArray[np.float32]:
    """(n, 3, 3): every triangle twice, so that hits tie; huge, tiny and infinite coordinates; NaN in x; needles."""
    random = np.random.default_rng(8)
    plain = np.round(random.normal(0, 2, (60, 3, 3)))
    huge = plain[:20] * 1e30
    tiny = plain[20:40] * 1e-38
    needles = plain[40:50] * [1, 1, 1e-7]
    broken = plain[50:60].copy()
    broken[:5, 0, 0] = np.nan
    broken[5:, 1, 2] = np.inf
    shifted = plain[:20] + 1e7
    once = np.concatenate([plain, huge, tiny, needles, broken, shifted]).astype(np.float32)
    return np.concatenate([once, once])


def awkward_rays(count: int) -> RayBatch:
    """Rays at and past those triangles: along axes, with zeros of both signs, huge, tiny, infinite and NaN."""
    random = np.random.default_rng(9)
    origin = np.round(random.normal(0, 4, (count, 3)))
    direction = np.round(random.normal(0, 2, (count, 3)))
    scale = random.choice([1e-38, 1e-3, 1, 1e3, 1e30], (count, 1), p=[0.1, 0.1, 0.5, 0.1, 0.2])
    origin, direction = origin * scale, direction * random.choice([1e-30, 1, 1e30], (count, 1), p=[0.1, 0.8, 0.1])
    direction[: count // 8] *= np.where(random.random((count // 8, 3)) < 0.5, -0.0, 1.0)
    origin[-8:-4, 0] = [np.inf, -np.inf, np.nan, 0]
    direction[-4:, 1] = [np.inf, -np.inf, np.nan, 0]
    return RayBatch.make(origin.astype(np.float32), direction.astype(np.float32))


# --- answers ------------------------------------------------------------------------------------------------------


def of_structures(name: str, inputs: BlasInputs) -> Named:
    """The bytes of a bottom level for all build flags, and of its update."""
    for flags in BUILDS:
        structure = build_blas(inputs, flags, address=ADDRESS)
        yield f"{name}, build {int(flags)}", structure.data
        if flags & BuildFlag.ALLOW_UPDATE:
            updated = update_blas(structure, inputs, flags | BuildFlag.PERFORM_UPDATE)
            yield f"{name}, update {int(flags)}", updated.data


def of_rays(name: str, dispatcher: Dispatcher, rays: RayBatch, settings: TraceSettings, logged: int = 256) -> Named:
    """Hits as an image gets them, hits and counters, and the log of the first rays."""
    yield from _columns(f"{name}, hits", dispatcher.trace(rays, settings).hits)
    counted = dispatcher.trace(rays, settings, counters=True)
    assert counted.counters is not None
    yield from _columns(f"{name}, counted hits", counted.hits)
    yield f"{name}, counters", counted.counters
    walk = dispatcher.walk(rays.part(0, logged), _part(settings, logged))
    yield f"{name}, log", walk.events
    yield f"{name}, log offsets", walk.offsets


def _columns(name: str, hits: Any) -> Named:
    for field in fields(hits):
        yield f"{name}.{field.name}", getattr(hits, field.name)


def _part(settings: TraceSettings, count: int) -> TraceSettings:
    """The settings of the first rays."""
    values = {f.name: getattr(settings, f.name) for f in fields(settings)}
    return replace(settings, **{n: v[:count] for n, v in values.items() if isinstance(v, np.ndarray) and v.size > 1})


def answers() -> Named:
    awkward = TrianglesGeometry(np.ascontiguousarray(awkward_triangles().reshape(-1, 3)), flags=GeometryFlag.OPAQUE)
    inputs = BlasInputs((awkward, replace(awkward, flags=GeometryFlag.NONE)), "awkward")
    yield from of_structures("awkward", inputs)
    blas = build_blas(inputs, address=ADDRESS)
    tlas = build_tlas(instance_table(_alone(Mesh.of(np.zeros((3, 3)), [[0, 1, 2]]))), blases={ADDRESS: blas})
    rays = awkward_rays(2048)
    for any_hit in AnyHitProgram:
        settings = TraceSettings(any_hit=any_hit)
        yield from of_rays(f"awkward, any-hit {int(any_hit)}", Dispatcher(tlas, {ADDRESS: blas}), rays, settings)
    yield from of_random_worlds()
    yield from of_pictures()


def of_random_worlds() -> Named:
    """Several geometries, instances, programs and flags that differ from ray to ray."""
    for seed in SEEDS:
        lattice = bool(seed & 1)
        world = random_world(seed, lattice)
        settings = random_settings(seed, 64, any_hit=list(range(6)), accept_first=True)
        dispatcher = dispatcher_of(world, BUILDS[seed % len(BUILDS)])
        yield f"world {seed}, top level", dispatcher.tlas.data
        yield from of_rays(f"world {seed}", dispatcher, random_rays(seed, 64, lattice), settings)


def of_pictures() -> Named:
    """Coherent rays, as a camera sends them, and shadow rays: what packets are for."""
    scenes = [_alone(displaced_sphere(4)), _alone(sized_soup(4000)), SCENES["instances"](TINY)]
    boxes = SCENES["spheres"](TINY).boxes
    assert boxes is not None
    yield from of_structures("boxes", BlasInputs((AabbsGeometry(boxes),)))
    for scene in scenes:
        inputs = BlasInputs((TrianglesGeometry(scene.mesh.vertices, scene.mesh.indices, flags=GeometryFlag.OPAQUE),))
        yield from of_structures(scene.name + str(len(scene.mesh.indices)), inputs)
        blas = build_blas(inputs, BuildFlag.PREFER_FAST_TRACE, address=ADDRESS)
        yield from _pictures_of(scene.name + str(len(scene.mesh.indices)), scene, {ADDRESS: blas}, TraceSettings())
    blas = build_blas(BlasInputs((AabbsGeometry(boxes),)), address=ADDRESS)
    for program in IntersectionProgram:
        settings = TraceSettings(intersection=program)
        yield from _pictures_of(f"boxes, intersection {int(program)}", scenes[0], {ADDRESS: blas}, settings)


def _pictures_of(name: str, scene: BenchScene, blases: dict[int, Structure], settings: TraceSettings) -> Named:
    """One scene's camera and placements over a bottom level."""
    dispatcher = Dispatcher(build_tlas(instance_table(scene), blases=blases), blases)
    rays = primary_rays(scene, 64)
    yield f"{name}, top level", dispatcher.tlas.data
    yield from of_rays(name, dispatcher, rays, settings)
    culling = replace(settings, ray_flags=RayFlag.CULL_BACK_FACING_TRIANGLES)
    yield from _columns(f"{name}, culled", dispatcher.trace(rays, culling).hits)
    shadow = dispatcher.trace(rays, replace(settings, ray_flags=SHADOW, **HIT_ONLY)).hits
    yield f"{name}, shadow", shadow.hit


def _alone(mesh: Mesh) -> BenchScene:
    return replace(SCENES["sphere"](TINY), mesh=mesh)


def main() -> None:
    digests = {}
    for name, array in answers():
        assert name not in digests, name
        digests[name] = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
    print(json.dumps({"vector_bits": vector_bits(), "folder": str(CACHE_FOLDER), "answers": digests}))


if __name__ == "__main__":
    sys.exit(main())
