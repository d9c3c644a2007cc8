"""Copies and postbuild infos by addresses: modes, sizes, blobs, pointers, foreign bytes."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.device.buffers import AS, SRV, UAV, Buffer
from rtviewer.dxr.flags import (
    BuildFlag,
    CopyMode,
    DriverMatchingIdentifierStatus,
    PostbuildInfoType,
    SerializedDataType,
)
from rtviewer.dxr.layouts import INSTANCE_DESC, SERIALIZED_HEADER1, TOOLS_VISUALIZATION_HEADER
from rtviewer.dxr.profile import Profile, Tier
from rtviewer.dxr.raw_descs import BuildInputs, GeometryDesc, InstanceDesc, PostbuildInfoDesc
from tests.unit.device.scenes import (
    BOX,
    NOWHERE,
    TRIANGLE,
    XBOX,
    Lab,
    assert_equal_hits,
    moved,
    rays_at,
    sphere,
)

UPDATE, COMPACTION = BuildFlag.ALLOW_UPDATE, BuildFlag.ALLOW_COMPACTION
SMALL = BuildFlag.MINIMIZE_MEMORY
CLONE, COMPACT, DECODE = CopyMode.CLONE, CopyMode.COMPACT, CopyMode.VISUALIZATION_DECODE_FOR_TOOLS
SERIALIZE, DESERIALIZE = CopyMode.SERIALIZE, CopyMode.DESERIALIZE
LIVE_MODES = [CLONE, COMPACT, DECODE, SERIALIZE]


def bottom(*descs: GeometryDesc, flags: int = 0) -> BuildInputs:
    return BuildInputs.bottom_level(descs, flags)


def ball(lab: Lab, flags: int = COMPACTION, **more: object) -> int:
    return lab.blas(lab.triangles(*sphere(3)), flags=flags, **more)


def state_for(mode: CopyMode) -> object:
    return UAV if mode in (DECODE, SERIALIZE) else AS


def header_of(blob: Buffer) -> np.void:
    return blob.view(SERIALIZED_HEADER1, 0, 1)[0]  # type: ignore[no-any-return]


def deserialize(lab: Lab, blob: Buffer) -> int:
    return lab.copy(blob.address, DESERIALIZE)


# --- common -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("CP-1", "XB-1", "XB-2", "XB-15", "XB-16")
@pytest.mark.parametrize("mode", [5, 6, 99, 0x80000005, 0x80000006, 0x80000004])
def test_other_modes(mode: int) -> None:
    assert int(np.uint32(mode)) == mode
    for lab in (Lab(), Lab(XBOX)):
        blas = ball(lab)
        dest = lab.buffer(1 << 20, UAV).address
        deprecated = lab.device.profile.xbox and mode in (0x80000005, 0x80000006)
        with lab.refused("XB-15" if deprecated else "CP-1") as error:
            lab.device.copy(dest, blas, mode)
        assert ("DEHYDRATE" in str(error[0])) == deprecated


@pytest.mark.rule("CP-2", "ALIGN-9")
@pytest.mark.parametrize("mode", list(CopyMode)[:5], ids=lambda m: m.name)
def test_both_sides_stand_at_multiples_of_256_in_every_mode(mode: CopyMode) -> None:
    lab = Lab()
    source = lab.serialized(ball(lab)).address if mode is DESERIALIZE else ball(lab)
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
    size = lab.structure(ball(lab)).size
    room = lab.buffer(3 * size, AS, "room").address
    source = ball(lab, dest=room + size)
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
    blas = ball(lab)
    tlas = lab.tlas(blas, flags=COMPACTION)
    before = lab.structure(tlas).data.tobytes()
    lab.device.free(lab.buffer_at(blas))
    lab.copy(tlas, mode)
    assert lab.structure(tlas).data.tobytes() == before


@pytest.mark.rule("CP-6")
def test_the_source_must_be_what_the_mode_expects() -> None:
    lab = Lab()
    blas = ball(lab)
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
    blas = ball(lab)
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
    blas = ball(lab)
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
            deserialize(lab, lab.serialized(blas)),
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
    blas = ball(lab, flags=0)
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


# --- blobs --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("SER-1", "SER-2", "SER-3", "SER-11", "POST-9", "POST-10")
def test_sizes_of_blobs_and_decodes_are_those_reported() -> None:
    lab = Lab()
    blas, tlas_count = ball(lab), 5
    tlas = lab.tlas(*[blas] * tlas_count)
    for address, pointers in ((blas, 0), (tlas, tlas_count)):
        size, count = lab.postbuild(PostbuildInfoType.SERIALIZATION, address)
        blob = lab.serialized(address)
        header = header_of(blob)
        assert (blob.size, count) == (size, pointers)
        assert int(header["SerializedSizeInBytesIncludingHeader"]) == size >= 56 + 8 * pointers
        assert 0 < int(header["DeserializedSizeInBytes"]) <= lab.structure(address).size
        assert int(blob.view(np.uint64, 48, 1)[0]) == pointers
        assert lab.structure(deserialize(lab, blob)).size == int(header["DeserializedSizeInBytes"])
        decoded = lab.postbuild(PostbuildInfoType.TOOLS_VISUALIZATION, address)[0]
        assert decoded >= (8 + 64 * pointers if pointers else 8 + 56)
        guarded = lab.buffer(decoded + 256, UAV)
        guarded.write(np.full(guarded.size, 0xAA, np.uint8))
        lab.device.copy(guarded.address, address, DECODE)
        assert guarded.read(256, decoded) == b"\xaa" * 256
        assert guarded.read(8, decoded - 8) != b"\xaa" * 8


@pytest.mark.rule("SER-4", "SER-5", "SER-6", "SER-13")
def test_pointers_are_patched_and_judged() -> None:
    lab = Lab()
    one, two = lab.blas(), lab.blas(lab.triangles(moved(TRIANGLE, 3)))
    tlas = lab.tlas(one, two, InstanceDesc(), one, two)
    blob = lab.serialized(tlas)
    pointers = blob.view(np.uint64, 56, 5)
    assert pointers.tolist() == [one, two, 0, one, two]
    new = {one: lab.copy(one, CLONE), two: lab.copy(two, CLONE), 0: 0}
    lab.device.free(lab.buffer_at(one))
    lab.device.free(lab.buffer_at(two))
    original = pointers.copy()
    for i, wrong in ((1, new[two] + 128), (2, new[one]), (0, 0)):
        pointers[:] = [new[int(p)] for p in original]
        pointers[i] = wrong
        with lab.refused("SER-6") as error:
            deserialize(lab, blob)
        assert str(i) in str(error[0])
    pointers[:] = original
    dead = deserialize(lab, blob)  # what lives there is asked later
    with lab.refused_only("BLD-10"):
        lab.trace(dead)
    pointers[:] = [new[int(p)] for p in original]
    alive = deserialize(lab, blob)
    origins = [(0.2, 0.2, -5), (3.2, 0.2, -5)]
    assert lab.trace(alive, origins).instance_index.tolist() == [3, 4]
    assert lab.structure(alive).instance_descs["AccelerationStructure"].tolist() == pointers.tolist()
    assert lab.serialized(alive).read() == blob.read()


@pytest.mark.rule("SER-5", "SER-7", "BLD-6")
def test_blobs_are_read_in_any_order() -> None:
    lab = Lab()
    blas = lab.blas()
    tlas = lab.tlas(blas)
    blas_blob = lab.serialized(blas)
    lab.device.free(lab.buffer_at(blas))
    tlas_blob = lab.serialized(tlas)
    room = lab.buffer(1 << 16, AS, "room").address
    tlas_blob.view(np.uint64, 56, 1)[0] = room
    restored = deserialize(lab, tlas_blob)
    with lab.refused("BLD-10"):
        lab.trace(restored)
    lab.device.copy(room, blas_blob.address, DESERIALIZE)
    assert lab.trace(restored).t.tolist() == [5.0]
    lab.device.copy(room, blas_blob.address, DESERIALIZE)  # from its first trace on it is bound
    with lab.refused("BLD-6"):
        lab.trace(restored)


@pytest.mark.rule("SER-8", "SER-9", "SER-10")
def test_identifiers() -> None:
    lab = Lab()
    blob = lab.serialized(ball(lab))
    check = lab.device.check_driver_matching_identifier
    kind, other = SerializedDataType.RAYTRACING_ACCELERATION_STRUCTURE, SerializedDataType(1)
    good = blob.read(32)
    status = DriverMatchingIdentifierStatus
    assert check(kind, good) is status.COMPATIBLE_WITH_DEVICE
    for at, wanted in ((0, status.UNRECOGNIZED), (15, status.UNRECOGNIZED), (16, status.INCOMPATIBLE_VERSION)):
        changed = bytearray(good)
        changed[at] ^= 0x40
        assert check(kind, bytes(changed)) is wanted
        blob.write(bytes(changed))
        with lab.refused("SER-8"):
            deserialize(lab, blob)
    blob.write(good)
    deserialize(lab, blob)
    random = np.random.default_rng(2)
    for _ in range(50):
        garbage = random.integers(0, 256, 32, dtype=np.uint8).tobytes()
        assert check(kind, garbage) is status.UNRECOGNIZED
        for unsupported in (other, 2, 77):
            assert check(unsupported, garbage) is status.UNSUPPORTED_TYPE
    assert check(other, good) is status.UNSUPPORTED_TYPE


@pytest.mark.rule("SER-12", "SER-14")
def test_blobs_that_do_not_add_up() -> None:
    lab = Lab()
    blob = lab.serialized(lab.tlas(ball(lab)))
    good = blob.read()
    dest = lab.buffer(1 << 20, AS).address

    def patched(offset: int, value: int, size: int = 8) -> bytes:
        return good[:offset] + value.to_bytes(size, "little") + good[offset + size :]

    damaged = {
        "larger than the buffer": patched(32, len(good) + 1),
        "smaller than a header": patched(32, 55),
        "no room for pointers": patched(32, 60),
        "more pointers than bytes": patched(48, 0xFFFFFFFF, 4),
        "another postamble": patched(52, 7, 4),
        "blocks": patched(52, 0xFFFFFFFF, 4),
        "a flipped byte": good[:-100] + bytes([good[-100] ^ 1]) + good[-99:],
        "another size": patched(40, 1 << 40),
    }
    for data in damaged.values():
        blob.write(data)
        with lab.refused("SER-12"):
            lab.device.copy(dest, blob.address, DESERIALIZE)
    for length in (10, 56, 64, len(good) // 2, len(good) - 1):
        cut = lab.put(good[:length])
        with lab.refused("SER-12" if length >= 56 else "CP-6"):
            lab.device.copy(dest, cut, DESERIALIZE)
    blob.write(good)
    lab.device.copy(dest, blob.address, DESERIALIZE)
    longer = lab.put(good + bytes(1000))
    lab.device.copy(dest, longer, DESERIALIZE)


@pytest.mark.rule("ST-1")
def test_states_of_copies() -> None:
    lab = Lab()
    blob = lab.serialized(ball(lab))
    dest = lab.buffer(1 << 20, AS).address
    lab.device.transition(blob, UAV)
    with lab.refused("ST-1"):
        lab.device.copy(dest, blob.address, DESERIALIZE)


# --- infos --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("POST-1", "ALIGN-8", "ST-1", "XB-19")
@pytest.mark.parametrize("profile", [Profile(), XBOX], ids=str)
def test_where_infos_go(profile: Profile) -> None:
    lab = Lab(profile)
    blas = ball(lab)
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
    sources = [ball(lab), lab.blas(flags=COMPACTION), lab.tlas(lab.blas(), flags=COMPACTION)]
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
    blas = ball(lab)
    blob = lab.serialized(blas).address
    freed = ball(lab)
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
    blas = ball(lab, flags=UPDATE | COMPACTION)
    tlas = lab.tlas(blas, blas, flags=UPDATE | COMPACTION)
    for made in (blas, tlas):
        everything = [
            made,
            *(lab.copy(made, mode) for mode in (CLONE, COMPACT)),
            deserialize(lab, lab.serialized(made)),
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
        blas = ball(lab)
        for mode in LIVE_MODES:
            lab.copy(blas, mode)
