"""The rarer steps of an update: packs of several geometries, packs without corners, lanes that need an exact look.

Intrinsics with portable twins, as in ``refit_lanes``; offsets are those of ``refit_state``.
"""

from __future__ import annotations

import ctypes

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import emit, emit_loops
from rtviewer.kernels import refit_state as state
from rtviewer.kernels.constants import PRIMITIVE_BITS, UNUSED_LANE
from rtviewer.kernels.emit_loops import long
from rtviewer.kernels.memory import add_portable

_INT4 = emit.INT4X32


@intrinsic
def _gather_intrinsic(typing_context, identities, new_identities, room):
    def generate(context, builder, signature, arguments):
        identities, new_identities, room = arguments
        before = None
        for lane in range(4):
            identity = emit.load(builder, identities, 4 * lane, emit.INT32)
            row = emit.load(builder, room, state.LANE_ROWS + 8 * lane, emit.INT64)
            used = builder.icmp_signed("!=", identity, ir.Constant(emit.INT32, UNUSED_LANE))
            if before is not None:  # an unused lane gets what is before it, which nobody reads
                identity, row = (builder.select(used, a, b) for a, b in zip((identity, row), before, strict=True))
            before = identity, row
            word = builder.and_(identity, ir.Constant(emit.INT32, PRIMITIVE_BITS))
            number = builder.sub(builder.zext(word, emit.INT64), emit.load(builder, row, state.ROW_FIRST, emit.INT64))
            stored = emit_loops.offset(builder, emit.load(builder, row, state.ROW_INDICES, emit.INT64), number, 12)
            vertices = emit.load(builder, row, state.ROW_VERTICES, emit.INT64)
            for corner in range(3):
                vertex = builder.zext(emit.load(builder, stored, 4 * corner, emit.INT32), emit.INT64)
                point = emit.load(builder, emit_loops.offset(builder, vertices, vertex, 12), 0, emit_loops.FLOAT3)
                emit.store(builder, point, room, state.LANE_VERTICES + 12 * (3 * lane + corner))
            unused = ir.Constant(emit.INT32, UNUSED_LANE)
            word = builder.or_(word, emit.load(builder, row, state.ROW_FLAGS, emit.INT32))
            emit.store(builder, builder.select(used, word, unused), new_identities, 4 * lane)
            number = builder.select(used, ir.Constant(emit.INT32, lane), unused)
            emit.store(builder, number, room, state.LANE_IDENTITIES + 4 * lane)
        for at in range(0, 12, 4):
            emit.store(builder, ir.Constant(_INT4, list(range(at, at + 4))), room, state.LANE_INDICES + 4 * at)
        for field, value in (
            (state.ROW_FIRST, long(0)),
            (state.ROW_VERTICES, builder.add(room, long(state.LANE_VERTICES))),
            (state.ROW_INDICES, builder.add(room, long(state.LANE_INDICES))),
            (state.ROW_FLAGS, long(0)),
        ):
            emit.store(builder, value, room, state.LANE_ROW + field)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


@intrinsic
def _vertices_intrinsic(typing_context, identities, points, work):
    def generate(context, builder, signature, arguments):
        identities, points, work = arguments
        indices, vertices = (emit.load(builder, work, at, emit.INT64) for at in (state.INDEX_ROWS, state.VERTEX_ROWS))
        for lane in range(4):
            identity = emit.load(builder, identities, 4 * lane, emit.INT32)
            with builder.if_then(builder.icmp_signed("!=", identity, ir.Constant(emit.INT32, UNUSED_LANE))):
                number = builder.zext(builder.and_(identity, ir.Constant(emit.INT32, PRIMITIVE_BITS)), emit.INT64)
                stored = emit_loops.offset(builder, indices, number, 12)
                for corner in range(3):
                    vertex = builder.zext(emit.load(builder, stored, 4 * corner, emit.INT32), emit.INT64)
                    to = emit_loops.offset(builder, vertices, vertex, 12)
                    for axis in range(3):
                        value = emit.load(builder, points, 48 * corner + 16 * axis + 4 * lane, emit.FLOAT)
                        emit.store(builder, value, to, 4 * axis)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


@intrinsic
def _note_intrinsic(typing_context, pack, mask, work):
    def generate(context, builder, signature, arguments):
        pack, mask, work = arguments
        count = builder.inttoptr(builder.add(work, long(state.DOUBTFUL_COUNT)), emit.INT64.as_pointer())
        with emit.Loop(builder, mask) as bits:
            place = builder.atomic_rmw("add", count, long(1), "monotonic")
            room = emit.load(builder, work, state.DOUBTFUL, emit.INT64)
            number = builder.add(builder.shl(pack, ir.Constant(emit.INT32, 2)), bits.lane)
            emit.store(builder, number, emit_loops.offset(builder, room, place, 4), 0)
        return context.get_dummy_value()

    return types.void(types.int32, types.uint32, types.int64), generate


# --- the same without the JIT -------------------------------------------------------------------------------------


def _view(address, count, kind):
    pointer = ctypes.cast(int(address), ctypes.POINTER(ctypes.c_uint8))
    return np.ctypeslib.as_array(pointer, (count * np.dtype(kind).itemsize,)).view(kind)


def gather_portable(identities, new_identities, room):
    """As ``gather_pack``, in numpy."""
    identity, new = _view(identities, 4, np.int32), _view(new_identities, 4, np.int32)
    vertices = _view(room + state.LANE_VERTICES, 36, np.float32).reshape(4, 3, 3)
    for lane in np.flatnonzero(identity != UNUSED_LANE):
        address = int(_view(room + state.LANE_ROWS + 8 * lane, 1, np.int64)[0])
        row = dict(zip(("first", "end", "vertices", "indices", "flags"), _view(address, 5, np.int64), strict=True))
        number = int(identity[lane]) & PRIMITIVE_BITS
        for corner, vertex in enumerate(_view(row["indices"] + 12 * (number - row["first"]), 3, np.uint32)):
            vertices[lane, corner] = _view(row["vertices"] + 12 * int(vertex), 3, np.float32)
        new[lane] = np.int32(number | int(row["flags"]))
    used = identity != UNUSED_LANE
    new[~used] = UNUSED_LANE
    _view(room + state.LANE_IDENTITIES, 4, np.int32)[:] = np.where(used, np.arange(4), UNUSED_LANE)
    _view(room + state.LANE_INDICES, 12, np.uint32)[:] = np.arange(12)
    _view(room + state.LANE_ROW, 5, np.int64)[:] = (0, 4, room + state.LANE_VERTICES, room + state.LANE_INDICES, 0)


def vertices_portable(identities, points, work):
    """As ``write_vertices``, in numpy."""
    block = _view(work, state.VERTEX_ROWS // 8 + 1, np.int64)
    indices, vertices = int(block[state.INDEX_ROWS // 8]), int(block[state.VERTEX_ROWS // 8])
    corners = _view(points, 36, np.float32).reshape(3, 3, 4)
    for lane, identity in enumerate(_view(identities, 4, np.int32).tolist()):
        if identity != UNUSED_LANE:
            for corner, vertex in enumerate(_view(indices + 12 * (identity & PRIMITIVE_BITS), 3, np.uint32).tolist()):
                _view(vertices + 12 * vertex, 3, np.float32)[:] = corners[corner, :, lane]


def note_portable(pack, mask, work):
    """As ``note_lanes``, in numpy."""
    for lane in range(4):
        if int(mask) >> lane & 1:
            place = add_portable(work + state.DOUBTFUL_COUNT, 1)
            room = int(_view(work + state.DOUBTFUL, 1, np.int64)[0])
            _view(room + 4 * int(place), 1, np.int32)[0] = 4 * int(pack) + lane


if numba.config.DISABLE_JIT:
    gather_pack, write_vertices, note_lanes = gather_portable, vertices_portable, note_portable
else:
    gather_pack = _gather_intrinsic
    """gather_pack(identities, new_identities, room): make the triangles of a pack with several geometries, whose rows
    the room names, look like the first four of one with its own vertices; their ids go to ``new_identities``."""
    write_vertices = _vertices_intrinsic
    """write_vertices(identities, points, work): put the corners of a pack into the vertex section, where its index rows
    say."""
    note_lanes = _note_intrinsic
    """note_lanes(pack, mask, work): add lanes of a pack to the doubtful ones."""
