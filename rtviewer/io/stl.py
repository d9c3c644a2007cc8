"""STL, binary and ASCII. Triangles are kept as they stand: no vertex is merged, the stored normals are not used.

Neither the word ``solid`` nor an exact length tells the two apart: binary headers begin with ``solid`` too, and binary
files have bytes too many. ASCII is what begins with ``solid``, holds no zero byte and has a line ``facet`` or
``endsolid``.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtviewer.errors import FileFormatError
from rtviewer.io.triangle_input import (
    deactivate_partial_nan,
    float32_positions,
    opaque_triangles,
    single_mesh_scene,
)
from rtviewer.scene.scene import Scene

HEADER_BYTES = 84
"""80 bytes of anything and the number of triangles as uint32."""

RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_ASCII_LINE = re.compile(rb"^[ \t]*(vertex|facet|endfacet)\b[ \t]*([^\n]*)", re.MULTILINE | re.IGNORECASE)


def read_stl(path: Path, data: bytes) -> Scene:
    """Read an STL file as one opaque geometry of consecutive triples, placed once; several solids follow one another.

    Raises FileFormatError when the file is neither form, is cut short, or holds a number that is none.
    """
    warnings: list[str] = []
    corners = _ascii_corners(path, data) if _is_ascii(data) else _binary_corners(path, data, warnings)
    vertices = float32_positions(corners)
    vertices = deactivate_partial_nan(vertices, None, lambda k: f"triangle {k}", warnings, path.name)
    return single_mesh_scene(opaque_triangles(vertices, None, path.stem), path.stem, str(path), warnings)


def _binary_size(data: bytes) -> int | None:
    """Bytes that a binary file with this header has, None when the header is not complete."""
    if len(data) < HEADER_BYTES:
        return None
    return HEADER_BYTES + RECORD.itemsize * int.from_bytes(data[80:HEADER_BYTES], "little")


def _is_ascii(data: bytes) -> bool:
    """By the first bytes; the count of a binary file has a zero byte up to 16 million triangles."""
    start = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not start.startswith(b"solid") or b"\0" in start:
        return False
    return re.search(rb"^[ \t]*(facet|endsolid)\b", start.replace(b"\r", b"\n"), re.MULTILINE) is not None


def _binary_corners(path: Path, data: bytes, warnings: list[str]) -> NDArray[np.float32]:
    size = _binary_size(data)
    if size is None:
        message = "neither ASCII STL ('solid' ... 'facet' ...) nor long enough for binary STL"
        raise FileFormatError(path, message, expected=f"at least {HEADER_BYTES} bytes", found=len(data))
    count = (size - HEADER_BYTES) // RECORD.itemsize
    if size > len(data):
        message = f"the header says {count} triangles, the file is cut short or no STL"
        raise FileFormatError(
            path, message, offset=80, field="triangle count", expected=f"{size} bytes", found=len(data)
        )
    if size < len(data):
        warnings.append(f"{path.name}: {len(data) - size} byte(s) after the last of {count} triangles were ignored")
    corners: NDArray[np.float32] = np.frombuffer(data, RECORD, count, HEADER_BYTES)["corners"]
    return corners


def _ascii_corners(path: Path, data: bytes) -> NDArray[np.float64]:
    coordinates: list[bytes] = []
    in_facet = 0
    for match in _ASCII_LINE.finditer(data.replace(b"\r", b"\n")):
        keyword = match[1].lower()
        if keyword == b"vertex":
            words = match[2].split()
            if len(words) != 3:
                raise FileFormatError(
                    path, "a vertex needs three numbers", offset=match.start(1), expected=3, found=len(words)
                )
            coordinates += words
            in_facet += 1
        elif keyword == b"facet":
            in_facet = 0
        elif in_facet != 3:
            raise FileFormatError(
                path, "a facet must have three vertices", offset=match.start(1), expected=3, found=in_facet
            )
    if len(coordinates) % 9:
        message = "the file is cut short inside a facet"
        raise FileFormatError(path, message, expected="three vertices in each facet", found=f"{in_facet} in the last")
    try:
        return np.array([float(word) for word in coordinates], np.float64)
    except ValueError as error:
        raise FileFormatError(path, f"a vertex coordinate is not a number: {error}") from error
