"""The verbs on the logged ray: stepping through its events, filtering and copying them, asking why not."""

from __future__ import annotations

from collections.abc import Iterable

from rtviewer.dxr.verdicts import EventKind
from rtviewer.errors import RtviewerError
from rtviewer.session.events import Refusal
from rtviewer.session.expected import Explanation, check_expected, explain_expected
from rtviewer.session.live_work import LiveWork
from rtviewer.session.log_text import LogFormat, log_as
from rtviewer.session.playback import Stop, StopAt
from rtviewer.session.state import Expected, LogFilter, Selection

NO_RAY = Refusal("no ray is logged: pick a pixel or type a ray")


class LogCommands(LiveWork):
    """Verbs of a session that act on the log of the picked ray."""

    # Stepping

    def seek_log(self, position: int) -> Refusal | None:
        """Go to an event by number and select what it is about; -1 shows the whole log and selects nothing else."""
        log = self._log
        if log is None:
            return self._refuse(NO_RAY)
        if not -1 <= position < len(log):
            return self._refuse(Refusal(f"no event {position}: the log has {len(log):,}"))
        if position < 0 or log.world is not self.world:
            self.store.replace(log_position=position)
            return None
        row = log.row(position)
        selection = Selection(row.structure, row.box, row.instance, row.geometry, row.primitive)
        self.store.replace(log_position=position, selection=selection)
        return None

    def step_log(self, stop: StopAt = Stop.EVENT, *, backwards: bool = False, count: int = 1) -> Refusal | None:
        """Go to the next event that is shown, candidate, instance, commit or verdict, or to the one before.

        ``count``: how many in one go; the last one there is where there are fewer. Refused where there is none.
        """
        log, state = self._log, self.state
        if log is None:
            return self._refuse(NO_RAY)
        found = log.playback.next(state.log_position, stop, backwards=backwards, count=count, within=state.log_filter)
        if found < 0:
            name = str(stop) if isinstance(stop, Stop) else stop.name.lower().replace("_", " ")
            return self._refuse(Refusal(f"there is no {'earlier' if backwards else 'later'} {name} in what is shown"))
        return self.seek_log(found)

    # What is shown and copied

    def set_log_filter(
        self, kinds: Iterable[EventKind] | None = None, families: Iterable[str] | None = None
    ) -> Refusal | None:
        """Show, step through and copy only events of some kinds and verdict families; None keeps what is set."""
        now = self.state.log_filter
        chosen = LogFilter(
            now.kinds if kinds is None else frozenset(EventKind(kind) for kind in kinds),
            now.families if families is None else frozenset(families),
        )
        if unknown := chosen.families - LogFilter().families:
            return self._refuse(Refusal(f"no verdict family {', '.join(sorted(unknown))}"))
        self.store.replace(log_filter=chosen)
        return None

    def log_as(self, form: LogFormat | str = LogFormat.TEXT) -> str:
        """The shown events of the log as text, CSV or JSON; empty when no ray is logged."""
        log = self._log
        return "" if log is None else log_as(log, LogFormat(form), log.playback.shown(self.state.log_filter))

    # Why not

    def expect(self, instance: int, geometry: int = -1, primitive: int = -1) -> Refusal | None:
        """Ask about every logged ray from now on what became of an instance, geometry or primitive (-1: any)."""
        if self.world is None:
            return self._refuse(Refusal("no scene is open"))
        expected = Expected(instance, geometry, primitive)
        try:
            check_expected(self.world, expected)
        except RtviewerError as error:
            return self._refuse(Refusal.of_error(error))
        self.store.replace(expected=expected)
        return None

    def expect_selected(self) -> Refusal | None:
        """``expect`` what is selected; refused when no instance is."""
        chosen = self.state.selection
        if chosen.instance < 0:
            return self._refuse(Refusal("select an instance or primitive first: in the view, the tree or the table"))
        return self.expect(chosen.instance, chosen.geometry, chosen.primitive)

    def expect_nothing(self) -> None:
        """Ask about nothing any more."""
        self.store.replace(expected=None)

    @property
    def explanation(self) -> Explanation | None:
        """What became of what is expected, of the logged ray; None when nothing is, or no ray is logged."""
        log, expected = self._log, self.state.expected
        if log is None or expected is None or expected.instance >= len(log.world.tlas.instance_descs):
            return None
        return explain_expected(log, expected)
