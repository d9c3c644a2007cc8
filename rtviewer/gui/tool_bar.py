"""The tool bar: actions of the table, the scene's cameras and the image modes."""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QComboBox, QToolBar

from rtviewer.gui.actions import Actions
from rtviewer.gui.binding import follow, quiet, show_choice
from rtviewer.scene.ray_sources import IMAGE_SOURCES
from rtviewer.session.commands import Session
from rtviewer.session.document import Document
from rtviewer.session.state import State
from rtviewer.shade.modes import KIND_WORDS, MODES

WIDEST_CAMERA = 18
"""The camera box grows with its names up to this many wide letters; the list and tooltips have the rest."""


class ToolBar(QToolBar):
    """``camera_chosen(name)`` says which camera of the scene the user wants."""

    camera_chosen = Signal(str)

    def __init__(self, session: Session, actions: Actions) -> None:
        super().__init__("Tools")
        self.setObjectName("tool_bar")
        self.setMovable(False)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        self._session, self._table = session, actions
        self._add("open", "reload")
        self.addSeparator()
        self._add("show_geometry", "show_wireframe", "show_boxes", "show_instance_boxes", "show_rays")
        self.addSeparator()
        self._add("fit", "focus", "reset")
        self.camera_box = QComboBox()
        self.camera_box.setAccessibleName("Camera")
        self.camera_box.setToolTip("Cameras of the scene")
        self.camera_box.setMinimumContentsLength(10)
        self.camera_box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.camera_box.setMaximumWidth(self.camera_box.fontMetrics().horizontalAdvance("m" * WIDEST_CAMERA))
        self.camera_box.activated.connect(lambda _: self.camera_chosen.emit(self.camera_box.currentData()))
        self.addWidget(self.camera_box)
        self.addSeparator()
        self.source_box = self._make_source_box()
        self.addWidget(self.source_box)
        self.mode_box = self._make_mode_box()
        self.addWidget(self.mode_box)
        self._add("x_ray", "fit_range", "show_histogram", "whole_image", "save_image")
        follow(self, session.store, {"image"}, self._show_mode)

    def _show_mode(self, state: State) -> None:
        show_choice(self.mode_box, state.image.mode)
        self._table["x_ray"].setChecked(MODES[state.image.mode].is_x_ray)

    def _add(self, *ids: str) -> None:
        for action_id in ids:
            self.addAction(self._table[action_id])

    def _make_source_box(self) -> QComboBox:
        box = QComboBox()
        box.setAccessibleName("Source of the picture's rays")
        box.setToolTip("Whose rays the trace view shows; parameters stand in the Ray source pane")
        for spec in IMAGE_SOURCES:
            box.addItem(spec.label, spec.kind)
            box.setItemData(box.count() - 1, spec.tip, Qt.ItemDataRole.ToolTipRole)

        def chosen(_: int) -> None:
            if self._session.set_source(box.currentData()) is not None:
                show_choice(box, self._session.state.source.kind)

        box.activated.connect(chosen)
        follow(self, self._session.store, {"source"}, lambda state: show_choice(box, state.source.kind))
        return box

    def _make_mode_box(self) -> QComboBox:
        box = QComboBox()
        box.setAccessibleName("Image mode")
        box.setToolTip("What the trace view shows")
        box.setMaxVisibleItems(40)
        for kind, words in KIND_WORDS.items():
            self._add_heading(box, words)
            for mode in MODES.values():
                if mode.kind == kind:
                    box.addItem(mode.label, mode.name)
                    unit = f", in {mode.unit}" if mode.unit else ""
                    box.setItemData(box.count() - 1, f"{words}: {mode.tooltip}{unit}", Qt.ItemDataRole.ToolTipRole)
        box.activated.connect(lambda _: self._session.set_image_mode(box.currentData()))
        return box

    @staticmethod
    def _add_heading(box: QComboBox, text: str) -> None:
        """A line that cannot be chosen."""
        box.addItem(text)
        item = cast(QStandardItemModel, box.model()).item(box.count() - 1)
        item.setFlags(Qt.ItemFlag.NoItemFlags)
        font = item.font()
        font.setBold(True)
        item.setFont(font)

    def show_cameras(self, document: Document | None) -> None:
        """Offer the cameras of a scene."""
        with quiet(self.camera_box):
            self.camera_box.clear()
            if document is not None:
                for number, camera in enumerate(document.scene.cameras):
                    name = camera.name or f"camera {number}"
                    self.camera_box.addItem(name, str(number))
                    self.camera_box.setItemData(number, name, Qt.ItemDataRole.ToolTipRole)
                self.camera_box.addItem("fit scene", "fit")
        names = self.camera_box.view()
        names.setMinimumWidth(min(names.sizeHintForColumn(0) + 24, 600))
        names.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.camera_box.updateGeometry()
