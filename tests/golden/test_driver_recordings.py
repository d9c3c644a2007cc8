"""The oracle against the recordings of a driver, and proof that the comparison can fail."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from rtviewer.dxr.flags import PipelineFlag
from rtviewer.io.recording import Recording, read_recorded_result, read_recording
from rtviewer.session import conformance
from rtviewer.session.conformance import AnyHitLog, SceneInputs, SceneReport
from rtviewer.session.conformance_judge import (
    ANY_HIT_EXACT,
    KINDS,
    NOT_MODELLED,
    ORDER_DEPENDENT,
    ROBUST,
    Judge,
)
from rtviewer.trace.reference import ReferenceResult, ReferenceRules, trace_reference
from rtviewer.trace.reference_rules import edge_belongs, in_interval

DRIVER = Path(__file__).parent / "driver"
NAMES = sorted(path.stem for path in (DRIVER / "scenes").glob("*.npz"))
SKIPPED = {
    "fuzz_f": "second state",
    "informative_denormals": "informative",
    "informative_partial_nan": "informative",
    "refit": "second state",
    "refit_degenerate": "second state",
    "refit_instance_fields": "second state",
    "sbt_indexing": "hit-group table",
    "sbt_opacity_flags": "hit-group table",
}
RUN = [name for name in NAMES if name not in SKIPPED]


def compare(name: str, engine: conformance.Engine | None = None) -> SceneReport:
    file = f"{name}.npz"
    engine = engine or conformance.reference_engine()
    return conformance.compare_recording(DRIVER / "scenes" / file, DRIVER / "results" / file, engine)


@cache
def recording_of(name: str) -> Recording:
    return read_recording(DRIVER / "scenes" / f"{name}.npz")


@cache
def oracle_of(name: str) -> ReferenceResult:
    r = recording_of(name)
    return trace_reference(r.blases, r.instances, r.blas_of.tolist(), r.rays, r.settings)


def test_all_recordings_are_here() -> None:
    assert len(NAMES) == 32
    assert set(SKIPPED) < set(NAMES)
    assert sum(len(recording_of(name)) for name in NAMES) == 81421


@pytest.mark.parametrize("name", RUN)
def test_oracle_agrees_with_the_driver(name: str) -> None:
    report = compare(name)
    assert not report.mismatches, report.examples[:5]
    assert report.skipped_reason is None
    assert report.compared + sum(report.excluded.values()) == report.rays == len(recording_of(name))
    assert report.compared > 0.6 * report.rays


@pytest.mark.parametrize("name", RUN)
def test_kernels_agree_with_the_driver(name: str) -> None:
    report = compare(name, conformance.kernels_engine())
    assert not report.mismatches, report.examples[:5]
    assert report.compared > 0.6 * report.rays


@pytest.mark.parametrize(("name", "reason"), sorted(SKIPPED.items()))
def test_scenes_that_need_more_are_skipped_before_they_are_built(name: str, reason: str) -> None:
    def refuse(scene: object, rays: object, settings: object) -> object:
        raise AssertionError("a skipped scene must not reach the engine")

    report = compare(name, refuse)  # type: ignore[arg-type]
    assert report.skipped_reason is not None
    assert reason in report.skipped_reason
    assert report.compared == 0
    assert sum(report.excluded.values()) == report.rays


def wrong_rules(**changes: object) -> conformance.Engine:
    return conformance.reference_engine(dataclasses.replace(ReferenceRules(), **changes))  # type: ignore[arg-type]


WRONG_EDGES = {
    "closed": lambda sign, e_kx, e_ky: np.ones(len(sign), np.bool_),
    "open": lambda sign, e_kx, e_ky: np.zeros(len(sign), np.bool_),
    "opposite": lambda sign, e_kx, e_ky: ~edge_belongs(sign, e_kx, e_ky),
    "left before top": lambda sign, e_kx, e_ky: edge_belongs(sign, -e_ky, e_kx),
}


@pytest.mark.rule("TRI-3", "TRI-5")
@pytest.mark.parametrize("rule", WRONG_EDGES)
@pytest.mark.parametrize("name", ["quad_shared_edge", "edge_rule_a"])
def test_a_wrong_edge_rule_is_noticed(name: str, rule: str) -> None:
    assert compare(name, wrong_rules(edge_belongs=WRONG_EDGES[rule])).mismatches


@pytest.mark.rule("TRI-5")
@pytest.mark.parametrize("name", ["edge_rule_instances", "real_mesh"])
def test_a_wrong_edge_rule_is_noticed_in_any_hit_sets_and_on_real_meshes(name: str) -> None:
    assert compare(name, wrong_rules(edge_belongs=WRONG_EDGES["opposite"])).mismatches


WRONG_INTERVALS = {
    "triangles closed": lambda is_triangle, t, t_min, t_end: (t >= t_min) & (t <= t_end),
    "triangles closed at the end": lambda is_triangle, t, t_min, t_end: (
        np.where(is_triangle, t > t_min, t >= t_min) & (t <= t_end)
    ),
    "no beginning": lambda is_triangle, t, t_min, t_end: np.where(is_triangle, t < t_end, t <= t_end),
}


@pytest.mark.rule("RAY-6", "RAY-8")
@pytest.mark.parametrize("rule", WRONG_INTERVALS)
def test_a_wrong_interval_rule_is_noticed(rule: str) -> None:
    assert compare("t_interval_triangles", wrong_rules(in_interval=WRONG_INTERVALS[rule])).mismatches


@pytest.mark.rule("DET-5", "RAY-6")
def test_a_wrong_tie_rule_is_noticed() -> None:
    def first_hit_keeps_its_place(is_triangle, t, t_min, t_end):  # type: ignore[no-untyped-def]
        return np.where(is_triangle, (t > t_min) & (t < t_end), (t >= t_min) & (t < t_end))

    assert compare("ties", wrong_rules(in_interval=first_hit_keeps_its_place)).mismatches
    assert not compare("ties", wrong_rules(in_interval=in_interval)).mismatches


@pytest.mark.rule("DET-5")
def test_the_order_of_offers_is_the_drivers() -> None:
    """Point 5 leaves the winner of a tie free; the order of DET-5 explains nearly all of them all the same."""
    recorded = read_recorded_result(DRIVER / "results" / "ties.npz", len(recording_of("ties")))

    def disagreements(result: ReferenceResult) -> int:
        hits = result.hits
        other = (hits.instance_index != recorded.instance) | (hits.primitive_index != recorded.primitive)
        return int(np.count_nonzero(other & recorded.closest_hit_ran))

    right = disagreements(oracle_of("ties"))
    r = recording_of("ties")
    ascending = ReferenceRules(offer_keys=lambda instance, geometry, primitive: (instance, geometry, primitive))
    wrong = disagreements(
        trace_reference(r.blases, r.instances, r.blas_of.tolist(), r.rays, r.settings, rules=ascending)
    )
    assert right < 0.05 * len(r)  # instances of structures of very different size, as the rule says
    assert wrong > 0.25 * len(r)


@pytest.mark.parametrize("name", RUN)
def test_candidates_hold_what_the_driver_found(name: str) -> None:
    """The sets that order-dependent rays are judged by hold every recorded hit and every recorded any-hit call."""
    oracle, recording = oracle_of(name), recording_of(name)
    recorded = read_recorded_result(DRIVER / "results" / f"{name}.npz", len(recording))
    sure = (recorded.ray_class & ROBUST != 0) & (recorded.ray_class & NOT_MODELLED == 0)
    for ray in np.flatnonzero(sure):
        if recorded.closest_hit_ran[ray]:
            key = (recorded.instance[ray], recorded.geometry[ray], recorded.primitive[ray], recorded.hit_kind[ray])
            assert tuple(int(k) for k in key) in oracle.accepted.keys(ray), ray
        part = recorded.any_hit_rows[recorded.any_hit_offsets[ray] : recorded.any_hit_offsets[ray + 1]]
        assert {tuple(row) for row in part.tolist()} <= set(oracle.any_hit_candidates.keys(ray)), ray


@pytest.mark.rule("RF-6", "PF-1", "CULL-1")
@pytest.mark.parametrize(
    ("prefix", "flag"),
    [
        ("pipe_skip_triangles__", PipelineFlag.SKIP_TRIANGLES),
        ("pipe_skip_aabbs__", PipelineFlag.SKIP_PROCEDURAL_PRIMITIVES),
    ],
)
def test_pipeline_skip_flags(prefix: str, flag: PipelineFlag) -> None:
    recording = recording_of("mixed_triangles_procedural")
    settings = dataclasses.replace(recording.settings, pipeline_flags=flag)
    recording = dataclasses.replace(recording, settings=settings)
    file = DRIVER / "results" / "mixed_triangles_procedural.npz"
    recorded = read_recorded_result(file, len(recording), prefix)
    oracle = trace_reference(
        recording.blases, recording.instances, recording.blas_of.tolist(), recording.rays, settings
    )
    log = oracle.any_hit_log
    calls = [log.keys(ray) for ray in range(len(recording))]
    plan, found = Judge(recording, recorded, oracle.hits, calls, oracle).run()
    assert not found
    assert plan.compared.sum() > 0.9 * len(recording)
    without = oracle_of("mixed_triangles_procedural")
    assert Judge(recording, recorded, without.hits, calls, oracle).run()[1]


def spoil(kind: str, result: ReferenceResult, rows: AnyHitLog) -> tuple[object, AnyHitLog]:
    """The oracle's answer with one thing changed where it hits, which the comparison must call ``kind``."""
    hits, at = result.hits, result.hits.hit
    if kind == "any_hit":
        n = len(rows.offsets) - 1
        return hits, AnyHitLog(np.zeros(n + 1, np.int64), rows.rows[:0])
    change = {
        "outcome": {"hit": np.zeros_like(at)},
        "instance": {"instance_index": np.where(at, hits.instance_index ^ 1, -1)},
        "geometry": {"geometry_index": np.where(at, hits.geometry_index + 1, -1)},
        "primitive": {"primitive_index": np.where(at, hits.primitive_index + 1000, -1)},
        "instance_id": {"instance_id": hits.instance_id + 1},
        "hit_kind": {"hit_kind": np.where(at, hits.hit_kind ^ 1, -1)},
        "t": {"t": hits.t * np.float32(1.01)},
        "barycentrics": {"attributes": hits.attributes + np.float32(0.01)},
        "record": {"hit_group_index": hits.hit_group_index + 1},
    }[kind]
    return dataclasses.replace(hits, **change), rows  # type: ignore[arg-type]


SPOILED = [(name, kind) for name in ("fuzz_a", "mixed_triangles_procedural") for kind in KINDS]


@pytest.mark.parametrize(("name", "kind"), [*SPOILED, ("bumpy_sphere_5k", "outcome"), ("bumpy_sphere_5k", "t")])
def test_every_kind_of_mismatch_is_counted(name: str, kind: str) -> None:
    oracle = oracle_of(name)

    def engine(scene: SceneInputs, rays: object, settings: object) -> object:
        log = oracle.any_hit_log
        rows = np.stack([log.instance, log.geometry, log.primitive, log.hit_kind], axis=1).astype(np.int64)
        return spoil(kind, oracle, AnyHitLog(log.offsets, rows))

    report = compare(name, engine)  # type: ignore[arg-type]
    assert report.mismatches.get(kind, 0) > 0
    assert report.compared + sum(report.excluded.values()) == report.rays


def test_order_dependent_rays_are_free_only_among_accepted_candidates() -> None:
    """Point 4: any accepted candidate passes, whatever the recording shows; others do not."""
    name = "stack10"
    recording, oracle = recording_of(name), oracle_of(name)
    recorded = read_recorded_result(DRIVER / "results" / f"{name}.npz", len(recording))
    free = np.flatnonzero((recorded.ray_class & ORDER_DEPENDENT != 0) & oracle.hits.hit)
    hits, rows = oracle.hits, oracle.accepted
    last = rows.offsets[free + 1] - 1
    columns = {
        "t": rows.t,
        "instance_index": rows.instance,
        "geometry_index": rows.geometry,
        "primitive_index": rows.primitive,
        "hit_kind": rows.hit_kind,
        "attributes": rows.attributes,
    }
    changed = {}
    for field, column in columns.items():
        values = getattr(hits, field).copy()
        values[free] = column[last]
        changed[field] = values
    changed["instance_id"] = hits.instance_id.copy()
    changed["instance_id"][free] = recording.instances.instance_id[rows.instance[last]]
    changed["hit_group_index"] = hits.hit_group_index.copy()
    changed["hit_group_index"][free] = recording.instances.contribution[rows.instance[last]]
    other = dataclasses.replace(hits, **changed)
    assert (other.primitive_index != hits.primitive_index).any() or (other.geometry_index != hits.geometry_index).any()
    calls = [oracle.any_hit_log.keys(ray) for ray in range(len(recording))]
    assert not Judge(recording, recorded, other, calls, oracle).run()[1]
    nearer = dataclasses.replace(other, t=other.t * np.float32(0.5))
    assert {m.kind for m in Judge(recording, recorded, nearer, calls, oracle).run()[1]} == {"t"}


def test_recorded_calls_decide_where_the_set_is_exact() -> None:
    """Point 7: with bit 8 an extra call is as wrong as a missing one."""
    name = "multi_geometry"
    recording, oracle = recording_of(name), oracle_of(name)
    recorded = read_recorded_result(DRIVER / "results" / f"{name}.npz", len(recording))
    calls = [oracle.any_hit_log.keys(ray) for ray in range(len(recording))]
    exact = np.flatnonzero((recorded.ray_class & ANY_HIT_EXACT != 0) & (recorded.ray_class & ROBUST != 0))
    more = [*calls]
    more[exact[0]] = [*calls[exact[0]], (0, 0, 12345, 254)]
    assert [m.kind for m in Judge(recording, recorded, oracle.hits, more, oracle).run()[1]] == ["any_hit"]


def test_object_space_matches_the_driver() -> None:
    """INST-8 and INST-9: inverse transforms as the driver's shaders saw them."""
    from rtviewer.scene.primitives import invert_transforms

    compared = 0
    for name in RUN:
        with np.load(DRIVER / "results" / f"{name}.npz") as arrays:
            if "seen_world_to_object" not in arrays:  # nothing was hit
                continue
            seen = arrays["seen_world_to_object"]  # up to the last instance that was hit
        ours, singular = invert_transforms(recording_of(name).instances.transform)
        for row in np.flatnonzero(np.isfinite(seen).all(axis=(1, 2))):
            assert not singular[row]
            scale = np.abs(seen[row]).max(axis=1, keepdims=True)
            np.testing.assert_allclose(ours[row] / scale, seen[row] / scale, atol=1e-5)
            compared += 1
    assert compared > 200
