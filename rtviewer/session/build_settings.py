"""Which build flags can be built now, and why others cannot."""

from __future__ import annotations

from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.rules import check_build_flags
from rtviewer.errors import Violation, violation
from rtviewer.session.state import BuildSettings


def check_build_settings(settings: BuildSettings, profile: Profile = DEFAULT_PROFILE) -> list[Violation]:
    """Every reason why these settings cannot be built: broken rules, then flags that no builder answers to yet."""
    found = check_build_flags(
        settings.blas_flags, AccelerationStructureType.BOTTOM_LEVEL, profile, field="BLAS Inputs.Flags"
    ) + check_build_flags(settings.tlas_flags, AccelerationStructureType.TOP_LEVEL, profile, field="TLAS Inputs.Flags")
    found = [v for v in found if v.rule != "BLD-1"]  # whether there is a source to update is not a setting
    if found:
        return found
    for flag, reason in unavailable_build_flags(profile).items():
        for name, word in (("BLAS", settings.blas_flags), ("TLAS", settings.tlas_flags)):
            if word & flag:
                field_name = f"{name} Inputs.Flags"
                found.append(
                    violation(flag.meaning.rule, f"{flag.name}: {reason}", field=field_name, value=f"{int(word):#x}")
                )
    return found


def unavailable_build_flags(profile: Profile = DEFAULT_PROFILE) -> dict[BuildFlag, str]:
    """Flags that cannot be set now, each with the reason: not in the profile (BF-1), or not built here."""
    from rtviewer.build.plan import NOT_IN_A_PLAIN_BUILD, WITHOUT_EFFECT

    reasons: dict[BuildFlag, str] = {}
    for flag in BuildFlag:
        if not int(flag):
            continue
        if not flag & profile.known_build_flags:
            reasons[flag] = f"[BF-1] not available in {profile}"
        elif flag in NOT_IN_A_PLAIN_BUILD:
            reasons[flag] = NOT_IN_A_PLAIN_BUILD[flag]
        elif flag in WITHOUT_EFFECT:
            reasons[flag] = WITHOUT_EFFECT[flag]
    return reasons
