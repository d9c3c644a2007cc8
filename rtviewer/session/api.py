"""Functions of the public Python API that are no methods."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rtviewer.dxr.flags import BuildFlag
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.errors import RtviewerError
from rtviewer.scene.scene import Scene
from rtviewer.session.document import Cancelled, Progress, World, build_world
from rtviewer.session.state import BuildSettings


def open_world(
    path: Path | str,
    blas_flags: BuildFlag = BuildFlag.NONE,
    tlas_flags: BuildFlag = BuildFlag.NONE,
    *,
    profile: Profile = DEFAULT_PROFILE,
    bottom_levels: Sequence[Path | str] = (),
    base_address: int | None = None,
) -> World:
    """A world of any file: a scene or dump is built with the flags; a capture, folder or blob is taken as it is.

    ``bottom_levels``: files (or ``"ADDRESS=FILE"``) of a top level that came alone; ``base_address``: of a dump.
    Raises FileFormatError, SceneError, InvalidInputError, and RtviewerError for build flags where nothing is built.
    """
    from rtviewer.io.bottom_level_files import BottomLevelFile
    from rtviewer.session.opening import load_document

    files = [BottomLevelFile.parse(str(file)) for file in bottom_levels]
    settings = BuildSettings(blas_flags, tlas_flags)
    document = load_document(path, settings, profile=profile, bottom_levels=files, base_address=base_address)
    if not document.has_inputs and (blas_flags or tlas_flags):
        raise RtviewerError(f"{path} holds finished structures, which are not built again: leave out the build flags")
    return document.world


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
