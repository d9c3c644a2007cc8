"""The structure view as a pane: the 3D widget wired to the session, and the depth range below it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from rtviewer.gui.binding import follow, listen
from rtviewer.gui.gl import camera_control
from rtviewer.gui.gl.content import Prepared, SceneContent
from rtviewer.gui.gl.light_handle import LightHandle
from rtviewer.gui.gl.scene_view import SceneView
from rtviewer.gui.panes.pane import STRIP_HEIGHT, Pane, PaneContext, label
from rtviewer.gui.theme import Theme
from rtviewer.gui.widgets.depth_range import DepthRange
from rtviewer.gui.widgets.elided_label import ElidedLabel
from rtviewer.scene.camera import Camera, fitting_camera
from rtviewer.session.document import TOP_LEVEL
from rtviewer.session.events import DocumentChanged, LogChanged, PictureChanged
from rtviewer.session.jobs import Lane
from rtviewer.session.state import State

EMPTY = (
    "Nothing is open.\nOpen a mesh or scene (Ctrl+O), or drop a file on the window: its geometry and the boxes of its "
    "acceleration structures appear here."
)
PREPARING = "Preparing the geometry…"


class StructureView(Pane):
    name = "structure_view"
    title = "Structure view"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.view = SceneView()
        self.content = SceneContent(self.view)
        self.light = LightHandle(self.view)
        self.light.moved.connect(self.session.set_light)
        jobs = self.session.jobs
        self.view.must_hold = lambda: jobs.is_busy(Lane.IMAGE) or jobs.is_busy(Lane.SHADE)
        self._object_cameras: dict[int, Camera] = {}
        self._scope = TOP_LEVEL
        self._is_fresh = False
        """Whether the depth range is still to be chosen for the scene that was opened."""
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.view, 1)
        column.addWidget(self._strip())
        self.view.empty.setWordWrap(True)
        self.view.set_empty_text(EMPTY)
        self.view.camera_changed.connect(self._user_moved)
        self.view.clicked.connect(self._clicked)
        self.view.focus_asked.connect(self._focus_asked)
        self.view.ready.connect(lambda: self.content.show_boxes())
        listen(
            self,
            self.session,
            {
                DocumentChanged: self._document_changed,
                LogChanged: self._log_changed,
                PictureChanged: lambda _: self.view.draw_now() if self.view.is_waiting else None,
            },
        )
        self.follow_theme()
        follow(self, self.session.store, {"camera", "view", "selection", "source"}, self._show)
        follow(self, self.session.store, {"log_position"}, lambda _: self._show_ray())

    def _strip(self) -> QFrame:
        strip = QFrame()
        strip.setProperty("role", "strip")
        strip.setFixedHeight(STRIP_HEIGHT)
        line = QHBoxLayout(strip)
        line.setContentsMargins(8, 3, 8, 3)
        line.addWidget(
            label("Box depth", "muted", "Levels of boxes drawn: first the top level's, then the bottom levels'")
        )
        self.depth = DepthRange()
        self.depth.changed.connect(lambda low, high: self.session.set_view(depth_low=low, depth_high=high))
        line.addWidget(self.depth)
        self.selected = ElidedLabel()
        line.addWidget(self.selected, 1)
        return strip

    def sizeHint(self) -> QSize:
        return QSize(560, 420)

    # World

    def _document_changed(self, event: DocumentChanged) -> None:
        if event.document is None:
            self.content.show_world(None)
            self._object_cameras.clear()
            self.view.set_empty_text(EMPTY)
        elif not event.is_rebuild:
            self._object_cameras.clear()
            self._is_fresh = True
            self.content.show_world(None)
            self.view.set_empty_text(PREPARING)
        self._show(self.session.state)

    def show_prepared(self, prepared: Prepared) -> None:
        """Arrays of the open world are ready."""
        self.view.set_empty_text("")
        self.content.settings = self.session.state.view
        if not self._is_fresh:
            self.view.stir()
        self.content.show_world(prepared)
        self.depth.set_levels(self.content.level_count())
        if self._is_fresh:
            self._is_fresh = False
            self.session.set_view(depth_low=0, depth_high=self.content.readable_depth())
        self._show(self.session.state)
        self._show_ray()

    # Camera

    def _camera_of(self, state: State) -> Camera:
        """The world's camera is the picture's; an object space keeps one of its own."""
        scope = state.view.scope
        if scope == TOP_LEVEL:
            return state.camera
        if scope not in self._object_cameras:
            world = self.session.world
            bounds = world.blases[scope].bounds if world is not None and scope < len(world.blases) else None
            self._object_cameras[scope] = fitting_camera(None if bounds is None else bounds.astype(float))
        return self._object_cameras[scope]

    def _user_moved(self, camera: Camera) -> None:
        scope = self.session.state.view.scope
        if scope != TOP_LEVEL:
            self._object_cameras[scope] = camera
            return
        self.pin_ray()
        self.session.set_camera(camera)

    def pin_ray(self) -> None:
        """Let a picked pixel's ray stand in the world, so that it can be looked at from elsewhere."""
        self.session.pin_ray()

    def fit(self) -> None:
        """Everything of the scope into view."""
        scope, bounds = self.session.state.view.scope, self.content.scope_bounds()
        if bounds is None:
            return
        camera = camera_control.framed(self._camera_of(self.session.state), bounds, self.view.aspect)
        if scope == TOP_LEVEL:
            self.pin_ray()
            self.session.set_camera(camera)
        else:
            self._object_cameras[scope] = camera
            self.view.set_camera(camera)

    # Picking

    def _clicked(self, x: float, y: float, modifiers: Qt.KeyboardModifier) -> None:
        width, height = self.view.width(), self.view.height()
        if not (0 <= x < width and 0 <= y < height):
            return
        self.session.select_at(self.view.camera, width, height, int(x), int(y))

    def _focus_asked(self, x: float, y: float) -> None:
        self.pin_ray()
        self.session.focus_selection()

    # State

    def _show(self, state: State) -> None:
        if state.view.scope != self._scope:
            self._scope = state.view.scope
            self.depth.set_levels(self.content.level_count())
        self.view.set_camera(self._camera_of(state))
        self.content.show_settings(state.view)
        self.content.show_selection(state.selection)
        in_world = state.view.scope == TOP_LEVEL and self.session.world is not None
        self.light.show_light(self.session.light_position() if in_world else None)
        self.depth.show_range(state.view.depth_low, state.view.depth_high)
        self.view.set_caption(self._caption(state))
        text = self._selection_text(state)
        self.selected.setText(text)
        self.selected.setToolTip(f"Selected: {text}" if text else "")

    def _caption(self, state: State) -> str:
        world = self.session.world
        if world is None:
            return ""
        if state.view.scope == TOP_LEVEL:
            hidden = len(state.view.hidden_instances)
            return "World" + (f" · {hidden} hidden (J shows all)" if hidden else "")
        return f"{world.blases[state.view.scope].name or 'BLAS'} in object space · W shows the world"

    @staticmethod
    def _selection_text(state: State) -> str:
        chosen = state.selection
        parts = []
        if chosen.instance >= 0:
            parts.append(f"instance {chosen.instance}")
        if chosen.primitive >= 0:
            parts.append(f"primitive {chosen.geometry}:{chosen.primitive}")
        if chosen.box >= 0:
            parts.append(f"{'TLAS' if chosen.structure < 0 else 'BLAS'} node {chosen.box}")
        return " · ".join(parts)

    def _log_changed(self, _: LogChanged) -> None:
        self._show_ray()

    def _show_ray(self) -> None:
        self.content.show_ray(self.session.log, self.session.state.log_position)

    def hide_selected(self) -> None:
        state = self.session.state
        if state.selection.instance >= 0:
            hidden = state.view.hidden_instances | {state.selection.instance}
            self.session.set_view(hidden_instances=hidden)

    def retint(self, theme: Theme) -> None:
        self.content.set_theme(theme)
        self.light.set_theme(theme)
        self.content.show_selection(self.session.state.selection)
        self._show_ray()
        self.view.update()
