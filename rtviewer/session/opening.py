"""Opening files: scenes are built, structures are taken as they are, foreign blobs are only looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.errors import CancelledError, FileFormatError
from rtviewer.scene.scene import Scene
from rtviewer.session.document import Cancelled, Document, Progress, build_world, problems_of
from rtviewer.session.state import BuildSettings

if TYPE_CHECKING:
    from rtviewer.copymode.identify import BlobDescription
    from rtviewer.io.bottom_level_files import BottomLevelFile


@dataclass(frozen=True, eq=False)
class BlobDocument:
    """A serialized structure of another driver, read only: its bytes and what the header says about them."""

    path: Path
    data: bytes
    description: BlobDescription

    @property
    def title(self) -> str:
        return self.path.name


def open_document(
    path: Path | str,
    settings: BuildSettings | None = None,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    *,
    profile: Profile = DEFAULT_PROFILE,
    generation: int = 0,
    bottom_levels: Sequence[BottomLevelFile] = (),
    base_address: int | None = None,
) -> Document | BlobDocument:
    """Open whatever ``io.registry.load_source`` reads. ``settings`` is for what has to be built: scenes and dumps.

    Raises what readers and builder raise; nothing is half open then.
    """
    from rtviewer.io.registry import ForeignBlob, load_source
    from rtviewer.session.structures import world_of

    if progress:
        progress(0.0, f"reading {Path(path).name}")
    source = load_source(Path(path), profile, bottom_levels=bottom_levels, base_address=base_address)
    if cancelled and cancelled():
        raise CancelledError("opening was cancelled")
    if isinstance(source, ForeignBlob):
        return BlobDocument(source.path, source.data, source.description)
    if isinstance(source, Scene):
        world = build_world(source, settings, progress, cancelled, profile=profile, generation=generation)
        return Document(Path(path), source, world, problems_of(world))
    world = world_of(source, str(path), generation)
    return Document(Path(path), world.scene, world, problems_of(world), has_inputs=False)


def load_document(
    path: Path | str,
    settings: BuildSettings | None = None,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    *,
    profile: Profile = DEFAULT_PROFILE,
    generation: int = 0,
    bottom_levels: Sequence[BottomLevelFile] = (),
    base_address: int | None = None,
) -> Document:
    """As :func:`open_document`, for what can be traced. Raises FileFormatError (SER-8) for a foreign blob."""
    document = open_document(
        path, settings, progress, cancelled, profile=profile, generation=generation, bottom_levels=bottom_levels,
        base_address=base_address,
    )  # fmt: skip
    if isinstance(document, BlobDocument):
        raise FileFormatError(
            path, "[SER-8] a blob of another driver or version can be looked at (info, the window), not used",
            field="DriverMatchingIdentifier", found=document.description.status.name,
        )  # fmt: skip
    return document
