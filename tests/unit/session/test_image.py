from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import numpy as np
import pytest

from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.verdicts import Counter
from rtviewer.errors import CancelledError, InvalidInputError, RtviewerError
from rtviewer.session import image_tracing
from rtviewer.session.image import ImageRequest
from rtviewer.session.image_tracing import trace_image, trace_passes
from rtviewer.session.primary_rays import camera_rays, pixel_ray, trace_settings
from rtviewer.session.state import RaySettings
from rtviewer.trace.request import HIT_FIELDS, Hits

SIZES = [(1, 1), (5, 3), (64, 64), (257, 131), (300, 70)]


def passes(request, threads=2, **options):
    seen = []
    with ThreadPoolExecutor(threads) as pool:
        trace_passes(request, pool, threads, on_pass=lambda *arguments: seen.append(arguments), **options)
    return seen


class Recorder:
    """A dispatcher that notes every ray it is given."""

    def __init__(self, inner):
        self.inner, self.directions = inner, []

    def trace(self, rays, settings, *, counters):
        self.directions.append(rays.direction.copy())
        return self.inner.trace(rays, settings, counters=counters)


@pytest.mark.parametrize("size", SIZES)
def test_every_pixel_is_traced_once_and_as_one_batch_would(world, scene, size):
    rays = RaySettings(t_max=12.0)
    request = ImageRequest(world, scene.cameras[0], *size, rays, counters=True)
    recorder = Recorder(world.dispatcher())
    request.world._kept["dispatcher", request.profile] = recorder
    try:
        seen = passes(request)
    finally:
        request.world._kept["dispatcher", request.profile] = recorder.inner
    traced = np.concatenate(recorder.directions)
    assert len(traced) == size[0] * size[1]
    rows, columns = (a.ravel() for a in np.indices((size[1], size[0])))
    batch = camera_rays(scene.cameras[0], *size, columns, rows, rays)
    assert np.array_equal(np.unique(traced, axis=0), np.unique(batch.direction, axis=0))
    expected = world.dispatcher().trace(batch, trace_settings(rays), counters=True)
    picture, fraction, is_complete = seen[-1]
    assert (fraction, is_complete, picture.is_complete) == (1.0, True, True)
    for field in fields(Hits):
        assert np.array_equal(getattr(picture.hits(), field.name), getattr(expected.hits, field.name)), field.name
    assert np.array_equal(picture.counters.reshape(-1, len(Counter)), expected.counters)
    assert picture.valid.all()
    assert picture.rays_traced == size[0] * size[1]


@pytest.mark.parametrize("size", SIZES)
def test_coarse_pictures_show_the_traced_pixel_of_each_block(world, scene, size):
    seen = passes(ImageRequest(world, scene.cameras[0], *size, RaySettings(), counters=True))
    complete = seen[-1][0]
    assert [picture.step for picture, _, _ in seen] == [4, 2, 1]
    for picture, fraction, is_complete in seen:
        step = picture.step
        rows, columns = np.indices(picture.hit.shape) // step * step
        for name in [name for name, _, _, _ in HIT_FIELDS] + ["counters"]:
            assert np.array_equal(getattr(picture, name), getattr(complete, name)[rows, columns]), (step, name)
        own = np.zeros_like(picture.valid)
        own[::step, ::step] = True
        assert np.array_equal(picture.valid, own)
        assert fraction == own.mean()
        assert is_complete == (step == 1)


def test_a_picture_handed_on_is_never_written_again(world, scene):
    request = ImageRequest(world, scene.cameras[0], 200, 120, RaySettings())
    kept = []

    def keep(picture, fraction, is_complete):
        kept.append((picture, picture.t.copy(), picture.valid.copy()))

    with ThreadPoolExecutor(2) as pool:
        trace_passes(request, pool, 2, on_pass=keep)
    for picture, t, valid in kept:
        assert np.array_equal(picture.t, t)
        assert np.array_equal(picture.valid, valid)


def test_the_number_of_threads_changes_nothing(world, scene):
    one = trace_image(world, scene.cameras[0], (190, 97), RaySettings(), counters=True, threads=1)
    three = trace_image(world, scene.cameras[0], (190, 97), RaySettings(), counters=True, threads=3)
    for name in [name for name, _, _, _ in HIT_FIELDS] + ["counters"]:
        assert np.array_equal(getattr(one, name), getattr(three, name)), name


def test_a_pixel_ray_is_the_images_ray(world, scene):
    image = trace_image(world, scene.cameras[0], (37, 21), RaySettings())
    for x, y in [(0, 0), (18, 10), (36, 20), (25, 10)]:
        ray = pixel_ray(scene.cameras[0], 37, 21, x, y)
        hits = world.dispatcher().trace(ray, trace_settings(RaySettings())).hits
        assert bool(hits.hit[0]) == bool(image.hit[y, x])
        assert hits.t[0] == image.t[y, x]
        assert hits.instance_index[0] == image.instance_index[y, x]
    with pytest.raises(RtviewerError, match="outside the 37 x 21"):
        pixel_ray(scene.cameras[0], 37, 21, 37, 0)


def test_settings_reach_the_rays(world, scene):
    camera, size = scene.cameras[0], (33, 33)

    def centre(**changes):
        return int(trace_image(world, camera, size, RaySettings(**changes)).instance_index[16, 16])

    assert centre() == 0
    assert centre(mask=0x01) == 1
    assert centre(mask=0x01, ray_flags=RayFlag.CULL_NON_OPAQUE) == 2
    assert centre(mask=0x01, ray_flags=RayFlag.CULL_BACK_FACING_TRIANGLES, t_min=11.5) == 3
    assert centre(t_max=9.5) == -1


def test_cancelling_stops_within_a_tile_and_hands_nothing_on(world, scene):
    asked = []

    def cancelled():
        asked.append(1)
        return len(asked) > 3

    request = ImageRequest(world, scene.cameras[0], 600, 600, RaySettings())
    seen = []
    with ThreadPoolExecutor(2) as pool, pytest.raises(CancelledError):
        trace_passes(request, pool, 2, on_pass=lambda *a: seen.append(a), cancelled=cancelled)
    assert seen == []


def test_what_a_worker_raises_reaches_the_caller(world, scene, monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError("tile")

    monkeypatch.setattr(image_tracing, "camera_rays", broken)
    with pytest.raises(ZeroDivisionError, match="tile"):
        trace_image(world, scene.cameras[0], (64, 64), RaySettings(), threads=2)


def test_illegal_requests_are_refused_before_any_work(world, scene):
    camera = scene.cameras[0]
    flags = RayFlag.CULL_BACK_FACING_TRIANGLES | RayFlag.CULL_FRONT_FACING_TRIANGLES
    with pytest.raises(InvalidInputError, match="RF-3"):
        trace_image(world, camera, (8, 8), RaySettings(ray_flags=flags))
    with pytest.raises(InvalidInputError, match="RAY-3"):
        trace_image(world, camera, (8, 8), RaySettings(t_max=float("nan")))
    for size in [(0, 8), (8, -1), (1 << 20, 1 << 20)]:
        with pytest.raises(RtviewerError, match="cannot trace an image"):
            trace_image(world, camera, size, RaySettings())


def test_counters_only_when_asked_for(world, scene):
    image = trace_image(world, scene.cameras[0], (8, 8), RaySettings())
    assert image.counters is None
    with pytest.raises(RtviewerError, match="without counters"):
        image.counter(Counter.BOX_TESTS)


def test_the_echo_says_what_was_asked(world, scene):
    rays = replace(RaySettings(), mask=0x01, ray_flags=RayFlag.FORCE_OPAQUE)
    image = trace_image(world, scene.cameras[1], (8, 6), rays)
    assert (image.rays, image.camera, image.world) == (rays, scene.cameras[1], world)
    assert (image.width, image.height) == (8, 6)
    assert image.seconds > 0


def test_a_picture_explains_its_own_pixels(world, scene):
    image = trace_image(world, scene.cameras[1], (40, 30), RaySettings(mask=0x01))
    for y, x in [(15, 20), (14, 18), (0, 0)]:
        log = image.explain((x, y))
        assert log.result.instance_index == image.instance_index[y, x]
        assert np.float32(log.result.t) == image.t[y, x]
