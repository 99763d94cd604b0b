"""What the task machine of the original program did wrong and this one does not, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from case_tables import for_every_row
from core.random_events import check_pairs
from core.task.tasks import (
    ANSWER,
    agent,
    asks,
    broken,
    call,
    cycle,
    decided,
    does,
    fails,
    fine,
    logged,
    request,
    says,
    settings,
    texts,
)
from treadle.core.actions import WAIT, ExecuteTools, RequestApproval, SendLlmRequest
from treadle.core.approval import AlwaysAsk, AskAbove, Modified, Rejected, ToolBased
from treadle.core.llm import LlmErrorKind, Usage
from treadle.core.task.machine import TaskMachine
from treadle.core.task.memory import SUMMARY
from treadle.core.tools import RiskLevel

BURN, LOOK = call("a", "burn"), call("b", "look")


def test_no_safety_cap_comes_before_max_steps() -> None:
    machine = agent(max_steps=40)
    for number in range(40):
        cycle(machine, number)
    assert (machine.memory.step, machine.memory.exceeded) == (40, "steps")


@pytest.mark.parametrize(
    ("event", "line"),
    [(says(ANSWER), "TASK_COMPLETE"), (broken(LlmErrorKind.BAD_REQUEST), "AGENT_FAILED")],
)
def test_the_handlers_of_done_and_error_run(event: Any, line: str) -> None:
    machine = agent()
    machine.handle_event(event)
    assert logged(machine)[-1] == line


def test_a_batch_gets_past_neither_blacklist_nor_confidence_nor_approval() -> None:
    batch = asks(BURN, LOOK, confidence=0.9)
    assert isinstance(does(agent(blacklisted_tools=("burn",)), batch), SendLlmRequest)
    assert isinstance(does(agent(), asks(BURN, LOOK, confidence=0.1)), SendLlmRequest)
    assert isinstance(does(agent(approval=AlwaysAsk()), batch), RequestApproval)


def test_the_flag_for_parallel_tools_is_read() -> None:
    assert agent(parallel_tools=False).parallel_max == 1


@for_every_row(
    "event",
    [
        asks(BURN),
        asks(BURN, LOOK),
        asks(LOOK, confidence=0.1),
        says("short"),
        says(ANSWER, confidence=0.1),
        says(ANSWER, fault="no form"),
    ],
)
def test_a_refused_response_does_not_lead_to_the_same_request_again(event: Any) -> None:
    machine = agent(blacklisted_tools=("burn",))
    before = request(machine.obligations())
    after = request(does(machine, event))
    assert len(after.messages) > len(before.messages)
    check_pairs(after.messages)


def test_reflection_forgets_no_result_and_keeps_the_newest_word_for_word() -> None:
    machine = agent(max_steps=99)
    for number in range(30):
        cycle(machine, number, f"fact {number}.")
    shown = "\n".join(message.content for message in machine.conversation.in_view)
    assert all(f"fact {number}." in shown for number in range(30))


def test_one_response_of_low_confidence_does_not_wipe_the_history() -> None:
    machine = agent()
    cycle(machine, 1)
    history = machine.memory.history
    does(machine, asks(confidence=0.1))
    assert machine.memory.history is history


def test_reflection_does_not_give_the_retries_for_low_confidence_back() -> None:
    machine = agent(max_retries=3, max_steps=99)
    refused = 0
    while isinstance(does(machine, asks(call(f"n{refused}"), confidence=0.1)), SendLlmRequest):
        assert machine.path == ("Reflecting", "Planning")
        refused += 1
    assert refused == 3


def test_ask_above_high_asks_for_a_tool_of_high_risk_and_not_for_every_tool() -> None:
    machine = agent(approval=AskAbove(RiskLevel.HIGH))
    action = does(machine, asks(BURN))
    assert isinstance(action, RequestApproval)
    assert action.questions[0].risk is RiskLevel.HIGH
    assert isinstance(does(agent(approval=AskAbove(RiskLevel.MEDIUM)), asks(LOOK)), ExecuteTools)


def test_a_question_names_the_risk_of_its_tool_and_not_always_high() -> None:
    machine = agent(approval=ToolBased({"look": RiskLevel.CRITICAL}))
    does(machine, asks(LOOK))
    assert machine.questions[0].risk is RiskLevel.CRITICAL


def test_a_call_that_a_person_changed_passes_the_checks_again() -> None:
    machine = agent(approval=AskAbove(RiskLevel.HIGH))
    does(machine, asks(BURN))
    action = does(machine, decided("a", Modified("{}", RiskLevel.CRITICAL)))
    assert isinstance(action, RequestApproval)


def test_a_rejected_batch_may_be_rejected_in_part() -> None:
    machine = agent(approval=AlwaysAsk())
    does(machine, asks(BURN, LOOK), decided("a", Rejected()))
    assert [question.call for question in machine.questions] == [LOOK]


def test_every_call_of_a_batch_has_a_result_even_if_its_tool_broke() -> None:
    machine = agent()
    does(machine, asks(LOOK, call("c"), call("d")), fails("d"), fine("b"), fails("c"))
    assert len(machine.memory.history) == 3


def test_usage_that_nobody_reports_does_not_count_as_nothing() -> None:
    machine = agent()
    machine.handle_event(says(ANSWER))
    assert machine.memory.total_usage.estimated
    assert machine.memory.total_usage.output_tokens > 0


def test_usage_is_counted_once_for_each_response() -> None:
    machine = agent()
    does(machine, asks(usage=Usage(10, 5)), fine("a"), says(ANSWER, usage=Usage(20, 5)))
    assert machine.memory.total_usage == Usage(30, 10)


def test_the_length_of_an_answer_is_counted_in_characters_and_not_in_bytes() -> None:
    machine = agent()
    assert isinstance(does(machine, says("ä" * 19)), SendLlmRequest)
    does(machine, says("ä" * 20))
    assert machine.state_name == "Done"


def test_the_confidence_of_a_final_answer_counts_too() -> None:
    machine = agent()
    does(machine, says(ANSWER, confidence=0.8))
    assert machine.memory.confidence_score == 0.8


def test_a_failed_request_of_a_task_is_tried_again() -> None:
    machine = agent()
    assert machine.handle_event(broken()) == WAIT
    assert machine.retry is not None


def test_results_of_one_step_share_no_made_up_call_id() -> None:
    machine = agent()
    does(machine, asks(call(""), call("")))
    ids = [one.id for one, _ in machine.round]
    assert len({*ids, ""}) == 3


def test_going_on_from_a_saved_state_counts_steps_and_retries_on() -> None:
    machine = agent(max_steps=3)
    does(machine, asks(confidence=0.1))
    other = TaskMachine(settings()).with_state(machine.state)
    cycle(other, 1)
    cycle(other, 2)
    assert (other.memory.step, other.memory.exceeded) == (3, "steps")
    assert other.memory.retry_count == 1


def test_the_task_stands_in_every_request_whatever_was_compressed() -> None:
    machine = agent("find the needle", max_steps=99)
    for number in range(12):
        sent = request(cycle(machine, number))
        assert "find the needle" in texts(sent.messages)[0][1]
    assert machine.memory.history[0].tool.tool_name == SUMMARY
