"""Planning: what is looked at before a request, what a request holds, how a response is judged."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from core.sessions import check_pairs
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
    tool,
)
from treadle.core.actions import WAIT, ExecuteTools, RequestApproval, SendLlmRequest
from treadle.core.approval import AlwaysAsk, AskAbove, NeverAsk, ToolBased
from treadle.core.budget import TokenBudget
from treadle.core.events import PostToolsHookCompleted, RetryTimeoutFired
from treadle.core.llm import LlmErrorKind, Usage
from treadle.core.retry import RETRYABLE
from treadle.core.task.events import TaskResumed, TimeRanOut
from treadle.core.task.machine import TaskMachine
from treadle.core.tools import EffectClass, RiskLevel

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


@pytest.mark.parametrize(
    ("budget", "usage", "limit", "words"),
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
    machine = agent("x" * 400)
    machine.handle_event(says("y" * 40))
    assert machine.memory.total_usage == Usage(100, 10, estimated=True)


def test_an_estimate_counts_against_the_budget_too() -> None:
    machine = agent("x" * 400, budget=TokenBudget(max_input=100))
    does(machine, asks(), fine("a"))
    assert machine.memory.exceeded == "input tokens"


@pytest.mark.parametrize(
    ("models", "task_type", "model"),
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
        ("assistant", 'Called tool look with args {"x":"1"}'),
        ("user", "Tool result: three"),
        ("user", "count"),
    ]


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
    machine.handle_event(broken())
    assert machine.state_name == "Error"
    assert machine.memory.error == (
        "LLM error: network: so it goes; check the network and the base URL, then go on"
    )


def test_an_answer_begins_the_count_of_retries_anew() -> None:
    machine = agent()
    does(machine, broken(), RetryTimeoutFired(), asks(), fine("a"))
    for _ in range(3):
        does(machine, broken(), RetryTimeoutFired())
    assert machine.state_name == "Planning"


@pytest.mark.parametrize("kind", sorted(set(LlmErrorKind) - RETRYABLE, key=lambda k: k.value))
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


# ---- the response: the order of the checks -----------------------------------------------------

ONE = (call("a", "burn"),)
MANY = (call("a", "look"), call("b", "burn"))


@pytest.mark.parametrize("calls", [ONE, MANY], ids=["one", "many"])
@pytest.mark.parametrize(
    ("rest", "confidence", "state", "line"),
    [
        ({"blacklisted_tools": ("burn",), "approval": AlwaysAsk()}, 0.1, "P", "TOOL_BLACKLISTED"),
        ({"approval": AlwaysAsk()}, 0.1, "P", "LOW_CONFIDENCE"),
        ({"approval": AlwaysAsk()}, 0.9, "WaitingForHuman", "APPROVAL_REQUIRED"),
        ({"approval": NeverAsk()}, 0.9, "Acting", "TOOL_CALL"),
    ],
)
def test_one_call_and_a_batch_pass_the_same_checks_in_the_same_order(
    calls: tuple[Any, ...], rest: dict[str, Any], confidence: float, state: str, line: str
) -> None:
    machine = agent(**rest)
    does(machine, asks(*calls, confidence=confidence))
    states = {"P": "Planning", "Acting": "ParallelActing" if calls is MANY else "Acting"}
    assert machine.state_name == states.get(state, state)
    names = {"TOOL_CALL": "LLM_PARALLEL_TOOLS" if calls is MANY else "LLM_TOOL_CALL"}
    assert names.get(line, line) in logged(machine)


def test_a_blacklisted_call_and_its_siblings_are_answered_in_the_next_request() -> None:
    machine = agent(blacklisted_tools=("burn",))
    sent = request(does(machine, says("let me", *MANY)))
    check_pairs(sent.messages)
    assert texts(sent.messages)[1:] == [
        ("assistant", "let me"),
        ("tool", "ERROR: not run because burn is blacklisted; ask again."),
        (
            "tool",
            "ERROR: the tool 'burn' is blacklisted in this task and was not run; use another "
            "tool or answer.",
        ),
    ]
    assert machine.path == ("Planning",)
    assert (machine.memory.step, len(machine.memory.history)) == (2, 0)


@pytest.mark.parametrize("calls", [ONE, MANY], ids=["one", "many"])
def test_calls_of_low_confidence_are_answered_with_the_reason_in_the_next_request(
    calls: tuple[Any, ...],
) -> None:
    machine = agent()
    sent = request(does(machine, asks(*calls, confidence=0.2)))
    check_pairs(sent.messages)
    for message in sent.messages[2:]:
        assert message.content == (
            "ERROR: not run: your confidence 0.20 is below 0.40; reconsider, then ask again or do "
            "something else."
        )
    assert len(sent.messages) == 2 + len(calls)
    assert machine.path == ("Reflecting", "Planning")
    assert (machine.memory.retry_count, machine.memory.confidence_score) == (1, 0.2)


def test_when_the_retries_are_used_up_calls_of_low_confidence_run_and_the_trace_says_so() -> None:
    machine = agent(max_retries=2)
    for number in range(2):
        assert isinstance(does(machine, asks(call(f"n{number}"), confidence=0.1)), SendLlmRequest)
    assert isinstance(does(machine, asks(confidence=0.1)), ExecuteTools)
    last = [entry for entry in machine.memory.trace if entry.event == "LOW_CONFIDENCE"][-1]
    assert last.data.endswith("accepted: 2 of 2 retries used")


@pytest.mark.parametrize(
    ("confidence", "is_taken"),
    [(None, True), (0.4, True), (0.39, False), (0.0, False), (-3.0, False), (7.0, True)],
)
def test_confidence_is_clamped_and_missing_counts_as_sure(
    confidence: float | None, is_taken: bool
) -> None:
    machine = agent()
    machine.handle_event(asks(confidence=confidence))
    assert (machine.state_name == "Acting") == is_taken
    assert 0.0 <= machine.memory.confidence_score <= 1.0


def test_a_final_answer_of_low_confidence_is_asked_for_again() -> None:
    machine = agent(max_retries=1)
    sent = request(does(machine, says(ANSWER, confidence=0.3)))
    assert texts(sent.messages)[1:] == [
        ("assistant", ANSWER),
        (
            "user",
            "Your answer was not taken: your confidence 0.30 is below 0.40. Make sure of it with a "
            "tool, or answer again.",
        ),
    ]
    assert machine.path == ("Reflecting", "Planning")
    does(machine, says(ANSWER, confidence=0.3))
    assert (machine.state_name, machine.memory.final_answer) == ("Done", ANSWER)


def test_a_short_answer_is_asked_for_again_with_its_length_in_characters() -> None:
    machine = agent()
    sent = request(does(machine, says("  ärgerlich kurz  ")))
    assert texts(sent.messages)[1:] == [
        ("assistant", "  ärgerlich kurz  "),
        ("user", "Your answer has 14 characters; at least 20 are asked for."),
    ]
    assert machine.path == ("Planning",)
    assert machine.memory.final_answer is None


@pytest.mark.parametrize("text", ["", " \n "])
def test_an_empty_answer_leaves_the_note_alone_because_no_provider_takes_it_back(
    text: str,
) -> None:
    machine = agent()
    sent = request(does(machine, says(text)))
    assert [message.role for message in sent.messages] == ["user", "user"]


def test_an_answer_without_the_form_that_was_asked_for_is_asked_for_again() -> None:
    machine = agent(output_schema={"type": "object"})
    sent = request(does(machine, says("no", fault="it is no JSON")))
    assert texts(sent.messages)[-1] == (
        "user",
        "Your answer does not have the form that was asked for: it is no JSON. Answer again, with "
        "one JSON document of the schema and nothing else.",
    )
    assert "ANSWER_INVALID" in logged(machine)
    does(machine, says("{}"))
    assert machine.memory.final_answer == "{}"


def test_a_refused_answer_that_was_cut_off_is_told_so() -> None:
    for event in (
        says("no", finish_reason="length"),
        says(ANSWER, finish_reason="length", confidence=0.1),
        says(ANSWER, finish_reason="length", fault="half a document"),
        asks(finish_reason="length", confidence=0.1),
    ):
        machine = agent()
        sent = request(does(machine, event))
        assert "cut off by the limit of tokens" in sent.messages[-1].content


def test_an_answer_ends_the_task_and_stands_last_in_the_transcript() -> None:
    machine = agent()
    assert machine.handle_event(says(ANSWER)) == WAIT
    assert (machine.state_name, machine.memory.final_answer) == ("Done", ANSWER)
    assert texts(machine.conversation) == [("user", "count the lines"), ("assistant", ANSWER)]
    assert logged(machine)[-2:] == ["LLM_FINAL_ANSWER", "TASK_COMPLETE"]
    assert machine.is_over
    assert machine.is_at_rest


def test_calls_win_over_text_beside_them() -> None:
    machine = agent()
    assert isinstance(does(machine, says(ANSWER, call())), ExecuteTools)


def test_a_call_id_that_was_used_before_gets_a_fresh_one() -> None:
    machine = agent()
    does(machine, asks(call("a")), fine("a"))
    action = does(machine, asks(call("a"), call("a"), call("")))
    assert isinstance(action, ExecuteTools)
    assert len({one.id for one in action.calls} | {"a", ""}) == 5


# ---- approval ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "name", "risks", "is_asked"),
    [
        (NeverAsk(), "burn", {}, False),
        (AlwaysAsk(), "look", {}, True),
        (AskAbove(RiskLevel.HIGH), "burn", {}, True),
        (AskAbove(RiskLevel.HIGH), "edit", {}, False),
        (AskAbove(RiskLevel.HIGH), "edit", {"a": RiskLevel.CRITICAL}, True),
        (ToolBased({"look": RiskLevel.HIGH}), "look", {}, True),
        (ToolBased({"burn": RiskLevel.LOW}), "burn", {}, False),
    ],
)
def test_policies_ask_by_the_risk_of_the_tool_and_of_the_call(
    policy: Any, name: str, risks: dict[str, RiskLevel], is_asked: bool
) -> None:
    machine = agent(approval=policy)
    action = does(machine, asks(call("a", name), risks=risks))
    assert isinstance(action, RequestApproval) == is_asked


def test_a_risk_belongs_to_the_call_under_the_id_the_model_gave_it() -> None:
    machine = agent(approval=AskAbove(RiskLevel.CRITICAL))
    does(machine, asks(call("a", "edit")), fine("a"), PostToolsHookCompleted(False))
    action = does(machine, asks(call("a", "edit"), risks={"a": RiskLevel.CRITICAL}))
    assert isinstance(action, RequestApproval)
    assert action.questions[0].call.id == "a-3-0"


# ---- confidence that the model reports itself --------------------------------------------------


def test_each_tool_gains_an_optional_number_and_its_other_parameters_stay() -> None:
    sent = request(idle().handle_event(given(self_reported_confidence=True)))
    for told, own in zip(sent.tools, TOOLS, strict=True):
        properties = told.input_schema["properties"]
        assert properties["x"] == own.input_schema["properties"]["x"]
        assert properties["confidence"]["type"] == "number"
        assert "required" not in told.input_schema


def test_a_tool_with_a_parameter_of_that_name_keeps_it() -> None:
    schema = {"type": "object", "properties": {"confidence": {}, "_confidence": {}}}
    odd = msgspec.structs.replace(tool("odd", EffectClass.READ), input_schema=schema)
    machine = agent(self_reported_confidence=True, tools=(odd,))
    sent = machine.obligations()
    [told] = request(sent).tools
    assert [*told.input_schema["properties"]] == ["confidence", "_confidence", "__confidence"]
    action = does(machine, asks(call("a", "odd", '{"confidence":0.1,"__confidence":0.8}')))
    assert isinstance(action, ExecuteTools)
    assert action.calls[0].arguments_json == '{"confidence":0.1}'
    assert machine.memory.confidence_score == 0.8


def test_what_the_model_says_of_its_confidence_is_taken_out_before_anybody_sees_the_call() -> None:
    machine = agent(self_reported_confidence=True, approval=AlwaysAsk())
    wrote = '{"x": "1", "confidence": 0.9, "n": 1.50}'
    action = does(machine, asks(call("a", "look", wrote)))
    assert isinstance(action, RequestApproval)
    assert action.questions[0].call.arguments_json == '{"x":"1","n":1.50}'
    assert machine.conversation[-1].tool_calls[0].arguments_json == wrote


@pytest.mark.parametrize(
    ("arguments", "confidence"),
    [
        ('{"x":"1"}', 1.0),
        ('{"confidence":0.2}', 0.2),
        ('{"confidence":"very"}', 1.0),
        ('{"confidence":null}', 1.0),
        ('{"confidence":0.2', 1.0),
        ('["confidence"]', 1.0),
    ],
)
def test_only_a_number_says_how_sure_the_model_is(arguments: str, confidence: float) -> None:
    machine = agent(self_reported_confidence=True)
    machine.handle_event(asks(call("a", "look", arguments)))
    assert machine.memory.confidence_score == confidence


def test_the_least_sure_call_of_a_batch_counts_for_all() -> None:
    machine = agent(self_reported_confidence=True)
    does(
        machine,
        asks(call("a", "look", '{"confidence":0.9}'), call("b", "look", '{"confidence":0.1}')),
    )
    assert (machine.state_name, machine.memory.retry_count) == ("Planning", 1)


def test_without_being_asked_for_a_confidence_argument_belongs_to_the_tool() -> None:
    machine = agent()
    action = does(machine, asks(call("a", "look", '{"confidence":0.1}')))
    assert isinstance(action, ExecuteTools)
    assert action.calls[0].arguments_json == '{"confidence":0.1}'


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
