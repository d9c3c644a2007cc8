"""Rays from inside a closed mesh exactly at its vertices and at the rounded middles of its edges.

None may pass between triangles, and a shared edge or vertex belongs to exactly one of them: from any point inside,
triangles left through their back minus triangles entered through their front are one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.dxr.verdicts import Counter
from rtviewer.scene.mesh import Mesh
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import RayBatch, TraceSettings
from tests.bench.facts import Fact
from tests.bench.peers import ROBUST, Answers, EmbreeTree, Kind, Peers, Quality
from tests.bench.product import ProductTree
from tests.bench.scenes import SCENES, BenchScene, Size

CENTRE = (0.0, 0.0, 0.0)
ASIDE = (0.5, -0.5, 0.25)
"""Inside the displaced sphere. From CENTRE a direction is the target itself, so rays hit vertices exactly; from ASIDE
directions are rounded, and rays cross bumps more than once."""
PART = 1 << 16
PLACES = ("vertices", "edge middles")


def edge_middles(mesh: Mesh) -> NDArray[np.float32]:
    """(n, 3) float32: the rounded middle of every edge, once."""
    pairs = np.sort(mesh.indices[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    unique = np.unique(pairs[:, 0].astype(np.int64) << 32 | pairs[:, 1])
    ends = mesh.vertices[unique >> 32].astype(np.float64) + mesh.vertices[unique & 0xFFFFFFFF]
    return (ends / 2).astype(np.float32)


def rays_at(targets: NDArray[np.float32], origin: tuple[float, float, float]) -> RayBatch:
    start = np.asarray(origin, np.float32)
    return RayBatch.make(np.broadcast_to(start, targets.shape), targets - start)


@dataclass(frozen=True)
class Crossings:
    """(n,) int: triangles that a ray crosses from behind, and from before, when every hit is ignored."""

    back: NDArray[np.int64]
    front: NDArray[np.int64]


class ClosedMesh:
    """A closed mesh with fronts outside: opaque for what a ray hits, not opaque for all that it crosses."""

    def __init__(self, scene: BenchScene) -> None:
        self.opaque = ProductTree(scene).dispatcher
        self._open = ProductTree(replace(scene, cut_out=True)).dispatcher

    def misses(self, rays: RayBatch) -> int:
        """Rays that hit nothing, traced as an image is."""
        return sum(int((~self.opaque.trace(part, TraceSettings()).hits.hit).sum()) for part in _parts(rays))

    def crossings(self, rays: RayBatch) -> Crossings:
        return Crossings(
            _ignored_hits(self._open, rays, RayFlag.CULL_FRONT_FACING_TRIANGLES),
            _ignored_hits(self._open, rays, RayFlag.CULL_BACK_FACING_TRIANGLES),
        )


def _ignored_hits(dispatcher: Dispatcher, rays: RayBatch, culled: RayFlag) -> NDArray[np.int64]:
    """(n,) any-hit calls of rays that ignore every hit, so that nothing hides anything."""
    settings = TraceSettings(ray_flags=culled, any_hit=AnyHitProgram.IGNORE)
    calls = []
    for part in _parts(rays):
        counters = dispatcher.trace(part, settings, counters=True).counters
        assert counters is not None
        calls.append(counters[:, Counter.ANY_HIT_CALLS].astype(np.int64))
    return np.concatenate(calls)


def _parts(rays: RayBatch) -> list[RayBatch]:
    return [rays.part(first, first + PART) for first in range(0, len(rays), PART)]


def miss_name(tracer: str, place: str) -> str:
    return f"rays at {place} of the closed sphere that miss, {tracer}"


def owner_name(place: str) -> str:
    return f"rays at {place} with other than one owner, rtviewer"


def measure_cracks(size: Size, peers: Peers) -> list[Fact]:
    """The displaced sphere from its centre: misses of all, and for the product rays without exactly one owner."""
    scene = SCENES["sphere"](size)
    mesh = ClosedMesh(scene)
    facts = []
    for place, targets in zip(PLACES, (scene.mesh.vertices, edge_middles(scene.mesh)), strict=True):
        rays = rays_at(targets, CENTRE)
        note = f"of {len(rays):,}"
        facts.append(Fact(miss_name("rtviewer", place), mesh.misses(rays), "rays", note))
        crossings = mesh.crossings(rays)
        others = int(((crossings.back != 1) | (crossings.front != 0)).sum())
        facts.append(Fact(owner_name(place), others, "rays", note))
        for tracer, flags in (("Embree", 0), ("Embree robust", ROBUST)):
            facts.append(_embree_misses(scene, rays, peers, miss_name(tracer, place), flags, note))
    return facts


def _embree_misses(scene: BenchScene, rays: RayBatch, peers: Peers, name: str, flags: int, note: str) -> Fact:
    if peers.embree is None:
        return Fact(name, None, "rays", peers.embree_missing)
    tree = EmbreeTree(peers.embree, scene, Quality.MEDIUM, 1, flags=flags)
    answers = Answers(len(rays))
    tree.trace(rays, Kind.CLOSEST, 1, answers)
    tree.release()
    return Fact(name, int((answers.primitive < 0).sum()), "rays", note)
