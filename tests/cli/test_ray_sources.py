"""``--source`` and ``--rays``: options made from the table of sources, results that agree with each other."""

import json

import numpy as np
import pytest

from rtviewer.cli.main import run
from rtviewer.cli.trace import command as trace_command
from rtviewer.scene.ray_sources import IMAGE_SOURCES, SOURCES, SourceKind
from rtviewer.session.ray_list import COLUMNS
from tests.cli.test_commands import SCENE, answer, picture, refused

SIZE = ["--size", "48x27"]


@pytest.fixture
def scene(tmp_path):
    path = tmp_path / "scene.toml"
    path.write_text(SCENE)
    return str(path)


@pytest.fixture
def rays(tmp_path):
    """A hit, a miss, one beyond its end, a NaN and one whose flags are illegal."""
    path = tmp_path / "rays.csv"
    path.write_text(
        "origin_x,origin_y,origin_z,direction_x,direction_y,direction_z,t_min,t_max,flags,mask\n"
        "0.3,0.2,10,0,0,-1,0,inf,0,0xFF\n"
        "5,5,10,0,0,-1,0,inf,0,0xFF\n"
        "0.3,0.2,10,0,0,-1,0,5,0,0xFF\n"
        "nan,0,10,0,0,-1,0,inf,0,0xFF\n"
        "0.3,0.2,10,0,0,-1,0,inf,0x300,0xFF\n"
        "0.3,0.2,10,0,0,-2,0,inf,0,0x01\n"
    )
    return str(path)


def test_every_parameter_of_every_source_is_an_option_with_its_help():
    options = {option.name: option for option in trace_command.params}
    for spec in IMAGE_SOURCES:
        assert str(spec.kind) in options["source_name"].type.choices
        for parameter in spec.parameters:
            assert parameter.tip in options[parameter.name].help
            assert str(spec.kind) in options[parameter.name].help


@pytest.mark.parametrize("kind", [str(spec.kind) for spec in IMAGE_SOURCES])
def test_an_image_of_every_source(capsys, scene, tmp_path, kind):
    png, npz = tmp_path / "out.png", tmp_path / "out.npz"
    summary = answer(capsys, "trace", scene, *SIZE, "--source", kind, "-o", str(png), "--hits", str(npz))
    assert summary["source"]["kind"] == kind
    assert picture(png).shape == (27, 48, 4)
    with np.load(npz) as arrays:
        assert summary["hits"] == np.count_nonzero(arrays["hit"])
        if kind == "camera":
            assert summary["rays"] == 48 * 27
            assert "has_ray" not in arrays
            return
        assert summary["rays"] == np.count_nonzero(arrays["has_ray"])
        assert summary["source"]["open_fraction"] == pytest.approx(float(np.nanmean(arrays["open_fraction"])))
        assert arrays["direction"].shape == (27, 48, 3)


def test_parameters_reach_the_picture(capsys, scene):
    summary = answer(capsys, "trace", scene, *SIZE, "--source", "shadow", "--light", "0,0,5")
    assert summary["source"]["light"] == [0, 0, 5]
    assert (summary["t_max"], summary["hits"]) == (1.0, 0)
    behind = answer(capsys, "trace", scene, *SIZE, "--source", "shadow", "--light", "0,0,-5")
    assert behind["hits"] == behind["rays"], "the pane itself is in the way"
    one = answer(
        capsys, "trace", scene, *SIZE, "--source", "occlusion", "--samples", "3", "--radius", "9", "--seed", "4"
    )
    assert one["source"] == {
        "kind": "occlusion", "radius": 9, "samples": 3, "shown": 0, "seed": 4, "open_fraction": 1.0,
    }  # fmt: skip
    assert run(["trace", scene, *SIZE, "--source", "shadow", "--light", "0,0,5"]) == 0
    out = capsys.readouterr().out
    assert "source     shadow, light 0.0 0.0 5.0, open fraction 1.0" in out
    assert "t          0.0 to 1.0" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--source", "moon"], "moon"),
        (["--light", "0,0,5"], "--light goes with --source shadow, not with camera"),
        (["--source", "shadow", "--seed", "2"], "--seed goes with --source diffuse or occlusion, not with shadow"),
        (["--source", "shadow", "--light", "0,0"], "not of the form"),
        (["--source", "shadow", "--light", "0,0,inf"], "three finite numbers"),
        (["--source", "occlusion", "--samples", "65"], "65"),
        (["--source", "occlusion", "--shown", "8"], "the samples are 0 to 7"),
        (["--source", "occlusion", "--radius", "0"], "above 0"),
        (["--source", "shadow", "--t-min", "2"], "RAY-2"),
    ],
)
def test_wrong_parameters_are_refused_in_a_line(capsys, scene, words, said):
    assert said in refused(capsys, "trace", scene, *SIZE, *words)


def test_the_ray_of_a_pixel_by_source(capsys, scene):
    story = answer(capsys, "ray", scene, *SIZE, "--pixel", "24,13", "--source", "shadow", "--light", "0,0,-5")
    assert story["ray"]["source"] == "shadow"
    assert (story["ray"]["t_max"], story["result"]["hit"]) == (1.0, True)
    assert story["result"]["t"] < 1e-3
    camera = answer(capsys, "ray", scene, *SIZE, "--pixel", "24,13", "--source", "shadow", "--camera-ray")
    assert camera["ray"]["source"] == "camera"
    assert camera["ray"]["origin"] == [0, 0, 10]
    away = answer(capsys, "ray", scene, *SIZE, "--pixel", "0,0", "--source", "shadow")
    assert away["ray"]["source"] == "camera"
    assert "no other ray starts there" in away["ray"]["warnings"][0]
    assert run(["ray", scene, *SIZE, "--pixel", "24,13", "--source", "diffuse"]) == 0
    assert "source     bounce ray" in capsys.readouterr().out


def test_a_scene_file_says_its_source(capsys, tmp_path):
    path = tmp_path / "scene.toml"
    path.write_text(SCENE + '\n[ray_source]\nsource = "shadow"\nlight = [0, 0, 5]\n')
    summary = answer(capsys, "trace", str(path), *SIZE)
    assert summary["source"]["light"] == [0, 0, 5]
    other = answer(capsys, "trace", str(path), *SIZE, "--light", "0,0,-5")
    assert other["source"]["kind"] == "shadow"
    assert other["hits"] > 0
    assert answer(capsys, "trace", str(path), *SIZE, "--source", "camera")["rays"] == 48 * 27
    for keys, said in (
        ('source = "moon"', "camera"),
        ('source = "typed"', "camera"),
        ('source = "shadow"\nseed = 1', "has no parameter 'seed'"),
        ('source = "shadow"\nlight = [0, 0, inf]', "three finite numbers"),
        ('source = "occlusion"\nsamples = 1\nshown = 1', "the samples are 0 to 0"),
        ('source = "occlusion"\ncolour = 1', "ray_source.colour"),
        ("light = [0, 0, 0]", "ray_source.source"),
    ):
        path.write_text(f"{SCENE}\n[ray_source]\n{keys}\n")
        assert said in refused(capsys, "info", str(path))


# --- files of rays ------------------------------------------------------------------------------------------------


def test_a_file_of_rays_is_listed(capsys, scene, rays):
    told = answer(capsys, "ray", scene, "--rays", rays)
    assert (told["rays"], told["hits"], told["misses"], told["invalid"], told["listed"]) == (6, 2, 2, 2, 6)
    rows = told["rows"]
    assert [row["status"] for row in rows] == ["hit", "miss", "miss", "invalid", "invalid", "hit"]
    assert (rows[0]["t"], rows[0]["instance_id"], rows[0]["mask"]) == (10, 70, 255)
    assert (rows[5]["t"], rows[5]["instance_index"]) == (5.5, 1), "t counts in lengths of the direction, mask 0x01"
    assert rows[3]["origin_x"] is None
    assert "RAY-3" in rows[3]["problem"]
    assert "RF-4" in rows[4]["problem"]
    assert list(rows[0]) == list(COLUMNS)


def test_sorting_filtering_and_limits(capsys, scene, rays):
    told = answer(capsys, "ray", scene, "--rays", rays, "--sort", "t", "--descending", "--only", "hit")
    assert [row["index"] for row in told["rows"]] == [0, 5]
    told = answer(capsys, "ray", scene, "--rays", rays, "--sort", "t", "--only", "hit", "--limit", "1")
    assert [row["index"] for row in told["rows"]] == [5]
    assert told["listed"] == 2
    assert run(["ray", scene, "--rays", rays, "--limit", "2"]) == 0
    out = capsys.readouterr().out
    assert "6: 2 hit, 2 miss, 2 invalid [RAY-4]" in out
    assert "4 more rays" in out
    assert "there is no column 'colour': use one of index, status, t," in refused(
        capsys, "ray", scene, "--rays", rays, "--sort", "colour"
    )


def test_one_of_the_rays_is_told(capsys, scene, rays):
    story = answer(capsys, "ray", scene, "--rays", rays, "--number", "2")
    assert story["ray"]["source"] == "file"
    assert (story["ray"]["t_max"], story["result"]["hit"]) == (5, False)
    assert "has 6 rays, none is 6" in refused(capsys, "ray", scene, "--rays", rays, "--number", "6")
    assert "RAY-3" in refused(capsys, "ray", scene, "--rays", rays, "--number", "3")
    assert "RF-4" in refused(capsys, "ray", scene, "--rays", rays, "--number", "4")


def test_results_are_written_and_are_rays_again(capsys, scene, rays, tmp_path):
    for name in ("out.csv", "out.npz"):
        first = answer(capsys, "ray", scene, "--rays", rays, "--results", str(tmp_path / name))
        again = answer(capsys, "ray", scene, "--rays", str(tmp_path / name))
        assert again["rows"] == first["rows"]
        assert "hit" in again["ignored"]
    text = (tmp_path / "out.csv").read_text()
    assert text.startswith("origin_x,origin_y,origin_z,direction_x,")
    assert json.dumps(first)
    assert run(["ray", scene, "--rays", rays, "--results", str(tmp_path / "x.csv")]) == 0
    assert "wrote" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give either --pixel X,Y, or --origin x,y,z and --direction x,y,z, or --rays FILE"),
        (["--rays", "RAYS", "--pixel", "1,1"], "give either"),
        (["--rays", "RAYS", "--origin", "0,0,0", "--direction", "0,0,1"], "give either"),
        (["--origin", "0,0,0"], "give either"),
        (["--pixel", "1,1", "--number", "3"], "go with --rays FILE"),
        (["--pixel", "1,1", "--results", "a.csv"], "go with --rays FILE"),
        (["--rays", "RAYS", "--source", "shadow"], "go with --pixel X,Y"),
        (["--rays", "RAYS", "--camera-ray"], "go with --pixel X,Y"),
        (["--rays", "missing.npz"], "there is no such file"),
        (["--rays", "rays.txt"], "unknown kind of ray file"),
        (["--rays", "RAYS", "--results", "out.txt"], "unknown kind of ray file"),
        (["--rays", "RAYS", "--only", "maybe"], "maybe"),
    ],
)
def test_wrong_words_are_refused_in_a_line(capsys, scene, rays, words, said):
    assert said in refused(capsys, "ray", scene, *(rays if word == "RAYS" else word for word in words))


def test_help_of_single_rays_and_files_is_the_tables(capsys):
    assert run(["ray", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for kind in (SourceKind.TYPED, SourceKind.FILE):
        for parameter in SOURCES[kind].parameters:
            assert f"{parameter.tip[0].upper()}{parameter.tip[1:]}." in text
