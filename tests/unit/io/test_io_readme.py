"""The tables of ``rtviewer/io/README.md`` are those of the models and the registry."""

from __future__ import annotations

import enum
import tomllib
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import rtviewer.io
from rtviewer.io import scene_models as models
from rtviewer.io import structure_set
from rtviewer.io.registry import FORMATS, STRUCTURE_SUFFIXES, load_scene

README = Path(rtviewer.io.__file__).with_name("README.md").read_text("utf-8")
TABLES: dict[str, type[BaseModel]] = {
    "the file": models.SceneFile,
    "`[[blas]]`": models.BlasModel,
    "`[[blas.geometry]]`": models.GeometryModel,
    "`[[instance]]`": models.InstanceModel,
    "`[[hit_group]]`": models.HitGroupModel,
    "`transform`": models.Transform,
    "`rotate`": models.Rotation,
    "`[[camera]]`": models.CameraModel,
    "`[ray_source]`": models.RaySourceModel,
    "`[[instance_pattern]]`, kind grid": models.GridPattern,
    "`[[instance_pattern]]`, kind scatter": models.ScatterPattern,
    "`[[instance_pattern]]`, kind sphereflake": models.SphereflakePattern,
    **{
        f"`generator`, kind {get_args(kind.model_fields['kind'].annotation)[0]}": kind
        for union in (models.TriangleGenerator, models.BoxesGenerator)
        for kind in get_args(union)
    },
}


def default_text(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if value is None or value in ("", [], ()) or isinstance(value, BaseModel):
        return "-"
    if isinstance(value, enum.IntEnum):
        return f'`"{value.name}"`'
    if isinstance(value, enum.Flag):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(f'{v:g}' for v in value)}]`"
    if isinstance(value, float):
        return f"`{value:.4g}`"
    return f"`{value!r}`" if isinstance(value, int) else f'`"{value}"`'


def table(title: str, model: type[BaseModel]) -> str:
    rows = [f"| {title} | default | |", "|---|---|---|"]
    inherited = models.GridPattern.__base__
    assert inherited is not None
    shared = set(inherited.model_fields) if title.startswith("`[[instance_pattern]]`") else set()
    for name, field in model.model_fields.items():
        if name == "kind" or name in shared:
            continue
        assert field.description, f"{model.__name__}.{name} needs a description"
        rows.append(f"| `{name}` | {default_text(field)} | {field.description} |")
    return "\n".join(rows)


@pytest.mark.parametrize("title", TABLES)
def test_readme_has_the_table_of_every_model(title: str) -> None:
    assert table(title, TABLES[title]) in README


def test_every_model_has_a_table() -> None:
    known = set(TABLES.values())
    missing = []
    todo: list[Any] = [models.SceneFile]
    seen: set[Any] = set()
    while todo:
        kind = todo.pop()
        if kind in seen:
            continue
        seen.add(kind)
        if get_origin(kind) is not None or isinstance(kind, UnionType):
            todo += get_args(kind)
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            if kind not in known:
                missing.append(kind.__name__)
            todo += [field.annotation for field in kind.model_fields.values()]
    assert len(seen & known) == len(known)
    assert missing == []


def test_readme_lists_every_format() -> None:
    for kind in FORMATS:
        assert f"| {kind.name} | {' '.join(f'`{s}`' for s in kind.suffixes)} |" in README
    for name, suffixes in STRUCTURE_SUFFIXES.items():
        assert f"| {name} | {' '.join(f'`{s}`' for s in suffixes)} |" in README


def test_readme_has_every_key_of_the_manifest() -> None:
    table = README.split("| `manifest.json` | |\n")[1].split("\n\n")[0]
    for model in (
        structure_set.Manifest,
        structure_set.StructureEntry,
        structure_set.CameraEntry,
        structure_set.BuildEntry,
    ):
        for field in model.model_fields:
            assert f"`{field}`" in table, field


def test_the_example_loads(tmp_path: Path) -> None:
    example = README.split("```toml\n")[1].split("```")[0]
    tomllib.loads(example)
    file = tmp_path / "example.toml"
    file.write_text(example, "utf-8")
    scene = load_scene(file)
    assert scene.warnings == ()
    assert len(scene.instances) == 1 + 25
