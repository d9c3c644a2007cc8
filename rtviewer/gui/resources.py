"""Finds the files of ``resources/``: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import rtviewer


@cache
def resources_folder() -> Path:
    """The folder with shaders and themes. Raises FileNotFoundError naming both places when neither is there."""
    package = Path(rtviewer.__file__).resolve().parent
    places = (package / "_resources", package.parent / "resources")
    for place in places:
        if (place / "shaders").is_dir():
            return place
    raise FileNotFoundError(f"no resources folder: looked in {places[0]} and {places[1]}")


@cache
def shader_source(name: str) -> str:
    """Text of ``resources/shaders/NAME``."""
    return (resources_folder() / "shaders" / name).read_text(encoding="utf-8")


def icon_path(name: str) -> str:
    """Path of ``resources/icons/NAME`` as style sheets want it, with forward slashes."""
    return (resources_folder() / "icons" / name).as_posix()
