"""A picture's file, and the verbs on the picture."""

import numpy as np
import pytest
from PIL import Image

from rtviewer.dxr.counters import X_RAY_COUNTERS, Counter
from rtviewer.errors import FileFormatError, RtviewerError
from rtviewer.session.commands import Session
from rtviewer.session.document import Document
from rtviewer.session.events import Refusal
from rtviewer.session.image import shade_image
from rtviewer.session.image_tracing import trace_image
from rtviewer.session.picture_file import check_picture_path, hit_arrays, save_picture
from rtviewer.session.state import ImageSettings, RaySettings
from rtviewer.shade.modes import MODES
from rtviewer.shade.palettes import PALETTES

SIZE = (64, 36)


@pytest.fixture(scope="module")
def buffer(world, scene):
    return trace_image(world, scene.camera, SIZE, RaySettings(), counters=True, x_ray=True)


@pytest.fixture
def live(world, scene):
    session = Session(live=True, threads=2)
    session.set_image_size(*SIZE)
    session.show_document(Document(None, scene, world))
    assert session.wait()
    yield session
    session.close()


def test_png_with_and_without_legend(buffer, tmp_path):
    settings = ImageSettings("x_ray_surfaces")
    save_picture(tmp_path / "a.png", buffer, settings, legend=False)
    save_picture(tmp_path / "b.png", buffer, settings)
    plain, full = (np.asarray(Image.open(tmp_path / name)) for name in ("a.png", "b.png"))
    assert np.array_equal(plain, shade_image(buffer, settings).rgba)
    left = (full.shape[1] - SIZE[0]) // 2
    assert np.array_equal(full[: SIZE[1], left : left + SIZE[0]], plain)
    assert full.shape[0] > SIZE[1] + 40


def test_exr_holds_numbers_and_npz_everything(buffer, tmp_path):
    save_picture(tmp_path / "a.NPZ", buffer, ImageSettings())
    with np.load(tmp_path / "a.NPZ") as arrays:
        assert set(arrays.files) == set(hit_arrays(buffer))
        for counter in Counter:
            assert np.array_equal(arrays[counter.key], buffer.counter(counter))
        for counter in X_RAY_COUNTERS:
            assert np.array_equal(arrays[counter.key], buffer.x_ray_counter(counter))
        assert (arrays["x_ray_surfaces"] >= arrays["hit"]).all()
    exr = pytest.importorskip("OpenEXR")
    save_picture(tmp_path / "a.exr", buffer, ImageSettings("x_ray_nodes"))
    with exr.File(str(tmp_path / "a.exr")) as file:
        assert np.array_equal(file.channels()["Y"].pixels, hit_arrays(buffer)["x_ray_nodes"].astype(np.float32))


def test_other_suffixes_and_missing_counters_are_refused(world, scene, tmp_path):
    with pytest.raises(FileFormatError, match=r"\.png, \.exr, \.npz"):
        check_picture_path(tmp_path / "a.tiff")
    bare = trace_image(world, scene.camera, SIZE, RaySettings())
    with pytest.raises(RtviewerError, match="without an x-ray"):
        bare.x_ray_counter(X_RAY_COUNTERS[0])
    with pytest.raises(RtviewerError, match="x-ray"):
        save_picture(tmp_path / "a.png", bare, ImageSettings("x_ray_surfaces"))
    assert set(hit_arrays(bare)) & {counter.key for counter in Counter} == set()
    assert list(tmp_path.iterdir()) == []


def test_the_x_ray_comes_and_goes_with_picture_and_log(live):
    live.set_image_mode("normal")
    live.pick_pixel(32, 18)
    assert live.wait()
    assert live.image.x_ray is None
    assert not live.log.x_ray
    live.toggle_x_ray()
    assert live.wait()
    assert live.state.image.mode == "x_ray_surfaces"
    assert live.shaded.mode.name == "x_ray_surfaces"
    assert live.log.x_ray
    surfaces = live.log.x_ray_count(X_RAY_COUNTERS[0])
    assert surfaces == live.image.x_ray_counter(X_RAY_COUNTERS[0])[18, 32] > 1
    assert live.log.result.hit
    live.toggle_x_ray()
    assert live.wait()
    assert live.state.image.mode == "normal"
    assert not live.log.x_ray
    assert live.log.x_ray_count(X_RAY_COUNTERS[0]) == surfaces


def test_modes_and_palettes_are_stepped_through_around_the_end(live):
    names = []
    for _ in MODES:
        names.append(live.state.image.mode)
        live.step_image_mode(1)
    assert names == list(MODES)
    live.step_image_mode(-1)
    assert live.state.image.mode == list(MODES)[-1]
    for name in list(PALETTES)[1:] + list(PALETTES)[:1]:
        live.step_palette(1)
        assert live.state.image.palette == name


def test_saving_runs_in_the_background_and_refuses_at_once(live, tmp_path):
    live.save_image(tmp_path / "a.png")
    assert live.wait()
    assert (tmp_path / "a.png").exists()
    with pytest.raises(FileFormatError):
        live.save_image(tmp_path / "a.jpg")
    live.close_document()
    assert isinstance(live.save_image(tmp_path / "b.png"), Refusal)


def test_an_expected_thing_is_explained_by_the_ray_itself(world):
    from rtviewer.session.raylog import walk_ray

    ray = ((0.25, 0.1, 10.0), (0.0, 0.0, -1.0))
    plain, through = (walk_ray(world, *ray, RaySettings(), x_ray=x_ray) for x_ray in (False, True))
    for instance in range(4):
        assert through.why_not(instance) == plain.why_not(instance)
    assert plain.counters == through.counters
    assert plain.x_ray_counters == through.x_ray_counters
    texts = [row.text for row in through if row.verdict.name == "SURFACE_PASSED"]
    assert len(texts) == through.x_ray_count(X_RAY_COUNTERS[0])
    assert all("goes on" in text for text in texts)
    assert through.to_json()["counters"]["x_ray_surfaces"] == len(texts)


def test_scripts_get_arrays_logs_and_files(world, scene, tmp_path):
    image = world.trace(scene.camera, size=SIZE, x_ray=True)
    surfaces = image.x_ray_counter("surfaces")
    y, x = np.unravel_index(np.argmax(surfaces), surfaces.shape)
    log = world.explain((int(x), int(y)), camera=scene.camera, size=SIZE, x_ray=True)
    assert sum(row.verdict.name == "SURFACE_PASSED" and row.kind.name == "CANDIDATE" for row in log) <= surfaces[y, x]
    assert log.x_ray_count(X_RAY_COUNTERS[0]) == surfaces[y, x] > 1
    image.save(tmp_path / "a.png", "x_ray_surfaces", "turbo")
    assert (tmp_path / "a.png").exists()
    with pytest.raises(RtviewerError, match="no x-ray counter 'planes': there are surfaces"):
        image.x_ray_counter("planes")
