"""Runs recordings of another tracer through one of ours and counts disagreements.

Every recorded set of answers is compared: the scene as it is, its second state, built afresh and reached by updates,
and the pipeline's skip flags. ``conformance_variants`` repeats scenes with other build flags, copies and updates.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rtviewer.dxr.flags import BuildFlag, PipelineFlag, RayFlag
from rtviewer.errors import FileFormatError
from rtviewer.io.recording import Recording, SceneState, read_recorded_result, read_recording, recorded_prefixes
from rtviewer.session.conformance_engines import (
    ENGINES,
    AnyHitLog,
    Engine,
    SceneInputs,
    kernels_engine,
    reference_engine,
)
from rtviewer.session.conformance_judge import KINDS, Judge, Mismatch, Plan, legal_flags
from rtviewer.session.conformance_variants import Base, VariantReport, run_variants, variant_words
from rtviewer.trace.reference import ReferenceResult, trace_reference
from rtviewer.trace.request import TraceSettings

__all__ = [
    "ENGINES",
    "AnyHitLog",
    "ConformanceReport",
    "Engine",
    "SceneInputs",
    "SceneReport",
    "VariantReport",
    "compare_recording",
    "kernels_engine",
    "reason_to_skip",
    "reference_engine",
    "run_conformance",
    "variant_words",
]


@dataclass(frozen=True)
class SceneReport:
    """One scene: ``compared`` plus all ``excluded`` equals ``rays``, all of the first state.

    ``variants``: what else was compared of it, by name. ``mismatches`` counts those of the variants too.
    ``examples``: the mismatches themselves.
    """

    name: str
    rays: int
    compared: int
    excluded: Mapping[str, int]
    mismatches: Mapping[str, int]
    skipped_reason: str | None
    examples: tuple[Mismatch, ...] = ()
    variants: Mapping[str, VariantReport] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "rays": self.rays,
            "compared": self.compared,
            "excluded": dict(self.excluded),
            "mismatches": dict(self.mismatches),
            "skipped_reason": self.skipped_reason,
            "variants": {name: report.to_json() for name, report in self.variants.items()},
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
    folder: Path | str,
    engine: str | Engine = "kernels",
    progress: Progress | None = None,
    *,
    variants: Sequence[BuildFlag] = (),
) -> ConformanceReport:
    """Compare an engine with every recording in ``folder``, which holds ``scenes/`` and ``results/``.

    ``engine``: ``"kernels"``, ``"reference"`` or a callable. ``variants``: build-flag words with which builder and
    kernels repeat each scene (``variant_words()`` are all). Scenes that record undefined behaviour are reported as
    skipped before anything is built. Raises FileFormatError for a folder without recordings and for damaged files.
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
        reports.append(compare_recording(file, folder / "results" / file.name, tracer, variants=variants))
    if progress is not None:
        progress(len(files), len(files), "")
    return ConformanceReport(tuple(reports))


def compare_recording(
    scene_file: Path, result_file: Path, engine: Engine, *, variants: Sequence[BuildFlag] = ()
) -> SceneReport:
    """Compare an engine with one recording, and with ``variants`` the recording's repetitions with the first run."""
    recording = read_recording(scene_file)
    skipped = reason_to_skip(recording)
    rays = len(recording)
    if skipped is not None:
        return SceneReport(recording.name, rays, 0, {"scene skipped": rays} if rays else {}, {}, skipped)
    plans: dict[str, Plan] = {}
    found: dict[str, list[Mismatch]] = {}
    bases: dict[str, Base] = {}
    for part in _parts(recording, recorded_prefixes(result_file)):
        settings = _traceable(part.recording)
        hits, log = engine(part.scene, part.recording.rays, settings)
        base = bases.get(part.prefix)
        if base is None:
            oracle = _oracle(part.recording, settings)
            base = Base(part.recording, read_recorded_result(result_file, rays, part.prefix), oracle, hits, log)
            bases[part.prefix] = base
        judge = Judge(base.recording, base.recorded, hits, log.of_rays(), base.oracle)
        plans[part.name], found[part.name] = judge.run()
    reports = {name: VariantReport.of(plan, found[name]) for name, plan in plans.items()}
    if variants:
        reports |= run_variants(bases[""], bases.get(SECOND_STATE), variants)
    return _scene_report(recording, reports)


SECOND_STATE = "state2__"
PIPELINES = {
    "pipe_skip_triangles__": PipelineFlag.SKIP_TRIANGLES,
    "pipe_skip_aabbs__": PipelineFlag.SKIP_PROCEDURAL_PRIMITIVES,
}


@dataclass(frozen=True)
class _Part:
    """One comparison with a set of answers: those whose names begin with ``prefix``."""

    name: str
    prefix: str
    recording: Recording
    scene: SceneInputs


def _parts(recording: Recording, prefixes: Sequence[str]) -> Iterator[_Part]:
    """All comparisons of a recording; the first, without a name, is the scene as it is.

    Raises FileFormatError for answers that the schema does not know, or a second state without answers.
    """
    first = _inputs(recording.first)
    yield _Part("", "", recording, first)
    unknown = set(prefixes) - {SECOND_STATE, *PIPELINES}
    if unknown or (SECOND_STATE in prefixes) != (recording.second is not None):
        text = "the answers are not those of the scene"
        expected = [SECOND_STATE] if recording.second is not None else []
        raise FileFormatError(recording.name, text, field="results", expected=expected, found=list(prefixes))
    for prefix in prefixes:
        if prefix in PIPELINES:
            settings = replace(recording.settings, pipeline_flags=PIPELINES[prefix])
            yield _Part(prefix.rstrip("_"), prefix, replace(recording, settings=settings), first)
    if recording.second is not None:
        second, after = _inputs(recording.second), recording.in_second_state
        yield _Part("state2", SECOND_STATE, after, second)
        yield _Part("state2_update", SECOND_STATE, after, replace(second, before=first))
        yield _Part("state2_update_dst", SECOND_STATE, after, replace(second, before=first, in_place=False))


def _inputs(state: SceneState) -> SceneInputs:
    return SceneInputs(state.blases, state.instances, state.blas_of)


def _traceable(recording: Recording) -> TraceSettings:
    """The settings with plain flags for rays whose own cannot be traced under the pipeline's; they are left out."""
    flags = np.where(legal_flags(recording), np.asarray(recording.settings.ray_flags), RayFlag.NONE)
    return replace(recording.settings, ray_flags=flags.astype(np.uint32))


def _oracle(recording: Recording, settings: TraceSettings) -> ReferenceResult:
    state = recording.first
    return trace_reference(state.blases, state.instances, state.blas_of.tolist(), recording.rays, settings)


def _scene_report(recording: Recording, reports: Mapping[str, VariantReport]) -> SceneReport:
    base = reports[""]
    tally: Tally[str] = Tally()
    for report in reports.values():
        tally.update(report.mismatches)
    return SceneReport(
        recording.name,
        len(recording),
        base.compared,
        base.excluded,
        {kind: tally[kind] for kind in KINDS if tally[kind]},
        None,
        tuple(example for report in reports.values() for example in report.examples),
        {name: report for name, report in reports.items() if name},
    )


def reason_to_skip(recording: Recording) -> str | None:
    """Why a scene is not run, None when it is."""
    if "informative" in recording.tags:
        return "informative: records undefined behaviour, which is not imitated"
    return None
