"""A user's file of programs: run, judged and compiled. It is code, so nothing calls this unless the user asked for it.

    import rtviewer as rt

    @rt.any_hit_program
    def stripes(candidate):
        return rt.HitAction.IGNORE if candidate.primitive_index % 3 == 0 else rt.HitAction.ACCEPT

``scenes/programs/programs.py`` is a worked example; the record is ``kernels.candidate_block.CANDIDATE``.
"""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from rtviewer.dxr.programs import (
    MARK,
    AnyHitProgram,
    IntersectionProgram,
    ProgramKind,
    ProgramTable,
    UserProgram,
    check_declarations,
)
from rtviewer.errors import FileFormatError, ProgramError
from rtviewer.io.bounded_read import read_bytes

MAX_FILE_BYTES = 1 << 20
BUILT_IN = {name for table in (AnyHitProgram, IntersectionProgram) for name in table.__members__}
DEFAULT_ATTRIBUTE_SIZE, DEFAULT_DEPTH = 8, 1


def load_programs(path: Path | str) -> ProgramTable:
    """Run a Python file and compile every function in it that is marked as a program, in the order of the file.

    It may declare MAX_ATTRIBUTE_SIZE_IN_BYTES (LIM-5) and MAX_TRACE_RECURSION_DEPTH (LIM-6). Raises ProgramError, with
    file and line, for a file that cannot be read, does not run, holds no program, declares what is not legal, or has a
    program that does not compile.
    """
    file = Path(path)
    module = _run(file)
    sizes = (
        getattr(module, "MAX_ATTRIBUTE_SIZE_IN_BYTES", DEFAULT_ATTRIBUTE_SIZE),
        getattr(module, "MAX_TRACE_RECURSION_DEPTH", DEFAULT_DEPTH),
    )
    if found := check_declarations(*sizes):
        raise ProgramError(f"{file}: " + "; ".join(str(v) for v in found))
    functions = [value for value in vars(module).values() if callable(value) and hasattr(value, MARK)]
    if not functions:
        text = "no function is marked with @rtviewer.any_hit_program or @rtviewer.intersection_program"
        raise ProgramError(f"{file}: there is no program: {text}")
    return _compile(file, functions, *sizes)


def _run(file: Path) -> ModuleType:
    """The file's module after it ran."""
    try:
        source = read_bytes(file, limit=MAX_FILE_BYTES).decode("utf-8-sig")
        code = compile(source, str(file), "exec")
    except FileFormatError as error:
        raise ProgramError(str(error)) from error
    except UnicodeDecodeError as error:
        raise ProgramError(f"{file}: not UTF-8 text: {error.reason}") from error
    except SyntaxError as error:
        line = f"\n    {error.text.strip()}" if error.text else ""
        raise ProgramError(f"{file}:{error.lineno}: {error.msg}{line}") from error
    except ValueError as error:  # a NUL in the source
        raise ProgramError(f"{file}: {error}") from error
    linecache.checkcache(str(file))
    module = ModuleType(f"rtviewer_user_programs_{file.stem}")
    module.__file__ = str(file)
    try:
        exec(code, vars(module))
    except (Exception, SystemExit) as error:
        raise ProgramError(_where(file, error)) from error
    return module


def _where(file: Path, error: BaseException) -> str:
    """``FILE:LINE: Kind: message`` of an exception that the file raised while it ran."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    place = f"{file}:{frames[-1].lineno}" if frames else str(file)
    line = f"\n    {frames[-1].line}" if frames and frames[-1].line else ""
    return f"{place}: {type(error).__name__}: {error}{line}"


def _compile(file: Path, functions: list[Callable[..., Any]], attribute_size: int, depth: int) -> ProgramTable:
    from rtviewer.kernels.user_programs import compile_program, report_address

    programs: list[UserProgram] = []
    kept = []
    for function in functions:
        kind: ProgramKind = getattr(function, MARK)
        code = getattr(function, "__code__", None)
        if code is None:
            raise ProgramError(f"{file}: {function!r} is not a Python function, which a program must be")
        place, name = f"{file}:{code.co_firstlineno}", function.__name__
        if name.upper() in BUILT_IN:
            raise ProgramError(f"{place}: {name} is the name of a built-in program: choose another")
        if any(own.kind is kind and own.name == name for own in programs):
            raise ProgramError(f"{place}: there are two {kind.word} programs {name}")
        if code.co_argcount != 1 or code.co_kwonlyargcount or code.co_flags & 0x0C:
            raise ProgramError(f"{place}: {name} must take one argument, the candidate")
        address, alive = compile_program(function, kind, attribute_size)
        text = (function.__doc__ or "").strip().split("\n")[0]
        programs.append(UserProgram(name, kind, address, code.co_firstlineno, text))
        kept.append(alive)
    return ProgramTable(str(file), tuple(programs), report_address(), attribute_size, depth, tuple(kept))
