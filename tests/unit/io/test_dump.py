"""Dumps of real drivers: any legal formats, a base address given or inferred, top levels with their bottom levels."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

from rtviewer.copymode.decode import decode
from rtviewer.dxr.descs import AabbsGeometry, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag
from rtviewer.dxr.formats import IndexFormat, VertexFormat
from rtviewer.dxr.layouts import GEOMETRY_DESC, INSTANCE_DESC
from rtviewer.errors import FileFormatError, InvalidInputError
from rtviewer.io.bottom_level_files import BottomLevelFile
from rtviewer.io.dump import write_dump
from rtviewer.io.registry import load_source
from rtviewer.scene.primitives import triangle_corners
from rtviewer.scene.scene import Scene
from rtviewer.session.document import World, build_world
from tests.unit.io.structure_sets import small_world

BASE = 0x2A40_0000


@pytest.fixture(scope="module")
def world() -> World:
    return small_world()


def opened(path: Path, *bottom_levels: str | Path, base_address: int | None = None) -> Scene:
    files = [BottomLevelFile.parse(str(text)) for text in bottom_levels]
    found = load_source(path, bottom_levels=files, base_address=base_address)
    assert isinstance(found, Scene)
    return found


def foreign_decode(base: int) -> tuple[np.ndarray, np.ndarray]:
    """A decode as another driver may write it: half-float vertices of stride 8, 16-bit indices, a transform behind."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0.5], [0, 1, -2]], np.float16)
    indices = np.array([[0, 1, 2], [0, 2, 3]], np.uint16)
    transform = np.array([[2, 0, 0, 1], [0, 2, 0, 0], [0, 0, 2, 0]], np.float32)
    first = -(-(8 + GEOMETRY_DESC.itemsize) // 16) * 16
    data = np.zeros(first + 32 + 16 + 48 + 16, np.uint8)
    data[:8].view("<u4")[:] = 1, 1
    desc = data[8 : 8 + GEOMETRY_DESC.itemsize].view(GEOMETRY_DESC)[0]
    desc["Type"], desc["Flags"] = 0, int(GeometryFlag.OPAQUE)
    triangles = desc["Triangles"]
    triangles["VertexFormat"], triangles["IndexFormat"] = VertexFormat.R16G16B16A16_FLOAT, IndexFormat.R16_UINT
    triangles["VertexCount"], triangles["IndexCount"] = 4, 6
    triangles["VertexBuffer"]["StartAddress"], triangles["VertexBuffer"]["StrideInBytes"] = base + first, 8
    triangles["IndexBuffer"], triangles["Transform3x4"] = base + first + 32, base + first + 48
    data[first : first + 32].view("<f2").reshape(4, 4)[:, :3] = corners
    data[first + 32 : first + 44].view("<u2")[:] = indices.ravel()
    data[first + 48 : first + 96].view("<f4")[:] = transform.ravel()
    return data, corners.astype(np.float32)[indices] * 2 + np.array([1, 0, 0], np.float32)


@pytest.mark.rule("VIS-4", "VIS-16")
@pytest.mark.parametrize("given", [None, BASE])
def test_a_foreign_bottom_level_becomes_a_scene(tmp_path: Path, given: int | None) -> None:
    data, corners = foreign_decode(BASE)
    path = tmp_path / "bottom.rtdump"
    write_dump(path, data)
    scene = opened(path, base_address=given)
    (blas,), (instance,) = scene.blases, scene.instances
    (geometry,) = blas.geometries
    assert isinstance(geometry, TrianglesGeometry)
    assert np.array_equal(triangle_corners(geometry), corners)
    assert geometry.flags == GeometryFlag.OPAQUE
    assert (instance.blas, blas.name, scene.warnings) == (0, "bottom", ())
    assert build_world(scene).trace(size=(24, 16)).hit.any()


def test_any_suffix_is_a_dump_when_a_base_address_is_given(tmp_path: Path) -> None:
    path = tmp_path / "buffer.bin"
    path.write_bytes(foreign_decode(BASE)[0].tobytes())
    assert len(opened(path, base_address=BASE).blases) == 1
    with pytest.raises(FileFormatError, match="outside the buffer"):
        opened(path, base_address=BASE + 4096)
    with pytest.raises(FileFormatError, match="unknown kind"):
        load_source(path)


def test_a_base_that_is_not_certain_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "loose.rtdump"
    path.write_bytes(foreign_decode(BASE)[0].tobytes() + bytes(1000))
    (warning,) = opened(path).warnings
    assert f"{BASE:#x}" in warning
    assert "--base-address" in warning
    assert opened(path, base_address=BASE).warnings == ()


def test_a_nan_where_none_may_be_becomes_an_inactive_primitive(tmp_path: Path, world: World) -> None:
    data, _ = foreign_decode(BASE)
    first = int(
        data[8 : 8 + GEOMETRY_DESC.itemsize].view(GEOMETRY_DESC)[0]["Triangles"]["VertexBuffer"]["StartAddress"]
    )
    data[first - BASE + 3 * 8 + 2 : first - BASE + 3 * 8 + 4].view("<f2")[:] = np.nan
    path = tmp_path / "nan.rtdump"
    write_dump(path, data)
    scene = opened(path, base_address=BASE)
    assert "INA-3" in scene.warnings[0]
    assert int(build_world(scene).blases[0].header["active_count"]) == 1
    boxes = decode(world.blases[1], BASE)
    start = len(boxes) - 3 * 24 - (-3 * 24) % 16
    boxes[start + 4 : start + 8].view("<f4")[:] = np.nan
    write_dump(path, boxes)
    scene = opened(path)
    assert "INA-2" in scene.warnings[0]
    (geometry,) = scene.blases[0].geometries
    assert isinstance(geometry, AabbsGeometry)
    assert np.isnan(geometry.aabbs[:, 0]).tolist() == [True, False, False]


@pytest.mark.rule("VIS-2", "VIS-16")
def test_a_top_level_with_its_bottom_levels_gives_the_same_hits(tmp_path: Path, world: World) -> None:
    paths = [tmp_path / f"{index}.rtdump" for index in range(4)]
    for path, structure in zip(paths, (world.tlas, *world.blases), strict=True):
        write_dump(path, decode(structure, BASE))
    for given in (paths[1:], [f"{b.address:#x}={p}" for b, p in zip(world.blases, paths[1:], strict=True)][::-1]):
        scene = opened(paths[0], *given)
        assert [i.blas for i in scene.instances] == [0, 1, 0, -1, 2]
        again = build_world(scene)
        settings = {"any_hit": world.scene.any_hit, "intersection": world.scene.intersection}
        size, camera = (64, 48), world.scene.camera
        before, after = world.trace(camera, size), again.trace(camera, size, **settings)
        assert before.hit.any()
        for name in ("hit", "t", "instance_index", "geometry_index", "primitive_index", "hit_kind", "attributes"):
            assert np.array_equal(getattr(before, name), getattr(after, name), equal_nan=name == "t"), name


def test_top_levels_and_bottom_levels_are_not_mixed_up(tmp_path: Path, world: World) -> None:
    top, bottom = tmp_path / "top.rtdump", tmp_path / "bottom.rtdump"
    write_dump(top, decode(world.tlas, BASE))
    write_dump(bottom, decode(world.blases[0], BASE))
    with pytest.raises(FileFormatError, match="one bottom level for each address"):
        opened(top)
    with pytest.raises(FileFormatError, match="where one of a bottom level is needed"):
        opened(top, bottom, top, bottom)
    with pytest.raises(FileFormatError, match="none below"):
        opened(bottom, top)


def test_hostile_dumps_are_refused_or_give_a_scene_that_can_be_built(tmp_path: Path, world: World) -> None:
    random = np.random.default_rng(4)
    path = tmp_path / "hostile.rtdump"
    data = foreign_decode(BASE)[0].tobytes()
    for length in range(len(data) - 16):
        path.write_bytes(data[:length])
        with pytest.raises(FileFormatError, match=r"hostile\.rtdump"):
            opened(path)
    accepted = 0
    for _ in range(400):
        changed = bytearray(data)
        for place in random.integers(0, len(data), int(random.integers(1, 4))):
            changed[place] = int(random.choice([0, 1, 0x7F, 0xFF, int(random.integers(256))]))
        path.write_bytes(bytes(changed))
        accepted += _traced_or_refused(path)
    assert accepted


def _traced_or_refused(path: Path) -> bool:
    """A transform that is not finite makes NaNs that only the build sees."""
    with contextlib.suppress(FileFormatError):
        scene = opened(path)
        try:
            world = build_world(scene)
        except InvalidInputError as error:
            return set(error.rules) <= {"INA-3"}
        return world.trace(size=(4, 4)).hit.shape == (4, 4)
    return False


def test_a_count_beyond_the_bytes_asks_for_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "many.rtdump"
    data = np.zeros(8 + 2 * INSTANCE_DESC.itemsize, np.uint8)
    for kind in (0, 1):
        data[:8].view("<u4")[:] = kind, 0xFFFFFFFF
        write_dump(path, data)
        with pytest.raises(FileFormatError, match="VIS-1"):
            opened(path)
