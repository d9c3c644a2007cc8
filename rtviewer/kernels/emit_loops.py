"""Loops and box arithmetic for intrinsics that run over many references at once (see ``emit``).

A whole loop in one intrinsic keeps what does not change in registers, which no compiler may do for values that a kernel
loads and stores through addresses, and costs the least compile time.
"""

from __future__ import annotations

from llvmlite import ir

from rtviewer.kernels import emit
from rtviewer.kernels.emit import FLOAT, FLOAT4, FLOAT8, INT32, INT64

INT4, INT8 = ir.VectorType(INT32, 4), ir.VectorType(INT32, 8)
FLOAT3 = ir.VectorType(FLOAT, 3)
INFINITY = float("inf")


def long(value):
    return ir.Constant(INT64, value)


def loop(builder, first, end, step, carried, body):
    """``while at < end: carried = body(at, carried); at += step``; returns what is carried at the end.

    ``first`` and ``end`` int64 values, ``step`` an int, ``carried`` values that change from turn to turn.
    """
    before = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("head", "inside", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    at = builder.phi(INT64)
    at.add_incoming(first, before)
    values = []
    for value in carried:
        phi = builder.phi(value.type)
        phi.add_incoming(value, before)
        values.append(phi)
    builder.cbranch(builder.icmp_signed("<", at, end), inside, after)
    builder.position_at_end(inside)
    changed = body(at, values)
    at.add_incoming(builder.add(at, long(step)), builder.block)
    for phi, value in zip(values, changed, strict=True):
        phi.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return values


def either(builder, condition, values, make):
    """``make()`` where the condition holds, else ``values``: lists of equal types."""
    before = builder.block
    with builder.if_then(condition):
        made = make()
        inside = builder.block
    chosen = []
    for a, b in zip(values, made, strict=True):
        phi = builder.phi(a.type)
        phi.add_incoming(a, before)
        phi.add_incoming(b, inside)
        chosen.append(phi)
    return chosen


def offset(builder, address, index, size):
    """address + index * size."""
    return builder.add(address, builder.mul(index, long(size)))


def shuffle(builder, a, b, lanes):
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT32, len(lanes)), list(lanes)))


def low(builder, value):
    """The first four of eight lanes."""
    return shuffle(builder, value, value, range(4))


def high(builder, value):
    """The last four of eight lanes."""
    return shuffle(builder, value, value, range(4, 8))


def joined(builder, a, b):
    """Four and four lanes as eight."""
    return shuffle(builder, a, b, range(8))


def lane(builder, value, index):
    return builder.extract_element(value, ir.Constant(INT32, index))


def negative(builder, value):
    """The other sign, exact for zeros and infinities too."""
    return builder.fneg(value)


def point(builder, address):
    """Three float32 at an address as four lanes, the last 0; reads 12 bytes."""
    three = emit.load_at(builder, address, FLOAT3)
    return shuffle(builder, three, ir.Constant(FLOAT3, [0.0] * 3), (0, 1, 2, 3))


def nothing():
    """The empty box as (-minimum | maximum)."""
    return ir.Constant(FLOAT8, [-INFINITY] * 8)


def doubled_centre(builder, reference):
    """minimum + maximum of a box (-minimum | maximum), four lanes, the last 0."""
    centre = builder.fsub(high(builder, reference), low(builder, reference))
    return shuffle(builder, centre, ir.Constant(FLOAT4, [0.0] * 4), (0, 1, 2, 4))


def as_box(builder, values):
    """The box that holds just a point: (-value | value)."""
    return joined(builder, negative(builder, values), values)


def half_areas(builder, first, second, third):
    """Half the surfaces of three boxes (-minimum | maximum), lanes 0 to 2 of four; the last lane repeats the third."""
    products = []
    for box in (first, second, third):
        extent = builder.fadd(low(builder, box), high(builder, box))
        extent = shuffle(builder, extent, ir.Constant(FLOAT4, [0.0] * 4), (0, 1, 2, 4))  # what is there is no number
        products.append(builder.fmul(extent, shuffle(builder, extent, extent, (1, 2, 0, 3))))
    a, b, c = products
    near = shuffle(builder, a, b, (0, 4, 1, 5))
    far = shuffle(builder, a, b, (2, 6, 2, 6))
    x, y = shuffle(builder, near, c, (0, 1, 4, 4)), shuffle(builder, near, c, (2, 3, 5, 5))
    z = shuffle(builder, far, c, (0, 1, 6, 6))
    return builder.fadd(builder.fadd(x, y), z)


def room(builder, kind, count):
    """Address of a local array of vectors."""
    with builder.goto_entry_block():
        place = builder.alloca(ir.ArrayType(kind, count))
        place.align = 64
    return builder.ptrtoint(place, INT64)


def transposed(builder, rows):
    """Four vectors of four lanes, turned: the first lanes, the second, the third, the fourth."""
    a, b, c, d = rows
    near, far = shuffle(builder, a, b, (0, 4, 1, 5)), shuffle(builder, c, d, (0, 4, 1, 5))
    near_end, far_end = shuffle(builder, a, b, (2, 6, 3, 7)), shuffle(builder, c, d, (2, 6, 3, 7))
    return [
        shuffle(builder, near, far, (0, 1, 4, 5)),
        shuffle(builder, near, far, (2, 3, 6, 7)),
        shuffle(builder, near_end, far_end, (0, 1, 4, 5)),
        shuffle(builder, near_end, far_end, (2, 3, 6, 7)),
    ]
