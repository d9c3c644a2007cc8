"""Hit groups in scene files, captures and folders."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.dxr.shader_table import ABSENT, AS_GIVEN, NULL, HitGroup, HitGroupTable, HitGroupType
from rtviewer.errors import FileFormatError, RtviewerError, SceneError
from rtviewer.io.capture import read_capture, write_capture
from rtviewer.io.scene_toml import read_scene_toml
from rtviewer.io.structure_folder import read_folder, write_folder
from rtviewer.io.structure_set import MANIFEST
from rtviewer.scene.scene import Scene
from tests.unit.io.structure_sets import assert_same_sets, small_set

TRIANGLE = '[[blas]]\nname = "t"\n[[blas.geometry]]\nvertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]\n'
PLACED = '[[instance]]\nblas = "t"\n'

TABLE = HitGroupTable(
    (
        HitGroup(HitGroupType.TRIANGLES, name="plain"),
        HitGroup(HitGroupType.TRIANGLES, AnyHitProgram.IGNORE, closest_hit=False, name="ü"),
        HitGroup(HitGroupType.TRIANGLES, ABSENT),
        HitGroup(HitGroupType.PROCEDURAL_PRIMITIVE, AS_GIVEN, AS_GIVEN),
        HitGroup(HitGroupType.PROCEDURAL_PRIMITIVE, ABSENT, IntersectionProgram.SPHERE_FAR_FIRST),
        NULL,
    ),
    stride=64,
)


def read(text: str) -> Scene:
    return read_scene_toml(Path("folder/scene.toml"), (text + TRIANGLE + PLACED).encode())


def one(keys: str) -> HitGroup:
    table = read(f"[[hit_group]]\n{keys}\n").hit_groups
    assert table is not None
    assert table.stride == 32
    return table.records[0]


# --- scene files --------------------------------------------------------------------------------------------------


@pytest.mark.rule("HG-3", "TRAV-5")
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("", HitGroup(HitGroupType.TRIANGLES, AS_GIVEN, ABSENT, True)),
        ('name = "a"\nany_hit = "none"', HitGroup(HitGroupType.TRIANGLES, ABSENT, ABSENT, True, "a")),
        ('any_hit = "as-given"\nclosest_hit = false', HitGroup(HitGroupType.TRIANGLES, AS_GIVEN, ABSENT, False)),
        ('any_hit = "accept-and-end-search"', HitGroup(HitGroupType.TRIANGLES, AnyHitProgram.ACCEPT_AND_END_SEARCH)),
        ('any_hit = "ACCEPT"', HitGroup(HitGroupType.TRIANGLES, AnyHitProgram.ACCEPT)),
        ('type = "null"', NULL),
        ('type = "null"\nany_hit = "none"\nintersection = "none"\nclosest_hit = false', NULL),
    ],
)
def test_records_of_triangles_and_null(keys: str, expected: HitGroup) -> None:
    assert one(keys) == expected


@pytest.mark.rule("TRAV-5")
@pytest.mark.parametrize(("word", "program"), [("as_given", AS_GIVEN), ("SPHERE", 0), ("box", 1), ("NOTHING", 3)])
def test_records_of_procedurals(word: str, program: int) -> None:
    record = one(f'type = "procedural"\nintersection = "{word}"')
    assert record == HitGroup(HitGroupType.PROCEDURAL_PRIMITIVE, AS_GIVEN, program)
    assert one('type = "procedural"').intersection == AS_GIVEN


def test_order_stride_and_absence() -> None:
    assert read("").hit_groups is None
    table = read('hit_group_stride = 0\n[[hit_group]]\nname = "a"\n[[hit_group]]\nname = "b"\n').hit_groups
    assert table is not None
    assert [record.name for record in table.records] == ["a", "b"]
    assert table.stride == 0


@pytest.mark.rule("TRAV-5", "HG-3", "LIM-7")
@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ('[[hit_group]]\nintersection = "BOX"', "hit_group[0]", r"\[TRAV-5\]"),
        ('[[hit_group]]\n[[hit_group]]\nintersection = "as_given"', "hit_group[1]", r"\[TRAV-5\]"),
        ('[[hit_group]]\ntype = "procedural"\nintersection = "none"', "hit_group[0]", r"\[TRAV-5\]"),
        ('[[hit_group]]\ntype = "null"\nany_hit = "ACCEPT"', "hit_group[0]", r"\[HG-3\]"),
        ('[[hit_group]]\ntype = "null"\nclosest_hit = true', "hit_group[0]", r"\[HG-3\]"),
        ('[[hit_group]]\nany_hit = "PERHAPS"', "hit_group[0].any_hit", "ACCEPT.*as_given.*none"),
        ("[[hit_group]]\nany_hit = 1", "hit_group[0].any_hit", "not a built-in program"),
        ('[[hit_group]]\ntype = "box"', "hit_group[0].type", "procedural"),
        ('[[hit_group]]\nanyhit = "none"', "hit_group[0].anyhit", "no such key"),
        ("hit_group_stride = 48", "hit_group_stride", r"\[LIM-7\]"),
        ("hit_group_stride = 8192", "hit_group_stride", r"\[LIM-7\]"),
        ("hit_group_stride = -32", "hit_group_stride", r"\[LIM-7\]"),
    ],
)
def test_what_is_wrong_is_refused_with_key_and_rule(text: str, place: str, reason: str) -> None:
    with pytest.raises(SceneError, match=reason) as raised:
        read(text + "\n")
    assert raised.value.key == place


@pytest.mark.rule("HG-4")
def test_an_instance_that_leaves_the_table_is_a_warning_that_names_the_file() -> None:
    scene = read_scene_toml(
        Path("folder/scene.toml"), (f"[[hit_group]]\n{TRIANGLE}{PLACED}contribution = 1\n").encode()
    )
    assert len(scene.warnings) == 1
    assert scene.warnings[0].startswith("scene.toml: instance 0: ")
    assert "[HG-4]" in scene.warnings[0]


# --- captures and folders -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [TABLE, HitGroupTable((NULL,), stride=0), HitGroupTable(())])
def test_captures_and_folders_give_the_table_back(table: HitGroupTable, tmp_path: Path) -> None:
    content = replace(small_set(), hit_groups=table)
    write_capture(tmp_path / "a.rtcap", content)
    again = read_capture(tmp_path / "a.rtcap")
    assert_same_sets(content, again)
    assert again.hit_groups == table
    assert read_folder(write_folder(tmp_path / "a", content)[-1]).hit_groups == table


def test_without_a_table_the_manifest_is_still_the_first_version(tmp_path: Path) -> None:
    manifest = json.loads(write_folder(tmp_path / "a", small_set())[-1].read_bytes())
    assert manifest["version"] == 1
    assert not {"hit_groups", "hit_group_stride"} & set(manifest)
    manifest = json.loads(write_folder(tmp_path / "b", replace(small_set(), hit_groups=TABLE))[-1].read_bytes())
    assert manifest["version"] == 2
    assert len(manifest["hit_groups"]) == len(TABLE.records)


@pytest.mark.rule("TRAV-5")
def test_a_record_that_a_reader_would_refuse_is_not_written(tmp_path: Path) -> None:
    bad = HitGroupTable((HitGroup(HitGroupType.PROCEDURAL_PRIMITIVE, AS_GIVEN, ABSENT),))
    with pytest.raises(RtviewerError, match="TRAV-5"):
        write_capture(tmp_path / "a.rtcap", replace(small_set(), hit_groups=bad))
    assert not (tmp_path / "a.rtcap").exists()


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"version": 1}, "first version"),
    ({"version": 3}, "another version"),
    ({"version": True}, "another version"),
    ({"version": [2]}, "another version"),
    ({"hit_groups": 5}, "hit_groups"),
    ({"hit_groups": [5]}, r"hit_groups\.0"),
    ({"hit_groups": [{"any_hit": "EVIL"}]}, r"hit_groups\.0\.any_hit"),
    ({"hit_groups": [{"any_hit": ["ACCEPT"]}]}, r"hit_groups\.0\.any_hit"),
    ({"hit_groups": [{"intersection": "BOX"}]}, "TRAV-5"),
    ({"hit_groups": [{"type": "null", "any_hit": "ACCEPT"}]}, "HG-3"),
    ({"hit_groups": [{"extra": 1}]}, r"hit_groups\.0\.extra"),
    ({"hit_groups": [{}] * 70_000}, "hit_groups"),
    ({"hit_group_stride": 33}, "LIM-7"),
    ({"hit_group_stride": 1 << 70}, "LIM-7"),
    ({"hit_group_stride": "x"}, "hit_group_stride"),
]


@pytest.mark.parametrize(("change", "reason"), HOSTILE, ids=[str(c)[:50] for c, _ in HOSTILE])
def test_hostile_tables_are_refused_with_the_field(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    write_capture(tmp_path / "a.rtcap", replace(small_set(), hit_groups=TABLE))
    with zipfile.ZipFile(tmp_path / "a.rtcap") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries[MANIFEST] = json.dumps(json.loads(entries[MANIFEST]) | change).encode()
    with zipfile.ZipFile(tmp_path / "b.rtcap", "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    with pytest.raises(FileFormatError, match=reason):
        read_capture(tmp_path / "b.rtcap")
