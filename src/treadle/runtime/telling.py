"""What people are told of an event once it is on disk."""

from __future__ import annotations

from treadle.core.chat.states import AgentState, ExecutingTools
from treadle.core.events import (
    DurableEvent,
    LlmEvent,
    PostToolsHookCompleted,
    ToolCompleted,
)
from treadle.core.llm import LlmResponse
from treadle.runtime import outputs
from treadle.runtime.outputs import Output


def output_of(event: DurableEvent, before: AgentState) -> Output | None:
    """The output of an event that the machine took; `None` if there is nothing to tell.

    Args:
        event: as it was recorded.
        before: the state it arrived in.
    """
    if isinstance(event, ToolCompleted) and isinstance(before, ExecutingTools):
        name = next(s.tool_name for s in before.executions if s.call_id == event.call_id)
        return outputs.ToolFinished(event.call_id, name, event.outcome)
    if isinstance(event, PostToolsHookCompleted):
        return outputs.HookFinished(event.action_taken, event.note)
    if isinstance(event, LlmEvent.Completed):
        return _about_answer(event.response)
    return None


def _about_answer(response: LlmResponse) -> Output | None:
    if response.finish_reason == "length":
        return outputs.Notice(
            "the answer was cut: it reached the limit of tokens for one response (max_tokens) or "
            "of the model's context"
        )
    if not response.message.content.strip() and not response.tool_calls:
        return outputs.Notice("the model answered nothing")
    return None
