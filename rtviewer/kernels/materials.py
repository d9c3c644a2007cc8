"""Alpha masks: shader resources beside the structures, reached through the world block by instance and geometry.

``trace.materials`` lays them out, ``trace.reference_materials`` repeats every step in numpy. All arithmetic is float64
on float32 and uint8 inputs.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.extremes import largest, least
from rtviewer.kernels.memory import load_f32, load_i32, load_i64, load_u8
from rtviewer.kernels.state import INSTANCE, WORLD, WORLD_INSTANCE_BLAS, WORLD_MATERIALS

# A material row, one per geometry: 64 bytes.
MATERIAL_HAS_MASK = 0
MATERIAL_TEXCOORDS = 8
"""Address of (primitives, 3, 2) float32: texture coordinates of every corner; 0 for none."""
MATERIAL_TEXELS = 16
"""Address of (height, width) uint8; 0 for none."""
MATERIAL_WIDTH = 24
MATERIAL_HEIGHT = 32
MATERIAL_SAMPLER = 40
"""Wrap of u, wrap of v << 8, and 1 << 16 for nearest instead of bilinear."""
MATERIAL_FACTOR = 48
"""float32; likewise the next."""
MATERIAL_CUTOFF = 52
MATERIAL_PRIMITIVES = 56
MATERIAL_SIZE = 64

WRAP_REPEAT, WRAP_CLAMP, WRAP_MIRROR = 0, 1, 2


@jit
def material_of(geometry, walk):
    """Address of the material row of a geometry in the instance being walked, 0 for none."""
    world = load_i64(walk + WORLD)
    table = load_i64(world + WORLD_MATERIALS)
    if table == 0:
        return np.int64(0)
    row = np.int64(load_i32(load_i64(world + WORLD_INSTANCE_BLAS) + 4 * load_i64(walk + INSTANCE)))
    rows = load_i64(table + 8 * row)
    return rows + geometry * MATERIAL_SIZE if rows != 0 else np.int64(0)


@jit
def texture_coordinate(material, primitive, axis, b1, b2):
    """One texture coordinate of a hit, float64: the corners' weighed by the barycentrics (TRI-1)."""
    at = load_i64(material + MATERIAL_TEXCOORDS) + 24 * primitive + 4 * axis
    weight_1, weight_2 = np.float64(b1), np.float64(b2)
    first, second, third = np.float64(load_f32(at)), np.float64(load_f32(at + 8)), np.float64(load_f32(at + 16))
    return ((1.0 - weight_1 - weight_2) * first + weight_1 * second) + weight_2 * third


@jit
def has_texcoords(material, primitive):
    return (
        material != 0
        and load_i64(material + MATERIAL_TEXCOORDS) != 0
        and primitive < load_i64(material + MATERIAL_PRIMITIVES)
    )


@jit
def wrapped(value, mode):
    """A texture coordinate brought into 0 to 1."""
    if mode == WRAP_REPEAT:
        return value - np.floor(value)
    if mode == WRAP_CLAMP:
        return least(largest(value, 0.0), 1.0)
    folded = value - 2.0 * np.floor(0.5 * value)
    return 2.0 - folded if folded > 1.0 else folded


@jit
def texel_index(place, count, mode):
    """A texel's number brought into 0 to ``count`` - 1: the other end where the texture repeats, else the edge."""
    index = np.int64(place)
    if index < 0:
        return count - 1 if mode == WRAP_REPEAT else np.int64(0)
    if index >= count:
        return np.int64(0) if mode == WRAP_REPEAT else count - 1
    return index


@jit
def alpha_at(material, u, v):
    """The texture's alpha in 0 to 1 at texture coordinates: the texel itself, or bilinear between four."""
    width, height = load_i64(material + MATERIAL_WIDTH), load_i64(material + MATERIAL_HEIGHT)
    sampler = load_i64(material + MATERIAL_SAMPLER)
    mode_u, mode_v = sampler & 0xFF, (sampler >> 8) & 0xFF
    x, y = wrapped(u, mode_u) * np.float64(width), wrapped(v, mode_v) * np.float64(height)
    texels = load_i64(material + MATERIAL_TEXELS)
    if sampler >> 16 != 0:
        column, row = texel_index(np.floor(x), width, WRAP_CLAMP), texel_index(np.floor(y), height, WRAP_CLAMP)
        return np.float64(load_u8(texels + row * width + column)) / 255.0
    x -= 0.5
    y -= 0.5
    left, top = np.floor(x), np.floor(y)
    across, down = x - left, y - top
    x0, x1 = texel_index(left, width, mode_u), texel_index(left + 1.0, width, mode_u)
    y0, y1 = texel_index(top, height, mode_v), texel_index(top + 1.0, height, mode_v)
    first, second = texels + y0 * width, texels + y1 * width
    upper = np.float64(load_u8(first + x0)) * (1.0 - across) + np.float64(load_u8(first + x1)) * across
    lower = np.float64(load_u8(second + x0)) * (1.0 - across) + np.float64(load_u8(second + x1)) * across
    return (upper * (1.0 - down) + lower * down) / 255.0


@jit
def is_masked_out(material, primitive, b1, b2):
    """Whether a triangle's alpha at a hit is below the material's cut-off; never where there is no mask."""
    if material == 0 or load_i64(material + MATERIAL_HAS_MASK) == 0:
        return False
    alpha = np.float64(load_f32(material + MATERIAL_FACTOR))
    if load_i64(material + MATERIAL_TEXELS) != 0 and has_texcoords(material, primitive):
        u = texture_coordinate(material, primitive, 0, b1, b2)
        v = texture_coordinate(material, primitive, 1, b1, b2)
        alpha = alpha * alpha_at(material, u, v)
    return alpha < np.float64(load_f32(material + MATERIAL_CUTOFF))


@jit
def is_checker_cell(material, primitive, b1, b2):
    """Whether a triangle's hit lies in a cell that CHECKER cuts out: squares of 1/8, the first one stays."""
    u, v = np.float64(b1), np.float64(b2)
    if has_texcoords(material, primitive):
        u = texture_coordinate(material, primitive, 0, b1, b2)
        v = texture_coordinate(material, primitive, 1, b1, b2)
    # Half the sum has a fraction where the sum is odd: no integer overflows, however large a coordinate is.
    half = 0.5 * (np.floor(8.0 * u) + np.floor(8.0 * v))
    return half != np.floor(half)
