"""Structures as files hold them: a top level with its bottom levels, names, cameras, programs, and the manifest.

Captures and folders differ only in where the manifest and the blobs lie; both are read and written here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import BuildFlag
from rtviewer.dxr.layouts import SERIALIZED_HEADER1
from rtviewer.dxr.limits import ACCELERATION_STRUCTURE_BYTE_ALIGNMENT, SHADER_RECORD_BYTE_ALIGNMENT
from rtviewer.dxr.programs import (
    AnyHitChoice,
    AnyHitProgram,
    IntersectionChoice,
    IntersectionProgram,
    named_by_user,
    program_name,
)
from rtviewer.dxr.shader_table import HitGroupTable
from rtviewer.errors import FileFormatError, RtviewerError
from rtviewer.io.blob_file import BLOB_SUFFIX
from rtviewer.io.scene_models import HitGroupModel, HitGroups, HitGroupStride, hit_group_table
from rtviewer.scene.camera import Camera

MANIFEST = "manifest.json"
FORMAT = "rtviewer structures"
FORMAT_VERSION = 1
HIT_GROUPS_VERSION = 2
"""Of a manifest with a hit-group table; one without stays what the first version was."""
MAX_MANIFEST_BYTES = 64 << 20
MAX_STRUCTURES = 1 << 16
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\.rtblob")


@dataclass(frozen=True, eq=False)
class StructureSet:
    """A top level, the bottom levels at the addresses its instances name, and what a picture of them needs.

    ``tlas`` is None where a file holds a bottom level alone. ``instance_names``: one per instance, or none at all;
    ``geometry_names``: per bottom level one per geometry, or none. ``blas_flags``, ``tlas_flags``: asked for in the
    last build.
    """

    name: str
    tlas: Structure | None
    blases: tuple[Structure, ...]
    instance_names: tuple[str, ...] = ()
    geometry_names: tuple[tuple[str, ...], ...] = ()
    cameras: tuple[Camera, ...] = ()
    any_hit: AnyHitChoice = AnyHitProgram.ACCEPT
    intersection: IntersectionChoice = IntersectionProgram.SPHERE
    blas_flags: BuildFlag = BuildFlag.NONE
    tlas_flags: BuildFlag = BuildFlag.NONE
    warnings: tuple[str, ...] = ()
    hit_groups: HitGroupTable | None = None

    @property
    def structures(self) -> tuple[Structure, ...]:
        """The top level, if there is one, then the bottom levels."""
        return (self.tlas, *self.blases) if self.tlas is not None else self.blases


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False, allow_inf_nan=False)


class StructureEntry(_Strict):
    name: str
    file: str
    level: str = Field(pattern="^(top|bottom)$")
    address: int = Field(ge=0, lt=1 << 63)
    size: int = Field(ge=0)
    geometries: list[str] = []

    @field_validator("file")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not FILE_NAME.fullmatch(value):
            raise ValueError("a plain file name that ends in .rtblob is needed")
        return value

    @field_validator("address")
    @classmethod
    def _aligned(cls, value: int) -> int:
        if value % ACCELERATION_STRUCTURE_BYTE_ALIGNMENT:
            raise ValueError("[ALIGN-9] an address is a multiple of 256")
        return value


class CameraEntry(_Strict):
    name: str = ""
    position: tuple[float, float, float]
    look_at: tuple[float, float, float]
    up: tuple[float, float, float]
    vertical_fov: float = Field(gt=0, lt=180)
    orthographic_height: float | None = Field(default=None, gt=0)


class BuildEntry(_Strict):
    blas_flags: int = Field(ge=0, lt=1 << 32)
    tlas_flags: int = Field(ge=0, lt=1 << 32)


HIT_GROUP_KEYS = ("hit_groups", "hit_group_stride")


class Manifest(_Strict):
    """``manifest.json``. ``structures``: at most one top level, first; bottom levels in address order."""

    format: str
    version: int
    name: str
    structures: list[StructureEntry] = Field(max_length=MAX_STRUCTURES)
    instances: list[str] = []
    cameras: list[CameraEntry] = []
    any_hit: str = "ACCEPT"
    intersection: str = "SPHERE"
    build: BuildEntry = BuildEntry(blas_flags=0, tlas_flags=0)
    hit_groups: HitGroups | None = None
    hit_group_stride: HitGroupStride = SHADER_RECORD_BYTE_ALIGNMENT

    @field_validator("any_hit")
    @classmethod
    def _any_hit(cls, value: str) -> str:
        return _member(AnyHitProgram, value)

    @field_validator("intersection")
    @classmethod
    def _intersection(cls, value: str) -> str:
        return _member(IntersectionProgram, value)


def _member(kind: type[AnyHitProgram] | type[IntersectionProgram], name: str) -> str:
    if named_by_user(name) is None and name not in kind.__members__:
        raise ValueError(f"there is no program {name!r}: use one of {', '.join(kind.__members__)}")
    return name


# --- writing ------------------------------------------------------------------------------------------------------


def manifest_of(content: StructureSet) -> bytes:
    """``manifest.json`` of a set; the same set gives the same bytes.

    Raises RtviewerError for more structures than a manifest may list, and for values that a reader would refuse.
    """
    if len(content.structures) > MAX_STRUCTURES:
        count = len(content.structures)
        raise RtviewerError(f"{count:,} structures cannot be written: a manifest lists at most {MAX_STRUCTURES:,}")
    try:
        manifest = _manifest(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RtviewerError(f"{content.name} cannot be written: {error.title}.{place}: {first['msg']}") from error
    without = set() if content.hit_groups is not None else set(HIT_GROUP_KEYS)
    return (json.dumps(manifest.model_dump(exclude=without), indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _manifest(content: StructureSet) -> Manifest:
    names = content.geometry_names or ((),) * len(content.blases)
    hit_groups = content.hit_groups
    geometries = [*([()] if content.tlas is not None else []), *names]
    return Manifest(
        format=FORMAT,
        version=FORMAT_VERSION if hit_groups is None else HIT_GROUPS_VERSION,
        name=content.name,
        structures=[
            StructureEntry(
                name=structure.name,
                file=file,
                level="top" if structure.is_top_level else "bottom",
                address=structure.address,
                size=structure.used_size,
                geometries=list(named) if any(named) else [],
            )
            for structure, file, named in zip(content.structures, file_names(content), geometries, strict=True)
        ],
        instances=list(content.instance_names) if any(content.instance_names) else [],
        cameras=[
            CameraEntry(
                name=c.name, position=c.position, look_at=c.look_at, up=c.up, vertical_fov=c.vertical_fov,
                orthographic_height=c.orthographic_height,
            )
            for c in content.cameras
        ],
        any_hit=program_name(content.any_hit),
        intersection=program_name(content.intersection),
        build=BuildEntry(blas_flags=int(content.blas_flags), tlas_flags=int(content.tlas_flags)),
        hit_groups=None if hit_groups is None else [HitGroupModel.of(record) for record in hit_groups.records],
        hit_group_stride=SHADER_RECORD_BYTE_ALIGNMENT if hit_groups is None else hit_groups.stride,
    )  # fmt: skip


def file_names(content: StructureSet) -> list[str]:
    """One plain file name per structure: its position, then its name as far as file names can hold it."""
    names = []
    for index, structure in enumerate(content.structures):
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", structure.name).strip("-")[:60]
        names.append(f"{index:03}-{plain or 'structure'}{BLOB_SUFFIX}")
    return names


def blobs_of(content: StructureSet) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """File name and serialized bytes of every structure, in the order of ``structures``."""
    from rtviewer.copymode.serialize import serialize

    for file, structure in zip(file_names(content), content.structures, strict=True):
        yield file, serialize(structure)


# --- reading ------------------------------------------------------------------------------------------------------


def read_manifest(path: Path, data: bytes) -> Manifest:
    """Parse and check a manifest. Raises FileFormatError with the field that is wrong."""
    if len(data) > MAX_MANIFEST_BYTES:
        raise FileFormatError(path, "too large for a manifest", expected=f"at most {MAX_MANIFEST_BYTES} bytes")
    try:
        table: Any = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(path, f"not JSON: {error}", field=MANIFEST) from error
    found = table.get("format") if isinstance(table, dict) else None
    if found != FORMAT:
        raise FileFormatError(path, "not a manifest of structures", field="format", expected=FORMAT, found=found)
    version = table.get("version")
    if version not in (FORMAT_VERSION, HIT_GROUPS_VERSION) or isinstance(version, bool):
        expected = f"{FORMAT_VERSION} or {HIT_GROUPS_VERSION}"
        raise FileFormatError(path, "another version", field="version", expected=expected, found=version)
    if version == FORMAT_VERSION and (early := set(HIT_GROUP_KEYS) & set(table)):
        expected = f"version {HIT_GROUPS_VERSION}"
        raise FileFormatError(path, "hit groups in the first version", field=min(early), expected=expected)
    try:
        manifest = Manifest.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise FileFormatError(path, first["msg"].removeprefix("Value error, "), field=field) from error
    _check_entries(path, manifest)
    return manifest


def _check_entries(path: Path, manifest: Manifest) -> None:
    files = [entry.file for entry in manifest.structures]
    if len(set(files)) != len(files):
        double = next(file for file in files if files.count(file) > 1)
        raise FileFormatError(path, "two structures in one file", field="structures", found=double)
    if not files:
        raise FileFormatError(path, "there are no structures", field="structures")
    tops = [index for index, entry in enumerate(manifest.structures) if entry.level == "top"]
    if tops not in ([], [0]):
        raise FileFormatError(path, "one top level at most, and it comes first", field="structures", found=tops)
    if not tops and len(files) > 1:
        raise FileFormatError(path, "several bottom levels need a top level", field="structures", found=len(files))


def set_from(path: Path, manifest: Manifest, read: Callable[[StructureEntry], bytes]) -> StructureSet:
    """Deserialize every structure that a manifest names; ``read`` brings an entry's bytes.

    Raises FileFormatError for a blob that is refused, sizes or levels other than the manifest says, ranges that
    overlap, and instances that name an address where no structure lives (BLD-10).
    """
    structures = [structure_from(path, entry, read(entry)) for entry in manifest.structures]
    tlas = structures[0] if structures[0].is_top_level else None
    blases = tuple(structures[1:] if tlas is not None else structures)
    _check_addresses(path, [*blases, *([tlas] if tlas is not None else [])])
    if tlas is not None:
        check_pointers(path, tlas, blases)
    names = tuple(manifest.instances)
    if tlas is not None and names and len(names) != len(tlas.instance_descs):
        count = len(tlas.instance_descs)
        raise FileFormatError(path, "one name per instance", field="instances", expected=count, found=len(names))
    return StructureSet(
        manifest.name,
        tlas,
        blases,
        names,
        tuple(tuple(entry.geometries) for entry in manifest.structures if entry.level == "bottom"),
        tuple(
            Camera(c.position, c.look_at, c.up, c.vertical_fov, c.orthographic_height, c.name) for c in manifest.cameras
        ),
        named_by_user(manifest.any_hit) or AnyHitProgram[manifest.any_hit],
        named_by_user(manifest.intersection) or IntersectionProgram[manifest.intersection],
        BuildFlag(manifest.build.blas_flags),
        BuildFlag(manifest.build.tlas_flags),
        hit_groups=None
        if manifest.hit_groups is None
        else hit_group_table(manifest.hit_groups, manifest.hit_group_stride),
    )


def structure_from(path: Path, entry: StructureEntry, data: bytes) -> Structure:
    """One structure of a manifest, checked against its entry."""
    structure = deserialized(path, data, name=entry.name, address=entry.address, file=entry.file)
    if structure.is_top_level != (entry.level == "top"):
        found = "top" if structure.is_top_level else "bottom"
        raise FileFormatError(path, "the other level", field=entry.file, expected=entry.level, found=found)
    if structure.size != entry.size:
        raise FileFormatError(path, "another size", field=entry.file, expected=entry.size, found=structure.size)
    if entry.geometries and len(entry.geometries) != len(structure.geometries):
        count = len(structure.geometries)
        raise FileFormatError(path, "one name per geometry", field=entry.file, expected=count)
    return structure


def deserialized(
    path: Path,
    data: bytes,
    *,
    name: str = "",
    address: int = 0,
    pointers: NDArray[np.uint64] | None = None,
    file: str = "",
) -> Structure:
    """Deserialize bytes that came from ``path``; every refusal becomes a FileFormatError that names it."""
    from rtviewer.copymode.deserialize import deserialize

    if len(data) < SERIALIZED_HEADER1.itemsize:
        least = SERIALIZED_HEADER1.itemsize
        raise FileFormatError(path, "the blob is cut short", field=file, expected=f"{least} bytes", found=len(data))
    try:
        return deserialize(np.frombuffer(data, np.uint8), name=name, address=address, pointers=pointers)
    except RtviewerError as error:
        raise FileFormatError(path, str(error), field=file) from error


def _check_addresses(path: Path, structures: list[Structure]) -> None:
    """No structure at address 0 (INST-2), rising bottom levels, no two ranges that overlap."""
    ordered = sorted(structures, key=lambda structure: structure.address)
    end = 1
    for structure in ordered:
        if structure.address < end:
            text = "the ranges of two structures overlap" if structure.address else "a structure cannot live at 0"
            raise FileFormatError(path, text, field=f"{structure.name}.address", found=f"{structure.address:#x}")
        end = structure.address + structure.size


def check_pointers(path: Path, tlas: Structure, blases: tuple[Structure, ...]) -> None:
    """BLD-10: every address that an instance names is one where a bottom level lives."""
    known = {blas.address for blas in blases}
    for address in np.unique(tlas.instance_descs["AccelerationStructure"]):
        if int(address) and int(address) not in known:
            text = "[BLD-10] an instance names an address where no bottom level lives"
            raise FileFormatError(path, text, field="AccelerationStructure", found=f"{int(address):#x}")
