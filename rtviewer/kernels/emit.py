"""Pieces of LLVM vector code that the intrinsics of kernels are put together from.

An intrinsic emits all the vector instructions of one inner step at once: LLVM does not vectorise lane loops by itself,
and many small intrinsics cost compile time. Generic vector types give every processor code; where a processor has an
instruction that LLVM would not find, ``has`` asks for it, and the bits are the same without.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import llvmlite.binding
import numba
from llvmlite import ir

FLOAT, INT32, INT64, BOOL = ir.FloatType(), ir.IntType(32), ir.IntType(64), ir.IntType(1)
FLOAT8, FLOAT4 = ir.VectorType(FLOAT, 8), ir.VectorType(FLOAT, 4)
DOUBLE = ir.DoubleType()
DOUBLE4 = ir.VectorType(DOUBLE, 4)
INT8X32, INT4X32 = ir.VectorType(INT32, 8), ir.VectorType(INT32, 4)


def load(builder, address, offset, kind):
    """A value of ``kind`` at a constant offset from an address."""
    return load_at(builder, builder.add(address, ir.Constant(INT64, offset)) if offset else address, kind)


def load_at(builder, address, kind):
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=4)


def store(builder, value, address, offset):
    at = builder.add(address, ir.Constant(INT64, offset)) if offset else address
    builder.store(value, builder.inttoptr(at, value.type.as_pointer()), align=4)


def constant(kind, value):
    """A vector with the same constant in every lane."""
    return ir.Constant(kind, [value] * kind.count)


def splat(builder, value, kind):
    """A vector with the same value in every lane."""
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(INT32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(INT32, kind.count), [0] * kind.count))


def gather(builder, values):
    """A vector of single values."""
    vector = ir.Constant(ir.VectorType(values[0].type, len(values)), ir.Undefined)
    for lane, value in enumerate(values):
        vector = builder.insert_element(vector, value, ir.Constant(INT32, lane))
    return vector


def larger(builder, a, b):
    """a > b ? a : b, lane by lane: a NaN in a gives b."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def smaller(builder, a, b):
    """a < b ? a : b, lane by lane: a NaN in a gives b."""
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def absolute(builder, value):
    return call(builder, f"llvm.fabs.{_suffix(value.type)}", value.type, [value])


def square_root(builder, value):
    return call(builder, f"llvm.sqrt.{_suffix(value.type)}", value.type, [value])


def _suffix(kind):
    """How LLVM's functions name a type."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{_suffix(kind.element)}"
    return {FLOAT: "f32", ir.DoubleType(): "f64"}[kind]


def mask(builder, condition):
    """A vector of conditions as bits of a uint32, lane 0 lowest."""
    return builder.zext(builder.bitcast(condition, ir.IntType(condition.type.count)), INT32)


def has(feature):
    """Whether code is made for a processor with a feature, by LLVM's name of it (``avx2``)."""
    features = numba.config.CPU_FEATURES
    if features is None:
        features = llvmlite.binding.get_host_cpu_features().flatten()
    return f"+{feature}" in features.split(",")


def call(builder, name, kind, arguments):
    """Call one of LLVM's own functions."""
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(kind, [value.type for value in arguments]), name)
    return builder.call(function, arguments)


def prefetch(builder, address, *, write=False):
    """Ask for a cache line, to ``write`` it or to read; neither is done, so the address may be any."""
    hints = [ir.Constant(INT32, value) for value in (int(write), 3, 1)]
    call(builder, "llvm.prefetch.p0", ir.VoidType(), [builder.inttoptr(address, ir.IntType(8).as_pointer()), *hints])


def permute8(builder, values, order):
    """Eight lanes of four bytes in another order: lane k is that of which the low three bits of ``order[k]`` tell."""
    if has("avx2"):
        name = "llvm.x86.avx2.permps" if values.type == FLOAT8 else "llvm.x86.avx2.permd"
        return call(builder, name, values.type, [values, order])
    order = builder.and_(order, constant(INT8X32, 7))
    permuted = ir.Constant(values.type, ir.Undefined)
    for lane in range(8):
        at = ir.Constant(INT32, lane)
        value = builder.extract_element(values, builder.extract_element(order, at))
        permuted = builder.insert_element(permuted, value, at)
    return permuted


def store_chosen(builder, values, chosen, address):
    """Store the chosen lanes of eight one after the other, and give them as a vector; all eight elements from the
    address on may be written."""
    if has("avx512vl"):
        name = "llvm.x86.avx512.mask.compress.v8" + ("f32" if values.type == FLOAT8 else "i32")
        packed = call(builder, name, values.type, [values, ir.Constant(values.type, ir.Undefined), chosen])
    elif has("avx2"):
        row = builder.gep(_packing_table(builder), [ir.Constant(INT32, 0), mask(builder, chosen)])
        bytes8 = builder.bitcast(builder.load(row), ir.VectorType(ir.IntType(8), 8))
        packed = permute8(builder, values, builder.zext(bytes8, INT8X32))
    else:
        place = address
        for lane in range(8):
            at = ir.Constant(INT32, lane)
            store(builder, builder.extract_element(values, at), place, 0)
            step = builder.zext(builder.extract_element(chosen, at), INT64)
            place = builder.add(place, builder.shl(step, ir.Constant(INT64, 2)))
        return load(builder, address, 0, values.type)
    store(builder, packed, address, 0)
    return packed


def _packing_table(builder):
    """For each of 256 choices the chosen lanes in order, a byte each."""
    name = "rtviewer.packing"
    if name in builder.module.globals:
        return builder.module.globals[name]
    rows = []
    for choice in range(256):
        lanes = [lane for lane in range(8) if choice >> lane & 1]
        rows.append(sum(lane << 8 * k for k, lane in enumerate(lanes)))
    table = ir.GlobalVariable(builder.module, ir.ArrayType(INT64, 256), name)
    table.initializer = ir.Constant(table.value_type, rows)
    table.global_constant = True
    table.linkage = "internal"
    return table


class Choice:
    """Values that one of several branches gives: ``when`` opens a branch, ``give`` says its values, ``give_else`` those
    of what follows the last branch; then they are in ``values``."""

    def __init__(self, builder, kinds):
        self._builder, self._kinds = builder, kinds
        self._end = builder.append_basic_block("chosen")
        self._given = []
        self.values = []

    @contextmanager
    def when(self, condition) -> Iterator[None]:
        inside, after = (self._builder.append_basic_block(name) for name in ("when", "otherwise"))
        self._builder.cbranch(condition, inside, after)
        self._builder.position_at_end(inside)
        yield
        self._builder.branch(self._end)
        self._builder.position_at_end(after)

    def give(self, *values):
        self._given.append((values, self._builder.block))

    def give_else(self, *values):
        self.give(*values)
        self._builder.branch(self._end)
        self._builder.position_at_end(self._end)
        for number, kind in enumerate(self._kinds):
            phi = self._builder.phi(kind)
            for given, block in self._given:
                phi.add_incoming(given[number], block)
            self.values.append(phi)


def reduce_all(builder, values, choose):
    """One vector of 16 lanes whose lane i is what ``choose`` (``larger``, ``smaller``) leaves of the i-th of up to 16
    vectors of 16 lanes."""
    values = [*values, *[values[-1]] * (16 - len(values))]
    group = 16
    while len(values) > 1:
        half = group // 2
        first = [start + k for start in range(0, 32, group) for k in range(half)]
        parts = [ir.Constant(ir.VectorType(INT32, 16), [lane + shift for lane in first]) for shift in (0, half)]
        values = [
            choose(builder, *(builder.shuffle_vector(a, b, part) for part in parts))
            for a, b in zip(values[::2], values[1::2], strict=True)
        ]
        group = half
    return values[0]


def lanes(builder, bits, count):
    """The low ``count`` bits of an integer as a vector of conditions, lane 0 lowest."""
    return builder.bitcast(builder.trunc(bits, ir.IntType(count)), ir.VectorType(BOOL, count))


def store_where(builder, condition, value, address, offset):
    """Store the lanes where the condition holds; the others keep what is there. Both parts of memory are touched."""
    store(builder, builder.select(condition, value, load(builder, address, offset, value.type)), address, offset)


class Loop:
    """A loop over the set bits of a mask, lowest first; values carried in phis.

    ``with Loop(builder, mask, [start values]) as loop``: ``loop.lane`` is the bit's index (int32), ``loop.carried`` the
    values; ``loop.next`` lists what they become. ``loop.results`` is what they are after the last round.
    """

    def __init__(self, builder, bits, carried=()):
        self.builder = builder
        self.start = list(carried)
        self.bits = bits

    def __enter__(self):
        builder = self.builder
        before, function = builder.block, builder.function
        self.head = function.append_basic_block("bits")
        body, self.after = function.append_basic_block("bit"), function.append_basic_block("done")
        builder.branch(self.head)
        builder.position_at_end(self.head)
        self.left = builder.phi(self.bits.type)
        self.left.add_incoming(self.bits, before)
        self.carried = [builder.phi(value.type) for value in self.start]
        for phi, value in zip(self.carried, self.start, strict=True):
            phi.add_incoming(value, before)
        zero = ir.Constant(self.bits.type, 0)
        builder.cbranch(builder.icmp_unsigned("!=", self.left, zero), body, self.after)
        builder.position_at_end(body)
        self.lane = builder.cttz(self.left, ir.Constant(BOOL, 1))
        self.next = list(self.carried)
        self.results = self.carried
        return self

    def __exit__(self, kind, error, trace):
        builder = self.builder
        less = builder.sub(self.left, ir.Constant(self.bits.type, 1))
        self.left.add_incoming(builder.and_(self.left, less), builder.block)
        for phi, value in zip(self.carried, self.next, strict=True):
            phi.add_incoming(value, builder.block)
        builder.branch(self.head)
        builder.position_at_end(self.after)


def when(builder, condition, then, otherwise):
    """The value of ``then()`` where the one condition holds, else ``otherwise``; its code is jumped over."""
    before = builder.block
    inside, after = builder.function.append_basic_block("then"), builder.function.append_basic_block("after")
    builder.cbranch(condition, inside, after)
    builder.position_at_end(inside)
    value = then()
    ended = builder.block
    builder.branch(after)
    builder.position_at_end(after)
    result = builder.phi(value.type)
    result.add_incoming(value, ended)
    result.add_incoming(otherwise, before)
    return result
