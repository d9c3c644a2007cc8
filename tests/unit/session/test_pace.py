"""Coarse pictures: paced by the speed measured, small until asked for, and seen even when a newer one is asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from rtviewer.errors import CancelledError
from rtviewer.session import image_tracing
from rtviewer.session.coarse import CoarseBuffer
from rtviewer.session.image import ImageBuffer, ImageRequest
from rtviewer.session.image_tracing import trace_image, trace_passes
from rtviewer.session.pace import COARSE_SECONDS, LARGE_TILE_POINTS, STEPS, WHOLE_SECONDS, Plan
from rtviewer.session.state import RaySettings
from rtviewer.shade.modes import shade
from rtviewer.trace.request import HIT_FIELDS

SIZE = (1280, 720)


@pytest.fixture
def request_(world, scene):
    return ImageRequest(world, scene.cameras[0], *SIZE, RaySettings())


def taught(request, seconds: float) -> Plan:
    """A plan that has seen a whole picture take so long."""
    plan = Plan()
    empty = dict.fromkeys([name for name, _, _, _ in HIT_FIELDS] + ["counters", "valid"])
    plan.learn(request, ImageBuffer(request, **empty, seconds=seconds))  # only sizes and seconds count
    return plan


def test_nothing_known_is_the_usual_way(request_):
    assert Plan().steps(request_) == (STEPS, None)


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [
        (0.5 * COARSE_SECONDS, (2, 1)),
        (10 * COARSE_SECONDS, (4, 1)),
        (0.9 * WHOLE_SECONDS, (8, 4, 1)),
        (60 * COARSE_SECONDS, (8, 4, 2, 1)),
        (9000 * COARSE_SECONDS, (16, 8, 4, 2, 1)),
    ],
)
def test_the_first_pass_is_as_fine_as_its_time_allows(request_, seconds, steps):
    plan = taught(request_, seconds)
    assert plan.steps(request_)[0] == steps
    if seconds / steps[0] ** 2 > COARSE_SECONDS:
        assert steps[0] == 16


def test_tiles_grow_only_where_they_are_soon_done(request_):
    assert taught(request_, 0.2).steps(request_)[1] == LARGE_TILE_POINTS
    assert taught(request_, 60.0).steps(request_)[1] is None


def test_what_takes_other_times_is_paced_apart(request_, world):
    plan = taught(request_, 0.1)
    assert plan.steps(replace(request_, counters=True))[0] == STEPS
    assert plan.steps(replace(request_, x_ray=True))[0] == STEPS
    assert plan.steps(replace(request_, width=8 * SIZE[0]))[0] != plan.steps(request_)[0]


@pytest.mark.parametrize("steps", [(2, 1), (4, 1), (8, 4, 1), (16, 8, 2, 1), (4, 2, 1)])
@pytest.mark.parametrize("size", [(257, 131), (128, 64), (5, 3)])
def test_steps_and_tiles_change_no_pixel(world, scene, size, steps):
    rays = RaySettings()
    whole = trace_image(world, scene.cameras[0], size, rays, counters=True, threads=1)
    request = ImageRequest(world, scene.cameras[0], *size, rays, counters=True)
    seen = []
    with ThreadPoolExecutor(2) as pool:
        trace_passes(request, pool, 2, steps=steps, tile_points=32, on_pass=lambda *a: seen.append(a))
    for buffer, _, is_complete in seen:
        rows, columns = np.indices(whole.hit.shape) // buffer.step * buffer.step
        for name in [name for name, _, _, _ in HIT_FIELDS] + ["counters"]:
            assert np.array_equal(getattr(buffer, name), getattr(whole, name)[rows, columns]), (buffer.step, name)
        assert is_complete == (buffer.step == 1)
    fractions = [fraction for _, fraction, _ in seen]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


def test_a_coarse_picture_is_small_until_it_is_asked_for(world, scene):
    seen = []
    request = ImageRequest(world, scene.cameras[0], 64, 48, RaySettings())
    with ThreadPoolExecutor(1) as pool:
        trace_passes(request, pool, 1, on_pass=lambda buffer, *_: seen.append(buffer))
    coarse = seen[0]
    assert isinstance(coarse, CoarseBuffer)
    shaded = shade(coarse.picture(), "shaded")
    assert shaded.rgba.shape == (48, 64, 4)
    assert not {"t", "hit", "valid"} & set(vars(coarse))
    assert coarse.t.shape == coarse.valid.shape == (48, 64)
    assert coarse.t is coarse.t
    assert not coarse.is_complete
    same = shade(replace(seen[-1], step=4).picture(), "shaded")
    assert np.array_equal(shaded.rgba, same.rgba)


def test_a_first_pass_is_finished_when_something_newer_waits(world, scene):
    request = ImageRequest(world, scene.cameras[0], 300, 200, RaySettings())
    seen = []
    with ThreadPoolExecutor(2) as pool, pytest.raises(CancelledError):
        trace_passes(
            request, pool, 2, on_pass=lambda buffer, *_: seen.append(buffer.step), cancelled=lambda: True,
            finish_first=True,
        )  # fmt: skip
    assert seen == [4]


def test_a_first_pass_that_lasts_is_given_up(world, scene, monkeypatch):
    monkeypatch.setattr(image_tracing, "FIRST_SECONDS", 0.0)
    request = ImageRequest(world, scene.cameras[0], 300, 200, RaySettings())
    seen = []
    with ThreadPoolExecutor(2) as pool, pytest.raises(CancelledError):
        trace_passes(
            request, pool, 2, on_pass=lambda buffer, *_: seen.append(buffer.step), cancelled=lambda: True,
            finish_first=True,
        )  # fmt: skip
    assert seen == []
