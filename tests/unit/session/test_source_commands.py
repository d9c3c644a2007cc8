"""Verbs on ray sources and on the list of rays, as window and scripts call them."""

from dataclasses import replace

import numpy as np
import pytest

from rtviewer.dxr.counters import Counter
from rtviewer.dxr.flags import RayFlag
from rtviewer.io.ray_file import read_rays, write_ray_columns
from rtviewer.scene.ray_sources import DiffuseRays, OcclusionRays, ShadowRays, SourceKind, default_light
from rtviewer.session.commands import Session
from rtviewer.session.document import Document, build_world
from rtviewer.session.events import JobEnded, RaysChanged, Refused
from rtviewer.session.image_tracing import trace_image
from rtviewer.session.jobs import Lane
from rtviewer.session.state import SourceSettings


def heard(session, kind):
    events = []
    session.listen(lambda event: events.append(event) if isinstance(event, kind) else None)
    return events


def picked(session):
    """Pick a pixel that the camera sees something at."""
    seen = session.image.receivers.has_ray if session.image.receivers is not None else session.image.hit
    y, x = np.argwhere(seen)[len(np.argwhere(seen)) // 2].tolist()
    session.pick_pixel(x, y)
    assert session.wait()
    return x, y


def write_rays(path, count=50, **changes):
    random = np.random.default_rng(1)
    origin = np.tile(np.float32([0, 0, 10]), (count, 1))
    made = {
        "origin": origin,
        "direction": (np.concatenate([random.uniform(-2, 4, (count, 2)), np.zeros((count, 1))], 1) - origin),
        "t_min": np.zeros(count),
        "t_max": np.full(count, np.inf),
    }
    np.savez(path, **{name: np.float32(values) for name, values in made.items()}, **changes)
    return path


# --- the picture's source -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["shadow", "diffuse", "occlusion"])
def test_the_picture_is_of_the_source_set(live, kind):
    assert live.set_source(kind) is None
    assert live.wait()
    request = live.image.request
    assert request.source == live.state.source.of(SourceKind(kind))
    alone = trace_image(request.world, request.camera, (64, 36), request.rays, source=request.source)
    assert np.array_equal(live.image.hit, alone.hit)
    assert live.set_source(SourceKind.CAMERA) is None
    assert live.wait()
    assert live.image.receivers is None


def test_an_x_ray_of_a_source_is_counted_logged_and_stepped(live):
    """Source, x-ray mode and stepping together: the picture, the log and the question are of the same shadow ray."""
    assert live.set_source("shadow") is None
    live.toggle_x_ray()
    assert live.wait()
    x, y = picked(live)
    log, picture = live.log, live.image
    assert (log.source, log.x_ray) == (SourceKind.SHADOW, True)
    assert picture.receivers is not None
    assert log.x_ray_counters[Counter.COMMITS] == picture.x_ray[y, x, Counter.COMMITS]
    assert live.step_log() is None
    assert live.state.log_position == 0
    assert live.expect(0) is None
    assert live.explanation.sentence.startswith("instance 0")
    assert live.explanation.events == (), "the ray's own events are not those of its x-ray"
    live.toggle_x_ray()
    assert live.wait()
    assert (live.log.source, live.log.x_ray, live.state.log_position) == (SourceKind.SHADOW, False, -1)


def test_sources_that_make_no_picture_are_refused(live):
    refusals = heard(live, Refused)
    for kind in (SourceKind.TYPED, SourceKind.FILE, "moon"):
        assert "makes a picture: there are camera, shadow, diffuse, occlusion" in live.set_source(kind).text
    assert len(refusals) == 3
    assert live.state.source == SourceSettings()


def test_parameters_keep_what_was_set_while_another_source_is_used(live):
    live.set_source("occlusion")
    assert live.set_source_parameter("samples", 3) is None
    assert live.set_source_parameter("radius", 2.5) is None
    live.set_source("shadow")
    assert live.set_light((1.0, 2.0, 3.0)) is None
    live.set_source("occlusion")
    assert live.state.source.active == OcclusionRays(2.5, 3)
    assert live.state.source.shadow == ShadowRays((1.0, 2.0, 3.0))
    assert live.set_source_parameter("radius", None) is None
    assert live.state.source.active.radius is None
    assert live.set_source_parameter("light", [4.0, 5.0, 6.0], SourceKind.SHADOW) is None
    assert live.state.source.shadow.light == (4.0, 5.0, 6.0)


def test_parameters_that_cannot_be_are_refused(live):
    live.set_source("occlusion")
    for name, value, said in (
        ("samples", 0, "samples: a whole number from 1 to 64"),
        ("shown", 8, "shown: the samples are 0 to 7"),
        ("radius", -1.0, "radius: a number above 0"),
        ("light", (0, 0, 0), "has no parameter 'light'"),
    ):
        assert said in live.set_source_parameter(name, value).text
    assert "three finite numbers" in live.set_light((0.0, 0.0, float("inf"))).text
    assert "has no parameter" in live.set_source_parameter("origin", (0, 0, 0), SourceKind.TYPED).text
    assert live.state.source.active == OcclusionRays()


@pytest.mark.rule("RAY-2")
def test_an_interval_that_leaves_no_room_is_refused_from_both_sides(live):
    assert live.set_interval(2.0, 5.0) is None
    refusal = live.set_source("shadow")
    assert refusal.rules == ("RAY-2",)
    assert live.state.source.kind is SourceKind.CAMERA
    assert live.set_interval(0.5, float("inf")) is None
    assert live.set_source("shadow") is None
    assert live.set_interval(1.5, float("inf")).rules == ("RAY-2",)
    assert live.state.rays.t_min == 0.5
    assert live.set_interval(float("nan"), 1.0).rules == ("RAY-3",)
    assert live.set_source_parameter("radius", 0.25, SourceKind.OCCLUSION) is None
    assert live.set_source("occlusion").rules == ("RAY-2",)


def test_the_light_by_itself_and_at_the_eye(live, world):
    assert live.light_position() is None
    live.set_source("shadow")
    assert live.light_position() == default_light(world.bounds)
    assert live.light_at_eye() is None
    assert live.light_position() == live.state.camera.position
    live.set_light(None)
    assert live.light_position() == default_light(world.bounds)


def test_another_scene_brings_its_own_source(live, scene, world):
    live.set_source("shadow")
    live.set_light((9.0, 9.0, 9.0))
    other = build_world(replace(scene, ray_source=DiffuseRays(7)))
    live.show_document(Document(None, other.scene, other))
    assert live.state.source == SourceSettings(kind=SourceKind.DIFFUSE, diffuse=DiffuseRays(7))
    assert live.wait()
    assert live.image.request.source == DiffuseRays(7)
    live.show_document(Document(None, scene, world))
    assert live.state.source == SourceSettings()


# --- logs ---------------------------------------------------------------------------------------------------------


def test_the_log_is_of_the_sources_ray_or_of_the_cameras(live):
    live.set_source("shadow")
    assert live.wait()
    pixel = picked(live)
    log = live.log
    assert log.source is SourceKind.SHADOW
    assert log.pixel == pixel
    assert log.rays.t_max == 1.0
    assert "ray.TMax = 1;" in live.ray_desc_text()
    live.log_camera_ray(True)
    assert live.wait()
    assert live.log.source is SourceKind.CAMERA
    assert live.log.pixel == pixel
    images = live.image
    live.log_camera_ray(False)
    assert live.wait()
    assert live.image is images, "which ray is logged is no business of the picture"
    assert live.log.origin == log.origin
    live.set_source("camera")
    assert live.wait()
    assert live.log.source is SourceKind.CAMERA


def test_moving_the_light_logs_anew(live):
    live.set_source("shadow")
    assert live.wait()
    picked(live)
    before = live.log
    live.set_light((0.5, 3.0, 12.0))
    assert live.wait()
    assert live.log.origin == before.origin
    assert live.log.direction != before.direction
    reached = np.array(live.log.origin) + live.log.direction
    assert np.allclose(reached, (0.5, 3.0, 12.0), atol=1e-5)


def test_a_pinned_ray_keeps_what_its_source_made_of_the_settings(live):
    live.set_source("shadow")
    assert live.wait()
    picked(live)
    log = live.log
    live.pin_ray()
    assert live.wait()
    typed = live.state.typed_ray
    assert live.state.pick is None
    assert (typed.t_max, typed.t_min, typed.mask, typed.ray_flags) == (1.0, None, None, None)
    assert typed.source is SourceKind.SHADOW
    assert live.log.result == log.result
    live.set_mask(0x02)
    assert live.wait()
    assert live.log.rays.mask == 0x02, "the rest follows the pane"
    assert live.log.rays.t_max == 1.0
    assert "ray.TMax = 1;" in live.ray_desc_text()
    live.pin_ray()
    assert live.state.typed_ray == typed, "a ray that stands already is not pinned again"


def test_a_pinned_camera_ray_of_another_source_stays_plain(live):
    live.set_mask(0x01)
    live.set_source("diffuse")
    live.log_camera_ray(True)
    assert live.wait()
    picked(live)
    live.pin_ray()
    assert live.wait()
    assert live.state.typed_ray.mask == 0xFF
    assert live.log.rays.mask == 0xFF


# --- the list of rays ---------------------------------------------------------------------------------------------


def test_rays_are_opened_traced_and_logged(live, tmp_path):
    told = heard(live, RaysChanged)
    path = write_rays(tmp_path / "rays.npz", mask=np.full(50, 0x01, np.uint32))
    live.open_rays(path)
    assert live.wait()
    rays = live.ray_list
    assert told[-1].rays is rays
    assert len(rays) == 50
    assert 0 < rays.hits.hit.sum() < 50
    for index in (0, 17):
        assert live.log_listed_ray(index) is None
        assert live.wait()
        log = live.log
        assert (log.source, log.list_index) == (SourceKind.FILE, index)
        assert log.result.hit == rays.hits.hit[index]
        assert log.rays.mask == 0x01
    assert "there is no ray 50" in live.log_listed_ray(50).text
    live.close_rays()
    assert told[-1].rays is None
    assert live.ray_list is None
    assert "there is no ray 0" in live.log_listed_ray(0).text


def test_the_list_follows_settings_and_scenes(live, scene, tmp_path):
    live.open_rays(write_rays(tmp_path / "rays.npz"))
    assert live.wait()
    before = live.ray_list
    live.set_mask(0)
    assert live.wait()
    assert live.ray_list is not before
    assert not live.ray_list.hits.hit.any()
    live.set_mask(0xFF)
    other = build_world(replace(scene, instances=scene.instances[4:5]))
    live.show_document(Document(None, other.scene, other))
    assert live.wait()
    assert live.ray_list.world is other
    assert live.ray_list.table is before.table
    live.close_document()
    assert live.ray_list is None


def test_a_ray_that_breaks_a_rule_is_listed_and_not_logged(live, tmp_path):
    path = write_rays(tmp_path / "rays.npz", flags=np.array([0x300] + [0] * 49, np.uint32))
    live.open_rays(path)
    assert live.wait()
    refusal = live.log_listed_ray(0)
    assert "ray 0 was not traced: [RF-4]" in refusal.text
    assert live.state.typed_ray is None
    assert live.log_listed_ray(1) is None
    assert live.wait()
    assert live.log.rays.ray_flags is RayFlag.NONE


def test_rays_need_a_scene_and_a_sound_file(live, tmp_path):
    ended = heard(live, JobEnded)
    live.open_rays(tmp_path / "missing.csv")
    assert live.wait()
    assert "there is no such file" in str(ended[-1].error)
    assert ended[-1].lane is Lane.RAYS
    live.open_rays(write_rays(tmp_path / "rays.npz"))
    assert live.wait()
    kept = live.ray_list
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    live.open_rays(tmp_path / "bad.csv")
    assert live.wait()
    assert live.ray_list is kept
    session = Session(threads=1)
    try:
        assert "open one first" in session.open_rays(tmp_path / "rays.npz").text
        assert "no list of rays" in session.export_rays(tmp_path / "out.csv").text
    finally:
        session.close()


def test_results_are_exported(live, tmp_path):
    live.open_rays(write_rays(tmp_path / "rays.npz"))
    assert live.wait()
    for name in ("out.npz", "out.csv"):
        live.export_rays(tmp_path / name)
        assert live.wait()
        again = read_rays(tmp_path / name)
        assert np.array_equal(again.direction, live.ray_list.table.direction)
    with np.load(tmp_path / "out.npz") as arrays:
        assert np.array_equal(arrays["t"], live.ray_list.hits.t)
    assert "unknown kind of ray file" in live.export_rays(tmp_path / "out.txt").text


def test_a_session_that_is_not_live_traces_rays_when_it_is_asked(world, scene, tmp_path):
    session = Session(threads=1)
    try:
        session.show_document(Document(None, scene, world))
        write_ray_columns(tmp_path / "one.csv", {
            "origin": np.float32([[0, 0, 10]]), "direction": np.float32([[0, 0, -1]]),
            "t_min": np.zeros(1, np.float32), "t_max": np.full(1, np.inf, np.float32),
        })  # fmt: skip
        session.open_rays(tmp_path / "one.csv")
        assert session.wait()
        assert session.ray_list.hits.hit.tolist() == [True]
        session.set_mask(0)
        assert session.wait()
        assert session.ray_list.hits.hit.tolist() == [True]
        session.trace_rays()
        assert session.wait()
        assert session.ray_list.hits.hit.tolist() == [False]
    finally:
        session.close()
