"""Ratios over scenes, and what they should be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.bench.cracks import PLACES, miss_name, owner_name
from tests.bench.debugging import PICK, RECORDER
from tests.bench.facts import Fact
from tests.bench.measure import Samples
from tests.bench.memory import peak_name
from tests.bench.rows import (
    EMBREE,
    EMBREE_16_ROBUST,
    EMBREE_LOW,
    EMBREE_MEDIUM,
    EMBREE_REFIT,
    EMBREE_ROBUST,
    FAST_BUILD,
    FAST_TRACE,
    PRODUCT_BUILDS,
    RAY_KINDS,
    RTVIEWER,
    SMALL,
    TINYBVH,
    SceneResult,
)
from tests.bench.scenes import MESHES
from tests.bench.start import COLD, WARM

LARGE = 250_000
"""Builds of scenes with at least this many triangles are compared; below, starting threads is what is measured."""

Value = Callable[[SceneResult], float | None]
"""A number of one scene, None where a part of it was not measured."""


@dataclass(frozen=True)
class Target:
    """``low`` and ``high``: the range asked for, either None. ``combine`` makes one number of those of the scenes."""

    name: str
    value: Value
    applies: Callable[[SceneResult], bool]
    low: float | None = None
    high: float | None = None
    combine: Callable[[Sequence[float]], float] = lambda values: geometric_mean(values)


@dataclass(frozen=True)
class Judgement:
    """``value`` None: not measured. ``scenes``: where it comes from. ``met`` None as ``value``."""

    name: str
    low: float | None
    high: float | None
    value: float | None
    met: bool | None
    scenes: tuple[str, ...]

    @property
    def share(self) -> float | None:
        """What was measured over the bound it is measured by: the broken one, else the lower."""
        bound = self.low if self.low is not None else self.high
        if self.value is None or not bound:
            return None
        if self.low is not None and self.high is not None and self.value > self.high:
            bound = self.high
        return self.value / bound


def geometric_mean(values: Iterable[float]) -> float:
    """Of one or more positive numbers."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def judge(results: Sequence[SceneResult]) -> list[Judgement]:
    """Every target of TARGETS against what was measured."""
    judgements = []
    for target in TARGETS:
        found = {r.name: v for r in results if target.applies(r) and (v := target.value(r)) is not None}
        value = target.combine(list(found.values())) if found else None
        met = None
        if value is not None:
            met = (target.low is None or value >= target.low) and (target.high is None or value <= target.high)
        judgements.append(Judgement(target.name, target.low, target.high, value, met, tuple(found)))
    return judgements


# --- values -------------------------------------------------------------------------------------------------------


def ray_ratio(kind: str, peer: str, product: str = RTVIEWER) -> Value:
    """Rays per CPU second of one thread, ``product``'s over ``peer``'s."""

    def value(result: SceneResult) -> float | None:
        rows = result.rays.get(kind, {})
        if product not in rows or peer not in rows:
            return None
        return rows[peer].one.median / rows[product].one.median

    return value


def build_ratio(peer: str, product: str) -> Value:
    """Builds per second of wall time on all threads, ``product``'s over ``peer``'s."""

    def value(result: SceneResult) -> float | None:
        if product not in result.builds or peer not in result.builds:
            return None
        return result.builds[peer].all.median / result.builds[product].all.median

    return value


def refit_ratio(peer: str) -> Value:
    def value(result: SceneResult) -> float | None:
        samples: dict[str, Samples] = result.refits
        if RTVIEWER not in samples or peer not in samples:
            return None
        return samples[peer].median / samples[RTVIEWER].median

    return value


def all_kinds_ratio(peer: str) -> Value:
    """Geometric mean of the three kinds of rays."""

    def value(result: SceneResult) -> float | None:
        found = [v for kind in RAY_KINDS if (v := ray_ratio(kind, peer)(result)) is not None]
        return geometric_mean(found) if found else None

    return value


def bytes_of(product: str, field: str) -> Value:
    def value(result: SceneResult) -> float | None:
        row = result.builds.get(product)
        return None if row is None else getattr(row, field)

    return value


# --- where --------------------------------------------------------------------------------------------------------


def on_meshes(result: SceneResult) -> bool:
    return result.name in MESHES


def on_large_meshes(result: SceneResult) -> bool:
    return on_meshes(result) and result.primitives >= LARGE


def on(name: str) -> Callable[[SceneResult], bool]:
    return lambda result: result.name == name


TARGETS = (
    Target("primary / Embree single", ray_ratio("primary", EMBREE), on_meshes, 3.5),
    Target("primary / Embree 16-ray robust", ray_ratio("primary", EMBREE_16_ROBUST), on_meshes, 1.3),
    Target("primary / tinybvh BVH8_CPU", ray_ratio("primary", TINYBVH), on_meshes, 4.0),
    Target("diffuse / Embree single", ray_ratio("diffuse", EMBREE), on_meshes, 0.95),
    Target("diffuse / Embree single robust", ray_ratio("diffuse", EMBREE_ROBUST), on_meshes, 1.15),
    Target("diffuse / tinybvh BVH8_CPU", ray_ratio("diffuse", TINYBVH), on_meshes, 1.15),
    Target("shadow / Embree single", ray_ratio("shadow", EMBREE), on_meshes, 2.0),
    Target("shadow / Embree single, worst scene", ray_ratio("shadow", EMBREE), on_meshes, 0.95, combine=min),
    Target("shadow / tinybvh BVH8_CPU", ray_ratio("shadow", TINYBVH), on_meshes, 2.2),
    Target("default build / Embree MEDIUM", build_ratio(EMBREE_MEDIUM, RTVIEWER), on_large_meshes, 1.5),
    Target("default build / tinybvh BVH8_CPU", build_ratio(TINYBVH, RTVIEWER), on_large_meshes, 4.0),
    Target("FAST_BUILD / Embree LOW", build_ratio(EMBREE_LOW, FAST_BUILD), on_large_meshes, 1.0),
    Target("refit / Embree true refit", refit_ratio(EMBREE_REFIT), on_meshes, 1.0),
    Target("10,000 instances, all rays / Embree instancing", all_kinds_ratio(EMBREE), on("instances"), 1.0),
    Target("alpha foliage, all rays / Embree filters", all_kinds_ratio(EMBREE), on("foliage"), 1.0),
    Target("procedural spheres, all rays / Embree user geometry", all_kinds_ratio(EMBREE), on("spheres"), 1.0),
    Target(
        "FAST_BUILD's part of the default build time", build_ratio(FAST_BUILD, RTVIEWER), on_large_meshes, 1 / 3, 0.5
    ),
    Target("FAST_TRACE's build time / the default's", build_ratio(FAST_TRACE, RTVIEWER), on_large_meshes, 2.0, 3.0),
    Target(
        "FAST_TRACE diffuse / default, worst scene",
        ray_ratio("diffuse", RTVIEWER, FAST_TRACE),
        on_meshes,
        1.0,
        combine=min,
    ),
    Target("default, used bytes per triangle", bytes_of(RTVIEWER, "used"), on_meshes, high=58, combine=max),
    Target("default, promised bytes per triangle", bytes_of(RTVIEWER, "bound"), on_large_meshes, high=72, combine=max),
    Target("MINIMIZE_MEMORY, nodes and packs per triangle", bytes_of(SMALL, "tree"), on_meshes, high=18, combine=max),
)
"""Ratios are speeds, larger is better for the product, unless the name says otherwise."""


# --- single numbers -----------------------------------------------------------------------------------------------

FACT_LIMITS = {
    COLD: 8.0,
    WARM: 0.8,
    **{peak_name(builder): 3.0 for builder in PRODUCT_BUILDS},
    PICK: 50.0,
    RECORDER: 1.02,
    **{miss_name(RTVIEWER, place): 0.0 for place in PLACES},
    **{owner_name(place): 0.0 for place in PLACES},
}
"""What facts may be at most."""


def judge_facts(facts: Sequence[Fact]) -> list[Judgement]:
    """Every fact that has a limit; those not measured in this run have no value."""
    found = {fact.name: fact for fact in facts}
    judgements = []
    for name, limit in FACT_LIMITS.items():
        fact = found.get(name)
        value = None if fact is None else fact.value
        unit = "" if fact is None else fact.unit
        judgements.append(
            Judgement(f"{name}, {unit}".rstrip(", "), None, limit, value, None if value is None else value <= limit, ())
        )
    return judgements
