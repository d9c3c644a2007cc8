"""Counters, modes and the x-ray on the command line."""

import json

import numpy as np
import pytest
from PIL import Image

from rtviewer.cli.main import run
from rtviewer.dxr.counters import COUNTERS, X_RAY_COUNTERS
from rtviewer.shade.modes import MODES

SCENE = "scenes/culling_lab"
SIZE = ["--size", "64x36"]


def output(capsys, *words):
    assert run(list(words)) == 0
    return capsys.readouterr().out


def test_modes_are_listed_with_units_and_rules(capsys):
    lines = output(capsys, "trace", "--modes").splitlines()
    listed = {line.split()[0]: line for line in lines if line.startswith(" ") and line.split()}
    assert set(MODES) <= set(listed)
    for counter, meaning in COUNTERS.items():
        assert f"{meaning.unit} per ray" in listed[counter.key]
        assert meaning.rule in listed[counter.key]


def test_an_x_ray_is_in_json_and_arrays_when_asked_for(capsys, tmp_path):
    plain = json.loads(output(capsys, "trace", SCENE, *SIZE, "--json"))
    npz = tmp_path / "a.npz"
    summary = json.loads(output(capsys, "trace", SCENE, *SIZE, "--x-ray", "-o", str(npz), "--json"))
    keys = {x_ray.key for x_ray in X_RAY_COUNTERS}
    assert keys & set(plain["counters"]) == set()
    assert keys <= set(summary["counters"])
    with np.load(npz) as arrays:
        for key in keys:
            assert summary["counters"][key]["max"] == arrays[key].max()
        assert np.array_equal(arrays["x_ray_surfaces"] > 0, arrays["hit"])
        assert (arrays["x_ray_nodes"] >= arrays["tlas_nodes_visited"] + arrays["blas_nodes_visited"]).all()
        y, x = np.unravel_index(np.argmax(arrays["x_ray_surfaces"]), arrays["hit"].shape)
        most = int(arrays["x_ray_surfaces"][y, x])
    story = json.loads(output(capsys, "ray", SCENE, *SIZE, "--pixel", f"{x},{y}", "--x-ray", "--json"))
    assert story["ray"]["x_ray"] is True
    assert story["counters"]["x_ray_surfaces"] == most > 1
    passed = [e for e in story["events"] if e["verdict"] == "surface_passed" and e["kind"] != "report"]
    assert len({e["t_current"] for e in story["events"]}) == 1  # nothing shortens the ray
    assert story["result"]["t"] == min(e["t"] for e in passed)
    text = output(capsys, "ray", SCENE, *SIZE, "--pixel", f"{x},{y}")
    assert f"x_ray_surfaces {most}" in text


@pytest.mark.parametrize("mode", ["x_ray_surfaces", "instance", "miss"])
def test_a_png_with_its_legend(capsys, tmp_path, mode):
    path = tmp_path / "a.png"
    output(capsys, "trace", SCENE, "--size", "400x225", "--mode", mode, "--legend", "-o", str(path))
    with Image.open(path) as image:
        assert image.width == 400
        assert image.height > 225 + 40
    output(capsys, "trace", SCENE, "--size", "400x225", "--mode", mode, "-o", str(path))
    with Image.open(path) as image:
        assert image.size == (400, 225)
