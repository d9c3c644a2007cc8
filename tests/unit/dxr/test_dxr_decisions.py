"""Opacity, facing, culling and masks as pure functions, over their whole domain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rtviewer.dxr.flags import GeometryFlag, HitKind, InstanceFlag, RayFlag
from rtviewer.dxr.rules import (
    Opacity,
    check_instance_flags,
    check_ray_flags,
    effective_opacity,
    hit_kind,
    is_facing_culled,
    is_mask_excluded,
    is_type_skipped,
)

G, N, R = GeometryFlag, InstanceFlag, RayFlag
RESULT = {"O": {Opacity.OPAQUE}, "N": {Opacity.NON_OPAQUE}, "x": {Opacity.CULLED_OPAQUE, Opacity.CULLED_NON_OPAQUE}}
COLUMNS = [R.NONE, R.FORCE_OPAQUE, R.FORCE_NON_OPAQUE, R.CULL_OPAQUE, R.CULL_NON_OPAQUE]
OPACITY_TABLE = [
    (G.OPAQUE, N.NONE, "OONxO"),
    (G.OPAQUE, N.FORCE_OPAQUE, "OONxO"),
    (G.OPAQUE, N.FORCE_NON_OPAQUE, "NONNx"),
    (G.NONE, N.NONE, "NONNx"),
    (G.NONE, N.FORCE_OPAQUE, "OONxO"),
    (G.NONE, N.FORCE_NON_OPAQUE, "NONNx"),
]
LEGAL_RAY_WORDS = [word for word in range(0x400) if not check_ray_flags(RayFlag(word))]
LEGAL_INSTANCE_WORDS = [word for word in range(0x10) if not check_instance_flags(InstanceFlag(word))]


@pytest.mark.rule("OPQ-1", "OPQ-2", "OPQ-3", "OPQ-4", "GF-2")
@pytest.mark.parametrize(("geometry", "instance", "row"), OPACITY_TABLE)
def test_the_opacity_table(geometry: GeometryFlag, instance: InstanceFlag, row: str) -> None:
    for ray, letter in zip(COLUMNS, row, strict=True):
        assert effective_opacity(geometry, instance, ray) in RESULT[letter], ray


@pytest.mark.rule("OPQ-3")
@pytest.mark.parametrize(("geometry", "instance", "row"), OPACITY_TABLE)
def test_a_culled_candidate_is_named_by_what_it_was(geometry: GeometryFlag, instance: InstanceFlag, row: str) -> None:
    if row[3] == "x":
        assert effective_opacity(geometry, instance, R.CULL_OPAQUE) is Opacity.CULLED_OPAQUE
    else:
        assert effective_opacity(geometry, instance, R.CULL_NON_OPAQUE) is Opacity.CULLED_NON_OPAQUE


@pytest.mark.rule("OPQ-1", "OPQ-2", "OPQ-3", "OPQ-4")
def test_no_other_flag_plays_a_part_in_opacity() -> None:
    table = {(g, i): row for g, i, row in OPACITY_TABLE}
    for geometry, instance, ray in itertools.product(range(4), LEGAL_INSTANCE_WORDS, LEGAL_RAY_WORDS):
        row = table[G(geometry & 1), N(instance & 0xC)]
        letter = row[COLUMNS.index(R(ray & 0xC3))]
        assert effective_opacity(G(geometry), N(instance), R(ray)) in RESULT[letter]


@pytest.mark.rule("FACE-1", "FACE-2", "HK-2")
@pytest.mark.parametrize("clockwise", [True, False])
@pytest.mark.parametrize("word", range(16))
def test_facing(word: int, clockwise: bool) -> None:
    turned = bool(word & 0x02)
    expected = HitKind.TRIANGLE_FRONT_FACE if clockwise is not turned else HitKind.TRIANGLE_BACK_FACE
    assert hit_kind(clockwise, InstanceFlag(word)) is expected


@pytest.mark.rule("CULL-3", "RF-8")
def test_facing_culls() -> None:
    for ray, word in itertools.product(LEGAL_RAY_WORDS, LEGAL_INSTANCE_WORDS):
        disabled = bool(word & 0x01)
        back = is_facing_culled(HitKind.TRIANGLE_BACK_FACE, InstanceFlag(word), RayFlag(ray))
        front = is_facing_culled(HitKind.TRIANGLE_FRONT_FACE, InstanceFlag(word), RayFlag(ray))
        assert back == (bool(ray & 0x10) and not disabled)
        assert front == (bool(ray & 0x20) and not disabled)


@pytest.mark.rule("CULL-1", "RF-9")
def test_type_skips() -> None:
    for ray in LEGAL_RAY_WORDS:
        assert is_type_skipped(True, RayFlag(ray)) == bool(ray & 0x100)
        assert is_type_skipped(False, RayFlag(ray)) == bool(ray & 0x200)


@pytest.mark.rule("MASK-1", "INST-3")
def test_masks_all_pairs() -> None:
    found = np.array([[is_mask_excluded(ray, instance) for instance in range(256)] for ray in range(256)])
    ray, instance = np.ogrid[:256, :256]
    np.testing.assert_array_equal(found, (ray & instance) == 0)
    assert found[0].all()
    assert found[:, 0].all()


@pytest.mark.rule("MASK-2")
@pytest.mark.parametrize("high", [0x100, 0xFFFFFF00, 0xABCDEF00])
def test_high_bits_of_the_rays_mask_do_not_count(high: int) -> None:
    for ray, instance in itertools.product(range(0, 256, 5), range(0, 256, 3)):
        assert is_mask_excluded(ray | high, instance) == is_mask_excluded(ray, instance)
    assert is_mask_excluded(high, 0xFF)
    assert is_mask_excluded(high, high | 0x0F)
