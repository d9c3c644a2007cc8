"""Binary trees over leaf elements: from an eight-wide tree, and better by reinsertion (Bittner, Hapala, Havran 2013).

Nodes 0 to n - 1 are the leaf elements, n to 2n - 2 inner nodes. ``boxes``: address of their boxes (``binary_boxes``).
``links``: of four int32 each: parent, left, right, spare; the root's parent is -1, a leaf element's left is -1.

Looking for better places only reads, so candidates may be looked at on different threads; the moves are made one after
the other, in the order of what they save. So the tree does not depend on the number of threads.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.binary_boxes import BOX, area, union_area, unite
from rtviewer.kernels.memory import load_f32, load_i32, load_i64, load_u8, store_f32, store_i32, store_i64, store_u8

LINKS = 16
PARENT, LEFT, RIGHT = 0, 4, 8
PENDING, MOST_PENDING = 8, 4096
STACK_SIZE = PENDING * MOST_PENDING + BOX
"""Bytes of the stack of a search: places to look at and what is saved above them; behind them a box. What does not fit
is not looked at."""


@jit
def element_boxes(references, packs, first, last, boxes):
    """Boxes of leaf elements: unions of ranges (``packs``, two int32 each) of references (``kernels.references``)."""
    for element in range(first, last):
        begin, end = np.int64(load_i32(packs + 8 * element)), np.int64(load_i32(packs + 8 * element + 4))
        box = boxes + BOX * element
        unite(references + BOX * begin, references + BOX * begin, box)
        for reference in range(begin + 1, end):
            unite(references + BOX * reference, box, box)
        store_f32(box + 12, np.float32(0.0))  # ids, which as numbers may be slow to add
        store_f32(box + 28, np.float32(0.0))


@jit
def join(boxes, links, a, b, node):
    """Make ``node`` the parent of ``a`` and ``b``."""
    store_i32(links + LINKS * node + LEFT, np.int32(a))
    store_i32(links + LINKS * node + RIGHT, np.int32(b))
    store_i32(links + LINKS * a + PARENT, np.int32(node))
    store_i32(links + LINKS * b + PARENT, np.int32(node))
    unite(boxes + BOX * a, boxes + BOX * b, boxes + BOX * node)


@jit
def from_wide(children, stride, node_count, element_count, boxes, links, roots):
    """The binary tree of an eight-wide one: the children of a node are joined, the pair with the smallest box first.
    Nodes and leaves stay subtrees.

    ``children``: address of the first node's eight child references, ``stride`` bytes from one node's to the next's.
    ``boxes`` holds the leaf elements'; ``roots``: room for one int64 a wide node. Returns the root.
    """
    items = np.empty(8, np.int64)
    following = element_count
    for element in range(element_count):
        store_i32(links + LINKS * element + LEFT, np.int32(-1))
    for node in range(node_count - 1, -1, -1):
        number = 0
        for lane in range(8):
            ref = np.int64(load_i32(children + stride * node + 4 * lane))
            if ref > 0:
                items[number] = load_i64(roots + 8 * ref)
                number += 1
            elif ref < 0:
                first, last = ~ref >> 2, (~ref >> 2) + (~ref & 3)
                items[number] = first
                for element in range(first + 1, last + 1):  # a leaf stays a subtree
                    join(boxes, links, items[number], element, following)
                    items[number] = following
                    following += 1
                number += 1
        while number > 1:
            best, left, right = np.float32(np.inf), 0, 1
            for a in range(number - 1):
                for b in range(a + 1, number):
                    size = union_area(boxes + BOX * items[a], boxes + BOX * items[b])
                    if size < best:
                        best, left, right = size, a, b
            join(boxes, links, items[left], items[right], following)
            items[left] = following
            number -= 1
            items[right] = items[number]
            following += 1
        store_i64(roots + 8 * node, items[0])
    root = load_i64(roots)
    store_i32(links + LINKS * root + PARENT, np.int32(-1))
    return root


@jit
def other_child(links, parent, node):
    left = np.int64(load_i32(links + LINKS * parent + LEFT))
    return np.int64(load_i32(links + LINKS * parent + RIGHT)) if left == node else left


@jit
def find_places(boxes, links, candidates, first, last, places, savings, stack):
    """For each candidate (int32 node numbers) the best sibling elsewhere in the tree.

    ``places`` receives int32 nodes, -1 where the candidate is best where it is; ``savings`` float32: by how much the
    sum of the areas of inner nodes falls. ``stack``: STACK_SIZE bytes.

    The candidate and its parent are taken out; going up from there, the subtree beside the path is searched at every
    step. What is saved so far bounds what can be saved below a node, because all its ancestors grow by the candidate.
    """
    moved = stack + PENDING * MOST_PENDING
    for index in range(first, last):
        node = np.int64(load_i32(candidates + 4 * index))
        box = boxes + BOX * node
        size = area(box)
        parent = np.int64(load_i32(links + LINKS * node + PARENT))
        best, best_place = np.float32(0.0), np.int64(-1)
        pivot, beside = parent, other_child(links, parent, node)
        saved = area(boxes + BOX * parent)
        unite(boxes + BOX * beside, boxes + BOX * beside, moved)
        while True:
            # An ancestor above the pivot will be as large as before once the candidate is in the subtree.
            store_i32(stack, np.int32(beside))
            store_f32(stack + 4, saved)
            waiting = 1
            while waiting > 0:
                waiting -= 1
                at = np.int64(load_i32(stack + PENDING * waiting))
                budget = load_f32(stack + PENDING * waiting + 4)
                if not (budget - size > best):
                    continue
                here = boxes + BOX * at
                saving = budget - union_area(here, box)
                if (saving > best and pivot != parent) or (saving > best and at != beside):
                    best, best_place = saving, at
                left = np.int64(load_i32(links + LINKS * at + LEFT))
                if left >= 0 and waiting < MOST_PENDING - 1:
                    below = saving + area(here)
                    if below - size > best:
                        store_i32(stack + PENDING * waiting, np.int32(left))
                        store_f32(stack + PENDING * waiting + 4, below)
                        store_i32(stack + PENDING * waiting + PENDING, load_i32(links + LINKS * at + RIGHT))
                        store_f32(stack + PENDING * waiting + PENDING + 4, below)
                        waiting += 2
            if pivot != parent:
                unite(moved, boxes + BOX * beside, moved)
                saved += area(boxes + BOX * pivot) - area(moved)
            above = np.int64(load_i32(links + LINKS * pivot + PARENT))
            if above < 0:
                break
            beside, pivot = other_child(links, above, pivot), above
        store_i32(places + 4 * index, np.int32(best_place))
        store_f32(savings + 4 * index, best)


@jit
def is_below(links, node, ancestor):
    while node >= 0:
        if node == ancestor:
            return True
        node = np.int64(load_i32(links + LINKS * node + PARENT))
    return False


@jit
def refresh(boxes, links, node):
    """New boxes from ``node`` up to the root."""
    while node >= 0:
        left, right = load_i32(links + LINKS * node + LEFT), load_i32(links + LINKS * node + RIGHT)
        unite(boxes + BOX * np.int64(left), boxes + BOX * np.int64(right), boxes + BOX * node)
        node = np.int64(load_i32(links + LINKS * node + PARENT))


@jit
def replace_child(links, parent, old, new):
    at = links + LINKS * parent
    store_i32(at + (LEFT if np.int64(load_i32(at + LEFT)) == old else RIGHT), np.int32(new))
    store_i32(links + LINKS * new + PARENT, np.int32(parent))


@jit
def is_any_marked(touched, a, b, c, d, e, f):
    marks = load_u8(touched + a) | load_u8(touched + b) | load_u8(touched + c)
    return (marks | load_u8(touched + d) | load_u8(touched + e) | load_u8(touched + f)) != 0


@jit
def move(boxes, links, candidates, places, order, count, touched):
    """Make the moves that ``find_places`` found, in ``order`` (int64), unless an earlier one touched the same nodes.

    ``touched``: a zero byte a node. Returns how many were made. The root keeps its number.
    """
    done = 0
    for k in range(count):
        index = load_i64(order + 8 * k)
        node, place = np.int64(load_i32(candidates + 4 * index)), np.int64(load_i32(places + 4 * index))
        parent = np.int64(load_i32(links + LINKS * node + PARENT))
        above = np.int64(load_i32(links + LINKS * parent + PARENT))
        beside = other_child(links, parent, node)
        target = np.int64(load_i32(links + LINKS * place + PARENT))
        if above < 0 or target < 0 or place == parent or place == beside:
            continue
        if is_any_marked(touched, node, parent, above, beside, place, target) or is_below(links, place, node):
            continue
        for at in (node, parent, above, beside, place, target):
            store_u8(touched + at, np.uint8(1))
        replace_child(links, above, parent, beside)
        refresh(boxes, links, above)
        target = np.int64(load_i32(links + LINKS * place + PARENT))
        replace_child(links, target, place, parent)
        join(boxes, links, node, place, parent)
        refresh(boxes, links, target)
        done += 1
    return done


@jit
def inner_area(boxes, links, first, count, areas):
    """Areas (float32) of a range of nodes; returns their sum over inner nodes."""
    total = 0.0
    for node in range(first, count):
        size = area(boxes + BOX * node)
        store_f32(areas + 4 * node, size)
        if load_i32(links + LINKS * node + LEFT) >= 0:
            total += np.float64(size)
    return total
