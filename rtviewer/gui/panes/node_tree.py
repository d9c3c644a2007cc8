"""The node tree of the selected structure, down to what its leaves hold; linked both ways with the selection."""

from __future__ import annotations

import re

from PySide6.QtCore import QModelIndex
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QHBoxLayout, QHeaderView, QLineEdit, QStackedLayout, QTreeView, QVBoxLayout, QWidget

from rtviewer.gui.binding import follow, listen, quiet
from rtviewer.gui.models.box_tree import COLUMNS as TREE_COLUMNS
from rtviewer.gui.models.box_tree import BoxTreeModel
from rtviewer.gui.panes.pane import Pane, PaneContext, label
from rtviewer.gui.theme import Theme, monospaced
from rtviewer.session.document import TOP_LEVEL, World
from rtviewer.session.events import DocumentChanged
from rtviewer.session.state import Selection, State

EMPTY = "Nothing is open.\nOpen a scene to walk the nodes of its structures."
EMPTY_STRUCTURE = "This structure holds nothing that can be hit, so it has no nodes."
FIND_TIP = (
    "Go to a node by number (17), to a primitive as geometry:primitive (0:1234), or in the TLAS to an instance (i5). "
    "Press Enter."
)
_QUERY = re.compile(
    r"\s*(?:(?P<box>\d+)|(?P<geometry>\d+)\s*[:/]\s*(?P<primitive>\d+)|i\w*\s*(?P<instance>\d+))\s*", re.I
)


class NodeTreePane(Pane):
    name = "node_tree"
    title = "Node tree"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._structure: int | None = None
        self._world: World | None = None
        self.model = BoxTreeModel(self)
        self.view = QTreeView()
        self.view.setModel(self.model)
        self.view.setUniformRowHeights(True)
        self.view.setAccessibleName("Node tree")
        self.view.setAlternatingRowColors(True)
        self.view.setIndentation(11)
        self.view.header().setStretchLastSection(False)
        self.view.header().setMinimumSectionSize(40)
        self.view.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.view.header().setSectionResizeMode(1, QHeaderView.ResizeMode.Fixed)
        self.view.header().setSectionResizeMode(2, QHeaderView.ResizeMode.Fixed)
        self.view.selectionModel().currentChanged.connect(self._chosen)
        self.view.doubleClicked.connect(self._enter)
        self.find = QLineEdit()
        self.find.setPlaceholderText("node, geometry:primitive, or i5")
        self.find.setClearButtonEnabled(True)
        self.find.setToolTip(FIND_TIP)
        self.find.setAccessibleName("Find in the node tree")
        self.find.returnPressed.connect(self._find)
        self.caption = label("", "heading")
        self.message = label("", "refusal", wrap=True)
        self.message.hide()
        self.empty = label(EMPTY, "empty", wrap=True)
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 4, 0, 0)
        column.setSpacing(3)
        line = QHBoxLayout()
        line.setContentsMargins(6, 0, 6, 0)
        line.addWidget(self.caption)
        line.addWidget(self.find, 1)
        column.addLayout(line)
        column.addWidget(self.message)
        column.addWidget(self.view, 1)
        self.stack = QStackedLayout(self)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(content)
        listen(self, self.session, {DocumentChanged: self._document_changed})
        follow(self, self.session.store, {"selection"}, self._select)
        self.follow_theme()

    def _document_changed(self, event: DocumentChanged) -> None:
        if event.document is None:
            self._world = None
            self.model.set_tree(None)
            self.empty.setText(EMPTY)
            self.stack.setCurrentIndex(0)

    def show_world(self, world: World) -> None:
        """Trees are there now (made by the window's background)."""
        self._world, self._structure = world, None
        self._select(self.session.state)

    def _show_structure(self, structure: int) -> None:
        world = self._world
        if world is None:
            return
        self._structure = structure
        tree = world.tree(structure)
        top = structure == TOP_LEVEL
        self.model.set_tree(tree, lambda first, second: f"inst {first}" if top else f"prim {first}:{second}")
        name = world.structure(structure).name or ("TLAS" if top else f"BLAS {structure}")
        self.caption.setText(name if len(name) <= 14 else name[:13] + "…")
        self.caption.setToolTip(f"Nodes of {name}: {len(tree):,} boxes")
        self.empty.setText(EMPTY_STRUCTURE)
        self.stack.setCurrentIndex(1 if len(tree) else 0)
        self.view.expandToDepth(1)

    def _select(self, state: State) -> None:
        selection = state.selection
        if self._world is None or self._world is not self.session.world:
            return
        if selection.structure >= len(self._world.blases):
            return
        if selection.structure != self._structure:
            self._show_structure(selection.structure)
        index = self._index_of(selection)
        if index != self.view.currentIndex():
            with quiet(self.view.selectionModel()):
                self.view.setCurrentIndex(index)
            self.view.viewport().update()
        if index.isValid():
            self.view.scrollTo(index)

    def _index_of(self, selection: Selection) -> QModelIndex:
        if selection.box < 0:
            return QModelIndex()
        if selection.structure == TOP_LEVEL and selection.instance >= 0:
            return self.model.index_of_item(selection.box, (selection.instance, -1))
        if selection.structure != TOP_LEVEL and selection.primitive >= 0:
            return self.model.index_of_item(selection.box, (selection.geometry, selection.primitive))
        return self.model.index_of_box(selection.box)

    def _chosen(self, current: QModelIndex, _: QModelIndex) -> None:
        if not current.isValid() or self._structure is None:
            return
        box, item = self.model.box_of(current), self.model.item_of(current)
        kept = self.session.state.selection.instance if self._structure != TOP_LEVEL else -1
        if item is None:
            self.session.select(self._structure, box, kept)
        elif self._structure == TOP_LEVEL:
            self.session.select(self._structure, box, item[0])
        else:
            self.session.select(self._structure, box, kept, *item)

    def _enter(self, index: QModelIndex) -> None:
        """From an instance to its bottom level."""
        item = self.model.item_of(index)
        if self._structure == TOP_LEVEL and item is not None and self._world is not None:
            blas = self._world.blas_of_instance(item[0])
            if blas >= 0:
                self.session.select(structure=blas, box=0, instance=item[0])

    def _find(self) -> None:
        found = self._look_up(self.find.text())
        self.message.setText(found if isinstance(found, str) else "")
        self.message.setVisible(isinstance(found, str))
        if isinstance(found, Selection):
            self.session.store.replace(selection=found)

    def _look_up(self, text: str) -> Selection | str:
        """The selection a query means, or why there is none."""
        match, tree = _QUERY.fullmatch(text), self.model.tree
        if match is None or tree is None or self._structure is None:
            return f"Not understood: {text!r}. Use a node number, geometry:primitive, or i and an instance number"
        structure, kept = self._structure, self.session.state.selection.instance
        if match["box"]:
            box = int(match["box"])
            return Selection(structure, box, kept) if box < len(tree) else f"No node {box}: there are {len(tree):,}"
        if match["instance"]:
            instance = int(match["instance"])
            box = tree.box_of_item(instance) if structure == TOP_LEVEL else -1
            return Selection(structure, box, instance) if box >= 0 else f"No active instance {instance} in this tree"
        geometry, primitive = int(match["geometry"]), int(match["primitive"])
        box = tree.box_of_item(geometry, primitive) if structure != TOP_LEVEL else -1
        if box < 0:
            return f"No active primitive {geometry}:{primitive} in this tree"
        return Selection(structure, box, kept, geometry, primitive)

    def retint(self, theme: Theme) -> None:
        self.model.set_number_font(monospaced())
        self._fit_numbers()

    def _fit_numbers(self) -> None:
        """Both number columns as wide as their widest text and their title; the node's name has the rest."""
        title, digits = self.view.header().fontMetrics(), QFontMetrics(monospaced())
        for column, widest in ((1, "0,000"), (2, "-0.00e-00")):
            needed = max(digits.horizontalAdvance(widest), title.horizontalAdvance(TREE_COLUMNS[column][0])) + 16
            self.view.header().resizeSection(column, needed)
