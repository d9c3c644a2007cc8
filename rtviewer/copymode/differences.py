"""What a decode shows that its build inputs do not say: what the visualizer exists for [VIS-17]."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtviewer.copymode.read_decode import DecodedBlas, DecodedTlas
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, Geometry, InstanceInputs, TrianglesGeometry
from rtviewer.scene.primitives import (
    degenerate_triangles,
    inactive_boxes,
    inactive_triangles,
    normalised_boxes,
    triangle_corners,
)

MOST_REPORTED = 8
"""Primitives or instances named per geometry and kind of difference."""

TRANSFORM_ROUNDINGS = 4
"""Units in the last place of the largest coordinate that another way of applying a transform may cost."""


def differences(
    decode: DecodedTlas | DecodedBlas, inputs: BlasInputs | InstanceInputs, *, tolerance: float | None = None
) -> list[str]:
    """Sentences about everything in a decode that goes beyond what is allowed [VIS-2 to VIS-8]; empty when it fits.

    ``tolerance``: absolute distance up to which positions count as equal; None asks for equal float32 values, or, in a
    geometry with a transform, for a few units in the last place.
    """
    if isinstance(decode, DecodedTlas):
        if isinstance(inputs, InstanceInputs):
            return _instance_differences(decode.instance_inputs(), inputs)
        return ["the decode is of a top level, the inputs are geometries"]
    if isinstance(inputs, InstanceInputs):
        return ["the decode is of a bottom level, the inputs are instances"]
    found: list[str] = []
    shown, given = decode.geometries, inputs.geometries
    if len(shown) != len(given):
        found.append(f"{len(shown)} geometries in the decode, {len(given)} in the inputs [VIS-3]")
    for index, (a, b) in enumerate(zip(shown, given, strict=False)):
        found += [f"geometry {index}: {text}" for text in _geometry_differences(a, b, tolerance)]
    return found


def _instance_differences(shown: InstanceInputs, given: InstanceInputs) -> list[str]:
    """Instances may be missing at the end where they are inactive [VIS-6]; all others are equal to the bit [VIS-2]."""
    found: list[str] = []
    both = min(len(shown), len(given))
    if len(shown) > len(given):
        found.append(f"{len(shown)} instances in the decode, {len(given)} in the inputs [VIS-2]")
    missing = np.flatnonzero(given.blas_address[both:] != 0) + both
    found += [f"instance {i} is missing [VIS-6]" for i in missing[:MOST_REPORTED]]
    if not both:
        return found
    for field in ("transform", "instance_id", "mask", "contribution", "flags", "blas_address"):
        a = np.ascontiguousarray(getattr(shown, field)[:both]).reshape(both, -1)
        b = np.ascontiguousarray(getattr(given, field)[:both]).astype(a.dtype).reshape(both, -1)
        differ = (a.view(np.uint8) != b.view(np.uint8)).any(1)
        rows = np.flatnonzero(differ)
        found += [f"instance {i}: {field} is {_short(a[i])}, was {_short(b[i])} [VIS-2]" for i in rows[:MOST_REPORTED]]
        if len(rows) > MOST_REPORTED:
            found.append(f"{field} differs in {len(rows)} instances")
    return found


def _short(values: NDArray[np.generic]) -> str:
    return " ".join(str(v) for v in values.ravel().tolist())


def _geometry_differences(shown: Geometry, given: Geometry, tolerance: float | None) -> list[str]:
    if shown.type != given.type:
        return [f"type is {shown.type.name}, was {given.type.name} [VIS-8]"]
    found = [] if shown.flags == given.flags else [f"flags are {int(shown.flags)}, were {int(given.flags)} [VIS-8]"]
    if isinstance(shown, AabbsGeometry) or isinstance(given, AabbsGeometry):
        assert isinstance(shown, AabbsGeometry)
        assert isinstance(given, AabbsGeometry)
        return found + _box_differences(shown.aabbs, given.aabbs, tolerance or 0.0)
    return found + _triangle_differences(shown, given, tolerance)


def _box_differences(shown: NDArray[np.float32], given: NDArray[np.float32], tolerance: float) -> list[str]:
    """VIS-7: boxes may be more, fewer and larger, but none of the input's volume may be outside all of them."""
    shown, given = shown[~inactive_boxes(shown)], normalised_boxes(given[~inactive_boxes(given)])
    if not len(given):
        return [f"{len(shown)} active boxes, the inputs have none [VIS-7]"] if len(shown) else []
    if not len(shown):
        return [f"no active boxes, the inputs have {len(given)} [VIS-7]"]
    if len(shown) == len(given):
        # One for one, as most drivers have it; what is not, is looked for in all of them.
        outside = (shown[:, :3] > given[:, :3] + tolerance) | (shown[:, 3:] < given[:, 3:] - tolerance)
        doubtful = np.flatnonzero(outside.any(1))
    else:
        doubtful = np.arange(len(given))
    found = []
    for i in doubtful:
        low, high = given[i, :3].astype(np.float64), given[i, 3:].astype(np.float64)
        if not _is_covered(low, high, shown.astype(np.float64), tolerance):
            found.append(f"active box {i} is not inside the decode's boxes: {low} to {high} [VIS-7]")
            if len(found) == MOST_REPORTED:
                break
    return found


def _is_covered(
    low: NDArray[np.float64], high: NDArray[np.float64], boxes: NDArray[np.float64], tolerance: float
) -> bool:
    """Whether the union of ``boxes`` (n, 6) holds the box, by cutting it at their planes."""
    near = boxes[(boxes[:, :3] <= high + tolerance).all(1) & (boxes[:, 3:] >= low - tolerance).all(1)]
    whole = (near[:, :3] <= low + tolerance) & (near[:, 3:] >= high - tolerance)
    if np.any(np.all(whole, axis=1)):
        return True
    if not len(near) or len(near) > 12:
        return len(near) > 12 and bool((near[:, :3].min(0) <= low).all() and (near[:, 3:].max(0) >= high).all())
    cuts = []
    for axis in range(3):
        planes = np.concatenate([near[:, axis], near[:, 3 + axis], [low[axis], high[axis]]])
        inside = np.unique(planes[(planes >= low[axis]) & (planes <= high[axis])])
        cuts.append(inside if len(inside) == 1 else 0.5 * (inside[:-1] + inside[1:]))
    points = np.stack(np.meshgrid(*cuts, indexing="ij"), -1).reshape(-1, 1, 3)
    held = (points >= near[:, :3] - tolerance) & (points <= near[:, 3:] + tolerance)
    return bool(np.all(np.any(np.all(held, axis=2), axis=1)))


def _triangle_differences(shown: TrianglesGeometry, given: TrianglesGeometry, tolerance: float | None) -> list[str]:
    """VIS-4 to VIS-6: same triangles at the same places; what can never be hit may be NaN, or missing at the end."""
    a, b = triangle_corners(shown), triangle_corners(given)
    dead = inactive_triangles(b)
    droppable = dead | degenerate_triangles(b)
    both = min(len(a), len(b))
    found: list[str] = []
    if len(a) > len(b):
        found.append(f"{len(a)} triangles, the inputs have {len(b)} [VIS-5]")
    missing = np.flatnonzero(~droppable[both:]) + both
    found += _named(missing, "missing [VIS-6]")
    a, b, dead, droppable = a[:both], b[:both], dead[:both], droppable[:both]
    nan = np.isnan(a).any((1, 2))
    found += _named(np.flatnonzero(nan & ~droppable), "NaN in the decode, active in the inputs [VIS-6]")
    found += _named(np.flatnonzero(~nan & dead), "shown, but inactive in the inputs [VIS-6]")
    compare = np.flatnonzero(~nan & ~dead)
    if tolerance is None:
        tolerance = 0.0
        if given.transform is not None and len(compare):
            largest = np.abs(b[compare])
            tolerance = TRANSFORM_ROUNDINGS * float(
                np.spacing(np.max(largest, initial=0.0, where=np.isfinite(largest)))
            )
    return found + _position_differences(a[compare], b[compare], compare, tolerance)


def _position_differences(
    a: NDArray[np.float32], b: NDArray[np.float32], numbers: NDArray[np.int64], tolerance: float
) -> list[str]:
    equal = _equal(a, b, tolerance)
    turned = ~equal & (_equal(a[:, [1, 2, 0]], b, tolerance) | _equal(a[:, [2, 0, 1]], b, tolerance))
    flipped = ~equal & ~turned
    for order in ([0, 2, 1], [2, 1, 0], [1, 0, 2]):
        flipped &= ~_equal(a[:, order], b, tolerance)
    mirrored = ~equal & ~turned & ~flipped
    found = _named(numbers[turned], "its corners begin elsewhere, so barycentrics differ [VIS-16]")
    found += _named(numbers[mirrored], "its winding is reversed [VIS-16]")
    rows = np.flatnonzero(flipped)
    for i in rows[:MOST_REPORTED]:
        with np.errstate(invalid="ignore"):
            distance = float(np.nanmax(np.abs(a[i].astype(np.float64) - b[i])))
        found.append(f"primitive {int(numbers[i])}: a corner is off by {distance:g} [VIS-4]")
    if len(rows) > MOST_REPORTED:
        found.append(f"{len(rows)} primitives have corners elsewhere [VIS-4]")
    return found


def _equal(a: NDArray[np.float32], b: NDArray[np.float32], tolerance: float) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        close = np.abs(a.astype(np.float64) - b) <= tolerance
    equal: NDArray[np.bool_] = (close | (a == b)).all((1, 2))
    return equal


def _named(numbers: NDArray[np.int64], text: str) -> list[str]:
    found = [f"primitive {int(n)}: {text}" for n in numbers[:MOST_REPORTED]]
    if len(numbers) > MOST_REPORTED:
        found.append(f"{len(numbers)} primitives: {text}")
    return found
