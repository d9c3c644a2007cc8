"""The tree as flat arrays against a walk over the nodes, one reference at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from rtviewer.accel.layout import UNUSED_LANE
from rtviewer.accel.navigate import Tree, tree_of
from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import BuildFlag, GeometryFlag
from rtviewer.scene.generators import box, icosphere, random_boxes, soup
from tests.worlds import Placement, boxes, mesh, one_blas, scale, translate, triangles, world


def _many_instances() -> Structure:
    placements = [Placement(blas=i % 3 - 1, transform=translate(3 * i, i % 5, 0)) for i in range(60)]
    return world(mesh(box()), mesh(icosphere(0)), placements=placements).tlas


MAKERS = {
    "one triangle": lambda: one_blas(triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]])),
    "cube": lambda: one_blas(mesh(box())),
    "sphere": lambda: one_blas(mesh(icosphere(3))),
    "geometries": lambda: one_blas(
        mesh(box(), GeometryFlag.OPAQUE),
        triangles(),
        mesh(soup(700), GeometryFlag.NO_DUPLICATE_ANYHIT_INVOCATION),
        triangles(
            [[np.nan, 0, 0], [1, 0, 0], [0, 1, 0]], [[9, 9, 9], [9, 9, 9], [9, 9, 9]], [[0, 0, 5], [1, 0, 5], [0, 1, 5]]
        ),
    ),
    "boxes": lambda: one_blas(boxes(random_boxes(300)), boxes([0, 0, 0, 1, 1, 1])),
    "instances": _many_instances,
    "one instance": lambda: world(mesh(box())).tlas,
    "small": lambda: one_blas(
        mesh(icosphere(2), GeometryFlag.OPAQUE), triangles(), mesh(soup(90)), flags=BuildFlag.MINIMIZE_MEMORY
    ),
    "updatable": lambda: one_blas(
        mesh(icosphere(1)),
        triangles(*([[[9, 9, 9]] * 3] * 7), [[np.nan, 0, 0], [1, 0, 0], [0, 1, 0]]),
        flags=BuildFlag.ALLOW_UPDATE,
    ),
    "fast build": lambda: one_blas(mesh(soup(2000)), flags=BuildFlag.PREFER_FAST_BUILD),
    "fast trace": lambda: one_blas(mesh(soup(2000)), flags=BuildFlag.PREFER_FAST_TRACE),
    "stacked": lambda: one_blas(triangles(*([[[0, 0, 0], [1, 0, 0], [0, 1, 0]]] * 300))),
}


@dataclass
class Visit:
    """A box found by following references."""

    parent_node: int
    lane: int
    node: int
    elements: range
    depth: int


def followed(structure: Structure) -> list[Visit]:
    """Every box, root first, by a plain walk over the bytes."""
    if not len(structure.nodes):
        return []
    found, waiting = [], [Visit(-1, -1, 0, range(0), 0)]
    while waiting:
        visit = waiting.pop(0)
        found.append(visit)
        if visit.node < 0:
            continue
        node = structure.nodes[visit.node]
        for lane in range(8):
            if not node["min_x"][lane] <= node["max_x"][lane]:
                continue
            ref = int(node["child"][lane])
            first = ~ref >> 2
            elements = range(first, first + (~ref & 3) + 1) if ref < 0 else range(0)
            waiting.append(Visit(visit.node, lane, max(ref, -1), elements, visit.depth + 1))
    return found


@pytest.fixture(scope="module", params=MAKERS, ids=lambda name: name.replace(" ", "-"))
def structure(request: pytest.FixtureRequest) -> Structure:
    return MAKERS[request.param]()


@pytest.fixture(scope="module")
def tree(structure: Structure) -> Tree:
    return tree_of(structure)


def test_boxes_are_those_of_a_walk_level_by_level(structure: Structure, tree: Tree) -> None:
    visits = followed(structure)
    assert len(tree) == len(visits)
    for number, visit in enumerate(visits):
        assert tree.parent_node[number] == visit.parent_node
        assert tree.lane[number] == visit.lane
        assert tree.node[number] == visit.node
        assert tree.depth[number] == visit.depth
        assert tree.is_leaf(number) == (visit.node < 0)
        assert tree.element_count[number] == len(visit.elements)
        if len(visit.elements):
            assert tree.first_element[number] == visit.elements[0]


def test_box_coordinates_are_the_lanes(structure: Structure, tree: Tree) -> None:
    np.testing.assert_array_equal(tree.low[0], structure.header["bounds"][0])
    np.testing.assert_array_equal(tree.high[0], structure.header["bounds"][1])
    for number in range(1, len(tree)):
        node, lane = structure.nodes[tree.parent_node[number]], tree.lane[number]
        for axis, letter in enumerate("xyz"):
            assert tree.low[number, axis] == node[f"min_{letter}"][lane]
            assert tree.high[number, axis] == node[f"max_{letter}"][lane]


def test_levels_are_contiguous(structure: Structure, tree: Tree) -> None:
    assert tree.level_start[0] == 0
    assert tree.level_start[-1] == len(tree)
    for level, (first, last) in enumerate(zip(tree.level_start[:-1], tree.level_start[1:], strict=True)):
        assert last > first
        assert (tree.depth[first:last] == level).all()
    # Leaves hang one level below the lowest nodes.
    assert len(tree.level_start) - 1 == int(structure.header["depth"]) + 1


def test_children_are_consecutive_and_know_their_parent(tree: Tree) -> None:
    assert tree.parent[0] == -1
    for number in range(len(tree)):
        first, count = int(tree.first_child[number]), int(tree.child_count[number])
        assert (count == 0) == tree.is_leaf(number)
        assert (tree.parent[first : first + count] == number).all()
        assert not count or first > number
    assert tree.child_count.sum() == len(tree) - 1


def test_the_box_of_every_lane(structure: Structure, tree: Tree) -> None:
    assert tree.box_of(-1, 0) == 0
    numbers = [tree.box_of(n, lane) for n in range(len(structure.nodes)) for lane in range(8)]
    occupied = [n for n in numbers if n >= 0]
    assert sorted(occupied) == list(range(1, len(tree)))
    for n in range(len(structure.nodes)):
        for lane in range(8):
            number = tree.box_of(n, lane)
            empty = not structure.nodes[n]["min_x"][lane] <= structure.nodes[n]["max_x"][lane]
            assert (number < 0) == empty
            if number >= 0:
                assert (tree.parent_node[number], tree.lane[number]) == (n, lane)


def test_paths_lead_to_the_root(tree: Tree) -> None:
    for number in range(len(tree)):
        path = tree.path_to_root(number)
        assert path[0] == number
        assert path[-1] == 0
        assert len(path) == tree.depth[number] + 1


def expected_items(structure: Structure) -> list[tuple[int, int]]:
    """(geometry, primitive) or (instance, -1) of everything in the leaves, by the tables' own numbers."""
    if structure.is_top_level:
        active = structure.instance_descs["AccelerationStructure"] != 0
        return [(int(i), -1) for i in np.flatnonzero(active)]
    packs = structure.packs
    found = []
    for number in sorted(int(i) & 0x1FFFFFFF for i in packs["id"].ravel() if i != UNUSED_LANE):
        geometry = max(
            g
            for g, row in enumerate(structure.geometries)
            if row["first_primitive"] <= number and row["primitive_count"]
        )
        found.append((geometry, number - int(structure.geometries[geometry]["first_primitive"])))
    return found


def test_every_item_is_in_one_leaf_and_found_there(structure: Structure, tree: Tree) -> None:
    items: list[tuple[int, int]] = []
    for number in range(len(tree)):
        rows = tree.leaf_items(number)
        assert rows.dtype == np.int64
        assert rows.shape[1:] == (2,)
        assert (len(rows) > 0) == tree.is_leaf(number)
        items += [(int(a), int(b)) for a, b in rows]
        for a, b in rows[:2]:
            assert tree.box_of_item(int(a), int(b)) == number
    assert sorted(items) == sorted(expected_items(structure))
    assert len(items) == int(structure.header["active_count"])


def test_items_that_are_in_no_leaf() -> None:
    tree = tree_of(MAKERS["geometries"]())
    inactive, degenerate, beyond, nowhere = (3, 0), (3, 1), (3, 3), (9, 0)
    for item in (inactive, degenerate, beyond, nowhere):
        assert tree.box_of_item(*item) == -1
    assert tree.box_of_item(3, 2) > 0
    top = tree_of(_many_instances())
    assert top.box_of_item(0) == -1  # no bottom level
    assert top.box_of_item(1) > 0
    assert top.box_of_item(60) == -1


def test_nothing_to_number() -> None:
    for empty in (one_blas(), one_blas(triangles()), world().tlas):
        tree = tree_of(empty)
        assert len(tree) == 0
        assert tree.level_start.tolist() == [0]
        assert tree.low.shape == (0, 3)
        assert tree.box_of_item(0, 0) == -1


def test_leaf_boxes_enclose_their_triangles() -> None:
    source = icosphere(2)
    tree = tree_of(one_blas(mesh(source, transform=scale(2, 3, 4))))
    corners = source.vertices[source.indices] * np.float32([2, 3, 4])
    for number in np.flatnonzero(tree.node < 0):
        for _, primitive in tree.leaf_items(int(number)):
            assert (corners[primitive] >= tree.low[number]).all()
            assert (corners[primitive] <= tree.high[number]).all()
