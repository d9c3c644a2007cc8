"""The compiled decisions equal ``dxr.rules`` over all legal combinations of flags."""

from __future__ import annotations

import pytest

from rtviewer.dxr import rules
from rtviewer.dxr.flags import GeometryFlag, HitKind, InstanceFlag, RayFlag
from rtviewer.dxr.profile import Profile
from rtviewer.kernels import culling

LEGAL_RAY = [w for w in range(0x400) if not rules.check_ray_flags(RayFlag(w))]
LEGAL_INSTANCE = [w for w in range(16) if not rules.check_instance_flags(InstanceFlag(w))]


def test_the_tables_are_not_empty() -> None:
    assert len(LEGAL_RAY) == 5 * 7 * 4  # opacity group, facing and skips, the two free bits
    assert len(LEGAL_INSTANCE) == 12


@pytest.mark.rule("OPQ-1", "OPQ-2", "OPQ-3", "OPQ-4")
def test_opacity() -> None:
    for ray in LEGAL_RAY:
        for instance in LEGAL_INSTANCE:
            for opaque in (False, True):
                geometry = GeometryFlag.OPAQUE if opaque else GeometryFlag.NONE
                expected = rules.effective_opacity(geometry, InstanceFlag(instance), RayFlag(ray))
                assert culling.effective_opacity(opaque, instance, ray) == expected


@pytest.mark.rule("FACE-1", "FACE-2", "CULL-3", "RF-8")
def test_facing() -> None:
    for instance in LEGAL_INSTANCE:
        for clockwise in (False, True):
            kind = rules.hit_kind(clockwise, InstanceFlag(instance))
            assert culling.hit_kind(clockwise, instance) == kind
        for ray in LEGAL_RAY:
            for kind in HitKind:
                expected = rules.is_facing_culled(kind, InstanceFlag(instance), RayFlag(ray))
                assert culling.is_facing_culled(int(kind), instance, ray) == expected


@pytest.mark.rule("CULL-1", "RF-9")
def test_type_skip() -> None:
    for ray in LEGAL_RAY:
        for triangle in (False, True):
            assert culling.is_type_skipped(triangle, ray) == rules.is_type_skipped(triangle, RayFlag(ray))


@pytest.mark.rule("MASK-1", "MASK-2")
def test_mask() -> None:
    for ray_mask in [*range(256), 0x100, 0x101, 0xFFFFFF00, 0xFFFFFFFF]:
        for instance_mask in range(256):
            assert culling.is_mask_excluded(ray_mask, instance_mask) == rules.is_mask_excluded(ray_mask, instance_mask)


@pytest.mark.rule("XB-17")
def test_the_coherence_hint_decides_nothing() -> None:
    hint = int(RayFlag.COHERENT_RAYS_HINT)
    assert not rules.check_ray_flags(RayFlag(hint), Profile(xbox=True))
    for opaque in (False, True):
        assert culling.effective_opacity(opaque, 0, hint) == culling.effective_opacity(opaque, 0, 0)
    assert not culling.is_type_skipped(True, hint)
    assert not culling.is_facing_culled(255, 0, hint)
