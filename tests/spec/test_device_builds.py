"""The build call: errors, memory, lifetime, states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.device.buffers import AS, SRV, UAV, HeapType
from rtviewer.dxr.flags import BuildFlag, PostbuildInfoType, RayFlag, ResourceState
from rtviewer.dxr.profile import Profile
from rtviewer.dxr.raw_descs import BuildDesc, BuildInputs, GeometryDesc, InstanceDesc, PostbuildInfoDesc
from rtviewer.trace.request import RayBatch
from tests.unit.device.scenes import (
    BOX,
    FORWARD,
    NOWHERE,
    ORIGIN,
    TRIANGLE,
    XBOX,
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


# --- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("ERR-1", "ERR-2", "ERR-3")
def test_all_violations_of_a_call_come_together_sorted_and_nothing_is_written() -> None:
    lab = Lab()
    wild = lab.triangles(TRIANGLE, [0, 1, 9], flags=4)
    bad_format = replace(wild, triangles=replace(wild.triangles, vertex_format=99))
    inputs = bottom(wild, bad_format, flags=FAST_BUILD | FAST_TRACE | 0x200)
    dest, scratch = lab.buffer(1 << 16, AS).address, lab.buffer(1 << 16, UAV).address
    dest_buffer = lab.buffer_at(dest)
    dest_buffer.write(bytes(range(256)))
    with lab.refused("ALIGN-1", "ALIGN-2", "BF-1", "BF-2", "GF-1", "GF-1", "VF-1") as error:
        lab.device.build(BuildDesc(dest + 16, inputs, 0, scratch + 16))
    found = error[0].violations
    assert [v.field for v in found] == [
        "DestAccelerationStructureData",
        "ScratchAccelerationStructureData",
        "Inputs.Flags",
        "Inputs.Flags",
        "Inputs.pGeometryDescs[0].Flags",
        "Inputs.pGeometryDescs[1].Flags",
        "Inputs.pGeometryDescs[1].Triangles.VertexFormat",
    ]
    assert list(found) == sorted(found)
    assert all(v.section and v.message and v.value for v in found)
    assert error[0].call == "BuildRaytracingAccelerationStructure"
    assert "[BF-2] PREFER_FAST_TRACE and PREFER_FAST_BUILD are mutually exclusive" in str(error[0])
    # Content and call rules together.
    with lab.refused("ALIGN-2", "BLD-8", "GEO-4"):
        good = replace(wild, flags=0)
        lab.device.build(BuildDesc(NOWHERE, bottom(good), 0, scratch + 16))


@pytest.mark.rule("ERR-4")
def test_warnings_are_kept_and_the_call_goes_on() -> None:
    lab = Lab()
    structure = lab.structure(lab.blas(lab.triangles([*TRIANGLE, [0, 0, 0]])))
    (warning,) = lab.device.warnings
    assert warning.warning
    assert (warning.rule, warning.field) == ("GEO-3", "Inputs.pGeometryDescs[0].Triangles.VertexCount")
    assert warning.value == "4"
    assert warning.section
    assert int(structure.header["input_count"]) == 1


@pytest.mark.rule("PROF-1")
def test_the_default_profile() -> None:
    assert Lab().device.profile == Profile()
    assert str(Lab().device.profile) == "tier 1.1"
    assert Lab(XBOX).device.profile.xbox


# --- the call -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("BLD-1")
def test_a_source_and_perform_update_go_together() -> None:
    lab = Lab()
    inputs = bottom(lab.triangles(TRIANGLE), flags=UPDATE)
    source = lab.build(inputs)
    build = lab.build_desc(inputs)
    with lab.refused("BLD-1"):
        lab.device.build(replace(build, source_acceleration_structure_data=source))
    with lab.refused("BLD-1"):
        lab.device.build(replace(build, inputs=replace(inputs, flags=UPDATE | PERFORM)))


@pytest.mark.rule("BLD-3", "BLD-7", "DET-3")
@pytest.mark.parametrize("kind", ["triangles", "small", "boxes"])
def test_inputs_and_scratch_may_be_overwritten_and_freed_after_the_build(kind: str) -> None:
    vertices, indices = sphere()
    origins, directions = rays_at((0, 0, 0), 300)
    results = []
    for spoil in (False, True):
        lab = Lab(debug=True)
        made = lab.boxes(np.tile(BOX, (20, 1))) if kind == "boxes" else lab.triangles(vertices, indices, np.eye(3, 4))
        flags = SMALL if kind == "small" else BuildFlag.NONE
        desc = lab.build_desc(bottom(made, flags=flags))
        scratch = lab.buffer_at(desc.scratch_acceleration_structure_data)
        noise = np.random.default_rng(3).integers(0, 256, scratch.size, dtype=np.uint8)
        if spoil:
            scratch.write(noise)
        lab.device.build(desc)
        assert scratch.read() != bytes(scratch.size)  # debug mode leaves a pattern, another one each time
        first = scratch.read()
        blas = desc.dest_acceleration_structure_data
        tlas = lab.tlas(blas)
        lab.device.build(desc)
        assert scratch.read() != first
        tlas = lab.tlas(blas)
        if spoil:
            for buffer in lab.device.buffers:
                if buffer.state == SRV:
                    buffer.write(np.full(buffer.size, 0xEE, np.uint8))
                    lab.device.free(buffer)
        results.append((lab.trace(tlas, origins, directions), lab.structure(blas).data.tobytes()))
    assert_equal_hits(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


@pytest.mark.rule("BLD-4", "BLD-5", "CP-11")
def test_a_clone_lives_without_the_original() -> None:
    from rtviewer.dxr.flags import CopyMode

    lab = Lab()
    original = lab.blas()
    clone = lab.copy(original, CopyMode.CLONE)
    lab.device.free(lab.buffer_at(original))
    assert lab.trace(lab.tlas(clone)).t.tolist() == [5.0]


@pytest.mark.rule("BLD-6", "UPD-14")
def test_a_top_level_is_stale_once_a_bottom_level_was_written() -> None:
    lab = Lab()
    inputs = bottom(lab.triangles(TRIANGLE), flags=UPDATE)
    blas, other = lab.build(inputs), lab.blas(lab.triangles(moved(TRIANGLE, 5)))
    tlas_inputs = lab.instances(*(InstanceDesc(acceleration_structure=a) for a in (blas, other)), flags=UPDATE)
    tlas = lab.build(tlas_inputs)
    unrelated = lab.tlas(other)
    assert lab.trace(tlas).hit.all()
    lab.update(blas, bottom(lab.triangles(moved(TRIANGLE, z=-1)), flags=UPDATE), in_place=True)
    with lab.refused("BLD-6") as error:
        lab.trace(tlas)
    assert f"{blas:#x}" in str(error[0])
    lab.trace(unrelated)
    again = lab.update(tlas, tlas_inputs)
    assert lab.trace(again).t.tolist() == [4.0]
    with lab.refused("BLD-6"):
        lab.trace(tlas)
    lab.update(tlas, tlas_inputs, in_place=True)
    assert lab.trace(tlas).t.tolist() == [4.0]
    # A rebuild at the same address makes it stale too.
    desc = lab.build_desc(inputs, dest=blas)
    lab.device.build(desc)
    with lab.refused("BLD-6"):
        lab.trace(tlas)
    assert lab.trace(lab.build(tlas_inputs)).t.tolist() == [5.0]


@pytest.mark.rule("BLD-8")
@pytest.mark.parametrize("top", [False, True])
def test_destination_and_scratch_must_be_large_enough(top: bool) -> None:
    lab = Lab()
    inputs = lab.instances(*[InstanceDesc()] * 40) if top else bottom(lab.triangles(*sphere()))
    info = lab.device.get_prebuild_info(inputs)
    result, scratch = info.result_data_max_size_in_bytes, info.scratch_data_size_in_bytes
    good = lab.build_desc(inputs)
    short_dest, short_scratch = lab.buffer(result - 1, AS).address, lab.buffer(scratch - 1, UAV).address
    with lab.refused("BLD-8") as error:
        lab.device.build(replace(good, dest_acceleration_structure_data=short_dest))
    assert f"{result} bytes are needed, {result - 1} are left" in str(error[0])
    with lab.refused("BLD-8"):
        lab.device.build(replace(good, scratch_acceleration_structure_data=short_scratch))
    for nothing in (0, NOWHERE):
        with lab.refused("BLD-8", "BLD-8"):
            lab.device.build(BuildDesc(nothing, inputs, 0, nothing))
    lab.device.build(good)


@pytest.mark.rule("BLD-9")
def test_ranges_must_not_overlap() -> None:
    lab = Lab()
    desc = lab.triangles(TRIANGLE)
    inputs = bottom(desc)
    good = lab.build_desc(inputs)
    info = lab.device.get_prebuild_info(inputs)
    scratch = lab.device.create_heap(1 << 16)
    uav = lab.device.create_buffer(1 << 16, UAV, "a", heap=scratch)
    srv = lab.device.create_buffer(1 << 12, SRV, "b", heap=scratch, heap_offset=256)
    srv.write(TRIANGLE, 16)
    aliased = replace(
        desc,
        triangles=replace(
            desc.triangles, vertex_buffer=replace(desc.triangles.vertex_buffer, start_address=srv.address + 16)
        ),
    )
    with lab.refused("BLD-9"):  # scratch on the vertices, by another address
        lab.device.build(replace(good, inputs=bottom(aliased), scratch_acceleration_structure_data=uav.address))
    lab.device.build(replace(good, inputs=bottom(aliased), scratch_acceleration_structure_data=uav.address + 4096))
    dest = good.dest_acceleration_structure_data
    both = lab.buffer(1 << 16, AS).address
    with lab.refused("BLD-9", "ST-1"):
        lab.device.build(BuildDesc(both, inputs, 0, both + 256))
    inside = replace(
        desc,
        triangles=replace(desc.triangles, vertex_buffer=replace(desc.triangles.vertex_buffer, start_address=dest + 64)),
    )
    with lab.refused("BLD-9", "ST-1"):
        lab.device.build(replace(good, inputs=bottom(inside)))
    room = lab.buffer(1 << 16, AS, "room").address
    blas = lab.build(inputs, dest=room)
    top = lab.instances(InstanceDesc(acceleration_structure=blas))
    build = lab.build_desc(top)
    for offset in (0, 256, info.result_data_max_size_in_bytes - 256):
        with lab.refused("BLD-9"):  # over a bottom level that it refers to
            lab.device.build(replace(build, dest_acceleration_structure_data=room + offset))
    behind = room + info.result_data_max_size_in_bytes
    lab.device.build(replace(build, dest_acceleration_structure_data=behind))
    assert lab.trace(behind).t.tolist() == [5.0]


@pytest.mark.rule("BLD-10")
def test_an_instance_must_name_a_live_bottom_level() -> None:
    lab = Lab()
    blas = lab.blas()
    tlas = lab.tlas(blas)
    freed = lab.blas()
    lab.device.free(lab.buffer_at(freed))
    empty = lab.buffer(1 << 12, AS).address
    input_buffer = lab.put(np.zeros(4096, np.uint8))
    second_half = lab.buffer_at(blas).address + 256
    for address, rules in (
        (tlas, ("BLD-10",)),
        (freed, ("BLD-10",)),
        (empty, ("BLD-10",)),
        (NOWHERE, ("BLD-10",)),
        (second_half, ("BLD-10",)),
        (input_buffer, ("BLD-10", "ST-1")),
    ):
        build = lab.build_desc(lab.instances(InstanceDesc(), InstanceDesc(acceleration_structure=address)))
        with lab.refused(*rules) as error:
            lab.device.build(build)
        assert "InstanceDescs[1].AccelerationStructure" in str(error[0])


@pytest.mark.rule("BLD-10")
def test_bottom_levels_must_be_alive_when_rays_are_traced() -> None:
    lab = Lab()
    blas = lab.blas()
    tlas = lab.tlas(blas)
    lab.trace(tlas)
    for wrong in (blas, NOWHERE):
        with lab.refused("BLD-10"):
            lab.trace(wrong)
    lab.device.free(lab.buffer_at(blas))
    with lab.refused("BLD-10"):
        lab.trace(tlas)


@pytest.mark.rule("BLD-11", "BLD-12", "PRE-11", "RAY-9")
def test_nothing_to_build() -> None:
    lab = Lab()
    for inputs in (bottom(), BuildInputs.top_level(0, 0), bottom(GeometryDesc())):
        info = lab.device.get_prebuild_info(inputs)
        assert info.result_data_max_size_in_bytes > 0
        structure = lab.structure(lab.build(inputs))
        assert structure.size == info.result_data_max_size_in_bytes
        assert check(structure) == []
    empty = lab.build(bottom())
    for tlas in (0, lab.tlas(), lab.tlas(empty)):
        assert not lab.trace(tlas).hit.any()
    blas = lab.blas(GeometryDesc(), lab.triangles(TRIANGLE), GeometryDesc())
    assert lab.trace(lab.tlas(blas)).geometry_index.tolist() == [1]


@pytest.mark.rule("BLD-12")
def test_indices_of_hits_are_positions_of_the_input() -> None:
    lab = Lab()
    sets = [np.stack([moved(TRIANGLE, 3 * i, 3 * g) for i in range(3 + g)]) for g in range(3)]
    blas = lab.blas(*(lab.triangles(s) for s in sets))
    tlas = lab.tlas(*(InstanceDesc([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, z]], acceleration_structure=blas)
                      for z in (0, 10, 20)))  # fmt: skip
    cells = [(k, g, i) for k in range(3) for g in range(3) for i in range(3 + g)]
    hits = lab.trace(tlas, [(3 * i + 0.2, 3 * g + 0.2, 10.0 * k - 5) for k, g, i in cells])
    found = np.stack([hits.instance_index, hits.geometry_index, hits.primitive_index], 1)
    np.testing.assert_array_equal(found, cells)


@pytest.mark.rule("BLD-13", "POST-2", "POST-11")
def test_infos_of_a_build_are_those_of_a_later_emit() -> None:
    lab = Lab()
    inputs = bottom(lab.triangles(*sphere()), flags=COMPACTION)
    desc = lab.build_desc(inputs)
    dest = lab.buffer(256, UAV, "infos")
    descs = [PostbuildInfoDesc(dest.address + 64 * kind, kind) for kind in PostbuildInfoType]
    lab.device.build(desc, descs)
    for kind in PostbuildInfoType:
        emitted = lab.postbuild(kind, desc.dest_acceleration_structure_data)
        assert dest.view(np.uint64, 64 * kind, len(emitted)).tolist() == emitted
        assert emitted[0] > 0
    with lab.refused("POST-2"):
        lab.device.build(desc, [*descs, PostbuildInfoDesc(dest.address + 8, PostbuildInfoType.CURRENT_SIZE)])
    with lab.refused("ALIGN-8", "POST-1"):
        lab.device.build(desc, [PostbuildInfoDesc(dest.address + 4, PostbuildInfoType.CURRENT_SIZE)])
    with lab.refused("POST-1"):
        lab.device.build(desc, [PostbuildInfoDesc(dest.address, 4)])
    with lab.refused("POST-1"):
        lab.device.build(desc, [PostbuildInfoDesc(0, PostbuildInfoType.CURRENT_SIZE)])
    with lab.refused("BLD-9"):
        scratch = desc.scratch_acceleration_structure_data
        lab.device.build(desc, [PostbuildInfoDesc(scratch, PostbuildInfoType.CURRENT_SIZE)])
    plain = replace(desc, inputs=replace(inputs, flags=0))
    with lab.refused("POST-4"):
        lab.device.build(plain, [PostbuildInfoDesc(dest.address, PostbuildInfoType.COMPACTED_SIZE)])


@pytest.mark.rule("BLD-15")
def test_builds_copies_and_infos_are_not_recorded_in_bundles() -> None:
    lab = Lab()
    blas = lab.blas()
    desc = lab.build_desc(bottom(lab.triangles(TRIANGLE)))
    info = PostbuildInfoDesc(lab.buffer(8, UAV).address, PostbuildInfoType.CURRENT_SIZE)
    with lab.device.bundle():
        with lab.refused("BLD-15"):
            lab.device.build(desc)
        with lab.refused("BLD-15"):
            lab.device.copy(desc.dest_acceleration_structure_data, blas, 0)
        with lab.refused("BLD-15"):
            lab.device.emit_postbuild_info(info, [blas])
    lab.device.build(desc)


# --- states -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("ST-1")
def test_every_buffer_of_a_build_in_a_wrong_state() -> None:
    lab = Lab()
    inputs = bottom(lab.triangles(TRIANGLE, [0, 1, 2], np.eye(3, 4)))
    desc = lab.build_desc(inputs)
    triangles = inputs.geometry_descs[0].triangles
    for address in (triangles.vertex_buffer.start_address, triangles.index_buffer, triangles.transform3x4):
        buffer = lab.buffer_at(address)
        lab.device.transition(buffer, UAV)
        with lab.refused("ST-1") as error:
            lab.device.build(desc)
        assert buffer.name in str(error[0])
        lab.device.transition(buffer, SRV | ResourceState(0x1))  # other reads may be combined
        lab.device.build(desc)
    scratch = lab.buffer_at(desc.scratch_acceleration_structure_data)
    lab.device.transition(scratch, SRV)
    with lab.refused("ST-1"):
        lab.device.build(desc)
    lab.device.transition(scratch, UAV)
    plain = lab.buffer(1 << 16, UAV).address
    with lab.refused("ST-1"):
        lab.device.build(replace(desc, dest_acceleration_structure_data=plain))
    boxes = bottom(lab.boxes(BOX))
    build = lab.build_desc(boxes)
    lab.device.transition(lab.buffer_at(boxes.geometry_descs[0].aabbs.aabbs.start_address), UAV)
    with lab.refused("ST-1"):
        lab.device.build(build)
    instances = lab.instances(InstanceDesc())
    build = lab.build_desc(instances)
    lab.device.transition(lab.buffer_at(instances.instance_descs), UAV)
    with lab.refused("ST-1"):
        lab.device.build(build)
    info = lab.buffer(8, SRV)
    with lab.refused("ST-1"):
        lab.device.build(desc, [PostbuildInfoDesc(info.address, PostbuildInfoType.CURRENT_SIZE)])
    with lab.refused("ST-1"):
        kind = PostbuildInfoType.CURRENT_SIZE
        lab.device.emit_postbuild_info(PostbuildInfoDesc(info.address, kind), [lab.blas()])


@pytest.mark.rule("ST-1", "ST-2")
def test_the_state_for_structures_is_entered_at_creation_and_never_left() -> None:
    lab = Lab()
    structures, plain = lab.buffer(256, AS), lab.buffer(256, UAV)
    for buffer, state in ((structures, UAV), (structures, SRV), (plain, AS), (structures, AS | SRV)):
        rule = "ST-1" if state == AS | SRV else "ST-2"
        with lab.refused(rule):
            lab.device.transition(buffer, state)
    with lab.refused("ST-1"):
        lab.device.transition(plain, UAV | SRV)
    lab.device.transition(structures, AS)
    for heap_type in (HeapType.UPLOAD, HeapType.READBACK):
        with lab.refused("ST-2"):
            lab.device.create_buffer(256, AS, heap_type=heap_type)
    with lab.refused("ST-2"):
        lab.device.create_buffer(256, AS, unordered_access=False)
    with lab.refused("ST-1"):
        lab.device.create_buffer(256, UAV, unordered_access=False)
    lab.device.create_buffer(256, SRV, heap_type=HeapType.UPLOAD, unordered_access=False)


@pytest.mark.rule("ST-3")
def test_structures_share_memory_with_structures_only() -> None:
    lab = Lab()
    heap = lab.device.create_heap(1 << 16)
    first = lab.device.create_buffer(1 << 15, AS, "first", heap=heap)
    for offset in (0, (1 << 15) - 256):
        with lab.refused("ST-3"):
            lab.device.create_buffer(1 << 14, SRV, heap=heap, heap_offset=offset)
    other = lab.device.create_buffer(1 << 14, UAV, heap=heap, heap_offset=1 << 15)
    with lab.refused("ST-3"):
        lab.device.create_buffer(1 << 16, AS, heap=heap)
    again = lab.device.create_buffer(1 << 15, AS, "again", heap=heap)
    assert again.address != first.address
    lab.device.free(other)
    lab.device.create_buffer(1 << 14, AS, heap=heap, heap_offset=1 << 15)
    with lab.refused("GEO-6"):
        lab.device.create_buffer(1 << 14, AS, heap=heap, heap_offset=60 << 10)
    # Two addresses of one memory: what is written by one overwrites what stands at the other.
    lab.build(bottom(lab.triangles(TRIANGLE)), dest=first.address)
    tlas = lab.tlas(again.address)
    assert lab.trace(tlas).hit.all()
    lab.build(bottom(lab.triangles(moved(TRIANGLE, 9))), dest=first.address)
    with lab.refused("BLD-6"):
        lab.trace(tlas)


@pytest.mark.rule("ST-4", "ERR-4")
def test_a_missing_barrier_is_worth_a_warning_once_barriers_are_used() -> None:
    lab = Lab()
    lab.trace(lab.tlas(lab.blas()))
    assert lab.warned() == []
    lab.device.uav_barrier()
    blas = lab.blas()
    tlas = lab.tlas(blas)
    assert lab.warned() == ["ST-4"]
    lab.device.uav_barrier(lab.buffer_at(blas))
    lab.trace(tlas)
    assert lab.warned() == ["ST-4"]
    lab.device.uav_barrier(lab.buffer_at(tlas))
    lab.trace(tlas)
    assert lab.warned() == []


@pytest.mark.rule("RAY-2", "RAY-3", "RAY-4", "RAY-5")
def test_rays_that_cannot_be_traced() -> None:
    lab = Lab()
    tlas = lab.tlas(lab.blas())
    nan = float("nan")
    rays = RayBatch.make([ORIGIN, ORIGIN, (nan, 0, 0), ORIGIN], [FORWARD, FORWARD, FORWARD, (0, 0, 0)],
                         t_min=np.float32([0, -1, 0, 0]))  # fmt: skip
    hits = lab.device.trace(tlas, rays).hits
    assert hits.invalid.tolist() == [False, True, True, False]
    assert hits.hit.tolist() == [True, False, False, False]
    assert lab.warned() == ["RAY-5"]


@pytest.mark.rule("PROC-7")
def test_a_program_that_reports_nan_is_warned_of() -> None:
    lab = Lab()
    tlas = lab.tlas(lab.blas())
    assert lab.trace(tlas, intersection=4, report_t=float("nan")).hit[0]
    assert lab.warned() == ["PROC-7"]
    lab.trace(tlas, intersection=0, report_t=float("nan"))
    assert lab.warned() == []


@pytest.mark.rule("RF-2", "RF-6")
def test_illegal_ray_flags_are_refused_before_tracing() -> None:
    lab = Lab()
    tlas = lab.tlas(lab.blas())
    with lab.refused("RF-2"):
        lab.trace(tlas, ray_flags=RayFlag.FORCE_OPAQUE | RayFlag.CULL_OPAQUE)
