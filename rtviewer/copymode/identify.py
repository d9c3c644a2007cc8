"""Whose bytes a blob is: the driver matching identifier, and a description of any blob that trusts none of it.

GUID and versions are ours; a blob of another driver is described as far as the D3D12 header goes and no further.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.layout import LAYOUT_VERSION
from rtviewer.dxr.flags import DriverMatchingIdentifierStatus, HeaderPostambleType, SerializedDataType
from rtviewer.dxr.layouts import DRIVER_MATCHING_IDENTIFIER, SERIALIZED_BLOCK, SERIALIZED_HEADER1
from rtviewer.errors import DamagedBytesError

GUID = UUID("5e0c7f1a-9b34-4d86-a2d1-6f3b8c4e7a90")
"""Names this program's blobs; never changes."""
PAYLOAD_VERSION = 1
"""Changes with every change of what stands around the structure's bytes in a blob."""

HEADER_SIZE = SERIALIZED_HEADER1.itemsize
IDENTIFIER_SIZE = DRIVER_MATCHING_IDENTIFIER.itemsize
GUID_SIZE = 16
POINTER_SIZE = 8
BLOCK_SIZE = SERIALIZED_BLOCK.itemsize


def driver_matching_identifier() -> bytes:
    """The 32 bytes that our blobs begin with: GUID, then layout and payload version as uint32, then zeros."""
    versions = np.zeros(4, "<u4")
    versions[:2] = LAYOUT_VERSION, PAYLOAD_VERSION
    return GUID.bytes_le + versions.tobytes()


def check_driver_matching_identifier(data_type: int, identifier: bytes) -> DriverMatchingIdentifierStatus:
    """Whether a blob with this identifier can be deserialized here [SER-8, SER-9, SER-10].

    ``data_type``: a D3D12_SERIALIZED_DATA_TYPE number; all but 0 are UNSUPPORTED_TYPE. ``identifier``: 32 bytes;
    anything else is UNRECOGNIZED.
    """
    if data_type != SerializedDataType.RAYTRACING_ACCELERATION_STRUCTURE:
        return DriverMatchingIdentifierStatus.UNSUPPORTED_TYPE
    ours, given = driver_matching_identifier(), bytes(identifier)
    if given == ours:
        return DriverMatchingIdentifierStatus.COMPATIBLE_WITH_DEVICE
    if len(given) == IDENTIFIER_SIZE and given[:GUID_SIZE] == ours[:GUID_SIZE]:
        return DriverMatchingIdentifierStatus.INCOMPATIBLE_VERSION
    return DriverMatchingIdentifierStatus.UNRECOGNIZED


@dataclass(frozen=True)
class BlobField:
    """One header field as it stands in the bytes: ``offset`` and ``size`` in bytes, ``value`` as text."""

    offset: int
    size: int
    name: str
    value: str


@dataclass(frozen=True)
class BlobBlock:
    """One block of a BLOCKS postamble: where it stands, its type number, how many pointers it announces."""

    offset: int
    type: int
    pointer_count: int


@dataclass(frozen=True, eq=False)
class BlobDescription:
    """What the first bytes of any blob say, whoever wrote it.

    ``pointers`` (k,) uint64: as many of the list as the bytes hold. ``payload``: (first byte, end), empty when there is
    none; end never lies beyond the bytes. ``problems``: what does not fit together (SER-12), one sentence each.
    """

    fields: tuple[BlobField, ...]
    guid: UUID
    status: DriverMatchingIdentifierStatus
    serialized_size: int
    deserialized_size: int
    pointer_count: int
    postamble_type: int
    pointers: NDArray[np.uint64]
    blocks: tuple[BlobBlock, ...]
    payload: tuple[int, int]
    problems: tuple[str, ...]


def describe_blob(data: bytes | NDArray[np.uint8], name: str = "") -> BlobDescription:
    """Read the header of a blob of any GUID; nothing of a foreign payload is interpreted.

    Time and memory are bounded by the bytes given. Raises DamagedBytesError (SER-12) for fewer than 56 bytes.
    """
    view = as_bytes(data)
    header = read_header(view, name)
    total = int(header["SerializedSizeInBytesIncludingHeader"])
    count, postamble = (
        int(header["NumBottomLevelAccelerationStructurePointersAfterHeader"]),
        int(header["HeaderPostambleType"]),
    )
    problems: list[str] = []
    if total > len(view):
        problems.append(f"SerializedSizeInBytesIncludingHeader is {total}, but there are {len(view)} bytes")
    end = min(max(total, HEADER_SIZE), len(view))
    pointers: NDArray[np.uint64] = np.empty(0, np.uint64)
    blocks: tuple[BlobBlock, ...] = ()
    begin = HEADER_SIZE
    if postamble == HeaderPostambleType.BLOCKS:
        blocks, begin = _read_blocks(view, count, end, problems)
    elif postamble == HeaderPostambleType.BOTTOM_LEVEL_POINTERS:
        held = min(count, (end - HEADER_SIZE) // POINTER_SIZE)
        if held < count:
            problems.append(f"{count} pointers are announced, the bytes hold {held}")
        begin = HEADER_SIZE + held * POINTER_SIZE
        pointers = view[HEADER_SIZE:begin].copy().view("<u8")
    else:
        problems.append(f"HeaderPostambleType is {postamble:#x}; known are 0 and {int(HeaderPostambleType.BLOCKS):#x}")
    identifier = view[:IDENTIFIER_SIZE].tobytes()
    return BlobDescription(
        fields=_fields(header),
        guid=UUID(bytes_le=identifier[:GUID_SIZE]),
        status=check_driver_matching_identifier(SerializedDataType.RAYTRACING_ACCELERATION_STRUCTURE, identifier),
        serialized_size=total,
        deserialized_size=int(header["DeserializedSizeInBytes"]),
        pointer_count=count,
        postamble_type=postamble,
        pointers=pointers,
        blocks=blocks,
        payload=(begin, max(begin, end)),
        problems=tuple(problems),
    )


def as_bytes(data: bytes | NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(n,) uint8 view of bytes or of a contiguous array."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(data, np.uint8)


def read_header(view: NDArray[np.uint8], name: str = "") -> np.void:
    """The HEADER1 that a blob begins with [SER-1]. Raises DamagedBytesError (SER-12) when the bytes do not hold one."""
    if len(view) < HEADER_SIZE:
        raise DamagedBytesError(
            name, "SER-12", "a serialized blob begins with a header", offset=0, field="header",
            expected=f"at least {HEADER_SIZE} bytes", found=f"{len(view)} bytes",
        )  # fmt: skip
    return view[:HEADER_SIZE].copy().view(SERIALIZED_HEADER1)[0]  # type: ignore[no-any-return]


def _read_blocks(
    view: NDArray[np.uint8], count: int, end: int, problems: list[str]
) -> tuple[tuple[BlobBlock, ...], int]:
    """The blocks that lie inside the bytes, and where they end."""
    blocks: list[BlobBlock] = []
    offset = HEADER_SIZE
    while len(blocks) < count and offset + BLOCK_SIZE <= end:
        row = view[offset : offset + BLOCK_SIZE].copy().view(SERIALIZED_BLOCK)[0]
        pointers = int(row["NumBlockPointersAfterHeader"])
        blocks.append(BlobBlock(offset, int(row["Type"]), pointers))
        offset += BLOCK_SIZE + min(pointers, (end - offset) // POINTER_SIZE) * POINTER_SIZE
    if len(blocks) < count or offset > end:
        problems.append(f"{count} blocks are announced, the bytes hold {len(blocks)}")
    return tuple(blocks), min(offset, end)


def _fields(header: np.void) -> tuple[BlobField, ...]:
    raw = header.tobytes()
    numbers = SERIALIZED_HEADER1.names[1:] if SERIALIZED_HEADER1.names else ()
    fields = [
        BlobField(0, GUID_SIZE, "DriverOpaqueGUID", str(UUID(bytes_le=raw[:GUID_SIZE]))),
        BlobField(GUID_SIZE, 16, "DriverOpaqueVersioningData", raw[GUID_SIZE:IDENTIFIER_SIZE].hex(" ")),
    ]
    for name in numbers:
        dtype, offset = SERIALIZED_HEADER1.fields[name][:2]  # type: ignore[index]
        fields.append(BlobField(offset, dtype.itemsize, name, str(int(header[name]))))
    return tuple(fields)
