"""Messages and the calls in them. Values only."""

from __future__ import annotations

from typing import Final, Literal, Self, TypeAlias

from msgspec import Struct

Role = Literal["system", "user", "assistant", "tool"]


NOTE: Final = "note"
"""The name of a user message that no person wrote. Providers are not told of it."""


def is_by_person(message: Message) -> bool:
    """Whether a person said it: neither a model nor a tool, and no note."""
    return message.role == "user" and message.name != NOTE


def cut_middle_bytes(text: str, size: int) -> str:
    """The text if it has at most `size` bytes, else its beginning and its end, and what is missing.

    The size is that of UTF-8, four bytes of which are about a token in any script.
    """
    data, half = text.encode(), size // 2
    if len(data) <= size:
        return text
    start, end = (
        data[:half].decode(errors="ignore"),
        data[len(data) - half :].decode(errors="ignore"),
    )
    left_out = len(text) - len(start) - len(end)
    return f"{start}\n[... {left_out} characters left out ...]\n{end}"


class ToolCall(Struct, frozen=True, gc=False):
    """A model's wish to run a tool.

    `arguments_json` is the JSON text exactly as the model wrote it: sent back byte for byte, so
    that prompt caches stay warm, and possibly malformed; whoever runs the tool parses it.
    """

    id: str
    tool_name: str
    arguments_json: str = "{}"


class TextPart(Struct, frozen=True, tag="text", gc=False):
    """The next `length` characters of the message's `content`; a block of its own."""

    length: int


class CallPart(Struct, frozen=True, tag="call", gc=False):
    """The next of the message's `tool_calls`."""


class OpaquePart(Struct, frozen=True, tag="opaque", gc=False):
    """A block that only its model understands, as JSON text: thinking with its signature, say."""

    block_json: str


Part: TypeAlias = TextPart | CallPart | OpaquePart


class NativeLayout(Struct, frozen=True, gc=False):
    """How a provider laid out an assistant message, so that it can be sent back as it came.

    `source` is the `provider:model` that wrote it; to every other model the parts mean nothing,
    and `content` and `tool_calls` say it all. Parts that no longer cover the content (a secret in
    it was replaced) mean nothing either.
    """

    source: str
    parts: tuple[Part, ...]


class Message(Struct, frozen=True, omit_defaults=True, gc=False):
    """One entry of the conversation; never edited, never deleted.

    `interrupted` marks an assistant text that was cut short by a cancel. `native` is there if the
    message is more than one text followed by calls.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    interrupted: bool = False
    native: NativeLayout | None = None

    @classmethod
    def user(cls, content: str) -> Self:
        """A message by the person."""
        return cls("user", content)

    @classmethod
    def note(cls, content: str) -> Self:
        """What the agent is told between its own messages, in the person's place: no prompt."""
        return cls("user", content, name=NOTE)

    @classmethod
    def assistant(cls, content: str = "", tool_calls: tuple[ToolCall, ...] = ()) -> Self:
        """A message by the model."""
        return cls("assistant", content, tool_calls)

    @classmethod
    def tool(cls, call: ToolCall, content: str) -> Self:
        """The result of `call`, as the model will read it."""
        return cls("tool", content, (), call.id, call.tool_name)
