"""A picture to disk: PNG in its colours, with or without the legend; EXR with its numbers; NPZ with all there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.counters import X_RAY_COUNTERS, Counter
from rtviewer.dxr.flags import format_flags
from rtviewer.scene.ray_sources import spec_of
from rtviewer.session.image import ImageBuffer, shade_image
from rtviewer.session.state import ImageSettings
from rtviewer.shade.modes import MODES

PICTURE_SUFFIXES = {
    ".png": "PNG: the picture in its colours",
    ".exr": "EXR: the numbers of the mode as float",
    ".npz": "NPZ: hits and counters of every pixel",
}
"""Kinds of file by suffix, with what they hold."""


def check_picture_path(path: Path) -> str:
    """The suffix of a picture's file in lower case. Raises FileFormatError for any but those of PICTURE_SUFFIXES."""
    from rtviewer.errors import FileFormatError

    suffix = path.suffix.lower()
    if suffix not in PICTURE_SUFFIXES:
        expected = ", ".join(PICTURE_SUFFIXES)
        raise FileFormatError(path, "unknown kind of image", field="suffix", expected=expected, found=suffix or "none")
    return suffix


def save_picture(path: Path, buffer: ImageBuffer, settings: ImageSettings, *, legend: bool = True) -> None:
    """Write a picture; its suffix says how.

    PNG: uint8 colours, with the legend and a line of what was traced below unless ``legend`` is False. EXR: channel Y
    with the numbers of a mode that has some (NaN for none), else linear R, G, B. NPZ: ``hit_arrays``.
    Raises FileFormatError for another suffix, RtviewerError when the mode's counters are missing or writing fails.
    """
    from rtviewer.io.image_file import write_exr, write_hits, write_png

    suffix = check_picture_path(path)
    if suffix == ".npz":
        write_hits(path, hit_arrays(buffer))
        return
    mode = MODES[settings.mode]
    shaded = shade_image(buffer, settings)
    if suffix == ".exr" and mode.values is not None:
        write_exr(path, {"Y": mode.values(buffer.picture()).astype(np.float32)})
    elif suffix == ".exr":
        encoded = shaded.rgba[..., :3].astype(np.float32) / 255
        linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4).astype(np.float32)
        write_exr(path, {name: linear[..., channel] for channel, name in enumerate("RGB")})
    elif legend:
        from rtviewer.shade.legend_image import with_legend

        write_png(path, with_legend(shaded.rgba, shaded.legend, _caption(buffer)))
    else:
        write_png(path, shaded.rgba)


def _caption(buffer: ImageBuffer) -> str:
    """What was traced, from the picture's echo."""
    rays = buffer.rays
    whose = f", {spec_of(buffer.request.source).label.lower()} rays" if buffer.request.has_receivers else ""
    return f"{buffer.world.scene.name}{whose}, ray flags {format_flags(rays.ray_flags)}, mask 0x{rays.mask & 0xFF:02X}"


def hit_arrays(buffer: ImageBuffer) -> dict[str, NDArray[Any]]:
    """Arrays of every pixel by name: hits (height, width) as in ``trace.request.Hits``, barycentrics (height, width,
    2), one int32 (height, width) per counter and, where the picture has an x-ray, per x-ray counter.

    Of another source than the camera also where its rays are: see ``shade.picture.Receivers``.
    """
    names = ("hit", "t", "instance_index", "instance_id", "geometry_index", "primitive_index", "hit_kind")
    arrays: dict[str, NDArray[Any]] = {name: getattr(buffer, name) for name in names}
    arrays["barycentrics"] = buffer.attributes
    if buffer.receivers is not None:
        for name in ("has_ray", "origin", "direction", "t_end", "open_fraction"):
            arrays[name] = getattr(buffer.receivers, name)
    if buffer.counters is not None:
        arrays |= {counter.key: buffer.counter(counter) for counter in Counter}
    if buffer.x_ray is not None:
        arrays |= {counter.key: buffer.x_ray_counter(counter) for counter in X_RAY_COUNTERS}
    return arrays
