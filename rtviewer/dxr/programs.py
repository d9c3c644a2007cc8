"""The built-in any-hit and intersection programs, by number and name.

Numbers 0 to 5 and 0 to 4 are those of the recordings in ``tests/golden/driver``; kernels and oracle implement each once
(``kernels.programs``, ``trace.reference``).
"""

from __future__ import annotations

from enum import IntEnum

QUERY = 0x7FFF
"""Any-hit and intersection number of an inline query: the caller decides (``trace.query``)."""


class AnyHitProgram(IntEnum):
    ACCEPT = 0
    """Return plainly: the hit is committed."""
    IGNORE = 1
    """IgnoreHit() always."""
    IGNORE_ODD_PRIMITIVES = 2
    ACCEPT_AND_END_SEARCH = 3
    IGNORE_ODD_GEOMETRIES = 4
    IGNORE_ODD_PRIMITIVES_END_AT_EVEN = 5
    """Ignore odd primitive indices, accept even ones and end the search."""


class IntersectionProgram(IntEnum):
    SPHERE = 0
    """Sphere in the box's centre, radius half the shortest side: near root (kind 0); if not accepted, far (kind 1)."""
    BOX = 1
    """The box: entry (kind 16 + axis); if not accepted, exit (kind 32 + axis)."""
    SPHERE_FAR_FIRST = 2
    """Both roots always: far (kind 65), then near (kind 64)."""
    NOTHING = 3
    """Never reports."""
    REPORT_T = 4
    """Reports the dispatch's ``report_t`` with kind 5."""
