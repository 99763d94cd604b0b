"""A model for tests that calls every tool once, and then answers in the form that is asked for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

import msgspec

from treadle.core.budget import estimate_tokens
from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmRequest, LlmResponse, ModelTraits, Usage
from treadle.core.messages import NOTE, Message, ToolCall
from treadle.core.task.request import find_form
from treadle.core.tools import ToolDefinition
from treadle.models.scripted.schema_sample import make_sample


class TestModel:
    """A provider that needs no script: it finds out that an agent and its tools fit together.

    In each turn it calls every tool once, with the simplest arguments of its schema, and then
    answers: the simplest value of the form that is asked for, or `text`.

    Args:
        text: what it answers where no form is asked for.
        tools: the names of the tools that it calls; all if not said.
    """

    __test__ = False  # pytest takes what is called so for a test

    def __init__(self, text: str = "Done.", tools: Sequence[str] | None = None) -> None:
        self.name: Final = "test"
        self._text = text
        self._tools = tools
        self.requests: list[LlmRequest] = []
        """What it was asked, in order."""

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        """See `Provider`."""
        self.requests.append(request)
        message = self._answer(request)
        if message.content:
            yield LlmEvent.TextDelta(message.content)
        usage = Usage(estimate_tokens(sum(len(one.content) for one in request.messages)), 1)
        reason = "tool_calls" if message.tool_calls else "stop"
        yield LlmEvent.Completed(LlmResponse(message, usage, reason))

    def _answer(self, request: LlmRequest) -> Message:
        called: set[str] = set()
        for message in reversed(request.messages):
            if message.role == "user" and message.name != NOTE:
                break
            called.update(call.tool_name for call in message.tool_calls)
        due = [tool for tool in request.tools if self._is_due(tool, called)]
        calls = [
            ToolCall(f"call-{len(request.messages)}-{index}", tool.name, _make_arguments(tool))
            for index, tool in enumerate(due)
        ]
        if calls:
            return Message.assistant("", tuple(calls))
        form = find_form(request.system)
        return Message.assistant(
            self._text if form is None else msgspec.json.encode(make_sample(form)).decode()
        )

    def _is_due(self, tool: ToolDefinition, called: set[str]) -> bool:
        return tool.name not in called and (self._tools is None or tool.name in self._tools)

    def traits(self, model: str) -> ModelTraits:
        """It has no limits."""
        return ModelTraits(sees_images=True, reads_pdf=True)

    async def count_tokens(self, request: LlmRequest) -> int | None:
        """It does not say."""
        return None

    async def aclose(self) -> None:
        """There is nothing to free."""


def _make_arguments(tool: ToolDefinition) -> str:
    return msgspec.json.encode(make_sample(tool.input_schema)).decode()
