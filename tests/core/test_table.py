"""The table is the one of the source document, whole, with additions that change none of it."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any, Final

import pytest

from treadle.core import actions, events
from treadle.core.actions import AgentAction
from treadle.core.chat import machine as chat_machine
from treadle.core.chat import states
from treadle.core.chat.handlers import CHAT_HANDLERS
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import (
    STATES,
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
from treadle.core.chat.table import TRANSITIONS, Guard, Row
from treadle.core.config import AgentConfig
from treadle.core.events import EVENTS, CancelRequested, LlmEvent, ShutdownRequested
from treadle.core.messages import Message
from treadle.core.tools import ToolExecutionOutcome, ToolExecutionStatus

SOURCE_TABLE: Final = """
WaitingForUserInput   | UserInput(msg)                             | CallingLlm            | SendLlmRequest
CallingLlm            | LlmEvent::TextDelta                        | CallingLlm            | DisplayMessage
CallingLlm            | LlmEvent::ToolCallDelta                    | CallingLlm            | WaitForInput
CallingLlm            | LlmEvent::Completed                        | ProcessingLlmResponse | (internal)
CallingLlm            | LlmEvent::Error (retries < max)            | Error                 | WaitForInput
CallingLlm            | LlmEvent::Error (retries >= max)           | WaitingForUserInput   | DisplayError
ProcessingLlmResponse | (has tool calls)                           | ExecutingTools        | ExecuteTools
ProcessingLlmResponse | (no tool calls)                            | WaitingForUserInput   | WaitForInput
ExecutingTools        | ToolCompleted (some pending)               | ExecutingTools        | WaitForInput
ExecutingTools        | ToolCompleted (all done, mutating)         | PostToolsHook         | RunPostToolsHook
ExecutingTools        | ToolCompleted (all done, no mutation)      | CallingLlm            | SendLlmRequest
PostToolsHook         | PostToolsHookCompleted                     | CallingLlm            | SendLlmRequest
Error (origin=Llm)    | RetryTimeoutFired                          | CallingLlm            | SendLlmRequest
any state             | ShutdownRequested                          | ShuttingDown          | Shutdown
"""  # noqa: E501
"""The source document's transition table, typed off by hand."""

ADDED_TABLE: Final = """
CallingLlm            | LlmEvent::ThinkingDelta                             | CallingLlm          | WaitForInput
ExecutingTools        | ToolStarted (pending, uncertain or another access)  | ExecutingTools      | WaitForInput
ExecutingTools        | ToolProgressEvent (call running)                    | ExecutingTools      | WaitForInput
ExecutingTools        | ToolUncertain (call running)                        | ExecutingTools      | WaitForInput
CallingLlm            | CancelRequested                                     | WaitingForUserInput | WaitForInput
ExecutingTools        | CancelRequested                                     | WaitingForUserInput | WaitForInput
PostToolsHook         | CancelRequested                                     | WaitingForUserInput | WaitForInput
Error                 | CancelRequested                                     | WaitingForUserInput | WaitForInput
WaitingForApproval    | CancelRequested                                     | WaitingForUserInput | WaitForInput
Compacting            | CancelRequested                                     | WaitingForUserInput | WaitForInput
ExecutingTools        | CallAssessed (may run)                              | ExecutingTools      | StartCall
ExecutingTools        | CallAssessed (needs a yes)                          | ExecutingTools      | AskPerson
ExecutingTools        | CallAssessed (must not run)                         | ExecutingTools      | RefuseCall
WaitingForApproval    | CallAssessed (may run)                              | WaitingForApproval  | StartCall
WaitingForApproval    | CallAssessed (needs a yes)                          | WaitingForApproval  | AskPerson
WaitingForApproval    | CallAssessed (must not run)                         | WaitingForApproval  | RefuseCall
ExecutingTools        | ApprovalRequired (none has begun)                   | WaitingForApproval  | RequestApproval
ProcessingLlmResponse | (a call needs a yes)                                | WaitingForApproval  | RequestApproval
WaitingForApproval    | ApprovalDecided (others open)                       | WaitingForApproval  | WaitForInput
WaitingForApproval    | ApprovalDecided (changed, riskier)                  | WaitingForApproval  | RequestApproval
WaitingForApproval    | ApprovalDecided (last, some call may run)           | ExecutingTools      | ExecuteTools
WaitingForApproval    | ApprovalDecided (last, none may run)                | CallingLlm          | SendLlmRequest
WaitingForUserInput   | CompactionRequested (something to compact)          | Compacting          | Summarize
WaitingForUserInput   | CompactionRequested (nothing to compact)            | WaitingForUserInput | DisplayError
WaitingForUserInput   | Rewound (a view of what was said)                   | WaitingForUserInput | WaitForInput
CallingLlm            | (near the limit, something to compact)              | Compacting          | Summarize
CallingLlm            | LlmEvent::Error (too long, something to compact)    | Compacting          | Summarize
Compacting            | Compacted (as awaited, for a person)                | WaitingForUserInput | WaitForInput
Compacting            | Compacted (as awaited, for a request)               | CallingLlm          | SendLlmRequest
Compacting            | CompactionFailed (was to make room early)           | CallingLlm          | SendLlmRequest
Compacting            | CompactionFailed (a person or a request needed it)  | WaitingForUserInput | DisplayError
CallingLlm            | Steered (msg)                                       | CallingLlm          | SendLlmRequest
CallingLlm            | (near the limit, half of it old results)            | Compacting          | MaskResults
CallingLlm            | LlmEvent::Error (too long, half of it old results)  | Compacting          | MaskResults
Compacting            | ResultsMasked (before the cut, for a request)       | CallingLlm          | SendLlmRequest
"""  # noqa: E501
"""What the design adds."""

CONDITIONS: Final[dict[tuple[str, str], Guard | None]] = {
    ("UserInput", "msg"): Guard.BY_USER,
    ("Steered", "msg"): Guard.BY_USER,
    ("LlmEvent.Error", "retries < max"): Guard.RETRIES_LEFT,
    ("LlmEvent.Error", "retries >= max"): Guard.GIVE_UP,
    ("", "has tool calls"): Guard.HAS_CALLS,
    ("", "no tool calls"): Guard.NO_CALLS,
    ("ToolCompleted", "some pending"): Guard.OTHERS_OPEN,
    ("ToolCompleted", "all done, mutating"): Guard.LAST_CHANGED,
    ("ToolCompleted", "all done, no mutation"): Guard.LAST_UNCHANGED,
    ("RetryTimeoutFired", "origin=Llm"): Guard.FROM_LLM,
    ("ToolStarted", "pending, uncertain or another access"): Guard.STARTABLE,
    ("ToolProgressEvent", "call running"): Guard.RUNNING,
    ("ToolUncertain", "call running"): Guard.RUNNING,
    ("CallAssessed", "may run"): Guard.MAY_RUN,
    ("CallAssessed", "needs a yes"): Guard.ASKS_NOW,
    ("CallAssessed", "must not run"): Guard.MUST_NOT_RUN,
    ("ApprovalRequired", "none has begun"): Guard.NONE_BEGAN,
    ("", "a call needs a yes"): Guard.NEEDS_YES,
    ("ApprovalDecided", "others open"): Guard.OTHERS_ASKED,
    ("ApprovalDecided", "changed, riskier"): Guard.ASKED_AGAIN,
    ("ApprovalDecided", "last, some call may run"): Guard.LAST_MAY_RUN,
    ("ApprovalDecided", "last, none may run"): Guard.LAST_NONE_RUNS,
    ("CompactionRequested", "something to compact"): Guard.COMPACTABLE,
    ("CompactionRequested", "nothing to compact"): Guard.NOTHING_TO_COMPACT,
    ("Rewound", "a view of what was said"): Guard.IN_THE_PAST,
    ("", "near the limit, something to compact"): Guard.NEAR_LIMIT,
    ("LlmEvent.Error", "too long, something to compact"): Guard.TOO_LONG,
    ("Compacted", "as awaited, for a person"): Guard.FITS_AND_WAITS,
    ("Compacted", "as awaited, for a request"): Guard.FITS_AND_GOES_ON,
    ("", "near the limit, half of it old results"): Guard.NEAR_LIMIT_BY_RESULTS,
    ("LlmEvent.Error", "too long, half of it old results"): Guard.TOO_LONG_BY_RESULTS,
    ("ResultsMasked", "before the cut, for a request"): Guard.BEFORE_CUT,
    ("CompactionFailed", "was to make room early"): Guard.CAN_GO_ON,
    ("CompactionFailed", "a person or a request needed it"): Guard.CANNOT_GO_ON,
}
"""What a condition of the documents is called here."""

STATE_NAMES: Final = (
    "WaitingForUserInput",
    "CallingLlm",
    "ProcessingLlmResponse",
    "ExecutingTools",
    "PostToolsHook",
    "Error",
    "ShuttingDown",
    "WaitingForApproval",
    "Compacting",
)


def _parse(table: str) -> list[tuple[str, str | None, Guard | None, str, str | None]]:
    rows = []
    for line in filter(None, table.splitlines()):
        cells = [cell.strip() for cell in line.split("|")]
        words = [cell.replace(")", "").replace("::", ".").split("(") for cell in cells[:2]]
        (state, *_), (event, *_) = [[w.strip() for w in cell] for cell in words]
        conditions = [cell[1].strip() for cell in words if len(cell) == 2]
        guard = CONDITIONS[event, conditions[0]] if conditions else None
        sources = STATE_NAMES if state == "any state" else (state,)
        action = None if cells[3] == "(internal)" else cells[3]
        rows += [(source, event or None, guard, cells[2], action) for source in sources]
    return rows


def _named(row: Row) -> tuple[str, str | None, Guard | None, str, str | None]:
    event = None if row.event is None else row.event.__qualname__
    action = None if row.action is None else row.action.__name__
    return row.state.__name__, event, row.guard, row.to.__name__, action


def test_the_first_rows_are_those_of_the_source_document_and_the_rest_is_added() -> None:
    source, added = _parse(SOURCE_TABLE), _parse(ADDED_TABLE)
    assert len(source) == 13 + len(STATES)
    advice = "a new row also goes into ADDED_TABLE, at its place in the order of TRANSITIONS"
    assert [_named(row) for row in TRANSITIONS] == source + added, advice


def test_no_row_stands_twice_and_no_pair_mixes_guarded_and_unguarded_rows() -> None:
    assert max(Counter(TRANSITIONS).values()) == 1
    for one, other in combinations(TRANSITIONS, 2):
        if (one.state, one.event) == (other.state, other.event):
            assert one.guard is not None
            assert other.guard is not None
            assert one.guard is not other.guard


def test_every_state_is_reached_from_the_first() -> None:
    reached = {WaitingForUserInput}
    for _ in STATES:
        reached |= {row.to for row in TRANSITIONS if row.state in reached}
    assert reached == set(STATES)


def test_from_every_state_the_machine_can_come_back_to_waiting_and_can_shut_down() -> None:
    for goal, never in ((WaitingForUserInput, {ShuttingDown}), (ShuttingDown, set())):
        leads: set[type] = {goal}
        for _ in STATES:
            leads |= {row.state for row in TRANSITIONS if row.to in leads}
        assert leads == set(STATES) - never


def test_without_cancels_and_shutdowns_every_state_still_leads_back_to_waiting() -> None:
    plain = [r for r in TRANSITIONS if r.event not in (CancelRequested, ShutdownRequested)]
    leads: set[type] = {WaitingForUserInput}
    for _ in STATES:
        leads |= {row.state for row in plain if row.to in leads}
    assert leads == set(STATES) - {ShuttingDown}


def test_nothing_leads_out_of_shutting_down() -> None:
    rows = [row for row in TRANSITIONS if row.state is ShuttingDown]
    assert [(row.event, row.to) for row in rows] == [(ShutdownRequested, ShuttingDown)]


def test_every_event_and_every_guard_and_every_action_is_used() -> None:
    assert {row.event for row in TRANSITIONS} == {*EVENTS, None}
    assert {row.guard for row in TRANSITIONS} == {*Guard, None}
    assert {row.action for row in TRANSITIONS} == {*AgentAction.__args__, None} - {actions.RunState}


def test_every_pair_has_its_handler_and_none_is_left_over() -> None:
    assert set(CHAT_HANDLERS) == {(row.state, row.event) for row in TRANSITIONS}


def test_a_row_without_action_leads_where_an_internal_row_always_fits_and_no_other_does() -> None:
    for row in TRANSITIONS:
        assert (row.action is None) == (row.to is ProcessingLlmResponse)


def test_an_internal_row_leads_to_no_state_that_has_internal_rows_itself() -> None:
    internal = [row for row in TRANSITIONS if row.event is None]
    assert {row.state for row in internal} == {ProcessingLlmResponse, CallingLlm}
    assert not {row.to for row in internal} & {row.state for row in internal}


def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(kind.__struct_fields__)


def test_each_state_carries_what_the_source_document_gives_it() -> None:
    assert tuple(kind.__name__ for kind in STATES) == STATE_NAMES
    assert _fields(WaitingForUserInput) == ("conversation",)
    assert _fields(CallingLlm) == ("conversation", "retries")
    assert _fields(ProcessingLlmResponse) == ("conversation", "response")
    assert _fields(ExecutingTools) == ("conversation", "executions")
    assert _fields(PostToolsHook) == ("conversation", "pending_llm_request", "completed_tools")
    assert _fields(Error) == ("conversation", "error", "retries", "origin", "delay_s")
    assert _fields(ShuttingDown) == ()
    assert _fields(WaitingForApproval) == ("conversation", "executions", "questions")
    assert _fields(Compacting) == ("conversation", "through", "cause", "focus")
    assert [origin.name for origin in states.ErrorOrigin] == ["LLM", "TOOL", "IO"]


def test_each_event_carries_what_the_source_document_gives_it_and_then_its_own() -> None:
    given = {
        events.UserInput: ("message",),
        LlmEvent.TextDelta: ("content",),
        LlmEvent.ToolCallDelta: ("call_id", "tool_name", "arguments_fragment"),
        LlmEvent.Completed: ("response",),
        LlmEvent.Error: ("error",),
        events.ToolProgressEvent: ("call_id", "progress"),
        events.ToolCompleted: ("call_id", "outcome"),
        events.PostToolsHookCompleted: ("action_taken",),
        events.RetryTimeoutFired: (),
        ShutdownRequested: (),
    }
    for kind, names in given.items():
        assert _fields(kind)[: len(names)] == names
    assert set(given) < set(EVENTS)


def test_each_action_carries_what_the_source_document_gives_it() -> None:
    given = {
        actions.SendLlmRequest: ("request",),
        actions.ExecuteTools: ("calls",),
        actions.RunPostToolsHook: ("completed_tools",),
        actions.WaitForInput: (),
        actions.DisplayMessage: ("text",),
        actions.DisplayError: ("text",),
        actions.Shutdown: (),
    }
    added = {
        *(actions.StartCall, actions.AskPerson, actions.RefuseCall),
        *(actions.RequestApproval, actions.Summarize, actions.RunState),
        actions.MaskResults,
    }
    assert set(given) | added == set(AgentAction.__args__)
    for kind, names in given.items():
        assert _fields(kind) == names


def test_a_calls_status_and_outcome_have_the_variants_of_the_source_document() -> None:
    status, outcome = ToolExecutionStatus, ToolExecutionOutcome
    assert [k.__name__ for k in (status.Pending, status.Running, status.Completed)] == [
        "Pending",
        "Running",
        "Completed",
    ]
    assert _fields(outcome.Success)[:2] == ("call_id", "output")
    assert _fields(outcome.Error)[:2] == ("call_id", "error")


def test_a_row_that_lacks_something_says_which_place_lacks_what(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new row is written first, so each of these happens to whoever adds one."""
    row = Row(Error, events.ToolStarted, None, WaitingForUserInput, actions.WaitForInput)
    with monkeypatch.context() as patch:
        patch.setattr(chat_machine, "TRANSITIONS", (*TRANSITIONS, row))
        with pytest.raises(AssertionError, match=r"CHAT_HANDLERS of handlers.py lacks that of Row"):
            chat_machine._compile_table()
    talk = ConversationMachine(AgentConfig())
    index = chat_machine._INDEX
    handler, rows = index[WaitingForUserInput, events.UserInput]
    said = events.UserInput(Message.user("go"))
    pair = {(WaitingForUserInput, events.UserInput): (handler, {})}
    with monkeypatch.context() as patch:
        patch.setattr(chat_machine, "_INDEX", {**index, **pair})
        with pytest.raises(AssertionError, match=r"table.py lacks a row of .*UserInput"):
            talk.handle_event(said)
    functionless = {guard: (None, row) for guard, (_, row) in rows.items()}
    pair = {(WaitingForUserInput, events.UserInput): (handler, functionless)}
    with monkeypatch.context() as patch:
        patch.setattr(chat_machine, "_INDEX", {**index, **pair})
        with pytest.raises(AssertionError, match=r"_ACTION_FUNCTIONS lacks the action of Row"):
            talk.handle_event(said)
    assert not talk.conversation, "nothing has changed"
