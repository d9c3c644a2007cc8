"""Whether the arrays of build inputs have the shapes and dtypes that `dxr.descs` states, before anything reads them."""

from __future__ import annotations

import numpy as np

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, InstanceInputs, TrianglesGeometry
from rtviewer.errors import Violation, violation

_INTEGERS = "iu"


def _of_shape(array: object, shape: tuple[int | None, ...]) -> bool:
    """``None`` in ``shape`` stands for any length."""
    return (
        isinstance(array, np.ndarray)
        and array.ndim == len(shape)
        and all(wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True))
    )


def _is_float32(array: object, shape: tuple[int | None, ...]) -> bool:
    return _of_shape(array, shape) and isinstance(array, np.ndarray) and array.dtype == np.float32


def _is_integer(array: object, shape: tuple[int | None, ...]) -> bool:
    return _of_shape(array, shape) and isinstance(array, np.ndarray) and array.dtype.kind in _INTEGERS


def _found(array: object) -> str:
    return f"{array.shape} {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__


def check_geometry_arrays(inputs: BlasInputs) -> list[Violation]:
    """VF-1, IX-1, GEO-7 and LAY-1: vertices, indices, transform and AABBs are arrays of the stated shape and dtype.

    Looks at shapes and dtypes only, never at content. Until this list is empty nothing else may read the arrays.
    """
    found: list[Violation] = []
    for number, geometry in enumerate(inputs.geometries):
        field = f"Inputs.pGeometryDescs[{number}]"
        if isinstance(geometry, AabbsGeometry):
            if not _is_float32(geometry.aabbs, (None, 6)):
                found.append(_wrong("LAY-1", "aabbs", "(n, 6) float32", f"{field}.AABBs", geometry.aabbs))
        elif isinstance(geometry, TrianglesGeometry):
            place = f"{field}.Triangles"
            if not _is_float32(geometry.vertices, (None, 3)):
                found.append(_wrong("VF-1", "vertices", "(n, 3) float32", f"{place}.VertexBuffer", geometry.vertices))
            if geometry.indices is not None and not _is_integer(geometry.indices, (None, 3)):
                found.append(_wrong("IX-1", "indices", "(n, 3) uint32", f"{place}.IndexBuffer", geometry.indices))
            if geometry.transform is not None and not _is_float32(geometry.transform, (3, 4)):
                found.append(
                    _wrong("GEO-7", "transform", "(3, 4) float32", f"{place}.Transform3x4", geometry.transform)
                )
        else:
            text = "a geometry is a TrianglesGeometry or an AabbsGeometry"
            found.append(violation("BLD-2", text, field=field, value=type(geometry).__name__))
    return sorted(found)


def check_instance_arrays(instances: InstanceInputs) -> list[Violation]:
    """INST-1 and ERR-5: the columns of a table of instances have the stated shapes and dtypes, and equal lengths."""
    found: list[Violation] = []
    if not _is_float32(instances.transform, (None, 3, 4)):
        found.append(_wrong("INST-1", "transform", "(n, 3, 4) float32", "InstanceDescs.Transform", instances.transform))
    count = (
        len(instances.transform) if isinstance(instances.transform, np.ndarray) and instances.transform.ndim else None
    )
    for name in ("instance_id", "mask", "contribution", "flags", "blas_address"):
        column = getattr(instances, name)
        if not _is_integer(column, (count,)):
            found.append(_wrong("ERR-5", name, f"integers, one for each instance ({count})", "InstanceDescs", column))
    return sorted(found)


def _wrong(rule: str, name: str, legal: str, field: str, array: object) -> Violation:
    return violation(rule, f"{name} must be an array of {legal}", field=field, value=_found(array))
