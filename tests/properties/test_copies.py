"""Copies behave as their source: results, the order of every event, decodes; sizes as the rules relate them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtviewer.accel.invariants import check
from rtviewer.accel.structure import Structure
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.build.refit import update_blas, update_tlas
from rtviewer.copymode.clone import clone
from rtviewer.copymode.compact import compact, compacted_size
from rtviewer.copymode.decode import decode, decoded_size
from rtviewer.copymode.dehydrate import dehydrate, rehydrate
from rtviewer.copymode.deserialize import deserialize, deserialized_size
from rtviewer.copymode.differences import differences
from rtviewer.copymode.read_decode import DecodedBlas, DecodedTlas, read_decode
from rtviewer.copymode.serialize import pointer_count, serialize, serialized_size
from rtviewer.dxr.flags import BuildFlag
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import RayBatch, TraceSettings, Walk
from tests.properties.strategies import SEEDS, XBOX, RandomWorld, random_rays, random_settings, random_world
from tests.properties.test_updates import moved

RAYS = 48
MOVED_BY = 0x100000
COMPACTION = BuildFlag.ALLOW_COMPACTION
FLAGS = st.sampled_from([COMPACTION | BuildFlag(word) for word in (0, 1, 4, 8, 16, 17, 20, 25)])


@dataclass(frozen=True, eq=False)
class Built:
    tlas: Structure
    blases: dict[int, Structure]

    def all(self) -> list[Structure]:
        return [self.tlas, *self.blases.values()]

    def walk(self, rays: RayBatch, arguments: TraceSettings) -> Walk:
        return Dispatcher(self.tlas, self.blases, XBOX).walk(rays, arguments)


def built(world: RandomWorld, flags: BuildFlag) -> Built:
    blases = {(i + 1) * 256: build_blas(inputs, flags) for i, inputs in enumerate(world.blases)}
    return Built(build_tlas(world.instances, flags, blases=blases), blases)


def updated(source: Built, world: RandomWorld, flags: BuildFlag) -> Built:
    blases = {a: update_blas(b, world.blases[a // 256 - 1], flags) for a, b in source.blases.items()}
    return Built(update_tlas(source.tlas, world.instances, flags, blases=blases), blases)


def copied(source: Built, copy: Callable[[Structure], Structure]) -> Built:
    return Built(copy(source.tlas), {address: copy(blas) for address, blas in source.blases.items()})


def carried(source: Built) -> Built:
    """Through blobs to other addresses, the top level first (SER-7)."""
    pointers = source.tlas.instance_descs["AccelerationStructure"]
    pointers = np.where(pointers == 0, 0, pointers + np.uint64(MOVED_BY)).astype(np.uint64)
    tlas = deserialize(serialize(source.tlas), pointers=pointers)
    blases = {address + MOVED_BY: deserialize(serialize(blas)) for address, blas in source.blases.items()}
    return Built(tlas, blases)


def assert_same_walk(found: Walk, wanted: Walk) -> None:
    """Every column of the result, and every event in its place."""
    a, b = found.result.hits, wanted.result.hits
    for field in ("hit", "t", "instance_index", "geometry_index", "primitive_index", "hit_kind", "instance_id",
                  "attributes", "hit_group_index", "invalid"):  # fmt: skip
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field), err_msg=field)
    np.testing.assert_array_equal(found.result.counters, wanted.result.counters)
    np.testing.assert_array_equal(found.offsets, wanted.offsets)
    assert found.events.tobytes() == wanted.events.tobytes()


def requests(seed: int, lattice: bool) -> tuple[RayBatch, TraceSettings]:
    return random_rays(seed, RAYS, lattice), random_settings(seed, RAYS, any_hit=list(range(6)), accept_first=True)


@pytest.mark.rule("CP-4", "CP-10", "CP-11", "CP-14", "CP-15", "CP-16", "SER-5", "SER-7", "SER-13", "DET-3", "VIS-9")
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), flags=FLAGS)
def test_copies_walk_as_their_source(seed: int, lattice: bool, flags: BuildFlag) -> None:
    """Of a fresh build, and of what is left after an update that ends all updates."""
    world, (rays, arguments) = random_world(seed, lattice), requests(seed, lattice)
    source = built(world, flags)
    states = [source]
    if flags & BuildFlag.ALLOW_UPDATE:
        random = np.random.default_rng(seed)
        world = replace(world, blases=tuple(moved(inputs, random, lattice) for inputs in world.blases))
        states.append(updated(copied(source, compact), world, flags & ~BuildFlag.ALLOW_UPDATE))
    for state in states:
        before = [s.data.tobytes() for s in state.all()]
        wanted = state.walk(rays, arguments)
        variants = [copied(state, clone), copied(state, compact), carried(state), carried(copied(state, compact))]
        for copy in variants:
            for one, other in zip(copy.all(), state.all(), strict=True):
                assert check(one) == []
                assert one.build_flags == other.build_flags
            assert_same_walk(copy.walk(rays, arguments), wanted)
            for one, other in zip(copy.blases.values(), state.blases.values(), strict=True):
                assert decode(one).tobytes() == decode(other).tobytes()
        assert [s.data.tobytes() for s in state.all()] == before


@pytest.mark.rule("CP-13", "POST-5", "POST-6", "POST-9", "POST-10", "POST-14", "SER-2", "SER-3", "UPD-6", "PRE-6")
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), flags=FLAGS)
def test_size_relations(seed: int, lattice: bool, flags: BuildFlag) -> None:
    world = random_world(seed, lattice)
    fresh = built(world, flags)
    plain = built(world, flags & ~COMPACTION)
    states = [fresh]
    if flags & BuildFlag.ALLOW_UPDATE:
        states.append(updated(fresh, world, flags & ~BuildFlag.ALLOW_UPDATE))
    for state in states:
        for structure, uncompactable in zip(state.all(), plain.all(), strict=True):
            blob = serialize(structure)
            assert clone(structure).size == structure.size
            assert 0 < compacted_size(structure) == compact(structure).size <= structure.size
            assert compacted_size(structure) <= uncompactable.size
            assert deserialize(blob).size == deserialized_size(blob) <= structure.size
            assert serialized_size(structure) == len(blob) >= 56 + 8 * pointer_count(structure)
            assert decoded_size(structure) == len(decode(structure))
            assert structure.size == uncompactable.size


@pytest.mark.rule("VIS-16", "VIS-17", "VIS-1")
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), base=st.sampled_from([0, 0x100, 0xFFFF_0000_0000]))
def test_building_from_decodes_gives_equal_hits(seed: int, lattice: bool, base: int) -> None:
    world = random_world(seed, lattice)
    rays = random_rays(seed, RAYS, lattice)
    arguments = random_settings(seed, RAYS, any_hit=[AnyHitProgram.IGNORE], accept_first=False)
    source = built(world, BuildFlag.NONE)
    blases = {}
    for (address, blas), inputs in zip(source.blases.items(), world.blases, strict=True):
        read = read_decode(decode(blas, base))
        assert isinstance(read, DecodedBlas)
        assert read.base_address == (base if any(g.primitive_count for g in inputs.geometries) else 0)
        assert differences(read, inputs) == []
        blases[address] = build_blas(read.blas_inputs())
    top = read_decode(decode(source.tlas, base))
    assert isinstance(top, DecodedTlas)
    assert differences(top, world.instances) == []
    again = Built(build_tlas(top.instance_inputs(), blases=blases), blases)
    found, wanted = again.walk(rays, arguments).result.hits, source.walk(rays, arguments).result.hits
    for field in ("hit", "t", "instance_index", "geometry_index", "primitive_index", "hit_kind", "attributes"):
        np.testing.assert_array_equal(getattr(found, field), getattr(wanted, field), err_msg=field)


@pytest.mark.rule("XB-10", "CP-10")
@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), flags=st.sampled_from([BuildFlag(w) for w in (0, 4, 8, 16, 20)]))
def test_rehydrated_bottom_levels_walk_as_built_ones(seed: int, lattice: bool, flags: BuildFlag) -> None:
    world, (rays, arguments) = random_world(seed, lattice), requests(seed, lattice)
    source = built(world, flags)
    wet = dict(source.blases)
    for (address, blas), inputs in zip(source.blases.items(), world.blases, strict=True):
        if not blas.is_procedural:
            dry = dehydrate(blas, inputs)
            assert dry.size == blas.size
            assert check(dry) == []
            wet[address] = rehydrate(dry, inputs)
    assert_same_walk(Built(source.tlas, wet).walk(rays, arguments), source.walk(rays, arguments))
