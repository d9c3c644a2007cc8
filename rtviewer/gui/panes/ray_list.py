"""A file of rays with what each of them hit: sorted, filtered, exported; the chosen one is logged and drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QPushButton, QStackedLayout, QToolButton, QVBoxLayout, QWidget

from rtviewer.gui.binding import listen, quiet
from rtviewer.gui.models.ray_list import NAMES, RayListModel, table_columns
from rtviewer.gui.panes.pane import Pane, PaneContext, label
from rtviewer.gui.theme import FAMILY_ICONS, Theme, monospaced
from rtviewer.gui.widgets.elided_label import ElidedLabel
from rtviewer.gui.widgets.table import fit_columns, make_table
from rtviewer.io.ray_file import CSV_COLUMNS, RAY_SUFFIXES
from rtviewer.session.events import LogChanged, RaysChanged
from rtviewer.session.ray_list import COLUMNS, RayList, RayStatus

EMPTY = (
    "No rays are listed.\nOpen a file of rays that an application recorded: NPZ with arrays origin, direction, t_min, "
    f"t_max, or CSV with columns {', '.join(CSV_COLUMNS[:4])}, …; flags and mask may be there, too."
)
NAMES_SHOWN = tuple(column.title for column in COLUMNS.values())
ARROW_WIDTH = 34
"""Pixels that a header's arrow and margins take."""
PATTERN = f"Rays ({' '.join('*' + suffix for suffix in RAY_SUFFIXES)});;All files (*)"


class RayListPane(Pane):
    name = "rays"
    title = "Rays"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._own = context.make_background()
        self._rays: RayList | None = None
        self.model = RayListModel(self)
        self.model.order_asked.connect(lambda *_: self._reorder())
        self.table = make_table(self.model, "Rays")
        self.table.selectionModel().currentRowChanged.connect(self._chosen)
        self.empty = label(EMPTY, "empty", wrap=True)
        self.open_button = QPushButton("Open rays…")
        self.open_button.clicked.connect(self.ask_for_file)
        empty = QWidget()
        column = QVBoxLayout(empty)
        column.addStretch(1)
        column.addWidget(self.empty)
        column.addWidget(self.open_button, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addStretch(1)
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(self._strip())
        self.message = label("", "refusal", wrap=True)
        self.message.hide()
        column.addWidget(self.message)
        column.addWidget(self.table, 1)
        self.stack = QStackedLayout(self)
        self.stack.addWidget(empty)
        self.stack.addWidget(content)
        listen(self, self.session, {RaysChanged: self._changed, LogChanged: self._log_changed})
        self.follow_theme()
        self._changed(RaysChanged(self.session.ray_list))

    def _strip(self) -> QHBoxLayout:
        line = QHBoxLayout()
        line.setContentsMargins(8, 4, 8, 0)
        self.filters: dict[RayStatus, QToolButton] = {}
        for status in RayStatus:
            button = QToolButton()
            button.setCheckable(True)
            button.setChecked(True)
            button.setAutoRaise(True)
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
            button.setAccessibleName(f"Show {status}")
            button.setToolTip(
                f"Show or hide rays that are {status}" if status == "invalid" else f"Show or hide: {status}"
            )
            button.clicked.connect(lambda _: self._reorder())
            self.filters[status] = button
            line.addWidget(button)
        self.about = ElidedLabel()
        line.addWidget(self.about, 1)
        self.open_other = self._tool("Open rays", "Open another file of rays", self.ask_for_file)
        self.export = self._tool("Export rays", "Write the rays with what they hit, as NPZ or CSV", self.ask_for_export)
        self.close_rays = self._tool("Close rays", "Forget these rays", self.session.close_rays)
        for button in (self.open_other, self.export, self.close_rays):
            line.addWidget(button)
        return line

    @staticmethod
    def _tool(name: str, tip: str, run: Callable[[], Any]) -> QToolButton:
        button = QToolButton()
        button.setAutoRaise(True)
        button.setAccessibleName(name)
        button.setToolTip(tip)
        button.clicked.connect(lambda: run())
        return button

    # Files

    def ask_for_file(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self, "Open rays", "", PATTERN)
        if name:
            self.session.open_rays(name)

    def ask_for_export(self) -> None:
        name, _ = QFileDialog.getSaveFileName(self, "Write rays and results", "rays.npz", "NPZ (*.npz);;CSV (*.csv)")
        if name:
            self.session.export_rays(Path(name))

    # The list

    def _changed(self, event: RaysChanged) -> None:
        rays = event.rays
        self._say("")
        if rays is None:
            self._rays = None
            self.model.set_rays([], self.model._order[:0])
            self.stack.setCurrentIndex(0)
            return
        is_other = self._rays is None or self._rays.table is not rays.table
        self._rays = rays
        self.stack.setCurrentIndex(1)
        for status, button in self.filters.items():
            button.setText(f"{status} {rays.count(status):,}")
        ignored = f" · ignored: {', '.join(rays.table.ignored[:3])}…" if rays.table.ignored else ""
        self.about.setText(f"{rays.table.name} · {len(rays):,} rays · {1000 * rays.seconds:.0f} ms{ignored}")
        asked = self._asked()

        def show(made: tuple[Any, Any]) -> None:
            if self._rays is not rays:
                return
            chosen = self._chosen_ray()
            with quiet(self.table.selectionModel()):
                self.model.set_rays(*made)
            if is_other:
                self._fit()
            self._select(chosen)
            self._reorder_if(asked)

        self._own.run(lambda: (table_columns(rays), _order(rays, *asked)), show, self._failed)

    def _fit(self) -> None:
        """Columns as wide as their first rows, and their titles beside the arrow that marks the sorted one."""
        fit_columns(self.table, 150)
        header = self.table.horizontalHeader()
        for column in range(header.count() - 1):
            least = self.table.fontMetrics().horizontalAdvance(NAMES_SHOWN[column]) + ARROW_WIDTH
            self.table.setColumnWidth(column, max(self.table.columnWidth(column), least))

    def _asked(self) -> tuple[str, bool, frozenset[RayStatus]]:
        shown = frozenset(status for status, button in self.filters.items() if button.isChecked())
        return (*self.model.sorted_by, shown)

    def _reorder(self) -> None:
        """Sort and filter anew, off this thread."""
        rays, asked = self._rays, self._asked()
        if rays is None:
            return

        def show(order: Any) -> None:
            if self._rays is rays and self.model.columnCount():
                self.model.set_order(order)
                self._reorder_if(asked)

        self._own.run(lambda: _order(rays, *asked), show, self._failed)

    def _reorder_if(self, done: tuple[str, bool, frozenset[RayStatus]]) -> None:
        if done != self._asked():
            self._reorder()

    def _failed(self, error: Exception) -> None:
        self._say(str(error))

    # Choosing

    def _chosen_ray(self) -> int:
        log = self.session.log
        return log.list_index if log is not None else -1

    def _chosen(self, current: QModelIndex, _: QModelIndex) -> None:
        if current.isValid():
            refusal = self.session.log_listed_ray(self.model.source_row(current.row()))
            self._say(refusal.text if refusal else "")

    def _log_changed(self, event: LogChanged) -> None:
        self._select(event.log.list_index if event.log is not None else -1)

    def _select(self, ray: int) -> None:
        """Mark the row of the logged ray; none for a ray that is not of the list."""
        row = self.model.view_row(ray) if ray >= 0 else -1
        if row == self.table.currentIndex().row() or (row < 0 and self.message.isVisible()):
            return
        with quiet(self.table.selectionModel()):
            self.table.setCurrentIndex(self.model.index(row, 0) if row >= 0 else QModelIndex())
        if row >= 0:
            self.table.scrollTo(self.model.index(row, 0))
        self.table.viewport().update()

    def _say(self, text: str) -> None:
        self.message.setText(text)
        self.message.setVisible(bool(text))

    def retint(self, theme: Theme) -> None:
        self.model.set_number_font(monospaced())
        icons = {
            self.open_other: "mdi6.folder-open-outline",
            self.export: "mdi6.content-save-outline",
            self.close_rays: "mdi6.close",
        }
        for button, icon in icons.items():
            button.setIcon(self.appearance.icon(icon))
        families = {RayStatus.HIT: "accepted", RayStatus.MISS: "missed", RayStatus.INVALID: "excluded"}
        for status, button in self.filters.items():
            button.setIcon(self.appearance.icon(FAMILY_ICONS[families[status]], theme.families[families[status]]))


def _order(rays: RayList, column: str, descending: bool, shown: frozenset[RayStatus]) -> Any:
    return rays.order(column if column in NAMES else "index", descending=descending, only=shown)
