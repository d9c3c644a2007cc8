"""Running a folder of recordings: report, progress, errors."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rtviewer.dxr.flags import BuildFlag
from rtviewer.errors import FileFormatError
from rtviewer.session.conformance import (
    AnyHitLog,
    ConformanceReport,
    SceneReport,
    compare_recording,
    reference_engine,
    run_conformance,
)

DRIVER = Path(__file__).parents[2] / "golden" / "driver"
NAMES = ("empty_top_level", "informative_denormals", "t_interval_triangles")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for kind in ("scenes", "results"):
        (tmp_path / kind).mkdir()
        for name in NAMES:
            shutil.copy(DRIVER / kind / f"{name}.npz", tmp_path / kind)
    return tmp_path


def test_report_of_a_folder(folder: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    report = run_conformance(folder, "reference", lambda *step: seen.append(step))
    assert seen == [*((i, 3, name) for i, name in enumerate(NAMES)), (3, 3, "")]
    found = json.loads(json.dumps(report.to_json()))
    assert found["mismatches"] == 0
    empty, informative, interval = found["scenes"]
    assert list(empty) == ["name", "rays", "compared", "excluded", "mismatches", "skipped_reason", "variants"]
    assert (empty["rays"], empty["compared"], empty["excluded"]) == (16, 16, {})
    assert interval == {
        "name": "t_interval_triangles",
        "rays": 1200,
        "compared": 1200,
        "excluded": {},
        "mismatches": {},
        "skipped_reason": None,
        "variants": {},
    }
    assert informative["compared"] == 0
    assert informative["excluded"] == {"scene skipped": 336}
    assert "undefined" in informative["skipped_reason"]


def test_total_counts_every_kind() -> None:
    scenes = (
        SceneReport("a", 9, 9, {}, {"t": 3, "record": 2}, None),
        SceneReport("b", 9, 0, {"scene skipped": 9}, {}, "why"),
        SceneReport("c", 9, 9, {}, {"outcome": 4}, None),
    )
    assert ConformanceReport(scenes).to_json()["mismatches"] == 9


def test_a_folder_without_recordings(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="holds no recordings"):
        run_conformance(tmp_path, "reference")


def test_a_scene_without_a_result(folder: Path) -> None:
    (folder / "results" / "t_interval_triangles.npz").unlink()
    with pytest.raises(FileFormatError, match="no such file"):
        run_conformance(folder, "reference")


def test_one_changed_recorded_value_is_found(folder: Path) -> None:
    """The comparison reads the recording, not only the oracle."""
    file = folder / "results" / "t_interval_triangles.npz"
    with np.load(file) as arrays:
        changed = {key: arrays[key] for key in arrays.files}
    class_bits = changed["derived_ray_class"]
    ray = int(np.flatnonzero((changed["closest_hit_invocations"] == 1) & (class_bits & 2 == 0))[0])
    for key, kind in (("hit_t", "t"), ("instance_custom_id", "instance_id"), ("sbt_record", "record")):
        before = changed[key][ray].copy()
        changed[key][ray] += 1
        np.savez(file, **changed)
        report = compare_recording(folder / "scenes" / file.name, file, reference_engine())
        assert dict(report.mismatches) == {kind: 1}
        assert report.examples[0].ray == ray
        changed[key][ray] = before


def test_any_hit_log_of_rays() -> None:
    log = AnyHitLog(np.array([0, 2, 2, 3]), np.array([[0, 0, 1, 254], [0, 0, 2, 255], [1, 0, 0, 0]]))
    assert log.of_rays() == [[(0, 0, 1, 254), (0, 0, 2, 255)], [], [(1, 0, 0, 0)]]


def test_variants_are_counted_by_name_and_in_the_scene(folder: Path) -> None:
    words = [BuildFlag.NONE, BuildFlag.ALLOW_UPDATE | BuildFlag.ALLOW_COMPACTION]
    report = run_conformance(folder, variants=words)
    empty, informative, interval = report.to_json()["scenes"]
    assert informative["variants"] == {}
    names = ["f0", "f0_clone", "f0_serial", "f3", "f3_clone", "f3_serial", "f3_compact"]
    names += ["f3_update", "f3_update_dst", "f3_compact_update"]
    for scene in (empty, interval):
        assert list(scene["variants"]) == names
        for variant in scene["variants"].values():
            assert variant == {"compared": scene["rays"], "excluded": {}, "mismatches": {}}


def test_mismatches_of_variants_count(folder: Path) -> None:
    """A first run that is wrong shows in every build that is right."""
    oracle = reference_engine()

    def engine(scene, rays, settings):  # type: ignore[no-untyped-def]
        hits, log = oracle(scene, rays, settings)
        return replace(hits, instance_id=hits.instance_id + 1), log

    name = "t_interval_triangles.npz"
    files = folder / "scenes" / name, folder / "results" / name
    alone = compare_recording(*files, engine)
    report = compare_recording(*files, engine, variants=[BuildFlag.NONE])
    assert not report.variants["f0_clone"].mismatches
    assert report.variants["f0"].mismatches["instance_id"] > 0
    both = alone.mismatches["instance_id"] + report.variants["f0"].mismatches["instance_id"]
    assert report.mismatches["instance_id"] == both


def test_answers_that_do_not_belong_to_the_scene(folder: Path) -> None:
    file = folder / "results" / "t_interval_triangles.npz"
    with np.load(file) as arrays:
        changed = {key: arrays[key] for key in arrays.files}
    changed |= {"state2__" + key: value for key, value in changed.items()}
    np.savez(file, **changed)
    with pytest.raises(FileFormatError, match="not those of the scene"):
        compare_recording(folder / "scenes" / file.name, file, reference_engine())


def test_the_command_repeats_scenes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rtviewer.cli.main import run

    assert run(["conformance", str(folder), "--variants", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["mismatches"] == 0
    assert len(report["scenes"][2]["variants"]) == 24 * 3 + 12 + 2 * 12 + 6
    assert run(["conformance", str(folder), "--variants", "--engine", "reference"]) != 0
    assert "--engine kernels" in capsys.readouterr().err
