"""The descs of the D3D12 calls, field by field, and their bytes (section 2 of the rules).

Fields carry the D3D12 names in snake case; addresses are GPU virtual addresses in a simulated address space. A desc may
hold any value its C field can hold, also an illegal one: the device judges that. What the field cannot is refused when
it is made, never truncated (ERR-5). ``to_bytes`` writes padding as zero and ``from_bytes`` ignores it (LAY-1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rtviewer.dxr import layouts
from rtviewer.dxr.descs import IDENTITY
from rtviewer.dxr.flags import (
    AccelerationStructureType,
    BuildFlag,
    ElementsLayout,
    GeometryFlag,
    GeometryType,
    PostbuildInfoType,
)
from rtviewer.dxr.formats import IndexFormat, VertexFormat
from rtviewer.dxr.limits import MAX_INSTANCE_CONTRIBUTION_TO_HIT_GROUP_INDEX, MAX_INSTANCE_ID, MAX_INSTANCE_MASK
from rtviewer.errors import InvalidInputError, Violation, violation

CpuMemory: TypeAlias = Callable[[int, int], bytes]
"""``(pointer, size)`` to bytes: how a reader follows the CPU pointers inside raw descs."""

U32, U64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def _check_ranges(desc: Any, section: str, **maxima: tuple[int, str]) -> None:
    """Refuse integers that the C field cannot hold. ``maxima``: field to largest value and rule."""
    found: list[Violation] = []
    for name, (largest, rule) in maxima.items():
        value = int(getattr(desc, name))
        if not 0 <= value <= largest:
            text = f"the field holds 0 to {largest}"
            found.append(violation(rule, text, field=_spelling(name), value=value, section=section))
    if found:
        raise InvalidInputError(found)


def _spelling(name: str) -> str:
    """``vertex_format`` as ``VertexFormat``, ``instance_id`` as ``InstanceID``."""
    words = [{"id": "ID", "aabb": "AABB", "aabbs": "AABBs"}.get(w, w.capitalize()) for w in name.split("_")]
    return "".join(words)


def _row(data: Any, dtype: np.dtype[Any], name: str) -> Any:
    """The first ``itemsize`` bytes of ``data`` as one structured value."""
    raw = np.frombuffer(bytes(memoryview(data)[: dtype.itemsize]), np.uint8)
    if len(raw) < dtype.itemsize:
        text = f"{name} takes {dtype.itemsize} bytes"
        raise InvalidInputError([violation("LAY-1", text, field=name, value=f"{len(raw)} bytes", section=name)])
    return raw.view(dtype)[0]


def _bytes(dtype: np.dtype[Any], **values: Any) -> bytes:
    row = np.zeros(1, dtype)
    for name, value in values.items():
        row[name] = value
    return row.tobytes()


def _nested(data: bytes, dtype: np.dtype[Any]) -> Any:
    return np.frombuffer(data, dtype)[0]


@dataclass(frozen=True)
class GpuVirtualAddressAndStride:
    start_address: int = 0
    stride_in_bytes: int = 0
    """Only the low 32 bits count (GEO-5)."""

    def __post_init__(self) -> None:
        section = "D3D12_GPU_VIRTUAL_ADDRESS_AND_STRIDE"
        _check_ranges(self, section, start_address=(U64, "ERR-5"), stride_in_bytes=(U64, "ERR-5"))

    def to_bytes(self) -> bytes:
        return _bytes(
            layouts.GPU_VIRTUAL_ADDRESS_AND_STRIDE,
            StartAddress=self.start_address,
            StrideInBytes=self.stride_in_bytes,
        )

    @classmethod
    def from_bytes(cls, data: Any) -> GpuVirtualAddressAndStride:
        row = _row(data, layouts.GPU_VIRTUAL_ADDRESS_AND_STRIDE, "D3D12_GPU_VIRTUAL_ADDRESS_AND_STRIDE")
        return cls(int(row["StartAddress"]), int(row["StrideInBytes"]))


@dataclass(frozen=True)
class TrianglesDesc:
    """D3D12_RAYTRACING_GEOMETRY_TRIANGLES_DESC."""

    transform3x4: int = 0
    index_format: int = IndexFormat.UNKNOWN
    vertex_format: int = VertexFormat.R32G32B32_FLOAT
    index_count: int = 0
    vertex_count: int = 0
    index_buffer: int = 0
    vertex_buffer: GpuVirtualAddressAndStride = field(default_factory=GpuVirtualAddressAndStride)

    def __post_init__(self) -> None:
        wide = dict.fromkeys(("transform3x4", "index_buffer"), (U64, "ERR-5"))
        narrow = dict.fromkeys(("index_format", "vertex_format", "index_count", "vertex_count"), (U32, "ERR-5"))
        _check_ranges(self, "D3D12_RAYTRACING_GEOMETRY_TRIANGLES_DESC", **wide, **narrow)

    @property
    def primitive_count(self) -> int:
        """Whole triangles [GEO-3]."""
        return (self.index_count if self.index_buffer else self.vertex_count) // 3

    def to_bytes(self) -> bytes:
        return _bytes(
            layouts.GEOMETRY_TRIANGLES_DESC,
            Transform3x4=self.transform3x4,
            IndexFormat=int(self.index_format),
            VertexFormat=int(self.vertex_format),
            IndexCount=self.index_count,
            VertexCount=self.vertex_count,
            IndexBuffer=self.index_buffer,
            VertexBuffer=_nested(self.vertex_buffer.to_bytes(), layouts.GPU_VIRTUAL_ADDRESS_AND_STRIDE),
        )

    @classmethod
    def from_bytes(cls, data: Any) -> TrianglesDesc:
        row = _row(data, layouts.GEOMETRY_TRIANGLES_DESC, "D3D12_RAYTRACING_GEOMETRY_TRIANGLES_DESC")
        return cls(
            int(row["Transform3x4"]), int(row["IndexFormat"]), int(row["VertexFormat"]), int(row["IndexCount"]),
            int(row["VertexCount"]), int(row["IndexBuffer"]),
            GpuVirtualAddressAndStride.from_bytes(row["VertexBuffer"].tobytes()),
        )  # fmt: skip


@dataclass(frozen=True)
class AabbsDesc:
    """D3D12_RAYTRACING_GEOMETRY_AABBS_DESC."""

    aabb_count: int = 0
    aabbs: GpuVirtualAddressAndStride = field(default_factory=GpuVirtualAddressAndStride)

    def __post_init__(self) -> None:
        _check_ranges(self, "D3D12_RAYTRACING_GEOMETRY_AABBS_DESC", aabb_count=(U64, "ERR-5"))

    def to_bytes(self) -> bytes:
        address = _nested(self.aabbs.to_bytes(), layouts.GPU_VIRTUAL_ADDRESS_AND_STRIDE)
        return _bytes(layouts.GEOMETRY_AABBS_DESC, AABBCount=self.aabb_count, AABBs=address)

    @classmethod
    def from_bytes(cls, data: Any) -> AabbsDesc:
        row = _row(data, layouts.GEOMETRY_AABBS_DESC, "D3D12_RAYTRACING_GEOMETRY_AABBS_DESC")
        return cls(int(row["AABBCount"]), GpuVirtualAddressAndStride.from_bytes(row["AABBs"].tobytes()))


@dataclass(frozen=True)
class GeometryDesc:
    """D3D12_RAYTRACING_GEOMETRY_DESC; ``type`` says which member of the union counts."""

    type: int = GeometryType.TRIANGLES
    flags: int = GeometryFlag.NONE
    triangles: TrianglesDesc = field(default_factory=TrianglesDesc)
    aabbs: AabbsDesc = field(default_factory=AabbsDesc)

    def __post_init__(self) -> None:
        _check_ranges(self, "D3D12_RAYTRACING_GEOMETRY_DESC", type=(U32, "ERR-5"), flags=(U32, "ERR-5"))

    @property
    def is_procedural(self) -> bool:
        return int(self.type) == GeometryType.PROCEDURAL_PRIMITIVE_AABBS

    @property
    def primitive_count(self) -> int:
        return self.aabbs.aabb_count if self.is_procedural else self.triangles.primitive_count

    def to_bytes(self) -> bytes:
        member = self.aabbs.to_bytes() if self.is_procedural else self.triangles.to_bytes()
        head = np.array([int(self.type), int(self.flags)], "<u4").tobytes()
        return (head + member).ljust(layouts.GEOMETRY_DESC.itemsize, b"\0")

    @classmethod
    def from_bytes(cls, data: Any) -> GeometryDesc:
        row = _row(data, layouts.GEOMETRY_DESC, "D3D12_RAYTRACING_GEOMETRY_DESC")
        kind, flags = int(row["Type"]), int(row["Flags"])
        if kind == GeometryType.PROCEDURAL_PRIMITIVE_AABBS:
            return cls(kind, flags, aabbs=AabbsDesc.from_bytes(row["AABBs"].tobytes()))
        return cls(kind, flags, TrianglesDesc.from_bytes(row["Triangles"].tobytes()))


@dataclass(frozen=True, eq=False)
class InstanceDesc:
    """D3D12_RAYTRACING_INSTANCE_DESC; equal when the bytes are. ``transform`` (3, 4) float32, object to world."""

    transform: ArrayLike = field(default_factory=lambda: IDENTITY)
    instance_id: int = 0
    instance_mask: int = 0xFF
    instance_contribution_to_hit_group_index: int = 0
    flags: int = 0
    acceleration_structure: int = 0

    def __post_init__(self) -> None:
        _check_ranges(
            self,
            "D3D12_RAYTRACING_INSTANCE_DESC",
            instance_id=(MAX_INSTANCE_ID, "LIM-4"),
            instance_mask=(MAX_INSTANCE_MASK, "LIM-4"),
            instance_contribution_to_hit_group_index=(MAX_INSTANCE_CONTRIBUTION_TO_HIT_GROUP_INDEX, "LIM-4"),
            flags=(0xFF, "LIM-4"),
            acceleration_structure=(U64, "ERR-5"),
        )
        object.__setattr__(self, "transform", np.array(self.transform, np.float32).reshape(3, 4))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InstanceDesc) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def to_bytes(self) -> bytes:
        return _bytes(
            layouts.INSTANCE_DESC,
            Transform=self.transform,
            InstanceIDAndMask=layouts.pack_24_8(self.instance_id, self.instance_mask),
            InstanceContributionAndFlags=layouts.pack_24_8(
                self.instance_contribution_to_hit_group_index, int(self.flags)
            ),
            AccelerationStructure=self.acceleration_structure,
        )

    @classmethod
    def from_bytes(cls, data: Any) -> InstanceDesc:
        row = _row(data, layouts.INSTANCE_DESC, "D3D12_RAYTRACING_INSTANCE_DESC")
        first, second = int(row["InstanceIDAndMask"]), int(row["InstanceContributionAndFlags"])
        return cls(
            row["Transform"], first & 0xFFFFFF, first >> 24, second & 0xFFFFFF, second >> 24,
            int(row["AccelerationStructure"]),
        )  # fmt: skip


@dataclass(frozen=True)
class BuildInputs:
    """D3D12_BUILD_RAYTRACING_ACCELERATION_STRUCTURE_INPUTS.

    A top level names its instance descs by address (``instance_descs``: of the array, or of the array of pointers). A
    bottom level's descs are in CPU memory, here ``geometry_descs``, the same sequence for both layouts.
    """

    type: int = AccelerationStructureType.BOTTOM_LEVEL
    flags: int = BuildFlag.NONE
    num_descs: int = 0
    descs_layout: int = ElementsLayout.ARRAY
    instance_descs: int = 0
    geometry_descs: Sequence[GeometryDesc] = ()

    def __post_init__(self) -> None:
        narrow = dict.fromkeys(("type", "flags", "num_descs", "descs_layout"), (U32, "ERR-5"))
        section = "D3D12_BUILD_RAYTRACING_ACCELERATION_STRUCTURE_INPUTS"
        _check_ranges(self, section, instance_descs=(U64, "ERR-5"), **narrow)

    @classmethod
    def bottom_level(
        cls,
        geometry_descs: Sequence[GeometryDesc],
        flags: int = BuildFlag.NONE,
        layout: ElementsLayout = ElementsLayout.ARRAY,
    ) -> BuildInputs:
        """Inputs of a bottom level of all ``geometry_descs``."""
        kind = AccelerationStructureType.BOTTOM_LEVEL
        return cls(kind, flags, len(geometry_descs), layout, geometry_descs=geometry_descs)

    @classmethod
    def top_level(
        cls,
        num_descs: int,
        instance_descs: int,
        flags: int = BuildFlag.NONE,
        layout: ElementsLayout = ElementsLayout.ARRAY,
    ) -> BuildInputs:
        """Inputs of a top level of ``num_descs`` instances at address ``instance_descs``."""
        return cls(AccelerationStructureType.TOP_LEVEL, flags, num_descs, layout, instance_descs)

    @property
    def is_top_level(self) -> bool:
        return int(self.type) == AccelerationStructureType.TOP_LEVEL

    def to_bytes(self, descs_pointer: int = 0) -> bytes:
        """24 bytes. ``descs_pointer``: where a bottom level's descs, or the pointers to them, are in CPU memory."""
        return _bytes(
            layouts.BUILD_INPUTS,
            Type=int(self.type),
            Flags=int(self.flags),
            NumDescs=self.num_descs,
            DescsLayout=int(self.descs_layout),
            Descs=self.instance_descs if self.is_top_level else descs_pointer,
        )

    @classmethod
    def from_bytes(cls, data: Any, cpu_memory: CpuMemory | None = None) -> BuildInputs:
        """``cpu_memory`` is asked for a bottom level's descs (and, ARRAY_OF_POINTERS, for the pointers to them)."""
        row = _row(data, layouts.BUILD_INPUTS, "D3D12_BUILD_RAYTRACING_ACCELERATION_STRUCTURE_INPUTS")
        kind, flags, count, layout, pointer = (int(row[name]) for name in layouts.BUILD_INPUTS.names or ())
        if kind == AccelerationStructureType.TOP_LEVEL:
            return cls(kind, flags, count, layout, pointer)
        if not count:
            return cls(kind, flags, count, layout)
        if cpu_memory is None:
            raise ValueError("the descs of a bottom level are in CPU memory: give cpu_memory to read them")
        size = layouts.GEOMETRY_DESC.itemsize
        if layout == ElementsLayout.ARRAY_OF_POINTERS:
            pointers = np.frombuffer(cpu_memory(pointer, 8 * count), "<u8")
            parts = [cpu_memory(int(p), size) for p in pointers]
        else:
            block = cpu_memory(pointer, size * count)
            parts = [block[i : i + size] for i in range(0, size * count, size)]
        return cls(kind, flags, count, layout, geometry_descs=tuple(GeometryDesc.from_bytes(p) for p in parts))


@dataclass(frozen=True)
class BuildDesc:
    """D3D12_BUILD_RAYTRACING_ACCELERATION_STRUCTURE_DESC."""

    dest_acceleration_structure_data: int
    inputs: BuildInputs
    source_acceleration_structure_data: int = 0
    scratch_acceleration_structure_data: int = 0

    def __post_init__(self) -> None:
        names = (f.name for f in fields(self) if f.name != "inputs")
        section = "D3D12_BUILD_RAYTRACING_ACCELERATION_STRUCTURE_DESC"
        _check_ranges(self, section, **dict.fromkeys(names, (U64, "ERR-5")))

    def to_bytes(self, descs_pointer: int = 0) -> bytes:
        """48 bytes; ``descs_pointer`` as in BuildInputs.to_bytes."""
        return _bytes(
            layouts.BUILD_DESC,
            DestAccelerationStructureData=self.dest_acceleration_structure_data,
            Inputs=_nested(self.inputs.to_bytes(descs_pointer), layouts.BUILD_INPUTS),
            SourceAccelerationStructureData=self.source_acceleration_structure_data,
            ScratchAccelerationStructureData=self.scratch_acceleration_structure_data,
        )

    @classmethod
    def from_bytes(cls, data: Any, cpu_memory: CpuMemory | None = None) -> BuildDesc:
        """``cpu_memory`` as in BuildInputs.from_bytes."""
        row = _row(data, layouts.BUILD_DESC, "D3D12_BUILD_RAYTRACING_ACCELERATION_STRUCTURE_DESC")
        return cls(
            int(row["DestAccelerationStructureData"]),
            BuildInputs.from_bytes(row["Inputs"].tobytes(), cpu_memory),
            int(row["SourceAccelerationStructureData"]),
            int(row["ScratchAccelerationStructureData"]),
        )


@dataclass(frozen=True)
class PostbuildInfoDesc:
    """D3D12_RAYTRACING_ACCELERATION_STRUCTURE_POSTBUILD_INFO_DESC."""

    dest_buffer: int
    info_type: int = PostbuildInfoType.CURRENT_SIZE

    def __post_init__(self) -> None:
        section = "D3D12_RAYTRACING_ACCELERATION_STRUCTURE_POSTBUILD_INFO_DESC"
        _check_ranges(self, section, dest_buffer=(U64, "ERR-5"), info_type=(U32, "ERR-5"))

    def to_bytes(self) -> bytes:
        return _bytes(layouts.POSTBUILD_INFO_DESC, DestBuffer=self.dest_buffer, InfoType=int(self.info_type))

    @classmethod
    def from_bytes(cls, data: Any) -> PostbuildInfoDesc:
        row = _row(data, layouts.POSTBUILD_INFO_DESC, "D3D12_RAYTRACING_ACCELERATION_STRUCTURE_POSTBUILD_INFO_DESC")
        return cls(int(row["DestBuffer"]), int(row["InfoType"]))


@dataclass(frozen=True)
class PrebuildInfo:
    """D3D12_RAYTRACING_ACCELERATION_STRUCTURE_PREBUILD_INFO; bytes, multiples of 256 (PRE-11)."""

    result_data_max_size_in_bytes: int
    scratch_data_size_in_bytes: int
    update_scratch_data_size_in_bytes: int

    def to_bytes(self) -> bytes:
        values = (getattr(self, f.name) for f in fields(self))
        return np.array(list(values), "<u8").tobytes()

    @classmethod
    def from_bytes(cls, data: Any) -> PrebuildInfo:
        row = _row(data, layouts.PREBUILD_INFO, "D3D12_RAYTRACING_ACCELERATION_STRUCTURE_PREBUILD_INFO")
        return cls(*(int(row[name]) for name in layouts.PREBUILD_INFO.names or ()))


def instance_desc_array(descs: Sequence[InstanceDesc]) -> NDArray[np.uint8]:
    """(64 * n,) uint8: the descs one after the other, as a top level's ARRAY input."""
    return np.frombuffer(b"".join(d.to_bytes() for d in descs), np.uint8).copy()
