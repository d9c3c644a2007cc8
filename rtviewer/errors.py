"""Every error the product raises on purpose.

RtviewerError
├── InvalidInputError        a call breaks rules; carries the list of violations
│   └── SceneError           a scene or mesh file says something that cannot be used; carries file and key
├── StructureError           a structure cannot do what was asked of it
│   └── InvariantError       bytes that claim to be a structure but are not one
├── FileFormatError          bytes on disk that are not what they claim to be; carries offset, field, expected, found
│   └── DamagedBytesError    both at once: bytes given to a call that break a rule (also an InvalidInputError)
├── ProgramError             an any-hit or intersection program that cannot be used
└── CancelledError           the user changed their mind

A message says what was asked, what is wrong with the value found, which rule says so, and what would be legal. The
same facts are attributes, so that window, command line and tests read fields instead of parsing text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Violation:
    """One broken rule, or with ``warning`` one rule that advises against (rules ERR-2 and ERR-4).

    Ordered as ERR-3 asks: rule prefix, rule number, field path.
    """

    sort_key: tuple[str, int, str]
    rule: str
    field: str
    value: str
    message: str
    section: str = ""
    warning: bool = False

    def __str__(self) -> str:
        where = f" ({self.field} = {self.value})" if self.field else ""
        return f"[{self.rule}] {self.message}{where}"


def violation(
    rule: str, message: str, *, field: str = "", value: object = "", section: str = "", warning: bool = False
) -> Violation:
    """Make a violation of ``rule`` (for instance ``"BF-2"``)."""
    prefix, _, number = rule.partition("-")
    return Violation((prefix, int(number), field), rule, field, str(value), message, section, warning)


class RtviewerError(Exception):
    """Base of everything below; its text is fit to show to a user as it is."""


class InvalidInputError(RtviewerError):
    """A call breaks one or more rules; nothing was written."""

    def __init__(self, violations: Sequence[Violation], call: str = "") -> None:
        self.violations = tuple(sorted(violations))
        self.call = call
        text = "; ".join(str(v) for v in self.violations)
        super().__init__(f"{call}: {text}" if call else text)

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(v.rule for v in self.violations)


class SceneError(InvalidInputError):
    """A scene file is well-formed but asks for something that is not legal or not there."""

    def __init__(self, path: Path | str, key: str, message: str) -> None:
        self.path = Path(path)
        self.key = key
        self.violations = ()
        self.call = ""
        RtviewerError.__init__(self, f"{path}: {key}: {message}" if key else f"{path}: {message}")


class StructureError(RtviewerError):
    """A structure cannot do what was asked."""


class InvariantError(StructureError):
    """The bytes break what every structure guarantees; the list says which and where."""

    def __init__(self, problems: Sequence[str], name: str = "structure") -> None:
        self.problems = tuple(problems)
        more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        super().__init__(f"{name}: " + "; ".join(self.problems[:3]) + more)


class FileFormatError(RtviewerError):
    """A file is damaged, hostile, or of a kind or extension that is not read."""

    def __init__(
        self,
        path: Path | str,
        message: str,
        *,
        offset: int | None = None,
        field: str = "",
        expected: object = None,
        found: object = None,
    ) -> None:
        self.path, self.offset, self.field = Path(path), offset, field
        self.expected, self.found = expected, found
        place = f" at byte {offset}" if offset is not None else ""
        place += f", {field}" if field else ""
        facts = [f"{word} {value}" for word, value in (("expected", expected), ("found", found)) if value is not None]
        super().__init__(f"{path}{place}: {message}{': ' if facts else ''}{', '.join(facts)}")


class DamagedBytesError(InvalidInputError, FileFormatError):
    """Bytes given to a call are not what the call expects; carries the rule and the place in the bytes."""

    def __init__(
        self,
        name: str,
        rule: str,
        message: str,
        *,
        offset: int | None = None,
        field: str = "",
        expected: object = None,
        found: object = None,
        call: str = "",
    ) -> None:
        FileFormatError.__init__(
            self, name or "bytes", f"[{rule}] {message}", offset=offset, field=field, expected=expected, found=found
        )
        self.violations = (violation(rule, message, field=field, value=found),)
        self.call = call


class ProgramError(RtviewerError):
    """An any-hit or intersection program cannot be used."""


class CancelledError(RtviewerError):
    """The work was cancelled before it was done."""
