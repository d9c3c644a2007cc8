import json
import math

import numpy as np
import pytest

from rtviewer.dxr.flags import BuildFlag, RayFlag
from rtviewer.dxr.profile import Profile, Tier
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.dxr.verdicts import Counter
from rtviewer.session.commands import Session
from rtviewer.session.document import Document
from rtviewer.session.events import (
    DocumentChanged,
    ImageChanged,
    JobEnded,
    LogChanged,
    PictureChanged,
    Refused,
)
from rtviewer.session.jobs import Lane
from rtviewer.session.state import RangeKind, State


@pytest.fixture
def session():
    session = Session(threads=2)
    yield session
    session.close()


def heard(session, kind):
    events = []
    session.listen(lambda event: events.append(event) if isinstance(event, kind) else None)
    return events


@pytest.mark.rule("RF-2", "RF-3", "RF-4")
@pytest.mark.parametrize(
    ("first", "second", "rule"),
    [
        (RayFlag.FORCE_OPAQUE, RayFlag.CULL_OPAQUE, "RF-2"),
        (RayFlag.CULL_BACK_FACING_TRIANGLES, RayFlag.SKIP_TRIANGLES, "RF-3"),
        (RayFlag.SKIP_TRIANGLES, RayFlag.SKIP_PROCEDURAL_PRIMITIVES, "RF-4"),
    ],
)
def test_an_illegal_ray_flag_changes_nothing_and_says_the_rule(session, first, second, rule):
    refusals = heard(session, Refused)
    assert session.set_ray_flag(first, True) is None
    before = session.state
    refusal = session.set_ray_flag(second, True)
    assert refusal.rules == (rule,)
    assert first.name in refusal.text
    assert second.name in refusal.text
    assert session.state is before
    assert [event.refusal for event in refusals] == [refusal]
    assert rule in session.ray_flag_refusals()[second]
    assert session.set_ray_flag(first, False) is None
    assert session.set_ray_flag(second, True) is None
    assert session.state.rays.ray_flags == second


def test_ray_flags_are_pasted_as_hlsl_hex_and_names_and_copied_back(session):
    both = RayFlag.FORCE_OPAQUE | RayFlag.CULL_BACK_FACING_TRIANGLES
    for text in ("RAY_FLAG_FORCE_OPAQUE | RAY_FLAG_CULL_BACK_FACING_TRIANGLES", "0x11", "force-opaque,0x10"):
        session.set_ray_flags(0)
        assert session.set_ray_flags(text) is None
        assert session.state.rays.ray_flags == both
    assert session.ray_flags_as_hlsl() == "RAY_FLAG_FORCE_OPAQUE | RAY_FLAG_CULL_BACK_FACING_TRIANGLES"
    session.set_ray_flags(0)
    assert session.ray_flags_as_hlsl() == "RAY_FLAG_NONE"
    assert "use a number or one of" in session.set_ray_flags("RAY_FLAG_SHINY").text
    assert session.set_ray_flags(0x2000).rules == ("RF-1",)
    assert session.state.rays.ray_flags == 0


def test_masks_and_intervals(session):
    assert session.set_mask("0x0F") is None
    assert session.state.rays.mask == 0x0F
    assert session.set_mask(0x101).rules == ("MASK-2",)
    assert "not a mask" in session.set_mask("all").text
    assert session.set_interval(0.5, math.inf) is None
    assert session.set_interval(2, 1).rules == ("RAY-2",)
    assert "RAY-3" in session.set_interval(0, math.nan).rules
    assert (session.state.rays.t_min, session.state.rays.t_max) == (0.5, math.inf)


def test_shader_table_arguments_have_their_widths(session):
    assert session.set_shader_table(15, 15, 0xFFFF) is None
    assert session.set_shader_table(ray_contribution=16).rules == ("HG-1",)
    assert session.set_shader_table(multiplier=-1).rules == ("HG-1",)
    assert session.set_shader_table(miss_index=0x10000).rules == ("HG-2",)
    assert session.state.rays.ray_contribution == 15


def test_build_flags_are_refused_by_rule_or_as_not_there_yet(session):
    for flag, reason in session.unavailable_build_flags().items():
        before = session.state
        refusal = session.set_build_flag("blas", flag, True)
        assert session.state is before
        assert reason in refusal.text or "BF-1" in refusal.rules
    assert session.set_build_flags("tlas", "PREFER_FAST_TRACE|PREFER_FAST_BUILD").rules == ("BF-2",)
    assert "BuildFlag" in session.set_build_flags("tlas", "QUICK").text
    assert session.state.build.tlas_flags is BuildFlag.NONE


def test_modes_palettes_ranges_and_sizes_are_checked(session):
    assert session.set_image_mode("nodes_visited") is None
    assert "shaded" in session.set_image_mode("pretty").text
    assert session.set_palette("turbo") is None
    assert "viridis" in session.set_palette("rainbow").text
    assert session.set_range("percentile", 1, 99) is None
    assert "0 to 100" in session.set_range(RangeKind.PERCENTILE, 1, 101).text
    assert "finite" in session.set_range("fixed", 0, math.inf).text
    assert "automatic" in session.set_range("wide").text
    assert "cannot be traced" in session.set_image_size(0, 5).text
    image = session.state.image
    assert (image.mode, image.palette, image.range_kind, image.range_high) == (
        "nodes_visited",
        "turbo",
        "percentile",
        99,
    )


def test_a_profile_is_refused_while_a_flag_needs_another(session):
    assert session.set_profile(Profile(Tier.TIER_1_1, xbox=True)) is None
    assert session.set_ray_flag(RayFlag.COHERENT_RAYS_HINT, True) is None
    assert session.set_profile(Profile()).rules == ("RF-1",)
    assert session.state.profile.xbox
    session.set_ray_flag(RayFlag.COHERENT_RAYS_HINT, False)
    assert session.set_profile(Profile()) is None


def test_opening_a_bad_file_keeps_what_is_open(session, tmp_path, world, scene):
    session.show_document(Document(None, scene, world))
    ends, documents = heard(session, JobEnded), heard(session, DocumentChanged)
    session.open(tmp_path / "none.obj")
    assert session.wait()
    assert [(e.lane, "none.obj" in str(e.error)) for e in ends] == [(Lane.DOCUMENT, True)]
    assert documents == []
    assert session.world is world


def test_open_rebuild_and_close(session, tmp_path):
    path = tmp_path / "one.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    documents = heard(session, DocumentChanged)
    session.open(path)
    assert session.wait()
    assert session.document.path == path
    first = session.world
    session.rebuild()
    assert session.wait()
    assert session.world is not first
    assert session.world.generation > first.generation
    session.close_document()
    assert session.world is None
    assert [event.is_rebuild for event in documents] == [False, True, False]
    assert session.rebuild() is None


def test_opening_takes_over_programs_and_camera(session, scene, world):
    from dataclasses import replace

    changed = replace(scene, any_hit=AnyHitProgram.IGNORE)
    session.pick_pixel(1, 1)
    session.show_document(Document(None, changed, world))
    assert session.state.rays.any_hit is AnyHitProgram.IGNORE
    assert session.state.camera == scene.cameras[0]
    assert session.state.pick is None


def test_a_toggled_flag_gives_a_new_picture_that_echoes_it(live):
    images, pictures = heard(live, ImageChanged), heard(live, PictureChanged)
    assert live.image.instance_index[18, 32] == 0
    live.set_mask(0x01)
    assert live.wait()
    steps = [event.buffer.step for event in images]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] > steps[-1] == 1
    assert all(event.buffer.rays.mask == 0x01 for event in images)
    assert live.image.instance_index[18, 32] == 1
    assert pictures[-1].buffer is live.image
    assert pictures[-1].shaded.rgba.shape == (36, 64, 4)


def test_only_a_mode_that_needs_counters_traces_anew(live):
    images, pictures = heard(live, ImageChanged), heard(live, PictureChanged)
    live.set_image_mode("normal")
    live.set_palette("magma")
    assert live.wait()
    assert images == []
    assert pictures[-1].shaded.mode.name == "normal"
    live.set_image_mode("box_tests")
    assert live.wait()
    assert images[-1].is_complete
    assert live.image.counter(Counter.BOX_TESTS).max() > 0
    assert pictures[-1].shaded.mode.name == "box_tests"
    count = len(images)
    live.set_range("fixed", 0, 7)
    assert live.wait()
    assert len(images) == count
    assert pictures[-1].shaded.high == 7


def test_the_log_follows_pick_flags_and_camera(live):
    logs = heard(live, LogChanged)
    live.pick_pixel(32, 18)
    assert live.wait()
    assert live.log.result.instance_index == 0
    live.set_mask(0x01)
    assert live.wait()
    assert live.log.result.instance_index == 1
    live.use_camera("behind")
    assert live.wait()
    assert live.log.result.instance_index == 3
    live.log_ray((3, 0, 10), (0, 0, -1))
    assert live.wait()
    assert live.log.result.instance_index == 4
    assert live.state.pick is None
    live.clear_pick()
    assert live.wait()
    assert live.log is None
    assert logs[-1].log is None
    assert "outside" in live.pick_pixel(64, 0).text


def test_log_and_image_agree(live):
    for x, y in [(32, 18), (10, 10), (45, 18), (0, 0), (40, 20)]:
        live.pick_pixel(x, y)
        assert live.wait()
        assert live.log.result.instance_index == live.image.instance_index[y, x]
        assert np.float32(live.log.result.t) == live.image.t[y, x]


def test_selecting_fills_in_structure_and_box(live):
    live.select(instance=4)
    selection = live.state.selection
    assert selection.structure == -1
    assert live.world.tree(-1).leaf_items(selection.box)[:, 0].tolist().count(4) == 1
    live.select(instance=3, geometry=1, primitive=1)
    selection = live.state.selection
    assert selection.structure == 1
    assert [1, 1] in live.world.tree(1).leaf_items(selection.box).tolist()
    live.select(structure=9)
    assert live.state.selection.structure == -1


def test_a_click_in_the_view_selects_what_it_shows(live):
    camera = live.document.scene.cameras[0]
    live.set_mask(0)  # what the picture masks is still there to be selected
    live.select_at(camera, 200, 100, 100, 50)
    assert live.wait()
    assert (live.state.selection.instance, live.state.selection.structure) == (0, 0)
    live.select_at(camera, 200, 100, 0, 0)
    assert live.wait()
    assert live.state.selection.instance == -1
    live.set_scope(1)
    live.select_at(camera, 200, 100, 100, 50)
    assert live.wait()
    selection = live.state.selection
    assert (selection.structure, selection.instance) == (1, -1)
    assert selection.primitive in (0, 1)
    assert "no structure 4" in live.set_scope(4).text


def test_cameras_fit_without_turning(live):
    before = live.state.camera.basis()
    live.fit_camera()
    assert np.allclose(live.state.camera.basis(), before)
    low, high = live.world.bounds
    assert np.allclose(live.state.camera.look_at, (low + high) / 2)
    live.select(instance=4)
    live.focus_selection()
    assert np.allclose(live.state.camera.look_at, (3, 0, 0), atol=1e-5)
    assert "no camera" in live.use_camera("side").text


def test_a_ray_is_copied_as_hlsl(session, live):
    assert "float3(" in session.ray_desc_text()
    live.log_ray((1, 2, 3.5), (0, 0, -1))
    live.set_interval(0.25, math.inf)
    live.set_ray_flags("FORCE_OPAQUE")
    live.set_mask(0x7F)
    text = live.ray_desc_text()
    assert "ray.Origin = float3(1, 2, 3.5);" in text
    assert "ray.TMin = 0.25;" in text
    assert "ray.TMax = asfloat(0x7F800000);" in text
    assert "TraceRay(scene, RAY_FLAG_FORCE_OPAQUE, 0x7F, 0, 1, 0, ray, payload);" in text


def test_equal_values_tell_nobody(session):
    changes = []
    session.store.subscribe(lambda old, new, changed: changes.append(changed))
    session.set_mask(0xFF)
    session.set_ray_flags(0)
    assert changes == []
    session.set_mask(1)
    assert changes == [frozenset({"rays"})]
    assert session.state == State(rays=session.state.rays)


def test_a_session_that_is_not_live_works_only_on_demand(session, scene, world):
    images = heard(session, ImageChanged)
    session.set_image_size(16, 16)
    session.show_document(Document(None, scene, world))
    session.set_mask(1)
    assert session.wait()
    assert images == []
    session.trace_now()
    session.pick_pixel(8, 8)
    session.explain_now()
    assert session.wait()
    assert images[-1].is_complete
    assert json.dumps(session.log.to_json(), allow_nan=False)
