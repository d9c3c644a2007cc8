"""Which pictures a live session shows while newer ones are asked for, and when it loads what."""

from __future__ import annotations

import time
from dataclasses import replace

from rtviewer import kernels
from rtviewer.dxr.flags import RayFlag
from rtviewer.session.commands import Session
from rtviewer.session.document import Document
from rtviewer.session.events import ImageChanged, PictureChanged
from rtviewer.session.warming import LONGEST_WAIT_SECONDS


def told(session) -> list[ImageChanged]:
    events: list[ImageChanged] = []
    session.listen(lambda event: events.append(event) if isinstance(event, ImageChanged) else None)
    return events


def moved(camera, step: float):
    x, y, z = camera.position
    return replace(camera, position=(x + step, y, z))


def test_every_camera_of_a_fast_hand_is_seen_in_order(live):
    """Each picture is asked for before the one under way is done: coarse ones come all the same."""
    images, start = told(live), live.state.camera
    for number in range(1, 30):
        live.set_camera(moved(start, 0.01 * number))
        time.sleep(0.01)
        live.pump()
    assert live.wait()
    cameras = [event.buffer.camera.position[0] for event in images]
    assert cameras == sorted(cameras)
    assert len(set(cameras)) > 10
    assert images[-1].is_complete
    assert images[-1].buffer.camera == live.state.camera


def test_an_overtaken_picture_with_other_rays_is_not_shown(live):
    images = told(live)
    live.set_camera(moved(live.state.camera, 0.1))
    live.set_ray_flag(RayFlag.CULL_BACK_FACING_TRIANGLES, True)
    assert live.wait()
    assert {event.buffer.rays.ray_flags for event in images} == {RayFlag.CULL_BACK_FACING_TRIANGLES}


def test_kernels_that_the_first_picture_does_not_need_wait_for_it(scene, world, monkeypatch):
    said: list[str] = []
    pictures: list[int] = []

    def steps(report):
        for number, name in enumerate(("first", "second", "third")):
            report(number / 3, name)
            said.append(f"{name} after {len(pictures)}")

    monkeypatch.setattr(kernels, "warm_up", steps)
    session = Session(live=True, threads=1)
    try:
        session.listen(lambda event: pictures.append(1) if isinstance(event, PictureChanged) else None)
        session.set_image_size(32, 18)
        job = session.warm_up(after_first_picture=True)
        assert not job.wait(0.3)
        assert said == ["first after 0"]
        session.show_document(Document(None, scene, world))
        assert session.wait()
        assert [text.split()[0] for text in said] == ["first", "second", "third"]
        assert not any(text.endswith(" 0") for text in said[1:])
    finally:
        session.close()


def test_without_a_scene_nothing_waits(monkeypatch):
    monkeypatch.setattr(kernels, "warm_up", lambda report: [report(n / 2, "step") for n in range(2)])
    session = Session(live=True, threads=1)
    try:
        assert session.warm_up().wait(5.0)
    finally:
        session.close()


def test_warm_up_does_not_wait_for_a_picture_that_never_comes(monkeypatch, tmp_path):
    """What was opened is no scene: the rest is loaded at once, and a window with it settles."""
    monkeypatch.setattr(kernels, "warm_up", lambda report: [report(n / 3, "step") for n in range(3)])
    path = tmp_path / "foreign.rtblob"
    path.write_bytes(bytes(range(256)) * 4)
    session = Session(live=True, threads=1)
    try:
        job = session.warm_up(after_first_picture=True)
        session.open(path)
        assert session.wait(LONGEST_WAIT_SECONDS / 2)
        assert job.is_done()
    finally:
        session.close()


def test_a_listener_may_end_late(tmp_path):
    session = Session()
    end = session.listen(lambda event: None)
    session.close()
    end()
    end()
