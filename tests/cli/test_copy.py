"""``copy``, and the other commands on every kind of SOURCE that copies write."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

from rtviewer.cli.main import COMMANDS, run, spread_blas
from rtviewer.copymode.identify import GUID
from tests.cli.test_commands import answer, picture, refused

LAB = "scenes/culling_lab"
COMPACTABLE = ("--build-flags", "ALLOW_COMPACTION", "--tlas-build-flags", "ALLOW_COMPACTION")
VIEW = ("--size", "240x135")


def traced(tmp_path, capsys, *words):
    """Pixels and hits of a trace, counters too."""
    image, hits = tmp_path / "image.png", tmp_path / "hits.npz"
    summary = answer(capsys, "trace", *words, *VIEW, "-o", str(image), "--hits", str(hits))
    with np.load(hits) as arrays:
        return picture(image), {name: arrays[name] for name in arrays.files}, summary


def assert_same(first, second, *, counters=True):
    assert np.array_equal(first[0], second[0])
    for name, values in first[1].items():
        is_counter = name in first[2]["counters"]
        if counters or not is_counter:
            assert np.array_equal(values, second[1][name], equal_nan=values.dtype.kind == "f"), name
    assert first[2]["hits"] == second[2]["hits"] > 0


@pytest.fixture
def lab(tmp_path, capsys):
    return traced(tmp_path, capsys, LAB)


@pytest.fixture
def folder(tmp_path, capsys):
    out = tmp_path / "out"
    answer(capsys, "copy", LAB, "--mode", "serialize", "-o", str(out))
    return out


def blobs(folder):
    return [str(file) for file in sorted(folder.glob("*.rtblob"))]


# --- the same picture from every kind of file ---------------------------------------------------------------------


@pytest.mark.rule("SER-2", "SER-13")
def test_a_serialized_folder_traces_like_its_scene(tmp_path, capsys, lab, folder):
    assert_same(lab, traced(tmp_path, capsys, str(folder)))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [entry["file"] for entry in manifest["structures"]] == [
        file.name for file in sorted(folder.glob("*.rtblob"))
    ]
    assert [camera["name"] for camera in manifest["cameras"]] == ["front", "behind", "aside"]
    info = answer(capsys, "info", str(folder))
    assert [row["name"] for row in info["structures"]] == [entry["name"] for entry in manifest["structures"]]
    behind = traced(tmp_path, capsys, LAB, "--camera", "behind")
    assert_same(behind, traced(tmp_path, capsys, str(folder), "--camera", "behind"))


@pytest.mark.rule("SER-5", "CP-10")
def test_a_top_levels_blob_with_its_bottom_levels_traces_the_same(tmp_path, capsys, lab, folder):
    top, *bottoms = blobs(folder)
    camera = tmp_path / "lab.rtcap"  # a blob has neither camera nor programs: what the ray hits must be equal
    answer(capsys, "build", LAB, "-o", str(camera))
    ray = ("--origin", "0.1,0.9,9", "--direction", "0,-0.02,-1", "--any-hit", "IGNORE_ODD_PRIMITIVES")
    expected = answer(capsys, "ray", LAB, *ray)
    before = ["--blas", *bottoms, top]
    for words in (
        [top, "--blas", *bottoms],
        before,
        [top, *(w for b in bottoms for w in ("--blas", b))],
        [str(camera)],
    ):
        story = answer(capsys, "ray", *words, *ray)
        assert story["result"] == expected["result"]
        assert story["counters"] == expected["counters"]


@pytest.mark.parametrize("mode", ["clone", "compact", "deserialize"])
def test_copied_structures_trace_the_same(tmp_path, capsys, lab, folder, mode):
    out = tmp_path / "copied.rtcap"
    source = [str(folder)] if mode == "deserialize" else [LAB, *COMPACTABLE]
    report = answer(capsys, "copy", *source, "--mode", mode, "-o", str(out))
    assert report["files"] == [str(out)]
    assert len(report["structures"]) == 12
    for row in report["structures"]:
        assert (row["size"] < row["source_size"]) == (mode == "compact")
    assert_same(lab, traced(tmp_path, capsys, str(out)))


def test_build_writes_a_capture_that_traces_the_same(tmp_path, capsys, lab):
    out = tmp_path / "lab.rtcap"
    flags = ("--build-flags", "MINIMIZE_MEMORY")
    built = answer(capsys, "build", LAB, *flags, "-o", str(out))["structures"]
    assert_same(lab, traced(tmp_path, capsys, str(out)), counters=False)
    assert_same(traced(tmp_path, capsys, LAB, *flags), traced(tmp_path, capsys, str(out)))
    info = answer(capsys, "info", str(out))
    assert info["kind"] == "structures"
    assert [(r["name"], r["flags"], r["address"]) for r in info["structures"]] == [
        (s["name"], s["flags"], s["address"]) for s in built
    ]
    assert (info["instances"], info["any_hit"]) == (39, "IGNORE_ODD_PRIMITIVES")
    again = answer(capsys, "build", str(out))["structures"]
    assert [s["counts"]["primitives"] for s in again] == [s["counts"]["primitives"] for s in built]
    assert all(s["flags"] == "NONE" for s in again)


@pytest.mark.rule("VIS-2", "VIS-16")
def test_dumps_of_all_levels_open_again(tmp_path, capsys):
    out = tmp_path / "dumps"
    report = answer(capsys, "copy", LAB, "--mode", "visualization-decode", "-o", str(out))
    top, *bottoms = report["files"]
    info = answer(capsys, "info", top)
    assert (info["kind"], info["level"], info["instances"]) == ("dump", "top", 39)
    assert len(info["addresses"]) == len(bottoms)
    info = answer(capsys, "info", bottoms[0])
    assert [g["primitives"] for g in info["geometries"]] == [736, 960]
    assert info["geometries"][0]["vertex_format"] == "R32G32B32_FLOAT"
    ray = ("--origin", "0.1,0.9,9", "--direction", "0,-0.02,-1", "--any-hit", "IGNORE_ODD_PRIMITIVES")
    expected = answer(capsys, "ray", LAB, *ray)["result"]
    assert answer(capsys, "ray", top, "--blas", *bottoms, *ray)["result"] == expected
    assert answer(capsys, "trace", bottoms[0], *VIEW)["hits"] > 0
    base = answer(capsys, "info", bottoms[0])["base_address"]
    assert answer(capsys, "info", bottoms[0], "--base-address", hex(base))["is_base_certain"] is True
    assert "outside the buffer" in refused(capsys, "trace", bottoms[0], "--base-address", "0x100")


# --- one structure ------------------------------------------------------------------------------------------------


def test_one_structure_by_name_or_number(tmp_path, capsys, folder):
    out = tmp_path / "bowl.rtblob"
    for name in ("bowl", "0"):
        report = answer(capsys, "copy", LAB, "--mode", "serialize", "--structure", name, "-o", str(out))
        assert [row["name"] for row in report["structures"]] == ["bowl"]
        assert out.read_bytes() == next(folder.glob("*bowl.rtblob")).read_bytes()
        assert report["structures"][0]["size"] == out.stat().st_size
    assert answer(capsys, "trace", str(out), *VIEW)["hits"] > 0
    dump = tmp_path / "bowl.rtdump"
    answer(capsys, "copy", str(out), "--mode", "visualization-decode", "--structure", "0", "-o", str(dump))
    assert answer(capsys, "info", str(dump))["level"] == "bottom"
    capture = tmp_path / "one.rtcap"
    report = answer(capsys, "copy", LAB, *COMPACTABLE, "--mode", "compact", "--structure", "bowl", "-o", str(capture))
    assert len(report["structures"]) == 1
    sizes = {row["name"]: row["size"] for row in answer(capsys, "info", str(capture))["structures"]}
    assert sizes["bowl"] == report["structures"][0]["size"]


def test_info_shows_a_blobs_header(capsys, folder):
    top, bowl, *_ = blobs(folder)
    info = answer(capsys, "info", top)
    assert info["status"] == "COMPATIBLE_WITH_DEVICE"
    assert info["guid"] == str(GUID)
    assert info["pointer_count"] == len(info["pointers"]) == 39
    assert [field["offset"] for field in info["fields"]] == [0, 16, 32, 40, 48, 52]
    assert info["serialized_size"] == folder.joinpath(top).stat().st_size == info["payload"][1]
    assert info["structure"]["level"] == "top"
    assert run(["info", bowl]) == 0
    out = capsys.readouterr().out
    assert "DeserializedSizeInBytes" in out
    assert "COMPATIBLE_WITH_DEVICE" in out


@pytest.mark.rule("SER-8")
def test_a_foreign_blob_has_a_header_and_is_not_traced(tmp_path, capsys, folder):
    path = tmp_path / "foreign.rtblob"
    path.write_bytes(b"another driver's" + folder.joinpath(blobs(folder)[0]).read_bytes()[16:])
    info = answer(capsys, "info", str(path))
    assert (info["status"], info["structure"], info["pointer_count"]) == ("UNRECOGNIZED", None, 39)
    assert "SER-8" in refused(capsys, "trace", str(path), *VIEW)
    assert "SER-8" in refused(capsys, "copy", str(path), "--mode", "deserialize", "-o", str(tmp_path / "x.rtcap"))


def test_info_for_people_on_every_kind(tmp_path, capsys, folder):
    capture, dumps = tmp_path / "lab.rtcap", tmp_path / "dumps"
    assert run(["build", LAB, "-o", str(capture)]) == 0
    assert f"wrote {capture}" in capsys.readouterr().out
    assert run(["copy", LAB, "--mode", "visualization-decode", "-o", str(dumps)]) == 0
    out = capsys.readouterr().out
    assert "-" in out
    assert out.count("wrote") == 12
    for path, text in ((capture, "IGNORE_ODD_PRIMITIVES"), (folder, "front, behind"), (min(dumps.iterdir()), "39")):
        assert run(["info", str(path)]) == 0
        assert text in capsys.readouterr().out
    assert run(["info", str(max(dumps.iterdir()))]) == 0
    assert "base address" in capsys.readouterr().out


# --- mistakes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["copy", LAB, "--mode", "compact", "-o", "x.rtcap"], "[CP-12]"),
        (["copy", LAB, "--mode", "move", "-o", "x.rtcap"], "clone"),
        (["copy", LAB, "--mode", "clone"], "--output"),
        (["copy", LAB, "--mode", "clone", "-o", "x.zip"], ".rtcap"),
        (["copy", LAB, "--mode", "serialize", "-o", "x.rtcap"], ".rtblob"),
        (["copy", LAB, "--mode", "serialize", "-o", "x.rtblob"], "--structure"),
        (["copy", LAB, "--mode", "visualization-decode", "-o", "x.rtdump"], "--structure"),
        (["copy", LAB, "--mode", "serialize", "--structure", "cup", "-o", "x.rtblob"], "'bowl'"),
        (["copy", LAB, "--mode", "deserialize", "-o", "x.rtcap"], "a blob, a folder or a capture"),
        (["copy", "nowhere", "--mode", "clone", "-o", "x.rtcap"], "nowhere"),
        (["build", LAB, "-o", "x.png"], ".rtcap"),
        (["build", LAB, "-o", "nowhere/x.rtcap"], "cannot write"),
        (["trace", LAB, "--blas", "x.rtblob"], "--blas"),
        (["trace", "TOP"], "one bottom level for each address"),
        (["trace", "FOLDER", "--build-flags", "ALLOW_UPDATE"], "not built again"),
        (["ray", "FOLDER", "--pixel", "1,1", "--tlas-build-flags", "ALLOW_UPDATE"], "not built again"),
        (["copy", "FOLDER", "--mode", "clone", "--build-flags", "1", "-o", "x.rtcap"], "not built again"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(capsys, tmp_path, monkeypatch, folder, words, text):
    monkeypatch.chdir(tmp_path)
    places = {"FOLDER": str(folder), "TOP": blobs(folder)[0]}
    before = sorted(tmp_path.iterdir())
    assert text in refused(capsys, *(places.get(word, word) for word in words))
    assert sorted(tmp_path.iterdir()) == before


def test_damaged_captures_are_one_line(capsys, tmp_path):
    path = tmp_path / "lab.rtcap"
    answer(capsys, "build", LAB, "-o", str(path))
    data = path.read_bytes()
    for damaged in (data[:1000], data[:-30], b"", bytes(500)):
        path.write_bytes(damaged)
        for command in (["info", str(path)], ["trace", str(path)], ["copy", str(path), "--mode", "clone", "-o", "x"]):
            assert str(path) in refused(capsys, *command)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", bytes(50 << 20))
    assert "unpacks to too much" in refused(capsys, "info", str(path))


def test_a_scene_in_a_folder_of_structures_comes_first(capsys, tmp_path, folder):
    (folder / "scene.toml").write_text('name = "mine"\n')
    assert answer(capsys, "info", str(folder))["instances"] == 0


@pytest.mark.parametrize(
    ("words", "source"),
    [
        (["trace", "--blas", "a", "b", "top"], ["top"]),
        (["trace", "--blas", "a", "b", "top", "-o", "c"], ["top", "-o", "c"]),
        (["trace", "--blas", "a", "b", "--size", "4x4", "top"], ["--size", "4x4", "top"]),
        (["trace", "--json", "top", "--blas", "a", "b"], None),
        (["top.rtblob", "--blas", "a", "b"], None),
        (["view", "--blas", "a", "b", "top"], ["top"]),
        (["trace", "--blas", "a", "--blas", "b", "top"], ["top"]),
        (["trace", "--blas", "a", "top", "--blas", "b"], None),
        (["trace", "--blas", "a", "b", "--t-min", "-1", "--", "top"], ["--t-min", "-1", "--", "top"]),
    ],
)
def test_source_stands_before_the_bottom_levels_or_last(words, source):
    spread = spread_blas(words)
    files = [spread[number + 1] for number, word in enumerate(spread) if word == "--blas"]
    assert files == ["a", "b"]
    if source is not None:
        assert spread[-len(source) :] == source
    others = [word for word in spread if word not in ("--blas", "a", "b")]
    assert others == [word for word in words if word not in ("--blas", "a", "b")]


def test_blas_takes_several_files_after_source():
    assert spread_blas(["trace", "top", "--blas", "a", "b", "-o", "c"]) == [
        "trace", "top", "--blas", "a", "--blas", "b", "-o", "c",
    ]  # fmt: skip
    for words in (["trace", "--blas", "a", "top"], ["trace", "top", "--blas", "a", "--blas", "b"], [], ["--help"]):
        assert spread_blas(words) == words


def test_every_command_that_judges_takes_tier_and_xbox(capsys):
    for name in COMMANDS:
        assert run([name, "--help"]) == 0
        out = capsys.readouterr().out
        assert "--tier" in out, name
        assert "--xbox" in out, name
