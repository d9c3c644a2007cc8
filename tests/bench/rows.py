"""What is measured of one scene: builds, refits and three kinds of rays, for every contender that is here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.flags import BuildFlag
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import RayBatch
from tests.bench.measure import Samples, interleave
from tests.bench.peers import (
    DYNAMIC,
    ROBUST,
    Answers,
    EmbreeTree,
    Kind,
    Peers,
    Quality,
    Timing,
    TinybvhTree,
)
from tests.bench.product import ProductTrace, ProductTree, hit_keys, time_build, time_refit, trace_settings, tree_bytes
from tests.bench.scenes import BenchScene, primary_rays, secondary_rays

RTVIEWER = "rtviewer"
FAST_BUILD, FAST_TRACE, SMALL = "rtviewer FAST_BUILD", "rtviewer FAST_TRACE", "rtviewer MINIMIZE_MEMORY"
EMBREE, EMBREE_ROBUST = "Embree single", "Embree single robust"
EMBREE_16, EMBREE_16_ROBUST = "Embree 16-ray", "Embree 16-ray robust"
EMBREE_LOW, EMBREE_MEDIUM, EMBREE_HIGH = "Embree LOW", "Embree MEDIUM", "Embree HIGH"
EMBREE_REFIT = "Embree refit (LOW, dynamic)"
TINYBVH, TINYBVH_REFIT = "tinybvh BVH8_CPU", "tinybvh BVH refit"

PRODUCT_BUILDS = {
    RTVIEWER: BuildFlag.NONE,
    FAST_BUILD: BuildFlag.PREFER_FAST_BUILD,
    FAST_TRACE: BuildFlag.PREFER_FAST_TRACE,
    SMALL: BuildFlag.MINIMIZE_MEMORY,
}
EMBREE_BUILDS = {EMBREE_LOW: Quality.LOW, EMBREE_MEDIUM: Quality.MEDIUM, EMBREE_HIGH: Quality.HIGH}
EMBREE_RAYS = (EMBREE, EMBREE_ROBUST, EMBREE_16, EMBREE_16_ROBUST)
EMBREE_OTHER_TREES = {"Embree single, LOW build": Quality.LOW, "Embree single, HIGH build": Quality.HIGH}

BUILD_CONTENDERS = (*EMBREE_BUILDS, TINYBVH, *PRODUCT_BUILDS)
REFIT_CONTENDERS = (EMBREE_REFIT, TINYBVH_REFIT, RTVIEWER)
RAY_CONTENDERS = (*EMBREE_RAYS, *EMBREE_OTHER_TREES, TINYBVH, *PRODUCT_BUILDS)
RAY_KINDS = ("primary", "diffuse", "shadow")


@dataclass(frozen=True)
class Plan:
    """``rounds``: of every measurement. ``brief``: leave out HIGH builds, and rays on trees of other flags."""

    rounds: int
    pixels: int
    threads: int
    brief: bool


@dataclass(frozen=True)
class BuildRow:
    """``one``: CPU seconds on one thread; ``all``: wall seconds on all. ``used``, ``tree``, ``bound``: bytes per
    primitive in use, of nodes and leaf elements alone, and promised before the build or, for a peer, at the peak."""

    one: Samples
    all: Samples
    used: float
    tree: float | None
    bound: float


@dataclass(frozen=True)
class RayRow:
    """As BuildRow; ``mismatch``: part of the rays whose hit differs from Embree single's."""

    one: Samples
    all: Samples
    kernel_share: float | None
    mismatch: float | None


@dataclass
class SceneResult:
    """Rows by contender; what is not in them was not measured. ``primitives``: of the bottom level; ``units``: what
    bytes are counted by: instances where there are many, else primitives. ``kind`` names them, in the singular."""

    name: str
    primitives: int
    units: int
    kind: str = "triangle"
    builds: dict[str, BuildRow] = field(default_factory=dict)
    refits: dict[str, Samples] = field(default_factory=dict)
    ray_counts: dict[str, int] = field(default_factory=dict)
    rays: dict[str, dict[str, RayRow]] = field(default_factory=dict)


def measure_scene(scene: BenchScene, peers: Peers, plan: Plan, tell: Callable[[str], None]) -> SceneResult:
    """Everything of one scene; ``tell`` hears what comes next."""
    result = SceneResult(scene.name, scene.primitive_count, scene.primitive_count)
    if scene.placements is not None:
        result.units, result.kind = len(scene.placements), "instance"
    elif scene.boxes is not None:
        result.kind = "sphere"
    tell("builds")
    result.builds = measure_builds(scene, peers, plan, result.units)
    if scene.is_plain:
        tell("refits")
        result.refits = measure_refits(scene, peers, plan)
    flags = {RTVIEWER: BuildFlag.NONE} if plan.brief else PRODUCT_BUILDS
    trees = {name: ProductTree(scene, flag) for name, flag in flags.items()}
    tracers = PeerTracers(scene, peers, plan)
    try:
        for kind, rays in ray_sets(scene, trees[RTVIEWER].dispatcher, plan.pixels).items():
            tell(f"{kind} rays")
            result.ray_counts[kind] = len(rays)
            result.rays[kind] = measure_rays(scene, trees, tracers, rays, kind == "shadow", plan) if len(rays) else {}
    finally:
        tracers.release()
    return result


Contender = Callable[[int], Timing]
"""Does its work on so many threads."""


def on_one_thread(contenders: Mapping[str, Contender], plan: Plan) -> dict[str, Samples]:
    """CPU seconds, which other load on the machine changes little."""

    def cpu(contender: Contender) -> Callable[[], float]:
        return lambda: contender(1).cpu

    return interleave({name: cpu(contender) for name, contender in contenders.items()}, plan.rounds)


def on_all_threads(contenders: Mapping[str, Contender], plan: Plan) -> dict[str, Samples]:
    """Wall seconds."""

    def wall(contender: Contender) -> Callable[[], float]:
        return lambda: contender(plan.threads).wall

    return interleave({name: wall(contender) for name, contender in contenders.items()}, plan.rounds)


# --- builds -------------------------------------------------------------------------------------------------------


def measure_builds(scene: BenchScene, peers: Peers, plan: Plan, units: int) -> dict[str, BuildRow]:
    """Every builder on one thread and on all, interleaved; no tree of a peer outlives its build."""
    sizes: dict[str, tuple[int, int | None, int]] = {}
    builders: dict[str, Contender] = {}
    if peers.embree is not None:
        for name, quality in EMBREE_BUILDS.items():
            if not (plan.brief and quality is Quality.HIGH):
                builders[name] = _embree_builder(scene, peers, quality, name, sizes)
    if peers.tinybvh is not None and scene.is_plain:
        builders[TINYBVH] = _tinybvh_builder(scene, peers, sizes)
    for name, flags in PRODUCT_BUILDS.items():
        builders[name] = _product_builder(scene, flags, plan.threads)
        structures = ProductTree(scene, flags).measured  # compiles, too
        sizes[name] = (
            sum(s.used_size for s in structures), sum(map(tree_bytes, structures)), sum(s.size for s in structures)
        )  # fmt: skip
    for name in builders.keys() - PRODUCT_BUILDS.keys():
        builders[name](plan.threads)  # the first use of a library is no measure
    one = on_one_thread(builders, plan)
    every = on_all_threads(builders, plan)
    rows = {}
    for name in builders:
        used, tree, bound = sizes[name]
        rows[name] = BuildRow(
            one[name], every[name], used / units, None if tree is None else tree / units, bound / units
        )
    return rows


def _embree_builder(
    scene: BenchScene, peers: Peers, quality: Quality, name: str, sizes: dict[str, tuple[int, int | None, int]]
) -> Contender:
    def build(threads: int) -> Timing:
        assert peers.embree is not None
        tree = EmbreeTree(peers.embree, scene, quality, threads)
        sizes[name] = tree.bytes_used, None, tree.bytes_peak
        tree.release()
        return tree.timing

    return build


def _tinybvh_builder(scene: BenchScene, peers: Peers, sizes: dict[str, tuple[int, int | None, int]]) -> Contender:
    def build(threads: int) -> Timing:
        assert peers.tinybvh is not None
        tree = TinybvhTree(peers.tinybvh, scene)
        sizes[TINYBVH] = tree.bytes_used, None, tree.bytes_peak
        tree.release()
        return tree.timing  # its builder takes the threads it wants; CPU seconds are of all of them

    return build


def _product_builder(scene: BenchScene, flags: BuildFlag, all_threads: int) -> Contender:
    return lambda threads: time_build(scene, flags, on_one=threads == 1 and all_threads > 1)


def measure_refits(scene: BenchScene, peers: Peers, plan: Plan) -> dict[str, Samples]:
    """Wall seconds on all threads for new boxes of the same tree; all are told that the vertices have changed.

    The peers refit in place; an update gives another structure, checks that indices are those of the build (UPD-8), and
    gets the memory of the result before it.
    """
    source = ProductTree(scene, BuildFlag.ALLOW_UPDATE).blas
    refits: dict[str, Callable[[], float]] = {RTVIEWER: lambda: time_refit(scene, source).wall}
    trees: list[EmbreeTree | TinybvhTree] = []
    if peers.embree is not None:
        trees.append(embree := EmbreeTree(peers.embree, scene, Quality.LOW, plan.threads, flags=DYNAMIC))
        refits[EMBREE_REFIT] = lambda: embree.refit().wall
    if peers.tinybvh is not None:
        trees.append(tinybvh := TinybvhTree(peers.tinybvh, scene, refits=True))
        refits[TINYBVH_REFIT] = lambda: tinybvh.refit().wall
    for refit in refits.values():
        refit()  # the first one compiles or allocates
    samples = interleave(refits, plan.rounds)
    for tree in trees:
        tree.release()
    return samples


# --- rays ---------------------------------------------------------------------------------------------------------


def ray_sets(scene: BenchScene, dispatcher: Dispatcher, pixels: int) -> dict[str, RayBatch]:
    """The rays of RAY_KINDS; bounces and shadows start where the product's primary rays hit."""
    primary = primary_rays(scene, pixels)
    hits = dispatcher.trace(primary, trace_settings(scene, occlusion=False)).hits
    diffuse, shadow = secondary_rays(scene, primary, hits)
    return dict(zip(RAY_KINDS, (primary, diffuse, shadow), strict=True))


class PeerTracers:
    """The peers' trees of a scene, for all ray kinds."""

    def __init__(self, scene: BenchScene, peers: Peers, plan: Plan) -> None:
        self._primitive_count = scene.primitive_count
        self._embree: dict[str, EmbreeTree] = {}
        self._tinybvh: TinybvhTree | None = None
        if peers.embree is not None:
            plain = EmbreeTree(peers.embree, scene, Quality.MEDIUM, plan.threads)
            robust = EmbreeTree(peers.embree, scene, Quality.MEDIUM, plan.threads, flags=ROBUST)
            self._embree = {EMBREE: plain, EMBREE_ROBUST: robust, EMBREE_16: plain, EMBREE_16_ROBUST: robust}
            for name, quality in {} if plan.brief else EMBREE_OTHER_TREES.items():
                self._embree[name] = EmbreeTree(peers.embree, scene, quality, plan.threads)
        if peers.tinybvh is not None and scene.is_plain:
            self._tinybvh = TinybvhTree(peers.tinybvh, scene)

    def contenders(self, rays: RayBatch, occlusion: bool) -> tuple[dict[str, Contender], dict[str, Answers]]:
        """How to trace ``rays`` with each, and where the answers will be."""
        answers = {name: Answers(len(rays)) for name in self._embree}
        calls: dict[str, Contender] = {}
        for name, tree in self._embree.items():
            packets = name in (EMBREE_16, EMBREE_16_ROBUST)
            closest, occluded = (Kind.CLOSEST_16, Kind.OCCLUDED_16) if packets else (Kind.CLOSEST, Kind.OCCLUDED)
            calls[name] = _call(tree, rays, occluded if occlusion else closest, answers[name])
        if self._tinybvh is not None:
            tinybvh, answer = self._tinybvh, Answers(len(rays))
            answers[TINYBVH] = answer
            calls[TINYBVH] = lambda threads: tinybvh.trace(rays, occlusion, threads, answer)
        return calls, answers

    def found(self, answers: Answers, occlusion: bool) -> NDArray[np.int64]:
        """As ProductTrace.found."""
        if occlusion:
            return answers.primitive.astype(np.int64)
        return hit_keys(answers.primitive, answers.instance, self._primitive_count)

    def release(self) -> None:
        for tree in {id(tree): tree for tree in self._embree.values()}.values():
            tree.release()
        if self._tinybvh is not None:
            self._tinybvh.release()


def _call(tree: EmbreeTree, rays: RayBatch, kind: Kind, answers: Answers) -> Contender:
    return lambda threads: tree.trace(rays, kind, threads, answers)


def measure_rays(
    scene: BenchScene,
    trees: Mapping[str, ProductTree],
    tracers: PeerTracers,
    rays: RayBatch,
    occlusion: bool,
    plan: Plan,
) -> dict[str, RayRow]:
    """One ray set through every contender, on one thread and on all."""
    settings = trace_settings(scene, occlusion=occlusion)
    with ThreadPoolExecutor(plan.threads) as pool:
        products = {n: ProductTrace(t.dispatcher, rays, settings, pool) for n, t in trees.items()}
        calls, answers = tracers.contenders(rays, occlusion)
        calls |= {name: product.run for name, product in products.items()}
        for call in calls.values():
            call(plan.threads)
        one = on_one_thread(calls, plan)
        every = on_all_threads(calls, plan)
    found = {name: tracers.found(answer, occlusion) for name, answer in answers.items()}
    found |= {name: product.found(scene.primitive_count, occlusion=occlusion) for name, product in products.items()}
    rows = {}
    for name in calls:
        mismatch = None
        if name != EMBREE and EMBREE in found:
            mismatch = float((found[name] != found[EMBREE]).mean())
        share = float(np.median(products[name].kernel_shares)) if name in products else None
        rows[name] = RayRow(one[name], every[name], share, mismatch)
    return rows
