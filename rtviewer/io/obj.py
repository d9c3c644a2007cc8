"""Wavefront OBJ: positions and faces; everything else is stepped over.

Own parsing, because polygons must become fans in file order and indices that are negative, zero or too large must not
stop the reader. One geometry holds all faces, so triangle k of a file of triangles is its k-th face.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rtviewer.errors import FileFormatError
from rtviewer.io.triangle_input import (
    deactivate_partial_nan,
    fan_triangles,
    float32_positions,
    keep_triangles_in_range,
    opaque_triangles,
    places,
    single_mesh_scene,
)
from rtviewer.scene.scene import Scene

# fmt: off
STEPPED_OVER = frozenset([
    "vt", "vn", "vp", "o", "g", "s", "mg", "usemtl", "mtllib", "l", "p", "cstype", "deg", "bmat", "step", "curv",
    "curv2", "surf", "parm", "trim", "hole", "scrv", "sp", "end", "con", "bevel", "c_interp", "d_interp", "lod",
    "maplib", "usemap", "shadow_obj", "trace_obj", "ctech", "stech", "res", "call", "csh", "t",
])
# fmt: on
"""Statements that change no triangle; ``t`` is a subdivision tag of OpenSubdiv."""

_MICROSOFT_TOKENS = {"1.#ind": float("nan"), "1.#qnan": float("nan"), "1.#snan": float("nan"), "1.#inf": float("inf")}
_NO_VERTEX = -1


@dataclass
class _Parsed:
    coordinates: list[float] = field(default_factory=list)
    corners: list[int] = field(default_factory=list)
    corner_counts: list[int] = field(default_factory=list)
    face_lines: list[int] = field(default_factory=list)
    short_faces: list[int] = field(default_factory=list)
    understood: int = 0
    unknown: dict[str, int] = field(default_factory=dict)


def read_obj(path: Path, data: bytes) -> Scene:
    """Read an OBJ file as one opaque triangle geometry placed once.

    Polygons are split as fans; faces with fewer than three corners or with a vertex that is not there are dropped with
    a warning. Raises FileFormatError for a file that is not text, has no OBJ statement, or a number that is none.
    """
    parsed = _parse(path, _text(path, data))
    warnings: list[str] = []
    if parsed.short_faces:
        named = places([f"line {line}" for line in parsed.short_faces])
        warnings.append(f"{path.name}: face(s) with fewer than 3 corners were dropped: {named}")
    if parsed.unknown:
        named = places([f"{word!r} in line {line}" for word, line in parsed.unknown.items()])
        warnings.append(f"{path.name}: unknown statement(s) were stepped over: {named}")
    vertices = float32_positions(parsed.coordinates)
    triangles, face = fan_triangles(np.array(parsed.corners, np.int64), np.array(parsed.corner_counts, np.int64))
    lines = parsed.face_lines
    indices, kept = keep_triangles_in_range(
        triangles, len(vertices), lambda k: f"line {lines[face[k]]}", warnings, path.name
    )
    vertices = deactivate_partial_nan(vertices, indices, lambda k: f"line {lines[face[kept[k]]]}", warnings, path.name)
    return single_mesh_scene(opaque_triangles(vertices, indices, path.stem), path.stem, str(path), warnings)


def _text(path: Path, data: bytes) -> str:
    """Decode by byte order mark, else as UTF-8 with replacements: only names can hold anything but ASCII."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, errors="replace")
    if b"\0" in data:
        offset = data.index(b"\0")
        raise FileFormatError(path, "not an OBJ text file", offset=offset, expected="text", found="a zero byte")
    return data.decode("utf-8", errors="replace")


def _parse(path: Path, text: str) -> _Parsed:
    parsed = _Parsed()
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    continued = "\\\n" in text
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        line, first = lines[number], number + 1
        number += 1
        if continued:
            parts = [line]
            while parts[-1].endswith("\\") and number < len(lines):
                parts[-1] = parts[-1][:-1] + " "
                parts.append(lines[number])
                number += 1
            line = "".join(parts)
        if "#" in line and "1.#" not in line:
            line = line[: line.index("#")]
        words = line.split()
        if words and not words[0].startswith("#"):
            _statement(path, parsed, words, first)
    if not parsed.understood and text.strip(" \n\t\0\ufeff") and not _is_comment_only(lines):
        raise FileFormatError(path, "no OBJ statement in it", expected="lines like 'v 0 0 0' and 'f 1 2 3'")
    return parsed


def _is_comment_only(lines: list[str]) -> bool:
    return all(not line.strip() or line.lstrip().startswith("#") for line in lines)


def _statement(path: Path, parsed: _Parsed, words: list[str], line: int) -> None:
    keyword = words[0]
    if keyword == "v":
        parsed.understood += 1
        if len(words) < 4:
            raise FileFormatError(path, f"line {line}: a vertex needs x, y and z", expected=3, found=len(words) - 1)
        try:
            parsed.coordinates += [float(words[1]), float(words[2]), float(words[3])]
        except ValueError:
            parsed.coordinates += [_number(path, word, line) for word in words[1:4]]
    elif keyword in ("f", "fo"):
        parsed.understood += 1
        _face(path, parsed, words, line)
    elif keyword in STEPPED_OVER:
        parsed.understood += 1
    else:
        parsed.unknown.setdefault(keyword[:40], line)


def _number(path: Path, word: str, line: int) -> float:
    """A number, also in the spelling that older C libraries gave infinities and NaN (``-1.#IND``)."""
    try:
        return float(word)
    except ValueError:
        sign = -1.0 if word.startswith("-") else 1.0
        value = _MICROSOFT_TOKENS.get(word.lstrip("+-").lower().rstrip("0") if "#" in word else "")
        if value is None:
            raise FileFormatError(path, f"line {line}: not a number", expected="a number", found=word[:40]) from None
        return sign * value


def _face(path: Path, parsed: _Parsed, words: list[str], line: int) -> None:
    vertex_count = len(parsed.coordinates) // 3
    try:
        numbers = [int(word if "/" not in word else word[: word.index("/")]) for word in words[1:] if word[0] != "#"]
    except ValueError:
        found = " ".join(words[1:])[:60]
        expected = "corners like 7, 7/1, 7//3 or 7/1/3"
        raise FileFormatError(path, f"line {line}: not a face", expected=expected, found=found) from None
    if len(numbers) < 3:
        parsed.short_faces.append(line)
        return
    # Positive numbers count from 1; negative ones count back from the vertices read so far; 0 names nothing.
    for value in numbers:
        position = value - 1 if value > 0 else vertex_count + value if value < 0 else _NO_VERTEX
        parsed.corners.append(position if 0 <= position < 1 << 32 else _NO_VERTEX)
    parsed.corner_counts.append(len(numbers))
    parsed.face_lines.append(line)
