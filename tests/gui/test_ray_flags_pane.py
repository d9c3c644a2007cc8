"""The ray-flags pane: a row per flag, real clicks, refusals with the rule's sentence."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest

from rtviewer.dxr.flags import RayFlag, members
from rtviewer.dxr.profile import Profile, Tier
from rtviewer.dxr.programs import AnyHitProgram
from rtviewer.dxr.rules import check_ray_flags

LEFT = Qt.MouseButton.LeftButton


def click_row(window, flag: RayFlag) -> None:
    box = window.ray_flags.rows[flag].box
    QTest.mouseClick(box, LEFT, pos=QPoint(9, box.height() // 2))


def known() -> list[RayFlag]:
    return [RayFlag(f) for f in members(RayFlag, known=int(Profile().known_ray_flags))]


def test_there_is_a_row_for_every_flag_with_meaning_rule_and_vulkan_name(window):
    rows = window.ray_flags.rows
    assert list(rows) == [f for f in RayFlag if int(f)]
    for flag, row in rows.items():
        assert row.box.text() == flag.name
        assert row.box.accessibleName() == flag.name
        assert flag.meaning.rule in row.box.toolTip()
        assert (flag.meaning.vulkan or "same name") in row.box.toolTip()


@pytest.mark.parametrize("flag", known(), ids=lambda f: f.name)
def test_clicking_a_row_sets_and_clears_its_flag(window, flag):
    click_row(window, flag)
    assert window.session.state.rays.ray_flags == flag
    assert window.ray_flags.rows[flag].box.isChecked()
    assert window.ray_flags.word.text() == f"0x{int(flag):03X}"
    click_row(window, flag)
    assert window.session.state.rays.ray_flags == 0
    assert not window.ray_flags.rows[flag].box.isChecked()


def illegal_pairs() -> list[tuple[RayFlag, RayFlag]]:
    flags = known()
    return [(a, b) for i, a in enumerate(flags) for b in flags[i + 1 :] if check_ray_flags(a | b)]


@pytest.mark.parametrize(("first", "second"), illegal_pairs(), ids=lambda f: f.name)
def test_an_illegal_pair_is_refused_with_the_rules_sentence(window, first, second):
    click_row(window, first)
    click_row(window, second)
    row = window.ray_flags.rows[second]
    assert window.session.state.rays.ray_flags == first
    assert not row.box.isChecked()
    violation = check_ray_flags(first | second)[0]
    assert violation.message in row.refusal
    assert violation.rule in row.refusal
    assert row.note.isVisible()


def test_a_refusal_goes_away_with_the_next_legal_click(window):
    click_row(window, RayFlag.CULL_OPAQUE)
    click_row(window, RayFlag.FORCE_OPAQUE)
    assert window.ray_flags.rows[RayFlag.FORCE_OPAQUE].refusal
    click_row(window, RayFlag.SKIP_CLOSEST_HIT_SHADER)
    assert not window.ray_flags.rows[RayFlag.FORCE_OPAQUE].refusal


def test_flags_outside_the_profile_are_disabled_with_the_rule(window):
    row = window.ray_flags.rows[RayFlag.FORCE_OMM_2_STATE]
    assert not row.box.isEnabled()
    assert "RF-1" in row.note.text()
    window.session.set_profile(Profile(Tier.TIER_1_2))
    assert row.box.isEnabled()
    assert "RF-1" not in row.note.text()


def test_mask_buttons_and_hex_field_show_and_set_the_mask(window):
    pane = window.ray_flags
    QTest.mouseClick(pane.mask.bits[3], LEFT)
    assert window.session.state.rays.mask == 0xF7
    assert pane.mask.hex.text() == "0xF7"
    pane.mask.hex.setFocus()
    pane.mask.hex.selectAll()
    QTest.keyClicks(pane.mask.hex, "0x81")
    QTest.keyClick(pane.mask.hex, Qt.Key.Key_Return)
    assert window.session.state.rays.mask == 0x81
    assert [bit.isChecked() for bit in pane.mask.bits] == [True, *[False] * 6, True]


def test_a_mask_of_nine_bits_is_refused_and_taken_back(window):
    pane = window.ray_flags
    pane.mask.hex.setFocus()
    pane.mask.hex.selectAll()
    QTest.keyClicks(pane.mask.hex, "0x1FF")
    QTest.keyClick(pane.mask.hex, Qt.Key.Key_Return)
    assert window.session.state.rays.mask == 0xFF
    assert "MASK-2" in pane.field_message.text()
    assert pane.mask.hex.text() == "0xFF"


@pytest.mark.parametrize(
    ("low", "high", "rule"), [("-1", "5", "RAY-2"), ("7", "5", "RAY-2"), ("nan", "5", "RAY-3"), ("x", "5", "numbers")]
)
def test_an_illegal_interval_is_refused(window, low, high, rule):
    pane = window.ray_flags
    for edit, text in ((pane.t_max, high), (pane.t_min, low)):
        edit.setFocus()
        edit.selectAll()
        QTest.keyClicks(edit, text)
    QTest.keyClick(pane.t_min, Qt.Key.Key_Return)
    assert rule in pane.field_message.text()
    assert window.session.state.rays.t_min == 0.0
    assert pane.t_min.text() == "0"


def test_a_legal_interval_is_set(window):
    pane = window.ray_flags
    pane.t_max.setFocus()
    pane.t_max.selectAll()
    QTest.keyClicks(pane.t_max, "2.5")
    QTest.keyClick(pane.t_max, Qt.Key.Key_Return)
    assert window.session.state.rays.t_max == 2.5


def test_flags_are_copied_and_pasted_as_hlsl_names_and_hex(window):
    pane = window.ray_flags
    click_row(window, RayFlag.CULL_BACK_FACING_TRIANGLES)
    click_row(window, RayFlag.FORCE_OPAQUE)
    pane.copy.click()
    copied = QGuiApplication.clipboard().text()
    assert copied == "RAY_FLAG_FORCE_OPAQUE | RAY_FLAG_CULL_BACK_FACING_TRIANGLES"
    for text, word in (("0x104", 0x104), (copied, 0x11), ("cull-opaque", 0x40)):
        QGuiApplication.clipboard().setText(text)
        pane.paste.click()
        assert int(window.session.state.rays.ray_flags) == word


def test_pasted_nonsense_and_illegal_words_change_nothing(window):
    pane = window.ray_flags
    for text, why in (("RAY_FLAG_NO_SUCH", "NO_SUCH"), ("0x30", "RF-3")):
        QGuiApplication.clipboard().setText(text)
        pane.paste.click()
        assert window.session.state.rays.ray_flags == 0
        assert why in pane.message.text()
        assert pane.message.isVisible()


def test_programs_are_chosen_by_their_boxes(window):
    pane = window.ray_flags
    place = pane.any_hit.findData(AnyHitProgram.IGNORE_ODD_PRIMITIVES)
    pane.any_hit.setCurrentIndex(place)
    pane.any_hit.activated.emit(place)
    assert window.session.state.rays.any_hit is AnyHitProgram.IGNORE_ODD_PRIMITIVES
