"""A candidate or committed hit of an inline query."""

from __future__ import annotations

from dataclasses import dataclass

from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import GeometryFlag, HitKind, InstanceFlag, RayFlag
from rtviewer.dxr.layouts import high_8
from rtviewer.dxr.rules import Opacity, effective_opacity


@dataclass(frozen=True)
class QueryHit:
    """``t`` of a procedural candidate is where the ray enters its box. ``attributes``: barycentrics of a triangle."""

    is_triangle: bool
    t: float
    instance: int
    geometry: int
    primitive: int
    hit_kind: int
    attributes: tuple[float, float]

    @property
    def is_front_face(self) -> bool:
        return self.hit_kind == HitKind.TRIANGLE_FRONT_FACE

    def is_opaque(self, structures: tuple[Structure, dict[int, Structure]], flags: RayFlag) -> bool:
        """OPQ-1 to OPQ-4 for the geometry and instance it belongs to."""
        tlas, blases = structures
        desc = tlas.instance_descs[self.instance]
        geometry = blases[int(desc["AccelerationStructure"])].geometries[self.geometry]
        instance = InstanceFlag(int(high_8(desc["InstanceContributionAndFlags"])))
        return effective_opacity(GeometryFlag(int(geometry["flags"])), instance, flags) is Opacity.OPAQUE
