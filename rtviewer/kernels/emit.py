"""Pieces of LLVM vector code that the intrinsics of kernels are put together from.

An intrinsic emits all the vector instructions of one inner step at once: LLVM does not vectorise lane loops by itself,
and many small intrinsics cost compile time. Only generic vector types are used here, so every processor gets code.
"""

from __future__ import annotations

from llvmlite import ir

FLOAT, INT32, INT64, BOOL = ir.FloatType(), ir.IntType(32), ir.IntType(64), ir.IntType(1)
FLOAT8, FLOAT4 = ir.VectorType(FLOAT, 8), ir.VectorType(FLOAT, 4)


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


def larger(builder, a, b):
    """a > b ? a : b, lane by lane: a NaN in a gives b."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def smaller(builder, a, b):
    """a < b ? a : b, lane by lane: a NaN in a gives b."""
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def mask(builder, condition):
    """A vector of conditions as bits of a uint32, lane 0 lowest."""
    return builder.zext(builder.bitcast(condition, ir.IntType(condition.type.count)), INT32)


def absolute(builder, value):
    """|value| of float32 lanes, NaNs included: the sign bit is cleared."""
    kind = value.type
    whole = ir.VectorType(INT32, kind.count)
    return builder.bitcast(builder.and_(builder.bitcast(value, whole), constant(whole, 0x7FFFFFFF)), kind)


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
