"""A real window on a virtual screen: ``./run test`` provides one. Without a display these tests are skipped."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HAS_DISPLAY = bool(os.environ.get("DISPLAY")) or sys.platform != "linux"
SCENES = Path(__file__).parents[2] / "scenes"

if HAS_DISPLAY:
    from rtviewer.gui.app import boot
    from rtviewer.gui.collector import Collector

    APPLICATION = boot(check_gl=True)  # before pytest-qt makes one without shared contexts


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.gui)
            if not HAS_DISPLAY:
                item.add_marker(pytest.mark.skip(reason="no display: run ./run test, which makes a virtual one"))


@pytest.fixture(autouse=True)
def _quiet(request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """What pyqtgraph swallows while drawing, and Qt's warnings, fail the test."""
    if not HAS_DISPLAY:
        yield
        return
    qtlog = request.getfixturevalue("qtlog")
    yield
    out, err = capfd.readouterr()
    assert "Error while drawing item" not in out + err
    warnings = [r.message for r in qtlog.records if r.type_name in ("QtWarningMsg", "QtCriticalMsg")]
    assert warnings == []


@pytest.fixture(scope="session", autouse=True)
def _collector() -> Iterator[None]:
    """As in the program: widgets of earlier tests are not destroyed by a thread that traces or compiles."""
    if not HAS_DISPLAY:
        yield
        return
    collector = Collector()
    yield
    collector.stop()


@pytest.fixture(scope="session")
def kernels_ready() -> None:
    from rtviewer import kernels

    kernels.warm_up()


@pytest.fixture
def settings(tmp_path):
    from rtviewer.gui.app import open_settings

    return open_settings(tmp_path)


@pytest.fixture
def window(qtbot, settings, kernels_ready):
    """An empty window, shown and active; closed and checked for draw errors afterwards."""
    from PySide6.QtTest import QTest

    from rtviewer.gui.app import make_window

    made = make_window(settings)
    made.resize(1500, 940)
    made.show()
    qtbot.waitExposed(made)
    made.activateWindow()
    QTest.qWaitForWindowActive(made)
    yield made
    errors = made.structure_view.view.errors
    made.close()
    made.deleteLater()
    assert errors == []


@pytest.fixture
def cornell(window, qtbot):
    """A window with the Cornell box open, its image complete."""
    open_and_settle(window, qtbot, SCENES / "cornell")
    return window


@pytest.fixture
def culling_lab(window, qtbot):
    open_and_settle(window, qtbot, SCENES / "culling_lab")
    return window


def open_and_settle(window, qtbot, path) -> None:
    window.open_file(path)
    qtbot.waitUntil(lambda: window.session.world is not None, timeout=30_000)
    settle(window, qtbot)


def is_complete(window) -> bool:
    """The picture of the present state is on the screen and nothing runs."""
    shown, state = window.trace_view.shown_buffer, window.session.state
    content = window.structure_view.content
    return (
        window.is_settled
        and shown is not None
        and shown.is_complete
        and shown.world is window.session.world
        and shown.camera == state.camera
        and shown.rays == state.rays
        and (shown.width, shown.height) == window.trace_view.device_size()
        and content.prepared is not None
        and content.prepared.world is window.session.world
    )


def settle(window, qtbot) -> None:
    qtbot.waitUntil(lambda: is_complete(window), timeout=30_000)
