"""The transition table of the conversation machine. All of its control flow is in this file.

Two rules hold here:

1. Everything that decides where the machine goes is a row of `TRANSITIONS`; the functions that
   say which guard holds, and compute the next state's *content*, live in `handlers.py`. A state
   that is not that of its guard's row is a fault, and raises.
2. There are no functions in the table, only names: it is also what draws the diagram and what the
   tests enumerate (every state, every event, every guard).

How it is read: of the guards of a (state, event) pair at most one holds, so that the order of rows
does not matter. If no row fits, the event is refused: a warning is logged, nothing changes, the
action is `WaitForInput`. An `event` of `None` marks an internal
row: it is taken at once when its state is entered from another one, instead of the action of the
row that led there. Where no internal row fits, that action stands.

Where the rows come from: the rows above the line are those of the source document, literally. The
rows below it add to them and change none: thinking that streams; calls that start, report and
turn out uncertain; calls that are looked at once more before they begin, and calls that need a
person's yes; compaction, which makes room before a request,
after one that did not fit, or when a person asks; going back to an earlier version; cancelling,
which leads back to waiting from every busy state; and steering: what a person says while the agent
works joins the request that is about to be sent. Nothing else is in flight then, and every call has
its result, so that no pair is torn; a request that has left already is not disturbed by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from treadle.core.actions import (
    AgentAction,
    AskPerson,
    DisplayError,
    DisplayMessage,
    ExecuteTools,
    MaskResults,
    RefuseCall,
    RequestApproval,
    RunPostToolsHook,
    SendLlmRequest,
    Shutdown,
    StartCall,
    Summarize,
    WaitForInput,
)
from treadle.core.chat.states import (
    STATES,
    AgentState,
    CallingLlm,
    Compacting,
    Error,
    ExecutingTools,
    PostToolsHook,
    ProcessingLlmResponse,
    ShuttingDown,
    WaitingForApproval,
    WaitingForUserInput,
)
from treadle.core.events import (
    AgentEvent,
    ApprovalDecided,
    ApprovalRequired,
    CallAssessed,
    CancelRequested,
    Compacted,
    CompactionFailed,
    CompactionRequested,
    LlmEvent,
    PostToolsHookCompleted,
    ResultsMasked,
    RetryTimeoutFired,
    Rewound,
    ShutdownRequested,
    Steered,
    ToolCompleted,
    ToolProgressEvent,
    ToolStarted,
    ToolUncertain,
    UserInput,
    name_of,
)
from treadle.mermaid import Edge, draw_edges


class Guard(Enum):
    """The conditions of the table, in words; `handlers.py` says which of them holds."""

    # That of `Enum` is a function in Python, which every transition called twice.
    __hash__ = object.__hash__

    BY_USER = "a message by the user"
    RETRIES_LEFT = "retryable, retries < max"
    GIVE_UP = "not retryable or retries used up, nothing to compact"
    HAS_CALLS = "has tool calls, none needs a yes"
    NO_CALLS = "no tool calls"
    OTHERS_OPEN = "open call, others still open"
    LAST_CHANGED = "last open call, a mutating tool succeeded"
    LAST_UNCHANGED = "last open call, no mutation"
    STARTABLE = "pending, uncertain or another access"
    RUNNING = "call running"
    FROM_LLM = "origin = Llm"
    NEEDS_YES = "a call needs a yes"
    OTHERS_ASKED = "open question, others still open"
    ASKED_AGAIN = "open question, changed to something riskier"
    LAST_MAY_RUN = "last open question, some call may run"
    LAST_NONE_RUNS = "last open question, no call may run"
    MAY_RUN = "may run as things stand"
    ASKS_NOW = "needs a yes as things stand"
    MUST_NOT_RUN = "must not run as things stand"
    NONE_BEGAN = "of calls of the round, none has begun"
    COMPACTABLE = "something to compact"
    NOTHING_TO_COMPACT = "nothing to compact"
    NEAR_LIMIT = "near the limit, something to compact"
    NEAR_LIMIT_BY_RESULTS = "near the limit, half of it old results"
    TOO_LONG = "too long, something to compact"
    TOO_LONG_BY_RESULTS = "too long, half of it old results"
    IN_THE_PAST = "a view of what was said"
    FITS_AND_WAITS = "the summary awaited, a person asked for it"
    FITS_AND_GOES_ON = "the summary awaited, a request needs it"
    BEFORE_CUT = "before the cut, a request needs it"
    CAN_GO_ON = "it was to make room early"
    CANNOT_GO_ON = "a person or a request that did not fit needs it"


class Row(Struct, frozen=True):
    """In `state`, on `event`, if `guard`: go `to`, and ask the world for `action`."""

    state: type[AgentState]
    event: type[AgentEvent] | None
    guard: Guard | None
    to: type[AgentState]
    action: type[AgentAction] | None


_ON_INPUT = WaitingForUserInput, UserInput
_ON_LLM_ERROR = CallingLlm, LlmEvent.Error
_ON_TOOL_COMPLETED = ExecutingTools, ToolCompleted
_ON_DECISION = WaitingForApproval, ApprovalDecided
_ON_COMPACTION_REQUEST = WaitingForUserInput, CompactionRequested

# fmt: off
TRANSITIONS: Final[tuple[Row, ...]] = (
    Row(*_ON_INPUT, Guard.BY_USER, CallingLlm, SendLlmRequest),
    Row(CallingLlm, LlmEvent.TextDelta, None, CallingLlm, DisplayMessage),
    Row(CallingLlm, LlmEvent.ToolCallDelta, None, CallingLlm, WaitForInput),
    Row(CallingLlm, LlmEvent.Completed, None, ProcessingLlmResponse, None),
    Row(*_ON_LLM_ERROR, Guard.RETRIES_LEFT, Error, WaitForInput),
    Row(*_ON_LLM_ERROR, Guard.GIVE_UP, WaitingForUserInput, DisplayError),
    Row(ProcessingLlmResponse, None, Guard.HAS_CALLS, ExecutingTools, ExecuteTools),
    Row(ProcessingLlmResponse, None, Guard.NO_CALLS, WaitingForUserInput, WaitForInput),
    Row(*_ON_TOOL_COMPLETED, Guard.OTHERS_OPEN, ExecutingTools, WaitForInput),
    Row(*_ON_TOOL_COMPLETED, Guard.LAST_CHANGED, PostToolsHook, RunPostToolsHook),
    Row(*_ON_TOOL_COMPLETED, Guard.LAST_UNCHANGED, CallingLlm, SendLlmRequest),
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
        for state in (
            CallingLlm, ExecutingTools, PostToolsHook, Error, WaitingForApproval, Compacting
        )
    ),
    *(
        row
        for state in (ExecutingTools, WaitingForApproval)
        for row in (
            Row(state, CallAssessed, Guard.MAY_RUN, state, StartCall),
            Row(state, CallAssessed, Guard.ASKS_NOW, state, AskPerson),
            Row(state, CallAssessed, Guard.MUST_NOT_RUN, state, RefuseCall),
        )
    ),
    Row(ExecutingTools, ApprovalRequired, Guard.NONE_BEGAN, WaitingForApproval, RequestApproval),
    Row(ProcessingLlmResponse, None, Guard.NEEDS_YES, WaitingForApproval, RequestApproval),
    Row(*_ON_DECISION, Guard.OTHERS_ASKED, WaitingForApproval, WaitForInput),
    Row(*_ON_DECISION, Guard.ASKED_AGAIN, WaitingForApproval, RequestApproval),
    Row(*_ON_DECISION, Guard.LAST_MAY_RUN, ExecutingTools, ExecuteTools),
    Row(*_ON_DECISION, Guard.LAST_NONE_RUNS, CallingLlm, SendLlmRequest),
    Row(*_ON_COMPACTION_REQUEST, Guard.COMPACTABLE, Compacting, Summarize),
    Row(*_ON_COMPACTION_REQUEST, Guard.NOTHING_TO_COMPACT, WaitingForUserInput, DisplayError),
    Row(WaitingForUserInput, Rewound, Guard.IN_THE_PAST, WaitingForUserInput, WaitForInput),
    Row(CallingLlm, None, Guard.NEAR_LIMIT, Compacting, Summarize),
    Row(*_ON_LLM_ERROR, Guard.TOO_LONG, Compacting, Summarize),
    Row(Compacting, Compacted, Guard.FITS_AND_WAITS, WaitingForUserInput, WaitForInput),
    Row(Compacting, Compacted, Guard.FITS_AND_GOES_ON, CallingLlm, SendLlmRequest),
    Row(Compacting, CompactionFailed, Guard.CAN_GO_ON, CallingLlm, SendLlmRequest),
    Row(Compacting, CompactionFailed, Guard.CANNOT_GO_ON, WaitingForUserInput, DisplayError),
    Row(CallingLlm, Steered, Guard.BY_USER, CallingLlm, SendLlmRequest),
    Row(CallingLlm, None, Guard.NEAR_LIMIT_BY_RESULTS, Compacting, MaskResults),
    Row(*_ON_LLM_ERROR, Guard.TOO_LONG_BY_RESULTS, Compacting, MaskResults),
    Row(Compacting, ResultsMasked, Guard.BEFORE_CUT, CallingLlm, SendLlmRequest),
)
# fmt: on


def draw_conversation_machine(rows: Sequence[Row]) -> str:
    """The conversation machine's diagram. A state whose rows all lead back to it is terminal."""
    edges = [Edge(row.state.__name__, row.to.__name__, _format_label(row)) for row in rows]
    names = dict.fromkeys(name for edge in edges for name in edge[:2])
    left = {edge.source for edge in edges if edge.target != edge.source}
    return draw_edges(edges, edges[0].source, [name for name in names if name not in left])


def _format_label(row: Row) -> str:
    """`Event [guard] / Action`; an internal row has no event, an internal action no name."""
    guard = f"[{row.guard.value}]" if row.guard is not None else ""
    action = f"/ {row.action.__name__}" if row.action is not None else "/ (internal)"
    event = name_of(row.event) if row.event is not None else ""
    return " ".join(filter(None, (event, guard, action)))
