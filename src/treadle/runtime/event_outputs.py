"""What people are told of an event once it is on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from treadle import outputs
from treadle.core.events import (
    Compacted,
    LlmEvent,
    PostToolsHookCompleted,
    ResultsMasked,
    ToolCompleted,
)
from treadle.core.messages import ToolCall
from treadle.core.tools import Status, ToolExecutionStatus
from treadle.outputs import Output
from treadle.thread.codec import Event
from treadle.thread.web_searches import describe_web_search, list_web_searches


def make_event_output(event: Event, round_: Sequence[tuple[ToolCall, Status]]) -> Output | None:
    """The output of an event that the machine took; `None` if there is nothing to tell.

    Args:
        event: as it was recorded.
        round_: the calls in flight when it arrived.
    """
    if not isinstance(event, ToolCompleted):
        make = _EVENT_OUTPUTS.get(type(event))
        return None if make is None else make(event)
    if not round_:
        return None
    call, status = next(one for one in round_ if one[0].id == event.call_id)
    is_new = isinstance(status, ToolExecutionStatus.Pending) or getattr(status, "uncertain", False)
    told = call if is_new else None
    return outputs.ToolFinished(event.call_id, call.tool_name, event.outcome, told)


def _make_answer_notice(event: LlmEvent.Completed) -> outputs.Notice | None:
    response = event.response
    told = [describe_web_search(one) for one in list_web_searches(response.message)]
    if response.finish_reason == "length":
        told.append(
            "the answer was cut: it reached the limit of tokens for one response (max_tokens) or "
            "of the model's context"
        )
    elif response.finish_reason == "pause_turn":
        told.append("the provider paused after many searches; say so if it should go on")
    elif not response.message.content.strip() and not response.tool_calls:
        told.append("the model answered nothing")
    return outputs.Notice("\n".join(told)) if told else None


_EVENT_OUTPUTS: Final[Mapping[type, Callable[[Any], Output | None]]] = {
    PostToolsHookCompleted: lambda event: outputs.HookFinished(event.action_taken, event.note),
    Compacted: lambda event: outputs.Notice(
        f"the model is shown a summary in place of the first {event.through} messages"
    ),
    ResultsMasked: lambda event: outputs.Notice(
        f"the model is not shown old results among the first {event.masking.through} messages"
    ),
    LlmEvent.Completed: _make_answer_notice,
}
