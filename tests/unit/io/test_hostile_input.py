"""Damaged files: every reader ends in a scene or in an RtviewerError, soon and in bounded memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from rtviewer.errors import RtviewerError
from rtviewer.io.registry import FORMATS, read_as
from rtviewer.scene.inputs import scene_statistics
from rtviewer.scene.scene import Scene

ASSETS = Path(__file__).parents[4] / "shared" / "assets"
SHIPPED = Path(__file__).parents[3] / "scenes"

SAMPLES = [
    *(ASSETS / "obj" / name for name in ("negative_indices.obj", "malformed.obj", "inf_nan.obj", "box_UTF16BE.obj")),
    *(ASSETS / "ply" / name for name in ("unusual_order_bbe.ply", "three_tris_many_props_bbe.ply")),
    *(ASSETS / "ply" / name for name in ("cube_binary_header_with_RN_newline.ply", "test_more_datatypes.ply")),
    *(ASSETS / "stl" / name for name in ("CubeInvalidUnicode.stl", "soup.stl", "multibody.stl")),
    ASSETS / "gltf-broken" / "BoxWithInfinites.glb",
    ASSETS / "gltf-broken" / "zero-sized-bin-chunk-issue-440.glb",
    ASSETS / "gltf-features" / "singleBlendshapeCube_sparse.glb",
    ASSETS / "gltf-features" / "SimpleSparseAccessor.gltf",
    ASSETS / "gltf-scenes" / "GpuInstancesMetadata.gltf",
    SHIPPED / "cornell" / "scene.toml",
]
TRIALS = 250
MEMORY_LIMIT = 400 << 20


def survives(path: Path, data: bytes) -> Scene | None:
    """The scene, or None when it was refused; any other exception fails the test."""
    kind = next(f for f in FORMATS if path.suffix.lower() in f.suffixes)
    try:
        scene = read_as(kind, path, data)
        for blas in scene.blases:
            assert blas.primitive_count >= 0
        if sum(blas.primitive_count for blas in scene.blases) * max(len(scene.instances), 1) < 1_000_000:
            scene_statistics(scene)
    except RtviewerError as error:
        message = str(error)
    else:
        return scene
    assert "\n" not in message
    assert path.name in message
    return None


def check_legal(scene: Scene) -> None:
    """What every reader promises about the arrays it hands on."""
    for blas in scene.blases:
        for geometry in blas.geometries:
            indices = getattr(geometry, "indices", None)
            if indices is not None and len(indices):
                assert indices.dtype == np.uint32
                assert int(indices.max()) < len(geometry.vertices)  # type: ignore[union-attr]
    for instance in scene.instances:
        assert -1 <= instance.blas < len(scene.blases)
        assert instance.blas < 0 or np.isfinite(instance.transform).all()


@pytest.fixture
def bounded_memory() -> object:
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY_LIMIT


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("bounded_memory")
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_cut_short_at_every_place(path: Path) -> None:
    if not path.exists():
        pytest.skip("../shared/assets is not there")
    data = path.read_bytes()
    step = max(1, len(data) // TRIALS)
    scenes = [survives(path, data[:length]) for length in range(0, len(data), step)]
    for scene in scenes:
        if scene is not None:
            check_legal(scene)
    assert survives(path, data) is not None
    if path.suffix in (".glb", ".gltf", ".ply", ".stl"):
        assert scenes[len(scenes) // 2] is None  # half of a file is never taken for a whole one


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("bounded_memory")
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_random_bytes_changed(path: Path) -> None:
    if not path.exists():
        pytest.skip("../shared/assets is not there")
    original = np.frombuffer(path.read_bytes(), np.uint8)
    random = np.random.default_rng(len(original))
    for trial in range(TRIALS):
        data = original.copy()
        where = random.integers(0, len(data), 1 + trial % 8)
        data[where] = random.integers(0, 256, len(where))
        scene = survives(path, data.tobytes())
        if scene is not None:
            check_legal(scene)


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("bounded_memory")
@pytest.mark.parametrize("suffix", [suffix for kind in FORMATS for suffix in kind.suffixes])
def test_noise_and_nothing(suffix: str) -> None:
    random = np.random.default_rng(7)
    path = Path(f"noise{suffix}")
    for length in (0, 1, 2, 11, 12, 20, 83, 84, 85, 134, 1000, 20_000):
        survives(path, random.integers(0, 256, length, np.uint8).tobytes())
        survives(path, bytes(length))
        survives(path, b"1" * length)
        survives(path, b"[" * length)
        survives(path, b"\n" * length)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_digits_made_large(path: Path) -> None:
    """Numbers in text are where counts and sizes hide: each digit in turn becomes a long number."""
    if not path.exists():
        pytest.skip("../shared/assets is not there")
    data = path.read_bytes()
    digits = [i for i, byte in enumerate(data[:3000]) if 0x30 <= byte <= 0x39]
    tracemalloc.start()
    for i in digits[:: max(1, len(digits) // 60)]:
        for number in (b"99999999", b"-1", b"1e400", b"9" * 25, b"nan"):
            scene = survives(path, data[:i] + number + data[i + 1 :])
            if scene is not None:
                check_legal(scene)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY_LIMIT
