from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rtviewer.dxr.descs import TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag, InstanceFlag
from rtviewer.errors import FileFormatError
from rtviewer.io.obj import read_obj
from rtviewer.scene.scene import Scene

SQUARE = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n"


def read(text: str | bytes) -> Scene:
    return read_obj(Path("mesh.obj"), text if isinstance(text, bytes) else text.encode())


def mesh(scene: Scene) -> TrianglesGeometry:
    geometry = scene.blases[0].geometries[0]
    assert isinstance(geometry, TrianglesGeometry)
    return geometry


def triangles(scene: Scene) -> list[list[int]]:
    indices = mesh(scene).indices
    assert indices is not None
    return indices.tolist()


def test_one_opaque_geometry_placed_once_without_flags() -> None:
    scene = read(SQUARE + "f 1 2 3\n")
    geometry = mesh(scene)
    assert geometry.flags == GeometryFlag.OPAQUE
    assert geometry.vertices.dtype == np.float32
    assert geometry.indices is not None
    assert geometry.indices.dtype == np.uint32
    assert [(i.blas, i.flags, i.mask) for i in scene.instances] == [(0, InstanceFlag.NONE, 0xFF)]
    assert scene.warnings == ()


def test_polygons_become_fans_in_file_order() -> None:
    scene = read(SQUARE + "v 2 2 2\nf 1 2 3 4\nf 1 2 5\nf 5 4 3 2 1\n")
    assert triangles(scene) == [[0, 1, 2], [0, 2, 3], [0, 1, 4], [4, 3, 2], [4, 2, 1], [4, 1, 0]]


def test_negative_numbers_count_back_from_the_vertices_read_so_far() -> None:
    scene = read("v 0 0 0\nv 1 0 0\nv 1 1 0\nf -3 -2 -1\nv 5 5 5\nf -4/9/9 -3//2 -1\n")
    assert triangles(scene) == [[0, 1, 2], [0, 1, 3]]


def test_a_triangle_with_a_vertex_that_is_not_there_is_dropped_by_line() -> None:
    scene = read(SQUARE + "f 1 9 2 3\nf 0 1 2\nf -9 1 2\nf 1 2 99999999999999999999\nf 2 3 4\n")
    assert triangles(scene) == [[0, 1, 2], [1, 2, 3]]
    assert len(scene.warnings) == 1
    assert "4 triangle(s)" in scene.warnings[0]
    assert "line 5, line 6, line 7 and 1 more" in scene.warnings[0]


def test_a_vertex_may_follow_the_face_that_names_it() -> None:
    assert triangles(read("f 1 2 3\n" + SQUARE)) == [[0, 1, 2]]


def test_faces_with_two_corners_are_dropped_with_their_line() -> None:
    scene = read(SQUARE + "f 1// 2//\nf 1// 2// 3//\n")
    assert triangles(scene) == [[0, 1, 2]]
    assert "line 5" in scene.warnings[0]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_and_a_missing_last_one(end: str) -> None:
    assert triangles(read((SQUARE + "f 1 2 3\nf 2 3 4").replace("\n", end))) == [[0, 1, 2], [1, 2, 3]]


def test_comments_continued_lines_and_tabs() -> None:
    text = "# f 1 2 3\nv\t0 0 0 # first\nv 1 0 \\\n 0\nv 1 1 0\nf 1 \\\n2 \\\n3 # done\n"
    scene = read(text)
    assert triangles(scene) == [[0, 1, 2]]
    np.testing.assert_array_equal(mesh(scene).vertices, [[0, 0, 0], [1, 0, 0], [1, 1, 0]])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks(encoding: str) -> None:
    assert triangles(read((SQUARE + "f 1 2 3\n").encode(encoding))) == [[0, 1, 2]]


def test_names_need_not_be_text() -> None:
    assert triangles(read(b"o \xff\xfe\x80\n" + SQUARE.encode() + b"f 1 2 3\n")) == [[0, 1, 2]]


def test_old_spellings_of_nan_and_infinity() -> None:
    vertices = mesh(read("v 1.#IND -1.#IND 1.#QNAN\nv 1.#INF -1.#INF 0\nv 1.#INF00 nan -inf\n")).vertices
    expected = [[np.nan] * 3, [np.inf, -np.inf, 0], [np.inf, np.nan, -np.inf]]
    np.testing.assert_array_equal(vertices, np.array(expected, np.float32))


@pytest.mark.rule("INA-1", "INA-3")
def test_nan_in_y_or_z_makes_the_triangle_inactive_and_says_where() -> None:
    scene = read("v 0 nan 0\nv 1 0 0\nv 1 1 0\nv 2 2 nan\nv 0 0 0\nf 1 2 3\nf 2 3 5\nf 2 3 4\n")
    vertices = mesh(scene).vertices
    assert np.isnan(vertices[:, 0]).tolist() == [True, False, False, True, False]
    assert triangles(scene) == [[0, 1, 2], [1, 2, 4], [1, 2, 3]]
    assert "line 6 (y of vertex 0 is nan)" in scene.warnings[0]
    assert "line 8 (z of vertex 3 is nan)" in scene.warnings[0]


@pytest.mark.rule("INA-1", "INA-8")
def test_nan_in_x_and_infinities_stay_as_they_are() -> None:
    scene = read("v nan 0 0\nv 1 inf 0\nv 1e39 1 0\nf 1 2 3\n")
    assert np.isinf(mesh(scene).vertices[1, 1])
    assert np.isinf(mesh(scene).vertices[2, 0])
    assert all("INA-3" not in warning for warning in scene.warnings)


@pytest.mark.parametrize(
    ("text", "line"),
    [("v 0 0 0\nv 1 x 0\n", 2), ("v 0 0\n", 1), (SQUARE + "f 1 2 three\n", 5), (SQUARE + "\nf 1.5 2 3\n", 6)],
)
def test_what_is_no_number_names_its_line(text: str, line: int) -> None:
    with pytest.raises(FileFormatError, match=f"mesh.obj: line {line}: "):
        read(text)


@pytest.mark.parametrize("data", [b"hello world\nnothing here\n", b"PK\x03\x04\0\0", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"])
def test_what_is_no_obj_is_refused(data: bytes) -> None:
    with pytest.raises(FileFormatError):
        read(data)


def test_nothing_to_draw_is_a_scene_with_a_warning() -> None:
    scene = read("v 0 0 0\nv 1 0 0\nl 1 2\n")
    assert mesh(scene).primitive_count == 0
    assert scene.bounds() is None
    assert "no triangles" in scene.warnings[0]


def test_unknown_statements_are_named_once() -> None:
    scene = read("sparkle 1\nsparkle 2\n" + SQUARE + "f 1 2 3\n")
    assert triangles(scene) == [[0, 1, 2]]
    assert scene.warnings == ("mesh.obj: unknown statement(s) were stepped over: 'sparkle' in line 1",)
