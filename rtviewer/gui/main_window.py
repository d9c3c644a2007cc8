"""The window: docks, menus, tool bar, status bar, and what belongs to no pane: files, layout, banner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from PySide6.QtCore import QByteArray, QSettings, Qt
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import (
    QFileDialog,
    QMainWindow,
    QSplitter,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from rtviewer.dxr.profile import Tier
from rtviewer.errors import RtviewerError
from rtviewer.gui.actions import Actions, ShortcutDialog
from rtviewer.gui.binding import follow, listen
from rtviewer.gui.docks import LEFT, RIGHT, make_docks, make_panes, place_docks
from rtviewer.gui.gl.content import Prepared, prepare
from rtviewer.gui.panes.blob import BlobPane
from rtviewer.gui.panes.build import BuildCost, BuildPane, cost_of
from rtviewer.gui.panes.decode import DecodePane
from rtviewer.gui.panes.instances import InstancesPane
from rtviewer.gui.panes.memory import MemoryPane
from rtviewer.gui.panes.node_tree import NodeTreePane
from rtviewer.gui.panes.pane import PaneContext
from rtviewer.gui.panes.problems import ProblemsPane
from rtviewer.gui.panes.properties import PropertiesPane
from rtviewer.gui.panes.ray_flags import RayFlagsPane
from rtviewer.gui.panes.ray_list import RayListPane
from rtviewer.gui.panes.ray_log import RayLogPane
from rtviewer.gui.panes.ray_source import RaySourcePane
from rtviewer.gui.panes.sizes import SizesPane
from rtviewer.gui.panes.structure_view import StructureView
from rtviewer.gui.panes.structures import StructuresPane, structure_columns
from rtviewer.gui.panes.trace_view import TraceView
from rtviewer.gui.panes.updates import UpdatesPane
from rtviewer.gui.structure_actions import StructureActions
from rtviewer.gui.theme import Appearance, Theme, ThemeChoice
from rtviewer.gui.tool_bar import ToolBar
from rtviewer.gui.widgets.banner import Banner
from rtviewer.gui.widgets.status import Status
from rtviewer.gui.worker import Background, GuiThread
from rtviewer.io.bottom_level_files import BottomLevelFile
from rtviewer.io.ray_file import RAY_SUFFIXES, RayTable
from rtviewer.session.commands import Session
from rtviewer.session.document import World
from rtviewer.session.events import BlobChanged, DocumentChanged, JobEnded, RaysChanged, Refused
from rtviewer.session.jobs import Lane
from rtviewer.session.picture_file import PICTURE_SUFFIXES
from rtviewer.session.state import State

LAYOUT_VERSION = 3
"""Changes when docks are added, removed or renamed: an older saved layout is then not restored."""
RECENT_COUNT = 8
DEFAULT_SIZE = (1600, 1000)


class MainWindow(QMainWindow):
    """``settings``: where layout, theme and recent files are kept."""

    def __init__(self, session: Session, appearance: Appearance, settings: QSettings, gui_thread: GuiThread) -> None:
        super().__init__()
        self.session, self.appearance, self.settings = session, appearance, settings
        self._gui_thread = gui_thread
        self._backgrounds: list[Background] = []
        self._listed: RayTable | None = None
        self._beside: dict[Path, tuple[Sequence[BottomLevelFile], int | None]] = {}
        self.background = self._make_background()
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
            (Qt.Corner.BottomLeftCorner, LEFT), (Qt.Corner.TopLeftCorner, LEFT),
            (Qt.Corner.BottomRightCorner, RIGHT), (Qt.Corner.TopRightCorner, RIGHT),
        ):  # fmt: skip
            self.setCorner(corner, area)
        context = PaneContext(session, appearance, self.background, self._make_background)
        self._make_centre(context)
        self._make_docks(context)
        self.status = Status(session, appearance)
        self.setStatusBar(self.status)
        self.structure_actions = StructureActions(
            self, session, self.banner, self.status.say, lambda name: self.show_panes([name])
        )
        commands = self._commands() | self.structure_actions.commands() | self.ray_log.commands()
        self.actions_ = Actions(self, commands, appearance)
        self.ray_log.set_actions(self.actions_.__getitem__)
        for view in (self.instances.table, self.node_tree.view):
            view.addAction(self.actions_["why_not"])
            view.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self.structures.set_menu(self.actions_.of_menu("Structure"))
        self.decode.save.clicked.connect(self.structure_actions.decode)
        self._make_menus()
        self.tool_bar = ToolBar(session, self.actions_)
        self.camera_box, self.mode_box = self.tool_bar.camera_box, self.tool_bar.mode_box
        self.tool_bar.camera_chosen.connect(self._camera_chosen)
        self.addToolBar(self.tool_bar)
        handlers = {
            DocumentChanged: self._document_changed, JobEnded: self._job_ended, Refused: self._refused,
            BlobChanged: self._blob_changed, RaysChanged: self._rays_changed,
        }  # fmt: skip
        listen(self, session, handlers)
        follow(self, session.store, {"view"}, self._show_view)
        appearance.changed.connect(self._retint)
        self._retint(appearance.theme)
        self.resize(*DEFAULT_SIZE)
        place_docks(self, self.docks)
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
        panes = make_panes(context)
        self.structures = cast(StructuresPane, panes["structures"])
        self.node_tree = cast(NodeTreePane, panes["node_tree"])
        self.build = cast(BuildPane, panes["build"])
        self.ray_flags = cast(RayFlagsPane, panes["ray_flags"])
        self.ray_source = cast(RaySourcePane, panes["ray_source"])
        self.rays = cast(RayListPane, panes["rays"])
        self.properties = cast(PropertiesPane, panes["properties"])
        self.ray_log = cast(RayLogPane, panes["ray_log"])
        self.instances = cast(InstancesPane, panes["instances"])
        self.problems = cast(ProblemsPane, panes["problems"])
        self.sizes = cast(SizesPane, panes["sizes"])
        self.memory = cast(MemoryPane, panes["memory"])
        self.decode = cast(DecodePane, panes["decode"])
        self.blob = cast(BlobPane, panes["blob"])
        self.updates = cast(UpdatesPane, panes["updates"])
        self.docks = make_docks(self, panes)

    def _make_background(self) -> Background:
        made = Background(self._gui_thread)
        self._backgrounds.append(made)
        return made

    def _commands(self) -> dict[str, Any]:
        view = self.session.set_view
        return {
            "open": self.ask_for_file,
            "close": self.session.close_document,
            "reload": self.reload,
            "open_rays": self.rays.ask_for_file,
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
            "auto_range": self.trace_view.automatic_range,
            "show_histogram": lambda on: view(show_histogram=on),
            "x_ray": lambda _: self.session.toggle_x_ray(),
            "next_mode": lambda: self.session.step_image_mode(1),
            "previous_mode": lambda: self.session.step_image_mode(-1),
            "next_palette": lambda: self.session.step_palette(1),
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
        for name in ("File", "View", "Camera", "Image", "Ray", "Build", "Structure", "Window", "Help"):
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

    # State

    def _show_view(self, state: State) -> None:
        names = ("geometry", "wireframe", "boxes", "instance_boxes", "rays", "histogram")
        for name in (f"show_{name}" for name in names):
            action = self.actions_[name]
            if action.isChecked() != getattr(state.view, name):
                action.setChecked(getattr(state.view, name))

    def _document_changed(self, event: DocumentChanged) -> None:
        document = event.document
        self.setWindowTitle(f"{document.title} — rtviewer" if document else "rtviewer")
        self.tool_bar.show_cameras(document)
        if document is None:
            return
        self.banner.dismiss()
        if document.path is not None and not event.is_rebuild:
            self._remember(document.path)
        self._prepare(document.world)

    def _prepare(self, world: World) -> None:
        """Make what the views need of a new world, off this thread."""

        before = self.structure_view.content.prepared

        def work() -> tuple[Prepared, list, dict[str, BuildCost]]:
            return prepare(world, before), structure_columns(world), cost_of(world)

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
        return not self.session.jobs.is_busy() and not any(one.is_busy for one in self._backgrounds)

    def _job_ended(self, event: JobEnded) -> None:
        if event.error is not None:
            self.show_error(event.error)
        elif event.lane is Lane.DOCUMENT and event.is_cancelled:
            self.status.say("Cancelled; what was open stays open")

    def _refused(self, event: Refused) -> None:
        self.status.say(event.refusal.text)

    def _rays_changed(self, event: RaysChanged) -> None:
        """Another file of rays was asked for to be looked at."""
        table = event.rays.table if event.rays is not None else None
        if table is not None and table is not self._listed:
            self.show_panes(["rays"])
        self._listed = table

    def _blob_changed(self, event: BlobChanged) -> None:
        """A foreign blob can only be looked at: show where."""
        if event.blob is not None:
            self.banner.dismiss()
            self._remember(event.blob.path)
            self.show_panes(["blob"])

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

    def _camera_chosen(self, name: str) -> None:
        self.structure_view.pin_ray()
        self.session.use_camera(name)

    # Files

    def open_file(
        self, path: Path | str, *, bottom_levels: Sequence[BottomLevelFile] = (), base_address: int | None = None
    ) -> None:
        """Open in the background; what ``path`` needs beside it is kept for ``reload``."""
        self._beside[Path(path)] = (bottom_levels, base_address)
        self.session.open(path, bottom_levels=bottom_levels, base_address=base_address)

    def reload(self) -> None:
        document = self.session.document
        if document is not None and document.path is not None:
            bottom_levels, base_address = self._beside.get(document.path, ((), None))
            self.session.open(document.path, bottom_levels=bottom_levels, base_address=base_address)

    def ask_for_file(self) -> None:
        from rtviewer.io.registry import known_suffixes

        patterns = " ".join(f"*{suffix}" for suffix in sorted(set(known_suffixes())))
        name, _ = QFileDialog.getOpenFileName(self, "Open", "", f"Scenes and structures ({patterns});;All files (*)")
        if name:
            self.open_file(name)

    def ask_for_image_file(self) -> None:
        if self.trace_view.shown is None:
            self.status.say("There is no picture to save yet")
            return
        filters = {"PNG with its legend (*.png)": True, "PNG, the picture alone (*.png)": False}
        filters |= {f"{text} (*{suffix})": True for suffix, text in PICTURE_SUFFIXES.items() if suffix != ".png"}
        name, chosen = QFileDialog.getSaveFileName(self, "Save image", "trace.png", ";;".join(filters))
        if name:
            self.save_image(Path(name), legend=filters.get(chosen, True))

    def save_image(self, path: Path, *, legend: bool = True) -> None:
        """Write the picture shown; its suffix says how."""
        try:
            self.session.save_image(path, legend=legend)
        except RtviewerError as error:
            self.show_error(error)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        files = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
        if files:
            event.acceptProposedAction()
            if Path(files[0]).suffix.lower() in RAY_SUFFIXES:
                self.session.open_rays(files[0])
            else:
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
        place_docks(self, self.docks)
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
        for background in self._backgrounds:
            background.close()
        event.accept()
