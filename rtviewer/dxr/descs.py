"""Build inputs and rays as the rest of the product passes them: decoded arrays beside the specification's fields.

Raw buffers with formats, strides and addresses become these when a device reads them; a loader makes them directly.
Arrays are C-contiguous, of the stated dtype, and are never written to after construction (BLD-3 is kept by copying at
build time).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.flags import GeometryFlag, GeometryType, InstanceFlag
from rtviewer.dxr.formats import IndexFormat, VertexFormat

Float3x4: TypeAlias = NDArray[np.float32]
"""(3, 4) float32, row-major, rows ``[m00 m01 m02 tx]``."""

IDENTITY: Float3x4 = np.eye(3, 4, dtype=np.float32)


@dataclass(frozen=True)
class TrianglesGeometry:
    """A triangle list.

    ``vertices``: (vertex_count, 3) float32. ``indices``: (triangle_count, 3) uint32, or None for consecutive triples.
    ``transform``: (3, 4) float32 applied to every vertex at build time (GEO-7), or None. The formats are those that the
    arrays were decoded from: an update may not change them (UPD-8).
    """

    vertices: NDArray[np.float32]
    indices: NDArray[np.uint32] | None = None
    transform: Float3x4 | None = None
    flags: GeometryFlag = GeometryFlag.NONE
    name: str = ""
    vertex_format: VertexFormat = VertexFormat.R32G32B32_FLOAT
    index_format: IndexFormat = IndexFormat.R32_UINT

    type = GeometryType.TRIANGLES

    @property
    def primitive_count(self) -> int:
        return len(self.vertices) // 3 if self.indices is None else len(self.indices)


@dataclass(frozen=True)
class AabbsGeometry:
    """Procedural primitives. ``aabbs``: (primitive_count, 6) float32, minimum then maximum."""

    aabbs: NDArray[np.float32]
    flags: GeometryFlag = GeometryFlag.NONE
    name: str = ""

    type = GeometryType.PROCEDURAL_PRIMITIVE_AABBS

    @property
    def primitive_count(self) -> int:
        return len(self.aabbs)


Geometry: TypeAlias = TrianglesGeometry | AabbsGeometry


@dataclass(frozen=True)
class BlasInputs:
    """Geometries of one bottom-level structure, all triangles or all AABBs (BLD-2), in order (BLD-12)."""

    geometries: tuple[Geometry, ...] = ()
    name: str = ""

    @property
    def primitive_count(self) -> int:
        return sum(g.primitive_count for g in self.geometries)


@dataclass(frozen=True)
class InstanceInputs:
    """Instances of one top-level structure as a table: one row per instance, in order (BLD-12).

    ``transform`` (n, 3, 4) float32 object-to-world; ``instance_id``, ``contribution`` (n,) uint32 below 2^24;
    ``mask``, ``flags`` (n,) uint8; ``blas_address`` (n,) uint64, 0 for none (INST-2).
    """

    transform: NDArray[np.float32]
    instance_id: NDArray[np.uint32]
    mask: NDArray[np.uint8]
    contribution: NDArray[np.uint32]
    flags: NDArray[np.uint8]
    blas_address: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.transform)

    def instance_flags(self, index: int) -> InstanceFlag:
        return InstanceFlag(int(self.flags[index]))


@dataclass(frozen=True)
class RayDesc:
    """One ray; ``direction`` is not normalised and t counts in multiples of it (RAY-1)."""

    origin: tuple[float, float, float]
    direction: tuple[float, float, float]
    t_min: float = 0.0
    t_max: float = field(default=float("inf"))
