"""Alpha masks of glTF files: read exactly, traced as written, and never a reason not to load a file."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.io.gltf import read_gltf
from rtviewer.scene.material import Material, Wrap
from rtviewer.scene.scene import Scene
from rtviewer.session.document import build_world
from tests.worlds import asset

SQUARE = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], np.float32)
UV = np.array([[0, 1], [1, 1], [1, 0], [0, 0]], np.float32)
KINDS = {"float32": 5126, "uint8": 5121, "uint16": 5123}


def png(alpha: np.ndarray, mode: str = "RGBA") -> bytes:
    """An image whose colour says nothing about its alpha."""
    rgba = np.zeros((*alpha.shape, 4), np.uint8)
    rgba[..., 3] = alpha
    out = io.BytesIO()
    Image.fromarray(rgba).convert(mode).save(out, "PNG")
    return out.getvalue()


HALF = png(np.array([[255, 0], [255, 0]], np.uint8))
"""Solid where u is below 1/2."""


def document(uv: np.ndarray = UV, image: bytes | None = HALF, **more: Any) -> dict[str, Any]:
    """One square with a MASK material; the picture at u = x, v = 1 - y. ``more`` replaces keys of the material."""
    parts = [SQUARE.tobytes(), np.array([0, 1, 2, 0, 2, 3], np.uint16).tobytes(), uv.tobytes(), image or b""]
    views, data = [], b""
    for part in parts:
        data += b"\0" * (-len(data) % 4)
        views.append({"buffer": 0, "byteOffset": len(data), "byteLength": len(part)})
        data += part
    uri = "data:application/octet-stream;base64," + base64.b64encode(data).decode()
    base = {"baseColorTexture": {"index": 0}} if image is not None else {}
    return {
        "asset": {"version": "2.0"},
        "buffers": [{"uri": uri, "byteLength": len(data)}],
        "bufferViews": views,
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3"},
            {"bufferView": 1, "componentType": 5123, "count": 6, "type": "SCALAR"},
            {"bufferView": 2, "componentType": KINDS[uv.dtype.name], "count": len(uv), "type": "VEC2",
             "normalized": uv.dtype.kind != "f"},
        ],
        "images": [{"bufferView": 3, "mimeType": "image/png"}],
        "samplers": [{"magFilter": 9728}],
        "textures": [{"source": 0, "sampler": 0}],
        "materials": [{"alphaMode": "MASK", "pbrMetallicRoughness": base} | more],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0, "TEXCOORD_0": 2}, "indices": 1, "material": 0}]}],
        "nodes": [{"mesh": 0}],
        "scenes": [{"nodes": [0]}],
        "scene": 0,
    }  # fmt: skip


def read(table: Any, folder: Path = Path()) -> Scene:
    return read_gltf(folder / "file.gltf", json.dumps(table).encode())


def material(scene: Scene) -> Material:
    found = scene.materials[0][0]
    assert found is not None
    return found


def hits(scene: Scene, *points: tuple[float, float]) -> list[bool]:
    """Whether rays at points of the square, from above, hit it under the scene's own program."""
    world = build_world(scene)
    return [world.explain(origin=(x, y, 5), direction=(0, 0, -1)).result.hit for x, y in points]


LEFT, RIGHT = (0.2, 0.4), (0.8, 0.4)


def test_a_mask_is_cut_out_of_the_square() -> None:
    scene = read(document())
    assert scene.warnings == ()
    assert scene.any_hit is AnyHitProgram.ALPHA_MASK
    own = material(scene)
    assert (own.has_mask, own.cutoff, own.factor) == (True, 0.5, 1.0)
    assert own.texture is not None
    assert own.texture.texels.tolist() == [[255, 0], [255, 0]]
    assert own.texture.nearest
    assert own.texcoords is not None
    np.testing.assert_array_equal(own.texcoords, UV[np.array([[0, 1, 2], [0, 2, 3]])])
    assert hits(scene, LEFT, RIGHT) == [True, False]


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_normalized_coordinates_are_divided_out(kind: type) -> None:
    uv = (UV * np.iinfo(kind).max).astype(kind)
    scene = read(document(np.concatenate([uv, uv[:, :0]], 1)))
    np.testing.assert_array_equal(material(scene).texcoords, material(read(document())).texcoords)
    assert hits(scene, LEFT, RIGHT) == [True, False]


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"alphaCutoff": 0.0}, [True, True]),
        ({"alphaCutoff": 1.1}, [False, False]),
        (
            {"pbrMetallicRoughness": {"baseColorFactor": [1, 1, 1, 0.4], "baseColorTexture": {"index": 0}}},
            [False, False],
        ),
        (
            {"pbrMetallicRoughness": {"baseColorFactor": [0, 0, 0, 0.6], "baseColorTexture": {"index": 0}}},
            [True, False],
        ),
        ({"pbrMetallicRoughness": {"baseColorFactor": [1, 1, 1, 0.4]}}, [False, False]),
        ({"pbrMetallicRoughness": {}}, [True, True]),
        ({"alphaMode": "OPAQUE"}, [True, True]),
    ],
)
def test_cutoff_and_factor(changes: dict[str, Any], seen: list[bool]) -> None:
    assert hits(read(document(**changes)), LEFT, RIGHT) == seen


def test_blend_is_masked_only_when_asked_for() -> None:
    scene = read(document(alphaMode="BLEND", alphaCutoff=0.9))
    assert scene.any_hit is AnyHitProgram.ACCEPT
    assert hits(scene, LEFT, RIGHT) == [True, True]
    assert material(scene).cutoff == 0.5
    log = build_world(scene).explain(origin=(*RIGHT, 5), direction=(0, 0, -1), any_hit=AnyHitProgram.ALPHA_MASK)
    assert not log.result.hit


@pytest.mark.parametrize(
    ("wrap", "seen"),
    [(10497, [True, False, True, False]), (33071, [True, False, False, False]), (33648, [True, False, False, True])],
)
def test_wrap_modes(wrap: int, seen: list[bool]) -> None:
    """Coordinates from 0 to 2 over the square: solid where the wrapped u is below 1/2."""
    table = document(UV * np.float32(2))
    table["samplers"] = [{"wrapS": wrap, "wrapT": 10497, "magFilter": 9728}]
    scene = read(table)
    assert material(scene).texture.wrap_u is {10497: Wrap.REPEAT, 33071: Wrap.CLAMP_TO_EDGE}.get(
        wrap, Wrap.MIRRORED_REPEAT
    )
    assert hits(scene, (0.1, 0.4), (0.4, 0.4), (0.6, 0.4), (0.9, 0.4)) == seen


def test_bilinear_between_texels() -> None:
    """Alpha falls from 255 at u = 1/4 to 0 at u = 3/4: the cut-off of 1/2 is at the middle, 0.8 at u = 0.35."""
    table = document()
    table["samplers"] = [{"wrapS": 33071, "wrapT": 33071}]
    assert hits(read(table), (0.49, 0.4), (0.51, 0.4)) == [True, False]
    table["materials"][0]["alphaCutoff"] = 0.8
    assert hits(read(table), (0.34, 0.4), (0.36, 0.4)) == [True, False]


def test_texture_transform_and_other_coordinates() -> None:
    table = document()
    info = {"index": 0, "extensions": {"KHR_texture_transform": {"offset": [0.5, 0], "scale": [1, 1]}}}
    table["materials"][0]["pbrMetallicRoughness"]["baseColorTexture"] = info
    assert hits(read(table), LEFT, RIGHT) == [False, True]
    info["extensions"]["KHR_texture_transform"] = {"rotation": np.pi / 2}  # u' = v, v' = -u
    assert hits(read(table), (0.2, 0.8), (0.8, 0.2)) == [True, False]
    table["materials"][0]["pbrMetallicRoughness"]["baseColorTexture"] = {"index": 0, "texCoord": 1}
    table["meshes"][0]["primitives"][0]["attributes"]["TEXCOORD_1"] = 2
    assert hits(read(table), LEFT, RIGHT) == [True, False]


def test_colour_is_no_alpha() -> None:
    """A picture without alpha masks nothing, whatever its colours; colour spaces do not touch alpha."""
    assert hits(read(document(image=png(np.zeros((2, 2), np.uint8), "RGB"))), LEFT, RIGHT) == [True, True]
    grey = png(np.array([[128, 127], [128, 127]], np.uint8))
    assert hits(read(document(image=grey)), LEFT, RIGHT) == [True, False]  # 128/255 >= 0.5 > 127/255


def _set(path: str, value: Any) -> dict[str, Any]:
    table: Any = document()
    *way, last = path.split(".")
    place = table
    for part in way:
        place = place[int(part) if part.isdecimal() else part]
    if value is None:
        place.pop(int(last) if last.isdecimal() else last, *(() if isinstance(place, list) else (None,)))
    else:
        place[int(last) if last.isdecimal() else last] = value
    return table


SURFACE = "materials.0.pbrMetallicRoughness"
DAMAGE = {
    "missing image file": ("images.0", {"uri": "none.png"}, "no such file"),
    "image outside": ("images.0", {"uri": "/etc/hostname"}, "only files beside"),
    "no image at all": ("images", None, "refers to image 0, there are 0"),
    "images of a wrong type": ("images", "x", "refers to image 0, there are 0"),
    "an image that is a number": ("images", [7], "refers to image 0"),
    "image without data": ("images.0", {}, "neither a uri nor a bufferView"),
    "a view that is not there": ("images.0", {"bufferView": 99}, "refers to bufferView 99"),
    "a view that is no number": ("images.0", {"bufferView": "a"}, "not a number of an item"),
    "a buffer that is no image": ("images.0", {"bufferView": 0}, "not an image that can be read"),
    "base64 that is none": ("images.0", {"uri": "data:image/png;base64,@@"}, "not base64"),
    "texture index": (f"{SURFACE}.baseColorTexture.index", 5, "refers to texture 5, there are 1"),
    "negative texture": (f"{SURFACE}.baseColorTexture.index", -1, "not a number of an item"),
    "texture of a wrong type": (f"{SURFACE}.baseColorTexture", [1], "not a number of an item"),
    "source index": ("textures.0.source", 3, "refers to image 3"),
    "sampler index": ("textures.0.sampler", 3, "refers to sampler 3"),
    "unknown wrap": ("samplers.0.wrapS", 1, "no wrap mode"),
    "factor": (f"{SURFACE}.baseColorFactor", [1, 2], "not four numbers"),
    "factor of text": (f"{SURFACE}.baseColorFactor", [1, 1, 1, "a"], "not four numbers"),
    "cutoff": ("materials.0.alphaCutoff", "high", "not a number"),
    "mode": ("materials.0.alphaMode", "GLASS", "neither OPAQUE, MASK nor BLEND"),
    "texcoord accessor": ("meshes.0.primitives.0.attributes.TEXCOORD_0", 9, "accessor 9"),
    "texcoord type": ("meshes.0.primitives.0.attributes.TEXCOORD_0", 0, "wrong type"),
    "texcoord missing": ("meshes.0.primitives.0.attributes.TEXCOORD_0", None, "needs TEXCOORD_0"),
    "texcoord too short": ("accessors.2.count", 3, "too short, 3 for 4"),
    "texcoord set": (f"{SURFACE}.baseColorTexture.texCoord", "x", "not a number"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_noted_and_the_geometry_loads(name: str, tmp_path: Path) -> None:
    path, value, note = DAMAGE[name]
    scene = read(_set(path, value), tmp_path)
    assert scene.blases[0].primitive_count == 2
    assert any(note in warning for warning in scene.warnings), scene.warnings
    assert all("\n" not in warning for warning in scene.warnings)
    assert len(hits(scene, LEFT, RIGHT)) == 2


def test_coordinates_that_are_not_finite_become_0() -> None:
    uv = UV.copy()
    uv[0], uv[1, 0] = np.nan, np.inf
    scene = read(document(uv))
    assert any("not finite" in warning for warning in scene.warnings)
    assert np.isfinite(material(scene).texcoords).all()


@settings(max_examples=150, deadline=None)
@given(cut=st.integers(0, len(HALF) - 1), flip=st.integers(0, 8 * len(HALF) - 1), which=st.booleans())
def test_damaged_images_never_stop_a_file(cut: int, flip: int, which: bool) -> None:
    data = bytearray(HALF[:cut] if which else HALF)
    if not which:
        data[flip // 8] ^= 1 << flip % 8
    scene = read(document(image=bytes(data)))
    assert scene.blases[0].primitive_count == 2
    if which:
        assert scene.warnings or material(scene).texture is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 99999) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)
PLACES = sorted({path for path, _, _ in DAMAGE.values() if not path.startswith(("accessors", "meshes"))})


@settings(max_examples=200, deadline=None)
@given(path=st.sampled_from(PLACES), value=JSON)
def test_any_json_in_a_material_loads(path: str, value: Any) -> None:
    if path == "materials.0.alphaMode" and not isinstance(value, str):
        return  # the type of this key has always been required
    scene = read(_set(path, value))
    assert scene.blases[0].primitive_count == 2


def test_the_shipped_mask_has_holes() -> None:
    from rtviewer.io.registry import load_scene

    scene = load_scene(asset("gltf-features/01_alpha_mask.gltf"))
    world = build_world(scene)
    masked = world.trace(size=(96, 96)).hit
    whole = world.trace(size=(96, 96), any_hit=AnyHitProgram.ACCEPT).hit
    assert 0 < masked.sum() < whole.sum()
    assert not (masked & ~whole).any()
