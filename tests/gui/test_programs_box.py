"""Choosing programs by real clicks: built-in ones, a user's file after its warning, the switch that repeats calls."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox, QFileDialog

from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.dxr.verdicts import EventKind
from rtviewer.session.events import LogChanged
from rtviewer.shade.shadings import CLOSEST_HIT, MISS
from tests.gui.conftest import SCENES, open_and_settle, settle

LEFT = Qt.MouseButton.LeftButton
FOLDER = SCENES / "programs"


@pytest.fixture
def scene(window, qtbot):
    open_and_settle(window, qtbot, FOLDER)
    return window


def click(widget) -> None:
    QTest.mouseClick(widget, LEFT, pos=QPoint(8, widget.height() // 2))


def choose(box: QComboBox, data: object) -> None:
    """By the keyboard, as on any list."""
    box.setFocus()
    place = box.findData(data)
    assert place >= 0
    while box.currentIndex() != place:
        QTest.keyClick(box, Qt.Key.Key_Down if box.currentIndex() < place else Qt.Key.Key_Up)


def load(window, qtbot, monkeypatch, file, *, agree: bool = True) -> None:
    box = window.ray_flags.programs
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *a, **k: (str(file), ""))
    click(box.load)
    warning = box.warning
    qtbot.waitUntil(warning.isVisible)
    assert "Python code" in warning.text()
    assert "with your rights" in warning.text()
    assert warning.defaultButton() is warning.cancel
    click(warning.run if agree else warning.cancel)
    qtbot.waitUntil(lambda: not warning.isVisible())


def test_every_built_in_program_is_offered_and_traced(scene, qtbot):
    pane = scene.ray_flags
    for program in AnyHitProgram:
        assert pane.any_hit.findData(program) >= 0
    for program in (AnyHitProgram.ALPHA_MASK, AnyHitProgram.CHECKER):
        choose(pane.any_hit, program)
        assert scene.session.state.rays.any_hit is program
    for program in (IntersectionProgram.TORUS_FAR_FIRST, IntersectionProgram.TORUS):
        choose(pane.intersection, program)
        assert scene.session.state.rays.intersection is program
    settle(scene, qtbot)


def test_shadings_are_chosen_by_name(scene, qtbot):
    box = scene.ray_flags.programs
    for name in CLOSEST_HIT:
        choose(box.closest_hit, name)
        assert scene.session.state.image.closest_hit == name
    for name in MISS:
        choose(box.miss, name)
    assert scene.session.state.image.miss == "magenta"
    qtbot.waitUntil(
        lambda: scene.session.shaded is not None and tuple(scene.session.shaded.rgba[0, 0]) == (255, 0, 255, 255)
    )


def test_a_file_is_loaded_only_after_the_warning(scene, qtbot, monkeypatch):
    box, state = scene.ray_flags.programs, lambda: scene.session.state.rays
    assert not box.unload.isEnabled()
    load(scene, qtbot, monkeypatch, FOLDER / "programs.py", agree=False)
    QTest.qWait(50)
    assert state().programs.programs == ()
    load(scene, qtbot, monkeypatch, FOLDER / "programs.py")
    qtbot.waitUntil(lambda: len(state().programs.programs) == 2, timeout=60_000)
    assert box.file.text() == "programs.py: 2 programs"
    choose(box.any_hit, "stripes")
    choose(box.intersection, "cylinder")
    assert (state().any_hit, state().intersection) == ("stripes", "cylinder")
    settle(scene, qtbot)
    click(box.unload)
    assert (state().any_hit, state().intersection) == (AnyHitProgram.ACCEPT, IntersectionProgram.SPHERE)
    assert box.any_hit.findData("stripes") < 0
    settle(scene, qtbot)


def test_a_file_that_does_not_compile_is_told_with_its_line(scene, qtbot, monkeypatch, tmp_path):
    file = tmp_path / "own.py"
    file.write_text("import rtviewer as rt\n@rt.any_hit_program\ndef f(c):\n    return c.colour\n")
    load(scene, qtbot, monkeypatch, file)
    box = scene.ray_flags.programs
    qtbot.waitUntil(box.message.isVisible, timeout=60_000)
    assert "own.py:4: f: the candidate has no field 'colour'" in box.message.text()
    assert scene.session.state.rays.programs.programs == ()


def test_repeated_calls_show_in_the_log(scene, qtbot):
    box, session = scene.ray_flags.programs, scene.session
    choose(box.any_hit, AnyHitProgram.IGNORE)
    settle(scene, qtbot)
    rows, columns = (session.image.instance_index >= 1).nonzero()[:2]
    if not len(rows):  # everything ignored: aim at the middle of the picture, where the ball is
        rows, columns = [session.image.height * 42 // 100], [session.image.width // 2]
    logs = []
    session.listen(lambda event: logs.append(event.log) if isinstance(event, LogChanged) and event.log else None)
    session.pick_pixel(int(columns[0]), int(rows[0]))
    qtbot.waitUntil(lambda: bool(logs))
    assert EventKind.REPEATED not in logs[-1].events["kind"]
    count = len(logs)
    click(box.repeat)
    assert session.state.rays.repeat_calls
    qtbot.waitUntil(lambda: len(logs) > count)
    repeated = logs[-1].indices_of(EventKind.REPEATED)
    assert len(repeated)
    assert logs[-1].row(int(repeated[0])).rule in ("AH-7", "PROC-8")
    click(box.repeat)
    assert not session.state.rays.repeat_calls
