"""How messages of another branch of a conversation join this one. Pure.

Providers refuse a session in which a call has no result, or a result no call. So the messages of a
branch are made whole first, and their calls get fresh ids where this conversation has theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from treadle.core.assistant_message import normalize_assistant_message
from treadle.core.conversation import Conversation
from treadle.core.messages import Message, ToolCall

UNKNOWN_OUTCOME: Final = (
    "ERROR: this call was open on another machine when its part of the conversation was joined to "
    "this one. It may or may not have happened: find out before you repeat it."
)
"""What the model reads as the result of a call that had none where it was made."""


def pair_calls_with_results(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages with each call followed by exactly one result, in the order of the calls.

    A result whose call is not among them becomes a note; a call without one is answered.
    """
    whole: list[Message] = []
    open_calls: dict[str, ToolCall] = {}
    results: dict[str, Message] = {}
    strays: list[Message] = []

    def answer() -> None:
        whole.extend(
            results.get(call_id) or Message.tool(call, UNKNOWN_OUTCOME)
            for call_id, call in open_calls.items()
        )
        whole.extend(strays)
        open_calls.clear()
        results.clear()
        strays.clear()

    for message in messages:
        call_id = message.tool_call_id or ""
        if message.role != "tool":
            answer()
            whole.append(message)
            open_calls.update((call.id, call) for call in message.tool_calls)
        elif call_id in open_calls and call_id not in results:
            results[call_id] = message
        else:
            name = message.name or "a tool"
            note = Message.note(f"[What {name} had said there]\n{message.content}")
            strays.append(replace(note, attachments=message.attachments))
    answer()
    return tuple(whole)


def join_messages(conversation: Conversation, messages: Iterable[Message]) -> Conversation:
    """The conversation and, behind it, messages that are whole; calls whose ids it has get others.

    Costs time in proportion to the messages that join.
    """
    fresh: dict[str, str] = {}
    for message in messages:
        if message.role == "assistant":
            joined = normalize_assistant_message(message, conversation)
            pairs = zip(message.tool_calls, joined.tool_calls, strict=True)
            fresh = {was.id: now.id for was, now in pairs}
        elif message.tool_call_id is None:
            joined = message
        else:
            call_id = fresh.get(message.tool_call_id, message.tool_call_id)
            joined = replace(message, tool_call_id=call_id)
        conversation = conversation.append(joined)
    return conversation
