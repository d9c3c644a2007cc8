"""``rtviewer view --screenshot``: the window as a picture, from a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PySide6.QtWidgets import QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit

from rtviewer.shade.palettes import palette
from tests.gui.conftest import SCENES


def view(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rtviewer", "view", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280, cwd=cwd)


def test_a_screenshot_shows_the_scene_and_a_logged_ray(tmp_path, kernels_ready):
    done = view(SCENES / "cornell", "--screenshot", tmp_path / "out.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Error while drawing item" not in done.stdout + done.stderr
    picture = np.asarray(Image.open(tmp_path / "out.png").convert("RGB"))
    height, width = picture.shape[:2]
    assert width >= 1200
    assert height >= 700
    middle = picture[int(height * 0.15) : int(height * 0.5), int(width * 0.25) : int(width * 0.75)]
    assert len(np.unique(middle.reshape(-1, 3), axis=0)) > 100


def test_panes_can_be_brought_to_the_front(tmp_path, kernels_ready):
    pictures = []
    for panes in ("ray_log", "instances"):
        done = view(SCENES / "cornell", "--screenshot", tmp_path / "out.png", "--panes", panes, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        pictures.append(np.asarray(Image.open(tmp_path / "out.png").convert("RGB")))
    below = slice(int(pictures[0].shape[0] * 0.75), None)
    assert np.any(pictures[0][below] != pictures[1][below])


def test_a_stepped_ray_can_be_pictured(tmp_path, kernels_ready):
    lab = SCENES / "culling_lab"
    pictures = []
    for step in (8, 60):
        arguments = ("--pixel", "480,270", "--step", step, "--expect", "instance=20")
        done = view(lab, "--screenshot", tmp_path / "out.png", *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        pictures.append(np.asarray(Image.open(tmp_path / "out.png").convert("RGB")))
    assert np.any(pictures[0] != pictures[1])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [(("--step", "99999"), "no event 99999"), (("--expect", "instance=99"), "none is 99"),
     (("--pixel", "960,0"), "outside the 960 x 540")],
)  # fmt: skip
def test_a_ray_that_cannot_be_pictured_is_a_mistake(tmp_path, kernels_ready, arguments, why):
    done = view(SCENES / "cornell", "--screenshot", tmp_path / "out.png", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert why in done.stderr
    assert not (tmp_path / "out.png").exists()


def test_what_goes_with_a_picture_needs_one(tmp_path):
    done = view(SCENES / "cornell", "--step", "3", cwd=tmp_path)
    assert done.returncode == 2
    assert "go with --screenshot" in done.stderr


@pytest.mark.parametrize("arguments", [("no-such-file.obj",), ("--panes", "no_such_pane")])
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path, arguments):
    done = view(*arguments, "--screenshot", tmp_path / "out.png", cwd=tmp_path)
    assert done.returncode == 2
    assert "no" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.png").exists()


def test_every_control_has_a_name_for_screen_readers(window):
    nameless = []
    for kind in (QAbstractButton, QComboBox, QLineEdit, QAbstractSpinBox):
        for control in window.findChildren(kind):
            own = control.objectName().startswith("qt_") or isinstance(control.parent(), QLineEdit)  # Qt's own parts
            text = control.text() if hasattr(control, "text") else ""
            if not own and not (control.accessibleName() or text or control.toolTip()):
                nameless.append((type(control).__name__, control.parent().objectName()))
    assert nameless == []


def test_a_mode_can_be_asked_for(tmp_path, kernels_ready):
    done = view(SCENES / "cornell", "--mode", "x_ray_surfaces", "--screenshot", "a.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "a.png") as image:
        colours = {tuple(colour) for _, colour in image.convert("RGB").getcolors(1 << 24)}
    assert tuple(palette("viridis")[255]) in colours  # the most surfaces that there are
    refused = view(SCENES / "cornell", "--mode", "pretty", "--screenshot", "b.png", cwd=tmp_path)
    assert refused.returncode == 2
    assert "x_ray_surfaces" in refused.stderr
