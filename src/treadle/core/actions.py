"""What a machine asks the world to do. Whoever drives it performs them."""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

from treadle.core.approval import Question
from treadle.core.llm import LlmRequest
from treadle.core.messages import ToolCall
from treadle.core.tools import CompletedToolInfo, Outcome


class SendLlmRequest(Struct, frozen=True):
    """Stream a response and feed its events back."""

    request: LlmRequest


class ExecuteTools(Struct, frozen=True):
    """Run these calls, concurrently if you like; feed back `CallAssessed` before each begins."""

    calls: tuple[ToolCall, ...]


class StartCall(Struct, frozen=True):
    """This call may run as things stand: record `ToolStarted`, then run it."""

    call_id: str


class AskPerson(Struct, frozen=True):
    """This call needs a yes as things stand: record `ApprovalRequired`, or ask if it is open."""

    question: Question


class RefuseCall(Struct, frozen=True):
    """This call must not run as things stand: record how it ends."""

    call_id: str
    outcome: Outcome


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


class MaskResults(Struct, frozen=True):
    """Say which tool gives old results again; feed back `ResultsMasked`.

    Results among the first `through` messages of the conversation are left out, if they have more
    than `size` bytes.
    """

    through: int
    size: int


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
    | StartCall
    | AskPerson
    | RefuseCall
    | RequestApproval
    | Summarize
    | MaskResults
    | RunState
    | RunPostToolsHook
    | WaitForInput
    | DisplayMessage
    | DisplayError
    | Shutdown
)

WAIT: Final = WaitForInput()
"""The one value of `WaitForInput`; actions are compared by type or value, never by identity."""
