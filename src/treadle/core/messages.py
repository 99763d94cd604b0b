"""Messages and the calls in them. Values only."""

from __future__ import annotations

from typing import Literal, Self

from msgspec import Struct

Role = Literal["system", "user", "assistant", "tool"]


class ToolCall(Struct, frozen=True, gc=False):
    """A model's wish to run a tool.

    `arguments_json` is the JSON text exactly as the model wrote it: sent back byte for byte, so
    that prompt caches stay warm, and possibly malformed; whoever runs the tool parses it.
    """

    id: str
    tool_name: str
    arguments_json: str = "{}"


class Message(Struct, frozen=True, omit_defaults=True, gc=False):
    """One entry of the conversation; never edited, never deleted.

    `interrupted` marks an assistant text that was cut short by a cancel.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    interrupted: bool = False

    @classmethod
    def user(cls, content: str) -> Self:
        """A message by the person."""
        return cls("user", content)

    @classmethod
    def assistant(cls, content: str = "", tool_calls: tuple[ToolCall, ...] = ()) -> Self:
        """A message by the model."""
        return cls("assistant", content, tool_calls)

    @classmethod
    def tool(cls, call: ToolCall, content: str) -> Self:
        """The result of `call`, as the model will read it."""
        return cls("tool", content, (), call.id, call.tool_name)
