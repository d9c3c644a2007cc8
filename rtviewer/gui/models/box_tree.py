"""The node tree as an item model: box numbers in the indices, nothing stored per node.

Below a box stand its child boxes; below a leaf stand the primitives or instances it holds. An internal id is the box's
number, or for what a leaf holds ``ITEM`` plus the leaf's number, the row saying which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from rtviewer.accel.navigate import Tree
from rtviewer.gui.widgets.text import format_significant

Index = QModelIndex | QPersistentModelIndex

ITEM = 1 << 40
COLUMNS = (
    ("Node", "Box number, breadth first, and its kind; below a leaf, what it holds"),
    ("Items", "Child boxes of an inner node; primitives or instances of a leaf"),
    ("Area", "Surface area of the box, scene units squared"),
)
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


def surface_area(tree: Tree, box: int) -> float:
    """Of a box, in its own space; 0 for an empty one."""
    size = tree.high[box].astype(np.float64) - tree.low[box]
    if not np.all(size >= 0):
        return 0.0
    return float(2 * (size[0] * size[1] + size[1] * size[2] + size[2] * size[0]))


class BoxTreeModel(QAbstractItemModel):
    """``set_tree`` shows another tree. ``item_name`` words an item of a leaf from its (first, second) numbers."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tree: Tree | None = None
        self._item_name: Callable[[int, int], str] = lambda first, second: f"{first} / {second}"
        self._items: dict[int, Any] = {}
        self._number_font: Any = None

    @property
    def tree(self) -> Tree | None:
        return self._tree

    def set_tree(self, tree: Tree | None, item_name: Callable[[int, int], str] | None = None) -> None:
        self.beginResetModel()
        self._tree = tree
        self._items = {}
        if item_name is not None:
            self._item_name = item_name
        self.endResetModel()

    def set_number_font(self, font: Any) -> None:
        self._number_font = font

    def box_of(self, index: Index) -> int:
        """The box an index stands for: for an item, the leaf that holds it; -1 for no index."""
        if not index.isValid():
            return -1
        number = int(index.internalId())
        return number - ITEM if number >= ITEM else number

    def item_of(self, index: Index) -> tuple[int, int] | None:
        """(geometry, primitive) or (instance, -1) of an item of a leaf; None for a box."""
        if not index.isValid() or int(index.internalId()) < ITEM:
            return None
        first, second = self._leaf_items(self.box_of(index))[index.row()]
        return int(first), int(second)

    def index_of_box(self, box: int) -> QModelIndex:
        if self._tree is None or not 0 <= box < len(self._tree):
            return QModelIndex()
        parent = int(self._tree.parent[box])
        row = 0 if parent < 0 else box - int(self._tree.first_child[parent])
        return self.createIndex(row, 0, box)

    def index_of_item(self, box: int, item: tuple[int, int]) -> QModelIndex:
        """The row below leaf ``box`` that stands for ``item``; the leaf itself when it does not hold it."""
        if self._tree is None or not 0 <= box < len(self._tree) or not self._tree.is_leaf(box):
            return self.index_of_box(box)
        rows = np.flatnonzero((self._leaf_items(box) == np.array(item)).all(1))
        return self.createIndex(int(rows[0]), 0, ITEM + box) if len(rows) else self.index_of_box(box)

    def _leaf_items(self, box: int) -> Any:
        if box not in self._items:
            if len(self._items) > 4096:
                self._items.clear()
            assert self._tree is not None
            self._items[box] = self._tree.leaf_items(box)
        return self._items[box]

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:  # noqa: B008
        if not self.hasIndex(row, column, parent) or self._tree is None:
            return QModelIndex()
        if not parent.isValid():
            return self.createIndex(row, column, 0)
        box = int(parent.internalId())
        if self._tree.is_leaf(box):
            return self.createIndex(row, column, ITEM + box)
        return self.createIndex(row, column, int(self._tree.first_child[box]) + row)

    def parent(self, index: Index = QModelIndex()) -> QModelIndex:  # type: ignore[override]  # noqa: B008
        if not index.isValid() or self._tree is None:
            return QModelIndex()
        number = int(index.internalId())
        if number >= ITEM:
            return self.index_of_box(number - ITEM)
        above = int(self._tree.parent[number])
        return self.index_of_box(above) if above >= 0 else QModelIndex()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        if self._tree is None or parent.column() > 0:
            return 0
        if not parent.isValid():
            return 1 if len(self._tree) else 0
        number = int(parent.internalId())
        if number >= ITEM:
            return 0
        return len(self._leaf_items(number)) if self._tree.is_leaf(number) else int(self._tree.child_count[number])

    def hasChildren(self, parent: Index = QModelIndex()) -> bool:  # noqa: B008
        if self._tree is None or parent.column() > 0:
            return False
        if not parent.isValid():
            return len(self._tree) > 0
        return int(parent.internalId()) < ITEM

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return len(COLUMNS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation is Qt.Orientation.Horizontal and 0 <= section < len(COLUMNS):
            if role == Qt.ItemDataRole.DisplayRole:
                return COLUMNS[section][0]
            if role == Qt.ItemDataRole.ToolTipRole:
                return COLUMNS[section][1]
            if role == Qt.ItemDataRole.TextAlignmentRole and section:
                return _RIGHT
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.DisplayRole and self._tree is not None:
            return self._text(index)
        if role == Qt.ItemDataRole.ToolTipRole and index.column() == 0:
            return self._tip(index)
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column():
            return _RIGHT
        if role == Qt.ItemDataRole.FontRole and index.column():
            return self._number_font
        return None

    def _tip(self, index: Index) -> str:
        item = self.item_of(index)
        if item is None:
            return f"Box {self.box_of(index):,}, breadth first"
        return f"Instance {item[0]}" if item[1] < 0 else f"Geometry {item[0]}, primitive {item[1]}"

    def _text(self, index: Index) -> str:
        tree = self._tree
        assert tree is not None
        column = index.column()
        item = self.item_of(index)
        if item is not None:
            return self._item_name(*item) if column == 0 else ""
        box = self.box_of(index)
        leaf = tree.is_leaf(box)
        if column == 0:
            kind = "Root" if box == 0 else "Leaf" if leaf else "Node"
            return f"{kind} {box:,}"
        if column == 1:
            return f"{len(self._leaf_items(box)) if leaf else int(tree.child_count[box]):,}"
        return format_significant(surface_area(tree, box))
