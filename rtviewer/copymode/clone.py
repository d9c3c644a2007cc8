"""CLONE: the same structure somewhere else."""

from __future__ import annotations

from rtviewer.accel.encode import seal
from rtviewer.accel.structure import Structure, aligned_bytes
from rtviewer.copymode.dehydrate import check_live
from rtviewer.dxr.rules import require


def clone(source: Structure, *, name: str = "", address: int = 0) -> Structure:
    """A structure with the source's bytes, flags and size at another address [CP-8, CP-10, CP-11].

    Nothing in the bytes names the structure's own address, so there is nothing to fix; pointers of a top level stay
    (CP-16). Raises InvalidInputError for a dehydrated source (XB-5).
    """
    require(check_live(source, "cloned"), "CopyRaytracingAccelerationStructure (CLONE)")
    data = aligned_bytes(source.size)
    data[:] = source.data
    return seal(Structure(data, name or source.name, address))
