"""Wire boxes, one GL instance each, levels in contiguous ranges so that a depth range is drawn without a new upload."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from OpenGL import GL

from rtviewer.gui.gl.geometry import BOX_ROW, CODE_COUNT, BoxSet
from rtviewer.gui.gl.item import SceneItem

_FIELDS = [(0, 4, 0), (1, 4, 16), (2, 4, 32), (3, 3, 48), (4, 3, 60), (5, 1, 72)]


class BoxesItem(SceneItem):
    """``set_boxes`` uploads, ``set_levels`` chooses, ``drawn`` says how many boxes the last draw showed."""

    vertex_shader = "boxes.vert"

    def __init__(self) -> None:
        super().__init__()
        self.boxes: BoxSet | None = None
        self.drawn = 0
        self._colours = np.zeros((CODE_COUNT, 4), np.float32)
        self._range = (0, 0)
        self.setGLOptions("translucent")

    def set_boxes(self, boxes: BoxSet | None) -> None:
        self.boxes = boxes
        self._range = (0, 0) if boxes is None else (0, len(boxes.rows))
        self.upload("boxes", np.empty(0, BOX_ROW) if boxes is None else boxes.rows)

    def set_levels(self, low: int, high: int) -> None:
        """Draw levels low to high (inclusive; -1 for all) of what is uploaded."""
        if self.boxes is not None:
            self._range = self.boxes.range_of(low, high)
            self.update()

    def set_colours(self, colours: NDArray[np.float32]) -> None:
        """(CODE_COUNT, 4) float32, indexed by a box's code."""
        self._colours = np.ascontiguousarray(colours, np.float32)
        self.update()

    def draw(self) -> None:
        first, last = self._range
        self.drawn = last - first
        if not self.drawn:
            return
        self.set_matrix("world_to_clip", self.view().world_to_clip())
        GL.glUniform4fv(self.location("colours"), CODE_COUNT, self._colours)
        self.point_attributes("boxes", _FIELDS, BOX_ROW.itemsize, first * BOX_ROW.itemsize, 1)
        GL.glDrawArraysInstanced(GL.GL_LINES, 0, 24, self.drawn)
