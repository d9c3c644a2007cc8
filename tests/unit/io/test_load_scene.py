from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest

from rtviewer.dxr.descs import TrianglesGeometry
from rtviewer.dxr.flags import InstanceFlag
from rtviewer.errors import FileFormatError
from rtviewer.io import registry
from rtviewer.io.registry import FORMATS, known_suffixes, load_scene, load_source, scene_folders
from rtviewer.scene import generators
from rtviewer.scene.mesh import Mesh
from rtviewer.scene.scene import Scene

OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
NAMES = ["plain", "two words", "a#b", "100%25", "月球 #1", "ümläut"]


@pytest.mark.parametrize("name", NAMES)
def test_paths_that_are_not_plain_ascii(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    file = folder / f"{name}.OBJ"
    file.write_text(f"mtllib {name}.mtl\n{OBJ}", "utf-8")
    scene = load_scene(file)
    assert scene.blases[0].primitive_count == 1
    assert scene.source == str(file)
    with pytest.raises(FileFormatError) as caught:
        load_scene(folder / f"{name} missing.obj")
    assert f"{name} missing.obj" in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("encoded", [True, False])
def test_buffer_uris_percent_encoded_or_plain(tmp_path: Path, name: str, encoded: bool) -> None:
    from urllib.parse import quote

    data = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], "f4").tobytes()
    (tmp_path / f"{name}.bin").write_bytes(data)
    document = {
        "asset": {"version": "2.0"},
        "buffers": [{"byteLength": 36, "uri": quote(f"{name}.bin") if encoded else f"{name}.bin"}],
        "bufferViews": [{"buffer": 0, "byteLength": 36}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "nodes": [{"mesh": 0}],
        "scenes": [{"nodes": [0]}],
    }
    file = tmp_path / f"{name}.gltf"
    file.write_text(json.dumps(document), "utf-8")
    assert load_scene(file).blases[0].primitive_count == 1


def test_a_folder_means_its_scene_file(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"scene\.toml"):
        load_scene(tmp_path)
    (tmp_path / "scene.toml").write_text('name = "here"\n')
    assert load_scene(tmp_path).name == "here"
    assert load_scene(str(tmp_path)).name == "here"


def test_shipped_scenes_open_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_scene("scenes/cornell").name == "Cornell box"
    assert load_scene("scenes/cornell/scene.toml").name == "Cornell box"
    with pytest.raises(FileFormatError, match="no such file"):
        load_scene("scenes/nowhere")
    with pytest.raises(FileFormatError):
        load_scene("scenes/../pyproject.toml")
    own = tmp_path / "scenes" / "cornell"
    own.mkdir(parents=True)
    (own / "scene.toml").write_text('name = "mine"\n')
    assert load_scene("scenes/cornell").name == "mine"


def test_shipped_scenes_open_from_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "rtviewer"
    shutil.copytree(scene_folders()[-1], package / "_scenes")
    monkeypatch.setattr(registry, "PACKAGE", package)
    monkeypatch.chdir(tmp_path)
    scene = load_scene("scenes/cornell")
    assert scene.source.startswith(str(package / "_scenes"))


@pytest.mark.parametrize("suffix", [".rra", ".wpix", ".gfxr"])
def test_private_captures_are_refused_with_advice(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"capture{suffix}"
    file.write_bytes(b"RRA")
    with pytest.raises(FileFormatError, match=r"not read; export the meshes as glTF"):
        load_scene(file)


@pytest.mark.parametrize("name", ["a.txt", "noending", "a.obj.gz"])
def test_unknown_kinds_list_the_known_ones(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(OBJ)
    with pytest.raises(FileFormatError, match=r"\.gltf \.glb \.obj"):
        load_scene(tmp_path / name)


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder.obj"
    folder.mkdir()
    with pytest.raises(FileFormatError):
        load_scene(folder)
    os.mkfifo(tmp_path / "pipe.obj")
    with pytest.raises(FileFormatError, match="not a regular file"):
        load_scene(tmp_path / "pipe.obj")
    with socket.socket(socket.AF_UNIX) as listener:
        monkey = tmp_path / "s.ply"
        listener.bind(str(monkey))
        with pytest.raises(FileFormatError, match="not a regular file"):
            load_scene(monkey)
    with pytest.raises(FileFormatError):
        load_scene("a\0b.obj")
    with pytest.raises(FileFormatError):
        load_scene("x" * 5000 + ".obj")
    (tmp_path / "loop.obj").symlink_to(tmp_path / "loop.obj")
    with pytest.raises(FileFormatError):
        load_scene(tmp_path / "loop.obj")


def test_a_pipe_as_gltf_buffer_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "data.bin")
    document = {
        "asset": {"version": "2.0"},
        "buffers": [{"byteLength": 36, "uri": "data.bin"}],
        "bufferViews": [{"buffer": 0, "byteLength": 36}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
    }
    (tmp_path / "a.gltf").write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match="not a regular file"):
        load_scene(tmp_path / "a.gltf")


def test_too_large_is_refused_before_reading(tmp_path: Path) -> None:
    file = tmp_path / "large.stl"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)  # sparse: takes no room
    with pytest.raises(FileFormatError, match="too large"):
        load_scene(file)


def test_what_a_reader_trips_over_leaves_as_file_format_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def trip(*_: object) -> Scene:
        raise ZeroDivisionError("by\nzero")

    broken = registry.Format("broken", (".obj",), trip)
    monkeypatch.setattr(registry, "FORMATS", (broken,))
    (tmp_path / "a.obj").write_text(OBJ)
    with pytest.raises(FileFormatError, match="ZeroDivisionError: by zero") as caught:
        load_scene(tmp_path / "a.obj")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def _written(folder: Path, kind: str, mesh: Mesh) -> Path:
    """A mesh in a file of one format."""
    import trimesh

    file = folder / f"mesh{kind}"
    trimesh.Trimesh(mesh.vertices, mesh.indices, process=False).export(file)
    return file


@pytest.mark.parametrize("kind", [".obj", ".ply", ".stl", ".glb"])
@pytest.mark.rule("FACE-1")
def test_outward_counter_clockwise_meshes_are_front_without_a_flag(tmp_path: Path, kind: str) -> None:
    scene = load_scene(_written(tmp_path, kind, generators.icosphere(1)))
    geometry = scene.blases[0].geometries[0]
    assert isinstance(geometry, TrianglesGeometry)
    corners = geometry.vertices.astype(np.float64)
    corners = corners[geometry.indices] if geometry.indices is not None else corners.reshape(-1, 3, 3)
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inward = -corners.mean(axis=1)  # a ray from outside towards the middle
    assert len(corners) == 80
    assert ((normal * inward).sum(axis=1) < 0).all()  # front by FACE-1
    assert all(not i.flags & InstanceFlag.TRIANGLE_FRONT_COUNTERCLOCKWISE for i in scene.instances)


@pytest.mark.parametrize("kind", [".obj", ".ply", ".stl", ".glb"])
def test_an_independent_writer_is_read_back_triangle_by_triangle(tmp_path: Path, kind: str) -> None:
    mesh = generators.soup(500, seed=4)
    geometry = load_scene(_written(tmp_path, kind, mesh)).blases[0].geometries[0]
    assert isinstance(geometry, TrianglesGeometry)
    vertices = geometry.vertices if geometry.indices is None else geometry.vertices[geometry.indices]
    np.testing.assert_allclose(vertices.reshape(-1, 3, 3), mesh.vertices[mesh.indices], atol=1e-6)


def test_suffixes_are_unique() -> None:
    suffixes = [suffix for kind in FORMATS for suffix in kind.suffixes]
    assert len(suffixes) == len(set(suffixes))
    assert all(suffix == suffix.lower() for suffix in suffixes)


def test_messages_say_only_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "a.xyz"
    path.write_bytes(b"?")
    with pytest.raises(FileFormatError) as caught:
        load_source(path)
    assert all(suffix in str(caught.value) for suffix in known_suffixes())
    assert str(FileFormatError("f", "wrong", expected=3)) == "f: wrong: expected 3"
    assert str(FileFormatError("f", "wrong", found=0)) == "f: wrong: found 0"
    assert str(FileFormatError("f", "wrong", expected=3, found=0)) == "f: wrong: expected 3, found 0"
    assert str(FileFormatError("f", "wrong")) == "f: wrong"
