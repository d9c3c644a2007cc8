"""The scenes in ``scenes/``: complete, documented, and what they promise."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from rtviewer.dxr.descs import AabbsGeometry, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag, InstanceFlag, RayFlag
from rtviewer.dxr.profile import DEFAULT_PROFILE
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.dxr.rules import check_instance_flags
from rtviewer.io.registry import load_scene
from rtviewer.scene.inputs import determinants, instance_transforms, scene_statistics
from rtviewer.scene.scene import Scene
from tests.worlds import DOWN, world_of_scene

SCENES = Path(__file__).parents[3] / "scenes"
NAMES = sorted(file.parent.name for file in SCENES.glob("*/scene.toml"))


def test_the_scenes_are_there() -> None:
    assert {"cornell", "culling_lab", "sphereflake"} <= set(NAMES)


WARNINGS = {"culling_lab": 1}
"""The lab has an instance that cannot be inverted on purpose [INST-5]."""


@pytest.mark.parametrize("name", NAMES)
def test_loads_cleanly_and_is_listed_with_its_numbers(name: str) -> None:
    file = SCENES / name / "scene.toml"
    assert file.read_text("utf-8").startswith("# Exercises: ")
    scene = load_scene(SCENES / name)
    assert len(scene.warnings) == WARNINGS.get(name, 0)
    assert scene.cameras
    found = scene_statistics(scene)
    row = next(
        line for line in (SCENES / "README.md").read_text("utf-8").splitlines() if line.startswith(f"| `{name}` |")
    )
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2:] == [f"{found.triangles_stored} / {found.triangles_drawn}", f"{found.instances}"]


def test_sphereflake_places_one_structure_thousands_of_times() -> None:
    scene = load_scene(SCENES / "sphereflake")
    assert sum(instance.blas == 0 for instance in scene.instances) == 7381


@pytest.fixture(scope="module")
def lab() -> Scene:
    return load_scene(SCENES / "culling_lab")


def test_culling_lab_has_every_legal_instance_flag_word(lab: Scene) -> None:
    legal = {word for word in range(256) if not check_instance_flags(InstanceFlag(word), DEFAULT_PROFILE)}
    bowls = {int(i.flags) for i in lab.instances if i.blas >= 0 and lab.blases[i.blas].name == "bowl"}
    assert len(legal) == 12
    assert bowls == legal


def test_culling_lab_has_what_else_culls(lab: Scene) -> None:
    geometries = [geometry for blas in lab.blases for geometry in blas.geometries]
    for kind, opaque in product((TrianglesGeometry, AabbsGeometry), (True, False)):
        assert any(isinstance(g, kind) and bool(g.flags & GeometryFlag.OPAQUE) == opaque for g in geometries)
    assert {0, 0x01, 0x02, 0x80, 0xFF} <= {instance.mask for instance in lab.instances}
    assert any(instance.blas < 0 for instance in lab.instances)
    transforms = instance_transforms(lab)
    size = np.linalg.norm(transforms[:, :, :3], axis=1)
    assert (determinants(transforms) < 0).sum() >= 2
    assert (np.abs(size.max(axis=1) - size.min(axis=1)) > 0.05).any()
    assert any(
        isinstance(g, TrianglesGeometry) and g.transform is not None and np.linalg.det(g.transform[:, :3]) < 0
        for g in geometries
    )


def _met_by_middle_ray(scene: Scene) -> list[tuple[str, bool]]:
    """Names of instances with a triangle on the ray of pixel (480, 270) of 960 x 540, by t, and whether it is front."""
    origin, direction = scene.cameras[0].rays(960, 540, np.array([480]), np.array([270]))
    met: list[tuple[float, str, bool]] = []
    for instance in scene.instances:
        for geometry in scene.blases[instance.blas].geometries if instance.blas >= 0 else ():
            if not isinstance(geometry, TrianglesGeometry):
                continue
            matrix = instance.transform.astype(np.float64)
            if np.linalg.det(matrix[:, :3]) == 0:
                continue  # no ray can hit it
            inverse = np.linalg.inv(matrix[:, :3])
            o, d = inverse @ (origin[0] - matrix[:, 3]), inverse @ direction[0]
            points = geometry.vertices.astype(np.float64)
            if geometry.transform is not None:
                points = points @ geometry.transform[:, :3].T + geometry.transform[:, 3]
            a, b, c = np.moveaxis(points[geometry.indices], 1, 0)
            normal = np.cross(b - a, c - a)
            with np.errstate(divide="ignore", invalid="ignore"):
                t = ((a - o) * normal).sum(axis=1) / (normal @ d)
                at = o + t[:, None] * d
                inside = np.ones(len(t), bool)
                for p, q in ((a, b), (b, c), (c, a)):
                    inside &= (np.cross(q - p, at - p) * normal).sum(axis=1) > 0
            hits = np.flatnonzero(inside & (t > 0))
            turned = bool(instance.flags & InstanceFlag.TRIANGLE_FRONT_COUNTERCLOCKWISE)
            met += [(float(t[k]), instance.name, bool(normal[k] @ d < 0) != turned) for k in hits]
    return [(name, front) for _, name, front in sorted(met)]


@pytest.mark.rule("FACE-1", "FACE-2", "FACE-3")
def test_the_middle_pixel_of_the_culling_lab_looks_through_the_row(lab: Scene) -> None:
    met = [(name.removeprefix("row: "), front) for name, front in _met_by_middle_ray(lab) if name.startswith("row: ")]
    assert met[:7] == [
        ("mask 0, never hit", True),
        ("glass, ignored by any-hit", True),
        ("forced non-opaque, ignored by any-hit", True),
        ("glass, accepted by any-hit", True),
        ("its twin at the same distance", True),
        ("mask 0x02 only", True),
        ("back to the viewer", False),
    ]
    assert met[7:] == [
        ("back, turned to front by the flag", True),
        ("mirrored instance, still front", True),
        ("mirrored geometry, turned to back", False),
        ("glass, forced opaque", True),
        ("back, culling disabled", False),
        ("plain, large", True),
    ]


@pytest.mark.rule("HG-1", "HG-3", "OPQ-5", "TRAV-4", "TRAV-5")
def test_hit_groups_differ_by_their_records_alone() -> None:
    """What a ray through the middle of every sphere and box set meets, with an any-hit program that ignores all."""
    scene = load_scene(SCENES / "hit_groups")
    assert scene.hit_groups is not None
    assert {instance.contribution for instance in scene.instances} == set(range(len(scene.hit_groups.records)))
    built = world_of_scene(scene)
    origins = instance_transforms(scene)[:6, :, 3] + np.float32([0, 0.05, 20])
    asked = {"ray_flags": RayFlag.NONE, "multiplier": 1}
    ignoring = built.trace(origins, DOWN, hit_groups=scene.hit_groups, any_hit=AnyHitProgram.IGNORE, **asked).hits
    assert ignoring.instance_index[[2, 3, 4, 5]].tolist() == [2, 3, 4, 5]
    assert 0 not in ignoring.instance_index
    accepting = built.trace(origins, DOWN, hit_groups=scene.hit_groups, **asked).hits
    assert accepting.instance_index[0] == 0
    assert accepting.hit_kind[4] >= 16  # BOX by its record
    assert accepting.hit_kind[5] == 0  # SPHERE as the dispatch asks for
    # The front of the second sphere, straight on: only its even triangles are there.
    disc = np.random.default_rng(1).uniform(-0.6, 0.6, (64, 3)).astype(np.float32) * np.float32([1, 1, 0])
    front = origins[1] * np.float32([1, 1, 0]) + disc + np.float32([0, 0, 1.5])
    halves = built.trace(front, DOWN, hit_groups=scene.hit_groups, t_max=1.5, **asked).hits
    assert (halves.instance_index[halves.hit] == 1).all()
    assert (halves.primitive_index[halves.hit] % 2 == 0).all()
    assert 0 < halves.hit.sum() < 64
