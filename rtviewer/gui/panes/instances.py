"""All instances of the top level with every field of their descs."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QModelIndex
from PySide6.QtWidgets import QStackedLayout, QWidget

from rtviewer.dxr.flags import InstanceFlag, format_flags
from rtviewer.gui.binding import follow, listen, quiet
from rtviewer.gui.models.numpy_table import Column, NumpyTableModel
from rtviewer.gui.panes.pane import Pane, PaneContext, label
from rtviewer.gui.theme import Theme, monospaced
from rtviewer.gui.widgets.table import fit_columns, make_table
from rtviewer.session.document import World
from rtviewer.session.events import DocumentChanged
from rtviewer.session.state import State

EMPTY = "Nothing is open.\nOpen a scene to see the instances of its top-level structure."


def instance_columns(world: World) -> list[Column]:
    """One column per field of the instance descs, read from the structure's bytes."""
    descs = world.tlas.instance_descs
    transform = descs["Transform"].reshape(-1, 3, 4)
    count = len(descs)
    id_and_mask, contribution_and_flags = descs["InstanceIDAndMask"], descs["InstanceContributionAndFlags"]
    blas = world.instance_blas
    names = [structure.name for structure in world.blases]
    determinant = np.linalg.det(transform[:, :, :3].astype(np.float64)) if count else np.empty(0)
    position = transform[:, :, 3]
    return [
        Column("Instance", np.arange(count), "InstanceIndex"),
        Column("ID", id_and_mask & 0xFFFFFF, "InstanceID, 24 bits"),
        Column("Mask", id_and_mask >> 24, "InstanceMask, 8 bits", lambda v: f"0x{int(v):02X}"),
        Column("Contribution", contribution_and_flags & 0xFFFFFF, "InstanceContributionToHitGroupIndex, 24 bits"),
        Column("BLAS", blas, "Bottom-level structure (BLAS)", lambda v: names[v] if v >= 0 else "none", numeric=False),
        Column("x", position[:, 0], "Translation", lambda v: f"{v:.5g}"),
        Column("y", position[:, 1], "Translation", lambda v: f"{v:.5g}"),
        Column("z", position[:, 2], "Translation", lambda v: f"{v:.5g}"),
        Column("Determinant", determinant, "Volume scale of the transform; negative is mirrored", lambda v: f"{v:.4g}"),
        Column(
            "Flags", contribution_and_flags >> 24, "Instance flags",
            lambda v: format_flags(InstanceFlag(int(v))), numeric=False,
        ),
    ]  # fmt: skip


class InstancesPane(Pane):
    name = "instances"
    title = "Instances"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.model = NumpyTableModel(self)
        self.table = make_table(self.model, "Instances")
        self.table.selectionModel().currentRowChanged.connect(self._chosen)
        self.table.doubleClicked.connect(self._enter)
        self.empty = label(EMPTY, "empty")
        self.stack = QStackedLayout(self)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(self.table)
        listen(self, self.session, {DocumentChanged: lambda event: self._show()})
        self._show()
        follow(self, self.session.store, {"selection"}, self._select)
        self.follow_theme()

    def _show(self) -> None:
        world = self.session.world
        self.model.set_columns(instance_columns(world) if world else [])
        count = self.model.rowCount()
        self.empty.setText("The top level has no instances." if world else EMPTY)
        self.stack.setCurrentIndex(1 if count else 0)
        fit_columns(self.table)

    def _select(self, state: State) -> None:
        row = self.model.view_row(state.selection.instance)
        if row == self.table.currentIndex().row():
            return
        with quiet(self.table.selectionModel()):
            self.table.setCurrentIndex(self.model.index(row, 0))
        if row >= 0:
            self.table.scrollTo(self.model.index(row, 0))
        self.table.viewport().update()

    def _chosen(self, current: QModelIndex, _: QModelIndex) -> None:
        if current.isValid():
            self.session.select(instance=self.model.source_row(current.row()))

    def _enter(self, index: QModelIndex) -> None:
        """Go from the instance to its bottom level."""
        world = self.session.world
        if world is not None:
            blas = world.blas_of_instance(self.model.source_row(index.row()))
            if blas >= 0:
                self.session.select(structure=blas, box=0, instance=self.model.source_row(index.row()))

    def retint(self, theme: Theme) -> None:
        self.model.set_number_font(monospaced())
