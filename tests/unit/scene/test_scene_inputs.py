from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import InstanceFlag
from rtviewer.errors import InvalidInputError
from rtviewer.scene.inputs import instance_inputs, is_singular, scene_statistics
from rtviewer.scene.scene import Instance, Scene


def triangles(*points: tuple[float, float, float], **more: object) -> TrianglesGeometry:
    return TrianglesGeometry(np.array(points, np.float32), **more)  # type: ignore[arg-type]


def placed(*rows: list[float]) -> np.ndarray:
    return np.array(rows, np.float32)


ONE = triangles((0, 0, 0), (1, 0, 0), (0, 1, 0))
MIRROR = placed([-2, 0, 0, 5], [0, 2, 0, 0], [0, 0, 2, 0])


def test_instance_inputs_is_one_row_per_instance() -> None:
    scene = Scene(
        "s",
        (BlasInputs((ONE,)), BlasInputs()),
        (
            Instance(1, MIRROR, 0xFFFFFF, 0x80, 0xABCDEF, InstanceFlag.FORCE_OPAQUE),
            Instance(-1),
            Instance(0),
        ),
    )
    table = instance_inputs(scene, [256, 1 << 40])
    assert len(table) == 3
    assert table.blas_address.tolist() == [1 << 40, 0, 256]
    assert table.instance_id.tolist() == [0xFFFFFF, 0, 0]
    assert table.contribution.tolist() == [0xABCDEF, 0, 0]
    assert table.mask.tolist() == [0x80, 0xFF, 0xFF]
    assert table.flags.tolist() == [4, 0, 0]
    assert table.transform.shape == (3, 3, 4)
    np.testing.assert_array_equal(table.transform[0], MIRROR)
    kinds = [a.dtype.name for a in (table.transform, table.instance_id, table.mask, table.contribution, table.flags)]
    assert kinds == ["float32", "uint32", "uint8", "uint32", "uint8"]
    assert table.blas_address.dtype == np.uint64
    assert table.transform.flags.c_contiguous
    with pytest.raises(ValueError, match="2 structures"):
        instance_inputs(scene, [256])


def test_instance_inputs_of_nothing() -> None:
    table = instance_inputs(Scene("empty"), [])
    assert len(table) == 0
    assert table.transform.shape == (0, 3, 4)
    assert instance_inputs(Scene("null", (), (Instance(-1),)), []).blas_address.tolist() == [0]


def test_statistics_count_structures_once_and_instances_each() -> None:
    boxes = AabbsGeometry(np.array([[0, 0, 0, 1, 1, 1]] * 3, np.float32))
    scene = Scene(
        "s",
        (BlasInputs((ONE, ONE)), BlasInputs((boxes,)), BlasInputs((ONE,))),
        (Instance(0), Instance(0, MIRROR), Instance(1), Instance(-1)),
        warnings=("careful",),
    )
    found = scene_statistics(scene).as_json()
    assert list(found) == [
        "triangles_stored", "triangles_drawn", "procedurals", "geometries", "instances", "instances_mirrored", "bounds",
        "warnings",
    ]  # fmt: skip
    assert json.loads(json.dumps(found)) == {
        "triangles_stored": 3,
        "triangles_drawn": 4,
        "procedurals": 3,
        "geometries": 4,
        "instances": 4,
        "instances_mirrored": 1,
        "bounds": [[0, 0, 0], [5, 2, 1]],
        "warnings": ["careful"],
    }


def test_statistics_of_nothing() -> None:
    found = scene_statistics(Scene("empty"))
    assert found.bounds is None
    assert found.triangles_stored == found.instances == found.instances_mirrored == 0


def test_bounds_are_those_of_referenced_finite_positions() -> None:
    geometry = triangles(
        (0, 0, 0), (1, 0, 0), (0, 1, 0), (9, 9, 9), (np.nan, -7, 0), (np.inf, -8, 0),
        indices=np.array([[0, 1, 2], [0, 1, 4], [0, 1, 5]], np.uint32),
    )  # fmt: skip
    scene = Scene("s", (BlasInputs((geometry,)), BlasInputs((ONE,))), (Instance(0),))
    assert scene_statistics(scene).bounds == ((0, 0, 0), (1, 1, 0))


def test_bounds_apply_the_geometry_transform_and_skip_bad_instances() -> None:
    geometry = triangles(
        (0, 0, 0), (1, 0, 0), (0, 1, 0), (8, 8, 8), transform=placed([3, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 4])
    )
    bad = MIRROR.copy()
    bad[0, 0] = np.nan
    scene = Scene("s", (BlasInputs((geometry,)),), (Instance(0), Instance(0, bad)))
    assert scene_statistics(scene).bounds == ((0, 0, 4), (3, 1, 4))


def test_bounds_of_many_instances_equal_those_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    geometry = TrianglesGeometry(random.random((30, 3)).astype(np.float32))
    transforms = random.random((40, 3, 4)).astype(np.float32)
    points = geometry.vertices.astype(np.float64)
    world = np.concatenate([points @ m[:, :3].T.astype(np.float64) + m[:, 3] for m in transforms])
    monkeypatch.setattr("rtviewer.scene.bounds.BATCH", 300)
    found = Scene("s", (BlasInputs((geometry,)),), tuple(Instance(0, m) for m in transforms)).bounds()
    np.testing.assert_allclose(found, [world.min(axis=0), world.max(axis=0)], rtol=1e-12)


@pytest.mark.rule("INST-5")
def test_singular_transforms() -> None:
    flat = placed([1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0])
    assert is_singular(np.stack([flat, MIRROR])).tolist() == [True, False]


@pytest.mark.rule("LIM-4", "ERR-5")
@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        ("ERR-5", {"blas": -2}),
        ("ERR-5", {"blas": 5}),
        ("ERR-5", {"blas": 0.5}),
        ("LIM-4", {"mask": 256}),
        ("LIM-4", {"instance_id": -1}),
        ("LIM-4", {"instance_id": 1 << 24}),
        ("LIM-4", {"contribution": 1 << 70}),
        ("LIM-4", {"flags": 256}),
        ("INST-1", {"transform": np.eye(4, dtype=np.float32)}),
        ("INST-1", {"transform": [[1, 0, 0, 0], [0, 1]]}),
    ],
)
def test_what_a_row_cannot_hold_is_refused_with_its_place(rule: str, fields: dict[str, Any]) -> None:
    scene = Scene("s", (BlasInputs((ONE,)),), (Instance(0), Instance(**{"blas": 0, **fields})))
    with pytest.raises(InvalidInputError) as caught:
        instance_inputs(scene, [256])
    assert caught.value.rules == (rule,)
    assert f"instances[1].{next(iter(fields))}" in str(caught.value)
