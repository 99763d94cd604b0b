"""What goes out: valid in the eyes of the API, and the same bytes whatever follows."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import msgspec

from case_tables import for_every_row
from models.anthropic_streams import REDACTED_DATA, SIGNATURE, STREAMS
from models.test_anthropic_stream import response
from treadle.core.budget import count_request_characters
from treadle.core.conversation import Conversation
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.core.messages import CallPart, Message, NativeLayout, OpaquePart, TextPart, ToolCall
from treadle.core.tools import ToolDefinition
from treadle.models.anthropic.request import (
    make_message_parameters,
    make_source,
    select_counted_parameters,
)

ME = "anthropic:claude-test"
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = (ToolDefinition("read_file", "Read a file.", SCHEMA), ToolDefinition("bash", "", {}))
BUDGET = ModelTraits(reasoning="budget")
ADAPTIVE = ModelTraits(reasoning="adaptive")
EFFORT = ModelTraits(reasoning="effort")

THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "abc"}
LS = ToolCall("toolu_1", "bash", '{"command": "ls"}')
CAT = ToolCall("toolu_2", "bash", '{"command": "cat"}')


def parameters(*said: Message, traits: ModelTraits = ModelTraits(), **how: Any) -> dict[str, Any]:  # noqa: B008  frozen
    request = LlmRequest(how.pop("model", ME), Conversation(said), **how)
    return make_message_parameters(request, "anthropic", traits)


def messages(*said: Message, **how: Any) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = parameters(*said, **how)["messages"]
    return sent


def thought(*calls: ToolCall, source: str = ME) -> Message:
    """An assistant message that began with thinking."""
    opaque = OpaquePart(msgspec.json.encode(THOUGHT).decode())
    parts = (opaque, *(CallPart() for _ in calls))
    return Message("assistant", "", calls, native=NativeLayout(source, parts))


USER = Message.user("Hello.")


def test_the_least_request_says_the_least() -> None:
    assert parameters(USER) == {
        "model": "claude-test",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello."}]}],
    }


@for_every_row(
    "asked, sent",
    [
        ("anthropic:claude-a", "claude-a"),
        ("claude-a", "claude-a"),
        ("other:claude-a", "other:claude-a"),
        ("anthropic:anthropic:x", "anthropic:x"),
    ],
)
def test_only_the_name_of_this_provider_is_taken_off_the_model(asked: str, sent: str) -> None:
    assert parameters(USER, model=asked)["model"] == sent


def test_the_system_prompt_is_marked_for_the_cache() -> None:
    asked = parameters(USER, Message.assistant("Hi."), USER, system="Be brief.")
    assert asked["cache_control"] == {"type": "ephemeral"}
    assert asked["system"] == [
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    ]
    assert "system" not in parameters(USER, system=" \n")


def test_tools_are_told_with_their_schemas_if_the_model_has_tools() -> None:
    assert parameters(USER, tools=TOOLS)["tools"] == [
        {"name": "read_file", "description": "Read a file.", "input_schema": SCHEMA},
        {"name": "bash", "description": "", "input_schema": {}},
    ]
    assert "tools" not in parameters(USER, tools=TOOLS, traits=ModelTraits(has_tools=False))


def test_no_more_tokens_are_asked_for_than_the_model_can_write() -> None:
    assert parameters(USER, traits=ModelTraits(output_tokens_max=100))["max_tokens"] == 100
    assert parameters(USER, traits=ModelTraits(output_tokens_max=10**6))["max_tokens"] == 4096


def test_a_temperature_goes_to_the_version_of_the_api_that_takes_it() -> None:
    sent = parameters(USER, temperature=0.0)
    assert sent["extra_body"] == {"temperature": 0.0}
    assert sent["extra_headers"] == {"anthropic-version": "2023-06-01"}


@for_every_row(
    "traits, reasoning",
    [(ModelTraits(has_temperature=False), "default"), (BUDGET, "high"), (ADAPTIVE, "low")],
)
def test_no_temperature_goes_where_none_is_taken(traits: ModelTraits, reasoning: str) -> None:
    sent = parameters(USER, temperature=0.5, traits=traits, reasoning=reasoning)
    assert not sent.keys() & {"temperature", "extra_body", "extra_headers"}


@for_every_row(
    "traits, reasoning, sent",
    [
        (ModelTraits(), "high", {}),
        (BUDGET, "default", {}),
        (ADAPTIVE, "default", {}),
        (EFFORT, "default", {}),
        (BUDGET, "off", {}),
        (BUDGET, "low", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        (BUDGET, "medium", {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (BUDGET, "high", {"thinking": {"type": "enabled", "budget_tokens": 3276}}),
        (ADAPTIVE, "off", {"output_config": {"effort": "low"}}),
        (ADAPTIVE, "low", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        (ADAPTIVE, "high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        (EFFORT, "off", {"output_config": {"effort": "low"}}),
        (EFFORT, "medium", {"output_config": {"effort": "medium"}}),
    ],
)
def test_reasoning_is_asked_for_as_the_model_takes_it(
    traits: ModelTraits, reasoning: str, sent: dict[str, Any]
) -> None:
    asked = parameters(USER, traits=traits, reasoning=reasoning)
    assert {name: asked[name] for name in ("thinking", "output_config") if name in asked} == sent


@for_every_row("max_tokens", [1, 1023, 1024, 1025, 2000, 64_000])
@for_every_row("reasoning", ["low", "medium", "high"])
def test_a_budget_is_at_least_the_least_and_leaves_room_for_the_answer(
    max_tokens: int, reasoning: str
) -> None:
    sent = parameters(USER, traits=BUDGET, reasoning=reasoning, max_tokens=max_tokens)
    if max_tokens <= 1024:
        assert "thinking" not in sent
    else:
        assert 1024 <= sent["thinking"]["budget_tokens"] < max_tokens


def test_thinking_goes_back_under_the_same_system_prompt_and_tools_only() -> None:
    """Newer models refuse it for good under others."""
    tools = (ToolDefinition("ls", "lists", {"type": "object"}),)

    def has_thinking(first: dict[str, Any], then: dict[str, Any]) -> bool:
        source = make_source(LlmRequest(ME, Conversation([USER]), **first), "anthropic")
        said = USER, thought(LS, source=source), Message.tool(LS, "a")
        sent = parameters(*said, **then)["messages"]
        return any(block["type"] == "thinking" for block in sent[1]["content"])

    assert has_thinking({}, {})
    assert has_thinking({"system": "s", "tools": tools}, {"system": "s", "tools": tools})
    assert not has_thinking({"system": "s"}, {"system": "t"})
    assert not has_thinking({"tools": tools}, {})
    assert not has_thinking({}, {"tools": tools})


def test_a_turn_that_began_without_thinking_goes_on_without_a_budget() -> None:
    def kind(*said: Message, traits: ModelTraits = BUDGET) -> Any:
        return parameters(*said, traits=traits, reasoning="high").get("thinking", {}).get("type")

    other = thought(LS, source="anthropic:claude-old")
    results = Message.tool(LS, "a"), Message.tool(CAT, "b")
    secret = NativeLayout(ME, (OpaquePart('{"type":"thinking","thinking":"[REDACTED:key]"}'),))
    assert kind(USER, thought(LS), results[0]) == "enabled"
    assert kind(USER, thought(LS), results[0], Message.assistant("", (CAT,)), results[1]) == (
        "enabled"
    )
    assert kind(USER, Message.assistant("", (LS,)), results[0]) is None
    assert kind(USER, other, results[0]) is None
    assert kind(USER, other, results[0], thought(CAT), results[1]) is None
    assert kind(USER, other, results[0], Message.assistant("Done."), USER) == "enabled"
    assert kind(USER, msgspec.structs.replace(thought(LS), native=secret), results[0]) is None
    assert kind(USER, other, results[0], traits=ADAPTIVE) == "adaptive"


def test_the_results_of_one_round_are_one_message_in_their_order() -> None:
    sent = messages(
        USER,
        Message.assistant("Looking.", (LS, CAT)),
        Message.tool(LS, "a.py"),
        Message.tool(CAT, "ERROR: Failed: no such file"),
        Message.user("Stop that."),
    )
    assert sent[1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {"command": "cat"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.py"},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "content": "ERROR: Failed: no such file",
                    "is_error": True,
                },
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "Stop that."}]},
    ]


@for_every_row("blank", ["", " ", "\n\t "])
def test_no_text_of_spaces_only_is_sent(blank: str) -> None:
    sent = messages(
        Message.user(blank),
        Message.assistant(blank, (LS,)),
        Message.tool(LS, blank),
        Message("assistant", blank, interrupted=True),
        Message.user("go on"),
    )
    assert sent == [
        {"role": "user", "content": [{"type": "text", "text": "(empty)"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}}
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]},
        {"role": "user", "content": [{"type": "text", "text": "go on"}]},
    ]


def test_an_interrupted_text_is_sent_as_far_as_it_came() -> None:
    sent = messages(USER, Message("assistant", "I was ", interrupted=True), Message.user("go on"))
    assert sent[1] == {"role": "assistant", "content": [{"type": "text", "text": "I was "}]}


def test_thinking_that_nothing_follows_is_not_sent() -> None:
    cut = response(STREAMS["max_tokens in thinking"]).message
    assert cut.native is not None
    assert [each["role"] for each in messages(USER, cut, USER)] == ["user", "user"]


@for_every_row("signature", ["", None, ...])
def test_thinking_without_a_signature_is_not_sent(signature: Any) -> None:
    block = {"type": "thinking", "thinking": "Hm."}
    if signature is not ...:
        block["signature"] = signature
    parts = (OpaquePart(msgspec.json.encode(block).decode()), TextPart(4))
    message = Message("assistant", "Yes.", native=NativeLayout(ME, parts))
    assert messages(USER, message)[1]["content"] == [{"type": "text", "text": "Yes."}]


@for_every_row("arguments", ['{"a": ', "", "[1]", "7", '{"n": 1e999}', "[" * 9999])
def test_malformed_arguments_are_sent_as_the_text_they_are(arguments: str) -> None:
    call = ToolCall("toolu_1", "bash", arguments)
    sent = messages(USER, Message.assistant("", (call,)), Message.tool(call, "ERROR: what?"))
    assert sent[1]["content"][0]["input"] == {"malformed_arguments": arguments}


def test_names_and_ids_of_other_models_are_made_such_as_the_api_takes() -> None:
    ids = ["functions.bash:0", "functions.bash:1", "", "ü" * 99, "call_1", "x" * 65]
    calls = tuple(ToolCall(each, "repo.run bash", "{}") for each in ids)
    _, asked, answered = messages(
        USER, Message.assistant("", calls), *(Message.tool(call, "a") for call in calls)
    )
    uses = [block["id"] for block in asked["content"]]
    assert uses == [block["tool_use_id"] for block in answered["content"]]
    assert len({*uses}) == len(ids)
    assert uses[4] == "call_1"
    names = [block["name"] for block in asked["content"]]
    assert all(NAME.fullmatch(each) for each in (*uses, *names))


@for_every_row("is_stored", [False, True])
@for_every_row(
    "name",
    ["thinking", "interleaved thinking", "omitted thinking", "redacted thinking", "unknown blocks"],
)
def test_what_only_the_model_understands_goes_back_exactly_as_it_came(
    name: str, is_stored: bool
) -> None:
    message = response(STREAMS[name]).message
    if is_stored:
        message = msgspec.json.decode(msgspec.json.encode(message), type=Message)
    sent = messages(USER, message, USER)[1]["content"]
    signatures = [block["signature"] for block in sent if block["type"] == "thinking"]
    assert signatures == [SIGNATURE] * STREAMS[name].count(b"signature_delta")
    assert [block["data"] for block in sent if block["type"] == "redacted_thinking"] == (
        [REDACTED_DATA] * STREAMS[name].count(b'"redacted_thinking"')
    )
    opaque = [part for part in message.native.parts if isinstance(part, OpaquePart)]
    assert [block for block in sent if block["type"] not in ("text", "tool_use")] == [
        msgspec.json.decode(part.block_json) for part in opaque
    ]


@for_every_row("name", ["thinking", "redacted thinking", "unknown blocks"])
def test_another_model_gets_the_text_and_the_calls_and_nothing_else(name: str) -> None:
    message = response(STREAMS[name]).message
    sent = messages(USER, message, model="anthropic:claude-other")[1]["content"]
    kinds = ["text", "tool_use"][: len(sent)]
    assert [block["type"] for block in sent] == kinds
    assert sent[0]["text"] == message.content


def test_a_prefix_is_sent_as_the_same_messages_whatever_follows() -> None:
    """The wire's bytes are compared in `test_anthropic`; this is every cut of one conversation."""
    said: list[Message] = [USER]
    for name in STREAMS.keys() - {"refusal", "overloaded"}:
        message = response(STREAMS[name]).message
        said += [message, *(Message.tool(call, "ERROR: x") for call in message.tool_calls), USER]
    whole = messages(*said)
    for end in range(1, len(said)):
        if said[end].role != "tool":
            before = messages(*said[:end])
            assert whole[: len(before)] == before
    for one, after in pairwise(whole):
        ids = [block["id"] for block in one["content"] if block["type"] == "tool_use"]
        assert [block.get("tool_use_id") for block in after["content"]][: len(ids)] == ids


def test_what_the_count_of_tokens_takes_is_what_the_request_says() -> None:
    sent = parameters(
        USER, system="s", tools=TOOLS, traits=ADAPTIVE, reasoning="low", temperature=1.0
    )
    assert sent.keys() - select_counted_parameters(sent).keys() == {"max_tokens"}


def test_everything_the_model_reads_counts_for_an_estimate() -> None:
    def length(*said: Message, **how: Any) -> int:
        return count_request_characters(LlmRequest(ME, Conversation(said), **how))

    assert length(USER, system="12") == length(USER) + 2 == len("Hello.") + 2
    assert length(USER, tools=TOOLS) > length(USER) + 50
    assert length(thought(LS)) > len(LS.arguments_json) + 30
