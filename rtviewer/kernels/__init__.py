"""All compiled code, and the only place for it: arrays and scalars in, arrays out, no objects, no exceptions.

Importing this package imports numba; packages above import it inside functions so that the window shows first. Results
never depend on thread count, vector width or fast-math: the options below allow no re-association and no contraction.

The disk cache lives in a folder named from a hash of these sources, the numba version and the processor, because numba
notices neither changes in other files nor in frozen globals.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import llvmlite.binding
import numba
import platformdirs

from rtviewer.kernels.compilation import BY_PARTS, kernel


def _cache_folder() -> Path:
    digest = hashlib.sha256(numba.__version__.encode())
    digest.update(str(numba.config.CPU_NAME or llvmlite.binding.get_host_cpu_name()).encode())
    digest.update(str(numba.config.CPU_FEATURES or llvmlite.binding.get_host_cpu_features().flatten()).encode())
    digest.update(str((numba.config.BOUNDSCHECK, BY_PARTS)).encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return Path(platformdirs.user_cache_dir("rtviewer", appauthor=False)) / "kernels" / digest.hexdigest()[:16]


CACHE_FOLDER = _cache_folder()
numba.config.CACHE_DIR = str(CACHE_FOLDER)

jit = partial(kernel, nogil=True, error_model="numpy", forceinline=False)
"""The one decorator of kernels: releases the GIL, keeps machine code on disk, divides by zero as IEEE says.
``forceinline`` has to be said, because a function that says nothing takes it from its caller."""

inline_jit = partial(jit, forceinline=True)
"""For the small pieces of hot loops: machine code goes into the caller, since a call costs as much as a box test."""


def warm_up(progress: Callable[[float, str], None] | None = None) -> None:
    """Compile, or load from the cache, every kernel in every signature the product uses; most needed first.

    ``progress`` is called with a fraction done and what comes next. Call it off the GUI thread.
    """
    from rtviewer.kernels.warmup import compile_all

    compile_all(progress)
