"""DESERIALIZE: a blob back to a structure, from the outside in; nothing is believed before it is checked.

Identifier, then sizes against the real length, then the checksum, then one copy of the bytes, then every invariant of a
structure, then the pointers. Memory and time are bounded by the bytes given, whatever they claim.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.encode import seal
from rtviewer.accel.invariants import check
from rtviewer.accel.layout import LAYOUT_VERSION, SectionKind
from rtviewer.accel.structure import Structure, aligned_bytes
from rtviewer.copymode.identify import (
    HEADER_SIZE,
    IDENTIFIER_SIZE,
    PAYLOAD_VERSION,
    POINTER_SIZE,
    as_bytes,
    check_driver_matching_identifier,
    read_header,
)
from rtviewer.copymode.serialize import PAYLOAD_HEADER, PAYLOAD_MAGIC, payload_checksum
from rtviewer.dxr.flags import DriverMatchingIdentifierStatus, HeaderPostambleType, SerializedDataType
from rtviewer.dxr.limits import ACCELERATION_STRUCTURE_BYTE_ALIGNMENT
from rtviewer.dxr.rules import require
from rtviewer.errors import DamagedBytesError, Violation, violation

CALL = "CopyRaytracingAccelerationStructure (DESERIALIZE)"
MOST_REPORTED = 8


def deserialize(
    blob: bytes | NDArray[np.uint8],
    *,
    name: str = "",
    address: int = 0,
    pointers: NDArray[np.uint64] | None = None,
) -> Structure:
    """The structure in a blob, with the pointers of its list [SER-5] or with ``pointers`` (n,) uint64 instead.

    ``blob`` may be longer than the size it states, as a buffer is. Guarantees: type, flags, content and indices as
    serialized [SER-13], size as the header's DeserializedSizeInBytes [SER-3], every invariant of a structure holds.

    Raises DamagedBytesError with the place in the bytes: SER-8 for a blob that is not ours, SER-12 for one that is not
    sound; InvalidInputError for patched pointers that cannot be (SER-6).
    """
    view = as_bytes(blob)
    header = read_header(view, name)
    _check_identifier(view, name)
    view, begin = _bounded(view, header, name)
    body = _checked_body(view, begin, header, name)
    target = Structure(body, name, address)
    _check_structure(target, begin + PAYLOAD_HEADER.itemsize, name)
    listed = view[HEADER_SIZE:begin].copy().view("<u8")
    _patch(target, listed if pointers is None else np.asarray(pointers, np.uint64), len(listed), name)
    return seal(target)


def deserialized_size(blob: bytes | NDArray[np.uint8], name: str = "") -> int:
    """The header's DeserializedSizeInBytes, which no more than the header vouches for.

    Raises DamagedBytesError (SER-12) for fewer than 56 bytes.
    """
    return int(read_header(as_bytes(blob), name)["DeserializedSizeInBytes"])


def _check_identifier(view: NDArray[np.uint8], name: str) -> None:
    status = check_driver_matching_identifier(
        SerializedDataType.RAYTRACING_ACCELERATION_STRUCTURE, view[:IDENTIFIER_SIZE].tobytes()
    )
    if status is not DriverMatchingIdentifierStatus.COMPATIBLE_WITH_DEVICE:
        raise DamagedBytesError(
            name, "SER-8", "the blob was not written by this version of this program; it can be looked at, not used",
            offset=0, field="DriverMatchingIdentifier",
            expected=DriverMatchingIdentifierStatus.COMPATIBLE_WITH_DEVICE.name, found=status.name, call=CALL,
        )  # fmt: skip


def _bounded(view: NDArray[np.uint8], header: np.void, name: str) -> tuple[NDArray[np.uint8], int]:
    """The blob without what follows it, and where its payload begins [SER-12]."""
    total = int(header["SerializedSizeInBytesIncludingHeader"])
    count = int(header["NumBottomLevelAccelerationStructurePointersAfterHeader"])
    postamble = int(header["HeaderPostambleType"])
    if postamble != HeaderPostambleType.BOTTOM_LEVEL_POINTERS:
        raise _damaged(
            name, "what follows the header must be a list of pointers", 52, "HeaderPostambleType", 0, hex(postamble)
        )
    begin = HEADER_SIZE + POINTER_SIZE * count
    least = begin + PAYLOAD_HEADER.itemsize + layout.HEADER.itemsize
    if total > len(view):
        raise _damaged(
            name, "the blob is shorter than it says", 32, "SerializedSizeInBytesIncludingHeader",
            f"at most {len(view)}", total,
        )  # fmt: skip
    if total < least:
        raise _damaged(
            name, "the size leaves no room for pointers and payload", 32, "SerializedSizeInBytesIncludingHeader",
            f"at least {least} with {count} pointers", total,
        )  # fmt: skip
    return view[:total], begin


def _checked_body(view: NDArray[np.uint8], begin: int, header: np.void, name: str) -> NDArray[np.uint8]:
    """An aligned copy of the structure's bytes, once sizes and checksum fit."""
    payload = view[begin : begin + PAYLOAD_HEADER.itemsize].copy().view(PAYLOAD_HEADER)[0]
    body = view[begin + PAYLOAD_HEADER.itemsize :]
    expectations = (
        ("payload.magic", begin, PAYLOAD_MAGIC, bytes(payload["magic"])),
        ("payload.payload_version", begin + 8, PAYLOAD_VERSION, int(payload["payload_version"])),
        ("payload.layout_version", begin + 12, LAYOUT_VERSION, int(payload["layout_version"])),
        ("payload.structure_size", begin + 16, len(body), int(payload["structure_size"])),
        ("DeserializedSizeInBytes", 40, len(body), int(header["DeserializedSizeInBytes"])),
        ("payload.checksum", begin + 24, hex(payload_checksum(view)), hex(int(payload["checksum"]))),
    )
    for field, offset, expected, found in expectations:
        if expected != found:
            raise _damaged(name, "the blob is damaged", offset, field, expected, found)
    data = aligned_bytes(len(body))
    data[:] = body
    return data


def _check_structure(target: Structure, offset: int, name: str) -> None:
    problems = check(target)
    if problems:
        raise _damaged(
            name, "the structure in the blob is not sound", offset, "payload", "a sound structure", problems[0]
        )
    if int(target.header["state"]) != layout.STATE_LIVE:
        raise DamagedBytesError(
            name, "XB-5", "dehydrated structures are stored raw, not in blobs", offset=offset,
            field="payload.header.state", expected=layout.STATE_LIVE, found=int(target.header["state"]), call=CALL,
        )  # fmt: skip


def _patch(target: Structure, pointers: NDArray[np.uint64], listed: int, name: str) -> None:
    """Put the pointers where the payload marks them [SER-5, SER-6]."""
    rows = (
        target.section(SectionKind.INSTANCE_DESCS)["AccelerationStructure"]
        if target.is_top_level
        else np.empty(0, np.uint64)
    )
    field = "NumBottomLevelAccelerationStructurePointersAfterHeader"
    if listed != len(rows):
        raise _damaged(name, "one pointer for each instance", 48, field, len(rows), listed)
    if pointers.shape != rows.shape:
        raise _damaged(name, "one pointer for each instance", None, "pointers", rows.shape, pointers.shape)
    require(check_pointers(pointers, rows != 0), CALL)
    rows[:] = pointers


def check_pointers(pointers: NDArray[np.uint64], present: NDArray[np.bool_]) -> list[Violation]:
    """SER-6: (n,) patched pointers are 256-aligned, and zero exactly where ``present`` (n,) bool is false."""
    found: list[Violation] = []
    unaligned = pointers % np.uint64(ACCELERATION_STRUCTURE_BYTE_ALIGNMENT) != 0
    for i in np.flatnonzero(unaligned)[:MOST_REPORTED]:
        text = "a pointer must be a multiple of 256"
        found.append(violation("SER-6", text, field=f"pointer[{i}]", value=hex(int(pointers[i]))))
    for i in np.flatnonzero((pointers != 0) != present)[:MOST_REPORTED]:
        text = "an instance had a bottom level and must keep one" if present[i] else "an instance had no bottom level"
        found.append(violation("SER-6", text, field=f"pointer[{i}]", value=hex(int(pointers[i]))))
    return found


def _damaged(
    name: str, message: str, offset: int | None, field: str, expected: object, found: object
) -> DamagedBytesError:
    return DamagedBytesError(
        name, "SER-12", message, offset=offset, field=field, expected=expected, found=found, call=CALL
    )
