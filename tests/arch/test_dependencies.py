"""The dependencies as pyproject states them, and the one release that must stay out."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

DEPENDENCY = re.compile(r'^\s*"(?P<text>[A-Za-z][^"]*)"\s*,?\s*(?P<comment>#.*)?$')


def _without_reason(lines: list[str]) -> list[str]:
    """Requirement lines with a comment neither behind nor directly above."""
    found, inside = [], False
    for above, line in zip(["", *lines], lines, strict=False):
        if re.match(r"^(?:dependencies|test|exr|requires) = \[", line):
            inside = True
            same_line = re.match(r'^\w+ = \[("[^\]]*")\]\s*(#.*)?$', line)
            if same_line:
                inside = False
                if not same_line[2] and not above.strip().startswith("#"):
                    found.append(same_line[1])
        elif line.startswith("]"):
            inside = False
        elif inside and not above.strip().startswith("#"):
            match = DEPENDENCY.match(line)
            if match and not match["comment"]:
                found.append(match["text"])
    return found


def test_every_dependency_has_a_reason(root: Path) -> None:
    assert _without_reason((root / "pyproject.toml").read_text("utf-8").splitlines()) == []


def test_the_search_for_reasons_can_fail() -> None:
    text = 'dependencies = [\n  "a>=1",  # why\n  # why\n  "b>=1",\n  "c>=1",\n]\nexr = ["d>=1"]\n'
    assert _without_reason(text.splitlines()) == ["c>=1", '"d>=1"']


def _qt_requirements(root: Path) -> list[Requirement]:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return [r for r in map(Requirement, project["dependencies"]) if r.name.lower().startswith("pyside6")]


@pytest.mark.parametrize(("python", "allowed"), [("3.11", False), ("3.12", True), ("3.13", True)])
def test_qt_6_12_is_kept_away_from_python_3_11(python: str, allowed: bool, root: Path) -> None:
    """6.12.0 drops references of None; before Python 3.12 made None immortal that ends the process."""
    active = [r for r in _qt_requirements(root) if r.marker is None or r.marker.evaluate({"python_version": python})]
    assert [r.name for r in active] == ["PySide6-Essentials"]
    assert active[0].specifier.contains("6.12.0") is allowed
    assert active[0].specifier.contains("6.11.3")
    assert not active[0].specifier.contains("6.7.3")


def test_qt_does_not_eat_references_of_none() -> None:
    from PySide6.QtCore import QObject

    thing = QObject()
    before = sys.getrefcount(None)
    for _ in range(300):
        thing.setObjectName("name")
    assert sys.getrefcount(None) > before - 100


# Import names that differ from the distribution's. numba brings llvmlite, whose types its intrinsics are written in.
DISTRIBUTION_OF = {
    "PIL": "pillow",
    "OpenGL": "pyopengl",
    "PySide6": "pyside6-essentials",
    "shiboken6": "pyside6-essentials",
    "llvmlite": "numba",
}


def _imported(root: Path) -> set[str]:
    """Distributions that the sources import, in lower case."""
    names: set[str] = set()
    for path in (root / "rtviewer").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.split(".")[0])
    return {DISTRIBUTION_OF.get(n, n.lower()) for n in names - set(sys.stdlib_module_names) - {"rtviewer"}}


def test_every_import_is_declared_and_every_dependency_imported(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {Requirement(text).name.lower() for text in project["dependencies"]}
    optional = {Requirement(text).name.lower() for text in project["optional-dependencies"]["exr"]}
    imported = _imported(root)
    assert imported - needed - optional == set()
    assert needed - imported == set()
