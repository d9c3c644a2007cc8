"""``rtviewer view`` from the terminal: no display, Ctrl+C, blobs of other drivers, top levels that come alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image
from PySide6.QtWidgets import QWidget

from rtviewer.cli.doctor import failure_reason
from rtviewer.copymode.serialize import serialize
from rtviewer.gui.display import display_problem
from rtviewer.gui.interrupt import Interrupt
from rtviewer.io.bottom_level_files import BottomLevelFile
from tests.gui.conftest import SCENES
from tests.gui.test_screenshot import view

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="displays are asked on Linux only")

ANNOUNCED = """
import sys
from rtviewer.gui.main_window import MainWindow
def shown(self, event):
    print("shown", flush=True)
MainWindow.showEvent = shown
from rtviewer.cli.main import main
main(sys.argv[1:])
"""
"""The program, saying when its window is there."""


@pytest.fixture
def lone_top_level(cornell, tmp_path):
    """A blob of the Cornell box's top level, and those of its bottom levels in the order of their addresses."""
    world = cornell.session.world
    tlas = tmp_path / "tlas.rtblob"
    tlas.write_bytes(serialize(world.tlas).tobytes())
    files = []
    for number, blas in enumerate(world.blases):
        files.append(tmp_path / f"blas{number}.rtblob")
        files[-1].write_bytes(serialize(blas).tobytes())
    return tlas, files


def without_display(**extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return kept | extra


@linux_only
@pytest.mark.parametrize("extra", [{}, {"DISPLAY": ":4711"}, {"DISPLAY": "nonsense"}, {"WAYLAND_DISPLAY": "none-0"}])
@pytest.mark.parametrize("arguments", [(), ("--screenshot", "out.png")])
def test_without_a_display_view_says_so(tmp_path, extra, arguments):
    command = [sys.executable, "-m", "rtviewer", "view", str(SCENES / "cornell"), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path, env=without_display(**extra)
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("rtviewer: no display: ")
    assert done.stderr.count("\n") == 1


@linux_only
def test_a_missing_file_is_told_before_the_display(tmp_path):
    command = [sys.executable, "-m", "rtviewer", "view", "nowhere.obj"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path, env=without_display()
    )
    assert (done.returncode, done.stderr) == (2, "rtviewer: nowhere.obj: there is no such file or folder\n")


@linux_only
def test_what_a_display_is(monkeypatch):
    assert display_problem() is None  # the one this test runs on
    monkeypatch.setenv("DISPLAY", ":4711")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert ":4711" in (display_problem() or "")
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    assert display_problem() is None


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("takes_picture", [False, True])
def test_ctrl_c_closes_the_window(tmp_path, kernels_ready, takes_picture):
    arguments = ["view", str(SCENES / "cornell"), *(["--screenshot", "out.png"] if takes_picture else [])]
    environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}
    child = subprocess.Popen(
        [sys.executable, "-c", ANNOUNCED, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=tmp_path, env=environment,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "shown\n"
        time.sleep(0.3 if takes_picture else 2.0)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert (child.returncode, err) == (130, "rtviewer: interrupted\n")
    assert not (tmp_path / "out.png").exists()


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_an_interrupt_is_noted_and_the_old_handler_comes_back(qtbot):
    before = signal.getsignal(signal.SIGINT)
    widget = QWidget()
    qtbot.addWidget(widget)
    widget.show()
    with Interrupt() as interrupt:
        assert not interrupt.is_requested
        os.kill(os.getpid(), signal.SIGINT)
        qtbot.waitUntil(lambda: not widget.isVisible(), timeout=5000)
    assert interrupt.is_requested
    assert signal.getsignal(signal.SIGINT) is before


def test_a_screenshot_of_a_foreign_blob_shows_its_pane(cornell, tmp_path):
    data = serialize(cornell.session.world.blases[0]).copy()
    data[:16] = 7  # another GUID
    path = tmp_path / "driver.rtblob"
    path.write_bytes(data.tobytes())
    done = view(path, "--screenshot", tmp_path / "blob.png", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    empty = view("--panes", "blob", "--screenshot", tmp_path / "empty.png", cwd=tmp_path)
    assert (empty.returncode, empty.stderr) == (0, "")
    with_blob, without = (np.asarray(Image.open(tmp_path / f"{name}.png").convert("RGB")) for name in ("blob", "empty"))
    assert with_blob.shape == without.shape
    assert np.count_nonzero((with_blob != without).any(axis=2)) > 5000


def test_a_top_level_alone_opens_with_its_bottom_levels(lone_top_level, tmp_path):
    tlas, files = lone_top_level
    assert len(files) > 1
    done = view(tlas, "--blas", *files, "--screenshot", tmp_path / "out.png", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out.png").exists()


def test_reload_keeps_the_bottom_levels(lone_top_level, window, qtbot):
    tlas, files = lone_top_level
    window.open_file(tlas, bottom_levels=[BottomLevelFile(file) for file in files])
    qtbot.waitUntil(lambda: window.session.document.path == tlas, timeout=20_000)
    world = window.session.world
    window.reload()
    qtbot.waitUntil(lambda: window.session.world is not world, timeout=20_000)
    assert len(window.session.world.blases) == len(files)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--blas", "a.rtblob"), "--blas"),
        (("--base-address", "0x1000"), "--base-address"),
        ((SCENES / "cornell", "--blas", "a.rtblob"), "--blas"),
        (("--panes", "no_such_pane"), "no pane 'no_such_pane'"),
        ((SCENES / "cornell", "--screenshot", "no/such/folder/a.png"), "cannot write"),
    ],
)
def test_mistakes_are_one_line_with_the_name_of_the_program(tmp_path, kernels_ready, arguments, said):
    shot = () if "--screenshot" in arguments else ("--screenshot", tmp_path / "out.png")
    done = view(*arguments, *shot, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("rtviewer: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_doctor_names_the_cause_of_a_failure():
    qt = (
        'qt.qpa.xcb: could not connect to display :9\nqt.qpa.plugin: Could not load "xcb"\n'
        "This application failed to start because no plugin is there.\n\nAvailable platform plugins are: a.\n"
    )
    assert failure_reason(qt, -6) == 'qt.qpa.xcb: could not connect to display :9; qt.qpa.plugin: Could not load "xcb"'
    assert failure_reason("Traceback (most recent call last):\n  File\nImportError: libGL.so.1\n", 1) == (
        "ImportError: libGL.so.1"
    )
    assert failure_reason("", -11) == "the check ended with code -11"


def test_doctor_fails_when_opengl_does_not_work_on_a_display():
    broken = os.environ | {"QT_XCB_GL_INTEGRATION": "none"}
    codes = []
    for environment in (os.environ, broken):
        done = subprocess.run(
            [sys.executable, "-m", "rtviewer", "doctor", "--json"], capture_output=True, text=True, timeout=120,
            check=False, env=environment,
        )  # fmt: skip
        codes.append((done.returncode, '"available": true' in done.stdout))
    assert codes == [(0, True), (1, False)]
