"""The rtviewer scene format: TOML in, Scene out. The keys are in ``scene_models``, and as a table in README.md."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, Geometry, TrianglesGeometry
from rtviewer.dxr.flags import GeometryType
from rtviewer.dxr.limits import MAX_INSTANCE_ID, MAX_INSTANCES_PER_TOP_LEVEL_ACCELERATION_STRUCTURE
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.errors import FileFormatError, SceneError
from rtviewer.io import scene_models as models
from rtviewer.io.bounded_read import read_bytes
from rtviewer.io.obj import read_obj
from rtviewer.io.ply import read_ply
from rtviewer.io.stl import read_stl
from rtviewer.io.triangle_input import deactivate_partial_nan, float32_positions
from rtviewer.scene import generators
from rtviewer.scene.camera import Camera
from rtviewer.scene.hit_groups import hit_group_warnings, program_warnings
from rtviewer.scene.inputs import is_singular
from rtviewer.scene.mesh import Mesh
from rtviewer.scene.scene import Instance, Scene

MESH_READERS = {".obj": read_obj, ".ply": read_ply, ".stl": read_stl}
MAX_SCENE_FILE_BYTES = 64 << 20


def read_scene_toml(path: Path, data: bytes, profile: Profile = DEFAULT_PROFILE) -> Scene:
    """Read a scene file; mesh files are found relative to it.

    Raises FileFormatError when the file is not TOML, SceneError with the key when a value is not legal (messages name
    the rule) or refers to something that is not there.
    """
    try:
        file = models.SceneFile.model_validate(_toml(path, data), context={"profile": profile})
    except ValidationError as error:
        raise _scene_error(path, error) from error
    warnings: list[str] = []
    meshes: dict[Path, TrianglesGeometry] = {}
    blases = tuple(
        BlasInputs(
            tuple(
                _geometry(path, f"blas[{i}].geometry[{j}]", geometry, warnings, meshes)
                for j, geometry in enumerate(blas.geometry)
            ),
            name=blas.name,
        )
        for i, blas in enumerate(file.blas)
    )
    name = file.name or (path.parent.name if path.name == "scene.toml" else path.stem)
    instances = _instances(path, file, blases, warnings)
    cameras = tuple(
        Camera(c.position, c.look_at, c.up, c.vertical_fov, c.orthographic_height, c.name) for c in file.camera
    )
    table = models.hit_group_table(file.hit_group, file.hit_group_stride) if file.hit_group else None
    scene = Scene(
        name, blases, instances, cameras, file.any_hit, file.intersection, source=str(path), hit_groups=table,
        program_file=file.programs,
    )  # fmt: skip
    if file.ray_source is not None:
        scene = replace(scene, ray_source=file.ray_source.settings())
    warnings += [f"{path.name}: {text}" for text in hit_group_warnings(scene)]
    warnings += [f"{path.name}: {text}" for text in program_warnings(scene)]
    return replace(scene, warnings=tuple(warnings))


def _toml(path: Path, data: bytes) -> dict[str, Any]:
    if len(data) > MAX_SCENE_FILE_BYTES:
        raise FileFormatError(path, "too large for a scene file", expected=f"at most {MAX_SCENE_FILE_BYTES} bytes")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise FileFormatError(path, "not UTF-8 text", offset=error.start, expected="TOML in UTF-8") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FileFormatError(path, f"not TOML: {error}") from error


def _scene_error(path: Path, error: ValidationError) -> SceneError:
    """The first problem, with its key as ``instance[3].mask``, and how many more there are."""
    problems = error.errors(include_url=False)
    first = problems[0]
    if any(_is_tag(part) for part in first["loc"]):  # one problem for each form a value may have: take the closest
        place = _key(first["loc"])
        alternatives = [problem for problem in problems if _key(problem["loc"]).startswith(place)]
        first = max(alternatives, key=lambda problem: len(_key(problem["loc"])))
        problems = [first, *(problem for problem in problems if problem not in alternatives)]
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "there is no such key here; rtviewer/io/README.md lists the keys"
    elif "input" in first and first["type"] not in ("value_error", "missing"):
        message += f", found {str(first['input'])[:60]!r}"
    if len(problems) > 1:
        message += f" (and {len(problems) - 1} more problem(s))"
    return SceneError(path, " ".join(_key(first["loc"]).split()), " ".join(message.split()))  # one line


def _is_tag(part: int | str) -> bool:
    """Whether a part of a location is no key but the name of a form that the value was tried as."""
    return isinstance(part, str) and (part == "float" or "[" in part)


def _key(location: tuple[int | str, ...]) -> str:
    text = ""
    for part in location:
        if _is_tag(part):
            continue
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _geometry(
    path: Path,
    key: str,
    model: models.GeometryModel,
    warnings: list[str],
    meshes: dict[Path, TrianglesGeometry],
) -> Geometry:
    if model.type == "aabbs":
        return AabbsGeometry(_aabbs(path, key, model, warnings), model.flags, model.name)
    if model.file is not None:
        mesh = _mesh_file(path, key, model.file, warnings, meshes)
        vertices, indices = mesh.vertices, mesh.indices
    elif model.generator is not None:
        made = _generated_mesh(model.generator)
        vertices, indices = made.vertices, made.indices
    else:
        vertices, indices = _inline_mesh(path, key, model, warnings)
    if model.reverse:
        vertices, indices = _reversed(vertices, indices)
    transform = None
    if model.transform is not None:
        transform = _float32(model.transform.to_matrix())
    return TrianglesGeometry(vertices, indices, transform, model.flags, model.name)


def _float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, np.float32)


def _reversed(
    vertices: NDArray[np.float32], indices: NDArray[np.uint32] | None
) -> tuple[NDArray[np.float32], NDArray[np.uint32] | None]:
    if indices is not None:
        return vertices, np.ascontiguousarray(indices[:, [0, 2, 1]])
    triples = vertices[: len(vertices) // 3 * 3].reshape(-1, 3, 3)
    return np.ascontiguousarray(triples[:, [0, 2, 1]]).reshape(-1, 3), None


def _mesh_file(
    path: Path, key: str, name: str, warnings: list[str], meshes: dict[Path, TrianglesGeometry]
) -> TrianglesGeometry:
    file = path.parent / name
    reader = MESH_READERS.get(file.suffix.lower())
    if reader is None:
        known = ", ".join(MESH_READERS)
        raise SceneError(path, f"{key}.file", f"{name!r} is not a single mesh; legal suffixes are {known}")
    if file not in meshes:
        try:
            scene = reader(file, read_bytes(file))
        except FileFormatError as error:
            raise SceneError(path, f"{key}.file", str(error)) from error
        warnings += scene.warnings
        geometry = scene.blases[0].geometries[0]
        assert isinstance(geometry, TrianglesGeometry)
        meshes[file] = geometry
    return meshes[file]


def _inline_mesh(
    path: Path, key: str, model: models.GeometryModel, warnings: list[str]
) -> tuple[NDArray[np.float32], NDArray[np.uint32] | None]:
    vertices = float32_positions(model.vertices or [])
    indices = None
    if model.indices is not None:
        numbers = np.array(model.indices, dtype=object).reshape(-1, 3)
        bad = np.flatnonzero([any(not 0 <= v < len(vertices) for v in row) for row in numbers])
        if len(bad):
            row = [int(v) for v in numbers[bad[0]]]
            message = f"[GEO-4] there are {len(vertices)} vertices, found {row}"
            raise SceneError(path, f"{key}.indices[{bad[0]}]", message)
        indices = np.ascontiguousarray(numbers, np.uint32)
    elif len(vertices) % 3:
        warnings.append(f"{path.name}: {key}: {len(vertices) % 3} vertices after the last triangle are ignored [GEO-3]")
    name = f"{path.name}: {key}"
    return deactivate_partial_nan(vertices, indices, lambda k: f"triangle {k}", warnings, name), indices


def _aabbs(path: Path, key: str, model: models.GeometryModel, warnings: list[str]) -> NDArray[np.float32]:
    if isinstance(model.generator, models.RandomBoxesGenerator):
        return generators.random_boxes(**_arguments(model.generator))
    if isinstance(model.generator, models.LatticeBoxesGenerator):
        return generators.lattice_boxes(**_arguments(model.generator))
    aabbs = float32_positions(np.array(model.aabbs or [], np.float64).reshape(-1, 3)).reshape(-1, 6)
    partial = np.isnan(aabbs).any(axis=1) & ~np.isnan(aabbs[:, 0])
    if partial.any():
        first = int(np.flatnonzero(partial)[0])
        warnings.append(
            f"{path.name}: {key}: {int(partial.sum())} box(es) have a NaN outside MinX; MinX was made NaN too, so they "
            f"are inactive: box {first} [INA-2] [INA-3]"
        )
        aabbs[partial, 0] = np.nan
    return aabbs


def _arguments(generator: models.SceneModel) -> dict[str, Any]:
    return generator.model_dump(exclude={"kind"})


def _generated_mesh(generator: models.SceneModel) -> Mesh:
    makers: dict[type[models.SceneModel], Callable[..., Mesh]] = {
        models.QuadGenerator: generators.quad,
        models.BoxGenerator: generators.box,
        models.SphereGenerator: generators.icosphere,
        models.TorusGenerator: generators.torus,
        models.BowlGenerator: generators.bowl,
        models.WaveGenerator: generators.wave,
        models.SoupGenerator: generators.soup,
        models.CityGenerator: generators.city,
    }
    return makers[type(generator)](**_arguments(generator))


def _instances(
    path: Path, file: models.SceneFile, blases: Sequence[BlasInputs], warnings: list[str]
) -> tuple[Instance, ...]:
    number = {blas.name: index for index, blas in enumerate(blases)}
    placed: list[Instance] = []
    for i, model in enumerate(file.instance):
        placement = model.transform.to_matrix()[None]
        placed += _placed(path, f"instance[{i}]", model, placement, number, blases, model.name, warnings)
    for i, pattern in enumerate(file.instance_pattern):
        placements = _pattern_placements(pattern)
        placed += _placed(path, f"instance_pattern[{i}]", pattern, placements, number, blases, pattern.kind, warnings)
    limit = min(MAX_INSTANCES_PER_TOP_LEVEL_ACCELERATION_STRUCTURE, models.MAX_INSTANCES_IN_A_FILE)
    if len(placed) > limit:
        raise SceneError(path, "instance_pattern", f"[LIM-3] at most {limit} instances in all, found {len(placed)}")
    return tuple(placed)


def _pattern_placements(pattern: models.Pattern) -> NDArray[np.float64]:
    """(n, 3, 4) float64: the pattern's own placements, each applied after the instance transform."""
    if isinstance(pattern, models.GridPattern):
        points = generators.lattice_points(pattern.counts, pattern.spacing)
        outer = np.zeros((len(points), 3, 4))
        outer[:, :, :3], outer[:, :, 3] = np.eye(3), points
    elif isinstance(pattern, models.ScatterPattern):
        outer = generators.scatter_placements(pattern.count, pattern.extent, pattern.scale, pattern.seed)
    else:
        outer = generators.sphereflake_placements(pattern.depth, pattern.shrink)
    outer[:, :, 3] += np.asarray(pattern.centre)
    inner = pattern.transform.to_matrix()
    combined = outer[:, :, :3] @ inner
    combined[:, :, 3] += outer[:, :, 3]
    return combined


def _placed(
    path: Path,
    key: str,
    model: models.InstanceModel | models.GridPattern | models.ScatterPattern | models.SphereflakePattern,
    placements: NDArray[np.float64],
    number: dict[str, int],
    blases: Sequence[BlasInputs],
    name: str,
    warnings: list[str],
) -> list[Instance]:
    if model.blas and model.blas not in number:
        known = ", ".join(sorted(number)) or "none"
        raise SceneError(path, f"{key}.blas", f"there is no [[blas]] called {model.blas!r}; there are: {known}")
    blas = number[model.blas] if model.blas else -1
    transforms = _float32(placements)
    if blas >= 0 and not np.isfinite(transforms).all():
        message = "[INST-6] the transform of an instance with a structure must be finite in float32"
        raise SceneError(path, f"{key}.transform", message)
    if blas >= 0 and is_singular(transforms).any():
        warnings.append(f"{path.name}: {key}.transform is singular: no ray can hit the instance [INST-5]")
    if model.id + len(transforms) - 1 > MAX_INSTANCE_ID:
        message = f"[LIM-4] ids up to {model.id + len(transforms) - 1} are needed, the largest legal one is 0xffffff"
        raise SceneError(path, f"{key}.id", message)
    contribution = model.contribution
    if contribution is None:
        contribution = int(blas >= 0 and _is_procedural(blases[blas]))
    several = len(transforms) > 1
    return [
        Instance(
            blas,
            transforms[i],
            model.id + i,
            model.mask,
            contribution,
            model.flags,
            f"{name} {i}" if several else name,
        )
        for i in range(len(transforms))
    ]


def _is_procedural(blas: BlasInputs) -> bool:
    return any(g.type is GeometryType.PROCEDURAL_PRIMITIVE_AABBS for g in blas.geometries)
