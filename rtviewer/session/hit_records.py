"""The hit-group record of a hit or candidate of a ray, by HG-1, and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.layouts import low_24
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram, program_name
from rtviewer.dxr.shader_table import ABSENT, AS_GIVEN, HitGroup, HitGroupType, hit_group_index
from rtviewer.session.document import World
from rtviewer.session.state import RaySettings


@dataclass(frozen=True)
class HitRecord:
    """What HG-1 selects: ``place`` is the position in the table, 0 for every index when the stride is 0 (HG-3).

    ``any_hit`` and ``intersection`` are names of the programs that run, empty where there is none.
    """

    index: int
    place: int
    group: HitGroup
    any_hit: str
    intersection: str

    def to_json(self) -> dict[str, Any]:
        return {
            "record": self.place,
            "name": self.group.name,
            "type": self.group.type.name,
            "any_hit": self.any_hit or None,
            "intersection": self.intersection or None,
            "closest_hit": self.group.closest_hit,
        }

    @property
    def text(self) -> str:
        """``record 1 "leaf": any-hit IGNORE, no closest-hit``."""
        name = f' "{self.group.name}"' if self.group.name else ""
        all_alike = ", stride 0 [HG-3]" if self.place != self.index else ""
        if self.group.type is HitGroupType.NULL:
            return f"record {self.place}{name}{all_alike}: NULL, runs nothing [HG-3]; {NO_ANY_HIT}"
        parts = [f"any-hit {self.any_hit}" if self.any_hit else NO_ANY_HIT]
        if self.group.type is HitGroupType.PROCEDURAL_PRIMITIVE:
            parts.append(f"intersection {self.intersection}" if self.intersection else "no intersection shader")
        if not self.group.closest_hit:
            parts.append("no closest-hit shader")
        return f"record {self.place}{name}{all_alike}: {', '.join(parts)}"


SPHERES = (IntersectionProgram.SPHERE.name, IntersectionProgram.SPHERE_FAR_FIRST.name)
NO_ANY_HIT = "no any-hit shader: acts opaque [OPQ-5]"


def record_index(world: World, rays: RaySettings, instance: int, geometry: int) -> int:
    """HG-1."""
    contribution = int(low_24(world.tlas.instance_descs["InstanceContributionAndFlags"][instance]))
    return int(hit_group_index(rays.ray_contribution, rays.multiplier, geometry, contribution))


def record_of(world: World, rays: RaySettings, instance: int, geometry: int) -> HitRecord | None:
    """The record that a hit of this instance and geometry selects; None without a table, or outside of it (HG-4)."""
    table = world.scene.hit_groups
    if table is None:
        return None
    index = record_index(world, rays, instance, geometry)
    place = index if table.stride else 0
    if place >= len(table.records):
        return None
    group = table.records[place]
    any_hit = rays.any_hit if group.any_hit == AS_GIVEN else group.any_hit
    intersection = rays.intersection if group.intersection == AS_GIVEN else group.intersection
    return HitRecord(
        index,
        place,
        group,
        "" if any_hit == ABSENT else any_hit_name(any_hit),
        "" if intersection == ABSENT else intersection_name(intersection),
    )


def sphere_geometries(world: World, blas: int) -> NDArray[np.bool_]:
    """(geometries,) bool: whether a bottom level's procedurals of each geometry are spheres.

    By the record of the first instance of it, for rays with the scene's programs and a multiplier of 1.
    """
    rays = RaySettings(any_hit=world.scene.any_hit, intersection=world.scene.intersection)
    placed = np.flatnonzero(world.instance_blas == blas)
    spheres = np.full(len(world.blases[blas].geometries), intersection_name(rays.intersection) in SPHERES)
    for geometry in range(len(spheres) if len(placed) else 0):
        record = record_of(world, rays, int(placed[0]), geometry)
        if record is not None:
            spheres[geometry] = record.intersection in SPHERES
    return spheres


def any_hit_name(program: int | str) -> str:
    """``IGNORE`` or ``user:stripes``."""
    return program_name(program if isinstance(program, str) else AnyHitProgram(program))


def intersection_name(program: int | str) -> str:
    """Likewise of an intersection program."""
    return program_name(program if isinstance(program, str) else IntersectionProgram(program))
