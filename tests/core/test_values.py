"""The small values: what they say to people and models, and that nobody can change them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from case_tables import for_every_row
from core.samples import CONFIG, EVENTS_TRIED, STATES_TRIED, call
from treadle.core.config import AgentConfig, choose_model
from treadle.core.events import DURABLE, EVENTS, name_of
from treadle.core.llm import ADVICE, LlmError, LlmErrorKind, LlmResponse, Usage
from treadle.core.messages import Message
from treadle.core.tools import EffectClass, RiskLevel, ToolDefinition, ToolError, ToolErrorKind


@for_every_row("value", [*STATES_TRIED, *EVENTS_TRIED])
def test_states_and_events_cannot_be_changed(value: object) -> None:
    for name in getattr(value, "__struct_fields__", ()):
        with pytest.raises(AttributeError):
            setattr(value, name, None)


def test_usage_adds_up_and_an_estimate_anywhere_makes_the_sum_one() -> None:
    assert Usage(1, 2) + Usage(3, 4) == Usage(4, 6)
    assert Usage(1, 2) + Usage(0, 0, estimated=True) == Usage(1, 2, estimated=True)
    assert Usage(1, 2, estimated=True) + Usage() == Usage(1, 2, estimated=True)


def test_costs_add_up_exactly_and_what_nobody_could_price_is_counted_apart() -> None:
    dear = Usage(100, 10, cost_usd=Decimal("0.1"))
    cheap = Usage(50, 5, cache_read_tokens=40, reasoning_tokens=3, cost_usd=Decimal("0.2"))
    unknown = Usage(7, 1, cache_write_tokens=2, unpriced_tokens=8)
    assert dear + cheap + unknown == Usage(
        157,
        16,
        cache_read_tokens=40,
        cache_write_tokens=2,
        reasoning_tokens=3,
        cost_usd=Decimal("0.3"),
        unpriced_tokens=8,
    )
    assert (unknown + unknown).cost_usd is None
    assert (unknown + dear).cost_usd == Decimal("0.1")


@for_every_row("kind", list(LlmErrorKind))
def test_a_models_failure_is_one_line_for_people(kind: LlmErrorKind) -> None:
    assert LlmError(kind).text == f"LLM error: {kind.value.replace('_', ' ')}"
    assert LlmError(kind, "because").text.endswith(": because")
    assert LlmError(kind).advice == ADVICE[kind]
    assert "\n" not in ADVICE[kind]


def test_a_model_for_a_kind_of_task_is_its_own_else_the_default_else_the_providers() -> None:
    models = {"calculation": "small", "default": "large", "research": ""}
    assert choose_model(models, "calculation") == "small"
    assert choose_model(models, "anything else") == "large"
    assert choose_model(models, "research") == "large"
    assert choose_model(models) == "large"
    assert choose_model({"calculation": "small"}, "research") == ""
    assert choose_model({}) == ""


@for_every_row("kind", list(ToolErrorKind))
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
        "LlmEvent.ThinkingDelta",
        "LlmEvent.ToolCallDelta",
        "ToolProgressEvent",
        "CallAssessed",
        "ShutdownRequested",
    }
