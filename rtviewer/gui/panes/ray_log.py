"""The log of the picked ray: every event with a verdict, filters, the result, and copy as text."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QStackedLayout, QToolButton, QVBoxLayout, QWidget

from rtviewer.dxr.verdicts import EventKind
from rtviewer.gui.binding import listen, quiet
from rtviewer.gui.models.events import END, EventsModel
from rtviewer.gui.models.ray_source import RaySource
from rtviewer.gui.panes.pane import Pane, PaneContext, label
from rtviewer.gui.theme import FAMILIES, FAMILY_ICONS, FAMILY_WORDS, Theme, monospaced
from rtviewer.gui.widgets.elided_label import ElidedLabel
from rtviewer.gui.widgets.table import fit_columns, make_table
from rtviewer.session.events import LogChanged
from rtviewer.session.raylog import RayLog, hit_kind_text

KIND_CHOICES = (
    ("All events", frozenset(EventKind)),
    ("Candidates", frozenset((EventKind.CANDIDATE, EventKind.REPORT, EventKind.REPEATED))),
    ("Instances and candidates", frozenset(EventKind) - {EventKind.NODE_ENTERED, EventKind.NODE_SKIPPED}),
    ("Nodes", frozenset((EventKind.NODE_ENTERED, EventKind.NODE_SKIPPED))),
)
EMPTY = "No ray is picked.\nClick a pixel of the Trace view to see what its ray met, hit by hit."


def result_text(log: RayLog) -> str:
    """What the ray ended with, and the record it selects with the formula filled in."""
    result = log.result
    if not result.hit:
        return f"Miss\n{result.formula}"
    return (
        f"Hit at t = {result.t:.6g}: instance {result.instance_index} (ID {result.instance_id}), "
        f"geometry {result.geometry_index}, primitive {result.primitive_index}, {hit_kind_text(result.hit_kind)}\n"
        f"{result.formula}"
    )


class RayLogPane(Pane):
    name = "ray_log"
    title = "Ray log"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._source = RaySource()
        self.model = EventsModel(self)
        self.table = make_table(self.model, "Ray log", sortable=False)
        self.table.setIconSize(QSize(14, 14))
        self.table.selectionModel().currentRowChanged.connect(self._row_chosen)
        self.result = label("", wrap=True)
        self.result.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.ray = ElidedLabel()
        self.ray.setFont(monospaced(-1))
        self.empty = label(EMPTY, "empty")
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(self._filters())
        column.addWidget(self.table, 1)
        footer = QVBoxLayout()
        footer.setContentsMargins(8, 2, 8, 4)
        footer.setSpacing(1)
        footer.addWidget(self.result)
        column.addLayout(footer)
        self.stack = QStackedLayout(self)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(content)
        listen(self, self.session, {LogChanged: self._changed})
        self.follow_theme()
        self._changed(LogChanged(self.session.log))

    def _filters(self) -> QHBoxLayout:
        line = QHBoxLayout()
        line.setContentsMargins(8, 4, 8, 0)
        self.kinds = QComboBox()
        self.kinds.setAccessibleName("Kinds of event shown")
        self.kinds.setToolTip("Kinds of event shown")
        for text, kinds in KIND_CHOICES:
            self.kinds.addItem(text, kinds)
        self.kinds.currentIndexChanged.connect(lambda _: self._refilter())
        line.addWidget(self.kinds)
        self.families: dict[str, QToolButton] = {}
        for family in FAMILIES:
            button = QToolButton()
            button.setText(family)
            button.setCheckable(True)
            button.setChecked(True)
            button.setAutoRaise(True)
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
            button.setIconSize(QSize(14, 14))
            button.setToolTip(f"Show or hide: {FAMILY_WORDS[family]}")
            button.setAccessibleName(f"Show {family}")
            button.clicked.connect(lambda _: self._refilter())
            self.families[family] = button
            line.addWidget(button)
        line.addWidget(self.ray, 1)
        self.copy = QToolButton()
        self.copy.setAutoRaise(True)
        self.copy.setToolTip("Copy the shown events, the ray and its result as text")
        self.copy.setAccessibleName("Copy ray log")
        self.copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text()))
        line.addWidget(self.copy)
        return line

    def text(self) -> str:
        """Ray, shown events and result as text."""
        log = self.session.log
        if log is None:
            return ""
        return "\n".join([self.session.ray_desc_text(), "", self.model.text(), "", result_text(log)])

    def _changed(self, event: LogChanged) -> None:
        log = event.log
        self.model.set_log(log)
        self.stack.setCurrentIndex(0 if log is None else 1)
        if log is None:
            return
        self.result.setText(result_text(log) + (" The log is cut short." if log.truncated else ""))
        self.ray.setText(f"{self._source.words(log)} · {len(log):,} {'x-ray ' if log.x_ray else ''}events")
        self.ray.setToolTip(self.session.ray_desc_text())
        self._fit()
        self._reveal_result()

    def _fit(self) -> None:
        fit_columns(self.table, 250)
        self.table.setColumnWidth(END, max(self.table.columnWidth(END), 70))

    def _reveal_result(self) -> None:
        """Select the last accepted event without telling the session: the user asked for the ray, not for this row."""
        for row in range(self.model.rowCount() - 1, max(self.model.rowCount() - 400, -1), -1):
            if self.model.log_row(row).family == "accepted":
                with quiet(self.table.selectionModel()):
                    self.table.setCurrentIndex(self.model.index(row, 0))
                self.table.scrollTo(self.model.index(row, 0), self.table.ScrollHint.PositionAtCenter)
                self.table.viewport().update()
                return

    def _refilter(self) -> None:
        shown = frozenset(family for family, button in self.families.items() if button.isChecked())
        self.model.set_filter(self.kinds.currentData(), shown)

    def _row_chosen(self, current: QModelIndex, _: QModelIndex) -> None:
        if not current.isValid():
            return
        row = self.model.log_row(current.row())
        if row.is_candidate:
            self.session.select(row.structure, -1, row.instance, row.geometry, row.primitive)
        else:
            instance = row.instance if row.level == 1 or row.box < 0 else -1
            self.session.select(row.structure, row.box, instance)

    def retint(self, theme: Theme) -> None:
        colours = {family: self.appearance.family_colour(family) for family in FAMILIES}
        icons = {family: self.appearance.icon(FAMILY_ICONS[family], theme.families[family]) for family in FAMILIES}
        self.model.set_look(colours, icons, monospaced())
        for family, button in self.families.items():
            button.setIcon(icons[family])
        self.copy.setIcon(self.appearance.icon("mdi6.content-copy"))
