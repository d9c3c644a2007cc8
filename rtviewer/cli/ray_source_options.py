"""``--source`` and the parameters of sources, made from ``scene.ray_sources``: a new row of it is an option here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from rtviewer.cli.options import VECTOR, Float32, Number
from rtviewer.scene.ray_sources import IMAGE_SOURCES, ImageSource, Parameter, ParameterKind, SourceKind, check_source
from rtviewer.scene.scene import Scene

Command = TypeVar("Command", bound=Callable[..., Any])

_TYPES: dict[ParameterKind, Callable[[Parameter], Any]] = {
    ParameterKind.POSITION: lambda _: VECTOR,
    ParameterKind.LENGTH: lambda _: Float32(),
    ParameterKind.COUNT: lambda parameter: Number(parameter.low, parameter.high),
}


def _parameters() -> dict[str, tuple[Parameter, list[SourceKind]]]:
    """Every parameter by name, with the sources that have it."""
    found: dict[str, tuple[Parameter, list[SourceKind]]] = {}
    for spec in IMAGE_SOURCES:
        for parameter in spec.parameters:
            found.setdefault(parameter.name, (parameter, []))[1].append(spec.kind)
    return found


def default_text(parameter: Parameter) -> str:
    """A parameter's default for people."""
    value = parameter.default
    if value is None:
        return parameter.automatic
    return "inf" if value == math.inf else str(value)


def ray_source_options(command: Command) -> Command:
    """``--source`` and an option for each parameter, passed on as ``sending`` (a dict for :func:`sent_by`)."""
    names = {"source_name": SourceKind, **_parameters()}

    def with_source(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in names}
        return command(*args, sending={name: value for name, value in given.items() if value is not None}, **kwargs)

    with_source.__name__, with_source.__doc__ = command.__name__, command.__doc__
    with_source.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Any = with_source
    for name, (parameter, kinds) in reversed(_parameters().items()):
        text = f"With --source {' or '.join(kinds)}: {parameter.tip}.  [default: {default_text(parameter)}]"
        decorated = click.option(f"--{name.replace('_', '-')}", type=_TYPES[parameter.kind](parameter), help=text)(
            decorated
        )
    listed = "; ".join(f"{spec.kind}: {spec.tip[0].lower()}{spec.tip[1:]}" for spec in IMAGE_SOURCES)
    choice = click.Choice([str(spec.kind) for spec in IMAGE_SOURCES], case_sensitive=False)
    text = f"Where rays come from. {listed}.  [default: the scene's, else camera]"
    done: Command = click.option("--source", "source_name", type=choice, help=text)(decorated)
    return done


def sent_by(scene: Scene, sending: dict[str, Any]) -> ImageSource:
    """The source that the options ask for, over the scene's own.

    click.UsageError for a parameter that this source has not, or with a value it cannot have.
    """
    from dataclasses import replace

    from rtviewer.session.source_commands import source_of

    own = source_of(scene)
    kind = SourceKind(str(sending.get("source_name", own.kind)))
    known = {parameter.name for spec in IMAGE_SOURCES if spec.kind is kind for parameter in spec.parameters}
    given = {name: value for name, value in sending.items() if name != "source_name"}
    for name in given:
        if name not in known:
            users = " or ".join(_parameters()[name][1])
            raise click.UsageError(f"--{name.replace('_', '-')} goes with --source {users}, not with {kind}")
    source = replace(own.of(kind), **given)
    if problem := check_source(source):
        raise click.UsageError(f"--source {kind}: {problem}")
    return source
