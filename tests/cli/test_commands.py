import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rtviewer.cli.main import COMMANDS, run
from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.verdicts import Counter
from rtviewer.errors import InvalidInputError
from rtviewer.shade.modes import MODES
from rtviewer.trace.request import HIT_FIELDS

SCENE = """# A pane with mask 2 before a pane with mask 1.
name = "two panes"

[[blas]]
name = "pane"

[[blas.geometry]]
type = "triangles"
flags = ["OPAQUE"]
vertices = [[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]
indices = [[0, 1, 2], [0, 2, 3]]

[[instance]]
blas = "pane"
mask = 2
id = 70

[[instance]]
blas = "pane"
mask = 1
transform = { translate = [0, 0, -1] }

[[camera]]
name = "front"
position = [0, 0, 10]
look_at = [0, 0, 0]

[[camera]]
name = "behind"
position = [0, 0, -10]
look_at = [0, 0, 0]
"""


@pytest.fixture
def scene(tmp_path):
    path = tmp_path / "scene.toml"
    path.write_text(SCENE)
    return str(path)


def answer(capsys, *words, code=0):
    assert run([*words, "--json"]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def refused(capsys, *words, code=2):
    assert run(list(words)) == code
    _, err = capsys.readouterr()
    assert err.startswith("rtviewer: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def picture(path):
    with Image.open(path) as image:
        return np.asarray(image).copy()


def test_info_has_exactly_the_documented_keys(capsys, scene):
    info = answer(capsys, "info", scene)
    assert info == {
        "triangles_stored": 2, "triangles_drawn": 4, "procedurals": 0, "geometries": 1, "instances": 2,
        "instances_mirrored": 0, "bounds": [[-1, -1, -1], [1, 1, 0]], "warnings": [],
    }  # fmt: skip


def test_info_for_people(capsys, scene):
    assert run(["info", scene]) == 0
    out = capsys.readouterr().out
    assert "triangles drawn   4" in out
    assert "front, behind" in out


def test_build_lists_every_structure(capsys, scene):
    structures = answer(capsys, "build", scene)["structures"]
    assert [(s["name"], s["level"]) for s in structures] == [("TLAS", "top"), ("pane", "bottom")]
    keys = {"name", "level", "flags", "current_size", "compacted_size", "prebuild", "counts", "sah", "depth", "seconds"}
    for structure in structures:
        assert keys <= set(structure)
        assert structure["current_size"] == sum(structure["bytes_by_section"].values()) or structure["current_size"] > 0
        assert structure["flags"] == "NONE"
        assert structure["compacted_size"] is None
        assert structure["prebuild"]["result_data_max_size_in_bytes"] == structure["current_size"]
        assert structure["prebuild"]["scratch_data_size_in_bytes"] > 0
        assert structure["prebuild"]["update_scratch_data_size_in_bytes"] == 0
    flags = ("--build-flags", "ALLOW_COMPACTION,ALLOW_UPDATE", "--tlas-build-flags", "ALLOW_COMPACTION")
    for structure in answer(capsys, "build", scene, *flags)["structures"]:
        assert 0 < structure["compacted_size"] < structure["current_size"]
        assert (structure["prebuild"]["update_scratch_data_size_in_bytes"] > 0) == (structure["level"] == "bottom")
        assert structure["depth"] >= 1
    assert structures[1]["counts"]["primitives"] == structures[1]["counts"]["active"] == 2


def test_build_for_people(capsys, scene):
    assert run(["build", scene]) == 0
    out = capsys.readouterr().out
    assert "pane" in out
    assert "2 structures" in out


@pytest.mark.rule("BF-2")
def test_build_refuses_with_the_rule(capsys, scene):
    assert "[BF-2]" in refused(capsys, "build", scene, "--build-flags", "PREFER_FAST_TRACE,prefer-fast-build")
    assert "[BF-1]" in refused(capsys, "build", scene, "--tlas-build-flags", "0x40000000")


def test_trace_summary_image_and_hits_agree(capsys, scene, tmp_path):
    png, npz = tmp_path / "a.png", tmp_path / "a.npz"
    words = ["trace", scene, "--size", "64x36", "-o", str(png), "--hits", str(npz)]
    summary = answer(capsys, *words)
    keys = ["size", "source", "ray_flags", "mask", "t_min", "t_max", "rays", "hits", "misses", "seconds", "counters"]
    assert list(summary) == keys
    assert summary["size"] == [64, 36]
    assert summary["rays"] == 64 * 36 == summary["hits"] + summary["misses"]
    assert picture(png).shape == (36, 64, 4)
    with np.load(npz) as arrays:
        names = {"hit", "t", "instance_index", "instance_id", "geometry_index", "primitive_index", "hit_kind"}
        counters = {counter.name.lower() for counter in Counter}
        assert set(arrays.files) == names | {"barycentrics"} | counters
        assert arrays["hit"].shape == (36, 64)
        assert arrays["hit"].dtype == np.bool_
        assert arrays["barycentrics"].shape == (36, 64, 2)
        assert arrays["hit"].sum() == summary["hits"] > 0
        assert arrays["instance_id"][18, 32] == 70
        for name in counters:
            numbers = summary["counters"][name]
            values = arrays[name]
            assert (numbers["min"], numbers["max"]) == (values.min(), values.max())
            assert numbers["mean"] == pytest.approx(values.mean())
            assert numbers["p50"] == np.percentile(values, 50)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "a.png", "scene.toml"]


def test_trace_options_reach_the_rays(capsys, scene):
    def hits(*words):
        return answer(capsys, "trace", scene, "--size", "128x128", *words)["hits"]

    every = hits()
    assert every > 0
    assert hits("--mask", "0") == 0
    assert 0 < hits("--mask", "0x1") < every
    assert hits("--ray-flags", "skip-triangles") == 0
    assert hits("--ray-flags", "CULL_FRONT_FACING_TRIANGLES") == 0
    assert hits("--ray-flags", "0x20", "--camera", "behind") > 0
    assert hits("--t-max", "9.9") == 0
    assert hits("--t-min", "12") == 0
    summary = answer(
        capsys, "trace", scene, "--size", "8x8", "--ray-flags", "RAY_FLAG_FORCE_OPAQUE|0x10", "--mask", "3"
    )
    assert summary["ray_flags"] == "FORCE_OPAQUE | CULL_BACK_FACING_TRIANGLES"
    assert (summary["mask"], summary["t_max"]) == (3, None)


def test_every_mode_can_be_written(capsys, scene, tmp_path):
    for mode in MODES:
        assert run(["trace", scene, "--size", "16x9", "--mode", mode, "-o", str(tmp_path / f"{mode}.png")]) == 0
        assert picture(tmp_path / f"{mode}.png").shape == (9, 16, 4)
    capsys.readouterr()


def test_exr_holds_the_numbers_themselves(capsys, scene, tmp_path):
    exr = pytest.importorskip("OpenEXR")
    path, npz = tmp_path / "t.exr", tmp_path / "t.npz"
    assert run(["trace", scene, "--size", "32x18", "--mode", "t", "-o", str(path), "--hits", str(npz)]) == 0
    with exr.File(str(path)) as file, np.load(npz) as arrays:
        values = file.channels()["Y"].pixels
        assert np.array_equal(values[arrays["hit"]], arrays["t"][arrays["hit"]])
        assert np.isnan(values[~arrays["hit"]]).all()
    assert run(["trace", scene, "--size", "32x18", "-o", str(tmp_path / "s.exr")]) == 0
    with exr.File(str(tmp_path / "s.exr"), separate_channels=True) as file:
        assert set(file.channels()) == {"R", "G", "B"}
    capsys.readouterr()


def test_ranges_of_heat_maps(capsys, scene, tmp_path):
    pictures = []
    for limits in ("0,3", "0,300", "1%,99%"):
        path = tmp_path / "r.png"
        assert run(["trace", scene, "--size", "16x9", "--mode", "box_tests", "--range", limits, "-o", str(path)]) == 0
        pictures.append(picture(path))
    assert not np.array_equal(pictures[0], pictures[1])
    for wrong in ("3", "5,1", "1%,101%", "a,b", "nan,1"):
        capsys.readouterr()
        assert "is no range" in refused(capsys, "trace", scene, "--mode", "t", "--range", wrong)


def test_ray_by_pixel_and_by_numbers(capsys, scene):
    story = answer(capsys, "ray", scene, "--pixel", "480,270", "--mask", "1")
    skipped = [e for e in story["events"] if e["kind"] == "instance_skipped"]
    assert [(e["instance"], e["verdict"], e["rule"]) for e in skipped] == [(0, "mask_excluded", "MASK-1")]
    assert story["result"]["instance_index"] == 1
    assert story["ray"]["mask"] == 1
    story = answer(capsys, "ray", scene, "--origin", "0.5,0.25,10", "--direction", "0,0,-2", "--t-max", "5.1")
    assert story["result"]["t"] == 5.0
    candidates = [e for e in story["events"] if e["kind"] == "candidate"]
    assert all(e["verdict"] != "none" and e["rule"] for e in candidates)
    assert sum(e["verdict"] == "committed" for e in candidates) == story["counters"]["commits"] == 1
    miss = answer(capsys, "ray", scene, "--origin", "5,5,5", "--direction", "0,0,-1")
    assert miss["result"]["hit"] is False


def test_ray_for_people_explains(capsys, scene):
    assert run(["ray", scene, "--pixel", "480,270", "--mask", "1", "--expect", "0"]) == 0
    out = capsys.readouterr().out
    assert "instance 0 was never entered: mask 0x02 AND ray mask 0x01 is 0 [MASK-1]" in out
    assert "[HG-1]" in out
    assert "none is 2" in refused(capsys, "ray", scene, "--pixel", "1,1", "--expect", "2")


def test_image_and_ray_agree_on_a_pixel(capsys, scene, tmp_path):
    npz = tmp_path / "h.npz"
    assert run(["trace", scene, "--size", "20x10", "--hits", str(npz)]) == 0
    capsys.readouterr()
    with np.load(npz) as arrays:
        for x, y in [(10, 5), (8, 4), (0, 0)]:
            story = answer(capsys, "ray", scene, "--size", "20x10", "--pixel", f"{x},{y}")
            assert story["result"]["hit"] == bool(arrays["hit"][y, x])
            assert {name: int(arrays[name][y, x]) for name in story["counters"]} == story["counters"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["info", "nowhere.obj"], "nowhere.obj"),
        (["nowhere"], "nowhere"),
        (["trace", "SCENE", "--ray-flags", "SHINY"], "FORCE_OPAQUE"),
        (["trace", "SCENE", "--ray-flags", "FORCE_OPAQUE,CULL_OPAQUE"], "[RF-2]"),
        (["trace", "SCENE", "--ray-flags", "0x100", "--tier", "1.0"], "[RF-1]"),
        (["trace", "SCENE", "--ray-flags", "0x1000"], "[RF-1]"),
        (["trace", "SCENE", "--t-min", "-1"], "[RAY-2]"),
        (["trace", "SCENE", "--t-max", "nan"], "[RAY-3]"),
        (["trace", "SCENE", "--mask", "red"], "not a number"),
        (["trace", "SCENE", "--mask", "-1"], "not in"),
        (["trace", "SCENE", "--size", "12"], "WxH"),
        (["trace", "SCENE", "--size", "0x4"], "cannot trace an image"),
        (["trace", "SCENE", "--mode", "pretty"], "shaded"),
        (["trace", "SCENE", "--palette", "pretty"], "viridis"),
        (["trace", "SCENE", "--camera", "side"], "'front', 'behind', 'fit'"),
        (["trace", "SCENE", "-o", "image.jpg"], ".png, .exr, .npz"),
        (["trace", "SCENE", "-o", "nowhere/image.png"], "cannot write"),
        (["trace", "SCENE", "--any-hit", "maybe"], "accept (0)"),
        (["trace", "SCENE", "--tier", "2"], "1.0, 1.1 or 1.2"),
        (["ray", "SCENE"], "--pixel"),
        (["ray", "SCENE", "--pixel", "1,1", "--origin", "0,0,0", "--direction", "0,0,1"], "either"),
        (["ray", "SCENE", "--origin", "0,0,0"], "either"),
        (["ray", "SCENE", "--pixel", "960,0"], "outside the 960 x 540"),
        (["ray", "SCENE", "--pixel", "1"], "X,Y"),
        (["ray", "SCENE", "--origin", "nan,0,0", "--direction", "0,0,1"], "RAY-3"),
        (["ray", "SCENE", "--pixel", "1,1", "--expect", "2"], "2 instances, none is 2"),
        (["ray", "SCENE", "--pixel", "1,1", "--expect", "0,1,0"], "1 geometries, none is 1"),
        (["ray", "SCENE", "--pixel", "1,1", "--expect", "1,0,2"], "2 primitives, none is 2"),
        (["ray", "SCENE", "--pixel", "1,1", "--expect", "0,0,-1"], "numbers from 0"),
        (["ray", "SCENE", "--origin", "0,0,1e39", "--direction", "0,0,1"], "beyond float32"),
        (["ray", "SCENE", "--origin", "0,0,1", "--direction", "0,0,-1e39"], "beyond float32"),
        (["trace", "SCENE", "--t-max", "1e39"], "beyond float32"),
        (["trace", "SCENE", "--t-min", "1e39"], "beyond float32"),
        (["trace", "SCENE", "--t-min", "soon"], "not a number"),
        (["trace", "SCENE", "--range", "0,inf"], "not finite"),
        (["trace", "SCENE", "--range=-inf,0"], "not finite"),
        (["trace", "SCENE", "--range=-1e308,1e308"], "beyond float32"),
        (["trace", "SCENE", "--size", "4097x4096"], "16,777,216 pixels are possible with counters"),
        (["trace", "SCENE", "-o", ""], "the path is empty"),
        (["trace", "SCENE", "--hits", ""], "the path is empty"),
        (["trace", "SCENE", "--hits", "x.png", "-o", "x.png"], "should end in .npz"),
        (["build", "SCENE", "-o", ""], "the path is empty"),
        (["copy", "SCENE", "--mode", "clone", "-o", ""], "the path is empty"),
        (["copy", "SCENE", "--mode", "clone", "--structure", "-1", "-o", "x"], "no structure '-1'"),
        (["conformance", "nowhere"], "nowhere"),
        (["view", "SCENE", "--screenshot", "a.jpg"], ".png"),
        (["build"], "SOURCE"),
    ],
)
def test_a_users_mistake_is_one_line_and_code_2(capsys, scene, tmp_path, monkeypatch, words, text):
    monkeypatch.chdir(tmp_path)
    assert text in refused(capsys, *(scene if word == "SCENE" else word for word in words))


@pytest.mark.parametrize("number", ["1e39", "1e200", "-1e39"])
@pytest.mark.parametrize("command", [["trace"], ["ray", "--pixel", "1,1"]])
def test_a_camera_beyond_float32_is_refused(capsys, scene, command, number):
    Path(scene).write_text(SCENE.replace("[0, 0, 10]", f"[0, {number}, 10]"))
    assert "a number of camera 'front' of two panes is beyond float32" in refused(
        capsys, command[0], scene, *command[1:]
    )


def test_the_largest_float32_and_infinity_are_intervals(capsys, scene):
    for number in ("3.4028235e38", "inf"):
        assert answer(capsys, "trace", scene, "--size", "4x4", "--t-max", number)["rays"] == 16


def test_what_exists_can_be_expected(capsys, scene):
    for text in ("0", "1", "0,0,1", "1,0,0"):
        assert answer(capsys, "ray", scene, "--pixel", "1,1", "--expect", text)["explanation"]


def test_xbox_and_tier_unlock_flags(capsys, scene):
    assert answer(capsys, "trace", scene, "--size", "4x4", "--ray-flags", "0x1000", "--xbox")["rays"] == 16
    assert answer(capsys, "trace", scene, "--size", "4x4", "--ray-flags", "0x400", "--tier", "1.2")["rays"] == 16


def test_debug_shows_where(scene):
    with pytest.raises(Exception, match="RF-2"):
        run(["trace", scene, "--ray-flags", "FORCE_OPAQUE,CULL_OPAQUE", "--debug"])


def test_a_mistake_of_our_own_is_told_apart(capsys, scene, monkeypatch):
    def broken(path, profile):
        raise KeyError("table")

    monkeypatch.setattr("rtviewer.io.registry.load_scene", broken)
    assert "internal error, KeyError" in refused(capsys, "info", scene, code=3)


def test_conformance_exits_with_1_on_any_mismatch(capsys, monkeypatch):
    from rtviewer.session import conformance

    def fake(mismatches):
        scene = conformance.SceneReport("s", 10, 8, {"edge": 2}, mismatches, None)
        return lambda folder, engine, progress: conformance.ConformanceReport((scene,))

    monkeypatch.setattr(conformance, "run_conformance", fake({}))
    report = answer(capsys, "conformance", "somewhere")
    assert report["mismatches"] == 0
    monkeypatch.setattr(conformance, "run_conformance", fake({"t": 3}))
    assert answer(capsys, "conformance", "somewhere", code=1)["mismatches"] == 3
    assert run(["conformance", "somewhere"]) == 1
    assert "3 mismatches in 8 compared rays" in capsys.readouterr().out


def test_conformance_checks_flags_by_the_profile(capsys, monkeypatch):
    from rtviewer.cli.conformance import checked_engine
    from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile, Tier
    from rtviewer.session import conformance
    from rtviewer.trace.request import TraceSettings

    assert checked_engine("kernels", DEFAULT_PROFILE) == "kernels"
    calls = []
    monkeypatch.setattr(conformance, "ENGINES", {"kernels": lambda: lambda *arguments: calls.append(arguments)})
    engine = checked_engine("kernels", Profile(Tier.TIER_1_0))
    engine(None, None, TraceSettings(ray_flags=RayFlag.FORCE_OPAQUE))
    with pytest.raises(InvalidInputError, match="RF-1"):
        engine(None, None, TraceSettings(ray_flags=np.array([1, int(RayFlag.SKIP_TRIANGLES)], np.uint32)))
    assert len(calls) == 1


def test_help_lists_every_command_and_flag(capsys):
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)
    assert run([]) == 0
    assert capsys.readouterr().out == out
    for name in COMMANDS:
        assert run([name, "--help"]) == 0
        assert "Usage:" in capsys.readouterr().out
    run(["trace", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert all(str(flag.name) in text for flag in RayFlag if flag and flag is not RayFlag.FORCE_OMM_2_STATE)


def test_hits_are_those_of_the_image_buffer():
    assert {name for name, _, _, _ in HIT_FIELDS} >= {"hit", "t", "instance_index", "hit_kind"}


def test_the_culling_lab_tells_its_story(capsys):
    story = answer(
        capsys, "ray", "scenes/culling_lab", "--pixel", "480,270", "--ray-flags", "CULL_BACK_FACING_TRIANGLES"
    )
    candidates = [e for e in story["events"] if e["kind"] in ("candidate", "report")]
    assert candidates
    assert all(e["verdict"] != "none" and e["rule"] and e["text"] for e in candidates)
    ends = [e["t_current"] for e in story["events"] if e["t_current"] is not None]
    assert ends == sorted(ends, reverse=True)  # the ray only ever gets shorter
    assert ends[-1] == story["result"]["t"]
