"""What the package offers to the tests of programs with agents."""

from __future__ import annotations

import enum
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import annotated_types
import msgspec
import pydantic
import pytest
from jsonschema import Draft202012Validator
from msgspec import Meta, Struct

from models.loopback import Loopback
from treadle import (
    Agent,
    AgentBuilder,
    AgentFailed,
    AnthropicProvider,
    LocalStore,
    ScriptedModel,
    TestModel,
    Usage,
    outputs,
    tool,
)
from treadle.models.scripted.schema_sample import make_sample
from treadle.models.wire.endpoint import restrict_hosts
from treadle.pytest_plugin import LOCAL_HOSTS, make_clock
from treadle.tools.value_types import make_decoder, make_schema

pytest_plugins = ["pytester"]


class Colour(enum.Enum):
    RED = "red"


class Part(pydantic.BaseModel):
    name: Annotated[str, pydantic.Field(min_length=5)]
    weights: Annotated[list[float], pydantic.Field(min_length=2)]


class Tree(Struct):
    size: Annotated[int, Meta(ge=3, multiple_of=2)]
    below: list[Tree] = []


class Chain(pydantic.BaseModel):
    next: Chain | None


class Hedge(Struct, tag=True):
    grows: Hedge | Leaf
    more: Hedge | None
    others: Annotated[list[Hedge | int], Meta(min_length=1)]


class Leaf(Struct, tag=True):
    colour: bytes


class Endless(pydantic.BaseModel):
    next: Endless


LONG_PATTERNS = (r"^\S+@\S+\.\S+$", "^(red|blue)+$", "^[^a-z]+$", r"^(?:\+|00)\d{6,}$", "^[^b]*$")
PATTERNS = (
    *LONG_PATTERNS,
    r"^[A-Z]{2}-\d{4}$",
    r"\S",
    r"^\d+(\.\d{1,2})?$",
    "^.a??[^a]$",
    r"^\W\D\S$",
)
KINDS: list[Any] = [
    *(Chain, Hedge, bytes),
    *(int, float, str, bool, None, Colour, Literal["b", "a"], Decimal, date, datetime, UUID),
    *(list[datetime], datetime | None, dict[str, datetime], Optional[datetime]),  # noqa: UP045
    *(Part, Tree, list[int], dict[str, int], tuple[int, str], Part | None, int | str, Any),
    *(Annotated[int, Meta(gt=3, lt=5)], Annotated[int, Meta(le=-3)], Annotated[float, Meta(gt=0)]),
    *(Annotated[float, Meta(gt=0, lt=1)], Annotated[int, annotated_types.Ge(7)]),
    *(Annotated[str, Meta(pattern=one)] for one in PATTERNS),
    *(Annotated[str, Meta(pattern=one, min_length=9, max_length=20)] for one in LONG_PATTERNS),
    Annotated[str, pydantic.Field(pattern=r"^#[0-9a-fA-F]{6}$")],
]


def test_a_sample_fits_its_schema_and_is_a_value_of_its_type() -> None:
    missed = []
    for kind in KINDS:
        schema = make_schema(kind)
        sample = make_sample(schema)
        try:
            Draft202012Validator(schema).validate(sample)
            make_decoder(kind).decode(msgspec.json.encode(sample))
        except Exception as error:  # noqa: BLE001
            missed.append((kind, sample, error))
    assert missed == []


def test_of_a_pattern_that_is_not_simple_nothing_is_made() -> None:
    for pattern in ("(?=b)c", r"^(?P<x>b)(?P=x)$", "(", r"\p{Lu}", "^b{3}$"):
        assert make_sample({"type": "string", "pattern": pattern, "maxLength": 2}) == "a", pattern
    assert make_sample({"type": "string", "pattern": "b{99999}"}) == "a", "nor a long one"


async def test_of_a_value_without_end_a_test_model_says_so() -> None:
    agent = Agent("a", model=TestModel(), output=Endless, store=LocalStore.in_memory())
    with pytest.raises(AgentFailed, match=r"RecursionError: a value of .*Endless has no end"):
        await agent.run("Hi")


async def test_a_test_model_calls_every_tool_once_and_answers_in_the_form() -> None:
    called: list[Any] = []

    @tool
    def weigh(part: Part, count: Annotated[int, Meta(ge=2)]) -> float:
        """Weigh parts."""
        called.append((part, count))
        return 1.5

    def ship(to: Colour) -> str:
        """Ship it."""
        called.append(to)
        return "shipped"

    model, store = TestModel(), LocalStore.in_memory()
    agent = Agent("shop", model=model, tools=[weigh, ship], output=Part, store=store)
    result = await agent.run("Ship it.")
    assert isinstance(result.output, Part)
    expected = [(Part(name="aaaaa", weights=[0, 0]), 2), Colour.RED]
    assert sorted(called, key=repr) == sorted(expected, key=repr)
    assert len(model.requests) == 2
    async with agent.thread("one") as thread:
        assert isinstance((await thread.send("Ship it.")).output, Part)
        assert isinstance((await thread.send("And again.")).output, Part)
    assert len(called) == 6
    told = Agent("plain", model=TestModel("Hello.", tools=[]), tools=[weigh], store=store)
    assert (await told.run("Hi")).output == "Hello."


async def test_a_script_may_think_doubt_and_say_what_it_costs() -> None:
    model = ScriptedModel.of(
        {"text": "It is blue, I think.", "confidence": 0.1},
        {
            "text": "It is red, as I said.",
            "thinking": "Hm. Red.",
            "usage": {"input_tokens": 5, "output_tokens": 7, "cost_usd": 0.25},
        },
    )
    engine = AgentBuilder("Which colour?", llm=model, store=LocalStore.in_memory()).build()
    async with engine:
        told = [one async for one in engine.stream()]
        assert engine.output == "It is red, as I said."
        assert engine.memory.retry_count == 1
        assert engine.total_usage.cost_usd == Decimal("0.25")
    assert outputs.ThinkingDelta("Hm. Red.") in told
    assert isinstance(engine.total_usage, Usage)


async def test_no_request_leaves_this_machine_where_it_may_not() -> None:
    before = restrict_hosts(LOCAL_HOSTS)
    try:
        agent = Agent("far", model=AnthropicProvider("key"), store=LocalStore.in_memory())
        with pytest.raises(AgentFailed, match=r"may not reach api\.anthropic\.com"):
            await agent.run("Hi")
        async with Loopback() as server:
            near = AnthropicProvider("key", base_url=server.url)
            assert not isinstance(await near.list_models(), tuple)
            assert len(server.requests) == 1
            await near.aclose()
    finally:
        restrict_hosts(before)


def test_the_plugin_forbids_real_models_but_where_a_test_says_so(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest('pytest_plugins = ["treadle.pytest_plugin"]')
    pytester.makepyfile(
        """
        import asyncio, pytest
        from treadle import Agent, AgentFailed, AgentError, OpenAiChatProvider, ScriptedModel

        def ask(store):
            provider = OpenAiChatProvider("key", base_url="http://nowhere.invalid/v1")
            return asyncio.run(Agent("far", model=provider, store=store).run("Hi"))

        def test_forbidden(memory_store):
            with pytest.raises(AgentFailed, match="nowhere.invalid: a test may with the mark"):
                ask(memory_store)

        @pytest.mark.real_models
        def test_allowed():
            from treadle.models.wire import endpoint
            assert endpoint._allowed_hosts is None

        def test_scripted(memory_store):
            agent = Agent("near", model=ScriptedModel.of("Hello."), store=memory_store)
            assert agent.run_sync("Hi").output == "Hello."
        """
    )
    pytester.runpytest_subprocess(
        *("-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:schemathesis", "-W", "error")
    ).assert_outcomes(passed=3)


def test_a_clock_goes_on_by_itself(tmp_path: Path) -> None:
    store = LocalStore.in_memory(now=make_clock("2026-05-01T10:00:00", 60))
    store.create("a test").close()
    (line,) = store.list()
    assert line.created_at == "2026-05-01T10:00:00.000000Z"
