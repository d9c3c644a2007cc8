"""Rehydration on Xbox: zeros become boxes and vertices again (section 8 of the rules)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rtviewer.accel.structure import Structure
from rtviewer.copymode.dehydrate import check_rehydratable, check_rehydrate_inputs
from rtviewer.copymode.dehydrate import rehydrate as refill
from rtviewer.device.buffers import AS
from rtviewer.device.build_call import NO_CONTENT
from rtviewer.device.checks_inputs import check_inputs
from rtviewer.device.contents import Record
from rtviewer.device.device_memory import DeviceMemory
from rtviewer.device.memory_access import Access, Range, check_overlaps
from rtviewer.device.read_inputs import Memory, read_geometries
from rtviewer.dxr.descs import BlasInputs
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag
from rtviewer.dxr.limits import ACCELERATION_STRUCTURE_BYTE_ALIGNMENT
from rtviewer.dxr.raw_descs import BuildDesc
from rtviewer.dxr.rules import require
from rtviewer.errors import InvalidInputError, Violation, violation

CALL = "RehydrateRaytracingAccelerationStructureBatchedX"
SECTION = "D3D12XBOX_RAYTRACING_ACCELERATION_STRUCTURE_BUILD_FLAG_DEHYDRATE"


@dataclass
class _Item:
    """One desc of the batch while it is judged."""

    desc: BuildDesc
    record: Record | None
    source: Range | None
    dest: Range | None
    geometries: BlasInputs | None


def rehydrate(memory: DeviceMemory, descs: Sequence[BuildDesc]) -> list[Structure]:
    """See Device.rehydrate. A batch equals the single calls in order [XB-13]; it is judged as a whole."""
    if not memory.profile.xbox:
        text = "rehydration belongs to the Xbox profile"
        raise InvalidInputError(
            [violation("XB-1", text, field="profile", value=str(memory.profile), section=SECTION)], CALL
        )
    found: list[Violation] = []
    items = [_judge(memory, desc, f"pDescs[{i}].", found) for i, desc in enumerate(descs)]
    _check_ranges(items, found)
    require(found, CALL)
    made = [_make(memory, item) for item in items]
    memory.warn(found)
    return [
        memory.store(item.desc.dest_acceleration_structure_data, structure).structure
        for item, structure in zip(items, made, strict=True)
    ]


def _judge(memory: DeviceMemory, desc: BuildDesc, prefix: str, found: list[Violation]) -> _Item:
    """XB-8, and the rules of inputs, source and destination."""
    here: list[Violation] = []
    flags = BuildFlag(int(desc.inputs.flags))
    if int(desc.inputs.type) != AccelerationStructureType.BOTTOM_LEVEL:
        text = "the type must be BOTTOM_LEVEL"
        here.append(violation("XB-8", text, field="Inputs.Type", value=int(desc.inputs.type), section=SECTION))
    if not flags & BuildFlag.DEHYDRATE:
        text = "the flags must contain DEHYDRATE"
        here.append(violation("XB-8", text, field="Inputs.Flags", value=f"{int(flags):#x}", section=SECTION))
    here += check_inputs(desc.inputs, memory.profile)
    broken = {v.rule for v in here if not v.warning}
    record, source = _source(memory, desc, here)
    multiple = ((ACCELERATION_STRUCTURE_BYTE_ALIGNMENT, "ALIGN-1"),)
    size = record.structure.size if record is not None else 0
    dest, more = memory.resolve(
        Access(
            "DestAccelerationStructureData", desc.dest_acceleration_structure_data, size, AS, multiple, "BLD-8", CALL
        )
    )
    here += more
    geometries, readable = None, False
    if not broken & (NO_CONTENT | {"XB-8", "XB-12"}):
        inputs_memory = Memory(memory.space)
        geometries = read_geometries(desc.inputs, inputs_memory)
        here += inputs_memory.violations
        readable = not inputs_memory.has_errors
    if readable and geometries is not None and record is not None and record.is_dehydrated:
        here += check_rehydrate_inputs(record.structure, geometries)
    found += [
        violation(v.rule, v.message, field=prefix + v.field, value=v.value, section=v.section, warning=v.warning)
        for v in here
    ]
    return _Item(desc, record, source, dest, geometries)


def _source(memory: DeviceMemory, desc: BuildDesc, found: list[Violation]) -> tuple[Record | None, Range | None]:
    """The dehydrated bytes, written by a build or loaded as they were stored [XB-6]."""
    address, name = desc.source_acceleration_structure_data, "SourceAccelerationStructureData"
    damaged = memory.adopt_dehydrated(address, name)
    record, problems = memory.live(address, name, "XB-8", SECTION)
    found += damaged or problems
    if record is None:
        return None, None
    found += check_rehydratable(record.structure)
    return record, memory.range_of(record, address, name)


def _check_ranges(items: Sequence[_Item], found: list[Violation]) -> None:
    """XB-9: in place or apart, and no desc of a batch writes what another one reads or writes."""
    for i, item in enumerate(items):
        if item.dest is None:
            continue
        if item.source is not None and item.source.start != item.dest.start:
            found += check_overlaps([item.dest], [item.source], "XB-9", SECTION)
        others = [r for k, o in enumerate(items) if k != i for r in (o.source, o.dest if k > i else None) if r]
        found += check_overlaps([item.dest], others, "XB-9", SECTION)


def _make(memory: DeviceMemory, item: _Item) -> Structure:
    assert item.record is not None
    assert item.geometries is not None
    address = item.desc.dest_acceleration_structure_data
    return refill(item.record.structure, item.geometries, name=memory.name_at(address), address=address)
