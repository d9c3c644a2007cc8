"""Oracle and compiled tracer against the recordings of a driver, and proof that the comparison can fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from rtviewer.dxr.flags import BuildFlag
from rtviewer.dxr.shader_table import HitGroupTable, hit_group_index
from rtviewer.dxr.verdicts import Counter
from rtviewer.io.recording import RecordedResult, Recording, read_recorded_result, read_recording
from rtviewer.session import conformance
from rtviewer.session.conformance import AnyHitLog, SceneInputs, SceneReport
from rtviewer.session.conformance_engines import build_scene
from rtviewer.session.conformance_judge import (
    ANY_HIT_EXACT,
    KINDS,
    NOT_MODELLED,
    ORDER_DEPENDENT,
    ROBUST,
    Judge,
)
from rtviewer.session.conformance_variants import Base, compare_copy, compare_outcome
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.reference import ReferenceResult, ReferenceRules, trace_reference
from rtviewer.trace.reference_rules import edge_belongs, in_interval
from rtviewer.trace.request import Hits, RayBatch, TraceSettings

DRIVER = Path(__file__).parent / "driver"
NAMES = sorted(path.stem for path in (DRIVER / "scenes").glob("*.npz"))
SKIPPED = ["informative_denormals", "informative_partial_nan"]
RUN = [name for name in NAMES if name not in SKIPPED]
SECOND_STATES = ["fuzz_f", "refit", "refit_degenerate", "refit_instance_fields"]
WORDS = conformance.variant_words()
WORDS_EACH = 2
"""Of the 24 words each scene gets so many here, another scene others; ``rtviewer conformance --variants`` runs all."""


def compare(name: str, engine: conformance.Engine | None = None, variants: Sequence[BuildFlag] = ()) -> SceneReport:
    file = f"{name}.npz"
    engine = engine or conformance.reference_engine()
    return conformance.compare_recording(DRIVER / "scenes" / file, DRIVER / "results" / file, engine, variants=variants)


def result_of(name: str, prefix: str = "") -> RecordedResult:
    return read_recorded_result(DRIVER / "results" / f"{name}.npz", len(recording_of(name)), prefix)


@cache
def recording_of(name: str) -> Recording:
    return read_recording(DRIVER / "scenes" / f"{name}.npz")


@cache
def oracle_of(name: str) -> ReferenceResult:
    return oracle_with(recording_of(name))


def oracle_with(r: Recording, rules: ReferenceRules | None = None) -> ReferenceResult:
    return trace_reference(r.first.blases, r.first.instances, r.first.blas_of.tolist(), r.rays, r.settings, rules=rules)


def test_all_recordings_are_here() -> None:
    assert len(NAMES) == 32
    assert set(SKIPPED) | set(SECOND_STATES) < set(NAMES)
    assert sum(len(recording_of(name)) for name in NAMES) == 81421


@pytest.mark.parametrize("name", RUN)
def test_oracle_agrees_with_the_driver(name: str) -> None:
    report = compare(name)
    assert not report.mismatches, report.examples[:5]
    assert report.skipped_reason is None
    assert report.compared + sum(report.excluded.values()) == report.rays == len(recording_of(name))
    assert report.compared > 0.6 * report.rays
    assert all(part.compared + sum(part.excluded.values()) == report.rays for part in report.variants.values())


@pytest.mark.rule("BF-10", "CP-10", "UPD-13")
@pytest.mark.parametrize("name", RUN)
def test_kernels_agree_with_the_driver(name: str) -> None:
    first = WORDS_EACH * RUN.index(name)
    words = [WORDS[(first + i) % len(WORDS)] for i in range(WORDS_EACH)]
    report = compare(name, conformance.kernels_engine(), words)
    assert not report.mismatches, report.examples[:5]
    assert report.compared > 0.6 * report.rays
    expected = {
        f"f{int(word)}{kind}"
        for word in words
        for kind, needs in (
            ("", 0), ("_clone", 0), ("_serial", 0), ("_compact", 2), ("_update", 1), ("_update_dst", 1),
            ("_compact_update", 3),
        )
        if word & needs == needs
    }  # fmt: skip
    if name in SECOND_STATES:
        expected |= {f"f{int(word)}_rebuilt2" for word in words} | {"state2", "state2_update", "state2_update_dst"}
    if name == "mixed_triangles_procedural":
        expected |= {"pipe_skip_triangles", "pipe_skip_aabbs"}
    assert set(report.variants) == expected
    assert all(part.compared + sum(part.excluded.values()) == report.rays for part in report.variants.values())


@pytest.mark.rule("BF-1", "BF-2")
def test_the_words_of_variants() -> None:
    assert [int(word) for word in WORDS] == [word for word in range(32) if word & 12 != 12]
    assert len(WORDS) == 24
    assert WORDS_EACH * len(RUN) >= len(WORDS)


@pytest.mark.parametrize("name", SKIPPED)
def test_undefined_behaviour_is_skipped_before_it_is_built(name: str) -> None:
    def refuse(scene: object, rays: object, settings: object) -> object:
        raise AssertionError("a skipped scene must not reach the engine")

    report = compare(name, refuse, WORDS)  # type: ignore[arg-type]
    assert report.skipped_reason is not None
    assert "informative" in report.skipped_reason
    assert report.compared == 0
    assert not report.variants
    assert sum(report.excluded.values()) == report.rays


@pytest.mark.rule("HG-1", "OPQ-5", "TRAV-4")
@pytest.mark.parametrize(
    ("name", "kind"), [("sbt_indexing", "any_hit"), ("sbt_opacity_flags", "outcome"), ("fuzz_f", "any_hit")]
)
def test_a_tracer_without_hit_groups_is_noticed(name: str, kind: str) -> None:
    oracle = conformance.reference_engine()

    def engine(scene: SceneInputs, rays: RayBatch, settings: TraceSettings) -> tuple[Hits, AnyHitLog]:
        return oracle(scene, rays, dataclasses.replace(settings, hit_groups=None))

    assert compare(name, engine).mismatches[kind] > 20


@pytest.mark.rule("HG-1")
def test_wrong_records_are_noticed() -> None:
    """Four low bits of the contribution, not five; the geometry multiplied."""
    oracle = conformance.reference_engine()
    for change in ({"ray_contribution": 0}, {"multiplier": 0}):

        def engine(
            scene: SceneInputs, rays: RayBatch, settings: TraceSettings, change: dict[str, int] = change
        ) -> tuple[Hits, AnyHitLog]:
            return oracle(scene, rays, dataclasses.replace(settings, **change))  # type: ignore[arg-type]

        assert compare("sbt_indexing", engine).mismatches["record"] > 50


@pytest.mark.rule("TRAV-2", "TRAV-3", "ACC-4")
@pytest.mark.parametrize("name", ["sbt_indexing", "fuzz_f"])
def test_closest_hit_runs_where_the_record_has_one_and_else_nothing_does(name: str) -> None:
    """A hit whose record has no closest-hit shader runs neither that nor a miss; other tables are noticed."""
    recording, oracle, recorded = recording_of(name), oracle_of(name), result_of(name)
    calls = [oracle.any_hit_log.keys(ray) for ray in range(len(recording))]
    silent = oracle.hits.hit & ~recorded.closest_hit_ran
    assert silent.sum() > 100
    assert not (recorded.missed & oracle.hits.hit & (recorded.ray_class & ROBUST != 0)).any()
    for runs in (True, False):
        records = tuple(dataclasses.replace(record, closest_hit=runs) for record in recording.records)
        settings = dataclasses.replace(recording.settings, hit_groups=HitGroupTable(records))
        other = dataclasses.replace(recording, settings=settings)
        _, found = Judge(other, recorded, oracle.hits, calls, oracle).run()
        assert sum(mismatch.kind == "outcome" for mismatch in found) > 50


@pytest.mark.rule("AH-4")
@pytest.mark.parametrize("name", ["sbt_indexing", "sbt_opacity_flags", "multi_geometry", "fuzz_f"])
def test_what_any_hit_counts_survives_ignored_and_final_hits(name: str) -> None:
    """The recorded shaders count in their payload; our counter of a ray does the same, whatever each call decides."""
    recording, recorded = recording_of(name), result_of(name)
    state = recording.first
    built = build_scene(SceneInputs(state.blases, state.instances, state.blas_of), BuildFlag.NONE)
    result = Dispatcher(built.tlas, built.blases).trace(recording.rays, recording.settings, counters=True)
    assert result.counters is not None
    with np.load(DRIVER / "results" / f"{name}.npz") as arrays:
        in_payload = arrays["payload_anyhit_count"]
    np.testing.assert_array_equal(in_payload, recorded.any_hit_count)
    exact = recorded.ray_class & (ROBUST | ANY_HIT_EXACT | ORDER_DEPENDENT | NOT_MODELLED) == ROBUST | ANY_HIT_EXACT
    assert in_payload[exact].any()
    np.testing.assert_array_equal(result.counters[exact, Counter.ANY_HIT_CALLS], in_payload[exact])


@pytest.mark.rule("UPD-13")
@pytest.mark.parametrize("name", SECOND_STATES)
def test_an_update_that_does_nothing_is_noticed(name: str) -> None:
    oracle = conformance.reference_engine()

    def engine(scene: SceneInputs, rays: RayBatch, settings: TraceSettings) -> tuple[Hits, AnyHitLog]:
        return oracle(scene.before or scene, rays, settings)

    report = compare(name, engine)
    wrong = {variant for variant, part in report.variants.items() if part.mismatches}
    assert wrong == {"state2_update", "state2_update_dst"}


@pytest.mark.rule("HG-1", "HG-2", "RF-7")
@pytest.mark.parametrize("name", ["sbt_indexing", "sbt_opacity_flags", "fuzz_f", "mixed_triangles_procedural"])
def test_records_flags_and_misses_are_what_the_shaders_saw(name: str) -> None:
    """Records of any-hit and closest-hit calls by the formula, what they carry, miss records, flags as passed."""
    r, recorded = recording_of(name), result_of(name)
    rows, settings = recorded.any_hit_rows, r.settings
    ray = np.repeat(np.arange(len(r)), np.diff(recorded.any_hit_offsets))
    part, multiplier = np.asarray(settings.ray_contribution), np.asarray(settings.multiplier)
    contribution = r.first.instances.contribution.astype(np.int64)
    called = hit_group_index(part[ray].astype(np.int64), multiplier[ray], rows[:, 1], contribution[rows[:, 0]])
    np.testing.assert_array_equal(called, recorded.any_hit_records)
    ran = np.flatnonzero(recorded.closest_hit_ran)
    np.testing.assert_array_equal(r.record_user[recorded.record[ran]], recorded.record_user[ran])
    assert all(r.records[number].closest_hit for number in np.unique(recorded.record[ran]))
    missed = np.flatnonzero(recorded.missed)
    np.testing.assert_array_equal((np.asarray(settings.miss_index) & 0xFFFF)[missed], recorded.miss_record[missed])
    with np.load(DRIVER / "results" / f"{name}.npz") as arrays:
        seen = arrays["seen_ray_flags"]
    either = np.union1d(ran, missed)
    np.testing.assert_array_equal(seen[either], np.asarray(settings.ray_flags)[either])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["fuzz_a", "fuzz_f"])
def test_a_variant_that_differs_is_noticed(name: str, kind: str) -> None:
    """By a bit in a copy; beyond what order decides in another build."""
    recording, oracle = recording_of(name), oracle_of(name)
    hits, log = conformance.reference_engine()(
        SceneInputs(recording.first.blases, recording.first.instances, recording.first.blas_of),
        recording.rays,
        recording.settings,
    )
    base = Base(recording, result_of(name), oracle, hits, log)
    assert not compare_outcome(base, hits, log).mismatches
    assert not compare_copy((hits, log), (hits, log)).mismatches
    spoiled = spoil(kind, oracle, log)
    assert compare_copy((hits, log), spoiled).mismatches[kind] > 0  # type: ignore[arg-type]
    assert compare_outcome(base, *spoiled).mismatches[kind] > 0  # type: ignore[arg-type]


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
    recorded = result_of("ties")

    def disagreements(result: ReferenceResult) -> int:
        hits = result.hits
        other = (hits.instance_index != recorded.instance) | (hits.primitive_index != recorded.primitive)
        return int(np.count_nonzero(other & recorded.closest_hit_ran))

    right = disagreements(oracle_of("ties"))
    r = recording_of("ties")
    ascending = ReferenceRules(offer_keys=lambda instance, geometry, primitive: (instance, geometry, primitive))
    wrong = disagreements(oracle_with(r, ascending))
    assert right < 0.05 * len(r)  # instances of structures of very different size, as the rule says
    assert wrong > 0.25 * len(r)


@pytest.mark.parametrize("name", RUN)
def test_candidates_hold_what_the_driver_found(name: str) -> None:
    """The sets that order-dependent rays are judged by hold every recorded hit and every recorded any-hit call."""
    oracle, recorded = oracle_of(name), result_of(name)
    sure = (recorded.ray_class & ROBUST != 0) & (recorded.ray_class & NOT_MODELLED == 0)
    for ray in np.flatnonzero(sure):
        if recorded.closest_hit_ran[ray]:
            key = (recorded.instance[ray], recorded.geometry[ray], recorded.primitive[ray], recorded.hit_kind[ray])
            assert tuple(int(k) for k in key) in oracle.accepted.keys(ray), ray
        part = recorded.any_hit_rows[recorded.any_hit_offsets[ray] : recorded.any_hit_offsets[ray + 1]]
        assert {tuple(row) for row in part.tolist()} <= set(oracle.any_hit_candidates.keys(ray)), ray


@pytest.mark.rule("RF-6", "PF-1", "CULL-1")
@pytest.mark.parametrize("prefix", ["pipe_skip_triangles__", "pipe_skip_aabbs__"])
def test_pipeline_skip_flags(prefix: str) -> None:
    """Compared in every run; here, that answers without the pipeline's flag would not do."""
    name = "mixed_triangles_procedural"
    recording, oracle = recording_of(name), oracle_of(name)
    calls = [oracle.any_hit_log.keys(ray) for ray in range(len(recording))]
    assert Judge(recording, result_of(name, prefix), oracle.hits, calls, oracle).run()[1]
    part = compare(name).variants[prefix.rstrip("_")]
    assert not part.mismatches
    (reason, left_out) = next(iter(part.excluded.items()))
    assert "RF-6" in reason
    assert part.compared + left_out == len(recording)
    assert part.compared > 900


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
    recorded = result_of(name)
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
    changed["instance_id"][free] = recording.first.instances.instance_id[rows.instance[last]]
    changed["hit_group_index"] = hits.hit_group_index.copy()
    changed["hit_group_index"][free] = recording.first.instances.contribution[rows.instance[last]]
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
    recorded = result_of(name)
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
        ours, singular = invert_transforms(recording_of(name).first.instances.transform)
        for row in np.flatnonzero(np.isfinite(seen).all(axis=(1, 2))):
            assert not singular[row]
            scale = np.abs(seen[row]).max(axis=1, keepdims=True)
            np.testing.assert_allclose(ours[row] / scale, seen[row] / scale, atol=1e-5)
            compared += 1
    assert compared > 200
