"""Holds the one State. Subscribers are told what changed and pull it; there is no other way to be told.

Belongs to the thread that made it: only that thread replaces, and subscribers run on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from rtviewer.session.state import State

Subscriber = Callable[[State, State, frozenset[str]], None]
"""Called with the old state, the new one, and the names of the fields of State that differ."""


class Store:
    def __init__(self, state: State | None = None) -> None:
        self._state = state or State()
        self._subscribers: list[Subscriber] = []

    @property
    def state(self) -> State:
        return self._state

    def replace(self, **changes: Any) -> frozenset[str]:
        """Replace fields of the state; tell subscribers which really changed, in order of subscription.

        Equal values change nothing and tell nobody, which is what ends loops between two views of one field.
        """
        old, new = self._state, replace(self._state, **changes)
        changed = frozenset(f.name for f in fields(State) if getattr(old, f.name) != getattr(new, f.name))
        if changed:
            self._state = new
            for subscriber in tuple(self._subscribers):
                subscriber(old, new, changed)
        return changed

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Returns the function that unsubscribes."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)
