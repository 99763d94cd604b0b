"""Answers that providers hold to a schema: what is asked in each format, and what if it is refused.

The judges are the official clients: their types take what is sent, and what they themselves would
make of our schemas is what these are already.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pydantic
import pytest
from anthropic.lib._parse._transform import transform_schema
from anthropic.types import OutputConfigParam
from jsonschema import Draft202012Validator
from msgspec import Meta, Struct, to_builtins
from msgspec import json as msgspec_json
from openai.lib._pydantic import _ensure_strict_json_schema
from openai.types.responses import ResponseTextConfigParam
from openai.types.shared_params import ResponseFormatJSONSchema
from pydantic import TypeAdapter

from models.conformance import drain
from models.hostile.formats import FORMATS, KEY
from models.loopback import Loopback, refusal, stream
from models.test_web_search import check_type
from treadle.core.conversation import Conversation
from treadle.core.llm import LlmErrorKind, LlmRequest, ModelTraits
from treadle.core.messages import Message
from treadle.core.tools import ToolDefinition
from treadle.models.anthropic.provider import AnthropicProvider
from treadle.models.anthropic.request import make_source
from treadle.models.native_output import (
    ANTHROPIC_RULES,
    DEPTH_MAX,
    OPENAI_RULES,
    SchemaRules,
    make_native_schema,
)
from treadle.models.openai.chat import OpenAiChatProvider
from treadle.models.openai.responses import OpenAiResponsesProvider
from treadle.models.scripted.schema_sample import make_sample
from treadle.runtime.answer_form import AnswerForm


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Order(pydantic.BaseModel):
    number: int = pydantic.Field(ge=1, description="as printed")
    name: str = pydantic.Field(min_length=1, max_length=9, pattern="^[a-z]+$")
    due: date | None = None
    tags: list[str] = []
    color: Color = Color.RED


class Cat(Struct, tag="cat"):
    lives: int


class Dog(Struct, tag="dog"):
    name: str
    mood: Literal["calm", "wild", None] = None


@dataclass
class Walk:
    walker: Cat | Dog
    steps: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=3)]
    order: Order
    is_long: bool
    share: float


class Tree(Struct):
    name: str
    branches: list[Tree] = []


class Loose(TypedDict):
    text: str
    remark: NotRequired[str]


RULES = {"openai": OPENAI_RULES, "anthropic": ANTHROPIC_RULES}
ORDER = Order(number=1, name="a", due=date(2026, 1, 2), tags=["x"], color=Color.BLUE)
HELD: dict[Any, tuple[list[str], list[Any]]] = {
    Order: (["openai", "anthropic"], [ORDER, Order(number=2, name="b")]),
    Dog: (["openai", "anthropic"], [Dog("a", "wild"), Dog("b")]),
    Walk: (
        ["openai", "anthropic"],
        [Walk(Cat(9), [1, 2], ORDER, True, 0.5), Walk(Dog("a"), [], ORDER, False, 1.0)],
    ),
    Tree: (["openai"], [Tree("a", [Tree("b", [Tree("c")])])]),
    Loose: (["anthropic"], [Loose(text="a"), Loose(text="a", remark="b")]),
}
"""Types, who can be held to them, and values of theirs."""

NESTED: dict[str, Any] = {"type": "string"}
for _ in range(DEPTH_MAX + 1):
    NESTED = {"type": "array", "items": NESTED}


def has(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties]}


UNFIT: dict[str, dict[str, Any]] = {
    "a list": {"type": "array", "items": {"type": "string"}},
    "one of two objects": {"anyOf": [has(a={"type": "null"}), has(b={"type": "null"})]},
    "any keys": {"type": "object", "additionalProperties": {"type": "integer"}},
    "more keys": {**has(a={"type": "null"}), "additionalProperties": True},
    "no properties": {"type": "object"},
    "keys nobody knows": {**has(a={"type": "null"}), "required": ["a", "b"]},
    "anything": has(a={}),
    "true": has(a=True),
    "a tuple": has(a={"type": "array", "prefixItems": [{"type": "null"}], "items": False}),
    "a list of anything": has(a={"type": "array"}),
    "patterns of keys": {**has(a={"type": "null"}), "patternProperties": {"^x": {}}},
    "conditions": {**has(a={"type": "null"}), "if": {}, "then": {}},
    "not": has(a={"type": "string", "not": {"const": "x"}}),
    "two at once": has(a={"allOf": [has(b={"type": "null"}), has(c={"type": "null"})]}),
    "an object as a choice": has(a={"enum": [{}]}),
    "no choice": has(a={"enum": []}),
    "a choice and more": has(a={"enum": ["x"], "items": {}}),
    "a place within": has(a={"type": "null"}, b={"$ref": "#/properties/a"}),
    "nowhere": has(a={"$ref": "#/$defs/x"}),
    "itself as the whole": {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}},
    "an unknown type": has(a={"type": "any"}),
    "too deep": has(a=NESTED),
}


def test_schemas_are_put_into_the_part_that_each_api_takes_and_mean_the_same() -> None:
    misses: list[Any] = []
    for kind, (takers, values) in HELD.items():
        form = AnswerForm.of_type(kind)
        before = deepcopy(form.schema)
        for taker, rules in RULES.items():
            made = make_native_schema(form.schema, rules)
            if (made is None) is (taker in takers):
                misses.append((kind, taker, made))
            if made is None:
                continue
            # What the official clients make of a schema, this is already.
            if taker == "openai":
                assert _ensure_strict_json_schema(deepcopy(made), path=(), root=made) == made
            else:
                assert "description" not in json.dumps(transform_schema(made))
            Draft202012Validator.check_schema(made)
            validator = Draft202012Validator(made)
            misses += [
                (kind, taker, value)
                for value in values
                if not validator.is_valid(json.loads(_dump(value)))
            ]
            misses += [(kind, taker, fault) for fault in [_find_fault(form, made)] if fault]
        assert form.schema == before
    assert misses == []


def _dump(value: Any) -> bytes:
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump_json().encode()
    return msgspec_json.encode(to_builtins(value, enc_hook=lambda one: one.model_dump(mode="json")))


def _find_fault(form: AnswerForm[Any], made: dict[str, Any]) -> str:
    """That a value of the schema as the API has it is one of the form, but for its bounds."""
    sample = make_sample(made)
    for place in (sample, sample.get("order", {})):
        if "number" in place:
            place |= {"number": 1, "name": "a"}
    return form.find_fault(json.dumps(sample))


def test_what_an_api_has_no_words_for_is_not_made_into_something_else() -> None:
    made = {
        (name, taker): made
        for name, schema in UNFIT.items()
        for taker, rules in RULES.items()
        if (made := make_native_schema(schema, rules)) is not None
    }
    assert made == {}


def test_a_property_that_may_be_left_out_is_required_where_a_value_says_the_same() -> None:
    null, text = {"type": "null"}, {"type": "string"}
    fit = [
        {**text, "default": "x"},
        {"anyOf": [text, null]},
        {"type": ["string", "null"]},
        {"enum": ["x", None]},
        null,
    ]
    for one in [*fit, text, {"enum": ["x"]}, {"anyOf": [text]}]:
        schema = {"type": "object", "properties": {"a": one}}
        made = make_native_schema(schema, OPENAI_RULES)
        assert (made is not None) is (one in fit), one
        assert made is None or made["required"] == ["a"]
        plain = make_native_schema(schema, ANTHROPIC_RULES)
        assert plain is not None
        assert plain["required"] == []


def test_the_order_of_properties_stays_because_models_write_in_it() -> None:
    made = make_native_schema(AnswerForm.of_type(Order).schema, OPENAI_RULES)
    assert made is not None
    assert [*made["properties"]] == ["number", "name", "due", "tags", "color"]
    assert made["required"] == [*made["properties"]]


# ---- over real sockets -------------------------------------------------------------------------

SCHEMA = AnswerForm.of_type(Dog).schema
TOOLS = (ToolDefinition("bash", "Run.", {"type": "object"}),)
TEXT = '{"type": "dog", "name": "a", "mood": null}'
OPEN: dict[str, Callable[..., Any]] = {
    "anthropic-messages": lambda url, **how: AnthropicProvider(KEY, base_url=url, **how),
    "openai-responses": lambda url, **how: OpenAiResponsesProvider(KEY, base_url=url, **how),
    "openai-chat": lambda url, **how: OpenAiChatProvider(KEY, base_url=url, **how),
}


def ask(**how: Any) -> LlmRequest:
    said = Conversation([Message.user("Which dog?")])
    fields = {"model": "m", "native_schema": SCHEMA, "system": "Be brief."} | how
    return LlmRequest(messages=said, **fields)


def find_format(name: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """The schema in a request, which the official client's types take."""
    if name == "anthropic-messages":
        check_type(OutputConfigParam, config := body.get("output_config", {}))
        form = config.get("format")
        return form and form["schema"]
    if name == "openai-responses":
        check_type(ResponseTextConfigParam, config := body.get("text", {}))
        form = config.get("format")
    else:
        if "response_format" not in body:
            return None
        TypeAdapter(ResponseFormatJSONSchema).validate_python(body["response_format"])
        form = body["response_format"]["json_schema"]
    assert form is None or form["strict"] is True
    return form and form["schema"]


@pytest.mark.parametrize("name", OPEN)
async def test_an_answer_is_held_to_its_schema_and_says_so(name: str) -> None:
    async with Loopback(stream(FORMATS[name].speak(TEXT))) as server:
        provider = OPEN[name](server.url)
        held = (await drain(provider.stream(ask())))[-1].response.message
        plain = (await drain(provider.stream(ask(native_schema=None))))[-1].response.message
        await provider.aclose()
    assert (held.content, held.native_output) == (TEXT, True)
    assert (plain.content, plain.native_output) == (TEXT, False)
    rules: SchemaRules = ANTHROPIC_RULES if name == "anthropic-messages" else OPENAI_RULES
    bodies = [seen.json for seen in server.requests]
    assert [find_format(name, body) for body in bodies] == [make_native_schema(SCHEMA, rules), None]
    for body in bodies:  # nothing else differs
        for key in ("output_config", "text", "response_format"):
            body.pop(key, None)
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("name", OPEN)
async def test_a_schema_that_is_refused_costs_no_turn_and_is_not_asked_for_again(name: str) -> None:
    refused = refusal(400, {"error": {"message": "the schema is too complex"}})
    said = stream(FORMATS[name].speak(TEXT))
    async with Loopback(refused, said) as server:
        provider = OPEN[name](server.url)
        for _ in range(2):
            message = (await drain(provider.stream(ask())))[-1].response.message
            assert (message.content, message.native_output) == (TEXT, False)
        other = (await drain(provider.stream(ask(model="other"))))[-1].response.message
        await provider.aclose()
    asked = [find_format(name, seen.json) is not None for seen in server.requests]
    assert asked == [True, False, False, True]
    assert other.native_output


@pytest.mark.parametrize("name", OPEN)
async def test_a_request_that_is_refused_all_the_same_says_why_it_was_refused(name: str) -> None:
    first = refusal(400, {"error": {"message": "the first reason"}})
    second = refusal(400, {"error": {"message": "the second reason"}})
    said = stream(FORMATS[name].speak(TEXT))
    async with Loopback(first, second, said) as server:
        provider = OPEN[name](server.url)
        *before, end = await drain(provider.stream(ask()))
        assert (before, end.error.kind) == ([], LlmErrorKind.BAD_REQUEST)
        assert "the first reason" in end.error.message
        # It was not refused for its schema, so that is asked for again.
        assert (await drain(provider.stream(ask())))[-1].response.message.native_output
        await provider.aclose()


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("status", [401, 429, 500])
async def test_what_has_another_cause_is_not_asked_twice(name: str, status: int) -> None:
    async with Loopback(refusal(status, {"error": {"message": "no"}})) as server:
        provider = OPEN[name](server.url)
        events = await drain(provider.stream(ask()))
        await provider.aclose()
    assert (len(events), len(server.requests)) == (1, 1)


async def test_a_model_that_must_be_able_to_call_tools_is_held_only_where_that_is_known() -> None:
    """A server that holds each word to a grammar would keep it from calling anything."""
    hosts = {
        "api.openai.com": True,
        "x.openai.azure.com": True,
        "openrouter.ai": True,
        "ai-gateway.vercel.sh": True,
        "localhost:11434": False,
        "api.groq.com": False,
    }
    for host, holds in hosts.items():
        provider = OpenAiChatProvider(KEY, base_url=f"https://{host}/v1")
        assert (provider._fit_native_schema(ask(tools=TOOLS)).native_schema is not None) is holds
        assert provider._fit_native_schema(ask()).native_schema is not None
    for name in ("anthropic-messages", "openai-responses"):
        provider = OPEN[name]("https://example.com")
        assert provider._fit_native_schema(ask(tools=TOOLS)).native_schema is not None


async def test_what_is_known_not_to_hold_is_not_asked_to_nor_what_it_cannot_say() -> None:
    for name, make in OPEN.items():
        for request, traits in (
            (ask(), ModelTraits(native_output=False)),
            (ask(native_schema={"type": "array"}), ModelTraits(native_output=True)),
        ):
            async with Loopback(stream(FORMATS[name].speak(TEXT))) as server:
                provider = make(server.url, traits=lambda _, known=traits: known)
                message = (await drain(provider.stream(request)))[-1].response.message
                await provider.aclose()
            assert find_format(name, server.requests[0].json) is None
            assert not message.native_output


async def test_an_answer_that_calls_tools_is_none_yet() -> None:
    calls = (("c1", "bash", {"command": "ls"}),)
    async with Loopback(stream(FORMATS["anthropic-messages"].speak("", calls))) as server:
        provider = OPEN["anthropic-messages"](server.url)
        message = (await drain(provider.stream(ask(tools=TOOLS))))[-1].response.message
        await provider.aclose()
    assert (len(message.tool_calls), message.native_output) == (1, False)


async def test_how_much_to_think_stays_beside_the_schema() -> None:
    thinks = ModelTraits(reasoning="adaptive")
    async with Loopback(stream(FORMATS["anthropic-messages"].speak(TEXT))) as server:
        provider = OPEN["anthropic-messages"](server.url, traits=lambda _: thinks)
        await drain(provider.stream(ask(reasoning="low")))
        await provider.aclose()
    config = server.requests[0].json["output_config"]
    assert config["effort"] == "low"
    assert find_format("anthropic-messages", server.requests[0].json)


def test_thinking_is_bound_to_the_schema_of_which_its_api_tells_the_model() -> None:
    sources = {make_source(ask(native_schema=one), "anthropic") for one in (None, SCHEMA, {"a": 1})}
    assert len(sources) == 3
    alone = ask(system="", native_schema=None)
    assert make_source(alone, "anthropic") == "anthropic:m"
