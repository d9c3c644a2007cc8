"""Buffers: a size, an address, a state, and bytes that numpy can see (rules ST-1 to ST-3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rtviewer.dxr.flags import ResourceState
from rtviewer.errors import Violation, violation

AS = ResourceState.RAYTRACING_ACCELERATION_STRUCTURE
UAV = ResourceState.UNORDERED_ACCESS
SRV = ResourceState.NON_PIXEL_SHADER_RESOURCE
SECTION = "Acceleration structure memory restrictions"


class HeapType(Enum):
    """Where a buffer's memory is; only the first may hold acceleration structures (ST-2)."""

    DEFAULT = "default"
    UPLOAD = "upload"
    READBACK = "readback"


@dataclass(eq=False)
class Buffer:
    """One buffer of a device. Made by ``Device.create_buffer``.

    ``memory`` (size,) uint8: its bytes, shared with every buffer placed on the same memory. ``place``: of its first
    byte in simulated physical memory. The state changes through ``Device.transition`` only.
    """

    name: str
    size: int
    address: int
    state: ResourceState
    memory: NDArray[np.uint8]
    place: int
    heap_type: HeapType = HeapType.DEFAULT
    freed: bool = False

    @property
    def holds_structures(self) -> bool:
        """Created in the acceleration-structure state, so it stays there (ST-2)."""
        return bool(self.state & AS)

    def view(self, dtype: Any = np.uint8, offset: int = 0, count: int | None = None) -> NDArray[Any]:
        """Elements of ``dtype`` from byte ``offset`` on, as a writable view; all that fit without ``count``.

        Writing through it is what a mapped pointer or a shader does: the device does not see it, and refuses bytes of a
        structure that changed that way (CP-7). Raises ValueError beyond the end and for a buffer that was freed.
        """
        if self.freed:
            raise ValueError(f"buffer {self.name!r} was freed")
        element = np.dtype(dtype)
        fitting = (self.size - offset) // element.itemsize
        wanted = fitting if count is None else count
        if offset < 0 or wanted < 0 or wanted > fitting:
            raise ValueError(f"{self.name}: {wanted} elements of {element.itemsize} bytes at {offset} do not fit")
        return self.memory[offset : offset + wanted * element.itemsize].view(element)

    def write(self, data: bytes | ArrayLike, offset: int = 0) -> None:
        """Copy the bytes of ``data`` to byte ``offset``; raises ValueError when they do not fit."""
        raw = np.frombuffer(data, np.uint8) if isinstance(data, (bytes, bytearray, memoryview)) else bytes_of(data)
        self.view(offset=offset, count=len(raw))[:] = raw

    def read(self, size: int | None = None, offset: int = 0) -> bytes:
        """``size`` bytes from byte ``offset`` on; all without ``size``. Raises ValueError beyond the end."""
        return self.view(offset=offset, count=size).tobytes()


def bytes_of(data: ArrayLike) -> NDArray[np.uint8]:
    """The bytes of an array, in its order."""
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)


def check_state(state: ResourceState, field: str) -> list[Violation]:
    """ST-1: a writing state stands alone."""
    for alone in (AS, UAV):
        if state & alone and state != alone:
            text = f"{alone.name} is combined with no other state"
            return [violation("ST-1", text, field=field, value=f"{int(state):#x}", section=SECTION)]
    return []


def check_creation(state: ResourceState, heap_type: HeapType, unordered_access: bool, name: str) -> list[Violation]:
    """ST-1, ST-2 and LAY of a new buffer's words."""
    found = check_state(state, f"{name}.state")
    if state & AS and heap_type is not HeapType.DEFAULT:
        text = "acceleration structures live in default heaps only"
        found.append(violation("ST-2", text, field=f"{name}.heap_type", value=heap_type.value, section=SECTION))
    if state & (AS | UAV) and not unordered_access:
        rule = "ST-2" if state & AS else "ST-1"
        text = "the state needs a buffer that allows unordered access"
        found.append(violation(rule, text, field=f"{name}.unordered_access", value=False, section=SECTION))
    return found


def check_transition(buffer: Buffer, state: ResourceState) -> list[Violation]:
    """ST-2: the acceleration-structure state is entered at creation and never left."""
    if buffer.holds_structures and not state & AS:
        text = "a buffer created for acceleration structures stays in that state"
    elif state & AS and not buffer.holds_structures:
        text = "only a buffer created in the acceleration-structure state may be in it"
    else:
        return check_state(state, f"{buffer.name}.state")
    return [violation("ST-2", text, field=f"{buffer.name}.state", value=f"{int(state):#x}", section=SECTION)]
