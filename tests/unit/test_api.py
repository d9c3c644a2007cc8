import subprocess
import sys

import numpy as np
import pytest

import rtviewer as rt


def test_exactly_what_is_listed_is_there():
    assert sorted(rt.__all__) == rt.__all__
    assert set(rt.__all__) == set(rt._PLACES)
    for name in rt.__all__:
        assert getattr(rt, name) is not None
    assert dir(rt) == sorted([*rt.__all__, "__version__"])
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = rt.nothing


def test_names_come_from_where_they_are_defined():
    for name, module in rt._PLACES.items():
        if name == "build":  # also a sub-package
            continue
        assert getattr(rt, name).__module__ == module, name


def test_importing_loads_neither_numpy_nor_numba_nor_qt():
    code = """
import sys
import rtviewer
heavy = [n for n in ("numpy", "numba", "PySide6", "pyqtgraph", "OpenGL", "trimesh") if n in sys.modules]
assert not heavy, heavy
rtviewer.build, rtviewer.World, rtviewer.load_scene
heavy = [n for n in ("numba", "PySide6", "pyqtgraph", "OpenGL") if n in sys.modules]
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_version_is_the_packages():
    from importlib.metadata import version

    assert rt.__version__ == version("rtviewer")


def test_the_documented_example(tmp_path):
    path = tmp_path / "pane.obj"
    path.write_text("v -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nf 1 2 3 4\n")
    scene = rt.load_scene(path)
    world = rt.build(scene, blas_flags=rt.BuildFlag.NONE)
    camera = rt.Camera((0, 0, 4), (0, 0, 0))
    image = world.trace(camera, size=(64, 36), ray_flags=rt.RayFlag.CULL_BACK_FACING_TRIANGLES)
    assert image.hit[18, 32]
    log = world.explain(pixel=(32, 18), camera=camera, size=(64, 36))
    assert log.result.hit
    assert np.float32(log.result.t) == image.t[18, 32]
    assert world.tlas.is_top_level
    behind = rt.Camera((0, 0, -4), (0, 0, 0))
    assert not world.trace(behind, size=(64, 36), ray_flags=rt.RayFlag.CULL_BACK_FACING_TRIANGLES).hit.any()
    typed = world.explain(origin=(0.5, 0.25, 3), direction=(0, 0, -2))
    assert typed.result.t == 1.5
    world.trace(camera, size=(64, 36))
    same = world.explain(pixel=(32, 18), camera=camera)  # of the last picture
    assert (same.size, same.result.t) == ((64, 36), log.result.t)


def test_structures_are_copied_saved_and_opened(tmp_path):
    path = tmp_path / "pane.obj"
    path.write_text("v -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nf 1 2 3 4\n")
    world = rt.open_world(path, rt.BuildFlag.ALLOW_COMPACTION)
    blas = world.blases[0]
    assert rt.compact(blas).size == rt.compacted_size(blas) < blas.size
    blob = rt.serialize(world.tlas)
    assert len(blob) == rt.serialized_size(world.tlas)
    assert rt.describe_blob(blob).pointer_count == 1
    assert rt.deserialize(blob, address=256).address == 256
    assert len(rt.decode(blas)) == rt.decoded_size(blas)
    assert isinstance(rt.read_decode(rt.decode(blas)), rt.DecodedBlas)
    assert np.array_equal(rt.clone(blas).data, blas.data)
    world.save(tmp_path / "pane.rtcap")
    again = rt.open_world(tmp_path / "pane.rtcap")
    assert np.array_equal(again.trace(size=(32, 18)).t, world.trace(size=(32, 18)).t)
    with pytest.raises(rt.RtviewerError, match="not built again"):
        rt.open_world(tmp_path / "pane.rtcap", rt.BuildFlag.ALLOW_UPDATE)
    (tmp_path / "tlas.rtblob").write_bytes(blob.tobytes())
    (tmp_path / "blas.rtblob").write_bytes(rt.serialize(blas).tobytes())
    alone = rt.open_world(tmp_path / "tlas.rtblob", bottom_levels=[tmp_path / "blas.rtblob"])
    assert alone.trace(world.scene.camera, size=(32, 18)).hit.any()


def test_without_a_camera_the_scenes_own_or_the_fitting_one_is_used(tmp_path):
    path = tmp_path / "pane.obj"
    path.write_text("v -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nf 1 2 3 4\n")
    world = rt.build(rt.load_scene(path))
    image = world.trace(size=(32, 18))
    assert image.camera == world.scene.camera
    assert image.hit.any()


def test_build_is_both_the_function_and_the_sub_package():
    for first in (
        "import rtviewer.build.plan",
        "import rtviewer as rt; rt.build",
        "from rtviewer.build import builder",
    ):
        code = f"""
{first}
import rtviewer as rt
import rtviewer.build.builder as builder
from rtviewer.build import plan
assert rt.build.builder is builder
assert rt.build.plan is plan
assert isinstance(rt.build(rt.Scene("empty")), rt.World)
"""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr


def test_the_stub_lists_the_same_names_from_the_same_places():
    import ast
    from pathlib import Path

    stub = ast.parse(Path(rt.__file__).with_suffix(".pyi").read_text())
    places = {alias.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert places == rt._PLACES
