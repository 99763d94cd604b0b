"""The calls of sub-agents: who is at work on which, and what they may use and have used."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

from treadle.core.budget import TokenBudget
from treadle.core.events import ToolCompleted
from treadle.core.llm import Usage
from treadle.core.messages import ToolCall
from treadle.core.tools import Outcome, ToolDefinition, ToolExecutionStatus, ToolProgress
from treadle.errors import StoreError
from treadle.runtime.approvals import Approvals
from treadle.runtime.store_calls import call_store
from treadle.runtime.subagents import (
    ChildEngine,
    ParentCall,
    SubAgent,
    cancel_sub_agent_call,
    reject_unattended,
    run_sub_agent,
)
from treadle.runtime.thread_journal import ThreadJournal
from treadle.thread.facts import ChildStarted


class SubAgentCalls:
    """Works on calls of sub-agents.

    Args:
        journal: the thread they work for.
        agents: the tools whose calls are worked on so.
        approvals: who asks a person for them.
        budget_left: what one that begins now may use at most, with those at work.
    """

    def __init__(
        self,
        journal: ThreadJournal,
        agents: Sequence[SubAgent],
        approvals: Approvals,
        budget_left: Callable[[], TokenBudget | None],
    ) -> None:
        self._journal = journal
        self._agents: dict[str, SubAgent] = {}
        self.offer(agents)
        self._approvals = approvals
        self._budget_left = budget_left
        self._at_work: dict[str, ChildEngine] = {}

    def offer(self, agents: Sequence[SubAgent] | None) -> None:
        """Offer these from now on, `None` those as before; calls of others at work go on."""
        if agents is None:
            return
        self._offered = tuple(agents)
        self._agents.update({agent.name: agent for agent in agents})

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools as the model is told of them."""
        return tuple(agent.definition for agent in self._offered)

    @property
    def usage(self) -> Usage:
        """What those have used that are at work."""
        return sum((child.total_usage for _, child in self._list_open_children()), Usage())

    def delegate(
        self, call: ToolCall, progress: Callable[[ToolProgress], None]
    ) -> Coroutine[Any, Any, tuple[Outcome, Usage | None]] | None:
        """Work on a call that ends with its outcome and usage; `None` if it is no sub-agent's."""
        agent = self._agents.get(call.tool_name)
        if agent is None:
            return None
        fold = self._journal.fold
        ask = self._approvals.ask_for_verdict if self._approvals.has_person else reject_unattended
        origin = ParentCall(
            self._journal.writer.thread_id,
            call.id,
            fold.header.depth + 1,
            self._share_budget(),
            ask,
            fold.is_private,
            fold.machine.config,
            progress,
            call.tool_name,
            self._journal.emit,
        )
        return run_sub_agent(
            agent, call, origin, fold.children, self._record_child, self._at_work, self._open
        )

    def follow_configuration(self) -> None:
        """Have those at work go by what holds in the thread they work for from now on."""
        for call, child in self._list_open_children():
            # One whose own thread cannot be written to ends by that.
            with suppress(StoreError):
                self._agents[call.tool_name].follow(child, self._journal.machine.config)

    def complete_stopped(self, reason: str) -> Iterable[ToolCompleted]:
        """What sub-agents used that were at work; else it would be lost with their calls."""
        for call, child in self._list_open_children():
            outcome = cancel_sub_agent_call(call, child, reason)
            yield ToolCompleted(call.id, outcome, self._journal.now(), child.total_usage)
        self._at_work.clear()

    def _list_open_children(self) -> list[tuple[ToolCall, ChildEngine]]:
        """The calls that are not over, with the sub-agents that were at work on them."""
        return [
            (call, self._at_work[call.id])
            for call, status in self._journal.machine.round
            if call.id in self._at_work and not isinstance(status, ToolExecutionStatus.Completed)
        ]

    def _share_budget(self) -> TokenBudget | None:
        """What is left, shared by the sub-agents whose calls are open: together they stay in it."""
        left = self._budget_left()
        open_count = sum(
            call.tool_name in self._agents and not isinstance(status, ToolExecutionStatus.Completed)
            for call, status in self._journal.machine.round
        )
        return None if left is None else left.split_between(max(1, open_count))

    async def _open(self, opening: Callable[[], ChildEngine]) -> ChildEngine:
        is_slow = self._journal.writer.has_slow_sync
        return await call_store(is_slow, opening, lambda child: child.abandon())

    async def _record_child(self, call_id: str, thread_id: str) -> None:
        self._journal.stage(ChildStarted(call_id, thread_id))
        await self._journal.commit_beside()
