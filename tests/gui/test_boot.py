"""What must hold before anything else: imports, references, resources, theme, actions."""

from __future__ import annotations

import subprocess
import sys

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from rtviewer.dxr.verdicts import VERDICTS
from rtviewer.gui import theme
from rtviewer.gui.actions import ACTIONS
from rtviewer.gui.app import boot
from rtviewer.gui.resources import resources_folder, shader_source


def test_importing_the_window_loads_no_numba():
    code = (
        "import sys, rtviewer.gui.main_window, rtviewer.gui.screenshot;"
        "bad = [m for m in ('numba', 'llvmlite', 'trimesh') if m in sys.modules]; sys.exit(', '.join(bad) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_of_the_application_loads_no_qt():
    code = "import sys, rtviewer.gui.app; sys.exit(any(m.startswith('PySide6') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal there")
def test_qt_calls_do_not_lose_references_of_none():
    # PySide6 6.12 on Python 3.11 dropped one at each call that gives back None, until the process died.
    thing = QObject()
    before = sys.getrefcount(None)
    for _ in range(300):
        thing.setObjectName("name")
    assert sys.getrefcount(None) > before - 100


def test_booting_twice_gives_the_same_application():
    assert boot() is QApplication.instance()


def test_every_shader_is_found():
    names = sorted(p.name for p in (resources_folder() / "shaders").iterdir())
    assert "boxes.vert" in names
    for name in names:
        assert shader_source(name).startswith("#version 330 core")


def test_every_verdict_family_has_colour_icon_and_words_in_both_themes():
    families = {meaning.family for meaning in VERDICTS.values()}
    assert families == set(theme.FAMILIES) == set(theme.FAMILY_ICONS) == set(theme.FAMILY_WORDS)
    for look in (theme.LIGHT, theme.DARK):
        assert set(look.families) == families
        assert len(set(look.families.values())) == len(families)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("look", [theme.LIGHT, theme.DARK], ids=lambda t: t.name)
def test_text_is_legible(look):
    for ground in (look.window, look.base, look.alternate, look.raised):
        assert contrast(look.text, ground) > 7
        assert contrast(look.muted, ground) > 4.2
    for colour in look.families.values():
        assert contrast(colour, look.base) > 4.2
    assert contrast(look.accent_text, look.accent) > 4.5


def test_no_shortcut_is_given_twice():
    keys = [spec.shortcut for spec in ACTIONS if spec.shortcut]
    assert len(keys) == len(set(keys))
