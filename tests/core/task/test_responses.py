"""Planning: how a response is judged, and what the next request says of what was refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from case_tables import for_every_row
from core.random_events import check_pairs
from core.task.tasks import (
    ANSWER,
    TOOLS,
    agent,
    asks,
    call,
    does,
    fine,
    given,
    idle,
    logged,
    request,
    says,
    texts,
    tool,
)
from treadle.core.actions import WAIT, ExecuteTools, RequestApproval, SendLlmRequest
from treadle.core.approval import AlwaysAsk, AskAbove, NeverAsk, ToolBased
from treadle.core.events import PostToolsHookCompleted
from treadle.core.tools import EffectClass, RiskLevel

# ---- the response: the order of the checks -----------------------------------------------------

ONE = (call("a", "burn"),)
MANY = (call("a", "look"), call("b", "burn"))


@for_every_row("calls", [ONE, MANY])
@for_every_row(
    "rest, confidence, state, line",
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


@for_every_row(
    "confidence, is_taken",
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


@for_every_row(
    "policy, name, risks, is_asked",
    [
        (NeverAsk(), "burn", (), False),
        (AlwaysAsk(), "look", (), True),
        (AskAbove(RiskLevel.HIGH), "burn", (), True),
        (AskAbove(RiskLevel.HIGH), "edit", (), False),
        (AskAbove(RiskLevel.HIGH), "edit", (RiskLevel.CRITICAL,), True),
        (ToolBased({"look": RiskLevel.HIGH}), "look", (), True),
        (ToolBased({"burn": RiskLevel.LOW}), "burn", (), False),
    ],
)
def test_policies_ask_by_the_risk_of_the_tool_and_of_the_call(
    policy: Any, name: str, risks: tuple[RiskLevel, ...], is_asked: bool
) -> None:
    machine = agent(approval=policy)
    action = does(machine, asks(call("a", name), risks=risks))
    assert isinstance(action, RequestApproval) == is_asked


def test_of_two_calls_with_one_id_the_risky_one_is_asked_about() -> None:
    for call_id in ("", "x"):
        machine = agent(approval=AskAbove(RiskLevel.CRITICAL))
        event = asks(call(call_id, "edit"), call(call_id, "look"), risks=(RiskLevel.CRITICAL, None))
        action = does(machine, event)
        assert isinstance(action, RequestApproval)
        assert [one.call.tool_name for one in action.questions] == ["edit"]


def test_a_risk_belongs_to_the_call_in_its_place_whatever_id_it_gets() -> None:
    machine = agent(approval=AskAbove(RiskLevel.CRITICAL))
    does(machine, asks(call("a", "edit")), fine("a"), PostToolsHookCompleted(False))
    action = does(machine, asks(call("a", "edit"), risks=(RiskLevel.CRITICAL,)))
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


@for_every_row(
    "arguments, confidence",
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
