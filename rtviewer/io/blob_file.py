"""One serialized structure in a file (``.rtblob``): the D3D12 layout of a serialized blob, nothing around it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.flags import DriverMatchingIdentifierStatus
from rtviewer.dxr.layouts import SERIALIZED_HEADER1
from rtviewer.io.bounded_read import read_bytes
from rtviewer.io.image_file import replaced

if TYPE_CHECKING:
    from rtviewer.copymode.identify import BlobDescription

BLOB_SUFFIX = ".rtblob"
IDENTIFIER_SIZE = 32


def write_blob(path: Path, blob: NDArray[np.uint8]) -> None:
    """Write a serialized blob; whole or not at all. Raises RtviewerError when the file system refuses."""
    with replaced(path) as temporary, temporary.open("wb") as file:
        file.write(np.ascontiguousarray(blob).data)


def read_blob(path: Path) -> bytes:
    """The bytes of a blob file. Raises FileFormatError for what cannot be read or is shorter than a header."""
    return read_bytes(path, minimum=SERIALIZED_HEADER1.itemsize)


def blob_status(data: bytes) -> DriverMatchingIdentifierStatus:
    """What CheckDriverMatchingIdentifier says about the first 32 bytes (SER-9)."""
    from rtviewer.copymode.identify import check_driver_matching_identifier

    return check_driver_matching_identifier(0, data[:IDENTIFIER_SIZE])


def is_own_blob(data: bytes) -> bool:
    """Whether bytes begin with this tool's identifier, of any version; what follows is not looked at."""
    if len(data) < SERIALIZED_HEADER1.itemsize:
        return False
    return blob_status(data) is not DriverMatchingIdentifierStatus.UNRECOGNIZED


def description_of(data: bytes) -> BlobDescription:
    """The fields of a blob of any driver, read only; nothing is concluded from a foreign payload."""
    from rtviewer.copymode.identify import describe_blob

    return describe_blob(np.frombuffer(data, np.uint8))
