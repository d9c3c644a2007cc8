"""Functions of the public Python API that are no methods."""

from __future__ import annotations

from rtviewer.dxr.flags import BuildFlag
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.scene.scene import Scene
from rtviewer.session.document import Cancelled, Progress, World, build_world
from rtviewer.session.state import BuildSettings


def build(
    scene: Scene,
    blas_flags: BuildFlag = BuildFlag.NONE,
    tlas_flags: BuildFlag = BuildFlag.NONE,
    *,
    profile: Profile = DEFAULT_PROFILE,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> World:
    """Build all structures of a scene. Raises InvalidInputError for flags that are illegal or not built yet."""
    return build_world(scene, BuildSettings(blas_flags, tlas_flags), progress, cancelled, profile=profile)
