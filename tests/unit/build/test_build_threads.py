"""What may not show in a structure's bytes: threads, pieces of work, vector width, the JIT. What a build may take."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from rtviewer.accel import layout
from rtviewer.accel.invariants import check
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.sizes import Counts, scratch_size, tree_budget
from rtviewer.build import builder, tree, workers
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.build.reference_rows import ROW_BYTES
from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag, GeometryFlag
from rtviewer.scene.generators import icosphere
from tests.unit.build.test_builder import adversarial, boxes, instances_of, soup

FLAGS = [BuildFlag.NONE, BuildFlag.PREFER_FAST_BUILD, BuildFlag.MINIMIZE_MEMORY, BuildFlag.ALLOW_UPDATE]


@pytest.mark.rule("DET-3")
@pytest.mark.parametrize("flags", FLAGS)
def test_shared_cuts_and_pieces_do_not_show(flags: BuildFlag, monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads cut the top levels together, or each a node alone: the same cuts, the same order of references."""
    inputs = BlasInputs((soup(150_000), soup(5_000, 1, 2.0)))
    first = build_blas(inputs, flags)
    assert check(first) == []
    for shared, piece, threads in ((1 << 17, 1 << 12, 2), (1 << 17, 1000, 7), (1 << 30, 1 << 30, 1)):
        monkeypatch.setattr(tree, "SHARED_CUT", shared)
        monkeypatch.setattr(workers, "SMALLEST_PIECE", piece)
        monkeypatch.setattr(os, "cpu_count", lambda threads=threads: threads)
        assert build_blas(inputs, flags).data.tobytes() == first.data.tobytes()


@pytest.mark.rule("PRE-2", "BLD-8")
def test_a_shared_cut_that_the_budget_refuses_is_an_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = tree_budget(Counts(triangles=90_009))
    inputs = BlasInputs((adversarial("fives", 90_009),))
    results = []
    for shared in (1 << 16, 1 << 30):
        monkeypatch.setattr(tree, "SHARED_CUT", shared)
        monkeypatch.setattr(builder, "tree_budget", lambda counts, flags: 0)
        structure = build_blas(inputs)
        assert check(structure) == []
        tree_bytes = len(structure.nodes) * 256 + len(structure.triangle_packs) * 160
        assert tree_bytes <= 62 * 90_009 + 512 < budget
        results.append(structure.data.tobytes())
    assert results[0] == results[1]


SCRIPT = """
import hashlib, json, sys
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.build.reference_rows import ROW_BYTES
from rtviewer.dxr.descs import BlasInputs
from rtviewer.dxr.flags import BuildFlag
from tests.unit.build.test_build_threads import FLAGS, digest
print(json.dumps([digest(flags, {count}) for flags in FLAGS]))
"""


def digest(flags: BuildFlag, count: int) -> str:
    """Of one structure of triangles, one of boxes and one of instances."""
    blas = build_blas(BlasInputs((soup(count), soup(count // 4, 1, 1.0))), flags, address=256)
    parts = [blas, build_blas(BlasInputs((boxes(count),)), flags)]
    parts.append(build_tlas(instances_of(count // 3), flags, blases={256: blas}))
    return hashlib.sha256(b"".join(part.data.tobytes() for part in parts)).hexdigest()


def digests_elsewhere(count: int, **environment: str) -> list[str]:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(count=count)], cwd=root, capture_output=True, text=True, timeout=280,
        env={**os.environ, "PYTHONPATH": str(root), **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.rule("DET-3")
@pytest.mark.parametrize(
    ("cpu", "features"), [("generic", ""), ("haswell", "+avx2,+fma"), ("skylake-avx512", "+avx2,+fma,+avx512f")]
)
def test_vector_width_does_not_show(cpu: str, features: str, tmp_path: Path) -> None:
    if cpu != "generic":
        import llvmlite.binding

        have = llvmlite.binding.get_host_cpu_features()
        missing = [name for name in features.replace("+", "").split(",") if not have.get(name)]
        if missing:
            pytest.skip(f"this processor has no {missing[0]}")
    elsewhere = digests_elsewhere(6000, NUMBA_CPU_NAME=cpu, NUMBA_CPU_FEATURES=features, XDG_CACHE_HOME=str(tmp_path))
    assert elsewhere == [digest(flags, 6000) for flags in FLAGS]


@pytest.mark.slow
@pytest.mark.rule("DET-3")
def test_the_jit_does_not_show() -> None:
    assert digests_elsewhere(120, NUMBA_DISABLE_JIT="1") == [digest(flags, 120) for flags in FLAGS]


MEMORY_FLAGS = [
    *FLAGS,
    BuildFlag.PREFER_FAST_TRACE,
    BuildFlag.PREFER_FAST_BUILD | BuildFlag.MINIMIZE_MEMORY,
    BuildFlag.PREFER_FAST_TRACE | BuildFlag.MINIMIZE_MEMORY,
]
ROOM = 2 << 20
"""Bytes at most that a thread needs whatever the counts."""


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("flags", MEMORY_FLAGS)
def test_a_build_takes_the_scratch_it_says_and_at_most_three_times_what_it_fills(flags: BuildFlag, parts: int) -> None:
    mesh = icosphere(7)
    pieces = np.array_split(mesh.indices, parts)
    inputs = BlasInputs(tuple(TrianglesGeometry(mesh.vertices, piece, flags=GeometryFlag.OPAQUE) for piece in pieces))
    build_blas(BlasInputs((soup(100),)), flags)  # compiled code is none of it
    tracemalloc.start()
    try:
        structure = build_blas(inputs, flags)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    count = len(mesh.indices)
    assert structure.size < peak <= structure.size + scratch_size(Counts(triangles=count), flags) + 2 * ROOM
    if flags != BuildFlag.PREFER_FAST_TRACE | BuildFlag.MINIMIZE_MEMORY:
        never_touched = structure.size - max(structure.used_size, ROW_BYTES * count)
        assert peak - never_touched <= 3 * structure.used_size


@pytest.mark.parametrize("flags", [*FLAGS, BuildFlag.PREFER_FAST_TRACE])
@pytest.mark.parametrize("kind", ["triangles", "boxes", "instances", "left out"])
def test_the_room_at_the_end_is_zero_though_a_build_uses_it(flags: BuildFlag, kind: str) -> None:
    """And so are the bytes between sections."""
    blas = build_blas(BlasInputs((soup(3000),)), address=256)
    corners = soup(3000).vertices.copy()
    corners[::9, 0] = np.nan
    if kind == "instances":
        structure = build_tlas(instances_of(3000), flags, blases={256: blas})
    else:
        geometry = {"triangles": soup(3000), "boxes": boxes(3000), "left out": TrianglesGeometry(corners)}[kind]
        structure = build_blas(BlasInputs((geometry,)), flags)
    used = np.zeros(structure.size, np.bool_)
    used[: layout.HEADER.itemsize] = True
    for section in structure.header["sections"][: int(structure.header["section_count"])]:
        first = int(section["offset"])
        used[first : first + int(section["count"]) * int(section["element_size"])] = True
    assert not structure.data[~used].any()
    if kind != "instances":
        assert not structure.section(SectionKind.GEOMETRIES)["reserved"].any()


@pytest.mark.rule("INA-8")
@pytest.mark.parametrize("scale", [1e-38, 1e-20, 1.0, 1e20, 3e37])
@pytest.mark.parametrize("flags", FLAGS)
def test_tiny_and_huge_worlds_are_cut_as_well_as_others(scale: float, flags: BuildFlag) -> None:
    """Areas of float32 boxes would vanish or overflow; the tree is the same as at the usual size."""
    from rtviewer.accel.stats import statistics

    corners = soup(3000).vertices
    factor = np.float32(2.0 ** np.round(np.log2(scale)))  # no rounding
    usual = build_blas(BlasInputs((TrianglesGeometry(corners),)), flags)
    scaled = build_blas(BlasInputs((TrianglesGeometry(corners * factor),)), flags)
    assert check(scaled) == []
    packs, others = usual.packs["id"], scaled.packs["id"]
    if scale > 1e-30:
        np.testing.assert_array_equal(packs, others)
        np.testing.assert_array_equal(usual.nodes["min_x"] * factor, scaled.nodes["min_x"])
    else:
        assert statistics(scaled).depth <= statistics(usual).depth + 2
