"""Copies and postbuild infos by addresses: modes, sizes, foreign bytes."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.device.buffers import AS, SRV, UAV
from rtviewer.dxr.flags import (
    BuildFlag,
    CopyMode,
    PostbuildInfoType,
)
from rtviewer.dxr.layouts import INSTANCE_DESC, TOOLS_VISUALIZATION_HEADER
from rtviewer.dxr.profile import Profile, Tier
from rtviewer.dxr.raw_descs import BuildInputs, GeometryDesc, InstanceDesc, PostbuildInfoDesc
from tests.unit.device.scenes import (
    BOX,
    NOWHERE,
    TRIANGLE,
    XBOX,
    Lab,
    assert_equal_hits,
    bottom,
    header_of,
    moved,
    rays_at,
    sphere,
)

UPDATE, COMPACTION = BuildFlag.ALLOW_UPDATE, BuildFlag.ALLOW_COMPACTION
SMALL = BuildFlag.MINIMIZE_MEMORY
CLONE, COMPACT, DECODE = CopyMode.CLONE, CopyMode.COMPACT, CopyMode.VISUALIZATION_DECODE_FOR_TOOLS
SERIALIZE, DESERIALIZE = CopyMode.SERIALIZE, CopyMode.DESERIALIZE
LIVE_MODES = [CLONE, COMPACT, DECODE, SERIALIZE]


def state_for(mode: CopyMode) -> object:
    return UAV if mode in (DECODE, SERIALIZE) else AS


# --- common -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("CP-1", "XB-1", "XB-2", "XB-15", "XB-16")
@pytest.mark.parametrize("mode", [5, 6, 99, 0x80000005, 0x80000006, 0x80000004])
def test_other_modes(mode: int) -> None:
    assert int(np.uint32(mode)) == mode
    for lab in (Lab(), Lab(XBOX)):
        blas = lab.ball()
        dest = lab.buffer(1 << 20, UAV).address
        deprecated = lab.device.profile.xbox and mode in (0x80000005, 0x80000006)
        with lab.refused("XB-15" if deprecated else "CP-1") as error:
            lab.device.copy(dest, blas, mode)
        assert ("DEHYDRATE" in str(error[0])) == deprecated


@pytest.mark.rule("CP-2", "ALIGN-9")
@pytest.mark.parametrize("mode", list(CopyMode)[:5], ids=lambda m: m.name)
def test_both_sides_stand_at_multiples_of_256_in_every_mode(mode: CopyMode) -> None:
    lab = Lab()
    source = lab.serialized(lab.ball()).address if mode is DESERIALIZE else lab.ball()
    dest = lab.buffer(1 << 20, state_for(mode)).address  # type: ignore[arg-type]
    with lab.refused("ALIGN-9", "CP-2"):
        lab.device.copy(dest + 128, source, mode)
    missing = "CP-6" if mode is not DESERIALIZE else "SER-12"
    with lab.refused("ALIGN-9", "CP-2", missing):
        lab.device.copy(dest, source + 128, mode)
    lab.device.copy(dest, source, mode)


@pytest.mark.rule("CP-3")
def test_ranges_must_not_overlap_equality_included() -> None:
    lab = Lab()
    size = lab.structure(lab.ball()).size
    room = lab.buffer(3 * size, AS, "room").address
    source = lab.ball(dest=room + size)
    for mode in (CLONE, COMPACT):
        for offset in (0, -256, 256):
            with lab.refused("CP-3"):
                lab.device.copy(source + offset, source, mode)
        lab.device.copy(room + 2 * size, source, mode)
    with lab.refused("CP-3"):
        lab.device.copy(source - size + 256, source, CLONE)
    blob = lab.serialized(source).read()
    lab.buffer_at(room).write(blob)
    with lab.refused("CP-3", "ST-1"):
        lab.device.copy(room + 256, room, DESERIALIZE)
    with lab.refused("ST-1"):
        lab.device.copy(room + 2 * size, room, DESERIALIZE)


@pytest.mark.rule("CP-4", "CP-5", "VIS-10", "SER-7")
@pytest.mark.parametrize("mode", LIVE_MODES, ids=lambda m: m.name)
def test_a_copy_leaves_its_source_and_needs_no_other_structure(mode: CopyMode) -> None:
    lab = Lab()
    blas = lab.ball()
    tlas = lab.tlas(blas, flags=COMPACTION)
    before = lab.structure(tlas).data.tobytes()
    lab.device.free(lab.buffer_at(blas))
    lab.copy(tlas, mode)
    assert lab.structure(tlas).data.tobytes() == before


@pytest.mark.rule("CP-6")
def test_the_source_must_be_what_the_mode_expects() -> None:
    lab = Lab()
    blas = lab.ball()
    blob = lab.serialized(blas).address
    empty = lab.buffer(1 << 16, AS).address
    dest = {True: lab.buffer(1 << 20, AS).address, False: lab.buffer(1 << 20, UAV).address}
    for mode in LIVE_MODES:
        target = dest[mode in (CLONE, COMPACT)]
        for nothing in (empty, NOWHERE, 0):
            with lab.refused("CP-6"):
                lab.device.copy(target, nothing, mode)
        with lab.refused("CP-6", "ST-1"):
            lab.device.copy(target, blob, mode)
    with lab.refused("SER-12", "ST-1"):
        lab.device.copy(dest[True], blas, DESERIALIZE)
    for nothing in (NOWHERE, 0):
        with lab.refused("CP-6"):
            lab.device.copy(dest[True], nothing, DESERIALIZE)


@pytest.mark.rule("CP-7")
def test_bytes_that_were_not_copied_by_a_copy_are_no_structure() -> None:
    lab = Lab()
    blas = lab.ball()
    tlas = lab.tlas(blas)
    twin = lab.buffer(lab.buffer_at(tlas).size, AS)
    twin.write(lab.buffer_at(tlas).read())
    with lab.refused("CP-7"):
        lab.trace(twin.address)
    with lab.refused("CP-7"):
        lab.copy(twin.address, CLONE)
    with lab.refused("CP-7"):
        lab.postbuild(PostbuildInfoType.CURRENT_SIZE, twin.address)
    build = lab.build_desc(lab.instances(InstanceDesc(acceleration_structure=twin.address)))
    with lab.refused("BLD-10", "CP-7"):
        lab.device.build(build)
    # One byte changed in place, by a pointer that the device knows nothing of.
    last = lab.buffer_at(blas).view()[-1:]
    last[0] ^= 1
    with lab.refused("CP-7") as error:
        lab.trace(tlas)
    assert f"{blas:#x}" in str(error[0])
    last[0] ^= 1
    assert lab.trace(tlas, (0, 0, -5)).hit.all()
    # A copy call makes it whole.
    lab.device.copy(twin.address, tlas, CLONE)
    assert lab.trace(twin.address, (0, 0, -5)).hit.all()


@pytest.mark.rule("CP-7")
def test_the_device_remembers_what_it_wrote() -> None:
    lab = Lab()
    room = lab.buffer(1 << 16, AS, "room").address
    first = lab.build(bottom(lab.triangles(TRIANGLE)), dest=room + 512)
    record = lab.device.record_at(first)
    assert record is not None
    lab.build(bottom(lab.triangles(TRIANGLE)), dest=room)  # runs into the first
    assert lab.device.record_at(first) is None
    again = lab.device.record_at(room)
    assert again is not None
    assert again.generation > record.generation
    assert again.content_hash == record.content_hash  # equal inputs, equal bytes, whatever the address
    with lab.refused("BLD-10"):
        lab.trace(first)


@pytest.mark.rule("CP-8", "CP-11")
@pytest.mark.parametrize("mode", list(CopyMode)[:5], ids=lambda m: m.name)
def test_the_destination_takes_exactly_the_size_reported(mode: CopyMode) -> None:
    lab = Lab()
    blas = lab.ball()
    if mode is DESERIALIZE:
        source_buffer = lab.serialized(blas)
        source, size = source_buffer.address, int(header_of(source_buffer)["DeserializedSizeInBytes"])
    else:
        source, size = blas, lab.copy_size(blas, mode)
    state = state_for(mode)
    short = lab.buffer(size - 1, state).address  # type: ignore[arg-type]
    with lab.refused("CP-8"):
        lab.device.copy(short, source, mode)
    for nothing in (0, NOWHERE):
        with lab.refused("CP-8"):
            lab.device.copy(nothing, source, mode)
    exact = lab.buffer(size, state)  # type: ignore[arg-type]
    lab.device.copy(exact.address, source, mode)
    if mode in (CLONE, COMPACT, DESERIALIZE):
        assert lab.structure(exact.address).size == size
    wrong = lab.buffer(size, UAV if state == AS else AS).address
    with lab.refused("ST-1"):
        lab.device.copy(wrong, source, mode)


@pytest.mark.rule("CP-9", "CP-10", "CP-11", "CP-14", "BF-9", "VIS-9", "POST-14")
@pytest.mark.parametrize("flags", [COMPACTION, COMPACTION | UPDATE, COMPACTION | SMALL], ids=str)
def test_copies_trace_like_their_source(flags: BuildFlag) -> None:
    lab = Lab()
    vertices, indices = sphere(3)
    made = {"triangles": lab.triangles(vertices, indices), "boxes": lab.boxes(np.tile(BOX, (9, 1)))}
    rays = rays_at((0, 0, 0), 10_000)
    for desc in made.values():
        blas = lab.blas(desc, flags=flags)
        wanted = lab.trace(lab.tlas(blas), *rays)
        clone, compacted = lab.copy(blas, CLONE), lab.copy(blas, COMPACT)
        for copy in (
            clone,
            lab.copy(clone, CLONE),
            compacted,
            lab.copy(compacted, COMPACT),
            lab.deserialize(lab.serialized(blas)),
        ):
            assert lab.structure(copy).build_flags == flags
            assert_equal_hits(lab.trace(lab.tlas(copy), *rays), wanted)
            tlas = lab.tlas(copy, flags=flags)
            for mode in (CLONE, COMPACT):
                assert_equal_hits(lab.trace(lab.copy(tlas, mode), *rays), wanted)
            # Decodes differ in nothing but the addresses of the buffer they stand in, infos in nothing at all.
            a, b = (lab.buffer_at(lab.copy(x, DECODE)) for x in (blas, copy))
            np.testing.assert_array_equal(a.view()[64:], b.view()[64:])


@pytest.mark.rule("CP-12", "POST-4")
def test_compaction_needs_its_flag() -> None:
    lab = Lab()
    blas = lab.ball(flags=0)
    with lab.refused("CP-12"):
        lab.device.copy(lab.buffer(1 << 20, AS).address, blas, COMPACT)
    with lab.refused("POST-4"):
        lab.postbuild(PostbuildInfoType.COMPACTED_SIZE, blas)


@pytest.mark.rule("CP-13", "CP-14", "CP-15", "POST-5", "POST-6", "POST-7", "POST-8", "BF-4")
@pytest.mark.parametrize("small", [BuildFlag.NONE, SMALL], ids=["plain", "small"])
def test_sizes_along_a_life(small: BuildFlag) -> None:
    lab = Lab()
    vertices, indices = sphere(3)
    inputs = bottom(lab.triangles(vertices, indices), flags=UPDATE | COMPACTION | small)
    info = lab.device.get_prebuild_info(inputs)
    built = lab.build(inputs)

    def current(address: int) -> int:
        return lab.postbuild(PostbuildInfoType.CURRENT_SIZE, address)[0]

    def compacted(address: int) -> int:
        return lab.postbuild(PostbuildInfoType.COMPACTED_SIZE, address)[0]

    assert current(built) == info.result_data_max_size_in_bytes
    first = lab.copy(built, COMPACT)
    assert 0 < current(first) == compacted(built) <= current(built)
    updated = lab.update(first, bottom(lab.triangles(vertices * 2, indices), flags=UPDATE | COMPACTION | small))
    assert current(updated) == current(first)
    final = lab.update(updated, bottom(lab.triangles(vertices * 3, indices), flags=COMPACTION | small))
    second = lab.copy(final, COMPACT)
    assert current(second) == compacted(final) < current(first)
    with lab.refused("UPD-1"):
        lab.update(second, bottom(lab.triangles(vertices, indices), flags=COMPACTION | small))
    rays = rays_at((0, 0, 0), 300)
    fresh = lab.blas(lab.triangles(vertices * 3, indices), flags=small)
    assert_equal_hits(lab.trace(lab.tlas(second), *rays), lab.trace(lab.tlas(fresh), *rays))
    without = lab.device.get_prebuild_info(bottom(lab.triangles(vertices, indices), flags=small))
    assert current(second) <= without.result_data_max_size_in_bytes


@pytest.mark.rule("CP-16")
def test_copies_of_a_top_level_keep_their_pointers() -> None:
    lab = Lab()
    blas = lab.blas(flags=COMPACTION)
    tlas = lab.tlas(blas, flags=COMPACTION)
    elsewhere = lab.copy(blas, COMPACT)
    for copy in (tlas, lab.copy(tlas, CLONE), lab.copy(tlas, COMPACT)):
        assert lab.trace(copy).hit.all()
        assert lab.structure(copy).instance_descs["AccelerationStructure"].tolist() == [blas]
    lab.device.free(lab.buffer_at(blas))
    with lab.refused("BLD-10"):
        lab.trace(tlas)
    assert lab.trace(lab.tlas(elsewhere)).hit.all()


@pytest.mark.rule("BLD-6", "CP-10")
def test_a_copy_of_a_stale_top_level_is_stale() -> None:
    lab = Lab()
    inputs = bottom(lab.triangles(TRIANGLE), flags=UPDATE)
    blas = lab.build(inputs)
    tlas = lab.tlas(blas)
    lab.update(blas, bottom(lab.triangles(moved(TRIANGLE, 1)), flags=UPDATE), in_place=True)
    clone = lab.copy(tlas, CLONE)
    with lab.refused("BLD-6"):
        lab.trace(clone)


# --- decode -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("LAY-3", "VIS-1", "VIS-2", "VIS-13", "ALIGN-3")
def test_decoded_instances_stand_at_eight_modulo_sixteen() -> None:
    lab = Lab()
    blas = lab.blas()
    descs = [InstanceDesc(instance_id=5, acceleration_structure=blas), InstanceDesc()]
    tlas = lab.tlas(*descs)
    decode = lab.buffer_at(lab.copy(tlas, DECODE))
    lab.device.transition(decode, SRV)
    assert decode.view(TOOLS_VISUALIZATION_HEADER, 0, 1)[0].tolist() == (0, 2)
    raw = decode.read(2 * INSTANCE_DESC.itemsize, 8)
    assert raw == b"".join(d.to_bytes() for d in descs)
    build = lab.build_desc(BuildInputs.top_level(2, decode.address + 8))
    with lab.refused("ALIGN-3"):
        lab.device.build(build)
    again = lab.build(BuildInputs.top_level(2, lab.put(raw)))
    np.testing.assert_array_equal(lab.structure(again).data, lab.structure(tlas).data)


@pytest.mark.rule("VIS-1", "VIS-14", "VIS-16")
def test_a_decode_can_be_built_from_where_it_stands() -> None:
    """Its addresses point into the very buffer that it was written to."""
    lab = Lab()
    vertices, indices = sphere()
    blas = lab.blas(lab.triangles(vertices, indices, np.eye(3, 4) * 2), lab.triangles(TRIANGLE, flags=1))
    decode = lab.buffer_at(lab.copy(blas, DECODE))
    lab.device.transition(decode, SRV)
    count = int(decode.view(TOOLS_VISUALIZATION_HEADER, 0, 1)[0]["NumDescs"])
    descs = [GeometryDesc.from_bytes(decode.read(56, 8 + 56 * i)) for i in range(count)]
    for desc in descs:
        start = desc.triangles.vertex_buffer.start_address
        assert decode.address < start < decode.address + decode.size
    again = lab.blas(*descs)
    rays = rays_at((0, 0, 0), 500)
    assert_equal_hits(lab.trace(lab.tlas(again), *rays), lab.trace(lab.tlas(blas), *rays))


# --- infos --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("POST-1", "ALIGN-8", "ST-1", "XB-19")
@pytest.mark.parametrize("profile", [Profile(), XBOX], ids=str)
def test_where_infos_go(profile: Profile) -> None:
    lab = Lab(profile)
    blas = lab.ball()
    dest = lab.buffer(64, UAV).address
    kind = PostbuildInfoType.CURRENT_SIZE
    for bad in (4, 99, 0x80000004, 0xFFFFFFFF):
        with lab.refused("POST-1"):
            lab.device.emit_postbuild_info(PostbuildInfoDesc(dest, bad), [blas])
    with lab.refused("ALIGN-8", "POST-1"):
        lab.device.emit_postbuild_info(PostbuildInfoDesc(dest + 4, kind), [blas])
    for nothing in (0, NOWHERE):
        with lab.refused("POST-1"):
            lab.device.emit_postbuild_info(PostbuildInfoDesc(nothing, kind), [blas])
    with lab.refused("POST-1"):
        lab.device.emit_postbuild_info(PostbuildInfoDesc(dest, kind), [blas] * 9)
    lab.device.emit_postbuild_info(PostbuildInfoDesc(dest, kind), [blas] * 8)


@pytest.mark.rule("POST-3", "POST-12")
@pytest.mark.parametrize("kind", list(PostbuildInfoType), ids=lambda k: k.name)
def test_one_output_per_source_in_order(kind: PostbuildInfoType) -> None:
    lab = Lab()
    sources = [lab.ball(), lab.blas(flags=COMPACTION), lab.tlas(lab.blas(), flags=COMPACTION)]
    together = lab.postbuild(kind, *sources)
    assert together == [word for source in sources for word in lab.postbuild(kind, source)]
    words = 2 if kind is PostbuildInfoType.SERIALIZATION else 1
    assert len(together) == 3 * words
    dest = lab.buffer(8 * len(together) + 16, UAV)
    dest.write(b"\xcc" * dest.size)
    lab.device.emit_postbuild_info(PostbuildInfoDesc(dest.address, kind), sources)
    assert dest.read(16, 8 * len(together)) == b"\xcc" * 16


@pytest.mark.rule("POST-13", "ALIGN-1")
def test_sources_of_infos_are_live_structures() -> None:
    lab = Lab()
    blas = lab.ball()
    blob = lab.serialized(blas).address
    freed = lab.ball()
    lab.device.free(lab.buffer_at(freed))
    for source, rules in (
        (lab.buffer(1 << 12, AS).address, ("POST-13",)),
        (freed, ("POST-13",)),
        (NOWHERE, ("POST-13",)),
        (0, ("POST-13",)),
        (blas + 128, ("ALIGN-1", "POST-13")),
        (blob, ("POST-13", "ST-1")),
    ):
        with lab.refused(*rules):
            lab.postbuild(PostbuildInfoType.CURRENT_SIZE, blas, source)


@pytest.mark.rule("POST-5", "POST-8", "POST-14")
def test_size_relations_of_every_structure() -> None:
    lab = Lab()
    blas = lab.ball(flags=UPDATE | COMPACTION)
    tlas = lab.tlas(blas, blas, flags=UPDATE | COMPACTION)
    for made in (blas, tlas):
        everything = [
            made,
            *(lab.copy(made, mode) for mode in (CLONE, COMPACT)),
            lab.deserialize(lab.serialized(made)),
        ]
        current = [lab.postbuild(PostbuildInfoType.CURRENT_SIZE, x)[0] for x in everything]
        compacted = [lab.postbuild(PostbuildInfoType.COMPACTED_SIZE, x)[0] for x in everything]
        assert current[1] == current[0]
        assert current[2] == compacted[0]
        assert current[3] <= current[0]
        assert all(0 < c <= size for c, size in zip(compacted, current, strict=True))
        assert len({lab.postbuild(PostbuildInfoType.SERIALIZATION, x)[1] for x in everything}) == 1
        assert len({lab.postbuild(PostbuildInfoType.TOOLS_VISUALIZATION, x)[0] for x in everything}) == 1


@pytest.mark.rule("PROF-1")
def test_copies_are_the_same_in_every_tier() -> None:
    for tier in Tier:
        lab = Lab(Profile(tier))
        blas = lab.ball()
        for mode in LIVE_MODES:
            lab.copy(blas, mode)
