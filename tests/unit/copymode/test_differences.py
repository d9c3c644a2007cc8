"""Decodes beside the inputs they should show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rtviewer.copymode.decode import decode
from rtviewer.copymode.differences import differences
from rtviewer.copymode.read_decode import DecodedBlas, DecodedTlas, read_decode
from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag
from tests.unit.copymode.samples import BOTTOM_NAMES, BOXES, MIXED, PLACEMENTS, samples
from tests.worlds import boxes, instance_table, mesh, translate, triangles

TRIANGLE = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0]], np.float32)
OTHER = TRIANGLE + np.float32(3)
NAN_TRIANGLE = np.full((3, 3), np.nan, np.float32)


def shown(*geometries: object) -> DecodedBlas:
    return DecodedBlas(np.empty(0), tuple(geometries), 0, True)  # type: ignore[arg-type]


def found(shown_: object, given: object, **more: float) -> list[str]:
    return differences(shown(shown_), BlasInputs((given,)), **more)  # type: ignore[arg-type]


@pytest.mark.rule("VIS-17", "VIS-2", "VIS-3", "VIS-4", "VIS-6", "VIS-7", "VIS-8")
@pytest.mark.parametrize("name", BOTTOM_NAMES)
def test_our_own_decodes_show_their_inputs(name: str) -> None:
    sample = samples()[name]
    assert sample.inputs is not None
    assert differences(read_decode(decode(sample.structure)), sample.inputs) == []


@pytest.mark.rule("VIS-17", "VIS-2", "VIS-6")
def test_instances() -> None:
    read = read_decode(decode(samples()["instances"].structure))
    assert isinstance(read, DecodedTlas)
    table = instance_table(PLACEMENTS)
    assert differences(read, table) == []
    changed = instance_table([replace(PLACEMENTS[0], instance_id=8), *PLACEMENTS[1:]])
    assert differences(read, changed) == ["instance 0: instance_id is 7, was 8 [VIS-2]"]
    more = instance_table([*PLACEMENTS, PLACEMENTS[1]])
    assert differences(read, more) == []  # an inactive one may be missing at the end
    assert differences(read, instance_table([*PLACEMENTS, PLACEMENTS[0]])) == ["instance 5 is missing [VIS-6]"]
    assert "5 instances" in differences(read, instance_table(PLACEMENTS[:4]))[0]
    assert differences(read, MIXED) == ["the decode is of a top level, the inputs are geometries"]
    assert differences(shown(), table) == ["the decode is of a bottom level, the inputs are instances"]
    many = instance_table([replace(p, mask=9) for p in PLACEMENTS * 4])
    wide = DecodedTlas(np.concatenate([read.descs] * 4))
    assert differences(wide, many)[-1] == "mask differs in 20 instances"


@pytest.mark.rule("VIS-17", "VIS-5", "VIS-16")
def test_triangles() -> None:
    two = triangles(TRIANGLE, OTHER)
    assert found(two, two) == []
    assert found(two, triangles(TRIANGLE)) == ["geometry 0: 2 triangles, the inputs have 1 [VIS-5]"]
    assert found(triangles(TRIANGLE), two) == ["geometry 0: primitive 1: missing [VIS-6]"]
    assert found(triangles(TRIANGLE, NAN_TRIANGLE), two) == [
        "geometry 0: primitive 1: NaN in the decode, active in the inputs [VIS-6]"
    ]
    assert found(two, triangles(TRIANGLE, NAN_TRIANGLE)) == [
        "geometry 0: primitive 1: shown, but inactive in the inputs [VIS-6]"
    ]
    flat = triangles(TRIANGLE, np.zeros((3, 3)))
    for fits in (triangles(TRIANGLE), triangles(TRIANGLE, NAN_TRIANGLE), flat):
        assert found(fits, flat) == []
    assert "begin elsewhere" in found(triangles(TRIANGLE[[1, 2, 0]], OTHER), two)[0]
    assert "winding is reversed" in found(triangles(TRIANGLE[[0, 2, 1]], OTHER), two)[0]
    off = found(triangles(TRIANGLE, OTHER + np.float32(0.25)), two)
    assert off == ["geometry 0: primitive 1: a corner is off by 0.25 [VIS-4]"]
    assert found(triangles(TRIANGLE, OTHER + np.float32(0.25)), two, tolerance=0.3) == []
    assert "flags are 1, were 0" in found(triangles(TRIANGLE, flags=GeometryFlag.OPAQUE), triangles(TRIANGLE))[0]
    assert "type is" in found(boxes([0, 0, 0, 1, 1, 1]), triangles(TRIANGLE))[0]
    assert "1 geometries in the decode, 0" in differences(shown(two), BlasInputs())[0]


@pytest.mark.rule("VIS-4")
def test_a_folded_transform_may_round_otherwise() -> None:
    given = triangles(TRIANGLE + np.float32(0.1), transform=translate(1.7, 0, 0))
    moved = TRIANGLE + np.float32(0.1) + np.array([1.7, 0, 0], np.float32)
    assert found(triangles(moved), given) == []
    nudged = moved.copy()
    nudged[0, 0] = np.nextafter(nudged[0, 0], np.float32(9))
    assert found(triangles(nudged), given) == []
    assert found(triangles(nudged), triangles(moved)) != []
    assert found(triangles(moved + np.float32(1e-3)), given) != []
    indexed = mesh(type("M", (), {"vertices": TRIANGLE, "indices": np.array([[0, 1, 2]], np.uint32)})())
    assert isinstance(indexed, TrianglesGeometry)
    assert found(triangles(TRIANGLE), indexed) == []


@pytest.mark.rule("VIS-7", "VIS-17", "DEG-4")
def test_boxes() -> None:
    given = boxes([0, 0, 0, 2, 2, 2], [5, 5, 5, 4, 6, 6])
    assert found(boxes([-1, -1, -1, 9, 9, 9]), given) == []
    halves = boxes([0, 0, 0, 1, 2, 2], [1, 0, 0, 2, 2, 2], [4.5, 5.5, 5.5, 4.5, 5.5, 5.5])
    assert found(halves, given) == []
    gap = boxes([0, 0, 0, 0.9, 2, 2], [1, 0, 0, 2, 2, 2], [4.5, 5.5, 5.5, 4.5, 5.5, 5.5])
    assert "active box 0 is not inside" in found(gap, given)[0]
    assert "active box 1 is not inside" in found(boxes([0, 0, 0, 2, 2, 2]), given)[0]
    assert "no active boxes, the inputs have 2" in found(boxes(), given)[0]
    assert "the inputs have none" in found(given, boxes([np.nan, 0, 0, 0, 0, 0]))[0]
    assert found(boxes([np.nan, 0, 0, 0, 0, 0]), boxes()) == []
    assert differences(read_decode(decode(samples()["boxes"].structure)), BOXES) == []
