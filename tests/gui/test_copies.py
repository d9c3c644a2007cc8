"""Copy actions on a structure, and the panes that show sizes, addresses and copies."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog

from rtviewer.dxr.flags import BuildFlag, CopyMode
from rtviewer.gui.panes.memory import allocations_of
from rtviewer.io.blob_file import read_blob
from rtviewer.session.image_tracing import trace_image
from rtviewer.session.state import RaySettings
from tests.gui.conftest import SCENES, open_and_settle, settle
from tests.gui.gestures import LEFT


@pytest.fixture
def compactable(window, qtbot):
    """The Cornell box built so that it can be compacted."""
    window.session.set_build_flags("blas", BuildFlag.ALLOW_COMPACTION)
    open_and_settle(window, qtbot, SCENES / "cornell")
    window.session.select(structure=0, box=0)
    return window


@pytest.fixture
def answers(monkeypatch):
    """What the file dialogs answer: set ``answers["name"]``."""
    given = {"name": ""}
    for method in ("getSaveFileName", "getOpenFileName"):
        monkeypatch.setattr(QFileDialog, method, lambda *a, **k: (str(given["name"]), ""))
    return given


def wait_for_copies(window, qtbot, count: int) -> None:
    qtbot.waitUntil(lambda: len(window.session.document.copies) == count and window.is_settled, timeout=20_000)


def test_the_context_menu_of_a_structure_offers_the_copy_actions(cornell):
    table = cornell.structures.table
    assert table.contextMenuPolicy() is Qt.ContextMenuPolicy.ActionsContextMenu
    offered = {action.objectName() for action in table.actions()}
    assert offered == {
        f"action_{name}" for name in ("clone", "compact", "serialize", "decode", "deserialize", "save_capture")
    }
    row = table.visualRect(cornell.structures.model.index(2, 0)).center()
    QTest.mouseClick(table.viewport(), Qt.MouseButton.RightButton, pos=row)
    assert cornell.session.state.selection.structure == 1


def test_compacting_shows_the_copy_where_it_lives(compactable, qtbot):
    window = compactable
    window.actions_["compact"].trigger()
    wait_for_copies(window, qtbot, 1)
    record = window.session.document.copies[0]
    assert record.data_size < record.source_size
    assert "COMPACT of room" in window.status.currentMessage()
    assert window.memory.isVisible()
    rows = [window.memory.model.index(row, 3).data() for row in range(window.memory.model.rowCount())]
    assert rows[-1] == "room (compact)"
    assert "1 copy among them" in window.memory.total.text()


def test_a_copy_can_take_its_sources_place_and_gives_the_same_picture(compactable, qtbot):
    window, before = compactable, compactable.session.world
    old = trace_image(before, window.session.state.camera, (64, 36), RaySettings())
    window.actions_["compact"].trigger()
    wait_for_copies(window, qtbot, 1)
    assert not window.memory.use.isEnabled()
    window.memory.map.resize(600, 30)
    last = window.memory.map.blocks()[-1].center()
    QTest.mouseClick(window.memory.map, LEFT, pos=last.toPoint())
    assert window.memory.use.isEnabled()
    QTest.mouseClick(window.memory.use, LEFT)
    qtbot.waitUntil(lambda: window.session.world is not before, timeout=20_000)
    settle(window, qtbot)
    world, copy = window.session.world, window.session.document.copies[0].copy
    assert world.blases[0].address == copy.address
    new = trace_image(world, window.session.state.camera, (64, 36), RaySettings())
    np.testing.assert_array_equal(old.t, new.t)
    np.testing.assert_array_equal(old.primitive_index, new.primitive_index)


def test_a_copy_is_forgotten(compactable, qtbot):
    window = compactable
    window.actions_["clone"].trigger()
    wait_for_copies(window, qtbot, 1)
    window.memory.table.setCurrentIndex(window.memory.model.index(window.memory.model.rowCount() - 1, 0))
    QTest.mouseClick(window.memory.forget, LEFT)
    assert window.session.document.copies == ()
    assert all(a.kind != "copy" for a in window.memory.allocations)


def test_a_refused_copy_says_the_rule_over_the_views(cornell, qtbot):
    cornell.session.select(structure=0, box=0)
    cornell.actions_["compact"].trigger()
    assert cornell.banner.isVisible()
    assert "CP-12" in cornell.banner.text.text()
    assert cornell.session.document.copies == ()


def test_copy_actions_on_nothing_are_refused(window, answers, tmp_path):
    answers["name"] = tmp_path / "x"
    for name in ("clone", "serialize", "decode", "deserialize", "save_capture"):
        window.banner.dismiss()
        window.actions_[name].trigger()
        assert window.banner.isVisible(), name
        assert "open" in window.banner.text.text()
    assert list(tmp_path.iterdir()) == [tmp_path / "rtviewer.ini"] or not list(tmp_path.glob("x*"))


def test_serialize_writes_a_blob_and_deserialize_reads_it_back(cornell, qtbot, answers, tmp_path):
    window = cornell
    window.session.select(structure=1, box=0)
    answers["name"] = tmp_path / "block"
    window.actions_["serialize"].trigger()
    wait_for_copies(window, qtbot, 1)
    blob = tmp_path / "block.rtblob"
    assert len(read_blob(blob)) == window.session.document.copies[0].data_size
    assert window.blob.isVisible()
    answers["name"] = blob
    window.actions_["deserialize"].trigger()
    wait_for_copies(window, qtbot, 2)
    copy = window.session.document.copies[1].copy
    assert copy is not None
    used = copy.used_size
    np.testing.assert_array_equal(copy.nodes, window.session.world.blases[1].nodes)
    assert used == window.session.world.blases[1].used_size


def test_a_damaged_blob_is_refused_in_the_banner(cornell, qtbot, answers, tmp_path):
    answers["name"] = tmp_path / "bad.rtblob"
    answers["name"].write_bytes(b"\1" * 100)
    cornell.session.select(structure=0, box=0)
    cornell.actions_["deserialize"].trigger()
    qtbot.waitUntil(cornell.banner.isVisible, timeout=20_000)
    assert "bad.rtblob" in cornell.banner.text.text()
    assert cornell.session.document.copies == ()


def test_decode_writes_a_dump_that_opens(cornell, qtbot, answers, tmp_path):
    window = cornell
    window.session.select(structure=1, box=0)
    answers["name"] = tmp_path / "block.rtdump"
    window.actions_["decode"].trigger()
    wait_for_copies(window, qtbot, 1)
    assert window.decode.isVisible()
    before = window.session.world
    window.open_file(answers["name"])
    qtbot.waitUntil(lambda: window.session.world is not before, timeout=20_000)
    settle(window, qtbot)
    assert int(window.session.world.blases[0].header["active_count"]) == 12


def test_a_capture_is_saved_and_opened_again(culling_lab, qtbot, answers, tmp_path):
    window, before = culling_lab, culling_lab.session.world
    answers["name"] = tmp_path / "lab"
    window.actions_["save_capture"].trigger()
    qtbot.waitUntil(lambda: (tmp_path / "lab.rtcap").exists() and window.is_settled, timeout=20_000)
    first = window.trace_view.shown.rgba.copy()
    window.open_file(tmp_path / "lab.rtcap")
    qtbot.waitUntil(lambda: window.session.world is not before, timeout=20_000)
    settle(window, qtbot)
    assert not window.session.document.has_inputs
    np.testing.assert_array_equal(window.trace_view.shown.rgba, first)
    window.show_panes(["decode"])
    qtbot.waitUntil(lambda: window.decode.decoded is not None, timeout=20_000)
    assert "no build inputs" in window.decode.difference.text()


def test_sizes_are_those_of_the_session_and_the_bars_follow_the_selection(compactable, qtbot):
    window, pane = compactable, compactable.sizes
    window.show_panes(["sizes"])
    qtbot.waitUntil(lambda: len(pane.rows) == 3, timeout=20_000)
    assert pane.rows == list(window.session.sizes())
    window.session.select(structure=1, box=0)
    assert pane.heading.text() == "block"
    row = pane.rows[2]
    values = {bar.name: bar.value for bar in pane.sizes.bars}
    assert values["Current"] == row.current
    assert values["Compacted"] == row.compacted
    assert sum(bar.value for bar in pane.sections.bars) == row.current
    assert f"{row.compacted:,} after" in pane.compaction.text()
    widths = pane.sizes.bar_widths()
    assert widths[3] / widths[5] == pytest.approx(row.current / row.serialized)
    window.session.select(structure=-1, box=0)  # the top level was built without the flag
    assert "CP-12" in pane.compaction.text()
    assert {bar.name: bar.text for bar in pane.sizes.bars}["Compacted"] == "–"


def test_a_copy_stands_among_the_bars_of_its_source(compactable, qtbot):
    window = compactable
    window.actions_["compact"].trigger()
    wait_for_copies(window, qtbot, 1)
    window.show_panes(["sizes"])
    qtbot.waitUntil(lambda: any(bar.name == "Compact copy" for bar in window.sizes.sizes.bars), timeout=20_000)
    bars = {bar.name: bar.value for bar in window.sizes.sizes.bars}
    assert bars["Compact copy"] == bars["Compacted"]


def test_memory_lists_every_structure_without_overlap_and_who_refers_to_it(culling_lab, qtbot):
    window, pane = culling_lab, culling_lab.memory
    window.show_panes(["memory"])
    allocations = allocations_of(window.session.document)
    assert pane.allocations == allocations
    assert len(allocations) == 1 + len(window.session.world.blases)
    for one, other in pairwise(allocations):
        assert one.end <= other.address
        assert one.address % 256 == 0
    top = next(i for i, a in enumerate(allocations) if a.kind == "top")
    pane.table.setCurrentIndex(pane.model.index(pane.model.view_row(top), 0))
    assert window.session.state.selection.structure == -1
    assert len(pane.map._referenced) == len(
        np.unique(window.session.world.instance_blas[window.session.world.instance_blas >= 0])
    )
    words = pane.model.index(pane.model.view_row(0), 6).data()
    uses = int((window.session.world.instance_blas == allocations[0].structure).sum())
    assert words.startswith(f"referred to by {uses:,} instance")


def test_the_panes_say_what_would_fill_them(window):
    for name in ("sizes", "memory", "decode", "blob", "updates"):
        window.show_panes([name])
        pane = window.docks[name].widget()
        assert pane.stack.currentIndex() == 0
        assert "Open a scene" in pane.empty.text()


def test_blocks_of_the_map_are_to_scale_and_clickable(culling_lab):
    pane = culling_lab.memory
    pane.map.resize(900, 30)
    blocks = pane.map.blocks()
    assert blocks[-1].right() <= 900.5
    sizes = [allocation.size for allocation in pane.allocations]
    widest = int(np.argmax(sizes))
    assert max(range(len(blocks)), key=lambda i: blocks[i].width()) == widest
    QTest.mouseClick(pane.map, LEFT, pos=QPoint(int(blocks[widest].center().x()), 12))
    assert culling_lab.session.state.selection.structure == pane.allocations[widest].structure


def test_every_mode_of_copy_has_a_pane_for_its_result():
    from rtviewer.gui.docks import PANES
    from rtviewer.gui.structure_actions import PANE_OF_MODE

    plain = {mode for mode in CopyMode if int(mode) < 0x80000000}
    assert set(PANE_OF_MODE) == plain
    assert set(PANE_OF_MODE.values()) <= {spec.pane.name for spec in PANES}
