"""Hit groups of a scene before any ray is traced: which instances come to a record that is missing or does not fit."""

from __future__ import annotations

from rtviewer.dxr.shader_table import HitGroupTable, fits, hit_group_index
from rtviewer.scene.scene import Scene

MAX_LISTED = 5
"""Warnings that are listed one by one; more are counted."""


def hit_group_warnings(scene: Scene) -> tuple[str, ...]:
    """What rays with RayContribution 0 and Multiplier 0 or 1 would be refused for [HG-4, TRAV-5], one text for each
    pair of structure and contribution; nothing without a table."""
    table = scene.hit_groups
    if table is None:
        return ()
    found: list[str] = []
    seen: set[tuple[int, int]] = set()
    for index, instance in enumerate(scene.instances):
        pair = (instance.blas, instance.contribution)
        if instance.blas < 0 or pair in seen:
            continue
        seen.add(pair)
        problem = _problem(scene, table, *pair)
        if problem:
            name = f" ({instance.name})" if instance.name else ""
            found.append(f"instance {index}{name}: {problem}")
    rest = len(found) - MAX_LISTED
    return (*found[:MAX_LISTED], *([f"{rest:,} more instances come to records like that [HG-4]"] if rest > 0 else []))


def _problem(scene: Scene, table: HitGroupTable, blas: int, contribution: int) -> str:
    """The first record that geometries of an instance cannot use; empty when all can."""
    count = len(table.records)
    for multiplier in (0, 1):
        for number, geometry in enumerate(scene.blases[blas].geometries):
            record = hit_group_index(0, multiplier, number, contribution)
            place = record if table.stride else 0  # HG-3
            how = f"geometry {number}, multiplier {multiplier}: hit-group index {record}"
            if place >= count:
                return f"{how} is outside the table, which has {count} record{'' if count == 1 else 's'} [HG-4]"
            if not fits(table.records[place], geometry.type):
                kind = table.records[place].type.name
                return f"{how} is record {place} of type {kind}, but the geometry is {geometry.type.name} [TRAV-5]"
    return ""


def user_programs(scene: Scene) -> tuple[str, ...]:
    """Names of a user's programs that the scene and its hit groups mean, each once, as met."""
    named: list[object] = [scene.any_hit, scene.intersection]
    for record in scene.hit_groups.records if scene.hit_groups is not None else ():
        named += [record.any_hit, record.intersection]
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str)))


def program_warnings(scene: Scene) -> tuple[str, ...]:
    """That a scene means programs of a user, which are code and must be loaded by somebody."""
    names = user_programs(scene)
    if not names:
        return ()
    what = ", ".join(repr(name) for name in names)
    where = f" of {scene.program_file}" if scene.program_file else ""
    return (f"the scene names programs of a user{where}: {what}; they are code and are loaded only when asked for",)
