"""The table of counters is whole, and everything that is made from it follows."""

from pathlib import Path

from rtviewer.dxr.counters import COUNTERS, X_RAY_COUNTERS, Counter
from rtviewer.dxr.verdicts import CANDIDATE_REASONS, INSTANCE_REASONS, VERDICTS, Verdict

RULES = set((Path(__file__).parents[2] / "spec" / "rules.txt").read_text().split())


def test_every_counter_has_a_label_a_unit_a_meaning_and_a_rule_that_exists():
    assert list(COUNTERS) == list(Counter)
    meanings = [*COUNTERS.values(), *(x_ray.meaning for x_ray in X_RAY_COUNTERS)]
    for meaning in meanings:
        assert meaning.label
        assert meaning.unit.isalpha()
        assert meaning.text[0].islower()
        assert not meaning.text.endswith(".")
        assert not meaning.rule or meaning.rule in RULES
    assert len({meaning.label for meaning in meanings}) == len(meanings)


def test_keys_are_the_names_of_json_and_arrays():
    assert Counter.BOX_TESTS.key == "box_tests"
    assert [x_ray.key for x_ray in X_RAY_COUNTERS][:2] == ["x_ray_surfaces", "x_ray_candidates"]


def test_every_verdict_that_takes_something_away_has_its_reason():
    """A miss and a record at fault are counted by themselves, or end the ray."""
    apart = {Verdict.MISSED, Verdict.HIT_GROUP_FAULT, Verdict.BOX_MISSED, Verdict.BOX_BEYOND_CURRENT_END}
    taken = {v for v, meaning in VERDICTS.items() if meaning.family in ("excluded", "missed", "interval")}
    assert taken - apart == {v for v in INSTANCE_REASONS | CANDIDATE_REASONS if v not in apart}
    reasons = set(INSTANCE_REASONS.values()) | set(CANDIDATE_REASONS.values())
    assert reasons == {c for c in Counter if c > Counter.STACK_HIGH_WATER}


def test_tips_carry_the_rule():
    assert COUNTERS[Counter.REJECTED_TIE_LOST].tip.endswith("[DET-5]")
    assert COUNTERS[Counter.STACK_HIGH_WATER].tip[-1].isalpha()
