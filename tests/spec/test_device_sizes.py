"""Prebuild sizes, determinism, and flags that change neither hits nor indices."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.device.buffers import AS, UAV
from rtviewer.dxr.flags import BuildFlag, PostbuildInfoType, RayFlag
from rtviewer.dxr.raw_descs import BuildDesc, BuildInputs, InstanceDesc
from rtviewer.errors import InvalidInputError
from tests.unit.device.scenes import (
    BOX,
    TRIANGLE,
    Lab,
    assert_equal_hits,
    bottom,
    moved,
    rays_at,
    sphere,
)

UPDATE, COMPACTION = BuildFlag.ALLOW_UPDATE, BuildFlag.ALLOW_COMPACTION
SMALL, PERFORM = BuildFlag.MINIMIZE_MEMORY, BuildFlag.PERFORM_UPDATE
FAST_TRACE, FAST_BUILD = BuildFlag.PREFER_FAST_TRACE, BuildFlag.PREFER_FAST_BUILD
LEGAL_FLAGS = [
    BuildFlag(word) for word in range(32) if word & (FAST_TRACE | FAST_BUILD) != FAST_TRACE | FAST_BUILD
]  # fmt: skip


# --- prebuild info ------------------------------------------------------------------------------------------------


@pytest.mark.rule("PRE-2", "PRE-3", "PRE-6", "POST-8")
@pytest.mark.parametrize("flags", LEGAL_FLAGS, ids=lambda f: f"{int(f):#x}")
def test_sizes_grow_with_counts_and_suffice(flags: BuildFlag) -> None:
    random = np.random.default_rng(int(flags))
    lab = Lab()
    for _ in range(4):
        counts = random.integers(0, 60, 3)
        points = [random.normal(size=(int(c), 3, 3)).astype(np.float32) for c in counts]
        whole = bottom(*(lab.triangles(p) for p in points), flags=flags)
        fewer = [p[: int(random.integers(0, len(p) + 1))] for p in points][: int(random.integers(1, 4))]
        part = bottom(*(lab.triangles(p) for p in fewer), flags=flags)
        big, small = (lab.device.get_prebuild_info(i) for i in (whole, part))
        for name in vars(big):
            assert getattr(small, name) <= getattr(big, name)
            assert getattr(big, name) % 256 == 0
        room = lab.buffer(big.result_data_max_size_in_bytes, AS).address
        scratch = lab.buffer(big.scratch_data_size_in_bytes, UAV).address
        for inputs, info in ((whole, big), (part, small)):
            lab.device.build(BuildDesc(room, inputs, 0, scratch))
            assert lab.postbuild(PostbuildInfoType.CURRENT_SIZE, room) == [info.result_data_max_size_in_bytes]
            assert check(lab.structure(room)) == []
    for count in (0, 1, 2, 7, 8, 9, 100):
        a, b = (lab.device.get_prebuild_info(BuildInputs.top_level(c, 16, flags)) for c in (count, count + 1))
        assert a.result_data_max_size_in_bytes <= b.result_data_max_size_in_bytes
        assert a.scratch_data_size_in_bytes <= b.scratch_data_size_in_bytes
        assert a.update_scratch_data_size_in_bytes <= b.update_scratch_data_size_in_bytes


@pytest.mark.rule("PRE-4", "PRE-5", "PRE-7", "PRE-8", "PRE-9", "PRE-11", "BF-5")
@pytest.mark.parametrize("flags", LEGAL_FLAGS, ids=lambda f: f"{int(f):#x}")
def test_sizes_by_flag(flags: BuildFlag) -> None:
    lab = Lab()
    vertices, indices = sphere()
    for inputs in (
        bottom(lab.triangles(vertices, indices), flags=flags),
        bottom(lab.boxes(np.tile(BOX, (50, 1))), flags=flags),
        bottom(flags=flags),
        BuildInputs.top_level(70, 16, flags),
    ):
        info = lab.device.get_prebuild_info(inputs)
        assert (info.update_scratch_data_size_in_bytes > 0) == bool(flags & UPDATE)
        assert info.result_data_max_size_in_bytes > 0
        assert lab.device.get_prebuild_info(replace(inputs, flags=flags | PERFORM)) == info
        smaller = lab.device.get_prebuild_info(replace(inputs, flags=flags | SMALL))
        assert smaller.result_data_max_size_in_bytes <= info.result_data_max_size_in_bytes
        assert smaller.scratch_data_size_in_bytes <= info.scratch_data_size_in_bytes
    assert (
        lab.device.get_prebuild_info(bottom(lab.triangles(vertices, indices), flags=flags & ~COMPACTION))
        == lab.device.get_prebuild_info(bottom(lab.triangles(vertices, indices), flags=flags | COMPACTION))
    )  # fmt: skip


@pytest.mark.rule("PRE-1", "PRE-10")
def test_prebuild_info_reads_counts_and_flags_only() -> None:
    lab = Lab()
    good = lab.triangles(TRIANGLE, [0, 1, 99])  # contents that no build would take
    elsewhere = replace(
        good,
        triangles=replace(
            good.triangles,
            index_buffer=3,
            vertex_buffer=replace(good.triangles.vertex_buffer, start_address=1, stride_in_bytes=7),
        ),
    )
    assert lab.device.get_prebuild_info(bottom(good)) == lab.device.get_prebuild_info(bottom(elsewhere))
    for changes in ({"flags": 8}, {"type": 9}):
        with pytest.raises(InvalidInputError):
            lab.device.get_prebuild_info(bottom(replace(good, **changes)))


@pytest.mark.rule("PRE-5", "UPD-6")
def test_the_update_scratch_of_the_first_inputs_serves_every_update() -> None:
    lab = Lab()
    vertices, indices = sphere()
    inputs = bottom(lab.triangles(vertices, indices), flags=UPDATE)
    scratch = lab.device.get_prebuild_info(inputs).update_scratch_data_size_in_bytes
    desc = lab.build_desc(inputs)
    lab.device.build(desc)
    blas = desc.dest_acceleration_structure_data
    room, short = (lab.buffer(size, UAV).address for size in (scratch, scratch - 1))
    for step, flags in enumerate((UPDATE, UPDATE, BuildFlag.NONE)):
        moved_inputs = bottom(lab.triangles(moved(vertices, step), indices), flags=flags | PERFORM)
        with lab.refused("BLD-8"):
            lab.device.build(BuildDesc(blas, moved_inputs, blas, short))
        lab.device.build(BuildDesc(blas, moved_inputs, blas, room))


# --- determinism --------------------------------------------------------------------------------------------------


@pytest.mark.rule("DET-1", "DET-3", "DET-4", "PRES-1", "PRES-2")
@pytest.mark.parametrize("flags", [BuildFlag.NONE, FAST_BUILD, FAST_TRACE, SMALL | UPDATE], ids=str)
def test_equal_inputs_give_equal_bytes_wherever_and_whenever(flags: BuildFlag, monkeypatch: pytest.MonkeyPatch) -> None:
    vertices, indices = sphere(3)
    random = np.random.default_rng(11)
    images = []
    for threads in (1, 3):
        monkeypatch.setattr(os, "cpu_count", lambda threads=threads: threads)
        lab = Lab()
        lab.buffer(int(random.integers(1, 1 << 20)))  # other addresses
        blas = lab.blas(lab.triangles(vertices, indices), flags=flags)
        instances = [InstanceDesc([[1, 0, 0, 3.0 * i], [0, 1, 0, 0], [0, 0, 1, 0]], acceleration_structure=blas)
                     for i in range(5)]  # fmt: skip
        tlas = lab.tlas(*instances)
        top = lab.structure(tlas)
        rows = top.instance_descs.copy()
        rows["AccelerationStructure"] = 0
        body = top.data.copy()
        start = int(top.instance_descs.ctypes.data - top.data.ctypes.data)
        body[start : start + rows.nbytes] = rows.view(np.uint8)
        hits = lab.trace(tlas, *rays_at((6, 0, 0), 500), ray_flags=RayFlag.FORCE_OPAQUE)
        images.append((lab.structure(blas).data.tobytes(), body.tobytes(), hits))
    assert images[0][0] == images[1][0]
    assert images[0][1] == images[1][1]
    assert_equal_hits(images[0][2], images[1][2])


@pytest.mark.rule("BF-10", "DET-5", "PRES-1")
def test_build_flags_change_no_closest_hit() -> None:
    vertices, indices = sphere(3)
    origins, directions = rays_at((0, 0, 0), 10_000)
    lab = Lab()
    wanted = None
    for flags in LEGAL_FLAGS:
        tlas = lab.tlas(lab.blas(lab.triangles(vertices, indices), flags=flags), flags=flags)
        hits = lab.trace(tlas, origins, directions)
        wanted = wanted or hits
        assert_equal_hits(hits, wanted)


@pytest.mark.rule("BF-3", "BF-9")
def test_the_flags_that_a_structure_was_built_with() -> None:
    lab = Lab()
    for flags in LEGAL_FLAGS:
        blas, tlas = lab.blas(flags=flags), lab.tlas(flags=flags)
        for address in (blas, tlas):
            assert lab.structure(address).build_flags == flags
    source = lab.build(bottom(lab.triangles(TRIANGLE), flags=UPDATE | SMALL))
    kept = lab.update(source, bottom(lab.triangles(TRIANGLE), flags=UPDATE | SMALL))
    dropped = lab.update(source, bottom(lab.triangles(TRIANGLE), flags=SMALL))
    assert lab.structure(kept).build_flags == UPDATE | SMALL
    assert lab.structure(dropped).build_flags == SMALL
