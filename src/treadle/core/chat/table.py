"""The transition table of the conversation machine. All of its control flow is in this file.

Two rules hold here:

1. Everything that decides where the machine goes is a row of `TRANSITIONS`; the functions that
   compute the next state's *content* live in `moves.py` and cannot choose a row.
2. There are no functions in the table, only names: it is also what draws the diagram and what the
   tests enumerate (every state, every event, every guard).

How it is read: the rows of a (state, event) pair are tried in order, and the guards of a pair
exclude each other, so that order does not matter. If no row fits, the event is refused: a warning
is logged, nothing changes, the action is `WaitForInput`. An `event` of `None` marks an internal
row: it is taken at once when its state is entered.

Where the rows come from: the rows above the line are those of the source document, literally. The
rows below it add to them and change none: thinking that streams; calls that start, report and
turn out uncertain; and cancelling, which leads back to waiting from every busy state.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct

from treadle.core.actions import (
    AgentAction,
    DisplayError,
    DisplayMessage,
    ExecuteTools,
    RunPostToolsHook,
    SendLlmRequest,
    Shutdown,
    WaitForInput,
)
from treadle.core.chat.states import (
    STATES,
    AgentState,
    CallingLlm,
    Error,
    ExecutingTools,
    PostToolsHook,
    ProcessingLlmResponse,
    ShuttingDown,
    WaitingForUserInput,
)
from treadle.core.events import (
    AgentEvent,
    CancelRequested,
    LlmEvent,
    PostToolsHookCompleted,
    RetryTimeoutFired,
    ShutdownRequested,
    ToolCompleted,
    ToolProgressEvent,
    ToolStarted,
    ToolUncertain,
    UserInput,
)


class Guard(Enum):
    """The conditions of the table, in words; `guards.py` holds the predicate of each."""

    BY_USER = "a message by the user"
    RETRIES_LEFT = "retryable, retries < max"
    GIVE_UP = "not retryable, or retries used up"
    HAS_CALLS = "has tool calls"
    NO_CALLS = "no tool calls"
    OTHERS_OPEN = "open call, others still open"
    LAST_CHANGED = "last open call, a mutating tool succeeded"
    LAST_UNCHANGED = "last open call, no mutation"
    STARTABLE = "call pending or uncertain"
    RUNNING = "call running"
    FROM_LLM = "origin = Llm"


class Row(Struct, frozen=True):
    """In `state`, on `event`, if `guard`: go `to`, and ask the world for `action`."""

    state: type[AgentState]
    event: type[AgentEvent] | None
    guard: Guard | None
    to: type[AgentState]
    action: type[AgentAction] | None


_ASK = WaitingForUserInput, UserInput
_FAIL = CallingLlm, LlmEvent.Error
_DONE = ExecutingTools, ToolCompleted

# fmt: off
TRANSITIONS: Final[tuple[Row, ...]] = (
    Row(*_ASK, Guard.BY_USER, CallingLlm, SendLlmRequest),
    Row(CallingLlm, LlmEvent.TextDelta, None, CallingLlm, DisplayMessage),
    Row(CallingLlm, LlmEvent.ToolCallDelta, None, CallingLlm, WaitForInput),
    Row(CallingLlm, LlmEvent.Completed, None, ProcessingLlmResponse, None),
    Row(*_FAIL, Guard.RETRIES_LEFT, Error, WaitForInput),
    Row(*_FAIL, Guard.GIVE_UP, WaitingForUserInput, DisplayError),
    Row(ProcessingLlmResponse, None, Guard.HAS_CALLS, ExecutingTools, ExecuteTools),
    Row(ProcessingLlmResponse, None, Guard.NO_CALLS, WaitingForUserInput, WaitForInput),
    Row(*_DONE, Guard.OTHERS_OPEN, ExecutingTools, WaitForInput),
    Row(*_DONE, Guard.LAST_CHANGED, PostToolsHook, RunPostToolsHook),
    Row(*_DONE, Guard.LAST_UNCHANGED, CallingLlm, SendLlmRequest),
    Row(PostToolsHook, PostToolsHookCompleted, None, CallingLlm, SendLlmRequest),
    Row(Error, RetryTimeoutFired, Guard.FROM_LLM, CallingLlm, SendLlmRequest),
    *(Row(state, ShutdownRequested, None, ShuttingDown, Shutdown) for state in STATES),
    # ---- additions to the source document ----
    Row(CallingLlm, LlmEvent.ThinkingDelta, None, CallingLlm, WaitForInput),
    Row(ExecutingTools, ToolStarted, Guard.STARTABLE, ExecutingTools, WaitForInput),
    Row(ExecutingTools, ToolProgressEvent, Guard.RUNNING, ExecutingTools, WaitForInput),
    Row(ExecutingTools, ToolUncertain, Guard.RUNNING, ExecutingTools, WaitForInput),
    *(
        Row(state, CancelRequested, None, WaitingForUserInput, WaitForInput)
        for state in (CallingLlm, ExecutingTools, PostToolsHook, Error)
    ),
)
# fmt: on
