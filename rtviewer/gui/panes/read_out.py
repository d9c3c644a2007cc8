"""What is under the cursor: hit attributes and all counters of one pixel, in a fixed place so that nothing jumps."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QSizePolicy, QToolButton, QWidget

from rtviewer.dxr.counters import COUNTERS, X_RAY_COUNTERS, Counter, XRayCounter
from rtviewer.errors import InvalidInputError
from rtviewer.gui.binding import follow, listen
from rtviewer.gui.models.ray_source import RaySource
from rtviewer.gui.panes.pane import Pane, PaneContext
from rtviewer.gui.theme import monospaced
from rtviewer.session.events import LogChanged
from rtviewer.session.image import ImageBuffer
from rtviewer.session.raylog import RayLog, hit_kind_text
from rtviewer.session.state import State
from rtviewer.shade.modes import MODES
from rtviewer.trace.request import Hits, TraceResult

DIGITS = 7
"""Characters of a hit's numbers that find room; counters have one less: a hundred thousand with its separator."""
COLUMNS = range(3, 11)
"""Fewest and most fields side by side."""
SPACING = 6
MAIN_COUNTERS = tuple(counter for counter in Counter if counter <= Counter.STACK_HIGH_WATER)
"""Always there; the reasons behind them and what else an x-ray counts are a button away."""
MAIN_X_RAY = X_RAY_COUNTERS[:1]
FAULT = "fault"
HIT_FIELDS = (
    ("Pixel", "Column and row, (0, 0) is top left"),
    ("t", "Where on the ray the hit is, in lengths of its direction"),
    ("Hit kind", "254 front face, 255 back face, else the intersection program's own"),
    ("u", "Barycentric weight of v1; first attribute of a procedural hit"),
    ("v", "Barycentric weight of v2; second attribute of a procedural hit"),
    ("Instance", "InstanceIndex"),
    ("ID", "InstanceID"),
    ("Geometry", "GeometryIndex"),
    ("Primitive", "PrimitiveIndex"),
    ("Hit group", "Record of the hit-group table (HG-1)"),
)
BLANK = "–"
WIDEST = 9
"""Characters of a number that a field shows whole."""


def t_text(t: float) -> str:
    """t in six digits, or in three where they would be cut: rays that start on a surface have very small ones."""
    text = f"{t:.6g}"
    return text if len(text) <= WIDEST else f"{t:.2e}"


class ReadOut(Pane):
    """``show_pixel`` traces the pixel's ray twice more, once as an x-ray: all counters are there in every mode.

    ``values`` and ``names``: labels by name of a hit field, Counter or key of an XRayCounter. While no
    pixel is hovered the picked ray's numbers stand there, marked as picked.
    """

    name = "read_out"
    title = "Read-out under the cursor"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.values: dict[object, QLabel] = {}
        self.names: dict[object, QLabel] = {}
        self._source = RaySource()
        self._pixel: tuple[int, int] | None = None
        frame = QFrame(self)
        frame.setProperty("role", "strip")
        outer = QGridLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(frame)
        self._grid = QGridLayout(frame)
        self._grid.setContentsMargins(8, 4, 8, 5)
        self._grid.setHorizontalSpacing(SPACING)
        frame.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._grid.setVerticalSpacing(0)
        self._main = [self._make(name, name, tip) for name, tip in HIT_FIELDS]
        self._main += [self._make_counter(counter) for counter in MAIN_COUNTERS]
        self._main += [self._make_x_ray(counter) for counter in MAIN_X_RAY]
        self._rest = [self._make_counter(counter) for counter in Counter if counter not in MAIN_COUNTERS]
        self._rest += [self._make_x_ray(counter) for counter in X_RAY_COUNTERS if counter not in MAIN_X_RAY]
        self.more = self._make_more(frame)
        self._columns = 0
        self._arrange(COLUMNS[0])
        self.setMinimumWidth(self._width_of(COLUMNS[0]))
        listen(self, self.session, {LogChanged: self._log_changed})
        follow(self, self.session.store, {"image"}, self._mark_mode)

    def _make_more(self, parent: QWidget) -> QToolButton:
        button = QToolButton(parent)
        button.setText("All")
        button.setCheckable(True)
        button.setProperty("role", "bit")
        button.setAccessibleName("All counters")
        button.setToolTip("Show the reasons behind rejected instances and candidates, and all x-ray counters")
        button.toggled.connect(lambda _: self._arrange(self._fitting(), anew=True))
        return button

    def _arrange(self, columns: int, *, anew: bool = False) -> None:
        """Fill column after column, so that what belongs together stands together."""
        if columns == self._columns and not anew:
            return
        fields = self._shown()
        rows = -(-len(fields) // columns)
        for column in range(2 * max(columns, self._columns) + 1):
            self._grid.setColumnStretch(column, int(column % 2 == 1 and column < 2 * columns))
        self._columns = columns
        for labels in self._rest:
            for label in labels:
                label.setVisible(self.more.isChecked())
        for number, (name, value) in enumerate(fields):
            self._grid.addWidget(name, number % rows, 2 * (number // rows))
            self._grid.addWidget(value, number % rows, 2 * (number // rows) + 1)
        self._grid.addWidget(self.more, 0, 2 * columns, 2, 1, Qt.AlignmentFlag.AlignTop)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange(self._fitting())

    def _shown(self) -> list[tuple[QLabel, QLabel]]:
        return self._main + (self._rest if self.more.isChecked() else [])

    def _fitting(self) -> int:
        """As many fields side by side as leave every name and number whole."""
        return next((count for count in reversed(COLUMNS) if self._width_of(count) <= self.width()), COLUMNS[0])

    def _width_of(self, columns: int) -> int:
        """Pixels that the fields need in so many columns."""
        fields = self._shown()
        rows = -(-len(fields) // columns)
        width = self.more.sizeHint().width() + 16
        for first in range(0, len(fields), rows):
            column = fields[first : first + rows]
            width += max(_bold_width(name) for name, _ in column) + max(value.minimumWidth() for _, value in column)
            width += 2 * SPACING
        return width

    def _make_counter(self, counter: Counter) -> tuple[QLabel, QLabel]:
        meaning = COUNTERS[counter]
        return self._make(counter, meaning.label, f"{meaning.tip}, in {meaning.unit}")

    def _make_x_ray(self, counter: XRayCounter) -> tuple[QLabel, QLabel]:
        meaning = counter.meaning
        return self._make(counter.key, meaning.label, f"{meaning.tip}, in {meaning.unit}")

    def _mark_mode(self, state: State) -> None:
        """The numbers that the picture shows stand out among the others."""
        mode = MODES[state.image.mode]
        shown: set[object] = {mode.name} if mode.is_x_ray else set(mode.counters)
        for key, name in self.names.items():
            role = "heading" if key in shown else "muted"
            if name.property("role") != role:
                name.setProperty("role", role)
                name.style().polish(name)

    def _make(self, key: object, text: str, tip: str) -> tuple[QLabel, QLabel]:
        small = self.font()
        small.setPointSizeF(max(small.pointSizeF() - 1.0, 7.0))
        name = QLabel(text, self._grid.parentWidget())
        name.setProperty("role", "muted")
        name.setFont(small)
        name.setToolTip(tip)
        value = QLabel(BLANK, self._grid.parentWidget())
        value.setFont(monospaced(-1))
        value.setToolTip(tip)
        value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        value.setContentsMargins(0, 0, 10, 0)
        value.setMinimumWidth(value.fontMetrics().horizontalAdvance("0" * (DIGITS - isinstance(key, Counter))) + 10)
        value.setAccessibleName(text)
        self.values[key], self.names[key] = value, name
        return name, value

    def picture_changed(self, buffer: ImageBuffer) -> None:
        """The picture under a resting cursor was traced anew."""
        if self._pixel is not None and self._pixel[0] < buffer.width and self._pixel[1] < buffer.height:
            self.show_pixel(buffer, self._pixel)

    def show_pixel(self, buffer: ImageBuffer | None, pixel: tuple[int, int] | None) -> None:
        """Numbers of one pixel of a picture; for none those of the picked ray, or dashes."""
        self._pixel = pixel
        if buffer is None or pixel is None:
            self._show_log(self.session.log)
            return
        self.names["Pixel"].setText("Pixel")
        for value in self.values.values():
            value.setText(BLANK)
        self.values["Pixel"].setText(f"{pixel[0]},{pixel[1]}")
        self.values["t"].setToolTip(self.names["t"].toolTip())
        try:
            result = buffer.trace_pixel(pixel)
        except InvalidInputError as error:  # its hit-group record is at fault: the image failed over it, or will
            self.values["t"].setText(FAULT)
            self.values["t"].setToolTip(str(error))
            return
        if result is None:  # the camera sees nothing there, so the picture's source sent no ray
            self.values["t"].setText("no ray")
            return
        self._show_hit(result.hits)
        self._show_counters(_counted(result))
        try:
            x_ray = buffer.trace_pixel(pixel, x_ray=True)
        except InvalidInputError:  # behind its hit it would come to such a record
            return
        assert x_ray is not None
        self._show_x_ray(_counted(x_ray))

    def _log_changed(self, event: LogChanged) -> None:
        if event.log is not None:
            self._source.pixel_of(event.log)  # also while another pixel is hovered
        if self._pixel is None:
            self._show_log(event.log)

    def _show_log(self, log: RayLog | None) -> None:
        """The picked or typed ray."""
        self.names["Pixel"].setText("Pixel" if log is None else "Picked")
        for value in self.values.values():
            value.setText(BLANK)
        if log is None:
            return
        pixel, result = self._source.pixel_of(log), log.result
        whose = f"ray {log.list_index}" if log.list_index >= 0 else "typed"
        texts = {"Pixel": f"{pixel[0]},{pixel[1]}" if pixel else whose, "t": "miss"}
        if result.hit:
            texts |= {
                "t": t_text(result.t),
                "Hit kind": hit_kind_text(result.hit_kind).split(" ")[0],
                "u": f"{result.attributes[0]:.4f}",
                "v": f"{result.attributes[1]:.4f}",
                "Instance": str(result.instance_index),
                "ID": str(result.instance_id),
                "Geometry": str(result.geometry_index),
                "Primitive": str(result.primitive_index),
                "Hit group": str(result.hit_group_index),
            }
        for name, text in texts.items():
            self.values[name].setText(text)
        self._show_counters(log.counters)
        if log.x_ray_counters:
            self._show_x_ray(log.x_ray_counters)

    def _show_counters(self, counted: Mapping[Counter, int]) -> None:
        for counter in Counter:
            self.values[counter].setText(f"{counted[counter]:,}")

    def _show_x_ray(self, counted: Mapping[Counter, int]) -> None:
        for counter in X_RAY_COUNTERS:
            self.values[counter.key].setText(f"{sum(counted[column] for column in counter.columns):,}")

    def _show_hit(self, hits: Hits) -> None:
        hit = bool(hits.hit[0])
        texts = {
            "t": t_text(float(hits.t[0])) if hit else "miss",
            "Hit kind": hit_kind_text(int(hits.hit_kind[0])).split(" ")[0] if hit else BLANK,
            "u": f"{hits.attributes[0, 0]:.4f}" if hit else BLANK,
            "v": f"{hits.attributes[0, 1]:.4f}" if hit else BLANK,
            "Instance": str(int(hits.instance_index[0])) if hit else BLANK,
            "ID": str(int(hits.instance_id[0])) if hit else BLANK,
            "Geometry": str(int(hits.geometry_index[0])) if hit else BLANK,
            "Primitive": str(int(hits.primitive_index[0])) if hit else BLANK,
            "Hit group": str(int(hits.hit_group_index[0])) if hit else BLANK,
        }
        for name, text in texts.items():
            self.values[name].setText(text)


def _counted(result: TraceResult) -> dict[Counter, int]:
    """Counters of one ray that was traced counting."""
    assert result.counters is not None
    return {counter: int(result.counters[0, counter]) for counter in Counter}


def _bold_width(name: QLabel) -> int:
    """Pixels of a name when it stands out."""
    font = name.font()
    font.setBold(True)
    return QFontMetrics(font).horizontalAdvance(name.text())
