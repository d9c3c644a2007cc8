"""Closest-hit and miss shadings: which runs for which pixel, and that names are judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.shader_table import NULL, TRIANGLES, HitGroup, HitGroupTable, HitGroupType
from rtviewer.errors import RtviewerError
from rtviewer.scene.camera import Camera
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.document import build_world
from rtviewer.session.image import shade_image
from rtviewer.session.state import ImageSettings
from rtviewer.shade.shadings import CLOSEST_HIT, MISS, PAYLOAD
from tests.worlds import BlasInputs, translate, triangles

WALL = [[-1, -1, 0], [1, -1, 0], [0, 1, 0]]


def scene(table: HitGroupTable | None = None) -> Scene:
    blas = BlasInputs((triangles(WALL),), "wall")
    placed = (Instance(0), Instance(0, translate(3, 0, 0), contribution=1))
    return Scene("two walls", (blas,), placed, (Camera((1.5, 0, 8), (1.5, 0, 0)),), hit_groups=table)


def colours(
    table: HitGroupTable | None = None, flags: RayFlag = RayFlag.NONE, closest_hit: str = "flat", miss: str = "magenta"
) -> tuple[np.ndarray, np.ndarray]:
    """RGB of every pixel, and the instance there, -1 for none."""
    image = build_world(scene(table)).trace(size=(60, 40), ray_flags=flags)
    settings = replace(ImageSettings(), closest_hit=closest_hit, miss=miss)
    return shade_image(image, settings).rgba[..., :3], image.instance_index


@pytest.mark.rule("TRAV-3", "ACC-4", "TRAV-2")
def test_a_hit_whose_closest_hit_is_skipped_or_missing_is_no_miss() -> None:
    rgb, instance = colours()
    assert (rgb[instance < 0] == (255, 0, 255)).all()
    assert (rgb[instance >= 0] != PAYLOAD).any()
    skipped, _ = colours(flags=RayFlag.SKIP_CLOSEST_HIT_SHADER)
    assert (skipped[instance >= 0] == PAYLOAD).all()
    assert (skipped[instance < 0] == (255, 0, 255)).all()
    for without in (NULL, HitGroup(HitGroupType.TRIANGLES, closest_hit=False)):
        some, _ = colours(HitGroupTable((TRIANGLES, without)))
        assert (some[instance == 1] == PAYLOAD).all()
        np.testing.assert_array_equal(some[instance == 0], rgb[instance == 0])
    alike, _ = colours(HitGroupTable((NULL, TRIANGLES), stride=0))
    assert (alike[instance >= 0] == PAYLOAD).all()


@pytest.mark.parametrize("name", CLOSEST_HIT)
def test_every_shading_colours_hits_only(name: str) -> None:
    rgb, instance = colours(closest_hit=name)
    assert (rgb[instance < 0] == (255, 0, 255)).all()
    others = [colours(closest_hit=other)[0] for other in CLOSEST_HIT if other != name]
    assert all((rgb[instance >= 0] != other[instance >= 0]).any() for other in others)


@pytest.mark.parametrize("name", MISS)
def test_every_miss_shading_leaves_hits_alone(name: str) -> None:
    rgb, instance = colours(miss=name)
    np.testing.assert_array_equal(rgb[instance >= 0], colours()[0][instance >= 0])


def test_unknown_names_are_told_with_those_there_are() -> None:
    with pytest.raises(RtviewerError, match="no miss shading 'fog': there are sky, black"):
        colours(miss="fog")
    with pytest.raises(RtviewerError, match="no closest-hit shading 'phong'"):
        colours(closest_hit="phong")
