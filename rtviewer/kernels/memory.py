"""Loads and stores at raw addresses: how kernels reach structures and the small block of state that a walk works on.

Arrays as arguments of inner functions would cost reference counting on every call. Addresses come from arrays that the
caller keeps alive, and offsets from references that ``accel.invariants`` has checked; nothing is checked here. With the
JIT off the same names go through ctypes.
"""

from __future__ import annotations

import ctypes
import threading

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_F32 = (ir.FloatType(), types.float32, ctypes.c_float, np.float32)
_F64 = (ir.DoubleType(), types.float64, ctypes.c_double, np.float64)
_I32 = (ir.IntType(32), types.int32, ctypes.c_int32, np.int32)
_U32 = (ir.IntType(32), types.uint32, ctypes.c_uint32, np.uint32)
_I64 = (ir.IntType(64), types.int64, ctypes.c_int64, np.int64)
_U8 = (ir.IntType(8), types.uint8, ctypes.c_uint8, np.uint8)


def _loader(kind):
    llvm_type, numba_type, c_type, numpy_type = kind
    if numba.config.DISABLE_JIT:
        return lambda address: numpy_type(c_type.from_address(int(address)).value)

    @intrinsic
    def load(typing_context, address):
        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], llvm_type.as_pointer())
            return builder.load(pointer, align=1 if kind is _U8 else 4)

        return numba_type(types.int64), generate

    return load


def _storer(kind):
    llvm_type, numba_type, c_type, _ = kind
    if numba.config.DISABLE_JIT:

        def write(address, value):
            c_type.from_address(int(address)).value = value.item() if hasattr(value, "item") else value

        return write

    @intrinsic
    def store(typing_context, address, value):
        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], llvm_type.as_pointer())
            builder.store(arguments[1], pointer, align=1 if kind is _U8 else 4)
            return context.get_dummy_value()

        return types.void(types.int64, numba_type), generate

    return store


load_f32, store_f32 = _loader(_F32), _storer(_F32)
load_f64, store_f64 = _loader(_F64), _storer(_F64)
load_i32, store_i32 = _loader(_I32), _storer(_I32)
load_u32 = _loader(_U32)
load_i64, store_i64 = _loader(_I64), _storer(_I64)
load_u8, store_u8 = _loader(_U8), _storer(_U8)


_adding = threading.Lock()


def add_portable(address, value):
    """As ``add_i64``, without the JIT."""
    place = ctypes.c_int64.from_address(int(address))
    with _adding:
        before = np.int64(place.value)
        place.value += int(value)
    return before


@intrinsic
def _add_intrinsic(typing_context, address, value):
    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, arguments[1], "monotonic")

    return types.int64(types.int64, types.int64), generate


add_i64 = add_portable if numba.config.DISABLE_JIT else _add_intrinsic
"""add_i64(address, value) -> what stood there before: threads that add to one int64 each get another answer."""
