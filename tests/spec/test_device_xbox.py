"""Dehydration on a device with the Xbox profile: what it allows, what it refuses, and that nothing is lost."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest

from rtviewer.device.buffers import AS, UAV
from rtviewer.dxr.flags import BuildFlag, CopyMode, PostbuildInfoType, RayFlag
from rtviewer.dxr.raw_descs import BuildDesc, BuildInputs, GeometryDesc, InstanceDesc, PostbuildInfoDesc
from tests.unit.device.scenes import BOX, TRIANGLE, XBOX, Lab, assert_equal_hits, rays_at, sphere

DEHYDRATE = BuildFlag.DEHYDRATE
FAST_TRACE = BuildFlag.PREFER_FAST_TRACE


def bottom(*descs: GeometryDesc, flags: int = DEHYDRATE) -> BuildInputs:
    return BuildInputs.bottom_level(descs, flags)


def ball(lab: Lab, flags: int = DEHYDRATE) -> BuildInputs:
    return bottom(lab.triangles(*sphere(3)), flags=flags)


def refill(lab: Lab, source: int, inputs: BuildInputs, dest: int | None = None) -> int:
    size = lab.buffer_at(source).size
    target = lab.buffer(size, AS).address if dest is None else dest
    lab.device.rehydrate(BuildDesc(target, inputs, source))
    return target


@pytest.mark.rule("XB-1", "XB-2")
def test_the_values_belong_to_the_profile() -> None:
    assert int(np.uint32(DEHYDRATE)) == 0x40000000
    assert int(np.uint32(CopyMode.SERIALIZE_AND_COMPRESS)) == 0x80000005
    lab = Lab()
    with lab.refused("BF-1"):
        lab.device.get_prebuild_info(ball(lab))
    blas = lab.blas()
    with lab.refused("XB-1"):
        lab.device.rehydrate(BuildDesc(blas, ball(lab), blas))
    lab = Lab(XBOX)
    lab.trace(lab.tlas(lab.blas()), ray_flags=RayFlag.COHERENT_RAYS_HINT)


@pytest.mark.rule("XB-3", "XB-4", "XB-14")
@pytest.mark.parametrize("flags", [DEHYDRATE, DEHYDRATE | FAST_TRACE, DEHYDRATE | BuildFlag.MINIMIZE_MEMORY], ids=str)
def test_dehydrated_bytes_hold_no_coordinate_and_deflate_well(flags: BuildFlag) -> None:
    lab = Lab(XBOX)
    random = np.random.default_rng(1).uniform(2, 3, (300, 3)).astype(np.float32)
    inputs = bottom(lab.triangles(random), flags=flags)
    info = lab.device.get_prebuild_info(inputs)
    dry, plain = lab.build(inputs), lab.build(replace(inputs, flags=flags & ~DEHYDRATE))
    assert lab.postbuild(PostbuildInfoType.CURRENT_SIZE, dry) == [info.result_data_max_size_in_bytes]
    dry_bytes, plain_bytes = (lab.structure(a).data.tobytes() for a in (dry, plain))
    known = set(random.view(np.uint32).ravel().tolist())
    assert known & set(np.frombuffer(plain_bytes, np.uint32).tolist())
    assert not known & set(np.frombuffer(dry_bytes, np.uint32).tolist())
    assert len(zlib.compress(dry_bytes)) < len(zlib.compress(plain_bytes)) / 2


@pytest.mark.rule("XB-5", "BLD-10")
def test_every_forbidden_use_of_dehydrated_data() -> None:
    lab = Lab(XBOX)
    inputs = ball(lab)
    dry = lab.build(inputs)
    dest = {True: lab.buffer(1 << 20, AS).address, False: lab.buffer(1 << 20, UAV).address}
    for mode in list(CopyMode)[:4]:
        with lab.refused_with("XB-5"):
            lab.device.copy(dest[mode in (CopyMode.CLONE, CopyMode.COMPACT)], dry, mode)
    with lab.refused("XB-5"):
        lab.trace(dry)
    build = lab.build_desc(lab.instances(InstanceDesc(acceleration_structure=dry)))
    with lab.refused("BLD-10", "XB-5"):
        lab.device.build(build)
    update = BuildDesc(dest[True], replace(inputs, flags=BuildFlag.PERFORM_UPDATE), dry, dest[False])
    with lab.refused_with("XB-5"):
        lab.device.build(update)
    for kind in PostbuildInfoType:
        if kind is PostbuildInfoType.CURRENT_SIZE:
            lab.postbuild(kind, dry)
            continue
        with lab.refused_with("XB-5"):
            lab.postbuild(kind, dry)
    build = lab.build_desc(inputs)
    infos = lab.buffer(64, UAV).address
    for kind in (PostbuildInfoType.SERIALIZATION, PostbuildInfoType.TOOLS_VISUALIZATION):
        with lab.refused("XB-5"):
            lab.device.build(build, [PostbuildInfoDesc(infos, kind)])
    lab.device.build(build, [PostbuildInfoDesc(infos, PostbuildInfoType.CURRENT_SIZE)])
    # A bottom level that was dehydrated under a top level.
    room = lab.build(replace(inputs, flags=0))
    tlas = lab.tlas(room)
    lab.build(inputs, dest=room)
    with lab.refused("BLD-10", "XB-5"):
        lab.trace(tlas)


@pytest.mark.rule("XB-6", "CP-7")
def test_raw_bytes_are_stored_and_loaded() -> None:
    lab = Lab(XBOX)
    inputs = ball(lab)
    stored = lab.buffer_at(lab.build(inputs)).read()
    packed = zlib.compress(stored)
    later = Lab(XBOX)
    again = bottom(later.triangles(*sphere(3)))
    loaded = later.buffer(len(stored), AS, "loaded")
    loaded.write(zlib.decompress(packed))
    assert later.postbuild(PostbuildInfoType.CURRENT_SIZE, loaded.address) == [len(stored)]
    wet = refill(later, loaded.address, again)
    rays = rays_at((0, 0, 0), 300)
    plain = later.build(replace(again, flags=0))
    assert_equal_hits(later.trace(later.tlas(wet), *rays), later.trace(later.tlas(plain), *rays))
    damaged = bytearray(stored)
    damaged[600] ^= 0xFF  # inside the nodes
    loaded.write(bytes(damaged))
    with later.refused("XB-6"):
        refill(later, loaded.address, again)
    loaded.write(stored[:1000] + bytes(len(stored) - 1000))
    with later.refused("XB-6"):
        refill(later, loaded.address, again)


@pytest.mark.rule("XB-7", "XB-9", "XB-10", "XB-13")
@pytest.mark.parametrize("flags", [DEHYDRATE, DEHYDRATE | FAST_TRACE, DEHYDRATE | BuildFlag.MINIMIZE_MEMORY], ids=str)
def test_rehydration_in_place_and_apart_equals_a_normal_build(flags: BuildFlag) -> None:
    lab = Lab(XBOX)
    inputs = ball(lab, flags)
    plain = lab.structure(lab.build(replace(inputs, flags=flags & ~DEHYDRATE)))
    first, second, third = (lab.build(inputs) for _ in range(3))
    apart = refill(lab, first, inputs)
    refill(lab, second, inputs, dest=second)
    target = lab.buffer(plain.size, AS).address
    batch = [BuildDesc(third, inputs, third), BuildDesc(target, inputs, first)]
    made = lab.device.rehydrate(batch)
    assert [s.address for s in made] == [third, target]
    rays = rays_at((0, 0, 0), 500)
    wanted = lab.trace(lab.tlas(plain.address), *rays)
    for address in (apart, second, third, target):
        structure = lab.structure(address)
        assert structure.build_flags == flags & ~DEHYDRATE
        assert structure.size == plain.size
        assert_equal_hits(lab.trace(lab.tlas(address), *rays), wanted)
    assert lab.structure(second).data.tobytes() == plain.data.tobytes()


@pytest.mark.rule("XB-8")
def test_what_a_rehydration_is_given() -> None:
    lab = Lab(XBOX)
    inputs = ball(lab)
    dry, wet = lab.build(inputs), lab.build(replace(inputs, flags=0))
    dest = lab.buffer(lab.structure(dry).size, AS).address
    with lab.refused("XB-8"):
        lab.device.rehydrate(BuildDesc(dest, replace(inputs, flags=0), dry))
    with lab.refused("XB-8"):
        lab.device.rehydrate(BuildDesc(dest, inputs, wet))
    empty = lab.buffer(1 << 12, AS).address
    with lab.refused("XB-8"):
        lab.device.rehydrate(BuildDesc(dest, inputs, empty))
    top = replace(lab.instances(InstanceDesc()), flags=int(DEHYDRATE))
    with lab.refused("XB-8", "XB-12"):
        lab.device.rehydrate(BuildDesc(dest, top, dry))
    short = lab.buffer(lab.structure(dry).size - 1, AS).address
    with lab.refused("BLD-8"):
        lab.device.rehydrate(BuildDesc(short, inputs, dry))
    with lab.refused("ALIGN-1"):
        room = lab.buffer(1 << 20, AS).address
        lab.device.rehydrate(BuildDesc(room + 16, inputs, dry))


@pytest.mark.rule("XB-9", "ERR-1")
def test_overlaps_other_than_in_place() -> None:
    lab = Lab(XBOX)
    inputs = ball(lab)
    size = lab.device.get_prebuild_info(inputs).result_data_max_size_in_bytes
    room = lab.buffer(3 * size, AS).address
    dry = lab.build(inputs, dest=room)
    for offset in (256, size - 256):
        with lab.refused("XB-9"):
            lab.device.rehydrate(BuildDesc(room + offset, inputs, dry))
    other = lab.build(inputs)
    good = BuildDesc(room + size, inputs, other)
    with lab.refused("XB-9"):  # nothing of the batch is done
        lab.device.rehydrate([good, BuildDesc(room + size + 256, inputs, other)])
    lab.device.rehydrate([good, BuildDesc(room, inputs, dry)])


@pytest.mark.rule("XB-11")
@pytest.mark.parametrize("what", ["position", "index", "count", "format", "flags", "geometries", "transform"])
def test_other_inputs_are_detected(what: str) -> None:
    lab = Lab(XBOX)
    vertices, indices = sphere(2)
    dry = lab.build(bottom(lab.triangles(vertices, indices)))
    other_vertices, other_indices = vertices.copy(), indices.copy()
    other_vertices[5, 1] = np.nextafter(other_vertices[5, 1], np.float32(9))
    other_indices[7] = other_indices[7, [1, 2, 0]]
    changed = {
        "position": lambda: [lab.triangles(other_vertices, indices)],
        "index": lambda: [lab.triangles(vertices, other_indices)],
        "count": lambda: [lab.triangles(vertices, indices[:-1])],
        "format": lambda: [lab.triangles(vertices, indices, index_dtype=np.uint16)],
        "flags": lambda: [lab.triangles(vertices, indices, flags=1)],
        "geometries": lambda: [lab.triangles(vertices, indices), lab.triangles(TRIANGLE)],
        "transform": lambda: [lab.triangles(vertices, indices, np.eye(3, 4))],
    }
    inputs = bottom(*changed[what]())
    with lab.refused("XB-11"):
        refill(lab, dry, inputs, dest=dry)
    short = lab.buffer(lab.structure(dry).size - 1, AS).address
    with lab.refused("BLD-8", "XB-11"):
        refill(lab, dry, inputs, dest=short)
    refill(lab, dry, bottom(lab.triangles(vertices, indices)), dest=dry)


@pytest.mark.rule("XB-12")
@pytest.mark.parametrize(
    "other", [BuildFlag.ALLOW_UPDATE, BuildFlag.ALLOW_COMPACTION, BuildFlag.ALLOW_UPDATE | BuildFlag.ALLOW_COMPACTION]
)
def test_combinations_that_are_not_documented(other: BuildFlag) -> None:
    lab = Lab(XBOX)
    with lab.refused("XB-12"):
        lab.device.get_prebuild_info(ball(lab, DEHYDRATE | other))
    with lab.refused("XB-12"):
        lab.device.get_prebuild_info(bottom(lab.boxes(BOX)))
    with lab.refused("XB-12"):
        lab.device.get_prebuild_info(BuildInputs.top_level(1, 16, DEHYDRATE))
    updatable = ball(lab, BuildFlag.ALLOW_UPDATE)
    source = lab.build(updatable)
    desc = lab.build_desc(updatable)
    flags = DEHYDRATE | BuildFlag.PERFORM_UPDATE
    with lab.refused("UPD-2", "XB-12"):
        lab.device.build(
            replace(desc, inputs=replace(updatable, flags=flags), source_acceleration_structure_data=source)
        )
