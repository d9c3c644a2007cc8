"""``rtviewer info``: what a scene or mesh file contains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rtviewer.cli.options import SOURCE, output_options, profile_options
from rtviewer.cli.output import number_text, print_facts, print_json
from rtviewer.dxr.profile import Profile

if TYPE_CHECKING:
    from rtviewer.scene.inputs import SceneStatistics
    from rtviewer.scene.scene import Scene


@click.command("info")
@SOURCE
@output_options
@profile_options
def command(source: str, as_json: bool, profile: Profile) -> None:
    """Say what a scene or mesh file contains: counts, world bounds of referenced positions, warnings."""
    from rtviewer.io.registry import load_scene
    from rtviewer.scene.inputs import scene_statistics

    scene = load_scene(source, profile)
    statistics = scene_statistics(scene)
    if as_json:
        print_json(statistics.as_json())
    else:
        _print(scene, statistics)


def _print(scene: Scene, statistics: SceneStatistics) -> None:
    bounds = statistics.bounds
    corners = [" ".join(number_text(value) for value in corner) for corner in bounds] if bounds else []
    print_facts(
        [
            ("scene", scene.name),
            ("triangles stored", f"{statistics.triangles_stored:,}"),
            ("triangles drawn", f"{statistics.triangles_drawn:,}"),
            ("procedurals", f"{statistics.procedurals:,}"),
            ("bottom levels", f"{len(scene.blases):,}"),
            ("geometries", f"{statistics.geometries:,}"),
            ("instances", f"{statistics.instances:,} ({statistics.instances_mirrored:,} mirrored)"),
            ("bounds", f"{corners[0]}  to  {corners[1]}" if corners else "empty"),
            ("cameras", ", ".join(c.name or str(i) for i, c in enumerate(scene.cameras)) or "none"),
            ("programs", f"any-hit {scene.any_hit.name}, intersection {scene.intersection.name}"),
        ]
    )
    for warning in statistics.warnings:
        click.echo(f"warning: {warning}")
