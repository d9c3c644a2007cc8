"""``rtviewer info``: what a scene, a capture, a folder of structures, a blob or a dump contains."""

from __future__ import annotations

from typing import Any

import click

from rtviewer.cli.options import output_options, profile_options, source_options
from rtviewer.cli.output import bytes_text, number_text, print_facts, print_json, print_line, print_table
from rtviewer.dxr.profile import Profile
from rtviewer.dxr.programs import program_name
from rtviewer.scene.scene import Scene

MOST_POINTERS = 16


@click.command("info")
@source_options
@output_options
@profile_options
def command(source: str, files: dict[str, Any], as_json: bool, profile: Profile) -> None:
    """Say what a file contains: a scene's counts, bounds and warnings; structures with their sizes; the header of a
    blob of any driver; the descs of a dump."""
    from rtviewer.session.file_contents import file_contents

    contents, scene = file_contents(source, profile, **files)
    if as_json:
        print_json(contents)
        return
    if scene is not None:
        _print_scene(scene, contents)
    elif contents["kind"] == "structures":
        _print_structures(contents)
    elif contents["kind"] == "blob":
        _print_blob(contents)
    else:
        _print_dump(contents)
    for warning in contents.get("warnings", contents.get("problems", ())):
        print_line(f"warning: {warning}")


def _print_scene(scene: Scene, counts: dict[str, Any]) -> None:
    bounds = counts["bounds"]
    corners = [" ".join(number_text(value) for value in corner) for corner in bounds] if bounds else []
    print_facts(
        [
            ("scene", scene.name),
            ("triangles stored", f"{counts['triangles_stored']:,}"),
            ("triangles drawn", f"{counts['triangles_drawn']:,}"),
            ("procedurals", f"{counts['procedurals']:,}"),
            ("bottom levels", f"{len(scene.blases):,}"),
            ("geometries", f"{counts['geometries']:,}"),
            ("instances", f"{counts['instances']:,} ({counts['instances_mirrored']:,} mirrored)"),
            ("bounds", f"{corners[0]}  to  {corners[1]}" if corners else "empty"),
            ("cameras", ", ".join(c.name or str(i) for i, c in enumerate(scene.cameras)) or "none"),
            ("programs", f"any-hit {program_name(scene.any_hit)}, intersection {program_name(scene.intersection)}"),
        ]
    )


def _print_structures(contents: dict[str, Any]) -> None:
    print_facts(
        [
            ("structures of", contents["name"]),
            ("instances", f"{contents['instances']:,}"),
            ("cameras", ", ".join(name or str(i) for i, name in enumerate(contents["cameras"])) or "none"),
            ("programs", f"any-hit {contents['any_hit']}, intersection {contents['intersection']}"),
        ]
    )
    _print_table(contents["structures"])


def _print_table(rows: list[dict[str, Any]]) -> None:
    print_table(
        "",
        ("name", "level", "flags", "address", "size", "inputs", "active", "depth"),
        [
            (
                row["name"], row["level"], row["flags"], f"{row['address']:#x}", bytes_text(row["size"]),
                f"{row['inputs']:,}", f"{row['active']:,}", row["depth"],
            )
            for row in rows
        ],
        left=3,
    )  # fmt: skip


def _print_blob(contents: dict[str, Any]) -> None:
    print_table(
        "",
        ("offset", "bytes", "field", "value"),
        [(f"{f['offset']:#x}", f["size"], f["name"], f["value"]) for f in contents["fields"]],
        left=4,
    )
    first, end = contents["payload"]
    shown = [f"{pointer:#x}" for pointer in contents["pointers"][:MOST_POINTERS]]
    more = len(contents["pointers"]) - len(shown)
    print_facts(
        [
            ("identifier", contents["status"]),
            ("pointers", (", ".join(shown) or "none") + (f" and {more:,} more" if more else "")),
            ("payload", f"bytes {first:,} to {end:,}"),
        ]
    )
    if contents["structure"] is not None:
        _print_table([contents["structure"]])


def _print_dump(contents: dict[str, Any]) -> None:
    if contents["level"] == "top":
        shown = ", ".join(f"{address:#x}" for address in contents["addresses"][:MOST_POINTERS])
        print_facts([("dump of", "a top level"), ("instances", f"{contents['instances']:,}"), ("addresses", shown)])
        return
    certain = "" if contents["is_base_certain"] else " (others fit as well)"
    print_facts([("dump of", "a bottom level"), ("base address", f"{contents['base_address']:#x}{certain}")])
    print_table(
        "",
        ("geometry", "flags", "vertices as", "indices as", "primitives"),
        [
            (g["type"], g["flags"], g["vertex_format"] or "", g["index_format"] or "none", f"{g['primitives']:,}")
            for g in contents["geometries"]
        ],
        left=4,
    )
