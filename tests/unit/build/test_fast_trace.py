"""PREFER_FAST_TRACE: a tree improved after it was built."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.accel.structure import Structure
from rtviewer.build import fast_trace
from rtviewer.build.builder import build_blas, build_tlas
from rtviewer.build.fast_trace import improved_tree
from rtviewer.dxr.descs import IDENTITY, AabbsGeometry, BlasInputs, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag
from rtviewer.errors import CancelledError
from rtviewer.scene.generators import triangle_soup

FAST, SMALL = BuildFlag.PREFER_FAST_TRACE, BuildFlag.MINIMIZE_MEMORY


def long_and_short(count: int = 3000, seed: int = 1) -> BlasInputs:
    """Triangles of very different sizes, where a cut from the top down goes wrong most."""
    random = np.random.default_rng(seed)
    centres = random.uniform(-1, 1, (count, 1, 3))
    sizes = 0.01 * np.exp(random.normal(size=(count, 1, 1)) * 1.5)
    return BlasInputs((TrianglesGeometry((centres + sizes * random.normal(size=(count, 3, 3))).reshape(-1, 3).astype("f4")),))


def costs(structure: Structure) -> tuple[float, float]:
    """Areas of inner lanes, and of leaf lanes times their elements, relative to the root's."""
    nodes = structure.nodes
    edges = [np.maximum(nodes[f"max_{a}"].astype(float) - nodes[f"min_{a}"], 0) for a in "xyz"]
    edges = [np.where(np.isfinite(e), e, 0) for e in edges]
    area = edges[0] * edges[1] + edges[1] * edges[2] + edges[2] * edges[0]
    size = np.subtract(*structure.bounds[::-1]).astype(float)
    root = size[0] * size[1] + size[1] * size[2] + size[2] * size[0]
    child = nodes["child"]
    elements = np.where(child < 0, (~child & 3) + 1, 0)
    return float(area[child > 0].sum() / root), float((area * elements).sum() / root)


def cost(structure: Structure) -> float:
    nodes, elements = costs(structure)
    return fast_trace.NODE_COST * nodes + fast_trace.ELEMENT_COST * elements


@pytest.mark.rule("BF-2", "PRE-6")
def test_the_tree_is_sound_cheaper_and_within_the_same_bytes() -> None:
    inputs = long_and_short()
    plain, fast = build_blas(inputs), build_blas(inputs, FAST)
    assert check(fast) == []
    assert cost(fast) < 0.97 * cost(plain)
    assert fast.size == plain.size
    assert fast.used_size <= fast.size
    ids = [np.sort(s.packs["id"].ravel()) for s in (plain, fast)]
    assert np.array_equal(*(i[i >= 0] for i in ids))
