"""Where the logged ray came from: a pixel, a pixel of the picture before the camera moved, or what the user typed."""

from __future__ import annotations

from rtviewer.scene.ray_sources import SOURCES, SourceKind
from rtviewer.session.raylog import RayLog, Vector


class RaySource:
    """Remembers the last picked pixel's ray, so that it is still known for what it was when it stands in the world."""

    def __init__(self) -> None:
        self._pixel: tuple[int, int] | None = None
        self._ray: tuple[Vector, Vector] | None = None

    def pixel_of(self, log: RayLog) -> tuple[int, int] | None:
        """The pixel the ray was picked at, in whatever picture that was; None for a typed ray."""
        if log.pixel is not None:
            self._pixel, self._ray = log.pixel, (log.origin, log.direction)
        return self._pixel if self._ray == (log.origin, log.direction) else None

    def words(self, log: RayLog) -> str:
        """In a few words."""
        if log.list_index >= 0:
            return f"ray {log.list_index} of the list"
        pixel = self.pixel_of(log)
        if pixel is None:
            return "typed ray"
        whose = "" if log.source is SourceKind.CAMERA else f"{SOURCES[log.source].ray} of "
        moved = "" if log.pixel is not None else " (camera moved)"
        return f"{whose}pixel {pixel[0]},{pixel[1]}{moved}" + "".join(f" · {warning}" for warning in log.warnings)
