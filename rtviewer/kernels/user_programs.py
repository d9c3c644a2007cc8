"""A user's programs: compiled from Python functions, and what they may call.

``compile_program`` turns numba's errors into ProgramError with file and line; it is one of the two doors of kernels
that raise. A compiled program is called by ``candidate_block``; it reports hits to ``report``, which offers them by the
same code as built-in programs.
"""

from __future__ import annotations

import inspect
import linecache
import re
from pathlib import Path

import numba
import numpy as np
from llvmlite import ir
from numba import carray, cfunc, types
from numba.core.errors import NumbaError, TypingError
from numba.extending import intrinsic, overload
from numba.np.numpy_support import from_dtype

from rtviewer.dxr.limits import MAX_ATTRIBUTE_SIZE_IN_BYTES, MAX_HIT_KIND
from rtviewer.dxr.programs import NO_TRACE, ProgramKind, report_hit, trace_ray
from rtviewer.errors import ProgramError
from rtviewer.kernels import jit
from rtviewer.kernels.candidate_block import (
    AT_ATTRIBUTES,
    AT_KIND,
    AT_T_CURRENT,
    BLOCK_ACCEPTED,
    BLOCK_COUNTERS,
    BLOCK_EVENT,
    BLOCK_GEOMETRIES,
    BLOCK_GEOMETRY_COUNT,
    BLOCK_LOG,
    BLOCK_NUMBER,
    BLOCK_OPACITY,
    BLOCK_REPORT,
    BLOCK_REPORTED,
    BLOCK_SIZE,
    BLOCK_WALK,
    CANDIDATE,
    PUBLIC,
    RAISED,
    fail,
)
from rtviewer.kernels.compilation import address_kernel
from rtviewer.kernels.constants import FIRST_USER_PROGRAM
from rtviewer.kernels.hit_groups import intersection_program, record_of
from rtviewer.kernels.memory import load_f32, load_i32, load_i64, store_f32, store_i32, store_i64
from rtviewer.kernels.procedurals import report_hit as offer_report
from rtviewer.kernels.state import ENDED, FAULT_HIT_KIND, T_CURRENT

LARGEST_KIND = MAX_HIT_KIND


def record_type(attribute_size: int):
    """The candidate's type in a file that declares so many bytes of attributes: as many bytes longer.

    numba compiles a call once for each set of types, so every file is judged by its own declaration (LIM-5).
    """
    fields = CANDIDATE.fields
    layout = {
        "names": list(CANDIDATE.names),
        "formats": [fields[name][0] for name in CANDIDATE.names],
        "offsets": [fields[name][1] for name in CANDIDATE.names],
        "itemsize": CANDIDATE.itemsize + attribute_size,
    }
    return from_dtype(np.dtype(layout))


# --- where reports arrive -----------------------------------------------------------------------------------------


@jit
def take_report(block, t, kind, counters, log):
    """ReportHit of the program that runs: offer the hit, and show the program the ray's new end."""
    walk = load_i64(block + BLOCK_WALK)
    is_first = load_i64(block + BLOCK_REPORTED) == 0
    store_i64(block + BLOCK_REPORTED, np.int64(1))
    outcome = offer_report(
        t, kind, load_f32(block + AT_ATTRIBUTES), load_f32(block + AT_ATTRIBUTES + 4), load_i64(block + BLOCK_OPACITY),
        load_i64(block + BLOCK_NUMBER), load_i64(block + BLOCK_GEOMETRIES), load_i64(block + BLOCK_GEOMETRY_COUNT),
        walk, load_i64(block + BLOCK_SIZE), load_i64(block + BLOCK_EVENT), load_i64(block + BLOCK_ACCEPTED) != 0,
        is_first, counters, log,
    )  # fmt: skip
    if outcome != 0:
        store_i64(block + BLOCK_ACCEPTED, np.int64(1))
    # An any-hit program saw the report itself there.
    store_i32(block + AT_KIND, np.int32(-1))
    store_f32(block + AT_T_CURRENT, load_f32(walk + T_CURRENT))
    return outcome == 1


@jit
def judge_report(block, t, kind):
    """HK-1 and PROC-4, then the report by what is being counted and logged."""
    walk = load_i64(block + BLOCK_WALK)
    if load_i64(walk + ENDED) != 0:  # the call that ended the search did not return
        return np.int64(0)
    if kind < 0 or kind > LARGEST_KIND:
        geometry = load_i32(block + PUBLIC + 8)
        program = intersection_program(record_of(np.int64(geometry), False, walk), walk)
        fail(walk, FAULT_HIT_KIND, program - FIRST_USER_PROGRAM, kind)
        return np.int64(0)
    counters = load_i64(block + BLOCK_COUNTERS)
    if counters != 0:
        return np.int64(take_report(block, t, kind, counters, load_i64(block + BLOCK_LOG)))
    return np.int64(take_report(block, t, kind, None, None))


_kept: list[object] = []


def report_address() -> int:
    """Address of the C function int64(block, float32 t, int64 kind) that reports go to; compiled on first use."""
    if not _kept:
        signature = types.int64(types.int64, types.float32, types.int64)
        _kept.append(address_kernel(_report, signature))
    return _kept[0].address


def _report(block, t, kind):
    return judge_report(block, t, kind)


# --- what programs may call ---------------------------------------------------------------------------------------


@overload(trace_ray)
def _trace_ray(*arguments):
    raise TypingError(NO_TRACE)


@intrinsic
def _address_of(typing_context, record):
    def generate(context, builder, signature, arguments):
        return builder.ptrtoint(arguments[0], ir.IntType(64))

    return types.int64(record), generate


@intrinsic
def _store_attributes(typing_context, address, values):
    """Store a tuple of numbers as float32 from an address on."""

    def generate(context, builder, signature, arguments):
        kinds = list(values)
        for place, kind in enumerate(kinds):
            value = context.cast(builder, builder.extract_value(arguments[1], place), kind, types.float32)
            at = builder.add(arguments[0], ir.Constant(ir.IntType(64), 4 * place))
            builder.store(value, builder.inttoptr(at, ir.FloatType().as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, values), generate


@intrinsic
def _call_report(typing_context, address, block, t, kind):
    def generate(context, builder, signature, arguments):
        word, real = ir.IntType(64), ir.FloatType()
        function = ir.FunctionType(word, [word, real, word])
        return builder.call(builder.inttoptr(arguments[0], function.as_pointer()), arguments[1:])

    return types.int64(types.int64, types.int64, types.float32, types.int64), generate


@overload(report_hit)
def _report_hit(candidate, t, kind, attributes=()):
    if not isinstance(candidate, types.Record):
        raise TypingError("report_hit takes the program's candidate first")
    if not isinstance(t, (types.Float, types.Integer)):
        raise TypingError("report_hit: t is a number")
    if not isinstance(kind, types.Integer):
        raise TypingError(f"[HK-1] report_hit: kind is a whole number from 0 to {MAX_HIT_KIND}")
    given = types.Tuple(()) if isinstance(attributes, types.Omitted) or attributes == () else attributes
    if not isinstance(given, types.BaseTuple) or not all(isinstance(k, (types.Float, types.Integer)) for k in given):
        raise TypingError("report_hit: attributes is a tuple of numbers")
    most, size = candidate.size - CANDIDATE.itemsize, 4 * len(given)
    if size > most:
        text = f"{size} bytes of attributes where MAX_ATTRIBUTE_SIZE_IN_BYTES is {most}"
        raise TypingError(f"[LIM-5] {text} (it may be declared up to {MAX_ATTRIBUTE_SIZE_IN_BYTES})")
    if len(given) == 0:

        def report(candidate, t, kind, attributes=()):
            block = _address_of(candidate) - PUBLIC
            return _call_report(load_i64(block + BLOCK_REPORT), block, np.float32(t), np.int64(kind)) != 0

        return report

    def report_with(candidate, t, kind, attributes=()):
        block = _address_of(candidate) - PUBLIC
        _store_attributes(block + AT_ATTRIBUTES, attributes)
        return _call_report(load_i64(block + BLOCK_REPORT), block, np.float32(t), np.int64(kind)) != 0

    return report_with


# --- compiling ----------------------------------------------------------------------------------------------------


def _pointer_to(record):
    @intrinsic
    def pointer(typing_context, address):
        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(record)(types.int64), generate

    return pointer


def compile_program(function, kind: ProgramKind, attribute_size: int = MAX_ATTRIBUTE_SIZE_IN_BYTES):
    """(address, what to keep alive) of a Python function as a program; ``attribute_size``: declared bytes (LIM-5).

    An any-hit program takes a candidate and returns an integer, an intersection program takes one and returns nothing.
    Exceptions inside end the ray with a fault; divisions follow IEEE. Raises ProgramError with file and line.
    """
    inner = numba.njit(nogil=True, error_model="numpy", boundscheck=True)(function)
    place = _place(function)
    record = record_type(attribute_size)
    try:
        inner.compile((record,))
        result = inner.overloads[(record,)].signature.return_type
        if kind is ProgramKind.ANY_HIT and not isinstance(result, (types.Integer, types.Boolean, types.IntEnumMember)):
            text = f"an any-hit program returns a HitAction or a whole number, found {result}"
            raise ProgramError(f"{place}: {function.__name__}: {text}")
        wrapper = (
            _any_hit_wrapper(inner, record) if kind is ProgramKind.ANY_HIT else _intersection_wrapper(inner, record)
        )
        compiled = cfunc(types.int64(types.int64), nopython=True, error_model="numpy")(wrapper)
    except ProgramError:
        raise
    except NumbaError as error:
        raise ProgramError(explain(error, function)) from error
    except KeyError as error:  # how numba says that a record has no such field
        raise ProgramError(_no_field(str(error.args[0]), function)) from error
    except Exception as error:  # numba lets some of its own slips through
        raise ProgramError(f"{place}: {function.__name__}: {type(error).__name__}: {error}") from error
    return compiled.address, compiled


def _any_hit_wrapper(inner, record):
    pointer = _pointer_to(record)

    def call(address):
        candidate = carray(pointer(address), (1,))[0]
        action = np.int64(RAISED)
        try:
            action = np.int64(inner(candidate))
        except Exception:
            action = np.int64(RAISED)
        return action

    return call


def _intersection_wrapper(inner, record):
    pointer = _pointer_to(record)

    def call(address):
        candidate = carray(pointer(address), (1,))[0]
        done = np.int64(0)
        try:
            inner(candidate)
        except Exception:
            done = np.int64(RAISED)
        return done

    return call


def _place(function) -> str:
    code = function.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def _no_field(name: str, function) -> str:
    line = _line_with(f".{name}", function)
    there = ", ".join(CANDIDATE.names)
    place = f"{function.__code__.co_filename}:{line}: {function.__name__}"
    return f"{place}: the candidate has no field {name!r}: there are {there}"


def _line_with(text: str, function) -> int:
    """The first line of a function that holds a text, its ``def`` where none does."""
    lines, first = inspect.getsourcelines(function)
    return next((first + i for i, line in enumerate(lines) if text in line), first)


def explain(error: NumbaError, function) -> str:
    """``FILE:LINE: name: what is wrong`` with the line itself, from numba's message, which is long."""
    code = function.__code__
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    line = code.co_firstlineno
    last = line + len(inspect.getsourcelines(function)[0])
    for number in re.findall(r"(?:\(|, line )(\d+)\)?:?\s*$", text, re.MULTILINE):
        if line <= int(number) <= last:
            line = int(number)
    if unknown := re.search(r"NameError: name '(\w+)'", text):  # numba says no line
        line = _line_with(unknown.group(1), function)
    own = re.search(r"\[[A-Z]+-\d+\][^\n]*|report_hit[^\n]*(?:takes|is)[^\n]*", text)
    wanted = ("Unknown attribute", "Cannot unify", "Invalid use", "No implementation", "Use of unsupported",
              "cannot determine", "Untyped global", "NameError", "not defined")  # fmt: skip
    lines = [part.strip() for part in text.splitlines() if part.strip()]
    main = own.group(0) if own else next((part for part in lines if part.startswith(wanted)), lines[1:2] or lines)
    main = main if isinstance(main, str) else main[0]
    source = linecache.getline(code.co_filename, line).strip()
    shown = f"\n    {source}" if source else ""
    return f"{Path(code.co_filename)}:{line}: {function.__name__}: {main}{shown}"
