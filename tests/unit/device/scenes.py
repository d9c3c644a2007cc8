"""A device with its buffers, for tests: small calls that fill memory, size destinations and build."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from rtviewer.accel.structure import Structure
from rtviewer.device.buffers import AS, SRV, UAV, Buffer, bytes_of
from rtviewer.device.device import Device
from rtviewer.dxr.flags import BuildFlag, CopyMode, ElementsLayout, GeometryType, PostbuildInfoType, ResourceState
from rtviewer.dxr.formats import VERTEX_LAYOUTS, IndexFormat, VertexFormat
from rtviewer.dxr.layouts import SERIALIZED_HEADER1
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile, Tier
from rtviewer.dxr.raw_descs import (
    AabbsDesc,
    BuildDesc,
    BuildInputs,
    GeometryDesc,
    GpuVirtualAddressAndStride,
    InstanceDesc,
    PostbuildInfoDesc,
    TrianglesDesc,
    instance_desc_array,
)
from rtviewer.errors import InvalidInputError
from rtviewer.scene.generators import icosphere
from rtviewer.trace.request import Hits, RayBatch, TraceSettings

XBOX = Profile(xbox=True)
TIER_1_0 = Profile(Tier.TIER_1_0)
TIER_1_2 = Profile(Tier.TIER_1_2)

TRIANGLE = np.float32([[0, 0, 0], [0, 1, 0], [1, 0, 0]])
"""Front facing for a ray along +z; the ray below meets it at t = 5."""
ORIGIN, FORWARD = (0.2, 0.2, -5.0), (0.0, 0.0, 1.0)
BOX = np.float32([[-1, -1, -1, 1, 1, 1]])

NOWHERE = 0x7777_0000_0000_0000
"""An address that no buffer has; 256-aligned."""


def moved(vertices: ArrayLike, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> NDArray[np.float32]:
    """The vertices shifted."""
    return np.asarray(vertices, np.float32) + np.float32([x, y, z])


def address_and_stride(address: int, stride: int) -> GpuVirtualAddressAndStride:
    return GpuVirtualAddressAndStride(address, stride)


def bottom(*descs: GeometryDesc, flags: int = 0) -> BuildInputs:
    """Inputs of a bottom level."""
    return BuildInputs.bottom_level(descs, flags)


def header_of(blob: Buffer) -> np.void:
    """The header of a serialized structure."""
    return blob.view(SERIALIZED_HEADER1, 0, 1)[0]  # type: ignore[no-any-return]


class Lab:
    """A device and what tests do with it."""

    def __init__(self, profile: Profile = DEFAULT_PROFILE, *, debug: bool = False) -> None:
        self.device = Device(profile, debug=debug)

    # --- memory ---------------------------------------------------------------------------------------------------

    def buffer(self, size: int, state: ResourceState = SRV, name: str = "buffer") -> Buffer:
        return self.device.create_buffer(max(size, 1), state, name)

    def put(self, data: bytes | ArrayLike, name: str = "input", state: ResourceState = SRV) -> int:
        """The address of a new buffer that holds exactly ``data``."""
        raw = data if isinstance(data, bytes) else bytes_of(data).tobytes()
        buffer = self.buffer(len(raw), state, name)
        buffer.write(raw)
        return buffer.address

    def buffer_at(self, address: int) -> Buffer:
        place = self.device.find(address)
        assert place is not None
        return place[0]

    # --- descs ----------------------------------------------------------------------------------------------------

    def triangles(
        self,
        vertices: ArrayLike,
        indices: ArrayLike | None = None,
        transform: ArrayLike | None = None,
        flags: int = 0,
        index_dtype: type[np.unsignedinteger[Any]] = np.uint32,
    ) -> GeometryDesc:
        """Float3 vertices, tightly packed, in buffers of their own."""
        points = np.asarray(vertices, np.float32).reshape(-1, 3)
        index_buffer, index_count, index_format = 0, 0, IndexFormat.UNKNOWN
        if indices is not None:
            flat = np.asarray(indices, index_dtype).reshape(-1)
            index_buffer, index_count = self.put(flat, "indices"), len(flat)
            index_format = IndexFormat.R32_UINT if flat.itemsize == 4 else IndexFormat.R16_UINT
        matrix = 0 if transform is None else self.put(np.asarray(transform, np.float32), "transform")
        return GeometryDesc(
            GeometryType.TRIANGLES,
            flags,
            TrianglesDesc(
                matrix, index_format, VertexFormat.R32G32B32_FLOAT, index_count, len(points), index_buffer,
                address_and_stride(self.put(points, "vertices") if len(points) else 0, 12),
            ),
        )  # fmt: skip

    def raw_triangles(
        self, data: bytes | ArrayLike, count: int, vertex_format: VertexFormat, stride: int | None = None
    ) -> GeometryDesc:
        """``count`` vertices of any format from raw bytes."""
        step = VERTEX_LAYOUTS[vertex_format].read_size if stride is None else stride
        return GeometryDesc(
            triangles=TrianglesDesc(
                vertex_format=vertex_format,
                vertex_count=count,
                vertex_buffer=address_and_stride(self.put(data, "vertices"), step),
            )
        )

    def boxes(self, aabbs: ArrayLike, flags: int = 0) -> GeometryDesc:
        rows = np.asarray(aabbs, np.float32).reshape(-1, 6)
        address = self.put(rows, "aabbs") if len(rows) else 0
        return GeometryDesc(
            GeometryType.PROCEDURAL_PRIMITIVE_AABBS,
            flags,
            aabbs=AabbsDesc(len(rows), address_and_stride(address, 24)),
        )

    def instances(
        self, *descs: InstanceDesc, flags: int = 0, layout: ElementsLayout = ElementsLayout.ARRAY
    ) -> BuildInputs:
        """Top-level inputs; the descs are in a new buffer."""
        address = self.put(instance_desc_array(descs), "instances") if descs else 0
        if layout == ElementsLayout.ARRAY_OF_POINTERS and descs:
            pointers = np.uint64(address) + np.arange(len(descs), dtype=np.uint64)[::1] * np.uint64(64)
            address = self.put(pointers, "pointers")
        return BuildInputs.top_level(len(descs), address, flags, layout)

    # --- builds ---------------------------------------------------------------------------------------------------

    def build_desc(
        self,
        inputs: BuildInputs,
        *,
        source: int = 0,
        dest: int | None = None,
        scratch: int | None = None,
        name: str = "structure",
    ) -> BuildDesc:
        """A desc whose destination and scratch are new buffers of exactly the sizes that are needed."""
        info = self.device.get_prebuild_info(inputs)
        flags = BuildFlag(int(inputs.flags))
        size, scratch_size = info.result_data_max_size_in_bytes, info.scratch_data_size_in_bytes
        if flags & BuildFlag.PERFORM_UPDATE and source:
            size = self.device.structure_at(source).size
            original = BuildInputs(
                inputs.type, flags | BuildFlag.ALLOW_UPDATE, inputs.num_descs, inputs.descs_layout,
                inputs.instance_descs, inputs.geometry_descs,
            )  # fmt: skip
            scratch_size = self.device.get_prebuild_info(original).update_scratch_data_size_in_bytes
        if dest is None:
            dest = self.buffer(size, AS, name).address
        if scratch is None:
            scratch = self.buffer(scratch_size, UAV, "scratch").address
        return BuildDesc(dest, inputs, source, scratch)

    def build(self, inputs: BuildInputs, **more: Any) -> int:
        """Build and return the address of the structure."""
        desc = self.build_desc(inputs, **more)
        self.device.build(desc)
        return desc.dest_acceleration_structure_data

    def blas(self, *geometries: GeometryDesc, flags: int = 0, **more: Any) -> int:
        """Build a bottom level of the geometries; the triangle above without any."""
        descs = geometries or (self.triangles(TRIANGLE),)
        return self.build(BuildInputs.bottom_level(descs, flags), name="BLAS", **more)

    def ball(self, flags: int = BuildFlag.ALLOW_COMPACTION, **more: Any) -> int:
        """Build a bottom level of a sphere of 1280 triangles."""
        return self.blas(self.triangles(*sphere(3)), flags=flags, **more)

    def tlas(self, *descs: InstanceDesc | int, flags: int = 0, **more: Any) -> int:
        """Build a top level; an address stands for one plain instance of what lives there."""
        full = [InstanceDesc(acceleration_structure=d) if isinstance(d, int) else d for d in descs]
        return self.build(self.instances(*full, flags=flags), name="TLAS", **more)

    def update(self, source: int, inputs: BuildInputs, *, in_place: bool = False) -> int:
        """Update; ``inputs`` need not carry PERFORM_UPDATE."""
        flags = BuildFlag(int(inputs.flags)) | BuildFlag.PERFORM_UPDATE
        full = BuildInputs(
            inputs.type, flags, inputs.num_descs, inputs.descs_layout, inputs.instance_descs, inputs.geometry_descs
        )
        return self.build(full, source=source, dest=source if in_place else None)

    def structure(self, address: int) -> Structure:
        return self.device.structure_at(address)

    # --- copies and infos -----------------------------------------------------------------------------------------

    def postbuild(self, kind: PostbuildInfoType, *sources: int) -> list[int]:
        """The 64-bit words that Emit writes for the sources."""
        words = 2 if kind is PostbuildInfoType.SERIALIZATION else 1
        dest = self.buffer(8 * words * len(sources), UAV, "infos")
        self.device.emit_postbuild_info(PostbuildInfoDesc(dest.address, kind), sources)
        return [int(word) for word in dest.view(np.uint64)]

    def copy_size(self, source: int, mode: CopyMode) -> int:
        """What a destination needs, as postbuild info says."""
        kinds = {
            CopyMode.CLONE: PostbuildInfoType.CURRENT_SIZE,
            CopyMode.COMPACT: PostbuildInfoType.COMPACTED_SIZE,
            CopyMode.VISUALIZATION_DECODE_FOR_TOOLS: PostbuildInfoType.TOOLS_VISUALIZATION,
            CopyMode.SERIALIZE: PostbuildInfoType.SERIALIZATION,
        }
        return self.postbuild(kinds[mode], source)[0]

    def copy(self, source: int, mode: CopyMode) -> int:
        """Copy to a new buffer of exactly the size needed; returns its address."""
        if mode is CopyMode.DESERIALIZE:
            size = int(self.buffer_at(source).view(np.uint64, 40, 1)[0])
        else:
            size = self.copy_size(source, mode)
        state = UAV if mode in (CopyMode.VISUALIZATION_DECODE_FOR_TOOLS, CopyMode.SERIALIZE) else AS
        dest = self.buffer(size, state, mode.name.lower())
        self.device.copy(dest.address, source, mode)
        return dest.address

    def serialized(self, source: int) -> Buffer:
        """A blob of the structure, in a buffer that is ready to be deserialized."""
        blob = self.buffer_at(self.copy(source, CopyMode.SERIALIZE))
        self.device.transition(blob, SRV)
        return blob

    def deserialize(self, blob: Buffer) -> int:
        """A structure from a blob, at a new address."""
        return self.copy(blob.address, CopyMode.DESERIALIZE)

    # --- rays -----------------------------------------------------------------------------------------------------

    def trace(self, tlas: int, origin: object = ORIGIN, direction: object = FORWARD, **settings: Any) -> Hits:
        both = np.broadcast_arrays(np.atleast_2d(np.float32(origin)), np.float32(direction))
        rays = RayBatch.make(*(part.copy() for part in both))
        return self.device.trace(tlas, rays, TraceSettings(**settings)).hits

    # --- what must fail -------------------------------------------------------------------------------------------

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Whatever the block raises, it leaves every byte and every state as it was."""
        before = {b.address: (b.state, b.read()) for b in self.device.buffers}
        try:
            yield
        finally:
            assert before == {b.address: (b.state, b.read()) for b in self.device.buffers if b.address in before}

    @contextmanager
    def refused(self, *rules: str) -> Iterator[list[InvalidInputError]]:
        """The block must raise exactly these rules, in this order, and change no byte of any buffer."""
        caught: list[InvalidInputError] = []
        with pytest.raises(InvalidInputError) as raised, self.unchanged():
            yield caught
        caught.append(raised.value)
        assert raised.value.rules == rules, str(raised.value)
        for one in raised.value.violations:
            assert one.message
            assert f"[{one.rule}]" in str(raised.value)

    @contextmanager
    def refused_only(self, rule: str) -> Iterator[None]:
        """As ``refused``, with one rule broken any number of times."""
        with pytest.raises(InvalidInputError) as raised, self.unchanged():
            yield
        assert set(raised.value.rules) == {rule}, str(raised.value)

    @contextmanager
    def refused_with(self, rule: str) -> Iterator[None]:
        """As ``refused``, with this rule among those broken."""
        with pytest.raises(InvalidInputError) as raised, self.unchanged():
            yield
        assert rule in raised.value.rules, str(raised.value)

    def warned(self) -> list[str]:
        """Rules warned of since the last question."""
        rules = [v.rule for v in self.device.warnings]
        self.device.warnings.clear()
        return rules


def assert_equal_hits(a: Hits, b: Hits, columns: Sequence[str] = ()) -> None:
    """Equal in every column, or in those named."""
    names = columns or (
        "hit", "t", "instance_index", "geometry_index", "primitive_index", "hit_kind", "instance_id", "attributes",
    )  # fmt: skip
    for name in names:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)


def sphere(subdivisions: int = 2) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """Vertices and indices of a sphere of radius 1."""
    made = icosphere(subdivisions)
    return made.vertices, made.indices


def rays_at(centre: ArrayLike, count: int, seed: int = 1) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Origins on a sphere of radius 6 and directions roughly at ``centre``."""
    random = np.random.default_rng(seed)
    origins = random.normal(size=(count, 3))
    origins = 6 * origins / np.linalg.norm(origins, axis=1, keepdims=True)
    targets = np.asarray(centre) + random.uniform(-1.2, 1.2, (count, 3))
    return origins.astype(np.float32), (targets - origins).astype(np.float32)
