"""Arrays that are not as the inputs state them are refused before anything reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.build.refit import update_blas, update_tlas
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag
from rtviewer.errors import InvalidInputError

TRIANGLE = np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0]])
ORDER = np.array([[0, 1, 2]], np.uint32)
TABLE = InstanceInputs(
    np.eye(3, 4, dtype=np.float32)[None],
    np.zeros(1, np.uint32),
    np.full(1, 255, np.uint8),
    np.zeros(1, np.uint32),
    np.zeros(1, np.uint8),
    np.zeros(1, np.uint64),
)


def triangles(vertices: Any = TRIANGLE, indices: Any = None, transform: Any = None) -> TrianglesGeometry:
    return TrianglesGeometry(vertices, indices, transform)


WRONG: dict[str, tuple[str, Any]] = {
    "flat vertices": ("VF-1", triangles(TRIANGLE.ravel())),
    "one triangle a row": ("VF-1", triangles(np.zeros((3, 9), np.float32))),
    "four coordinates": ("VF-1", triangles(np.zeros((9, 4), np.float32))),
    "a list": ("VF-1", triangles(TRIANGLE.tolist())),
    "no vertices": ("VF-1", triangles(None)),
    "float64": ("VF-1", triangles(TRIANGLE.astype(np.float64))),
    "big endian": ("VF-1", triangles(TRIANGLE.astype(">f4"))),
    "complex": ("VF-1", triangles(TRIANGLE.astype(complex))),
    "flat indices": ("IX-1", triangles(indices=ORDER.ravel())),
    "indices of quads": ("IX-1", triangles(indices=np.zeros((5, 4), np.uint32))),
    "fractional indices": ("IX-1", triangles(indices=ORDER + 0.7)),
    "4 x 4 transform": ("GEO-7", triangles(transform=np.eye(4, dtype=np.float32))),
    "3 x 3 transform": ("GEO-7", triangles(transform=np.eye(3, dtype=np.float32))),
    "flat boxes": ("LAY-1", AabbsGeometry(np.zeros(60, np.float32))),
    "boxes as corners": ("LAY-1", AabbsGeometry(np.zeros((10, 2, 3), np.float32))),
    "float64 boxes": ("LAY-1", AabbsGeometry(np.zeros((10, 6)))),
    "negative index": ("GEO-4", triangles(indices=np.array([[0, 1, -1]]))),
    "index past 32 bits": ("GEO-4", triangles(indices=np.array([[0, 1, (1 << 32) + 2]]))),
    "no geometry": ("BLD-2", TRIANGLE),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_geometry_arrays_are_refused_with_their_rule(name: str) -> None:
    rule, geometry = WRONG[name]
    with pytest.raises(InvalidInputError) as caught:
        build_blas(BlasInputs((geometry,)))
    assert caught.value.rules == (rule,)
    assert "pGeometryDescs[0]" in str(caught.value)


def test_every_wrong_array_is_named_at_once() -> None:
    bad = triangles(TRIANGLE.ravel(), ORDER.ravel(), np.eye(4, dtype=np.float32))
    with pytest.raises(InvalidInputError) as caught:
        build_blas(BlasInputs((triangles(), bad)))
    assert caught.value.rules == ("GEO-7", "IX-1", "VF-1")
    assert "pGeometryDescs[1].Triangles.VertexBuffer = (9,) float32" in str(caught.value)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint64, np.int32, np.int64])
def test_indices_of_any_integer_type_give_the_same_structure(dtype: Any) -> None:
    expected = build_blas(BlasInputs((triangles(indices=ORDER),)))
    assert np.array_equal(build_blas(BlasInputs((triangles(indices=ORDER.astype(dtype)),))).data, expected.data)


def test_an_update_refuses_them_too() -> None:
    source = build_blas(BlasInputs((triangles(),)), BuildFlag.ALLOW_UPDATE)
    with pytest.raises(InvalidInputError) as caught:
        update_blas(source, BlasInputs((triangles(np.zeros((3, 9), np.float32)),)), BuildFlag.ALLOW_UPDATE)
    assert caught.value.rules == ("VF-1",)
    top = build_tlas(TABLE, BuildFlag.ALLOW_UPDATE, blases={})
    with pytest.raises(InvalidInputError) as caught:
        update_tlas(top, replace(TABLE, blas_address=[0]), BuildFlag.ALLOW_UPDATE, blases={})  # type: ignore[arg-type]
    assert caught.value.rules == ("ERR-5",)


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("INST-1", {"transform": np.eye(4, dtype=np.float32)[None]}),
        ("INST-1", {"transform": TABLE.transform.astype(np.float64)}),
        ("ERR-5", {"mask": np.full(2, 255, np.uint8)}),
        ("ERR-5", {"instance_id": np.zeros(1)}),
        ("LIM-4", {"mask": np.array([256])}),
        ("LIM-4", {"instance_id": np.array([-1])}),
        ("LIM-4", {"contribution": np.array([1 << 24])}),
    ],
)
def test_wrong_instance_columns_are_refused(rule: str, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        build_tlas(replace(TABLE, **change), blases={})
    assert caught.value.rules == (rule,)
