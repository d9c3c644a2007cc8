"""Every action of the window in one table: id, text, shortcut, icon, what it does. Menus, toolbar and the shortcut
dialog are made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from rtviewer.gui.theme import Appearance, Theme


@dataclass(frozen=True)
class ActionSpec:
    """``shortcut`` as QKeySequence text; ``checkable``: shows whether something is on, such as a field of the view
    settings of that name."""

    id: str
    text: str
    shortcut: str = ""
    icon: str = ""
    menu: str = ""
    tip: str = ""
    checkable: bool = False


ACTIONS: tuple[ActionSpec, ...] = (
    ActionSpec("open", "Open…", "Ctrl+O", "mdi6.folder-open-outline", "File", "Open a mesh or scene"),
    ActionSpec("close", "Close scene", "Ctrl+W", "", "File", "Close the scene"),
    ActionSpec("reload", "Reload", "Ctrl+R", "mdi6.reload", "File", "Read the file again"),
    ActionSpec(
        "open_rays",
        "Open rays…",
        "Ctrl+Shift+O",
        "mdi6.ray-start-arrow",
        "File",
        "Open a file of recorded rays (NPZ, CSV) and trace them in the open scene",
    ),
    ActionSpec(
        "save_image",
        "Save image…",
        "Ctrl+S",
        "mdi6.content-save-outline",
        "File",
        "Save the traced picture: PNG with its legend, EXR, or NPZ of hits and counters",
    ),
    ActionSpec("quit", "Quit", "Ctrl+Q", "", "File", "Close the window"),
    ActionSpec("show_geometry", "Geometry", "N", "mdi6.cube-outline", "View", "Draw the geometry", True),
    ActionSpec("show_wireframe", "Wireframe", "M", "mdi6.vector-triangle", "View", "Draw triangle edges", True),
    ActionSpec("show_boxes", "Node boxes", "B", "mdi6.grid", "View", "Draw the boxes of the nodes", True),
    ActionSpec(
        "show_instance_boxes",
        "Instance boxes",
        "V",
        "mdi6.select-group",
        "View",
        "Draw a box around each instance",
        True,
    ),
    ActionSpec("show_rays", "Ray", "Y", "mdi6.ray-start-arrow", "View", "Draw the picked ray and its candidates", True),
    ActionSpec(
        "hide",
        "Hide selected instance",
        "H",
        "mdi6.eye-off-outline",
        "View",
        "Leave the selected instance out of the structure view",
    ),
    ActionSpec("show_all", "Show all", "J", "mdi6.eye-outline", "View", "Show hidden instances again"),
    ActionSpec("fit", "Fit scene", "Shift+F", "mdi6.fit-to-page-outline", "Camera", "Bring the whole scene into view"),
    ActionSpec(
        "focus", "Focus selection", "F", "mdi6.image-filter-center-focus", "Camera", "Bring the selection into view"
    ),
    ActionSpec("reset", "Reset camera", "R", "mdi6.camera-retake-outline", "Camera", "Back to the scene's camera"),
    ActionSpec("world", "World scope", "W", "mdi6.earth", "Camera", "Show the top level in world space"),
    ActionSpec("clear_ray", "Clear ray", "Esc", "", "Camera", "Pick no ray"),
    ActionSpec(
        "fit_range",
        "Fit counter range",
        "C",
        "mdi6.arrow-expand-vertical",
        "Image",
        "Fix the range at what the picture holds",
    ),
    ActionSpec(
        "auto_range", "Automatic range", "Shift+C", "mdi6.restore", "Image", "Spread the palette over all values again"
    ),
    ActionSpec(
        "show_histogram",
        "Histogram",
        "G",
        "mdi6.chart-histogram",
        "Image",
        "Show the spread of a heat map's values, with limits to drag",
        True,
    ),
    ActionSpec(
        "x_ray",
        "X-ray",
        "X",
        "mdi6.layers-search-outline",
        "Image",
        "Count the surfaces along every ray, behind the first hit too; again for what was shown before",
        True,
    ),
    ActionSpec("next_mode", "Next mode", "]", "", "Image", "Show the next image mode"),
    ActionSpec("previous_mode", "Previous mode", "[", "", "Image", "Show the previous image mode"),
    ActionSpec("next_palette", "Next palette", "P", "", "Image", "Colour numbers with the next palette"),
    ActionSpec("whole_image", "Whole image", "Home", "mdi6.aspect-ratio", "Image", "Zoom the trace view out"),
    ActionSpec("log_play", "Play", "Ctrl+P", "mdi6.play-pause", "Ray", "Play the ray log from where it is, or pause"),
    ActionSpec("log_step", "Step", ".", "mdi6.step-forward", "Ray", "Go to the next event shown"),
    ActionSpec("log_back", "Step back", ",", "mdi6.step-backward", "Ray", "Go to the event before"),
    ActionSpec("log_first", "First event", "Ctrl+,", "mdi6.skip-previous", "Ray", "Go to the first event shown"),
    ActionSpec("log_last", "Last event", "Ctrl+.", "mdi6.skip-next", "Ray", "Go to the last event shown"),
    ActionSpec("log_next_candidate", "Next candidate", "K", "", "Ray", "Go to the next candidate or report"),
    ActionSpec("log_previous_candidate", "Previous candidate", "Shift+K", "", "Ray", "Go to the candidate before"),
    ActionSpec("log_next_instance", "Next instance", "I", "", "Ray", "Go to the next instance entered or skipped"),
    ActionSpec("log_previous_instance", "Previous instance", "Shift+I", "", "Ray", "Go to the instance before"),
    ActionSpec("log_next_commit", "Next commit", "T", "", "Ray", "Go to the next event that shortens the ray"),
    ActionSpec("log_previous_commit", "Previous commit", "Shift+T", "", "Ray", "Go to the commit before"),
    ActionSpec("log_next", "Jump", "L", "mdi6.chevron-right", "Ray", "Go to the next event of the kind chosen"),
    ActionSpec("log_previous", "Jump back", "Shift+L", "mdi6.chevron-left", "Ray", "Go to the one of that kind before"),
    ActionSpec("log_whole", "Whole log", "Ctrl+L", "mdi6.ray-start-end", "Ray", "Show the whole ray again"),
    ActionSpec("copy_log", "Copy log", "Ctrl+Shift+C", "mdi6.content-copy", "Ray", "Copy the shown events as text"),
    ActionSpec(
        "why_not",
        "Why not this?",
        "Q",
        "mdi6.help-circle-outline",
        "Ray",
        "Say what became of the selected instance or primitive: why the ray did or did not hit it",
    ),
    ActionSpec("rebuild", "Rebuild", "Ctrl+B", "mdi6.hammer-wrench", "Build", "Build again with the build flags set"),
    ActionSpec(
        "clone", "Clone", "", "mdi6.content-duplicate", "Structure", "Copy the selected structure as it is (CLONE)"
    ),
    ActionSpec(
        "compact",
        "Compact",
        "",
        "mdi6.arrow-collapse",
        "Structure",
        "Copy the selected structure without the room it does not use (COMPACT)",
    ),
    ActionSpec(
        "serialize",
        "Serialize…",
        "",
        "mdi6.export",
        "Structure",
        "Write the selected structure as a blob in the D3D12 layout (SERIALIZE)",
    ),
    ActionSpec(
        "decode",
        "Decode for tools…",
        "",
        "mdi6.file-code-outline",
        "Structure",
        "Write the selected structure as descs and buffers (VISUALIZATION_DECODE_FOR_TOOLS)",
    ),
    ActionSpec(
        "deserialize",
        "Deserialize…",
        "",
        "mdi6.import",
        "Structure",
        "Read a blob as a copy that can take the selected structure's place (DESERIALIZE)",
    ),
    ActionSpec(
        "save_capture",
        "Save capture…",
        "Ctrl+Shift+S",
        "mdi6.archive-arrow-down-outline",
        "Structure",
        "Write all structures, settings and the camera to one file; Open reads it back",
    ),
    ActionSpec("reset_layout", "Reset layout", "", "", "Window", "Put all panes back"),
    ActionSpec("theme_system", "Theme: system", "", "", "Window", "Follow the system's colours"),
    ActionSpec("theme_light", "Theme: light", "", "", "Window", "Light colours"),
    ActionSpec("theme_dark", "Theme: dark", "", "", "Window", "Dark colours"),
    ActionSpec("shortcuts", "Shortcuts", "F1", "mdi6.keyboard-outline", "Help", "List all shortcuts"),
)

MOUSE = (
    ("Structure view", "Drag", "Orbit"),
    ("Structure view", "Right drag, middle drag, Shift+drag", "Pan"),
    ("Structure view", "Wheel, + and -", "Zoom"),
    ("Structure view", "Arrow keys", "Orbit in steps"),
    ("Structure view", "Click", "Select instance and primitive"),
    ("Structure view", "Drag the light", "Move it across the view (shadow rays)"),
    ("Structure view", "Double-click", "Select and focus"),
    ("Trace view", "Click", "Pick a pixel: its ray is logged and drawn"),
    ("Trace view", "Wheel, drag", "Zoom, pan"),
    ("Trace view", "Double-click", "Whole image"),
)


class Actions(QObject):
    """QActions of the table, by id. ``commands`` maps every id to what it does (checkable ones get the new state)."""

    def __init__(self, owner: QWidget, commands: dict[str, Callable[..., Any]], appearance: Appearance) -> None:
        super().__init__(owner)
        missing = {spec.id for spec in ACTIONS} ^ set(commands)
        if missing:
            raise ValueError(f"actions without command, or commands without action: {sorted(missing)}")
        self._appearance = appearance
        self._by_id: dict[str, QAction] = {}
        for spec in ACTIONS:
            action = QAction(spec.text, owner)
            action.setObjectName(f"action_{spec.id}")
            action.setShortcut(QKeySequence(spec.shortcut))
            action.setShortcutContext(Qt.ShortcutContext.WindowShortcut)
            action.setCheckable(spec.checkable)
            suffix = f" ({spec.shortcut})" if spec.shortcut else ""
            action.setToolTip(f"{spec.tip or spec.text}{suffix}")
            action.setStatusTip(spec.tip)
            command = commands[spec.id]
            if spec.checkable:
                action.triggered.connect(command)
            else:
                action.triggered.connect(lambda _=False, command=command: command())
            owner.addAction(action)
            self._by_id[spec.id] = action
        appearance.changed.connect(self._retint)
        self._retint(appearance.theme)

    def __getitem__(self, action_id: str) -> QAction:
        return self._by_id[action_id]

    def of_menu(self, menu: str) -> list[QAction]:
        return [self._by_id[spec.id] for spec in ACTIONS if spec.menu == menu]

    def _retint(self, _: Theme) -> None:
        for spec in ACTIONS:
            if spec.icon:
                self._by_id[spec.id].setIcon(self._appearance.icon(spec.icon))


class ShortcutDialog(QDialog):
    """All shortcuts and mouse gestures."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Shortcuts")
        self.resize(560, 620)
        rows = [(spec.menu, spec.shortcut, spec.tip or spec.text) for spec in ACTIONS if spec.shortcut]
        rows += list(MOUSE)
        table = QTableWidget(len(rows), 3, self)
        table.setHorizontalHeaderLabels(["Where", "Keys or mouse", "Does"])
        table.verticalHeader().hide()
        table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        table.setSelectionMode(QTableWidget.SelectionMode.NoSelection)
        table.setShowGrid(False)
        table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        table.horizontalHeader().setStretchLastSection(True)
        for row, texts in enumerate(rows):
            for column, text in enumerate(texts):
                table.setItem(row, column, QTableWidgetItem(text))
        self.table = table
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(table)
        layout.addWidget(buttons)
