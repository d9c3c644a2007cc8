"""What a kernel is: a function that kernels call as a part of themselves, and Python as a function of its own.

By itself numba makes machine code of every function, with wrappers for calls from Python and from C, and copies what
it optimised into each caller, where it is optimised again. Most kernels are called by kernels only. ``numba_steps`` has
numba end those as LLVM code, which is linked, once each, into what Python calls; only of that machine code is made and
kept on disk. It cuts the time to compile everything to a third; the machine code does the same.

``numba_steps`` builds on parts of numba that may change. It is used with the versions of numba that it was tried with;
with others kernels are compiled as numba does by itself. Results are the same either way.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numba

KNOWN_VERSIONS = ("0.68",)
"""Versions of numba, by their first two numbers, that ``numba_steps`` was tried with (tests/unit/kernels)."""
BY_PARTS = (
    ".".join(numba.__version__.split(".")[:2]) in KNOWN_VERSIONS
    and os.environ.get("RTVIEWER_WHOLE_KERNELS", "0") != "1"
)
"""Whether ``numba_steps`` is used. The environment's RTVIEWER_WHOLE_KERNELS=1 does without, to compare."""

if BY_PARTS:
    from rtviewer.kernels.numba_steps import EntryCompiler, part_of


class Kernel:
    """A compiled function that has a part for kernels and an entry for Python."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        functools.update_wrapper(self, function)
        self.py_func = function
        self._options = options
        self._part = part_of(function, options)
        self._numba_type_ = numba.types.Dispatcher(self._part)  # where numba looks when it meets this in a kernel

    @functools.cached_property
    def entry(self) -> Any:
        """The function as numba's own object, with machine code that Python can call."""
        options = {**self._options, "pipeline_class": EntryCompiler, "no_cfunc_wrapper": True}
        return numba.njit(cache=True, **options)(self.py_func)

    def __call__(self, *arguments: Any) -> Any:
        return self.entry(*arguments)


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Make a kernel of a function; ``options`` as of numba.njit."""
    if BY_PARTS and not numba.config.DISABLE_JIT:
        return Kernel(function, options)
    return numba.njit(cache=True, **options)(function)


def address_kernel(function: Callable[..., Any], signature: Any) -> Any:
    """A function as machine code that is called by its ``address``."""
    options = {"pipeline_class": EntryCompiler} if BY_PARTS else {}
    return numba.cfunc(signature, cache=True, error_model="numpy", **options)(function)
