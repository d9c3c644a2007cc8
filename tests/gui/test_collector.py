"""Qt objects in cycles die on the GUI thread, whatever thread allocates."""

from __future__ import annotations

import gc
import threading

import pytest
from PySide6.QtCore import QObject

from rtviewer.gui.collector import Collector
from tests.gui.conftest import APPLICATION


class Cyclic(QObject):
    """Holds itself, so that only a collection frees it, and notes where that happens."""

    def __init__(self, died_on: list[int]) -> None:
        super().__init__()
        self.me = self
        self.died_on = died_on

    def __del__(self) -> None:
        self.died_on.append(threading.get_ident())


def allocate_on_another_thread() -> list[list[int]]:
    """Enough containers that survive to make automatic collection run many times there."""
    kept: list[list[int]] = []
    thread = threading.Thread(target=lambda: kept.extend([number] for number in range(200_000)))
    thread.start()
    while thread.is_alive():
        APPLICATION.processEvents()
    return kept


@pytest.fixture
def collecting():
    """The interpreter's automatic collection, as a program has it that does nothing about it."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    if not was_enabled:
        gc.disable()


def test_without_it_a_worker_collects(collecting):
    """The danger is real: this is what the Collector is for."""
    died_on: list[int] = []
    Cyclic(died_on)
    thread = threading.Thread(target=lambda: [[number] for number in range(200_000)])
    thread.start()
    thread.join()
    assert died_on == [thread.ident]


def test_cycles_of_qt_objects_die_on_the_gui_thread(collecting, qtbot):
    died_on: list[int] = []
    collector = Collector()
    try:
        assert not gc.isenabled()
        Cyclic(died_on)
        kept = allocate_on_another_thread()
        qtbot.waitUntil(lambda: bool(died_on), timeout=10_000)
        assert len(kept) == 200_000
    finally:
        collector.stop()
    assert died_on == [threading.get_ident()]
    assert gc.isenabled()


def test_nothing_is_collected_before_it_is_due(collecting):
    collector = Collector()
    try:
        gc.collect()
        assert collector.collect_if_due() == -1
        kept = [[number] for number in range(gc.get_threshold()[0] + 100)]
        assert collector.collect_if_due() >= 0
        assert gc.get_count()[0] < len(kept)
    finally:
        collector.stop()


def test_it_leaves_automatic_collection_as_it_was(collecting):
    gc.disable()
    Collector().stop()
    assert not gc.isenabled()
    gc.enable()


def test_the_window_runs_under_it():
    """Tests and the program alike: no test may see a widget of an earlier one die on a worker."""
    assert not gc.isenabled()
