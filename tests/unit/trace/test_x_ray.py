"""What an x-ray counts: every surface along the whole ray, by the same flags, masks and programs as the ray itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rtviewer.dxr.flags import GeometryFlag, RayFlag
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.dxr.shader_table import ABSENT, HitGroup, HitGroupTable, HitGroupType
from rtviewer.dxr.verdicts import Counter, Verdict
from rtviewer.errors import InvalidInputError
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import RayBatch, TraceSettings
from tests.worlds import Placement, World, boxes, translate, triangles, world

UP = RayBatch.make([0.2, 0.2, -5], [0, 0, 1])


def layers(*depths: float, flags: GeometryFlag = GeometryFlag.OPAQUE, turned: bool = False) -> World:
    corners = [[[0, 0, z], [1, 0, z], [0, 1, z]] if turned else [[0, 0, z], [0, 1, z], [1, 0, z]] for z in depths]
    return world(triangles(*corners, flags=flags))


def surfaces(scene: World, rays: RayBatch = UP, **settings: object) -> int:
    result = scene.dispatcher.trace(rays, TraceSettings(x_ray=True, **settings))  # type: ignore[arg-type]
    assert not result.hits.hit.any()
    assert result.settings.x_ray
    return int(result.counters[0, Counter.COMMITS])


def test_every_layer_is_a_surface_whatever_lies_nearer() -> None:
    scene = layers(0, 1, 2, 3)
    own = scene.dispatcher.trace(UP, TraceSettings(), counters=True)
    assert own.hits.hit[0]
    assert own.counters[0, Counter.COMMITS] < 4
    assert surfaces(scene) == 4


@pytest.mark.rule("ACC-1", "AH-6")
@pytest.mark.parametrize("flags", [GeometryFlag.OPAQUE, GeometryFlag.NONE])
def test_neither_a_first_hit_nor_an_any_hit_program_ends_it(flags: GeometryFlag) -> None:
    scene = layers(0, 1, 2, flags=flags)
    assert surfaces(scene, ray_flags=RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH) == 3
    assert surfaces(scene, any_hit=AnyHitProgram.ACCEPT_AND_END_SEARCH) == 3


@pytest.mark.rule("AH-5")
def test_what_an_any_hit_program_ignores_is_no_surface() -> None:
    scene = layers(0, 1, 2, flags=GeometryFlag.NONE)
    assert surfaces(scene, any_hit=AnyHitProgram.IGNORE_ODD_PRIMITIVES) == 2
    assert surfaces(scene, any_hit=AnyHitProgram.IGNORE) == 0
    assert surfaces(scene, any_hit=AnyHitProgram.IGNORE, ray_flags=RayFlag.FORCE_OPAQUE) == 3


@pytest.mark.rule("RAY-6")
def test_the_interval_counts() -> None:
    scene = layers(0, 1, 2, 3)
    assert surfaces(scene, RayBatch.make([0.2, 0.2, -5], [0, 0, 1], 5.5, 7.5)) == 2


@pytest.mark.rule("MASK-1", "CULL-1", "CULL-3", "OPQ-3")
def test_flags_and_masks_count() -> None:
    front, back = layers(0, 1), layers(0, 1, turned=True)
    for culled, kept, flag in (
        (front, back, RayFlag.CULL_FRONT_FACING_TRIANGLES),
        (back, front, RayFlag.CULL_BACK_FACING_TRIANGLES),
    ):
        assert surfaces(culled, ray_flags=flag) == 0
        assert surfaces(kept, ray_flags=flag) == 2
    clear = layers(0, 1, flags=GeometryFlag.NONE)
    for scene, flag in (
        (front, RayFlag.CULL_OPAQUE),
        (clear, RayFlag.CULL_NON_OPAQUE),
        (clear, RayFlag.SKIP_TRIANGLES),
    ):
        assert surfaces(scene, ray_flags=flag) == 0
    assert surfaces(front, ray_flags=RayFlag.CULL_NON_OPAQUE) == 2  # cannot be had by forcing non-opaque (RF-2)
    part = triangles([[0, 0, 0], [0, 1, 0], [1, 0, 0]])
    masked = world(part, placements=[Placement(mask=1), Placement(mask=2, transform=translate(0, 0, 1))])
    assert [surfaces(masked, mask=mask) for mask in (1, 2, 3, 4)] == [1, 1, 2, 0]


def test_both_sides_of_a_procedural_are_surfaces() -> None:
    scene = world(boxes([-1, -1, 0, 1, 1, 2], [-1, -1, 4, 1, 1, 6]))
    for program in (IntersectionProgram.SPHERE, IntersectionProgram.BOX, IntersectionProgram.SPHERE_FAR_FIRST):
        assert surfaces(scene, intersection=program) == 4
    assert surfaces(scene, intersection=IntersectionProgram.NOTHING) == 0
    inside = RayBatch.make([0.2, 0.2, 1], [0, 0, 1], 0.0, 4.0)
    assert surfaces(scene, inside, intersection=IntersectionProgram.BOX) == 2


def test_the_log_names_the_surfaces() -> None:
    log = layers(0, 1, 2).dispatcher.walk(UP, TraceSettings(x_ray=True))
    passed = log.events[log.events["verdict"] == Verdict.SURFACE_PASSED]
    assert sorted(passed["t"].tolist()) == [5.0, 6.0, 7.0]
    assert np.isinf(log.events["t_current"]).all()
    box = world(boxes([-1, -1, 0, 1, 1, 2])).dispatcher.walk(
        RayBatch.make([0.2, 0.2, -5], [0, 0, 1], 0.0, 6.0),
        TraceSettings(x_ray=True, intersection=IntersectionProgram.BOX),
    )
    verdicts = [Verdict(int(v)) for v in box.events[box.events["level"] == 1]["verdict"]]
    assert verdicts.count(Verdict.SURFACE_PASSED) == 2  # the box, by its near side, and that side's report
    assert Verdict.AT_OR_BEYOND_CURRENT_END in verdicts  # the far side's


@pytest.mark.rule("HG-4")
def test_a_record_at_fault_behind_the_hit_is_an_error() -> None:
    parts = [triangles([[0, 0, z], [0, 1, z], [1, 0, z]], flags=GeometryFlag.OPAQUE) for z in (0, 1)]
    scene = world(parts)
    table = HitGroupTable((HitGroup(HitGroupType.TRIANGLES, ABSENT),))
    settings = TraceSettings(multiplier=1, hit_groups=table)
    first = replace(settings, ray_flags=RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH)
    assert scene.dispatcher.trace(UP, first).hits.hit[0]
    with pytest.raises(InvalidInputError, match="HG-4"):
        scene.dispatcher.trace(UP, replace(first, x_ray=True), counters=True)


def test_the_bit_of_the_x_ray_is_no_flag_that_a_user_can_set(monkeypatch: pytest.MonkeyPatch) -> None:
    from rtviewer.kernels.state import X_RAY

    scene = layers(0)
    assert X_RAY & max(int(flag) for flag in RayFlag) == 0
    with pytest.raises(InvalidInputError, match="RF-"):
        Dispatcher(scene.dispatcher.tlas, scene.dispatcher.blases).trace(UP, TraceSettings(ray_flags=X_RAY))
