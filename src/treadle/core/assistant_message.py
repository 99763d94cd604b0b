"""How a model's message enters a conversation: as the assistant's, each call with an id of its own.

A call id that is empty or was used before gets a fresh one. With results that follow in request
order this keeps every request such that each call has exactly one result, which providers demand.
"""

from __future__ import annotations

from msgspec.structs import replace

from treadle.core.conversation import Conversation
from treadle.core.messages import Message, ToolCall


def normalize_assistant_message(message: Message, conversation: Conversation) -> Message:
    """The message itself if nothing is wrong with it; else what of it can be accepted."""
    calls = _make_ids_unique(message.tool_calls, conversation)
    if message.role == "assistant" and calls is message.tool_calls and not message.tool_call_id:
        return message
    return Message(
        "assistant",
        message.content,
        calls,
        interrupted=message.interrupted,
        native=message.native,
    )


def _make_ids_unique(
    calls: tuple[ToolCall, ...], conversation: Conversation
) -> tuple[ToolCall, ...]:
    """The calls themselves if their ids are fresh; else with deterministic new ids where not."""
    seen: set[str] = set()
    fresh: list[ToolCall] = []
    for index, call in enumerate(calls):
        call_id = call.id
        if not call_id or call_id in seen or conversation.has_call(call_id):
            stem = f"{call_id or 'call'}-{len(conversation)}-{index}"
            call_id = stem
            while call_id in seen or conversation.has_call(call_id):
                call_id += "x"
            call = replace(call, id=call_id)
        seen.add(call_id)
        fresh.append(call)
    return calls if all(map(_is_same, fresh, calls)) else tuple(fresh)


def _is_same(one: object, other: object) -> bool:
    return one is other
