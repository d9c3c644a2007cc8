"""Modes on real pictures: a triangle, its mirror image, and procedurals, seen along -z."""

from dataclasses import replace

import numpy as np
import pytest

from rtviewer.dxr.counters import X_RAY_COUNTERS, Counter
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag, HitKind, InstanceFlag, RayFlag
from rtviewer.dxr.programs import IntersectionProgram
from rtviewer.dxr.shader_table import AS_GIVEN, HitGroup, HitGroupTable, HitGroupType
from rtviewer.errors import RtviewerError
from rtviewer.scene.camera import Camera
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.document import build_world
from rtviewer.session.image_tracing import trace_image
from rtviewer.session.state import RaySettings
from rtviewer.shade import modes
from rtviewer.shade.heatmap import NO_VALUE
from rtviewer.shade.palettes import index_colours, palette

TRIANGLE = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32)
SIZE = (64, 48)


def matrix(diagonal=(1, 1, 1), offset=(0, 0, 0)):
    transform = np.zeros((3, 4), np.float32)
    transform[[0, 1, 2], [0, 1, 2]] = diagonal
    transform[:, 3] = offset
    return transform


def picture_of(scene, rays=None, size=SIZE, camera=None):
    camera = camera or Camera((0, 0, 5), (0, 0, 0))
    return trace_image(build_world(scene), camera, size, rays or RaySettings(), counters=True, x_ray=True).picture()


def triangles(*instances, flags=GeometryFlag.OPAQUE, transform=None):
    geometry = TrianglesGeometry(TRIANGLE, flags=flags, transform=transform)
    return Scene("t", (BlasInputs((geometry,)),), instances)


def boxes(*instances):
    return Scene("b", (BlasInputs((AabbsGeometry(np.array([[-1, -1, -1, 1, 1, 1]], np.float32)),)),), instances)


@pytest.fixture(scope="module")
def both():
    """A triangle to the right (instance 0) and its mirror image to the left (instance 1)."""
    return picture_of(triangles(Instance(0, instance_id=9), Instance(0, matrix((-1, 1, 1)))))


def of_instance(picture, index):
    return picture.instance_index == index


def test_every_mode_colours_every_pixel(both):
    for name, mode in modes.MODES.items():
        shaded = modes.shade(both, name)
        assert shaded.rgba.shape == (SIZE[1], SIZE[0], 4)
        assert shaded.rgba.dtype == np.uint8
        assert (shaded.rgba[..., 3] == 255).all()
        assert (mode.colours is None) != (mode.values is None)
        assert mode.label
        assert mode.tooltip
        assert shaded.legend.title == mode.label
        assert (shaded.histogram is not None) == mode.has_range


def test_every_counter_has_a_mode_and_heat_modes_name_their_counters(both):
    assert {c.name.lower() for c in Counter} <= set(modes.MODES)
    for mode in modes.MODES.values():
        assert (mode.kind == "heat") == mode.needs_counters
        assert (mode.kind in ("heat", "x-ray")) == bool(mode.counters) == mode.whole
        assert not mode.has_range or mode.unit
    assert {x_ray.key for x_ray in X_RAY_COUNTERS} == {name for name, mode in modes.MODES.items() if mode.is_x_ray}


@pytest.mark.rule("FACE-3")
def test_a_mirrored_instance_keeps_the_side_of_its_normal_and_its_facing(both):
    for index in (0, 1):
        own = of_instance(both, index)
        assert own.any()
        assert np.allclose(both.normals[own], (0, 0, 1))
        assert set(both.hit_kind[own]) == {HitKind.TRIANGLE_FRONT_FACE}
    corners = TRIANGLE * (-1, 1, 1)
    assert np.cross(corners[1] - corners[0], corners[2] - corners[0])[2] < 0  # what a product of moved corners says


@pytest.mark.rule("FACE-3")
def test_a_mirroring_geometry_transform_does_flip():
    picture = picture_of(triangles(Instance(0), transform=matrix((-1, 1, 1))))
    assert np.allclose(picture.normals[picture.hit], (0, 0, -1))
    assert set(picture.hit_kind[picture.hit]) == {HitKind.TRIANGLE_BACK_FACE}


def test_normals_go_by_the_inverse_transpose():
    lean = matrix((1, 1, 1))
    lean[0, 2] = 0  # shear z by x: the plane z = 0 becomes z = x
    lean[2, 0] = 1
    picture = picture_of(triangles(Instance(0, lean)))
    expected = np.array([-1, 0, 1]) / np.sqrt(2)
    assert np.allclose(picture.normals[picture.hit], expected, atol=1e-6)


def test_normals_of_spheres_point_out_of_a_stretched_one():
    picture = picture_of(boxes(Instance(0, matrix((2, 1, 1), (0.5, 0, 0)))), size=(65, 49))
    hit = picture.hit
    origin, direction = picture.rays
    point = origin[hit] + picture.t[hit][:, None] * direction[hit]
    gradient = (point - (0.5, 0, 0)) / (4, 1, 1)
    gradient /= np.linalg.norm(gradient, axis=1, keepdims=True)
    assert hit.sum() > 200
    assert np.allclose(picture.normals[hit], gradient, atol=1e-4)


def test_normals_of_boxes_are_axes_against_the_ray():
    camera = Camera((3, 4, 5), (0, 0, 0))
    picture = picture_of(boxes(Instance(0)), RaySettings(intersection=IntersectionProgram.BOX), camera=camera)
    normals = picture.normals[picture.hit]
    assert {tuple(np.rint(n).astype(int)) for n in normals} == {(1, 0, 0), (0, 1, 0), (0, 0, 1)}
    inside = picture_of(
        boxes(Instance(0)), RaySettings(intersection=IntersectionProgram.BOX), camera=Camera((0, 0, 0.5), (0, 0, -5))
    )
    assert {int(kind) for kind in inside.hit_kind[inside.hit]} <= {32, 33, 34}
    middle = inside.normals[SIZE[1] // 2, SIZE[0] // 2]
    assert np.allclose(middle, (0, 0, -1))  # outward, where the ray leaves


def test_a_hit_without_a_surface_faces_the_eye():
    settings = RaySettings(intersection=IntersectionProgram.REPORT_T, t_max=100.0)
    picture = picture_of(boxes(Instance(0, matrix((2, 3, 1)))), settings)
    assert picture.hit.any()
    _, direction = picture.rays
    assert np.allclose(picture.normals[picture.hit], -direction[picture.hit], atol=1e-5)


def test_pictures_rays_are_the_traced_ones_to_float_precision():
    for camera in (Camera((1, 2, 5), (0, 0.3, 0)), Camera((1, 2, 5), (0, 0, 0), orthographic_height=3.0)):
        picture = picture_of(triangles(Instance(0)), camera=camera, size=(31, 17))
        rows, columns = (a.ravel() for a in np.indices((17, 31)))
        origin, direction = camera.rays(31, 17, columns, rows)
        assert np.allclose(picture.rays[0].reshape(-1, 3), origin, atol=1e-5)
        assert np.allclose(picture.rays[1].reshape(-1, 3), direction, atol=1e-6)


def test_shaded_is_bright_in_front_dark_at_grazing_and_sky_elsewhere(both):
    rgba = modes.shade(both, "shaded").rgba
    hit = both.hit
    red, blue = rgba[hit][:, 0].astype(int), rgba[hit][:, 2].astype(int)
    assert (red >= blue).all()  # the first geometry is a warm off-white
    assert (red - blue).max() < 20
    assert (rgba[~hit][:, 2].astype(int) > rgba[~hit][:, 0]).all()
    ball = picture_of(boxes(Instance(0)))
    grey = modes.shade(ball, "shaded").rgba[..., 0].astype(int)
    assert grey[SIZE[1] // 2, SIZE[0] // 2] > grey[ball.hit].min() + 60


def test_shaded_tints_each_geometry_and_keeps_it_over_all_its_instances():
    square = TrianglesGeometry(TRIANGLE, flags=GeometryFlag.OPAQUE)
    shifted = TrianglesGeometry(TRIANGLE + np.float32([-1.5, 0, 0]), flags=GeometryFlag.OPAQUE)
    scene = Scene(
        "two", (BlasInputs((square, shifted)), BlasInputs((square,))),
        (Instance(0), Instance(1, matrix(offset=(-0.5, -1.5, 0))), Instance(1, matrix(offset=(0.8, -1.5, 0)))),
    )  # fmt: skip
    picture = picture_of(scene)
    rgba = modes.shade(picture, "shaded").rgba[..., :3].astype(float)
    shares = []
    for surface in range(3):
        own = rgba[picture.surface_index == surface]
        assert len(own) > 20
        shares.append((own / own.max(1, keepdims=True)).mean(0))
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(shares[first] - shares[second]).max() > 0.05
    assert set(picture.surface_index[picture.instance_index == 2]) == {2}
    assert (picture.surface_index[~picture.hit] == -1).all()


def test_facing_colours():
    picture = picture_of(triangles(Instance(0, flags=InstanceFlag.TRIANGLE_FRONT_COUNTERCLOCKWISE)))
    rgba = modes.shade(picture, "facing").rgba
    assert {tuple(c) for c in rgba[picture.hit][:, :3]} == {modes.BACK}
    assert {tuple(c) for c in rgba[~picture.hit]} == {NO_VALUE}


@pytest.mark.rule("OPQ-1", "OPQ-2", "OPQ-4")
@pytest.mark.parametrize(
    ("geometry", "instance", "ray", "colour"),
    [
        (GeometryFlag.OPAQUE, InstanceFlag.NONE, RayFlag.NONE, modes.OPAQUE),
        (GeometryFlag.NONE, InstanceFlag.NONE, RayFlag.NONE, modes.NON_OPAQUE),
        (GeometryFlag.NONE, InstanceFlag.FORCE_OPAQUE, RayFlag.NONE, modes.OPAQUE),
        (GeometryFlag.OPAQUE, InstanceFlag.FORCE_NON_OPAQUE, RayFlag.NONE, modes.NON_OPAQUE),
        (GeometryFlag.OPAQUE, InstanceFlag.FORCE_OPAQUE, RayFlag.FORCE_NON_OPAQUE, modes.NON_OPAQUE),
    ],
)
def test_opacity_after_overrides(geometry, instance, ray, colour):
    scene = triangles(Instance(-1), Instance(0, flags=instance), flags=geometry)
    picture = picture_of(scene, RaySettings(ray_flags=ray))
    rgba = modes.shade(picture, "opacity").rgba
    assert {tuple(c) for c in rgba[picture.hit][:, :3]} == {colour}


def test_index_modes_take_their_index(both):
    rgba = modes.shade(both, "instance").rgba
    for index in (0, 1):
        assert {tuple(c) for c in rgba[of_instance(both, index)][:, :3]} == {tuple(index_colours(np.array(index)))}
    ids = modes.shade(both, "instance_id").rgba
    assert {tuple(c) for c in ids[of_instance(both, 0)][:, :3]} == {tuple(index_colours(np.array(9)))}


def test_barycentrics_are_weights(both):
    rgba = modes.shade(both, "barycentrics").rgba[both.hit].astype(int)
    assert (np.abs(rgba[:, :3].sum(1) - 255) <= 2).all()
    origin, direction = both.rays
    x = (origin + both.t[..., None] * direction)[both.hit][:, 0]
    assert np.allclose(rgba[:, 1] / 255, np.abs(x), atol=0.01)


def test_t_is_a_scale_over_hits_only(both):
    shaded = modes.shade(both, "t", "grey")
    t = both.t[both.hit]
    assert (shaded.low, shaded.high) == (float(t.min()), float(t.max()))
    assert {tuple(c) for c in shaded.rgba[~both.hit]} == {NO_VALUE}
    assert shaded.legend.ticks


def test_heat_modes_use_palette_and_range(both):
    total = both.counters[..., [Counter.TLAS_NODES_VISITED, Counter.BLAS_NODES_VISITED]].sum(-1)
    shaded = modes.shade(both, "nodes_visited", "turbo", "fixed", 0, 10)
    steps = np.rint(np.clip(total / 10 * 255, 0, 255)).astype(int)
    assert np.array_equal(shaded.rgba[..., :3], palette("turbo")[steps])
    with pytest.raises(RtviewerError, match="counters"):
        modes.shade(replace(both, counters=None), "nodes_visited")
    with pytest.raises(RtviewerError, match="no image mode"):
        modes.shade(both, "pretty")


def test_a_coarse_picture_repeats_its_pixels():
    scene = triangles(Instance(0))
    world, camera = build_world(scene), Camera((0, 0, 5), (0, 0, 0))
    buffer = trace_image(world, camera, (30, 21), RaySettings(), counters=True)
    coarse = modes.shade(replace(buffer, step=4).picture(), "instance").rgba
    full = modes.shade(buffer.picture(), "instance").rgba
    rows, columns = np.indices((21, 30)) // 4 * 4
    assert np.array_equal(coarse, full[rows, columns])


def test_invalid_rays_stand_out(both):
    invalid = np.zeros_like(both.hit)
    invalid[3, 4] = True
    rgba = modes.shade(replace(both, invalid=invalid), "shaded").rgba
    assert tuple(rgba[3, 4, :3]) == modes.INVALID


def test_x_ray_modes_show_the_x_ray_and_need_it(both):
    surfaces = both.x_ray[..., Counter.COMMITS]
    assert set(np.unique(surfaces)) == {0, 1}
    shaded = modes.shade(both, "x_ray_surfaces", "grey", "fixed", 0, 2)
    assert np.array_equal(shaded.rgba[..., 0], palette("grey")[np.rint(surfaces / 2 * 255).astype(int)][..., 0])
    assert shaded.legend.unit == "surfaces per ray"
    with pytest.raises(RtviewerError, match="x-ray"):
        modes.shade(replace(both, x_ray=None), "x_ray_surfaces")


def test_hit_or_miss(both):
    rgba = modes.shade(both, "miss").rgba[..., :3]
    assert {tuple(c) for c in rgba[both.hit].tolist()} == {modes.HIT}
    assert {tuple(c) for c in rgba[~both.hit].tolist()} == {modes.MISS}


def test_the_legend_of_indices_names_those_seen(both):
    legend = modes.shade(both, "instance_id").legend
    assert [text for text, _ in legend.entries] == ["0", "9"]
    assert legend.entries[1][1] == tuple(index_colours(np.array(9)).tolist())
    assert legend.note == ""
    many = replace(both, primitive_index=np.arange(both.hit.size, dtype=np.int32).reshape(both.hit.shape))
    seen = int(both.hit.sum())
    legend = modes.shade(many, "primitive").legend
    assert len(legend.entries) == modes.MOST_ENTRIES
    assert legend.note == f"and {seen - modes.MOST_ENTRIES:,} more"


def test_hit_kinds_of_intersection_programs_are_told_apart():
    picture = picture_of(
        boxes(Instance(0)), RaySettings(intersection=IntersectionProgram.BOX), camera=Camera((3, 4, 5), (0, 0, 0))
    )
    assert [text for text, _ in modes.shade(picture, "hit_kind").legend.entries] == ["16", "17", "18"]


def test_invalid_pixels_take_no_part_in_the_range(both):
    counters = both.counters.copy()
    counters[3, 4] = 10_000
    invalid = np.zeros_like(both.hit)
    invalid[3, 4] = True
    assert modes.shade(replace(both, counters=counters, invalid=invalid), "box_tests").high < 10_000


def test_each_hit_has_the_normal_of_the_program_of_its_record():
    """Two records: instance 0 is a sphere by its own, instance 1 a box by the dispatch's."""
    kind = HitGroupType.PROCEDURAL_PRIMITIVE
    table = HitGroupTable((HitGroup(kind, AS_GIVEN, IntersectionProgram.SPHERE), HitGroup(kind, AS_GIVEN, AS_GIVEN)))
    placed = (Instance(0, matrix(offset=(-1.2, 0, 0))), Instance(0, matrix(offset=(1.2, 0, 0)), contribution=1))
    scene = replace(boxes(*placed), hit_groups=table)
    picture = picture_of(scene, RaySettings(intersection=IntersectionProgram.BOX, multiplier=0), size=(65, 49))
    ball, box = picture.normals[of_instance(picture, 0)], picture.normals[of_instance(picture, 1)]
    assert len({tuple(n) for n in np.round(ball, 3).tolist()}) > 50
    assert {tuple(np.rint(n).astype(int)) for n in box} == {(0, 0, 1)} | (
        {(-1, 0, 0)} if (box[:, 0] < -0.5).any() else set()
    )
    assert np.allclose(np.linalg.norm(picture.normals[picture.hit], axis=1), 1, atol=1e-5)
