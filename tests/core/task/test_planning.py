"""Planning: what is looked at before a request, what it holds, and what if it fails."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from case_tables import for_every_row
from core.task.tasks import (
    ANSWER,
    TOOLS,
    agent,
    asks,
    at,
    broken,
    call,
    cycle,
    does,
    fails,
    fine,
    given,
    idle,
    logged,
    request,
    says,
    settings,
    texts,
)
from treadle.core.actions import WAIT, SendLlmRequest
from treadle.core.budget import CHARACTERS_PER_TOKEN, TokenBudget
from treadle.core.conversation import SUMMARY_HEAD
from treadle.core.events import PostToolsHookCompleted, RetryTimeoutFired
from treadle.core.llm import LlmErrorKind, Usage
from treadle.core.messages import Message
from treadle.core.retry import RETRYABLE
from treadle.core.task.events import TaskInformed, TaskResumed, TimeRanOut
from treadle.core.task.machine import TaskMachine

# ---- before the request ------------------------------------------------------------------------


def test_a_task_begins_with_a_request_that_holds_the_task_and_the_system_prompt() -> None:
    machine = idle(temperature=0.5, max_tokens=77, reasoning="low")
    action = machine.handle_event(given("count", system_prompt="be exact"))
    sent = request(action)
    assert texts(sent.messages) == [("user", "count")]
    assert (sent.model, sent.system, sent.tools) == ("model-1", "be exact", TOOLS)
    assert (sent.temperature, sent.max_tokens, sent.reasoning) == (0.5, 77, "low")
    assert machine.path == ("Idle", "Planning")
    assert logged(machine) == ["AGENT_STARTED", "STEP_START"]


def test_max_steps_comes_before_the_budget_and_the_step_is_not_counted() -> None:
    machine = idle()
    machine.handle_event(given(max_steps=0, budget=TokenBudget(max_total=0)))
    assert machine.state_name == "Error"
    memory = machine.memory
    assert (memory.error, memory.exceeded, memory.step) == ("Max steps 0 exceeded", "steps", 0)
    assert logged(machine) == ["AGENT_STARTED", "MAX_STEPS", "AGENT_FAILED"]


def test_the_budget_comes_before_the_step_counts() -> None:
    machine = idle()
    machine.handle_event(given(budget=TokenBudget(max_total=0)))
    assert (machine.state_name, machine.memory.step) == ("Error", 0)
    assert machine.memory.exceeded == "tokens"
    assert logged(machine) == ["AGENT_STARTED", "BUDGET_EXCEEDED", "AGENT_FAILED"]


@for_every_row(
    "budget, usage, limit, words",
    [
        (TokenBudget(max_total=15), Usage(10, 5), "tokens", "15 of 15 tokens"),
        (TokenBudget(max_input=10), Usage(10, 5), "input tokens", "10 of 10 input"),
        (TokenBudget(max_output=5), Usage(10, 5), "output tokens", "5 of 5 output"),
        (
            TokenBudget(max_cost_usd=Decimal("0.5")),
            Usage(1, 1, cost_usd=Decimal("0.75")),
            "cost",
            "0.7500 of 0.5 USD",
        ),
    ],
)
def test_each_kind_of_budget_stops_before_the_next_request(
    budget: TokenBudget, usage: Usage, limit: str, words: str
) -> None:
    machine = agent(budget=budget)
    action = does(machine, asks(usage=usage), fine("a"))
    assert action == WAIT
    assert (machine.state_name, machine.memory.exceeded) == ("Error", limit)
    assert words in (machine.memory.error or "")


def test_what_is_under_budget_goes_on() -> None:
    machine = agent(budget=TokenBudget(max_total=16, max_cost_usd=Decimal(1), max_time_s=9))
    assert isinstance(does(machine, asks(usage=Usage(10, 5)), fine("a")), SendLlmRequest)


def test_seconds_of_work_count_against_the_time_limit_and_those_without_a_process_do_not() -> None:
    machine = agent(budget=TokenBudget(max_time_s=10))
    does(machine, asks(at=at(4)), TaskResumed(at(1000)), fine("a", at=at(1005)))
    assert (machine.memory.elapsed_s, machine.state_name) == (9.0, "Planning")
    does(machine, asks(at=at(1006)), fine("a-3-0", at=at(1006)))
    assert (machine.state_name, machine.memory.exceeded) == ("Error", "time")
    assert machine.memory.error == "Time limit exceeded: 10 of 10 s used"


def test_time_that_runs_out_while_the_model_answers_ends_the_task() -> None:
    machine = agent(budget=TokenBudget(max_time_s=10))
    assert machine.handle_event(TimeRanOut(at(11))) == WAIT
    assert (machine.state_name, machine.memory.exceeded) == ("Error", "time")
    assert machine.memory.error == "Time limit exceeded: 11 of 10 s used"


def test_usage_that_nobody_reports_is_estimated_and_marked() -> None:
    machine = agent("x" * 400, system_prompt="be exact")
    sent = request(machine.obligations())
    machine.handle_event(says("y" * 40))
    used = machine.memory.total_usage
    read = 400 + len("be exact") + len(msgspec.json.encode(sent.tools))
    assert used.input_tokens == -(-read // CHARACTERS_PER_TOKEN)
    assert used == Usage(
        used.input_tokens, 10, estimated=True, unpriced_tokens=used.input_tokens + 10
    )


def test_an_estimate_counts_against_the_budget_too() -> None:
    machine = agent("x" * 400, budget=TokenBudget(max_input=100))
    does(machine, asks(), fine("a"))
    assert machine.memory.exceeded == "input tokens"


@for_every_row(
    "models, task_type, model",
    [
        ({}, "default", "model-1"),
        ({"default": "big"}, "research", "big"),
        ({"default": "big", "research": "bigger"}, "research", "bigger"),
        ({"research": "bigger"}, "default", "model-1"),
    ],
)
def test_the_model_is_chosen_by_kind_of_task(
    models: dict[str, str], task_type: str, model: str
) -> None:
    machine = idle()
    sent = request(machine.handle_event(given(models=models, task_type=task_type)))
    assert sent.model == machine.model_name == model


def test_without_any_name_the_provider_takes_its_own_default() -> None:
    machine = TaskMachine(settings(model_name=""))
    assert request(machine.handle_event(given())).model == ""


def test_the_text_style_puts_history_in_words_and_the_task_last() -> None:
    machine = agent("count", history_style="text")
    sent = request(does(machine, asks(call("a")), fine("a", "three")))
    assert texts(sent.messages) == [
        ("user", "Task: count"),
        ("assistant", 'Called tool look with args {"x":"1"}'),
        ("user", "Tool result: three"),
        ("user", "count"),
    ]


def test_the_text_style_begins_with_a_user_and_says_the_task_once_if_that_is_enough() -> None:
    machine = agent("count", history_style="text", max_steps=99)
    assert texts(request(machine.obligations()).messages) == [("user", "count")]
    for number in range(1, 11):
        sent = request(cycle(machine, number))
        assert sent.messages[0].role == "user"
        assert texts(sent.messages)[-1] == ("user", "count")
    assert texts(sent.messages)[0][1].startswith(SUMMARY_HEAD)


def test_the_schema_of_the_answer_stands_in_the_system_text_in_one_form() -> None:
    schema = {"type": "object", "properties": {"b": {"type": "number"}, "a": {}}}
    sent = request(idle().handle_event(given(system_prompt="be exact", output_schema=schema)))
    assert sent.system.startswith("be exact\n\n")
    assert sent.system.endswith('{"properties":{"a":{},"b":{"type":"number"}},"type":"object"}')
    alone = request(idle().handle_event(given(output_schema=schema)))
    assert sent.system == f"be exact\n\n{alone.system}"
    assert "one JSON document" in alone.system


# ---- a failed request --------------------------------------------------------------------------


def test_a_failed_request_waits_and_is_sent_again_byte_for_byte_in_the_same_step() -> None:
    machine = agent()
    sent = machine.obligations()
    assert machine.handle_event(broken()) == WAIT
    assert machine.retry is not None
    assert (machine.retry.delay_s, machine.state_name) == (0.5, "Planning")
    assert machine.obligations() == WAIT
    assert machine.handle_event(RetryTimeoutFired()) == sent
    assert machine.retry is None
    assert machine.obligations() == sent
    assert machine.memory.step == 1


def test_retries_are_counted_until_an_answer_comes() -> None:
    machine = agent(max_retries=3)  # of answers; those of requests are another setting
    for delay_s in (0.5, 1.0, 2.0):
        assert machine.handle_event(broken()) == WAIT
        assert machine.retry is not None
        assert machine.retry.delay_s == delay_s
        machine.handle_event(RetryTimeoutFired())
    assert machine.handle_event(broken()) == WAIT
    assert machine.state_name == "Planning"
    assert (machine.is_at_rest, machine.retry, machine.obligations()) == (True, None, WAIT)
    assert machine.suspension_error == broken().error
    assert logged(machine)[-1] == "LLM_ERROR"


def test_a_task_that_no_model_answers_goes_on_when_it_is_resumed() -> None:
    machine = agent(max_retries=3)
    first = machine.obligations()
    for _ in range(2):
        for _ in range(3):
            does(machine, broken(), RetryTimeoutFired())
        does(machine, broken())
        assert machine.suspension_error is not None
        assert machine.handle_event(TaskResumed("")) == first
        assert (machine.suspension_error, machine.is_at_rest) == (None, False)
    does(machine, says(ANSWER))
    assert machine.state_name == "Done"


def test_what_the_model_is_told_before_a_request_goes_with_it_and_waits_for_none() -> None:
    machine = agent()
    first = machine.obligations()
    assert isinstance(first, SendLlmRequest)
    due = machine.handle_event(TaskInformed("[it is another day]", at(3)))
    assert isinstance(due, SendLlmRequest)
    note = Message.note("[it is another day]")
    assert [*due.request.messages] == [*first.request.messages, note]
    does(machine, broken())
    before = machine.memory
    assert machine.handle_event(TaskInformed("[too late]")) == WAIT
    assert machine.memory == before
    does(machine, RetryTimeoutFired(), asks())
    assert machine.state_name == "Acting"
    machine.handle_event(TaskInformed("[between a call and its result]"))
    assert machine.memory.transcript[-1].tool_calls


def test_a_provider_that_asks_for_more_patience_than_anybody_has_does_not_end_the_task() -> None:
    machine = agent()
    machine.handle_event(broken(retry_after_s=3600.0))
    assert machine.state_name == "Planning"
    assert machine.suspension_error is not None


def test_an_answer_begins_the_count_of_retries_anew() -> None:
    machine = agent()
    does(machine, broken(), RetryTimeoutFired(), asks(), fine("a"))
    for _ in range(3):
        does(machine, broken(), RetryTimeoutFired())
    assert machine.state_name == "Planning"


@for_every_row("kind", sorted(set(LlmErrorKind) - RETRYABLE, key=lambda k: k.value))
def test_a_failure_that_cannot_pass_ends_the_task_with_advice(kind: LlmErrorKind) -> None:
    machine = agent()
    assert machine.handle_event(broken(kind)) == WAIT
    assert machine.state_name == "Error"
    assert "; " in (machine.memory.error or "")
    assert logged(machine)[-2:] == ["LLM_ERROR", "AGENT_FAILED"]
    assert machine.memory.exceeded == ""


def test_a_history_that_is_too_long_comes_with_the_advice_to_reflect() -> None:
    machine = agent()
    machine.handle_event(broken(LlmErrorKind.CONTEXT_TOO_LONG))
    assert "reflect_every_n_steps" in (machine.memory.error or "")


def test_what_a_failed_request_used_counts_and_the_budget_is_looked_at_before_a_retry() -> None:
    machine = agent(budget=TokenBudget(max_total=10))
    does(machine, broken(usage=Usage(9, 1)), RetryTimeoutFired())
    assert (machine.memory.total_usage, machine.state_name) == (Usage(9, 1), "Error")
    assert machine.memory.exceeded == "tokens"


def test_time_is_looked_at_before_a_retry_too() -> None:
    machine = agent(budget=TokenBudget(max_time_s=5))
    does(machine, broken(at=at(1)), RetryTimeoutFired(at(6)))
    assert machine.memory.exceeded == "time"


def test_while_a_request_waits_to_be_sent_again_no_answer_fits() -> None:
    machine = agent()
    machine.handle_event(broken())
    before = machine.state
    for event in (says(ANSWER), broken(), PostToolsHookCompleted(True)):
        assert machine.handle_event(event) == WAIT
        assert machine.state is before
    machine.handle_event(TimeRanOut(at(1)))
    assert machine.state_name == "Error"
    assert machine.retry is None


# ---- running out of steps ----------------------------------------------------------------------


def test_fifteen_cycles_of_tools_reach_max_steps_and_nothing_stops_them_before() -> None:
    machine = agent()
    for number in range(15):
        assert (machine.state_name, machine.memory.step) == ("Planning", number + 1)
        cycle(machine, number)
    assert (machine.state_name, machine.memory.exceeded) == ("Error", "steps")
    assert machine.memory.error == "Max steps 15 exceeded"
    calls = sum(entry.event == "TOOL_EXECUTE" for entry in machine.memory.trace)
    assert calls == 15


def test_a_failing_tool_is_data_for_the_next_request() -> None:
    machine = agent()
    sent = request(does(machine, asks(), fails("a", "disk full")))
    assert texts(sent.messages)[-1] == ("tool", "ERROR: Failed: disk full")
    assert machine.memory.history[-1].observation == "ERROR: Failed: disk full"
    assert not machine.memory.history[-1].success
