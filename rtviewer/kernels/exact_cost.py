"""What a range of references takes when it is cut exactly, and so what every build can keep to.

Exactly cut, a range becomes eight parts of nearly equal numbers of whole packs, all the way down, so that only one pack
of the whole range is not full. The bytes then depend on the number of references alone.

Packs have 1 << ``pack_shift`` lanes. ``table`` is the address of what ``fill_table`` made, for as many packs as asked.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.memory import load_i32, store_i32

WIDTH = 8
NODE_BYTES = 256
MOST_ELEMENTS = 4
"""A leaf reference counts up to four elements."""


@jit
def fill_table(table, count):
    """``count`` int32 at ``table``: entry p is the number of nodes below and including a range of p packs that is cut
    exactly; a leaf holds up to four.

    n(p) = 0 for p <= 4, else 1 + r n(q + 1) + (8 - r) n(q) with q, r = divmod(p, 8).
    """
    for p in range(count):
        nodes = 0
        if p > MOST_ELEMENTS:
            q, r = p // WIDTH, p % WIDTH
            nodes = 1 + (WIDTH - r) * np.int64(load_i32(table + 4 * q))
            if r > 0:
                nodes += r * np.int64(load_i32(table + 4 * q + 4))
        store_i32(table + 4 * p, nodes)


@jit
def pack_count(count, pack_shift):
    return (count + (1 << pack_shift) - 1) >> pack_shift


@jit
def exact_cost(count, pack_shift, element_size, table):
    """Bytes of nodes and leaf elements of a range that is cut exactly."""
    packs = pack_count(count, pack_shift)
    return packs * element_size + np.int64(load_i32(table + 4 * packs)) * NODE_BYTES


@jit
def node_cost(count, pack_shift, element_size, table):
    """As ``exact_cost``, for a range that becomes a node even if it fits into a leaf."""
    extra = NODE_BYTES if pack_count(count, pack_shift) <= MOST_ELEMENTS else 0
    return exact_cost(count, pack_shift, element_size, table) + extra


@jit
def part_cost(count, leaf_size, pack_shift, element_size, table):
    """The least that a part of a node is sure to take: as a leaf, or cut exactly."""
    if count <= leaf_size:
        return pack_count(count, pack_shift) * element_size
    return exact_cost(count, pack_shift, element_size, table)
