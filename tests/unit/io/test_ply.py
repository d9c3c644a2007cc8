from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

from rtviewer.dxr.descs import TrianglesGeometry
from rtviewer.errors import FileFormatError
from rtviewer.io.ply import read_ply
from rtviewer.scene.scene import Scene

POINTS = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (2, 2, 2)]
MIXED = [(0, 1, 2, 3), (0, 1, 4), (0, 1, 2, 3, 4), (2, 1, 0)]
FANS = [[0, 1, 2], [0, 2, 3], [0, 1, 4], [0, 1, 2], [0, 2, 3], [0, 3, 4], [2, 1, 0]]


def read(data: bytes) -> Scene:
    return read_ply(Path("mesh.ply"), data)


def mesh(scene: Scene) -> TrianglesGeometry:
    geometry = scene.blases[0].geometries[0]
    assert isinstance(geometry, TrianglesGeometry)
    return geometry


def ply(
    kind: str, faces: list[Any], *, end: str = "\n", points: list[Any] | None = None, extra_property: bool = False
) -> bytes:
    """A PLY of these faces, in one of the three forms, optionally with a property between the coordinates."""
    points = POINTS if points is None else points
    extra = ["property uchar colour"] if extra_property else []
    header = ["ply", f"format {kind} 1.0", "comment made here", f"element vertex {len(points)}", "property float x"]
    header += [*extra, "property float y", "property double z", f"element face {len(faces)}"]
    header += ["property list uchar int vertex_indices", "end_header", ""]
    head = end.join(header).encode()
    if kind == "ascii":
        rows = [f"{x} {'7 ' if extra_property else ''}{y} {z}" for x, y, z in points]
        rows += [f"{len(face)} {' '.join(map(str, face))}" for face in faces]
        return head + (end.join(rows) + end).encode()
    order = "<" if "little" in kind else ">"
    colour = "B" if extra_property else ""
    body = b"".join(struct.pack(f"{order}f{colour}fd", x, *([7] if extra_property else []), y, z) for x, y, z in points)
    return head + body + b"".join(struct.pack(f"{order}B{len(face)}i", len(face), *face) for face in faces)


KINDS = ["ascii", "binary_little_endian", "binary_big_endian"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("extra_property", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_mixed_polygons_become_fans_in_file_order(kind: str, extra_property: bool, end: str) -> None:
    geometry = mesh(read(ply(kind, MIXED, end=end, extra_property=extra_property)))
    assert geometry.indices is not None
    assert geometry.indices.tolist() == FANS
    np.testing.assert_array_equal(geometry.vertices, np.array(POINTS, np.float32))


@pytest.mark.parametrize("kind", KINDS)
def test_equal_rows_read_in_bulk_like_trimesh(kind: str) -> None:
    data = ply(kind, [(0, 1, 2), (2, 3, 4), (4, 3, 0)])
    geometry, other = mesh(read(data)), trimesh.load_mesh(io.BytesIO(data), file_type="ply", process=False)
    np.testing.assert_array_equal(geometry.indices, other.faces)
    np.testing.assert_array_equal(geometry.vertices, other.vertices.astype(np.float32))


def test_faces_before_vertices_and_other_elements_between() -> None:
    data = (
        b"ply\nformat ascii 1.0\nelement face 1\nproperty list uchar int vertex_index\nelement note 2\n"
        b"property list uchar float values\nelement vertex 3\nproperty float z\nproperty float y\nproperty float x\n"
        b"end_header\n3 0 1 2\n2 0.5 0.5\n0\n3 2 1\n6 5 4\n9 8 7\n"
    )
    np.testing.assert_array_equal(mesh(read(data)).vertices, [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert mesh(read(data)).primitive_count == 1


def test_more_values_on_a_line_than_declared_are_stepped_over() -> None:
    data = ply("ascii", [(0, 1, 2)]).replace(b"3 0 1 2\n", b"3 0 1 2 9 1 1 1 1\n")
    assert mesh(read(data)).primitive_count == 1


def test_a_point_cloud_has_no_triangles() -> None:
    scene = read(ply("ascii", []))
    assert mesh(scene).primitive_count == 0
    assert "no triangles" in scene.warnings[0]


@pytest.mark.parametrize("kind", KINDS)
def test_out_of_range_and_short_faces_are_dropped_with_their_number(kind: str) -> None:
    scene = read(ply(kind, [(0, 1), (0, 1, 5), (-1, 1, 2), (1, 2, 3)]))
    assert mesh(scene).indices is not None
    assert np.asarray(mesh(scene).indices).tolist() == [[1, 2, 3]]
    assert "face 0" in scene.warnings[0]
    assert "face 1, face 2" in scene.warnings[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.rule("INA-1", "INA-3")
def test_nan_outside_x_makes_the_triangle_inactive(kind: str) -> None:
    points = [(0, float("nan"), 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)]
    scene = read(ply(kind, [(1, 2, 3), (0, 1, 2)], points=points))
    assert np.isnan(mesh(scene).vertices[0, 0])
    assert "face 1 (y of vertex 0 is nan)" in scene.warnings[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"element vertex 5", b"element vertex 4000000000", "do not fit"),
        (b"element face 4", b"element face 4000000000", "do not fit"),
        (b"property float y", b"property float w", "no property y"),
        (b"property float y", b"property quad y", "property not understood"),
        (b"format ", b"form ", "header line not understood"),
        (b"end_header", b"the_end", "not understood"),
        (b"element face", b"element tristrips", "triangle strips"),
        (b"element vertex", b"element corner", "no element 'vertex'"),
        (b"ply\n", b"PLY\n", "not a PLY file"),
        (b"list uchar int", b"list uchar half", "property not understood"),
        (b"element face 4", b"element vertex 4", "declared twice"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_header_is_named(kind: str, old: bytes, new: bytes, said: str) -> None:
    with pytest.raises(FileFormatError, match=said):
        read(ply(kind, MIXED).replace(old, new, 1))


def test_a_list_that_claims_more_than_the_file_holds() -> None:
    data = ply("binary_little_endian", [(0, 1, 2)]).replace(b"list uchar int", b"list uint int ")
    body = data.index(b"end_header\n") + 11 + 5 * 16
    data = data[:body] + struct.pack("<I3i", 0xFFFFFFF0, 0, 1, 2)
    with pytest.raises(FileFormatError, match="longer than the rest") as caught:
        read(data)
    assert caught.value.offset == body


def test_a_number_that_is_none() -> None:
    with pytest.raises(FileFormatError, match="not a number"):
        read(ply("ascii", MIXED).replace(b"2 2 2", b"2 two 2"))
