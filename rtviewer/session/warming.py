"""Loading or compiling the kernels in the background, without keeping the first picture waiting."""

from __future__ import annotations

import threading
import time

from rtviewer.errors import CancelledError
from rtviewer.session.events import Event, JobEnded, PictureChanged
from rtviewer.session.jobs import Job, Lane
from rtviewer.session.live_work import LiveWork

LONGEST_WAIT_SECONDS = 10.0
"""What the first picture does not need is loaded after so long at the latest."""


def warm_up(session: LiveWork, *, after_first_picture: bool = False) -> Job:
    """See ``Session.warm_up``."""
    is_seen = _first_picture(session) if after_first_picture else None

    def work(job: Job) -> None:
        from rtviewer import kernels

        def report(fraction: float, text: str) -> None:
            if fraction > 0 and is_seen is not None:
                _wait(is_seen, job)
            if job.is_cancelled():
                raise CancelledError("warm-up was cancelled")
            job.progress(fraction, text)

        kernels.warm_up(report)

    return session._submit(Lane.KERNELS, "preparing kernels", work, lambda _: None)


def _first_picture(session: LiveWork) -> threading.Event:
    """Set once a picture was coloured, or something went wrong so that none will come."""
    is_seen = threading.Event()

    def heard(event: Event) -> None:
        if isinstance(event, PictureChanged) or (isinstance(event, JobEnded) and event.error is not None):
            is_seen.set()
            end()

    end = session.listen(heard)
    return is_seen


def _wait(is_seen: threading.Event, job: Job) -> None:
    end = time.monotonic() + LONGEST_WAIT_SECONDS
    while not is_seen.wait(0.05) and not job.is_cancelled() and time.monotonic() < end:
        pass
