"""Descs and their bytes: what is written is what is read, at the offsets of the layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rtviewer.dxr import layouts
from rtviewer.dxr.flags import ElementsLayout, GeometryType, PostbuildInfoType
from rtviewer.dxr.formats import IndexFormat, VertexFormat
from rtviewer.dxr.raw_descs import (
    AabbsDesc,
    BuildDesc,
    BuildInputs,
    GeometryDesc,
    GpuVirtualAddressAndStride,
    InstanceDesc,
    PostbuildInfoDesc,
    PrebuildInfo,
    TrianglesDesc,
    instance_desc_array,
)
from rtviewer.errors import InvalidInputError
from tests.unit.device.scenes import TRIANGLE, Lab

TRIANGLES = TrianglesDesc(
    0x1122334455667788, IndexFormat.R16_UINT, VertexFormat.R8G8_SNORM, 33, 44, 0x99AABBCC00,
    GpuVirtualAddressAndStride(7, 8),
)  # fmt: skip
AABBS = AabbsDesc(1 << 40, GpuVirtualAddressAndStride(0x8877665544332211, (1 << 33) + 24))
INSTANCE = InstanceDesc(
    np.arange(12).reshape(3, 4), 0x123456, 0xAB, 0x654321, 0xCD, 0x0102030405060700
)  # fmt: skip


@pytest.mark.rule("LAY-1", "LAY-2")
@pytest.mark.parametrize(
    ("desc", "dtype"),
    [
        (TRIANGLES, layouts.GEOMETRY_TRIANGLES_DESC),
        (AABBS, layouts.GEOMETRY_AABBS_DESC),
        (TRIANGLES.vertex_buffer, layouts.GPU_VIRTUAL_ADDRESS_AND_STRIDE),
        (GeometryDesc(0, 3, TRIANGLES), layouts.GEOMETRY_DESC),
        (GeometryDesc(GeometryType.PROCEDURAL_PRIMITIVE_AABBS, 1, aabbs=AABBS), layouts.GEOMETRY_DESC),
        (GeometryDesc(77, 1 << 31, TRIANGLES), layouts.GEOMETRY_DESC),
        (INSTANCE, layouts.INSTANCE_DESC),
        (BuildInputs.top_level(9, 0x12345678, 0x40000001, ElementsLayout.ARRAY_OF_POINTERS), layouts.BUILD_INPUTS),
        (BuildDesc(1, BuildInputs.top_level(9, 16), 2, 3), layouts.BUILD_DESC),
        (PostbuildInfoDesc(0x1234, PostbuildInfoType.SERIALIZATION), layouts.POSTBUILD_INFO_DESC),
        (PrebuildInfo(256, 512, 1 << 40), layouts.PREBUILD_INFO),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, np.dtype) else "",
)
def test_bytes_come_back_as_the_same_desc(desc: Any, dtype: np.dtype[Any]) -> None:
    data = desc.to_bytes()
    assert len(data) == dtype.itemsize
    assert type(desc).from_bytes(data) == desc
    assert type(desc).from_bytes(np.frombuffer(data + b"more", np.uint8)) == desc
    with pytest.raises(InvalidInputError) as raised:
        type(desc).from_bytes(data[:-1])
    assert raised.value.rules == ("LAY-1",)


@pytest.mark.rule("LAY-1", "LAY-2")
def test_fields_stand_at_the_offsets_of_the_layouts() -> None:
    data = GeometryDesc(0, 3, TRIANGLES).to_bytes()
    word, long = (
        (lambda o: int.from_bytes(data[o : o + 4], "little")),
        lambda o: int.from_bytes(data[o : o + 8], "little"),
    )
    assert [word(o) for o in (0, 4, 16, 20, 24, 28)] == [0, 3, 57, 51, 33, 44]
    assert [long(o) for o in (8, 32, 40, 48)] == [0x1122334455667788, 0x99AABBCC00, 7, 8]
    data = GeometryDesc(1, 0, aabbs=AABBS).to_bytes()
    assert [long(o) for o in (8, 16, 24)] == [1 << 40, 0x8877665544332211, (1 << 33) + 24]
    assert data[32:] == bytes(24)
    assert INSTANCE.to_bytes()[48:56] == bytes.fromhex("563412AB214365CD")
    assert INSTANCE.to_bytes()[:48] == np.arange(12, dtype="<f4").tobytes()
    data = BuildDesc(1, BuildInputs.top_level(9, 16, 5, ElementsLayout.ARRAY_OF_POINTERS), 2, 3).to_bytes()
    assert np.frombuffer(data, "<u8")[[0, 3, 4, 5]].tolist() == [1, 16, 2, 3]
    assert np.frombuffer(data, "<u4")[2:6].tolist() == [0, 5, 9, 1]


@pytest.mark.rule("LAY-1")
def test_padding_is_ignored() -> None:
    data = bytearray(PostbuildInfoDesc(8, 1).to_bytes())
    data[12:16] = b"\xff" * 4
    assert PostbuildInfoDesc.from_bytes(bytes(data)) == PostbuildInfoDesc(8, 1)
    data = bytearray(GeometryDesc(1, 0, aabbs=AABBS).to_bytes())
    data[32:] = b"\xff" * 24
    assert GeometryDesc.from_bytes(bytes(data)) == GeometryDesc(1, 0, aabbs=AABBS)


@pytest.mark.rule("ERR-5")
@pytest.mark.parametrize(
    "make",
    [
        lambda: TrianglesDesc(vertex_count=1 << 32),
        lambda: TrianglesDesc(index_count=-1),
        lambda: TrianglesDesc(transform3x4=1 << 64),
        lambda: AabbsDesc(1 << 64),
        lambda: GpuVirtualAddressAndStride(0, -12),
        lambda: GeometryDesc(flags=1 << 32),
        lambda: BuildInputs(num_descs=-1),
        lambda: BuildInputs(flags=1 << 32),
        lambda: BuildDesc(-1, BuildInputs()),
        lambda: PostbuildInfoDesc(0, 1 << 32),
    ],
)
def test_integers_out_of_range_are_refused_not_truncated(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidInputError) as raised:
        make()
    assert raised.value.rules == ("ERR-5",)
    assert raised.value.violations[0].section.startswith("D3D12_")


class CpuMemory:
    """Bytes at made-up pointers."""

    def __init__(self) -> None:
        self.blocks: dict[int, bytes] = {}

    def put(self, data: bytes) -> int:
        pointer = 0x10000 * (len(self.blocks) + 1)
        self.blocks[pointer] = data
        return pointer

    def __call__(self, pointer: int, size: int) -> bytes:
        start = pointer & ~0xFFFF
        block = self.blocks[start][pointer - start :]
        assert len(block) >= size
        return block[:size]


@pytest.mark.rule("EL-1", "LAY-1")
@pytest.mark.parametrize("layout", list(ElementsLayout))
def test_a_raw_build_call_is_followed_through_cpu_memory(layout: ElementsLayout) -> None:
    lab, cpu = Lab(), CpuMemory()
    descs = [lab.triangles(TRIANGLE), lab.triangles(TRIANGLE + 2)]
    if layout is ElementsLayout.ARRAY:
        pointer = cpu.put(b"".join(d.to_bytes() for d in descs))
    else:
        pointer = cpu.put(np.uint64([cpu.put(b"\0" * 8 + d.to_bytes()) + 8 for d in descs]).tobytes())
    built = lab.build_desc(BuildInputs.bottom_level(descs, layout=layout))
    raw = built.to_bytes(pointer)
    read = BuildDesc.from_bytes(raw, cpu)
    assert read == BuildDesc(
        built.dest_acceleration_structure_data, BuildInputs.bottom_level(tuple(descs), layout=layout), 0,
        built.scratch_acceleration_structure_data,
    )  # fmt: skip
    lab.device.build(read)
    assert lab.trace(lab.tlas(built.dest_acceleration_structure_data)).hit.all()
    with pytest.raises(ValueError, match="CPU memory"):
        BuildDesc.from_bytes(raw)
    assert BuildInputs.from_bytes(BuildInputs().to_bytes()) == BuildInputs()


def test_instances_equal_by_their_bytes() -> None:
    assert InstanceDesc.from_bytes(INSTANCE.to_bytes()) == INSTANCE
    assert InstanceDesc(np.arange(12).reshape(3, 4) + 1, 0x123456) != INSTANCE
    assert len({INSTANCE, InstanceDesc.from_bytes(INSTANCE.to_bytes()), InstanceDesc()}) == 2
    np.testing.assert_array_equal(
        instance_desc_array([INSTANCE, InstanceDesc()]),
        np.frombuffer(INSTANCE.to_bytes() + InstanceDesc().to_bytes(), np.uint8),
    )
