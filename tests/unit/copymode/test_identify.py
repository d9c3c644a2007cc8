"""Identifiers and the description of blobs that nobody here wrote."""

from __future__ import annotations

import struct
from uuid import UUID

import numpy as np
import pytest

from rtviewer.accel.layout import LAYOUT_VERSION
from rtviewer.copymode.identify import (
    GUID,
    PAYLOAD_VERSION,
    check_driver_matching_identifier,
    describe_blob,
    driver_matching_identifier,
)
from rtviewer.copymode.serialize import serialize
from rtviewer.dxr.flags import DriverMatchingIdentifierStatus as Status
from rtviewer.errors import DamagedBytesError
from tests.unit.copymode.samples import samples

FOREIGN = UUID("00112233-4455-6677-8899-aabbccddeeff")


def foreign_blob(pointers: list[int], payload: bytes, *, total: int | None = None, count: int | None = None) -> bytes:
    size = 56 + 8 * len(pointers) + len(payload)
    head = FOREIGN.bytes_le + bytes(range(16))
    head += struct.pack("<QQII", total or size, 4096, len(pointers) if count is None else count, 0)
    return head + struct.pack(f"<{len(pointers)}Q", *pointers) + payload


@pytest.mark.rule("SER-9", "SER-10")
def test_statuses() -> None:
    ours = driver_matching_identifier()
    assert len(ours) == 32
    assert ours[:16] == GUID.bytes_le
    assert struct.unpack_from("<II", ours, 16) == (LAYOUT_VERSION, PAYLOAD_VERSION)
    assert check_driver_matching_identifier(0, ours) is Status.COMPATIBLE_WITH_DEVICE
    for offset in range(32):
        other = bytearray(ours)
        other[offset] ^= 0x80
        expected = Status.UNRECOGNIZED if offset < 16 else Status.INCOMPATIBLE_VERSION
        assert check_driver_matching_identifier(0, bytes(other)) is expected
    for garbage in (b"", bytes(32), ours[:31], ours + b"\0"):
        assert check_driver_matching_identifier(0, garbage) is Status.UNRECOGNIZED
    for kind in (1, 2, 99, -1):
        assert check_driver_matching_identifier(kind, ours) is Status.UNSUPPORTED_TYPE


@pytest.mark.rule("SER-10")
def test_type_0_is_never_unsupported() -> None:
    random = np.random.default_rng(3)
    for _ in range(200):
        garbage = random.integers(0, 256, 32, np.uint8).tobytes()
        assert check_driver_matching_identifier(0, garbage) is Status.UNRECOGNIZED


@pytest.mark.rule("SER-1", "SER-11")
def test_our_own_blob_described() -> None:
    source = samples()["instances"].structure
    blob = serialize(source)
    described = describe_blob(blob)
    assert described.status is Status.COMPATIBLE_WITH_DEVICE
    assert described.guid == GUID
    assert described.pointers.tolist() == source.instance_descs["AccelerationStructure"].tolist()
    assert described.payload == (96, len(blob))
    assert described.problems == ()
    assert [(f.offset, f.size) for f in described.fields] == [(0, 16), (16, 16), (32, 8), (40, 8), (48, 4), (52, 4)]
    assert described.fields[2].value == str(len(blob))


def test_a_foreign_blob_described() -> None:
    described = describe_blob(foreign_blob([0x100, 0, 0x200], b"secret" * 9))
    assert described.status is Status.UNRECOGNIZED
    assert described.guid == FOREIGN
    assert described.pointers.tolist() == [0x100, 0, 0x200]
    assert described.payload == (80, 134)
    assert described.deserialized_size == 4096
    assert described.problems == ()


@pytest.mark.rule("SER-12")
def test_what_does_not_fit_is_said_and_bounded() -> None:
    described = describe_blob(foreign_blob([1, 2], b"abc", count=2**32 - 1))
    assert len(described.pointers) == 2
    assert any("4294967295 pointers" in p for p in described.problems)
    described = describe_blob(foreign_blob([1], b"", total=2**63))
    assert described.payload == (64, 64)
    assert any("there are 64 bytes" in p for p in described.problems)
    for length in (0, 1, 55):
        with pytest.raises(DamagedBytesError, match="SER-12"):
            describe_blob(bytes(length))


@pytest.mark.rule("SER-11")
def test_blocks_are_listed_as_far_as_they_reach() -> None:
    block = struct.pack("<IIQ2Q", 0, 0, 2, 0x80, 0)
    head = FOREIGN.bytes_le + bytes(16) + struct.pack("<QQII", 56 + len(block) * 2 + 4, 256, 2, 0xFFFFFFFF)
    described = describe_blob(head + block * 2 + b"data")
    assert [(b.offset, b.type, b.pointer_count) for b in described.blocks] == [(56, 0, 2), (88, 0, 2)]
    assert described.payload == (120, 124)
    assert described.problems == ()
    endless = struct.pack("<IIQ", 0, 0, 2**64 - 1)
    described = describe_blob(head[:48] + struct.pack("<II", 2**32 - 1, 0xFFFFFFFF) + endless * 3)
    assert described.problems
    assert len(described.blocks) <= 3
    described = describe_blob(head[:52] + struct.pack("<I", 7))
    assert any("HeaderPostambleType is 0x7" in p for p in described.problems)
