"""The window comes first: compilers are loaded after it was painted, and never by the thread that paints."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from PySide6.QtWidgets import QApplication, QWidget

from rtviewer.gui.first_paint import LONGEST_WAIT_MS, FirstPaint
from tests.gui.conftest import SCENES

WATCHED = """
import json, sys, threading
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QMainWindow
from rtviewer.gui.main_window import MainWindow

seen = {"paints": 0, "numba": None}

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "numba" and seen["numba"] is None:
            on_main = threading.current_thread() is threading.main_thread()
            seen["numba"] = {"paints": seen["paints"], "on_main_thread": on_main}
        return None

sys.meta_path.insert(0, Watch())

def look(window):
    if "rtviewer.kernels.traverse" in sys.modules and window.session.world is not None:
        window.close()

def paint(self, event):
    if seen["paints"] == 0:
        seen["loaded"] = sorted({name.split(".")[0] for name in sys.modules} & {"numba", "llvmlite", "trimesh"})
        self.watch = QTimer(self, interval=20)
        self.watch.timeout.connect(lambda: look(self))
        self.watch.start()
    seen["paints"] += 1
    QMainWindow.paintEvent(self, event)

MainWindow.paintEvent = paint
from rtviewer.cli.main import run
code = run(sys.argv[1:])
print(json.dumps(seen))
sys.exit(code)
"""
"""The program, noting what was loaded at its first painting and who imported numba when; it ends once the scene is
there and the tracer is loaded."""


@pytest.mark.gui
def test_numba_is_imported_after_the_window_was_painted_and_by_another_thread(tmp_path, kernels_ready):
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, "view", str(SCENES / "cornell")], capture_output=True, text=True, timeout=200,
        check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["loaded"] == []
    assert seen["numba"] == {"paints": seen["numba"]["paints"], "on_main_thread": False}
    assert seen["numba"]["paints"] >= 1


def test_work_waits_for_the_first_painting_and_runs_once(qtbot):
    calls = []
    window = QWidget()
    qtbot.addWidget(window)
    FirstPaint(window, lambda: calls.append(window.isVisible()))
    QApplication.processEvents()
    assert calls == []
    window.show()
    qtbot.waitUntil(lambda: calls == [True], timeout=5000)
    window.repaint()
    qtbot.wait(LONGEST_WAIT_MS + 200)
    assert calls == [True]


def test_a_window_that_is_never_painted_does_not_wait_for_ever(qtbot):
    calls = []
    window = QWidget()
    qtbot.addWidget(window)
    FirstPaint(window, lambda: calls.append(window.isVisible()))
    qtbot.waitUntil(lambda: calls == [False], timeout=LONGEST_WAIT_MS + 5000)
