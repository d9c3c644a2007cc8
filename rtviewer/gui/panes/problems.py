"""What a user should know about the open scene: broken rules, and what a reader or builder noticed."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QModelIndex
from PySide6.QtWidgets import QStackedLayout, QWidget

from rtviewer.gui.binding import listen
from rtviewer.gui.models.numpy_table import Column, NumpyTableModel
from rtviewer.gui.panes.pane import Pane, PaneContext, label
from rtviewer.gui.widgets.table import fit_columns, make_table
from rtviewer.session.document import Problem
from rtviewer.session.events import DocumentChanged

NOTHING_OPEN = "Nothing is open.\nOpen a scene to see what its reader, the rules and the builder say about it."
NO_PROBLEMS = "No problems: the scene breaks no rule, and nothing in it was dropped or changed."


class ProblemsPane(Pane):
    name = "problems"
    title = "Problems"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.problems: tuple[Problem, ...] = ()
        self.model = NumpyTableModel(self)
        self.table = make_table(self.model, "Problems")
        self.table.doubleClicked.connect(self._go_to)
        self.empty = label(NOTHING_OPEN, "empty")
        self.stack = QStackedLayout(self)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(self.table)
        listen(self, self.session, {DocumentChanged: lambda event: self._show()})
        self._show()
        self.follow_theme()

    def _show(self) -> None:
        document = self.session.document
        self.problems = document.problems if document else ()
        rows = self.problems
        self.model.set_columns(
            [
                Column("Severity", np.array([p.severity for p in rows], object), numeric=False),
                Column("Rule", np.array([p.rule for p in rows], object), "Rule of the specification", numeric=False),
                Column("What", np.array([p.text for p in rows], object), "Double-click to go there", numeric=False),
            ]
        )
        self.empty.setText(NO_PROBLEMS if document else NOTHING_OPEN)
        self.stack.setCurrentIndex(1 if rows else 0)
        fit_columns(self.table)

    def _go_to(self, index: QModelIndex) -> None:
        problem = self.problems[self.model.source_row(index.row())]
        if problem.structure >= -1:
            self.session.select(problem.structure, -1, problem.instance)
