"""Alpha masks of geometry: what any-hit ALPHA_MASK looks at. Shader resources, so not part of any structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray


class Wrap(IntEnum):
    """What a texture coordinate outside 0 to 1 means."""

    REPEAT = 0
    CLAMP_TO_EDGE = 1
    MIRRORED_REPEAT = 2


@dataclass(frozen=True, eq=False)
class AlphaTexture:
    """The alpha of an image: ``texels`` (height, width) uint8, row 0 where v is 0; never sRGB-encoded.

    ``nearest``: the texel that holds the point, instead of bilinear between the four around it. Level 0 always.
    """

    texels: NDArray[np.uint8]
    wrap_u: Wrap = Wrap.REPEAT
    wrap_v: Wrap = Wrap.REPEAT
    nearest: bool = False

    def __post_init__(self) -> None:
        """ValueError for texels that are not (height, width) uint8, at least one."""
        if self.texels.ndim != 2 or self.texels.dtype != np.uint8 or 0 in self.texels.shape:
            raise ValueError(f"alpha is (height, width) uint8, found {self.texels.shape} {self.texels.dtype}")


@dataclass(frozen=True, eq=False)
class Material:
    """A geometry's mask and texture coordinates.

    A hit is masked out where ``factor`` times the texture's alpha is below ``cutoff``; ``has_mask`` False: never.
    ``texcoords``: (triangles, 3, 2) float32, finite, of every corner; None where there are none, and then the texture
    plays no part.
    """

    has_mask: bool = False
    cutoff: float = 0.5
    factor: float = 1.0
    texture: AlphaTexture | None = None
    texcoords: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        """ValueError for texture coordinates of another shape, or that are not finite."""
        corners = self.texcoords
        if corners is not None and (corners.ndim != 3 or corners.shape[1:] != (3, 2) or corners.dtype != np.float32):
            raise ValueError(f"texture coordinates are (triangles, 3, 2) float32, found {corners.shape}")
        if corners is not None and not np.isfinite(corners).all():
            raise ValueError("texture coordinates must be finite")


GeometryMaterials: TypeAlias = Sequence[Material | None]
"""One entry for each geometry of a bottom level, None where it has nothing."""


def has_masks(materials: Sequence[GeometryMaterials]) -> bool:
    """Whether any geometry of any bottom level has a mask."""
    return any(own is not None and own.has_mask for geometries in materials for own in geometries)
