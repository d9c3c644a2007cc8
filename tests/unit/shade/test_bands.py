"""Colouring in bands of rows on several threads gives the picture that one thread gives."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from rtviewer.scene.camera import Camera
from rtviewer.scene.scene import Instance
from rtviewer.shade import modes, shadings
from tests.unit.shade.test_modes import matrix, picture_of, triangles

TALL = (90, 2 * modes.BAND_ROWS + 31)


@pytest.fixture(scope="module", params=["perspective", "orthographic"])
def tall(request):
    camera = Camera((0.2, 0.3, 3), (0.2, 0.3, 0), orthographic_height=3.0 if request.param == "orthographic" else None)
    return picture_of(triangles(Instance(0), Instance(0, matrix((-1, -1, 1)))), size=TALL, camera=camera)


@pytest.mark.parametrize("closest_hit", list(shadings.CLOSEST_HIT))
@pytest.mark.parametrize("miss", list(shadings.MISS))
def test_bands_change_no_pixel(tall, closest_hit, miss):
    picture = replace(tall, closest_hit=closest_hit, miss=miss)
    alone = modes.shade(picture, "shaded").rgba
    with ThreadPoolExecutor(3) as pool:
        assert np.array_equal(modes.shade(picture, "shaded", pool=pool).rgba, alone)


def test_shadings_that_look_at_the_whole_picture_are_not_cut(tall, monkeypatch):
    """The list of those that may be cut is what the look of each says."""
    assert tall.hit[: modes.BAND_ROWS].any()
    assert tall.hit[modes.BAND_ROWS :].any()
    monkeypatch.setattr(shadings, "LOCAL", tuple(shadings.CLOSEST_HIT))
    slanted = np.linspace(1, 9, tall.t.size, dtype=np.float32).reshape(tall.t.shape)
    picture = replace(tall, t=slanted, closest_hit="distance")
    with ThreadPoolExecutor(2) as pool:
        cut = modes.shade(picture, "shaded", pool=pool).rgba
    assert not np.array_equal(cut, modes.shade(picture, "shaded").rgba)


def test_what_a_band_raises_is_heard(tall, monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("band")

    monkeypatch.setitem(shadings.MISS, "sky", replace(shadings.MISS["sky"], shader=broken))
    with ThreadPoolExecutor(2) as pool, pytest.raises(ZeroDivisionError, match="band"):
        modes.shade(tall, "shaded", pool=pool)
