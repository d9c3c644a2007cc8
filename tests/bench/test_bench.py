"""The benchmark's own parts, and one tiny run of it beside Embree where that is installed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from rtviewer.dxr.flags import BuildFlag
from rtviewer.errors import RtviewerError
from tests.bench import peers as peers_module
from tests.bench.__main__ import command
from tests.bench.measure import Samples, interleave, one_processor
from tests.bench.peers import DRIVERS, Answers, EmbreeTree, Kind, PeerMissingError, Peers, Quality, load_embree
from tests.bench.product import ProductTree, hit_keys, time_build, trace_settings, tree_bytes
from tests.bench.rows import (
    EMBREE,
    EMBREE_16_ROBUST,
    EMBREE_LOW,
    EMBREE_MEDIUM,
    EMBREE_RAYS,
    FAST_BUILD,
    RAY_KINDS,
    RTVIEWER,
    BuildRow,
    Plan,
    RayRow,
    SceneResult,
    measure_scene,
)
from tests.bench.scenes import SCENES, TINY, primary_rays
from tests.bench.targets import TARGETS, geometric_mean, judge

OWN_TARGETS = {
    "instances": "10,000 instances, all rays / Embree instancing",
    "foliage": "alpha foliage, all rays / Embree filters",
    "spheres": "procedural spheres, all rays / Embree user geometry",
}
"""Scenes that have a target by themselves."""


@pytest.fixture(scope="module")
def embree() -> Peers:
    """Embree, compiled against once; skips with the reason when it cannot be measured here."""
    try:
        return Peers(load_embree(), "", None, "not asked for")
    except PeerMissingError as error:
        pytest.skip(f"Embree cannot be measured: {error}")


# --- the smoke run ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["torus", "instances", "foliage", "spheres"])
def test_a_tiny_run_measures_every_contender_and_finds_the_same_hits(name: str, embree: Peers) -> None:
    scene = SCENES[name](TINY)
    result = measure_scene(scene, embree, Plan(1, TINY.pixels, 2, brief=True), lambda _: None)
    assert {EMBREE_LOW, EMBREE_MEDIUM, RTVIEWER, FAST_BUILD} <= set(result.builds)
    assert len(result.refits) == (2 if name == "torus" else 0)
    for kind in RAY_KINDS:
        rows = result.rays[kind]
        assert set(rows) == {*EMBREE_RAYS, RTVIEWER}
        assert all(row.one.median > 0 and row.all.median > 0 for row in rows.values())
        # Embree's default scene owns edges differently; anything beyond a few edge rays is a defect of one of the two.
        assert [n for n, row in rows.items() if row.mismatch is not None and row.mismatch > 0.005] == []
        assert 0 < (rows[RTVIEWER].kernel_share or 0) <= 1
    judged = {item.name: item for item in judge([result])}
    assert (judged["primary / Embree single"].value is None) == (name != "torus")
    for scene, target in OWN_TARGETS.items():
        assert (judged[target].value is None) == (name != scene)


@pytest.mark.parametrize("name", list(OWN_TARGETS))
@pytest.mark.parametrize("kind", [Kind.CLOSEST, Kind.CLOSEST_16])
def test_embree_and_the_product_agree_on_where_and_what(kind: Kind, name: str, embree: Peers) -> None:
    scene = SCENES[name](TINY)
    rays = primary_rays(scene, TINY.pixels)
    hits = ProductTree(scene).dispatcher.trace(rays, trace_settings(scene, occlusion=False)).hits
    assert embree.embree is not None
    tree, answers = EmbreeTree(embree.embree, scene, Quality.MEDIUM, 1), Answers(len(rays))
    tree.trace(rays, kind, 1, answers)
    tree.release()
    count = scene.primitive_count
    keys = hit_keys(hits.primitive_index, hits.instance_index, count)
    same = hit_keys(answers.primitive, answers.instance, count) == keys
    assert hits.hit.sum() > 20
    assert (hits.hit & same).sum() > 0.98 * hits.hit.sum()
    np.testing.assert_allclose(answers.t[hits.hit & same], hits.t[hits.hit & same], rtol=1e-4)


def test_a_wrong_hit_is_counted_as_one(embree: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bench.product.hit_keys", lambda *a: hit_keys(*a) + 1)
    plan = Plan(1, TINY.pixels, 1, brief=True)
    result = measure_scene(SCENES["torus"](TINY), embree, plan, lambda _: None)
    assert result.rays["primary"][RTVIEWER].mismatch == 1.0
    assert (result.rays["primary"][EMBREE_16_ROBUST].mismatch or 0) < 0.01


def test_the_command_writes_tables_and_json(embree: Peers, tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["torus", "--size", "tiny", "--json", str(tmp_path / "bench.json")])
    assert done.exit_code == 0, done.output
    assert "## torus: 576 triangles" in done.output
    assert "tinybvh: not measured: no folder given" in done.output
    written = json.loads((tmp_path / "bench.json").read_text("utf-8"))
    assert len(written["scenes"]["torus"]["rays"]["primary"][EMBREE]["one"]["seconds"]) == 1
    assert [item["name"] for item in written["targets"]][: len(TARGETS)] == [target.name for target in TARGETS]


# --- peers that are not there -------------------------------------------------------------------------------------


def test_without_embree_its_rows_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_module, "embree_folder", lambda: None)
    done = CliRunner().invoke(command, ["torus", "--size", "tiny"])
    assert done.exit_code == 0, done.output
    assert "Embree: not measured: embreex is not installed" in done.output
    lines = [line.split("|") for line in done.output.splitlines() if line.startswith("| primary | ")]
    cells = {line[2].strip(): line[3].strip() for line in lines}
    assert cells[EMBREE] == "not measured"
    assert float(cells[RTVIEWER]) > 0


def test_without_a_compiler_the_reason_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bench.peers.shutil.which", lambda _: None)
    with pytest.raises(PeerMissingError, match=r"g\+\+ is not installed"):
        peers_module.compile_driver(DRIVERS / "embree.cpp")


def test_a_folder_without_the_header_is_said(tmp_path: Path) -> None:
    with pytest.raises(PeerMissingError, match=r"has no tiny_bvh\.h"):
        peers_module.load_tinybvh(tmp_path)


def test_a_driver_that_does_not_compile_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    monkeypatch.setattr("tests.bench.peers.platformdirs.user_cache_dir", lambda *_, **__: str(tmp_path / "cache"))
    source = tmp_path / "broken.cpp"
    source.write_text("int main( {", "utf-8")
    with pytest.raises(RtviewerError, match=r"broken\.cpp does not compile"):
        peers_module.compile_driver(source)
    assert list((tmp_path / "cache").rglob("*.*")) == []


def test_a_compiled_driver_is_kept_until_its_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    monkeypatch.setattr("tests.bench.peers.platformdirs.user_cache_dir", lambda *_, **__: str(tmp_path / "cache"))
    source = tmp_path / "small.cpp"
    source.write_text('extern "C" int answer() { return 1; }', "utf-8")
    first = peers_module.compile_driver(source)
    made = first.stat().st_mtime_ns
    assert peers_module.compile_driver(source) == first
    assert first.stat().st_mtime_ns == made
    source.write_text('extern "C" int answer() { return 2; }', "utf-8")
    assert peers_module.compile_driver(source) != first


# --- rounds and numbers -------------------------------------------------------------------------------------------


def test_every_round_runs_each_once_and_starts_with_another() -> None:
    order: list[str] = []

    def contender(name: str, seconds: float) -> Callable[[], float]:
        return lambda: order.append(name) or seconds  # type: ignore[func-returns-value]

    taken = interleave({"a": contender("a", 1.0), "b": contender("b", 2.0), "c": contender("c", 4.0)}, 3)
    assert order == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert taken["b"] == Samples((2.0, 2.0, 2.0))


def test_median_and_spread() -> None:
    samples = Samples((1.0, 2.0, 4.0))
    assert (samples.median, samples.spread) == (2.0, 1.5)


def test_one_processor_is_given_back() -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("the system does not bind threads to processors")
    before = os.sched_getaffinity(0)
    with one_processor():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def test_geometric_mean() -> None:
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)


def _result(name: str, triangles: int, product: float, peer: float) -> SceneResult:
    """A scene in which the product takes ``product`` seconds for everything and Embree ``peer``."""

    def samples(seconds: float) -> Samples:
        return Samples((seconds,))

    def build(seconds: float) -> BuildRow:
        return BuildRow(samples(seconds), samples(seconds), 50.0, 40.0, 70.0)

    def ray(seconds: float) -> RayRow:
        return RayRow(samples(seconds), samples(seconds), None, None)

    rays = {kind: {RTVIEWER: ray(product), EMBREE: ray(peer)} for kind in RAY_KINDS}
    builds = {RTVIEWER: build(product), EMBREE_MEDIUM: build(peer)}
    return SceneResult(name, triangles, triangles, "triangle", builds, {}, dict.fromkeys(RAY_KINDS, 1), rays)


def test_targets_are_met_or_missed_by_what_was_measured() -> None:
    results = [_result("torus", 80_000, 1.0, 2.0), _result("hall", 273_344, 1.0, 8.0)]
    judged = {item.name: item for item in judge([*results, _result("instances", 576, 2.0, 1.0)])}
    primary = judged["primary / Embree single"]
    assert primary.value == pytest.approx(4.0)
    assert (primary.met, primary.scenes) == (True, ("torus", "hall"))
    worst = judged["shadow / Embree single, worst scene"]
    assert (worst.value, worst.met) == (2.0, True)
    build = judged["default build / Embree MEDIUM"]
    assert build.value == pytest.approx(8.0)
    assert build.scenes == ("hall",)
    instances = judged[OWN_TARGETS["instances"]]
    assert instances.value == instances.share == pytest.approx(0.5)
    assert instances.met is False
    assert judged["default, used bytes per triangle"].met is True
    assert judged["MINIMIZE_MEMORY, nodes and packs per triangle"].value is None
    assert judged["primary / tinybvh BVH8_CPU"].met is None
    assert judged[OWN_TARGETS["foliage"]].value is None


def test_a_slower_product_misses() -> None:
    judged = {item.name: item for item in judge([_result("hall", 273_344, 2.0, 1.0)])}
    assert judged["diffuse / Embree single"].met is False
    assert judged["default build / Embree MEDIUM"].met is False


# --- the product's side -------------------------------------------------------------------------------------------


def test_bytes_of_nodes_and_leaves_are_part_of_those_in_use() -> None:
    plain, small = (ProductTree(SCENES["torus"](TINY), f).blas for f in (BuildFlag.NONE, BuildFlag.MINIMIZE_MEMORY))
    assert 0 < tree_bytes(small) < small.used_size
    assert tree_bytes(small) < tree_bytes(plain) < plain.used_size


@pytest.mark.parametrize("on_one", [False, True])
def test_a_build_takes_time(on_one: bool) -> None:
    timing = time_build(SCENES["torus"](TINY), BuildFlag.NONE, on_one=on_one)
    assert timing.wall > 0
    assert timing.cpu > 0


def test_hits_of_several_instances_have_numbers_of_their_own() -> None:
    primitive, instance = np.array([3, 3, -1], np.int32), np.array([0, 2, -1], np.int32)
    assert hit_keys(primitive, instance, 10).tolist() == [3, 23, -1]
    assert hit_keys(primitive, np.full(3, -1, np.int32), 10).tolist() == [3, 3, -1]
