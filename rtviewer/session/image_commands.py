"""Verbs on the picture beside those that set one field: the next mode, the x-ray and back, a file of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rtviewer.session.events import Refusal
from rtviewer.session.jobs import Job, Lane
from rtviewer.session.live_work import LiveWork
from rtviewer.session.picture_file import check_picture_path, save_picture
from rtviewer.shade.modes import MODES
from rtviewer.shade.palettes import PALETTES

X_RAY_MODE = "x_ray_surfaces"


class ImageCommands(LiveWork):
    """Part of a Session."""

    _mode_before_x_ray = "shaded"

    def step_image_mode(self, step: int) -> None:
        """Show the mode ``step`` places on in the table, around its end."""
        self._show_mode(_stepped(list(MODES), self.state.image.mode, step))

    def step_palette(self, step: int) -> None:
        """Colour with the palette ``step`` places on, around the end."""
        name = _stepped(list(PALETTES), self.state.image.palette, step)
        self.store.replace(image=replace(self.state.image, palette=name))

    def toggle_x_ray(self) -> None:
        """Show how many surfaces lie along each ray, or what was shown before that."""
        mode = self.state.image.mode
        if MODES[mode].is_x_ray:
            self._show_mode(self._mode_before_x_ray)
        else:
            self._mode_before_x_ray = mode
            self._show_mode(X_RAY_MODE)

    def _show_mode(self, name: str) -> None:
        self.store.replace(image=replace(self.state.image, mode=name))

    def save_image(self, path: Path | str, *, legend: bool = True) -> Job | Refusal:
        """Write the picture on show in the background, see ``picture_file.save_picture``; FileFormatError at once for
        a suffix that is no picture's."""
        target, buffer, settings = Path(path), self.image, self.state.image
        check_picture_path(target)
        if buffer is None:
            return self._refuse(Refusal("there is no picture to save yet"))

        def work(_: Job) -> None:
            save_picture(target, buffer, settings, legend=legend)

        return self._submit(Lane.COPY, f"writing {target.name}", work, lambda _: None)


def _stepped(names: list[str], name: str, step: int) -> str:
    return names[(names.index(name) + step) % len(names)]
