"""Short ways to ask a scripted model and to say what it is shown."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any

from models.conformance import drain, request
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmRequest
from treadle.core.messages import Message, ToolCall
from treadle.models.scripted.provider import ScriptedModel


def play(stream: AsyncIterator[Any]) -> list[Any]:
    """Every event of a stream that never waits; one that waits for the event loop fails."""
    coroutine = drain(stream)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        events: list[Any] = stop.value
        return events
    raise AssertionError("the stream waited")


def answer(model: ScriptedModel, *messages: Message | str, system: str = "") -> str:
    """What the model says; `!` and the kind for an error, `?` for a stream without an end."""
    events = play(model.stream(request(*messages, system=system)))
    match events[-1] if events else None:
        case LlmEvent.Completed(response):
            return response.message.content
        case LlmEvent.Error(error):
            return f"!{error.kind.value}"
        case _:
            return "?"


def completed(model: ScriptedModel, asked: LlmRequest) -> Message:
    return play(model.stream(asked))[-1].response.message


CALL = ToolCall("c1", "read_file")


def after(user: str, *results: str, tool: str = "read_file") -> list[Message]:
    """A turn in which a tool was called once for each result."""
    call = ToolCall("c1", tool)
    rounds = [(Message.assistant("", (call,)), Message.tool(call, result)) for result in results]
    return [Message.user(user), *itertools.chain.from_iterable(rounds)]
