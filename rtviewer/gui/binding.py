"""Two-way binding of a control and a field of the state: the only code of the window that blocks signals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from PySide6.QtCore import QObject, QSignalBlocker
from PySide6.QtWidgets import QAbstractButton, QComboBox, QLineEdit, QWidget

from rtviewer.session.commands import Session
from rtviewer.session.state import State
from rtviewer.session.store import Store


@contextmanager
def quiet(*objects: QObject) -> Iterator[None]:
    """Nothing the block does to ``objects`` makes them emit."""
    blockers = [QSignalBlocker(item) for item in objects]
    try:
        yield
    finally:
        for blocker in blockers:
            blocker.unblock()


def show_checked(button: QAbstractButton, on: bool) -> None:
    if button.isChecked() != on:
        with quiet(button):
            button.setChecked(on)


def show_text(edit: QLineEdit, text: str) -> None:
    """Replace the text of an edit the user is not typing in."""
    if edit.text() != text and not (edit.hasFocus() and edit.isModified()):
        with quiet(edit):
            edit.setText(text)
            edit.setModified(False)


def show_choice(box: QComboBox, value: object) -> None:
    """Select the entry whose data is ``value``; leave the box alone when there is none."""
    place = box.findData(value)
    if place >= 0 and box.currentIndex() != place:
        with quiet(box):
            box.setCurrentIndex(place)


def follow(widget: QWidget, store: Store, fields: set[str], update: Callable[[State], Any]) -> None:
    """Call ``update`` now and whenever one of ``fields`` changes, as long as the widget lives."""

    def on_change(old: State, new: State, changed: frozenset[str]) -> None:
        if changed & fields:
            update(new)

    unsubscribe = store.subscribe(on_change)
    widget.destroyed.connect(lambda: unsubscribe())
    update(store.state)


def listen(widget: QWidget, session: Session, handlers: dict[type, Callable[[Any], Any]]) -> None:
    """Call the handler of an event's type, as long as the widget lives."""

    def on_event(event: object) -> None:
        handler = handlers.get(type(event))
        if handler is not None:
            handler(event)

    end = session.listen(on_event)

    def stop() -> None:
        with suppress(ValueError):  # the session was closed first
            end()

    widget.destroyed.connect(lambda: stop())
