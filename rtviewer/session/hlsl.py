"""Rays and ray flags as HLSL source."""

from __future__ import annotations

import math
from typing import Any

from rtviewer.dxr.flags import RayFlag, format_flags
from rtviewer.session.state import RaySettings


def flags_as_hlsl(flags: RayFlag) -> str:
    """A ray-flag word as HLSL source."""
    return " | ".join(
        f"RAY_FLAG_{name}" if not name.startswith("0x") else name for name in format_flags(flags).split(" | ")
    )


def ray_as_hlsl(origin: Any, direction: Any, rays: RaySettings) -> str:
    """A ray and its TraceRay call as HLSL source; numbers are exact (nine digits give a float32 back)."""

    def number(value: float) -> str:
        if math.isinf(value):
            return "asfloat(0x7F800000)" if value > 0 else "asfloat(0xFF800000)"
        return f"{value:.9g}"

    def vector(values: Any) -> str:
        return f"float3({', '.join(number(float(v)) for v in values)})"

    return "\n".join(
        [
            "RayDesc ray;",
            f"ray.Origin = {vector(origin)};",
            f"ray.TMin = {number(rays.t_min)};",
            f"ray.Direction = {vector(direction)};",
            f"ray.TMax = {number(rays.t_max)};",
            f"TraceRay(scene, {flags_as_hlsl(rays.ray_flags)}, 0x{rays.mask:02X}, {rays.ray_contribution}, "
            f"{rays.multiplier}, {rays.miss_index}, ray, payload);",
        ]
    )
