"""The cheapest eight-wide tree that a binary one contains, by dynamic programming (Ylitie, Karras, Laine 2017).

For every binary node and every number of lanes from 1 to 7: the least cost of what is below it when it may take that
many lanes of a wide node. A node's cost is its area times what visiting a node costs, a leaf's its area times its
elements times what testing an element costs. Then the choices are followed from the root.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.binary_boxes import BOX, area
from rtviewer.kernels.binary_tree import LEFT, LINKS, RIGHT
from rtviewer.kernels.extremes import largest
from rtviewer.kernels.memory import load_f32, load_i32, load_i64, store_f32, store_i32, store_i64

LANES = 7
COSTS = 32
"""Bytes of a node's costs: float32 for 1 to 7 lanes; then int32: the elements below, 0 when more than a leaf's."""
CHOICES = 8
"""Bytes of a node's choices, one int64 of four-bit fields. The first: 0 a leaf, 1 a node of its own. The j-th: of j
lanes how many go left, 0 when fewer than j are as good. The eighth: how many lanes of its own node go left."""
WIDTH = 8
PLACE_SIZE = 24
WORKPLACE = 64 + 1024
"""Bytes at the start of the room that ``write_nodes`` works in, and further ones for each node."""


@jit
def order_nodes(links, root, order):
    """Numbers of the nodes of a subtree, parents before children (int32); returns how many."""
    store_i32(order, np.int32(root))
    count, at = 1, 0
    while at < count:
        node = np.int64(load_i32(order + 4 * at))
        at += 1
        left = load_i32(links + LINKS * node + LEFT)
        if left >= 0:
            store_i32(order + 4 * count, left)
            store_i32(order + 4 * count + 4, load_i32(links + LINKS * node + RIGHT))
            count += 2
    return count


@jit
def measure(links, order, count, sizes):
    """How many leaf elements are below each node (int32)."""
    for at in range(count - 1, -1, -1):
        node = np.int64(load_i32(order + 4 * at))
        left = np.int64(load_i32(links + LINKS * node + LEFT))
        size = np.int32(1)
        if left >= 0:
            right = np.int64(load_i32(links + LINKS * node + RIGHT))
            size = np.int32(load_i32(sizes + 4 * left) + load_i32(sizes + 4 * right))
        store_i32(sizes + 4 * node, size)


@jit
def choose(boxes, links, order, count, node_cost, node_price, element_cost, most, costs, choices):
    """Fill the costs and choices (COSTS and CHOICES bytes a node) of the nodes in ``order``, last to first.

    Costs are float32; ``node_price``: added for each node, whatever its area. ``most``: elements of a leaf.
    """
    for at in range(count - 1, -1, -1):
        node = np.int64(load_i32(order + 4 * at))
        mine, chosen = costs + COSTS * node, choices + CHOICES * node
        size = area(boxes + BOX * node)
        left = np.int64(load_i32(links + LINKS * node + LEFT))
        if left < 0:
            for lanes in range(LANES):
                store_f32(mine + 4 * lanes, size * element_cost)
            store_i32(mine + 28, np.int32(1))
            store_i64(chosen, np.int64(0))
            continue
        right = np.int64(load_i32(links + LINKS * node + RIGHT))
        a, b = costs + COSTS * left, costs + COSTS * right
        in_left, in_right = np.int64(load_i32(a + 28)), np.int64(load_i32(b + 28))
        elements = in_left + in_right if in_left > 0 and in_right > 0 else np.int64(0)
        if elements > most:
            elements = np.int64(0)
        store_i32(mine + 28, np.int32(elements))
        best, split = np.float32(np.inf), np.int64(4)
        for k in range(1, WIDTH):
            cost = load_f32(a + 4 * k - 4) + load_f32(b + 4 * (WIDTH - 1 - k))
            if cost < best:
                best, split = cost, np.int64(k)
        word, cost = np.int64(1) | split << 28, best + size * node_cost + node_price
        if elements > 0 and size * element_cost * np.float32(elements) <= cost:
            cost, word = size * element_cost * np.float32(elements), split << 28
        store_f32(mine, cost)
        for lanes in range(2, LANES + 1):
            split = np.int64(0)
            for k in range(1, lanes):
                together = load_f32(a + 4 * k - 4) + load_f32(b + 4 * (lanes - 1 - k))
                if together < cost:
                    cost, split = together, np.int64(k)
            word |= split << (4 * (lanes - 1))
            store_f32(mine + 4 * lanes - 4, cost)
        store_i64(chosen, word)


@jit
def choice(choices, node, lanes):
    """A field of a node's choices."""
    return load_i64(choices + CHOICES * node) >> (4 * (lanes - 1)) & 15


@jit
def gather(links, choices, node, items, stack):
    """The binary nodes (int64) in the lanes of the wide node that ``node`` becomes; returns how many."""
    to_left = choice(choices, node, WIDTH)
    put(stack, np.int64(load_i32(links + LINKS * node + RIGHT)), WIDTH - to_left)
    put(stack + 16, np.int64(load_i32(links + LINKS * node + LEFT)), to_left)
    waiting, number = 2, 0
    while waiting > 0:
        waiting -= 1
        at, lanes = load_i64(stack + 16 * waiting), load_i64(stack + 16 * waiting + 8)
        split = np.int64(0)
        while lanes > 1 and split == 0:
            split = choice(choices, at, lanes)
            if split == 0:
                lanes -= 1
        if lanes <= 1:
            store_i64(items + 8 * number, at)
            number += 1
            continue
        put(stack + 16 * waiting, np.int64(load_i32(links + LINKS * at + RIGHT)), lanes - split)
        put(stack + 16 * waiting + 16, np.int64(load_i32(links + LINKS * at + LEFT)), split)
        waiting += 2
    return number


@jit
def put(at, first, second):
    store_i64(at, first)
    store_i64(at + 8, second)


@jit
def list_elements(links, node, elements, first, stack):
    """Append the leaf elements below a binary node to ``elements`` (int32, from ``first``); returns the new end."""
    store_i64(stack, node)
    waiting = 1
    while waiting > 0:
        waiting -= 1
        at = load_i64(stack + 8 * waiting)
        left = load_i32(links + LINKS * at + LEFT)
        if left < 0:
            store_i32(elements + 4 * first, np.int32(at))
            first += 1
            continue
        store_i64(stack + 8 * waiting, np.int64(load_i32(links + LINKS * at + RIGHT)))
        store_i64(stack + 8 * waiting + 8, np.int64(left))
        waiting += 2
    return first


@jit
def write_nodes(links, choices, root, children, elements, pending):
    """Write the topology that the choices make of a subtree: eight child references (int32) a node, parents before
    children.

    ``elements`` (int32): element k of the new order was ``elements[k]``; ``pending``: WORKPLACE bytes, and PLACE_SIZE
    for each node. Returns (nodes, elements, levels).
    """
    items, stack, todo = pending, pending + 64, pending + WORKPLACE
    put(todo, root, np.int64(0))
    store_i64(todo + 16, np.int64(1))
    waiting, count, placed, levels = 1, 1, np.int64(0), np.int64(0)
    while waiting > 0:
        waiting -= 1
        at = todo + PLACE_SIZE * waiting
        binary, out, level = load_i64(at), children + 32 * load_i64(at + 8), load_i64(at + 16)
        levels = largest(levels, level)
        number = gather(links, choices, binary, items, stack)
        for lane in range(WIDTH):
            if lane >= number:
                store_i32(out + 4 * lane, np.int32(0))
                continue
            item = load_i64(items + 8 * lane)
            if choice(choices, item, 1) == 0:
                end = list_elements(links, item, elements, placed, stack)
                store_i32(out + 4 * lane, np.int32(~(placed << 2 | (end - placed - 1))))
                placed = end
                continue
            store_i32(out + 4 * lane, np.int32(count))
            put(todo + PLACE_SIZE * waiting, item, np.int64(count))
            store_i64(todo + PLACE_SIZE * waiting + 16, level + 1)
            waiting += 1
            count += 1
    return count, placed, levels
