"""Materials as the kernels read them: a table of rows per bottom level, laid out in ``kernels.materials``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.structure import Structure
from rtviewer.scene.material import GeometryMaterials, Material

NEAREST = 1 << 16


def material_rows(
    blases: Mapping[int, Structure], materials: Mapping[int, GeometryMaterials]
) -> tuple[int, tuple[NDArray[Any], ...]]:
    """(address for WORLD_MATERIALS, what must be kept alive); 0 where no structure has materials.

    ``blases``: in the order of their rows. A structure whose geometries are not as many as its materials has none.
    """
    from rtviewer.kernels.materials import MATERIAL_SIZE

    table = np.zeros(len(blases), np.int64)
    kept: list[NDArray[Any]] = [table]
    for place, (address, blas) in enumerate(blases.items()):
        own = materials.get(address, ())
        if len(own) != len(blas.geometries) or not any(own):
            continue
        rows = np.zeros((len(own), MATERIAL_SIZE), np.uint8)
        for row, material in zip(rows, own, strict=True):
            if material is not None:
                kept += _fill(row, material)
        table[place] = rows.ctypes.data
        kept.append(rows)
    return (table.ctypes.data if table.any() else 0), tuple(kept)


def _fill(row: NDArray[np.uint8], material: Material) -> list[NDArray[Any]]:
    """One row; returns the arrays that it points to."""
    from rtviewer.kernels import materials as layout

    words = row.view(np.int64)
    kept: list[NDArray[Any]] = []

    def put(offset: int, value: int) -> None:
        words[offset // 8] = value

    put(layout.MATERIAL_HAS_MASK, int(material.has_mask))
    row[layout.MATERIAL_FACTOR :][:4].view(np.float32)[:] = material.factor
    row[layout.MATERIAL_CUTOFF :][:4].view(np.float32)[:] = material.cutoff
    if material.texcoords is not None:
        corners = np.ascontiguousarray(material.texcoords)
        put(layout.MATERIAL_TEXCOORDS, corners.ctypes.data)
        put(layout.MATERIAL_PRIMITIVES, len(corners))
        kept.append(corners)
    if material.texture is not None:
        texels = np.ascontiguousarray(material.texture.texels)
        put(layout.MATERIAL_TEXELS, texels.ctypes.data)
        put(layout.MATERIAL_HEIGHT, texels.shape[0])
        put(layout.MATERIAL_WIDTH, texels.shape[1])
        sampler = int(material.texture.wrap_u) | int(material.texture.wrap_v) << 8
        put(layout.MATERIAL_SAMPLER, sampler | (NEAREST if material.texture.nearest else 0))
        kept.append(texels)
    return kept
