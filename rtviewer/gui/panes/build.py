"""Build flags of both levels, made from the enum, and what the last build cost beside the one before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import (
    QCheckBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from rtviewer.dxr.flags import BuildFlag, members
from rtviewer.gui.binding import follow, listen, show_checked
from rtviewer.gui.panes.pane import Pane, PaneContext, label
from rtviewer.gui.theme import Theme, monospaced
from rtviewer.gui.widgets.flag_row import flag_tip
from rtviewer.gui.widgets.text import format_bytes, format_change, format_seconds
from rtviewer.session.document import World
from rtviewer.session.events import DocumentChanged
from rtviewer.session.state import BuildSettings, State

LEVELS = (("tlas", "TLAS", "Top-level structure"), ("blas", "BLAS", "All bottom-level structures"))


CHANGE_TIP = "Change against the build before this one"


@dataclass(frozen=True)
class BuildCost:
    """What one build cost, over all structures of a level; ``sah`` summed."""

    seconds: float
    size: int
    sah: float


COST_FIELDS: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("seconds", format_seconds),
    ("size", format_bytes),
    ("sah", lambda value: f"{value:,.2f}"),
)


def _signed(change: float, words: Callable[[float], str]) -> str:
    return f"{'+' if change > 0 else chr(0x2212)}{words(abs(change))}"


def cost_of(world: World) -> dict[str, BuildCost]:
    """Cost by level. Computes statistics: call it off the GUI thread for large scenes."""
    levels: dict[str, list[int]] = {"tlas": [-1], "blas": list(range(len(world.blases)))}
    return {
        name: BuildCost(
            sum(world.build_seconds(i) for i in indices),
            sum(world.structure(i).size for i in indices),
            sum(float(world.statistics(i).sah) for i in indices),
        )
        for name, indices in levels.items()
    }


class BuildPane(Pane):
    name = "build"
    title = "Build"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.boxes: dict[tuple[str, BuildFlag], QCheckBox] = {}
        self._last: dict[str, BuildCost] = {}
        self._before: dict[str, BuildCost] = {}
        self._last_flags: BuildSettings | None = None
        self._before_flags: BuildSettings | None = None
        self._generation = -1
        column = QVBoxLayout()
        column.setContentsMargins(8, 6, 8, 6)
        column.setSpacing(4)
        column.addLayout(self._flags())
        self.message = label("", "refusal", wrap=True)
        self.message.hide()
        column.addWidget(self.message)
        self.rebuild = QPushButton("Rebuild")
        self.rebuild.setToolTip("Build the open scene again with these flags")
        self.rebuild.clicked.connect(self.session.rebuild)
        self.pending = label("", "muted")
        line = QHBoxLayout()
        line.addWidget(self.rebuild)
        line.addWidget(self.pending, 1)
        column.addLayout(line)
        column.addLayout(self._costs())
        column.addStretch(1)
        inner = QWidget()
        inner.setLayout(column)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setWidget(inner)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scroll)
        follow(self, self.session.store, {"build", "profile"}, self._show)
        listen(self, self.session, {DocumentChanged: self._document_changed})
        self._document_changed(None)
        self.follow_theme()

    def _flags(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(1)
        grid.setColumnStretch(2, 1)
        for place, (_, title, tip) in enumerate(LEVELS):
            heading = label(title, "muted", tip)
            grid.addWidget(heading, 0, place, Qt.AlignmentFlag.AlignHCenter)
        grid.addWidget(label("Flag of the next build", "muted"), 0, 2)
        self.names = {}
        for row, flag in enumerate(members(BuildFlag), 1):
            flag = BuildFlag(flag)
            for place, (level, title, _) in enumerate(LEVELS):
                box = QCheckBox()
                box.setAccessibleName(f"{title} {flag.name}")
                box.clicked.connect(lambda on, level=level, flag=flag: self._toggle(level, flag, on))
                self.boxes[level, flag] = box
                grid.addWidget(box, row, place, Qt.AlignmentFlag.AlignHCenter)
            name = label(str(flag.name))
            small = QFont(name.font())
            small.setPointSizeF(max(small.pointSizeF() - 0.5, 7.0))
            name.setFont(small)
            self.names[flag] = name
            grid.addWidget(name, row, 2)
        return grid

    def _costs(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(10)
        grid.setVerticalSpacing(1)
        grid.setContentsMargins(0, 4, 0, 0)
        titles = (
            ("Last build", ""), ("Time", "Wall time"), ("Size", "Bytes of all structures of the level"),
            ("SAH", "Surface area heuristic: expected cost of a ray, summed over the level"),
        )  # fmt: skip
        for column, (text, tip) in enumerate(titles):
            side = Qt.AlignmentFlag.AlignRight if column else Qt.AlignmentFlag.AlignLeft
            grid.addWidget(label(text, "muted", tip), 0, column, side)
            grid.setColumnStretch(column, 1 if column else 0)
        self.costs: dict[tuple[str, int], QLabel] = {}
        self.changes: dict[tuple[str, int], QLabel] = {}
        self.shares: dict[tuple[str, int], QLabel] = {}
        rows = ((self.costs, ""), (self.changes, "muted"), (self.shares, "muted"))
        for level_place, (level, title, _) in enumerate(LEVELS):
            names = (title, "change", "in per cent")
            for inside, ((cells, role), name) in enumerate(zip(rows, names, strict=True)):
                row = 3 * level_place + inside + 1
                grid.addWidget(label(name, role, CHANGE_TIP if role else ""), row, 0)
                for column in range(1, 4):
                    cell = label("–", role)
                    cell.setFont(monospaced(-1))
                    cell.setAlignment(Qt.AlignmentFlag.AlignRight)
                    cells[level, column] = cell
                    grid.addWidget(cell, row, column)
        self.against = label("", "muted", wrap=True)
        grid.addWidget(self.against, 7, 0, 1, 4)
        return grid

    def _show(self, state: State) -> None:
        unavailable = self.session.unavailable_build_flags()
        words = {"tlas": state.build.tlas_flags, "blas": state.build.blas_flags}
        for (level, flag), box in self.boxes.items():
            reason = unavailable.get(flag, "")
            show_checked(box, bool(words[level] & flag))
            box.setEnabled(not reason)
            tip = flag_tip(flag) + (f"\n\nNot available: {reason}" if reason else "")
            box.setToolTip(tip)
            self.names[flag].setToolTip(tip)
            self.names[flag].setEnabled(not reason)
        self.message.hide()
        self._show_pending()

    def _show_pending(self) -> None:
        world, build = self.session.world, self.session.state.build
        self.rebuild.setEnabled(world is not None)
        self.pending.setText(
            "flags changed since the last build" if world is not None and world.settings != build else ""
        )

    def _toggle(self, level: str, flag: BuildFlag, on: bool) -> None:
        refusal = self.session.set_build_flag(level, flag, on)
        self._show(self.session.state)
        if refusal is not None:
            self.message.setText(refusal.text)
            self.message.show()

    def _document_changed(self, event: DocumentChanged | None) -> None:
        if event is None or not event.is_rebuild:
            self._last, self._before = {}, {}
            self._last_flags = self._before_flags = None
        self._show_pending()
        self._show_costs()

    def show_cost(self, cost: dict[str, BuildCost]) -> None:
        """The cost of the open world, computed by the window's background. A step of an update is no new build."""
        world = self.session.world
        if world is None:
            return
        if world.generation != self._generation:
            self._before, self._before_flags = self._last, self._last_flags
        self._generation, self._last, self._last_flags = world.generation, cost, world.settings
        self._show_costs()

    def _show_costs(self) -> None:
        for level, _, _ in LEVELS:
            new, old = self._last.get(level), self._before.get(level)
            for column, (field, words) in enumerate(COST_FIELDS, 1):
                value = getattr(new, field) if new is not None else None
                before = getattr(old, field) if new is not None and old is not None else None
                self.costs[level, column].setText("–" if value is None else words(value))
                change, share = "–", "–"
                if value is not None and before is not None:
                    change = "same" if value == before else _signed(value - before, words)
                    share = format_change(value, before) or ("same" if value == before else "±0 %")
                self.changes[level, column].setText(change)
                self.shares[level, column].setText(share)
        self.against.setText(self._against_text())

    def _against_text(self) -> str:
        """Which flags the change is about."""
        if not self._before or self._before_flags is None or self._last_flags is None:
            return "Rebuild with other flags to see what they cost and bring."
        parts = []
        for level, title, _ in LEVELS:
            new, old = (int(getattr(flags, f"{level}_flags")) for flags in (self._last_flags, self._before_flags))
            parts += [f"{title} +{flag.name}" for flag in members(BuildFlag) if new & ~old & flag]
            parts += [f"{title} −{flag.name}" for flag in members(BuildFlag) if old & ~new & flag]
        return "Against the build before: " + (", ".join(parts) or "the same flags")

    def retint(self, theme: Theme) -> None:
        self.rebuild.setIcon(self.appearance.icon("mdi6.hammer-wrench"))
