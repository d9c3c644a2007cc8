"""What trees leave out, counted and named; and what a world makes once while others do not wait."""

import threading

import numpy as np
import pytest

import rtviewer.accel.stats
from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.api import open_world
from rtviewer.session.document import TOP_LEVEL, build_world, problems_of
from rtviewer.session.left_out import MAX_NAMED, left_out
from rtviewer.session.state import BuildSettings

GOOD = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
POINT, LINE = [[0, 0, 0]] * 3, [[0, 0, 0], [0, 0, 1], [0, 0, 2]]
GONE = [[np.nan, 0, 0], [1, 0, 0], [0, 1, 0]]


def soup(*triangles, indices=None):
    return TrianglesGeometry(np.array(triangles, np.float32).reshape(-1, 3), indices)


def counted(*geometries, flags=BuildFlag.NONE):
    inputs = BlasInputs(geometries, "mesh")
    made = build_world(Scene("s", (inputs,), (Instance(0),)), BuildSettings(flags))
    return left_out(made.blases[0], inputs), [p for p in problems_of(made) if p.structure == 0]


@pytest.mark.rule("DEG-1", "DEG-7", "INA-1")
@pytest.mark.parametrize("flags", [BuildFlag.NONE, BuildFlag.ALLOW_UPDATE, BuildFlag.MINIMIZE_MEMORY])
def test_inactive_and_degenerate_are_told_apart_whether_kept_or_dropped(flags):
    out, problems = counted(soup(GOOD, POINT, GONE), soup(LINE, GOOD, GONE, GONE), flags=flags)
    assert (out.inactive, out.degenerate) == (3, 2)
    assert out.inactive_places == "primitive 2 of geometry 0; primitives 2, 3 of geometry 1"
    assert out.degenerate_places == "primitive 1 of geometry 0; primitive 0 of geometry 1"
    assert [p.rule for p in problems] == ["DEG-1", "INA-1"]
    assert "2 degenerate triangles" in problems[0].text
    assert problems[0].text.endswith(out.degenerate_places)
    assert "3 inactive triangles" in problems[1].text


@pytest.mark.rule("DEG-5", "DEG-6")
@pytest.mark.parametrize("flags", [BuildFlag.NONE, BuildFlag.ALLOW_UPDATE])
def test_a_repeated_index_is_degenerate_and_not_inactive(flags):
    indices = np.array([[0, 1, 2], [0, 0, 1], [3, 1, 2]], np.uint32)
    corners = np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]])
    out, problems = counted(TrianglesGeometry(corners, indices), flags=flags)
    assert (out.inactive, out.degenerate) == (0, 2)
    assert out.degenerate_places == "primitives 1, 2 of geometry 0"
    assert [p.rule for p in problems] == ["DEG-1"]


@pytest.mark.rule("DEG-4", "INA-2")
def test_boxes_that_are_points_stay_in_the_tree(tmp_path):
    boxes = np.float32([[0, 0, 0, 1, 1, 1], [2, 2, 2, 2, 2, 2], [3, 3, 3, 1, 4, 4], [np.nan, 0, 0, 1, 1, 1]])
    out, problems = counted(AabbsGeometry(boxes))
    assert (out.inactive, out.degenerate) == (1, 2)
    assert [p.rule for p in problems] == ["DEG-1", "INA-2"]
    assert "2 degenerate boxes, which are points: primitives 1, 2 of geometry 0" in problems[0].text
    assert "no ray" not in problems[0].text
    assert "1 inactive boxes" in problems[1].text


def test_many_are_counted():
    out, _ = counted(soup(*[POINT] * (MAX_NAMED + 3)))
    assert out.degenerate_places.endswith("5, 6, 7 of geometry 0, and 3 more")


def test_a_structure_without_its_inputs_still_has_the_right_numbers(tmp_path):
    inputs = BlasInputs((soup(GOOD, POINT, GONE),), "mesh")
    build_world(Scene("s", (inputs,), (Instance(0),))).save(tmp_path / "s.rtcap")
    opened = open_world(tmp_path / "s.rtcap")
    out = left_out(opened.blases[0], opened.scene.blases[0])
    assert (out.inactive, out.degenerate) == (1, 1)
    assert out.degenerate_places == out.inactive_places == ""  # what was dropped cannot be told apart any more


def test_a_tree_does_not_wait_for_the_statistics_of_another_structure(scene, monkeypatch):
    made = build_world(scene)
    started, release = threading.Event(), threading.Event()
    calls = []
    real = rtviewer.accel.stats.statistics

    def slow(structure):
        calls.append(structure)
        started.set()
        assert release.wait(20)
        return real(structure)

    monkeypatch.setattr(rtviewer.accel.stats, "statistics", slow)
    results = []
    threads = [threading.Thread(target=lambda: results.append(made.statistics(TOP_LEVEL))) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert started.wait(20)
        trees = []
        other = threading.Thread(target=lambda: trees.append(made.tree(0)))
        other.start()
        other.join(10)
        assert len(trees) == 1
    finally:
        release.set()
        for thread in threads:
            thread.join(20)
    assert len(calls) == 1  # and those who asked for the same thing got the same one
    assert len(results) == 3
    assert results[0] is results[1] is results[2]
