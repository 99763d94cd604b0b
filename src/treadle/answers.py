"""What a person answers a session, of a call that needs a yes or that a crash left uncertain."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from treadle.core.approval import Decision


class Verdict(Struct, frozen=True):
    """The decision about one call; a yes that is an `always` one holds for the rest of the thread.

    It is then for these `kinds` of calls, each one that the question names or a folder above it;
    without kinds for the whole tool, up to the risk of the call. A call whose tool says what a yes
    covers, and names no kinds, can only be allowed by itself: an `always` for it is a mistake.
    """

    decision: Decision
    always: bool = False
    kinds: tuple[str, ...] = ()


class Resolution(Enum):
    """What a person can say about an uncertain call."""

    RUN_AGAIN = "run again"
    FAILED = "failed"
    RESULT = "result"


class Answer(Struct, frozen=True):
    """What a person said; `text` is the result, for `RESULT`."""

    resolution: Resolution
    text: str = ""
