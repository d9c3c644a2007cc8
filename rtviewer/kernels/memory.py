"""Loads from raw addresses, so that one kernel can walk structures that live in different buffers.

Addresses come from arrays that the caller keeps alive, and the offsets added to them from references that
``accel.invariants`` has checked; nothing is checked here. With the JIT off the same names read through ctypes.
"""

from __future__ import annotations

import ctypes

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

if numba.config.DISABLE_JIT:

    def load_f32(address):
        return np.float32(ctypes.c_float.from_address(int(address)).value)

    def load_i32(address):
        return np.int32(ctypes.c_int32.from_address(int(address)).value)

    def load_u32(address):
        return np.uint32(ctypes.c_uint32.from_address(int(address)).value)

else:

    def _loader(llvm_type, numba_type):
        @intrinsic
        def load(typing_context, address):
            def generate(context, builder, signature, arguments):
                pointer = builder.inttoptr(arguments[0], llvm_type.as_pointer())
                return builder.load(pointer, align=4)

            return numba_type(types.int64), generate

        return load

    load_f32 = _loader(ir.FloatType(), types.float32)
    load_i32 = _loader(ir.IntType(32), types.int32)
    load_u32 = _loader(ir.IntType(32), types.uint32)
