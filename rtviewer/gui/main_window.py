"""The window: docks, menus, tool bar, status bar, and what belongs to no pane: files, layout, banner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QByteArray, QSettings, Qt
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import (
    QComboBox,
    QDockWidget,
    QFileDialog,
    QMainWindow,
    QSplitter,
    QTabWidget,
    QToolBar,
    QVBoxLayout,
    QWidget,
)

from rtviewer.dxr.profile import Tier
from rtviewer.errors import RtviewerError
from rtviewer.gui.actions import Actions, ShortcutDialog
from rtviewer.gui.binding import follow, listen, quiet, show_choice
from rtviewer.gui.gl.content import Prepared, prepare
from rtviewer.gui.panes.build import BuildCost, BuildPane, cost_of
from rtviewer.gui.panes.instances import InstancesPane
from rtviewer.gui.panes.node_tree import NodeTreePane
from rtviewer.gui.panes.pane import Pane, PaneContext
from rtviewer.gui.panes.problems import ProblemsPane
from rtviewer.gui.panes.properties import PropertiesPane
from rtviewer.gui.panes.ray_flags import RayFlagsPane
from rtviewer.gui.panes.ray_log import RayLogPane
from rtviewer.gui.panes.structure_view import StructureView
from rtviewer.gui.panes.structures import StructuresPane, structure_columns
from rtviewer.gui.panes.trace_view import TraceView
from rtviewer.gui.theme import Appearance, Theme, ThemeChoice
from rtviewer.gui.widgets.banner import Banner
from rtviewer.gui.widgets.status import Status
from rtviewer.gui.worker import Background, GuiThread
from rtviewer.session.commands import Session
from rtviewer.session.document import World
from rtviewer.session.events import DocumentChanged, JobEnded, Refused
from rtviewer.session.jobs import Lane
from rtviewer.session.state import State
from rtviewer.shade.modes import MODES

LAYOUT_VERSION = 1
"""Changes when docks are added, removed or renamed: an older saved layout is then not restored."""
RECENT_COUNT = 8
DEFAULT_SIZE = (1600, 1000)

_LEFT, _RIGHT, _BOTTOM = (
    Qt.DockWidgetArea.LeftDockWidgetArea,
    Qt.DockWidgetArea.RightDockWidgetArea,
    Qt.DockWidgetArea.BottomDockWidgetArea,
)


class MainWindow(QMainWindow):
    """``settings``: where layout, theme and recent files are kept."""

    def __init__(self, session: Session, appearance: Appearance, settings: QSettings, gui_thread: GuiThread) -> None:
        super().__init__()
        self.session, self.appearance, self.settings = session, appearance, settings
        self._gui_thread = gui_thread
        self.background = Background(gui_thread)
        self.setWindowTitle("rtviewer")
        self.setObjectName("main_window")
        self.setAcceptDrops(True)
        self.setDockOptions(
            QMainWindow.DockOption.AllowNestedDocks
            | QMainWindow.DockOption.AllowTabbedDocks
            | QMainWindow.DockOption.AnimatedDocks
            | QMainWindow.DockOption.GroupedDragging
        )
        self.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        for corner, area in (
            (Qt.Corner.BottomLeftCorner, _LEFT), (Qt.Corner.TopLeftCorner, _LEFT),
            (Qt.Corner.BottomRightCorner, _RIGHT), (Qt.Corner.TopRightCorner, _RIGHT),
        ):  # fmt: skip
            self.setCorner(corner, area)
        context = PaneContext(session, appearance, self.background)
        self._make_centre(context)
        self._make_docks(context)
        self.actions_ = Actions(self, self._commands(), appearance)
        self._make_menus()
        self._make_tool_bar()
        self.status = Status(session, appearance)
        self.setStatusBar(self.status)
        listen(
            self, session, {DocumentChanged: self._document_changed, JobEnded: self._job_ended, Refused: self._refused}
        )
        follow(self, session.store, {"view"}, self._show_view)
        appearance.changed.connect(self._retint)
        self._retint(appearance.theme)
        self.resize(*DEFAULT_SIZE)
        self._default_layout()
        self._shipped_layout = self.saveState(LAYOUT_VERSION)
        self._restore_layout()

    # Making

    def _make_centre(self, context: PaneContext) -> None:
        self.structure_view = StructureView(context)
        self.trace_view = TraceView(context)
        self.splitter = QSplitter(Qt.Orientation.Horizontal)
        self.splitter.setObjectName("views")
        self.splitter.setChildrenCollapsible(False)
        self.splitter.setHandleWidth(5)
        self.splitter.addWidget(self.structure_view)
        self.splitter.addWidget(self.trace_view)
        self.splitter.setSizes([500, 500])
        self.banner = Banner(self.appearance)
        centre = QWidget()
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.banner)
        column.addWidget(self.splitter, 1)
        column.addWidget(self.trace_view.read_out)
        self.setCentralWidget(centre)

    def _make_docks(self, context: PaneContext) -> None:
        self.structures = StructuresPane(context)
        self.node_tree = NodeTreePane(context)
        self.build = BuildPane(context)
        self.ray_flags = RayFlagsPane(context)
        self.properties = PropertiesPane(context)
        self.ray_log = RayLogPane(context)
        self.instances = InstancesPane(context)
        self.problems = ProblemsPane(context)
        self.docks: dict[str, QDockWidget] = {}
        panes: list[Pane] = [
            self.structures, self.node_tree, self.build, self.ray_flags, self.properties, self.ray_log,
            self.instances, self.problems,
        ]  # fmt: skip
        for pane in panes:
            dock = QDockWidget(pane.title, self)
            dock.setObjectName(f"{pane.name}_dock")
            dock.setWidget(pane)
            self.docks[pane.name] = dock

    def _default_layout(self) -> None:
        docks = self.docks
        for dock in docks.values():
            dock.setFloating(False)
            dock.show()
        self.addDockWidget(_LEFT, docks["structures"])
        self.splitDockWidget(docks["structures"], docks["node_tree"], Qt.Orientation.Vertical)
        self.addDockWidget(_RIGHT, docks["build"])
        self.splitDockWidget(docks["build"], docks["ray_flags"], Qt.Orientation.Vertical)
        self.tabifyDockWidget(docks["ray_flags"], docks["properties"])
        docks["ray_flags"].raise_()
        self.addDockWidget(_BOTTOM, docks["ray_log"])
        self.tabifyDockWidget(docks["ray_log"], docks["instances"])
        self.tabifyDockWidget(docks["instances"], docks["problems"])
        docks["ray_log"].raise_()
        self._default_sizes()

    def _default_sizes(self) -> None:
        docks, wide = self.docks, self.width() >= 1500
        self.resizeDocks(
            [docks["structures"], docks["build"]],
            [350 if wide else 250, 316 if wide else 290],
            Qt.Orientation.Horizontal,
        )
        self.resizeDocks([docks["structures"], docks["node_tree"]], [260, 560], Qt.Orientation.Vertical)
        self.resizeDocks([docks["build"], docks["ray_flags"]], [335, 565], Qt.Orientation.Vertical)
        self.resizeDocks([docks["ray_log"]], [270 if wide else 210], Qt.Orientation.Vertical)

    def _commands(self) -> dict[str, Any]:
        view = self.session.set_view
        return {
            "open": self.ask_for_file,
            "close": self.session.close_document,
            "reload": self.reload,
            "save_image": self.ask_for_image_file,
            "quit": self.close,
            "show_geometry": lambda on: view(show_geometry=on),
            "show_wireframe": lambda on: view(show_wireframe=on),
            "show_boxes": lambda on: view(show_boxes=on),
            "show_instance_boxes": lambda on: view(show_instance_boxes=on),
            "show_rays": lambda on: view(show_rays=on),
            "hide": self.structure_view.hide_selected,
            "show_all": lambda: view(hidden_instances=frozenset()),
            "fit": self.structure_view.fit,
            "focus": self._focus,
            "reset": self._reset_camera,
            "world": lambda: self.session.set_scope(-1),
            "clear_ray": self.session.clear_pick,
            "fit_range": self.trace_view.fit_range,
            "whole_image": self.trace_view.show_whole,
            "rebuild": self.session.rebuild,
            "reset_layout": self.reset_layout,
            "theme_system": lambda: self.choose_theme(ThemeChoice.SYSTEM),
            "theme_light": lambda: self.choose_theme(ThemeChoice.LIGHT),
            "theme_dark": lambda: self.choose_theme(ThemeChoice.DARK),
            "shortcuts": self.show_shortcuts,
        }

    def _make_menus(self) -> None:
        bar = self.menuBar()
        for name in ("File", "View", "Camera", "Image", "Build", "Window", "Help"):
            menu = bar.addMenu(f"&{name}")
            menu.setToolTipsVisible(True)
            actions = self.actions_.of_menu(name)
            if name == "File":
                menu.addAction(actions[0])
                self.recent_menu = menu.addMenu("Open recent")
                actions = actions[1:]
            if name == "Window":
                for dock in self.docks.values():
                    menu.addAction(dock.toggleViewAction())
                menu.addSeparator()
            menu.addActions(actions)
        self._fill_recent()
        self._make_profile_menu()

    def _make_profile_menu(self) -> None:
        """Tier and Xbox, made from the enum; a choice that breaks a rule is refused and the marks go back."""
        menu = self.menuBar().addMenu("&Profile")
        self.menuBar().insertMenu(self.menuBar().actions()[-2], menu)
        self.profile_actions = {tier: menu.addAction(f"Tier {tier}") for tier in Tier}
        menu.addSeparator()
        xbox = menu.addAction("Xbox additions")
        for tier, action in self.profile_actions.items():
            action.setCheckable(True)
            action.triggered.connect(lambda _=False, tier=tier: self._set_profile(tier=tier))
        xbox.setCheckable(True)
        xbox.triggered.connect(lambda on: self._set_profile(xbox=on))

        def show(state: State) -> None:
            for tier, action in self.profile_actions.items():
                action.setChecked(state.profile.tier is tier)
            xbox.setChecked(state.profile.xbox)

        self._show_profile = show
        follow(self, self.session.store, {"profile"}, show)

    def _set_profile(self, **changes: Any) -> None:
        self.session.set_profile(replace(self.session.state.profile, **changes))
        self._show_profile(self.session.state)

    def _make_tool_bar(self) -> None:
        bar = QToolBar("Tools")
        bar.setObjectName("tool_bar")
        bar.setMovable(False)
        bar.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        for action_id in ("open", "reload"):
            bar.addAction(self.actions_[action_id])
        bar.addSeparator()
        for action_id in ("show_geometry", "show_wireframe", "show_boxes", "show_instance_boxes", "show_rays"):
            bar.addAction(self.actions_[action_id])
        bar.addSeparator()
        for action_id in ("fit", "focus", "reset"):
            bar.addAction(self.actions_[action_id])
        self.camera_box = QComboBox()
        self.camera_box.setAccessibleName("Camera")
        self.camera_box.setToolTip("Cameras of the scene")
        self.camera_box.setMinimumContentsLength(10)
        self.camera_box.activated.connect(self._camera_chosen)
        bar.addWidget(self.camera_box)
        bar.addSeparator()
        self.mode_box = QComboBox()
        self.mode_box.setAccessibleName("Image mode")
        self.mode_box.setToolTip("What the trace view shows")
        self.mode_box.setMaxVisibleItems(40)
        kinds = {"attribute": "Hit attributes", "heat": "Heat maps"}
        last = ""
        for mode in MODES.values():
            if last and mode.kind != last:
                self.mode_box.insertSeparator(self.mode_box.count())
            last = mode.kind
            self.mode_box.addItem(mode.label, mode.name)
            place = self.mode_box.count() - 1
            self.mode_box.setItemData(place, f"{kinds[mode.kind]}: {mode.tooltip}", Qt.ItemDataRole.ToolTipRole)
        self.mode_box.activated.connect(lambda _: self.session.set_image_mode(self.mode_box.currentData()))
        bar.addWidget(self.mode_box)
        for action_id in ("fit_range", "whole_image", "save_image"):
            bar.addAction(self.actions_[action_id])
        self.tool_bar = bar
        self.addToolBar(bar)
        follow(bar, self.session.store, {"image"}, lambda state: show_choice(self.mode_box, state.image.mode))

    # State

    def _show_view(self, state: State) -> None:
        for name in ("show_geometry", "show_wireframe", "show_boxes", "show_instance_boxes", "show_rays"):
            action = self.actions_[name]
            if action.isChecked() != getattr(state.view, name):
                action.setChecked(getattr(state.view, name))

    def _document_changed(self, event: DocumentChanged) -> None:
        document = event.document
        self.setWindowTitle(f"{document.title} — rtviewer" if document else "rtviewer")
        with quiet(self.camera_box):
            self.camera_box.clear()
            if document:
                for number, camera in enumerate(document.scene.cameras):
                    self.camera_box.addItem(camera.name or f"camera {number}", str(number))
                self.camera_box.addItem("fit scene", "fit")
        if document is None:
            return
        self.banner.dismiss()
        if document.path is not None and not event.is_rebuild:
            self._remember(document.path)
        self._prepare(document.world)

    def _prepare(self, world: World) -> None:
        """Make what the views need of a new world, off this thread."""

        def work() -> tuple[Prepared, list, dict[str, BuildCost]]:
            return prepare(world), structure_columns(world), cost_of(world)

        def done(result: tuple[Prepared, list, dict[str, BuildCost]]) -> None:
            if self.session.world is not world:
                return
            prepared, columns, cost = result
            self.structure_view.show_prepared(prepared)
            self.structures.show_columns(columns)
            self.node_tree.show_world(world)
            self.build.show_cost(cost)

        self.background.run(work, done, self.show_error)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is loading, tracing or being prepared."""
        return not self.session.jobs.is_busy() and not self.background.is_busy

    def _job_ended(self, event: JobEnded) -> None:
        if event.error is not None:
            self.show_error(event.error)
        elif event.lane is Lane.DOCUMENT and event.is_cancelled:
            self.status.say("Cancelled; what was open stays open")

    def _refused(self, event: Refused) -> None:
        self.status.say(event.refusal.text)

    def show_error(self, error: Exception) -> None:
        """A sentence over the views; what is open stays open."""
        self.banner.show_error(error)

    def post(self, call: Callable[[], Any]) -> None:
        """Run ``call`` on the GUI thread; any thread may ask."""
        self._gui_thread.post(call)

    def show_panes(self, names: Sequence[str]) -> None:
        """Bring docks to the front. RtviewerError lists the names there are."""
        for name in names:
            if name not in self.docks:
                raise RtviewerError(f"no pane {name!r}: there are {', '.join(self.docks)}")
            self.docks[name].show()
            self.docks[name].raise_()

    # Camera

    def _focus(self) -> None:
        self.structure_view.pin_ray()
        self.session.focus_selection()

    def _reset_camera(self) -> None:
        self.structure_view.pin_ray()
        self.session.use_camera(None)
        self.trace_view.show_whole()

    def _camera_chosen(self) -> None:
        self.structure_view.pin_ray()
        self.session.use_camera(self.camera_box.currentData())

    # Files

    def open_file(self, path: Path | str) -> None:
        self.session.open(path)

    def reload(self) -> None:
        document = self.session.document
        if document is not None and document.path is not None:
            self.session.open(document.path)

    def ask_for_file(self) -> None:
        from rtviewer.io.registry import FORMATS

        suffixes = sorted({suffix for fmt in FORMATS for suffix in fmt.suffixes})
        patterns = " ".join(f"*{suffix}" for suffix in suffixes)
        name, _ = QFileDialog.getOpenFileName(self, "Open", "", f"Scenes and meshes ({patterns});;All files (*)")
        if name:
            self.open_file(name)

    def ask_for_image_file(self) -> None:
        if self.trace_view.shown is None:
            self.status.say("There is no picture to save yet")
            return
        name, _ = QFileDialog.getSaveFileName(self, "Save image", "trace.png", "PNG (*.png)")
        if name:
            self.save_image(Path(name))

    def save_image(self, path: Path) -> None:
        """Write the picture shown."""
        from rtviewer.io.image_file import write_png

        shaded = self.trace_view.shown
        if shaded is not None:
            write_png(path, shaded.rgba)
            self.status.say(f"Saved {path}")

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        files = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
        if files:
            event.acceptProposedAction()
            self.open_file(files[0])

    def recent(self) -> list[str]:
        value = self.settings.value("recent", [])
        return [value] if isinstance(value, str) else [str(item) for item in value or []]

    def _remember(self, path: Path) -> None:
        text = str(path.resolve())
        self.settings.setValue("recent", [text, *(p for p in self.recent() if p != text)][:RECENT_COUNT])
        self._fill_recent()

    def _fill_recent(self) -> None:
        self.recent_menu.clear()
        for path in self.recent():
            action = self.recent_menu.addAction(path.replace("&", "&&"))
            action.triggered.connect(lambda _=False, path=path: self.open_file(path))
        self.recent_menu.setEnabled(bool(self.recent()))

    # Layout and look

    def reset_layout(self) -> None:
        self.restoreState(self._shipped_layout, LAYOUT_VERSION)
        self._default_layout()
        self.splitter.setSizes([500, 500])

    def save_layout(self) -> None:
        self.settings.beginGroup("layout")
        self.settings.setValue("version", LAYOUT_VERSION)
        self.settings.setValue("geometry", self.saveGeometry())
        self.settings.setValue("state", self.saveState(LAYOUT_VERSION))
        self.settings.setValue("views", self.splitter.saveState())
        self.settings.endGroup()
        self.settings.sync()

    def _restore_layout(self) -> None:
        self.settings.beginGroup("layout")
        if self.settings.value("version", 0, type=int) == LAYOUT_VERSION:
            self.restoreGeometry(self.settings.value("geometry", QByteArray(), type=QByteArray))
            self.restoreState(self.settings.value("state", QByteArray(), type=QByteArray), LAYOUT_VERSION)
            self.splitter.restoreState(self.settings.value("views", QByteArray(), type=QByteArray))
        self.settings.endGroup()

    def choose_theme(self, choice: ThemeChoice) -> None:
        self.appearance.choose(choice)
        self.settings.setValue("theme", choice.value)

    def show_shortcuts(self) -> None:
        dialog = ShortcutDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def _retint(self, theme: Theme) -> None:
        for dock in self.docks.values():
            dock.update()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Keep the layout, end all work, and let nothing that is late reach the window."""
        self.save_layout()
        self.hide()
        self._gui_thread.close()
        self.session.close()
        self.background.close()
        event.accept()
