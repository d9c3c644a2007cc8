"""A scene: bottom-level inputs, instances of them, cameras and the notes a loader made."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.descs import IDENTITY, BlasInputs, Float3x4
from rtviewer.dxr.flags import InstanceFlag
from rtviewer.dxr.programs import AnyHitChoice, AnyHitProgram, IntersectionChoice, IntersectionProgram
from rtviewer.dxr.shader_table import HitGroupTable
from rtviewer.scene.camera import Camera, fitting_camera
from rtviewer.scene.material import GeometryMaterials
from rtviewer.scene.ray_sources import CAMERA, ImageSource


@dataclass(frozen=True)
class Instance:
    """One placement of a bottom-level structure. ``blas``: index into ``Scene.blases``, -1 for none (INST-2)."""

    blas: int
    transform: Float3x4 = field(default_factory=lambda: IDENTITY)
    instance_id: int = 0
    mask: int = 0xFF
    contribution: int = 0
    flags: InstanceFlag = InstanceFlag.NONE
    name: str = ""


@dataclass(frozen=True)
class Scene:
    """Everything a file said. Frozen; arrays inside are not written to.

    ``hit_groups``: the table that rays index (section 6.9 of the rules); None where every geometry has all shaders.
    ``ray_source``: whose rays its picture opens with.
    ``materials``: of each bottom level, one entry for each geometry; empty where no geometry has any. A str as program
    names one of a user's file, which ``program_file`` names and nobody loads unasked.
    ``warnings``: what a loader dropped or changed, one sentence each, naming file and place.
    """

    name: str
    blases: tuple[BlasInputs, ...] = ()
    instances: tuple[Instance, ...] = ()
    cameras: tuple[Camera, ...] = ()
    any_hit: AnyHitChoice = AnyHitProgram.ACCEPT
    intersection: IntersectionChoice = IntersectionProgram.SPHERE
    warnings: tuple[str, ...] = ()
    source: str = ""
    hit_groups: HitGroupTable | None = None
    ray_source: ImageSource = CAMERA
    materials: tuple[GeometryMaterials, ...] = ()
    program_file: str = ""

    @property
    def camera(self) -> Camera:
        """The first camera, or the one that fits the bounds."""
        return self.cameras[0] if self.cameras else fitting_camera(self.bounds())

    def bounds(self) -> NDArray[np.float64] | None:
        """World bounds of referenced finite positions, (2, 3) float64, or None when there are none."""
        from rtviewer.scene.bounds import scene_bounds

        return scene_bounds(self)
