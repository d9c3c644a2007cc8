"""Serialized blobs on a device: sizes, pointers, identifiers, damage."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.device.buffers import AS, UAV
from rtviewer.dxr.flags import (
    CopyMode,
    DriverMatchingIdentifierStatus,
    GeometryFlag,
    PostbuildInfoType,
    SerializedDataType,
)
from rtviewer.dxr.raw_descs import InstanceDesc
from tests.unit.device.scenes import (
    TRIANGLE,
    Lab,
    header_of,
    moved,
)

CLONE, DECODE = CopyMode.CLONE, CopyMode.VISUALIZATION_DECODE_FOR_TOOLS
DESERIALIZE = CopyMode.DESERIALIZE


# --- blobs --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("SER-1", "SER-2", "SER-3", "SER-11", "POST-9", "POST-10")
def test_sizes_of_blobs_and_decodes_are_those_reported() -> None:
    lab = Lab()
    blas, tlas_count = lab.ball(), 5
    tlas = lab.tlas(*[blas] * tlas_count)
    for address, pointers in ((blas, 0), (tlas, tlas_count)):
        size, count = lab.postbuild(PostbuildInfoType.SERIALIZATION, address)
        blob = lab.serialized(address)
        header = header_of(blob)
        assert (blob.size, count) == (size, pointers)
        assert int(header["SerializedSizeInBytesIncludingHeader"]) == size >= 56 + 8 * pointers
        assert 0 < int(header["DeserializedSizeInBytes"]) <= lab.structure(address).size
        assert int(blob.view(np.uint64, 48, 1)[0]) == pointers
        assert lab.structure(lab.deserialize(blob)).size == int(header["DeserializedSizeInBytes"])
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
    opaque = int(GeometryFlag.OPAQUE)  # where no any-hit runs, the later of two equal instances is hit (DET-5)
    one, two = (lab.blas(lab.triangles(moved(TRIANGLE, x), flags=opaque)) for x in (0, 3))
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
            lab.deserialize(blob)
        assert str(i) in str(error[0])
    pointers[:] = original
    dead = lab.deserialize(blob)  # what lives there is asked later
    with lab.refused_only("BLD-10"):
        lab.trace(dead)
    pointers[:] = [new[int(p)] for p in original]
    alive = lab.deserialize(blob)
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
    restored = lab.deserialize(tlas_blob)
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
    blob = lab.serialized(lab.ball())
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
            lab.deserialize(blob)
    blob.write(good)
    lab.deserialize(blob)
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
    blob = lab.serialized(lab.tlas(lab.ball()))
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
    blob = lab.serialized(lab.ball())
    dest = lab.buffer(1 << 20, AS).address
    lab.device.transition(blob, UAV)
    with lab.refused("ST-1"):
        lab.device.copy(dest, blob.address, DESERIALIZE)
