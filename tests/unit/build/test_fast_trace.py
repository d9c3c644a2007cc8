"""PREFER_FAST_TRACE: a tree improved after it was built."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.accel.stats import ELEMENT_COST, NODE_COST
from rtviewer.accel.structure import Structure
from rtviewer.build import fast_trace
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.build.fast_trace import BinaryTree, improved_tree
from rtviewer.build.plan import plan
from rtviewer.build.references import primitive_references
from rtviewer.build.tree import FIRST_TREE_SHARE, TREE_SHARE, build_tree
from rtviewer.build.workers import Workers
from rtviewer.dxr.descs import IDENTITY, AabbsGeometry, BlasInputs, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag
from rtviewer.errors import CancelledError
from rtviewer.kernels import binary_tree as binary_tree_kernels
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import RayBatch, TraceSettings

FAST, SMALL, UPDATE = BuildFlag.PREFER_FAST_TRACE, BuildFlag.MINIMIZE_MEMORY, BuildFlag.ALLOW_UPDATE
BUDGET = 1 << 30


def long_and_short(count: int = 3000, seed: int = 1) -> BlasInputs:
    """Triangles of very different sizes, where cuts from the top down go wrong most."""
    random = np.random.default_rng(seed)
    centres = random.uniform(-1, 1, (count, 1, 3))
    sizes = 0.01 * np.exp(random.normal(size=(count, 1, 1)) * 1.5)
    points = centres + sizes * random.normal(size=(count, 3, 3))
    return BlasInputs((TrianglesGeometry(points.reshape(-1, 3).astype(np.float32)),))


def cost(structure: Structure) -> float:
    """Areas of inner lanes, and of leaf lanes times their elements, relative to the root's, by what each costs."""
    nodes, bounds = structure.nodes, structure.bounds
    assert bounds is not None
    edges = [np.maximum(nodes[f"max_{a}"].astype(float) - nodes[f"min_{a}"], 0) for a in "xyz"]
    edges = [np.where(np.isfinite(edge), edge, 0) for edge in edges]
    area = edges[0] * edges[1] + edges[1] * edges[2] + edges[2] * edges[0]
    x, y, z = (bounds[1] - bounds[0]).astype(float)
    child = nodes["child"]
    elements = np.where(child < 0, (~child & 3) + 1, 0)
    total = NODE_COST * area[child > 0].sum() + ELEMENT_COST * (area * elements).sum()
    return float(total / (x * y + y * z + z * x))


def binary_tree(inputs: BlasInputs) -> BinaryTree:
    build_plan = plan(FAST, AccelerationStructureType.BOTTOM_LEVEL)
    with Workers(threads=1) as workers:
        rows = primitive_references(inputs, workers=workers).rows
        return BinaryTree(build_tree(rows, build_plan, BUDGET, workers), rows, workers)


def parents_and_boxes_fit(tree: BinaryTree) -> bool:
    """Every node but the root is a child of its parent, all hang on the root, and boxes are unions."""
    parent, left, right = tree.links[:, 0], tree.links[:, 1], tree.links[:, 2]
    inner = np.flatnonzero(left >= 0)
    fits = np.array_equal(parent[left[inner]], inner) and np.array_equal(parent[right[inner]], inner)
    fits &= np.array_equal(np.sort(np.concatenate([left[inner], right[inner], [tree.root]])), np.arange(tree.count))
    lanes = [0, 1, 2, 4, 5, 6]
    unions = np.maximum(tree.boxes[left[inner]], tree.boxes[right[inner]])[:, lanes]
    fits &= np.array_equal(tree.boxes[inner][:, lanes], unions)
    node, steps = np.arange(tree.count), 0
    while (parent[node] >= 0).any() and steps <= tree.count:
        node, steps = np.where(parent[node] >= 0, parent[node], node), steps + 1
    return bool(fits and (node == tree.root).all())


@pytest.mark.rule("PRE-6")
def test_the_tree_is_sound_and_cheaper_in_the_same_bytes() -> None:
    inputs = long_and_short()
    plain, fast = build_blas(inputs), build_blas(inputs, FAST)
    assert check(fast) == []
    assert cost(fast) < 0.95 * cost(plain)
    assert fast.size == plain.size
    assert fast.used_size <= fast.size
    ids = [np.sort(s.packs["id"].ravel()) for s in (plain, fast)]
    assert np.array_equal(*(i[i >= 0] for i in ids))


def test_rounds_keep_a_binary_tree_and_never_make_it_larger() -> None:
    tree = binary_tree(long_and_short())
    assert parents_and_boxes_fit(tree)
    area, moves = tree.inner_area(), 0
    for _ in range(6):
        moves += tree.improve()
        assert parents_and_boxes_fit(tree)
        after = tree.inner_area()
        assert after <= area * (1 + 1e-6)
        area = after
    assert moves > 50


def test_a_place_saves_what_it_says() -> None:
    """One candidate at a time: the tree's area falls by what the search promised."""
    from rtviewer.kernels import binary_tree as kernels

    tree = binary_tree(long_and_short(2000))
    boxes, links = tree.boxes.ctypes.data, tree.links.ctypes.data
    stack, tried = np.empty(kernels.STACK_SIZE, np.uint8), 0
    for node in range(0, tree.count, 3):
        candidate, place = np.array([node], np.int32), np.empty(1, np.int32)
        saving, order, touched = np.empty(1, np.float32), np.zeros(1, np.int64), np.zeros(tree.count, np.uint8)
        if tree.links[node, 0] in (-1, tree.root):
            continue
        area = tree.inner_area()
        kernels.find_places(
            boxes, links, candidate.ctypes.data, 0, 1, place.ctypes.data, saving.ctypes.data, stack.ctypes.data
        )
        if place[0] < 0:
            continue
        moved = kernels.move(
            boxes, links, candidate.ctypes.data, place.ctypes.data, order.ctypes.data, 1, touched.ctypes.data
        )
        if moved:
            tried += 1
            assert area - tree.inner_area() == pytest.approx(float(saving[0]), rel=1e-2, abs=1e-4)
    assert tried > 10


def best_by_hand(tree: BinaryTree, node: int, lanes: int, most: int) -> float:
    """The least cost of a subtree in some lanes, by trying everything."""
    box = tree.boxes[node].astype(float)
    x, y, z = box[:3] + box[4:7]
    area = x * y + y * z + z * x
    left, right = int(tree.links[node, 1]), int(tree.links[node, 2])
    if left < 0:
        return ELEMENT_COST * area

    def elements(at: int) -> int:
        return 1 if tree.links[at, 1] < 0 else elements(int(tree.links[at, 1])) + elements(int(tree.links[at, 2]))

    def split(number: int) -> float:
        pairs = range(1, number)
        return min(best_by_hand(tree, left, k, most) + best_by_hand(tree, right, number - k, most) for k in pairs)

    if lanes == 1:
        own = split(8) + NODE_COST * area
        leaf = ELEMENT_COST * area * elements(node)
        return min(own, leaf) if elements(node) <= most else own
    return min(split(lanes), best_by_hand(tree, node, lanes - 1, most))


def test_the_collapse_is_the_cheapest() -> None:
    tree = binary_tree(long_and_short(60))
    assert 12 < len(tree.packs) < 22
    collapse = fast_trace._Collapse(tree, 2)
    collapse.run(0.0)
    for node in np.flatnonzero(collapse.sizes <= 6):
        for lanes in (1, 2, 5):
            expected = best_by_hand(tree, int(node), lanes, 2)
            assert collapse.costs[node, lanes - 1] == pytest.approx(expected, rel=1e-4)


@pytest.mark.rule("PRE-6")
def test_a_tight_budget_makes_nodes_dearer_and_a_hopeless_one_keeps_the_tree() -> None:
    inputs = long_and_short()
    tree = binary_tree(inputs)
    free = tree.collapsed(2, 1 << 20)
    assert free is not None
    tight = tree.collapsed(2, free.node_count - 20)
    assert tight is not None
    assert tight.node_count <= free.node_count - 20
    assert tree.collapsed(2, 10) is None
    build_plan = plan(FAST, AccelerationStructureType.BOTTOM_LEVEL)
    with Workers() as workers:
        rows = primitive_references(inputs, workers=workers).rows
        built = build_tree(rows, build_plan, BUDGET, workers)
        assert improved_tree(built, rows, build_plan, built.element_count * 160 + 2560, workers) is built


def test_neither_parts_nor_threads_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = long_and_short()
    expected = build_blas(inputs, FAST).data.tobytes()
    for processors in (1, 2, 5):
        monkeypatch.setattr("os.cpu_count", lambda processors=processors: processors)
        monkeypatch.setattr(fast_trace, "GRAIN", 10 * processors)
        assert build_blas(inputs, FAST).data.tobytes() == expected
    monkeypatch.setattr(fast_trace, "PART", 64)
    small_parts = build_blas(inputs, FAST)
    assert check(small_parts) == []
    assert cost(small_parts) == pytest.approx(cost(build_blas(inputs, FAST)))


@pytest.mark.parametrize("flags", [FAST, FAST | SMALL, FAST | UPDATE], ids=str)
@pytest.mark.parametrize("kind", ["triangles", "boxes", "huge", "equal", "infinite"])
def test_every_kind_of_input_stays_sound(kind: str, flags: BuildFlag) -> None:
    inputs = long_and_short(700)
    (triangles,) = inputs.geometries
    assert isinstance(triangles, TrianglesGeometry)
    corners = triangles.vertices.reshape(-1, 3, 3)
    if kind == "boxes":
        inputs = BlasInputs((AabbsGeometry(np.concatenate([corners.min(1), corners.max(1)], 1)),))
    elif kind == "huge":
        inputs = BlasInputs((replace(triangles, vertices=triangles.vertices * np.float32(1e38)),))
    elif kind == "equal":
        inputs = BlasInputs((replace(triangles, vertices=np.tile(triangles.vertices[:3], (700, 1))),))
    elif kind == "infinite":
        vertices = triangles.vertices.copy()
        vertices[::40, 1] = np.inf
        inputs = BlasInputs((replace(triangles, vertices=vertices),))
    fast = build_blas(inputs, flags)
    assert check(fast) == []
    assert fast.size == build_blas(inputs, flags & ~FAST).size
    assert int(fast.header["active_count"]) == 700


@pytest.mark.parametrize("flags", [FAST, FAST | SMALL], ids=str)
def test_instances(flags: BuildFlag) -> None:
    blas = build_blas(long_and_short(20), address=256)
    count = 500
    transform = np.tile(IDENTITY, (count, 1, 1))
    transform[:, :, 3] = np.random.default_rng(3).normal(size=(count, 3)) * 5
    word, byte = np.zeros(count, np.uint32), np.full(count, 255, np.uint8)
    addresses = np.full(count, 256, np.uint64)
    table = InstanceInputs(transform, word, byte, word, np.zeros(count, np.uint8), addresses)
    plain = build_tlas(table, flags & ~FAST, blases={256: blas})
    fast = build_tlas(table, flags, blases={256: blas})
    assert check(fast) == []
    assert fast.size == plain.size
    assert cost(fast) <= cost(plain)


@pytest.mark.rule("BF-10")
def test_rays_hit_the_same() -> None:
    inputs, random = long_and_short(), np.random.default_rng(5)
    rays = RayBatch.make(random.normal(size=(4000, 3)), random.normal(size=(4000, 3)))
    results = []
    for flags in (BuildFlag.NONE, FAST, FAST | SMALL):
        blas = build_blas(inputs, flags, address=256)
        ones = np.ones(1, np.uint32)
        table = InstanceInputs(
            IDENTITY[None], ones, np.full(1, 255, np.uint8), 0 * ones, np.zeros(1, np.uint8), np.full(1, 256, np.uint64)
        )
        tlas = build_tlas(table, flags, blases={256: blas})
        hits = Dispatcher(tlas, {256: blas}).trace(rays, TraceSettings()).hits
        results.append((hits.t.tobytes(), hits.primitive_index.tobytes(), hits.attributes.tobytes()))
        assert 1000 < hits.hit.sum() < 4000
    assert results[0] == results[1] == results[2]


def test_improving_can_be_cancelled_and_tells_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_trace, "GRAIN", 64)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    fractions: list[float] = []
    build_blas(long_and_short(), FAST, progress=fractions.append)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert len({f for f in fractions if FIRST_TREE_SHARE <= f < TREE_SHARE}) > 10
    rounds: list[int] = []
    searched: list[int] = []
    improve, find_places = BinaryTree.improve, binary_tree_kernels.find_places

    def counted(tree: BinaryTree, share: tuple[float, float]) -> int:
        rounds.append(1)
        return improve(tree, share)

    def slow(*arguments: int) -> None:
        searched.append(1)
        find_places(*arguments)

    monkeypatch.setattr(BinaryTree, "improve", counted)
    monkeypatch.setattr(binary_tree_kernels, "find_places", slow)
    with pytest.raises(CancelledError):
        build_blas(long_and_short(), FAST, cancelled=lambda: len(searched) == 3)
    assert (len(rounds), len(searched)) == (1, 3)


WITHOUT_JIT = """
import hashlib, json
from rtviewer.build.builder import build_blas
from rtviewer.build.refit import update_blas
from tests.unit.build.test_fast_trace import FAST, UPDATE, long_and_short
from tests.unit.build.test_refit import bent, parts
inputs = parts(1)
built = [build_blas(long_and_short(150), FAST), build_blas(inputs, FAST | UPDATE)]
built.append(update_blas(built[1], bent(inputs), FAST | UPDATE))
print(json.dumps([hashlib.sha256(structure.data).hexdigest() for structure in built]))
"""


@pytest.mark.slow
def test_improved_and_updated_trees_are_the_same_without_the_jit() -> None:
    results = []
    for disabled in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_JIT], capture_output=True, text=True, timeout=280,
            cwd=Path(__file__).parents[3], env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout))
    assert results[0] == results[1]
