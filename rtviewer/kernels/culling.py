"""The compiled twin of the decisions in ``dxr.rules``; compared with them over all legal flag combinations.

Flag words are non-negative int64; results are the integers of ``dxr.rules.Opacity`` and ``dxr.flags.HitKind``.
"""

from __future__ import annotations

from rtviewer.kernels import inline_jit, jit
from rtviewer.kernels.constants import (
    BACK_FACE,
    FRONT_FACE,
    INSTANCE_CULL_DISABLE,
    INSTANCE_FORCE_NON_OPAQUE,
    INSTANCE_FORCE_OPAQUE,
    INSTANCE_FRONT_COUNTERCLOCKWISE,
    OPACITY_CULLED_NON_OPAQUE,
    OPACITY_CULLED_OPAQUE,
    OPACITY_NON_OPAQUE,
    OPACITY_OPAQUE,
    RAY_CULL_BACK_FACING,
    RAY_CULL_FRONT_FACING,
    RAY_CULL_NON_OPAQUE,
    RAY_CULL_OPAQUE,
    RAY_FORCE_NON_OPAQUE,
    RAY_FORCE_OPAQUE,
    RAY_SKIP_PROCEDURALS,
    RAY_SKIP_TRIANGLES,
)


@jit
def effective_opacity(geometry_is_opaque, instance_flags, ray_flags):
    """OPQ-1 to OPQ-4."""
    opaque = geometry_is_opaque
    if instance_flags & INSTANCE_FORCE_OPAQUE:
        opaque = True
    elif instance_flags & INSTANCE_FORCE_NON_OPAQUE:
        opaque = False
    if opaque and ray_flags & RAY_CULL_OPAQUE:
        return OPACITY_CULLED_OPAQUE
    if not opaque and ray_flags & RAY_CULL_NON_OPAQUE:
        return OPACITY_CULLED_NON_OPAQUE
    if ray_flags & RAY_FORCE_OPAQUE:
        opaque = True
    elif ray_flags & RAY_FORCE_NON_OPAQUE:
        opaque = False
    return OPACITY_OPAQUE if opaque else OPACITY_NON_OPAQUE


@inline_jit
def hit_kind(clockwise, instance_flags):
    """FACE-1 and FACE-2."""
    front = clockwise
    if instance_flags & INSTANCE_FRONT_COUNTERCLOCKWISE:
        front = not clockwise
    return FRONT_FACE if front else BACK_FACE


@inline_jit
def is_facing_culled(kind, instance_flags, ray_flags):
    """CULL-3."""
    if instance_flags & INSTANCE_CULL_DISABLE:
        return False
    if kind == BACK_FACE:
        return ray_flags & RAY_CULL_BACK_FACING != 0
    return ray_flags & RAY_CULL_FRONT_FACING != 0


@inline_jit
def is_type_skipped(is_triangle, ray_flags):
    """CULL-1."""
    if is_triangle:
        return ray_flags & RAY_SKIP_TRIANGLES != 0
    return ray_flags & RAY_SKIP_PROCEDURALS != 0


@inline_jit
def is_mask_excluded(ray_mask, instance_mask):
    """MASK-1 and MASK-2."""
    return ray_mask & instance_mask & 0xFF == 0
