"""A structure is its bytes: where things lie, what may be written, and that nothing depends on where it lives."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.accel import layout
from rtviewer.accel.encode import allocate, element_size, seal, set_header
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure, aligned_bytes
from rtviewer.build.builder import build_blas, build_tlas, instance_descs
from rtviewer.dxr.descs import BlasInputs
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag, InstanceFlag, RayFlag
from rtviewer.dxr.layouts import INSTANCE_DESC
from rtviewer.scene.generators import box, icosphere, random_boxes
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import RayBatch, TraceSettings
from tests.worlds import (
    Placement,
    assert_same_hits,
    boxes,
    instance_table,
    mesh,
    one_blas,
    scale,
    translate,
    triangles,
    world,
)

BOTTOM = AccelerationStructureType.BOTTOM_LEVEL
TRIANGLE = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]


def test_sizes_of_elements_are_what_the_layout_promises() -> None:
    sizes = {
        SectionKind.NODES: 256,
        SectionKind.TRIANGLE_PACKS: 160,
        SectionKind.BOX_PACKS: 112,
        SectionKind.GEOMETRIES: 32,
        SectionKind.INSTANCE_DESCS: 64,
        SectionKind.INSTANCE_LEAVES: 64,
        SectionKind.INDEXED_PACKS: 16,
        SectionKind.INDICES: 12,
        SectionKind.VERTICES: 12,
    }
    assert {kind: element_size(kind) for kind in sizes} == sizes
    assert all(element_size(kind) > 0 for kind in SectionKind)
    for kind, dtype in layout.ELEMENT_DTYPES.items():
        assert not dtype.isalignedstruct
        if dtype.names:
            assert dtype.itemsize == sum(dtype[name].itemsize for name in dtype.names), kind
    assert layout.HEADER.itemsize == sum(layout.HEADER[name].itemsize for name in layout.HEADER.names or ())


@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_sections_are_laid_out_in_order_and_aligned(count: int) -> None:
    wanted = [(SectionKind.NODES, count), (SectionKind.BOX_PACKS, 2 * count), (SectionKind.GEOMETRIES, 1)]
    structure = allocate(BOTTOM, BuildFlag.NONE, wanted, name="n", address=512)
    assert structure.size % 256 == 0
    assert structure.data.ctypes.data % 64 == 0
    end = layout.HEADER.itemsize
    for kind, number in wanted:
        offset = structure.section_offset(kind)
        assert offset % layout.SECTION_ALIGNMENT == 0
        assert end <= offset < end + layout.SECTION_ALIGNMENT
        assert len(structure.section(kind)) == number
        assert not structure.section(kind).tobytes().strip(b"\0")
        end = offset + number * element_size(kind)
    assert end <= structure.size
    for kind in set(SectionKind) - {k for k, _ in wanted}:
        assert structure.section_offset(kind) == 0
        assert len(structure.section(kind)) == 0
    assert (structure.name, structure.address) == ("n", 512)


def test_room_that_is_not_used_is_told() -> None:
    tight = allocate(BOTTOM, BuildFlag.NONE, [(SectionKind.NODES, 1)])
    roomy = allocate(BOTTOM, BuildFlag.NONE, [(SectionKind.NODES, 1)], size=4096)
    assert int(tight.header["used_size"]) == tight.size < 4096
    assert roomy.size == int(roomy.header["size_in_bytes"]) == 4096
    assert int(roomy.header["used_size"]) == tight.size


@pytest.mark.rule("BF-9")
def test_the_header_of_a_new_structure() -> None:
    flags = BuildFlag.ALLOW_UPDATE | BuildFlag.PERFORM_UPDATE
    structure = allocate(BOTTOM, flags, [(SectionKind.NODES, 0)])
    header = structure.header
    assert bytes(header["magic"]) == layout.MAGIC == b"RTVACCEL"
    assert int(header["layout_version"]) == layout.LAYOUT_VERSION
    assert int(header["size_in_bytes"]) == structure.size
    assert structure.build_flags == BuildFlag.ALLOW_UPDATE
    assert structure.type is BOTTOM
    assert not structure.is_top_level
    assert structure.bounds is None


def test_a_sealed_structure_cannot_be_written() -> None:
    structure = allocate(BOTTOM, BuildFlag.NONE, [(SectionKind.NODES, 1), (SectionKind.GEOMETRIES, 1)])
    set_header(structure, active_count=1)
    sealed = seal(structure)
    assert int(sealed.header["active_count"]) == 1
    for view in (sealed.data, sealed.nodes, sealed.geometries):
        assert not view.flags.writeable
        with pytest.raises(ValueError):
            view[0] = view[0]
    built = one_blas(triangles(TRIANGLE))
    for view in (built.data, built.nodes, built.triangle_packs, built.geometries):
        assert not view.flags.writeable


@pytest.mark.parametrize("size", [0, 1, 63, 64, 4096])
def test_memory_of_structures_starts_at_a_cache_line(size: int) -> None:
    for _ in range(5):
        data = aligned_bytes(size)
        assert data.shape == (size,)
        assert data.dtype == np.uint8
        assert not data.any()
        assert not size or data.ctypes.data % 64 == 0


@pytest.mark.rule("CP-7", "DET-3")
def test_neither_name_nor_address_is_in_the_bytes() -> None:
    inputs = BlasInputs((mesh(icosphere(2)),))
    one = build_blas(inputs, name="one", address=256)
    two = build_blas(inputs, name="another", address=1 << 40)
    assert one.data.tobytes() == two.data.tobytes()
    table = instance_table([Placement(), Placement(transform=translate(3, 0, 0))])
    tops = [build_tlas(table, blases={0x10000: one}, name=n, address=a) for n, a in (("a", 256), ("b", 1 << 33))]
    assert tops[0].data.tobytes() == tops[1].data.tobytes()


@pytest.mark.rule("CP-7", "BLD-4")
def test_bytes_can_be_traced_from_anywhere() -> None:
    built = world([mesh(icosphere(2))], [boxes(random_boxes(30))], placements=[Placement(0), Placement(1, scale(0.5))])
    rng = np.random.default_rng(8)
    origin = rng.normal(0, 6, (500, 3))
    rays = RayBatch.make(origin, rng.normal(size=(500, 3)) - origin)
    settings = TraceSettings(RayFlag.FORCE_OPAQUE)
    before = built.dispatcher.trace(rays, settings).hits

    def moved(structure: Structure) -> Structure:
        data = aligned_bytes(structure.size)
        data[:] = structure.data
        return Structure(data)

    elsewhere = Dispatcher(moved(built.tlas), {address: moved(blas) for address, blas in built.blases.items()})
    assert before.hit.sum() > 50
    assert_same_hits(elsewhere.trace(rays, settings).hits, before)


@pytest.mark.rule("BLD-12", "SV-1")
def test_numbers_of_pack_lanes_become_geometry_and_primitive() -> None:
    structure = one_blas(triangles(), triangles(TRIANGLE, TRIANGLE), triangles(), triangles(TRIANGLE))
    ids = np.array([0, 1 | layout.ID_OPAQUE, 2 | layout.ID_NO_DUPLICATE, layout.UNUSED_LANE], np.int32)
    geometry, primitive = structure.geometry_and_primitive(ids)
    assert geometry.tolist() == [1, 1, 3, -1]
    assert primitive.tolist() == [0, 1, 0, -1]
    assert geometry.dtype == primitive.dtype == np.int64


@pytest.mark.rule("VIS-2", "INST-1", "LAY-1")
def test_instance_descs_are_stored_as_they_were_given() -> None:
    placements = [
        Placement(0, translate(1, 2, 3), 0x123456, 0xAB, 0x654321, InstanceFlag.FORCE_OPAQUE),
        Placement(-1, scale(2, 3, 4), 0xFFFFFF, 0xFF, 0xFFFFFF, InstanceFlag.TRIANGLE_CULL_DISABLE),
        Placement(0, scale(0), 0, 0, 0),
    ]
    top = world(mesh(box()), placements=placements).tlas
    rows = top.instance_descs
    assert rows.dtype == INSTANCE_DESC
    np.testing.assert_array_equal(rows, instance_descs(instance_table(placements)))
    assert rows.tobytes()[48:56] == bytes.fromhex("56 34 12 AB 21 43 65 04")
    assert rows.tobytes()[64 + 56 : 64 + 64] == bytes(8)
    np.testing.assert_array_equal(rows["Transform"][0], translate(1, 2, 3))
    leaves = top.instance_leaves
    assert sorted(leaves["instance"].tolist()) == [0, 2]
    singular = leaves["state"][leaves["instance"] == 2]
    assert singular.tolist() == [layout.INSTANCE_SINGULAR]
    np.testing.assert_array_equal(leaves["world_to_object"][leaves["instance"] == 0][0], translate(-1, -2, -3))
