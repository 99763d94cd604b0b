"""Sizes in words that people read."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


def human_size(size: int) -> str:
    """A number of bytes with three digits or four, in the unit that fits: `1.5 MiB`."""
    if size < _STEP:
        return f"{size} B"
    value, unit = size / _STEP, _UNITS[0]
    for larger in _UNITS[1:]:
        if value < _STEP - 0.5:
            break
        value, unit = value / _STEP, larger
    return f"{value:.1f} {unit}" if value < 100 else f"{value:.0f} {unit}"
