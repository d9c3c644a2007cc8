"""Every promise a structure's bytes make, checked: what passes can be walked without a bounds test in the loop.

Checks go from the outside in and stop where going on would read beyond the bytes. Messages name section, element and
numbers. Time and memory are linear in the size of the structure.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.encode import element_size
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag, GeometryType, InstanceFlag
from rtviewer.dxr.layouts import high_8
from rtviewer.dxr.limits import (
    ACCELERATION_STRUCTURE_BYTE_ALIGNMENT,
    MAX_PRIMITIVES_PER_BOTTOM_LEVEL_ACCELERATION_STRUCTURE,
)
from rtviewer.dxr.profile import Profile, Tier
from rtviewer.dxr.rules import check_build_flags, check_instance_flags

MOST_REPORTED = 20


def check(structure: Structure) -> list[str]:
    """Problems found, one sentence each; empty for a sound structure.

    A dehydrated one is sound when its topology is: it has no boxes to check (XB-3).
    """
    problems = _check_header(structure) or _check_sections(structure)
    if problems:
        return problems
    for part in (_check_counts, _check_references, _check_contents, _check_indexed):
        problems = part(structure)
        if problems:
            return problems[:MOST_REPORTED]
    problems = _check_order(structure) + _check_update(structure)
    if int(structure.header["state"]) == layout.STATE_LIVE:
        problems += _check_boxes(structure)
    return problems[:MOST_REPORTED]


def _check_header(structure: Structure) -> list[str]:
    if structure.size < layout.HEADER.itemsize:
        return [f"header: expected at least {layout.HEADER.itemsize} bytes, found {structure.size}"]
    header = structure.header
    problems = []
    if bytes(header["magic"]) != layout.MAGIC:
        problems.append(f"header.magic: expected {layout.MAGIC!r}, found {bytes(header['magic'])!r}")
    for field, expected in (("layout_version", layout.LAYOUT_VERSION), ("size_in_bytes", structure.size)):
        if int(header[field]) != expected:
            problems.append(f"header.{field}: expected {expected}, found {int(header[field])}")
    used = int(header["used_size"])
    if used > structure.size or used % ACCELERATION_STRUCTURE_BYTE_ALIGNMENT:
        problems.append(f"header.used_size: expected a multiple of 256 up to {structure.size}, found {used}")
    if int(header["state"]) not in (layout.STATE_LIVE, layout.STATE_DEHYDRATED):
        problems.append(f"header.state: expected 0 or 1, found {int(header['state'])}")
    kinds = (int(AccelerationStructureType.TOP_LEVEL), int(AccelerationStructureType.BOTTOM_LEVEL))
    if int(header["type"]) not in kinds:
        problems.append(f"header.type: expected 0 or 1, found {int(header['type'])}")
    else:
        problems += _check_flags(structure)
    if int(header["section_count"]) > layout.MAX_SECTIONS:
        problems.append(
            f"header.section_count: expected at most {layout.MAX_SECTIONS}, found {header['section_count']}"
        )
    for field, least in (("max_abs", 0), ("condition", 1)):
        if not np.isfinite(header[field]) or header[field] < least:
            problems.append(f"header.{field}: expected a finite number of at least {least}, found {header[field]}")
    if int(header["input_count"]) > MAX_PRIMITIVES_PER_BOTTOM_LEVEL_ACCELERATION_STRUCTURE:
        problems.append(f"header.input_count: expected at most 2^29 (LIM-2), found {int(header['input_count'])}")
    return problems


def _check_flags(structure: Structure) -> list[str]:
    """The stored flags are those of a first build (BF-1, BF-2, BF-9), the Xbox one while dehydrated and only then
    (XB-3)."""
    dehydrated = int(structure.header["state"]) == layout.STATE_DEHYDRATED
    flags, profile = structure.build_flags, Profile(Tier.TIER_1_2, xbox=dehydrated)
    problems = [f"header.build_flags: {v}" for v in check_build_flags(flags, structure.type, profile)]
    if dehydrated and (structure.is_top_level or not flags & BuildFlag.DEHYDRATE):
        problems.append("header.state: only a bottom level built with DEHYDRATE is dehydrated (XB-3)")
    return problems


def _check_sections(structure: Structure) -> list[str]:
    """Known kinds, once each, right element sizes, aligned, inside the bytes, not overlapping."""
    problems: list[str] = []
    ranges: list[tuple[int, int]] = [(0, layout.HEADER.itemsize)]
    seen: set[int] = set()
    known = {int(kind) for kind in SectionKind}
    table = structure.header["sections"][: int(structure.header["section_count"])]
    wanted = _wanted_sections(structure, {int(kind) for kind in table["kind"]})
    for entry in table:
        kind, size, count, offset = (int(entry[name]) for name in ("kind", "element_size", "count", "offset"))
        if kind not in known or kind in seen:
            problems.append(f"section table: unexpected section kind {kind}")
            continue
        seen.add(kind)
        name = SectionKind(kind).name
        if size != element_size(SectionKind(kind)):
            problems.append(f"{name}: expected elements of {element_size(SectionKind(kind))} bytes, found {size}")
        elif offset == 0:  # what an absent section reads as
            problems.append(f"{name}: expected to begin behind the header, found byte 0")
        elif offset % layout.SECTION_ALIGNMENT or offset + count * size > structure.used_size:
            problems.append(f"{name}: {count} elements at byte {offset} do not fit into {structure.used_size} bytes")
        else:
            ranges.append((offset, offset + count * size))
    ranges.sort()
    for (_, end), (begin, _) in pairwise(ranges):
        if begin < end:
            problems.append(f"section table: sections overlap at byte {begin}")
    problems += [
        f"section table: {SectionKind(kind).name} is {'missing' if kind in wanted else 'unexpected'}"
        for kind in seen ^ {int(k) for k in wanted}
    ]
    return problems


def _wanted_sections(structure: Structure, present: set[int]) -> tuple[SectionKind, ...]:
    """The sections that type, build flags and leaf kind ask for; of the leaf kinds, the one that is there (BLD-2)."""
    if structure.is_top_level:
        return SectionKind.NODES, SectionKind.INSTANCE_LEAVES, SectionKind.INSTANCE_DESCS
    wanted = [SectionKind.NODES, SectionKind.GEOMETRIES]
    if SectionKind.INDEXED_PACKS in present:
        wanted += [SectionKind.INDEXED_PACKS, SectionKind.INDICES, SectionKind.VERTICES]
    elif SectionKind.BOX_PACKS in present:
        wanted.append(SectionKind.BOX_PACKS)
    else:
        wanted.append(SectionKind.TRIANGLE_PACKS)
    # The last update may drop the flag; what it needed stays until a compacting copy (CP-15).
    if structure.build_flags & BuildFlag.ALLOW_UPDATE or SectionKind.UPDATE in present:
        wanted += [SectionKind.UPDATE, SectionKind.INACTIVE]
    return tuple(wanted)


def _leaf_count(structure: Structure) -> int:
    return len(structure.instance_leaves) if structure.is_top_level else len(structure.packs)


def _check_counts(structure: Structure) -> list[str]:
    header = structure.header
    problems = []
    inputs, active = int(header["input_count"]), int(header["active_count"])
    for field in ("active_count", "degenerate_count"):
        if int(header[field]) > inputs:
            problems.append(f"header.{field}: {int(header[field])} exceeds input_count {inputs}")
    if (active == 0) != (len(structure.nodes) == 0):
        problems.append(f"header.active_count is {active} but there are {len(structure.nodes)} nodes")
    if structure.is_top_level:
        if inputs != len(structure.instance_descs):
            problems.append(f"header.input_count: expected {len(structure.instance_descs)}, found {inputs}")
        if active != len(structure.instance_leaves):
            problems.append(f"header.active_count: expected {len(structure.instance_leaves)}, found {active}")
        return problems
    rows = structure.geometries
    counts = rows["primitive_count"].astype(np.int64)
    if int(counts.sum()) != inputs:
        problems.append(f"GEOMETRIES: primitives add up to {int(counts.sum())}, header.input_count is {inputs}")
    elif not np.array_equal(rows["first_primitive"], np.cumsum(counts) - counts):
        problems.append("GEOMETRIES.first_primitive: not the running sum of primitive_count")
    for field in ("active_count", "degenerate_count"):
        if (rows[field] > rows["primitive_count"]).any():
            problems.append(f"GEOMETRIES.{field}: exceeds primitive_count")
    if (rows["type"] > int(GeometryType.PROCEDURAL_PRIMITIVE_AABBS)).any():
        problems.append(f"GEOMETRIES.type: expected 0 or 1, found {int(rows['type'].max())}")
    if int(rows["active_count"].astype(np.int64).sum()) != active:
        problems.append("GEOMETRIES.active_count: does not add up to header.active_count")
    if int(rows["degenerate_count"].astype(np.int64).sum()) != int(header["degenerate_count"]):
        problems.append("GEOMETRIES.degenerate_count: does not add up to header.degenerate_count")
    if (rows["flags"] > 3).any():
        problems.append(f"GEOMETRIES.flags: expected bits 0x1 and 0x2 (GF-1), found {int(rows['flags'].max()):#x}")
    if len(rows) and len(np.unique(rows["type"])) != 1:
        problems.append("GEOMETRIES.type: more than one kind in a structure (BLD-2)")
    elif len(rows) and bool(rows["type"][0]) != structure.is_procedural:
        problems.append("GEOMETRIES.type: does not fit the leaf section")
    return problems


def _occupied(structure: Structure) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(node, lane, reference) of every occupied lane."""
    nodes = structure.nodes
    node, lane = np.nonzero(nodes["min_x"] <= nodes["max_x"])
    return node, lane, nodes["child"][node, lane].astype(np.int64)


def _check_references(structure: Structure) -> list[str]:
    """Children in range, larger than their parent, and every node and leaf element reached exactly once; depth."""
    nodes = structure.nodes
    empty = ~(nodes["min_x"] <= nodes["max_x"])
    problems = [
        f"NODES[{n}].child[{k}]: an empty lane must be 0" for n, k in np.argwhere(empty & (nodes["child"] != 0))
    ]
    # Unions over a node take all its lanes, so empty ones must not count.
    low, high = _lane_boxes(structure)
    odd = empty & ~((low == np.inf) & (high == -np.inf)).all(2)
    problems += [f"NODES[{n}] lane {k}: an empty lane must be +inf to -inf" for n, k in np.argwhere(odd)]
    node, lane, ref = _occupied(structure)
    inner = ref >= 0
    bad = inner & ((ref <= node) | (ref >= len(nodes)))
    first, count = ~ref >> 2, (~ref & 3) + 1
    bad |= ~inner & (first + count > _leaf_count(structure))
    problems += [f"NODES[{node[i]}].child[{lane[i]}]: reference {ref[i]} out of range" for i in np.flatnonzero(bad)]
    if problems:
        return problems
    reached = np.bincount(ref[inner], minlength=len(nodes))
    problems += [f"NODES[{i}]: reached {reached[i]} times" for i in np.flatnonzero(reached[1:] != 1) + 1]
    covered = np.zeros(_leaf_count(structure) + 1, np.int64)
    np.add.at(covered, first[~inner], 1)
    np.add.at(covered, first[~inner] + count[~inner], -1)
    times = np.cumsum(covered[:-1])
    problems += [f"leaf element {i}: reached {times[i]} times" for i in np.flatnonzero(times != 1)]
    if problems:
        return problems
    depth = np.zeros(len(nodes), np.int64)
    for parent, child in zip(node[inner], ref[inner], strict=True):  # parents come before children
        depth[child] = depth[parent] + 1
    levels = int(depth.max()) + 1 if len(nodes) else 0
    if levels != int(structure.header["depth"]):
        problems.append(f"header.depth: expected {levels}, found {int(structure.header['depth'])}")
    return problems


def _lane_boxes(structure: Structure) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(nodes, 8, 3) minimum and maximum."""
    nodes = structure.nodes
    return (
        np.stack([nodes[f"min_{a}"] for a in "xyz"], 2),
        np.stack([nodes[f"max_{a}"] for a in "xyz"], 2),
    )


def _check_boxes(structure: Structure) -> list[str]:
    """Every lane's box encloses what is below it, and the header's bounds enclose the root's lanes."""
    low, high = _lane_boxes(structure)
    node, lane, ref = _occupied(structure)
    nameless = ~(low[node, lane] <= high[node, lane]).all(1)
    if nameless.any():
        i = int(np.flatnonzero(nameless)[0])
        return [f"NODES[{node[i]}] lane {lane[i]}: a box with a NaN, or with its minimum above its maximum"]
    inner = ref >= 0
    below_low, below_high = np.empty((len(ref), 3)), np.empty((len(ref), 3))
    node_low, node_high = low.min(1), high.max(1)  # empty lanes are +inf to -inf
    below_low[inner], below_high[inner] = node_low[ref[inner]], node_high[ref[inner]]
    content_low, content_high = _element_boxes(structure)
    if np.isnan(content_low).any() or np.isnan(content_high).any():
        return [f"leaf element {np.flatnonzero(np.isnan(content_low + content_high).any(1))[0]}: a NaN in its contents"]
    first, count = (~ref >> 2)[~inner], ((~ref & 3) + 1)[~inner]
    if len(first):
        reach = np.minimum(first[:, None] + np.arange(layout.MAX_LEAF_ELEMENTS), (first + count - 1)[:, None])
        below_low[~inner], below_high[~inner] = content_low[reach].min(1), content_high[reach].max(1)
    outside = (below_low < low[node, lane]).any(1) | (below_high > high[node, lane]).any(1)
    problems = [
        f"NODES[{node[i]}] lane {lane[i]}: box {low[node[i], lane[i]]} to {high[node[i], lane[i]]} does not enclose "
        f"{below_low[i]} to {below_high[i]} below it"
        for i in np.flatnonzero(outside)
    ]
    if len(low):
        bounds = structure.header["bounds"]
        if not ((node_low[0] >= bounds[0]).all() and (node_high[0] <= bounds[1]).all()):
            problems.append(f"header.bounds: {bounds[0]} to {bounds[1]} does not enclose the root")
        reach_needed = float(np.max(np.abs(np.where(np.isfinite(bounds), bounds, 0.0))))
        if float(structure.header["max_abs"]) < reach_needed:
            problems.append(f"header.max_abs: {structure.header['max_abs']} is less than the bounds' {reach_needed}")
    return problems


def _element_boxes(structure: Structure) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bounds of what each leaf element holds, (n, 3); nothing is known of an instance's bottom level here."""
    if structure.is_top_level:
        count = len(structure.instance_leaves)
        return np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
    packs = structure.packs
    if structure.is_procedural:
        with np.errstate(invalid="ignore"):
            low, high = packs["low"].astype(np.float64), packs["high"].astype(np.float64)
    else:
        with np.errstate(invalid="ignore"):  # a signalling NaN, which is found by its value
            corners = structure.pack_corners().astype(np.float64)  # pack, corner, axis, lane
        low, high = corners.min(1), corners.max(1)
    unused = (packs["id"] == layout.UNUSED_LANE)[:, None, :]
    return np.where(unused, np.inf, low).min(2), np.where(unused, -np.inf, high).max(2)


def _check_contents(structure: Structure) -> list[str]:
    """Every active primitive or instance in the leaves exactly once; ids and flags as the tables say."""
    if structure.is_top_level:
        return _check_instances(structure)
    packs = structure.packs
    ids = packs["id"].ravel()
    ids = ids[ids != layout.UNUSED_LANE]
    number = ids & layout.PRIMITIVE_BITS
    inputs = int(structure.header["input_count"])
    if (number >= inputs).any():
        return [f"leaves: a primitive number beyond the last ({inputs - 1})"]
    values, times = np.unique(number, return_counts=True)  # not by number: that would take memory the bytes do not have
    problems = [f"primitive {values[i]}: in the leaves {times[i]} times" for i in np.flatnonzero(times > 1)]
    if len(ids) != int(structure.header["active_count"]):
        problems.append(
            f"leaves: {len(ids)} primitives, header.active_count is {int(structure.header['active_count'])}"
        )
    geometry, _ = structure.geometry_and_primitive(ids)
    # Update data may be gone when updates have ended (CP-15); the degenerates kept for them stay in the tree.
    kept = np.bincount(geometry[ids < 0], minlength=len(structure.geometries))
    problems += [
        f"geometry {g}: {kept[g]} triangles in the tree are marked degenerate, the geometry has "
        f"{structure.geometries['degenerate_count'][g]} of them"
        for g in np.flatnonzero(kept > structure.geometries["degenerate_count"])
    ]
    flags = structure.geometries["flags"].astype(np.int64)
    expected = np.where(flags & 1, layout.ID_OPAQUE, 0) | np.where(flags & 2, layout.ID_NO_DUPLICATE, 0)
    bits = ids.astype(np.int64) & (layout.ID_OPAQUE | layout.ID_NO_DUPLICATE)
    wrong = bits != expected[geometry]
    problems += [f"primitive {number[i]}: flag bits differ from its geometry's" for i in np.flatnonzero(wrong)]
    lanes = packs["id"] == layout.UNUSED_LANE
    if (lanes[:, :-1] & ~lanes[:, 1:]).any() or lanes[:, 0].any():
        problems.append("leaves: a used lane after an unused one")
    return problems


def _check_instances(structure: Structure) -> list[str]:
    index = structure.instance_leaves["instance"].astype(np.int64)
    count = len(structure.instance_descs)
    leaves = structure.instance_leaves
    broken = ~np.isfinite(leaves["world_to_object"]).all((1, 2)) | (leaves["state"] > layout.INSTANCE_SINGULAR)
    if broken.any():
        return [f"INSTANCE_LEAVES[{np.flatnonzero(broken)[0]}]: a transform that is not finite, or an unknown state"]
    for word in np.unique(high_8(structure.instance_descs["InstanceContributionAndFlags"])):
        for problem in check_instance_flags(InstanceFlag(int(word)), Profile(Tier.TIER_1_2)):
            return [f"INSTANCE_DESCS: {problem}"]
    if (index < 0).any() or (index >= count).any():
        return [f"INSTANCE_LEAVES.instance: beyond the last instance ({count - 1})"]
    times = np.bincount(index, minlength=count)
    active = structure.instance_descs["AccelerationStructure"] != 0
    problems = [f"instance {i}: in the leaves {times[i]} times" for i in np.flatnonzero(times > 1)]
    problems += [f"instance {i}: active but not in the leaves" for i in np.flatnonzero(active & (times == 0))]
    problems += [f"instance {i}: inactive but in the leaves" for i in np.flatnonzero(~active & (times > 0))]
    return problems


def _check_indexed(structure: Structure) -> list[str]:
    """Index rows of the triangles in the tree name vertices that are there."""
    if structure.is_top_level or not structure.is_indexed:
        return []
    rows = structure.section(SectionKind.INDICES)["vertex"]
    vertices = len(structure.section(SectionKind.VERTICES))
    if len(rows) != int(structure.header["input_count"]):
        return [f"INDICES: expected {int(structure.header['input_count'])} rows, found {len(rows)}"]
    ids = structure.indexed_packs["id"].ravel()
    number = ids[ids != layout.UNUSED_LANE] & layout.PRIMITIVE_BITS
    beyond = (rows[number] >= vertices).any(1)
    return [f"INDICES[{n}]: a vertex beyond the last ({vertices - 1})" for n in number[beyond]]


def _check_update(structure: Structure) -> list[str]:
    """Update data has a record per geometry and a bit per primitive."""
    if structure.is_top_level or not structure.section_offset(SectionKind.UPDATE):
        return []
    problems = []
    records, bits = structure.section(SectionKind.UPDATE), structure.section(SectionKind.INACTIVE)
    if len(records) != len(structure.geometries):
        problems.append(f"UPDATE: expected {len(structure.geometries)} records, found {len(records)}")
    inputs = int(structure.header["input_count"])
    if len(bits) != (inputs + 7) // 8:
        problems.append(f"INACTIVE: expected {(inputs + 7) // 8} bytes, found {len(bits)}")
    return problems


def _check_order(structure: Structure) -> list[str]:
    """Each octant order is a permutation of the eight lanes."""
    order = structure.nodes["order"]
    if not len(order):
        return []
    ranks = (order[:, :, None] >> (3 * np.arange(8, dtype=np.uint32))) & 7  # node, rank, octant
    wrong = (np.sort(ranks, 1) != np.arange(8)[None, :, None]).any((1, 2))
    return [f"NODES[{i}].order: not a permutation" for i in np.flatnonzero(wrong)]
