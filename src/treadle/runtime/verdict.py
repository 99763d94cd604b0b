"""What a person says of a call that needs a yes."""

from __future__ import annotations

from msgspec import Struct

from treadle.core.approval import Decision


class Verdict(Struct, frozen=True):
    """The decision about one call; `always` grants its tool for the rest of the thread."""

    decision: Decision
    always: bool = False
