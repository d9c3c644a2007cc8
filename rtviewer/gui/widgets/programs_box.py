"""Which programs rays run: built-in ones and those of a user's file, which is loaded only after a warning."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QMessageBox,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from rtviewer.dxr.programs import ANY_HIT_MEANINGS, INTERSECTION_MEANINGS, USER_PREFIX, ProgramKind
from rtviewer.gui.binding import follow, listen, quiet, show_choice
from rtviewer.gui.panes.pane import label
from rtviewer.session.commands import Session
from rtviewer.session.events import JobEnded
from rtviewer.session.jobs import Lane
from rtviewer.session.state import State
from rtviewer.shade.shadings import CLOSEST_HIT, MISS

BUILT_IN = {ProgramKind.ANY_HIT: ANY_HIT_MEANINGS, ProgramKind.INTERSECTION: INTERSECTION_MEANINGS}
NOT_LOADED = "The scene names this program of a user; load its file, or choose another"


def readable(name: str) -> str:
    return name.replace("_", " ").capitalize()


class CodeWarning(QMessageBox):
    """Asks before a user's file is run."""

    def __init__(self, file: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setIcon(QMessageBox.Icon.Warning)
        self.setWindowTitle("Load programs")
        self.setText(f"{Path(file).name} is Python code. It will run with your rights.")
        self.setInformativeText(f"Load it only if you know what it does:\n{file}")
        self.run = self.addButton("Run and load", QMessageBox.ButtonRole.AcceptRole)
        self.cancel = self.addButton(QMessageBox.StandardButton.Cancel)
        self.setDefaultButton(self.cancel)


class ProgramsBox(QWidget):
    """Any-hit and intersection program, the switch that repeats calls, and the way to a user's file."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.any_hit = self._choice("Any-hit program")
        self.any_hit.activated.connect(lambda _: session.set_programs(any_hit=self.any_hit.currentData()))
        self.intersection = self._choice("Intersection program")
        self.intersection.activated.connect(
            lambda _: session.set_programs(intersection=self.intersection.currentData())
        )
        form = QFormLayout()
        form.setContentsMargins(0, 4, 0, 0)
        form.addRow(label("Any-hit", tip="Runs for every hit on non-opaque geometry"), self.any_hit)
        form.addRow(label("Intersection", tip="Runs for every procedural primitive"), self.intersection)
        self.closest_hit, self.miss = self._choice("Closest-hit shading"), self._choice("Miss shading")
        for box, table in ((self.closest_hit, CLOSEST_HIT), (self.miss, MISS)):
            for place, shading in enumerate(table.values()):
                box.addItem(readable(shading.name), shading.name)
                box.setItemData(place, shading.text, Qt.ItemDataRole.ToolTipRole)
        self.closest_hit.activated.connect(lambda _: session.set_shading(closest_hit=self.closest_hit.currentData()))
        self.miss.activated.connect(lambda _: session.set_shading(miss=self.miss.currentData()))
        form.addRow(label("Closest-hit", tip="Colours the committed hit, in image mode Shaded"), self.closest_hit)
        form.addRow(label("Miss", tip="Colours rays without a hit, in image mode Shaded"), self.miss)
        self.repeat = QCheckBox("Repeat calls")
        self.repeat.setToolTip(
            "AH-7, PROC-8: call any-hit and intersection programs twice where the rules allow it, for geometry without "
            "NO_DUPLICATE_ANYHIT_INVOCATION. No hit may change; the log shows the second call"
        )
        self.repeat.clicked.connect(session.set_repeat_calls)
        self.load = QPushButton("Load programs…")
        self.load.setToolTip("Run a Python file of your own any-hit and intersection programs, after a warning")
        self.load.clicked.connect(self._ask_for_file)
        self.unload = QPushButton("Unload")
        self.unload.setToolTip("Forget the programs of the file")
        self.unload.clicked.connect(session.unload_programs)
        line = QHBoxLayout()
        line.addWidget(self.load, 1)
        line.addWidget(self.unload)
        self.file = label("", "", wrap=True)
        self.message = label("", "refusal", wrap=True)
        self.message.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addLayout(form)
        column.addWidget(self.repeat)
        column.addLayout(line)
        column.addWidget(self.file)
        column.addWidget(self.message)
        self.message.hide()
        self.warning: CodeWarning | None = None
        self._listed: tuple[object, ...] = ()
        follow(self, session.store, {"rays", "image"}, self._show)
        listen(self, session, {JobEnded: self._job_ended})

    @staticmethod
    def _choice(name: str) -> QComboBox:
        box = QComboBox()
        box.setAccessibleName(name)
        box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        box.setMinimumContentsLength(10)
        box.setToolTip(name)
        return box

    def _show(self, state: State) -> None:
        rays = state.rays
        listed = (rays.programs, *(p for p in (rays.any_hit, rays.intersection) if isinstance(p, str)))
        if listed != self._listed:
            self._listed = listed
            for kind, box, chosen in (
                (ProgramKind.ANY_HIT, self.any_hit, rays.any_hit),
                (ProgramKind.INTERSECTION, self.intersection, rays.intersection),
            ):
                with quiet(box):
                    self._fill(box, kind, chosen)
        show_choice(self.any_hit, rays.any_hit)
        show_choice(self.intersection, rays.intersection)
        show_choice(self.closest_hit, state.image.closest_hit)
        show_choice(self.miss, state.image.miss)
        with quiet(self.repeat):
            self.repeat.setChecked(rays.repeat_calls)
        own = rays.programs
        self.unload.setEnabled(bool(own.programs))
        count = f"{len(own.programs)} program{'' if len(own.programs) == 1 else 's'}"
        self.file.setText(f"{Path(own.file).name}: {count}" if own.programs else "")
        self.file.setToolTip(own.file)
        self.file.setVisible(bool(own.programs))

    def _fill(self, box: QComboBox, kind: ProgramKind, chosen: object) -> None:
        """Built-in programs, those of the file, and a name of the scene that is not loaded."""
        own = [p for p in self.session.state.rays.programs.programs if p.kind is kind]
        rows = [(readable(program.name), program, tip) for program, tip in BUILT_IN[kind].items()]
        rows += [(f"{USER_PREFIX} {p.name}", p.name, p.text or f"line {p.line}") for p in own]
        if isinstance(chosen, str) and chosen not in [p.name for p in own]:
            rows.append((f"{USER_PREFIX} {chosen} (not loaded)", chosen, NOT_LOADED))
        box.clear()
        for place, (text, program, tip) in enumerate(rows):
            box.addItem(text, program)
            box.setItemData(place, tip, Qt.ItemDataRole.ToolTipRole)

    def _ask_for_file(self) -> None:
        document = self.session.document
        start = ""
        if document is not None and document.path is not None:
            folder = document.path if document.path.is_dir() else document.path.parent
            start = str(folder / document.scene.program_file)
        name, _ = QFileDialog.getOpenFileName(self, "Load programs", start, "Python files (*.py)")
        if name:
            self.warn_about(name)

    def warn_about(self, file: str) -> None:
        """Load a file if the user says so."""
        self.warning = CodeWarning(file, self.window())
        self.warning.run.clicked.connect(lambda: self._load(file))
        self.warning.open()

    def _load(self, file: str) -> None:
        self.message.hide()
        self.session.load_programs(file)

    def _job_ended(self, event: JobEnded) -> None:
        if event.lane is Lane.PROGRAMS:
            self.message.setText(str(event.error) if event.error is not None else "")
            self.message.setVisible(event.error is not None)
