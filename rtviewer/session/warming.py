"""Loading or compiling the kernels in the background, without keeping the first picture waiting."""

from __future__ import annotations

import threading
import time

from rtviewer.errors import CancelledError
from rtviewer.session.events import Event, JobEnded, PictureChanged
from rtviewer.session.jobs import Job, Lane
from rtviewer.session.live_work import LiveWork

LONGEST_WAIT_SECONDS = 10.0
"""After so long at the latest, what the first picture does not need is loaded whether it came or not."""


def warm_up(session: LiveWork, *, after_first_picture: bool = False) -> Job:
    """See ``Session.warm_up``."""
    is_seen = _first_picture(session) if after_first_picture else None
    deadline = time.monotonic() + LONGEST_WAIT_SECONDS

    def work(job: Job) -> None:
        from rtviewer import kernels

        def report(fraction: float, text: str) -> None:
            if fraction > 0 and is_seen is not None:
                _wait(is_seen, job, deadline)
            if job.is_cancelled():
                raise CancelledError("warm-up was cancelled")
            job.progress(fraction, text)

        kernels.warm_up(report)

    return session._submit(Lane.KERNELS, "preparing kernels", work, lambda _: None)


def _first_picture(session: LiveWork) -> threading.Event:
    """Set once a picture was coloured, or none will come: something went wrong, or what was opened is no scene."""
    is_seen = threading.Event()

    def heard(event: Event) -> None:
        none_comes = False
        if isinstance(event, JobEnded) and event.lane is not Lane.KERNELS:
            none_comes = event.error is not None or session.world is None
        if (isinstance(event, PictureChanged) or none_comes) and not is_seen.is_set():
            is_seen.set()
            end()

    end = session.listen(heard)
    return is_seen


def _wait(is_seen: threading.Event, job: Job, deadline: float) -> None:
    while not is_seen.wait(0.05) and not job.is_cancelled() and time.monotonic() < deadline:
        pass
