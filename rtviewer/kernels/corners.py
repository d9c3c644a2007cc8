"""Index and vertex sections of indexed packs: each vertex that a triangle in the tree uses, once, in input order."""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.memory import load_i32, load_u8, store_i32

UNUSED = -1


@jit
def corner_of(indices, triangle, corner):
    """The input vertex of a corner; ``indices``: address of uint32 triples, 0 for consecutive vertices."""
    return np.int64(load_i32(indices + 12 * triangle + 4 * corner)) if indices != 0 else 3 * triangle + corner


@jit
def number_vertices(indices, kept, triangle_count, vertex_count, numbers):
    """Number the vertices in use from 0; returns how many they are.

    ``kept``: address of a byte for each triangle, 0 where it is not in the tree; 0 when all are. ``numbers``: address
    of an int32 for each vertex, -1 where it is not used.
    """
    for vertex in range(vertex_count):
        store_i32(numbers + 4 * vertex, UNUSED)
    for triangle in range(triangle_count):
        if kept == 0 or load_u8(kept + triangle) != 0:
            for corner in range(3):
                store_i32(numbers + 4 * corner_of(indices, triangle, corner), 0)
    used = 0
    for vertex in range(vertex_count):
        if load_i32(numbers + 4 * vertex) != UNUSED:
            store_i32(numbers + 4 * vertex, used)
            used += 1
    return used


@jit
def write_corners(
    indices, kept, triangle_count, vertices, vertex_count, numbers, first_vertex, indices_out, vertices_out
):
    """Index rows (12 bytes; zero for triangles not in the tree) and positions (12 bytes) of one geometry.

    ``first_vertex``: what its vertices are counted from; the rest as ``number_vertices`` has it.
    """
    for triangle in range(triangle_count):
        in_tree = kept == 0 or load_u8(kept + triangle) != 0
        for corner in range(3):
            number = 0
            if in_tree:
                number = first_vertex + np.int64(load_i32(numbers + 4 * corner_of(indices, triangle, corner)))
            store_i32(indices_out + 12 * triangle + 4 * corner, number)
    for vertex in range(vertex_count):
        number = np.int64(load_i32(numbers + 4 * vertex))
        if number != UNUSED:
            for axis in range(3):
                word = load_i32(vertices + 12 * vertex + 4 * axis)
                store_i32(vertices_out + 12 * (first_vertex + number) + 4 * axis, word)
