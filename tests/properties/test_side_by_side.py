"""Rays that are walked side by side find what each finds alone, with counters, whatever the others do meanwhile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rtviewer.dxr.shader_table import TRIANGLES, HitGroupTable
from rtviewer.errors import InvalidInputError
from rtviewer.trace import dispatch
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import RayBatch, TraceSettings
from rtviewer.trace.slots import SLOTS
from tests.properties.packet_cases import assert_equal_hits
from tests.properties.strategies import SEEDS, random_rays, random_settings, random_world
from tests.properties.test_tracing import dispatcher_of

TABLE = HitGroupTable((TRIANGLES,) * 12)


@pytest.fixture(autouse=True)
def _no_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "go_together", lambda directions: False)


@given(SEEDS, st.sampled_from([0, 1, 2, SLOTS - 1, SLOTS, SLOTS + 1, 70]), st.booleans())
@example(seed=3, count=70, lattice=True)
def test_hits_are_those_of_single_rays(seed: int, count: int, lattice: bool) -> None:
    dispatcher = dispatcher_of(random_world(seed, lattice))
    rays = random_rays(seed, count, lattice)
    each_its_own = random_settings(seed, count, any_hit=[0, 1, 2, 3, 4, 5], accept_first=True)
    alike = of_ray(each_its_own, 0) if count else TraceSettings()
    for settings in (each_its_own, alike, replace(alike, repeat_calls=True)):
        side_by_side = dispatcher.trace(rays, settings).hits
        assert_equal_hits(side_by_side, dispatcher.trace(rays, settings, counters=True).hits)


@given(SEEDS, st.booleans())
def test_hit_or_miss_alone_ends_with_any_hit(seed: int, lattice: bool) -> None:
    dispatcher, rays = dispatcher_of(random_world(seed, lattice)), random_rays(seed, 40, lattice)
    full = dispatcher.trace(rays, TraceSettings()).hits
    only = dispatcher.trace(rays, TraceSettings(hit_only=True)).hits
    np.testing.assert_array_equal(only.hit, full.hit)
    np.testing.assert_array_equal(only.invalid, full.invalid)


def of_ray(settings: TraceSettings, ray: int) -> TraceSettings:
    """The settings of one ray of a batch."""
    names = ("ray_flags", "mask", "any_hit", "intersection", "ray_contribution", "multiplier")
    return replace(settings, **{name: getattr(settings, name)[ray].item() for name in names})


def one_by_one(dispatcher: Dispatcher, rays: RayBatch, settings: TraceSettings) -> int | None:
    """The first ray that is refused."""
    for ray in range(len(rays)):
        try:
            dispatcher.trace(rays.part(ray, ray + 1), of_ray(settings, ray))
        except InvalidInputError:
            return ray
    return None


def test_of_several_faults_that_of_the_first_ray_is_told() -> None:
    """Rays end in another order than they have: a short one that goes wrong does not hide a long one before it."""
    told, early = 0, 0
    for seed in range(60):
        dispatcher, rays = dispatcher_of(random_world(seed, False)), random_rays(seed, 3 * SLOTS, False)
        settings = replace(random_settings(seed, len(rays), any_hit=[0], accept_first=False), hit_groups=TABLE)
        first = one_by_one(dispatcher, rays, settings)
        if first is None:
            continue
        with pytest.raises(InvalidInputError) as caught:
            dispatcher.trace(rays, settings)
        assert f"ray {first}:" in str(caught.value), seed
        told += 1
        early += first > 0
    assert told > 20
    assert early > 10
