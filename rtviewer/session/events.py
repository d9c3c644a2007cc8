"""What a session tells its listeners beside changes of the State: frozen values, told on the owner's thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rtviewer.errors import InvalidInputError, Violation
from rtviewer.session.document import Document
from rtviewer.session.image import ImageBuffer
from rtviewer.session.jobs import Lane
from rtviewer.session.opening import BlobDocument
from rtviewer.session.ray_list import RayList
from rtviewer.session.records import CopyRecord
from rtviewer.shade.modes import Shaded

if TYPE_CHECKING:
    from rtviewer.session.raylog import RayLog


@dataclass(frozen=True)
class Refusal:
    """Why a command changed nothing. ``text`` is a sentence with its rule ids, ``rules`` the ids alone."""

    text: str
    rules: tuple[str, ...] = ()

    @classmethod
    def of(cls, violations: list[Violation] | tuple[Violation, ...]) -> Refusal:
        return cls("; ".join(str(v) for v in violations), tuple(v.rule for v in violations))

    @classmethod
    def of_error(cls, error: Exception) -> Refusal:
        return cls(str(error), error.rules if isinstance(error, InvalidInputError) else ())


@dataclass(frozen=True)
class Refused:
    """A command was refused; the state is as it was."""

    refusal: Refusal


@dataclass(frozen=True, eq=False)
class DocumentChanged:
    """Another document, or the same scene built anew; None when it was closed."""

    document: Document | None
    is_rebuild: bool = False


@dataclass(frozen=True, eq=False)
class BlobChanged:
    """Another foreign blob is looked at, or none."""

    blob: BlobDocument | None


@dataclass(frozen=True, eq=False)
class CopyMade:
    """A copy verb is done; it is the last of ``document.copies``."""

    document: Document
    record: CopyRecord


@dataclass(frozen=True, eq=False)
class ImageChanged:
    """A pass of the newest image is done. An older one is told after a newer one was asked for only where nothing but
    the camera differs, and never after it."""

    buffer: ImageBuffer
    fraction: float
    is_complete: bool


@dataclass(frozen=True, eq=False)
class PictureChanged:
    """The newest image coloured as the image settings say; ``buffer`` is what was coloured."""

    shaded: Shaded
    buffer: ImageBuffer


@dataclass(frozen=True, eq=False)
class LogChanged:
    """The log of the picked ray; None when nothing is picked."""

    log: RayLog | None


@dataclass(frozen=True, eq=False)
class RaysChanged:
    """The list of rays, traced anew; None when there is none."""

    rays: RayList | None


@dataclass(frozen=True)
class JobProgressed:
    """A job runs in ``lane`` and is so far (0 to 1); the first one comes when it is submitted."""

    lane: Lane
    fraction: float
    text: str


@dataclass(frozen=True, eq=False)
class JobEnded:
    """The newest job of ``lane`` ended: ``error`` is None when it finished, ``is_cancelled`` when it was cancelled.

    A job overtaken by a newer one of its lane ends in silence, so the lane is idle after this event.
    """

    lane: Lane
    error: Exception | None = None
    is_cancelled: bool = False


Event: TypeAlias = (
    Refused
    | DocumentChanged
    | BlobChanged
    | CopyMade
    | ImageChanged
    | PictureChanged
    | LogChanged
    | RaysChanged
    | JobProgressed
    | JobEnded
)
