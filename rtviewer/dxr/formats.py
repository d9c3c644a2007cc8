"""Vertex and index formats of the build (section 1.10 of the rules)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from rtviewer.dxr.profile import Tier


class VertexFormat(IntEnum):
    """DXGI numbers of the formats that triangle positions may have (VF-1)."""

    R32G32B32_FLOAT = 6
    R16G16B16A16_FLOAT = 10
    R16G16B16A16_UNORM = 11
    R16G16B16A16_SNORM = 13
    R32G32_FLOAT = 16
    R10G10B10A2_UNORM = 24
    R8G8B8A8_UNORM = 28
    R8G8B8A8_SNORM = 31
    R16G16_FLOAT = 34
    R16G16_UNORM = 35
    R16G16_SNORM = 37
    R8G8_UNORM = 49
    R8G8_SNORM = 51


class IndexFormat(IntEnum):
    UNKNOWN = 0
    R32_UINT = 42
    R16_UINT = 57


class VertexLayout(NamedTuple):
    component_size: int
    """Bytes; addresses and strides are multiples of it (ALIGN-5)."""
    read_size: int
    """Bytes fetched per vertex; a fourth component is never read (VF-3)."""
    components: int
    tier: Tier
    can_be_nan: bool


VERTEX_LAYOUTS: dict[VertexFormat, VertexLayout] = {
    VertexFormat.R32G32_FLOAT: VertexLayout(4, 8, 2, Tier.TIER_1_0, True),
    VertexFormat.R32G32B32_FLOAT: VertexLayout(4, 12, 3, Tier.TIER_1_0, True),
    VertexFormat.R16G16_FLOAT: VertexLayout(2, 4, 2, Tier.TIER_1_0, True),
    VertexFormat.R16G16B16A16_FLOAT: VertexLayout(2, 6, 3, Tier.TIER_1_0, True),
    VertexFormat.R16G16_SNORM: VertexLayout(2, 4, 2, Tier.TIER_1_0, False),
    VertexFormat.R16G16B16A16_SNORM: VertexLayout(2, 6, 3, Tier.TIER_1_0, False),
    VertexFormat.R16G16B16A16_UNORM: VertexLayout(2, 6, 3, Tier.TIER_1_1, False),
    VertexFormat.R16G16_UNORM: VertexLayout(2, 4, 2, Tier.TIER_1_1, False),
    VertexFormat.R10G10B10A2_UNORM: VertexLayout(4, 4, 3, Tier.TIER_1_1, False),
    VertexFormat.R8G8B8A8_UNORM: VertexLayout(1, 3, 3, Tier.TIER_1_1, False),
    VertexFormat.R8G8_UNORM: VertexLayout(1, 2, 2, Tier.TIER_1_1, False),
    VertexFormat.R8G8B8A8_SNORM: VertexLayout(1, 3, 3, Tier.TIER_1_1, False),
    VertexFormat.R8G8_SNORM: VertexLayout(1, 2, 2, Tier.TIER_1_1, False),
}
