"""Item models against Qt's own model tester, and what they say."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester

from rtviewer.dxr.verdicts import EventKind, Verdict
from rtviewer.gui.models.box_tree import BoxTreeModel
from rtviewer.gui.models.events import STEP, VERDICT, EventsModel
from rtviewer.gui.models.numpy_table import Column, NumpyTableModel
from rtviewer.gui.widgets.text import format_significant
from rtviewer.io.registry import load_scene
from rtviewer.session.document import build_world
from rtviewer.session.log_text import COLUMNS, LogFormat, log_as
from rtviewer.session.state import LogFilter
from tests.gui.conftest import SCENES

FATAL = QAbstractItemModelTester.FailureReportingMode.Fatal


@pytest.fixture(scope="module")
def world(kernels_ready):
    return build_world(load_scene(SCENES / "culling_lab"))


@pytest.fixture(scope="module")
def flake(kernels_ready):
    return build_world(load_scene(SCENES / "sphereflake"))


def columns():
    return [
        Column("Value", np.array([3, 1, 2])),
        Column("Name", np.array(["c", "a", "b"], object), numeric=False),
    ]


def test_table_passes_the_model_tester_through_reset_and_sort(qapp):
    model = NumpyTableModel()
    tester = QAbstractItemModelTester(model, FATAL)
    model.set_columns(columns())
    model.sort(0)
    model.set_columns([])
    model.set_columns(columns())
    assert tester.model() is model


def test_table_sorts_both_ways_and_keeps_persistent_indices(qapp):
    model = NumpyTableModel()
    model.set_columns(columns())
    kept = QPersistentModelIndex(model.index(0, 1))
    model.sort(0)
    assert [model.index(row, 0).data() for row in range(3)] == ["1", "2", "3"]
    assert kept.data() == "c"
    assert kept.row() == 2
    model.sort(1, Qt.SortOrder.DescendingOrder)
    assert [model.index(row, 1).data() for row in range(3)] == ["c", "b", "a"]
    assert [model.source_row(row) for row in range(3)] == [0, 2, 1]
    assert model.view_row(2) == 1
    assert model.view_row(7) == -1


def test_table_refuses_ragged_columns(qapp):
    with pytest.raises(ValueError, match="different lengths"):
        NumpyTableModel().set_columns([Column("a", np.arange(2)), Column("b", np.arange(3))])


def test_table_aligns_numbers_right(qapp):
    model = NumpyTableModel()
    model.set_columns(columns())
    assert model.data(model.index(0, 0), Qt.ItemDataRole.TextAlignmentRole) & Qt.AlignmentFlag.AlignRight
    assert model.data(model.index(0, 1), Qt.ItemDataRole.TextAlignmentRole) & Qt.AlignmentFlag.AlignLeft


def test_tree_passes_the_model_tester_for_every_structure(qapp, world):
    model = BoxTreeModel()
    tester = QAbstractItemModelTester(model, FATAL)
    for structure in world.structure_indices:
        model.set_tree(world.tree(structure))
    model.set_tree(None)
    assert tester.model() is model


def walk(model: BoxTreeModel, parent: QModelIndex, boxes: list[int], items: list[tuple[int, int]]) -> None:
    for row in range(model.rowCount(parent)):
        index = model.index(row, 0, parent)
        assert model.parent(index) == parent
        item = model.item_of(index)
        if item is None:
            boxes.append(model.box_of(index))
            walk(model, index, boxes, items)
        else:
            items.append(item)


def test_tree_shows_every_box_and_every_active_item_once(qapp, world, flake):
    for one in (world, flake):
        for structure in one.structure_indices:
            tree, model = one.tree(structure), BoxTreeModel()
            model.set_tree(tree)
            boxes: list[int] = []
            items: list[tuple[int, int]] = []
            walk(model, QModelIndex(), boxes, items)
            assert sorted(boxes) == list(range(len(tree)))
            assert len(items) == len(set(items)) == int(one.structure(structure).header["active_count"])


def test_tree_finds_boxes_and_items_again(qapp, flake):
    tree, model = flake.tree(-1), BoxTreeModel()
    model.set_tree(tree)
    for box in range(0, len(tree), 37):
        assert model.box_of(model.index_of_box(box)) == box
    box = tree.box_of_item(5)
    assert model.item_of(model.index_of_item(box, (5, -1))) == (5, -1)
    assert not model.index_of_box(len(tree)).isValid()


@pytest.fixture(scope="module")
def log(world):
    return world.explain(pixel=(480, 270))


def test_events_pass_the_model_tester_and_filter(qapp, log):
    model = EventsModel()
    tester = QAbstractItemModelTester(model, FATAL)
    model.set_log(log)
    assert model.rowCount() == len(log)
    every = frozenset(EventKind)
    candidates = frozenset((EventKind.CANDIDATE, EventKind.REPORT))
    model.set_filter(LogFilter(candidates, frozenset({"accepted", "excluded", "interval"})))
    assert 0 < model.rowCount() < len(log)
    assert all(model.log_row(row).is_candidate for row in range(model.rowCount()))
    assert {model.log_row(row).family for row in range(model.rowCount())} <= {"accepted", "excluded", "interval"}
    assert [model.row_of_event(model.event_of(row)) for row in range(model.rowCount())] == list(range(model.rowCount()))
    assert model.row_of_event(0) == -1
    model.set_filter(LogFilter(every, frozenset()))
    assert model.rowCount() == 0
    model.set_log(None)
    assert tester.model() is model


def test_events_say_what_the_log_says(qapp, log):
    model = EventsModel()
    model.set_log(log)
    for row in range(model.rowCount()):
        assert model.index(row, STEP).data() == str(row)
        event = log.row(row)
        assert model.index(row, len(COLUMNS) - 1).data() == event.text
        if event.verdict is Verdict.COMMITTED:
            assert model.index(row, VERDICT).data() == "committed"
    lines = log_as(log, LogFormat.TEXT, range(len(log))).splitlines()
    first = lines.index("\t".join(column.title for column in COLUMNS))
    for row, line in enumerate(lines[first + 1 : first + 1 + len(log)]):
        assert line.split("\t") == [model.index(row, column).data() for column in range(len(COLUMNS))]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (6.9778, "6.98"), (1055.4, "1,060"), (0.03121, "0.0312"), (123456, "123,000"), (2.5e7, "2.50e7"),
     (1e-5, "1.00e-5"), (float("inf"), "inf"), (9.999, "10.0")],
)  # fmt: skip
def test_numbers_in_three_digits(value, text):
    assert format_significant(value) == text
