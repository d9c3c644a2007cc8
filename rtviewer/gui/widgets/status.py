"""The status bar: what the picture shown was traced with, how fast, and the running job with its cancel button."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QLabel, QProgressBar, QStatusBar, QToolButton

from rtviewer.dxr.flags import format_flags
from rtviewer.gui.binding import follow, listen
from rtviewer.gui.theme import Appearance, Theme, monospaced
from rtviewer.session.commands import Session
from rtviewer.session.events import DocumentChanged, JobEnded, JobProgressed, PictureChanged
from rtviewer.session.jobs import Lane
from rtviewer.session.state import State

MESSAGE_MS = 8000
SHOW_MS = 10
UPDATE_MS = 100
"""Progress is drawn at most ten times a second: each repaint recomposes the 3D view as well."""
PATIENCE_MS = 400
"""Images and picks shorter than this show no progress at all."""
SHOWN_LANES = (Lane.DOCUMENT, Lane.KERNELS, Lane.COPY, Lane.IMAGE, Lane.LOG)


class Status(QStatusBar):
    def __init__(self, session: Session, appearance: Appearance) -> None:
        super().__init__()
        self._session, self._appearance = session, appearance
        self._running: dict[Lane, tuple[float, str]] = {}
        self.setSizeGripEnabled(False)
        self.bar = QProgressBar()
        self.bar.setRange(0, 1000)
        self.bar.setFixedWidth(150)
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(12)
        self.bar.setAccessibleName("Progress of the running job")
        self.job = QLabel()
        self.cancel = QToolButton()
        self.cancel.setAutoRaise(True)
        self.cancel.setToolTip("Cancel the running job")
        self.cancel.setAccessibleName("Cancel the running job")
        self.cancel.clicked.connect(self._cancel)
        for widget in (self.job, self.bar, self.cancel):
            self.addPermanentWidget(widget)
            widget.hide()
        self.flags = self._field("The ray-flag word the picture shown was traced with")
        self.mask = self._field("The instance mask the picture shown was traced with")
        self.speed = self._field("Rays a second and wall time of the picture shown")
        self.profile = self._field("Feature tier the rules are checked against")
        self._update = QTimer(self, singleShot=True, interval=UPDATE_MS)
        self._update.timeout.connect(self._show_job)
        self._patience = QTimer(self, singleShot=True, interval=PATIENCE_MS)
        self._patience.timeout.connect(self._show_job)
        listen(
            self,
            session,
            {
                PictureChanged: self._picture_changed,
                JobProgressed: self._progressed,
                JobEnded: self._ended,
                DocumentChanged: lambda event: self._no_picture() if not event.is_rebuild else None,
            },
        )
        follow(self, session.store, {"profile"}, self._show_profile)
        self._no_picture()
        appearance.changed.connect(self._retint)
        self._retint(appearance.theme)

    def _field(self, tip: str) -> QLabel:
        field = QLabel()
        field.setFont(monospaced(-1))
        field.setToolTip(tip)
        field.setContentsMargins(8, 0, 8, 0)
        self.addPermanentWidget(field)
        return field

    def say(self, text: str) -> None:
        """A passing remark."""
        self.showMessage(text, MESSAGE_MS)

    def _show_profile(self, state: State) -> None:
        self.profile.setText(str(state.profile))

    def _no_picture(self) -> None:
        self.flags.setText("")
        self.mask.setText("")
        self.speed.setText("")

    def _picture_changed(self, event: PictureChanged) -> None:
        rays = event.buffer.rays
        self.flags.setText(f"flags 0x{int(rays.ray_flags):03X}")
        self.flags.setToolTip(f"The picture shown was traced with {format_flags(rays.ray_flags)}")
        self.mask.setText(f"mask 0x{rays.mask:02X}")
        speed = event.buffer.rays_per_second / 1e6
        self.speed.setText(
            f"{event.buffer.width}×{event.buffer.height}  {speed:6.2f} Mrays/s  {event.buffer.seconds * 1e3:6.0f} ms"
        )

    # Jobs

    def _progressed(self, event: JobProgressed) -> None:
        if event.lane not in SHOWN_LANES:
            return
        is_new = event.lane not in self._running
        self._running[event.lane] = (event.fraction, event.text)
        if is_new and event.lane in (Lane.DOCUMENT, Lane.KERNELS):
            self._show_job()
        elif is_new or (not event.fraction and not self.bar.isVisible()):  # begun anew: while a camera moves, for one
            self._patience.start()
        elif self.bar.isVisible() and not self._update.isActive():
            self._update.start()

    def _ended(self, event: JobEnded) -> None:
        self._running.pop(event.lane, None)
        if not self._running:
            self._patience.stop()
        if self.bar.isVisible():
            self._show_job()

    def _show_job(self) -> None:
        lane = next((lane for lane in SHOWN_LANES if lane in self._running), None)
        for widget in (self.job, self.bar, self.cancel):
            widget.setVisible(lane is not None)
        if lane is not None:
            fraction, text = self._running[lane]
            self.bar.setValue(round(fraction * 1000))
            self.job.setText(text)

    def _cancel(self) -> None:
        lane = next((lane for lane in SHOWN_LANES if lane in self._running), None)
        if lane is not None:
            self._session.jobs.cancel(lane)

    def _retint(self, theme: Theme) -> None:
        self.cancel.setIcon(self._appearance.icon("mdi6.close-circle-outline"))
