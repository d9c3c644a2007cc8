"""A bare triangle mesh, as generators make it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Mesh:
    """``vertices`` (n, 3) float32, ``indices`` (m, 3) uint32, C-contiguous.

    Generators wind outward faces counter-clockwise seen from outside in right-handed axes, which makes them front
    facing by FACE-1 without any flag: the cross product of the edges points out, against the ray.
    """

    vertices: NDArray[np.float32]
    indices: NDArray[np.uint32]

    @classmethod
    def of(cls, vertices: object, indices: object) -> Mesh:
        """From anything array-like."""
        return cls(
            np.ascontiguousarray(vertices, np.float32).reshape(-1, 3),
            np.ascontiguousarray(indices, np.uint32).reshape(-1, 3),
        )

    def reversed(self) -> Mesh:
        """The same triangles with the opposite winding: corners 1 and 2 change places."""
        return Mesh(self.vertices, np.ascontiguousarray(self.indices[:, [0, 2, 1]]))


def joined(meshes: Sequence[Mesh]) -> Mesh:
    """One mesh of all triangles, in order; vertices are not merged."""
    if not meshes:
        return Mesh.of(np.empty((0, 3)), np.empty((0, 3)))
    offsets = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes[:-1])])
    return Mesh.of(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate([mesh.indices + np.uint32(offset) for mesh, offset in zip(meshes, offsets, strict=True)]),
    )
