"""The tool's own decode, read by hand with the offsets of the specification."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from rtviewer.build.builder import build_blas, build_tlas, instance_descs
from rtviewer.build.refit import update_blas, update_tlas
from rtviewer.copymode.clone import clone
from rtviewer.copymode.compact import compact
from rtviewer.copymode.decode import decode, decoded_size
from rtviewer.copymode.deserialize import deserialize
from rtviewer.copymode.serialize import serialize
from rtviewer.dxr.descs import BlasInputs
from rtviewer.dxr.flags import BuildFlag
from rtviewer.scene.primitives import triangle_corners
from tests.unit.copymode.samples import BOXES, MIXED, NAMES, PLACEMENTS, UPDATABLE, moved_vertex, samples, with_geometry
from tests.worlds import boxes, instance_table, triangles

BASE = 0x7_0000_0000


def up(value: int) -> int:
    return -(-value // 16) * 16


@pytest.mark.rule("VIS-1", "VIS-2", "VIS-10", "VIS-13", "VIS-15", "LAY-3", "POST-10")
@pytest.mark.parametrize("name", ["instances", "instances updatable", "no instances"])
def test_a_top_level_decodes_to_its_input(name: str) -> None:
    source = samples()[name].structure
    rows = instance_descs(instance_table(PLACEMENTS if name.startswith("instances") else []))
    data = decode(source, BASE)
    assert struct.unpack_from("<II", data) == (0, len(rows))
    assert data[8 : 8 + 64 * len(rows)].tobytes() == rows.tobytes()
    assert len(data) == decoded_size(source) == up(8 + 64 * len(rows))
    assert (8 % 16) != 0  # LAY-3: with a 256-aligned buffer no desc is where a build could read it


@pytest.mark.rule("VIS-1", "VIS-3", "VIS-5", "VIS-8", "VIS-11", "VIS-14", "VIS-15", "POST-10")
@pytest.mark.parametrize("name", ["triangles", "triangles small", "triangles fast build", "triangles updatable"])
def test_triangles_decode_to_float3_without_indices_or_transform(name: str) -> None:
    source = samples()[name].structure
    data = decode(source, BASE)
    kind, count = struct.unpack_from("<II", data)
    assert (kind, count) == (1, 4)
    end = up(8 + 56 * count)
    for index, geometry in enumerate(MIXED.geometries):
        expected = triangle_corners(geometry).copy()
        kept = "updatable" in name
        if index == 2:
            expected[[0] if kept else [0, 1]] = np.nan
        at = 8 + 56 * index
        (type_, flags, transform, index_format, vertex_format, index_count, vertex_count, index_buffer, start,
         stride) = struct.unpack_from("<IIQIIIIQQQ", data, at)  # fmt: skip
        assert (type_, flags) == (0, int(geometry.flags))
        assert (transform, index_format, vertex_format, index_count, index_buffer) == (0, 0, 6, 0, 0)
        assert vertex_count == 3 * geometry.primitive_count
        assert stride == 12
        if not vertex_count:
            assert start == 0
            continue
        assert start - BASE == end
        assert (start - BASE) % 16 == 0
        block = data[end : end + 12 * vertex_count].view("<f4").reshape(-1, 3, 3)
        np.testing.assert_array_equal(block, expected)
        end = up(end + 12 * vertex_count)
    assert len(data) == decoded_size(source) == end


@pytest.mark.rule("VIS-3", "VIS-8", "VIS-12", "VIS-14", "VIS-15", "DEG-4")
@pytest.mark.parametrize("name", ["boxes", "boxes small", "boxes updatable"])
def test_boxes_decode_to_what_was_given(name: str) -> None:
    source = samples()[name].structure
    data = decode(source, BASE)
    starts = []
    for index, geometry in enumerate(BOXES.geometries):
        type_, flags, count, start, stride = struct.unpack_from("<IIQQQ", data, 8 + 56 * index)
        assert (type_, flags, count, stride) == (1, int(geometry.flags), geometry.primitive_count, 24)
        starts.append(start)
    assert starts[1] == 0
    assert starts[0] - BASE == up(8 + 56 * 3)
    assert starts[2] - starts[0] == up(24 * 40)
    plain = data[starts[0] - BASE :][: 24 * 40].view("<f4").reshape(-1, 6)
    np.testing.assert_array_equal(plain, BOXES.geometries[0].aabbs)
    special = data[starts[2] - BASE :][: 24 * 3].view("<f4").reshape(-1, 6)
    assert np.isnan(special[0]).all()
    np.testing.assert_array_equal(special[1], [1, 1.5, 2, 1, 1.5, 2])
    np.testing.assert_array_equal(special[2], [0, 0, 0, 1, 2, 3])
    assert len(data) == decoded_size(source) == up(starts[2] - BASE + 72)


@pytest.mark.rule("VIS-15")
def test_what_is_empty() -> None:
    for inputs in (BlasInputs(), BlasInputs((triangles(),)), BlasInputs((boxes(), boxes()))):
        data = decode(build_blas(inputs), BASE)
        assert len(data) == up(8 + 56 * len(inputs.geometries))
        assert struct.unpack_from("<II", data) == (1, len(inputs.geometries))


@pytest.mark.rule("VIS-9", "CP-10", "POST-14")
@pytest.mark.parametrize("name", NAMES)
def test_every_copy_decodes_alike(name: str) -> None:
    source = samples()[name].structure
    expected = decode(source, BASE).tobytes()
    for copy in (clone(source), compact(source), deserialize(serialize(source)), compact(clone(source))):
        assert decode(copy, BASE).tobytes() == expected


@pytest.mark.rule("VIS-2", "VIS-9")
def test_after_an_update_the_new_data() -> None:
    inputs = with_geometry(3, vertices=moved_vertex(MIXED.geometries[3]))
    source = samples()["triangles updatable"].structure
    updated = update_blas(source, inputs, UPDATABLE)
    fresh = decode(build_blas(inputs, UPDATABLE))
    assert decode(updated).tobytes() == fresh.tobytes() != decode(source).tobytes()
    top = samples()["instances updatable"].structure
    blases = {0x10000: source, 0x20000: samples()["boxes"].structure}
    table = instance_table([*PLACEMENTS[::-1]])
    swapped = build_tlas(table, UPDATABLE, blases=blases)
    again = update_tlas(swapped, table, UPDATABLE, blases=blases)
    assert decode(again)[8 : 8 + 320].tobytes() == instance_descs(table).tobytes()
    assert decode(again).tobytes() != decode(top).tobytes()


@pytest.mark.rule("VIS-1")
def test_the_base_address_is_all_that_moves() -> None:
    source = build_blas(MIXED, BuildFlag.NONE)
    low, high = decode(source), decode(source, BASE)
    moved = np.flatnonzero(low != high)
    assert len(moved)
    assert moved.max() < 8 + 56 * 4
