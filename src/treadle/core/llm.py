"""What goes to a model and what comes back. Values only."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from treadle.core.conversation import Conversation
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import ToolDefinition


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens of one response; `estimated` when the provider reported none."""

    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        """Sum; an estimate anywhere makes the sum an estimate."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.estimated or other.estimated,
        )


class LlmRequest(Struct, frozen=True):
    """Everything a provider needs for one response; a pure function of thread and configuration."""

    model: str
    messages: Conversation
    tools: tuple[ToolDefinition, ...] = ()
    system: str = ""
    max_tokens: int = 4096
    temperature: float | None = None


class LlmResponse(Struct, frozen=True, omit_defaults=True):
    """A complete answer. Its tool calls are those of its message."""

    message: Message
    usage: Usage | None = None
    finish_reason: str | None = None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls the model asks for, in its order; empty for a final answer."""
        return self.message.tool_calls


class LlmErrorKind(Enum):
    """Why no complete answer came. Whether to try again is a property of the kind."""

    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    BAD_REQUEST = "bad_request"
    CONTEXT_TOO_LONG = "context_too_long"
    CONTENT_FILTERED = "content_filtered"
    INVALID_RESPONSE = "invalid_response"
    INTERNAL = "internal"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER = "server"
    TIMEOUT = "timeout"
    NETWORK = "network"
    CUT_STREAM = "cut_stream"


class LlmError(Struct, frozen=True, omit_defaults=True):
    """A failed request, as data. `retry_after_s` is what the server asked for, if it did."""

    kind: LlmErrorKind
    message: str = ""
    retry_after_s: float | None = None

    @property
    def text(self) -> str:
        """One line for people."""
        words = self.kind.value.replace("_", " ")
        return f"LLM error: {words}: {self.message}" if self.message else f"LLM error: {words}"
