"""What a range of references takes when it is cut exactly, and so what every build can keep to.

Exactly cut, a range becomes eight parts of nearly equal numbers of whole packs, all the way down, so that only one pack
of the whole range is not full. The bytes then depend on the number of references alone.
"""

from __future__ import annotations

from rtviewer.kernels import jit

WIDTH = 8
NODE_BYTES = 256
MOST_ELEMENTS = 4
"""A leaf reference counts up to four elements."""


@jit
def exact_nodes(packs, most):
    """Nodes below and including a range of ``packs`` packs that is cut exactly; a leaf holds up to ``most`` packs.

    n(p) = 0 for p <= most, else 1 + r n(q + 1) + (8 - r) n(q) with q, r = divmod(p, 8): from the smallest q upward, the
    pair n(q), n(q + 1) is all that the next needs.
    """
    levels = 0
    q = packs
    while q > most:
        q //= WIDTH
        levels += 1
    here, next_one = 0, 0 if q + 1 <= most else 1
    for level in range(levels - 1, -1, -1):
        p = packs // WIDTH**level
        here, next_one = exact_step(p, most, here, next_one), exact_step_above(p, most, here, next_one)
    return here


@jit
def exact_step(p, most, below, below_next):
    if p <= most:
        return 0
    return 1 + (p % WIDTH) * below_next + (WIDTH - p % WIDTH) * below


@jit
def exact_step_above(p, most, below, below_next):
    """n(p + 1) from the pair of p // 8."""
    if p + 1 <= most:
        return 0
    remainder = (p + 1) % WIDTH
    if remainder == 0:
        return 1 + WIDTH * below_next
    return 1 + remainder * below_next + (WIDTH - remainder) * below


@jit
def exact_cost(count, pack_width, element_size):
    """Bytes of nodes and leaf elements of a range that is cut exactly."""
    packs = (count + pack_width - 1) // pack_width
    return packs * element_size + exact_nodes(packs, MOST_ELEMENTS) * NODE_BYTES


@jit
def node_cost(count, pack_width, element_size):
    """As ``exact_cost``, for a range that becomes a node even if it fits into a leaf."""
    packs = (count + pack_width - 1) // pack_width
    extra = NODE_BYTES if packs <= MOST_ELEMENTS else 0
    return exact_cost(count, pack_width, element_size) + extra


@jit
def part_cost(count, leaf_size, pack_width, element_size):
    """The least that a part of a node is sure to take: as a leaf, or cut exactly."""
    if count <= leaf_size:
        return ((count + pack_width - 1) // pack_width) * element_size
    return exact_cost(count, pack_width, element_size)


@jit
def parts_cost(parts, number, leaf_size, pack_width, element_size):
    total = NODE_BYTES
    for k in range(number):
        total += part_cost(parts[k, 1] - parts[k, 0], leaf_size, pack_width, element_size)
    return total
