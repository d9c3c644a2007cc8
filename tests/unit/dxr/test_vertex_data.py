"""Vertex and index memory as arrays: every format exactly, and never a byte outside."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from rtviewer.dxr.formats import VERTEX_LAYOUTS, IndexFormat, VertexFormat
from rtviewer.dxr.vertex_data import (
    decode_aabbs,
    decode_indices,
    decode_transform,
    decode_vertices,
    vertices_extent,
)
from rtviewer.errors import InvalidInputError

V = VertexFormat


def raw(array: object) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def one(data: object, vertex_format: VertexFormat) -> list[float]:
    """The position decoded from the bytes of one vertex."""
    return [float(x) for x in decode_vertices(raw(data), 0, 4, 1, vertex_format)[0]]


def rounded(value: Fraction) -> float:
    """The float32 nearest to an exact value, ties to even."""
    near = np.float32(float(value))
    candidates = [near, np.nextafter(near, np.float32(-2)), np.nextafter(near, np.float32(2))]
    best = min(candidates, key=lambda c: (abs(Fraction(float(c)) - value), int(c.view(np.uint32)) & 1))
    return float(best)


@pytest.mark.rule("VF-1", "VF-2")
@pytest.mark.parametrize(
    ("vertex_format", "stored", "wanted"),
    [
        (V.R32G32B32_FLOAT, np.float32([1.5, -2.0, 3.25]), [1.5, -2.0, 3.25]),
        (V.R32G32_FLOAT, np.float32([1.5, -2.0]), [1.5, -2.0, 0.0]),
        (V.R16G16B16A16_FLOAT, np.float16([1.5, -2.0, 65504.0, 9.0]), [1.5, -2.0, 65504.0]),
        (V.R16G16_FLOAT, np.float16([6e-8, -2.0]), [float(np.float16(6e-8)), -2.0, 0.0]),
        (V.R16G16B16A16_SNORM, np.int16([-32768, -32767, 32767, 5]), [-1.0, -1.0, 1.0]),
        (V.R16G16_SNORM, np.int16([16384, 0]), [rounded(Fraction(16384, 32767)), 0.0, 0.0]),
        (V.R16G16B16A16_UNORM, np.uint16([65535, 0, 1, 9]), [1.0, 0.0, rounded(Fraction(1, 65535))]),
        (V.R16G16_UNORM, np.uint16([32768, 65534]), [rounded(Fraction(v, 65535)) for v in (32768, 65534, 0)]),
        (V.R10G10B10A2_UNORM, np.uint32([1023 | 512 << 10 | 1 << 20 | 3 << 30]),
         [1.0, rounded(Fraction(512, 1023)), rounded(Fraction(1, 1023))]),
        (V.R8G8B8A8_UNORM, np.uint8([255, 1, 128, 77]), [1.0, rounded(Fraction(1, 255)), rounded(Fraction(128, 255))]),
        (V.R8G8_UNORM, np.uint8([254, 3]), [rounded(Fraction(254, 255)), rounded(Fraction(3, 255)), 0.0]),
        (V.R8G8B8A8_SNORM, np.int8([-128, -127, 127, 1]), [-1.0, -1.0, 1.0]),
        (V.R8G8_SNORM, np.int8([-1, 100]), [rounded(Fraction(-1, 127)), rounded(Fraction(100, 127)), 0.0]),
    ],
    ids=lambda value: value.name if isinstance(value, VertexFormat) else "",
)  # fmt: skip
def test_every_format_decodes_as_its_table_says(
    vertex_format: VertexFormat, stored: NDArray[np.generic], wanted: list[float]
) -> None:
    assert one(stored, vertex_format) == wanted


def test_the_table_above_is_complete() -> None:
    marks = test_every_format_decodes_as_its_table_says.pytestmark  # type: ignore[attr-defined]
    cases = next(m for m in marks if m.name == "parametrize").args[1]
    assert {case[0] for case in cases} == set(VertexFormat)


@pytest.mark.rule("VF-1")
@pytest.mark.parametrize(
    ("vertex_format", "dtype", "one_is"),
    [
        (V.R16G16_UNORM, np.uint16, 65535),
        (V.R16G16_SNORM, np.int16, 32767),
        (V.R8G8_UNORM, np.uint8, 255),
        (V.R8G8_SNORM, np.int8, 127),
    ],
)
def test_every_normalised_value_is_the_rounded_quotient(
    vertex_format: VertexFormat, dtype: type[np.integer], one_is: int
) -> None:
    limits = np.iinfo(dtype)
    step = 1 if limits.bits == 8 else 97
    values = np.arange(limits.min, limits.max + 1, step)
    data = np.stack([values, values[::-1]], 1).astype(dtype)
    found = decode_vertices(raw(data), 0, 2 * limits.bits // 8, len(data), vertex_format)
    wanted = [max(rounded(Fraction(int(v), one_is)), -1.0) for v in values]
    np.testing.assert_array_equal(found[:, 0], np.float32(wanted))
    np.testing.assert_array_equal(found[:, 1], np.float32(wanted)[::-1])


@pytest.mark.rule("VF-4")
def test_the_two_high_bits_of_a_packed_vertex_are_ignored() -> None:
    packed = np.uint32([7 | 1023 << 10 | 99 << 20 | a << 30 for a in range(4)])
    found = decode_vertices(raw(packed), 0, 4, 4, V.R10G10B10A2_UNORM)
    assert len(np.unique(found, axis=0)) == 1
    assert found[0, 1] == 1.0


@pytest.mark.rule("VF-1")
@pytest.mark.parametrize("vertex_format", list(VertexFormat), ids=lambda f: f.name)
def test_nan_comes_through_in_the_formats_that_can_hold_it(vertex_format: VertexFormat) -> None:
    noise = np.full(16, 0xFF, np.uint8)
    found = decode_vertices(noise, 0, 16, 1, vertex_format)
    assert bool(np.isnan(found).any()) == VERTEX_LAYOUTS[vertex_format].can_be_nan


@pytest.mark.rule("VF-3", "GEO-6")
@pytest.mark.parametrize(
    ("vertex_format", "stride"), [(V.R16G16B16A16_SNORM, 6), (V.R16G16B16A16_FLOAT, 6), (V.R8G8B8A8_UNORM, 3)]
)
def test_three_components_of_a_four_component_format_are_enough(vertex_format: VertexFormat, stride: int) -> None:
    data = np.arange(4 * stride, dtype=np.uint8) % 60
    tight = decode_vertices(data, 0, stride, 4, vertex_format)
    apart = np.zeros((4, stride + 2), np.uint8)
    apart[:, :stride] = data.reshape(4, stride)
    apart[:, stride:] = 0xFE
    np.testing.assert_array_equal(decode_vertices(raw(apart), 0, stride + 2, 4, vertex_format), tight)
    with pytest.raises(InvalidInputError) as raised:
        decode_vertices(data[:-1], 0, stride, 4, vertex_format)
    assert raised.value.rules == ("GEO-6",)


@pytest.mark.rule("GEO-5")
def test_only_the_low_half_of_a_stride_counts_and_zero_repeats_one_vertex() -> None:
    data = raw(np.float32([[1, 2, 3], [4, 5, 6]]))
    np.testing.assert_array_equal(
        decode_vertices(data, 0, (1 << 32) + 12, 2, V.R32G32B32_FLOAT), [[1, 2, 3], [4, 5, 6]]
    )
    many = decode_vertices(data, 12, 0, 1 << 31, V.R32G32B32_FLOAT)
    assert many.shape == (1 << 31, 3)
    np.testing.assert_array_equal(many[-1], [4, 5, 6])
    assert vertices_extent(1 << 31, 0, V.R32G32B32_FLOAT) == 12
    assert vertices_extent(0, 12, V.R32G32B32_FLOAT) == 0


@pytest.mark.rule("GEO-5")
def test_case_c15_offsets_are_bytes_and_other_data_may_lie_between() -> None:
    """The triangle (0,0), (1,0), (0,1) in several formats, strides and offsets."""
    wanted = np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0]])
    noise = np.random.default_rng(3).integers(0, 256, 512, dtype=np.uint8)
    cases = [
        (V.R32G32_FLOAT, np.float32(wanted[:, :2]), 8),
        (V.R16G16_FLOAT, np.float16(wanted[:, :2]), 4),
        (V.R16G16B16A16_FLOAT, np.float16(wanted), 6),
        (V.R16G16B16A16_SNORM, (wanted * 32767).astype(np.int16), 6),
    ]
    for vertex_format, stored, read in cases:
        for stride in (read, 32):
            for offset in (0, 12):
                data = noise.copy()
                for i, row in enumerate(stored):
                    data[offset + i * stride :][:read] = raw(row)
                np.testing.assert_array_equal(decode_vertices(data, offset, stride, 3, vertex_format), wanted)


@pytest.mark.rule("GEO-6")
def test_vertices_outside_the_bytes_are_refused() -> None:
    data = np.zeros(36, np.uint8)
    decode_vertices(data, 0, 12, 3, V.R32G32B32_FLOAT)
    for offset, stride, count in ((1, 12, 3), (0, 13, 3), (0, 12, 4), (-1, 12, 1), (36, 0, 1), (0, 0xFFFFFFFF, 2)):
        with pytest.raises(InvalidInputError) as raised:
            decode_vertices(data, offset, stride, count, V.R32G32B32_FLOAT)
        assert raised.value.rules == ("GEO-6",)
    assert decode_vertices(data, 36, 12, 0, V.R32G32B32_FLOAT).shape == (0, 3)


@pytest.mark.rule("VF-1", "IX-1")
def test_other_formats_are_refused() -> None:
    with pytest.raises(InvalidInputError) as raised:
        decode_vertices(np.zeros(16, np.uint8), 0, 4, 1, 62)  # type: ignore[arg-type]
    assert raised.value.rules == ("VF-1",)
    for index_format in (0, 62):
        with pytest.raises(InvalidInputError) as raised:
            decode_indices(np.zeros(16, np.uint8), 0, 1, index_format)  # type: ignore[arg-type]
        assert raised.value.rules == ("IX-1",)


@pytest.mark.rule("GEO-1", "IX-1")
def test_no_index_is_special() -> None:
    words = np.uint16([0xFFFF, 0, 0xFFFE])
    found = decode_indices(raw(words), 0, 3, IndexFormat.R16_UINT)
    assert found.dtype == np.uint32
    assert found.tolist() == [0xFFFF, 0, 0xFFFE]
    wide = np.uint32([0xFFFFFFFF, 7])
    assert decode_indices(raw(wide), 4, 1, IndexFormat.R32_UINT).tolist() == [7]
    with pytest.raises(InvalidInputError) as raised:
        decode_indices(raw(words), 2, 3, IndexFormat.R16_UINT)
    assert raised.value.rules == ("GEO-6",)


@pytest.mark.rule("GEO-9", "GEO-6")
def test_boxes_and_transforms() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(decode_aabbs(raw(rows), 0, 24, 2), rows)
    np.testing.assert_array_equal(decode_aabbs(raw(rows), 24, 0, 3), np.repeat(rows[1:], 3, 0))
    np.testing.assert_array_equal(decode_aabbs(raw(rows), 0, 8, 2)[1], [2, 3, 4, 5, 6, 7])
    assert decode_aabbs(raw(rows), 0, 24, 0).shape == (0, 6)
    np.testing.assert_array_equal(decode_transform(raw(rows), 0), rows.reshape(3, 4))
    for call in (lambda: decode_aabbs(raw(rows), 0, 32, 2), lambda: decode_transform(raw(rows), 1)):
        with pytest.raises(InvalidInputError) as raised:
            call()
        assert raised.value.rules == ("GEO-6",)
