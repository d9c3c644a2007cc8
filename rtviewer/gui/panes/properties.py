"""Every field of what is selected: structure, node, instance or primitive."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication
from PySide6.QtWidgets import QHeaderView, QStackedLayout, QTreeWidget, QTreeWidgetItem, QWidget

from rtviewer.gui.binding import follow, listen
from rtviewer.gui.panes.pane import Pane, PaneContext, label
from rtviewer.gui.panes.property_rows import Section, property_sections
from rtviewer.gui.theme import Theme, monospaced
from rtviewer.session.events import DocumentChanged
from rtviewer.session.state import State

EMPTY = "Nothing is open.\nOpen a scene, then select a node, an instance or a primitive to see its fields."


class PropertiesPane(Pane):
    name = "properties"
    title = "Properties"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.view = QTreeWidget()
        self.view.setColumnCount(2)
        self.view.setHeaderLabels(["Field", "Value"])
        self.view.setAccessibleName("Properties")
        self.view.setRootIsDecorated(False)
        self.view.setAlternatingRowColors(True)
        self.view.header().setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        self.view.itemDoubleClicked.connect(lambda item, _: QGuiApplication.clipboard().setText(item.text(1)))
        self.empty = label(EMPTY, "empty", wrap=True)
        self.stack = QStackedLayout(self)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(self.view)
        listen(self, self.session, {DocumentChanged: lambda event: self._show(self.session.state)})
        follow(self, self.session.store, {"selection"}, self._show)
        self.follow_theme()

    def _show(self, state: State) -> None:
        world = self.session.world
        self.stack.setCurrentIndex(0 if world is None else 1)
        self._fill(property_sections(world, state.selection) if world is not None else [])

    def _fill(self, sections: list[Section]) -> None:
        self.view.clear()
        muted = QColor(self.appearance.theme.muted)
        number = monospaced()
        for title, rows in sections:
            head = QTreeWidgetItem([title])
            head.setFirstColumnSpanned(True)
            font = self.view.font()
            font.setBold(True)
            head.setFont(0, font)
            self.view.addTopLevelItem(head)
            for name, value, tip in rows:
                item = QTreeWidgetItem([name, value])
                item.setForeground(0, muted)
                item.setFont(1, number)
                item.setToolTip(0, tip or name)
                item.setToolTip(1, f"{value}\n{tip or name}\nDouble-click to copy")
                item.setTextAlignment(1, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
                head.addChild(item)
            head.setExpanded(True)

    def retint(self, theme: Theme) -> None:
        self._show(self.session.state)
