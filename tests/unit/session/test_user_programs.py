"""A user's file: what is told about one that cannot be used, and that a loaded one changes pictures and logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rtviewer as rt
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram, ProgramKind
from rtviewer.session.commands import Session
from rtviewer.session.events import JobEnded
from rtviewer.session.jobs import Lane

SCENES = Path(__file__).parents[3] / "scenes"
EXAMPLE = SCENES / "programs" / "programs.py"
HEAD = "import rtviewer as rt\n\n"
PROGRAM = "@rt.any_hit_program\ndef f(c):\n"

BAD = {
    "not Python": (HEAD + "def f(:\n", r"own\.py:3: "),
    "an error while it runs": (HEAD + "x = 1 / 0\n", r"own\.py:3: ZeroDivisionError: division by zero\n    x = 1 / 0"),
    "an error in a call": ("def g():\n    raise KeyError('k')\n\ng()\n", r"own\.py:2: KeyError: 'k'"),
    "an exit": ("import sys\nsys.exit(3)\n", r"own\.py:2: SystemExit: 3"),
    "no program": (HEAD + "def f(c):\n    return 1\n", r"no function is marked"),
    "an unknown name": (HEAD + PROGRAM + "    return nowhere\n", r"own\.py:5: f: .*nowhere"),
    "an unknown field": (HEAD + PROGRAM + "    return c.colour\n", r"own\.py:5: f: the candidate has no field 'col"),
    "no action": (HEAD + PROGRAM + "    pass\n", r"own\.py:3: f: an any-hit program returns .* found none"),
    "a real number": (HEAD + PROGRAM + "    return 0.5\n", r"own\.py:3: f: an any-hit.* found float64"),
    "two arguments": (HEAD + "@rt.any_hit_program\ndef f(c, d):\n    return 1\n", r"own\.py:3: f must take one"),
    "a name taken": (HEAD + "@rt.any_hit_program\ndef ignore(c):\n    return 1\n", r"own\.py:3: ignore is the na"),
    "a class": (HEAD + "@rt.any_hit_program\nclass F:\n    pass\n", r"not a Python function"),
    "a kind that is no number": (
        HEAD + "@rt.intersection_program\ndef f(c):\n    rt.report_hit(c, 1.0, 0.5)\n",
        r"own\.py:5: f: \[HK-1\] report_hit: kind",
    ),
    "NUL": ("\0", r"own\.py"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_told_with_file_and_line(tmp_path: Path, name: str) -> None:
    text, message = BAD[name]
    file = tmp_path / "own.py"
    file.write_text(text)
    with pytest.raises(rt.ProgramError, match=message):
        rt.load_programs(file)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    for file in (tmp_path, tmp_path / "none.py"):
        with pytest.raises(rt.ProgramError, match=file.name):
            rt.load_programs(file)
    (tmp_path / "latin.py").write_bytes(b"# \xff\n")
    with pytest.raises(rt.ProgramError, match="not UTF-8"):
        rt.load_programs(tmp_path / "latin.py")


def test_the_example_changes_the_picture() -> None:
    table = rt.load_programs(EXAMPLE)
    assert table.names(ProgramKind.ANY_HIT) == ("stripes",)
    assert table.names(ProgramKind.INTERSECTION) == ("cylinder",)
    assert table.programs[0].text.startswith("Cuts every second stripe")
    scene = rt.open_world(SCENES / "programs")
    size = (120, 80)
    plain = scene.trace(size=size, any_hit=AnyHitProgram.ACCEPT, intersection=IntersectionProgram.BOX)
    own = scene.trace(size=size, programs=table, any_hit="stripes", intersection="cylinder")
    assert (own.hit & ~plain.hit).sum() == 0  # cylinders lie in their boxes, stripes only take away
    boxes = (own.instance_index >= 2) & own.hit
    assert set(own.hit_kind[boxes].tolist()) == {0, 1}
    assert (plain.instance_index == 1).sum() > (own.instance_index == 1).sum() > 0
    with pytest.raises(rt.ProgramError, match="no any-hit program 'cylinder'"):
        scene.trace(size=size, programs=table, any_hit="cylinder")
    row, column = (int(v[0]) for v in np.nonzero(boxes))
    log = scene.explain(pixel=(column, row), size=size, programs=table, any_hit="stripes", intersection="cylinder")
    assert log.result.hit_kind in (0, 1)
    assert any("any-hit user:stripes" in event.text for event in log) or log.result.geometry_index == 2


def test_a_scene_names_programs_and_never_loads_them(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    (tmp_path / "own.py").write_text(
        f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n" + HEAD + PROGRAM + "    return 0\n"
    )
    (tmp_path / "scene.toml").write_text(
        'programs = "own.py"\nany_hit = "user:f"\n[[blas]]\nname = "a"\n'
        "geometry = [{ vertices = [[-9, -9, 0], [9, -9, 0], [0, 9, 0]] }]\n"
        '[[instance]]\nblas = "a"\n[[camera]]\nposition = [0, 0, 5]\nlook_at = [0, 0, 0]\n'
    )
    world = rt.open_world(tmp_path / "scene.toml")
    assert world.scene.any_hit == "f"
    assert any("names programs of a user of own.py: 'f'" in warning for warning in world.scene.warnings)
    with pytest.raises(rt.ProgramError, match="'f' is a user's, and no file of programs is loaded"):
        world.trace(size=(8, 8))
    assert not marker.exists()
    assert world.trace(size=(8, 8), any_hit=AnyHitProgram.ACCEPT).hit.any()
    table = rt.load_programs(tmp_path / "own.py")
    assert marker.exists()
    assert not world.trace(size=(8, 8), programs=table).hit.any()
    for bad in ("user:", "user:1f", "nothing"):
        (tmp_path / "bad.toml").write_text(f'any_hit = "{bad}"\n')
        with pytest.raises(rt.SceneError, match="any_hit"):
            rt.load_scene(tmp_path / "bad.toml")


def test_a_capture_keeps_the_name_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "scene.toml").write_text('any_hit = "user:f"\n[[hit_group]]\nany_hit = "user:g"\n')
    world = rt.open_world(tmp_path / "scene.toml")
    world.save(tmp_path / "kept.rtcap")
    again = rt.open_world(tmp_path / "kept.rtcap")
    assert again.scene.any_hit == "f"
    assert again.scene.hit_groups is not None
    assert again.scene.hit_groups.records[0].any_hit == "g"


def test_a_session_loads_chooses_and_unloads(tmp_path: Path) -> None:
    session, ended = Session(), []
    session.listen(lambda event: ended.append(event) if isinstance(event, JobEnded) else None)
    try:
        session.load_programs(EXAMPLE).wait(60)
        session.pump()
        assert session.state.rays.programs.names(ProgramKind.ANY_HIT) == ("stripes",)
        assert session.set_programs(any_hit="stripes", intersection="cylinder") is None
        refusal = session.set_programs(any_hit="nowhere")
        assert refusal is not None
        assert "there are 'stripes'" in refusal.text
        assert session.set_programs(any_hit=99) is not None
        assert session.state.rays.any_hit == "stripes"
        (tmp_path / "bad.py").write_text("x = (\n")
        session.load_programs(tmp_path / "bad.py").wait(60)
        session.pump()
        assert ended[-1].lane is Lane.PROGRAMS
        assert isinstance(ended[-1].error, rt.ProgramError)
        assert session.state.rays.any_hit == "stripes"  # a file that failed changes nothing
        session.unload_programs()
        assert session.state.rays.any_hit is AnyHitProgram.ACCEPT
        assert session.state.rays.intersection is IntersectionProgram.SPHERE
        assert session.set_programs(any_hit="stripes") is not None
        session.set_repeat_calls(True)
        assert session.state.rays.repeat_calls
    finally:
        session.close()
