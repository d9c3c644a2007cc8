"""Shared by all tests: the folder that holds the checkout's neighbours, and hypothesis without a clock."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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
