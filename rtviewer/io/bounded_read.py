"""Bytes from disk, read only from regular files and never more than a stated size."""

from __future__ import annotations

import stat
from pathlib import Path

from rtviewer.errors import FileFormatError

MAX_FILE_BYTES = 4 << 30
"""Larger inputs are refused before anything is read."""


def read_bytes(path: Path, *, minimum: int = 0, limit: int = MAX_FILE_BYTES) -> bytes:
    """The whole content of a regular file.

    Raises FileFormatError for a missing file, a folder, a device or pipe, a file that may not be opened, one above
    ``limit`` bytes and one below ``minimum`` bytes.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise FileFormatError(path, "this is a folder, a file is needed here")
        if not stat.S_ISREG(status.st_mode):
            raise FileFormatError(path, "not a regular file; devices and pipes are not read")
        if status.st_size > limit:
            raise FileFormatError(path, "too large to read", expected=f"at most {limit} bytes", found=status.st_size)
        if status.st_size < minimum:
            raise FileFormatError(path, "the file is cut short", expected=f"{minimum} bytes", found=status.st_size)
        return path.read_bytes()
    except FileNotFoundError:
        raise FileFormatError(path, "there is no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise FileFormatError(path, f"cannot be read: {reason}") from error
