"""Dehydration and back: nothing of the geometry in between, the same structure at the end."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.accel.layout import HEADER, STATE_DEHYDRATED
from rtviewer.accel.structure import Structure
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.copymode.clone import clone
from rtviewer.copymode.compact import compact, compacted_size
from rtviewer.copymode.decode import decode, decoded_size
from rtviewer.copymode.dehydrate import (
    check_dehydrate,
    dehydrate,
    inputs_hash,
    is_dehydrated,
    read_dehydrated,
    rehydrate,
)
from rtviewer.copymode.serialize import serialize, serialized_size
from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag, GeometryFlag
from rtviewer.dxr.formats import IndexFormat, VertexFormat
from rtviewer.errors import DamagedBytesError, InvalidInputError
from rtviewer.scene.generators import soup
from tests.unit.copymode.samples import BOXES, MIXED, moved_vertex, with_geometry
from tests.worlds import instance_table, mesh, translate

KINDS = [BuildFlag.NONE, BuildFlag.MINIMIZE_MEMORY, BuildFlag.PREFER_FAST_TRACE, BuildFlag.PREFER_FAST_BUILD]
RANDOM = BlasInputs((mesh(soup(500)), mesh(soup(200), GeometryFlag.OPAQUE, translate(1, 2, 3))))


@pytest.mark.rule("XB-3", "XB-4", "XB-10")
@pytest.mark.parametrize("flags", KINDS)
@pytest.mark.parametrize("inputs", [MIXED, RANDOM, BlasInputs()], ids=["mixed", "random", "empty"])
def test_there_and_back_gives_the_bytes_of_a_normal_build(inputs: BlasInputs, flags: BuildFlag) -> None:
    built = build_blas(inputs, flags)
    before = built.data.tobytes()
    dry = dehydrate(built, inputs)
    assert built.data.tobytes() == before
    assert check(dry) == []
    assert is_dehydrated(dry)
    assert int(dry.header["state"]) == STATE_DEHYDRATED
    assert dry.build_flags == flags | BuildFlag.DEHYDRATE
    assert dry.size == built.size
    wet = rehydrate(dry, inputs, name="wet", address=0x200)
    assert wet.data.tobytes() == before
    assert (wet.name, wet.address) == ("wet", 0x200)
    assert is_dehydrated(dry)
    assert check(wet) == []


@pytest.mark.rule("XB-3")
@pytest.mark.parametrize("flags", KINDS)
def test_no_vertex_value_is_left(flags: BuildFlag) -> None:
    """All coordinates have bits in their low half, so none can be taken for a count or a reference."""
    random = np.random.default_rng(1)
    vertices = (random.random((300, 3)) + 1).astype(np.float32)
    vertices.view(np.uint32)[:] |= 0x5A5A5
    inputs = BlasInputs((TrianglesGeometry(vertices),))
    built = build_blas(inputs, flags)
    dry = dehydrate(built, inputs)
    words = np.unique(vertices.view(np.uint32))
    assert np.isin(built.data.view(np.uint32), words).any()
    # Octant orders and the hash are arbitrary words; everything else is compared.
    view = dry.data.copy()
    place = HEADER.fields["input_hash"][1]
    view[place : place + 8] = 0
    first, count = dry.section_offset(1), len(dry.nodes)
    view[first : first + 256 * count].reshape(count, 256)[:, 224:] = 0
    assert not np.isin(view.view(np.uint32), words).any()


@pytest.mark.rule("XB-14")
@pytest.mark.parametrize("flags", KINDS)
def test_dehydrated_bytes_deflate_better(flags: BuildFlag) -> None:
    built = build_blas(RANDOM, flags)
    dry = dehydrate(built, RANDOM)
    assert len(zlib.compress(dry.data.tobytes())) < 0.6 * len(zlib.compress(built.data.tobytes()))


@pytest.mark.rule("XB-5")
def test_what_a_dehydrated_structure_may_not_be_used_for() -> None:
    dry = dehydrate(build_blas(MIXED), MIXED)
    dry = Structure(dry.data, "dry")
    uses = [clone, compact, compacted_size, decode, decoded_size, serialize, serialized_size]
    for use in [*uses, lambda s: dehydrate(s, MIXED)]:
        with pytest.raises(InvalidInputError) as caught:
            use(dry)
        assert "XB-5" in caught.value.rules
        assert "rehydrate" in str(caught.value)


@pytest.mark.rule("XB-6")
def test_raw_bytes_come_back_and_damaged_ones_do_not() -> None:
    dry = dehydrate(build_blas(MIXED), MIXED)
    stored = zlib.decompress(zlib.compress(dry.data.tobytes()))
    loaded = read_dehydrated(stored, name="loaded", address=0x300)
    assert (loaded.name, loaded.address) == ("loaded", 0x300)
    assert rehydrate(loaded, MIXED).data.tobytes() == build_blas(MIXED).data.tobytes()
    for length in (0, 10, 500, len(stored) - 256):
        with pytest.raises(DamagedBytesError, match="XB-6"):
            read_dehydrated(stored[:length])
    with pytest.raises(InvalidInputError, match="XB-8"):
        read_dehydrated(build_blas(MIXED).data)


@pytest.mark.rule("XB-8")
def test_only_dehydrated_structures_are_rehydrated() -> None:
    for source in (build_blas(MIXED), build_blas(BOXES), build_tlas(instance_table([]), blases={})):
        with pytest.raises(InvalidInputError) as caught:
            rehydrate(source, MIXED)
        assert caught.value.rules == ("XB-8",)


@pytest.mark.rule("XB-11")
@pytest.mark.parametrize(
    "inputs",
    [
        with_geometry(3, vertices=moved_vertex(MIXED.geometries[3])),
        with_geometry(3, indices=MIXED.geometries[3].indices[::-1].copy()),
        with_geometry(3, vertex_format=VertexFormat.R16G16B16A16_FLOAT),
        with_geometry(3, index_format=IndexFormat.R16_UINT),
        with_geometry(3, transform=translate(0, 0, 0)),
        with_geometry(0, transform=translate(1, 2, 3.5)),
        with_geometry(0, transform=None),
        with_geometry(0, flags=GeometryFlag.NONE),
        with_geometry(3, indices=MIXED.geometries[3].indices[:-1].copy()),
        replace(MIXED, geometries=MIXED.geometries[:-1]),
        replace(MIXED, geometries=(*MIXED.geometries, MIXED.geometries[1])),
        BOXES,
    ],
    ids=["position", "index order", "vertex format", "index format", "identity for NULL", "transform value",
         "NULL for transform", "flags", "count", "a geometry less", "a geometry more", "boxes"],
)  # fmt: skip
def test_other_inputs_are_refused(inputs: BlasInputs) -> None:
    dry = dehydrate(build_blas(MIXED), MIXED)
    with pytest.raises(InvalidInputError) as caught:
        rehydrate(dry, inputs)
    assert set(caught.value.rules) == {"XB-11"}
    assert "pGeometryDescs" in str(caught.value) or "NumDescs" in str(caught.value)


@pytest.mark.rule("XB-11")
def test_a_forged_hash_brings_no_nan_into_the_tree() -> None:
    vertices = MIXED.geometries[3].vertices.copy()
    vertices[:, 0] = np.nan
    other = with_geometry(3, vertices=vertices)
    data = dehydrate(build_blas(MIXED), MIXED).data.copy()
    data[: HEADER.itemsize].view(HEADER)["input_hash"] = inputs_hash(other)
    with pytest.raises(InvalidInputError, match="XB-11"):
        rehydrate(read_dehydrated(data), other)


@pytest.mark.rule("XB-12")
def test_combinations_that_are_refused() -> None:
    bottom, top = AccelerationStructureType.BOTTOM_LEVEL, AccelerationStructureType.TOP_LEVEL
    dry = BuildFlag.DEHYDRATE
    for flags in (BuildFlag.NONE, BuildFlag.PREFER_FAST_TRACE, BuildFlag.MINIMIZE_MEMORY):
        assert check_dehydrate(flags | dry, bottom) == []
    assert check_dehydrate(BuildFlag.ALLOW_UPDATE, top, procedural=True) == []
    for flag in (BuildFlag.ALLOW_UPDATE, BuildFlag.PERFORM_UPDATE, BuildFlag.ALLOW_COMPACTION):
        (found,) = check_dehydrate(dry | flag, bottom)
        assert found.rule == "XB-12"
        assert flag.name in found.message
    assert [v.rule for v in check_dehydrate(dry | BuildFlag.ALLOW_UPDATE, top, procedural=True)] == ["XB-12"] * 3
    for source, inputs in (
        (build_blas(BOXES), BOXES),
        (build_blas(MIXED, BuildFlag.ALLOW_UPDATE), MIXED),
        (build_tlas(instance_table([]), blases={}), BlasInputs()),
    ):
        with pytest.raises(InvalidInputError) as caught:
            dehydrate(source, inputs)
        assert set(caught.value.rules) == {"XB-12"}
