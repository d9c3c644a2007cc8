"""Images of every source agree with the logs of their pixels, whatever the threads, tiles and passes."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.programs import IntersectionProgram
from rtviewer.dxr.shader_table import ABSENT, AS_GIVEN, HitGroup, HitGroupTable, HitGroupType
from rtviewer.dxr.verdicts import Counter
from rtviewer.errors import CancelledError, InvalidInputError, RtviewerError
from rtviewer.io.registry import load_scene
from rtviewer.scene.camera import Camera
from rtviewer.scene.generators import icosphere
from rtviewer.scene.ray_sources import (
    IMAGE_SOURCES,
    CameraRays,
    DiffuseRays,
    OcclusionRays,
    ShadowRays,
    SourceKind,
    resolved,
    spec_of,
)
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session import image_tracing
from rtviewer.session.document import build_world, scene_rays
from rtviewer.session.image import ImageRequest, shade_image
from rtviewer.session.image_tracing import trace_image, trace_passes
from rtviewer.session.source_rays import ray_of_pixel
from rtviewer.session.state import ImageSettings, RaySettings
from rtviewer.shade.heatmap import NO_VALUE
from rtviewer.shade.modes import MODES
from rtviewer.shade.picture import RECEIVER_FIELDS
from rtviewer.trace.request import HIT_FIELDS

SIZE = (96, 54)
SENT = [ShadowRays((2.0, 5.0, 4.0)), DiffuseRays(3), OcclusionRays(2.0, 5, 2, 9)]
LIGHT = (0.0, 4.0, 0.0)


@pytest.fixture(scope="module")
def ball():
    """A ball above a floor, seen from above at an angle."""
    mesh = icosphere(3, 1.0, (0.0, 2.0, 0.0))
    sphere = TrianglesGeometry(mesh.vertices, mesh.indices)
    corners = np.array([[-9, 0, -9], [9, 0, -9], [9, 0, 9], [-9, 0, 9]], np.float32)
    floor = TrianglesGeometry(corners, np.array([[0, 2, 1], [0, 3, 2]], np.uint32))
    camera = Camera((0.0, 6.0, 9.0), (0.0, 1.0, 0.0))
    return build_world(
        Scene("ball", (BlasInputs((sphere,)), BlasInputs((floor,))), (Instance(0), Instance(1)), (camera,))
    )


def same_pictures(a, b):
    for name, _, _, _ in HIT_FIELDS:
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    assert np.array_equal(a.counters, b.counters)
    assert np.array_equal(a.x_ray, b.x_ray)
    for name, _, _, _ in RECEIVER_FIELDS:
        one, other = (getattr(picture.receivers, name) for picture in (a, b))
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f"), name


@pytest.mark.parametrize("source", SENT, ids=lambda s: spec_of(s).kind)
def test_picture_and_log_of_a_pixel_tell_the_same(world, scene, source):
    rays = RaySettings(ray_flags=RayFlag.CULL_BACK_FACING_TRIANGLES, mask=0xFD)
    picture = trace_image(world, scene.cameras[0], SIZE, rays, counters=True, x_ray=True, source=source)
    seen = picture.receivers
    assert seen is not None
    assert not picture.x_ray[~seen.has_ray].any()
    surfaces = picture.x_ray_counter("surfaces")
    assert np.array_equal(surfaces > 0, picture.hit)
    if not isinstance(source, OcclusionRays):  # too short to reach anything behind
        assert (surfaces > picture.hit).any(), "surfaces behind the first hit"
    assert seen.has_ray.any()
    assert not seen.has_ray.all()
    for y, x in np.argwhere(seen.has_ray)[::7].tolist():
        log = picture.explain((x, y))
        assert log.source == spec_of(source).kind
        assert np.array_equal(np.float32(log.origin), seen.origin[y, x])
        assert np.array_equal(np.float32(log.direction), seen.direction[y, x])
        assert np.float32(log.rays.t_max) == seen.t_end[y, x]
        assert (log.rays.ray_flags, log.rays.mask) == (rays.ray_flags, rays.mask)
        assert log.result.hit == picture.hit[y, x]
        if log.result.hit:
            assert np.float32(log.result.t) == picture.t[y, x]
            assert log.result.instance_index == picture.instance_index[y, x]
            assert log.result.primitive_index == picture.primitive_index[y, x]
        assert [log.counters[c] for c in Counter] == picture.counters[y, x].tolist()
        result = picture.trace_pixel((x, y))
        assert result.counters[0].tolist() == picture.counters[y, x].tolist()
        assert [log.x_ray_counters[c] for c in Counter] == picture.x_ray[y, x].tolist()
        assert picture.trace_pixel((x, y), x_ray=True).counters[0].tolist() == picture.x_ray[y, x].tolist()


@pytest.mark.parametrize("source", SENT, ids=lambda s: spec_of(s).kind)
def test_where_the_camera_sees_nothing_there_is_no_ray(world, scene, source):
    picture = trace_image(world, scene.cameras[0], SIZE, RaySettings(), counters=True, source=source)
    seen = picture.receivers
    y, x = np.argwhere(~seen.has_ray)[0].tolist()
    assert not picture.hit[~seen.has_ray].any()
    assert not picture.counters[~seen.has_ray].any()
    assert np.isnan(seen.open_fraction[~seen.has_ray]).all()
    assert picture.trace_pixel((x, y)) is None
    log = picture.explain((x, y))
    assert log.source is SourceKind.CAMERA
    assert log.warnings[0] == "the camera ray hits nothing, so no other ray starts there"
    camera = trace_image(world, scene.cameras[0], SIZE, RaySettings())
    assert np.array_equal(camera.hit, seen.has_ray)
    assert picture.rays_traced == SIZE[0] * SIZE[1] + seen.has_ray.sum() * getattr(source, "samples", 1)


@pytest.mark.parametrize("source", SENT, ids=lambda s: spec_of(s).kind)
def test_threads_passes_and_tiles_change_nothing(world, scene, source, monkeypatch):
    size = (157, 91)
    rays = RaySettings()
    whole = trace_image(world, scene.cameras[0], size, rays, counters=True, x_ray=True, threads=1, source=source)
    request = ImageRequest(world, scene.cameras[0], *size, rays, True, x_ray=True, source=source)
    for threads in (2, 5):
        with ThreadPoolExecutor(threads) as pool:
            same_pictures(whole, trace_passes(request, pool, threads))
            same_pictures(whole, trace_passes(request, pool, threads, steps=(16, 8, 2, 1)))
            same_pictures(whole, trace_passes(request, pool, threads, steps=(4, 1), tile_points=32))
    monkeypatch.setattr(image_tracing, "TILE_POINTS", 16)
    same_pictures(whole, trace_image(world, scene.cameras[0], size, rays, counters=True, x_ray=True, source=source))


def test_coarse_passes_spread_receivers_too(world, scene):
    request = ImageRequest(world, scene.cameras[0], 50, 30, RaySettings(), source=ShadowRays(LIGHT))
    seen = []
    with ThreadPoolExecutor(2) as pool:
        trace_passes(request, pool, 2, on_pass=lambda picture, *_: seen.append(picture))
    complete = seen[-1]
    rows, columns = np.indices((30, 50)) // 4 * 4
    for name, _, _, _ in RECEIVER_FIELDS:
        coarse, fine = (getattr(picture.receivers, name) for picture in (seen[0], complete))
        assert np.array_equal(coarse, fine[rows, columns], equal_nan=fine.dtype.kind == "f"), name
    assert shade_image(seen[0], ImageSettings()).rgba.shape == (30, 50, 4)


def test_a_shadow_is_where_a_ray_to_the_light_is_blocked(ball):
    """The floor's shadow against geometry: the segment to the light passes the ball's centre nearer than its radius."""
    camera = ball.scene.camera
    picture = trace_image(ball, camera, (120, 90), RaySettings(), source=ShadowRays((0.5, 8.0, 0.0)))
    first = trace_image(ball, camera, (120, 90), RaySettings())
    on_floor = first.hit & (first.instance_index == 1)
    origin = picture.receivers.origin[on_floor].astype(np.float64)
    direction = np.array([0.5, 8.0, 0.0]) - origin
    along = ((np.array([0.0, 2.0, 0.0]) - origin) * direction).sum(1) / (direction**2).sum(1)
    distance = np.linalg.norm(origin + along[:, None] * direction - [0.0, 2.0, 0.0], axis=1)
    clear = (distance < 0.97) | (distance > 1.0)  # the mesh is inside the sphere, by a little
    assert clear.mean() > 0.95
    assert np.array_equal(picture.hit[on_floor][clear], distance[clear] < 0.97)
    assert picture.hit[on_floor].any()
    assert np.array_equal(picture.receivers.open_fraction[on_floor], 1.0 - picture.hit[on_floor])
    assert np.all(picture.t[picture.hit] < 1), "nothing beyond the light counts"


def test_nothing_behind_the_light_shades(ball):
    picture = trace_image(ball, ball.scene.camera, (60, 40), RaySettings(), source=ShadowRays((0.0, 0.5, 3.0)))
    facing = (picture.receivers.normal * picture.receivers.direction).sum(-1) > 0
    on_floor = picture.receivers.has_ray & facing & (picture.receivers.normal[..., 1] > 0.99)
    assert on_floor.sum() > 100
    assert not picture.hit[on_floor & (picture.receivers.origin[..., 2] > 2)].any()


def test_the_settings_are_those_of_the_source_and_not_of_the_camera_rays(world, scene):
    """A mask or flag that hides everything leaves the receivers as they are."""
    camera = scene.cameras[0]
    whole = trace_image(world, camera, SIZE, RaySettings(), source=ShadowRays(LIGHT))
    for rays in (RaySettings(mask=0), RaySettings(ray_flags=RayFlag.SKIP_TRIANGLES), RaySettings(t_min=0.5)):
        picture = trace_image(world, camera, SIZE, rays, source=ShadowRays(LIGHT))
        for name in ("has_ray", "origin", "direction", "normal", "surface_index"):
            assert np.array_equal(getattr(picture.receivers, name), getattr(whole.receivers, name)), name
    assert not trace_image(world, camera, SIZE, RaySettings(mask=0), source=ShadowRays(LIGHT)).hit.any()


def test_occlusion_counts_the_samples_that_miss(ball):
    source = OcclusionRays(3.0, 6, 0, 2)
    camera, size = ball.scene.camera, (80, 60)
    picture = trace_image(ball, camera, size, RaySettings(), source=source)
    misses = np.zeros((60, 80))
    for shown in range(6):
        one = trace_image(ball, camera, size, RaySettings(), source=replace(source, shown=shown))
        misses += one.receivers.has_ray & ~one.hit
        assert np.array_equal(one.receivers.open_fraction, picture.receivers.open_fraction, equal_nan=True)
        assert np.all(one.t[one.hit] < 3.0)
    has_ray = picture.receivers.has_ray
    assert np.array_equal(picture.receivers.open_fraction[has_ray], (misses[has_ray] / 6).astype(np.float32))
    below = (
        has_ray & (np.abs(picture.receivers.origin[..., 0]) < 0.5) & (np.abs(picture.receivers.origin[..., 2]) < 0.5)
    )
    below &= picture.receivers.origin[..., 1] < 0.01
    far = has_ray & (picture.receivers.origin[..., 2] < -6) & (picture.receivers.origin[..., 1] < 0.01)
    assert below.sum() > 5
    assert picture.receivers.open_fraction[below].mean() < 0.9
    assert picture.receivers.open_fraction[far].mean() == 1.0


def test_seeds_change_directions_and_nothing_else(ball):
    one, same, other = (
        trace_image(ball, ball.scene.camera, SIZE, RaySettings(), source=DiffuseRays(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(one.receivers.direction, same.receivers.direction)
    assert np.array_equal(one.receivers.origin, other.receivers.origin)
    assert not np.array_equal(one.receivers.direction, other.receivers.direction)
    leaving = (one.receivers.direction * one.receivers.normal).sum(-1)[one.receivers.has_ray]
    assert leaving.min() > 0


def test_the_camera_ray_of_a_pixel_can_be_asked_for(world, scene):
    rays = RaySettings(mask=0x0F, t_min=0.25)
    picture = trace_image(world, scene.cameras[0], SIZE, rays, source=DiffuseRays())
    y, x = np.argwhere(picture.receivers.has_ray)[5].tolist()
    log = picture.explain((x, y), camera_ray=True)
    assert log.source is SourceKind.CAMERA
    assert (log.rays.mask, log.rays.t_min, log.rays.ray_flags) == (0xFF, 0.0, RayFlag.NONE)
    assert log.result.hit
    assert log.origin == tuple(map(float, scene.cameras[0].position))
    plain = ray_of_pixel(world, scene.cameras[0], SIZE, (x, y), rays)
    assert plain.settings is rays
    assert isinstance(plain.source, CameraRays)


def test_an_interval_without_room_is_refused_by_its_rule(world, scene):
    for source, rays in ((ShadowRays(LIGHT), RaySettings(t_min=1.5)), (OcclusionRays(2.0), RaySettings(t_min=3.0))):
        with pytest.raises(InvalidInputError) as caught:
            trace_image(world, scene.cameras[0], SIZE, rays, source=source)
        assert caught.value.rules == ("RAY-2",)
        with pytest.raises(InvalidInputError, match="RAY-2"):
            ray_of_pixel(world, scene.cameras[0], SIZE, (48, 27), rays, source)
    with pytest.raises(RtviewerError, match="samples: a whole number"):
        trace_image(world, scene.cameras[0], SIZE, RaySettings(), source=OcclusionRays(samples=0))


def test_the_users_interval_can_only_shorten_a_sources(ball):
    picture = trace_image(ball, ball.scene.camera, SIZE, RaySettings(t_max=0.5), source=ShadowRays(LIGHT))
    assert np.all(picture.receivers.t_end[picture.receivers.has_ray] == 0.5)
    assert np.all(picture.t[picture.hit] < 0.5)


def test_a_fault_of_a_hit_group_names_its_pixel(ball):
    """HG-4 by the second ray: the table holds the floor's record and not the ball's."""
    table = HitGroupTable.of([HitGroup(HitGroupType.TRIANGLES, AS_GIVEN, ABSENT, True)])
    instances = (replace(ball.scene.instances[0], contribution=3), ball.scene.instances[1])
    world = build_world(replace(ball.scene, instances=instances, hit_groups=table))
    with pytest.raises(InvalidInputError, match=r"pixel \d+,\d+: .*outside the table") as caught:
        trace_image(world, ball.scene.camera, SIZE, RaySettings(), source=DiffuseRays())
    assert caught.value.rules == ("HG-4",)


def test_receivers_have_the_normal_of_the_program_of_their_record():
    """Spheres by their records, boxes by the dispatch: the camera's picture says so too."""
    kind = HitGroupType.PROCEDURAL_PRIMITIVE
    table = HitGroupTable((HitGroup(kind, AS_GIVEN, IntersectionProgram.SPHERE),))
    aabbs = AabbsGeometry(np.array([[-1, -1, -1, 1, 1, 1]], np.float32))
    camera = Camera((0.0, 0.0, 4.0), (0.0, 0.0, 0.0))
    world = build_world(Scene("ball", (BlasInputs((aabbs,)),), (Instance(0),), (camera,), hit_groups=table))
    rays = RaySettings(intersection=IntersectionProgram.BOX)
    plain = trace_image(world, camera, SIZE, rays).picture()
    seen = trace_image(world, camera, SIZE, rays, source=DiffuseRays()).receivers
    assert seen.has_ray.sum() > 100
    assert np.allclose(seen.normal[seen.has_ray], plain.normals[seen.has_ray], atol=1e-5)
    assert len({tuple(n) for n in np.round(seen.normal[seen.has_ray], 3).tolist()}) > 100


def test_a_long_tile_stops_between_samples(ball):
    calls = []

    def cancelled():
        calls.append(1)
        return len(calls) > 4

    with pytest.raises(CancelledError):
        trace_image(
            ball, ball.scene.camera, (64, 64), RaySettings(), source=OcclusionRays(samples=64), threads=1,
            cancelled=cancelled,
        )  # fmt: skip
    assert len(calls) <= 8


def test_every_mode_colours_every_source(world, scene):
    for spec in IMAGE_SOURCES:
        source = resolved(spec.settings(), world.bounds)
        picture = trace_image(
            world, scene.cameras[0], (40, 30), scene_rays(scene), counters=True, x_ray=True, source=source
        )
        for mode in MODES:
            shaded = shade_image(picture, ImageSettings(mode))
            assert shaded.rgba.shape == (30, 40, 4)
            assert (shaded.rgba[..., 3] == 255).all()
            if picture.receivers is not None:
                assert (shaded.rgba[~picture.receivers.has_ray] == NO_VALUE).all(), "no ray, no colour"


def test_colours_say_what_the_rays_found(ball):
    camera, size = ball.scene.camera, (120, 90)
    shadow = trace_image(ball, camera, size, RaySettings(), source=ShadowRays((0.5, 8.0, 0.0)))
    shaded = shade_image(shadow, ImageSettings())
    assert shaded.legend.title.startswith("Shaded: shadow")
    assert "light" in shaded.legend.note
    rgb = shaded.rgba[..., :3].astype(int)
    on_floor = shadow.receivers.has_ray & (shadow.receivers.normal[..., 1] > 0.99)
    hidden, lit = rgb[on_floor & shadow.hit], rgb[on_floor & ~shadow.hit]
    assert hidden.sum(1).max() < lit.sum(1).min()
    assert (hidden[:, 2] > hidden[:, 0]).all(), "shadows are blue"
    openness = trace_image(ball, camera, size, RaySettings(), source=OcclusionRays(2.0, 4))
    rgba = shade_image(openness, ImageSettings()).rgba
    fraction = openness.receivers.open_fraction
    assert (rgba[fraction == 1][:, :3] == 255).all()
    assert (rgba[fraction == 0][:, :3] == 0).all()
    heat = MODES["open_fraction"].values(openness.picture())
    assert np.array_equal(heat, fraction, equal_nan=True)
    bounce = trace_image(ball, camera, size, RaySettings(), source=DiffuseRays())
    colours = shade_image(bounce, ImageSettings()).rgba[..., :3]
    assert len(np.unique(colours[on_floor & ~bounce.hit], axis=0)) > 10
    nothing = ~shadow.receivers.has_ray
    assert len(np.unique(rgb[nothing], axis=0)) <= 1


@pytest.mark.parametrize("name", ["cornell", "culling_lab"])
def test_shipped_scenes_have_no_shadow_acne(root, name):
    """No ray that leaves its surface meets the primitive it starts from."""
    scene = load_scene(root / "scenes" / name)
    world = build_world(scene)
    first = trace_image(world, scene.camera, (160, 90), scene_rays(scene))
    for source in (ShadowRays(), DiffuseRays(), OcclusionRays()):
        picture = trace_image(world, scene.camera, (160, 90), scene_rays(scene), source=source)
        leaving = (picture.receivers.normal * picture.receivers.direction).sum(-1) > 0
        same = picture.hit & first.hit & leaving
        for name_ in ("instance_index", "geometry_index", "primitive_index"):
            same &= getattr(picture, name_) == getattr(first, name_)
        assert not same.any()
