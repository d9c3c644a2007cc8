"""Vertex and index memory as arrays: the formats of the build, decoded exactly (section 1.10 of the rules).

Offsets and strides are bytes. Nothing outside the given bytes is ever read, and what comes back is never larger than
what the bytes can pay for: a stride of 0 gives a view that repeats one row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.formats import VERTEX_LAYOUTS, IndexFormat, VertexFormat
from rtviewer.errors import InvalidInputError, violation

_COMPONENTS: dict[VertexFormat, tuple[str, float]] = {
    VertexFormat.R32G32_FLOAT: ("<f4", 0),
    VertexFormat.R32G32B32_FLOAT: ("<f4", 0),
    VertexFormat.R16G16_FLOAT: ("<f2", 0),
    VertexFormat.R16G16B16A16_FLOAT: ("<f2", 0),
    VertexFormat.R16G16_SNORM: ("<i2", 32767),
    VertexFormat.R16G16B16A16_SNORM: ("<i2", 32767),
    VertexFormat.R16G16_UNORM: ("<u2", 65535),
    VertexFormat.R16G16B16A16_UNORM: ("<u2", 65535),
    VertexFormat.R8G8_UNORM: ("u1", 255),
    VertexFormat.R8G8B8A8_UNORM: ("u1", 255),
    VertexFormat.R8G8_SNORM: ("i1", 127),
    VertexFormat.R8G8B8A8_SNORM: ("i1", 127),
}
"""Component type and what 1.0 is stored as, 0 for floats; R10G10B10A2 is packed and stands apart."""

INDEX_SIZES: dict[IndexFormat, int] = {IndexFormat.R32_UINT: 4, IndexFormat.R16_UINT: 2}

STRIDE_BITS = 0xFFFFFFFF
"""Only the low 32 bits of a stride count (GEO-5)."""

AABB_SIZE = 24
TRANSFORM_SIZE = 48


def vertices_extent(count: int, stride: int, vertex_format: VertexFormat) -> int:
    """Bytes that ``count`` vertices span: the last one needs only what is read of it [VF-3, GEO-5, GEO-6]."""
    return strided_extent(count, stride, VERTEX_LAYOUTS[vertex_format].read_size)


def strided_extent(count: int, stride: int, read_size: int) -> int:
    """Bytes from the start of the first element to the end of what is read of the last; 0 for none."""
    return (count - 1) * (stride & STRIDE_BITS) + read_size if count else 0


def decode_vertices(
    data: NDArray[np.uint8], offset: int, stride: int, count: int, vertex_format: VertexFormat
) -> NDArray[np.float32]:
    """(count, 3) float32 positions [VF-1 to VF-4, GEO-5].

    ``data`` (n,) uint8 contiguous; ``offset`` and ``stride`` in bytes, any alignment. A missing third coordinate is 0,
    a fourth component is never read, normalised values are the correctly rounded quotients. Stride 0 gives a read-only
    view that repeats one row; otherwise the array is new and C-contiguous.

    Raises InvalidInputError for a format that is not in the table (VF-1) or bytes that are not there (GEO-6).
    """
    if vertex_format not in VERTEX_LAYOUTS:
        raise _refused("VF-1", "this is not a vertex format", "VertexFormat", int(vertex_format))
    stride &= STRIDE_BITS
    _require_inside(data, offset, vertices_extent(count, stride, vertex_format), "VertexBuffer")
    if stride == 0 and count > 1:
        one = decode_vertices(data, offset, VERTEX_LAYOUTS[vertex_format].read_size, 1, vertex_format)
        return np.broadcast_to(one, (count, 3))
    out = np.zeros((count, 3), np.float32)
    if not count:
        return out
    if vertex_format is VertexFormat.R10G10B10A2_UNORM:
        packed = _strided(data, offset, (count,), (stride,), "<u4")
        for axis in range(3):
            out[:, axis] = (packed >> np.uint32(10 * axis)) & np.uint32(1023)
        return np.divide(out, np.float32(1023), out=out)
    components = VERTEX_LAYOUTS[vertex_format].components
    dtype, one_is = _COMPONENTS[VertexFormat(vertex_format)]
    raw = _strided(data, offset, (count, components), (stride, np.dtype(dtype).itemsize), dtype)
    with np.errstate(invalid="ignore"):  # a signalling NaN in a half float
        out[:, :components] = raw
    if one_is:
        # Both operands are exact in float32, so the quotient is the correctly rounded one.
        np.divide(out, np.float32(one_is), out=out)
        np.maximum(out, np.float32(-1.0), out=out)
    return out


def decode_indices(data: NDArray[np.uint8], offset: int, count: int, index_format: IndexFormat) -> NDArray[np.uint32]:
    """(count,) uint32 indices; no value is special in a list [GEO-1].

    Raises InvalidInputError for a format other than R32_UINT and R16_UINT (IX-1) or bytes that are not there (GEO-6).
    """
    if index_format not in INDEX_SIZES:
        raise _refused("IX-1", "indices are R16_UINT or R32_UINT", "IndexFormat", int(index_format))
    size = INDEX_SIZES[IndexFormat(index_format)]
    _require_inside(data, offset, count * size, "IndexBuffer")
    return _strided(data, offset, (count,), (size,), f"<u{size}").astype(np.uint32)


def decode_aabbs(data: NDArray[np.uint8], offset: int, stride: int, count: int) -> NDArray[np.float32]:
    """(count, 6) float32 boxes, minimum then maximum [GEO-9].

    Stride 0 gives a read-only view that repeats one row; otherwise the array is new and C-contiguous. Raises
    InvalidInputError for bytes that are not there (GEO-6).
    """
    stride &= STRIDE_BITS
    _require_inside(data, offset, strided_extent(count, stride, AABB_SIZE), "AABBs")
    if stride == 0 and count > 1:
        return np.broadcast_to(decode_aabbs(data, offset, AABB_SIZE, 1), (count, 6))
    if not count:
        return np.empty((0, 6), np.float32)
    return _strided(data, offset, (count, 6), (stride, 4), "<f4").astype(np.float32)


def decode_transform(data: NDArray[np.uint8], offset: int) -> NDArray[np.float32]:
    """(3, 4) float32, row-major. Raises InvalidInputError for bytes that are not there (GEO-6)."""
    _require_inside(data, offset, TRANSFORM_SIZE, "Transform3x4")
    return _strided(data, offset, (3, 4), (16, 4), "<f4").astype(np.float32)


def _strided(
    data: NDArray[np.uint8], offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str
) -> NDArray[Any]:
    return np.ndarray(shape, np.dtype(dtype), np.ascontiguousarray(data), offset, strides)


def _require_inside(data: NDArray[np.uint8], offset: int, extent: int, field: str) -> None:
    if offset < 0 or (extent and offset + extent > len(data)):
        text = f"{extent} bytes at byte {offset} do not lie inside the {len(data)} bytes there are"
        raise _refused("GEO-6", text, field, offset)


def _refused(rule: str, text: str, field: str, value: int) -> InvalidInputError:
    return InvalidInputError([violation(rule, text, field=field, value=value, section=_SECTION)])


_SECTION = "D3D12_RAYTRACING_GEOMETRY_TRIANGLES_DESC"
