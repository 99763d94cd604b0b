"""The plan of an agent in the chat: drawn live while it works, committed once at a turn's end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treadle.core.messages import Message, ToolCall
from treadle.terminal.plan_lines import plan_lines
from treadle.terminal.ports import StyledLine
from treadle.thread.plan import AgentPlan, find_plan, read_plan_call

if TYPE_CHECKING:
    from rich.console import RenderableType


class PlanView:
    """The plan that holds.

    Args:
        is_plain: whether the terminal shows lines only.
    """

    def __init__(self, *, is_plain: bool) -> None:
        self._is_plain = is_plain
        self._plan: AgentPlan | None = None
        self._is_news = False
        """Whether it was told in the turn that runs."""

    def clear(self) -> None:
        """Another thread is at hand."""
        self._plan, self._is_news = None, False

    def restore(self, messages: Sequence[Message]) -> RenderableType | None:
        """Take the plan of a conversation that is gone on with: it as a block, if there is one."""
        self._plan = find_plan(messages)
        return self.block()

    def update(self, call: ToolCall) -> str | None:
        """Take the plan that a call has told: it in a line; `None` if the call tells none."""
        plan = read_plan_call(call)
        if plan is None:
            return None
        self._plan, self._is_news = plan if plan.steps else None, True
        return f"plan: {plan.summary}"

    def end_turn(self) -> RenderableType | None:
        """The plan as a block, if the turn that has ended told it."""
        is_news, self._is_news = self._is_news, False
        return self.block() if is_news else None

    def block(self) -> RenderableType | None:
        """The plan as it stands; `None` if there is none."""
        if self._plan is None:
            return None
        from treadle.terminal.blocks.frames import TrimmedBlock
        from treadle.terminal.blocks.plan import plan_block

        return TrimmedBlock(plan_block(self._plan, is_plain=self._is_plain))

    def live_lines(self, width: int) -> list[StyledLine]:
        """What is drawn of it while the agent works: nothing once all is done."""
        return [] if self._plan is None or self._plan.is_done else plan_lines(self._plan, width)
