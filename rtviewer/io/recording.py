"""Recordings of another tracer: a scene with its rays (``scenes/NAME.npz``) and its answers (``results/NAME.npz``).

The schema is that of ``tests/golden/driver``, described there. Files are numpy archives without pickles; nothing in
them is trusted.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, Geometry, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag
from rtviewer.dxr.formats import IndexFormat, VertexFormat
from rtviewer.dxr.shader_table import ABSENT, AS_GIVEN, HitGroup, HitGroupTable, HitGroupType
from rtviewer.dxr.vertex_data import decode_vertices
from rtviewer.errors import FileFormatError, InvalidInputError
from rtviewer.io.bounded_read import read_bytes
from rtviewer.trace.request import RayBatch, TraceSettings

MAX_ARCHIVE_BYTES = 1 << 28
MAX_UNPACKED_BYTES = 1 << 30

VERTEX_FORMATS = {
    "float3": VertexFormat.R32G32B32_FLOAT,
    "float2": VertexFormat.R32G32_FLOAT,
    "half4": VertexFormat.R16G16B16A16_FLOAT,
    "half2": VertexFormat.R16G16_FLOAT,
    "snorm16x4": VertexFormat.R16G16B16A16_SNORM,
    "snorm16x2": VertexFormat.R16G16_SNORM,
}
INDEX_FORMATS = {"u16": IndexFormat.R16_UINT, "u32": IndexFormat.R32_UINT, "none": IndexFormat.UNKNOWN}

_TRIANGLES, _PROCEDURAL = HitGroupType.TRIANGLES, HitGroupType.PROCEDURAL_PRIMITIVE
GROUP_TYPES = (
    HitGroup(_TRIANGLES, AS_GIVEN, ABSENT, True),
    HitGroup(_PROCEDURAL, AS_GIVEN, AS_GIVEN, True),
    HitGroup(_TRIANGLES, ABSENT, ABSENT, True),
    HitGroup(_TRIANGLES, AS_GIVEN, ABSENT, False),
    HitGroup(_TRIANGLES, ABSENT, ABSENT, False),
    HitGroup(_PROCEDURAL, ABSENT, AS_GIVEN, False),
    HitGroup(HitGroupType.NULL, ABSENT, ABSENT, False),
    HitGroup(_PROCEDURAL, ABSENT, AS_GIVEN, True),
    HitGroup(_PROCEDURAL, AS_GIVEN, AS_GIVEN, False),
)
"""The hit group of each number in ``sbt_group_type``."""


@dataclass(frozen=True)
class SceneState:
    """What structures are built from.

    ``blas_of`` (n,) int32: per instance the position in ``blases``, -1 for none; addresses in ``instances`` agree with
    ``address_of``.
    """

    blases: tuple[BlasInputs, ...]
    instances: InstanceInputs
    blas_of: NDArray[np.int32]


@dataclass(frozen=True)
class Recording:
    """Inputs of one recorded scene.

    ``second``: the state to which an update leads, None where there is none. ``settings.hit_groups`` is the recorded
    table; ``record_user`` (records,) uint32, the number that each record carries.
    """

    name: str
    description: str
    tags: frozenset[str]
    first: SceneState
    second: SceneState | None
    rays: RayBatch
    settings: TraceSettings
    record_user: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.rays)

    @property
    def records(self) -> tuple[HitGroup, ...]:
        return self.settings.hit_groups.records if self.settings.hit_groups is not None else ()

    @property
    def in_second_state(self) -> Recording:
        """The same rays in the second state. Raises ValueError where there is none."""
        if self.second is None:
            raise ValueError(f"{self.name} has no second state")
        return replace(self, first=self.second, second=None)


def address_of(blas: int) -> int:
    """The simulated address of a recording's BLAS; 0 for none (-1)."""
    return (blas + 1) * 256


class Archive:
    """Arrays of an npz file, checked as they are taken out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        data = read_bytes(path, limit=MAX_ARCHIVE_BYTES)
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                unpacked = sum(entry.file_size for entry in archive.infolist())
                if unpacked > MAX_UNPACKED_BYTES:
                    raise FileFormatError(path, "unpacks to too much", expected=MAX_UNPACKED_BYTES, found=unpacked)
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                self._arrays: dict[str, NDArray[Any]] = {name: arrays[name] for name in arrays.files}
        except FileFormatError:
            raise
        except Exception as error:  # numpy parses headers as Python text, and a damaged one can raise anything
            raise FileFormatError(path, f"not a numpy archive of plain arrays: {error}") from error

    def __contains__(self, key: str) -> bool:
        return key in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def take(self, key: str, dtype: type[np.generic], *shape: int | None) -> NDArray[Any]:
        """The array ``key`` as contiguous ``dtype``; None in ``shape`` stands for any length.

        Raises FileFormatError for a missing array, another shape, or values that ``dtype`` cannot hold.
        """
        if key not in self._arrays:
            raise FileFormatError(self.path, "array is missing", field=key)
        array = self._arrays[key]
        fits = array.ndim == len(shape) and all(
            want is None or want == have for want, have in zip(shape, array.shape, strict=True)
        )
        if not fits:
            wanted = tuple("n" if want is None else want for want in shape)
            raise FileFormatError(self.path, "array has the wrong shape", field=key, expected=wanted, found=array.shape)
        is_float = np.issubdtype(dtype, np.floating)
        if array.dtype.kind not in ("f" if is_float else "iub"):
            raise FileFormatError(
                self.path, "array has the wrong type", field=key, expected=np.dtype(dtype), found=array.dtype
            )
        if not is_float and array.size:
            low, high, legal = int(array.min()), int(array.max()), np.iinfo(np.dtype(dtype))
            if low < legal.min or high > legal.max:
                legal_text, found = f"{legal.min} to {legal.max}", f"{low} to {high}"
                raise FileFormatError(self.path, "value out of range", field=key, expected=legal_text, found=found)
        return np.ascontiguousarray(array, dtype)

    def raw(self, key: str) -> NDArray[Any]:
        """The array as the file has it. KeyError when it is missing."""
        return self._arrays[key]

    def latest(self, key: str, suffix: str) -> str:
        """``key`` with ``suffix`` where there is such an array, else ``key``."""
        return key + suffix if key + suffix in self else key

    def text(self, key: str) -> str:
        if key not in self._arrays or self._arrays[key].ndim != 0 or self._arrays[key].dtype.kind != "U":
            raise FileFormatError(self.path, "text is missing", field=key)
        return str(self._arrays[key])


def read_recording(path: Path | str) -> Recording:
    """The inputs of a scene file in the recordings' schema.

    Raises FileFormatError naming the array, or the key of ``meta_json``, that is missing or cannot be used.
    """
    archive = Archive(Path(path))
    meta = _meta(archive)
    first = _state(archive, meta, "")
    rays, settings = _rays(archive)
    table, user = _records(archive)
    return Recording(
        name=str(meta.get("name", Path(path).stem)),
        description=str(meta.get("description", "")),
        tags=frozenset(str(tag) for tag in meta.get("tags", ())),
        first=first,
        second=_state(archive, meta, "_update") if meta.get("has_update", False) else None,
        rays=rays,
        settings=replace(settings, hit_groups=table),
        record_user=user,
    )


def _meta(archive: Archive) -> dict[str, Any]:
    try:
        meta = json.loads(archive.text("meta_json"))
        for blas in meta["blas"]:
            for geometry in blas["geometries"]:
                known = geometry["type"] in ("triangles", "aabbs") and isinstance(geometry["flags"], int)
                if geometry["type"] == "triangles":
                    known &= geometry["vertex_format"] in VERTEX_FORMATS and geometry["index_type"] in INDEX_FORMATS
                if not known:
                    raise FileFormatError(archive.path, "geometry cannot be used", field="meta_json", found=geometry)
    except (ValueError, TypeError, KeyError) as error:
        raise FileFormatError(archive.path, f"not as the schema says: {error!r}", field="meta_json") from error
    return meta  # type: ignore[no-any-return]


def _state(archive: Archive, meta: dict[str, Any], suffix: str) -> SceneState:
    """The first state, or with the suffix of its arrays the second: what has no such array stays as it was."""
    blases = tuple(
        BlasInputs(
            tuple(_geometry(archive, f"b{i}g{j}_", g, suffix) for j, g in enumerate(blas["geometries"])), f"blas {i}"
        )
        for i, blas in enumerate(meta["blas"])
    )
    instances, blas_of = _instances(archive, len(blases), suffix)
    return SceneState(blases, instances, blas_of)


def _geometry(archive: Archive, prefix: str, meta: dict[str, Any], suffix: str) -> Geometry:
    flags, name = GeometryFlag(meta["flags"]), prefix.rstrip("_")
    if meta["type"] == "aabbs":
        aabbs = archive.take(archive.latest(prefix + "aabbs", suffix), np.float32, None, 6)
        if suffix:
            _require_length(archive, prefix + "aabbs" + suffix, aabbs, prefix + "aabbs")
        return AabbsGeometry(aabbs, flags, name)
    vertices = archive.take(archive.latest(prefix + "vertices", suffix), np.float32, None, 3)
    if suffix:
        _require_length(archive, prefix + "vertices" + suffix, vertices, prefix + "vertices")
    vertex_format = VERTEX_FORMATS[meta["vertex_format"]]
    if not suffix and prefix + "vertices_raw" in archive:
        _check_raw_vertices(archive, prefix, vertices, vertex_format)
    indices = None
    if prefix + "indices" in archive:
        indices = archive.take(prefix + "indices", np.uint32, None, 3)
        if indices.size and int(indices.max()) >= len(vertices):
            raise FileFormatError(
                archive.path,
                "[GEO-4] index beyond the vertices",
                field=prefix + "indices",
                expected=f"below {len(vertices)}",
                found=int(indices.max()),
            )
    transform = archive.take(prefix + "transform", np.float32, 3, 4) if prefix + "transform" in archive else None
    return TrianglesGeometry(
        vertices, indices, transform, flags, name, vertex_format, INDEX_FORMATS[meta["index_type"]]
    )


def _require_length(archive: Archive, field: str, array: NDArray[Any], first: str) -> None:
    """UPD-8: counts stay."""
    count = len(archive.take(first, np.float32, None, array.shape[1]))
    if len(array) != count:
        text = "[UPD-8] the second state must have as many elements as the first"
        raise FileFormatError(archive.path, text, field=field, expected=count, found=len(array))


def _check_raw_vertices(
    archive: Archive, prefix: str, vertices: NDArray[np.float32], vertex_format: VertexFormat
) -> None:
    """VF-1, VF-2: the bytes that the driver was given are the positions that everything else is compared by."""
    raw = archive.take(prefix + "vertices_raw", np.uint8, len(vertices), None)
    try:
        decoded = decode_vertices(raw.reshape(-1), 0, raw.shape[1], len(raw), vertex_format)
    except InvalidInputError as error:
        raise FileFormatError(archive.path, str(error), field=prefix + "vertices_raw") from error
    if not np.array_equal(decoded, vertices, equal_nan=True):
        differs = (decoded != vertices) & ~(np.isnan(decoded) & np.isnan(vertices))
        at = int(np.flatnonzero(differs.any(axis=1))[0])
        text = f"the bytes of vertex {at} are another position than {prefix}vertices has"
        raise FileFormatError(
            archive.path,
            text,
            field=prefix + "vertices_raw",
            expected=vertices[at].tolist(),
            found=decoded[at].tolist(),
        )


def _instances(archive: Archive, blas_count: int, suffix: str) -> tuple[InstanceInputs, NDArray[np.int32]]:
    def latest(name: str) -> str:
        return archive.latest("instance_" + name, suffix)

    n = len(archive.take("instance_transform", np.float32, None, 3, 4))
    blas_of = archive.take(latest("blas"), np.int32, n)
    if n and (int(blas_of.min()) < -1 or int(blas_of.max()) >= blas_count):
        raise FileFormatError(
            archive.path, "no such BLAS", field=latest("blas"), expected=f"-1 to {blas_count - 1}", found=blas_of.max()
        )
    instances = InstanceInputs(
        archive.take(latest("transform"), np.float32, n, 3, 4),
        archive.take(latest("custom_id"), np.uint32, n),
        archive.take(latest("mask"), np.uint8, n),
        archive.take(latest("sbt_offset"), np.uint32, n),
        archive.take(latest("flags"), np.uint8, n),
        np.array([address_of(int(b)) for b in blas_of], np.uint64),
    )
    return instances, blas_of


def _records(archive: Archive) -> tuple[HitGroupTable, NDArray[np.uint32]]:
    types = archive.take("sbt_group_type", np.uint32, None)
    known = f"0 to {len(GROUP_TYPES) - 1}"
    if not len(types) or int(types.max()) >= len(GROUP_TYPES):
        found = types.max() if len(types) else "no records"
        raise FileFormatError(
            archive.path, "no such hit-group type", field="sbt_group_type", expected=known, found=found
        )
    return HitGroupTable.of([GROUP_TYPES[t] for t in types]), archive.take("sbt_user", np.uint32, len(types))


def _rays(archive: Archive) -> tuple[RayBatch, TraceSettings]:
    origin = archive.take("ray_origin", np.float32, None, 3)
    n = len(origin)
    rays = RayBatch(
        origin,
        archive.take("ray_direction", np.float32, n, 3),
        archive.take("ray_tmin", np.float32, n),
        archive.take("ray_tmax", np.float32, n),
    )
    settings = TraceSettings(
        ray_flags=archive.take("ray_flags", np.uint32, n),
        mask=archive.take("ray_mask", np.uint32, n),
        any_hit=archive.take("ray_anyhit_mode", np.uint32, n),
        intersection=archive.take("ray_intersection_mode", np.uint32, n),
        report_t=archive.take("ray_report_t", np.float32, n),
        ray_contribution=archive.take("ray_sbt_offset", np.uint32, n),
        multiplier=archive.take("ray_sbt_stride", np.uint32, n),
        miss_index=archive.take("ray_miss_index", np.uint32, n),
    )
    return rays, settings


@dataclass(frozen=True)
class RecordedResult:
    """What the recorded tracer answered, one row per ray; -1 or NaN where the shader that tells did not run.

    ``missed``, ``closest_hit_ran`` (n,) bool. ``t`` float32; ``instance``, ``geometry``, ``primitive``,
    ``instance_id``, ``hit_kind``, ``record``, ``record_user``, ``miss_record`` int64; ``attributes`` (n, 2) float32.
    ``any_hit_count`` int64: all any-hit calls, of which the log holds the first 32: ``any_hit_offsets`` (n + 1,) int64,
    ``any_hit_rows`` (m, 4) int64 of instance, geometry, primitive, hit kind, and ``any_hit_records`` (m,) int64.
    ``ray_class`` (n,) uint8: how decided a ray is (bits in the schema).
    """

    missed: NDArray[np.bool_]
    closest_hit_ran: NDArray[np.bool_]
    t: NDArray[np.float32]
    instance: NDArray[np.int64]
    geometry: NDArray[np.int64]
    primitive: NDArray[np.int64]
    instance_id: NDArray[np.int64]
    hit_kind: NDArray[np.int64]
    record: NDArray[np.int64]
    record_user: NDArray[np.int64]
    miss_record: NDArray[np.int64]
    attributes: NDArray[np.float32]
    any_hit_count: NDArray[np.int64]
    any_hit_offsets: NDArray[np.int64]
    any_hit_rows: NDArray[np.int64]
    any_hit_records: NDArray[np.int64]
    ray_class: NDArray[np.uint8]


def recorded_prefixes(path: Path | str) -> list[str]:
    """Prefixes of the complete sets of answers in a result file besides the base set, such as ``state2__``."""
    known = "hit_t"
    return sorted({key.removesuffix(known) for key in Archive(Path(path)) if key.endswith("__" + known)})


def read_recorded_result(path: Path | str, ray_count: int, prefix: str = "") -> RecordedResult:
    """The answers of a result file; ``prefix`` chooses a variant of the arrays, such as ``pipe_skip_aabbs__``.

    Raises FileFormatError for what is missing, or does not fit ``ray_count`` rays.
    """
    archive, n = Archive(Path(path)), ray_count

    def column(name: str) -> NDArray[Any]:
        return archive.take(prefix + name, np.int64, n)

    offsets = archive.take(prefix + "anyhit_log_offset", np.int64, n + 1)
    names = ("instance", "geometry", "primitive", "hit_kind", "sbt_record")
    log = [archive.take(f"{prefix}anyhit_log_{name}", np.int64, None) for name in names]
    if any(len(part) != len(log[0]) for part in log) or int(offsets[-1]) != len(log[0]) or (np.diff(offsets) < 0).any():
        raise FileFormatError(archive.path, "rows and offsets disagree", field=prefix + "anyhit_log_offset")
    own_class = prefix + "derived_ray_class"
    return RecordedResult(
        missed=column("miss_invocations") > 0,
        closest_hit_ran=column("closest_hit_invocations") > 0,
        t=archive.take(prefix + "hit_t", np.float32, n),
        instance=column("instance_index"),
        geometry=column("geometry_index"),
        primitive=column("primitive_index"),
        instance_id=column("instance_custom_id"),
        hit_kind=column("hit_kind"),
        record=column("sbt_record"),
        record_user=column("sbt_user"),
        miss_record=column("miss_record"),
        attributes=archive.take(prefix + "attributes", np.float32, n, 2),
        any_hit_count=column("anyhit_count"),
        any_hit_offsets=offsets,
        any_hit_rows=np.stack(log[:4], axis=1),
        any_hit_records=log[4],
        ray_class=archive.take(own_class if own_class in archive else "derived_ray_class", np.uint8, n),
    )
