"""What is under the cursor: hit attributes and all counters of one pixel, in a fixed place so that nothing jumps."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QSizePolicy, QWidget

from rtviewer.dxr.verdicts import COUNTER_MEANINGS, Counter
from rtviewer.gui.binding import listen
from rtviewer.gui.models.ray_source import RaySource
from rtviewer.gui.panes.pane import Pane, PaneContext
from rtviewer.gui.theme import monospaced
from rtviewer.session.events import LogChanged
from rtviewer.session.image import ImageBuffer
from rtviewer.session.raylog import RayLog, hit_kind_text
from rtviewer.trace.request import TraceResult

FIELD_WIDTH = 132
"""Pixels a field needs: as many stand side by side as the width allows."""
COUNTER_LABELS = {
    Counter.TLAS_NODES_VISITED: "TLAS nodes",
    Counter.BLAS_NODES_VISITED: "BLAS nodes",
    Counter.BOX_TESTS: "Box tests",
    Counter.BOX_HITS: "Box hits",
    Counter.INSTANCES_ENTERED: "Inst. in",
    Counter.INSTANCES_REJECTED: "Inst. out",
    Counter.TRIANGLE_TESTS: "Tri tests",
    Counter.TRIANGLE_HITS: "Tri hits",
    Counter.PROCEDURAL_TESTS: "Proc. tests",
    Counter.PROCEDURAL_REPORTS: "Proc. reports",
    Counter.ANY_HIT_CALLS: "Any-hit calls",
    Counter.COMMITS: "Commits",
    Counter.REJECTED_CULLED: "Rej. opacity",
    Counter.REJECTED_MISSED: "Rej. missed",
    Counter.REJECTED_FACING: "Rej. facing",
    Counter.REJECTED_INTERVAL: "Rej. interval",
    Counter.STACK_HIGH_WATER: "Stack max",
}
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
    """``show_pixel`` traces the pixel's ray once more, counting: the counters are there in every mode.

    While no pixel is hovered the picked ray's numbers stand there, marked as picked.
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
        self._grid.setHorizontalSpacing(6)
        frame.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(4 * FIELD_WIDTH)
        self._grid.setVerticalSpacing(0)
        fields = [(name, name, tip) for name, tip in HIT_FIELDS]
        fields += [(counter, COUNTER_LABELS[counter], COUNTER_MEANINGS[counter]) for counter in Counter]
        self._fields = [self._make(key, text, tip) for key, text, tip in fields]
        self._columns = 0
        self._arrange(7)
        listen(self, self.session, {LogChanged: self._log_changed})

    def _arrange(self, columns: int) -> None:
        """Fill column after column, so that what belongs together stands together."""
        if columns == self._columns:
            return
        rows = -(-len(self._fields) // columns)
        for column in range(2 * max(columns, self._columns)):
            self._grid.setColumnStretch(column, int(column % 2 == 1 and column < 2 * columns))
        self._columns = columns
        for number, (name, value) in enumerate(self._fields):
            self._grid.addWidget(name, number % rows, 2 * (number // rows))
            self._grid.addWidget(value, number % rows, 2 * (number // rows) + 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange(min(max(self.width() // FIELD_WIDTH, 4), 9))

    def _make(self, key: object, text: str, tip: str) -> tuple[QLabel, QLabel]:
        small = self.font()
        small.setPointSizeF(max(small.pointSizeF() - 1.0, 7.0))
        name = QLabel(text)
        name.setProperty("role", "muted")
        name.setFont(small)
        name.setToolTip(tip)
        value = QLabel(BLANK)
        value.setFont(monospaced(-1))
        value.setToolTip(tip)
        value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        value.setContentsMargins(0, 0, 10, 0)
        value.setMinimumWidth(value.fontMetrics().horizontalAdvance("0" * 7) + 10)
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
        result = buffer.trace_pixel(pixel)
        if result is None:
            self._show_no_ray(pixel)
        else:
            self._show_result(result, pixel)

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
        for counter in Counter:
            self.values[counter].setText(str(log.counters[counter]))

    def _show_no_ray(self, pixel: tuple[int, int]) -> None:
        """The camera sees nothing there, so the picture's source sent no ray."""
        for value in self.values.values():
            value.setText(BLANK)
        self.values["Pixel"].setText(f"{pixel[0]},{pixel[1]}")
        self.values["t"].setText("no ray")

    def _show_result(self, result: TraceResult, pixel: tuple[int, int]) -> None:
        hits = result.hits
        hit = bool(hits.hit[0])
        texts = {
            "Pixel": f"{pixel[0]},{pixel[1]}",
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
        if result.counters is not None:
            for counter in Counter:
                self.values[counter].setText(str(int(result.counters[0, counter])))
