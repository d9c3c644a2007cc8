"""How coarse a picture starts and how it gets finer, from how fast the pictures before it were traced."""

from __future__ import annotations

from rtviewer.session.image import ImageBuffer, ImageRequest

STEPS = (4, 2, 1)
"""Steps of the passes where nothing is known."""
FIRST_SECONDS = 0.1
"""A first pass that takes longer is given up for a newer picture."""
COARSE_SECONDS = 0.02
"""What a first pass is to take at most: with colouring and painting, more than 20 of them a second are seen."""
WHOLE_SECONDS = 0.5
"""Where the whole picture takes no longer, it comes at once after that of step 4."""
FAST_RAYS = 500_000
"""Rays a second from which on large tiles are cancelled quickly enough."""
LARGE_TILE_POINTS = 128
CHOICES: tuple[tuple[int, ...], ...] = ((4, 2, 1), (8, 4, 2, 1), (16, 8, 4, 2, 1))


class Plan:
    """Remembers the speed of the newest pictures. One lane's thread uses it."""

    def __init__(self) -> None:
        self._rates: dict[tuple[bool, bool, bool], tuple[int, float]] = {}

    def steps(self, request: ImageRequest) -> tuple[tuple[int, ...], int | None]:
        """Steps of the passes, and the width of the last one's tiles (None for the usual)."""
        world, rate = self._rates.get(_kind(request), (0, 0.0))
        if world != id(request.world):
            return STEPS, None
        seconds = request.width * request.height / rate
        if seconds <= COARSE_SECONDS:
            return (2, 1), LARGE_TILE_POINTS
        # Not finer than a step of 4 as long as that is quick: time left over goes to the whole picture.
        chosen = next((c for c in CHOICES if seconds / c[0] ** 2 <= COARSE_SECONDS), CHOICES[-1])
        if seconds <= WHOLE_SECONDS:
            chosen = tuple(step for step in chosen if step != 2)
        return chosen, LARGE_TILE_POINTS if rate >= FAST_RAYS else None

    def learn(self, request: ImageRequest, buffer: ImageBuffer) -> None:
        """Note how fast the picture so far was traced."""
        self._rates[_kind(request)] = (
            id(request.world),
            max(buffer.width * buffer.height / buffer.step**2, 1.0) / max(buffer.seconds, 1e-6),
        )


def _kind(request: ImageRequest) -> tuple[bool, bool, bool]:
    """What makes pictures of one world take very different times."""
    return request.counters, request.x_ray, request.has_receivers
