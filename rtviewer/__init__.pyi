"""Types of the public API; ``__init__.py`` resolves the same names lazily, and a test compares the two."""

from rtviewer.accel.structure import Structure
from rtviewer.copymode.clone import clone
from rtviewer.copymode.compact import compact, compacted_size
from rtviewer.copymode.decode import decode, decoded_size
from rtviewer.copymode.deserialize import deserialize
from rtviewer.copymode.identify import BlobDescription, check_driver_matching_identifier, describe_blob
from rtviewer.copymode.read_decode import DecodedBlas, DecodedTlas, read_decode
from rtviewer.copymode.serialize import serialize, serialized_size
from rtviewer.device.device import Device
from rtviewer.dxr.descs import (
    AabbsGeometry,
    BlasInputs,
    TrianglesGeometry,
)
from rtviewer.dxr.flags import (
    BuildFlag,
    GeometryFlag,
    HitKind,
    InstanceFlag,
    RayFlag,
)
from rtviewer.dxr.profile import (
    Profile,
    Tier,
)
from rtviewer.dxr.programs import (
    AnyHitProgram,
    IntersectionProgram,
)
from rtviewer.dxr.verdicts import (
    Counter,
    EventKind,
    Verdict,
)
from rtviewer.errors import (
    CancelledError,
    FileFormatError,
    InvalidInputError,
    InvariantError,
    ProgramError,
    RtviewerError,
    SceneError,
    StructureError,
    Violation,
)
from rtviewer.io.registry import load_scene
from rtviewer.scene.camera import Camera
from rtviewer.scene.scene import (
    Instance,
    Scene,
)
from rtviewer.session.api import build, open_world
from rtviewer.session.document import (
    World,
)
from rtviewer.session.image import ImageBuffer
from rtviewer.session.raylog import (
    LogRow,
    RayLog,
)

__version__: str

__all__ = [
    "AabbsGeometry",
    "AnyHitProgram",
    "BlasInputs",
    "BlobDescription",
    "BuildFlag",
    "Camera",
    "CancelledError",
    "Counter",
    "DecodedBlas",
    "DecodedTlas",
    "Device",
    "EventKind",
    "FileFormatError",
    "GeometryFlag",
    "HitKind",
    "ImageBuffer",
    "Instance",
    "InstanceFlag",
    "IntersectionProgram",
    "InvalidInputError",
    "InvariantError",
    "LogRow",
    "Profile",
    "ProgramError",
    "RayFlag",
    "RayLog",
    "RtviewerError",
    "Scene",
    "SceneError",
    "Structure",
    "StructureError",
    "Tier",
    "TrianglesGeometry",
    "Verdict",
    "Violation",
    "World",
    "build",
    "check_driver_matching_identifier",
    "clone",
    "compact",
    "compacted_size",
    "decode",
    "decoded_size",
    "describe_blob",
    "deserialize",
    "load_scene",
    "open_world",
    "read_decode",
    "serialize",
    "serialized_size",
]
