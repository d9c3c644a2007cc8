"""The formats that can be opened, and the one way to open them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.errors import FileFormatError, RtviewerError
from rtviewer.io.blob_file import BLOB_SUFFIX, description_of, is_own_blob, read_blob
from rtviewer.io.bottom_level_files import BottomLevelFile
from rtviewer.io.bounded_read import read_bytes
from rtviewer.io.capture import CAPTURE_SUFFIX, read_capture
from rtviewer.io.dump import DUMP_SUFFIX, read_dump
from rtviewer.io.gltf import read_gltf
from rtviewer.io.obj import read_obj
from rtviewer.io.ply import read_ply
from rtviewer.io.scene_toml import read_scene_toml
from rtviewer.io.single_structure import read_single_blob
from rtviewer.io.stl import read_stl
from rtviewer.io.structure_folder import read_folder
from rtviewer.io.structure_set import MANIFEST, StructureSet
from rtviewer.scene.scene import Scene

if TYPE_CHECKING:
    from rtviewer.copymode.identify import BlobDescription

SCENE_FILE = "scene.toml"
PACKAGE = Path(__file__).resolve().parents[1]

T = TypeVar("T")


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

STRUCTURE_SUFFIXES: dict[str, tuple[str, ...]] = {
    "capture": (CAPTURE_SUFFIX,),
    "serialized structure": (BLOB_SUFFIX,),
    "tools-visualization dump": (DUMP_SUFFIX,),
}
"""Files that hold structures, or what a driver decoded from them, and their suffixes."""

NOT_READ = {
    ".rra": "Radeon Raytracing Analyzer captures are a vendor's private format",
    ".wpix": "PIX captures are a private format",
    ".gfxr": "GFXReconstruct captures hold API calls, not structures",
}
INSTEAD = "export the meshes as glTF, OBJ, PLY or STL, or write a scene.toml, and open that"


@dataclass(frozen=True, eq=False)
class ForeignBlob:
    """A serialized structure of another driver or version: it can be looked at and nothing more (SER-8)."""

    path: Path
    data: bytes
    description: BlobDescription


Source: TypeAlias = Scene | StructureSet | ForeignBlob


def known_suffixes() -> tuple[str, ...]:
    """Every suffix that :func:`load_source` opens, scenes first."""
    structures = [suffix for suffixes in STRUCTURE_SUFFIXES.values() for suffix in suffixes]
    return (*(suffix for kind in FORMATS for suffix in kind.suffixes), *structures)


def load_source(
    path: Path | str,
    profile: Profile = DEFAULT_PROFILE,
    *,
    bottom_levels: Sequence[BottomLevelFile] = (),
    base_address: int | None = None,
) -> Source:
    """Read anything that can be opened: a scene, structures (capture, folder, blob), or a driver's dump.

    A folder is its ``scene.toml`` or ``manifest.json``. A file of another suffix that begins with this tool's GUID is a
    blob. ``bottom_levels``: for a top level that came alone; ``base_address``: where a dump was made, inferred when
    None.

    Raises FileFormatError or SceneError as :func:`load_scene` does, also for arguments that the file has no use for.
    """
    file = resolve(path)
    suffix = file.suffix.lower()
    if suffix == DUMP_SUFFIX or base_address is not None:
        return _guarded(file, "a dump", lambda: read_dump(file, base_address, bottom_levels))
    if is_blob_file(file):
        return _read_blob(file, bottom_levels)
    if bottom_levels:
        raise FileFormatError(file, "--blas goes with a top level alone, a blob or a dump", found=suffix or "none")
    if file.name == MANIFEST:
        return _guarded(file, "a folder of structures", lambda: read_folder(file))
    if suffix == CAPTURE_SUFFIX:
        return _guarded(file, "a capture", lambda: read_capture(file))
    return load_scene(file, profile)


def _read_blob(file: Path, bottom_levels: Sequence[BottomLevelFile]) -> StructureSet | ForeignBlob:
    data = read_blob(file)
    if is_own_blob(data):
        return _guarded(file, "a serialized structure", lambda: read_single_blob(file, data, bottom_levels))
    if bottom_levels:
        raise FileFormatError(file, "a blob of another driver is only looked at; it takes no --blas")
    return ForeignBlob(file, data, description_of(data))


def is_blob_file(file: Path) -> bool:
    """By its suffix, or, where no format has that suffix, by this tool's identifier in the first bytes."""
    suffix = file.suffix.lower()
    if suffix == BLOB_SUFFIX:
        return True
    if suffix in NOT_READ or suffix in known_suffixes() or file.name == MANIFEST or not file.is_file():
        return False
    try:
        with file.open("rb") as start:
            return is_own_blob(start.read(64))
    except OSError:
        return False  # the reader will say why


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
    if file.name == MANIFEST or any(suffix in suffixes for suffixes in STRUCTURE_SUFFIXES.values()):
        raise FileFormatError(file, "this holds structures, not a scene; open it as a world", found=suffix)
    found = next((f for f in FORMATS if suffix in f.suffixes), None)
    if found is None:
        known = " ".join(known_suffixes())
        raise FileFormatError(file, "unknown kind of file", field="suffix", expected=known, found=suffix or "none")
    return read_as(found, file, read_bytes(file), profile)


def read_as(kind: Format, path: Path, data: bytes, profile: Profile = DEFAULT_PROFILE) -> Scene:
    """Run one format's reader; whatever it trips over leaves as FileFormatError with the cause attached."""
    return _guarded(path, kind.name, lambda: kind.read(path, data, profile))


def _guarded(path: Path, name: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except RtviewerError:
        raise
    except MemoryError as error:
        raise FileFormatError(path, "not enough memory to read this file") from error
    except Exception as error:  # the border: damaged input must never end the program
        reason = " ".join(str(error).split())[:120]  # one line
        message = f"damaged or not {name} ({type(error).__name__}: {reason})"
        raise FileFormatError(path, message) from error


def resolve(path: Path | str) -> Path:
    """The file that a user's path means.

    Raises FileFormatError for a path that does not exist and for a folder without ``scene.toml`` or ``manifest.json``.
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
    for name in (SCENE_FILE, MANIFEST):
        if (found / name).is_file():
            return found / name
    expected = f"{SCENE_FILE} or {MANIFEST}"
    raise FileFormatError(found, "a folder can be opened only when it holds a scene or structures", expected=expected)


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
