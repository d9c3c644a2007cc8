"""SERIALIZE: a structure as a blob that any application can carry: D3D12 header, pointers, our payload.

The payload is a small header of ours and the structure's bytes in use. Pointers stand in the list only: in the payload
each is 1 where there is one and 0 where there is none, so patching them leaves the checksum valid and a round trip
gives the same blob [SER-13].
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure, aligned_bytes
from rtviewer.copymode.dehydrate import check_live
from rtviewer.copymode.identify import (
    HEADER_SIZE,
    PAYLOAD_VERSION,
    POINTER_SIZE,
    driver_matching_identifier,
)
from rtviewer.dxr.flags import HeaderPostambleType
from rtviewer.dxr.layouts import SERIALIZED_HEADER1
from rtviewer.dxr.rules import require

PAYLOAD_MAGIC = b"RTVBLOB1"
PAYLOAD_HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("payload_version", "<u4"),
        ("layout_version", "<u4"),
        ("structure_size", "<u8"),
        ("checksum", "<u8"),
    ]
)
"""``structure_size``: bytes that follow. ``checksum``: of the two sizes, the counts and the structure's bytes."""

POINTER_PRESENT = 1


def pointer_count(source: Structure) -> int:
    """NumBottomLevelAccelerationStructurePointers: one per instance [SER-4, POST-9]; 0 for a bottom level."""
    return len(source.instance_descs) if source.is_top_level else 0


def serialized_size(source: Structure) -> int:
    """SerializedSizeInBytes: 56, 8 for each pointer and the payload [SER-2, POST-9].

    Raises InvalidInputError for a dehydrated source (XB-5).
    """
    require([*check_live(source, "asked for a serialized size")], "EmitRaytracingAccelerationStructurePostbuildInfo")
    return HEADER_SIZE + POINTER_SIZE * pointer_count(source) + PAYLOAD_HEADER.itemsize + source.used_size


def serialize(source: Structure) -> NDArray[np.uint8]:
    """(serialized_size,) uint8: the blob [SER-1 to SER-4]; neither needs nor reads bottom levels [SER-7].

    Equal structures give equal bytes. Raises InvalidInputError for a dehydrated source (XB-5).
    """
    require(check_live(source, "serialized"), "CopyRaytracingAccelerationStructure (SERIALIZE)")
    pointers = source.instance_descs["AccelerationStructure"] if source.is_top_level else np.empty(0, "<u8")
    begin = HEADER_SIZE + POINTER_SIZE * len(pointers)
    blob = np.zeros(serialized_size(source), np.uint8)
    header = blob[:HEADER_SIZE].view(SERIALIZED_HEADER1)
    header["DriverMatchingIdentifier"] = np.frombuffer(
        driver_matching_identifier(), SERIALIZED_HEADER1["DriverMatchingIdentifier"]
    )
    header["SerializedSizeInBytesIncludingHeader"] = len(blob)
    header["DeserializedSizeInBytes"] = source.used_size
    header["NumBottomLevelAccelerationStructurePointersAfterHeader"] = len(pointers)
    header["HeaderPostambleType"] = int(HeaderPostambleType.BOTTOM_LEVEL_POINTERS)
    blob[HEADER_SIZE:begin].view("<u8")[:] = pointers
    body = _portable_bytes(source)
    blob[begin + PAYLOAD_HEADER.itemsize :] = body
    payload = blob[begin : begin + PAYLOAD_HEADER.itemsize].view(PAYLOAD_HEADER)
    payload["magic"] = PAYLOAD_MAGIC
    payload["payload_version"] = PAYLOAD_VERSION
    payload["layout_version"] = layout.LAYOUT_VERSION
    payload["structure_size"] = len(body)
    payload["checksum"] = payload_checksum(blob)
    return blob


def payload_checksum(blob: NDArray[np.uint8]) -> int:
    """The 8-byte checksum of a blob whose sizes fit its length; pointers and the checksum itself do not count."""
    header = blob[:HEADER_SIZE].view(SERIALIZED_HEADER1)[0]
    begin = HEADER_SIZE + POINTER_SIZE * int(header["NumBottomLevelAccelerationStructurePointersAfterHeader"])
    digest = hashlib.blake2b(blob[:HEADER_SIZE].data, digest_size=8)
    digest.update(blob[begin : begin + PAYLOAD_HEADER.itemsize - 8].data)
    digest.update(blob[begin + PAYLOAD_HEADER.itemsize :].data)
    return int.from_bytes(digest.digest(), "little")


def _portable_bytes(source: Structure) -> NDArray[np.uint8]:
    """The bytes in use, as those of a structure that has no others, without addresses."""
    data = aligned_bytes(source.used_size)
    data[:] = source.data[: source.used_size]
    target = Structure(data)
    data[: layout.HEADER.itemsize].view(layout.HEADER)["size_in_bytes"] = source.used_size
    if target.is_top_level:
        pointers = target.section(SectionKind.INSTANCE_DESCS)["AccelerationStructure"]
        pointers[:] = np.where(pointers != 0, POINTER_PRESENT, 0)
    return data
