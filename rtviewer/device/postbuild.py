"""Postbuild info: sizes written to a buffer, after a build or when asked (section 5.2 of the rules)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rtviewer.accel.structure import Structure
from rtviewer.copymode.compact import compacted_size
from rtviewer.copymode.decode import decoded_size
from rtviewer.copymode.serialize import pointer_count, serialized_size
from rtviewer.device.buffers import UAV
from rtviewer.device.contents import Record
from rtviewer.device.device_memory import DeviceMemory
from rtviewer.device.memory_access import Access, Range
from rtviewer.dxr.flags import BuildFlag, PostbuildInfoType
from rtviewer.dxr.layouts import (
    POSTBUILD_INFO_COMPACTED_SIZE_DESC,
    POSTBUILD_INFO_CURRENT_SIZE_DESC,
    POSTBUILD_INFO_SERIALIZATION_DESC,
    POSTBUILD_INFO_TOOLS_VISUALIZATION_DESC,
)
from rtviewer.dxr.limits import POSTBUILD_INFO_BYTE_ALIGNMENT
from rtviewer.dxr.raw_descs import PostbuildInfoDesc
from rtviewer.dxr.rules import require
from rtviewer.errors import Violation, violation

CALL = "EmitRaytracingAccelerationStructurePostbuildInfo"
SECTION = "D3D12_RAYTRACING_ACCELERATION_STRUCTURE_POSTBUILD_INFO_DESC"
_TYPES = frozenset(int(t) for t in PostbuildInfoType)

OUTPUTS = {
    PostbuildInfoType.COMPACTED_SIZE: POSTBUILD_INFO_COMPACTED_SIZE_DESC,
    PostbuildInfoType.TOOLS_VISUALIZATION: POSTBUILD_INFO_TOOLS_VISUALIZATION_DESC,
    PostbuildInfoType.SERIALIZATION: POSTBUILD_INFO_SERIALIZATION_DESC,
    PostbuildInfoType.CURRENT_SIZE: POSTBUILD_INFO_CURRENT_SIZE_DESC,
}


def emit(memory: DeviceMemory, desc: PostbuildInfoDesc, sources: Sequence[int]) -> None:
    """One output struct per source, in order [POST-3].

    Raises InvalidInputError: POST-1, POST-4, POST-13, ALIGN-1, ALIGN-8, ST-1, CP-7, XB-5.
    """
    dest, found = check_dest(memory, desc, len(sources), "pDesc")
    records: list[Record] = []
    for i, address in enumerate(sources):
        field = f"pSourceAccelerationStructureData[{i}]"
        damaged = memory.adopt_dehydrated(address, field)
        record, violations = memory.live(address, field, "POST-13", CALL)
        found += damaged or violations
        if record is not None:
            records.append(record)
            flags, dehydrated = record.structure.build_flags, record.is_dehydrated
            found += check_available(desc, flags, dehydrated, field)
    require(found, CALL)
    memory.warn(found)
    if dest is not None:
        write(dest, desc, [record.structure for record in records])


def check_build_outputs(
    memory: DeviceMemory, descs: Sequence[PostbuildInfoDesc], flags: BuildFlag
) -> tuple[list[Range | None], list[Violation]]:
    """Outputs that a build call asks for [BLD-13, POST-2]."""
    ranges: list[Range | None] = []
    found: list[Violation] = []
    for i, desc in enumerate(descs):
        field = f"pPostbuildInfoDescs[{i}]"
        dest, violations = check_dest(memory, desc, 1, field)
        ranges.append(dest)
        found += violations
        found += check_available(desc, flags, bool(flags & BuildFlag.DEHYDRATE), f"{field}.InfoType")
    times = Counter(int(desc.info_type) for desc in descs)
    for i, desc in enumerate(descs):
        value = int(desc.info_type)
        if times[value] > 1 and i != next(k for k, d in enumerate(descs) if int(d.info_type) == value):
            text = "one build call asks for each type at most once"
            field = f"pPostbuildInfoDescs[{i}].InfoType"
            found.append(violation("POST-2", text, field=field, value=value, section=SECTION))
    return ranges, found


def check_dest(
    memory: DeviceMemory, desc: PostbuildInfoDesc, count: int, field: str
) -> tuple[Range | None, list[Violation]]:
    """POST-1, ALIGN-8, ST-1 of the buffer that the infos go to; None without sources or when it is not there."""
    if int(desc.info_type) not in _TYPES:
        text = "the type must be 0 to 3"
        value = int(desc.info_type)
        return None, [violation("POST-1", text, field=f"{field}.InfoType", value=value, section=SECTION)]
    size = count * OUTPUTS[PostbuildInfoType(desc.info_type)].itemsize
    alignments = ((POSTBUILD_INFO_BYTE_ALIGNMENT, "ALIGN-8"), (POSTBUILD_INFO_BYTE_ALIGNMENT, "POST-1"))
    return memory.resolve(
        Access(f"{field}.DestBuffer", desc.dest_buffer, size, UAV, alignments, "POST-1", section=SECTION)
    )


def check_available(desc: PostbuildInfoDesc, flags: BuildFlag, dehydrated: bool, field: str) -> list[Violation]:
    """POST-4 and XB-5 for a structure built with ``flags``."""
    found: list[Violation] = []
    kind = int(desc.info_type)
    if kind == PostbuildInfoType.COMPACTED_SIZE and not flags & BuildFlag.ALLOW_COMPACTION:
        text = "the structure was built without ALLOW_COMPACTION and has no compacted size"
        found.append(violation("POST-4", text, field=field, value=f"{int(flags):#x}", section=SECTION))
    if dehydrated and kind != PostbuildInfoType.CURRENT_SIZE:
        text = "a dehydrated structure has a current size only; rehydrate it first"
        found.append(violation("XB-5", text, field=field, value=kind, section=SECTION))
    return found


def write(dest: Range, desc: PostbuildInfoDesc, structures: Sequence[Structure]) -> None:
    """Write the outputs of all structures, in order."""
    kind = PostbuildInfoType(desc.info_type)
    rows = np.zeros(len(structures), OUTPUTS[kind])
    for row, structure in zip(rows, structures, strict=True):
        row[OUTPUTS[kind].names[0]] = _size(structure, kind)  # type: ignore[index]
        if kind is PostbuildInfoType.SERIALIZATION:
            row["NumBottomLevelAccelerationStructurePointers"] = pointer_count(structure)
    dest.bytes[:] = rows.view(np.uint8)


def _size(structure: Structure, kind: PostbuildInfoType) -> int:
    if kind is PostbuildInfoType.COMPACTED_SIZE:
        return compacted_size(structure)
    if kind is PostbuildInfoType.TOOLS_VISUALIZATION:
        return decoded_size(structure)
    if kind is PostbuildInfoType.SERIALIZATION:
        return serialized_size(structure)
    return structure.size
