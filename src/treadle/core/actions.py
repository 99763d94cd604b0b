"""What the conversation machine asks the world to do. Whoever drives it performs them."""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

from treadle.core.llm import LlmRequest
from treadle.core.messages import ToolCall
from treadle.core.tools import CompletedToolInfo


class SendLlmRequest(Struct, frozen=True):
    """Stream a response and feed its events back."""

    request: LlmRequest


class ExecuteTools(Struct, frozen=True):
    """Run these calls, concurrently if you like; feed back `ToolStarted`, `ToolCompleted`."""

    calls: tuple[ToolCall, ...]


class RunPostToolsHook(Struct, frozen=True):
    """A round of tools changed something: run the hook, feed back `PostToolsHookCompleted`."""

    completed_tools: tuple[CompletedToolInfo, ...]


class WaitForInput(Struct, frozen=True):
    """Nothing new to do. In the state `Error`, feed `RetryTimeoutFired` after its `delay_s`."""


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
    | RunPostToolsHook
    | WaitForInput
    | DisplayMessage
    | DisplayError
    | Shutdown
)

WAIT: Final = WaitForInput()
"""The one value of `WaitForInput`; actions are compared by type or value, never by identity."""
