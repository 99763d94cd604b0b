"""What a person says of a call that needs a yes, and who asks them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from treadle.answers import Verdict
from treadle.core.approval import Decision, Question
from treadle.errors import UsageError

ApprovalReply: TypeAlias = Decision | Verdict
ApprovalCallback: TypeAlias = Callable[[Question], ApprovalReply | Awaitable[ApprovalReply]]


def wrap_approval_callback(decide: ApprovalCallback) -> Callable[[Question], Awaitable[Verdict]]:
    """A function, sync or async, as the runtime asks it.

    What is no decision raises `UsageError`, and the call waits on: a `True` may mean many things.
    """

    async def approve(question: Question) -> Verdict:
        said = decide(question)
        if inspect.isawaitable(said):
            said = await said
        verdict = said if isinstance(said, Verdict) else Verdict(said)
        if not isinstance(verdict.decision, Decision):
            raise UsageError(
                f"on_approval said {said!r}, which is no decision",
                hint="Approved(), Rejected(reason), Modified(arguments_json), or a Verdict of one",
            )
        return verdict

    return approve
