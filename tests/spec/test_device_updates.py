"""Updates: what may change and what may not, in place or not, in chains, after copies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.device.buffers import AS, UAV
from rtviewer.dxr.flags import BuildFlag, CopyMode, ElementsLayout, PostbuildInfoType
from rtviewer.dxr.formats import IndexFormat, VertexFormat
from rtviewer.dxr.raw_descs import BuildDesc, BuildInputs, GeometryDesc, InstanceDesc
from tests.unit.device.scenes import (
    BOX,
    TRIANGLE,
    Lab,
    address_and_stride,
    assert_equal_hits,
    moved,
    rays_at,
    sphere,
)

UPDATE, PERFORM = BuildFlag.ALLOW_UPDATE, BuildFlag.PERFORM_UPDATE
COMPACTION, SMALL = BuildFlag.ALLOW_COMPACTION, BuildFlag.MINIMIZE_MEMORY
FAST_TRACE, FAST_BUILD = BuildFlag.PREFER_FAST_TRACE, BuildFlag.PREFER_FAST_BUILD
SECTION = "Acceleration structure update constraints"
NAN = float("nan")


def bottom(*descs: GeometryDesc, flags: int = UPDATE) -> BuildInputs:
    return BuildInputs.bottom_level(descs, flags)


def update_desc(lab: Lab, inputs: BuildInputs, source: int) -> BuildDesc:
    """An update to a new buffer, sized for the source."""
    full = replace(inputs, flags=int(inputs.flags) | PERFORM)
    size = lab.structure(source).size
    return BuildDesc(lab.buffer(size, AS).address, full, source, lab.buffer(1 << 16, UAV).address)


def deformed(vertices: np.ndarray, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (vertices * np.float32([1.3, 0.8, 1.1]) + random.normal(0, 0.05, vertices.shape)).astype(np.float32)


@pytest.mark.rule("UPD-1", "UPD-3", "BF-3", "BF-9")
def test_a_source_must_have_been_built_for_updates() -> None:
    lab = Lab()
    desc = lab.triangles(TRIANGLE)
    plain = lab.blas(desc)
    with lab.refused("UPD-1"):
        lab.device.build(update_desc(lab, bottom(desc, flags=0), plain))
    with lab.refused("UPD-1"):  # and it cannot be gained
        lab.device.build(update_desc(lab, bottom(desc), plain))
    source = lab.build(bottom(desc))
    final = lab.update(source, bottom(desc, flags=0))
    with lab.refused("UPD-1"):
        lab.device.build(update_desc(lab, bottom(desc, flags=0), final))
    empty = lab.buffer(1 << 12, AS).address
    build = replace(update_desc(lab, bottom(desc), source), source_acceleration_structure_data=empty)
    with lab.refused("UPD-1") as error:
        lab.device.build(build)
    assert "no acceleration structure starts at this address" in str(error[0])
    assert error[0].violations[0].section == SECTION


@pytest.mark.rule("UPD-3", "UPD-13", "UPD-15", "DET-2")
def test_ten_updates_in_a_row() -> None:
    vertices, indices = sphere()
    rays = rays_at((0, 0, 0), 400)
    ends = []
    for _ in range(2):
        lab = Lab()
        address = lab.build(bottom(lab.triangles(vertices, indices)))
        for step in range(10):
            changed = bottom(lab.triangles(deformed(vertices, step), indices))
            address = lab.update(address, changed, in_place=bool(step % 2))
            assert check(lab.structure(address)) == []
        fresh = lab.blas(lab.triangles(deformed(vertices, 9), indices))
        hits = lab.trace(lab.tlas(address), *rays)
        assert_equal_hits(hits, lab.trace(lab.tlas(fresh), *rays))
        ends.append((lab.structure(address).data.tobytes(), hits))
    assert ends[0][0] == ends[1][0]


@pytest.mark.rule("UPD-2", "BF-6")
@pytest.mark.parametrize("base", [UPDATE, UPDATE | COMPACTION | FAST_TRACE | SMALL, UPDATE | FAST_BUILD], ids=str)
@pytest.mark.parametrize("toggled", [COMPACTION, FAST_TRACE, FAST_BUILD, SMALL], ids=str)
def test_every_other_flag_must_match_in_both_directions(base: BuildFlag, toggled: BuildFlag) -> None:
    lab = Lab()
    desc = lab.triangles(TRIANGLE)
    source = lab.build(bottom(desc, flags=base))
    changed = BuildFlag(base ^ toggled)
    both = changed & FAST_TRACE and changed & FAST_BUILD
    with lab.refused(*(("BF-2",) if both else ()), "UPD-2"):
        lab.device.build(update_desc(lab, bottom(desc, flags=changed), source))
    top = lab.instances(InstanceDesc(), flags=base)
    tlas = lab.build(top)
    with lab.refused(*(("BF-2",) if both else ()), "UPD-2"):
        lab.device.build(update_desc(lab, replace(top, flags=changed), tlas))


@pytest.mark.rule("UPD-4", "UPD-5", "CP-4")
def test_in_place_or_apart_but_not_half() -> None:
    lab = Lab()
    vertices, indices = sphere()
    inputs = bottom(lab.triangles(vertices, indices))
    size = lab.device.get_prebuild_info(inputs).result_data_max_size_in_bytes
    room = lab.buffer(3 * size, AS, "room").address
    source = lab.build(inputs, dest=room)
    before = lab.structure(source).data.tobytes()
    changed = replace(bottom(lab.triangles(deformed(vertices, 1), indices)), flags=UPDATE | PERFORM)
    scratch = lab.buffer(1 << 16, UAV).address
    for offset in (256, size - 256):
        with lab.refused("UPD-4"):
            lab.device.build(BuildDesc(room + offset, changed, source, scratch))
    lab.device.build(BuildDesc(room + size, changed, source, scratch))
    assert lab.structure(source).data.tobytes() == before
    apart = lab.structure(room + size).data.tobytes()
    assert apart != before
    with lab.refused("BLD-9", "ST-1"):
        lab.device.build(BuildDesc(room + size, changed, source, source + 256))
    second = lab.update(source, bottom(lab.triangles(deformed(vertices, 2), indices)))  # the source serves again
    assert lab.structure(second).data.tobytes() != apart
    lab.device.build(BuildDesc(source, changed, source, scratch))
    assert lab.structure(source).data.tobytes() == apart


@pytest.mark.rule("UPD-6", "CP-14", "CP-13")
@pytest.mark.parametrize("flags", [UPDATE | COMPACTION, UPDATE | COMPACTION | SMALL], ids=str)
def test_a_compacted_source_is_updated_into_exactly_its_size(flags: BuildFlag) -> None:
    lab = Lab()
    vertices, indices = sphere(3)
    compacted = lab.copy(lab.build(bottom(lab.triangles(vertices, indices), flags=flags)), CopyMode.COMPACT)
    size = lab.structure(compacted).size
    inputs = bottom(lab.triangles(deformed(vertices, 3), indices), flags=flags)
    desc = update_desc(lab, inputs, compacted)
    short = lab.buffer(size - 1, AS).address
    with lab.refused("BLD-8"):
        lab.device.build(replace(desc, dest_acceleration_structure_data=short))
    lab.device.build(desc)
    updated = desc.dest_acceleration_structure_data
    assert lab.postbuild(PostbuildInfoType.CURRENT_SIZE, updated) == [size]
    rays = rays_at((0, 0, 0), 300)
    fresh = lab.build(inputs)
    assert_equal_hits(lab.trace(lab.tlas(updated), *rays), lab.trace(lab.tlas(fresh), *rays))


@pytest.mark.rule("UPD-7")
def test_the_type_stays() -> None:
    lab = Lab()
    blas, tlas = lab.build(bottom(lab.triangles(TRIANGLE))), lab.build(lab.instances(InstanceDesc(), flags=UPDATE))
    with lab.refused("UPD-7"):
        lab.device.build(update_desc(lab, bottom(lab.triangles(TRIANGLE)), tlas))
    with lab.refused("UPD-7"):
        lab.device.build(update_desc(lab, lab.instances(InstanceDesc(), flags=UPDATE), blas))


def frozen(lab: Lab) -> dict[str, tuple[BuildInputs, BuildInputs]]:
    """Sources' inputs, and inputs in which one frozen property is another."""
    points, indices = np.concatenate([TRIANGLE, moved(TRIANGLE, 2)]), [[0, 1, 2], [3, 4, 5]]
    one = lab.triangles(points, indices)
    triangles = one.triangles

    def changed(**fields: object) -> BuildInputs:
        return bottom(replace(one, triangles=replace(triangles, **fields)))

    half = np.zeros((6, 4), np.float16)
    half[:, :3] = points
    boxes = lab.boxes(np.tile(BOX, (2, 1)))
    return {
        "number of geometries": (bottom(one, one), bottom(one)),
        "type of a geometry": (bottom(one), bottom(boxes)),
        "flags of a geometry": (bottom(one), bottom(replace(one, flags=1))),
        "vertex format": (
            bottom(one),
            changed(
                vertex_format=VertexFormat.R16G16B16A16_FLOAT, vertex_buffer=address_and_stride(lab.put(half), 8)
            ),
        ),
        "index format": (
            bottom(one),
            changed(index_format=IndexFormat.R16_UINT, index_buffer=lab.put(np.uint16(indices))),
        ),
        "indexed or not": (
            bottom(one),
            changed(index_format=IndexFormat.UNKNOWN, index_buffer=0, index_count=0),
        ),
        "vertex count": (
            bottom(one),
            changed(vertex_count=7, vertex_buffer=address_and_stride(lab.put(np.zeros((7, 3), np.float32)), 12)),
        ),
        "vertex count, not indexed": (
            bottom(lab.triangles(points)),
            bottom(lab.triangles(points[:3])),
        ),
        "index count": (bottom(one), changed(index_count=3)),
        "index contents": (bottom(one), changed(index_buffer=lab.put(np.uint32([[0, 1, 2], [3, 5, 4]])))),
        "box count": (bottom(boxes), bottom(lab.boxes(np.tile(BOX, (3, 1))))),
    }  # fmt: skip


@pytest.mark.rule("UPD-8")
@pytest.mark.parametrize("flags", [UPDATE, UPDATE | SMALL], ids=str)
@pytest.mark.parametrize("what", list(frozen(Lab())))
def test_each_frozen_property_of_a_bottom_level(what: str, flags: BuildFlag) -> None:
    lab = Lab()
    first, second = (replace(inputs, flags=flags) for inputs in frozen(lab)[what])
    source = lab.build(first)
    build = update_desc(lab, second, source)
    with lab.refused_only("UPD-8"):
        lab.device.build(build)
    lab.update(source, first)


@pytest.mark.rule("UPD-9")
def test_a_transform_does_not_come_or_go() -> None:
    lab = Lab()
    identity = np.eye(3, 4, dtype=np.float32)
    without, with_one = lab.triangles(TRIANGLE), lab.triangles(TRIANGLE, transform=identity)
    for first, second in ((without, with_one), (with_one, without)):
        source = lab.build(bottom(first))
        build = update_desc(lab, bottom(second), source)
        with lab.refused("UPD-9"):
            lab.device.build(build)


@pytest.mark.rule("UPD-10")
@pytest.mark.parametrize("flags", [UPDATE, UPDATE | SMALL], ids=str)
def test_positions_buffers_strides_and_transforms_may_change(flags: BuildFlag) -> None:
    lab = Lab()
    vertices, indices = sphere()
    matrix = np.float32([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    source = lab.build(bottom(lab.triangles(vertices, indices, matrix), flags=flags))
    new = lab.triangles(vertices, indices, matrix * 2)
    wide = np.full((len(vertices), 5), NAN, np.float32)
    wide[:, :3] = deformed(vertices, 4)
    new = replace(new, triangles=replace(new.triangles, vertex_buffer=address_and_stride(lab.put(wide), 20)))
    updated = lab.update(source, bottom(new, flags=flags))
    rays = rays_at((0, 0, 0), 300)
    fresh = lab.blas(new)
    assert_equal_hits(lab.trace(lab.tlas(updated), *rays), lab.trace(lab.tlas(fresh), *rays))
    boxes = np.float32([[i, 0, 0, i + 1, 1, 1] for i in range(20)])
    source = lab.build(bottom(lab.boxes(boxes), flags=flags))
    apart = np.zeros((20, 8), np.float32)
    apart[:, :6] = boxes[::-1] * 1.5
    desc = lab.boxes(boxes)
    desc = replace(desc, aabbs=replace(desc.aabbs, aabbs=address_and_stride(lab.put(apart), 32)))
    updated = lab.update(source, bottom(desc, flags=flags))
    origins = [(1.5 * i + 0.7, 0.7, -5.0) for i in range(20)]
    assert_equal_hits(lab.trace(lab.tlas(updated), origins), lab.trace(lab.tlas(lab.blas(desc)), origins))


@pytest.mark.rule("UPD-11")
@pytest.mark.parametrize("flags", [UPDATE, UPDATE | SMALL | FAST_TRACE], ids=str)
def test_everything_in_an_instance_may_change_but_not_their_number(flags: BuildFlag) -> None:
    lab = Lab()
    blas, other = lab.blas(), lab.blas(lab.triangles(*sphere()))
    random = np.random.default_rng(1)

    def descs(seed: int, target: int) -> list[InstanceDesc]:
        return [
            InstanceDesc(
                np.concatenate([np.eye(3) * (1 + seed), random.uniform(-4, 4, (3, 1))], 1),
                seed * 10 + i, 0xFF - seed, i * seed, seed & 3, 0 if i == 4 else target,
            )
            for i in range(9)
        ]  # fmt: skip

    first = lab.instances(*descs(0, blas), flags=flags)
    source = lab.build(first)
    second_descs = descs(1, other)
    second = lab.instances(*second_descs, flags=flags)
    updated = lab.update(source, second)
    rays = rays_at((0, 0, 0), 500)
    assert_equal_hits(lab.trace(updated, *rays), lab.trace(lab.build(second), *rays))
    assert lab.structure(updated).instance_descs.tobytes() == b"".join(d.to_bytes() for d in second_descs)
    pointers = lab.instances(*second_descs, flags=flags, layout=ElementsLayout.ARRAY_OF_POINTERS)
    again = lab.update(source, pointers)
    np.testing.assert_array_equal(lab.structure(again).data, lab.structure(updated).data)
    for count in (8, 10):
        fewer = lab.instances(*(second_descs + second_descs)[:count], flags=flags)
        build = update_desc(lab, fewer, source)
        with lab.refused("UPD-11"):
            lab.device.build(build)


@pytest.mark.rule("UPD-12")
def test_an_instance_does_not_change_between_null_and_a_bottom_level() -> None:
    lab = Lab()
    blas, empty = lab.blas(), lab.build(bottom())
    full, null = InstanceDesc(acceleration_structure=blas), InstanceDesc()
    for first, second in ((full, null), (null, full)):
        source = lab.build(lab.instances(full, first, flags=UPDATE))
        build = update_desc(lab, lab.instances(full, second, flags=UPDATE), source)
        with lab.refused("UPD-12") as error:
            lab.device.build(build)
        assert "InstanceDescs[1]" in str(error[0])
    # The sanctioned way to appear later: a degenerate instance.
    source = lab.build(lab.instances(InstanceDesc(acceleration_structure=empty), flags=UPDATE))
    assert not lab.trace(source).hit.any()
    assert lab.trace(lab.update(source, lab.instances(full, flags=UPDATE))).hit.all()


@pytest.mark.rule("UPD-13")
@pytest.mark.parametrize("flags", [UPDATE, UPDATE | SMALL, UPDATE | FAST_TRACE, UPDATE | FAST_BUILD], ids=str)
def test_an_update_hits_as_a_rebuild_does(flags: BuildFlag) -> None:
    lab = Lab()
    vertices, indices = sphere(3)
    source = lab.build(bottom(lab.triangles(vertices, indices), flags=flags))
    for seed in range(3):
        inputs = bottom(lab.triangles(deformed(vertices, seed), indices), flags=flags)
        updated, fresh = lab.update(source, inputs), lab.build(inputs)
        rays = rays_at((0, 0, 0), 1000, seed)
        assert_equal_hits(lab.trace(lab.tlas(updated), *rays), lab.trace(lab.tlas(fresh), *rays))


@pytest.mark.rule("INA-7", "UPD-16", "DEG-2")
@pytest.mark.parametrize("flags", [UPDATE, UPDATE | SMALL], ids=str)
def test_activity_stays_but_degenerates_come_and_go(flags: BuildFlag) -> None:
    lab = Lab()
    alive = np.stack([TRIANGLE, moved(TRIANGLE, 3)])
    gone, flat = alive.copy(), alive.copy()
    gone[1, 0, 0] = NAN
    flat[1] = flat[1, 0]
    inputs = {
        name: bottom(lab.triangles(points), flags=flags)
        for name, points in (("alive", alive), ("gone", gone), ("flat", flat))
    }
    for first, second in (("alive", "gone"), ("gone", "alive"), ("flat", "gone"), ("gone", "flat")):
        source = lab.build(inputs[first])
        build = update_desc(lab, inputs[second], source)
        with lab.refused("INA-7") as error:
            lab.device.build(build)
        assert "primitive 1" in str(error[0])
    origins = [(0.2, 0.2, -5), (3.2, 0.2, -5)]
    revived = lab.update(lab.build(inputs["flat"]), inputs["alive"])
    assert lab.trace(lab.tlas(revived), origins).hit.tolist() == [True, True]
    flattened = lab.update(revived, inputs["flat"])
    assert lab.trace(lab.tlas(flattened), origins).hit.tolist() == [True, False]
    assert lab.trace(lab.tlas(lab.update(flattened, inputs["alive"])), origins).hit.tolist() == [True, True]
    boxes = np.tile(BOX, (2, 1))
    dead = boxes.copy()
    dead[0, 0] = NAN
    source = lab.build(bottom(lab.boxes(boxes), flags=flags))
    build = update_desc(lab, bottom(lab.boxes(dead), flags=flags), source)
    with lab.refused("INA-7"):
        lab.device.build(build)


@pytest.mark.rule("UPD-16", "INA-3")
def test_nan_elsewhere_is_refused_in_updates_too() -> None:
    lab = Lab()
    source = lab.build(bottom(lab.triangles(TRIANGLE)))
    broken = TRIANGLE.copy()
    broken[2, 2] = NAN
    build = update_desc(lab, bottom(lab.triangles(broken)), source)
    with lab.refused("INA-3"):
        lab.device.build(build)


@pytest.mark.rule("ERR-3", "UPD-8", "UPD-9")
def test_violations_of_an_update_come_together() -> None:
    lab = Lab()
    source = lab.build(bottom(lab.triangles(TRIANGLE)))
    changed = lab.triangles(TRIANGLE, transform=np.eye(3, 4), flags=1)
    build = update_desc(lab, bottom(changed, flags=UPDATE | SMALL), source)
    with lab.refused("ALIGN-2", "UPD-2", "UPD-8", "UPD-9"):
        scratch = build.scratch_acceleration_structure_data + 8
        lab.device.build(replace(build, scratch_acceleration_structure_data=scratch))
