"""Bottom levels for a top level that came alone: which file holds the one at which address.

``--blas FILE`` in the order of the distinct addresses that the instances name, from low to high (the order in which an
application built them, as a rule), or ``--blas ADDRESS=FILE`` for one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtviewer.errors import FileFormatError


@dataclass(frozen=True)
class BottomLevelFile:
    """``address`` is None where the order of the files decides."""

    path: Path
    address: int | None = None

    @classmethod
    def parse(cls, text: str) -> BottomLevelFile:
        """``FILE`` or ``ADDRESS=FILE``, the address in any base that Python reads."""
        first, separator, rest = text.partition("=")
        if separator and rest:
            try:
                return cls(Path(rest), int(first, 0))
            except ValueError:
                pass  # a file whose name holds an equals sign
        return cls(Path(text))


def addresses_of(pointers: NDArray[np.uint64]) -> list[int]:
    """The distinct addresses other than 0, rising."""
    return [int(address) for address in np.unique(pointers) if int(address)]


def matched_files(top_level: Path, pointers: NDArray[np.uint64], files: Sequence[BottomLevelFile]) -> dict[int, Path]:
    """The file of every address that the instances of ``top_level`` name, in address order.

    Raises FileFormatError when files and addresses do not match one to one.
    """
    addresses = addresses_of(pointers)
    given = {file.address: file.path for file in files if file.address is not None}
    for address in given:
        if address not in addresses:
            found = f"{address:#x}"
            raise FileFormatError(top_level, "no instance names this address", expected=_listed(addresses), found=found)
    rest = [address for address in addresses if address not in given]
    in_order = [file.path for file in files if file.address is None]
    if len(in_order) != len(rest) or len(given) + len(in_order) != len(files):
        raise FileFormatError(
            top_level, "a top level needs one bottom level for each address that its instances name: give --blas FILE "
            "for each, in the order of the addresses, or --blas ADDRESS=FILE",
            expected=f"{len(addresses)} ({_listed(addresses)})", found=len(files),
        )  # fmt: skip
    matched = given | dict(zip(rest, in_order, strict=True))
    return {address: matched[address] for address in addresses}


def _listed(addresses: list[int]) -> str:
    shown = ", ".join(f"{address:#x}" for address in addresses[:8])
    return shown + (f" and {len(addresses) - 8} more" if len(addresses) > 8 else "") or "none"
