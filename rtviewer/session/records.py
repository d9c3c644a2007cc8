"""What the copy and update verbs leave behind: frozen records that a window lists and charts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import CopyMode


@dataclass(frozen=True)
class SizeRow:
    """Every size of one structure, in bytes, by the names of the D3D12 infos.

    ``compacted`` is None without ALLOW_COMPACTION (POST-4). ``result_max``, ``scratch`` and ``update_scratch`` are the
    prebuild infos of its inputs and flags.
    """

    name: str
    result_max: int
    scratch: int
    update_scratch: int
    current: int
    compacted: int | None
    serialized: int
    decoded: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class CopyRecord:
    """One copy of a structure of the document.

    ``structure``: of the world that was copied, -1 for the top level. ``copy``: the new structure at an address of its
    own (clone, compact, deserialize), else None. ``data_size``: bytes of the blob or decode (serialize, decode), or of
    the new structure. ``saved``: of the source's bytes. ``file``: where it was written, or empty.
    """

    mode: CopyMode
    structure: int
    source_name: str
    source_size: int
    data_size: int
    seconds: float
    copy: Structure | None = None
    file: str = ""

    @property
    def saved(self) -> int:
        return self.source_size - self.data_size


class UpdateKind(StrEnum):
    """How a deformed bottom level was brought up to date."""

    AS_BUILT = "as built"
    UPDATE_IN_PLACE = "update in place"
    UPDATE_TO_NEW = "update to new"
    REBUILD = "rebuild"


@dataclass(frozen=True)
class UpdateRecord:
    """One step of an update experiment.

    ``amount``: of the deformation, in turns. ``seconds``: of the bottom level alone. ``scratch``: bytes that the call
    asks for. ``sah``: cost of the bottom level. ``box_area``: half the area of all its boxes; ``box_growth``: that by
    the area before the first step, so 1 is as built.
    """

    kind: UpdateKind
    structure: int
    amount: float
    seconds: float
    address: int
    size: int
    scratch: int
    sah: float
    depth: int
    box_area: float
    box_growth: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"kind": str(self.kind)}
