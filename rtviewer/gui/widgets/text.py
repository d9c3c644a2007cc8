"""Numbers as text: bytes, seconds, counts."""

from __future__ import annotations


def format_bytes(count: float) -> str:
    """``1536`` as ``1.5 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024 or unit == "GiB":
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    raise AssertionError


def format_seconds(seconds: float) -> str:
    """Milliseconds below one second."""
    return f"{seconds * 1e3:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def format_count(count: int, noun: str, plural: str = "") -> str:
    """``1 instance``, ``2,048 instances``; ``plural`` where it is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def format_significant(value: float, digits: int = 3) -> str:
    """Rounded to so many digits, written out where that is short: ``1,060``, ``0.0312``, else ``1.06e7``."""
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    if not exponent or not -3 <= int(exponent) < 6:
        return f"{mantissa}e{int(exponent)}" if exponent else mantissa
    decimals = digits - 1 - int(exponent)
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"


def format_change(new: float, old: float) -> str:
    """``+12 %`` of the old value; empty when there is none or nothing changed."""
    if not old or new == old:
        return ""
    percent = (new - old) / old * 100
    return f"{percent:+.0f} %" if abs(percent) >= 0.5 else ""
