"""Fields beside their bytes: choosing a field highlights its bytes, pointing at a byte chooses its field."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtWidgets import QHBoxLayout, QSplitter, QWidget

from rtviewer.gui.binding import quiet
from rtviewer.gui.models.byte_fields import ByteFields
from rtviewer.gui.theme import Theme, monospaced
from rtviewer.gui.widgets.hex_view import HexView
from rtviewer.gui.widgets.table import fit_columns, make_table

Index = QModelIndex | QPersistentModelIndex

COLUMNS = (
    ("Offset", "Bytes from the start, in hex"),
    ("Bytes", "Size of the field"),
    ("Field", "Name in the specification, or of a section"),
    ("Value", "As it stands in the bytes"),
    ("Meaning", "What the value says"),
)
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class FieldsModel(QAbstractTableModel):
    """Rows of a ByteFields, worded when they are shown."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.fields: ByteFields | None = None
        self.number_font: Any = None

    def set_fields(self, fields: ByteFields | None) -> None:
        self.beginResetModel()
        self.fields = fields
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() or self.fields is None else len(self.fields)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(COLUMNS)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        assert self.fields is not None
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            row = self.fields[index.row()]
            if role == Qt.ItemDataRole.ToolTipRole:
                return f"{row.name} = {row.value}" + (f"\n{row.meaning}" if row.meaning else "")
            return (f"0x{row.offset:X}", f"{row.size:,}", row.name, row.value, row.meaning)[index.column()]
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() < 2:
            return _RIGHT
        if role == Qt.ItemDataRole.FontRole and index.column() in (0, 1, 3):
            return self.number_font
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation is Qt.Orientation.Horizontal and 0 <= section < len(COLUMNS):
            if role == Qt.ItemDataRole.DisplayRole:
                return COLUMNS[section][0]
            if role == Qt.ItemDataRole.ToolTipRole:
                return COLUMNS[section][1]
            if role == Qt.ItemDataRole.TextAlignmentRole and section < 2:
                return _RIGHT
        return None


class ByteInspector(QWidget):
    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = FieldsModel(self)
        self.table = make_table(self.model, f"{name}: fields", sortable=False)
        self.table.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # the end of a field's name tells most
        self.hex = HexView()
        self.hex.setAccessibleName(f"{name}: bytes in hex")
        self.splitter = QSplitter(Qt.Orientation.Horizontal)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.addWidget(self.table)
        self.splitter.addWidget(self.hex)
        self.splitter.setSizes([580, 340])
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.addWidget(self.splitter)
        self.table.selectionModel().currentRowChanged.connect(self._row_chosen)
        self.hex.clicked.connect(self._byte_clicked)

    def set_fields(self, fields: ByteFields | None) -> None:
        """Show other bytes."""
        self.model.set_fields(fields)
        if fields is None:
            return
        self.hex.set_bytes(fields.data)
        fit_columns(self.table, 250)
        if len(fields):
            with quiet(self.table.selectionModel()):
                self.table.setCurrentIndex(self.model.index(0, 0))
            self._row_chosen(self.model.index(0, 0), QModelIndex())

    def _row_chosen(self, current: QModelIndex, _: QModelIndex) -> None:
        if current.isValid() and self.model.fields is not None:
            row = self.model.fields[current.row()]
            self.hex.mark(row.offset, row.size)

    def _byte_clicked(self, offset: int) -> None:
        row = self.model.fields.row_at(offset) if self.model.fields is not None else -1
        if row >= 0:
            self.table.setCurrentIndex(self.model.index(row, 0))
            self.table.scrollTo(self.model.index(row, 0))

    def set_theme(self, theme: Theme) -> None:
        self.model.number_font = monospaced(-1)
        self.hex.set_theme(theme)
