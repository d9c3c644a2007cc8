"""Where rays come from: the source of the picture with its parameters, which of a pixel's rays is logged, and one typed
ray. Rows and fields are made from the table of sources."""

from __future__ import annotations

from typing import Any

from PySide6.QtWidgets import QComboBox, QFormLayout, QFrame, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from rtviewer.gui.binding import follow, listen, quiet, show_choice
from rtviewer.gui.panes.pane import Pane, PaneContext, label
from rtviewer.gui.theme import Theme
from rtviewer.gui.widgets.parameter_field import ParameterField
from rtviewer.scene.ray_sources import IMAGE_SOURCES, SOURCES, SourceKind
from rtviewer.session.events import DocumentChanged, LogChanged, Refusal
from rtviewer.session.state import State

ABOUT_SETTINGS = (
    "Ray flags, mask and TMin to TMax are those of these rays. What they start from is found by plain camera rays."
)


class RaySourcePane(Pane):
    name = "ray_source"
    title = "Ray source"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.fields: dict[tuple[SourceKind, str], ParameterField] = {}
        self.labels: dict[tuple[SourceKind, str], QLabel] = {}
        column = QVBoxLayout()
        column.setContentsMargins(8, 6, 8, 8)
        column.setSpacing(6)
        self._add_picture(column)
        line = QFrame()
        line.setProperty("role", "line")
        line.setFixedHeight(1)
        column.addWidget(line)
        self._add_single_ray(column)
        column.addStretch(1)
        inner = QWidget()
        inner.setLayout(column)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setWidget(inner)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scroll)
        handlers = {DocumentChanged: lambda _: self._show(self.session.state), LogChanged: self._log_changed}
        listen(self, self.session, handlers)
        follow(self, self.session.store, {"source"}, self._show)
        self.follow_theme()

    def _add_picture(self, column: QVBoxLayout) -> None:
        column.addWidget(label("Rays of the picture", "heading"))
        self.source = QComboBox()
        self.source.setAccessibleName("Ray source")
        for spec in IMAGE_SOURCES:
            self.source.addItem(spec.label, spec.kind)
            self.source.setItemData(self.source.count() - 1, spec.tip, 3)  # Qt.ToolTipRole
        self.source.activated.connect(lambda _: self._say(self.session.set_source(self.source.currentData())))
        column.addWidget(self.source)
        self.tip = label("", "muted", wrap=True)
        column.addWidget(self.tip)
        self.form = QFormLayout()
        self.form.setContentsMargins(0, 0, 0, 0)
        for spec in IMAGE_SOURCES:
            for parameter in spec.parameters:
                key = (spec.kind, parameter.name)
                self.fields[key] = self._field(spec.kind, parameter)
                self.labels[key] = label(parameter.label, tip=parameter.tip)
                self.form.addRow(self.labels[key], self.fields[key])
        self.logged = QComboBox()
        self.logged.setAccessibleName("Logged ray of a pixel")
        self.logged.setToolTip("Which ray of the picked pixel the Ray log tells and the structure view draws")
        self.logged.addItem("", False)
        self.logged.addItem("", True)
        self.logged.activated.connect(lambda _: self.session.log_camera_ray(self.logged.currentData()))
        self.logged_label = label("Log", tip=self.logged.toolTip())
        self.form.addRow(self.logged_label, self.logged)
        column.addLayout(self.form)
        self.at_eye = QPushButton("Light at the eye")
        self.at_eye.setToolTip("Put the light where the camera is. It can be dragged in the structure view, too")
        self.at_eye.clicked.connect(lambda: self._say(self.session.light_at_eye()))
        column.addWidget(self.at_eye)
        self.settings_note = label(ABOUT_SETTINGS, "muted", wrap=True)
        column.addWidget(self.settings_note)
        self.message = label("", "refusal", wrap=True)
        self.message.hide()
        column.addWidget(self.message)

    def _field(self, kind: SourceKind, parameter: Any) -> ParameterField:
        field = ParameterField(parameter)
        field.refused.connect(lambda text: self._say(Refusal(text)))
        if SOURCES[kind].has_image:
            field.edited.connect(lambda value: self._edited(field, kind, value))
        return field

    def _add_single_ray(self, column: QVBoxLayout) -> None:
        spec = SOURCES[SourceKind.TYPED]
        column.addWidget(label(spec.label, "heading", spec.tip))
        form = QFormLayout()
        form.setContentsMargins(0, 0, 0, 0)
        for parameter in spec.parameters:
            field = self._field(spec.kind, parameter)
            field.show_value(parameter.default, parameter.default)
            self.fields[spec.kind, parameter.name] = field
            form.addRow(label(parameter.label, tip=parameter.tip), field)
        column.addLayout(form)
        self.log_ray = QPushButton("Log this ray")
        self.log_ray.setToolTip("Trace this ray with the ray settings and tell what it met in the Ray log")
        self.log_ray.clicked.connect(self._log_typed)
        column.addWidget(self.log_ray)
        self.ray_message = label("", "refusal", wrap=True)
        self.ray_message.hide()
        column.addWidget(self.ray_message)

    # State

    def _show(self, state: State) -> None:
        kind, spec = state.source.kind, SOURCES[state.source.kind]
        show_choice(self.source, kind)
        self.tip.setText(spec.tip)
        self.source.setToolTip(spec.tip)
        resolved = self.session.resolved_source()
        for (owner, name), field in self.fields.items():
            if not SOURCES[owner].has_image:
                continue
            field.setVisible(owner is kind)
            self.labels[owner, name].setVisible(owner is kind)
            if owner is kind:
                field.show_value(getattr(state.source.active, name), getattr(resolved, name))
        others = kind is not SourceKind.CAMERA
        with quiet(self.logged):
            self.logged.setItemText(0, f"the pixel's {spec.ray}")
            self.logged.setItemText(1, f"the {SOURCES[SourceKind.CAMERA].ray} it starts from")
        show_choice(self.logged, state.source.logs_camera_ray)
        for widget in (self.logged, self.logged_label, self.settings_note):
            widget.setVisible(others)
        self.at_eye.setVisible(kind is SourceKind.SHADOW)
        self._say(None)

    def _edited(self, field: ParameterField, kind: SourceKind, value: Any) -> None:
        refusal = self.session.set_source_parameter(field.parameter.name, value, kind)
        if refusal is not None:
            self._show(self.session.state)
        self._say(refusal)

    def _log_changed(self, event: LogChanged) -> None:
        """Offer the logged ray's numbers, to be changed a little and logged again."""
        if event.log is not None:
            for name in ("origin", "direction"):
                value = getattr(event.log, name)
                self.fields[SourceKind.TYPED, name].show_value(value, value)

    def _log_typed(self) -> None:
        try:
            origin, direction = (self.fields[SourceKind.TYPED, name].value() for name in ("origin", "direction"))
        except ValueError as error:
            refusal: Refusal | None = Refusal(str(error))
        else:
            refusal = self.session.log_ray(origin, direction)
        self._put(self.ray_message, refusal)

    def _say(self, refusal: Refusal | None) -> None:
        self._put(self.message, refusal)

    @staticmethod
    def _put(where: QLabel, refusal: Refusal | None) -> None:
        where.setText(refusal.text if refusal else "")
        where.setVisible(refusal is not None)

    def retint(self, theme: Theme) -> None:
        self.log_ray.setIcon(self.appearance.icon("mdi6.ray-start-arrow"))
        self.at_eye.setIcon(self.appearance.icon("mdi6.lightbulb-on-outline"))
