"""The seven states. Each carries its own context; nothing is kept beside the state."""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

from msgspec import Struct

from treadle.core.conversation import Conversation
from treadle.core.llm import LlmError, LlmRequest, LlmResponse
from treadle.core.tools import CompletedToolInfo, Status


class ErrorOrigin(Enum):
    """Where a failure came from; only the model's are retried."""

    LLM = "llm"
    TOOL = "tool"
    IO = "io"


class WaitingForUserInput(Struct, frozen=True):
    """Idle: the beginning, and the end of every turn."""

    conversation: Conversation


class CallingLlm(Struct, frozen=True):
    """A request is out; `retries` were made before it."""

    conversation: Conversation
    retries: int = 0


class ProcessingLlmResponse(Struct, frozen=True):
    """A response is being examined; left within the same event, so never seen from outside."""

    conversation: Conversation
    response: LlmResponse


class ExecutingTools(Struct, frozen=True):
    """Calls are open; `executions` stand in request order."""

    conversation: Conversation
    executions: tuple[Status, ...]


class PostToolsHook(Struct, frozen=True):
    """The hook runs; the request that follows it is already decided."""

    conversation: Conversation
    pending_llm_request: LlmRequest
    completed_tools: tuple[CompletedToolInfo, ...]


class Error(Struct, frozen=True):
    """Waiting `delay_s` seconds before retry number `retries`."""

    conversation: Conversation
    error: LlmError
    retries: int
    origin: ErrorOrigin
    delay_s: float = 0.0


class ShuttingDown(Struct, frozen=True):
    """The end; carries nothing, because the thread was settled before."""


AgentState: TypeAlias = (
    WaitingForUserInput
    | CallingLlm
    | ProcessingLlmResponse
    | ExecutingTools
    | PostToolsHook
    | Error
    | ShuttingDown
)

STATES: Final[tuple[type[AgentState], ...]] = AgentState.__args__
