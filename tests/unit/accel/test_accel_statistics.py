"""Counts, bytes and cost of structures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rtviewer.accel import layout
from rtviewer.accel.navigate import tree_of
from rtviewer.accel.stats import ELEMENT_COST, NODE_COST, box_costs, bytes_by_section, half_areas, statistics
from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import BuildFlag
from rtviewer.scene.generators import box, icosphere, random_boxes, soup
from tests.worlds import Placement, boxes, mesh, one_blas, translate, triangles, world

TRIANGLE = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
MAKERS = {
    "nothing": lambda: one_blas(),
    "no triangles": lambda: one_blas(triangles()),
    "one": lambda: one_blas(triangles(TRIANGLE)),
    "sphere": lambda: one_blas(mesh(icosphere(3))),
    "boxes": lambda: one_blas(boxes(random_boxes(100))),
    "small": lambda: one_blas(mesh(icosphere(3)), flags=BuildFlag.MINIMIZE_MEMORY),
    "updatable": lambda: one_blas(mesh(icosphere(2)), triangles([[1, 1, 1]] * 3), flags=BuildFlag.ALLOW_UPDATE),
    "top": lambda: world(mesh(box()), placements=[Placement(transform=translate(2 * i, 0, 0)) for i in range(30)]).tlas,
    "empty top": lambda: world().tlas,
}


@pytest.fixture(scope="module", params=MAKERS, ids=lambda name: name.replace(" ", "-"))
def structure(request: pytest.FixtureRequest) -> Structure:
    return MAKERS[request.param]()


def test_bytes_by_section_add_up_to_the_size(structure: Structure) -> None:
    found = bytes_by_section(structure)
    assert sum(found.values()) == structure.size == len(structure.data)
    assert structure.size % 256 == 0
    assert next(iter(found)) == "header"
    assert found["header"] == layout.HEADER.itemsize
    assert all(count >= 0 for count in found.values())
    assert found["unused"] == structure.size - int(structure.header["used_size"])
    assert found["padding"] < 256 + 64 * (len(found) - 1)
    assert found["nodes"] == structure.nodes.nbytes
    assert statistics(structure).bytes_by_section == found


def test_counts_are_those_of_the_nodes(structure: Structure) -> None:
    s, tree = statistics(structure), tree_of(structure)
    assert s.node_count == len(structure.nodes) == int((tree.node >= 0).sum())
    assert s.leaf_count == int((tree.node < 0).sum())
    assert s.element_count == int(tree.element_count.sum())
    assert s.depth == (int(tree.depth[tree.node >= 0].max()) + 1 if len(tree) else 0)
    assert s.active_count == sum(len(tree.leaf_items(i)) for i in range(len(tree)))
    assert 0 < s.fill <= 1
    assert statistics(structure, tree) == s


def test_cost_is_finite_and_not_negative(structure: Structure) -> None:
    costs = box_costs(tree_of(structure))
    assert np.isfinite(costs).all()
    assert (costs >= 0).all()
    assert statistics(structure).sah == pytest.approx(float(costs.sum()))
    assert (statistics(structure).sah == 0) == (structure.header["active_count"] == 0)


def test_cost_by_hand() -> None:
    """Two heaps of unit cubes: half the root's surface is 10*1 + 1*1 + 1*10, half a leaf's 3, a pack holds four."""
    s = statistics(one_blas(boxes(*[[0, 0, 0, 1, 1, 1]] * 8, *[[9, 0, 0, 10, 1, 1]] * 8)))
    assert (s.node_count, s.element_count) == (1, 4)
    assert s.sah == pytest.approx(NODE_COST + 4 * ELEMENT_COST * 3 / 21)


def test_counts_of_inputs_keep_what_was_left_out() -> None:
    nan = math.nan
    s = statistics(
        one_blas(triangles(TRIANGLE, [[nan, 0, 0], *TRIANGLE[1:]], [[0, 0, 0]] * 3, [[0, 0, 0], [1, 1, 1], [2, 2, 2]]))
    )
    assert (s.primitive_count, s.active_count, s.degenerate_count) == (4, 1, 2)
    assert s.fill == 0.25


@pytest.mark.parametrize(
    "geometry",
    [
        triangles(TRIANGLE),
        triangles([[0, 0, 0], [0, 1, 0], [0, 0, 1]]),
        triangles([[1e38, 0, 0], [-1e38, 1e38, 0], [0, 0, 1e38]]),
        triangles([[1e-40, 0, 0], [0, 1e-40, 0], [0, 0, 1e-40]]),
        boxes([2, 2, 2, 2, 2, 2]),
        boxes([0, 0, 0, 0, 0, 5]),
        boxes([-math.inf, 0, 0, math.inf, 1, 1]),
        boxes([-3.4e38] * 3 + [3.4e38] * 3),
    ],
    ids=["flat", "flat in x", "huge", "tiny", "point", "segment", "infinite", "everything"],
)
def test_one_primitive_of_any_shape_has_a_finite_cost(geometry: object) -> None:
    """C06: no division by the area of nothing."""
    s = statistics(one_blas(geometry))  # type: ignore[arg-type]
    assert math.isfinite(s.sah)
    assert s.sah == pytest.approx(NODE_COST + ELEMENT_COST)
    assert (s.depth, s.node_count, s.leaf_count, s.element_count) == (1, 1, 1, 1)


@pytest.mark.rule("BF-5", "PRE-7")
def test_a_small_layout_is_smaller() -> None:
    source = mesh(icosphere(4))
    small, plain = one_blas(source, flags=BuildFlag.MINIMIZE_MEMORY), one_blas(source)
    assert small.size < plain.size
    assert statistics(small).active_count == statistics(plain).active_count


def test_areas() -> None:
    low = np.float32([[0, 0, 0], [0, 0, 0], [1, 1, 1], [-np.inf, 0, 0]])
    high = np.float32([[1, 2, 3], [5, 0, 0], [1, 1, 1], [np.inf, 1, 1]])
    areas = half_areas(low, high)
    assert areas.dtype == np.float64
    assert areas[:3].tolist() == [11, 0, 0]
    assert np.isfinite(areas).all()
    assert areas[3] > 1e38


def test_a_better_split_costs_less() -> None:
    """The measure must tell clusters that are kept apart from a soup as large."""
    clusters = one_blas(
        *(mesh(soup(200, extent=1, size=0.1, seed=s), transform=translate(100 * s, 0, 0)) for s in range(4))
    )
    spread = one_blas(mesh(soup(800, extent=400, size=200)))
    assert statistics(clusters).sah < 0.2 * statistics(spread).sah
