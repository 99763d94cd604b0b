"""What a machine asks the world to do. Whoever drives it performs them."""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

from treadle.core.approval import Question
from treadle.core.llm import LlmRequest
from treadle.core.messages import ToolCall
from treadle.core.tools import CompletedToolInfo


class SendLlmRequest(Struct, frozen=True):
    """Stream a response and feed its events back."""

    request: LlmRequest


class ExecuteTools(Struct, frozen=True):
    """Run these calls, concurrently if you like; feed back `ToolStarted`, `ToolCompleted`."""

    calls: tuple[ToolCall, ...]


class RequestApproval(Struct, frozen=True):
    """Ask a person about these calls; feed back an `ApprovalDecided` for each, now or any later."""

    questions: tuple[Question, ...]


class Summarize(Struct, frozen=True):
    """Have a model write a summary; feed back `Compacted` or `CompactionFailed`.

    `through` is how many messages of the conversation the summary stands for, `words` how much of
    the person's words in them stays (`Compaction`).
    """

    request: LlmRequest
    through: int
    words: int = 0


class RunState(Struct, frozen=True):
    """Run the handler of this state of a custom graph; feed back its `StateCompleted`."""

    state: str


class RunPostToolsHook(Struct, frozen=True):
    """A round of tools changed something: run the hook, feed back `PostToolsHookCompleted`."""

    completed_tools: tuple[CompletedToolInfo, ...]


class WaitForInput(Struct, frozen=True):
    """Nothing new to do. If the machine has a `retry`, feed `RetryTimeoutFired` after its delay."""


class DisplayMessage(Struct, frozen=True):
    """Show this piece of text."""

    text: str


class DisplayError(Struct, frozen=True):
    """Show this failure; the turn is over."""

    text: str


class Shutdown(Struct, frozen=True):
    """Stop; the machine is to be dropped."""


AgentAction: TypeAlias = (
    SendLlmRequest
    | ExecuteTools
    | RequestApproval
    | Summarize
    | RunState
    | RunPostToolsHook
    | WaitForInput
    | DisplayMessage
    | DisplayError
    | Shutdown
)

WAIT: Final = WaitForInput()
"""The one value of `WaitForInput`; actions are compared by type or value, never by identity."""
