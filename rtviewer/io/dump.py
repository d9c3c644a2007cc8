"""Dumps (``.rtdump``): a tools-visualization buffer of any driver, as its bytes lie in memory. Becomes a scene.

A decode holds build inputs, so a dump is built here like any other scene: what is shown is the driver's geometry in
this tool's tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.descs import BlasInputs, Geometry, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import InstanceFlag
from rtviewer.errors import FileFormatError
from rtviewer.io.bottom_level_files import BottomLevelFile, matched_files
from rtviewer.io.bounded_read import read_bytes
from rtviewer.io.image_file import replaced
from rtviewer.io.triangle_input import deactivate_partial_nan
from rtviewer.scene.scene import Instance, Scene

if TYPE_CHECKING:
    from rtviewer.copymode.read_decode import DecodedBlas, DecodedTlas

DUMP_SUFFIX = ".rtdump"
HEADER_SIZE = 8


def write_dump(path: Path, decoded: NDArray[np.uint8]) -> None:
    """Write a tools-visualization buffer; whole or not at all. Raises RtviewerError when the file system refuses."""
    with replaced(path) as temporary, temporary.open("wb") as file:
        file.write(np.ascontiguousarray(decoded).data)


def read_dump(path: Path, base_address: int | None = None, bottom_levels: Sequence[BottomLevelFile] = ()) -> Scene:
    """A bottom level's dump as a scene with one instance; a top level's with the dumps of its bottom levels.

    ``base_address``: the GPU address that the buffer had in the application, inferred from its descs when None; it is
    about ``path``, bottom levels of a top level infer theirs. ``bottom_levels``: one dump per address that the
    instances name.

    Raises FileFormatError for what is not a legal decode, and for files that do not match.
    """
    from rtviewer.copymode.read_decode import DecodedTlas

    decoded = read_decoded(path, base_address)
    if isinstance(decoded, DecodedTlas):
        return _with_bottom_levels(path, decoded.instance_inputs(), bottom_levels)
    if bottom_levels:
        raise FileFormatError(path, "this dump is a bottom level, which has none below; --blas is of no use")
    warnings: list[str] = []
    blas = _blas_inputs(path, decoded, warnings)
    return Scene(path.stem, (blas,), (Instance(0),), warnings=tuple(warnings), source=str(path))


def read_decoded(path: Path, base_address: int | None = None) -> DecodedTlas | DecodedBlas:
    """The checked content of a dump. Raises FileFormatError with the place for what is not a legal decode."""
    from rtviewer.copymode.read_decode import read_decode

    return read_decode(np.frombuffer(read_bytes(path, minimum=HEADER_SIZE), np.uint8), base_address, name=str(path))


def _blas_inputs(path: Path, decoded: DecodedBlas, warnings: list[str]) -> BlasInputs:
    """Legal inputs: a primitive with a NaN where none may be becomes inactive (INA-3)."""
    if not decoded.is_base_certain:
        warnings.append(
            f"{path.name}: several base addresses fit, {decoded.base_address:#x} was taken; --base-address says which"
        )
    geometries: list[Geometry] = []
    for index, geometry in enumerate(decoded.geometries):
        place = f"{path.name}: geometry {index}"
        if isinstance(geometry, TrianglesGeometry):
            vertices = deactivate_partial_nan(
                geometry.vertices, geometry.indices, lambda k: f"triangle {k}", warnings, place
            )
            geometries.append(replace(geometry, vertices=vertices))
        else:
            geometries.append(replace(geometry, aabbs=deactivate_partial_nan_boxes(geometry.aabbs, warnings, place)))
    return BlasInputs(tuple(geometries), path.stem)


def deactivate_partial_nan_boxes(aabbs: NDArray[np.float32], warnings: list[str], place: str) -> NDArray[np.float32]:
    """(n, 6) float32: where MinX is a number and another value is not, MinX becomes NaN (INA-2), with a warning."""
    partial = np.isnan(aabbs).any(axis=1) & ~np.isnan(aabbs[:, 0])
    if not partial.any():
        return aabbs
    warnings.append(f"{place}: {int(partial.sum())} box(es) with a NaN beyond MinX are inactive [INA-2] [INA-3]")
    changed = aabbs.copy()
    changed[partial, 0] = np.nan
    return changed


def _with_bottom_levels(path: Path, instances: InstanceInputs, bottom_levels: Sequence[BottomLevelFile]) -> Scene:
    from rtviewer.copymode.read_decode import DecodedTlas

    position: dict[int, int] = {0: -1}
    blases: list[BlasInputs] = []
    warnings: list[str] = []
    for address, file in matched_files(path, instances.blas_address, bottom_levels).items():
        decoded = read_decoded(file)
        if isinstance(decoded, DecodedTlas):
            raise FileFormatError(file, "the dump of a top level where one of a bottom level is needed")
        position[address] = len(blases)
        blases.append(_blas_inputs(file, decoded, warnings))
    placed = tuple(
        Instance(
            position[int(instances.blas_address[index])],
            instances.transform[index],
            int(instances.instance_id[index]),
            int(instances.mask[index]),
            int(instances.contribution[index]),
            InstanceFlag(int(instances.flags[index])),
        )
        for index in range(len(instances))
    )
    return Scene(path.stem, tuple(blases), placed, warnings=tuple(warnings), source=str(path))
