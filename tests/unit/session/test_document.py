import threading
from itertools import pairwise

import numpy as np
import pytest

from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag, InstanceFlag, RayFlag
from rtviewer.dxr.profile import Profile, Tier
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.errors import CancelledError, InvalidInputError, ProgramError, RtviewerError
from rtviewer.scene.camera import Camera
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.build_settings import check_build_settings, unavailable_build_flags
from rtviewer.session.document import (
    FIRST_ADDRESS,
    TOP_LEVEL,
    build_world,
    camera_named,
    problems_of,
    scene_rays,
)
from rtviewer.session.opening import load_document
from rtviewer.session.state import BuildSettings


def test_addresses_are_aligned_rising_and_do_not_overlap(world):
    structures = [*world.blases, world.tlas]
    assert structures[0].address == FIRST_ADDRESS
    for before, after in pairwise(structures):
        assert after.address % 256 == 0
        assert before.address + before.size <= after.address < before.address + before.size + 256


def test_same_scene_gives_same_bytes_and_addresses(scene, world):
    again = build_world(scene)
    for index in world.structure_indices:
        assert again.structure(index).address == world.structure(index).address
        assert np.array_equal(again.structure(index).data, world.structure(index).data)


def test_instances_lead_to_their_bottom_levels(world):
    assert [world.blas_of_instance(i) for i in range(8)] == [0, 0, 0, 1, 2, -1, 0, 3]


def test_an_empty_scene_builds_and_every_ray_misses():
    world = build_world(Scene("empty"))
    image = world.trace(size=(8, 8))
    assert not image.hit.any()
    assert image.valid.all()


def test_seconds_and_names_stand_beside_each_structure(world):
    assert len(world.seconds) == len(world.blases) + 1
    assert world.build_seconds(TOP_LEVEL) == world.seconds[-1]
    assert [world.structure(i).name for i in world.structure_indices] == [
        "TLAS",
        "pane",
        "two panes",
        "ball",
        "nothing",
    ]


def test_trees_are_made_once_even_by_several_threads(scene):
    world = build_world(scene)
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(world.tree(0))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert all(tree is seen[0] for tree in seen)


def test_progress_rises_to_one_and_a_cancelled_build_raises(scene):
    heard = []
    build_world(scene, progress=lambda fraction, text: heard.append(fraction))
    assert heard == sorted(heard)
    assert heard[-1] == 1.0
    with pytest.raises(CancelledError):
        build_world(scene, cancelled=lambda: True)


@pytest.mark.rule("BF-2")
def test_illegal_build_flags_are_refused_with_the_rule(scene):
    both = BuildSettings(blas_flags=BuildFlag.PREFER_FAST_TRACE | BuildFlag.PREFER_FAST_BUILD)
    with pytest.raises(InvalidInputError) as caught:
        build_world(scene, both)
    assert caught.value.rules == ("BF-2",)


def test_a_flag_outside_the_profile_is_unavailable_with_its_rule():
    assert "BF-1" in unavailable_build_flags()[BuildFlag.DEHYDRATE]
    assert "BF-1" not in unavailable_build_flags(Profile(Tier.TIER_1_1, xbox=True)).get(BuildFlag.DEHYDRATE, "")


def test_what_cannot_be_built_is_exactly_what_is_called_unavailable():
    for flag in BuildFlag:
        if not int(flag):
            continue
        refused = bool(check_build_settings(BuildSettings(blas_flags=flag)))
        assert refused == (flag in unavailable_build_flags()), flag


def test_cameras_by_name_number_and_fit(scene):
    assert camera_named(scene, None).name == "front"
    assert camera_named(scene, "behind") is scene.cameras[1]
    assert camera_named(scene, "1") is scene.cameras[1]
    assert camera_named(scene, "fit").name == "fit"
    with pytest.raises(RtviewerError, match="'front', 'behind', 'fit'"):
        camera_named(scene, "side")


def test_problems_name_degenerate_inactive_and_singular_input(scene):
    corners = np.array([[0, 0, 0], [0, 0, 0], [0, 0, 1], [np.nan, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32)
    bad = Scene(
        "bad", (BlasInputs((TrianglesGeometry(corners),), "mesh"),), (Instance(0, np.zeros((3, 4), np.float32)),)
    )
    rules = {problem.rule: problem for problem in problems_of(build_world(bad))}
    assert set(rules) == {"DEG-1", "INA-1", "INST-5"}
    assert rules["INST-5"].instance == 0
    assert rules["DEG-1"].structure == 0
    assert "1 degenerate" in rules["DEG-1"].text
    assert {p.rule for p in problems_of(build_world(scene))} == {"INST-5"}


def test_object_space_shows_one_structure_where_it_was_made(world):
    alone = world.object_space(0)
    assert alone is world.object_space(0)
    assert np.allclose(alone.tlas.bounds, world.blases[0].bounds)


def test_load_document_reads_builds_and_warns(tmp_path):
    path = tmp_path / "two.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 1 2 9\n")
    document = load_document(path)
    assert document.path == path
    assert document.world.blases[0].header["input_count"] == 1
    assert [p.severity for p in document.problems] == ["warning"]


def test_trace_and_explain_refuse_what_breaks_a_rule(world):
    with pytest.raises(InvalidInputError, match="RF-2"):
        world.trace(size=(4, 4), ray_flags=RayFlag.FORCE_OPAQUE | RayFlag.CULL_OPAQUE)
    with pytest.raises(InvalidInputError, match="RAY-2"):
        world.explain(origin=(0, 0, 0), direction=(0, 0, 1), t_min=2.0, t_max=1.0)
    with pytest.raises(RtviewerError, match="either pixel"):
        world.explain()
    with pytest.raises(RtviewerError, match="outside"):
        world.explain(pixel=(960, 0))


@pytest.mark.rule("MASK-1")
def test_many_problems_of_one_kind_are_counted():
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32)
    blas = BlasInputs((TrianglesGeometry(corners),))
    masked = Scene("m", (blas,), tuple(Instance(0, mask=0) for _ in range(25)))
    problems = problems_of(build_world(masked))
    assert len(problems) == 21
    assert [p.instance for p in problems[:3]] == [0, 1, 2]
    assert "5 more instances" in problems[-1].text


def test_numbers_of_flags_and_programs_become_members(world, scene):
    rays = scene_rays(scene, ray_flags=0x11, any_hit=1)
    assert rays.ray_flags is RayFlag(0x11)
    assert rays.any_hit is AnyHitProgram.IGNORE
    assert "any-hit IGNORE ignored" in " ".join(row.text for row in world.explain((480, 270), any_hit=1, mask=1))
    with pytest.raises(ProgramError, match="0 to 7"):
        scene_rays(scene, any_hit=8)


SCENE_WITH_MICROMAP_FLAG = """
[[blas]]
name = "ball"
[[blas.geometry]]
generator = { kind = "sphere" }
[[instance]]
blas = "ball"
flags = ["FORCE_OMM_2_STATE"]
"""


def test_the_profile_reaches_the_reader_and_the_build(tmp_path):
    path = tmp_path / "scene.toml"
    path.write_text(SCENE_WITH_MICROMAP_FLAG)
    tier_1_2 = Profile(Tier.TIER_1_2)
    world = load_document(path, profile=tier_1_2).world
    assert world.trace(size=(16, 16)).hit.any()
    assert world.scene.instances[0].flags == InstanceFlag.FORCE_OMM_2_STATE
    with pytest.raises(RtviewerError, match="FORCE_OMM_2_STATE"):
        load_document(path)
    with pytest.raises(InvalidInputError) as caught:
        build_world(world.scene)
    assert caught.value.rules == ("IF-1",)


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        (BuildFlag.ALLOW_DISABLE_OMMS, "BF-8"),
        (BuildFlag.ALLOW_OMM_LINKAGE_UPDATE | BuildFlag.ALLOW_UPDATE, "BF-7"),
    ],
)
def test_build_flags_of_micromaps_are_refused_in_tier_1_2(scene, flags, rule):
    with pytest.raises(InvalidInputError, match="opacity micromaps are not supported") as caught:
        build_world(scene, BuildSettings(flags), profile=Profile(Tier.TIER_1_2))
    assert caught.value.rules == (rule,)


@pytest.mark.parametrize("vertices", [None, np.zeros(45, np.float32), np.zeros((3, 9), np.float32), [[0.0, 0.0, 0.0]]])
def test_vertices_of_another_shape_are_refused_before_the_build(vertices):
    with pytest.raises(InvalidInputError, match=r"BLAS 0.*\(n, 3\) float32") as caught:
        build_world(Scene("s", (BlasInputs((TrianglesGeometry(vertices),)),), (Instance(0),)))
    assert caught.value.rules == ("VF-1",)


@pytest.mark.parametrize(
    ("camera", "said"),
    [
        (Camera((np.nan, 0, 0), (0, 0, 0)), "position"),
        (Camera((0, 0), (0, 0, 0)), "position"),
        (Camera((0, 0, 0), (0, 0, 0)), "look_at must differ"),
        (Camera((0, 0, 5), (0, 0, 0), vertical_fov=0), "vertical_fov"),
        (Camera((0, 0, 5), (0, 0, 0), vertical_fov=180), "vertical_fov"),
        (Camera((0, 0, 5), (0, 0, 0), vertical_fov=np.nan), "vertical_fov"),
        (Camera((0, 0, 5), (0, 0, 0), orthographic_height=0), "orthographic_height"),
    ],
)
def test_a_camera_without_a_picture_is_refused(world, camera, said):
    with pytest.raises(RtviewerError, match=said):
        world.trace(camera, size=(4, 4))
    with pytest.raises(RtviewerError, match=said):
        world.explain(pixel=(0, 0), camera=camera, size=(4, 4))
