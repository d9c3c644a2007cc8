"""Options that several commands share. Those of flags come from ``dxr.flags``: adding a flag there adds it here."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rtviewer.dxr.flags import BuildFlag, RayFlag, parse_flags
from rtviewer.dxr.profile import Profile, Tier
from rtviewer.dxr.programs import (
    NO_PROGRAMS,
    USER_PREFIX,
    AnyHitProgram,
    IntersectionProgram,
    ProgramKind,
    known_names,
    missing_text,
)
from rtviewer.errors import RtviewerError

if TYPE_CHECKING:
    from rtviewer.scene.camera import Camera
    from rtviewer.scene.scene import Scene
    from rtviewer.session.document import Document

    Parameter = click.ParamType[Any]
else:
    Parameter = click.ParamType  # generic only in click's newest versions

Command = TypeVar("Command", bound=Callable[..., Any])


class FlagWord(Parameter):
    """Names without prefix, any case, separated by commas (or HLSL's ``A | B``), or a number such as 0x30."""

    def __init__(self, kind: type[IntFlag]) -> None:
        self.kind = kind
        self.name = "FLAGS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return self.kind(value)
        try:
            return parse_flags(self.kind, value)
        except ValueError as error:
            return self.fail(str(error), param, ctx)


class ProgramName(Parameter):
    """A built-in program by name in any case, or by number; a name as it is where it may be that of a user's program
    (``with_programs`` judges it)."""

    def __init__(self, kind: type[IntEnum]) -> None:
        self.kind = kind
        self.name = "PROGRAM"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value).strip().upper().replace("-", "_")
        if text in self.kind.__members__:
            return self.kind[text]
        if text.isdecimal() and int(text) in set(self.kind):
            return self.kind(int(text))
        own = str(value).strip().removeprefix(USER_PREFIX)
        if own.isidentifier() and ctx is not None and isinstance(ctx.params.get("programs"), str):
            return own
        names = ", ".join(f"{p.name.lower()} ({p.value})" for p in self.kind)
        return self.fail(f"{value!r} is no program: use one of {names}", param, ctx)


class Number(Parameter):
    """An integer in any base that Python reads."""

    name = "NUMBER"

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            number = int(value, 0) if isinstance(value, str) else int(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        if not self.low <= number <= self.high:
            self.fail(f"{value} is not in {self.low:#x} to {self.high:#x}", param, ctx)
        return number


BEYOND = "is beyond float32's range, 3.4028235e38 either way"


def fits_float32(number: float) -> bool:
    """Whether a number stays finite when it is rounded to float32; infinity and NaN are what they are."""
    try:
        struct.pack("<f", number)
    except OverflowError:
        return False
    return True


class Numbers(Parameter):
    """A fixed count of numbers with separators between."""

    def __init__(self, shape: str, kind: type[int] | type[float], separator: str = ",") -> None:
        self.name = shape
        self.kind = kind
        self.separator = separator
        self.count = shape.count(separator) + 1

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        parts = value.lower().split(self.separator.lower())
        try:
            numbers = tuple(self.kind(part) for part in parts)
        except ValueError:
            numbers = ()
        if len(numbers) != self.count:
            self.fail(f"{value!r} is not of the form {self.name}", param, ctx)
        if not all(fits_float32(number) for number in numbers):
            self.fail(f"{value!r} {BEYOND}", param, ctx)
        return numbers


class Float32(Parameter):
    """A number that float32 can hold, infinity and NaN among them: rules judge those."""

    name = "NUMBER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        if not fits_float32(number):
            self.fail(f"{value} {BEYOND}", param, ctx)
        return number


class OutputPath(click.Path):
    """A path to write, which must have a name."""

    def __init__(self, suffix: str = "") -> None:
        super().__init__(path_type=Path)
        self.suffix = suffix

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("a name to write is missing: the path is empty", param, ctx)
        path = super().convert(value, param, ctx)
        if self.suffix and Path(str(path)).suffix.lower() != self.suffix:
            self.fail(f"{value} should end in {self.suffix}", param, ctx)
        return path


class TierName(Parameter):
    name = "1.0|1.1|1.2"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, Tier):
            return value
        try:
            return Tier.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class ExpectedType(Parameter):
    """An instance, a geometry of it or a primitive of that: ``12,0,5`` or ``instance=12,geometry=0,primitive=5``."""

    name = "instance=I[,geometry=G[,primitive=P]]"
    parts = ("instance", "geometry", "primitive")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from rtviewer.session.state import Expected

        if not isinstance(value, str):
            return value
        numbers = []
        for name, text in zip(self.parts, value.split(","), strict=False):
            number = text.strip().removeprefix(name).strip()
            number = number.removeprefix("=").strip() if number != text.strip() else number
            if not number.isdecimal():
                break
            numbers.append(int(number))
        if not numbers or len(numbers) != len(value.split(",")):
            self.fail(f"{value!r} is not of the form {self.name} or INSTANCE,GEOMETRY,PRIMITIVE, numbers from 0")
        return Expected(*numbers)


SIZE = Numbers("WxH", int, "x")
PIXEL = Numbers("X,Y", int)
VECTOR = Numbers("x,y,z", float)


def _names(kind: type[IntFlag], known: int) -> str:
    return ", ".join(str(member.name) for member in kind if int(member) & known)


def _all(*decorators: Callable[[Any], Any]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def output_options(command: Command) -> Command:
    """``--json``, and ``--debug`` for its help (``main`` takes it out wherever it stands)."""
    return _all(
        click.option("--json", "as_json", is_flag=True, help="Print JSON; infinite and undefined numbers are null."),
        click.option("--debug", is_flag=True, expose_value=False, help="Show a traceback with errors."),
    )(command)


def profile_options(command: Command) -> Command:
    """``--tier`` and ``--xbox``, passed on as ``profile``."""

    def with_profile(*args: Any, tier: Tier, xbox: bool, **kwargs: Any) -> Any:
        return command(*args, profile=Profile(tier, xbox), **kwargs)

    with_profile.__name__, with_profile.__doc__ = command.__name__, command.__doc__
    with_profile.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Command = _all(
        click.option("--tier", type=TierName(), default="1.1", show_default=True, help="Raytracing tier to check by."),
        click.option("--xbox", is_flag=True, help="Check by the Xbox additions, too."),
    )(with_profile)  # type: ignore[arg-type,assignment]
    return decorated


def build_options(command: Command) -> Command:
    """``--build-flags`` and ``--tlas-build-flags``."""
    known = int(Profile().known_build_flags)
    return _all(
        click.option(
            "--build-flags", type=FlagWord(BuildFlag), default="NONE", show_default=True,
            help=f"Flags of the bottom levels: {_names(BuildFlag, known)}; or a number.",
        ),
        click.option(
            "--tlas-build-flags", type=FlagWord(BuildFlag), default="NONE", show_default=True,
            help="Flags of the top level.",
        ),
    )(command)  # fmt: skip


def _program_names(kind: ProgramKind) -> str:
    return ", ".join(known_names(kind, NO_PROGRAMS))


def loaded_programs(file: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """The table of a file of programs as ``programs``; empty without a file. click.UsageError when a program that was
    asked for is not in it, ProgramError when it does not load."""
    if file is None:
        return {}
    from rtviewer.session.user_programs import load_programs

    table = load_programs(file)
    for kind, option in ((ProgramKind.ANY_HIT, "any_hit"), (ProgramKind.INTERSECTION, "intersection")):
        name = given.get(option)
        if isinstance(name, str) and table.find(kind, name) is None:
            raise click.UsageError(missing_text(kind, name, table))
    return {"programs": table}


def ray_options(command: Command) -> Command:
    """What every ray is traced with, passed on as ``ray`` (a dict for ``session.document.scene_rays``)."""
    names = ("ray_flags", "mask", "t_min", "t_max", "any_hit", "intersection",
             "ray_contribution", "multiplier", "miss_index")  # fmt: skip

    def with_ray(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in names}
        given |= loaded_programs(kwargs.pop("programs"), given)
        given["repeat_calls"] = kwargs.pop("repeat_calls")
        return command(*args, ray={name: value for name, value in given.items() if value is not None}, **kwargs)

    with_ray.__name__, with_ray.__doc__ = command.__name__, command.__doc__
    with_ray.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    known = int(Profile(xbox=True).known_ray_flags)
    decorated: Command = _all(
        click.option(
            "--ray-flags", type=FlagWord(RayFlag), default="NONE", show_default=True,
            help=f"{_names(RayFlag, known)}; or a number.",
        ),
        click.option(
            "--mask", type=Number(0, 0xFFFFFFFF), default="0xFF", show_default=True,
            help="InstanceInclusionMask; the low 8 bits count (MASK-2).",
        ),
        click.option("--t-min", type=Float32(), default=0.0, show_default=True, help="TMin."),
        click.option("--t-max", type=Float32(), default=math.inf, show_default=True, help="TMax."),
        click.option(
            "--programs", type=click.Path(), is_eager=True, metavar="FILE",
            help="Run a Python file of your own programs: it is code and runs with your rights.",
        ),
        click.option(
            "--any-hit", type=ProgramName(AnyHitProgram),
            help=f"Any-hit program: {_program_names(ProgramKind.ANY_HIT)}; or one of --programs.  "
            "[default: the scene's]",
        ),
        click.option(
            "--intersection", type=ProgramName(IntersectionProgram),
            help=f"Intersection program: {_program_names(ProgramKind.INTERSECTION)}; or one of --programs.  "
            "[default: the scene's]",
        ),
        click.option(
            "--repeat-calls", is_flag=True,
            help="Call any-hit and intersection programs twice where the rules allow it (AH-7, PROC-8).",
        ),
        click.option("--ray-contribution", type=Number(0, 15), help="RayContributionToHitGroupIndex.  [default: 0]"),
        click.option(
            "--multiplier", type=Number(0, 15), help="MultiplierForGeometryContributionToHitGroupIndex.  [default: 1]"
        ),
        click.option("--miss-index", type=Number(0, 0xFFFF), help="MissShaderIndex.  [default: 0]"),
    )(with_ray)  # type: ignore[arg-type,assignment]  # fmt: skip
    return decorated


def view_options(command: Command) -> Command:
    """``--size`` and ``--camera``."""
    return _all(
        click.option("--size", type=SIZE, default="960x540", show_default=True, help="Image size in pixels."),
        click.option(
            "--camera", metavar="NAME",
            help="A camera of the scene by name or number, or 'fit'.  [default: its first, else 'fit']",
        ),
    )(command)  # fmt: skip


def view_camera(scene: Scene, name: str | None) -> Camera:
    """The camera to look through; RtviewerError when none has that name, or its numbers are beyond float32's range."""
    from rtviewer.session.document import camera_named

    camera = camera_named(scene, name)
    numbers = (*camera.position, *camera.look_at, *camera.up, camera.orthographic_height or 0.0)
    if not all(math.isfinite(number) and fits_float32(number) for number in numbers):
        named = f"camera {camera.name!r}" if camera.name else "the camera"
        raise RtviewerError(f"a number of {named} of {scene.name} {BEYOND}")
    return camera


SOURCE = click.argument("source", metavar="SOURCE", type=click.Path())


def source_options(command: Command) -> Command:
    """SOURCE with what some files need beside them, passed on as ``source`` and ``files`` (for ``load_document``)."""

    def with_files(*args: Any, blas: tuple[str, ...], base_address: int | None, **kwargs: Any) -> Any:
        from rtviewer.io.bottom_level_files import BottomLevelFile

        files = {"bottom_levels": [BottomLevelFile.parse(text) for text in blas], "base_address": base_address}
        return command(*args, files=files, **kwargs)

    with_files.__name__, with_files.__doc__ = command.__name__, command.__doc__
    with_files.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Command = _all(
        SOURCE,
        click.option(
            "--blas", metavar="FILE...", multiple=True,
            help="Bottom levels of a top level that comes alone (a blob or a dump), in the order of the addresses that "
            "its instances name; or ADDRESS=FILE. Takes files up to the next option, and may be given again; SOURCE "
            "stands before it or comes last.",
        ),
        click.option(
            "--base-address", type=Number(0, 2**63 - 1), metavar="ADDRESS",
            help="SOURCE is a tools-visualization dump whose buffer lay at this GPU address.  [default: inferred]",
        ),
    )(with_files)  # type: ignore[arg-type,assignment]  # fmt: skip
    return decorated


def refuse_build_flags(document: Document, *words: BuildFlag) -> None:
    """click.UsageError when build flags are given for structures that are traced as they are."""
    if not document.has_inputs and any(words):
        raise click.UsageError("SOURCE holds finished structures, which are not built again: leave out the build flags")


def check_mode(name: str) -> None:
    """click.UsageError, listing all, for a name that no image mode has."""
    from rtviewer.shade.modes import MODES

    if name not in MODES:
        raise click.UsageError(f"there is no mode {name!r}: use one of {', '.join(MODES)}")
