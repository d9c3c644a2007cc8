"""Runs recordings of another tracer through one of ours and counts disagreements.

An engine is any callable with the signature of :class:`Engine`; ``kernels`` builds structures and walks them,
``reference`` is the brute-force oracle.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.descs import BlasInputs, InstanceInputs
from rtviewer.dxr.flags import BuildFlag
from rtviewer.errors import FileFormatError, StructureError
from rtviewer.io.recording import (
    DEFAULT_RECORDS,
    Recording,
    address_of,
    read_recorded_result,
    read_recording,
)
from rtviewer.session.conformance_judge import KINDS, Judge, Key, Mismatch
from rtviewer.trace.reference import ReferenceRules, trace_reference
from rtviewer.trace.request import Hits, RayBatch, TraceSettings


@dataclass(frozen=True)
class SceneInputs:
    """What an engine builds from. ``blas_of``: per instance the position in ``blases``, -1 for none; the addresses in
    ``instances`` are those of ``address_of``."""

    blases: tuple[BlasInputs, ...]
    instances: InstanceInputs
    blas_of: NDArray[np.int32]


@dataclass(frozen=True)
class AnyHitLog:
    """The any-hit calls of n rays: rows ``offsets[i]:offsets[i + 1]`` of ray i, in the order made.

    ``offsets`` (n + 1,) int64, ``rows`` (m, 4) int64: instance, geometry, primitive, hit kind.
    """

    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]

    def of_rays(self) -> list[list[Key]]:
        rows: list[Key] = [(i, g, p, k) for i, g, p, k in self.rows.tolist()]
        return [rows[first:last] for first, last in pairwise(self.offsets.tolist())]


class Engine(Protocol):
    """Traces rays in a scene; every setting may be one value or one per ray."""

    def __call__(self, scene: SceneInputs, rays: RayBatch, settings: TraceSettings) -> tuple[Hits, AnyHitLog]: ...


def reference_engine(rules: ReferenceRules | None = None) -> Engine:
    """The oracle as an engine, with other rules when a test asks for wrong ones."""

    def trace(scene: SceneInputs, rays: RayBatch, settings: TraceSettings) -> tuple[Hits, AnyHitLog]:
        result = trace_reference(scene.blases, scene.instances, scene.blas_of.tolist(), rays, settings, rules=rules)
        log = result.any_hit_log
        rows = np.stack([log.instance, log.geometry, log.primitive, log.hit_kind], axis=1).astype(np.int64)
        return result.hits, AnyHitLog(log.offsets, rows)

    return trace


LOG_LIMIT = 1 << 22
"""Most candidate events of one scene; the recordings need far fewer."""


def kernels_engine(build_flags: BuildFlag = BuildFlag.NONE) -> Engine:
    """Builder and compiled tracer as an engine; the any-hit log is read off the walks of the same rays."""

    def trace_scene(scene: SceneInputs, rays: RayBatch, settings: TraceSettings) -> tuple[Hits, AnyHitLog]:
        from rtviewer.build.builder import build_blas, build_tlas
        from rtviewer.trace.dispatch import trace
        from rtviewer.trace.walk import CANDIDATE_KINDS, any_hit_calls, walk

        blases = {address_of(i): build_blas(blas, build_flags) for i, blas in enumerate(scene.blases)}
        tlas = build_tlas(scene.instances, build_flags, blases=blases)
        hits = trace(tlas, blases, rays, settings).hits
        story = walk(tlas, blases, rays, settings, kinds=CANDIDATE_KINDS, limit=LOG_LIMIT)
        if story.truncated.any():
            raise StructureError(f"more than {LOG_LIMIT} candidates in one scene: its any-hit calls cannot be judged")
        return hits, AnyHitLog(*any_hit_calls(story))

    return trace_scene


ENGINES: Mapping[str, Callable[[], Engine]] = {"kernels": kernels_engine, "reference": reference_engine}


@dataclass(frozen=True)
class SceneReport:
    """One scene: ``compared`` plus all ``excluded`` equals ``rays``. ``examples``: the mismatches themselves."""

    name: str
    rays: int
    compared: int
    excluded: Mapping[str, int]
    mismatches: Mapping[str, int]
    skipped_reason: str | None
    examples: tuple[Mismatch, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "rays": self.rays,
            "compared": self.compared,
            "excluded": dict(self.excluded),
            "mismatches": dict(self.mismatches),
            "skipped_reason": self.skipped_reason,
        }


@dataclass(frozen=True)
class ConformanceReport:
    """All scenes of a folder, by name."""

    scenes: tuple[SceneReport, ...]

    @property
    def mismatches(self) -> int:
        """Rays times kinds of disagreement, over all scenes."""
        return sum(sum(scene.mismatches.values()) for scene in self.scenes)

    def to_json(self) -> dict[str, Any]:
        return {"scenes": [scene.to_json() for scene in self.scenes], "mismatches": self.mismatches}


Progress = Callable[[int, int, str], None]
"""Called with scenes done, scenes in all, and the name of the scene that comes next (empty at the end)."""


def run_conformance(
    folder: Path | str, engine: str | Engine = "kernels", progress: Progress | None = None
) -> ConformanceReport:
    """Compare an engine with every recording in ``folder``, which holds ``scenes/`` and ``results/``.

    ``engine``: ``"kernels"``, ``"reference"`` or a callable. Scenes that need what is not there yet, or that record
    undefined behaviour, are reported as skipped before anything is built. Raises FileFormatError for a folder without
    recordings and for damaged files.
    """
    folder = Path(folder)
    files = sorted((folder / "scenes").glob("*.npz"))
    if not files:
        raise FileFormatError(folder, "holds no recordings", expected="scenes/*.npz and results/*.npz", found="none")
    tracer = ENGINES[engine]() if isinstance(engine, str) else engine
    reports = []
    for done, file in enumerate(files):
        if progress is not None:
            progress(done, len(files), file.stem)
        reports.append(compare_recording(file, folder / "results" / file.name, tracer))
    if progress is not None:
        progress(len(files), len(files), "")
    return ConformanceReport(tuple(reports))


def compare_recording(scene_file: Path, result_file: Path, engine: Engine) -> SceneReport:
    """Compare an engine with one recording."""
    recording = read_recording(scene_file)
    skipped = reason_to_skip(recording)
    rays = len(recording)
    if skipped is not None:
        return SceneReport(recording.name, rays, 0, {"scene skipped": rays} if rays else {}, {}, skipped)
    recorded = read_recorded_result(result_file, rays)
    scene = SceneInputs(recording.blases, recording.instances, recording.blas_of)
    hits, log = engine(scene, recording.rays, recording.settings)
    oracle = trace_reference(
        recording.blases, recording.instances, recording.blas_of.tolist(), recording.rays, recording.settings
    )
    plan, found = Judge(recording, recorded, hits, log.of_rays(), oracle).run()
    tally = Tally(mismatch.kind for mismatch in found)
    return SceneReport(
        recording.name,
        rays,
        int(np.count_nonzero(plan.compared)),
        plan.excluded(),
        {kind: tally[kind] for kind in KINDS if tally[kind]},
        None,
        tuple(found),
    )


def reason_to_skip(recording: Recording) -> str | None:
    """Why a scene is not run, None when it is."""
    if "informative" in recording.tags:
        return "informative: records undefined behaviour, which is not imitated"
    if recording.needs_update:
        return "needs a second state: updates are not implemented yet"
    formats = sorted(recording.vertex_formats - {"float3"})
    if formats:
        return f"needs vertex formats that are not implemented yet: {', '.join(formats)}"
    if recording.record_types != DEFAULT_RECORDS:
        return "needs a hit-group table beyond the default two records, which is not implemented yet"
    return None
