"""Ray flags, instance mask, interval and programs of the traced rays: one row per flag, made from the enum."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from rtviewer.dxr.flags import RayFlag, members
from rtviewer.gui.binding import follow, quiet, show_text
from rtviewer.gui.panes.pane import Pane, PaneContext, label
from rtviewer.gui.theme import Theme, monospaced
from rtviewer.gui.widgets.flag_row import FlagRow
from rtviewer.gui.widgets.mask_field import MaskField
from rtviewer.gui.widgets.programs_box import ProgramsBox
from rtviewer.session.events import Refusal
from rtviewer.session.state import State


def format_extent(value: float) -> str:
    """TMin or TMax as text that reads back to the same number."""
    return "inf" if value == float("inf") else f"{value:.9g}"


class RayFlagsPane(Pane):
    name = "ray_flags"
    title = "Ray flags"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.rows: dict[RayFlag, FlagRow] = {}
        column = QVBoxLayout()
        column.setContentsMargins(8, 6, 8, 8)
        column.setSpacing(2)
        column.addLayout(self._word_line())
        self.message = label("", "refusal", wrap=True)
        self.message.hide()
        column.addWidget(self.message)
        for flag in members(RayFlag):
            row = FlagRow(flag)
            row.toggled.connect(self._toggle)
            self.rows[RayFlag(flag)] = row
            column.addWidget(row)
        column.addWidget(self._separator())
        column.addLayout(self._mask_and_interval())
        column.addStretch(1)
        inner = QWidget()
        inner.setLayout(column)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setWidget(inner)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        inner.setMinimumWidth(inner.minimumSizeHint().width())
        scroll.setMinimumWidth(inner.minimumWidth() + scroll.verticalScrollBar().sizeHint().width())
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scroll)
        follow(self, self.session.store, {"rays", "profile"}, self._show)
        self.follow_theme()

    def _word_line(self) -> QHBoxLayout:
        line = QHBoxLayout()
        self.word = QLineEdit()
        self.word.setFont(monospaced())
        self.word.setAccessibleName("Ray flag word")
        self.word.setToolTip("The flag word. Type hex, names, or HLSL such as RAY_FLAG_A | RAY_FLAG_B, then Enter")
        self.word.editingFinished.connect(self._word_typed)
        self.copy = QToolButton()
        self.copy.setToolTip("Copy the flags as HLSL")
        self.copy.setAccessibleName("Copy ray flags as HLSL")
        self.copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.session.ray_flags_as_hlsl()))
        self.paste = QToolButton()
        self.paste.setToolTip("Paste flags: HLSL, names or hex")
        self.paste.setAccessibleName("Paste ray flags")
        self.paste.clicked.connect(self._paste)
        line.addWidget(self.word, 1)
        line.addWidget(self.copy)
        line.addWidget(self.paste)
        return line

    @staticmethod
    def _separator() -> QFrame:
        line = QFrame()
        line.setProperty("role", "line")
        line.setFixedHeight(1)
        return line

    def _mask_and_interval(self) -> QVBoxLayout:
        box = QVBoxLayout()
        box.setSpacing(6)
        box.addWidget(
            label("Instance inclusion mask", "heading", "MASK-1: an instance is met when its mask AND this is not 0")
        )
        self.mask = MaskField("Instance mask")
        self.mask.edited.connect(self._mask_edited)
        box.addWidget(self.mask)
        interval = QGridLayout()
        self.t_min, self.t_max = QLineEdit(), QLineEdit()
        tips = (
            "TMin: hits at or before it do not count (RAY-6)",
            "TMax: hits at or beyond it do not count (RAY-6); inf is legal",
        )
        for place, (edit, name, tip) in enumerate(zip((self.t_min, self.t_max), ("TMin", "TMax"), tips, strict=True)):
            edit.setFont(monospaced())
            edit.setAccessibleName(name)
            edit.setToolTip(tip)
            edit.editingFinished.connect(self._interval_typed)
            interval.addWidget(label(name, tip=tip), 0, 2 * place)
            interval.addWidget(edit, 0, 2 * place + 1)
        box.addLayout(interval)
        self.field_message = label("", "refusal", wrap=True)
        self.field_message.hide()
        box.addWidget(self.field_message)
        programs = ProgramsBox(self.session)
        self.programs, self.any_hit, self.intersection = programs, programs.any_hit, programs.intersection
        box.addWidget(programs)
        self.copy_ray = QPushButton("Copy RayDesc")
        self.copy_ray.setToolTip("Copy the picked ray and its TraceRay call as HLSL")
        self.copy_ray.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.session.ray_desc_text()))
        box.addWidget(self.copy_ray)
        return box

    def _show(self, state: State) -> None:
        rays, profile = state.rays, state.profile
        conflicts = self.session.ray_flag_refusals()
        for flag, row in self.rows.items():
            unknown = not flag & profile.known_ray_flags
            reason = f"[RF-1] Not available in {profile}" if unknown else ""
            row.show_state(bool(rays.ray_flags & flag), reason, "" if unknown else conflicts.get(flag, ""))
        with quiet(self.word):
            self.word.setText(f"0x{int(rays.ray_flags):03X}")
            self.word.setModified(False)
        self.mask.show_mask(rays.mask)
        show_text(self.t_min, format_extent(rays.t_min))
        show_text(self.t_max, format_extent(rays.t_max))
        self._say(self.message, None)
        self._say(self.field_message, None)

    def _toggle(self, flag: RayFlag, on: bool) -> None:
        for row in self.rows.values():
            if row.refusal:
                row.show_state(row.box.isChecked())
        refusal = self.session.set_ray_flag(flag, on)
        if refusal is not None:
            self.rows[flag].refuse(refusal.text)

    def _word_typed(self) -> None:
        if self.word.isModified():
            self.word.setModified(False)
            self._apply_text(self.word.text())

    def _paste(self) -> None:
        self._apply_text(QGuiApplication.clipboard().text())

    def _apply_text(self, text: str) -> None:
        refusal = self.session.set_ray_flags(text)
        self._show(self.session.state)
        self._say(self.message, refusal)

    def _mask_edited(self, mask: object) -> None:
        refusal = self.session.set_mask(mask)
        self.mask.restore()
        self._say(self.field_message, refusal)

    def _interval_typed(self) -> None:
        if not (self.t_min.isModified() or self.t_max.isModified()):
            return
        for edit in (self.t_min, self.t_max):
            edit.setModified(False)
        try:
            low, high = float(self.t_min.text()), float(self.t_max.text())
        except ValueError:
            refusal = Refusal("TMin and TMax are numbers, or inf")
        else:
            refusal = self.session.set_interval(low, high)
        rays = self.session.state.rays
        with quiet(self.t_min, self.t_max):
            self.t_min.setText(format_extent(rays.t_min))
            self.t_max.setText(format_extent(rays.t_max))
        self._say(self.field_message, refusal)

    @staticmethod
    def _say(where, refusal: Refusal | None) -> None:
        where.setText(refusal.text if refusal else "")
        where.setVisible(refusal is not None)

    def retint(self, theme: Theme) -> None:
        self.copy.setIcon(self.appearance.icon("mdi6.content-copy"))
        self.paste.setIcon(self.appearance.icon("mdi6.content-paste"))
        self.copy_ray.setIcon(self.appearance.icon("mdi6.content-copy"))
