"""Which flag words are legal: every bit, every pair, every profile."""

from __future__ import annotations

import itertools
import math

import pytest

from rtviewer.dxr.flags import (
    AccelerationStructureType,
    BuildFlag,
    GeometryFlag,
    InstanceFlag,
    PipelineFlag,
    RayFlag,
)
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile, Tier
from rtviewer.dxr.rules import (
    check_build_flags,
    check_geometry_flags,
    check_instance_flags,
    check_ray_flags,
    check_ray_interval,
    require,
)
from rtviewer.errors import InvalidInputError, Violation, violation

TOP, BOTTOM = AccelerationStructureType.TOP_LEVEL, AccelerationStructureType.BOTTOM_LEVEL
PROFILES = [Profile(tier, xbox) for tier in Tier for xbox in (False, True)]
TIER_1_2 = Profile(Tier.TIER_1_2)
profiles = pytest.mark.parametrize("profile", PROFILES, ids=str)


def rules_of(found: list[Violation]) -> list[str]:
    return [v.rule for v in found]


# --- build flags --------------------------------------------------------------------------------------------------

KNOWN_BUILD_BITS = {Tier.TIER_1_0: 0x3F, Tier.TIER_1_1: 0x3F, Tier.TIER_1_2: 0xFF}


@pytest.mark.rule("BF-1", "PROF-1", "PROF-3", "XB-1")
@profiles
@pytest.mark.parametrize("bit", range(32))
def test_single_build_bits(bit: int, profile: Profile) -> None:
    known = KNOWN_BUILD_BITS[profile.tier] | (0x40000000 if profile.xbox else 0)
    source = BuildFlag.ALLOW_UPDATE if bit == 5 else None
    found = check_build_flags(BuildFlag(1 << bit), BOTTOM, profile, source_flags=source)
    assert ("BF-1" in rules_of(found)) == (not known >> bit & 1)
    expected_others = {"BF-7"} if bit == 6 else set()
    assert set(rules_of(found)) - {"BF-1"} == expected_others


@pytest.mark.rule("BF-2", "BF-4", "BF-5", "BF-6", "NOTE-1")
@pytest.mark.parametrize("kind", [TOP, BOTTOM], ids=["top", "bottom"])
@pytest.mark.parametrize("word", range(64))
def test_base_build_flags_exclude_each_other_only_in_one_pair(word: int, kind: AccelerationStructureType) -> None:
    source = BuildFlag(word & ~0x20 | 0x01) if word & 0x20 else None
    found = check_build_flags(BuildFlag(word), kind, source_flags=source)
    assert rules_of(found) == (["BF-2"] if word & 0x0C == 0x0C else [])
    for problem in found:
        assert "PREFER_FAST_TRACE and PREFER_FAST_BUILD" in problem.message


@pytest.mark.rule("BF-7")
def test_omm_linkage_updates_need_allow_update() -> None:
    alone = check_build_flags(BuildFlag.ALLOW_OMM_LINKAGE_UPDATE, BOTTOM, TIER_1_2)
    assert rules_of(alone) == ["BF-7"]
    both = BuildFlag.ALLOW_OMM_LINKAGE_UPDATE | BuildFlag.ALLOW_UPDATE
    assert check_build_flags(both, BOTTOM, TIER_1_2) == []


@pytest.mark.rule("BF-8")
@pytest.mark.parametrize("kind", [TOP, AccelerationStructureType.OPACITY_MICROMAP_ARRAY])
@pytest.mark.parametrize("flags", [0x41, 0x80, 0xC1])
def test_omm_build_flags_are_for_bottom_levels(flags: int, kind: AccelerationStructureType) -> None:
    assert set(rules_of(check_build_flags(BuildFlag(flags), kind, TIER_1_2))) == {"BF-8"}
    assert check_build_flags(BuildFlag(flags), BOTTOM, TIER_1_2) == []


@pytest.mark.rule("BF-8")
@pytest.mark.parametrize("flag", [BuildFlag.ALLOW_UPDATE, BuildFlag.PERFORM_UPDATE])
def test_micromap_arrays_cannot_be_updated(flag: BuildFlag) -> None:
    source = BuildFlag.ALLOW_UPDATE if flag is BuildFlag.PERFORM_UPDATE else None
    kind = AccelerationStructureType.OPACITY_MICROMAP_ARRAY
    assert "BF-8" in rules_of(check_build_flags(flag, kind, TIER_1_2, source_flags=source))


@pytest.mark.rule("BLD-1")
@pytest.mark.parametrize("kind", [TOP, BOTTOM])
def test_source_and_perform_update_come_together(kind: AccelerationStructureType) -> None:
    assert rules_of(check_build_flags(BuildFlag.PERFORM_UPDATE, kind)) == ["BLD-1"]
    assert rules_of(check_build_flags(BuildFlag.NONE, kind, source_flags=BuildFlag.ALLOW_UPDATE)) == ["BLD-1"]
    assert check_build_flags(BuildFlag.PERFORM_UPDATE, kind, source_flags=BuildFlag.ALLOW_UPDATE) == []
    assert check_build_flags(BuildFlag.NONE, kind) == []


@pytest.mark.rule("UPD-1")
@pytest.mark.parametrize("word", range(0x20))
def test_only_what_allows_updates_is_updated(word: int) -> None:
    source = BuildFlag(word & ~0x0C)
    found = rules_of(check_build_flags(source | BuildFlag.PERFORM_UPDATE, BOTTOM, source_flags=source))
    assert found == ([] if source & BuildFlag.ALLOW_UPDATE else ["UPD-1"])


@pytest.mark.rule("UPD-2", "UPD-3", "BF-3")
@pytest.mark.parametrize("changed", [0x01, 0x02, 0x04, 0x08, 0x10, 0x80])
@pytest.mark.parametrize("base", [0x00, 0x12])
def test_an_update_keeps_every_flag_but_allow_update(changed: int, base: int) -> None:
    source = BuildFlag(base | 0x01)
    update = BuildFlag((base | 0x01) ^ changed | 0x20)
    found = check_build_flags(update, BOTTOM, TIER_1_2, source_flags=source)
    assert rules_of(found) == ([] if changed == 0x01 else ["UPD-2"])
    back = check_build_flags(
        source | BuildFlag.PERFORM_UPDATE, BOTTOM, TIER_1_2, source_flags=source ^ BuildFlag(changed)
    )
    assert rules_of(back) == (["UPD-1"] if changed == 0x01 else ["UPD-2"])


# --- ray flags ----------------------------------------------------------------------------------------------------

KNOWN_RAY_BITS = {Tier.TIER_1_0: 0xFF, Tier.TIER_1_1: 0x3FF, Tier.TIER_1_2: 0x7FF}


@pytest.mark.rule("RF-1", "RF-5", "PROF-1", "PROF-3", "XB-1", "XB-17")
@profiles
@pytest.mark.parametrize("inline", [False, True], ids=["pipeline", "inline"])
@pytest.mark.parametrize("bit", range(32))
def test_single_ray_bits(bit: int, inline: bool, profile: Profile) -> None:
    known = KNOWN_RAY_BITS[profile.tier] | (0x1000 if profile.xbox else 0)
    expected = [] if known >> bit & 1 else ["RF-1"]
    if inline and bit == 3:
        expected.append("RF-5")
    assert rules_of(check_ray_flags(RayFlag(1 << bit), profile, inline=inline)) == expected


# X of the exclusion matrix, with the rule that forbids the pair.
EXCLUDED_RAY_PAIRS = {
    (0x001, 0x002): "RF-2", (0x001, 0x040): "RF-2", (0x001, 0x080): "RF-2",
    (0x002, 0x040): "RF-2", (0x002, 0x080): "RF-2", (0x040, 0x080): "RF-2",
    (0x010, 0x020): "RF-3", (0x010, 0x100): "RF-3", (0x020, 0x100): "RF-3",
    (0x100, 0x200): "RF-4",
}  # fmt: skip
RAY_BITS = [1 << b for b in range(11)] + [0x1000]


@pytest.mark.rule("RF-2", "RF-3", "RF-4", "RF-5", "RF-10", "NOTE-2", "NOTE-3")
@pytest.mark.parametrize("inline", [False, True], ids=["pipeline", "inline"])
@pytest.mark.parametrize(("a", "b"), list(itertools.combinations(RAY_BITS, 2)))
def test_every_pair_of_ray_flags(a: int, b: int, inline: bool) -> None:
    expected = [EXCLUDED_RAY_PAIRS[a, b]] if (a, b) in EXCLUDED_RAY_PAIRS else []
    if inline and 0x8 in (a, b):
        expected.append("RF-5")
    found = check_ray_flags(RayFlag(a | b), Profile(Tier.TIER_1_2, xbox=True), inline=inline)
    assert rules_of(found) == expected


@pytest.mark.rule("RF-2", "RF-3", "RF-4")
def test_every_word_of_known_bits_is_judged_by_its_pairs() -> None:
    for word in range(0x400):
        pairs = {rule for (a, b), rule in EXCLUDED_RAY_PAIRS.items() if word & a and word & b}
        assert set(rules_of(check_ray_flags(RayFlag(word)))) == pairs, hex(word)


@pytest.mark.rule("RF-10")
@pytest.mark.parametrize(
    "flags",
    [
        RayFlag.CULL_BACK_FACING_TRIANGLES | RayFlag.SKIP_PROCEDURAL_PRIMITIVES,
        RayFlag.CULL_OPAQUE | RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH,
        RayFlag.FORCE_OPAQUE | RayFlag.SKIP_CLOSEST_HIT_SHADER | RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH,
    ],
)
def test_combinations_that_must_be_accepted(flags: RayFlag) -> None:
    assert check_ray_flags(flags) == []


@pytest.mark.rule("RF-6", "PF-1")
def test_the_pipelines_skips_count_for_trace_ray_only() -> None:
    cull, skip = RayFlag.CULL_BACK_FACING_TRIANGLES, PipelineFlag.SKIP_TRIANGLES
    assert check_ray_flags(cull) == []
    assert rules_of(check_ray_flags(cull, pipeline=skip)) == ["RF-3"]
    assert check_ray_flags(cull, pipeline=skip, inline=True) == []
    both = PipelineFlag.SKIP_TRIANGLES | PipelineFlag.SKIP_PROCEDURAL_PRIMITIVES
    assert rules_of(check_ray_flags(RayFlag.NONE, pipeline=both)) == ["RF-4"]


@pytest.mark.rule("RF-6", "PROF-3")
@pytest.mark.parametrize("skip", [PipelineFlag.SKIP_TRIANGLES, PipelineFlag.SKIP_PROCEDURAL_PRIMITIVES])
def test_the_pipelines_skips_need_tier_1_1(skip: PipelineFlag) -> None:
    assert rules_of(check_ray_flags(RayFlag.NONE, Profile(Tier.TIER_1_0), pipeline=skip)) == ["RF-1"]
    assert check_ray_flags(RayFlag.NONE, pipeline=skip) == []


@pytest.mark.rule("PF-1")
def test_other_pipeline_flags_do_not_reach_the_ray() -> None:
    assert check_ray_flags(RayFlag.NONE, Profile(Tier.TIER_1_0), pipeline=PipelineFlag.ALLOW_OPACITY_MICROMAPS) == []


# --- instance and geometry flags ----------------------------------------------------------------------------------


@pytest.mark.rule("IF-1", "PROF-1")
@profiles
@pytest.mark.parametrize("bit", range(32))
def test_single_instance_bits(bit: int, profile: Profile) -> None:
    known = 0x3F if profile.tier is Tier.TIER_1_2 else 0x0F
    assert rules_of(check_instance_flags(InstanceFlag(1 << bit), profile)) == ([] if known >> bit & 1 else ["IF-1"])


@pytest.mark.rule("IF-2", "IF-4")
@pytest.mark.parametrize("word", range(16))
def test_instance_flags_exclude_each_other_only_in_one_pair(word: int) -> None:
    expected = ["IF-2"] if word & 0x4 and word & 0x8 else []
    assert rules_of(check_instance_flags(InstanceFlag(word))) == expected


@pytest.mark.rule("GF-1")
@profiles
def test_geometry_flags(profile: Profile) -> None:
    for word in range(4):
        assert check_geometry_flags(GeometryFlag(word), profile) == []
    for bit in range(2, 32):
        assert rules_of(check_geometry_flags(GeometryFlag(1 << bit), profile)) == ["GF-1"]


# --- ray interval -------------------------------------------------------------------------------------------------

INF, NAN = math.inf, math.nan


@pytest.mark.rule("RAY-2", "RAY-3", "RAY-8")
@pytest.mark.parametrize(
    ("t_min", "t_max", "expected"),
    [
        (0.0, INF, []),
        (-0.0, 1.0, []),
        (0.0, -0.0, []),
        (2.0, 2.0, []),
        (INF, INF, []),
        (-1e-45, 1.0, ["RAY-2"]),
        (-INF, INF, ["RAY-2"]),
        (2.0, 1.0, ["RAY-2"]),
        (INF, 1.0, ["RAY-2"]),
        (0.0, -1.0, ["RAY-2"]),
        (-1.0, -2.0, ["RAY-2", "RAY-2"]),
        (NAN, 1.0, ["RAY-3"]),
        (0.0, NAN, ["RAY-3"]),
        (NAN, NAN, ["RAY-3", "RAY-3"]),
        (-1.0, NAN, ["RAY-2", "RAY-3"]),
    ],
)
def test_ray_intervals(t_min: float, t_max: float, expected: list[str]) -> None:
    assert rules_of(check_ray_interval(t_min, t_max)) == expected


# --- what an error carries ----------------------------------------------------------------------------------------


@pytest.mark.rule("ERR-2")
@pytest.mark.parametrize(
    ("found", "rule", "field", "value"),
    [
        (check_build_flags(BuildFlag(0x0C), BOTTOM, field="Inputs.Flags"), "BF-2", "Inputs.Flags", "0xc"),
        (check_build_flags(BuildFlag(0x200), BOTTOM), "BF-1", "Inputs.Flags", "0x200"),
        (check_build_flags(BuildFlag(0x40), BOTTOM, TIER_1_2), "BF-7", "Inputs.Flags", "0x40"),
        (check_build_flags(BuildFlag(0x80), TOP, TIER_1_2), "BF-8", "Inputs.Flags", "0x80"),
        (check_build_flags(BuildFlag(0x20), TOP), "BLD-1", "Inputs.Flags", "0x20"),
        (check_build_flags(BuildFlag(0x20), TOP, source_flags=BuildFlag(0)), "UPD-1", "Inputs.Flags", "0x0"),
        (check_build_flags(BuildFlag(0x22), TOP, source_flags=BuildFlag(1)), "UPD-2", "Inputs.Flags", "0x22"),
        (check_ray_flags(RayFlag(0x3), field="RayFlags"), "RF-2", "RayFlags", "0x3"),
        (check_ray_flags(RayFlag(0x800)), "RF-1", "RayFlags", "0x800"),
        (check_ray_flags(RayFlag(0x8), inline=True), "RF-5", "RayFlags", "0x8"),
        (
            check_instance_flags(InstanceFlag(0xC), field="InstanceDescs[3].Flags"),
            "IF-2",
            "InstanceDescs[3].Flags",
            "0xc",
        ),
        (check_instance_flags(InstanceFlag(0x40)), "IF-1", "Flags", "0x40"),
        (check_geometry_flags(GeometryFlag(0x4)), "GF-1", "Flags", "0x4"),
        (check_ray_interval(-1.0, 1.0), "RAY-2", "TMin", "-1.0"),
        (check_ray_interval(0.0, NAN), "RAY-3", "TMax", "nan"),
    ],
    ids=lambda value: value if isinstance(value, str) and "-" in value else "",
)
def test_a_violation_says_rule_place_value_and_section(
    found: list[Violation], rule: str, field: str, value: str
) -> None:
    assert rules_of(found) == [rule]
    problem = found[0]
    assert (problem.field, problem.value) == (field, value)
    assert problem.section
    assert not problem.warning
    text = str(problem)
    assert text.startswith(f"[{rule}] ")
    assert field in text
    assert value in text


@pytest.mark.rule("ERR-2", "BF-1")
def test_an_unknown_bit_is_told_with_what_would_be_legal() -> None:
    text = str(check_build_flags(BuildFlag.DEHYDRATE, BOTTOM)[0])
    for part in ("DEHYDRATE", "tier 1.1", "0x3f"):
        assert part in text


@pytest.mark.rule("ERR-3")
def test_violations_of_one_call_are_reported_together_and_in_order() -> None:
    found = check_build_flags(BuildFlag(0x100 | 0x40 | 0x0C | 0x20), TOP, TIER_1_2, source_flags=BuildFlag(0x10))
    assert rules_of(found) == ["BF-1", "BF-2", "BF-7", "BF-8", "UPD-1", "UPD-2"]
    found = check_ray_flags(RayFlag(0x800 | 0x3 | 0x30 | 0x300 | 0x8), inline=True)
    assert sorted(set(rules_of(found))) == ["RF-1", "RF-2", "RF-3", "RF-4", "RF-5"]
    assert found == sorted(found)


@pytest.mark.rule("ERR-3")
def test_order_is_prefix_then_number_then_field() -> None:
    made = [
        violation(rule, "text", field=field) for rule in ("BF-10", "UPD-1", "BF-2", "ALIGN-3") for field in ("b", "a")
    ]
    error = InvalidInputError(made, "Call")
    assert [(v.rule, v.field) for v in error.violations] == [
        ("ALIGN-3", "a"), ("ALIGN-3", "b"), ("BF-2", "a"), ("BF-2", "b"), ("BF-10", "a"), ("BF-10", "b"),
        ("UPD-1", "a"), ("UPD-1", "b"),
    ]  # fmt: skip
    assert error.rules == ("ALIGN-3", "ALIGN-3", "BF-2", "BF-2", "BF-10", "BF-10", "UPD-1", "UPD-1")
    text = str(error)
    assert text.startswith("Call: [ALIGN-3] text (a = )")
    assert text.index("[BF-2]") < text.index("[BF-10]") < text.index("[UPD-1]")


@pytest.mark.rule("ERR-1", "ERR-4")
def test_errors_stop_a_call_and_warnings_do_not() -> None:
    warning = violation("INST-5", "cannot be inverted", warning=True)
    require([])
    require([warning])
    with pytest.raises(InvalidInputError) as raised:
        require([warning, *check_ray_flags(RayFlag(0x3))], "TraceRay")
    assert raised.value.rules == ("RF-2",)
    assert raised.value.call == "TraceRay"


@pytest.mark.rule("ERR-5")
@pytest.mark.parametrize(
    "check",
    [
        lambda word: check_ray_flags(RayFlag(word)),
        lambda word: check_build_flags(BuildFlag(word), BOTTOM),
        lambda word: check_instance_flags(InstanceFlag(word)),
        lambda word: check_geometry_flags(GeometryFlag(word)),
    ],
    ids=["ray", "build", "instance", "geometry"],
)
def test_bits_beyond_32_are_refused(check) -> None:  # type: ignore[no-untyped-def]
    assert check(1 << 32)


@pytest.mark.rule("PROF-1")
def test_the_default_profile() -> None:
    assert Profile(Tier.TIER_1_1, xbox=False) == DEFAULT_PROFILE
    assert str(DEFAULT_PROFILE) == "tier 1.1"
    assert str(Profile(Tier.TIER_1_2, xbox=True)) == "tier 1.2, Xbox"


@pytest.mark.rule("PROF-2")
@pytest.mark.parametrize("tier", Tier)
def test_tiers_are_read_from_their_own_text(tier: Tier) -> None:
    assert Tier.parse(f" {tier} ") is tier


@pytest.mark.parametrize("text", ["", "1", "2.0", "1.3", "TIER_1_1"])
def test_other_tiers_are_refused_with_the_legal_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"1\.0, 1\.1 or 1\.2"):
        Tier.parse(text)
