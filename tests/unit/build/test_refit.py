"""Updates beside the plain way to do them, hashes of indices, and tasks on threads."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure
from rtviewer.build import moved_triangles
from rtviewer.build.builder import build_blas
from rtviewer.build.index_scan import scan_indices
from rtviewer.build.refit import update_blas
from rtviewer.copymode.compact import compact
from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag, GeometryFlag
from rtviewer.scene.generators import icosphere
from rtviewer.scene.primitives import degenerate_triangles

FLAGS = [BuildFlag.ALLOW_UPDATE, BuildFlag.ALLOW_UPDATE | BuildFlag.MINIMIZE_MEMORY]


def parts(level: int = 3) -> BlasInputs:
    """Three geometries: an indexed sphere, one without indices inside it, a few large triangles."""
    mesh = icosphere(level)
    soup = (mesh.vertices[mesh.indices[::3]] * np.float32(0.9)).reshape(-1, 3)
    few = TrianglesGeometry(
        np.eye(3, dtype=np.float32), np.array([[0, 1, 2], [0, 0, 1]], np.uint32), np.eye(3, 4, dtype=np.float32)
    )
    return BlasInputs(
        (
            TrianglesGeometry(mesh.vertices, mesh.indices, flags=GeometryFlag.OPAQUE),
            TrianglesGeometry(np.ascontiguousarray(soup)),
            few,
        )
    )


def bent(inputs: BlasInputs) -> BlasInputs:
    def bend(points: np.ndarray) -> np.ndarray:
        moved = points * np.float32([1.5, 0.5, 1]) + np.sin(3 * points[:, [1, 2, 0]])
        moved[:40] = 0  # some triangles lose their area
        return moved.astype(np.float32)

    return BlasInputs(tuple(replace(g, vertices=bend(g.vertices)) for g in inputs.geometries))


@pytest.mark.rule("UPD-13", "DEG-5")
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_packs_hold_the_moved_triangles_and_boxes_enclose_them_tightly(flags: BuildFlag) -> None:
    inputs = parts()
    moved = bent(inputs)
    target = update_blas(build_blas(inputs, flags), moved, flags)
    assert check(target) == []
    corners = np.concatenate(
        [
            (g.vertices if g.indices is None else g.vertices[g.indices.ravel()]).reshape(-1, 3, 3)
            for g in moved.geometries
        ]
    )
    ids = target.packs["id"]
    used = ids != -1
    number = ids[used] & 0x1FFFFFFF
    assert np.array_equal(np.sort(number), np.delete(np.arange(len(corners)), -1))  # the last repeats an index
    assert np.array_equal(target.pack_corners().transpose(0, 3, 1, 2)[used], corners[number])
    flat = degenerate_triangles(corners)
    assert 1 < flat.sum() < len(flat)
    assert np.array_equal(ids[used] < 0, flat[number])
    assert int(target.header["degenerate_count"]) == flat.sum()
    root = target.nodes[0]
    for axis, name in enumerate("xyz"):
        assert root[f"min_{name}"].min() == corners[number][..., axis].min() == target.bounds[0, axis]
        assert root[f"max_{name}"].max() == corners[number][..., axis].max() == target.bounds[1, axis]
    assert float(target.header["max_abs"]) == np.abs(corners).max()


@pytest.mark.rule("UPD-10", "DET-2")
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_threads_and_grain_do_not_change_a_bit(flags: BuildFlag, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = parts(4)
    source, moved = build_blas(inputs, flags), bent(inputs)
    expected = update_blas(source, moved, flags).data.tobytes()
    monkeypatch.setattr(moved_triangles, "SMALL", 0)
    for grain, processors in ((7, 1), (64, 2), (200, 5)):
        monkeypatch.setattr(moved_triangles, "SMALLEST_PART", grain)
        monkeypatch.setattr(moved_triangles, "LARGEST_PART", grain)
        monkeypatch.setattr(moved_triangles, "PROCESSORS", processors)
        assert update_blas(source, moved, flags).data.tobytes() == expected


@pytest.mark.rule("UPD-5", "DET-2")
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_results_are_values_though_their_memory_is_used_again(flags: BuildFlag) -> None:
    """Structures that somebody holds stay as they are; what earlier results left in memory does not show."""
    inputs = parts()
    source, compacted = build_blas(inputs, flags), compact(build_blas(inputs, flags | BuildFlag.ALLOW_COMPACTION))
    shapes = [bent(inputs), inputs, bent(bent(inputs))]
    expected = {(s, k): _update(s, shape).data.tobytes() for s in (source, compacted) for k, shape in enumerate(shapes)}
    before, held = source.data.tobytes(), []
    random = np.random.default_rng(1)
    for step in range(60):
        key = (source, compacted)[int(random.integers(0, 2))], int(random.integers(0, 3))
        result = _update(key[0], shapes[key[1]])
        assert result.data.tobytes() == expected[key], step
        if step % 5 == 0:
            held.append((result, key))
        del result
    assert all(result.data.tobytes() == expected[key] for result, key in held)
    assert source.data.tobytes() == before


def test_an_update_in_place_again_and_again_uses_two_pieces_of_memory() -> None:
    inputs = parts()
    structure, addresses = build_blas(inputs, FLAGS[0]), set()
    for _ in range(10):
        structure = _update(structure, inputs)
        addresses.add(structure.data.ctypes.data)
    assert len(addresses) <= 2


def _update(source: Structure, inputs: BlasInputs) -> Structure:
    return update_blas(source, inputs, source.build_flags)


ELSEWHERE = """
import json
from tests.unit.build.test_refit import FLAGS, digest
print(json.dumps([digest(flags) for flags in FLAGS]))
"""


def digest(flags: BuildFlag) -> str:
    inputs = parts(1)
    return hashlib.sha256(_update(build_blas(inputs, flags), bent(inputs)).data.tobytes()).hexdigest()


@pytest.mark.slow
@pytest.mark.rule("DET-3")
def test_the_jit_does_not_show() -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], cwd=root, capture_output=True, text=True, timeout=280,
        env={**os.environ, "PYTHONPATH": str(root), "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [digest(flags) for flags in FLAGS]


@pytest.mark.rule("INA-8")
def test_infinite_coordinates_leave_the_reach_to_the_finite_ones() -> None:
    inputs = parts(2)
    first = inputs.geometries[0]
    vertices = first.vertices * np.float32(5)
    vertices[3, 1] = np.inf
    moved = replace(inputs, geometries=(replace(first, vertices=vertices), *inputs.geometries[1:]))
    target = update_blas(build_blas(inputs, FLAGS[0]), moved, FLAGS[0])
    assert float(target.header["max_abs"]) == np.abs(vertices[np.isfinite(vertices)]).max()
    assert target.bounds[1, 1] == np.inf
    assert check(target) == []


@pytest.mark.rule("UPD-8", "GEO-4")
def test_a_scan_sees_every_index_its_place_and_the_largest() -> None:
    random = np.random.default_rng(0)
    indices = random.integers(0, 1000, (5000, 3)).astype(np.uint32)
    digest, largest = scan_indices(indices)
    assert largest == indices.max()
    assert scan_indices(indices.astype(np.int64)) == (digest, largest)
    assert scan_indices(indices[:0])[1] == -1
    seen = {digest, scan_indices(indices[:-1])[0], scan_indices(np.concatenate([indices, np.zeros((1, 3), int)]))[0]}
    for place in random.integers(0, 15000, 50):
        changed = indices.copy()
        changed.flat[place] ^= 1 << int(random.integers(0, 32))
        seen.add(scan_indices(changed)[0])
        swapped = indices.copy()
        swapped[[place // 3, place // 3 - 1]] = swapped[[place // 3 - 1, place // 3]]
        seen.add(scan_indices(swapped)[0])
    assert len(seen) == 103


def test_the_hash_of_indices_is_what_a_build_stores() -> None:
    inputs = parts(2)
    records = build_blas(inputs, FLAGS[0]).section(SectionKind.UPDATE)
    assert int(records["index_hash"][0]) == scan_indices(inputs.geometries[0].indices)[0]
    assert int(records["index_hash"][1]) == 0
