"""Refitted structures hit what fresh builds of the new data hit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtviewer.accel.invariants import check
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.build.refit import update_blas, update_tlas
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.errors import InvalidInputError
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.reference import trace_reference
from tests.properties.strategies import SEEDS, XBOX, RandomWorld, random_rays, random_settings, random_world

FLAGS = st.sampled_from([BuildFlag(w | 1) for w in (0, 2, 4, 8, 16, 18, 20, 24)])


def moved(inputs: BlasInputs, random: np.random.Generator, lattice: bool) -> BlasInputs:
    """New positions; what is inactive stays so, what is degenerate may come or go."""

    def shift(array: np.ndarray) -> np.ndarray:
        step = random.integers(-1, 2, array.shape) if lattice else random.normal(0, 0.5, array.shape)
        collapsed = np.where(random.random((len(array), 1)) < 0.2, 0, array + step)
        return np.where(np.isnan(array), array, collapsed).astype(np.float32)

    geometries = []
    for geometry in inputs.geometries:
        if isinstance(geometry, AabbsGeometry):
            geometries.append(replace(geometry, aabbs=shift(geometry.aabbs)))
            continue
        transform = geometry.transform
        if transform is not None:
            transform = random.integers(-2, 3, (3, 4)).astype(np.float32)
        geometries.append(replace(geometry, vertices=shift(geometry.vertices), transform=transform))
    return replace(inputs, geometries=tuple(geometries))


def changed_instances(instances: InstanceInputs, random: np.random.Generator) -> InstanceInputs:
    order = random.permutation(len(instances))
    return replace(
        instances,
        transform=instances.transform[order],
        mask=instances.mask[order],
        instance_id=instances.instance_id[order],
        flags=instances.flags[order],
    )


@pytest.mark.rule("UPD-3", "UPD-5", "UPD-6", "UPD-10", "UPD-11", "UPD-13", "UPD-15", "DEG-2", "DEG-5", "DEG-6", "DET-2")
@settings(max_examples=120, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), flags=FLAGS)
def test_chains_of_updates_equal_the_oracle(seed: int, lattice: bool, flags: BuildFlag) -> None:
    world, random = random_world(seed, lattice), np.random.default_rng(seed)
    rays = random_rays(seed, 64, lattice)
    arguments = random_settings(seed, 64, any_hit=[AnyHitProgram.IGNORE], accept_first=False)
    blases = {(i + 1) * 256: build_blas(inputs, flags) for i, inputs in enumerate(world.blases)}
    tlas = build_tlas(world.instances, flags, blases=blases)
    for step in range(3):
        flags = flags & ~BuildFlag.ALLOW_UPDATE if step == 2 else flags
        before = {address: blas.data.tobytes() for address, blas in blases.items()}
        inputs = tuple(moved(i, random, lattice) for i in world.blases)
        world = RandomWorld(inputs, changed_instances(world.instances, random), world.blas_of)
        new = {
            (i + 1) * 256: update_blas(blases[(i + 1) * 256], inputs, flags) for i, inputs in enumerate(world.blases)
        }
        tlas = update_tlas(tlas, world.instances, flags, blases=new)
        for address, blas in new.items():
            assert check(blas) == []
            assert blas.size == blases[address].size
            assert blases[address].data.tobytes() == before[address]
        assert check(tlas) == []
        blases = new
        got = Dispatcher(tlas, blases, XBOX).trace(rays, arguments).hits
        expected = trace_reference(world.blases, world.instances, world.blas_of, rays, arguments).hits
        for field in ("hit", "instance_index", "geometry_index", "primitive_index", "hit_kind", "t", "attributes"):
            np.testing.assert_array_equal(getattr(got, field), getattr(expected, field), err_msg=field)


TRIANGLE = TrianglesGeometry(
    np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]], np.float32), np.array([[0, 1, 2], [1, 2, 3]], np.uint32)
)


@pytest.mark.rule("UPD-1", "UPD-2", "UPD-7", "UPD-8", "UPD-9", "INA-7", "UPD-16", "BF-3")
def test_what_an_update_may_not_change() -> None:
    flags = BuildFlag.ALLOW_UPDATE | BuildFlag.ALLOW_COMPACTION
    source = build_blas(BlasInputs((TRIANGLE,)), flags)
    final = update_blas(source, BlasInputs((TRIANGLE,)), BuildFlag.ALLOW_COMPACTION)
    nan = TRIANGLE.vertices.copy()
    nan[3, 0] = np.nan
    identity = np.eye(3, 4, dtype=np.float32)
    other_indices = np.array([[0, 1, 2], [1, 3, 2]], np.uint32)
    cases = [
        ("UPD-1", final, TRIANGLE, flags),
        ("UPD-2", source, TRIANGLE, BuildFlag.ALLOW_UPDATE),
        ("UPD-2", source, TRIANGLE, flags | BuildFlag.MINIMIZE_MEMORY),
        ("UPD-8", source, replace(TRIANGLE, flags=1), flags),
        ("UPD-8", source, replace(TRIANGLE, indices=other_indices), flags),
        ("UPD-8", source, replace(TRIANGLE, indices=TRIANGLE.indices[:1]), flags),
        ("UPD-8", source, replace(TRIANGLE, vertices=np.zeros((5, 3), np.float32)), flags),
        ("UPD-8", source, replace(TRIANGLE, vertex_format=10), flags),
        ("UPD-8", source, replace(TRIANGLE, index_format=57), flags),
        ("UPD-8", source, AabbsGeometry(np.zeros((2, 6), np.float32)), flags),
        ("UPD-9", source, replace(TRIANGLE, transform=identity), flags),
        ("INA-7", source, replace(TRIANGLE, vertices=nan), flags),
    ]
    for rule, structure, geometry, word in cases:
        with pytest.raises(InvalidInputError) as caught:
            update_blas(structure, BlasInputs((geometry,)), word)
        assert rule in caught.value.rules, (rule, caught.value)
    with pytest.raises(InvalidInputError, match="UPD-8"):
        update_blas(source, BlasInputs((TRIANGLE, TRIANGLE)), flags)
    dead = build_blas(BlasInputs((replace(TRIANGLE, vertices=nan),)), flags)
    with pytest.raises(InvalidInputError, match="INA-7"):
        update_blas(dead, BlasInputs((TRIANGLE,)), flags)


@pytest.mark.rule("DEG-5", "DEG-6")
def test_coincident_vertices_revive_in_an_update_and_repeated_indices_need_not() -> None:
    flat = TrianglesGeometry(np.zeros((3, 3), np.float32), np.array([[0, 1, 2], [0, 1, 1]], np.uint32))
    source = build_blas(BlasInputs((flat,)), BuildFlag.ALLOW_UPDATE)
    assert int(source.header["active_count"]) == 1
    grown = replace(flat, vertices=np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0]], np.float32))
    target = update_blas(source, BlasInputs((grown,)), BuildFlag.ALLOW_UPDATE)
    assert target.packs["id"][0, 0] == 0
    assert source.packs["id"][0, 0] < -1
