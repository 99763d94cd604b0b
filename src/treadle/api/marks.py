"""How a place in a thread's chain is written in HTTP: as an entity tag, `"12-<hash>"`. Pure."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from treadle.thread.record import GENESIS

SEQ_MAX: Final = 2**53 - 1
"""No journal is longer; every JSON reader has this number as it is."""

_TAG: Final = re.compile(r'(?:W/)?"(\d{1,16})-([0-9a-f]{32})"')
_VERSION: Final = re.compile(r'(?:W/)?"?(\d{1,16})"?')


class Mark(Struct, frozen=True, order=True):
    """A record of a thread: its number and its chain hash, which covers all before it.

    Without arguments: before the first record.
    """

    seq: int = 0
    hash: str = GENESIS

    @property
    def tag(self) -> str:
        """As `ETag` and `If-Match` have it, quotes included."""
        return f'"{self.seq}-{self.hash}"'


def parse_tag(text: str) -> Mark | None:
    """The place that an entity tag names; `None` if it names none."""
    found = _TAG.fullmatch(text.strip())
    return Mark(int(found[1]), found[2]) if found and int(found[1]) <= SEQ_MAX else None


def parse_version(text: str) -> int | None:
    """The version alone that a tag, or a plain number, names; `None` if it names none."""
    mark = parse_tag(text)
    found = _VERSION.fullmatch(text.strip())
    if mark is not None or found is None:
        return None if mark is None else mark.seq
    return int(found[1]) if int(found[1]) <= SEQ_MAX else None
