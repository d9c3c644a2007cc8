"""Random worlds, rays and flags that sit where tracers disagree: small integers, shared vertices, equal t, edges."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from hypothesis import strategies as st

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag, RayFlag
from rtviewer.dxr.profile import Profile
from rtviewer.dxr.rules import check_ray_flags
from rtviewer.trace.request import RayBatch, TraceSettings

XBOX = Profile(xbox=True)
LEGAL_RAY_FLAGS = [
    word for word in (a | b for a, b in product(range(0x400), (0, 0x1000))) if not check_ray_flags(RayFlag(word), XBOX)
]


@dataclass(frozen=True)
class RandomWorld:
    blases: tuple[BlasInputs, ...]
    instances: InstanceInputs
    blas_of: np.ndarray


def _coordinates(random: np.random.Generator, shape: tuple[int, ...], lattice: bool) -> np.ndarray:
    if lattice:
        return random.integers(-3, 4, shape).astype(np.float32)
    return random.normal(0, 2, shape).astype(np.float32)


def _geometry(random: np.random.Generator, triangles: bool, lattice: bool) -> TrianglesGeometry | AabbsGeometry:
    flags = GeometryFlag(int(random.integers(0, 4)))
    count = int(random.integers(0, 12))
    if not triangles:
        low = _coordinates(random, (count, 3), lattice)
        boxes = np.concatenate([low, low + random.integers(-1, 4, (count, 3)).astype(np.float32)], 1)
        boxes[random.random(count) < 0.1, 0] = np.nan
        return AabbsGeometry(boxes.astype(np.float32), flags)
    vertices = _coordinates(random, (int(random.integers(3, 9)), 3), lattice)
    indices = random.integers(0, len(vertices), (count, 3)).astype(np.uint32)
    if random.random() < 0.2:
        vertices[random.integers(len(vertices)), 0] = np.nan
    transform = None
    if random.random() < 0.4:
        transform = random.integers(-2, 3, (3, 4)).astype(np.float32)
    vertices[np.isnan(vertices[:, 0])] = [np.nan, 0, 0]
    if transform is not None and np.isnan(vertices).any():
        transform = None  # a transform would spread the NaN to where it is not legal (INA-3)
    return TrianglesGeometry(vertices, indices, transform, flags)


def random_world(seed: int, lattice: bool) -> RandomWorld:
    """Up to four bottom levels, up to ten instances; on a lattice, ties and exact edges abound."""
    random = np.random.default_rng(seed)
    blases = []
    for _ in range(int(random.integers(1, 5))):
        triangles = bool(random.random() < 0.7)
        blases.append(BlasInputs(tuple(_geometry(random, triangles, lattice) for _ in range(random.integers(0, 4)))))
    count = int(random.integers(0, 11))
    linear = random.integers(-1, 2, (count, 3, 3)) if lattice else random.normal(0, 1, (count, 3, 3))
    axis_aligned = random.random(count) < 0.5
    linear[axis_aligned] = np.eye(3)[None] * random.choice([-1.0, 1.0, 2.0], (int(axis_aligned.sum()), 1, 3))
    shift = random.integers(-2, 3, (count, 3)) if lattice else random.normal(0, 2, (count, 3))
    blas_of = random.integers(-1, len(blases), count).astype(np.int32)
    flags = random.integers(0, 16, count).astype(np.uint8)
    flags[(flags & 0xC) == 0xC] &= 0x3
    instances = InstanceInputs(
        np.concatenate([linear, shift[:, :, None]], 2).astype(np.float32),
        random.integers(0, 1 << 24, count).astype(np.uint32),
        random.choice(np.array([0, 1, 0x80, 0xFF], np.uint8), count, p=[0.05, 0.15, 0.1, 0.7]),
        random.integers(0, 4, count).astype(np.uint32),
        flags,
        np.where(blas_of < 0, 0, (blas_of.astype(np.int64) + 1) * 256).astype(np.uint64),
    )
    return RandomWorld(tuple(blases), instances, blas_of)


def random_rays(seed: int, count: int, lattice: bool) -> RayBatch:
    random = np.random.default_rng(seed ^ 0x5EED)
    origin = _coordinates(random, (count, 3), lattice) * (1 if lattice else 2)
    direction = _coordinates(random, (count, 3), lattice)
    aimed = random.random(count) < 0.5
    direction[aimed] = (_coordinates(random, (count, 3), lattice) - origin)[aimed]
    t_min = random.choice(np.array([0, 0, 0, 0.5, 1], np.float32), count)
    t_max = random.choice(np.array([np.inf, np.inf, 10, 1, 2], np.float32), count)
    return RayBatch.make(origin, direction, t_min, np.maximum(t_min, t_max))


def random_settings(seed: int, count: int, *, any_hit: list[int], accept_first: bool) -> TraceSettings:
    """Flags, masks and programs per ray; REPORT_T is left out, because what it reports does not lie in its box."""
    random = np.random.default_rng(seed ^ 0xF1A6)
    words = [w for w in LEGAL_RAY_FLAGS if accept_first or not w & RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH]
    plain = random.random(count) < 0.4
    flags = np.where(plain, 0, random.choice(words, count)).astype(np.uint32)
    return TraceSettings(
        ray_flags=flags,
        mask=random.choice(np.array([0xFF, 0xFFFFFFFF, 1, 0x80, 0x101], np.uint32), count),
        any_hit=random.choice(np.array(any_hit, np.uint32), count),
        intersection=random.integers(0, 4, count).astype(np.uint32),
        ray_contribution=random.integers(0, 32, count).astype(np.uint32),
        multiplier=random.integers(0, 32, count).astype(np.uint32),
    )


SEEDS = st.integers(0, 2**32 - 1)
