"""What goes to an endpoint that speaks Chat Completions, and that it never changes afterwards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from case_tables import for_every_row
from models.conformance import drain
from models.conformance import request as make_request
from models.loopback import Loopback, Seen, sse, stream
from models.openai_chat_streams import STREAMS, calls, chunk, piece
from treadle.core.conversation import Conversation
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.core.messages import CallPart, Message, NativeLayout, OpaquePart, TextPart, ToolCall
from treadle.core.tools import ToolDefinition
from treadle.models.layout import strip_provider
from treadle.models.openai.chat import OpenAiChatProvider
from treadle.models.openai.chat_request import (
    DEEPSEEK,
    EMPTY,
    MISTRAL,
    OPENAI,
    OPENROUTER,
    Dialect,
    find_dialect,
    make_parameters,
)

TOOL = ToolDefinition("bash", "Runs.", {"type": "object", "properties": {"b": {}, "a": {}}})
CALL = ToolCall("call_1", "bash", '{ "command":  "ls" }')


def body(
    *messages: Message | str,
    dialect: Dialect = Dialect(),  # noqa: B008  frozen
    traits: ModelTraits = ModelTraits(),  # noqa: B008  frozen
    name: str = "openai",
    **more: Any,
) -> dict[str, Any]:
    asked = msgspec.structs.replace(make_request(*messages), **{"model": "m", **more})
    return make_parameters(asked, name, traits, dialect)


def sent(*messages: Message | str, **how: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body(*messages, **how)["messages"]
    return found


def opaque(source: str, *blocks: Any, text: str = "", calls: Sequence[ToolCall] = ()) -> Message:
    parts = [OpaquePart(json.dumps(block)) for block in blocks]
    texts = [TextPart(len(text))] if text else []
    native = NativeLayout(source, (*parts, *texts, *(CallPart() for _ in calls)))
    return Message("assistant", text, tuple(calls), native=native)


def test_the_system_prompt_comes_first_and_every_message_in_its_form() -> None:
    said = Message.assistant("I look.", (CALL,))
    assert sent("hi", said, Message.tool(CALL, "a.py"), "go on", system="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "bash", "arguments": '{ "command":  "ls" }'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "a.py"},
        {"role": "user", "content": "go on"},
    ]


def test_a_request_asks_for_a_stream_and_its_usage_and_for_nothing_unasked() -> None:
    assert body("hi") == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "max_tokens": 4096,
        "stream_options": {"include_usage": True},
    }


def test_tools_are_functions_with_their_schemas_as_they_are() -> None:
    tools = body("hi", tools=(TOOL,))["tools"]
    function = {"name": "bash", "description": "Runs.", "parameters": TOOL.input_schema}
    assert tools == [{"type": "function", "function": function}]
    assert list(tools[0]["function"]["parameters"]["properties"]) == ["b", "a"]
    assert "tools" not in body("hi", tools=(TOOL,), traits=ModelTraits(has_tools=False))


@for_every_row(
    "message, content",
    [
        (Message.assistant(), EMPTY),
        (Message("assistant", interrupted=True), EMPTY),
        (Message("assistant", "I was ab", interrupted=True), "I was ab"),
        (Message.assistant("", (CALL,)), None),
    ],
)
def test_an_assistant_message_has_a_content_that_strict_endpoints_take(
    message: Message, content: str | None
) -> None:
    assert sent("hi", message, "and?")[1]["content"] == content


@for_every_row("text", ['{"a":1', "", "[1]", "null", '"x"', '{"a":NaN}', '{"a":"\\ud83d"}'])
def test_arguments_that_are_no_object_become_one(text: str) -> None:
    arguments = sent(Message.assistant("", (ToolCall("c", "bash", text),)))[0]["tool_calls"][0]
    assert json.loads(arguments["function"]["arguments"]) == {"malformed_arguments": text}


@for_every_row("text", ["{}", ' {"a" : 1.50 }\n', '{"b":1,"a":2,"b":3}', '{"é":"\\u00e9"}'])
def test_arguments_that_are_an_object_go_back_byte_for_byte(text: str) -> None:
    call = sent(Message.assistant("", (ToolCall("c", "bash", text),)))[0]["tool_calls"][0]
    assert call["function"]["arguments"] == text


@for_every_row(
    "name, wire",
    [
        ("bash", "bash"),
        ("a.b", "a.b"),
        ("multi.use", "multi_use"),
        ("", "unknown"),
        ("é" * 99, "_" * 64),
    ],
)
def test_a_name_that_no_endpoint_takes_is_bent_unless_it_is_offered(name: str, wire: str) -> None:
    dotted = msgspec.structs.replace(TOOL, name="a.b")
    message = Message.assistant("", (ToolCall("c", name),))
    assert sent(message, tools=(TOOL, dotted))[0]["tool_calls"][0]["function"]["name"] == wire


@for_every_row(
    "dialect, call_id, stays",
    [
        (Dialect(), "call_" + "x" * 60, True),
        (OPENAI, "call_" + "x" * 35, True),
        (OPENAI, "call_" + "x" * 36, False),
        (MISTRAL, "D681PevKs", True),
        (MISTRAL, "D681-evKs", False),
        (MISTRAL, "call_1", False),
        (OPENAI, "", False),
    ],
)
def test_a_call_and_its_result_share_an_id_that_the_endpoint_takes(
    dialect: Dialect, call_id: str, stays: bool
) -> None:
    call = ToolCall(call_id, "bash")
    said, result = sent(Message.assistant("", (call,)), Message.tool(call, "x"), dialect=dialect)
    wire = said["tool_calls"][0]["id"]
    assert wire == result["tool_call_id"]
    assert (wire == call_id) == stays
    assert dialect.call_id_length[0] <= len(wire) <= dialect.call_id_length[1]
    assert stays or wire.isalnum()


REASONING = (
    {"reasoning_content": "hm"},
    {"reasoning": "hm"},
    {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s"}]},
)


@for_every_row("block", REASONING)
def test_reasoning_goes_back_under_its_own_field_to_its_own_model_only(block: Any) -> None:
    message = opaque("openai:m", block, text="so", calls=[CALL])
    (ours,) = sent(message)
    assert {key: ours[key] for key in block} == block
    (theirs,) = sent(message, model="n")
    assert [*theirs] == ["role", "content", "tool_calls"]
    assert sent(message, name="other") == [theirs] == sent(message, model="openai:n")


def test_thinking_between_texts_goes_back_as_a_list_in_its_order() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    message = opaque("openai:m", {"content_part": thinking}, text="so")
    assert sent(message)[0]["content"] == [thinking, {"type": "text", "text": "so"}]
    assert sent(message, model="n")[0]["content"] == "so"


def test_what_hangs_on_a_call_goes_back_on_that_call() -> None:
    block = {"call": 1, "extra_content": {"google": {"thought_signature": "s"}}}
    (message,) = sent(opaque("openai:m", block, calls=[CALL, ToolCall("c2", "bash")]))
    first, second = message["tool_calls"]
    assert "extra_content" not in first
    assert second["extra_content"] == block["extra_content"]


def test_deepseek_gets_a_reasoning_for_every_message_even_if_there_is_none() -> None:
    ours = opaque("openai:m", {"reasoning_content": "hm"}, calls=[CALL])
    texts = [
        each["reasoning_content"] for each in sent(ours, Message.assistant("x"), dialect=DEEPSEEK)
    ]
    assert texts == ["hm", ""]


@for_every_row(
    "url, dialect",
    [
        ("https://api.openai.com/v1", OPENAI),
        ("https://eu.api.openai.com/v1", OPENAI),
        ("https://api.mistral.ai/v1", MISTRAL),
        ("https://api.deepseek.com", DEEPSEEK),
        ("https://openrouter.ai/api/v1", OPENROUTER),
        ("https://api.openai.com.evil.example/v1", Dialect()),
        ("http://127.0.0.1:8080/api.openai.com", Dialect()),
        ("nonsense", Dialect()),
    ],
)
def test_the_dialect_of_an_endpoint_is_known_by_its_host(url: str, dialect: Dialect) -> None:
    assert find_dialect(url) == dialect


def test_the_limit_has_the_name_that_the_endpoint_knows_and_is_never_too_large() -> None:
    assert body("hi", dialect=OPENAI)["max_completion_tokens"] == 4096
    assert "max_tokens" not in body("hi", dialect=OPENAI)
    assert body("hi", traits=ModelTraits(output_tokens_max=512))["max_tokens"] == 512
    assert "stream_options" not in body("hi", dialect=MISTRAL)


def test_temperature_and_reasoning_are_asked_of_models_that_have_them() -> None:
    plain = body("hi", temperature=0.0, reasoning="high")
    assert (plain["temperature"], "reasoning_effort" in plain) == (0.0, False)
    thinks = ModelTraits(reasoning="effort", has_temperature=False)
    asked = body("hi", temperature=0.5, reasoning="high", traits=thinks)
    assert ("temperature" in asked, asked["reasoning_effort"]) == (False, "high")
    assert body("hi", reasoning="off", traits=thinks)["reasoning_effort"] == "none"
    assert "reasoning_effort" not in body("hi", traits=thinks)


@for_every_row(
    "model, bare",
    [
        ("ollama:qwen2.5-coder:7b", "qwen2.5-coder:7b"),
        ("qwen2.5-coder:7b", "qwen2.5-coder:7b"),
        ("ollama:ollama:x", "ollama:x"),
        ("groq:llama", "groq:llama"),
        ("", ""),
    ],
)
def test_only_our_own_name_is_taken_off_a_model(model: str, bare: str) -> None:
    assert strip_provider(model, "ollama") == bare


def test_the_cache_key_stays_the_same_while_a_conversation_grows() -> None:
    first = body("hi", dialect=OPENAI, system="s")["prompt_cache_key"]
    assert (
        body("hi", Message.assistant("x"), dialect=OPENAI, system="s")["prompt_cache_key"] == first
    )
    assert body("ho", dialect=OPENAI, system="s")["prompt_cache_key"] != first
    assert "prompt_cache_key" not in body("hi")


def test_the_request_itself_stays_as_it_was() -> None:
    asked: LlmRequest = msgspec.structs.replace(
        make_request(opaque("openai:m", *REASONING)), model="m", tools=(TOOL,)
    )
    before = msgspec.json.encode([asked.tools, *asked.messages])
    make_parameters(asked, "openai", ModelTraits(), OPENAI)["messages"][0]["content"] = "changed"
    assert msgspec.json.encode([asked.tools, *asked.messages]) == before


# --- on the wire


TOOLS = (
    ToolDefinition("bash", "Runs.", {"type": "object", "properties": {"b": {}, "a": {}}}),
    ToolDefinition("list_files", "Lists.", {"type": "object", "properties": {}}),
)
ROUNDS = (
    sse(chunk({"content": "Grüße 🎉"}, "stop"), done=True),
    STREAMS["openai tools"],
    STREAMS["openai length"],
    STREAMS["deepseek"],
    STREAMS["ollama native"],
    sse(chunk(calls(piece(0, '{"a', "x", "bad name!"))), chunk({}, "tool_calls"), done=True),
    sse(chunk({"role": "assistant"}, "stop"), done=True),
    STREAMS["mistral"],
)


def messages_of(seen: Seen) -> list[bytes]:
    """The raw bytes of each message, and of the tools."""
    raw = msgspec.json.decode(seen.body, type=dict[str, msgspec.Raw])
    return [bytes(one) for one in msgspec.json.decode(raw["messages"], type=list[msgspec.Raw])]


async def test_what_was_sent_once_is_sent_the_same_for_ever() -> None:
    conversation = Conversation()
    async with Loopback(*(stream(data) for data in ROUNDS)) as server:
        provider = OpenAiChatProvider("", base_url=server.url)
        for number in range(len(ROUNDS)):
            conversation = conversation.append(Message.user(f"{number}: ü \u2028 \x7f"))
            asked = LlmRequest("openai:m", conversation, TOOLS, "Be brief. é")
            end = (await drain(provider.stream(asked)))[-1]
            conversation = conversation.append(end.response.message)
            for call in end.response.tool_calls:
                conversation = conversation.append(Message.tool(call, f"of {call.id}"))
        conversation = conversation.append(Message("assistant", "I was ab", interrupted=True))
        await drain(provider.stream(LlmRequest("openai:m", conversation, TOOLS, "Be brief. é")))
        await provider.aclose()
    before: list[bytes] = []
    for seen in server.requests:
        now = messages_of(seen)
        assert now[: len(before)] == before
        assert len(now) > len(before)
        before = now
    assert len({seen.body[seen.body.index(b'"tools"') :] for seen in server.requests}) == 1
    expect_results_in_place([json.loads(one) for one in before])


def expect_results_in_place(messages: list[dict[str, Any]]) -> None:
    """Every call has its result next, in order, and nothing else is one."""
    waiting: list[str] = []
    count = 0
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            count += 1
            continue
        assert not waiting
        assert message["content"] or message.get("tool_calls")
        for call in message.get("tool_calls", ()):
            waiting.append(call["id"])
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert not waiting
    assert count == 8


@for_every_row("spaces", [" ", "\n\n", "\t \u3000"])
def test_a_text_of_spaces_only_is_sent_like_an_empty_one(spaces: str) -> None:
    assert sent(Message.assistant(spaces))[-1]["content"] == EMPTY
    assert sent(Message.assistant(spaces, (CALL,)))[-1]["content"] is None
    assert sent(Message.assistant(f"{spaces}a{spaces}"))[-1]["content"] == f"{spaces}a{spaces}"
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    message = opaque("openai:m", {"content_part": thought}, text=spaces)
    assert sent(message)[-1]["content"] == [thought]
