"""Sizes in words that people read."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024
_SIZE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*(?:([KMGT])i?)?B?", re.IGNORECASE)


def parse_size(text: str) -> int:
    """A number of bytes: `5 GiB`, `5GB` (the same), `1.5 MiB`, `4096`.

    Raises:
        ValueError: it is none.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size; one is like 500 MiB or 5 GiB")
    unit = (found[2] or "").upper()
    return int(float(found[1]) * _STEP ** ("KMGT".index(unit) + 1 if unit else 0))


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
