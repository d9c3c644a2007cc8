"""The traversal stack at an event of the log, the next box to be taken off first."""

from __future__ import annotations

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtWidgets import QHeaderView, QVBoxLayout, QWidget

from rtviewer.gui.panes.pane import label
from rtviewer.gui.theme import monospaced
from rtviewer.gui.widgets.table import make_table
from rtviewer.session.document import TOP_LEVEL
from rtviewer.session.log_text import number_text
from rtviewer.session.playback import StackEntry

Index = QModelIndex | QPersistentModelIndex

TITLES = ("Box", "t")
TIPS = ("Boxes that wait, the next to be taken off first", "Where the ray enters the box")
WIDTH = 170


class StackModel(QAbstractTableModel):
    """Entries of a stack, top first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.entries: tuple[StackEntry, ...] = ()

    def set_entries(self, entries: tuple[StackEntry, ...]) -> None:
        if entries == self.entries:
            return
        self.beginResetModel()
        self.entries = entries
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.entries)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(TITLES)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        entry = self.entries[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return _box_text(entry) if index.column() == 0 else number_text(entry.t)
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column():
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role == Qt.ItemDataRole.FontRole and index.column():
            return monospaced()
        if role == Qt.ItemDataRole.ToolTipRole:
            fate = "taken off later" if entry.is_taken else "never taken off: the search ended first"
            return f"The ray is in it from t = {number_text(entry.t)} to {number_text(entry.t_exit)}; {fate}"
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return TITLES[section]
        return TIPS[section] if role == Qt.ItemDataRole.ToolTipRole else None


def _box_text(entry: StackEntry) -> str:
    owner = "TLAS" if entry.structure == TOP_LEVEL else f"instance {entry.instance}"
    return f"{owner} · node {entry.box}"


class LogStack(QWidget):
    """A caption with the number of entries, and the entries."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = StackModel(self)
        self.table = make_table(self.model, "Traversal stack", sortable=False)
        self.table.horizontalHeader().setStretchLastSection(False)
        self.table.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.table.horizontalHeader().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.table.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.caption = label("", "heading", "Boxes that were found and wait to be entered when this event happened")
        column = QVBoxLayout(self)
        column.setContentsMargins(4, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(self.caption)
        column.addWidget(self.table, 1)
        self.show_entries(())

    def show_entries(self, entries: tuple[StackEntry, ...]) -> None:
        self.model.set_entries(entries)
        self.caption.setText(f"Stack: {len(entries)} waiting")
