"""Every rule is proved by a test or excused, and the counting itself works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spec import coverage
from tests.spec.coverage import Coverage, excuse, expand, read_rules, rules_of_document, rules_of_items

pytest_plugins = ["pytester"]


def test_every_rule_is_covered_or_excused(pytestconfig: pytest.Config) -> None:
    """Judged by the tests of this session when it collected all, else by a collection of its own."""
    here = pytestconfig.stash.get(coverage.SESSION, None)
    uncovered = here.uncovered if here is not None else coverage.collect_in_new_process()["uncovered"]
    assert uncovered == []


def test_the_program_answers_in_json() -> None:
    answer = coverage.collect_in_new_process()
    assert list(answer) == ["rules", "covered", "excused", "uncovered"]
    rules, covered, excused, uncovered = answer.values()
    assert isinstance(rules, list)
    assert isinstance(covered, list)
    assert isinstance(excused, dict)
    assert isinstance(uncovered, list)
    assert rules == read_rules()
    assert sorted([*covered, *excused, *uncovered]) == sorted(rules)
    assert "DET-5" in covered
    assert all(reason == excuse(rule) for rule, reason in excused.items())


# --- the list of rules --------------------------------------------------------------------------------------------


def test_the_list_is_that_of_the_rules_document(shared: Path) -> None:
    text = (shared / "spec" / "dxr-rules.md").read_text("utf-8")
    assert read_rules() == rules_of_document(text)


def test_the_checklist_of_the_document_names_every_rule_and_no_other(shared: Path) -> None:
    """Definitions and checklist are read in different ways and must agree."""
    text = (shared / "spec" / "dxr-rules.md").read_text("utf-8")
    _, start, rest = text.partition("## 9. Test checklist")
    checklist, stop, _ = rest.partition("## 10.")
    assert start
    assert stop
    listed = set(rules_of_document(checklist))
    defined = set(rules_of_document(text.replace(checklist, "")))
    assert listed <= defined
    assert all(excuse(rule) for rule in defined - listed), sorted(defined - listed)


def test_the_list_has_each_rule_once() -> None:
    rules = read_rules()
    assert len(rules) == len(set(rules)) > 300
    assert {"ALIGN-1", "LIM-1", "TRAV-1", "NOTE-20", "OMM-14", "XB-19", "ERR-1"} <= set(rules)


def test_ids_are_found_where_a_document_defines_them() -> None:
    text = """
- **AB-1 (E)** bold, mentions AB-9
| **AB-2** | a bold cell | AB-8 |
| AB-3 | a cell |
| AB-4, AB-6..8 | a list and a range |
| Read R32-1 bytes | no id |
**TRAV-1** at the start
"""
    assert rules_of_document(text) == ["AB-1", "AB-2", "AB-3", "AB-4", "AB-6", "AB-7", "AB-8", "TRAV-1"]
    assert expand("SV-1 and value table") == ["SV-1"]
    assert expand("R16G16_FLOAT") == []


# --- excuses ------------------------------------------------------------------------------------------------------


def test_excuses_are_few_and_name_rules_that_exist() -> None:
    rules = read_rules()
    assert set(coverage.EXCUSED_RULES) <= set(rules)
    assert set(coverage.EXCUSED_PREFIXES) <= {rule.partition("-")[0] for rule in rules}
    assert all(len(reason) > 30 for reason in [*coverage.EXCUSED_RULES.values(), *coverage.EXCUSED_PREFIXES.values()])
    assert sum(excuse(rule) is not None for rule in rules) <= 40
    assert excuse("BF-2") is None


def test_a_rule_is_covered_excused_or_uncovered() -> None:
    found = Coverage(["BF-1", "BF-2", "NOTE-1", "NOTE-2"], {"BF-1": ["a"], "NOTE-2": ["b"], "ZZ-9": ["c"]})
    assert found.covered == ["BF-1", "NOTE-2"]
    assert list(found.excused) == ["NOTE-1"]
    assert found.uncovered == ["BF-2"]
    assert found.line == "rules: 4, covered 2, excused 1, uncovered 1"


# --- reading the tests --------------------------------------------------------------------------------------------

SAMPLE = """
import pytest

pytestmark = pytest.mark.rule("BF-1")

@pytest.mark.rule("BF-2", "BF-3")
class TestGroup:
    @pytest.mark.rule("BF-4")
    def test_one(self): pass

@pytest.mark.parametrize("rule", ["BF-5", "x-BF-6", pytest.param("y", marks=pytest.mark.rule("BF-7")), "BF-8.5"])
def test_many(rule): pass

@pytest.mark.skip
@pytest.mark.rule("BF-9")
def test_skipped(): pass

@pytest.mark.xfail
@pytest.mark.rule("BF-10")
def test_broken(): pass
"""


def test_rules_are_read_from_marks_and_ids(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers = rule(*ids): the rules this test proves")
    items, _ = pytester.inline_genitems(pytester.makepyfile(SAMPLE))
    proofs = rules_of_items(items)
    assert set(proofs) == {"BF-1", "BF-2", "BF-3", "BF-4", "BF-5", "BF-7"}
    assert [test.rpartition("::")[2] for test in proofs["BF-4"]] == ["test_one"]
    assert len(proofs["BF-1"]) == 5


def test_a_rule_without_a_test_shows() -> None:
    """The check above can fail: take the tests of one rule away."""
    known = {rule: ["a test"] for rule in read_rules()}
    assert Coverage(read_rules(), known).uncovered == []
    del known["CULL-3"]
    assert Coverage(read_rules(), known).uncovered == ["CULL-3"]
