"""Blobs, read by hand with the offsets of the specification, and back."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.accel.layout import HEADER, MAGIC, SectionKind
from rtviewer.copymode.clone import clone
from rtviewer.copymode.compact import compact
from rtviewer.copymode.deserialize import deserialize, deserialized_size
from rtviewer.copymode.identify import driver_matching_identifier
from rtviewer.copymode.serialize import PAYLOAD_HEADER, payload_checksum, pointer_count, serialize, serialized_size
from rtviewer.dxr.flags import BuildFlag
from rtviewer.errors import DamagedBytesError, FileFormatError, InvalidInputError
from tests.unit.copymode.samples import NAMES, PLACEMENTS, samples
from tests.worlds import blas_address


def put(blob: np.ndarray, offset: int, form: str, value: object) -> np.ndarray:
    """A copy with a field overwritten."""
    out = blob.copy()
    raw = value if isinstance(value, bytes) else struct.pack(form, value)
    out[offset : offset + len(raw)] = np.frombuffer(raw, np.uint8)
    return out


def signed(blob: np.ndarray) -> np.ndarray:
    """The same with a checksum that fits, as a careful forger would make it."""
    begin = 56 + 8 * struct.unpack_from("<I", blob, 48)[0]
    return put(blob, begin + 24, "<Q", payload_checksum(blob))


@pytest.mark.rule("SER-1", "SER-2", "SER-3", "SER-4", "SER-11", "POST-9")
@pytest.mark.parametrize("name", NAMES)
def test_a_blob_by_hand(name: str) -> None:
    source = samples()[name].structure
    blob = serialize(source)
    total, inside, count, postamble = struct.unpack_from("<QQII", blob, 32)
    assert blob[:32].tobytes() == driver_matching_identifier()
    assert total == len(blob) == serialized_size(source)
    assert inside == deserialized_size(blob) <= source.size
    assert count == pointer_count(source) == (len(source.instance_descs) if source.is_top_level else 0)
    assert postamble == 0
    assert struct.unpack_from("<Q", blob, 48)[0] == count
    assert total == 56 + 8 * count + PAYLOAD_HEADER.itemsize + source.used_size
    assert blob[56 + 8 * count + PAYLOAD_HEADER.itemsize :][: len(MAGIC)].tobytes() == MAGIC


@pytest.mark.rule("SER-4")
def test_one_pointer_for_each_instance_with_duplicates_and_nulls() -> None:
    blob = serialize(samples()["instances"].structure)
    pointers = struct.unpack_from("<5Q", blob, 56)
    assert pointers == tuple(blas_address(p.blas) for p in PLACEMENTS)
    assert pointers[1] == 0
    assert pointers[0] == pointers[3] == pointers[4]


@pytest.mark.rule("SER-4", "SER-5")
def test_the_list_is_the_only_place_in_a_blob_that_names_an_address() -> None:
    address = 0x123456789ABCDE00
    made = deserialize(
        serialize(samples()["instances"].structure), pointers=np.array([address, 0] + [address] * 3, "<u8")
    )
    raw = struct.pack("<Q", address)
    assert made.data.tobytes().count(raw) == 4
    assert serialize(made).tobytes().count(raw) == 4
    assert serialize(made)[96:].tobytes().count(raw) == 0


@pytest.mark.rule("SER-3", "SER-13", "CP-4", "BF-9", "POST-14")
@pytest.mark.parametrize("name", NAMES)
def test_a_round_trip_gives_the_same_structure_and_the_same_blob(name: str) -> None:
    source = samples()[name].structure
    before = source.data.tobytes()
    blob = serialize(source)
    made = deserialize(blob, name="made", address=0x900)
    assert source.data.tobytes() == before
    assert check(made) == []
    assert (made.name, made.address) == ("made", 0x900)
    assert made.size == deserialized_size(blob) <= source.size
    assert made.build_flags == source.build_flags
    assert made.data.ctypes.data % 64 == 0
    for row in made.header["sections"][: int(made.header["section_count"])]:
        kind = SectionKind(int(row["kind"]))
        assert made.section(kind).tobytes() == source.section(kind).tobytes()
    assert serialize(made).tobytes() == blob.tobytes()
    assert serialize(clone(source)).tobytes() == blob.tobytes()
    assert deserialize(blob.tobytes()).data.tobytes() == made.data.tobytes()


def test_a_compacted_structure_gives_the_same_blob_while_it_drops_nothing() -> None:
    source = samples()["triangles"].structure
    assert serialize(compact(source)).tobytes() == serialize(source).tobytes()


@pytest.mark.rule("SER-5", "SER-7", "SER-13", "VIS-2")
def test_patched_pointers_arrive_and_change_nothing_else() -> None:
    """Bottom levels need not be there: none of this has any."""
    blob = serialize(samples()["instances"].structure)
    patched = [0x1100, 0, 0x2200, 0x3300, 0x1100]
    changed = put(blob, 56, "", struct.pack("<5Q", *patched))
    for made in (deserialize(changed), deserialize(blob, pointers=np.array(patched, np.uint64))):
        assert made.instance_descs["AccelerationStructure"].tolist() == patched
        again = serialize(made)
        assert again[56:96].tobytes() == changed[56:96].tobytes()
        assert again[96:].tobytes() == blob[96:].tobytes()
        assert again[:56].tobytes() == blob[:56].tobytes()


@pytest.mark.rule("SER-6")
@pytest.mark.parametrize(
    ("index", "value"), [(0, 0x1180), (2, 1), (1, 0x1000), (3, 0)], ids=["half", "odd", "was NULL", "was not NULL"]
)
def test_pointers_that_cannot_be_patched_in(index: int, value: int) -> None:
    blob = put(serialize(samples()["instances"].structure), 56 + 8 * index, "<Q", value)
    with pytest.raises(InvalidInputError) as caught:
        deserialize(blob)
    assert set(caught.value.rules) == {"SER-6"}
    assert f"pointer[{index}]" in str(caught.value)


def test_given_pointers_must_be_one_for_each_instance() -> None:
    blob = serialize(samples()["instances"].structure)
    with pytest.raises(InvalidInputError, match=r"SER-12.*one pointer for each instance"):
        deserialize(blob, pointers=np.zeros(4, np.uint64))


@pytest.mark.rule("SER-8")
@pytest.mark.parametrize("offset", [0, 15, 16, 20, 31])
def test_a_foreign_identifier_is_refused(offset: int) -> None:
    blob = serialize(samples()["triangles"].structure)
    blob[offset] ^= 1
    with pytest.raises(DamagedBytesError) as caught:
        deserialize(blob, name="a.rtblob")
    assert caught.value.rules == ("SER-8",)
    assert (caught.value.offset, caught.value.field) == (0, "DriverMatchingIdentifier")
    assert caught.value.found in ("UNRECOGNIZED", "INCOMPATIBLE_VERSION")
    assert "a.rtblob" in str(caught.value)


@pytest.mark.rule("SER-12")
@pytest.mark.parametrize("kind", ["triangles", "instances"])
@pytest.mark.parametrize(
    ("offset", "form", "value", "field"),
    [
        (32, "<Q", 55, "SerializedSizeInBytesIncludingHeader"),
        (32, "<Q", 2**64 - 1, "SerializedSizeInBytesIncludingHeader"),
        (40, "<Q", 2**64 - 1, "DeserializedSizeInBytes"),
        (40, "<Q", 0, "DeserializedSizeInBytes"),
        (48, "<I", 2**32 - 1, "SerializedSizeInBytesIncludingHeader"),
        (52, "<I", 1, "HeaderPostambleType"),
        (52, "<I", 0xFFFFFFFF, "HeaderPostambleType"),
    ],
)
def test_inconsistent_headers(kind: str, offset: int, form: str, value: int, field: str) -> None:
    blob = put(serialize(samples()[kind].structure), offset, form, value)
    with pytest.raises(DamagedBytesError) as caught:
        deserialize(blob)
    assert caught.value.rules == ("SER-12",)
    assert caught.value.field == field
    assert caught.value.expected is not None
    assert caught.value.found is not None


@pytest.mark.rule("SER-12")
def test_payload_fields_and_the_checksum() -> None:
    blob = serialize(samples()["triangles"].structure)
    for offset, field in ((56, "magic"), (64, "payload_version"), (68, "layout_version"), (72, "structure_size"),
                          (80, "checksum"), (2000, "checksum"), (len(blob) - 1, "checksum")):  # fmt: skip
        damaged = blob.copy()
        damaged[offset] ^= 0x10
        with pytest.raises(DamagedBytesError) as caught:
            deserialize(damaged)
        assert caught.value.field == f"payload.{field}"
        assert caught.value.rules == ("SER-12",)


@pytest.mark.rule("SER-12")
def test_a_forged_checksum_does_not_help() -> None:
    """A child that points at itself, with a checksum that fits: the invariants find it."""
    source = samples()["triangles"].structure
    blob = serialize(source)
    place = 56 + PAYLOAD_HEADER.itemsize + source.section_offset(1) + 192
    with pytest.raises(DamagedBytesError, match=r"SER-12.*child"):
        deserialize(signed(put(blob, place, "<i", 0)))


@pytest.mark.rule("XB-5")
def test_a_blob_that_holds_a_dehydrated_structure() -> None:
    """None was ever written; a forged one is refused by the rule."""
    source = samples()["triangles"].structure
    blob = serialize(source)
    begin = 56 + PAYLOAD_HEADER.itemsize
    flags = int(source.build_flags | BuildFlag.DEHYDRATE)
    forged = put(blob, begin + HEADER.fields["state"][1], "<I", 1)
    forged = signed(put(forged, begin + HEADER.fields["build_flags"][1], "<I", flags))
    with pytest.raises(DamagedBytesError) as caught:
        deserialize(forged)
    assert caught.value.rules == ("XB-5",)


@pytest.mark.rule("SER-12")
def test_pointer_count_that_differs_from_the_instances() -> None:
    blob = serialize(samples()["instances"].structure)
    fewer = np.concatenate([blob[:56], blob[64:]])
    fewer = signed(put(put(fewer, 48, "<I", 4), 32, "<Q", len(fewer)))
    with pytest.raises(DamagedBytesError) as caught:
        deserialize(fewer)
    assert (caught.value.offset, caught.value.expected, caught.value.found) == (48, 5, 4)


@pytest.mark.rule("SER-12")
def test_every_truncation_is_refused_and_a_longer_range_is_not() -> None:
    blob = serialize(samples()["instances"].structure)
    for length in [*range(120), *range(120, len(blob), 61), len(blob) - 1]:
        with pytest.raises(FileFormatError):
            deserialize(blob[:length])
    longer = np.concatenate([blob, np.full(300, 0xAA, np.uint8)])
    assert serialize(deserialize(longer)).tobytes() == blob.tobytes()
