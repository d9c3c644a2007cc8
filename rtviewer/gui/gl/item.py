"""Base of our GL items: lazily made vertex arrays, uniforms by name, and draw errors that surface.

pyqtgraph prints and forgets what ``paint`` raises; here the exception is kept in ``error`` and told to the view, which
shows it. Handles are made in the first draw with a context and forgotten when the context is replaced.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
from OpenGL import GL
from pyqtgraph.opengl.GLGraphicsItem import GLGraphicsItem

from rtviewer.gui.resources import shader_source

if TYPE_CHECKING:
    from numpy.typing import NDArray


def link_program(vertex_shader: str, fragment_shader: str) -> int:
    """Compile and link two files of ``resources/shaders`` in the current context. RuntimeError carries the log."""
    program = GL.glCreateProgram()
    for name, kind in ((vertex_shader, GL.GL_VERTEX_SHADER), (fragment_shader, GL.GL_FRAGMENT_SHADER)):
        shader = GL.glCreateShader(kind)
        GL.glShaderSource(shader, shader_source(name))
        GL.glCompileShader(shader)
        if not GL.glGetShaderiv(shader, GL.GL_COMPILE_STATUS):
            raise RuntimeError(f"{name}: {GL.glGetShaderInfoLog(shader)!r}")
        GL.glAttachShader(program, shader)
        GL.glDeleteShader(shader)
    GL.glLinkProgram(program)
    if not GL.glGetProgramiv(program, GL.GL_LINK_STATUS):
        raise RuntimeError(f"{vertex_shader}, {fragment_shader}: {GL.glGetProgramInfoLog(program)!r}")
    return int(program)


class SceneItem(GLGraphicsItem):
    """An item with one program, one vertex array and named buffers. Subclasses implement ``draw``."""

    vertex_shader = ""
    fragment_shader = "flat.frag"

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self._forget()

    def _forget(self) -> None:
        self._program = 0
        self._vertex_array = 0
        self._buffers: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._uniforms: dict[str, int] = {}
        self._pending: dict[str, NDArray[np.generic]] = getattr(self, "_pending", {})

    def context_lost(self) -> None:
        """The view's context was replaced: upload again in the next draw."""
        kept = dict(self._contents)
        self._forget()
        self._pending = kept

    @property
    def _contents(self) -> dict[str, NDArray[np.generic]]:
        contents: dict[str, NDArray[np.generic]] | None = self.__dict__.get("_kept")
        if contents is None:
            contents = self.__dict__["_kept"] = {}
        return contents

    def upload(self, name: str, array: NDArray[np.generic]) -> None:
        """Have buffer ``name`` hold ``array`` from the next draw on."""
        array = np.ascontiguousarray(array)
        self._contents[name] = array
        self._pending[name] = array
        self.update()

    def draw(self) -> None:
        raise NotImplementedError

    def paint(self) -> None:
        try:
            if not self._program:
                self._create()
            for name, array in self._pending.items():
                self._fill(name, array)
            self._pending = {}
            GL.glUseProgram(self._program)
            GL.glBindVertexArray(self._vertex_array)
            self.setupGLState()
            self.draw()
            self.error = None
        except Exception as error:  # pyqtgraph would swallow it
            self.error = error
            view = self.view()
            if view is not None:
                view.item_failed.emit(self, error)
        finally:
            GL.glBindVertexArray(0)
            GL.glUseProgram(0)

    def _create(self) -> None:
        self._program = self.view().program(self.vertex_shader, self.fragment_shader)
        self._vertex_array = int(GL.glGenVertexArrays(1))

    def _fill(self, name: str, array: NDArray[np.generic]) -> None:
        if name not in self._buffers:
            self._buffers[name] = int(GL.glGenBuffers(1))
        GL.glBindBuffer(GL.GL_ARRAY_BUFFER, self._buffers[name])
        if array.nbytes and self._sizes.get(name) == array.nbytes:
            GL.glBufferSubData(GL.GL_ARRAY_BUFFER, 0, array.nbytes, array)
        else:
            GL.glBufferData(GL.GL_ARRAY_BUFFER, array.nbytes, array if array.nbytes else None, GL.GL_STATIC_DRAW)
        self._sizes[name] = array.nbytes

    def point_attributes(
        self, buffer: str, fields: list[tuple[int, int, int]], stride: int, first: int, divisor: int
    ) -> None:
        """Point attributes at ``buffer`` from byte ``first``: rows of (location, float count, byte offset)."""
        GL.glBindBuffer(GL.GL_ARRAY_BUFFER, self._buffers[buffer])
        for location, count, offset in fields:
            GL.glEnableVertexAttribArray(location)
            GL.glVertexAttribPointer(location, count, GL.GL_FLOAT, False, stride, ctypes.c_void_p(first + offset))
            GL.glVertexAttribDivisor(location, divisor)

    def location(self, name: str) -> int:
        if name not in self._uniforms:
            self._uniforms[name] = GL.glGetUniformLocation(self._program, name)
        return self._uniforms[name]

    def set_matrix(self, name: str, matrix: NDArray[np.float32]) -> None:
        """A (4, 4) row-major matrix."""
        GL.glUniformMatrix4fv(self.location(name), 1, True, np.ascontiguousarray(matrix, np.float32))

    def set_vector(self, name: str, *values: float) -> None:
        call = {1: GL.glUniform1f, 2: GL.glUniform2f, 3: GL.glUniform3f, 4: GL.glUniform4f}[len(values)]
        call(self.location(name), *values)

    def set_switch(self, name: str, on: bool) -> None:
        GL.glUniform1i(self.location(name), int(on))
