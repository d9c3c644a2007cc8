"""Warnings about instances whose records are missing or of the other kind."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.dxr.descs import AabbsGeometry, BlasInputs, TrianglesGeometry
from rtviewer.dxr.shader_table import NULL, PROCEDURAL, TRIANGLES, HitGroup, HitGroupTable
from rtviewer.scene.hit_groups import MAX_LISTED, hit_group_warnings
from rtviewer.scene.scene import Instance, Scene

TRIANGLE = TrianglesGeometry(np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0]]))
BOX = AabbsGeometry(np.float32([[0, 0, 0, 1, 1, 1]]))
TWO, BALL, EMPTY = BlasInputs((TRIANGLE, TRIANGLE)), BlasInputs((BOX,)), BlasInputs(())


def warned(records: list[HitGroup], *instances: Instance, stride: int = 32) -> tuple[str, ...]:
    return hit_group_warnings(
        Scene("s", (TWO, BALL, EMPTY), instances, hit_groups=HitGroupTable(tuple(records), stride))
    )


def test_a_scene_without_a_table_has_nothing_to_warn_of() -> None:
    assert hit_group_warnings(Scene("s", (TWO,), (Instance(0, contribution=99),))) == ()


@pytest.mark.rule("HG-1", "HG-4")
@pytest.mark.parametrize(("contribution", "place"), [(0, ""), (1, "geometry 1, multiplier 1"), (2, "multiplier 0")])
def test_the_last_geometry_with_multiplier_1_reaches_furthest(contribution: int, place: str) -> None:
    found = warned([TRIANGLES] * 2, Instance(0, contribution=contribution, name="me"))
    assert len(found) == bool(place)
    if found:
        assert "instance 0 (me)" in found[0]
        assert place in found[0]
        assert "hit-group index 2 is outside the table, which has 2 records [HG-4]" in found[0]


@pytest.mark.rule("HG-3")
def test_stride_0_leaves_no_table_that_has_a_record() -> None:
    assert warned([TRIANGLES], Instance(0, contribution=77), stride=0) == ()
    assert "HG-4" in warned([], Instance(0), stride=0)[0]
    assert "TRAV-5" in warned([TRIANGLES], Instance(1, contribution=77), stride=0)[0]


@pytest.mark.rule("TRAV-5")
def test_a_record_of_the_other_kind_is_named() -> None:
    assert "record 0 of type TRIANGLES, but the geometry is PROCEDURAL" in warned([TRIANGLES], Instance(1))[0]
    assert "geometry 1, multiplier 1" in warned([TRIANGLES, PROCEDURAL], Instance(0))[0]
    assert warned([TRIANGLES, NULL, PROCEDURAL], Instance(0), Instance(1, contribution=2)) == ()
    assert warned([NULL], Instance(1)) == ()


def test_what_cannot_be_hit_is_not_looked_at_and_many_are_counted() -> None:
    assert warned([TRIANGLES], Instance(-1, contribution=9), Instance(2, contribution=9)) == ()
    same = [Instance(1, contribution=9)] * 50
    assert len(warned([TRIANGLES], *same)) == 1
    other = [Instance(1, contribution=9 + i) for i in range(50)]
    found = warned([TRIANGLES], *other)
    assert len(found) == MAX_LISTED + 1
    assert found[-1].startswith(f"{50 - MAX_LISTED} more")
