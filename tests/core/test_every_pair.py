"""Every state meets every event: the row of the table applies, or nothing at all happens.

What each guard means is written down here a second time, in plain words, so that the machine's own
predicates are compared with something other than themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import product
from typing import Any, Final

import pytest
from msgspec import UNSET

from case_tables import for_every_row
from core.samples import (
    CONFIG,
    EVENTS_TRIED,
    RETRYABLE_IN_WORDS,
    STATES_TRIED,
    answer,
    machine,
    processing,
)
from treadle.core.actions import WaitForInput
from treadle.core.chat.handlers import CHAT_HANDLERS
from treadle.core.chat.states import STATES, AgentState, CallingLlm, ProcessingLlmResponse
from treadle.core.chat.table import TRANSITIONS, Guard, Row
from treadle.core.events import EVENTS, AgentEvent
from treadle.core.tools import ToolErrorKind


def _status(state: Any, event: Any) -> str:
    """How the event's call stands: none, pending, running, uncertain or completed."""
    for status in state.executions:
        if status.call_id == event.call_id:
            name = type(status).__name__.lower()
            return "uncertain" if getattr(status, "uncertain", False) else name
    return "none"


def _has_another_access(state: Any, event: Any) -> bool:
    """Whether the start says another access than the call has begun with."""
    [status] = (one for one in state.executions if one.call_id == event.call_id)
    return (event.access is None) != (status.access is UNSET) or (
        event.access is not None and event.access is not status.access
    )


def _closes_round(state: Any, event: Any) -> bool:
    others = [s for s in state.executions if s.call_id != event.call_id]
    return all(type(status).__name__ == "Completed" for status in others)


def _is_open(state: Any, event: Any) -> bool:
    return _status(state, event) in {"pending", "running", "uncertain"}


def _changed_something(state: Any, event: Any) -> bool:
    """Whether any tool but a reading one ended well in this round."""
    reading = {tool.name for tool in CONFIG.tools if tool.effect.value == "read"}
    outcomes = {s.call_id: s.outcome for s in state.executions if hasattr(s, "outcome")}
    outcomes[event.call_id] = event.outcome
    names = {s.call_id: s.tool_name for s in state.executions}
    return any(
        type(outcome).__name__ == "Success" and names[call_id] not in reading
        for call_id, outcome in outcomes.items()
    )


def _may_pass(state: Any, event: Any) -> bool:
    error = event.error
    waits = error.retry_after_s is None or error.retry_after_s <= 600
    return error.kind.value in RETRYABLE_IN_WORDS and waits and state.retries < CONFIG.max_retries


def _is_plain_user_message(_: Any, event: Any) -> bool:
    message = event.message
    return (message.role, message.tool_calls, message.tool_call_id) == ("user", (), None)


def _needs_a_yes(state: Any, event: Any) -> bool:
    """Whether any call is of high risk: by its tool, or by what came with the answer."""
    declared = {tool.name: tool.risk for tool in CONFIG.tools}
    return any(
        max(declared[call.tool_name], event.risk_at(place) or 0) >= 3
        for place, call in enumerate(state.response.tool_calls)
        if call.tool_name in declared
    )


def _is_asked(state: Any, event: Any) -> bool:
    return event.call_id in [question.call.id for question in state.questions]


def _is_asked_again(state: Any, event: Any) -> bool:
    """Every call that is asked about in the samples is asked about as one of high risk."""
    risk = getattr(event.decision, "risk", None)
    return _is_asked(state, event) and risk is not None and risk > 3


def _is_last_word(state: Any, event: Any) -> bool:
    is_only = _is_asked(state, event) and len(state.questions) == 1
    return is_only and not _is_asked_again(state, event)


def _may_run(state: Any, event: Any) -> bool:
    """Whether any call is left once this one is decided."""
    rejected = type(event.decision).__name__ == "Rejected"
    return any(
        type(status).__name__ == "Pending" and not (rejected and status.call_id == event.call_id)
        for status in state.executions
    )


def _fate(state: Any, event: Any) -> str:
    """What becomes of a call: none if it is not to be decided about, run, ask or refuse."""
    calls = {call.id: call.tool_name for call in state.conversation[-1].tool_calls}
    asked = hasattr(state, "questions")
    status, name = _status(state, event), calls.get(event.call_id, "")
    if status in {"none", "completed"} or (asked and not _is_asked(state, event)):
        return "none"
    declared = {tool.name: tool.risk for tool in CONFIG.tools}
    is_known = name in declared
    if asked and not event.is_reconfigured and (event.is_withdrawn or event.is_rerun):
        return "ask"  # a question stands until a person has changed something
    if event.is_withdrawn or (event.is_rerun and not is_known):
        return "refuse"
    scope = event.scope
    if event.is_rerun and scope is not None:  # the only sample of it is refused, and elsewhere
        return "refuse"
    if status == "uncertain":
        return "run" if event.is_rerun else "refuse"
    must_ask = scope is not None and scope.must_ask
    needs_a_yes = is_known and (must_ask or max(declared[name], event.risk or 0) >= 3)
    too_late = _has_begun(state) or not event.may_ask
    if asked:
        may_run = event.is_reconfigured and not needs_a_yes
        return "run" if may_run else "refuse" if too_late else "ask"
    [stands] = [one for one in state.executions if one.call_id == event.call_id]
    now = (scope.ground, scope.content) if scope is not None else ("", "")
    bound = getattr(stands, "bound", None)
    as_it_was = not hasattr(bound, "ground") or (bound.ground, bound.content) == now
    had_a_yes = getattr(stands, "approved", None) is True
    if event.is_rerun or (had_a_yes and as_it_was):
        return "run"
    if not needs_a_yes:
        return "refuse" if had_a_yes else "run"
    return "refuse" if too_late else "ask"


def _has_begun(state: Any) -> bool:
    """Whether any call of the round did more than be rejected."""
    errors = [getattr(getattr(s, "outcome", None), "error", None) for s in state.executions]
    untouched = [
        type(status).__name__ == "Pending" or getattr(error, "kind", None) is ToolErrorKind.REJECTED
        for status, error in zip(state.executions, errors, strict=True)
    ]
    return not all(untouched)


def _may_be_asked(state: Any, event: Any) -> bool:
    ids = [question.call.id for question in event.questions]
    waiting = [s.call_id for s in state.executions if type(s).__name__ == "Pending"]
    fits = ids != [] and sorted(set(ids)) == sorted(ids) and set(ids) <= set(waiting)
    return fits and not _has_begun(state)


def _has_a_beginning(conversation: Any) -> bool:
    """Whether two messages in view come before the newest one, or before the newest round."""
    roles = [message.role for message in conversation.in_view]
    while roles and roles[-1] == "tool":
        roles.pop()
    return len(roles[:-1]) >= 2


def _is_full(state: Any) -> bool:
    return state.conversation.tokens >= 800 and _has_a_beginning(state.conversation)


def _did_not_fit(state: Any, event: Any) -> bool:
    return event.error.kind.value == "context_too_long" and _has_a_beginning(state.conversation)


def _is_half_results(conversation: Any) -> bool:
    """In the samples there is at most one long result before the last round: it is half, if any."""
    messages = list(conversation.in_view)
    while messages and messages[-1].role == "tool":
        messages.pop()
    return any(len(one.content) > 1_000 for one in messages if one.role == "tool")


def _is_awaited(state: Any, event: Any) -> bool:
    return bool(event.through == state.through)


def _was_shown(state: Any, event: Any) -> bool:
    """Edges in order and within the conversation, none of them just before a result."""
    roles = [message.role for message in state.conversation]
    view = event.view
    summed_up = [] if view.compaction is None else [view.compaction.through]
    flat = [edge for span in view.hidden for edge in span] + [view.length]
    if any(not 0 <= one <= len(roles) for one in flat) or flat != sorted(flat):
        return False
    masked = [] if view.masking is None else [view.masking.through]
    if any(not 1 <= one <= view.length for one in (*summed_up, *masked)):
        return False
    return all(roles[one : one + 1] != ["tool"] for one in (*flat, *summed_up))


MEANING: Final[dict[Guard, Callable[[Any, Any], bool]]] = {
    Guard.BY_USER: _is_plain_user_message,
    Guard.RETRIES_LEFT: _may_pass,
    Guard.GIVE_UP: lambda state, event: (
        not _may_pass(state, event)
        and not (
            event.error.kind.value == "context_too_long" and _has_a_beginning(state.conversation)
        )
    ),
    Guard.HAS_CALLS: lambda state, event: (
        len(state.response.message.tool_calls) > 0 and not _needs_a_yes(state, event)
    ),
    Guard.NO_CALLS: lambda state, _: len(state.response.message.tool_calls) == 0,
    Guard.OTHERS_OPEN: lambda state, event: (
        _is_open(state, event) and not _closes_round(state, event)
    ),
    Guard.LAST_CHANGED: lambda state, event: (
        _is_open(state, event) and _closes_round(state, event) and _changed_something(state, event)
    ),
    Guard.LAST_UNCHANGED: lambda state, event: (
        _is_open(state, event)
        and _closes_round(state, event)
        and not _changed_something(state, event)
    ),
    Guard.STARTABLE: lambda state, event: (
        _status(state, event) in {"pending", "uncertain"}
        or (_status(state, event) == "running" and _has_another_access(state, event))
    ),
    Guard.RUNNING: lambda state, event: _status(state, event) in {"running", "uncertain"},
    Guard.FROM_LLM: lambda state, _: state.origin.value == "llm",
    Guard.NEEDS_YES: _needs_a_yes,
    Guard.OTHERS_ASKED: lambda state, event: (
        _is_asked(state, event) and len(state.questions) > 1 and not _is_asked_again(state, event)
    ),
    Guard.ASKED_AGAIN: _is_asked_again,
    Guard.LAST_MAY_RUN: lambda state, event: _is_last_word(state, event) and _may_run(state, event),
    Guard.LAST_NONE_RUNS: lambda state, event: (
        _is_last_word(state, event) and not _may_run(state, event)
    ),
    Guard.MAY_RUN: lambda state, event: _fate(state, event) == "run",
    Guard.ASKS_NOW: lambda state, event: _fate(state, event) == "ask",
    Guard.MUST_NOT_RUN: lambda state, event: _fate(state, event) == "refuse",
    Guard.NONE_BEGAN: _may_be_asked,
    Guard.COMPACTABLE: lambda state, _: len(state.conversation.in_view) >= 2,
    Guard.NOTHING_TO_COMPACT: lambda state, _: len(state.conversation.in_view) < 2,
    Guard.IN_THE_PAST: _was_shown,
    Guard.NEAR_LIMIT: lambda state, _: _is_full(state) and not _is_half_results(state.conversation),
    Guard.NEAR_LIMIT_BY_RESULTS: lambda state, _: (
        _is_full(state) and _is_half_results(state.conversation)
    ),
    Guard.TOO_LONG: lambda state, event: (
        _did_not_fit(state, event) and not _is_half_results(state.conversation)
    ),
    Guard.TOO_LONG_BY_RESULTS: lambda state, event: (
        _did_not_fit(state, event) and _is_half_results(state.conversation)
    ),
    Guard.BEFORE_CUT: lambda state, event: (
        1 <= event.masking.through <= state.through and state.cause.value != "requested"
    ),
    Guard.FITS_AND_WAITS: lambda state, event: (
        _is_awaited(state, event) and state.cause.value == "requested"
    ),
    Guard.FITS_AND_GOES_ON: lambda state, event: (
        _is_awaited(state, event) and state.cause.value != "requested"
    ),
    Guard.CAN_GO_ON: lambda state, _: state.cause.value == "near_limit",
    Guard.CANNOT_GO_ON: lambda state, _: state.cause.value != "near_limit",
}


def means_yes(guard: Guard | None, state: Any, event: Any) -> bool:
    """What a guard means for this state and event; no guard is always met."""
    assert guard is None or guard in MEANING, f"MEANING of this file lacks {guard}: see above"
    return guard is None or MEANING[guard](state, event)


def test_every_guard_has_a_meaning_here() -> None:
    lacking = sorted(str(guard) for guard in {*Guard} - MEANING.keys())
    assert lacking == [], "say in MEANING of this file, independent of handlers.py, when it holds"


def rows_of(state: AgentState, event: type | None) -> list[Row]:
    return [row for row in TRANSITIONS if row.state is type(state) and row.event is event]


def internal_rows(state: AgentState, event: Any) -> list[Row]:
    """The rows that a state just entered is left by at once."""
    rows = rows_of(state, None)
    return [row for row in rows if means_yes(row.guard, state, event)]


def applicable(state: AgentState, event: AgentEvent) -> list[Row]:
    """The rows whose guard means yes for this state and event."""
    return [row for row in rows_of(state, type(event)) if means_yes(row.guard, state, event)]


PAIRS: Final = list(product(STATES, EVENTS))


def tried(state: type, event: type) -> list[tuple[AgentState, AgentEvent]]:
    return [
        (one, other)
        for one, other in product(STATES_TRIED, EVENTS_TRIED)
        if type(one) is state and type(other) is event
    ]


def pair_id(pair: tuple[type, type]) -> str:
    return f"{pair[0].__name__}-{pair[1].__qualname__}"


@for_every_row("pair", PAIRS)
def test_at_most_one_row_applies_and_it_is_the_one_the_table_words(
    pair: tuple[type, type],
) -> None:
    values = tried(*pair)
    advice = "add one to EVENTS_TRIED, or STATES_TRIED, in tests/core/samples.py"
    assert values, f"no sample of {pair_id(pair)}: {advice}"
    for state, event in values:
        by_words = applicable(state, event)
        handle = CHAT_HANDLERS.get(pair)
        move = None if handle is None else handle(CONFIG, state, event)
        rows = [] if move is None else rows_of(state, type(event))
        by_handler = [row for row in rows if move is not None and row.guard is move.guard]
        assert by_handler == by_words, (state, event)
        assert move is None or type(move.state) is by_words[0].to, (state, event)
        assert len(by_words) <= 1, (state, event)


@for_every_row("pair", PAIRS)
def test_the_machine_moves_as_the_row_says_or_refuses_and_stays(
    pair: tuple[type, type], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="treadle.chat")
    for state, event in tried(*pair):
        caplog.clear()
        agent = machine(state)
        action = agent.handle_event(event)
        rows = applicable(state, event)
        levels = [record.levelno for record in caplog.records]
        if not rows:
            assert agent.state is state
            assert action == WaitForInput()
            assert levels == [logging.WARNING]
            continue
        row = _followed(rows[0], agent.state, event)
        assert type(agent.state) is row.to, (state, event)
        assert type(action) is row.action, (state, event)
        assert levels == [logging.DEBUG if row.to is type(state) else logging.INFO]


def _followed(row: Row, after: Any, event: Any) -> Row:
    """The row itself, or the internal row by which the state is left that it leads to."""
    entered: AgentState
    if row.to is ProcessingLlmResponse:
        entered = processing(*event.response.tool_calls)
    elif row.to is CallingLlm and row.state is not CallingLlm:
        entered = CallingLlm(after.conversation)
    else:
        return row
    return next(iter(internal_rows(entered, event)), row)


def test_a_response_is_left_by_exactly_one_internal_row_and_a_call_by_at_most_one() -> None:
    for state in STATES_TRIED:
        calls = state.response.tool_calls if isinstance(state, ProcessingLlmResponse) else ()
        fitting = internal_rows(state, answer("", *calls))
        if isinstance(state, ProcessingLlmResponse):
            assert len(fitting) == 1
        else:
            assert len(fitting) <= (1 if isinstance(state, CallingLlm) else 0)


def test_the_samples_reach_every_guard_on_both_sides() -> None:
    seen: set[tuple[Guard, bool]] = set()
    for row in TRANSITIONS:
        for state, event in product(STATES_TRIED, (*EVENTS_TRIED, None)):
            if row.guard is not None and row.state is type(state):
                if row.event is not (None if event is None else type(event)):
                    continue
                if isinstance(state, ProcessingLlmResponse) and event is None:
                    event = answer("", *state.response.tool_calls)
                seen.add((row.guard, means_yes(row.guard, state, event)))
    assert seen == set(product(Guard, (True, False)))


def test_the_samples_hold_every_state_and_every_event() -> None:
    assert {type(state) for state in STATES_TRIED} == set(STATES)
    assert {type(event) for event in EVENTS_TRIED} == set(EVENTS)


def test_a_value_that_is_no_event_is_refused_like_an_illegal_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for state, stranger in product(STATES_TRIED, (None, object(), "user_input", 5)):
        caplog.clear()
        agent = machine(state)
        assert agent.handle_event(stranger) == WaitForInput()  # type: ignore[arg-type]
        assert agent.state is state
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
