"""What a device offers: the tier and whether the Xbox additions hold (rules PROF-1 to PROF-3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from rtviewer.dxr.flags import BuildFlag, GeometryFlag, InstanceFlag, RayFlag


class Tier(IntEnum):
    TIER_1_0 = 10
    TIER_1_1 = 11
    TIER_1_2 = 12

    @classmethod
    def parse(cls, text: str) -> Tier:
        """``"1.1"`` to ``TIER_1_1``; ValueError lists the legal texts."""
        try:
            return cls[f"TIER_{text.strip().replace('.', '_')}"]
        except KeyError:
            raise ValueError(f"{text!r} is not a tier: use 1.0, 1.1 or 1.2") from None

    def __str__(self) -> str:
        return f"{self.value // 10}.{self.value % 10}"


@dataclass(frozen=True)
class Profile:
    """The device that rules are checked against. Default: tier 1.1, no Xbox."""

    tier: Tier = Tier.TIER_1_1
    xbox: bool = False

    @property
    def known_build_flags(self) -> BuildFlag:
        """BF-1; ALLOW_DATA_ACCESS is refused everywhere."""
        word = 0xFF if self.tier >= Tier.TIER_1_2 else 0x3F
        return BuildFlag(word | (0x40000000 if self.xbox else 0))

    @property
    def known_ray_flags(self) -> RayFlag:
        """RF-1."""
        word = {Tier.TIER_1_0: 0xFF, Tier.TIER_1_1: 0x3FF, Tier.TIER_1_2: 0x7FF}[self.tier]
        return RayFlag(word | (0x1000 if self.xbox else 0))

    @property
    def known_instance_flags(self) -> InstanceFlag:
        """IF-1."""
        return InstanceFlag(0x3F if self.tier >= Tier.TIER_1_2 else 0x0F)

    @property
    def known_geometry_flags(self) -> GeometryFlag:
        """GF-1."""
        return GeometryFlag(0x3)

    def __str__(self) -> str:
        return f"tier {self.tier}" + (", Xbox" if self.xbox else "")


DEFAULT_PROFILE = Profile()
