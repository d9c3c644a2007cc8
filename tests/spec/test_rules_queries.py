"""System values of candidates and committed hits: indices, spaces and matrices, read through inline queries."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from rtviewer.dxr.descs import IDENTITY
from rtviewer.dxr.flags import CandidateType, CommittedStatus, RayFlag
from rtviewer.scene.primitives import invert_transforms
from rtviewer.trace.query import RayQuery
from tests.worlds import Placement, World, boxes, scale, translate, triangles, world

SHEARED = np.float32([[1, 0.5, 0, 3], [-0.25, 2, 0.125, -1], [0, 0.5, 1.5, 7]])
MIRRORED = np.float32([[-1, 0, 0, 2], [0, 0, 1, 0], [0, 1, 0, -3]])
FAR = translate(500, 500, 500)
TRANSFORMS = {
    "identity": IDENTITY, "translated": translate(3, -2, 11), "scaled": scale(0.5, 4, 2), "sheared": SHEARED,
    "mirrored": MIRRORED,
}  # fmt: skip
POINT = np.float64([0.25, 0.25, 0.5])
"""In object space: on the triangle that counts and in the box."""


def scene(transform: NDArray[np.float32], procedural: bool) -> World:
    """The third instance and its second geometry count; the primitive is the second of three."""
    away = [[40, 40, 40], [41, 40, 40], [40, 41, 40]]
    if procedural:
        unit = (0, 0, 0, 1, 1, 1)
        geometry = [boxes((40, 0, 0, 41, 1, 1)), boxes((50, 0, 0, 51, 1, 1), unit, (60, 0, 0, 61, 1, 1))]
    else:
        # The geometry's own transform is part of object space and must not show up in any matrix (INST-10).
        flat = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
        geometry = [triangles(away), triangles(away, flat, away, transform=translate(0, 0, 0.5))]
    other = Placement(1, FAR)
    counts = Placement(0, transform, instance_id=0xABCDEF, contribution=0x123456)
    return world(geometry, triangles(away), placements=[other, Placement(-1), counts])


def query_at_point(transform: NDArray[np.float32], procedural: bool) -> RayQuery:
    """A query whose candidate is the primitive that counts, its ray aimed through POINT at t = 2."""
    target = transform[:, :3].astype(np.float64) @ POINT + transform[:, 3]
    # Along object z, so that nothing else is met whatever the transform.
    direction = transform[:, :3].astype(np.float64) @ [0.0, 0.0, 1.5]
    origin = target - 2 * direction
    query = RayQuery(RayFlag.FORCE_NON_OPAQUE)
    built = scene(transform, procedural)
    start, along = tuple(map(float, origin.astype(np.float32))), tuple(map(float, direction.astype(np.float32)))
    query.trace_ray_inline(built.dispatcher, RayFlag.NONE, 0x3FF, start, along, 0.125, 100.0)  # type: ignore[arg-type]
    assert query.proceed()
    return query


def values(query: RayQuery, which: str) -> dict[str, object]:
    names = (
        "instance_index", "instance_id", "geometry_index", "primitive_index",
        "instance_contribution_to_hit_group_index", "object_ray_origin", "object_ray_direction", "object_to_world_3x4",
        "object_to_world_4x3", "world_to_object_3x4", "world_to_object_4x3",
    )  # fmt: skip
    return {name: getattr(query, f"{which}_{name}")() for name in names}


@pytest.mark.rule("SV-1", "INST-1", "INST-8", "INST-9", "INST-10", "HG-6", "BLD-12", "RAY-1")
@pytest.mark.parametrize("procedural", [False, True])
@pytest.mark.parametrize("name", list(TRANSFORMS))
@pytest.mark.parametrize("which", ["candidate", "committed"])
def test_indices_spaces_and_matrices(name: str, procedural: bool, which: str) -> None:
    transform = TRANSFORMS[name]
    query = query_at_point(transform, procedural)
    t = 2.0
    if not procedural:
        t = query.candidate_triangle_ray_t()
        assert t == pytest.approx(2.0, rel=1e-5)
    if which == "committed":
        query.commit_procedural_primitive_hit(t) if procedural else query.commit_non_opaque_triangle_hit()
        query.proceed()
        assert query.committed_ray_t() == t
    found = values(query, which)
    assert (found["instance_index"], found["instance_id"]) == (2, 0xABCDEF)
    assert (found["geometry_index"], found["primitive_index"]) == (1, 1)
    assert found["instance_contribution_to_hit_group_index"] == 0x123456
    to_world, to_object = found["object_to_world_3x4"], found["world_to_object_3x4"]
    np.testing.assert_array_equal(to_world, transform)
    np.testing.assert_array_equal(found["object_to_world_4x3"], transform.T)
    inverse = np.linalg.inv(np.vstack([transform.astype(np.float64), [0, 0, 0, 1]]))[:3]
    np.testing.assert_allclose(to_object, inverse, rtol=2e-7, atol=1e-7)
    np.testing.assert_array_equal(found["world_to_object_4x3"], np.asarray(to_object).T)
    # One ray in two spaces: the same t leads to the same point.
    origin = np.float64(query.world_ray_origin())
    direction = np.float64(query.world_ray_direction())
    in_object = np.float64(found["object_ray_origin"]) + t * np.float64(found["object_ray_direction"])
    np.testing.assert_allclose(in_object, inverse[:, :3] @ (origin + t * direction) + inverse[:, 3], atol=2e-5)
    np.testing.assert_allclose(in_object, POINT, atol=2e-5)


@pytest.mark.rule("RAY-7", "INL-1", "INL-9", "SV-1")
@pytest.mark.parametrize("procedural", [False, True])
def test_what_the_ray_says_of_itself_before_and_after_a_commit(procedural: bool) -> None:
    query = query_at_point(SHEARED, procedural)
    wanted = CandidateType.PROCEDURAL_PRIMITIVE if procedural else CandidateType.NON_OPAQUE_TRIANGLE
    assert query.candidate_type() is wanted
    assert (query.ray_t_min(), query.committed_ray_t()) == (0.125, 100.0)
    assert query.committed_status() is CommittedStatus.NOTHING
    assert query.ray_flags() is RayFlag.FORCE_NON_OPAQUE
    query.commit_procedural_primitive_hit(1.75) if procedural else query.commit_non_opaque_triangle_hit()
    end = query.committed_ray_t()
    assert end == 1.75 if procedural else math.isclose(end, 2, rel_tol=1e-5)
    assert query.ray_t_min() == 0.125
    assert not query.proceed()
    assert query.committed_ray_t() == end


def exact_inverse(linear: NDArray[np.float32]) -> list[list[Fraction]]:
    """Of a 3x3 matrix, in rational numbers."""
    m = [[Fraction(float(x)) for x in row] for row in linear]

    def cofactor(i: int, j: int) -> Fraction:
        a, b, c, d = (i + 1) % 3, (i + 2) % 3, (j + 1) % 3, (j + 2) % 3
        return m[a][c] * m[b][d] - m[a][d] * m[b][c]

    determinant = sum(m[0][j] * cofactor(0, j) for j in range(3))
    return [[cofactor(j, i) / determinant for j in range(3)] for i in range(3)]


@pytest.mark.rule("INST-9")
def test_inverses_are_made_in_float64_and_rounded_once() -> None:
    """Badly conditioned transforms against rational arithmetic: a float32 inverse would lose half its digits."""
    random = np.random.default_rng(6)
    transforms = random.normal(size=(100, 3, 4)).astype(np.float32)
    transforms[:, 2, :3] = transforms[:, 0, :3] + np.float32(0.01) * transforms[:, 2, :3]
    found = invert_transforms(transforms)[0][:, :, :3]
    exact = np.array([exact_inverse(t[:, :3]) for t in transforms]).astype(np.float64)
    rounded = exact.astype(np.float32)
    assert (np.abs(found - rounded) <= np.spacing(np.abs(rounded))).all()
    assert (found == rounded).mean() > 0.99
