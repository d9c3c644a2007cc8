from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import trimesh

from rtviewer.dxr.descs import TrianglesGeometry
from rtviewer.errors import FileFormatError
from rtviewer.io.stl import RECORD, read_stl
from rtviewer.scene.scene import Scene

CORNERS = np.arange(18, dtype=np.float32).reshape(2, 3, 3) * 0.5


def binary(corners: np.ndarray = CORNERS, header: bytes = b"made here") -> bytes:
    records = np.zeros(len(corners), RECORD)
    records["corners"] = corners
    return header.ljust(80, b"\0") + np.uint32(len(corners)).tobytes() + records.tobytes()


def ascii_text(name: str = "two") -> str:
    facets = ""
    for triangle in CORNERS:
        lines = "".join(f"      vertex {x} {y} {z}\n" for x, y, z in triangle)
        facets += f"  facet normal 0 0 0\n    outer loop\n{lines}    endloop\n  endfacet\n"
    return f"solid {name}\n{facets}endsolid {name}\n"


def read(data: bytes) -> Scene:
    return read_stl(Path("mesh.stl"), data)


def mesh(scene: Scene) -> TrianglesGeometry:
    geometry = scene.blases[0].geometries[0]
    assert isinstance(geometry, TrianglesGeometry)
    return geometry


@pytest.mark.parametrize(
    "data",
    [
        binary(),
        binary(header=b"solid but binary"),
        binary(header=b" solid \xff\xfe facet"),
        ascii_text().encode(),
        ascii_text().replace("\n", "\r\n").encode(),
        ascii_text().upper().encode(),
        ascii_text("月球 vertex 9 9 9").encode(),
    ],
)
def test_triangles_stay_in_order_and_unmerged(data: bytes) -> None:
    geometry = mesh(read(data))
    assert geometry.indices is None
    np.testing.assert_array_equal(geometry.vertices, CORNERS.reshape(-1, 3))


def test_like_trimesh() -> None:
    for data in (binary(), ascii_text().encode()):
        other = trimesh.load_mesh(io.BytesIO(data), file_type="stl", process=False)
        np.testing.assert_array_equal(mesh(read(data)).vertices, other.triangles.reshape(-1, 3).astype(np.float32))


def test_several_solids_follow_one_another() -> None:
    scene = read((ascii_text("a") + ascii_text("b")).encode())
    assert mesh(scene).primitive_count == 4


def test_bytes_behind_the_last_triangle_are_a_warning_also_behind_the_word_solid() -> None:
    scene = read(binary(header=b"solid x") + b"\0")
    assert mesh(scene).primitive_count == 2
    assert "1 byte(s)" in scene.warnings[0]


def test_an_empty_solid() -> None:
    assert mesh(read(b"solid nothing\nendsolid nothing\n")).primitive_count == 0


def test_a_count_beyond_the_file_is_refused_before_memory_is_taken() -> None:
    data = bytearray(binary())
    data[80:84] = b"\xff\xff\xff\xff"
    with pytest.raises(FileFormatError, match="4294967295 triangles") as caught:
        read(bytes(data))
    assert caught.value.offset == 80


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("vertex 0.0 0.5 1.0", "vertex 0.0 0.5", "three numbers"),
        ("vertex 0.0 0.5 1.0", "vertex 0.0 0.5 one", "not a number"),
        ("      vertex 0.0 0.5 1.0\n", "", "three vertices"),
    ],
)
def test_a_wrong_facet_is_named(old: str, new: str, said: str) -> None:
    with pytest.raises(FileFormatError, match=said):
        read(ascii_text().replace(old, new).encode())


@pytest.mark.rule("INA-1", "INA-3")
def test_nan_outside_x_makes_one_triangle_inactive() -> None:
    corners = CORNERS.copy()
    corners[1, 2, 2] = np.nan
    scene = read(binary(corners))
    assert np.isnan(mesh(scene).vertices[:, 0]).tolist() == [False] * 5 + [True]
    assert "triangle 1" in scene.warnings[0]
