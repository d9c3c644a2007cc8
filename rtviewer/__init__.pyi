"""Types of the public API; ``__init__.py`` resolves the same names lazily, and a test compares the two."""

from rtviewer.accel.structure import Structure
from rtviewer.copymode.clone import clone
from rtviewer.copymode.compact import compact, compacted_size
from rtviewer.copymode.decode import decode, decoded_size
from rtviewer.copymode.deserialize import deserialize
from rtviewer.copymode.identify import BlobDescription, check_driver_matching_identifier, describe_blob
from rtviewer.copymode.read_decode import DecodedBlas, DecodedTlas, read_decode
from rtviewer.copymode.serialize import serialize, serialized_size
from rtviewer.device.buffers import Buffer, HeapType
from rtviewer.device.device import Device
from rtviewer.dxr.counters import Counter
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import (
    AccelerationStructureType,
    BuildFlag,
    CandidateType,
    CommittedStatus,
    CopyMode,
    DriverMatchingIdentifierStatus,
    ElementsLayout,
    GeometryFlag,
    GeometryType,
    HitKind,
    InstanceFlag,
    PipelineFlag,
    PostbuildInfoType,
    RayFlag,
    ResourceState,
    SerializedDataType,
)
from rtviewer.dxr.formats import IndexFormat, VertexFormat
from rtviewer.dxr.profile import Profile, Tier
from rtviewer.dxr.programs import (
    AnyHitProgram,
    HitAction,
    IntersectionProgram,
    ProgramTable,
    any_hit_program,
    intersection_program,
    report_hit,
    trace_ray,
)
from rtviewer.dxr.raw_descs import (
    AabbsDesc,
    BuildDesc,
    BuildInputs,
    GeometryDesc,
    GpuVirtualAddressAndStride,
    InstanceDesc,
    PostbuildInfoDesc,
    PrebuildInfo,
    TrianglesDesc,
    instance_desc_array,
)
from rtviewer.dxr.shader_table import HitGroup, HitGroupTable, HitGroupType
from rtviewer.dxr.verdicts import EventKind, Verdict
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
from rtviewer.io.ray_file import RayTable, read_rays
from rtviewer.io.registry import load_scene
from rtviewer.scene.camera import Camera
from rtviewer.scene.material import AlphaTexture, Material, Wrap
from rtviewer.scene.ray_sources import CameraRays, DiffuseRays, OcclusionRays, ShadowRays
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.api import build, open_world
from rtviewer.session.document import World
from rtviewer.session.image import ImageBuffer
from rtviewer.session.ray_list import RayList, RayStatus
from rtviewer.session.raylog import LogRow, RayLog
from rtviewer.session.user_programs import load_programs
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.query import RayQuery
from rtviewer.trace.request import Hits, RayBatch, TraceResult, TraceSettings

__version__: str

__all__ = [
    "AabbsDesc",
    "AabbsGeometry",
    "AccelerationStructureType",
    "AlphaTexture",
    "AnyHitProgram",
    "BlasInputs",
    "BlobDescription",
    "Buffer",
    "BuildDesc",
    "BuildFlag",
    "BuildInputs",
    "Camera",
    "CameraRays",
    "CancelledError",
    "CandidateType",
    "CommittedStatus",
    "CopyMode",
    "Counter",
    "DecodedBlas",
    "DecodedTlas",
    "Device",
    "DiffuseRays",
    "Dispatcher",
    "DriverMatchingIdentifierStatus",
    "ElementsLayout",
    "EventKind",
    "FileFormatError",
    "GeometryDesc",
    "GeometryFlag",
    "GeometryType",
    "GpuVirtualAddressAndStride",
    "HeapType",
    "HitAction",
    "HitGroup",
    "HitGroupTable",
    "HitGroupType",
    "HitKind",
    "Hits",
    "ImageBuffer",
    "IndexFormat",
    "Instance",
    "InstanceDesc",
    "InstanceFlag",
    "IntersectionProgram",
    "InvalidInputError",
    "InvariantError",
    "LogRow",
    "Material",
    "OcclusionRays",
    "PipelineFlag",
    "PostbuildInfoDesc",
    "PostbuildInfoType",
    "PrebuildInfo",
    "Profile",
    "ProgramError",
    "ProgramTable",
    "RayBatch",
    "RayFlag",
    "RayList",
    "RayLog",
    "RayQuery",
    "RayStatus",
    "RayTable",
    "ResourceState",
    "RtviewerError",
    "Scene",
    "SceneError",
    "SerializedDataType",
    "ShadowRays",
    "Structure",
    "StructureError",
    "Tier",
    "TraceResult",
    "TraceSettings",
    "TrianglesDesc",
    "TrianglesGeometry",
    "Verdict",
    "VertexFormat",
    "Violation",
    "World",
    "Wrap",
    "any_hit_program",
    "build",
    "check_driver_matching_identifier",
    "clone",
    "compact",
    "compacted_size",
    "decode",
    "decoded_size",
    "describe_blob",
    "deserialize",
    "instance_desc_array",
    "intersection_program",
    "load_programs",
    "load_scene",
    "open_world",
    "read_decode",
    "read_rays",
    "report_hit",
    "serialize",
    "serialized_size",
    "trace_ray",
]
