from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rtviewer.dxr.descs import AabbsGeometry, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag, InstanceFlag
from rtviewer.dxr.profile import Profile, Tier
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.errors import FileFormatError, RtviewerError, SceneError
from rtviewer.io.registry import load_scene
from rtviewer.io.scene_toml import read_scene_toml
from rtviewer.scene import generators
from rtviewer.scene.scene import Scene

TRIANGLE = '[[blas]]\nname = "t"\n[[blas.geometry]]\nvertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]\n'
BOXES = '[[blas]]\nname = "b"\n[[blas.geometry]]\ntype = "aabbs"\naabbs = [[-1, -1, -1, 1, 1, 1]]\n'
FILE = Path("folder/scene.toml")


def read(text: str, profile: Profile | None = None) -> Scene:
    return read_scene_toml(FILE, text.encode(), profile or Profile())


def triangles(scene: Scene, blas: int = 0, number: int = 0) -> TrianglesGeometry:
    geometry = scene.blases[blas].geometries[number]
    assert isinstance(geometry, TrianglesGeometry)
    return geometry


def test_defaults() -> None:
    scene = read(TRIANGLE + BOXES + '[[instance]]\nblas = "t"\n[[instance]]\nblas = "b"\n[[instance]]\nblas = ""\n')
    assert scene.name == "folder"
    assert [(i.blas, i.instance_id, i.mask, i.contribution, i.flags) for i in scene.instances] == [
        (0, 0, 0xFF, 0, InstanceFlag.NONE),
        (1, 0, 0xFF, 1, InstanceFlag.NONE),
        (-1, 0, 0xFF, 0, InstanceFlag.NONE),
    ]
    np.testing.assert_array_equal(scene.instances[0].transform, np.eye(3, 4))
    assert triangles(scene).flags == GeometryFlag.NONE
    assert triangles(scene).indices is None
    assert triangles(scene).transform is None
    assert (scene.any_hit, scene.intersection) == (AnyHitProgram.ACCEPT, IntersectionProgram.SPHERE)
    assert scene.cameras == ()
    assert scene.warnings == ()


def test_every_field_arrives() -> None:
    scene = read(
        'name = "n"\nany_hit = "ignore-odd-primitives"\nintersection = "BOX"\n'
        '[[blas]]\nname = "t"\n[[blas.geometry]]\nname = "g"\nflags = ["OPAQUE", "NO_DUPLICATE_ANYHIT_INVOCATION"]\n'
        "vertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]\nindices = [[2, 1, 0]]\ntransform = { translate = [0, 0, 1] }\n"
        '[[instance]]\nname = "i"\nblas = "t"\nid = 0xFFFFFF\nmask = 0x80\ncontribution = 5\n'
        'flags = ["FORCE_OPAQUE", "triangle-cull-disable"]\n'
        "transform = { matrix = [[1, 2, 3, 4], [0, 1, 0, 0], [0, 0, 1, 0]] }\n"
        '[[camera]]\nname = "c"\nposition = [1, 2, 3]\nlook_at = [0, 0, 0]\nup = [0, 0, 1]\northographic_height = 4\n'
    )
    geometry, instance, camera = triangles(scene), scene.instances[0], scene.cameras[0]
    assert geometry.flags == GeometryFlag.OPAQUE | GeometryFlag.NO_DUPLICATE_ANYHIT_INVOCATION
    assert geometry.indices is not None
    assert geometry.indices.tolist() == [[2, 1, 0]]
    assert geometry.transform is not None
    assert geometry.transform.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]]
    assert (instance.name, instance.instance_id, instance.mask, instance.contribution) == ("i", 0xFFFFFF, 0x80, 5)
    assert instance.flags == InstanceFlag.FORCE_OPAQUE | InstanceFlag.TRIANGLE_CULL_DISABLE
    assert instance.transform.tolist() == [[1, 2, 3, 4], [0, 1, 0, 0], [0, 0, 1, 0]]
    assert (camera.name, camera.position, camera.up, camera.orthographic_height) == ("c", (1, 2, 3), (0, 0, 1), 4)
    assert (scene.any_hit, scene.intersection) == (AnyHitProgram.IGNORE_ODD_PRIMITIVES, IntersectionProgram.BOX)


def test_scale_then_rotations_in_order_then_translate() -> None:
    scene = read(
        TRIANGLE + '[[instance]]\nblas = "t"\ntransform = { scale = [2, 3, 4], translate = [10, 20, 30], rotate = ['
        "{ axis = [0, 0, 9], degrees = 90 }, { axis = [1, 0, 0], degrees = 90 }] }\n"
    )
    matrix = scene.instances[0].transform
    np.testing.assert_allclose(matrix @ [1, 0, 0, 1], [10, 20, 32], atol=1e-5)  # x to 2x, to 2y, to 2z
    np.testing.assert_allclose(matrix @ [0, 1, 0, 1], [7, 20, 30], atol=1e-5)
    np.testing.assert_allclose(matrix @ [0, 0, 1, 1], [10, 16, 30], atol=1e-5)


def test_generators_and_reverse() -> None:
    scene = read(
        '[[blas]]\nname = "a"\n[[blas.geometry]]\ngenerator = { kind = "box", high = [2, 3, 4] }\nreverse = true\n'
        '[[blas]]\nname = "b"\n[[blas.geometry]]\ntype = "aabbs"\n'
        'generator = { kind = "random_boxes", count = 5, seed = 3 }\n'
    )
    np.testing.assert_array_equal(triangles(scene).indices, generators.box().indices[:, [0, 2, 1]])
    assert triangles(scene).vertices.max(axis=0).tolist() == [2, 3, 4]
    boxes = scene.blases[1].geometries[0]
    assert isinstance(boxes, AabbsGeometry)
    np.testing.assert_array_equal(boxes.aabbs, generators.random_boxes(5, seed=3))


@pytest.mark.parametrize("reverse", [False, True])
def test_mesh_files_are_found_beside_the_scene(tmp_path: Path, reverse: bool) -> None:
    folder = tmp_path / "a b#ä"
    folder.mkdir()
    (folder / "mesh.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 1 2 9\n")
    geometry = f'[[blas.geometry]]\nfile = "mesh.obj"\nflags = ["OPAQUE"]\nreverse = {str(reverse).lower()}\n'
    (folder / "scene.toml").write_text(f'[[blas]]\nname = "m"\n{geometry}{geometry}')
    scene = load_scene(folder)
    indices = triangles(scene, 0, 1).indices
    assert indices is not None
    assert indices.tolist() == [[0, 2, 1] if reverse else [0, 1, 2]]
    assert len(scene.warnings) == 1
    assert "line 5" in scene.warnings[0]


def test_patterns_count_ids_up_and_keep_the_instances_first() -> None:
    scene = read(
        TRIANGLE + '[[instance_pattern]]\nkind = "grid"\nblas = "t"\nid = 7\ncounts = [2, 1, 2]\nspacing = [4, 1, 2]\n'
        'centre = [0, 1, 0]\ntransform = { scale = 3 }\n[[instance]]\nblas = "t"\nname = "first"\n'
        '[[instance_pattern]]\nkind = "scatter"\nblas = "t"\ncount = 3\nscale = [2, 2]\nextent = [4, 0, 4]\n'
        '[[instance_pattern]]\nkind = "sphereflake"\nblas = "t"\ndepth = 1\n'
    )
    assert [i.instance_id for i in scene.instances] == [0, 7, 8, 9, 10, 0, 1, 2, *range(10)]
    assert scene.instances[0].name == "first"
    assert [i.transform[:, 3].tolist() for i in scene.instances[1:5]] == [
        [-2, 1, -1],
        [2, 1, -1],
        [-2, 1, 1],
        [2, 1, 1],
    ]
    assert scene.instances[1].transform[0, 0] == 3
    for instance in scene.instances[5:8]:
        np.testing.assert_allclose(np.linalg.det(instance.transform[:, :3]), 8, rtol=1e-5)
        assert np.abs(instance.transform[:, 3]).max() <= 2


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("colour = 3\n", "colour", "no such key"),
        (TRIANGLE + "wrong = 1\n", "blas[0].geometry[0].wrong", "no such key"),
        ('any_hit = "EXPLODE"\n', "any_hit", "ACCEPT, IGNORE"),
        (TRIANGLE + TRIANGLE, "", "two [[blas]] are called 't'"),
        ('[[blas]]\nname = ""\n', "blas[0].name", "at least 1"),
        ("[[blas]]\n", "blas[0].name", "required"),
        ('[[blas]]\nname = "x"\n[[blas.geometry]]\n', "blas[0].geometry[0]", "exactly one of"),
        (TRIANGLE + 'file = "x.obj"\n', "blas[0].geometry[0]", "found file and vertices"),
        (TRIANGLE + 'type = "aabbs"\n', "blas[0].geometry[0]", "gives triangles"),
        (TRIANGLE + 'flags = ["SHINY"]\n', "blas[0].geometry[0].flags", "SHINY"),
        (TRIANGLE + "flags = 1\n", "blas[0].geometry[0].flags", "names"),
        (TRIANGLE + 'flags = ["0x4"]\n', "blas[0].geometry[0].flags", "[GF-1]"),
        (TRIANGLE + "indices = [[0, 1, 3]]\n", "blas[0].geometry[0].indices[0]", "[GEO-4] there are 3 vertices"),
        (TRIANGLE + "indices = [[0, 1, -1]]\n", "blas[0].geometry[0].indices[0]", "[GEO-4]"),
        (TRIANGLE + "indices = [[0, 1]]\n", "blas[0].geometry[0].indices[0]", ""),
        (
            TRIANGLE + BOXES.replace('[[blas]]\nname = "b"\n', ""),
            "blas[0]",
            "[BLD-2]",
        ),
        (BOXES + "transform = { scale = 2 }\n", "blas[0].geometry[0]", "[GEO-10]"),
        (TRIANGLE.replace("vertices", "#") + 'file = "x.glb"\n', "blas[0].geometry[0].file", ".obj, .ply, .stl"),
        (TRIANGLE.replace("vertices", "#") + 'file = "x.obj"\n', "blas[0].geometry[0].file", "no such file"),
        (
            TRIANGLE.replace("vertices", "#") + 'generator = { kind = "teapot" }\n',
            "blas[0].geometry[0].generator",
            "teapot",
        ),
        (
            TRIANGLE.replace("vertices", "#") + 'generator = { kind = "sphere", subdivisions = 12 }\n',
            "blas[0].geometry[0].generator.sphere.subdivisions",
            "9",
        ),
        ("[[instance]]\n", "instance[0].blas", "required"),
        ('[[instance]]\nblas = "u"\n', "instance[0].blas", "no [[blas]] called 'u'"),
        ('[[instance]]\nblas = ""\nmask = 256\n', "instance[0].mask", "[LIM-4]"),
        ('[[instance]]\nblas = ""\nmask = -1\n', "instance[0].mask", "[LIM-4]"),
        ('[[instance]]\nblas = ""\nid = 0x1000000\n', "instance[0].id", "[LIM-4]"),
        ('[[instance]]\nblas = ""\ncontribution = 0x1000000\n', "instance[0].contribution", "[LIM-4]"),
        ('[[instance]]\nblas = ""\nflags = ["FORCE_OPAQUE", "FORCE_NON_OPAQUE"]\n', "instance[0].flags", "[IF-2]"),
        ('[[instance]]\nblas = ""\nflags = ["DISABLE_OMMS"]\n', "instance[0].flags", "[IF-1]"),
        ('[[instance]]\nblas = ""\nflags = ["0x40"]\n', "instance[0].flags", "[IF-1]"),
        (TRIANGLE + '[[instance]]\nblas = "t"\ntransform = { scale = inf }\n', "instance[0].transform", "[INST-6]"),
        (TRIANGLE + '[[instance]]\nblas = "t"\ntransform = { scale = 1e300 }\n', "instance[0].transform", "[INST-6]"),
        (
            TRIANGLE + '[[instance]]\nblas = "t"\ntransform = { rotate = { axis = [0, 0, 0], degrees = 1 } }\n',
            "instance[0].transform.rotate",
            "instance[0].transform.rotate: axis must not be (0, 0, 0)",
        ),
        (
            TRIANGLE + '[[instance]]\nblas = "t"\ntransform = { rotate = [{ axis = [0, 0, 0], degrees = 1 }] }\n',
            "instance[0].transform.rotate[0]",
            "instance[0].transform.rotate[0]: axis must not be (0, 0, 0)",
        ),
        (
            TRIANGLE + '[[instance]]\nblas = "t"\ntransform = { scale = "big" }\n',
            "instance[0].transform.scale",
            "instance[0].transform.scale: Input should be a valid number",
        ),
        (
            '[[instance]]\nblas = ""\ntransform = { scale = 1, matrix = [[1,0,0,0],[0,1,0,0],[0,0,1,0]] }\n',
            "instance[0].transform",
            "cannot be combined",
        ),
        (
            TRIANGLE + '[[instance_pattern]]\nkind = "grid"\nblas = "t"\ncounts = [4096, 4096, 4096]\n',
            "instance_pattern[0]",
            "68719476736 in all",
        ),
        (
            TRIANGLE + '[[instance_pattern]]\nkind = "grid"\nblas = "t"\ncounts = [2, 1, 1]\nid = 0xFFFFFF\n',
            "instance_pattern[0].id",
            "[LIM-4]",
        ),
        (
            TRIANGLE + 2 * '[[instance_pattern]]\nkind = "scatter"\nblas = "t"\ncount = 600000\n',
            "instance_pattern",
            "[LIM-3]",
        ),
        ("[[camera]]\nposition = [0, 0, 0]\nlook_at = [0, 0, 0]\n", "camera[0]", "differ"),
        ("[[camera]]\nposition = [0, 0, nan]\nlook_at = [0, 0, 0]\n", "camera[0].position", "finite"),
        (
            "[[camera]]\nposition = [0, 0, 1]\nlook_at = [0, 0, 0]\nvertical_fov = 180\n",
            "camera[0].vertical_fov",
            "180",
        ),
    ],
)
def test_what_is_illegal_names_file_key_and_rule(text: str, key: str, said: str) -> None:
    with pytest.raises(SceneError) as caught:
        read(text)
    message = str(caught.value)
    assert message.startswith(str(FILE))
    assert caught.value.key.startswith(key)
    assert said in message
    assert "\n" not in message


def test_the_profile_decides_which_instance_flags_are_known() -> None:
    text = '[[instance]]\nblas = ""\nflags = ["DISABLE_OMMS"]\n'
    assert read(text, Profile(Tier.TIER_1_2)).instances[0].flags == InstanceFlag.DISABLE_OMMS
    with pytest.raises(RtviewerError, match="IF-1"):
        read(text)


@pytest.mark.rule("INA-1", "INA-2", "INA-3", "INA-5", "GEO-3", "INST-5")
def test_what_is_legal_but_odd_is_kept_with_a_warning() -> None:
    scene = read(
        '[[blas]]\nname = "t"\n[[blas.geometry]]\nvertices = [[0, nan, 0], [1, 0, 0], [0, 1, 0], [5, 5, 5]]\n'
        "transform = { scale = nan }\n"
        + BOXES.replace("-1, -1, -1", "-1, nan, -1")
        + '[[instance]]\nblas = "t"\ntransform = { scale = [1, 0, 1] }\n[[instance]]\nblas = ""\n'
        "transform = { translate = [inf, 0, 0] }\n"
    )
    boxes = scene.blases[1].geometries[0]
    assert isinstance(boxes, AabbsGeometry)
    assert np.isnan(triangles(scene).vertices[0, 0])
    assert np.isnan(boxes.aabbs[0, 0])
    for rule in ("GEO-3", "INA-1", "INA-2", "INST-5"):
        assert any(f"[{rule}]" in warning for warning in scene.warnings), rule
    assert len(scene.instances) == 2


@pytest.mark.parametrize("data", [b"\xff\xfe", b"name = ", b"name = 1\nname = 2\n", b"a = " + b"[" * 50_000])
def test_what_is_no_toml(data: bytes) -> None:
    with pytest.raises(FileFormatError):
        read_scene_toml(FILE, data)
