"""From descs and memory to build inputs: every buffer a build reads, checked and decoded.

Addresses are followed only after alignment, bounds and state were found right. What a build keeps are copies (BLD-3).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rtviewer.device.address_space import AddressSpace
from rtviewer.device.buffers import SRV
from rtviewer.device.checks_inputs import AABBS_SECTION, TRIANGLES_SECTION, desc_field, geometry_descs
from rtviewer.device.memory_access import Access, Range, check_state_of, resolve
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, Geometry, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import ElementsLayout, GeometryFlag
from rtviewer.dxr.formats import VERTEX_LAYOUTS, IndexFormat, VertexFormat
from rtviewer.dxr.layouts import INSTANCE_DESC, high_8, low_24
from rtviewer.dxr.limits import AABB_BYTE_ALIGNMENT, INSTANCE_DESCS_BYTE_ALIGNMENT, TRANSFORM3X4_BYTE_ALIGNMENT
from rtviewer.dxr.raw_descs import AabbsDesc, BuildInputs, GeometryDesc, TrianglesDesc
from rtviewer.dxr.vertex_data import (
    AABB_SIZE,
    INDEX_SIZES,
    STRIDE_BITS,
    TRANSFORM_SIZE,
    decode_aabbs,
    decode_indices,
    decode_transform,
    decode_vertices,
    strided_extent,
    vertices_extent,
)
from rtviewer.errors import Violation, violation

INSTANCE_SECTION = "D3D12_RAYTRACING_INSTANCE_DESC"
POINTER_SIZE = 8
MOST_REPORTED = 8


@dataclass
class Memory:
    """What was found on the way: ranges that are read, and violations, warnings among them."""

    space: AddressSpace
    ranges: list[Range] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)

    def read(self, access: Access) -> Range | None:
        found, violations = resolve(self.space, access)
        self.violations += violations
        if found is not None:
            self.ranges.append(found)
        return found

    @property
    def has_errors(self) -> bool:
        return any(not v.warning for v in self.violations)


# --- bottom level -------------------------------------------------------------------------------------------------


def read_geometries(inputs: BuildInputs, memory: Memory) -> BlasInputs:
    """Decode every geometry desc; an empty geometry stands for one that could not be read, which is a violation.

    Checks GEO-6, GEO-8, ALIGN-4 to ALIGN-7, VF-4, ST-1; INA-8 as a warning. The descs have passed ``check_inputs``.
    """
    geometries: list[Geometry] = []
    for index, desc in enumerate(geometry_descs(inputs)):
        name = desc_field(inputs, index)
        geometry = _read_boxes(desc, memory, name) if desc.is_procedural else _read_triangles(desc, memory, name)
        if geometry is None:
            empty = np.empty((0, 6 if desc.is_procedural else 3), np.float32)
            geometry = AabbsGeometry(empty) if desc.is_procedural else TrianglesGeometry(empty)
        geometries.append(geometry)
        memory.violations += _infinities(geometry, name)
    return BlasInputs(tuple(geometries))


def _read_triangles(desc: GeometryDesc, memory: Memory, name: str) -> TrianglesGeometry | None:
    triangles, name = desc.triangles, f"{name}.Triangles"
    before = len(memory.violations)
    vertices = _vertex_range(triangles, memory, name)
    index_range = _index_range(triangles, memory, name)
    transform = None
    if triangles.transform3x4:
        alignment = ((TRANSFORM3X4_BYTE_ALIGNMENT, "ALIGN-4"),)
        transform = memory.read(
            Access(
                f"{name}.Transform3x4", triangles.transform3x4, TRANSFORM_SIZE, SRV, alignment,
                section=TRIANGLES_SECTION,
            )
        )  # fmt: skip
    if any(not v.warning for v in memory.violations[before:]):
        return None
    vertex_format = VertexFormat(triangles.vertex_format)
    stride = triangles.vertex_buffer.stride_in_bytes
    return TrianglesGeometry(
        _owned(decode_vertices(_bytes(vertices), 0, stride, triangles.vertex_count, vertex_format)),
        _decode_triangle_indices(triangles, index_range),
        decode_transform(transform.bytes, 0) if transform is not None else None,
        GeometryFlag(int(desc.flags)),
        vertex_format=vertex_format,
        index_format=IndexFormat(triangles.index_format),
    )


def _vertex_range(desc: TrianglesDesc, memory: Memory, name: str) -> Range | None:
    vertex_format = VertexFormat(desc.vertex_format)
    size = VERTEX_LAYOUTS[vertex_format].component_size
    address, stride = desc.vertex_buffer.start_address, desc.vertex_buffer.stride_in_bytes & STRIDE_BITS
    field_name = f"{name}.VertexBuffer.StrideInBytes"
    if stride % size:
        text = f"the stride must be a multiple of {size}"
        memory.violations.append(violation("ALIGN-5", text, field=field_name, value=stride, section=TRIANGLES_SECTION))
    if vertex_format is VertexFormat.R10G10B10A2_UNORM and stride != 4:
        warning = stride % 4 == 0
        text = "the specification asks for a stride of 4" if warning else "the stride must be a multiple of 4"
        memory.violations.append(
            violation("VF-4", text, field=field_name, value=stride, section=TRIANGLES_SECTION, warning=warning)
        )
    if not desc.vertex_count:
        return None
    extent = vertices_extent(desc.vertex_count, stride, vertex_format)
    return memory.read(
        Access(
            f"{name}.VertexBuffer.StartAddress", address, extent, SRV, ((size, "ALIGN-5"),),
            "GEO-6" if address else "GEO-8", TRIANGLES_SECTION,
        )
    )  # fmt: skip


def _index_range(desc: TrianglesDesc, memory: Memory, name: str) -> Range | None:
    if not desc.index_buffer or not desc.index_count:
        return None
    size = INDEX_SIZES[IndexFormat(desc.index_format)]
    return memory.read(
        Access(
            f"{name}.IndexBuffer", desc.index_buffer, desc.index_count * size, SRV, ((size, "ALIGN-6"),),
            section=TRIANGLES_SECTION,
        )
    )  # fmt: skip


def _decode_triangle_indices(desc: TrianglesDesc, found: Range | None) -> NDArray[np.uint32] | None:
    """(triangle_count, 3) uint32, a trailing one or two left out [GEO-3]; None for consecutive triples."""
    if not desc.index_buffer:
        return None
    whole = 3 * desc.primitive_count
    return decode_indices(_bytes(found), 0, whole, IndexFormat(desc.index_format)).reshape(-1, 3)


def _read_boxes(desc: GeometryDesc, memory: Memory, name: str) -> AabbsGeometry | None:
    boxes: AabbsDesc = desc.aabbs
    address, stride = boxes.aabbs.start_address, boxes.aabbs.stride_in_bytes & STRIDE_BITS
    before = len(memory.violations)
    if stride % AABB_BYTE_ALIGNMENT:
        text = f"the stride must be a multiple of {AABB_BYTE_ALIGNMENT}"
        field_name = f"{name}.AABBs.AABBs.StrideInBytes"
        memory.violations.append(violation("ALIGN-7", text, field=field_name, value=stride, section=AABBS_SECTION))
    found = None
    if boxes.aabb_count:
        found = memory.read(
            Access(
                f"{name}.AABBs.AABBs.StartAddress", address, strided_extent(boxes.aabb_count, stride, AABB_SIZE), SRV,
                ((AABB_BYTE_ALIGNMENT, "ALIGN-7"),), "GEO-6" if address else "GEO-8", AABBS_SECTION,
            )
        )  # fmt: skip
    if any(not v.warning for v in memory.violations[before:]):
        return None
    return AabbsGeometry(
        _owned(decode_aabbs(_bytes(found), 0, stride, boxes.aabb_count)), GeometryFlag(int(desc.flags))
    )


def _bytes(found: Range | None) -> NDArray[np.uint8]:
    return found.bytes if found is not None else np.empty(0, np.uint8)


def _owned(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """Stride 0 gave a view of one row."""
    return np.ascontiguousarray(array)


def _infinities(geometry: Geometry, name: str) -> list[Violation]:
    """INA-8."""
    values = geometry.aabbs if isinstance(geometry, AabbsGeometry) else geometry.vertices
    rows = np.flatnonzero(np.isinf(values).any(1))
    if not len(rows):
        return []
    what = "AABB" if isinstance(geometry, AabbsGeometry) else "vertex"
    text = f"{what} {int(rows[0])} is infinite ({len(rows)} in all): its primitives may fail to be hit"
    section = "Inactive primitives and instances"
    return [violation("INA-8", text, field=name, value="infinity", section=section, warning=True)]


# --- top level ----------------------------------------------------------------------------------------------------


def read_instances(inputs: BuildInputs, memory: Memory) -> InstanceInputs | None:
    """The instance descs as a table; None when they could not be read.

    Checks ALIGN-3, GEO-6, GEO-8, ST-1.
    """
    count = inputs.num_descs
    if not count:
        return instance_table(np.empty(0, INSTANCE_DESC))
    size = INSTANCE_DESC.itemsize
    rule = "GEO-6" if inputs.instance_descs else "GEO-8"
    pointers = inputs.descs_layout == ElementsLayout.ARRAY_OF_POINTERS
    step, multiple = (POINTER_SIZE, 8) if pointers else (size, INSTANCE_DESCS_BYTE_ALIGNMENT)
    access = Access(
        "Inputs.InstanceDescs", inputs.instance_descs, count * step, SRV, ((multiple, "ALIGN-3"),), rule,
        INSTANCE_SECTION,
    )  # fmt: skip
    before = len(memory.violations)
    found = memory.read(access)
    if found is None or len(memory.violations) > before:
        return None
    if not pointers:
        return instance_table(np.ascontiguousarray(found.bytes).view(INSTANCE_DESC))
    raw = _gather(found.bytes.view("<u8"), size, memory)
    return instance_table(raw.view(INSTANCE_DESC).reshape(-1)) if raw is not None else None


def _gather(addresses: NDArray[np.uint64], size: int, memory: Memory) -> NDArray[np.uint8] | None:
    """(n, size) uint8: the desc at each of many addresses."""
    found: list[Violation] = []
    for i in np.flatnonzero(addresses % INSTANCE_DESCS_BYTE_ALIGNMENT)[:MOST_REPORTED]:
        text = f"an instance desc must start at a multiple of {INSTANCE_DESCS_BYTE_ALIGNMENT}"
        found.append(_at_pointer("ALIGN-3", text, int(i), int(addresses[i])))
    out = np.empty((len(addresses), size), np.uint8)
    known = np.zeros(len(addresses), np.bool_)
    for buffer in memory.space:
        last = buffer.address + buffer.size - size
        rows = np.flatnonzero((addresses >= buffer.address) & (addresses <= max(last, 0)))
        if not len(rows):
            continue
        known[rows] = True
        found += check_state_of(buffer, SRV, f"Inputs.InstanceDescs[{int(rows[0])}]")
        offsets = (addresses[rows] - np.uint64(buffer.address)).astype(np.int64)
        out[rows] = buffer.memory[offsets[:, None] + np.arange(size)]
        for first, last in _merged(offsets, size):
            start = buffer.place + first
            memory.ranges.append(Range("Inputs.InstanceDescs", start, buffer.place + last, buffer, first))
    for i in np.flatnonzero(~known)[:MOST_REPORTED]:
        text = f"the pointer names no buffer with {size} bytes left"
        found.append(_at_pointer("GEO-6" if addresses[i] else "GEO-8", text, int(i), int(addresses[i])))
    memory.violations += found
    return None if found else out


def _at_pointer(rule: str, text: str, index: int, address: int) -> Violation:
    field_name = f"Inputs.InstanceDescs[{index}]"
    return violation(rule, text, field=field_name, value=f"{address:#x}", section=INSTANCE_SECTION)


def _merged(offsets: NDArray[np.int64], size: int) -> list[tuple[int, int]]:
    """Ranges of ``size`` bytes that touch or overlap, joined."""
    ordered = np.unique(offsets)
    breaks = np.flatnonzero(np.diff(ordered) > size)
    firsts = ordered[np.concatenate([[0], breaks + 1])]
    lasts = ordered[np.concatenate([breaks, [len(ordered) - 1]])] + size
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def instance_table(rows: NDArray[np.void]) -> InstanceInputs:
    """Instance descs (n,) as the table a build takes; copies."""
    return InstanceInputs(
        transform=np.ascontiguousarray(rows["Transform"], np.float32).reshape(-1, 3, 4).copy(),
        instance_id=low_24(rows["InstanceIDAndMask"]),
        mask=high_8(rows["InstanceIDAndMask"]).astype(np.uint8),
        contribution=low_24(rows["InstanceContributionAndFlags"]),
        flags=high_8(rows["InstanceContributionAndFlags"]).astype(np.uint8),
        blas_address=rows["AccelerationStructure"].astype(np.uint64),
    )
