"""Images and hits to disk: PNG, float EXR, NPZ. Every write is atomic: a file is whole or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.errors import RtviewerError


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Give a temporary name beside ``path``; rename it to ``path`` at the end, or remove it when anything goes wrong.

    Raises RtviewerError naming the path when the file system refuses.
    """
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes files that only their owner reads
        temporary.replace(path)
        temporary = None
    except OSError as error:
        raise RtviewerError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_png(path: Path, rgba: NDArray[np.uint8]) -> None:
    """Write (height, width, 3 or 4) uint8 as PNG."""
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(rgba))
    with replaced(path) as temporary:
        image.save(temporary, format="PNG")


def write_exr(path: Path, channels: Mapping[str, NDArray[np.float32]]) -> None:
    """Write (height, width) float32 channels as a scan-line EXR, ZIP-compressed; NaN and infinity stay.

    Raises RtviewerError when the OpenEXR package is not installed.
    """
    try:
        import OpenEXR
    except ImportError as error:
        raise RtviewerError("writing EXR needs the OpenEXR package: pip install 'rtviewer[exr]'") from error
    header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    planes = {name: np.ascontiguousarray(plane, np.float32) for name, plane in channels.items()}
    with replaced(path) as temporary:
        try:
            OpenEXR.File(header, planes).write(str(temporary))
        except RuntimeError as error:
            raise RtviewerError(f"cannot write {path}: {error}") from error


def write_hits(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays as a compressed NPZ, under exactly this name."""
    compress: Callable[..., None] = np.savez_compressed
    with replaced(path) as temporary, temporary.open("wb") as file:
        compress(file, **arrays)
