"""What was said, in the form of the GenAI conventions: only for who has asked for it.

Messages are JSON text, as a span has no other place for them. Of each text as much is kept as a
collector is glad to take; the whole of it is in the thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec

from treadle.core.llm import LlmResponse
from treadle.core.messages import Message, ToolCall, cut_middle_bytes, describe_attachment

TEXT_SIZE_MAX: Final = 16 * 1024
"""Bytes of one text; what is longer keeps its beginning and its end."""


class ContentFormatter:
    """Makes what was said fit to be sent.

    Args:
        redact: replaces secrets in a text.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact

    def text(self, text: str) -> str:
        """A text without secrets, cut to size: in this order, else half a secret would stay."""
        return cut_middle_bytes(self._redact(text), TEXT_SIZE_MAX)

    def messages(self, messages: Iterable[Message]) -> str:
        """Messages that a model is sent, as JSON."""
        return _encode([self._describe(message) for message in messages])

    def answer(self, response: LlmResponse) -> str:
        """What it answers, as JSON."""
        reason = response.finish_reason or "stop"
        return _encode([{**self._describe(response.message), "finish_reason": reason}])

    def system(self, text: str) -> str:
        """What stands before everything, as JSON."""
        return _encode([{"type": "text", "content": self.text(text)}])

    def _describe(self, message: Message) -> dict[str, Any]:
        if message.role == "tool":
            result = {"type": "tool_call_response", "id": message.tool_call_id or ""}
            return {"role": "tool", "parts": [{**result, "response": self.text(message.content)}]}
        parts: list[dict[str, Any]] = []
        if message.content:
            parts.append({"type": "text", "content": self.text(message.content)})
        parts += [
            {"type": "text", "content": self.text(f"[{describe_attachment(one)}]")}
            for one in message.attachments
        ]
        parts += [self._describe_call(call) for call in message.tool_calls]
        return {"role": message.role, "parts": parts}

    def _describe_call(self, call: ToolCall) -> dict[str, Any]:
        """A call; arguments that are no JSON, as models write some, are the text that they are."""
        text = self.text(call.arguments_json)
        arguments: Any = text
        with suppress(msgspec.DecodeError, RecursionError):
            arguments = msgspec.json.decode(text)
        name = self.text(call.tool_name)
        return {"type": "tool_call", "id": call.id, "name": name, "arguments": arguments}


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()
