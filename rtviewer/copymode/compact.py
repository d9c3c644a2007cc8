"""COMPACT: the bytes in use, and no update data once updates have ended."""

from __future__ import annotations

from rtviewer.accel import layout
from rtviewer.accel.encode import allocate, element_size, seal, set_header
from rtviewer.accel.layout import SectionKind
from rtviewer.accel.sizes import align
from rtviewer.accel.structure import Structure
from rtviewer.copymode.dehydrate import check_live
from rtviewer.dxr.flags import BuildFlag, format_flags
from rtviewer.dxr.rules import require
from rtviewer.errors import Violation, violation

_UPDATE_ONLY = (SectionKind.UPDATE, SectionKind.INACTIVE)
_NEW_PLACE = ("sections", "section_count", "size_in_bytes", "used_size")
"""Header fields that say where things are; the rest is what the structure is."""


def compacted_size(source: Structure) -> int:
    """CompactedSizeInBytes: never more than the current size [POST-5], a multiple of 256.

    Raises InvalidInputError without ALLOW_COMPACTION (POST-4) or for a dehydrated source (XB-5).
    """
    require(
        [*check_compactable(source, "POST-4"), *check_live(source, "asked for a compacted size")],
        "EmitRaytracingAccelerationStructurePostbuildInfo",
    )
    return _size(_kept_sections(source))


def compact(source: Structure, *, name: str = "", address: int = 0) -> Structure:
    """An equivalent structure of exactly ``compacted_size(source)`` bytes that keeps the stored flags [CP-13, CP-14].

    Room that the build did not need goes, and update data goes once the last update dropped ALLOW_UPDATE [CP-15].
    Pointers of a top level stay (CP-16).

    Raises InvalidInputError without ALLOW_COMPACTION (CP-12) or for a dehydrated source (XB-5).
    """
    require(
        [*check_compactable(source, "CP-12"), *check_live(source, "compacted")],
        "CopyRaytracingAccelerationStructure (COMPACT)",
    )
    kept = _kept_sections(source)
    target = allocate(source.type, source.build_flags, kept, name=name or source.name, address=address)
    for kind, _ in kept:
        target.section(kind)[:] = source.section(kind)
    fields = [field for field in layout.HEADER.names or () if field not in _NEW_PLACE]
    set_header(target, **{field: source.header[field] for field in fields})
    return seal(target)


def check_compactable(source: Structure, rule: str = "CP-12") -> list[Violation]:
    """``rule`` is CP-12 for the copy and POST-4 for the question about its size."""
    if source.build_flags & BuildFlag.ALLOW_COMPACTION:
        return []
    text = "the source was built without ALLOW_COMPACTION, which a compacting copy and its size need"
    return [violation(rule, text, field="build flags of the source", value=format_flags(source.build_flags))]


def _kept_sections(source: Structure) -> list[tuple[SectionKind, int]]:
    dropped = () if source.build_flags & BuildFlag.ALLOW_UPDATE else _UPDATE_ONLY
    table = source.header["sections"][: int(source.header["section_count"])]
    rows = [(SectionKind(int(row["kind"])), int(row["count"])) for row in table]
    return [(kind, count) for kind, count in rows if kind not in dropped]


def _size(sections: list[tuple[SectionKind, int]]) -> int:
    size = align(layout.HEADER.itemsize, layout.SECTION_ALIGNMENT)
    for kind, count in sections:
        size = align(size + count * element_size(kind), layout.SECTION_ALIGNMENT)
    return align(size)
