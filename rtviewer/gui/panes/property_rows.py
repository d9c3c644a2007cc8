"""What the properties pane says about a selection, as plain rows made from the structures' bytes; no widgets."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from rtviewer.accel.layout import ID_NO_DUPLICATE, ID_OPAQUE, INSTANCE_SINGULAR, NODE, SectionKind
from rtviewer.accel.navigate import Tree
from rtviewer.dxr.flags import GeometryFlag, GeometryType, InstanceFlag, format_flags
from rtviewer.gui.models.box_tree import surface_area
from rtviewer.gui.widgets.text import format_bytes, format_seconds
from rtviewer.session.document import TOP_LEVEL, World
from rtviewer.session.state import Selection

Row: TypeAlias = tuple[str, str, str]
"""Name, value, tooltip."""
Section: TypeAlias = tuple[str, list[Row]]


def vector(values: object) -> str:
    """Numbers side by side, five digits each."""
    return "  ".join(f"{float(v):.5g}" for v in np.asarray(values).ravel())


def property_sections(world: World, selection: Selection) -> list[Section]:
    """Sections from the most specific to the structure itself."""
    sections: list[Section] = []
    if selection.structure >= len(world.blases):
        return sections
    if selection.structure >= 0 and selection.primitive >= 0:
        sections += _primitive(world, selection)
    if selection.box >= 0 and selection.box < len(world.tree(selection.structure)):
        sections.append(_box(world.tree(selection.structure), selection.box))
    if 0 <= selection.instance < len(world.tlas.instance_descs):
        sections.append(_instance(world, selection.instance))
    sections.append(_structure(world, selection.structure))
    return sections


def _structure(world: World, index: int) -> Section:
    structure = world.structure(index)
    header = structure.header
    what = "instances" if index == TOP_LEVEL else "primitives"
    rows: list[Row] = [
        ("Type", structure.type.name, ""),
        ("Address", f"0x{structure.address:X}", "Simulated GPU address"),
        ("Size", format_bytes(structure.size), "Bytes"),
        ("Build flags", format_flags(structure.build_flags), "Read from the structure's own header"),
        ("Built in", format_seconds(world.build_seconds(index)), "Wall time"),
        (what.capitalize(), f"{int(header['input_count']):,}", "Given to the build"),
        ("Active", f"{int(header['active_count']):,}", "In the tree"),
        ("Degenerate", f"{int(header['degenerate_count']):,}", "Degenerate among the input (DEG-1)"),
        ("Depth", str(int(header["depth"])), "Levels of nodes"),
    ]
    if structure.bounds is not None:
        rows += [("Minimum", vector(structure.bounds[0]), "Bounds"), ("Maximum", vector(structure.bounds[1]), "Bounds")]
    for number, geometry in enumerate(structure.geometries):
        if number == 16:
            rows.append(("…", f"{len(structure.geometries) - 16} more geometries", ""))
            break
        kind = GeometryType(int(geometry["type"])).name
        flags = format_flags(GeometryFlag(int(geometry["flags"])))
        rows.append((f"Geometry {number}", f"{int(geometry['primitive_count']):,} {kind}, {flags}", kind))
    return structure.name or ("TLAS" if index == TOP_LEVEL else f"BLAS {index}"), rows


def _box(tree: Tree, box: int) -> Section:
    leaf = tree.is_leaf(box)
    parent = int(tree.parent[box])
    area, whole = surface_area(tree, box), surface_area(tree, 0)
    offset = tree.structure.section_offset(SectionKind.NODES)
    rows: list[Row] = [("Depth", str(int(tree.depth[box])), "0 is the root")]
    if parent >= 0:
        rows.append(("Parent", f"node {parent:,}, lane {int(tree.lane[box])}", "Place in the parent's eight children"))
    if leaf:
        rows.append(("Holds", f"{len(tree.leaf_items(box)):,}", "Primitives or instances of the leaf"))
        rows.append(
            ("Elements", f"{int(tree.element_count[box])} from {int(tree.first_element[box]):,}", "In the leaf section")
        )
    else:
        first, count = int(tree.first_child[box]), int(tree.child_count[box])
        rows.append(("Children", f"{count}: nodes {first:,} to {first + count - 1:,}", ""))
        place = offset + int(tree.node[box]) * NODE.itemsize
        rows.append(("Offset", f"0x{place:X}", "Bytes from the start of the structure"))
    low, high = tree.low[box], tree.high[box]
    rows += [
        ("Minimum", vector(low), "In the structure's own space"),
        ("Maximum", vector(high), "In the structure's own space"),
        ("Extent", vector(high - low), ""),
        ("Area", f"{area:.6g}", "Surface area"),
        (
            "Hit chance",
            f"{area / whole:.2%}" if whole > 0 else "–",
            "Share of the root's area: chance that a ray through the root meets this box (SAH)",
        ),
    ]
    if not leaf and area > 0:
        children = sum(surface_area(tree, child) for child in range(first, first + count))
        rows.append(
            ("Overlap", f"{children / area:.3g}", "Summed area of the children over the node's own; lower is better")
        )
    kind = "Root" if box == 0 else "Leaf" if leaf else "Node"
    return f"{kind} {box:,}", rows


def _instance(world: World, index: int) -> Section:
    desc = world.tlas.instance_descs[index]
    transform = np.asarray(desc["Transform"], np.float32).reshape(3, 4)
    blas = world.blas_of_instance(index)
    flags_word = int(desc["InstanceContributionAndFlags"]) >> 24
    leaves = world.tlas.instance_leaves
    mine = leaves[leaves["instance"] == index]
    rows: list[Row] = [
        ("InstanceID", str(int(desc["InstanceIDAndMask"]) & 0xFFFFFF), "24 bits, the user's own number"),
        (
            "InstanceMask",
            f"0x{int(desc['InstanceIDAndMask']) >> 24:02X}",
            "MASK-1: met when it and the ray's mask share a bit",
        ),
        (
            "Contribution",
            str(int(desc["InstanceContributionAndFlags"]) & 0xFFFFFF),
            "InstanceContributionToHitGroupIndex (HG-1)",
        ),
        ("Flags", format_flags(InstanceFlag(flags_word)), "Instance flags"),
        (
            "BLAS",
            world.blases[blas].name or f"BLAS {blas}" if blas >= 0 else "none (inactive, INST-2)",
            "Bottom-level structure",
        ),
        ("BLAS address", f"0x{int(desc['AccelerationStructure']):X}", ""),
    ]
    rows += [(f"Transform {axis}", vector(transform[i]), "Object to world, one row") for i, axis in enumerate("xyz")]
    determinant = float(np.linalg.det(transform[:, :3].astype(np.float64)))
    rows.append(("Determinant", f"{determinant:.6g}" + (" (mirrored)" if determinant < 0 else ""), "Volume scale"))
    rows.append(
        (
            "Scale",
            vector(np.linalg.norm(transform[:, :3].astype(np.float64), axis=0)),
            "Length of each object axis in the world",
        )
    )
    if len(mine) and int(mine[0]["state"]) & INSTANCE_SINGULAR:
        rows.append(("Inverse", "none: the transform is singular (INST-5)", ""))
    elif len(mine):
        rows += [
            (f"Inverse {axis}", vector(mine[0]["world_to_object"][i]), "World to object, one row")
            for i, axis in enumerate("xyz")
        ]
    return f"Instance {index:,}", rows


def _primitive(world: World, selection: Selection) -> list[Section]:
    structure = world.blases[selection.structure]
    number = int(structure.geometries["first_primitive"][selection.geometry]) + selection.primitive
    packs = structure.packs
    ids = packs["id"].ravel()
    found = np.flatnonzero((ids >= 0) & ((ids & 0x1FFFFFFF) == number))
    title = f"Primitive {selection.geometry}:{selection.primitive}"
    if not len(found):
        return [(title, [("State", "inactive: not in the tree", "INA-1")])]
    pack, lane = divmod(int(found[0]), 4)
    word = int(ids[found[0]])
    opaque = "opaque" if word & ID_OPAQUE else "non-opaque"
    duplicate = ", no duplicate any-hit" if word & ID_NO_DUPLICATE else ""
    rows: list[Row] = [("Geometry flags", opaque + duplicate, "Before instance and ray flags (OPQ-1)")]
    if not structure.is_procedural:
        corners = structure.pack_corners()[pack, :, :, lane].astype(np.float64)
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        rows += [
            (f"v{i}", vector(corner), "Object space, after the geometry transform") for i, corner in enumerate(corners)
        ]
        rows.append(("Area", f"{np.linalg.norm(normal) / 2:.6g}", ""))
    else:
        rows.append(("Minimum", vector(packs["low"][pack, :, lane]), "Object space"))
        rows.append(("Maximum", vector(packs["high"][pack, :, lane]), "Object space"))
    return [(title, rows)]
