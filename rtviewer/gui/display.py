"""Whether a window can be shown at all: Qt ends the process when it cannot, so this is asked first, without Qt."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from pathlib import Path

X_LIBRARIES = ("libxcb.so.1", "libxcb-cursor.so.0")
"""What Qt's X11 plugin needs and desktops may lack."""
CONNECT_SECONDS = 2.0


def display_problem() -> str | None:
    """Why no window can be shown, in words without a full stop; None when one can, and where Qt needs no display."""
    platform = os.environ.get("QT_QPA_PLATFORM", "")
    if sys.platform != "linux" or (platform and not platform.startswith(("xcb", "wayland"))):
        return None
    wayland, x11 = os.environ.get("WAYLAND_DISPLAY"), os.environ.get("DISPLAY")
    if wayland and _wayland_answers(wayland):
        return None
    if x11:
        return _x11_problem(x11)
    if wayland:
        return f"the Wayland compositor {wayland} does not answer and DISPLAY is not set"
    return "neither DISPLAY nor WAYLAND_DISPLAY is set"


def _wayland_answers(name: str) -> bool:
    path = Path(os.environ.get("XDG_RUNTIME_DIR", "")) / name  # an absolute name stays as it is
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(CONNECT_SECONDS)
        try:
            connection.connect(str(path))
        except OSError:
            return False
    return True


def _x11_problem(display: str) -> str | None:
    """Connects as Qt will, so that a refused key counts like a server that is not there."""
    try:
        xcb, _ = (ctypes.CDLL(name) for name in X_LIBRARIES)
    except OSError as error:
        return f"a library of X11 is missing ({error})"
    xcb.xcb_connect.restype = ctypes.c_void_p
    connection = ctypes.c_void_p(xcb.xcb_connect(None, None))
    failed = xcb.xcb_connection_has_error(connection)
    xcb.xcb_disconnect(connection)
    return f"the X server at DISPLAY={display} does not answer or refuses" if failed else None
