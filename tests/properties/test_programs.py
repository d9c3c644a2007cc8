"""Built-in programs that look at the place of a hit, and the debug switch: kernels against the oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.dxr.descs import TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag, GeometryFlag, RayFlag
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.dxr.verdicts import Counter, EventKind
from rtviewer.scene.material import AlphaTexture, GeometryMaterials, Material, Wrap
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.reference import trace_reference
from rtviewer.trace.request import RayBatch, TraceSettings
from rtviewer.trace.walk import any_hit_calls
from tests.properties.strategies import SEEDS, XBOX, RandomWorld, random_rays, random_settings, random_world

RAYS = 64
FLAGS = st.sampled_from([BuildFlag(word) for word in (0, 4, 8, 16)])
ENDING = (AnyHitProgram.ACCEPT_AND_END_SEARCH, AnyHitProgram.IGNORE_ODD_PRIMITIVES_END_AT_EVEN)
SHAPES = [int(program) for program in IntersectionProgram if program is not IntersectionProgram.REPORT_T]
HIT_FIELDS = ("hit", "instance_index", "geometry_index", "primitive_index", "hit_kind", "t", "attributes", "invalid")


def random_material(random: np.random.Generator, triangles: int) -> Material | None:
    """Anything a file may say: no mask, no texture, no coordinates, coordinates far outside, a single texel."""
    if random.random() < 0.2:
        return None
    texture = None
    if random.random() < 0.8:
        shape = tuple(random.integers(1, 6, 2))
        texels = random.choice(np.array([0, 127, 128, 255], np.uint8), shape)
        wraps = random.integers(0, 3, 2)
        texture = AlphaTexture(texels, Wrap(int(wraps[0])), Wrap(int(wraps[1])), bool(random.random() < 0.3))
    texcoords = None
    if random.random() < 0.8:
        spread = random.choice([1, 4, 1e6, 3e38])
        texcoords = (random.uniform(-1, 1, (triangles, 3, 2)) * spread).astype(np.float32)
        texcoords[random.random(triangles) < 0.3] = np.array([[0, 0], [1, 0], [0, 1]], np.float32)
    cutoff, factor = random.choice([0, 0.25, 0.5, 1, 2]), random.choice([0, 0.5, 1])
    return Material(bool(random.random() < 0.9), float(cutoff), float(factor), texture, texcoords)


def random_materials(seed: int, world: RandomWorld) -> list[GeometryMaterials]:
    random = np.random.default_rng(seed ^ 0xA1FA)
    return [
        [
            random_material(random, g.primitive_count) if isinstance(g, TrianglesGeometry) else None
            for g in blas.geometries
        ]
        for blas in world.blases
    ]


def dispatcher_of(world: RandomWorld, flags: BuildFlag, materials: list[GeometryMaterials]) -> Dispatcher:
    blases = {(i + 1) * 256: build_blas(inputs, flags) for i, inputs in enumerate(world.blases)}
    tlas = build_tlas(world.instances, flags, blases=blases)
    return Dispatcher(tlas, blases, XBOX, dict(zip(blases, materials, strict=True)))


def every_program(seed: int, *, accept_first: bool) -> TraceSettings:
    programs = [int(program) for program in AnyHitProgram]
    random = np.random.default_rng(seed ^ 0x70705)
    plain = random_settings(seed, RAYS, any_hit=[*programs, 6, 7, 6, 7], accept_first=accept_first)
    return replace(plain, intersection=random.choice(np.array(SHAPES, np.uint32), RAYS))


@pytest.mark.rule("AH-1", "AH-5", "AH-6", "PROC-3", "PROC-4", "ACC-6", "TRAV-1")
@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), flags=FLAGS)
def test_every_program_equals_the_oracle(seed: int, lattice: bool, flags: BuildFlag) -> None:
    """Hit or miss and t to the bit; the hit and all calls among those that some order allows."""
    world, rays = random_world(seed, lattice), random_rays(seed, RAYS, lattice)
    materials, arguments = random_materials(seed, world), every_program(seed, accept_first=True)
    log = dispatcher_of(world, flags, materials).walk(rays, arguments)
    got = log.result.hits
    expected = trace_reference(world.blases, world.instances, world.blas_of, rays, arguments, materials=materials)
    np.testing.assert_array_equal(got.hit, expected.hits.hit)
    depends = np.isin(arguments.any_hit, ENDING) | (
        np.asarray(arguments.ray_flags) & RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH != 0
    )
    np.testing.assert_array_equal(got.t[~depends], expected.hits.t[~depends])
    offsets, rows = any_hit_calls(log)
    names = ("instance_index", "geometry_index", "primitive_index", "hit_kind")
    for ray in range(RAYS):
        if got.hit[ray]:
            assert tuple(int(getattr(got, name)[ray]) for name in names) in expected.accepted.keys(ray)
        calls = {tuple(row) for row in rows[offsets[ray] : offsets[ray + 1]].tolist()}
        assert calls <= set(expected.any_hit_candidates.keys(ray))


@pytest.mark.rule("PROC-2", "PROC-3", "DET-5")
@settings(max_examples=80, deadline=None)
@given(seed=SEEDS)
def test_rings_of_any_size_equal_the_oracle(seed: int) -> None:
    """Opaque, so that everything of the hit is exact; boxes from 1e-20 to 1e18, rays from near and very far."""
    random = np.random.default_rng(seed)
    size = float(10.0 ** random.uniform(-20, 18))
    low = random.uniform(-2, 2, (8, 3))
    sides = random.choice([0.0, 0.1, 0.5, 1, 1, 2], (8, 3))
    boxes = (np.concatenate([low, low + sides], 1) * size).astype(np.float32)
    from tests.worlds import boxes as box_geometry
    from tests.worlds import world as build

    scene = build(box_geometry(boxes, flags=GeometryFlag.OPAQUE))
    target = random.uniform(-2, 3, (RAYS, 3)) * size
    direction = random.normal(size=(RAYS, 3))
    direction[random.random(RAYS) < 0.3] = np.array([[0, 0, 1]])
    origin = target - direction * size * 10.0 ** random.uniform(-1, 5)
    rays = RayBatch.make(origin, direction * 10.0 ** random.uniform(-3, 3))
    for program in (IntersectionProgram.TORUS, IntersectionProgram.TORUS_FAR_FIRST):
        arguments = TraceSettings(intersection=int(program))
        got = scene.dispatcher.trace(rays, arguments).hits
        expected = trace_reference(scene.inputs, scene.instances, scene.blas_of, rays, arguments).hits
        for field in HIT_FIELDS:
            np.testing.assert_array_equal(getattr(got, field), getattr(expected, field), err_msg=field)


@pytest.mark.rule("AH-7", "PROC-8", "GF-3", "AH-3")
@settings(max_examples=120, deadline=None)
@given(seed=SEEDS, lattice=st.booleans())
def test_repeated_calls_move_no_hit_and_spare_geometry_that_forbids_them(seed: int, lattice: bool) -> None:
    world, rays = random_world(seed, lattice), random_rays(seed, RAYS, lattice)
    materials, arguments = random_materials(seed, world), every_program(seed, accept_first=True)
    dispatcher = dispatcher_of(world, BuildFlag.NONE, materials)
    once = dispatcher.walk(rays, arguments)
    twice = dispatcher.walk(rays, replace(arguments, repeat_calls=True))
    image = dispatcher.trace(rays, replace(arguments, repeat_calls=True)).hits
    for field in HIT_FIELDS:
        np.testing.assert_array_equal(
            getattr(once.result.hits, field), getattr(twice.result.hits, field), err_msg=field
        )
        np.testing.assert_array_equal(getattr(image, field), getattr(twice.result.hits, field), err_msg=field)
    counted = [log.result.counters[:, Counter.ANY_HIT_CALLS] for log in (once, twice)]
    assert (counted[0] <= counted[1]).all()
    repeated = twice.events[twice.events["kind"] == EventKind.REPEATED]
    for event in repeated:
        geometry = world.blases[int(world.blas_of[event["instance"]])].geometries[int(event["geometry"])]
        assert not geometry.flags & GeometryFlag.NO_DUPLICATE_ANYHIT_INVOCATION
    if not len(repeated):
        assert once.events.tobytes() == twice.events.tobytes()
    offsets, rows = any_hit_calls(twice)
    for ray in range(RAYS):
        calls = [tuple(row) for row in rows[offsets[ray] : offsets[ray + 1]].tolist()]
        for call in set(calls):
            geometry = world.blases[int(world.blas_of[call[0]])].geometries[call[1]]
            most = 1 if geometry.flags & GeometryFlag.NO_DUPLICATE_ANYHIT_INVOCATION else 2
            assert calls.count(call) <= most
