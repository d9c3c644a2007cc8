"""The table of panes: a pane is registered here and nowhere else. Makes their docks and puts them in their places."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow

from rtviewer.gui.panes.blob import BlobPane
from rtviewer.gui.panes.build import BuildPane
from rtviewer.gui.panes.decode import DecodePane
from rtviewer.gui.panes.instances import InstancesPane
from rtviewer.gui.panes.memory import MemoryPane
from rtviewer.gui.panes.node_tree import NodeTreePane
from rtviewer.gui.panes.pane import ComputedPane, Pane, PaneContext
from rtviewer.gui.panes.problems import ProblemsPane
from rtviewer.gui.panes.properties import PropertiesPane
from rtviewer.gui.panes.ray_flags import RayFlagsPane
from rtviewer.gui.panes.ray_list import RayListPane
from rtviewer.gui.panes.ray_log import RayLogPane
from rtviewer.gui.panes.ray_source import RaySourcePane
from rtviewer.gui.panes.sizes import SizesPane
from rtviewer.gui.panes.structures import StructuresPane
from rtviewer.gui.panes.updates import UpdatesPane

LEFT, RIGHT, BOTTOM = (
    Qt.DockWidgetArea.LeftDockWidgetArea,
    Qt.DockWidgetArea.RightDockWidgetArea,
    Qt.DockWidgetArea.BottomDockWidgetArea,
)
WIDE = 1500
"""Width of a window whose side docks get more room."""


@dataclass(frozen=True)
class PaneSpec:
    """``below`` or ``beside``: the dock it stands under, or shares its place with. ``in_front``: of its tabs."""

    pane: type[Pane]
    area: Qt.DockWidgetArea
    below: str = ""
    beside: str = ""
    in_front: bool = False


PANES: tuple[PaneSpec, ...] = (
    PaneSpec(StructuresPane, LEFT),
    PaneSpec(NodeTreePane, LEFT, below="structures"),
    PaneSpec(BuildPane, RIGHT),
    PaneSpec(RayFlagsPane, RIGHT, below="build", in_front=True),
    PaneSpec(RaySourcePane, RIGHT, beside="ray_flags"),
    PaneSpec(PropertiesPane, RIGHT, beside="ray_flags"),
    PaneSpec(RayLogPane, BOTTOM, in_front=True),
    PaneSpec(RayListPane, BOTTOM, beside="ray_log"),
    PaneSpec(InstancesPane, BOTTOM, beside="ray_log"),
    PaneSpec(SizesPane, BOTTOM, beside="ray_log"),
    PaneSpec(MemoryPane, BOTTOM, beside="ray_log"),
    PaneSpec(DecodePane, BOTTOM, beside="ray_log"),
    PaneSpec(BlobPane, BOTTOM, beside="ray_log"),
    PaneSpec(UpdatesPane, BOTTOM, beside="ray_log"),
    PaneSpec(ProblemsPane, BOTTOM, beside="ray_log"),
)


def make_panes(context: PaneContext) -> dict[str, Pane]:
    """One of each, by name."""
    return {spec.pane.name: spec.pane(context) for spec in PANES}


def make_docks(window: QMainWindow, panes: dict[str, Pane]) -> dict[str, QDockWidget]:
    """A dock around each pane, not placed yet."""
    docks = {}
    for name, pane in panes.items():
        dock = QDockWidget(pane.title, window)
        dock.setObjectName(f"{name}_dock")
        dock.setWidget(pane)
        if isinstance(pane, ComputedPane):
            dock.visibilityChanged.connect(pane.set_seen)
        docks[name] = dock
    return docks


def place_docks(window: QMainWindow, docks: dict[str, QDockWidget]) -> None:
    """Every dock shown at its place in the table."""
    for dock in docks.values():
        dock.setFloating(False)
        window.removeDockWidget(dock)
    window.layout().activate()  # Qt forgets to hide the tab bars of what it places anew, not of what it removes
    window.layout().setEnabled(False)  # and leaves one behind for every layout it makes half way
    last_of: dict[str, str] = {}
    for spec in PANES:
        dock = docks[spec.pane.name]
        if spec.beside:
            neighbour = last_of.get(spec.beside, spec.beside)
            window.tabifyDockWidget(docks[neighbour], dock)  # never side by side first: the window would grow
            last_of[spec.beside] = spec.pane.name
        else:
            window.addDockWidget(spec.area, dock)
        if spec.below:
            window.splitDockWidget(docks[spec.below], dock, Qt.Orientation.Vertical)
    window.layout().setEnabled(True)
    for dock in docks.values():
        dock.show()
    for spec in PANES:
        if spec.in_front:
            docks[spec.pane.name].raise_()
    _size_docks(window, docks)


def _size_docks(window: QMainWindow, docks: dict[str, QDockWidget]) -> None:
    wide = window.width() >= WIDE
    horizontal, vertical = Qt.Orientation.Horizontal, Qt.Orientation.Vertical
    window.resizeDocks([docks["structures"], docks["build"]], [350 if wide else 250, 316 if wide else 290], horizontal)
    window.resizeDocks([docks["structures"], docks["node_tree"]], [260, 560], vertical)
    window.resizeDocks([docks["build"], docks["ray_flags"]], [415, 485], vertical)
    window.resizeDocks([docks["ray_log"]], [310 if wide else 240], vertical)
