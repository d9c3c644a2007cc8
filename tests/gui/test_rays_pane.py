"""The Rays pane: a file of rays as a table, by real clicks and keys."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QMimeData, QModelIndex, QPersistentModelIndex, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QAbstractItemModelTester, QTest
from PySide6.QtWidgets import QApplication, QFileDialog

from rtviewer.gui.models.ray_list import NAMES, RayListModel, table_columns
from rtviewer.io.ray_file import read_rays
from rtviewer.io.registry import load_scene
from rtviewer.scene.ray_sources import SourceKind
from rtviewer.session.document import build_world
from rtviewer.session.ray_list import COLUMNS, RayStatus, trace_list
from rtviewer.session.state import RaySettings
from tests.gui.conftest import SCENES
from tests.gui.gestures import LEFT

FATAL = QAbstractItemModelTester.FailureReportingMode.Fatal
COUNT = 400


def write(path, count=COUNT):
    """Rays in the Cornell box; ray 3 has no number for an origin, ray 5 no interval."""
    random = np.random.default_rng(2)
    made = {
        "origin": np.tile(np.float32([0, 1, 4]), (count, 1)),
        "direction": np.concatenate([random.uniform(-1, 1, (count, 2)), np.full((count, 1), -1)], 1).astype(np.float32),
        "t_min": np.zeros(count, np.float32),
        "t_max": np.full(count, np.inf, np.float32),
        "mask": np.full(count, 0xFF, np.uint32),
    }
    if count > 5:
        made["origin"][3, 0] = np.nan
        made["t_min"][5], made["t_max"][5] = 2, 1
    np.savez(path, **made)
    return path


def settled(window, qtbot, order=None):
    def done():
        rays = window.session.ray_list
        return (
            window.is_settled and rays is not None and window.rays._rays is rays and window.rays.model.columnCount() > 0
        )

    qtbot.waitUntil(done, timeout=30_000)


@pytest.fixture
def listed(cornell, qtbot, tmp_path):
    """Cornell with a list of rays open."""
    cornell.session.open_rays(write(tmp_path / "rays.npz"))
    settled(cornell, qtbot)
    qtbot.waitUntil(lambda: cornell.rays.model.rowCount() == COUNT, timeout=20_000)
    return cornell


def click_header(window, name) -> None:
    header, column = window.rays.table.horizontalHeader(), NAMES.index(name)
    window.rays.table.scrollTo(window.rays.model.index(0, column))
    at = QPoint(header.sectionViewportPosition(column) + 10, header.height() // 2)
    QTest.mouseClick(header.viewport(), LEFT, pos=at)


def click_row(window, row) -> None:
    table = window.rays.table
    table.scrollTo(window.rays.model.index(row, 0))
    QTest.mouseClick(table.viewport(), LEFT, pos=table.visualRect(window.rays.model.index(row, 0)).center())


def order_of(window) -> list[int]:
    return [window.rays.model.source_row(row) for row in range(window.rays.model.rowCount())]


def test_the_empty_pane_says_what_fills_it_and_opens_it(cornell, qtbot, tmp_path, monkeypatch):
    cornell.show_panes(["rays"])
    assert "NPZ with arrays origin, direction" in cornell.rays.empty.text()
    path = write(tmp_path / "rays.npz")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    QTest.mouseClick(cornell.rays.open_button, LEFT)
    settled(cornell, qtbot)
    assert cornell.rays.table.isVisible()
    assert cornell.rays.about.text().startswith("rays.npz · 400 rays")


def test_the_action_opens_rays_and_shows_the_pane(cornell, qtbot, tmp_path, monkeypatch):
    path = write(tmp_path / "rays.npz")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    assert not cornell.rays.table.visibleRegion().boundingRect().isValid()
    QTest.keyClick(cornell, Qt.Key.Key_O, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    settled(cornell, qtbot)
    qtbot.waitUntil(lambda: cornell.rays.table.visibleRegion().boundingRect().isValid(), timeout=5000)


def test_a_dropped_file_of_rays_is_listed(cornell, qtbot, tmp_path):
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(write(tmp_path / "dropped.npz")))])
    for kind, at in ((QDragEnterEvent, QPoint(50, 50)), (QDropEvent, QPointF(50, 50))):
        event = kind(at, Qt.DropAction.CopyAction, data, LEFT, Qt.KeyboardModifier.NoModifier)
        QApplication.sendEvent(cornell, event)
        assert event.isAccepted()
    settled(cornell, qtbot)
    assert cornell.session.ray_list.table.name == "dropped.npz"
    assert cornell.session.document.title == "Cornell box", "the scene stays"


def test_cells_show_the_results(listed):
    model, rays = listed.rays.model, listed.session.ray_list
    for row in (0, 3, 5, 77):
        texts = [model.data(model.index(row, column)) for column in range(model.columnCount())]
        assert texts[NAMES.index("index")] == str(row)
        status = list(RayStatus)[rays.status[row]]
        assert texts[NAMES.index("status")] == status
        assert texts[NAMES.index("mask")] == "0xFF"
        hit = bool(rays.hits.hit[row])
        assert texts[NAMES.index("primitive_index")] == (str(rays.hits.primitive_index[row]) if hit else "–")
    assert "RAY-3" in model.data(model.index(3, NAMES.index("problem")))
    titles = [model.headerData(i, Qt.Orientation.Horizontal) for i in range(model.columnCount())]
    assert titles == [column.title for column in COLUMNS.values()]


def test_headers_sort(listed, qtbot):
    rays = listed.session.ray_list
    for name in ("t", "primitive_index", "direction_x"):
        for descending in (False, True):
            click_header(listed, name)
            expected = rays.order(name, descending=descending).tolist()
            qtbot.waitUntil(lambda expected=expected: order_of(listed) == expected, timeout=10_000)
    assert listed.rays.model.sorted_by == ("direction_x", True)


def test_filters_show_and_hide(listed, qtbot):
    rays, buttons = listed.session.ray_list, listed.rays.filters
    for status in RayStatus:
        assert buttons[status].text() == f"{status} {rays.count(status):,}"
        QTest.mouseClick(buttons[status], LEFT)
        rest = [other for other in RayStatus if other is not status]
        qtbot.waitUntil(lambda rest=rest: order_of(listed) == rays.order(only=rest).tolist(), timeout=10_000)
        QTest.mouseClick(buttons[status], LEFT)
        qtbot.waitUntil(lambda: len(order_of(listed)) == COUNT, timeout=10_000)


def test_choosing_a_row_logs_and_draws_the_ray(listed, qtbot):
    click_row(listed, 2)
    qtbot.waitUntil(lambda: listed.session.log is not None and listed.is_settled, timeout=20_000)
    log, rays = listed.session.log, listed.session.ray_list
    assert (log.source, log.list_index) == (SourceKind.FILE, 2)
    assert log.direction == tuple(rays.table.direction[2].tolist())
    assert listed.ray_log.ray.text().startswith("ray 2 of the list")
    assert listed.trace_view.read_out.values["Pixel"].text() == "ray 2"
    assert len(listed.structure_view.content.ray.rows) > 0
    assert np.allclose(listed.structure_view.content.ray.rows["from"][0], rays.table.origin[2])
    listed.rays.table.setFocus()
    QTest.keyClick(listed.rays.table, Qt.Key.Key_Up)
    qtbot.waitUntil(lambda: listed.session.log.list_index == 1, timeout=20_000)


def test_an_invalid_ray_says_its_rule(listed, qtbot):
    click_row(listed, 3)
    assert "ray 3 was not traced: [RAY-3]" in listed.rays.message.text()
    assert listed.rays.message.isVisible()
    click_row(listed, 4)
    qtbot.waitUntil(lambda: listed.session.log is not None, timeout=20_000)
    assert not listed.rays.message.isVisible()


def test_the_chosen_ray_stays_chosen_while_sorted_filtered_and_traced_anew(listed, qtbot):
    click_row(listed, 6)
    qtbot.waitUntil(lambda: listed.session.log is not None and listed.is_settled, timeout=20_000)
    click_header(listed, "t")
    expected = listed.session.ray_list.order("t").tolist()
    qtbot.waitUntil(lambda: order_of(listed) == expected, timeout=10_000)
    current = listed.rays.table.currentIndex()
    assert listed.rays.model.source_row(current.row()) == 6
    before = listed.session.ray_list
    listed.session.set_programs(any_hit=1)
    qtbot.waitUntil(lambda: listed.session.ray_list is not before, timeout=20_000)
    settled(listed, qtbot)
    assert listed.rays.model.source_row(listed.rays.table.currentIndex().row()) == 6
    assert listed.session.log.list_index == 6


def test_settings_that_the_file_leaves_open_trace_it_anew(listed, qtbot):
    hits = listed.session.ray_list.count(RayStatus.HIT)
    assert hits > 20
    listed.session.set_ray_flags("SKIP_TRIANGLES")
    qtbot.waitUntil(lambda: listed.session.ray_list.count(RayStatus.HIT) == 0, timeout=20_000)
    settled(listed, qtbot)
    assert listed.rays.filters[RayStatus.HIT].text() == "hit 0"


def test_results_are_exported(listed, qtbot, tmp_path, monkeypatch):
    for name in ("out.csv", "out.npz"):
        path = tmp_path / name
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, path=path: (str(path), ""))
        QTest.mouseClick(listed.rays.export, LEFT)
        qtbot.waitUntil(lambda path=path: path.exists() and listed.is_settled, timeout=20_000)
        assert np.array_equal(read_rays(path).direction, listed.session.ray_list.table.direction)


def test_another_file_and_none(listed, qtbot, tmp_path, monkeypatch):
    path = write(tmp_path / "two.npz", 2)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    QTest.mouseClick(listed.rays.open_other, LEFT)
    qtbot.waitUntil(lambda: listed.rays.model.rowCount() == 2, timeout=20_000)
    QTest.mouseClick(listed.rays.close_rays, LEFT)
    assert listed.session.ray_list is None
    assert listed.rays.model.rowCount() == 0
    assert listed.rays.open_button.isVisible()


def test_a_damaged_file_says_what_is_wrong_and_keeps_the_list(listed, qtbot, tmp_path):
    (tmp_path / "bad.csv").write_text("origin_x,origin_y\n1,2\n")
    listed.session.open_rays(tmp_path / "bad.csv")
    qtbot.waitUntil(lambda: listed.banner.isVisible(), timeout=20_000)
    assert listed.rays.model.rowCount() == COUNT


@pytest.fixture(scope="module")
def many(kernels_ready, tmp_path_factory):
    """A million rays traced in the Cornell box."""
    world = build_world(load_scene(SCENES / "cornell"))
    table = read_rays(write(tmp_path_factory.mktemp("rays") / "many.npz", 1_000_000))
    return trace_list(world, table, RaySettings())


def test_the_model_passes_qts_tester(qapp, many):
    model = RayListModel()
    QAbstractItemModelTester(model, FATAL)
    columns = table_columns(many)
    model.set_rays(columns, many.order())
    kept = QPersistentModelIndex(model.index(17, 2))
    model.set_order(many.order("t", descending=True))
    assert model.source_row(kept.row()) == 17
    model.set_order(many.order(only=[list(RayStatus)[1 - many.status[17]]]))
    assert not kept.isValid()
    model.set_rays([], many.order()[:0])
    assert model.rowCount() == 0
    assert model.index(0, 0) == QModelIndex()


def test_a_million_rays_cost_what_is_looked_at(qapp, many):
    """Reading cells and asking for an order are at once; sorting itself is somebody else's."""
    import time

    model = RayListModel()
    model.set_rays(table_columns(many), many.order("t"))
    asked = []
    model.order_asked.connect(lambda *what: asked.append(what))
    start = time.perf_counter()
    for row in range(500_000, 500_050):
        for column in range(model.columnCount()):
            assert model.data(model.index(row, column)) is not None
    model.sort(NAMES.index("t"), Qt.SortOrder.DescendingOrder)
    assert time.perf_counter() - start < 0.5
    assert asked == [("t", True)]
