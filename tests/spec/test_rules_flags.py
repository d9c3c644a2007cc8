"""The advice of BF-11: what is recommended is legal, keeps its promise, and changes no hit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from rtviewer.accel.stats import statistics
from rtviewer.accel.structure import Structure
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.build.refit import update_blas
from rtviewer.copymode.compact import compact
from rtviewer.dxr.descs import BlasInputs
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag, RayFlag
from rtviewer.dxr.profile import Profile, Tier
from rtviewer.dxr.rules import check_build_flags
from rtviewer.scene.generators import city, icosphere, soup, torus
from rtviewer.scene.mesh import Mesh
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import Hits, RayBatch, TraceSettings
from tests.worlds import Placement, assert_same_hits, blas_address, instance_table, mesh

NONE, UPDATE, COMPACTION = BuildFlag.NONE, BuildFlag.ALLOW_UPDATE, BuildFlag.ALLOW_COMPACTION
FAST_TRACE, FAST_BUILD = BuildFlag.PREFER_FAST_TRACE, BuildFlag.PREFER_FAST_BUILD
SMALL, PERFORM = BuildFlag.MINIMIZE_MEMORY, BuildFlag.PERFORM_UPDATE

REBUILT_EACH_FRAME, CHEAP_REFIT = FAST_BUILD, FAST_BUILD | UPDATE
STATIC_SCENERY, HERO_CHARACTER = FAST_TRACE, FAST_TRACE | UPDATE
ADVISED = [REBUILT_EACH_FRAME, CHEAP_REFIT, STATIC_SCENERY, HERO_CHARACTER]
EVERY_WORD = [
    word | long_lived | under_pressure
    for word in [NONE, *ADVISED]
    for long_lived in (NONE, COMPACTION)
    for under_pressure in (NONE, SMALL)
]

INPUTS = BlasInputs((mesh(city(10)), mesh(soup(3000)), mesh(icosphere(4, 4.0))))


def rays() -> RayBatch:
    random = np.random.default_rng(8)
    origins = random.uniform(-12, 12, (10_000, 3)).astype(np.float32)
    return RayBatch.make(origins, random.uniform(-6, 6, (10_000, 3)).astype(np.float32) - origins)


def hits_of(blas: Structure, flags: BuildFlag = NONE) -> Hits:
    blases = {blas_address(0): blas}
    tlas = build_tlas(instance_table([Placement()]), flags & ~PERFORM, blases=blases)
    return Dispatcher(tlas, blases).trace(rays(), TraceSettings(ray_flags=RayFlag.FORCE_OPAQUE)).hits


def deformed(inputs: BlasInputs) -> BlasInputs:
    """The same meshes bent, as an animation would."""

    def bend(vertices: NDArray[np.float32]) -> NDArray[np.float32]:
        turned = vertices.copy()
        turned[:, 0] += np.sin(vertices[:, 1]).astype(np.float32)
        return turned

    return BlasInputs(tuple(replace(g, vertices=bend(g.vertices)) for g in inputs.geometries))  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def plain_hits() -> Hits:
    return hits_of(build_blas(INPUTS, NONE))


@pytest.mark.rule("BF-11", "BF-2", "BF-4", "BF-5")
@pytest.mark.parametrize("word", EVERY_WORD)
def test_what_is_advised_is_legal_everywhere(word: BuildFlag) -> None:
    for profile in (Profile(tier, xbox) for tier in Tier for xbox in (False, True)):
        for kind in (AccelerationStructureType.TOP_LEVEL, AccelerationStructureType.BOTTOM_LEVEL):
            assert check_build_flags(word, kind, profile) == []


@pytest.mark.rule("BF-11", "BF-10", "BF-4", "BF-5")
@pytest.mark.parametrize("word", EVERY_WORD[1:])
def test_the_choice_of_flags_changes_no_hit(word: BuildFlag, plain_hits: Hits) -> None:
    assert plain_hits.hit.sum() > 5000
    assert_same_hits(hits_of(build_blas(INPUTS, word), word), plain_hits)


@pytest.mark.rule("BF-11", "BF-10")
@pytest.mark.parametrize("source", [city(10), soup(3000), torus()], ids=["city", "soup", "torus"])
def test_scenery_gets_a_better_tree_than_what_is_rebuilt_each_frame(source: Mesh) -> None:
    inputs = BlasInputs((mesh(source),))
    cost = {word: statistics(build_blas(inputs, word)).sah for word in (NONE, *ADVISED)}
    assert cost[STATIC_SCENERY] < cost[NONE] < cost[REBUILT_EACH_FRAME]
    assert cost[HERO_CHARACTER] < cost[CHEAP_REFIT]


@pytest.mark.rule("BF-11", "BF-3", "BF-6", "UPD-13")
@pytest.mark.parametrize("word", [CHEAP_REFIT, HERO_CHARACTER, HERO_CHARACTER | COMPACTION])
def test_what_is_refitted_may_be_refitted(word: BuildFlag) -> None:
    bent = deformed(INPUTS)
    source = build_blas(INPUTS, word)
    if word & COMPACTION:
        source = compact(source)
    updated = update_blas(source, bent, word | PERFORM)
    fresh = hits_of(build_blas(bent, NONE))
    assert_same_hits(hits_of(updated), fresh)
    assert (fresh.t != hits_of(source).t).any()


@pytest.mark.rule("BF-11", "BF-4", "BF-5", "POST-5", "PRE-7")
@pytest.mark.parametrize("word", ADVISED)
def test_compaction_and_small_layouts_save_memory(word: BuildFlag) -> None:
    """Long-lived structures shrink when compacted, to no more than a build that never allowed it."""
    built = build_blas(INPUTS, word | COMPACTION)
    assert compact(built).size < built.size
    assert compact(built).size <= build_blas(INPUTS, word).size
    assert build_blas(INPUTS, word | SMALL).size < build_blas(INPUTS, word).size
