"""A picture of which only a lattice was traced: small until someone asks for all its pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.session.image import ImageBuffer, ImageRequest
from rtviewer.shade.picture import RECEIVER_FIELDS, Picture, Receivers
from rtviewer.trace.request import HIT_FIELDS

_LATE = frozenset([*(name for name, _, _, _ in HIT_FIELDS), "counters", "x_ray", "receivers", "valid"])
"""Attributes that are made when first asked for."""


class CoarseBuffer(ImageBuffer):
    """An ImageBuffer whose arrays of full size are made when they are first asked for: while a camera moves, hardly
    any of them is. ``picture`` goes by the lattice alone."""

    def __init__(
        self,
        request: ImageRequest,
        step: int,
        lattice: dict[str, NDArray[Any]],
        *,
        counters: NDArray[np.int32] | None,
        x_ray: NDArray[np.int32] | None,
        receivers: Receivers | None,
        seconds: float,
        rays_traced: int,
    ) -> None:
        """``lattice``: the fields of Hits, (rows, columns) of every ``step``-th pixel, as are the other arrays."""
        kept = self.__dict__  # the fields are frozen
        kept.update(request=request, step=step, seconds=seconds, rays_traced=rays_traced)
        kept.update(lattice=lattice, lattice_counters=counters, lattice_x_ray=x_ray, lattice_receivers=receivers)

    def __getattribute__(self, name: str) -> Any:
        own = object.__getattribute__(self, "__dict__")
        if name not in own and name in _LATE:
            own[name] = self._made(name)
        return object.__getattribute__(self, name)

    def _made(self, name: str) -> Any:
        if name == "valid":
            valid = np.zeros((self.request.height, self.request.width), np.bool_)
            valid[:: self.step, :: self.step] = True
            return valid
        if name in ("counters", "x_ray"):
            array = self.__dict__["lattice_" + name]
            return None if array is None else self._spread(array)
        if name == "receivers":
            coarse: Receivers | None = self.__dict__["lattice_receivers"]
            if coarse is None:
                return None
            return Receivers(coarse.source, **{n: self._spread(getattr(coarse, n)) for n, _, _, _ in RECEIVER_FIELDS})
        return self._spread(self.__dict__["lattice"][name])

    def _spread(self, array: NDArray[Any]) -> NDArray[Any]:
        """The traced pixel of every block in the whole block."""
        wide = array.repeat(self.step, 0).repeat(self.step, 1)
        return np.ascontiguousarray(wide[: self.request.height, : self.request.width])

    def picture(self) -> Picture:
        own = self.__dict__
        return self._picture(own["lattice"], own["lattice_counters"], own["lattice_x_ray"], own["lattice_receivers"])
