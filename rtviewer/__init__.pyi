"""Types of the public API; ``__init__.py`` resolves the same names lazily, and a test compares the two."""

from rtviewer.accel.structure import Structure
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
from rtviewer.session.api import build
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
    "BuildFlag",
    "Camera",
    "CancelledError",
    "Counter",
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
    "load_scene",
]
