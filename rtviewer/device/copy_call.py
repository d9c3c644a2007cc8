"""CopyRaytracingAccelerationStructure: the only way in which bytes of structures move (section 4 of the rules)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.structure import Structure
from rtviewer.copymode.clone import clone
from rtviewer.copymode.compact import check_compactable, compact, compacted_size
from rtviewer.copymode.decode import decode, decoded_size
from rtviewer.copymode.deserialize import deserialize
from rtviewer.copymode.serialize import serialize, serialized_size
from rtviewer.device.buffers import AS, SRV, UAV
from rtviewer.device.contents import Record
from rtviewer.device.device_memory import DeviceMemory
from rtviewer.device.memory_access import Access, Range, check_overlaps
from rtviewer.dxr.flags import CopyMode
from rtviewer.dxr.layouts import SERIALIZED_HEADER1
from rtviewer.dxr.limits import ACCELERATION_STRUCTURE_BYTE_ALIGNMENT
from rtviewer.dxr.profile import Profile
from rtviewer.dxr.rules import require
from rtviewer.errors import InvalidInputError, Violation, violation

CALL = "CopyRaytracingAccelerationStructure"
SECTION = "D3D12_RAYTRACING_ACCELERATION_STRUCTURE_COPY_MODE"
DEST, SOURCE = "DestAccelerationStructureData", "SourceAccelerationStructureData"

XBOX_MODES = (CopyMode.SERIALIZE_AND_COMPRESS, CopyMode.SERIALIZE_AND_COMPRESS_FOR_GPU)
ALIGNMENT_RULES = ("ALIGN-9", "CP-2")


def copy(memory: DeviceMemory, dest: int, source: int, mode: int) -> Structure | None:
    """See Device.copy."""
    found = check_mode(mode, memory.profile)
    if found:
        raise InvalidInputError(found, CALL)
    if mode == CopyMode.DESERIALIZE:
        return _deserialize(memory, dest, source)
    return _copy_from_live(memory, dest, source, CopyMode(mode))


def check_mode(mode: int, profile: Profile) -> list[Violation]:
    """CP-1 and XB-15."""
    if mode in XBOX_MODES and profile.xbox:
        text = (
            f"{CopyMode(mode).name} is deprecated and not supported: build with DEHYDRATE and store the bytes instead"
        )
        return [violation("XB-15", text, field="Mode", value=f"{mode:#x}", section=SECTION)]
    if mode in range(5):
        return []
    text = "the mode must be 0 to 4"
    if mode in XBOX_MODES:
        text += f"; {CopyMode(mode).name} belongs to the Xbox profile"
    return [violation("CP-1", text, field="Mode", value=f"{mode:#x}", section=SECTION)]


# --- modes 0 to 3 -------------------------------------------------------------------------------------------------


def _copy_from_live(memory: DeviceMemory, dest: int, source: int, mode: CopyMode) -> Structure | None:
    """CLONE, COMPACT, VISUALIZATION_DECODE_FOR_TOOLS and SERIALIZE."""
    record, found = memory.live(source, SOURCE, "CP-6", SECTION, ALIGNMENT_RULES)
    size = 0
    if record is not None:
        problems = _check_source(record, mode, source)
        found += problems
        size = 0 if problems else destination_size(record.structure, mode)
    makes_structure = mode in (CopyMode.CLONE, CopyMode.COMPACT)
    target, more = memory.resolve(_dest_access(dest, size, makes_structure))
    found += more
    if record is not None and target is not None:
        found += check_overlaps([target], [memory.range_of(record, source, SOURCE)], "CP-3", SECTION)
    require(found, CALL)
    assert record is not None
    assert target is not None
    memory.warn(found)
    if makes_structure:
        return _write_structure(memory, dest, record, mode)
    target.bytes[:] = _bytes_for_tools(record.structure, mode, dest)
    return None


def _check_source(record: Record, mode: CopyMode, address: int) -> list[Violation]:
    """CP-12 and XB-5."""
    if record.is_dehydrated:
        text = (
            f"a dehydrated structure cannot be the source of {mode.name}: rehydrate it, or store its bytes as they are"
        )
        return [violation("XB-5", text, field=SOURCE, value=f"{address:#x}", section=SECTION)]
    return check_compactable(record.structure, "CP-12") if mode is CopyMode.COMPACT else []


def _dest_access(address: int, size: int, is_structure: bool) -> Access:
    multiples = tuple((ACCELERATION_STRUCTURE_BYTE_ALIGNMENT, rule) for rule in ALIGNMENT_RULES)
    return Access(DEST, address, size, AS if is_structure else UAV, multiples, "CP-8", SECTION)


def destination_size(source: Structure, mode: CopyMode) -> int:
    """Bytes that a copy of a live structure writes: the table of section 4.1 [CP-8]."""
    if mode is CopyMode.CLONE:
        return source.size
    if mode is CopyMode.COMPACT:
        return compacted_size(source)
    return decoded_size(source) if mode is CopyMode.VISUALIZATION_DECODE_FOR_TOOLS else serialized_size(source)


def _write_structure(memory: DeviceMemory, dest: int, record: Record, mode: CopyMode) -> Structure:
    """A copy of a stale top level is as stale as its source [BLD-6, CP-16]."""
    make = clone if mode is CopyMode.CLONE else compact
    made = make(record.structure, name=memory.name_at(dest), address=dest)
    return memory.store(dest, made, record.blas_generations).structure


def _bytes_for_tools(source: Structure, mode: CopyMode, dest: int) -> NDArray[np.uint8]:
    return decode(source, dest) if mode is CopyMode.VISUALIZATION_DECODE_FOR_TOOLS else serialize(source)


# --- mode 4 -------------------------------------------------------------------------------------------------------


def _deserialize(memory: DeviceMemory, dest: int, source: int) -> Structure:
    """SER-5 to SER-8 and SER-12 are judged on private memory, so nothing is written before all is well."""
    blob, found = _blob_range(memory, source)
    made: Structure | None = None
    if blob is not None:
        made, problems = _read_blob(blob, memory.name_at(dest), dest)
        found += problems
    target, more = memory.resolve(_dest_access(dest, made.size if made is not None else 0, is_structure=True))
    found += more
    if blob is not None and target is not None:
        found += check_overlaps([target], [blob], "CP-3", SECTION)
    require(found, CALL)
    assert made is not None
    memory.warn(found)
    # What lives at the pointers is judged when rays are traced.
    unknown: Mapping[int, int | None] = {}
    return memory.store(dest, made, unknown).structure


def _blob_range(memory: DeviceMemory, source: int) -> tuple[Range | None, list[Violation]]:
    """The bytes that a blob's header says are its own: CP-6 without a header, SER-12 when they are not there."""
    multiples = tuple((ACCELERATION_STRUCTURE_BYTE_ALIGNMENT, rule) for rule in ALIGNMENT_RULES)
    head, found = memory.resolve(Access(SOURCE, source, SERIALIZED_HEADER1.itemsize, SRV, multiples, "CP-6", SECTION))
    if head is None:
        return None, found
    size = int(head.bytes.view(SERIALIZED_HEADER1)[0]["SerializedSizeInBytesIncludingHeader"])
    room = head.buffer.size - head.offset
    if size > room:
        text = f"the header gives a size of {size} bytes; {room} are left in buffer {head.buffer.name!r}"
        field = f"{SOURCE}.SerializedSizeInBytesIncludingHeader"
        return None, [*found, violation("SER-12", text, field=field, value=size, section=SECTION)]
    return Range(SOURCE, head.start, head.start + size, head.buffer, head.offset), found


def _read_blob(blob: Range, name: str, address: int) -> tuple[Structure | None, list[Violation]]:
    try:
        return deserialize(blob.bytes, name=name, address=address), []
    except InvalidInputError as error:
        return None, list(error.violations)
