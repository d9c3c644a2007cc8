"""``[ray_source]`` of a scene file as a model; its keys are made from ``scene.ray_sources``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from rtviewer.scene.ray_sources import (
    IMAGE_SOURCES,
    SOURCES,
    ImageSource,
    ParameterKind,
    SourceKind,
    Vector,
    check_source,
)


def _source_fields() -> dict[str, Any]:
    """A key for every parameter of a source that makes images, by the table of sources."""
    types: dict[ParameterKind, Any] = {
        ParameterKind.POSITION: Vector, ParameterKind.LENGTH: float, ParameterKind.COUNT: int,
    }  # fmt: skip
    users: dict[str, list[str]] = {}
    keys: dict[str, Any] = {}
    for spec in IMAGE_SOURCES:
        for parameter in spec.parameters:
            users.setdefault(parameter.name, []).append(str(spec.kind))
            default = parameter.automatic if parameter.default is None else str(parameter.default)
            text = f"of {' and '.join(users[parameter.name])}: {parameter.tip}; default {default}"
            keys[parameter.name] = (types[parameter.kind] | None, Field(None, description=text))
    return keys


class _RaySource(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    source: Literal[tuple(str(spec.kind) for spec in IMAGE_SOURCES)] = Field(  # type: ignore[valid-type]
        description=", ".join(f'`"{spec.kind}"`' for spec in IMAGE_SOURCES)
    )

    @model_validator(mode="after")
    def _is_a_source(self) -> _RaySource:
        self.settings()
        return self

    def settings(self) -> ImageSource:
        """The source with its parameters. ValueError for one that it has not, or that cannot be."""
        spec = SOURCES[SourceKind(self.source)]
        given = {name: getattr(self, name) for name in self.model_fields_set - {"source"}}
        known = {parameter.name for parameter in spec.parameters}
        if foreign := sorted(set(given) - known):
            raise ValueError(f"source {str(spec.kind)!r} has no parameter {foreign[0]!r}")
        source: ImageSource = spec.settings(**given)
        if problem := check_source(source):
            raise ValueError(problem)
        return source


if TYPE_CHECKING:
    RaySourceModel = _RaySource
else:
    RaySourceModel = create_model("RaySourceModel", __base__=_RaySource, **_source_fields())
