"""Builds of every size and kind of bad luck: invariants, determinism, cancelling, refusals."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.accel.layout import PRIMITIVE_BITS, UNUSED_LANE
from rtviewer.accel.sizes import Counts, result_size, scratch_size, tree_budget, update_scratch_size
from rtviewer.accel.stats import statistics
from rtviewer.build.builder import build_blas, build_tlas, counts_of
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag, GeometryFlag
from rtviewer.dxr.profile import Profile
from rtviewer.errors import CancelledError, InvalidInputError, StructureError
from rtviewer.scene.generators import icosphere


def soup(count: int, seed: int = 0, size: float = 0.05) -> TrianglesGeometry:
    random = np.random.default_rng(seed)
    corners = random.random((count, 1, 3)) + random.normal(0, size, (count, 3, 3))
    return TrianglesGeometry(corners.reshape(-1, 3).astype(np.float32), flags=GeometryFlag.OPAQUE)


def boxes(count: int, seed: int = 0) -> AabbsGeometry:
    low = np.random.default_rng(seed).random((count, 3))
    return AabbsGeometry(np.concatenate([low, low + 0.01], 1).astype(np.float32))


def instances_of(count: int, address: int = 256) -> InstanceInputs:
    transform = np.tile(np.eye(3, 4, dtype=np.float32), (count, 1, 1))
    transform[:, :, 3] = np.random.default_rng(3).random((count, 3)) * 100
    return InstanceInputs(
        transform,
        np.arange(count, dtype=np.uint32),
        np.full(count, 255, np.uint8),
        np.zeros(count, np.uint32),
        np.zeros(count, np.uint8),
        np.full(count, address, np.uint64),
    )


def leaf_ids(structure) -> np.ndarray:
    packs = structure.triangle_packs if len(structure.triangle_packs) else structure.box_packs
    ids = packs["id"].ravel()
    return np.sort(ids[ids != UNUSED_LANE] & PRIMITIVE_BITS)


@pytest.mark.rule("BLD-11", "BLD-12")
@pytest.mark.parametrize("count", [0, 1, 2, 4, 5, 8, 9, 33, 1000, 40_000])
@pytest.mark.parametrize("make", [soup, boxes])
def test_every_primitive_is_in_the_leaves_once(make, count: int) -> None:
    structure = build_blas(BlasInputs((make(count),)))
    assert check(structure) == []
    np.testing.assert_array_equal(leaf_ids(structure), np.arange(count))


@pytest.mark.rule("BLD-11")
def test_structures_without_anything() -> None:
    for inputs in (BlasInputs(), BlasInputs((soup(0),)), BlasInputs((soup(0), soup(3), soup(0)))):
        assert check(build_blas(inputs)) == []
    empty = build_tlas(instances_of(0), blases={})
    assert check(empty) == []
    assert empty.bounds is None
    assert len(empty.nodes) == 0


@pytest.mark.parametrize("count", [1, 2, 100, 30_000])
def test_top_levels(count: int) -> None:
    blas = build_blas(BlasInputs((soup(3),)), address=256)
    structure = build_tlas(instances_of(count), blases={256: blas})
    assert check(structure) == []
    np.testing.assert_array_equal(np.sort(structure.instance_leaves["instance"]), np.arange(count))


@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 65_536])
def test_equal_centroids_split_evenly(count: int) -> None:
    """C05: no plane separates them; the depth stays logarithmic and every id is there once."""
    size = np.arange(1, count + 1, dtype=np.float32)
    corners = np.zeros((count, 3, 3), np.float32)
    corners[:, 0, :2], corners[:, 1, 0], corners[:, 2, 1] = -size[:, None], size, size
    structure = build_blas(BlasInputs((TrianglesGeometry(corners.reshape(-1, 3)),)))
    assert check(structure) == []
    np.testing.assert_array_equal(leaf_ids(structure), np.arange(count))
    assert int(structure.header["depth"]) <= 14


@pytest.mark.rule("DET-3")
def test_bytes_do_not_depend_on_threads_or_time(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = BlasInputs((soup(120_000), soup(5_000, 1, 2.0)))
    first = build_blas(inputs).data.tobytes()
    for threads in (1, 2, 5):
        monkeypatch.setattr(os, "cpu_count", lambda threads=threads: threads)
        assert build_blas(inputs).data.tobytes() == first


@pytest.mark.rule("BLD-3")
def test_inputs_may_be_overwritten_afterwards() -> None:
    geometry = soup(100)
    structure = build_blas(BlasInputs((geometry,)))
    before = structure.data.tobytes()
    geometry.vertices[:] = 7
    assert structure.data.tobytes() == before
    with pytest.raises(ValueError, match="read-only"):
        structure.data[0] = 1


def test_infinite_and_huge_coordinates_build_and_disturb_nobody() -> None:
    corners = soup(200).vertices.reshape(-1, 3, 3).copy()
    corners[3, 0] = [np.inf, 0, 0]
    corners[5] = [[3e38, -3e38, 3e38], [-3e38, 3e38, 0], [3e38, 3e38, -3e38]]
    structure = build_blas(BlasInputs((TrianglesGeometry(corners.reshape(-1, 3)),)))
    assert check(structure) == []
    assert np.isfinite(statistics(structure).sah)


@pytest.mark.rule("INA-1", "INA-3", "INA-6", "DEG-7", "DEG-8")
def test_inactive_and_degenerate_are_left_out_and_keep_their_number() -> None:
    corners = soup(6).vertices.reshape(-1, 3, 3).copy()
    corners[1, 2, 0] = np.nan
    corners[4] = corners[4, :1]
    structure = build_blas(BlasInputs((TrianglesGeometry(corners.reshape(-1, 3)),)))
    np.testing.assert_array_equal(leaf_ids(structure), [0, 2, 3, 5])
    assert int(structure.header["degenerate_count"]) == 1
    corners[2, 0, 1] = np.nan
    with pytest.raises(InvalidInputError) as caught:
        build_blas(BlasInputs((TrianglesGeometry(corners.reshape(-1, 3)),)))
    assert caught.value.rules == ("INA-3",)
    assert "primitive 2" in str(caught.value)


@pytest.mark.rule("BLD-2", "GEO-4", "GF-1")
def test_illegal_geometry_is_refused_with_every_rule_it_breaks() -> None:
    with pytest.raises(InvalidInputError) as caught:
        build_blas(
            BlasInputs((soup(1), boxes(1), TrianglesGeometry(np.zeros((3, 3), np.float32), flags=GeometryFlag(4))))
        )
    assert caught.value.rules == ("BLD-2", "GF-1")
    broken = TrianglesGeometry(np.zeros((4, 3), np.float32), np.array([[0, 1, 2], [0, 2, 7]], np.uint32))
    with pytest.raises(InvalidInputError, match=r"\[GEO-4\].*triangle 1.*7"):
        build_blas(BlasInputs((soup(1), broken)))


@pytest.mark.rule("BLD-10", "ALIGN-1", "IF-2", "LIM-4", "INST-6")
def test_illegal_instances_are_refused() -> None:
    blas = build_blas(BlasInputs((soup(3),)), address=256)
    good = instances_of(3)
    cases = {
        "BLD-10": {"blas_address": np.array([256, 512, 256], np.uint64)},
        "ALIGN-1": {"blas_address": np.array([256, 128, 256], np.uint64)},
        "IF-2": {"flags": np.array([0, 0xC, 0], np.uint8)},
        "IF-1": {"flags": np.array([0, 0x40, 0], np.uint8)},
        "LIM-4": {"instance_id": np.array([0, 1 << 24, 0], np.uint32)},
        "INST-6": {"transform": np.where(np.arange(36).reshape(3, 3, 4) == 13, np.nan, good.transform)},
    }
    for rule, change in cases.items():
        with pytest.raises(InvalidInputError) as caught:
            build_tlas(InstanceInputs(**{**vars(good), **change}), blases={256: blas})
        assert caught.value.rules == (rule,)
        assert "InstanceDescs[1]" in str(caught.value)


def test_flags_that_a_plain_build_cannot_honour_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="BLD-1"):
        build_blas(BlasInputs((soup(1),)), BuildFlag.PERFORM_UPDATE)
    with pytest.raises(StructureError, match="DEHYDRATE"):
        build_blas(BlasInputs((soup(1),)), BuildFlag.DEHYDRATE, profile=Profile(xbox=True))


SIX_BITS = [BuildFlag(word) for word in range(32) if word & 0xC != 0xC]


@pytest.mark.rule("BF-1", "BF-2", "BF-4", "BF-5", "PRE-7", "PRE-8", "POST-5", "BF-9")
@pytest.mark.parametrize("flags", SIX_BITS)
def test_every_flag_word_builds_sound_structures_within_its_size(flags: BuildFlag) -> None:
    degenerate = soup(40).vertices.copy()
    degenerate[3:6] = degenerate[3]
    for geometry in (soup(3000), boxes(500), adversarial("fives", 800), TrianglesGeometry(degenerate)):
        inputs = BlasInputs((geometry, geometry))
        structure = build_blas(inputs, flags)
        assert check(structure) == []
        assert structure.build_flags == flags
        assert structure.used_size <= structure.size == result_size(counts_of(inputs), flags)
    blas = build_blas(BlasInputs((soup(3),)), flags, address=256)
    for count in (1, 2, 7, 200):
        tlas = build_tlas(instances_of(count), flags, blases={256: blas})
        assert check(tlas) == []
        assert tlas.used_size <= tlas.size == result_size(Counts(instances=count), flags)


@pytest.mark.rule("PRE-3", "PRE-4", "PRE-7", "PRE-9", "PRE-11")
@pytest.mark.parametrize("flags", SIX_BITS)
def test_sizes_grow_with_counts_and_shrink_with_minimize_memory(flags: BuildFlag) -> None:
    random = np.random.default_rng(int(flags))
    small = flags | BuildFlag.MINIMIZE_MEMORY
    for _ in range(50):
        low = [int(x) for x in random.integers(0, 2000, 5)]
        low[3] = min(low[3], 3 * low[0])
        high = [x + int(random.integers(0, 500)) for x in low]
        a, b = Counts(*low), Counts(*high)
        for size in (result_size, scratch_size, update_scratch_size):
            assert size(a, flags) <= size(b, flags)
            assert size(a, flags) % 256 == 0
            assert size(a, small) <= size(a, flags | small & ~BuildFlag.MINIMIZE_MEMORY)
        assert (update_scratch_size(a, flags) > 0) == bool(flags & BuildFlag.ALLOW_UPDATE)
        assert result_size(a, flags) > 0


def test_minimize_memory_is_small() -> None:
    mesh = icosphere(6)
    inputs = BlasInputs((TrianglesGeometry(mesh.vertices, mesh.indices),))
    structure = build_blas(inputs, BuildFlag.MINIMIZE_MEMORY)
    sections = statistics(structure).bytes_by_section
    assert (sections["nodes"] + sections["indexed_packs"]) / len(mesh.indices) <= 18
    assert structure.used_size < build_blas(inputs).used_size


def test_fast_builds_and_fast_traces_are_other_trees() -> None:
    inputs = BlasInputs((soup(4000, size=0.2),))
    costs = {
        flags: statistics(build_blas(inputs, flags)).sah
        for flags in (BuildFlag.NONE, BuildFlag.PREFER_FAST_BUILD, BuildFlag.PREFER_FAST_TRACE)
    }
    assert costs[BuildFlag.PREFER_FAST_TRACE] <= costs[BuildFlag.NONE] < costs[BuildFlag.PREFER_FAST_BUILD]


def test_a_build_can_be_cancelled_and_tells_its_progress() -> None:
    inputs = BlasInputs((soup(400_000),))
    start = time.perf_counter()
    fractions: list[float] = []
    build_blas(inputs, progress=fractions.append)
    whole = time.perf_counter() - start
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    start = time.perf_counter()
    with pytest.raises(CancelledError):
        build_blas(inputs, cancelled=lambda: True)
    assert time.perf_counter() - start < whole + 0.5


def test_used_bytes_stay_low() -> None:
    structure = build_blas(BlasInputs((soup(50_000),)))
    assert structure.used_size / 50_000 < 64


def adversarial(kind: str, count: int) -> TrianglesGeometry:
    """Shapes that tempt a cut by area into nearly empty packs."""
    random = np.random.default_rng(7)
    centre = random.random((count, 3))
    size = np.full(count, 1e-3)
    if kind == "sparse pairs":
        centre = np.repeat(random.random((count // 2 + 1, 3)) * 1e3, 2, 0)[:count]
        size[:] = 0.1
    elif kind == "exponential":
        centre = 2.0 ** (np.arange(count) % 60)[:, None] * np.ones(3)
        size = centre[:, 0] * 0.1
    elif kind == "one big among small":
        size[::5] = 10.0
    elif kind == "fives":
        centre = np.repeat(random.random((count // 5 + 1, 3)) * 1e2, 5, 0)[:count]
    corners = centre[:, None] + size[:, None, None] * random.normal(0, 1, (count, 3, 3))
    return TrianglesGeometry(corners.reshape(-1, 3).astype(np.float32))


@pytest.mark.rule("PRE-2", "PRE-6", "POST-8", "BLD-8")
@pytest.mark.parametrize("kind", ["sparse pairs", "exponential", "one big among small", "fives"])
@pytest.mark.parametrize("count", [1, 5, 9, 10, 13, 17, 18, 29, 129, 1000, 40_009])
def test_no_input_takes_more_than_the_bound(kind: str, count: int) -> None:
    structure = build_blas(BlasInputs((adversarial(kind, count),)))
    assert check(structure) == []
    assert structure.size == result_size(Counts(triangles=count, geometries=1))
    assert structure.used_size <= structure.size
    assert structure.size <= 72 * count + 2048
    np.testing.assert_array_equal(leaf_ids(structure), np.arange(count))


def test_some_adversary_reaches_the_bound() -> None:
    """Otherwise the test above would hold for a builder that keeps no budget."""
    count = 40_009
    structure = build_blas(BlasInputs((adversarial("fives", count),)))
    tree = len(structure.nodes) * 256 + len(structure.triangle_packs) * 160
    assert tree > 0.97 * tree_budget(Counts(triangles=count))


@pytest.mark.parametrize(("make", "field"), [(soup, "triangles"), (boxes, "boxes")])
@pytest.mark.parametrize("count", range(1, 60))
def test_small_structures_keep_the_bound(make, field: str, count: int) -> None:
    structure = build_blas(BlasInputs((make(count),)))
    assert check(structure) == []
    assert structure.used_size <= structure.size == result_size(Counts(**{field: count}, geometries=1))


@pytest.mark.parametrize("count", [*range(1, 40), 500, 20_000])
def test_top_levels_keep_the_bound(count: int) -> None:
    blas = build_blas(BlasInputs((soup(3),)), address=256)
    structure = build_tlas(instances_of(count), blases={256: blas})
    assert structure.used_size <= structure.size == result_size(Counts(instances=count))
