"""Starts Qt in the one order that works everywhere, then the window; loading and compiling come after it is seen.

Order (each step fails silently when it comes later): environment, shared GL contexts, surface format, QApplication,
PyOpenGL's platform, GL error checking, pyqtgraph's GL. numba is not imported here: the first job does that.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.errors import CancelledError, RtviewerError
from rtviewer.gui.display import display_problem

if TYPE_CHECKING:
    from PySide6.QtCore import QSettings
    from PySide6.QtWidgets import QApplication

    from rtviewer.gui.main_window import MainWindow
    from rtviewer.io.bottom_level_files import BottomLevelFile
    from rtviewer.session.state import Expected


def boot(*, check_gl: bool = False) -> QApplication:
    """The application object, with GL ready to be used. ``check_gl``: ask GL for an error after every call (tests)."""
    os.environ.setdefault("PYQTGRAPH_QT_LIB", "PySide6")
    os.environ.setdefault("QT_API", "pyside6")
    from PySide6.QtCore import QCoreApplication, Qt
    from PySide6.QtGui import QSurfaceFormat
    from PySide6.QtWidgets import QApplication

    existing = QApplication.instance()
    if isinstance(existing, QApplication):
        return existing
    QCoreApplication.setAttribute(Qt.ApplicationAttribute.AA_ShareOpenGLContexts)
    surface = QSurfaceFormat()
    surface.setRenderableType(QSurfaceFormat.RenderableType.OpenGL)
    surface.setVersion(3, 3)
    surface.setProfile(QSurfaceFormat.OpenGLContextProfile.CoreProfile)
    surface.setDepthBufferSize(24)
    surface.setSamples(0 if is_software_gl() else 4)
    QSurfaceFormat.setDefaultFormat(surface)
    application = QApplication(sys.argv[:1])
    application.setApplicationName("rtviewer")
    application.setApplicationDisplayName("rtviewer")
    application.setOrganizationName("rtviewer")
    choose_gl_platform(application.platformName())
    import OpenGL

    OpenGL.ERROR_CHECKING = check_gl
    OpenGL.ERROR_LOGGING = check_gl
    import pyqtgraph
    import pyqtgraph.opengl

    pyqtgraph.setConfigOptions(antialias=False, imageAxisOrder="row-major")
    return application


def is_software_gl() -> bool:
    """Whether drawing will surely be done by the processor; multisampling is not worth it then."""
    return bool(os.environ.get("LIBGL_ALWAYS_SOFTWARE")) or (
        not any(Path("/dev/dri").glob("render*")) and sys.platform == "linux"
    )


def choose_gl_platform(platform: str) -> None:
    """Tell PyOpenGL what Qt has chosen: it guesses from the environment, and a wrong guess is a black view."""
    if sys.platform == "linux":
        uses_egl = platform.startswith("wayland") or os.environ.get("QT_XCB_GL_INTEGRATION") == "xcb_egl"
        os.environ["PYOPENGL_PLATFORM"] = "egl" if uses_egl else "glx"


def open_settings(folder: Path | None = None) -> QSettings:
    """The ini file of layout, theme and recent files; in ``folder``, or where the platform keeps such things."""
    from PySide6.QtCore import QSettings

    if folder is None:
        import platformdirs

        folder = Path(platformdirs.user_config_dir("rtviewer", appauthor=False))
    return QSettings(str(folder / "rtviewer.ini"), QSettings.Format.IniFormat)


def make_window(settings: QSettings | None = None, *, threads: int | None = None) -> MainWindow:
    """A window on a live session of its own, not shown yet. Needs ``boot``."""
    from PySide6.QtWidgets import QApplication

    from rtviewer.gui.main_window import MainWindow
    from rtviewer.gui.theme import Appearance, ThemeChoice
    from rtviewer.gui.worker import GuiThread
    from rtviewer.session.commands import Session

    application = QApplication.instance()
    assert isinstance(application, QApplication)
    settings = settings or open_settings()
    try:
        choice = ThemeChoice(str(settings.value("theme", "system")))
    except ValueError:
        choice = ThemeChoice.SYSTEM
    gui_thread = GuiThread()
    session = Session(gui_thread.post, live=True, threads=threads)
    return MainWindow(session, Appearance(application, choice), settings, gui_thread)


def install_exception_hooks(window: MainWindow) -> None:
    """Show what nobody caught as a banner and go on; the traceback goes to the terminal too."""

    def show(error: BaseException) -> None:
        details = "".join(traceback.format_exception(error))
        sys.stderr.write(details)
        window.banner.show_error(error, details)

    def on_exception(kind: type[BaseException], error: BaseException, place: TracebackType | None) -> None:
        show(error)

    def on_thread_exception(what: threading.ExceptHookArgs) -> None:
        error = what.exc_value
        if error is not None and not isinstance(error, SystemExit):
            window.post(lambda: show(error))

    sys.excepthook = on_exception
    threading.excepthook = on_thread_exception


def run(
    path: Path | str | None,
    screenshot: Path | str | None = None,
    panes: Sequence[str] = (),
    *,
    profile: Profile = DEFAULT_PROFILE,
    bottom_levels: Sequence[BottomLevelFile] = (),
    base_address: int | None = None,
    settings_folder: Path | None = None,
    mode: str = "",
    pixel: tuple[int, int] | None = None,
    step: int | None = None,
    expected: Expected | None = None,
) -> int:
    """Open the window, on ``path`` if given; returns the exit code. With ``screenshot``, draw it once to that file.

    ``panes``: names of docks to bring to the front; ``profile``: what rules are checked against; ``bottom_levels``,
    ``base_address``: see ``Session.open``; ``mode``: of the image, empty for the usual one;
    ``pixel``, ``step``, ``expected``: see ``Screenshot``.

    Raises RtviewerError without a display, for a name that no dock has and for a picture that could not be made;
    CancelledError after the window was closed by SIGINT.
    """
    if problem := display_problem():
        raise RtviewerError(f"no display: {problem}; `xvfb-run -a rtviewer view ...` draws on a virtual screen")
    application = boot()
    from rtviewer.gui.collector import Collector
    from rtviewer.gui.first_paint import FirstPaint
    from rtviewer.gui.interrupt import Interrupt

    shot_folder = None
    if screenshot is not None and settings_folder is None:  # the same picture on every machine
        shot_folder = tempfile.TemporaryDirectory(prefix="rtviewer-")
        settings_folder = Path(shot_folder.name)
    window = make_window(open_settings(settings_folder))
    window.session.set_profile(profile)
    if mode:
        window.session.set_image_mode(mode)
    window.show_panes(panes)
    install_exception_hooks(window)
    shot = None
    if screenshot is not None:
        from rtviewer.gui.screenshot import Screenshot

        shot = Screenshot(
            window, Path(screenshot), wants_scene=path is not None, pixel=pixel, step=step, expected=expected
        )
    window.show()

    def start() -> None:
        window.show_panes(panes)  # again: Qt may forget what was raised among tabs that were never shown
        # Only what the first picture needs competes with it.
        window.session.warm_up(after_first_picture=path is not None)
        if path is not None:
            window.open_file(path, bottom_levels=bottom_levels, base_address=base_address)
        if shot is not None:
            shot.start()

    FirstPaint(window, start)
    collector = Collector()
    with Interrupt() as interrupt:
        code = application.exec()
    collector.stop()
    if shot_folder is not None:
        shot_folder.cleanup()
    if interrupt.is_requested:
        raise CancelledError("the window was closed by SIGINT")
    if shot is not None and shot.error is not None:
        raise shot.error
    return code
