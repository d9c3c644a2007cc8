"""``--fuzz-seconds N``: how long each test of hostile bytes goes on; without it a fixed number of mutations.

Only known when pytest is given this folder or a file in it: ``pytest tests/properties --fuzz-seconds 600``.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz-seconds", type=float, default=0.0, help="seconds for each test of hostile bytes")


@pytest.fixture(scope="session")
def fuzz_seconds(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--fuzz-seconds", default=0.0))
