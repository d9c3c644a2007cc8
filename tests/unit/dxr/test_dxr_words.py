"""Text of flags, and the tables that say what a flag, a verdict or a counter means."""

from __future__ import annotations

import re
from enum import IntFlag
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtviewer.dxr.flags import (
    MEANINGS,
    AccelerationStructureType,
    BuildFlag,
    GeometryFlag,
    InstanceFlag,
    RayFlag,
    format_flags,
    members,
    parse_flags,
)
from rtviewer.dxr.verdicts import (
    ANY_HIT_RAN,
    COUNTER_MEANINGS,
    EVENT,
    VERDICTS,
    Counter,
    EventKind,
    Verdict,
)

FLAGS = [BuildFlag, GeometryFlag, InstanceFlag, RayFlag]
DESCRIBED = [AccelerationStructureType, *FLAGS]
PREFIXES = {
    BuildFlag: ("D3D12_RAYTRACING_ACCELERATION_STRUCTURE_BUILD_FLAG_", "BUILD_FLAG_"),
    GeometryFlag: ("D3D12_RAYTRACING_GEOMETRY_FLAG_", "GEOMETRY_FLAG_"),
    InstanceFlag: ("D3D12_RAYTRACING_INSTANCE_FLAG_", "INSTANCE_FLAG_"),
    RayFlag: ("D3D12_RAY_FLAG_", "RAY_FLAG_"),
}
flag_kinds = pytest.mark.parametrize("kind", FLAGS, ids=lambda kind: kind.__name__)
RULE_ID = re.compile(r"[A-Z]+-[1-9]\d*")


# --- flags as text ------------------------------------------------------------------------------------------------


@flag_kinds
@given(word=st.integers(0, 0xFFFFFFFF))
def test_every_word_survives_being_written_and_read(kind: type[IntFlag], word: int) -> None:
    text = format_flags(kind(word))
    assert int(parse_flags(kind, text)) == word
    assert int(parse_flags(kind, text.lower().replace("_", "-").replace("|", ","))) == word


@flag_kinds
def test_every_member_is_read_in_every_spelling(kind: type[IntFlag]) -> None:
    for name, member in kind.__members__.items():
        for prefix in ("", *PREFIXES[kind]):
            assert parse_flags(kind, prefix + name) == member
            assert parse_flags(kind, f"  {(prefix + name).lower()} ") == member
        assert parse_flags(kind, name.lower().replace("_", "-")) == member
        assert parse_flags(kind, hex(member)) == member
        assert parse_flags(kind, str(int(member))) == member


@pytest.mark.rule("NOTE-9")
def test_the_headers_other_name_is_read_and_the_specifications_written() -> None:
    flag = parse_flags(BuildFlag, "D3D12_RAYTRACING_ACCELERATION_STRUCTURE_BUILD_FLAG_ALLOW_OMM_UPDATE")
    assert format_flags(flag) == "ALLOW_OMM_LINKAGE_UPDATE"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("RAY_FLAG_CULL_OPAQUE | RAY_FLAG_SKIP_CLOSEST_HIT_SHADER", 0x48),
        ("cull-opaque, 0x8", 0x48),
        ("0x40|skip_closest_hit_shader,cull_opaque", 0x48),
        ("XBOX_RAY_FLAG_COHERENT_RAYS_HINT", 0x1000),
        ("D3D12XBOX_RAY_FLAG_COHERENT_RAYS_HINT", 0x1000),
        ("none", 0),
        ("", 0),
        (" | , ", 0),
        ("0b11", 0x3),
        ("4294967295", 0xFFFFFFFF),
    ],
)
def test_mixtures_are_read(text: str, word: int) -> None:
    assert int(parse_flags(RayFlag, text)) == word


@pytest.mark.rule("XB-1")
def test_the_console_name_of_dehydrate_is_read() -> None:
    name = "D3D12XBOX_RAYTRACING_ACCELERATION_STRUCTURE_BUILD_FLAG_DEHYDRATE"
    assert parse_flags(BuildFlag, name) is BuildFlag.DEHYDRATE


@flag_kinds
@pytest.mark.parametrize("text", ["NO_SUCH_FLAG", "0x", "1.5", "-1", "NONE | what", "0xZZ"])
def test_unknown_words_are_named_with_what_is_legal(kind: type[IntFlag], text: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_flags(kind, text)
    wrong = text.rpartition("| ")[2]
    assert repr(wrong) in str(raised.value)
    for member in members(kind):
        assert str(member.name) in str(raised.value)


@pytest.mark.rule("ERR-5")
@pytest.mark.parametrize("text", ["0x100000000", "4294967296 | 1"])
def test_numbers_that_are_no_32_bit_words_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="32 bits"):
        parse_flags(RayFlag, text)


def test_a_range_of_numbers_is_not_read_as_one_number() -> None:
    with pytest.raises(ValueError):
        parse_flags(RayFlag, "1-6")


def test_a_word_is_written_with_its_unknown_bits() -> None:
    assert format_flags(RayFlag(0)) == "NONE"
    assert format_flags(RayFlag.CULL_OPAQUE | RayFlag.FORCE_OPAQUE) == "FORCE_OPAQUE | CULL_OPAQUE"
    assert format_flags(RayFlag(0x1 | 0x800 | 0x80000000)) == "FORCE_OPAQUE | 0x80000800"


@flag_kinds
def test_members_are_single_bits_in_order(kind: type[IntFlag]) -> None:
    values = [int(m) for m in members(kind)]
    assert values == sorted(values)
    assert all(value.bit_count() == 1 for value in values)
    assert [m for m in members(kind) if m & 0x3] == members(kind, known=0x3)


@pytest.mark.parametrize(
    ("member", "label", "option"),
    [
        (RayFlag.CULL_OPAQUE, "Cull opaque", "cull-opaque"),
        (BuildFlag.PREFER_FAST_TRACE, "Prefer fast trace", "prefer-fast-trace"),
        (InstanceFlag.TRIANGLE_CULL_DISABLE, "Triangle cull disable", "triangle-cull-disable"),
    ],
)
def test_labels_and_options_are_made_from_the_name(member: RayFlag, label: str, option: str) -> None:
    assert (member.label, member.option) == (label, option)


# --- meanings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DESCRIBED, ids=lambda kind: kind.__name__)
def test_every_member_has_a_meaning_with_a_rule(kind: type[IntFlag]) -> None:
    for member in kind:
        meaning = member.meaning
        assert 10 <= len(meaning.text) <= 80
        assert not meaning.text.endswith(".")
        assert RULE_ID.fullmatch(meaning.rule)
        assert meaning.vulkan != member.name


def test_no_meaning_is_left_over() -> None:
    assert set(MEANINGS) == {kind.__name__ for kind in DESCRIBED}
    for kind in DESCRIBED:
        singles = {str(m.name) for m in kind}
        assert singles <= set(MEANINGS[kind.__name__]) <= set(kind.__members__)


def test_meanings_of_one_enum_differ() -> None:
    for kind in FLAGS:
        texts = [m.meaning.text for m in kind]
        assert len(set(texts)) == len(texts)


def _rules_in_force(shared: Path) -> set[str]:
    file = shared / "spec" / "dxr-rules.md"
    if not file.exists():
        pytest.skip("the rules are not beside the checkout")
    return set(re.findall(r"\*\*([A-Z]+-\d+)\b", file.read_text("utf-8")))


def test_rules_that_tables_name_exist(shared: Path) -> None:
    named = {m.rule for table in MEANINGS.values() for m in table.values()} | {m.rule for m in VERDICTS.values()}
    assert named <= _rules_in_force(shared)


def test_rules_that_the_sources_name_exist(root: Path, shared: Path) -> None:
    """A rule id in code or documentation of the package is one of the rules file."""
    known = _rules_in_force(shared) | {f"NOTE-{i}" for i in range(1, 21)}
    prefixes = {rule.split("-")[0] for rule in known}
    unknown = {
        f"{path.relative_to(root)}: {rule}"
        for path in sorted((root / "rtviewer").rglob("*.py"))
        for rule in re.findall(r"\b[A-Z]{2,6}-\d+\b", path.read_text("utf-8"))
        if rule.split("-")[0] in prefixes and rule not in known
    }
    assert not unknown


def test_rules_that_tests_name_exist(root: Path, shared: Path) -> None:
    known = _rules_in_force(shared) | {f"NOTE-{i}" for i in range(1, 21)}
    unknown = {
        f"{path.relative_to(root)}: {rule}"
        for path in sorted((root / "tests").rglob("*.py"))
        for mark in re.findall(r"mark\.rule\(([^)]*)\)", path.read_text("utf-8"))
        for rule in re.findall(r'"([^"]+)"', mark)
        if rule not in known
    }
    assert not unknown


# --- verdicts and counters ----------------------------------------------------------------------------------------


@pytest.mark.rule("CULL-5")
def test_every_verdict_has_text_rule_and_family() -> None:
    assert set(VERDICTS) == set(Verdict)
    for meaning in VERDICTS.values():
        assert meaning.text
        assert RULE_ID.fullmatch(meaning.rule)
        assert meaning.family in {"entered", "excluded", "missed", "interval", "accepted"}
    texts = [m.text for m in VERDICTS.values()]
    assert len(set(texts)) == len(texts)


@pytest.mark.rule("CULL-5")
def test_verdicts_of_candidates_stand_in_the_order_of_the_tests() -> None:
    steps = [
        [Verdict.INACTIVE_INSTANCE],
        [Verdict.MASK_EXCLUDED],
        [Verdict.TRIANGLES_SKIPPED, Verdict.PROCEDURALS_SKIPPED],
        [Verdict.CULLED_OPAQUE, Verdict.CULLED_NON_OPAQUE],
        [Verdict.MISSED],
        [Verdict.BACK_FACE_CULLED, Verdict.FRONT_FACE_CULLED],
        [Verdict.AT_OR_BEFORE_T_MIN, Verdict.AT_OR_BEYOND_CURRENT_END],
        [Verdict.TIE_LOST],
        [Verdict.NOTHING_REPORTED],
    ]
    flat = [int(verdict) for step in steps for verdict in step]
    assert flat == sorted(flat)


def test_recorded_numbers_never_change() -> None:
    """Logs are stored; an event kind, a verdict or a counter keeps its number for good."""
    assert [k.name for k in sorted(EventKind)] == [
        "NODE_ENTERED", "NODE_SKIPPED", "INSTANCE_ENTERED", "INSTANCE_SKIPPED", "CANDIDATE", "REPORT",
        "REPEATED",
    ]  # fmt: skip
    assert [v.name for v in sorted(Verdict)][:24] == [
        "NONE", "INACTIVE_INSTANCE", "MASK_EXCLUDED", "SINGULAR_TRANSFORM", "TRIANGLES_SKIPPED", "PROCEDURALS_SKIPPED",
        "CULLED_OPAQUE", "CULLED_NON_OPAQUE", "MISSED", "BACK_FACE_CULLED", "FRONT_FACE_CULLED", "AT_OR_BEFORE_T_MIN",
        "AT_OR_BEYOND_CURRENT_END", "TIE_LOST", "NOTHING_REPORTED", "ANY_HIT_ACCEPTED", "ANY_HIT_IGNORED",
        "ANY_HIT_ENDED_SEARCH", "COMMITTED", "FIRST_HIT_ENDED_SEARCH", "BOX_MISSED", "BOX_BEYOND_CURRENT_END",
        "EMPTY_STRUCTURE", "ANY_HIT_ACCEPTED_FIRST_HIT_ENDED_SEARCH",
    ]  # fmt: skip
    assert [int(v) for v in sorted(Verdict)] == list(range(len(Verdict)))
    assert [int(k) for k in sorted(EventKind)] == list(range(len(EventKind)))
    assert [int(c) for c in Counter] == list(range(len(Counter)))


def test_verdicts_after_which_any_hit_ran() -> None:
    assert {v for v in Verdict if v.name.startswith("ANY_HIT")} == ANY_HIT_RAN
    accepted = {v for v in Verdict if VERDICTS[v].family == "accepted"}
    assert ANY_HIT_RAN - {Verdict.ANY_HIT_IGNORED} <= accepted


def test_every_counter_has_a_meaning() -> None:
    assert set(COUNTER_MEANINGS) == set(Counter)
    assert all(text and not text.endswith(".") for text in COUNTER_MEANINGS.values())


def test_an_event_has_no_padding() -> None:
    assert EVENT.itemsize == sum(EVENT[name].itemsize for name in EVENT.names or ())
    assert EVENT.itemsize % 4 == 0
    for kind, column in ((EventKind, "kind"), (Verdict, "verdict")):
        assert max(kind) <= 0xFF
        assert EVENT[column].kind == "u"
