"""rtviewer: visualizer and debugger for ray tracing acceleration structures with DXR semantics.

The public Python API is what ``__all__`` lists; names are resolved on first use, so importing this package loads no Qt,
no OpenGL, no numba and not even numpy. Their types stand in ``__init__.pyi``.

    import rtviewer as rt

    scene = rt.load_scene("scenes/cornell")
    world = rt.build(scene)
    image = world.trace(scene.camera, size=(640, 360), ray_flags=rt.RayFlag.CULL_BACK_FACING_TRIANGLES)
    log = world.explain(pixel=(320, 180))
    blob = rt.serialize(world.tlas)

A program that calls D3D12 is transcribed call by call with ``rt.Device`` and the descs.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

_MODULES: dict[str, tuple[str, ...]] = {
    "accel.structure": ("Structure",),
    "copymode.clone": ("clone",),
    "copymode.compact": ("compact", "compacted_size"),
    "copymode.decode": ("decode", "decoded_size"),
    "copymode.deserialize": ("deserialize",),
    "copymode.identify": ("BlobDescription", "check_driver_matching_identifier", "describe_blob"),
    "copymode.read_decode": ("DecodedBlas", "DecodedTlas", "read_decode"),
    "copymode.serialize": ("serialize", "serialized_size"),
    "device.buffers": ("Buffer", "HeapType"),
    "device.device": ("Device",),
    "dxr.counters": ("Counter",),
    "dxr.descs": ("AabbsGeometry", "BlasInputs", "TrianglesGeometry"),
    "dxr.flags": (
        "AccelerationStructureType", "BuildFlag", "CandidateType", "CommittedStatus", "CopyMode",
        "DriverMatchingIdentifierStatus", "ElementsLayout", "GeometryFlag", "GeometryType", "HitKind", "InstanceFlag",
        "PipelineFlag", "PostbuildInfoType", "RayFlag", "ResourceState", "SerializedDataType",
    ),
    "dxr.formats": ("IndexFormat", "VertexFormat"),
    "dxr.profile": ("Profile", "Tier"),
    "dxr.programs": (
        "AnyHitProgram", "HitAction", "IntersectionProgram", "ProgramTable", "any_hit_program", "intersection_program",
        "report_hit", "trace_ray",
    ),
    "dxr.raw_descs": (
        "AabbsDesc", "BuildDesc", "BuildInputs", "GeometryDesc", "GpuVirtualAddressAndStride", "InstanceDesc",
        "PostbuildInfoDesc", "PrebuildInfo", "TrianglesDesc", "instance_desc_array",
    ),
    "dxr.shader_table": ("HitGroup", "HitGroupTable", "HitGroupType"),
    "dxr.verdicts": ("EventKind", "Verdict"),
    "errors": (
        "CancelledError", "FileFormatError", "InvalidInputError", "InvariantError", "ProgramError", "RtviewerError",
        "SceneError", "StructureError", "Violation",
    ),
    "io.ray_file": ("RayTable", "read_rays"),
    "io.registry": ("load_scene",),
    "scene.camera": ("Camera",),
    "scene.material": ("AlphaTexture", "Material", "Wrap"),
    "scene.ray_sources": ("CameraRays", "DiffuseRays", "OcclusionRays", "ShadowRays"),
    "scene.scene": ("Instance", "Scene"),
    "session.api": ("build", "open_world"),
    "session.document": ("World",),
    "session.image": ("ImageBuffer",),
    "session.ray_list": ("RayList", "RayStatus"),
    "session.raylog": ("LogRow", "RayLog"),
    "session.user_programs": ("load_programs",),
    "trace.dispatch": ("Dispatcher",),
    "trace.query": ("RayQuery",),
    "trace.request": ("Hits", "RayBatch", "TraceResult", "TraceSettings"),
}  # fmt: skip

_PLACES = {name: f"rtviewer.{module}" for module, names in _MODULES.items() for name in names}

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


class _CallableBuild(ModuleType):
    """The sub-package ``rtviewer.build`` once it is loaded: calling it is the public function ``build``."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return import_module("rtviewer.session.api").build(*arguments, **options)


class _Package(ModuleType):
    """This package. Loading the sub-package ``build`` binds it to the public name; this keeps the name callable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "build" and isinstance(value, ModuleType):
            value.__class__ = _CallableBuild
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'rtviewer' has no attribute {name!r}")
    if name == "build":
        return import_module("rtviewer.build")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
