"""Who may import whom, and what an import may load."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import rtviewer

HEAVY = ("numba", "llvmlite", "PySide6", "shiboken6", "OpenGL", "pyqtgraph", "superqt", "qtawesome")
COMPILED = ("numba", "llvmlite")
PACKAGES = sorted(m.name for m in pkgutil.iter_modules(rtviewer.__path__) if m.ispkg)
WITHOUT_QT = [name for name in PACKAGES if name not in ("gui", "kernels")]


def run_python(code: str, root: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def loaded_after(code: str, root: Path) -> set[str]:
    """Top-level modules in a fresh interpreter after ``code``."""
    ending = "\nimport sys, json; print('\\n' + json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    return set(json.loads(run_python(code + ending, root).stdout.splitlines()[-1]))


def test_the_layers_of_the_house(root: Path) -> None:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout
    for contract in ("layers of the house", "Qt and OpenGL only in gui", "numba only in kernels"):
        assert f"{contract} KEPT" in done.stdout


def test_packages_are_found() -> None:
    assert {"dxr", "accel", "scene", "kernels", "build", "trace", "shade", "io", "session", "gui", "cli"} <= set(
        PACKAGES
    )


def test_the_package_itself_loads_next_to_nothing(root: Path) -> None:
    loaded = loaded_after("import rtviewer", root)
    assert not loaded & {*HEAVY, "numpy", "click", "pydantic"}


@pytest.mark.parametrize("package", WITHOUT_QT)
def test_importing_every_module_of_a_package_loads_neither_compiler_nor_window(package: str, root: Path) -> None:
    folder = Path(rtviewer.__file__).parent / package
    modules = sorted(".".join(f.relative_to(folder.parent.parent).with_suffix("").parts) for f in folder.rglob("*.py"))
    code = "\n".join(f"import {name.removesuffix('.__init__')}" for name in modules)
    assert not loaded_after(code, root) & set(HEAVY)


def test_the_public_names_load_neither_compiler_nor_window(root: Path) -> None:
    code = "import rtviewer\nfor name in rtviewer.__all__: getattr(rtviewer, name)"
    assert not loaded_after(code, root) & set(HEAVY)


def test_the_public_names_are_complete_and_sorted() -> None:
    assert list(rtviewer.__all__) == sorted(set(rtviewer.__all__))
    assert set(rtviewer.__all__) <= set(dir(rtviewer))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = rtviewer.no_such_name


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["view", "--help"], ["trace", "--help"], ["info", "--help"]]
)
def test_help_loads_neither_compiler_nor_window(arguments: list[str], root: Path) -> None:
    code = f"""
import sys
sys.argv = ["rtviewer", *{arguments!r}]
from rtviewer.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
    assert not loaded_after(code, root) & set(HEAVY)


def test_the_window_is_imported_before_the_compiler(root: Path) -> None:
    loaded = loaded_after("import rtviewer.gui.main_window", root)
    assert "PySide6" in loaded
    assert not loaded & set(COMPILED)
