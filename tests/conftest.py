"""Shared by all tests: neighbours of the checkout, hypothesis without a clock, and the line of rule coverage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.spec import coverage

# The first call of a kernel compiles it or reads its cache, which no deadline can foresee.
settings.register_profile("rtviewer", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("rtviewer")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Rules, cases and assets beside the checkout."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the folder 'shared' is not beside the checkout")
    return folder


# --- rule coverage ------------------------------------------------------------------------------------------------

COVERAGE_LINE = pytest.StashKey[str]()


def _collects_all(config: pytest.Config) -> bool:
    """Whether nothing was left out before collection; ``-k`` and ``-m`` leave out after it."""
    if config.getoption("lf", False) or config.getoption("ignore", None) or config.getoption("ignore_glob", None):
        return False
    whole = {ROOT, ROOT / "tests"}
    return any((config.invocation_params.dir / argument).resolve() in whole for argument in config.args)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _collects_all(config):
        config.stash[coverage.SESSION] = coverage.coverage_of(items)
        config.stash[COVERAGE_LINE] = config.stash[coverage.SESSION].line


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker process sends its line to the one that prints."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["rule_coverage"] = session.config.stash.get(COVERAGE_LINE, "")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    line = getattr(node, "workeroutput", {}).get("rule_coverage")
    if line:
        node.config.stash[COVERAGE_LINE] = line


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    line = config.stash.get(COVERAGE_LINE, "")
    if line:
        terminalreporter.write_line(line)
