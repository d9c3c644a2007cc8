"""Byte layouts against the tables of section 2 of the rules."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from rtviewer.dxr import layouts

# struct: size, then (field, offset, size)
TABLES: dict[str, tuple[int, list[tuple[str, int, int]]]] = {
    "INSTANCE_DESC": (
        64,
        [
            ("Transform", 0, 48),
            ("InstanceIDAndMask", 48, 4),
            ("InstanceContributionAndFlags", 52, 4),
            ("AccelerationStructure", 56, 8),
        ],
    ),
    "GEOMETRY_DESC": (
        56,
        [("Type", 0, 4), ("Flags", 4, 4), ("Triangles", 8, 48), ("AABBs", 8, 24), ("OmmTriangles", 8, 16)],
    ),
    "GEOMETRY_TRIANGLES_DESC": (
        48,
        [
            ("Transform3x4", 0, 8),
            ("IndexFormat", 8, 4),
            ("VertexFormat", 12, 4),
            ("IndexCount", 16, 4),
            ("VertexCount", 20, 4),
            ("IndexBuffer", 24, 8),
            ("VertexBuffer", 32, 16),
        ],
    ),
    "GEOMETRY_AABBS_DESC": (24, [("AABBCount", 0, 8), ("AABBs", 8, 16)]),
    "GEOMETRY_OMM_TRIANGLES_DESC": (16, [("pTriangles", 0, 8), ("pOmmLinkage", 8, 8)]),
    "GPU_VIRTUAL_ADDRESS_AND_STRIDE": (16, [("StartAddress", 0, 8), ("StrideInBytes", 8, 8)]),
    "AABB": (24, [(name, 4 * i, 4) for i, name in enumerate(["MinX", "MinY", "MinZ", "MaxX", "MaxY", "MaxZ"])]),
    "BUILD_INPUTS": (
        24,
        [("Type", 0, 4), ("Flags", 4, 4), ("NumDescs", 8, 4), ("DescsLayout", 12, 4), ("Descs", 16, 8)],
    ),
    "BUILD_DESC": (
        48,
        [
            ("DestAccelerationStructureData", 0, 8),
            ("Inputs", 8, 24),
            ("SourceAccelerationStructureData", 32, 8),
            ("ScratchAccelerationStructureData", 40, 8),
        ],
    ),
    "PREBUILD_INFO": (
        24,
        [("ResultDataMaxSizeInBytes", 0, 8), ("ScratchDataSizeInBytes", 8, 8), ("UpdateScratchDataSizeInBytes", 16, 8)],
    ),
    "POSTBUILD_INFO_DESC": (16, [("DestBuffer", 0, 8), ("InfoType", 8, 4)]),
    "POSTBUILD_INFO_COMPACTED_SIZE_DESC": (8, [("CompactedSizeInBytes", 0, 8)]),
    "POSTBUILD_INFO_TOOLS_VISUALIZATION_DESC": (8, [("DecodedSizeInBytes", 0, 8)]),
    "POSTBUILD_INFO_CURRENT_SIZE_DESC": (8, [("CurrentSizeInBytes", 0, 8)]),
    "POSTBUILD_INFO_SERIALIZATION_DESC": (
        16,
        [("SerializedSizeInBytes", 0, 8), ("NumBottomLevelAccelerationStructurePointers", 8, 8)],
    ),
    "GUID": (16, [("Data1", 0, 4), ("Data2", 4, 2), ("Data3", 6, 2), ("Data4", 8, 8)]),
    "DRIVER_MATCHING_IDENTIFIER": (32, [("DriverOpaqueGUID", 0, 16), ("DriverOpaqueVersioningData", 16, 16)]),
    "SERIALIZED_HEADER": (
        56,
        [
            ("DriverMatchingIdentifier", 0, 32),
            ("SerializedSizeInBytesIncludingHeader", 32, 8),
            ("DeserializedSizeInBytes", 40, 8),
            ("NumBottomLevelAccelerationStructurePointersAfterHeader", 48, 8),
        ],
    ),
    "SERIALIZED_HEADER1": (
        56,
        [
            ("DriverMatchingIdentifier", 0, 32),
            ("SerializedSizeInBytesIncludingHeader", 32, 8),
            ("DeserializedSizeInBytes", 40, 8),
            ("NumBottomLevelAccelerationStructurePointersAfterHeader", 48, 4),
            ("HeaderPostambleType", 52, 4),
        ],
    ),
    "SERIALIZED_BLOCK": (16, [("Type", 0, 4), ("NumBlockPointersAfterHeader", 8, 8)]),
    "TOOLS_VISUALIZATION_HEADER": (8, [("Type", 0, 4), ("NumDescs", 4, 4)]),
    "OMM_LINKAGE_DESC": (
        32,
        [
            ("OpacityMicromapIndexBuffer", 0, 16),
            ("OpacityMicromapIndexFormat", 16, 4),
            ("OpacityMicromapBaseLocation", 20, 4),
            ("OpacityMicromapArray", 24, 8),
        ],
    ),
    "OMM_ARRAY_DESC": (
        40,
        [("NumOmmHistogramEntries", 0, 4), ("pOmmHistogram", 8, 8), ("InputBuffer", 16, 8), ("PerOmmDescs", 24, 16)],
    ),
    "OMM_HISTOGRAM_ENTRY": (12, [("Count", 0, 4), ("SubdivisionLevel", 4, 4), ("Format", 8, 4)]),
    "OMM_DESC": (8, [("ByteOffset", 0, 4), ("SubdivisionLevel", 4, 2), ("Format", 6, 2)]),
    "RAY_DESC": (32, [("Origin", 0, 12), ("TMin", 12, 4), ("Direction", 16, 12), ("TMax", 28, 4)]),
}


def _dtypes() -> dict[str, np.dtype[np.void]]:
    return {name: value for name, value in vars(layouts).items() if isinstance(value, np.dtype)}


@pytest.mark.rule("LAY-1", "LAY-2")
@pytest.mark.parametrize("name", TABLES)
def test_offsets_and_sizes(name: str) -> None:
    dtype = _dtypes()[name]
    size, fields = TABLES[name]
    assert dtype.itemsize == size
    assert dtype.fields is not None
    assert [(f, dtype.fields[f][1], dtype.fields[f][0].itemsize) for f in dtype.names or ()] == fields


@pytest.mark.rule("LAY-2")
def test_every_dtype_has_a_table() -> None:
    assert set(_dtypes()) == set(TABLES)


@pytest.mark.rule("LAY-1")
@pytest.mark.parametrize("name", TABLES)
def test_every_number_is_little_endian_and_unsigned_or_float32(name: str) -> None:
    def leaves(dtype: np.dtype) -> list[np.dtype]:  # type: ignore[type-arg]
        if dtype.subdtype:
            return leaves(dtype.subdtype[0])
        if dtype.fields:
            return [leaf for value in dtype.fields.values() for leaf in leaves(value[0])]
        return [dtype]

    for leaf in leaves(_dtypes()[name]):
        assert leaf == leaf.newbyteorder("<")
        assert leaf.kind == "u" or leaf == np.dtype("<f4")


@pytest.mark.rule("LAY-1")
def test_bit_fields_of_an_instance_by_the_check_vector() -> None:
    desc = np.zeros(1, layouts.INSTANCE_DESC)
    desc["InstanceIDAndMask"] = layouts.pack_24_8(0x123456, 0xAB)
    desc["InstanceContributionAndFlags"] = layouts.pack_24_8(0x654321, 0xCD)
    assert desc.tobytes()[48:56] == bytes.fromhex("56 34 12 AB 21 43 65 CD")
    assert layouts.low_24(desc["InstanceIDAndMask"])[0] == 0x123456
    assert layouts.high_8(desc["InstanceIDAndMask"])[0] == 0xAB
    assert layouts.low_24(desc["InstanceContributionAndFlags"])[0] == 0x654321
    assert layouts.high_8(desc["InstanceContributionAndFlags"])[0] == 0xCD


@pytest.mark.rule("LAY-1", "LIM-4")
@pytest.mark.parametrize(("low", "high"), [(0, 0), (0xFFFFFF, 0), (0, 0xFF), (0xFFFFFF, 0xFF), (1, 0x80)])
def test_bit_fields_at_their_ends(low: int, high: int) -> None:
    words = layouts.pack_24_8(np.array([low], np.uint32), np.array([high], np.uint32))
    assert words.dtype == np.uint32
    assert words[0] == low + high * 2**24
    assert (layouts.low_24(words)[0], layouts.high_8(words)[0]) == (low, high)


@pytest.mark.rule("LAY-1", "INST-1")
def test_an_instance_desc_read_from_bytes_made_by_hand() -> None:
    rows = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    raw = struct.pack("<12fIIQ", *(x for row in rows for x in row), 0xFF000007, 0x05000009, 0x1122334455667700)
    desc = np.frombuffer(raw, layouts.INSTANCE_DESC)[0]
    assert desc["Transform"].tolist() == rows
    assert desc["AccelerationStructure"] == 0x1122334455667700
    assert layouts.low_24(desc["InstanceIDAndMask"]) == 7
    assert layouts.high_8(desc["InstanceContributionAndFlags"]) == 5


@pytest.mark.rule("LAY-1")
@pytest.mark.parametrize(
    ("name", "padding"),
    [("POSTBUILD_INFO_DESC", [(12, 16)]), ("SERIALIZED_BLOCK", [(4, 8)]), ("OMM_ARRAY_DESC", [(4, 8)])],
)
def test_garbage_in_padding_is_ignored_and_padding_is_written_as_zero(
    name: str, padding: list[tuple[int, int]]
) -> None:
    dtype = _dtypes()[name]
    clean = np.arange(1, dtype.itemsize + 1, dtype=np.uint8)
    dirty = clean.copy()
    for begin, end in padding:
        clean[begin:end] = 0
        dirty[begin:end] = 0xEE
    assert clean.view(dtype)[0] == dirty.view(dtype)[0]
    written = np.zeros(1, dtype)
    for field in dtype.names or ():
        written[field] = dirty.view(dtype)[field]
    assert written.tobytes() == clean.tobytes()


@pytest.mark.rule("LAY-1")
def test_unused_bytes_of_the_union_do_not_matter_to_boxes() -> None:
    raw = np.full(56, 0xEE, np.uint8)
    raw[:32] = np.frombuffer(struct.pack("<IIQQQ", 1, 2, 3, 0x100, 24), np.uint8)
    desc = raw.view(layouts.GEOMETRY_DESC)[0]
    assert (desc["Type"], desc["Flags"], desc["AABBs"]["AABBCount"]) == (1, 2, 3)
    assert (desc["AABBs"]["AABBs"]["StartAddress"], desc["AABBs"]["AABBs"]["StrideInBytes"]) == (0x100, 24)
