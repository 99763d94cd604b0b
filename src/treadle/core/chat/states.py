"""The nine states. Each carries its own context; nothing is kept beside the state.

Seven are those of the source document; `WaitingForApproval` and `Compacting` are added to them.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

from msgspec import Struct

from treadle.core.approval import Question
from treadle.core.conversation import Conversation
from treadle.core.llm import LlmError, LlmRequest, LlmResponse
from treadle.core.tools import CompletedToolInfo, Status


class ErrorOrigin(Enum):
    """Where a failure came from; only the model's are retried."""

    LLM = "llm"
    TOOL = "tool"
    IO = "io"


class CompactionCause(Enum):
    """Why the conversation is compacted; decides what follows."""

    REQUESTED = "requested"
    """A person asked for it: the machine waits again."""
    NEAR_LIMIT = "near_limit"
    """To make room before the next request, which is sent even if no summary comes."""
    TOO_LONG = "too_long"
    """A request did not fit: it is sent again if a summary comes; else the turn is over."""


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


class WaitingForApproval(Struct, frozen=True):
    """Calls wait for a person's word; no call of their round runs before each has one.

    `executions` stand in request order, `questions` in the order they are to be asked.
    """

    conversation: Conversation
    executions: tuple[Status, ...]
    questions: tuple[Question, ...]


class Compacting(Struct, frozen=True):
    """Room is made among the first `through` messages; `focus` is a person's wish.

    A summary of them is being written, or old results among them are about to be left out.
    """

    conversation: Conversation
    through: int
    cause: CompactionCause
    focus: str = ""


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
    | WaitingForApproval
    | Compacting
)

STATES: Final[tuple[type[AgentState], ...]] = AgentState.__args__
