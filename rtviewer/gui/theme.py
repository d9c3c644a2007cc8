"""Light and dark appearance: palettes, colours with a meaning, icons. Fusion everywhere: only it obeys palettes.

The platform may not know its colour scheme (bare X11 says Unknown), so the choice is ours: system, light or dark. One
hue stands for each verdict family, the same in log, 3D and legend; hues come from a palette made for colour-blind eyes
(Okabe and Ito, 2008), and an icon or a word always stands beside them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QIcon, QPalette
from PySide6.QtWidgets import QApplication

from rtviewer.gui.resources import icon_path

FAMILIES = ("entered", "accepted", "interval", "missed", "excluded")
FAMILY_ICONS = {
    "entered": "mdi6.arrow-right-thin",
    "accepted": "mdi6.check-bold",
    "interval": "mdi6.arrow-expand-horizontal",
    "missed": "mdi6.close-thick",
    "excluded": "mdi6.cancel",
}
FAMILY_WORDS = {
    "entered": "entered: a node or an instance was walked",
    "accepted": "accepted: the hit was committed",
    "interval": "interval: outside TMin to the current end, or a lost tie",
    "missed": "missed: the ray does not meet it",
    "excluded": "excluded: masked, culled, skipped or ignored",
}


class ThemeChoice(StrEnum):
    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True)
class Theme:
    """Colours as ``#rrggbb``. ``families``: one per verdict family. ``view``: background of the 3D and image views."""

    name: str
    window: str
    base: str
    alternate: str
    raised: str
    text: str
    muted: str
    border: str
    accent: str
    accent_text: str
    selection: str
    warning: str
    error: str
    view: str
    view_text: str
    veil: str
    mesh: str
    wire: str
    families: dict[str, str] = field(default_factory=dict)


DARK = Theme(
    name="dark",
    window="#282b31",
    base="#1c1e22",
    alternate="#212429",
    raised="#343840",
    text="#dfe3e8",
    muted="#a0a7b2",
    border="#454b55",
    accent="#4ea1f3",
    accent_text="#0b1621",
    selection="#2c4a68",
    warning="#e6b450",
    error="#f07178",
    view="#15171a",
    view_text="#c3cad4",
    veil="rgba(21, 23, 26, 190)",
    mesh="#c2c8d0",
    wire="#0d0f12",
    families={
        "entered": "#56b4e9",
        "accepted": "#2fbf8f",
        "interval": "#e69f00",
        "missed": "#cc79a7",
        "excluded": "#8a919c",
    },
)

LIGHT = Theme(
    name="light",
    window="#f1f2f4",
    base="#ffffff",
    alternate="#f7f8fa",
    raised="#e6e8ec",
    text="#1d2126",
    muted="#5f6873",
    border="#c9ced6",
    accent="#0b6bcb",
    accent_text="#ffffff",
    selection="#cfe3f8",
    warning="#8a5a00",
    error="#b3261e",
    view="#e3e6ea",
    view_text="#30363d",
    veil="rgba(241, 242, 244, 200)",
    mesh="#d3d7dd",
    wire="#3c434c",
    families={
        "entered": "#0072b2",
        "accepted": "#007a5a",
        "interval": "#a86400",
        "missed": "#a3447a",
        "excluded": "#6b7280",
    },
)

# Boxes by depth: from the accent hue at the root through violet to warm at the leaves; leaves have their own.
DEPTH_COLOURS = {
    "dark": ("#4ea1f3", "#5f8ff0", "#7f86ee", "#9a7fe6", "#b378d8", "#c874c4", "#d773aa", "#e0778e"),
    "light": ("#0b6bcb", "#3459c6", "#5a4fbf", "#7946b4", "#903fa5", "#a03a92", "#aa397b", "#ae3d63"),
}
LEAF_COLOURS = {"dark": "#c9b458", "light": "#7a6400"}


def rgba(colour: str, alpha: float = 1.0) -> tuple[float, float, float, float]:
    """``#rrggbb`` to four floats in 0..1."""
    value = QColor(colour)
    return value.redF(), value.greenF(), value.blueF(), alpha


def palette_of(theme: Theme) -> QPalette:
    """The Fusion palette of a theme, disabled roles included."""
    palette = QPalette()
    role = QPalette.ColorRole
    plain = {
        role.Window: theme.window,
        role.WindowText: theme.text,
        role.Base: theme.base,
        role.AlternateBase: theme.alternate,
        role.ToolTipBase: theme.raised,
        role.ToolTipText: theme.text,
        role.Text: theme.text,
        role.Button: theme.raised,
        role.ButtonText: theme.text,
        role.BrightText: theme.error,
        role.Highlight: theme.selection,
        role.HighlightedText: theme.text,
        role.Link: theme.accent,
        role.LinkVisited: theme.accent,
        role.PlaceholderText: theme.muted,
        role.Light: theme.raised,
        role.Midlight: theme.raised,
        role.Mid: theme.border,
        role.Dark: theme.border,
        role.Shadow: theme.border,
        role.Accent: theme.accent,
    }
    for key, colour in plain.items():
        palette.setColor(key, QColor(colour))
    for key in (role.WindowText, role.Text, role.ButtonText, role.HighlightedText):
        palette.setColor(QPalette.ColorGroup.Disabled, key, QColor(theme.muted))
    palette.setColor(QPalette.ColorGroup.Disabled, role.Highlight, QColor(theme.border))
    return palette


def style_sheet(theme: Theme) -> str:
    """What a palette cannot say: quiet docks, thin separators, inline messages."""
    return f"""
    QToolTip {{ color: {theme.text}; background: {theme.raised}; border: 1px solid {theme.border}; padding: 3px 5px; }}
    QMainWindow::separator {{ background: {theme.window}; width: 5px; height: 5px; }}
    QMainWindow::separator:hover {{ background: {theme.accent}; }}
    QSplitter::handle {{ background: {theme.window}; }}
    QSplitter::handle:hover {{ background: {theme.accent}; }}
    QDockWidget {{ font-weight: 600; titlebar-close-icon: url("{icon_path(f"dock-close-{theme.name}.svg")}");
        titlebar-normal-icon: url("{icon_path(f"dock-float-{theme.name}.svg")}"); }}
    QDockWidget::title {{ background: {theme.raised}; padding: 4px 8px; }}
    QHeaderView::section {{ background: {theme.raised}; color: {theme.muted}; border: none; padding: 3px 6px;
        border-right: 1px solid {theme.border}; }}
    QTableView, QTreeView, QPlainTextEdit {{ border: none; gridline-color: {theme.border};
        alternate-background-color: {theme.alternate}; }}
    QToolBar {{ border: none; spacing: 4px; padding: 3px 6px; background: {theme.window}; }}
    QLineEdit {{ background: {theme.base}; border: 1px solid {theme.border}; border-radius: 3px; padding: 2px 4px; }}
    QLineEdit:focus {{ border-color: {theme.accent}; }}
    QCheckBox::indicator {{ width: 13px; height: 13px; border: 1px solid {theme.muted}; border-radius: 3px;
        background: {theme.base}; }}
    QCheckBox::indicator:hover, QCheckBox::indicator:focus {{ border-color: {theme.accent}; }}
    QCheckBox::indicator:checked {{ background: {theme.accent}; border-color: {theme.accent};
        image: url("{icon_path(f"check-{theme.name}.svg")}"); }}
    QCheckBox::indicator:disabled {{ border-color: {theme.border}; background: {theme.window}; }}
    QCheckBox:disabled {{ color: {theme.muted}; }}
    QStatusBar::item {{ border: none; }}
    QScrollArea {{ border: none; }}
    QLabel[role="muted"] {{ color: {theme.muted}; }}
    QLabel[role="heading"] {{ font-weight: 600; }}
    QLabel[role="empty"] {{ color: {theme.muted}; padding: 16px; }}
    QLabel[role="refusal"] {{ color: {theme.error}; background: {theme.base}; border-left: 3px solid {theme.error};
        padding: 4px 8px; }}
    QLabel[role="overlay"] {{ color: {theme.view_text}; background: {theme.veil}; padding: 2px 6px;
        border-radius: 3px; }}
    QFrame[role="banner"] {{ background: {theme.raised}; border-left: 4px solid {theme.error}; }}
    QFrame[role="line"] {{ background: {theme.border}; }}
    QFrame[role="strip"] {{ background: {theme.window}; border-top: 1px solid {theme.border}; }}
    QToolButton[role="bit"] {{ padding: 2px 0; min-width: 22px; border: 1px solid {theme.border}; border-radius: 3px;
        background: {theme.base}; color: {theme.muted}; }}
    QToolButton[role="bit"]:checked {{ background: {theme.accent}; color: {theme.accent_text}; }}
    QToolButton[role="bit"]:focus {{ border-color: {theme.text}; }}
    """


def monospaced(size_delta: int = 0) -> QFont:
    """The fixed-pitch face of the system at the interface's size."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setPointSizeF(max(QApplication.font().pointSizeF() + size_delta, 7.0))
    return font


class Appearance(QObject):
    """The theme in force. ``changed`` carries it whenever the user or the system switches."""

    changed = Signal(object)

    def __init__(self, application: QApplication, choice: ThemeChoice = ThemeChoice.SYSTEM) -> None:
        super().__init__(application)
        self._application = application
        self._choice = choice
        self.theme = LIGHT
        application.setStyle("Fusion")
        application.styleHints().colorSchemeChanged.connect(self._follow_system)
        self._apply()

    @property
    def choice(self) -> ThemeChoice:
        return self._choice

    def choose(self, choice: ThemeChoice) -> None:
        self._choice = choice
        self._apply()

    def icon(self, name: str, colour: str = "") -> QIcon:
        """A font icon in the theme's text colour, greyed when disabled."""
        import qtawesome

        return qtawesome.icon(name, color=colour or self.theme.text, color_disabled=self.theme.border)

    def family_colour(self, family: str) -> QColor:
        return QColor(self.theme.families[family])

    def _follow_system(self) -> None:
        if self._choice is ThemeChoice.SYSTEM:
            self._apply()

    def _apply(self) -> None:
        dark = self._choice is ThemeChoice.DARK or (
            self._choice is ThemeChoice.SYSTEM and self._application.styleHints().colorScheme() is Qt.ColorScheme.Dark
        )
        self.theme = DARK if dark else LIGHT
        self._application.setPalette(palette_of(self.theme))
        self._application.setStyleSheet(style_sheet(self.theme))
        self.changed.emit(self.theme)
