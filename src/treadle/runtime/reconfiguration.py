"""What a person changes while a session is open: mode, model, tools. It holds from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from treadle.answers import Verdict
from treadle.core.approval import Approved, Decision, OnlyRead, Question, Rejected
from treadle.core.messages import ToolCall
from treadle.core.tools import EffectClass, Outcome, ToolError, ToolErrorKind, ToolExecutionOutcome
from treadle.runtime.calls import PLAN_MODE_REASON
from treadle.runtime.performer import Performer
from treadle.runtime.ports import Writer
from treadle.thread.facts import Configured

READ: Final = EffectClass.READ


def reject_withdrawn(call: ToolCall) -> Outcome:
    """How a call ends whose tool a person has taken away before it began."""
    error = ToolError(ToolErrorKind.REJECTED, _explain_withdrawal(call))
    return ToolExecutionOutcome.Error(call.id, error)


def _explain_withdrawal(call: ToolCall) -> str:
    return (
        f"a person has changed what may be used meanwhile, and {call.tool_name} is not offered any "
        "more; it was not run"
    )


class Reconfiguration:
    """What becomes of the open questions and calls of a session.

    Args:
        writer: the thread.
        performer: whose tools judge calls.
    """

    def __init__(self, writer: Writer, performer: Performer) -> None:
        self._writer = writer
        self._performer = performer
        self.withdrawn: set[str] = set()
        """Tools that were offered in this session and are not any more."""
        self._has_changed = False
        self._open: Question | None = None
        self._settled = asyncio.Event()

    def apply(self, configuration: Configured) -> Configured:
        """Stage another configuration; a person who is asked what it settles is asked no more."""
        fold = self._writer.fold
        old = fold.machine.config
        if configuration != Configured(old, fold.provider):
            self._writer.stage(configuration)
        new = fold.machine.config
        offered = {tool.name for tool in new.tools}
        self.withdrawn = {*self.withdrawn, *(tool.name for tool in old.tools)} - offered
        self._has_changed = True
        if self._open is not None and self.find_decision(self._open) is not None:
            self._settled.set()
        return configuration

    def find_decision(self, question: Question) -> Decision | None:
        """What a change says about a question that was open before it; `None`: a person is asked.

        A call whose tool was taken away does not run; one that needs no yes now goes on without.
        """
        if not self._has_changed:
            return None
        call, tools = question.call, self._performer.tools
        if call.tool_name in self.withdrawn:
            return Rejected(_explain_withdrawal(call))
        config = self._writer.fold.machine.config
        if isinstance(config.approval, OnlyRead) and config.effect_of(call.tool_name) is not READ:
            return Rejected(PLAN_MODE_REASON)
        now = config.make_question(call, tools.risk_of(call), tools.scope_of(call))
        return Approved() if now is None else None

    async def wait_for_verdict(
        self, question: Question, approval: Coroutine[Any, Any, Verdict]
    ) -> Verdict | None:
        """What a person says; `None` if a change settles the question before they say it."""
        self._open = question
        self._settled.clear()
        asking = asyncio.ensure_future(approval)
        settled = asyncio.ensure_future(self._settled.wait())
        try:
            await asyncio.wait((asking, settled), return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else None
        finally:
            self._open = None
            asking.cancel()
            settled.cancel()
