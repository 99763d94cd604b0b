"""What goes to a model and what comes back. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from treadle.core.conversation import Conversation
from treadle.core.messages import Attachment, Message, ToolCall
from treadle.core.tools import ToolDefinition


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens, and what they cost; a sum over responses is again a usage.

    `input_tokens` are all tokens read, those from and into the provider's cache included
    (`cache_read_tokens`, `cache_write_tokens`); `output_tokens` are all tokens written, reasoning
    included (`reasoning_tokens`). `cost_usd` is what the priced ones cost at the time,
    `None` if there are none; `unpriced_tokens` are those, in and out, whose price nobody knew.
    `estimated` says that a provider reported nothing and tokens were guessed. `web_searches` are
    those that the provider made, which it may charge for besides.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: Decimal | None = None
    unpriced_tokens: int = 0
    web_searches: int = 0

    @property
    def total_tokens(self) -> int:
        """Tokens in and out."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """Sum; an estimate anywhere makes the sum an estimate."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.estimated or other.estimated,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            _sum(self.cost_usd, other.cost_usd),
            self.unpriced_tokens + other.unpriced_tokens,
            self.web_searches + other.web_searches,
        )


def _sum(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    if one is None or other is None:
        return one if other is None else other
    return one + other


class ModelTraits(Struct, frozen=True, omit_defaults=True):
    """What a model can do and how much of it, as far as is known; `None` is not known.

    `reasoning` is how it is asked to think: `none` (it cannot), `effort` (a level), `budget`
    (a number of tokens), `adaptive` (by itself, with a level). Of a model that `sees_images` or
    `reads_pdf` pictures and documents are shown to it; of any other a note stands for them.
    `family` names the shape in which it knows tools (`core/tool_families.py`). With `native_output`
    its provider holds it to the form of an answer.
    """

    context_tokens_max: int | None = None
    output_tokens_max: int | None = None
    reasoning: Literal["none", "effort", "budget", "adaptive"] = "none"
    has_tools: bool = True
    has_temperature: bool = True
    sees_images: bool | None = None
    reads_pdf: bool | None = None
    family: str = ""
    native_output: bool | None = None


_LACKS: Final = {
    ("image", False): "this model does not see pictures",
    ("image", None): "it is not known whether this model sees pictures",
    ("pdf", False): "this model does not read PDF documents",
    ("pdf", None): "it is not known whether this model reads PDF documents",
}


def explain_blindness(attachment: Attachment, traits: ModelTraits) -> str:
    """Why a model is not shown an attachment; empty if it is."""
    has = traits.sees_images if attachment.kind == "image" else traits.reads_pdf
    return _LACKS.get((attachment.kind, has), "")


Reasoning: TypeAlias = Literal["default", "off", "low", "medium", "high"]
"""How much a model is to think before it answers; `default` leaves it to the model."""


class LlmRequest(Struct, frozen=True):
    """Everything a provider needs for one response; a pure function of thread and configuration.

    `max_tokens` bounds what the answer may have; 0 leaves it to the provider. With `web_search` the
    provider may search the web for the model, where it does that. `contents` has the bytes of what
    the messages show, by their SHA-256; whoever sends the request puts them in, and what is gone is
    not there. To `native_schema` a provider is to hold the answer, if it can: it stands in words in
    `system`, so that the answer can also be had without.
    """

    model: str
    messages: Conversation
    tools: tuple[ToolDefinition, ...] = ()
    system: str = ""
    max_tokens: int = 4096
    temperature: float | None = None
    reasoning: Reasoning = "default"
    web_search: bool = False
    contents: dict[str, bytes] = {}
    native_schema: dict[str, Any] | None = None


class LlmResponse(Struct, frozen=True, omit_defaults=True):
    """A complete answer. Its tool calls are those of its message.

    `finish_reason` is `stop`, `tool_calls`, `length` (cut by a limit of tokens), `refusal` (the
    model declined in words), or what else the provider said. `confidence` is how sure the model is
    of it, 0.0 to 1.0; `None` where nobody says, which counts as sure.
    """

    message: Message
    usage: Usage | None = None
    finish_reason: str | None = None
    confidence: float | None = None

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


_K = LlmErrorKind

ADVICE: Final[Mapping[LlmErrorKind, str]] = MappingProxyType(
    {
        _K.AUTHENTICATION: "check the key: `treadle doctor` says where it comes from",
        _K.PERMISSION: "ask for access or credit, or choose another model",
        _K.NOT_FOUND: "check the model's name and the base URL: `treadle models` lists them",
        _K.BAD_REQUEST: "the provider refuses this request as it is; the thread is intact",
        _K.CONTEXT_TOO_LONG: "the conversation is too long for this model: choose one that "
        "reads more, or start a new thread",
        _K.CONTENT_FILTERED: "put the request in other words",
        _K.INVALID_RESPONSE: "check the base URL: what answers there does not speak the "
        "provider's format",
        _K.INTERNAL: "a fault of the adapter; the thread is intact: please report it",
        _K.RATE_LIMITED: "wait and go on, or raise the limit of your account",
        _K.OVERLOADED: "wait and go on, or choose another model",
        _K.SERVER: "the fault is the provider's: wait and go on",
        _K.TIMEOUT: "check the network, then go on",
        _K.NETWORK: "check the network and the base URL, then go on",
        _K.CUT_STREAM: "go on: nothing of the unfinished answer was used",
    }
)
"""What the person should do, by kind."""


class LlmError(Struct, frozen=True, omit_defaults=True):
    """A failed request, as data.

    `retry_after_s` is what the server asked for, if it did; `usage` what the attempt is known to
    have used all the same.
    """

    kind: LlmErrorKind
    message: str = ""
    retry_after_s: float | None = None
    usage: Usage | None = None

    @property
    def text(self) -> str:
        """One line for people."""
        words = self.kind.value.replace("_", " ")
        return f"LLM error: {words}: {self.message}" if self.message else f"LLM error: {words}"

    @property
    def advice(self) -> str:
        """What the person should do."""
        return ADVICE[self.kind]
