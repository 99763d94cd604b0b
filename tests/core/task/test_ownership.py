"""Who may write which field of memory is enforced after each handler, field by field."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest
from msgspec.structs import replace

from case_tables import for_every_row
from core.task.tasks import ANSWER, agent, call, does, given, idle, says
from treadle.core.actions import WAIT
from treadle.core.approval import Question
from treadle.core.budget import TokenBudget
from treadle.core.conversation import Conversation
from treadle.core.llm import LlmError, LlmErrorKind, Usage
from treadle.core.messages import Message
from treadle.core.task.events import Graph, TaskConfig
from treadle.core.task.handler import Handler, HandlerContext, StateResult
from treadle.core.task.memory import (
    FIELDS,
    OWNERS,
    AgentMemory,
    FailedRequest,
    History,
    HistoryEntry,
    HumanApprovalRequest,
    ToolResult,
    check_ownership,
)
from treadle.core.task.table import State
from treadle.core.task.trace import Trace, TraceEntry
from treadle.core.tools import RiskLevel, ToolExecutionOutcome, ToolExecutionStatus
from treadle.errors import OwnershipViolation

_ENTRY: Final = HistoryEntry(1, call(), "SUCCESS: fine", True)
_LINE: Final = TraceEntry(0, "Idle", "X", "", "")

OTHER: Final[dict[str, Any]] = {
    "task": "another",
    "task_type": "research",
    "system_prompt": "be quick",
    "step": 7,
    "retry_count": 7,
    "confidence_score": 0.5,
    "total_usage": Usage(1, 2),
    "budget": TokenBudget(1),
    "current_tool_call": call("z"),
    "pending_tool_calls": (call("z"),),
    "parallel_results": (ToolResult(call("z"), ToolExecutionOutcome.Success("z", "")),),
    "last_observation": "SUCCESS: z",
    "pending_approval": HumanApprovalRequest((Question(call("z"), RiskLevel.LOW, ""),)),
    "history": History([_ENTRY]),
    "final_answer": "z",
    "error": "z",
    "config": TaskConfig(max_steps=99),
    "blacklisted_tools": ("z",),
    "graph": Graph(terminal=("z",)),
    "trace": Trace([_LINE, _LINE]),
    "transcript": Conversation([Message.user("z")]),
    "executions": (ToolExecutionStatus.Pending("z", "look"),),
    "failed_request": FailedRequest(LlmError(LlmErrorKind.SERVER), 1, 1.0),
    "exceeded": "steps",
    "elapsed_s": 9.0,
    "clock": "z",
    "moves": 99,
    "extra": {"z": 1},
    "faults": 9,
}
"""For each field, a value that no handler of these tests has seen."""

SOURCE: Final = {
    "step": {"Planning"},
    "current_tool_call": {"Planning", "Observing"},
    "last_observation": {"Acting", "Observing"},
    "final_answer": {"Planning"},
    "error": {"Planning", "Acting"},
    "history": {"Observing", "Reflecting"},
}
"""The source document's rules."""
ADDED: Final = {
    "current_tool_call": {"WaitingForHuman", "Acting"},
    "last_observation": {"WaitingForHuman"},
    "error": {"WaitingForHuman", "ParallelActing"},
}
APPENDED: Final = {"trace", "transcript", "history"}
"""Fields that are not simply replaced; they have tests of their own."""


BUSY: Final = [state for state in State if not state.is_terminal()]
"""States in which something can happen; what `Done` and `Error` write is written on entering."""


def changing(field: str, value: Any) -> Handler:
    """A handler that writes one field when something happens, and waits."""

    def on(memory: AgentMemory, _: Any, __: HandlerContext) -> StateResult:
        return replace(memory, **{field: value}), WAIT

    return Handler(lambda memory, _: (memory, WAIT), on)


def test_every_field_of_memory_is_tried_and_has_a_rule() -> None:
    assert set(OTHER) == set(FIELDS)
    assert set(FIELDS) - set(OWNERS) == {"trace", "elapsed_s", "clock", "moves"}


def test_the_owners_are_those_of_the_source_document_and_the_ones_added() -> None:
    for field, states in SOURCE.items():
        assert set(OWNERS[field]) == states | ADDED.get(field, set())


@for_every_row("state, field", [*product(BUSY, sorted(set(FIELDS) - APPENDED))])
def test_a_field_is_written_by_its_owners_and_by_no_other_state(state: State, field: str) -> None:
    machine = idle({state: changing(field, OTHER[field])})
    machine.handle_event(given())
    machine = machine.with_state(replace(machine.state, name=str(state)))
    before = machine.state
    if state in OWNERS.get(field, ()):
        machine.handle_event(says("anything"))
        assert getattr(machine.memory, field) == OTHER[field]
        return
    with pytest.raises(OwnershipViolation) as caught:
        machine.handle_event(says("anything"))
    assert (caught.value.state, caught.value.field) == (state, field)
    assert machine.state is before


@for_every_row("state", [State.IDLE, State.DONE, State.PLANNING])
def test_what_a_state_writes_when_it_is_entered_is_checked_too(state: State) -> None:
    handler = Handler(lambda memory, _: (replace(memory, task="mine"), WAIT))
    machine = idle({state: handler})
    with pytest.raises(OwnershipViolation):
        does(machine, given(), says(ANSWER))


@for_every_row("state", State)
def test_every_state_may_add_to_the_trace_and_none_may_rewrite_it(state: State) -> None:
    memory = AgentMemory(trace=Trace([_LINE]))
    check_ownership(state, memory, memory.log(state, "Y"))
    for trace in (Trace(), Trace([TraceEntry(1, "Idle", "Z", "", "")])):
        with pytest.raises(OwnershipViolation):
            check_ownership(state, memory, replace(memory, trace=trace))


@for_every_row("state", State)
def test_history_is_pushed_to_by_observing_and_rewritten_by_reflecting_alone(state: State) -> None:
    memory = AgentMemory(history=History([_ENTRY]))
    pushed = replace(memory, history=memory.history.append(_ENTRY))
    rewritten = replace(memory, history=History())
    for after, owners in (
        (pushed, {State.OBSERVING, State.REFLECTING}),
        (rewritten, {State.REFLECTING}),
    ):
        if state in owners:
            check_ownership(state, memory, after)
        else:
            with pytest.raises(OwnershipViolation):
                check_ownership(state, memory, after)


@for_every_row("state", State)
def test_no_state_may_take_a_message_out_of_the_transcript(state: State) -> None:
    memory = AgentMemory(transcript=Conversation([Message.user("task"), Message.user("more")]))
    with pytest.raises(OwnershipViolation):
        check_ownership(state, memory, replace(memory, transcript=Conversation()))
    added = replace(memory, transcript=memory.transcript.append(Message.user("x")))
    if state in OWNERS["transcript"]:
        check_ownership(state, memory, added)
    else:
        with pytest.raises(OwnershipViolation):
            check_ownership(state, memory, added)


def test_an_equal_value_in_another_object_is_no_change() -> None:
    memory = AgentMemory(task="a", budget=TokenBudget(1))
    check_ownership(State.IDLE, memory, replace(memory, budget=TokenBudget(1)))


def test_the_violation_names_state_and_field_and_who_may() -> None:
    memory = agent().memory
    with pytest.raises(OwnershipViolation, match=r"'Acting' wrote memory\.step") as caught:
        check_ownership(State.ACTING, memory, replace(memory, step=9))
    assert caught.value.hint == "step is written by: Planning"
