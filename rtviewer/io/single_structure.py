"""A blob opened by itself: a bottom level, or a top level with the files of its bottom levels (``--blas``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rtviewer.accel.structure import Structure
from rtviewer.errors import FileFormatError
from rtviewer.io.blob_file import description_of, read_blob
from rtviewer.io.bottom_level_files import BottomLevelFile, matched_files
from rtviewer.io.structure_set import StructureSet, deserialized

FIRST_ADDRESS = 0x1_0000_0000
ALIGNMENT = 256


def read_single_blob(path: Path, data: bytes, bottom_levels: Sequence[BottomLevelFile] = ()) -> StructureSet:
    """Deserialize a blob at new addresses, its bottom levels first; the pointers of a top level are patched (SER-5).

    Raises FileFormatError for a damaged blob, a bottom level's blob with ``bottom_levels``, and files that do not match
    the addresses.
    """
    description = description_of(data)
    if description.pointer_count == 0:
        structure = deserialized(path, data, name=path.stem, address=FIRST_ADDRESS)
        if structure.is_top_level:
            return StructureSet(path.stem, structure, ())
        if bottom_levels:
            raise FileFormatError(path, "this blob is a bottom level, which has none below; --blas is of no use")
        return StructureSet(path.stem, None, (structure,))
    old = description.pointers
    blases: list[Structure] = []
    patched = np.zeros_like(old)
    address = FIRST_ADDRESS
    for old_address, file in matched_files(path, old, bottom_levels).items():
        blas = deserialized(file, read_blob(file), name=file.stem, address=address)
        if blas.is_top_level:
            raise FileFormatError(file, "a top level where a bottom level is needed")
        patched[old == old_address] = address
        blases.append(blas)
        address = -(-(address + blas.size) // ALIGNMENT) * ALIGNMENT
    tlas = deserialized(path, data, name=path.stem, address=address, pointers=patched)
    return StructureSet(path.stem, tlas, tuple(blases))
