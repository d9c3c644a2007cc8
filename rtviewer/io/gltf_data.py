"""glTF's bytes: GLB chunks, buffers by URI, buffer views, accessors as arrays."""

from __future__ import annotations

import base64
import binascii
import json
import re
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from rtviewer.errors import FileFormatError
from rtviewer.io.bounded_read import read_bytes
from rtviewer.io.gltf_document import Accessor, BufferView, Document, SparseIndices, SparseValues
from rtviewer.io.triangle_input import float32_positions

GLB_MAGIC = b"glTF"
CHUNK_JSON, CHUNK_BIN = 0x4E4F534A, 0x004E4942
COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}
MAX_COUNT_WITHOUT_DATA = 1 << 22
"""An accessor without a buffer view stands for zeros; a longer one could only waste memory."""
MAX_DECODED_BYTES = 2 << 30
"""Sum over all positions and triangles, so that many references to one buffer cannot exhaust memory."""
MAX_JSON_BYTES = 512 << 20
MESHOPT = ("EXT_meshopt_compression", "KHR_meshopt_compression")

T = TypeVar("T")


def parse_document(path: Path, data: bytes) -> tuple[Document, bytes | None]:
    """The JSON of a .gltf or .glb as a checked document, and the GLB's binary chunk if there is one.

    Raises FileFormatError for a broken GLB, broken JSON, a version other than 2 and values of a wrong type.
    """
    text, binary = _glb_chunks(path, data) if data[:4] == GLB_MAGIC else (data, None)
    if len(text) > MAX_JSON_BYTES:
        raise FileFormatError(
            path, "the JSON is too large", expected=f"at most {MAX_JSON_BYTES} bytes", found=len(text)
        )
    try:
        table = json.loads(text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise FileFormatError(path, "the JSON is not UTF-8", offset=error.start) from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(path, f"not glTF JSON: {error}") from error
    if not isinstance(table, dict) or "asset" not in table:
        raise FileFormatError(path, "not a glTF document", field="asset", expected="an object with 'asset'")
    try:
        document = Document.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = " ".join(".".join(str(part) for part in first["loc"]).split())
        found = " ".join(str(first.get("input"))[:60].split())
        raise FileFormatError(path, first["msg"], field=field, found=found) from error
    if not document.asset.version.startswith("2."):
        raise FileFormatError(
            path, "only glTF 2 is read", field="asset.version", expected="2.0", found=document.asset.version[:20]
        )
    return document, binary


def _glb_chunks(path: Path, data: bytes) -> tuple[bytes, bytes | None]:
    if len(data) < 20:
        raise FileFormatError(path, "the GLB header is cut short", expected="at least 20 bytes", found=len(data))
    version, length = (int(v) for v in np.frombuffer(data, "<u4", 2, 4))
    if version != 2:
        raise FileFormatError(path, "only GLB 2 is read", offset=4, field="version", expected=2, found=version)
    if length > len(data):
        raise FileFormatError(
            path, "the file is cut short", offset=8, field="length", expected=f"{length} bytes", found=len(data)
        )
    chunks: dict[int, bytes] = {}
    offset = 12
    while offset + 8 <= length:
        size, kind = (int(v) for v in np.frombuffer(data, "<u4", 2, offset))
        if offset + 8 + size > length:
            raise FileFormatError(
                path, "a chunk runs past the end of the file", offset=offset, field="chunk length",
                expected=f"at most {length - offset - 8}", found=size,
            )  # fmt: skip
        if offset == 12 and kind != CHUNK_JSON:
            raise FileFormatError(path, "the first chunk must be JSON", offset=16, found=f"{kind:#x}")
        chunks.setdefault(kind, data[offset + 8 : offset + 8 + size])
        offset += 8 + (size + 3) // 4 * 4
    return chunks.get(CHUNK_JSON, b""), chunks.get(CHUNK_BIN)


def item(path: Path, items: list[T], index: int, field: str, place: str) -> T:
    """``items[index]``, or FileFormatError that says who asked for what is not there."""
    if index >= len(items):
        raise FileFormatError(path, f"{place} refers to {field} {index}, there are {len(items)}", field=field)
    return items[index]


class GltfData:
    """Accessors of one document as arrays, each decoded once."""

    def __init__(self, path: Path, document: Document, binary: bytes | None) -> None:
        self.path, self.document, self.binary = path, document, binary
        self._buffers: dict[int, bytes] = {}
        self._arrays: dict[int, NDArray[Any]] = {}
        self._positions: dict[int, NDArray[np.float32]] = {}
        self._decoded_bytes = 0

    def charge(self, size: int, place: str) -> None:
        """Count ``size`` bytes about to be made; FileFormatError when all together are too many."""
        self._decoded_bytes += size
        if self._decoded_bytes > MAX_DECODED_BYTES:
            message = "all accessors together are too large"
            expected = f"at most {MAX_DECODED_BYTES} bytes"
            raise FileFormatError(self.path, message, field=place, expected=expected, found=self._decoded_bytes)

    def positions(self, index: int, place: str) -> NDArray[np.float32]:
        """(n, 3) float32 of a POSITION accessor; primitives that share the accessor share the array."""
        if index not in self._positions:
            raw = self.array(index, place, ("VEC3",))
            if raw.dtype.kind in "iu" and raw.dtype.itemsize > 2:
                message = "positions must be float or, by KHR_mesh_quantization, 8 or 16 bit integers"
                raise self._error(index, message, "componentType", [5120, 5121, 5122, 5123, 5126], str(raw.dtype))
            self.charge(12 * len(raw), f"accessors.{index}.count")
            values = raw if raw.dtype.kind == "f" else self.floats(index, place, ("VEC3",))
            self._positions[index] = float32_positions(values)
        return self._positions[index]

    def array(self, index: int, place: str, kinds: tuple[str, ...]) -> NDArray[Any]:
        """Accessor ``index`` as (count, components) of its own component type, sparse values applied.

        ``kinds``: the accessor types that are legal here, like ``("VEC3",)``. The array may be a view: do not write to
        it.
        """
        accessor = item(self.path, self.document.accessors, index, "accessor", place)
        if accessor.type not in kinds:
            raise self._error(index, "wrong type", "type", " or ".join(kinds), accessor.type[:20])
        if accessor.component_type not in COMPONENTS:
            raise self._error(
                index, "unknown component type", "componentType", list(COMPONENTS), accessor.component_type
            )
        if index not in self._arrays:
            self._arrays[index] = self._decode(index, accessor)
        return self._arrays[index]

    def floats(self, index: int, place: str, kinds: tuple[str, ...]) -> NDArray[np.float64]:
        """Like :meth:`array`, as float64 with normalized integers divided out (KHR_mesh_quantization)."""
        values = self.array(index, place, kinds)
        result = values.astype(np.float64)
        if self.document.accessors[index].normalized and values.dtype.kind in "iu":
            result /= float(np.iinfo(values.dtype).max)
            if values.dtype.kind == "i":
                np.maximum(result, -1.0, out=result)
        return result

    def has_data(self, index: int, place: str) -> bool:
        """Whether an accessor brings bytes of its own; without, it stands for zeros."""
        return item(self.path, self.document.accessors, index, "accessor", place).buffer_view is not None

    def _error(self, index: int, message: str, field: str, expected: object, found: object) -> FileFormatError:
        return FileFormatError(self.path, message, field=f"accessors.{index}.{field}", expected=expected, found=found)

    def _decode(self, index: int, accessor: Accessor) -> NDArray[Any]:
        kind, width = np.dtype(COMPONENTS[accessor.component_type]), WIDTHS[accessor.type]
        place = f"accessors.{index}"
        if accessor.buffer_view is None:
            if accessor.count > MAX_COUNT_WITHOUT_DATA:
                expected = f"at most {MAX_COUNT_WITHOUT_DATA} elements without data"
                raise self._error(index, "too long for an accessor without data", "count", expected, accessor.count)
            values = np.zeros((accessor.count, width), kind)
        else:
            values = self._elements(accessor.buffer_view, accessor.byte_offset, accessor.count, width, kind, place)
        return values if accessor.sparse is None else self._with_sparse(index, accessor, values)

    def _with_sparse(self, index: int, accessor: Accessor, base: NDArray[Any]) -> NDArray[Any]:
        sparse = accessor.sparse
        assert sparse is not None
        if sparse.count > accessor.count:
            raise self._error(index, "more sparse values than elements", "sparse.count", accessor.count, sparse.count)
        if sparse.indices.component_type not in (5121, 5123, 5125):
            found = sparse.indices.component_type
            raise self._error(index, "unknown type", "sparse.indices.componentType", "5121, 5123 or 5125", found)
        place = f"accessors.{index}.sparse"
        rows = self._sparse_part(
            sparse.indices, sparse.count, 1, np.dtype(COMPONENTS[sparse.indices.component_type]), place
        )
        values = self._sparse_part(sparse.values, sparse.count, base.shape[1], base.dtype, place)
        positions = rows[:, 0].astype(np.int64)
        if len(positions) and int(positions.max()) >= accessor.count:
            found = int(positions.max())
            raise self._error(index, "names an element that is not there", "sparse.indices", accessor.count - 1, found)
        patched = base.copy()
        patched[positions] = values
        return patched

    def _sparse_part(
        self, part: SparseIndices | SparseValues, count: int, width: int, kind: np.dtype[Any], place: str
    ) -> NDArray[Any]:
        return self._elements(part.buffer_view, part.byte_offset, count, width, kind, place)

    def _elements(
        self, view_index: int, first: int, count: int, width: int, kind: np.dtype[Any], place: str
    ) -> NDArray[Any]:
        view = item(self.path, self.document.buffer_views, view_index, "bufferView", place)
        size = kind.itemsize * width
        stride = view.byte_stride or size
        needed = first + (count - 1) * stride + size if count else 0
        if needed > view.byte_length:
            raise FileFormatError(
                self.path, "more elements than its buffer view holds", field=place,
                expected=f"at most {view.byte_length} bytes", found=needed,
            )  # fmt: skip
        data = self._buffer(view, view_index)
        if view.byte_offset + view.byte_length > len(data):
            raise FileFormatError(
                self.path, "runs past the end of its buffer", field=f"bufferViews.{view_index}",
                expected=f"at most {len(data)} bytes", found=view.byte_offset + view.byte_length,
            )  # fmt: skip
        if not count:
            return np.empty((0, width), kind)
        strides = (stride, kind.itemsize)
        return np.ndarray((count, width), kind, data, view.byte_offset + first, strides)  # a view: nothing is copied

    def _buffer(self, view: BufferView, view_index: int) -> bytes:
        index = view.buffer
        buffer = item(self.path, self.document.buffers, index, "buffer", f"bufferViews.{view_index}")
        compressed = next((name for name in MESHOPT if name in view.extensions), None)
        if compressed and (buffer.uri is None and not (index == 0 and self.binary)):
            raise FileFormatError(self.path, f"{compressed} is not supported; save the file without it")
        if index not in self._buffers:
            data = self._load_buffer(index, buffer.uri, buffer.byte_length)
            self._buffers[index] = data
        return self._buffers[index]

    def view_bytes(self, index: int, place: str) -> bytes:
        """The bytes of a buffer view, as an image has them."""
        view = item(self.path, self.document.buffer_views, index, "bufferView", place)
        data = self._buffer(view, index)
        if view.byte_offset + view.byte_length > len(data):
            raise FileFormatError(
                self.path, "runs past the end of its buffer", field=f"bufferViews.{index}",
                expected=f"at most {len(data)} bytes", found=view.byte_offset + view.byte_length,
            )  # fmt: skip
        return data[view.byte_offset : view.byte_offset + view.byte_length]

    def file_or_data(self, uri: str, field: str) -> bytes:
        """What a URI names: base64 data in it, or a file beside the document."""
        return self._data_uri(uri, field) if uri[:5].lower() == "data:" else self._file_beside(uri, field)

    def _load_buffer(self, index: int, uri: str | None, length: int) -> bytes:
        field = f"buffers.{index}"
        if uri is None:
            if index != 0 or self.binary is None:
                raise FileFormatError(self.path, "has neither a URI nor a GLB binary chunk", field=field)
            data = self.binary
        elif uri[:5].lower() == "data:":
            data = self._data_uri(uri, field)
        else:
            return self._file_beside(uri, field, length)[:length]
        if len(data) < length:
            raise FileFormatError(
                self.path, "the buffer is cut short", field=field, expected=f"{length} bytes", found=len(data)
            )
        return data[:length] if len(data) > length else data

    def _data_uri(self, uri: str, field: str) -> bytes:
        head, comma, payload = uri.partition(",")
        if not comma or not head.lower().endswith(";base64"):
            raise FileFormatError(self.path, "only base64 data URIs are read", field=field, found=head[:60])
        try:
            return base64.b64decode(unquote(payload), validate=True)
        except (binascii.Error, ValueError) as error:
            raise FileFormatError(self.path, f"the data URI is not base64: {error}", field=field) from error

    def _file_beside(self, uri: str, field: str, minimum: int = 0) -> bytes:
        """A file beside the document. The URI may be percent-encoded or plain; both spellings are tried."""
        if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", uri) or uri.startswith(("/", "\\")):
            raise FileFormatError(self.path, "only files beside the document are read", field=field, found=uri[:80])
        candidates = [self.path.parent / unquote(uri), self.path.parent / uri]
        file = next((c for c in candidates if _exists(c)), candidates[0])
        try:
            return read_bytes(file, minimum=minimum)
        except FileFormatError as error:
            kind = "buffer" if field.startswith("buffers") else "image"
            raise FileFormatError(self.path, f"{kind} file: {error}", field=field) from error


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
