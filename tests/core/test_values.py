"""The small values: what they say to people and models, and that nobody can change them."""

from __future__ import annotations

import pytest

from core.samples import CONFIG, EVENTS_TRIED, STATES_TRIED, call
from treadle.core.config import AgentConfig
from treadle.core.events import DURABLE, EVENTS, name_of
from treadle.core.llm import LlmError, LlmErrorKind, LlmResponse, Usage
from treadle.core.messages import Message
from treadle.core.tools import EffectClass, RiskLevel, ToolDefinition, ToolError, ToolErrorKind


@pytest.mark.parametrize(
    "value", [*STATES_TRIED, *EVENTS_TRIED], ids=lambda value: type(value).__name__
)
def test_states_and_events_cannot_be_changed(value: object) -> None:
    for name in getattr(value, "__struct_fields__", ()):
        with pytest.raises(AttributeError):
            setattr(value, name, None)


def test_usage_adds_up_and_an_estimate_anywhere_makes_the_sum_one() -> None:
    assert Usage(1, 2) + Usage(3, 4) == Usage(4, 6)
    assert Usage(1, 2) + Usage(0, 0, estimated=True) == Usage(1, 2, estimated=True)
    assert Usage(1, 2, estimated=True) + Usage() == Usage(1, 2, estimated=True)


@pytest.mark.parametrize("kind", list(LlmErrorKind))
def test_a_models_failure_is_one_line_for_people(kind: LlmErrorKind) -> None:
    assert LlmError(kind).text == f"LLM error: {kind.value.replace('_', ' ')}"
    assert LlmError(kind, "because").text.endswith(": because")


@pytest.mark.parametrize("kind", list(ToolErrorKind))
def test_a_tools_failure_is_its_words_its_message_and_what_it_had_produced(
    kind: ToolErrorKind,
) -> None:
    assert ToolError(kind).text == kind.value
    assert ToolError(kind, "why").text == f"{kind.value}: why"
    assert ToolError(kind, "why", "partial").text == f"{kind.value}: why\npartial"
    assert ToolError(kind, "", "partial").text == f"{kind.value}\npartial"


def test_a_tool_nobody_knows_counts_as_one_that_changes_things() -> None:
    assert CONFIG.effect_of("look") is EffectClass.READ
    assert CONFIG.effect_of("put") is EffectClass.IDEMPOTENT
    assert CONFIG.effect_of("unheard of") is EffectClass.MUTATE
    assert ToolDefinition("new", "", {}).effect is EffectClass.MUTATE
    assert AgentConfig().effect_of("look") is EffectClass.MUTATE


def test_risks_are_ordered() -> None:
    assert sorted(RiskLevel) == [
        RiskLevel.LOW,
        RiskLevel.MEDIUM,
        RiskLevel.HIGH,
        RiskLevel.CRITICAL,
    ]


def test_messages_know_who_speaks_and_a_result_names_its_call() -> None:
    assert Message.user("x") == Message("user", "x")
    assert Message.assistant("x", (call("a"),)) == Message("assistant", "x", (call("a"),))
    assert Message.tool(call("a", "look"), "x") == Message("tool", "x", (), "a", "look")


def test_the_calls_of_a_response_are_those_of_its_message() -> None:
    assert LlmResponse(Message.assistant("", (call("a"),))).tool_calls == (call("a"),)


def test_what_is_not_stored_is_what_the_design_calls_transient_and_the_shutdown() -> None:
    transient = {name_of(kind) for kind in set(EVENTS) - set(DURABLE)}
    assert transient == {
        "LlmEvent.TextDelta",
        "LlmEvent.ToolCallDelta",
        "ToolProgressEvent",
        "ShutdownRequested",
    }
