"""Which rules of ``rules.txt`` are proved by a test: ``python tests/spec/coverage.py [--json]``.

A test names its rules in ``@pytest.mark.rule(...)`` or between the brackets of its id. A test that can never pass or
never runs (marked skip or xfail) proves nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES_FILE = Path(__file__).with_name("rules.txt")
"""The ids of the rules, one a line, in the order of the rules document."""

RULE_ID = r"[A-Z]+-[0-9]+"

EXCUSED_PREFIXES = {
    "NOTE": "records a misprint of another document; the rule it settles is tested under its own id",
    "OMM": "opacity micromaps are later work; every micromap value is refused by the tier checks",
}
EXCUSED_RULES = {
    "PROF-2": "a table of tier numbers without behaviour; the profile is tested under PROF-1 and PROF-3",
    "PF-2": "concerns linked opacity micromaps, which no build accepts yet; comes with OMM-12",
    "ALIGN-10": "aligns the arrays of opacity micromaps, which no build accepts yet; comes with OMM-4",
    "XB-18": "says since when a platform offers a feature; nothing the program could do or leave",
    "XB-19": "says that no further definition is public; nothing the program could do or leave",
}


def excuse(rule: str) -> str | None:
    """Why no test has to prove the rule, or None."""
    return EXCUSED_RULES.get(rule) or EXCUSED_PREFIXES.get(rule.partition("-")[0])


# --- the rules ----------------------------------------------------------------------------------------------------


def read_rules(path: Path = RULES_FILE) -> list[str]:
    """The ids of the copied list."""
    return path.read_text("utf-8").split()


def rules_of_document(text: str) -> list[str]:
    """The ids a rules document defines: those that open a bold phrase or fill the first cell of a table row.

    A range such as ``ERR-1..5`` in a first cell counts for each of its members. Sorted as met, each once.
    """
    found: dict[str, None] = {}
    for line in text.splitlines():
        cell = re.match(r"\|\s*\**([A-Z][^|]*?)\**\s*\|", line)
        ids = expand(cell[1]) if cell else []
        for rule in ids + re.findall(rf"\*\*({RULE_ID})\b", line):
            found.setdefault(rule)
    return list(found)


def expand(cell: str) -> list[str]:
    """The ids of a cell such as ``PRE-2, PRE-6`` or ``RAY-6..8, RAY-10``."""
    ids = []
    for prefix, first, last in re.findall(r"\b([A-Z]+)-([0-9]+)(?:\.\.([0-9]+))?(?![0-9])", cell):
        ids += [f"{prefix}-{number}" for number in range(int(first), int(last or first) + 1)]
    return ids


# --- the tests ----------------------------------------------------------------------------------------------------


def rules_of_items(items: Iterable[pytest.Item]) -> dict[str, list[str]]:
    """Rule id to the ids of the collected tests that name it."""
    proofs: dict[str, list[str]] = {}
    for item in items:
        if any(item.iter_markers("skip")) or any(item.iter_markers("xfail")):
            continue
        named = [rule for mark in item.iter_markers("rule") for rule in mark.args]
        named += re.findall(rf"(?<![\w-]){RULE_ID}(?![\w.])", item.nodeid.partition("[")[2])
        for rule in dict.fromkeys(named):
            proofs.setdefault(rule, []).append(item.nodeid)
    return proofs


@dataclass(frozen=True)
class Coverage:
    """How far the tests prove the rules."""

    rules: Sequence[str]
    proofs: dict[str, list[str]]

    @property
    def covered(self) -> list[str]:
        return [rule for rule in self.rules if rule in self.proofs]

    @property
    def excused(self) -> dict[str, str]:
        """Rules without a test that need none, with the reason."""
        return {r: reason for r in self.rules if r not in self.proofs and (reason := excuse(r))}

    @property
    def uncovered(self) -> list[str]:
        return [rule for rule in self.rules if rule not in self.proofs and not excuse(rule)]

    @property
    def line(self) -> str:
        counts = len(self.rules), len(self.covered), len(self.excused), len(self.uncovered)
        return "rules: {}, covered {}, excused {}, uncovered {}".format(*counts)

    def as_json(self) -> dict[str, object]:
        return {
            "rules": list(self.rules),
            "covered": self.covered,
            "excused": self.excused,
            "uncovered": self.uncovered,
        }


SESSION = pytest.StashKey[Coverage]()
"""Where the configuration of a pytest session keeps its coverage, if all tests were collected."""


def coverage_of(items: Iterable[pytest.Item]) -> Coverage:
    """The coverage by these tests."""
    return Coverage(read_rules(), rules_of_items(items))


class _Collector:
    """A plugin that keeps what pytest collected."""

    items: Sequence[pytest.Item] = ()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.items = tuple(items)


def collect() -> Coverage:
    """Collect all tests in this process, which must not be running tests, and judge them. Raises RuntimeError."""
    collector = _Collector()
    arguments = ["--collect-only", "-qqq", "--rootdir", str(ROOT), str(ROOT / "tests")]
    with redirect_stdout(sys.stderr):  # stdout belongs to the answer
        status = pytest.main(arguments, plugins=[collector])
    if status != pytest.ExitCode.OK:
        raise RuntimeError(f"pytest could not collect the tests ({pytest.ExitCode(status).name})")
    return coverage_of(collector.items)


def collect_in_new_process() -> dict[str, object]:
    """The JSON answer of this file run as a program."""
    command = [sys.executable, str(Path(__file__)), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=250)
    if done.returncode not in (0, 1) or not done.stdout.startswith("{"):
        raise RuntimeError(f"the coverage program failed:\n{done.stdout}{done.stderr}")
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def main(arguments: Sequence[str]) -> int:
    """Print the coverage; 1 while a rule is neither covered nor excused."""
    coverage = collect()
    if "--json" in arguments:
        print(json.dumps(coverage.as_json(), indent=1))
    else:
        for rule in coverage.uncovered:
            print(rule)
        print(coverage.line)
    return 1 if coverage.uncovered else 0


if __name__ == "__main__":
    # Python puts this folder first, where numba would take this file for the coverage package that it can use.
    sys.path[0] = str(ROOT)
    sys.exit(main(sys.argv[1:]))
