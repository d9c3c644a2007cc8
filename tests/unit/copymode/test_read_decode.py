"""Decodes of any driver, read back to inputs."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.copymode.decode import decode
from rtviewer.copymode.read_decode import DecodedBlas, DecodedTlas, read_decode
from rtviewer.dxr.descs import AabbsGeometry, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag
from rtviewer.errors import DamagedBytesError
from rtviewer.scene.primitives import triangle_corners
from tests.unit.copymode.driver_decode import BASE, Block, Boxes, Triangles, written
from tests.unit.copymode.samples import BOXES, MIXED, PLACEMENTS, samples
from tests.worlds import instance_table

CORNERS = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0.5]], np.float32)
INDICES = np.array([[0, 1, 2], [2, 1, 3]], np.uint16)
HALF = Block(np.concatenate([CORNERS, np.ones((4, 1), np.float32)], 1).astype("<f2").tobytes())
SHORT = Block(INDICES.tobytes(), 2)
MATRIX = np.array([[2, 0, 0, 5], [0, 3, 0, 6], [0, 0, 4, 7]], np.float32)
TRANSFORM = Block(MATRIX.tobytes(), 16)
INDEXED = Triangles(HALF, 10, 4, 8, SHORT, 57, 6, TRANSFORM, 1)


def blas(data: np.ndarray, base: int | None = BASE) -> DecodedBlas:
    read = read_decode(data, base)
    assert isinstance(read, DecodedBlas)
    return read


def refusal(data: np.ndarray | bytes, base: int | None = BASE) -> DamagedBytesError:
    with pytest.raises(DamagedBytesError) as caught:
        read_decode(data, base, name="some.dump")
    assert "some.dump" in str(caught.value)
    return caught.value


@pytest.mark.rule("VIS-4", "VIS-5", "VIS-16", "GEO-7")
@pytest.mark.parametrize("reverse", [False, True])
def test_half_floats_indices_and_a_transform(reverse: bool) -> None:
    (geometry,) = blas(written([INDEXED], reverse=reverse)).geometries
    assert isinstance(geometry, TrianglesGeometry)
    np.testing.assert_array_equal(geometry.vertices, CORNERS)
    np.testing.assert_array_equal(geometry.indices, INDICES)
    np.testing.assert_array_equal(geometry.transform, MATRIX)
    assert geometry.flags == GeometryFlag.OPAQUE
    folded = CORNERS * MATRIX[[0, 1, 2], [0, 1, 2]] + MATRIX[:, 3]
    np.testing.assert_array_equal(triangle_corners(geometry), folded[INDICES])
    built = build_blas(blas(written([INDEXED])).blas_inputs("dump"))
    again = blas(decode(built, 0x1000), 0x1000).geometries[0]
    np.testing.assert_array_equal(triangle_corners(again), folded[INDICES])


@pytest.mark.rule("VIS-4", "VF-3", "GEO-5")
def test_formats_strides_and_shared_buffers() -> None:
    floats = Block(b"".join(row.tobytes() + b"\xff" * 20 for row in CORNERS[:3]))
    bytes_ = Block(bytes([0, 0, 0, 0, 255, 0, 255, 0, 0]), 1)
    geometries = blas(
        written(
            [
                Triangles(floats, 6, 3, 32),
                Triangles(floats, 16, 3, 32),
                Triangles(bytes_, 28, 3, 3),
                Triangles(HALF, 10, 4, 8, SHORT, 57, 3),
                Triangles(HALF, 34, 4, 8, SHORT, 57, 5),
            ]
        )
    ).geometries
    for geometry in geometries:
        np.testing.assert_array_equal(triangle_corners(geometry)[0], CORNERS[:3])
    assert geometries[4].primitive_count == 1
    assert geometries[3].vertices.shape == (4, 3)


@pytest.mark.rule("VIS-7", "GEO-9")
def test_boxes_with_a_stride() -> None:
    rows = np.arange(18, dtype=np.float32).reshape(3, 6)
    data = Block(b"".join(row.tobytes() + bytes(8) for row in rows), 8)
    (geometry,) = blas(written([Boxes(data, 3, 32, 2)])).geometries
    assert isinstance(geometry, AabbsGeometry)
    np.testing.assert_array_equal(geometry.aabbs, rows)
    assert geometry.flags == GeometryFlag.NO_DUPLICATE_ANYHIT_INVOCATION


@pytest.mark.rule("VIS-1")
@pytest.mark.parametrize("gap", [0, 8, 64, 192, 200])
def test_the_base_is_found_behind_the_descs(gap: int) -> None:
    data = written([INDEXED, INDEXED], gap=gap)
    read = blas(data, None)
    assert read.base_address == BASE
    assert read.is_base_certain
    assert blas(data).base_address == BASE
    np.testing.assert_array_equal(read.geometries[1].vertices, CORNERS)
    loose = blas(written([INDEXED], tail=600), None)
    assert loose.base_address == BASE
    assert not loose.is_base_certain


def test_the_base_of_our_own_decodes() -> None:
    for name in ("triangles", "boxes", "empty"):
        for base in (0, 0x100, 0x9_0000_0000):
            data = decode(samples()[name].structure, base)
            assert blas(data, None).base_address == (0 if name == "empty" else base)


@pytest.mark.rule("VIS-1")
def test_a_wrong_base_is_refused_and_says_where() -> None:
    data = written([INDEXED])
    for base in (0, BASE - 256, BASE + 256, BASE << 8):
        error = refusal(data, base)
        assert error.rules == ("VIS-1",)
        assert error.field == "GeometryDescs[0].Triangles.VertexBuffer.StartAddress"
        assert error.offset == 8 + 40
    far = written([INDEXED, INDEXED])
    far[8 + 56 + 40 :][:8].view("<u8")[:] = BASE + (1 << 40)
    assert "no base address fits" in str(refusal(far, None))


@pytest.mark.rule("VIS-2", "VIS-16", "LAY-3")
def test_a_top_level_becomes_its_input_again() -> None:
    source = samples()["instances"].structure
    read = read_decode(decode(source, BASE))
    assert isinstance(read, DecodedTlas)
    given, table = read.instance_inputs(), instance_table(PLACEMENTS)
    for field in ("transform", "instance_id", "mask", "contribution", "flags", "blas_address"):
        np.testing.assert_array_equal(getattr(given, field), getattr(table, field))
        assert getattr(given, field).dtype == getattr(table, field).dtype
        assert getattr(given, field).flags.c_contiguous
    blases = {0x10000: samples()["triangles"].structure, 0x20000: samples()["boxes"].structure}
    assert build_tlas(given, source.build_flags, blases=blases).data.tobytes() == source.data.tobytes()


@pytest.mark.rule("VIS-16")
@pytest.mark.parametrize("inputs", [MIXED, BOXES], ids=["triangles", "boxes"])
def test_building_from_a_decode_gives_the_decoded_tree(inputs) -> None:
    """The inputs differ (indices, transform), what is in the tree does not."""
    built = build_blas(inputs)
    again = build_blas(blas(decode(built, BASE)).blas_inputs())
    assert again.nodes.tobytes() == built.nodes.tobytes()
    assert again.packs.tobytes() == built.packs.tobytes()
    assert decode(again).tobytes() == decode(built).tobytes()


@pytest.mark.rule("VIS-1", "VIS-4")
@pytest.mark.parametrize(
    ("rule", "geometry", "field", "offset"),
    [
        ("VF-1", replace(INDEXED, vertex_format=2), "Triangles.VertexFormat", 20),
        ("IX-1", replace(INDEXED, index_format=62), "Triangles.IndexFormat", 16),
        ("GEO-2", replace(INDEXED, indices=None, index_format=0), "Triangles.IndexBuffer", 32),
        ("GEO-2", replace(INDEXED, indices=None, index_count=0), "Triangles.IndexBuffer", 32),
        ("GEO-4", replace(INDEXED, vertex_count=3), "Triangles.IndexBuffer", 32),
        ("VIS-1", replace(INDEXED, vertex_count=9), "Triangles.VertexBuffer.StartAddress", 40),
        ("GEO-6", replace(INDEXED, stride=1 << 20), "Triangles.VertexBuffer.StartAddress", 40),
        ("GEO-6", replace(INDEXED, index_count=300), "Triangles.IndexBuffer", 32),
        ("GF-1", replace(INDEXED, flags=4), "Flags", 4),
        ("VIS-1", Boxes(Block(bytes(24), 8), 2, 24), "AABBs.AABBs.StartAddress", 16),
        ("VIS-1", Boxes(Block(bytes(24), 8), 2**40, 24), "AABBs.AABBCount", 8),
    ],
)
def test_illegal_descs(rule: str, geometry: Triangles | Boxes, field: str, offset: int) -> None:
    data = written([geometry])
    error = refusal(data)
    assert error.rules == (rule,)
    assert error.field == f"GeometryDescs[0].{field}"
    assert error.offset == 8 + offset
    assert error.expected is not None
    refusal(data, None)


def test_illegal_heads() -> None:
    assert refusal(b"\0" * 7).rules == ("VIS-1",)
    for kind in (2, 3, 6, 99):
        assert refusal(struct.pack("<II", kind, 0)).rules == ("AST-1",)
    for kind, most in ((0, 2), (1, 2)):
        error = refusal(struct.pack("<II", kind, 2**32 - 1) + bytes(150))
        assert (error.rules, error.field, error.found) == (("VIS-1",), "NumDescs", 2**32 - 1)
        assert f"at most {most}" in str(error.expected)
    data = written([INDEXED])
    data[8] = 2
    assert refusal(data).rules == ("GF-4",)
    data = written([INDEXED])
    data[8 + 40 : 8 + 48] = 0
    assert refusal(data).rules == ("GEO-8",)


@pytest.mark.rule("VIS-1", "GEO-5")
def test_small_files_cannot_ask_for_much_memory() -> None:
    """A stride of 0, and thousands of descs that each read the whole file a little differently."""
    flat = written([Triangles(Block(bytes(12)), 6, 2**32 - 1, 0)])
    assert refusal(flat).rules == ("VIS-1",)
    assert refusal(written([Boxes(Block(bytes(24)), 2**62, 0)])).rules == ("VIS-1",)
    pool = Block(bytes(30000))
    data = written([Triangles(pool, 6, 3, 4, SHORT, 57, 3)] * 1500)
    for index in range(1500):
        at = 8 + 56 * index
        data[at + 28 : at + 32].view("<u4")[:] = 7000 - index
    assert "overlap only where they are equal" in str(refusal(data))
    many = written([Triangles(pool, 6, 6000, 4)] * 300)
    assert "primitives that" in str(refusal(many))
    # The same buffer for every desc is legal, and decoded once.
    shared = blas(written([Triangles(pool, 6, 2500, 12, SHORT, 57, 3)] * 1500)).geometries
    assert all(g.vertices is shared[0].vertices for g in shared)
