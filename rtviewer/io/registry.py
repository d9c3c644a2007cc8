"""The formats that can be opened, and the one way to open them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.errors import FileFormatError, RtviewerError
from rtviewer.io.bounded_read import read_bytes
from rtviewer.io.gltf import read_gltf
from rtviewer.io.obj import read_obj
from rtviewer.io.ply import read_ply
from rtviewer.io.scene_toml import read_scene_toml
from rtviewer.io.stl import read_stl
from rtviewer.scene.scene import Scene

SCENE_FILE = "scene.toml"
PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Format:
    """A kind of file: its suffixes in lower case, a name for people, and its reader."""

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, bytes, Profile], Scene]


FORMATS: tuple[Format, ...] = (
    Format("rtviewer scene", (".toml",), read_scene_toml),
    Format("glTF 2.0", (".gltf", ".glb"), lambda path, data, _: read_gltf(path, data)),
    Format("Wavefront OBJ", (".obj",), lambda path, data, _: read_obj(path, data)),
    Format("PLY", (".ply",), lambda path, data, _: read_ply(path, data)),
    Format("STL", (".stl",), lambda path, data, _: read_stl(path, data)),
)

NOT_READ = {
    ".rra": "Radeon Raytracing Analyzer captures are a vendor's private format",
    ".wpix": "PIX captures are a private format",
    ".gfxr": "GFXReconstruct captures hold API calls, not structures",
}
INSTEAD = "export the meshes as glTF, OBJ, PLY or STL, or write a scene.toml, and open that"


def load_scene(path: Path | str, profile: Profile = DEFAULT_PROFILE) -> Scene:
    """Read a scene or mesh file of any format in ``FORMATS``; the one entry for files.

    A folder stands for the ``scene.toml`` in it. A path that does not exist but names a scene that comes with the
    product (``scenes/cornell``) opens that one. ``profile`` decides which flags a scene file may use.

    Raises SceneError for a scene file that asks for something illegal or absent and FileFormatError for everything else
    that is wrong with a file: missing, unknown kind, damaged.
    """
    file = resolve(path)
    suffix = file.suffix.lower()
    if suffix in NOT_READ:
        raise FileFormatError(file, f"{NOT_READ[suffix]} and are not read; {INSTEAD}")
    found = next((f for f in FORMATS if suffix in f.suffixes), None)
    if found is None:
        known = " ".join(s for f in FORMATS for s in f.suffixes)
        raise FileFormatError(file, "unknown kind of file", field="suffix", expected=known, found=suffix or "none")
    return read_as(found, file, read_bytes(file), profile)


def read_as(kind: Format, path: Path, data: bytes, profile: Profile = DEFAULT_PROFILE) -> Scene:
    """Run one format's reader; whatever it trips over leaves as FileFormatError with the cause attached."""
    try:
        return kind.read(path, data, profile)
    except RtviewerError:
        raise
    except MemoryError as error:
        raise FileFormatError(path, "not enough memory to read this file") from error
    except Exception as error:  # the border: damaged input must never end the program
        reason = " ".join(str(error).split())[:120]  # one line
        message = f"damaged or not {kind.name} ({type(error).__name__}: {reason})"
        raise FileFormatError(path, message) from error


def resolve(path: Path | str) -> Path:
    """The file that a user's path means.

    Raises FileFormatError for a path that does not exist and for a folder without ``scene.toml``.
    """
    given = Path(path)
    try:
        found = given if given.exists() else shipped_scene(given)
        is_folder = found is not None and found.is_dir()
    except (OSError, ValueError) as error:
        raise FileFormatError(given, f"not a usable path: {error}") from error
    if found is None:
        raise FileFormatError(given, "there is no such file or folder")
    if not is_folder:
        return found
    if not (found / SCENE_FILE).is_file():
        raise FileFormatError(found, "a folder can be opened only when it holds a scene", expected=SCENE_FILE)
    return found / SCENE_FILE


def scene_folders() -> list[Path]:
    """Where the scenes that come with the product may be: inside the installed package, or beside it in a checkout."""
    return [folder for folder in (PACKAGE / "_scenes", PACKAGE.parent / "scenes") if folder.is_dir()]


def shipped_scene(path: Path) -> Path | None:
    """``scenes/NAME`` (or a file in it) among the scenes that come with the product, None when there is none."""
    if path.is_absolute() or not path.parts or path.parts[0] != "scenes" or ".." in path.parts:
        return None
    for folder in scene_folders():
        candidate = folder.joinpath(*path.parts[1:])
        if candidate.exists():
            return candidate
    return None
