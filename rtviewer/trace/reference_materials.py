"""The oracle's any-hit programs that look at the place of a hit: alpha masks and the checker, in numpy.

Row by row what ``kernels.materials`` computes, in float64 and in the same order of operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rtviewer.scene.material import AlphaTexture, GeometryMaterials, Material, Wrap

Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]


def masked_out(
    materials: GeometryMaterials, geometry: NDArray[np.int32], primitive: NDArray[np.int32], b: NDArray[np.float32]
) -> Bools:
    """(m,) whether hits of triangles in one bottom level are below their material's cut-off; ``b`` barycentrics."""
    out = np.zeros(len(geometry), np.bool_)
    for number, material in enumerate(materials):
        rows = np.flatnonzero(geometry == number)
        if material is None or not material.has_mask or not len(rows):
            continue
        alpha = np.full(len(rows), np.float64(np.float32(material.factor)))
        if material.texture is not None and material.texcoords is not None:
            alpha = alpha * alpha_at(material.texture, texture_coordinates(material, primitive[rows], b[rows]))
        out[rows] = alpha < np.float64(np.float32(material.cutoff))
    return out


def checker_cells(
    materials: GeometryMaterials, geometry: NDArray[np.int32], primitive: NDArray[np.int32], b: NDArray[np.float32]
) -> Bools:
    """(m,) whether hits of triangles lie in a cell that CHECKER cuts out."""
    uv = b.astype(np.float64)
    for number, material in enumerate(materials):
        rows = np.flatnonzero(geometry == number)
        if material is not None and material.texcoords is not None and len(rows):
            uv[rows] = texture_coordinates(material, primitive[rows], b[rows])
    return _is_odd(np.floor(8.0 * uv[:, 0]) + np.floor(8.0 * uv[:, 1]))


def checker_cubes(t: NDArray[np.float32], origin: NDArray[np.float32], direction: NDArray[np.float32]) -> Bools:
    """(m, k) whether reports at t (m, k) along object-space rays (m, 3) lie in a cube that CHECKER cuts out."""
    total = np.zeros(t.shape)
    with np.errstate(all="ignore"):
        for axis in range(3):
            o, d = (ray[:, axis, None].astype(np.float64) for ray in (origin, direction))
            total = total + np.floor(4.0 * (o + t.astype(np.float64) * d))
        return _is_odd(total)


def _is_odd(number: Float64) -> Bools:
    with np.errstate(all="ignore"):
        half = 0.5 * number
        return np.asarray(half != np.floor(half), np.bool_)


def texture_coordinates(material: Material, primitive: NDArray[np.int32], b: NDArray[np.float32]) -> Float64:
    """(m, 2) float64 of hits at barycentrics (m, 2): the corners' weighed (TRI-1)."""
    assert material.texcoords is not None
    corners = material.texcoords[primitive].astype(np.float64)
    weight_1, weight_2 = (b[:, place, None].astype(np.float64) for place in (0, 1))
    weighed: Float64 = ((1.0 - weight_1 - weight_2) * corners[:, 0] + weight_1 * corners[:, 1]) + (
        weight_2 * corners[:, 2]
    )
    return weighed


def alpha_at(texture: AlphaTexture, uv: Float64) -> Float64:
    """(m,) float64 in 0 to 1: the texture's alpha at coordinates (m, 2)."""
    height, width = texture.texels.shape
    x = _wrapped(uv[:, 0], texture.wrap_u) * float(width)
    y = _wrapped(uv[:, 1], texture.wrap_v) * float(height)
    texels = texture.texels.astype(np.float64)
    if texture.nearest:
        column = _texel(np.floor(x), width, Wrap.CLAMP_TO_EDGE)
        return np.asarray(texels[_texel(np.floor(y), height, Wrap.CLAMP_TO_EDGE), column] / 255.0, np.float64)
    x, y = x - 0.5, y - 0.5
    left, top = np.floor(x), np.floor(y)
    across, down = x - left, y - top
    columns = [_texel(left + step, width, texture.wrap_u) for step in (0.0, 1.0)]
    lines = [
        texels[row, columns[0]] * (1.0 - across) + texels[row, columns[1]] * across
        for row in (_texel(top + step, height, texture.wrap_v) for step in (0.0, 1.0))
    ]
    return np.asarray((lines[0] * (1.0 - down) + lines[1] * down) / 255.0, np.float64)


def _wrapped(value: Float64, mode: Wrap) -> Float64:
    if mode is Wrap.REPEAT:
        return np.asarray(value - np.floor(value))
    if mode is Wrap.CLAMP_TO_EDGE:
        return np.minimum(np.maximum(value, 0.0), 1.0)
    folded = value - 2.0 * np.floor(0.5 * value)
    return np.where(folded > 1.0, 2.0 - folded, folded)


def _texel(place: Float64, count: int, mode: Wrap) -> NDArray[np.int64]:
    index = place.astype(np.int64)
    low, high = (count - 1, 0) if mode is Wrap.REPEAT else (0, count - 1)
    return np.where(index < 0, low, np.where(index >= count, high, index))


def of_blas(materials: Sequence[GeometryMaterials], blas: int) -> GeometryMaterials:
    """The materials of a bottom level, none where there are none."""
    return materials[blas] if blas < len(materials) else ()
