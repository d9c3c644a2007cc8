"""glTF 2.0 and GLB: one structure per mesh, one geometry per primitive, one instance per node with a mesh.

The node graph and the accessors are read here, from the JSON, because the structure of the file is what an acceleration
structure is made from: nothing is merged, split, re-ordered or left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag, InstanceFlag
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.errors import FileFormatError
from rtviewer.io.gltf_data import GltfData, item, parse_document
from rtviewer.io.gltf_document import Document, Mesh, Node, Primitive
from rtviewer.io.gltf_materials import AlphaMaterials
from rtviewer.io.scene_models import MAX_INSTANCES_IN_A_FILE
from rtviewer.io.triangle_input import (
    deactivate_partial_nan,
    fan_triangles,
    keep_triangles_in_range,
    places,
)
from rtviewer.scene.camera import Camera, aimed
from rtviewer.scene.inputs import is_singular
from rtviewer.scene.material import Material
from rtviewer.scene.scene import Instance, Scene

DRACO = "KHR_draco_mesh_compression"
GPU_INSTANCING = "EXT_mesh_gpu_instancing"
READ_EXTENSIONS = frozenset({"KHR_mesh_quantization", GPU_INSTANCING})
"""Extensions that change geometry and are read."""

HARMLESS_EXTENSION_PREFIXES = (
    "KHR_materials_", "KHR_texture_", "KHR_lights_", "KHR_xmp", "KHR_animation_", "KHR_audio", "KHR_physics_",
    "EXT_texture_", "EXT_lights_", "EXT_structural_metadata", "EXT_instance_features", "EXT_mesh_features",
    "MSFT_texture_", "OMI_physics_", "ADOBE_materials_", "GODOT_",
)  # fmt: skip
"""Required extensions with these names change no geometry."""

TRIANGLE_MODES = {4: "triangles", 5: "triangle strip", 6: "triangle fan"}
OTHER_MODES = {0: "points", 1: "lines", 2: "line loop", 3: "line strip"}


@dataclass(frozen=True)
class _Placement:
    """A node of the default scene with its world matrix (4, 4) float64."""

    index: int
    node: Node
    world: NDArray[np.float64]


def read_gltf(path: Path, data: bytes) -> Scene:
    """Read a .gltf or .glb file: every mesh becomes a structure, nodes of the default scene place them.

    Skins and morph targets are read in their base pose. InstanceID is the node's index. A file with alphaMode MASK gets
    any-hit ALPHA_MASK (``gltf_materials``). Raises FileFormatError for a
    damaged file and for one that needs an extension that is not supported (Draco, meshopt, unknown required ones).
    """
    document, binary = parse_document(path, data)
    _check_extensions(path, document)
    warnings = _unsupported_notes(path, document)
    source = GltfData(path, document, binary)
    alphas = AlphaMaterials(source, warnings)
    made = [_blas(source, index, mesh, alphas, warnings) for index, mesh in enumerate(document.meshes)]
    blases, materials = tuple(blas for blas, _ in made), tuple(own for _, own in made)
    instances: list[Instance] = []
    cameras: list[Camera] = []
    for placement in _placements(source, warnings):
        instances += _instances(source, placement, warnings)
        if len(instances) > MAX_INSTANCES_IN_A_FILE:
            raise FileFormatError(
                path, "too many instances", field="nodes", expected=f"at most {MAX_INSTANCES_IN_A_FILE}"
            )
        cameras += _camera(source, placement, warnings)
    scene = Scene(
        name=path.stem,
        blases=blases,
        instances=tuple(instances),
        any_hit=AnyHitProgram.ALPHA_MASK if alphas.met_mask else AnyHitProgram.ACCEPT,
        warnings=tuple(warnings),
        source=str(path),
        materials=materials if any(own for geometries in materials for own in geometries) else (),
    )
    if not cameras:
        return scene
    bounds = scene.bounds()
    return replace(scene, cameras=tuple(aimed(camera, bounds) for camera in cameras))


def _check_extensions(path: Path, document: Document) -> None:
    for name in document.extensions_required:
        if name in READ_EXTENSIONS or name.startswith(HARMLESS_EXTENSION_PREFIXES):
            continue
        raise FileFormatError(path, f"{name[:80]} is required and not supported; save the file without it")


def _unsupported_notes(path: Path, document: Document) -> list[str]:
    notes = []
    if "CESIUM_RTC" in document.extensions_used:
        notes.append(f"{path.name}: CESIUM_RTC is not supported: its centre is not added to the positions")
    for index, mesh in enumerate(document.meshes):
        if any(primitive.targets for primitive in mesh.primitives):
            notes.append(f"{path.name}: mesh {index} {mesh.name!r}: morph targets are left out, the base pose is read")
    skinned = [f"node {i}" for i, node in enumerate(document.nodes) if node.skin is not None]
    if skinned:
        notes.append(f"{path.name}: skins are left out, meshes stand in their base pose: {places(skinned)}")
    return notes


def _blas(
    source: GltfData, index: int, mesh: Mesh, alphas: AlphaMaterials, warnings: list[str]
) -> tuple[BlasInputs, tuple[Material | None, ...]]:
    place = f"meshes.{index}"
    geometries, materials = [], []
    for i, primitive in enumerate(mesh.primitives):
        geometry = _geometry(source, f"{place}.primitives.{i}", primitive, warnings)
        geometries.append(geometry)
        corners = geometry.indices
        if corners is None:
            corners = np.arange(len(geometry.vertices) // 3 * 3, dtype=np.uint32).reshape(-1, 3)
        materials.append(alphas.of(primitive, f"{place}.primitives.{i}", corners, len(geometry.vertices)))
    sides = [_is_double_sided(source, primitive, place) for primitive in mesh.primitives]
    if any(sides) and not all(sides):
        warnings.append(
            f"{source.path.name}: mesh {index} {mesh.name!r}: only some primitives are doubleSided; culling can "
            f"be switched off for a whole instance only, so it is left on [CULL-3]"
        )
    return BlasInputs(tuple(geometries), name=mesh.name or f"mesh {index}"), tuple(materials)


def _is_double_sided(source: GltfData, primitive: Primitive, place: str) -> bool:
    if primitive.material is None:
        return False
    return item(source.path, source.document.materials, primitive.material, "material", place).double_sided


def _is_opaque(source: GltfData, primitive: Primitive, place: str) -> bool:
    if primitive.material is None:
        return True
    return item(source.path, source.document.materials, primitive.material, "material", place).alpha_mode == "OPAQUE"


def _geometry(source: GltfData, place: str, primitive: Primitive, warnings: list[str]) -> TrianglesGeometry:
    """One primitive; one that draws points or lines keeps its place as a geometry without triangles."""
    flags = GeometryFlag.OPAQUE if _is_opaque(source, primitive, place) else GeometryFlag.NONE
    label = f"{source.path.name}: {place}"
    empty = TrianglesGeometry(np.empty((0, 3), np.float32), np.empty((0, 3), np.uint32), flags=flags, name=place)
    if primitive.mode not in TRIANGLE_MODES:
        kind = OTHER_MODES.get(primitive.mode, f"unknown mode {primitive.mode}")
        warnings.append(f"{label}: {kind}: no triangles")
        return empty
    position = primitive.attributes.get("POSITION")
    if position is None:
        warnings.append(f"{label}: no POSITION: no triangles")
        return empty
    _check_draco(source, primitive, position, place)
    vertices = source.positions(position, place)
    if primitive.indices is None and primitive.mode == 4:
        count = len(vertices) // 3 * 3
        if count < len(vertices):
            warnings.append(f"{label}: {len(vertices) - count} vertices after the last triangle are ignored [GEO-3]")
        vertices = deactivate_partial_nan(vertices, None, lambda k: f"triangle {k}", warnings, label)
        return TrianglesGeometry(vertices, None, flags=flags, name=place)
    numbers = _vertex_numbers(source, primitive, len(vertices), place)
    if primitive.mode == 4 and len(numbers) % 3:
        warnings.append(f"{label}: {len(numbers) % 3} indices after the last triangle are ignored [GEO-3]")
    source.charge(12 * len(numbers), place)
    triangles = _triangles(numbers, primitive.mode)
    indices, kept = keep_triangles_in_range(triangles, len(vertices), lambda k: f"triangle {k}", warnings, label)
    vertices = deactivate_partial_nan(vertices, indices, lambda k: f"triangle {kept[k]}", warnings, label)
    return TrianglesGeometry(vertices, indices, flags=flags, name=place)


def _check_draco(source: GltfData, primitive: Primitive, position: int, place: str) -> None:
    if DRACO not in primitive.extensions:
        return
    needed = [position] if primitive.indices is None else [position, primitive.indices]
    if not all(source.has_data(index, place) for index in needed):
        raise FileFormatError(source.path, f"{DRACO} is not supported; save the file without it", field=place)


def _vertex_numbers(source: GltfData, primitive: Primitive, vertex_count: int, place: str) -> NDArray[np.int64]:
    if primitive.indices is None:
        return np.arange(vertex_count, dtype=np.int64)
    raw = source.array(primitive.indices, place, ("SCALAR",))
    if raw.dtype.kind != "u":
        field = f"accessors.{primitive.indices}.componentType"
        raise FileFormatError(source.path, "indices must be unsigned integers", field=field, found=str(raw.dtype))
    return raw[:, 0].astype(np.int64)


def _triangles(numbers: NDArray[np.int64], mode: int) -> NDArray[np.int64]:
    """(m, 3) from a list, a strip or a fan; every second triangle of a strip swaps two corners to keep its winding."""
    if mode == 4:
        return numbers[: len(numbers) // 3 * 3].reshape(-1, 3)
    if len(numbers) < 3:
        return np.empty((0, 3), np.int64)
    if mode == 6:
        return fan_triangles(numbers, np.array([len(numbers)]))[0]
    strip: NDArray[np.int64] = np.stack([numbers[:-2], numbers[1:-1], numbers[2:]], axis=1)
    strip[1::2] = strip[1::2][:, [0, 2, 1]]
    return strip


def _placements(source: GltfData, warnings: list[str]) -> Iterator[_Placement]:
    """Nodes of the default scene from the roots down, parents first, each once."""
    document, path = source.document, source.path
    if not document.scenes:
        if document.meshes:
            warnings.append(
                f"{path.name}: the file has no scene, so none of its {len(document.meshes)} mesh(es) is placed"
            )
        return
    scene = item(path, document.scenes, document.scene or 0, "scene", "the document")
    visited: set[int] = set()
    stack = [(index, np.eye(4)) for index in reversed(scene.nodes)]
    while stack:
        index, parent = stack.pop()
        node = item(path, document.nodes, index, "node", "a scene or node")
        if index in visited:
            warnings.append(
                f"{path.name}: node {index} {node.name!r} is reached a second time; nodes form a tree: left out"
            )
            continue
        visited.add(index)
        with np.errstate(over="ignore", invalid="ignore"):
            world = parent @ _local_matrix(node)
        yield _Placement(index, node, world)
        stack += [(child, world) for child in reversed(node.children)]


def _local_matrix(node: Node) -> NDArray[np.float64]:
    """(4, 4) float64; a matrix, which glTF stores by columns, replaces the other three."""
    if node.matrix is not None:
        return np.asarray(node.matrix, np.float64).reshape(4, 4).T
    matrices = _trs(np.array([node.translation]), np.array([node.rotation]), np.array([node.scale]))
    return matrices.reshape(4, 4)


def _trs(
    translation: NDArray[np.float64], rotation: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(n, 4, 4) float64 from (n, 3), quaternions (n, 4) x, y, z, w, and (n, 3): scale, then turn, then move.

    Quaternions are used as written: glTF asks for unit length, and files that miss it look as they do in other tools.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        x, y, z, w = rotation.T
        turn = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
        )
        result = np.zeros((len(translation), 4, 4))
        result[:, :3, :3] = np.moveaxis(turn, 2, 0) * scale[:, None, :]
    result[:, :3, 3] = translation
    result[:, 3, 3] = 1.0
    return result


def _instances(source: GltfData, placement: _Placement, warnings: list[str]) -> list[Instance]:
    node = placement.node
    if node.mesh is None:
        return []
    place = f"nodes.{placement.index}"
    mesh = item(source.path, source.document.meshes, node.mesh, "mesh", place)
    name = node.name or f"node {placement.index}"
    many = GPU_INSTANCING in node.extensions
    local = _instancing_matrices(source, node, place) if many else np.eye(4)[None]
    with np.errstate(over="ignore", invalid="ignore"):
        transforms = np.ascontiguousarray((placement.world @ local)[:, :3, :], np.float32)
    flags = InstanceFlag.NONE
    if mesh.primitives and all(_is_double_sided(source, primitive, place) for primitive in mesh.primitives):
        flags = InstanceFlag.TRIANGLE_CULL_DISABLE
    finite = np.array([np.isfinite(transform).all() for transform in transforms], np.bool_)
    label = f"{source.path.name}: {place} {node.name!r}"
    if not finite.all():
        warnings.append(f"{label}: the transform is not finite; the instance stands without a structure [INST-6]")
    if is_singular(transforms[finite]).any():
        warnings.append(f"{label}: the transform is singular; no ray can hit the instance [INST-5]")
    return [
        Instance(
            node.mesh if finite[i] else -1,
            transforms[i] if finite[i] else np.eye(3, 4, dtype=np.float32),
            instance_id=min(placement.index, (1 << 24) - 1),
            flags=flags,
            name=f"{name} {i}" if many else name,
        )
        for i in range(len(transforms))
    ]


def _instancing_matrices(source: GltfData, node: Node, place: str) -> NDArray[np.float64]:
    """(n, 4, 4) float64 of EXT_mesh_gpu_instancing: each attribute that is left out stands for its neutral value."""
    extension = node.extensions[GPU_INSTANCING]
    attributes = extension.get("attributes") if isinstance(extension, dict) else None
    field = f"{place}.extensions.{GPU_INSTANCING}"
    if not isinstance(attributes, dict):
        raise FileFormatError(source.path, "has no attributes", field=field)
    neutral = {"TRANSLATION": (0.0, 0.0, 0.0), "ROTATION": (0.0, 0.0, 0.0, 1.0), "SCALE": (1.0, 1.0, 1.0)}
    arrays: dict[str, NDArray[np.float64]] = {}
    for name, default in neutral.items():
        index = attributes.get(name)
        if index is None:
            continue
        if not isinstance(index, int) or isinstance(index, bool) or index < 0:
            raise FileFormatError(source.path, "not an accessor number", field=f"{field}.{name}", found=str(index)[:20])
        arrays[name] = source.floats(index, f"{field}.{name}", (f"VEC{len(default)}",))
    counts = {len(values) for values in arrays.values()}
    if len(counts) != 1:
        expected = "one or more of TRANSLATION, ROTATION, SCALE, equally long"
        raise FileFormatError(
            source.path, "attributes do not fit", field=field, expected=expected, found=sorted(counts)
        )
    count = counts.pop()
    if count > MAX_INSTANCES_IN_A_FILE:
        raise FileFormatError(
            source.path, "too many instances", field=field, expected=f"at most {MAX_INSTANCES_IN_A_FILE}", found=count
        )
    filled = [
        arrays.get(name, np.broadcast_to(np.array(default), (count, len(default)))) for name, default in neutral.items()
    ]
    return _trs(*filled)


def _camera(source: GltfData, placement: _Placement, warnings: list[str]) -> list[Camera]:
    """The camera of a node, which looks along its -z with +y up; none when its numbers cannot be used."""
    index = placement.node.camera
    if index is None:
        return []
    model = item(source.path, source.document.cameras, index, "camera", f"nodes.{placement.index}")
    world = placement.world
    position, up, forward = world[:3, 3], world[:3, 1], -world[:3, 2]
    length = float(np.linalg.norm(forward))
    field_of_view, height = 45.0, None
    if model.type == "perspective" and model.perspective is not None:
        field_of_view = math.degrees(model.perspective.yfov)
    elif model.type == "orthographic" and model.orthographic is not None:
        height = 2.0 * abs(model.orthographic.ymag)
    numbers = [*position, *up, length, field_of_view, 1.0 if height is None else height]
    usable = (
        all(math.isfinite(v) for v in numbers) and length > 0 and np.any(up) and 0 < field_of_view < 180 and height != 0
    )
    if not usable:
        warnings.append(f"{source.path.name}: camera {index} of node {placement.index} has unusable numbers: left out")
        return []
    name = model.name or placement.node.name or f"camera {index}"
    target = position + forward / length
    return [Camera(_vector(position), _vector(target), _vector(up), field_of_view, height, name)]


def _vector(values: NDArray[np.float64]) -> tuple[float, float, float]:
    x, y, z = values.tolist()
    return x, y, z
