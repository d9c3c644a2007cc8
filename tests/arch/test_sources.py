"""Habits of the sources that no other tool checks."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from rtviewer.dxr.flags import BuildFlag, RayFlag

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "rtviewer"
SOURCES = sorted(PACKAGE.rglob("*.py"))
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "misc", "core", "manager", "managers", "base", "stuff"}
MOST_LINES = 500


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def project_files() -> list[Path]:
    """Text files of the project: tracked, or about to be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    if shutil.which("git") is None:
        pytest.skip("git is not installed, and only it knows which files belong to the project")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    files = [ROOT / line for line in done.stdout.splitlines()]
    return [f for f in files if f.is_file() and b"\0" not in f.read_bytes()[:4096]]


def lines_with(pattern: str) -> list[str]:
    expression = re.compile(pattern)
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in project_files()
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1)
        if expression.search(line)
    ]


# --- size, names, words -------------------------------------------------------------------------------------------


def test_sources_are_found() -> None:
    assert {"dxr/flags.py", "kernels/traverse.py", "gui/app.py"} <= {relative(p) for p in SOURCES}


def test_no_source_is_long() -> None:
    lengths = {relative(p): len(p.read_text("utf-8").splitlines()) for p in SOURCES}
    assert {name: count for name, count in lengths.items() if count > MOST_LINES} == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    names = {part: relative(p) for p in SOURCES for part in p.relative_to(PACKAGE).with_suffix("").parts}
    assert {names[n] for n in EMPTY_NAMES & set(names)} == set()


def test_every_module_says_what_it_is_for() -> None:
    assert [relative(p) for p in SOURCES if not ast.get_docstring(tree_of(p))] == []


def test_every_folder_of_sources_is_a_package() -> None:
    assert [relative(p.parent) for p in SOURCES if not (p.parent / "__init__.py").exists()] == []


def test_only_the_command_line_prints() -> None:
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in SOURCES
        if not relative(path).startswith("cli/")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert found == []


def test_no_work_is_left_as_a_note() -> None:
    assert lines_with(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b") == []


def test_no_path_of_a_developers_machine() -> None:
    assert lines_with(r"(?<![\w.~-])/(?:work|root|home|Users)/\w|\b[A-Za-z]:[\\/]Users[\\/]") == []


def test_every_import_is_absolute() -> None:
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert found == []


def test_no_exception_is_swallowed_unseen() -> None:
    """A bare ``except``, or one whose body is only ``pass``, must not catch everything."""
    found = []
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.ExceptHandler):
                continue
            catches_all = node.type is None or (
                isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
            )
            if node.type is None or (catches_all and all(isinstance(line, ast.Pass) for line in node.body)):
                found.append(f"{relative(path)}:{node.lineno}")
    assert found == []


# --- one home for every flag --------------------------------------------------------------------------------------


def names_used(path: Path, names: set[str], *, other_owners: set[str]) -> set[str]:
    """Flag names in the code of a file: as attributes, and inside texts. Documentation is free.

    ``other_owners``: enums that have members of the same names.
    """
    tree = tree_of(path)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in names:
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner not in other_owners:
                found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            found |= names & set(re.findall(r"\w+", node.value))
    return found


def uses_of(names: set[str], homes: set[str], other_owners: set[str]) -> dict[str, set[str]]:
    found = {
        relative(path): names_used(path, names, other_owners=other_owners)
        for path in SOURCES
        if relative(path) not in homes
    }
    return {file: used for file, used in found.items() if used}


RAY_FLAG_HOMES = {"dxr/flags.py", "dxr/rules.py", "dxr/profile.py", "kernels/constants.py"}
RAY_FLAG_USES: dict[str, set[str]] = {
    # PF-1: which bits a pipeline lends to its rays.
    "trace/dispatch.py": {"SKIP_TRIANGLES", "SKIP_PROCEDURAL_PRIMITIVES"},
    # The oracle is a second implementation on purpose; what is not a pure decision of dxr.rules stands there.
    "trace/packets.py": {"SKIP_TRIANGLES", "SKIP_PROCEDURAL_PRIMITIVES", "ACCEPT_FIRST_HIT_AND_END_SEARCH"},
    "trace/reference.py": {"SKIP_TRIANGLES", "SKIP_PROCEDURAL_PRIMITIVES"},
    "trace/reference_search.py": {"ACCEPT_FIRST_HIT_AND_END_SEARCH"},
    # A click in the view asks for the nearest thing, whatever its shaders would say.
    "session/selecting.py": {"FORCE_OPAQUE"},
    # Recordings were repeated under the pipeline's skip flags.
    "session/conformance.py": {"SKIP_TRIANGLES", "SKIP_PROCEDURAL_PRIMITIVES"},
    # The recordings log closest-hit calls.
    "session/conformance_judge.py": {"SKIP_CLOSEST_HIT_SHADER"},
    # The sentence that says which flag rejected a candidate.
    "session/explain.py": {
        "ACCEPT_FIRST_HIT_AND_END_SEARCH",
        "CULL_BACK_FACING_TRIANGLES",
        "CULL_FRONT_FACING_TRIANGLES",
        "CULL_NON_OPAQUE",
        "CULL_OPAQUE",
        "SKIP_PROCEDURAL_PRIMITIVES",
        "SKIP_TRIANGLES",
    },
}


def test_a_ray_flag_is_named_only_where_it_means_something() -> None:
    """Adding a flag is an edit of the homes; controls, options and files are made from the enum."""
    names = {str(flag.name) for flag in RayFlag}
    assert uses_of(names, RAY_FLAG_HOMES, {"InstanceFlag"}) == RAY_FLAG_USES


# The device's calls and the copy modes have rules of their own about flags; everybody else gets a plan.
BUILD_FLAG_JUDGES = ("device/", "copymode/")
BUILD_FLAG_HOMES = {"dxr/flags.py", "dxr/rules.py", "dxr/profile.py", "build/plan.py"}
BUILD_FLAG_USES: dict[str, set[str]] = {
    # BF-9: the stored word is without it.
    "accel/encode.py": {"PERFORM_UPDATE"},
    "build/refit.py": {"PERFORM_UPDATE"},
    # PRE-*: sizes are told from counts and flags before anything is built.
    "accel/sizes.py": {"ALLOW_UPDATE", "MINIMIZE_MEMORY", "PREFER_FAST_BUILD", "PREFER_FAST_TRACE"},
    # A recording's second state is reached by an update, whatever the other flags.
    "session/conformance_engines.py": {"ALLOW_UPDATE"},
    # The flags stored in a structure promise sections, and say whether it may be dehydrated.
    "accel/invariants.py": {"ALLOW_UPDATE", "DEHYDRATE"},
}


def test_a_build_flag_is_named_only_where_it_becomes_a_parameter() -> None:
    names = {str(flag.name) for flag in BuildFlag}
    judges = {relative(path) for path in SOURCES if relative(path).startswith(BUILD_FLAG_JUDGES)}
    assert uses_of(names, BUILD_FLAG_HOMES | judges, set()) == BUILD_FLAG_USES


def test_the_search_for_flag_names_finds_them() -> None:
    names = {str(flag.name) for flag in RayFlag}
    assert names_used(PACKAGE / "dxr/flags.py", names, other_owners={"InstanceFlag"}) >= names - {"FORCE_OMM_2_STATE"}
    assert "CULL_OPAQUE" in names_used(PACKAGE / "kernels/constants.py", names, other_owners={"InstanceFlag"})
