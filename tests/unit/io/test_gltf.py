from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtviewer.dxr.descs import TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag, InstanceFlag
from rtviewer.errors import FileFormatError
from rtviewer.io.gltf import read_gltf
from rtviewer.scene.inputs import scene_statistics
from rtviewer.scene.scene import Scene

SQUARE = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], np.float32)
COMPONENTS = {"float32": 5126, "uint8": 5121, "int8": 5120, "uint16": 5123, "int16": 5122, "uint32": 5125}
TYPES = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}


class Maker:
    """Writes a document piece by piece."""

    def __init__(self) -> None:
        self.data = b""
        self.json: dict[str, Any] = {"asset": {"version": "2.0"}, "accessors": [], "bufferViews": [], "meshes": []}
        self.json |= {"nodes": [], "scenes": [{"nodes": []}], "scene": 0}

    def view(self, data: bytes, **more: Any) -> int:
        self.data += b"\0" * (-len(self.data) % 4)
        self.json["bufferViews"].append({"buffer": 0, "byteOffset": len(self.data), "byteLength": len(data), **more})
        self.data += data
        return len(self.json["bufferViews"]) - 1

    def accessor(self, values: Any, **more: Any) -> int:
        values = np.asarray(values)
        width = 1 if values.ndim == 1 else values.shape[1]
        self.json["accessors"].append(
            {
                "bufferView": self.view(values.tobytes()),
                "componentType": COMPONENTS[values.dtype.name],
                "count": len(values),
                "type": TYPES[width],
                **more,
            }
        )
        return len(self.json["accessors"]) - 1

    def mesh(self, *primitives: dict[str, Any]) -> int:
        self.json["meshes"].append({"primitives": list(primitives)})
        return len(self.json["meshes"]) - 1

    def square(self, **more: Any) -> dict[str, Any]:
        position = self.accessor(SQUARE)
        return {
            "attributes": {"POSITION": position},
            "indices": self.accessor(np.array([0, 1, 2, 0, 2, 3], "u2")),
            **more,
        }

    def node(self, root: bool = True, **more: Any) -> int:
        self.json["nodes"].append(more)
        index = len(self.json["nodes"]) - 1
        if root:
            self.json["scenes"][0]["nodes"].append(index)
        return index

    def gltf(self) -> bytes:
        document = dict(self.json)
        if self.data:
            uri = "data:application/octet-stream;base64," + base64.b64encode(self.data).decode()
            document["buffers"] = [{"byteLength": len(self.data), "uri": uri}]
        return json.dumps(document).encode()

    def glb(self) -> bytes:
        document = json.dumps({**self.json, "buffers": [{"byteLength": len(self.data)}]}).encode()
        document += b" " * (-len(document) % 4)
        binary = self.data + b"\0" * (-len(self.data) % 4)
        chunks = struct.pack("<I4s", len(document), b"JSON") + document
        chunks += struct.pack("<I4s", len(binary), b"BIN\0") + binary
        return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks

    def read(self) -> Scene:
        return read(self.gltf())


def read(data: bytes) -> Scene:
    return read_gltf(Path("file.gltf"), data)


def geometry(scene: Scene, blas: int = 0, number: int = 0) -> TrianglesGeometry:
    found = scene.blases[blas].geometries[number]
    assert isinstance(found, TrianglesGeometry)
    return found


def placed_square() -> Maker:
    made = Maker()
    made.node(mesh=made.mesh(made.square()))
    return made


def test_gltf_and_glb_give_the_same() -> None:
    made = placed_square()
    for scene in (read(made.gltf()), read(made.glb())):
        np.testing.assert_array_equal(geometry(scene).vertices, SQUARE)
        np.testing.assert_array_equal(geometry(scene).indices, [[0, 1, 2], [0, 2, 3]])
        assert geometry(scene).flags == GeometryFlag.OPAQUE
        assert scene.warnings == ()


def test_meshes_primitives_nodes_become_structures_geometries_instances() -> None:
    made = Maker()
    two = made.mesh(made.square(), made.square(mode=1))
    one = made.mesh(made.square())
    made.mesh(made.square())  # used by no node: stored, not placed
    child = made.node(root=False, mesh=one, name="child", translation=[0, 0, 5])
    made.node(mesh=two, name="parent", children=[child], scale=[2, 2, 2], translation=[1, 0, 0])
    made.node(mesh=one)
    scene = made.read()
    assert [len(blas.geometries) for blas in scene.blases] == [2, 1, 1]
    assert [(i.blas, i.name, i.instance_id) for i in scene.instances] == [
        (0, "parent", 1),
        (1, "child", 0),
        (1, "node 2", 2),
    ]
    assert scene.instances[1].transform.tolist() == [[2, 0, 0, 1], [0, 2, 0, 0], [0, 0, 2, 10]]
    assert geometry(scene, 0, 1).primitive_count == 0
    assert "lines: no triangles" in scene.warnings[0]
    statistics = scene_statistics(scene)
    assert (statistics.triangles_stored, statistics.triangles_drawn) == (6, 6)
    assert (statistics.geometries, statistics.instances) == (4, 3)


def test_matrices_are_stored_by_columns_and_multiplied_in_double_precision() -> None:
    made = Maker()
    mesh = made.mesh(made.square())
    inner = made.node(root=False, mesh=mesh, translation=[-1e8, 0, 0.25])
    made.node(matrix=[0, 1, 0, 0, -1, 0, 0, 0, 0, 0, 1, 0, 1, 1e8, 3, 1], children=[inner])
    assert made.read().instances[0].transform.tolist() == [[0, -1, 0, 1], [1, 0, 0, 0], [0, 0, 1, 3.25]]


def test_rotation_is_a_quaternion_x_y_z_w() -> None:
    made = Maker()
    half = np.sqrt(0.5)
    made.node(mesh=made.mesh(made.square()), rotation=[0, 0, half, half], scale=[2, 3, 4])
    expected = [[0, -3, 0, 0], [2, 0, 0, 0], [0, 0, 4, 0]]
    np.testing.assert_allclose(made.read().instances[0].transform, expected, atol=1e-6)


@pytest.mark.rule("FACE-3")
def test_a_mirrored_node_stays_mirrored_and_gets_no_flag() -> None:
    made = Maker()
    made.node(mesh=made.mesh(made.square()), scale=[-1, 1, 1])
    scene = made.read()
    assert scene.instances[0].flags == InstanceFlag.NONE
    assert scene.instances[0].transform[0, 0] == -1
    assert scene_statistics(scene).instances_mirrored == 1
    np.testing.assert_array_equal(geometry(scene).indices, [[0, 1, 2], [0, 2, 3]])


@pytest.mark.parametrize(
    ("mode", "numbers", "expected"),
    [
        (4, [0, 1, 2, 3, 2, 1, 0, 1], [[0, 1, 2], [3, 2, 1]]),
        (5, [0, 1, 2, 3], [[0, 1, 2], [1, 3, 2]]),
        (6, [0, 1, 2, 3], [[0, 1, 2], [0, 2, 3]]),
        (5, [0, 1], []),
    ],
)
@pytest.mark.parametrize("kind", ["u1", "u2", "u4"])
def test_lists_strips_and_fans(mode: int, numbers: list[int], expected: list[list[int]], kind: str) -> None:
    made = Maker()
    made.mesh(
        {
            "attributes": {"POSITION": made.accessor(SQUARE)},
            "indices": made.accessor(np.array(numbers, kind)),
            "mode": mode,
        }
    )
    indices = geometry(made.read()).indices
    assert indices is not None
    assert indices.tolist() == expected


def test_without_indices() -> None:
    made = Maker()
    position = made.accessor(SQUARE)
    made.mesh({"attributes": {"POSITION": position}}, {"attributes": {"POSITION": position}, "mode": 5})
    scene = made.read()
    assert geometry(scene).indices is None
    assert geometry(scene).primitive_count == 1
    np.testing.assert_array_equal(geometry(scene, 0, 1).indices, [[0, 1, 2], [1, 3, 2]])
    assert "1 vertices after the last triangle are ignored [GEO-3]" in scene.warnings[0]


@pytest.mark.parametrize(("mode", "opaque"), [("OPAQUE", True), ("MASK", False), ("BLEND", False), (None, True)])
def test_alpha_mode_decides_opacity(mode: str | None, opaque: bool) -> None:
    made = Maker()
    made.json["materials"] = [{} if mode is None else {"alphaMode": mode}]
    made.mesh(made.square(material=0))
    assert bool(geometry(made.read()).flags & GeometryFlag.OPAQUE) == opaque


@pytest.mark.parametrize(
    ("materials", "flags", "warned"),
    [
        ([0, 0], InstanceFlag.TRIANGLE_CULL_DISABLE, False),
        ([0, 1], InstanceFlag.NONE, True),
        ([1, 1], InstanceFlag.NONE, False),
    ],
)
def test_double_sided_on_all_primitives_disables_culling(
    materials: list[int], flags: InstanceFlag, warned: bool
) -> None:
    made = Maker()
    made.json["materials"] = [{"doubleSided": True}, {}]
    made.node(mesh=made.mesh(*(made.square(material=material) for material in materials)))
    scene = made.read()
    assert scene.instances[0].flags == flags
    assert any("doubleSided" in warning for warning in scene.warnings) == warned


@pytest.mark.parametrize(
    ("values", "normalized", "expected"),
    [
        (np.array([[127, -128, -127]], "i1"), True, [1, -1, -1]),
        (np.array([[255, 0, 51]], "u1"), True, [1, 0, 0.2]),
        (np.array([[32767, -32768, 0]], "i2"), True, [1, -1, 0]),
        (np.array([[65535, 0, 13107]], "u2"), True, [1, 0, 0.2]),
        (np.array([[300, -300, 7]], "i2"), False, [300, -300, 7]),
    ],
)
def test_quantized_positions(values: np.ndarray, normalized: bool, expected: list[float]) -> None:
    made = Maker()
    made.json["extensionsRequired"] = ["KHR_mesh_quantization"]
    made.mesh({"attributes": {"POSITION": made.accessor(np.repeat(values, 3, axis=0), normalized=normalized)}})
    np.testing.assert_array_equal(geometry(made.read()).vertices[0], np.array(expected, np.float32))


def test_strided_views() -> None:
    made = Maker()
    rows = np.zeros((4, 6), np.float32)
    rows[:, 1:4] = SQUARE
    view = made.view(rows.tobytes(), byteStride=24)
    accessor = {"bufferView": view, "byteOffset": 4, "componentType": 5126, "count": 4, "type": "VEC3"}
    made.json["accessors"].append(accessor)
    made.mesh({"attributes": {"POSITION": 0}, "mode": 5})
    np.testing.assert_array_equal(geometry(made.read()).vertices, SQUARE)
    accessor["byteOffset"] = 16
    with pytest.raises(
        FileFormatError,
        match=r"accessors.0: more elements than its buffer view holds: expected at most 96 bytes, found 100",
    ):
        made.read()


@pytest.mark.parametrize("with_base", [True, False])
def test_sparse_accessors(with_base: bool) -> None:
    made = Maker()
    index = made.accessor(SQUARE)
    sparse = {
        "count": 2,
        "indices": {"bufferView": made.view(np.array([1, 3], "u1").tobytes()), "componentType": 5121},
        "values": {"bufferView": made.view(np.array([[5, 6, 7], [8, 9, 10]], "f4").tobytes())},
    }
    made.json["accessors"][index]["sparse"] = sparse
    if not with_base:
        del made.json["accessors"][index]["bufferView"]
    made.mesh({"attributes": {"POSITION": index}, "mode": 5})
    expected = SQUARE.copy() if with_base else np.zeros_like(SQUARE)
    expected[1], expected[3] = [5, 6, 7], [8, 9, 10]
    np.testing.assert_array_equal(geometry(made.read()).vertices, expected)
    sparse["count"] = 5
    with pytest.raises(FileFormatError, match="sparse"):
        made.read()


def test_gpu_instancing_multiplies_one_node() -> None:
    made = Maker()
    half = np.float32(np.sqrt(0.5))
    attributes = {
        "TRANSLATION": made.accessor(np.array([[1, 0, 0], [0, 2, 0]], "f4")),
        "ROTATION": made.accessor(np.array([[0, 0, 0, 1], [0, 0, half, half]], "f4")),
    }
    extension = {"EXT_mesh_gpu_instancing": {"attributes": attributes}}
    made.json["extensionsRequired"] = ["EXT_mesh_gpu_instancing"]
    made.node(mesh=made.mesh(made.square()), scale=[2, 2, 2], extensions=extension)
    scene = made.read()
    assert len(scene.blases) == 1
    np.testing.assert_allclose(scene.instances[0].transform, [[2, 0, 0, 2], [0, 2, 0, 0], [0, 0, 2, 0]], atol=1e-6)
    np.testing.assert_allclose(scene.instances[1].transform, [[0, -2, 0, 0], [2, 0, 0, 4], [0, 0, 2, 0]], atol=1e-6)
    attributes["SCALE"] = made.accessor(np.ones((3, 3), "f4"))
    with pytest.raises(FileFormatError, match="attributes do not fit"):
        made.read()


def test_cameras_look_along_minus_z_of_their_node() -> None:
    made = Maker()
    made.json["cameras"] = [
        {"type": "perspective", "perspective": {"yfov": np.pi / 3, "znear": 0.1}, "name": "eye"},
        {"type": "orthographic", "orthographic": {"xmag": 3, "ymag": 2, "znear": 0, "zfar": 9}},
        {"type": "perspective", "perspective": {"yfov": 0, "znear": 0.1}},
    ]
    half = np.sqrt(0.5)
    made.node(camera=0, translation=[1, 2, 3])
    made.node(camera=1, rotation=[0, half, 0, half], name="side")
    made.node(camera=2)
    scene = made.read()
    eye, side = scene.cameras
    assert (eye.name, eye.position, eye.look_at, eye.up) == ("eye", (1, 2, 3), (1, 2, 2), (0, 1, 0))
    assert eye.vertical_fov == pytest.approx(60)
    assert (side.name, side.orthographic_height) == ("side", 4)
    np.testing.assert_allclose(side.look_at, (-1, 0, 0), atol=1e-6)
    assert "unusable numbers" in scene.warnings[0]


@pytest.mark.rule("GEO-4")
def test_out_of_range_triangles_are_dropped_with_their_number() -> None:
    made = Maker()
    made.mesh(
        {
            "attributes": {"POSITION": made.accessor(SQUARE)},
            "indices": made.accessor(np.array([0, 1, 4, 1, 2, 3], "u4")),
        }
    )
    scene = made.read()
    np.testing.assert_array_equal(geometry(scene).indices, [[1, 2, 3]])
    assert "triangle 0" in scene.warnings[0]


@pytest.mark.rule("INST-5", "INST-6")
def test_matrices_that_cannot_be_inverted_or_are_not_finite() -> None:
    made = Maker()
    mesh = made.mesh(made.square())
    made.node(mesh=mesh, matrix=[1] * 16)
    made.node(mesh=mesh, translation=[1e309, 0, 0])
    made.node(mesh=mesh)
    scene = made.read()
    assert [instance.blas for instance in scene.instances] == [0, -1, 0]
    assert "singular" in scene.warnings[0]
    assert "not finite" in scene.warnings[1]


def test_nodes_reached_twice_are_left_out() -> None:
    made = Maker()
    mesh = made.mesh(made.square())
    first = made.node(root=False, mesh=mesh)
    second = made.node(root=False, mesh=mesh, children=[first, first])
    made.json["nodes"][first]["children"] = [second]
    made.node(children=[second])
    scene = made.read()
    assert len(scene.instances) == 2
    assert sum("second time" in warning for warning in scene.warnings) == 2


def test_a_deep_chain_of_nodes() -> None:
    made = Maker()
    last = made.node(root=False, mesh=made.mesh(made.square()), translation=[1, 0, 0])
    for _ in range(20_000):
        last = made.node(root=False, children=[last], translation=[1, 0, 0])
    made.node(children=[last])
    assert made.read().instances[0].transform[0, 3] == 20_001


def test_base_pose_of_skins_and_morph_targets_is_a_warning() -> None:
    made = Maker()
    made.json["skins"] = [{"joints": [0]}]
    made.node(mesh=made.mesh(made.square(targets=[{"POSITION": 0}])), skin=0)
    scene = made.read()
    assert len(scene.instances) == 1
    assert "morph targets" in scene.warnings[0]
    assert "skins" in scene.warnings[1]


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("KHR_draco_mesh_compression", True),
        ("EXT_meshopt_compression", True),
        ("VENDOR_secret_geometry", True),
        ("KHR_texture_basisu", False),
        ("KHR_materials_unlit", False),
    ],
)
def test_required_extensions(name: str, refused: bool) -> None:
    made = placed_square()
    made.json["extensionsRequired"] = [name]
    if not refused:
        assert len(made.read().instances) == 1
        return
    with pytest.raises(FileFormatError, match=name):
        made.read()


def test_optional_compression_uses_the_plain_copy_or_is_refused() -> None:
    made = placed_square()
    primitive = made.json["meshes"][0]["primitives"][0]
    primitive["extensions"] = {"KHR_draco_mesh_compression": {"bufferView": 0, "attributes": {}}}
    assert made.read().blases[0].primitive_count == 2
    del made.json["accessors"][primitive["attributes"]["POSITION"]]["bufferView"]
    with pytest.raises(FileFormatError, match="KHR_draco_mesh_compression"):
        made.read()


def _set(target: Any, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for part in parents:
        target = target[int(part)] if part.isdigit() else target[part]
    target[int(last) if last.isdigit() else last] = value


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("accessors.0.count", 5, "more elements than its buffer view holds"),
        ("accessors.0.count", -1, "accessors.0.count"),
        ("accessors.0.count", 1 << 60, "accessors.0.count"),
        ("accessors.0.componentType", 5130, "unknown component type"),
        ("accessors.0.componentType", 5125, "positions must be float"),
        ("accessors.1.componentType", 5122, "indices must be unsigned"),
        ("accessors.0.type", "VEC2", "wrong type"),
        ("accessors.0.bufferView", 9, "refers to bufferView 9, there are 2"),
        ("bufferViews.0.buffer", 3, "refers to buffer 3"),
        ("bufferViews.0.byteLength", 4000, "runs past the end of its buffer"),
        ("bufferViews.0.byteStride", 0, "bufferViews.0.byteStride"),
        ("meshes.0.primitives.0.indices", 7, "refers to accessor 7"),
        ("meshes.0.primitives.0.material", 0, "refers to material 0"),
        ("meshes.0.primitives", "none", "meshes.0.primitives"),
        ("nodes.0.mesh", 4, "refers to mesh 4"),
        ("nodes.0.camera", 0, "refers to camera 0"),
        ("nodes.0.children", [5], "refers to node 5"),
        ("nodes.0.matrix", [1, 0], "nodes.0.matrix"),
        ("scene", 2, "refers to scene 2"),
        ("asset.version", "1.0", "only glTF 2"),
    ],
)
def test_broken_references_and_sizes_are_named(path: str, value: Any, said: str) -> None:
    made = placed_square()
    _set(made.json, path, value)
    with pytest.raises(FileFormatError, match=said):
        made.read()


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("https://example.org/a.bin", "only files beside"),
        ("/etc/passwd", "only files beside"),
        ("missing.bin", "no such file"),
        ("data:text/plain,abc", "only base64"),
        ("data:;base64,****", "not base64"),
        ("data:;base64,AAAA", "cut short"),
        (None, "neither a URI nor"),
    ],
)
def test_buffers_that_cannot_be_had(uri: str | None, said: str) -> None:
    document = json.loads(placed_square().gltf())
    document["buffers"][0]["uri"] = uri
    with pytest.raises(FileFormatError, match=said):
        read(json.dumps(document).encode())


def test_an_accessor_without_data_is_zeros_but_not_without_limit() -> None:
    made = Maker()
    made.json["accessors"].append({"componentType": 5126, "count": 3, "type": "VEC3"})
    made.mesh({"attributes": {"POSITION": 0}})
    assert not geometry(made.read()).vertices.any()
    made.json["accessors"][0]["count"] = 1 << 40
    with pytest.raises(FileFormatError, match=r"accessors\.0\.count"):
        made.read()


@pytest.mark.parametrize("share_positions", [True, False])
def test_many_uses_of_one_buffer_cannot_exhaust_memory(monkeypatch: pytest.MonkeyPatch, share_positions: bool) -> None:
    monkeypatch.setattr("rtviewer.io.gltf_data.MAX_DECODED_BYTES", 1 << 20)
    made = Maker()
    indices = made.accessor(np.zeros(300, "u1"))
    position = made.accessor(np.zeros((1000, 3), "f4"))
    made.json["accessors"] += [made.json["accessors"][position]] * 500
    uses = [0] * 500 if share_positions else range(500)
    made.mesh(*({"attributes": {"POSITION": position + use}, "indices": indices} for use in uses))
    with pytest.raises(FileFormatError, match="together are too large"):
        made.read()


def test_primitives_that_share_an_accessor_share_the_array() -> None:
    made = Maker()
    position = {"attributes": {"POSITION": made.accessor(SQUARE)}, "indices": made.accessor(np.array([0, 1, 2], "u1"))}
    made.mesh(position, position)
    scene = made.read()
    assert geometry(scene, 0, 0).vertices is geometry(scene, 0, 1).vertices


@pytest.mark.parametrize("text", [b"{}", b"[]", b"null", b"{", b"\xff\xfe", b'{"asset": 3}', b"[" * 100_000])
def test_what_is_no_gltf(text: bytes) -> None:
    with pytest.raises(FileFormatError):
        read(text)
