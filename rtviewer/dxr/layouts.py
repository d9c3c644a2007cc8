"""Byte layouts that the specification fixes, as numpy dtypes (section 2 of the rules, LAY-1 and LAY-2).

All data is little-endian; ``GPUVA`` is a 64-bit unsigned address. Padding has no field, is written as zero and ignored
when read. Bit-fields have helpers below the dtypes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

GPUVA = "<u8"


def _struct(size: int, **fields: tuple[str | np.dtype[Any] | tuple[Any, Any], int]) -> np.dtype[Any]:
    """A dtype with explicit offsets: ``name=(format, offset)``."""
    return np.dtype(
        {
            "names": list(fields),
            "formats": [f for f, _ in fields.values()],
            "offsets": [o for _, o in fields.values()],
            "itemsize": size,
        }
    )


INSTANCE_DESC = _struct(
    64,
    Transform=(("<f4", (3, 4)), 0),
    InstanceIDAndMask=("<u4", 48),
    InstanceContributionAndFlags=("<u4", 52),
    AccelerationStructure=(GPUVA, 56),
)
GPU_VIRTUAL_ADDRESS_AND_STRIDE = _struct(16, StartAddress=(GPUVA, 0), StrideInBytes=("<u8", 8))
GEOMETRY_TRIANGLES_DESC = _struct(
    48,
    Transform3x4=(GPUVA, 0),
    IndexFormat=("<u4", 8),
    VertexFormat=("<u4", 12),
    IndexCount=("<u4", 16),
    VertexCount=("<u4", 20),
    IndexBuffer=(GPUVA, 24),
    VertexBuffer=(GPU_VIRTUAL_ADDRESS_AND_STRIDE, 32),
)
GEOMETRY_AABBS_DESC = _struct(24, AABBCount=("<u8", 0), AABBs=(GPU_VIRTUAL_ADDRESS_AND_STRIDE, 8))
GEOMETRY_OMM_TRIANGLES_DESC = _struct(16, pTriangles=("<u8", 0), pOmmLinkage=("<u8", 8))
GEOMETRY_DESC = _struct(
    56,
    Type=("<u4", 0),
    Flags=("<u4", 4),
    Triangles=(GEOMETRY_TRIANGLES_DESC, 8),
    AABBs=(GEOMETRY_AABBS_DESC, 8),
    OmmTriangles=(GEOMETRY_OMM_TRIANGLES_DESC, 8),
)
AABB = _struct(
    24, MinX=("<f4", 0), MinY=("<f4", 4), MinZ=("<f4", 8), MaxX=("<f4", 12), MaxY=("<f4", 16), MaxZ=("<f4", 20)
)
BUILD_INPUTS = _struct(
    24, Type=("<u4", 0), Flags=("<u4", 4), NumDescs=("<u4", 8), DescsLayout=("<u4", 12), Descs=("<u8", 16)
)
BUILD_DESC = _struct(
    48,
    DestAccelerationStructureData=(GPUVA, 0),
    Inputs=(BUILD_INPUTS, 8),
    SourceAccelerationStructureData=(GPUVA, 32),
    ScratchAccelerationStructureData=(GPUVA, 40),
)
PREBUILD_INFO = _struct(
    24,
    ResultDataMaxSizeInBytes=("<u8", 0),
    ScratchDataSizeInBytes=("<u8", 8),
    UpdateScratchDataSizeInBytes=("<u8", 16),
)
POSTBUILD_INFO_DESC = _struct(16, DestBuffer=(GPUVA, 0), InfoType=("<u4", 8))
POSTBUILD_INFO_COMPACTED_SIZE_DESC = _struct(8, CompactedSizeInBytes=("<u8", 0))
POSTBUILD_INFO_TOOLS_VISUALIZATION_DESC = _struct(8, DecodedSizeInBytes=("<u8", 0))
POSTBUILD_INFO_CURRENT_SIZE_DESC = _struct(8, CurrentSizeInBytes=("<u8", 0))
POSTBUILD_INFO_SERIALIZATION_DESC = _struct(
    16, SerializedSizeInBytes=("<u8", 0), NumBottomLevelAccelerationStructurePointers=("<u8", 8)
)
GUID = _struct(16, Data1=("<u4", 0), Data2=("<u2", 4), Data3=("<u2", 6), Data4=(("u1", (8,)), 8))
DRIVER_MATCHING_IDENTIFIER = _struct(32, DriverOpaqueGUID=(GUID, 0), DriverOpaqueVersioningData=(("u1", (16,)), 16))
SERIALIZED_HEADER = _struct(
    56,
    DriverMatchingIdentifier=(DRIVER_MATCHING_IDENTIFIER, 0),
    SerializedSizeInBytesIncludingHeader=("<u8", 32),
    DeserializedSizeInBytes=("<u8", 40),
    NumBottomLevelAccelerationStructurePointersAfterHeader=("<u8", 48),
)
SERIALIZED_HEADER1 = _struct(
    56,
    DriverMatchingIdentifier=(DRIVER_MATCHING_IDENTIFIER, 0),
    SerializedSizeInBytesIncludingHeader=("<u8", 32),
    DeserializedSizeInBytes=("<u8", 40),
    NumBottomLevelAccelerationStructurePointersAfterHeader=("<u4", 48),
    HeaderPostambleType=("<u4", 52),
)
SERIALIZED_BLOCK = _struct(16, Type=("<u4", 0), NumBlockPointersAfterHeader=("<u8", 8))
TOOLS_VISUALIZATION_HEADER = _struct(8, Type=("<u4", 0), NumDescs=("<u4", 4))
OMM_LINKAGE_DESC = _struct(
    32,
    OpacityMicromapIndexBuffer=(GPU_VIRTUAL_ADDRESS_AND_STRIDE, 0),
    OpacityMicromapIndexFormat=("<u4", 16),
    OpacityMicromapBaseLocation=("<u4", 20),
    OpacityMicromapArray=(GPUVA, 24),
)
OMM_ARRAY_DESC = _struct(
    40,
    NumOmmHistogramEntries=("<u4", 0),
    pOmmHistogram=("<u8", 8),
    InputBuffer=(GPUVA, 16),
    PerOmmDescs=(GPU_VIRTUAL_ADDRESS_AND_STRIDE, 24),
)
OMM_HISTOGRAM_ENTRY = _struct(12, Count=("<u4", 0), SubdivisionLevel=("<u4", 4), Format=("<u4", 8))
OMM_DESC = _struct(8, ByteOffset=("<u4", 0), SubdivisionLevel=("<u2", 4), Format=("<u2", 6))
RAY_DESC = _struct(32, Origin=(("<f4", (3,)), 0), TMin=("<f4", 12), Direction=(("<f4", (3,)), 16), TMax=("<f4", 28))


def pack_24_8(low: int | NDArray[np.uint32], high: int | NDArray[np.uint32]) -> Any:
    """A 24-bit value below an 8-bit one, as INSTANCE_DESC stores them. The caller has checked the ranges (LIM-4)."""
    return np.asarray(low, np.uint32) | (np.asarray(high, np.uint32) << np.uint32(24))


def low_24(word: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """InstanceID or InstanceContributionToHitGroupIndex."""
    return word & np.uint32(0xFFFFFF)


def high_8(word: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """InstanceMask or Flags."""
    return word >> np.uint32(24)
