"""Update experiments: deform a bottom level, update or rebuild it, and watch what that does to boxes and SAH."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QColor
from PySide6.QtWidgets import (
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSlider,
    QSplitter,
    QStackedLayout,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import BuildFlag, members
from rtviewer.dxr.profile import Profile
from rtviewer.dxr.rules import check_update_flags
from rtviewer.gui.binding import follow, listen, quiet, show_choice
from rtviewer.gui.models.numpy_table import Column, NumpyTableModel
from rtviewer.gui.panes.pane import Pane, PaneContext, label
from rtviewer.gui.theme import Theme, monospaced
from rtviewer.gui.widgets.table import FittingTable, make_table
from rtviewer.gui.widgets.text import format_bytes, format_significant
from rtviewer.session.events import DocumentChanged, JobEnded, Refusal
from rtviewer.session.jobs import Lane
from rtviewer.session.records import UpdateKind, UpdateRecord
from rtviewer.session.state import State

EMPTY = "Nothing is open.\nOpen a scene (scenes/wave is made for it) to deform a bottom level and update its structure."
NO_STEPS = (
    "No step yet. Move the slider: every step, with its time, its bytes, and how SAH and boxes grow, appears here "
    "beside the structure as built."
)
PAUSE_MS = 200
"""While the slider is dragged, table and chart are made anew this often at most: the pictures come first."""
STEPS = 100
"""Slider steps of a full turn."""
KINDS = (
    (UpdateKind.UPDATE_IN_PLACE, "An update whose source and destination are the same (UPD-2)"),
    (UpdateKind.UPDATE_TO_NEW, "An update to another address; the source stays as it is"),
    (UpdateKind.REBUILD, "A build of the deformed mesh with the same flags: what an update is measured against"),
)
SYMBOLS = {"as built": "o", "update in place": "t", "update to new": "s", "rebuild": "d"}
IMPORTANCE = ("Step", "How", "SAH", "Growth", "ms", "Turns", "Size", "Scratch", "Depth", "Address")


def update_columns(records: list[UpdateRecord]) -> list[Column]:
    def column(values: list[float | int]) -> np.ndarray:
        return np.array(values)

    return [
        Column("Step", np.arange(len(records)), "0 is as built"),
        Column("How", np.array([str(r.kind) for r in records], object), "What was done", numeric=False),
        Column("Turns", column([r.amount for r in records]), "Swirl at the outermost position", lambda v: f"{v:.2f}"),
        Column("SAH", column([r.sah for r in records]), "Expected cost of a ray that enters", lambda v: f"{v:.2f}"),
        Column(
            "Growth", column([r.box_growth for r in records]), "Area of all boxes over that before the first step",
            lambda v: f"{v:.2f}x",
        ),
        Column(
            "ms", column([r.seconds * 1e3 for r in records]), "Milliseconds of the call", format_significant
        ),
        Column("Size", column([r.size for r in records]), "Bytes of the structure", format_bytes),
        Column("Scratch", column([r.scratch for r in records]), "Scratch bytes that the call asks for", format_bytes),
        Column("Depth", column([r.depth for r in records]), "Levels of nodes"),
        Column("Address", column([r.address for r in records]), "Where the result lives", lambda v: f"0x{v:X}"),
    ]  # fmt: skip


def missing_flag(structure: Structure, profile: Profile) -> BuildFlag | None:
    """The build flag without which the rules forbid an update of this structure; None when nothing is missing."""
    if not check_update_flags(structure.build_flags, structure.type, profile):
        return None
    for flag in map(BuildFlag, members(BuildFlag)):
        if not check_update_flags(structure.build_flags | flag, structure.type, profile):
            return flag
    return None


class UpdateChart(pg.GraphicsLayoutWidget):
    """SAH above, growth of the boxes below, over the steps."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("SAH and box growth over the steps")
        self.setMinimumSize(220, 120)
        self.plots = [self.addPlot(row=row, col=0) for row in range(2)]
        self.curves = []
        for plot, title in zip(self.plots, ("SAH", "Box growth"), strict=True):
            plot.setMenuEnabled(False)
            plot.hideButtons()
            plot.setMouseEnabled(False, False)
            plot.setLabel("left", title)
            plot.getAxis("left").setWidth(52)
            plot.getAxis("bottom").setTickSpacing(5, 1)
            plot.showGrid(x=False, y=True, alpha=0.2)
            self.curves.append(plot.plot([], []))
        self.plots[1].setLabel("bottom", "Step")
        self.plots[0].getAxis("bottom").setStyle(showValues=False)
        self._theme: Theme | None = None
        self._records: list[UpdateRecord] = []

    def set_records(self, records: list[UpdateRecord]) -> None:
        self._records = records
        steps = np.arange(len(records))
        for curve, values in zip(self.curves, ([r.sah for r in records], [r.box_growth for r in records]), strict=True):
            curve.setData(steps, np.array(values, float), symbol=[SYMBOLS[str(r.kind)] for r in records], symbolSize=8)
        for plot in self.plots:
            plot.setXRange(-0.3, max(len(records) - 0.7, 4), padding=0)

    def set_theme(self, theme: Theme) -> None:
        self.setBackground(QColor(theme.base))
        for plot, curve, colour in zip(
            self.plots, self.curves, (theme.accent, theme.families["interval"]), strict=True
        ):
            curve.setPen(pg.mkPen(colour, width=2))
            curve.setSymbolBrush(pg.mkBrush(colour))
            curve.setSymbolPen(pg.mkPen(theme.base))
            for side in ("left", "bottom"):
                axis = plot.getAxis(side)
                axis.setPen(pg.mkPen(theme.border))
                axis.setTextPen(pg.mkPen(theme.muted))


class UpdatesPane(Pane):
    name = "updates"
    title = "Updates"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._pause = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._pause.timeout.connect(self._show_records)
        self._is_ahead = False
        """Whether the user asked for a step that has not ended: the slider then stays where the user put it."""
        self.model = NumpyTableModel(self)
        self.model.explains_rows = True
        self.table = FittingTable(IMPORTANCE)
        make_table(self.model, "Steps of the update experiment", view=self.table, sortable=False)
        self.chart = UpdateChart()
        self.empty = label(EMPTY, "empty", wrap=True)
        self.steps = QSplitter(Qt.Orientation.Horizontal)
        self.steps.setChildrenCollapsible(False)
        for widget in (self.table, self.chart):
            self.steps.addWidget(widget)
        self.steps.setSizes([380, 320])
        self.no_steps = label(NO_STEPS, "empty", wrap=True)
        self.outcome = QStackedWidget()
        for widget in (self.no_steps, self.steps):
            self.outcome.addWidget(widget)
        splitter = QSplitter(Qt.Orientation.Horizontal)
        splitter.setChildrenCollapsible(False)
        for widget in (self._controls(), self.outcome):
            splitter.addWidget(widget)
        splitter.setSizes([240, 700])
        self.stack = QStackedLayout(self)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(splitter)
        listen(self, self.session, {DocumentChanged: self._document_changed, JobEnded: self._job_ended})
        follow(self, self.session.store, {"selection"}, self._select)
        self._document_changed(DocumentChanged(self.session.document))
        self.follow_theme()

    def _controls(self) -> QWidget:
        self.structure, self.kind = QComboBox(), QComboBox()
        self.structure.setAccessibleName("Bottom level to deform")
        self.structure.activated.connect(lambda _: self._show_records())
        self.kind.setAccessibleName("How to bring it up to date")
        for number, (kind, tip) in enumerate(KINDS):
            self.kind.addItem(str(kind).capitalize(), kind)
            self.kind.setItemData(number, tip, Qt.ItemDataRole.ToolTipRole)
        self.kind.activated.connect(lambda _: self.message.hide())
        self.amount = QSlider(Qt.Orientation.Horizontal)
        self.amount.setRange(0, STEPS)
        self.amount.setPageStep(10)
        self.amount.setAccessibleName("Deformation")
        self.amount.setToolTip("Swirl of the mesh, in hundredths of a turn at its rim; each move is one step")
        self.amount.valueChanged.connect(self._moved)
        self.turns = QLabel("0.00")
        self.turns.setFont(monospaced())
        self.step = QPushButton("Do it again")
        self.step.setToolTip("One more step at this deformation, done the way chosen now")
        self.step.clicked.connect(self._apply)
        self.message = label("", "refusal", wrap=True)
        self.message.hide()
        self.allow = QPushButton("Rebuild")
        self.allow.clicked.connect(self._rebuild_updatable)
        self.allow.hide()
        box = QWidget()
        form = QFormLayout()
        form.setContentsMargins(0, 0, 0, 0)
        form.setVerticalSpacing(4)
        form.addRow("Structure", self.structure)
        form.addRow("How", self.kind)
        line = QHBoxLayout()
        line.addWidget(self.amount, 1)
        line.addWidget(self.turns)
        form.addRow("Turns", line)
        column = QVBoxLayout(box)
        column.setContentsMargins(8, 6, 8, 6)
        column.setSpacing(5)
        column.addLayout(form)
        hint = label("Each move of the slider is one step; step 0 is the structure as built.", "muted", wrap=True)
        for widget in (self.step, self.message, self.allow, hint):
            column.addWidget(widget)
        column.addStretch(1)
        return box

    # What there is

    def _document_changed(self, event: DocumentChanged) -> None:
        document = event.document
        self.stack.setCurrentIndex(1 if document else 0)
        kept = self.structure.currentData() if event.is_rebuild else None
        names = [blas.name or f"BLAS {index}" for index, blas in enumerate(document.world.blases if document else ())]
        if names != [self.structure.itemText(row) for row in range(self.structure.count())] or kept is None:
            with quiet(self.structure):
                self.structure.clear()
                for index, name in enumerate(names):
                    self.structure.addItem(name, index)
                show_choice(self.structure, kept)
        self.message.hide()
        self.allow.hide()
        if not self.amount.isSliderDown():
            self._show_records()
        elif not self._pause.isActive():
            self._pause.start()

    def _job_ended(self, event: JobEnded) -> None:
        if event.lane is Lane.COPY:
            self._is_ahead = False
            self._show_amount()

    def _select(self, state: State) -> None:
        if state.selection.structure >= 0 and state.selection.structure != self.structure.currentData():
            show_choice(self.structure, state.selection.structure)
            self._show_records()

    def _records(self) -> list[UpdateRecord]:
        document, index = self.session.document, self.structure.currentData()
        return [record for record in document.updates if record.structure == index] if document else []

    def _show_records(self) -> None:
        self._pause.stop()
        records = self._records()
        self.outcome.setCurrentWidget(self.steps if records else self.no_steps)
        self.model.set_columns(update_columns(records) if records else [])
        self.table.fit()
        self.table.scrollToBottom()
        self.chart.set_records(records)
        self._show_amount()

    def _show_amount(self) -> None:
        """The slider where the mesh is."""
        if self._is_ahead or self.amount.isSliderDown():
            return
        records = self._records()
        amount = records[-1].amount if records else 0.0
        with quiet(self.amount):
            self.amount.setValue(round(amount * STEPS))
        self.turns.setText(f"{amount:.2f}")

    # What the user does

    def _moved(self, value: int) -> None:
        self.turns.setText(f"{value / STEPS:.2f}")
        self._apply()

    def _apply(self) -> None:
        index = self.structure.currentData()
        if index is None:
            return
        kind = UpdateKind(self.kind.currentData())  # Qt keeps a plain str of it
        outcome = self.session.deform(index, self.amount.value() / STEPS, kind)
        is_refused = isinstance(outcome, Refusal)
        self._is_ahead = not is_refused
        if is_refused:
            self._show_amount()
        self.message.setText(outcome.text if is_refused else "")
        self.message.setVisible(is_refused)
        world = self.session.world
        flag = missing_flag(world.blases[index], self.session.state.profile) if is_refused and world else None
        self.allow.setVisible(flag is not None)
        if flag is not None:
            self.allow.setText(f"Rebuild with {flag.name}")

    def _rebuild_updatable(self) -> None:
        world, index = self.session.world, self.structure.currentData()
        flag = missing_flag(world.blases[index], self.session.state.profile) if world is not None else None
        if flag is None:
            return
        refusal = self.session.set_build_flag("blas", flag, True)
        if refusal is None:
            self.session.rebuild()
        else:
            self.message.setText(refusal.text)

    def retint(self, theme: Theme) -> None:
        self.model.set_number_font(monospaced())
        self.chart.set_theme(theme)
