"""The table is the source document's, and what is added to it is known."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from case_tables import for_every_row
from treadle.core.task.handlers import HANDLERS
from treadle.core.task.table import Event, State, TransitionTable, build_transition_table
from treadle.errors import InvalidTransition

SOURCE: Final = """
// IDLE
(Idle,       Start)           → Planning

// PLANNING
(Planning,   LlmToolCall)             → Acting
(Planning,   LlmParallelToolCalls)   → ParallelActing
(Planning,   LlmFinalAnswer)          → Done
(Planning,   MaxSteps)                → Error
(Planning,   LowConfidence)           → Reflecting
(Planning,   AnswerTooShort)          → Planning
(Planning,   ToolBlacklisted)         → Planning
(Planning,   HumanApprovalRequired)   → WaitingForHuman
(Planning,   FatalError)              → Error

// WAITING FOR HUMAN
(WaitingForHuman, HumanApproved)      → Acting
(WaitingForHuman, HumanRejected)      → Observing
(WaitingForHuman, HumanModified)      → Acting

// ACTING / PARALLEL ACTING
(Acting,         ToolSuccess)         → Observing
(Acting,         ToolFailure)         → Observing
(ParallelActing, ToolSuccess)         → Observing
(ParallelActing, ToolFailure)         → Observing

// OBSERVING
(Observing,  Continue)        → Planning
(Observing,  NeedsReflection) → Reflecting

// REFLECTING
(Reflecting, ReflectDone)     → Planning
"""
ADDED: Final = """
(Acting,          FatalError)            → Error
(ParallelActing,  FatalError)            → Error
(WaitingForHuman, FatalError)            → Error
(WaitingForHuman, HumanApprovedParallel) → ParallelActing
(Planning,        AnswerInvalid)         → Planning
(Acting,          HumanApprovalRequired) → WaitingForHuman
(ParallelActing,  HumanApprovalRequired) → WaitingForHuman
"""
_STATES: Final = """
Idle Planning Acting ParallelActing WaitingForHuman Observing Reflecting Done Error
"""
_EVENTS: Final = """
Start LlmToolCall LlmParallelToolCalls LlmFinalAnswer MaxSteps LowConfidence AnswerTooShort
ToolBlacklisted HumanApprovalRequired FatalError HumanApproved HumanRejected HumanModified
ToolSuccess ToolFailure Continue NeedsReflection ReflectDone
"""
STATES: Final = _STATES.split()
EVENTS: Final = _EVENTS.split()
EVENTS_ADDED: Final = ["AnswerInvalid", "HumanApprovedParallel"]


def read(text: str) -> dict[tuple[str, str], str]:
    """Lines of the form (state, event) → next state."""
    rows = {}
    for line in text.splitlines():
        if line.startswith("("):
            pair, _, to = line.partition("→")
            state, _, event = pair.strip().strip("()").partition(",")
            rows[state.strip(), event.strip()] = to.strip()
    return rows


EXPECTED: Final = {**read(SOURCE), **read(ADDED)}


def test_the_lists_of_this_test_are_whole() -> None:
    assert (len(read(SOURCE)), len(read(ADDED)), len(EXPECTED)) == (20, 7, 27)


@for_every_row("state, event", [*product(STATES, [*EVENTS, *EVENTS_ADDED])])
def test_every_pair_leads_where_the_document_says_or_is_refused(state: str, event: str) -> None:
    table = build_transition_table()
    if (state, event) in EXPECTED:
        assert table.target(state, event) == EXPECTED[state, event]
        assert table[state, event] == EXPECTED[state, event]
    else:
        assert (state, event) not in table
        with pytest.raises(InvalidTransition) as caught:
            table.target(state, event)
        assert (caught.value.state, caught.value.event) == (state, event)


def test_states_and_events_have_the_names_of_the_document() -> None:
    assert [str(state) for state in State] == STATES
    assert [str(event) for event in Event] == [*EVENTS, *EVENTS_ADDED]
    assert dict(build_transition_table()) == EXPECTED


def test_done_and_error_are_terminal_and_nothing_leads_out_of_them() -> None:
    table = build_transition_table()
    assert [state for state in State if state.is_terminal()] == [State.DONE, State.ERROR]
    assert [state for state in State if table.is_terminal(state)] == [State.DONE, State.ERROR]
    assert {state for state, _, _ in table.rows}.isdisjoint(table.terminal)


def test_every_state_has_a_handler_and_no_handler_is_left_over() -> None:
    assert set(HANDLERS) == set(State)


def test_the_table_cannot_be_changed_after_it_was_built() -> None:
    table = build_transition_table()
    with pytest.raises(TypeError):
        table["Idle", "Start"] = "Done"  # type: ignore[index]
    rows = [("Idle", "Start", "Planning")]
    mine = TransitionTable(rows)
    rows.append(("Done", "Start", "Idle"))
    assert mine.rows == (("Idle", "Start", "Planning"),)
