"""Requests for the Responses API: what goes back, what does not, and that it never changes."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from case_tables import for_every_row
from treadle.core.conversation import Conversation
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.core.messages import CallPart, Message, NativeLayout, OpaquePart, TextPart, ToolCall
from treadle.core.tools import ToolDefinition
from treadle.models.catalog import ModelRef, make_catalog, read_defaults
from treadle.models.openai.responses_request import (
    make_input_items,
    make_response_parameters,
    strip_text,
)

SOURCE = "openai:gpt-5.6"
THINKING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "gAAA+/=",
}
SENT_THINKING = {key: value for key, value in THINKING.items() if key != "id"}
LS = ToolCall("call_1", "bash", '{"command": "ls"}')
SENT_LS = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "bash",
    "arguments": '{"command": "ls"}',
}
REASONS = ModelTraits(reasoning="effort")


def opaque(block: Any) -> OpaquePart:
    return OpaquePart(json.dumps(block))


def said(*parts: Any, source: str = SOURCE) -> Message:
    """An assistant message of texts, calls and opaque blocks in this order."""
    texts = [part for part in parts if isinstance(part, str)]
    calls = tuple(part for part in parts if isinstance(part, ToolCall))
    native = tuple(
        TextPart(len(part))
        if isinstance(part, str)
        else CallPart()
        if isinstance(part, ToolCall)
        else opaque(part)
        for part in parts
    )
    return Message("assistant", "".join(texts), calls, native=NativeLayout(source, native))


def items(*messages: Message) -> list[dict[str, Any]]:
    return make_input_items(messages, SOURCE)


def body(request: LlmRequest, traits: ModelTraits = REASONS) -> dict[str, Any]:
    return make_response_parameters(request, "gpt-5.6", SOURCE, traits)


def asked(*messages: Message, **fields: Any) -> LlmRequest:
    return LlmRequest("gpt-5.6", Conversation(messages), **fields)


def sent_text(text: str, **fields: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", **fields, "content": [part]}


def test_messages_of_every_role_become_items_in_order():
    assert items(
        Message.user("Hi"), said("Look:", LS), Message.tool(LS, "a.py"), Message("system", "Note")
    ) == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        sent_text("Look:"),
        SENT_LS,
        {"type": "function_call_output", "call_id": "call_1", "output": "a.py"},
        {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Note"}]},
    ]


def test_reasoning_goes_back_before_what_it_led_to_and_without_what_is_refused():
    held = {**THINKING, "status": "completed", "content": None}
    assert items(said(held, LS)) == [SENT_THINKING, SENT_LS]


def test_reasoning_of_another_model_is_left_out():
    assert items(said(THINKING, LS, source="openai:gpt-4")) == [SENT_LS]


def test_reasoning_that_leads_to_nothing_is_left_out():
    assert items(said(THINKING)) == []
    assert items(said("So.", THINKING, THINKING)) == [sent_text("So.")]


def test_reasoning_that_is_only_a_name_is_left_out():
    bare = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": None}
    assert items(said(bare, LS)) == [SENT_LS]


def test_plain_reasoning_of_other_servers_goes_back():
    plain = {"type": "reasoning", "id": "r", "content": [{"type": "reasoning_text", "text": "Hm"}]}
    assert items(said(plain, LS))[0] == {
        "type": "reasoning",
        "content": plain["content"],
        "summary": [],
    }


def test_reasoning_in_which_a_secret_was_replaced_is_left_out_and_nothing_else():
    touched = {**THINKING, "summary": [{"type": "summary_text", "text": "[REDACTED:key]"}]}
    assert items(said(touched, "A", THINKING, LS)) == [sent_text("A"), SENT_THINKING, SENT_LS]


def test_a_message_in_which_a_secret_was_replaced_goes_back_as_text_and_calls():
    message = said(THINKING, "my key is sk-1", LS)
    replaced = msgspec.structs.replace(message, content="my key is [REDACTED:key]")
    assert items(replaced) == [sent_text("my key is [REDACTED:key]"), SENT_LS]


def test_items_of_unknown_types_go_back_as_they_came():
    dream = {"id": "x", "type": "dream", "status": "completed", "depth": None}
    assert items(said(dream, "Good day.")) == [dream, sent_text("Good day.")]


@for_every_row(
    "content",
    [
        [{"type": "refusal", "refusal": "No."}],
        [
            {"type": "output_text", "text": "A", "annotations": []},
            {"type": "refusal", "refusal": "B"},
        ],
        [{"type": "output_text", "text": "A", "annotations": [{"type": "url_citation"}]}],
        [{"type": "chart", "bars": [1]}, {"type": "output_text", "text": "A", "annotations": []}],
    ],
)
@for_every_row("phase", [{}, {"phase": "commentary"}])
def test_a_message_item_goes_back_with_all_that_it_says(content, phase):
    head = {"type": "message", "role": "assistant", **phase}
    shape = strip_text({**head, "id": "msg_1", "status": "completed", "content": content})
    texts = [part.get("text") or part.get("refusal") for part in content]
    said_before = said("Before.", *filter(None, texts), shape, LS)
    assert items(said_before) == [sent_text("Before."), {**head, "content": content}, SENT_LS]


def test_a_message_item_of_one_text_has_no_shape():
    part = {"type": "output_text", "text": "A", "annotations": [], "logprobs": []}
    item = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
    assert strip_text({**item, "content": [part]}) is None
    assert strip_text({**item, "content": []}) is None
    assert strip_text({**item, "content": [{**part, "text": ""}]}) is None
    assert strip_text({**item, "phase": "commentary", "content": [part]}) is not None


def test_a_shape_without_its_texts_changes_nothing():
    shape = {"type": "message", "content": [{"type": "refusal"}, {"type": "refusal"}]}
    assert items(said("A", shape)) == [sent_text("A")]
    assert items(said(shape, LS)) == [SENT_LS]


@for_every_row(
    "arguments", ["", "{", "[1]", "null", '"x"', '{"a": 1} {', "{" * 5000, '{"a": "\\ud83d"}']
)
def test_arguments_that_are_no_object_go_back_inside_one(arguments):
    (sent,) = items(Message.assistant("", (ToolCall("c", "bash", arguments),)))
    assert json.loads(sent["arguments"]) == {"malformed_arguments": arguments}


@for_every_row("arguments", ["{}", ' { "b":1,\n"a" : 2.50 }', '{"a":"\\u00e4"}'])
def test_arguments_go_back_as_the_model_wrote_them(arguments):
    (sent,) = items(Message.assistant("", (ToolCall("c", "bash", arguments),)))
    assert sent["arguments"] == arguments


def test_names_and_ids_that_the_api_would_refuse_become_such_that_it_takes():
    call = ToolCall("toolu_" + "x" * 100, "functions.read file", "{}")
    sent, output = items(Message.assistant("", (call,)), Message.tool(call, "no such tool"))
    assert sent["name"] == "functions_read_file"
    assert len(sent["call_id"]) <= 64
    assert sent["call_id"] == output["call_id"]
    (nameless,) = items(Message.assistant("", (ToolCall("c", ""),)))
    assert nameless["name"] == "unnamed"


def test_nothing_is_stored_and_nothing_is_left_out_by_the_server():
    sent = body(asked(Message.user("Hi"), system="Be kind."))
    assert (sent["store"], sent["truncation"], sent["model"]) == (False, "disabled", "gpt-5.6")
    assert sent["instructions"] == "Be kind."
    assert not {"tools", "temperature", "parallel_tool_calls", "previous_response_id"} & {*sent}


def test_tools_may_have_optional_parameters():
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tool = ToolDefinition("ls", "lists", schema)
    sent = body(asked(Message.user("Hi"), tools=(tool,)))
    assert sent["tools"] == [
        {
            "type": "function",
            "name": "ls",
            "description": "lists",
            "parameters": schema,
            "strict": False,
        }
    ]
    assert "tools" not in body(asked(tools=(tool,)), ModelTraits(has_tools=False))


@for_every_row("limit, sent", [(None, 4096), (100, 100), (9000, 4096)])
def test_no_more_tokens_are_asked_for_than_the_model_can_write(limit, sent):
    assert body(asked(), ModelTraits(output_tokens_max=limit))["max_output_tokens"] == sent


def test_a_temperature_goes_to_models_that_have_one():
    warm = asked(temperature=0.5)
    assert body(warm)["temperature"] == 0.5
    assert "temperature" not in body(warm, ModelTraits(has_temperature=False))


@for_every_row(
    "level, sent",
    [
        ("default", {"summary": "auto"}),
        ("off", {"effort": "none"}),
        ("low", {"effort": "low", "summary": "auto"}),
        ("high", {"effort": "high", "summary": "auto"}),
    ],
)
def test_a_model_that_reasons_is_told_how_much(level, sent):
    told = body(asked(reasoning=level))
    assert told["reasoning"] == sent
    assert told["include"] == ["reasoning.encrypted_content"]
    plain = body(asked(reasoning=level), ModelTraits())
    assert not {"reasoning", "include"} & {*plain}


def test_the_cache_key_is_that_of_the_thread():
    first = asked(Message.user("Hi"), system="S")
    later = asked(Message.user("Hi"), said("A"), Message.user("B"), system="S")
    other = asked(Message.user("Ho"), system="S")
    keys = [body(each)["prompt_cache_key"] for each in (first, later, other)]
    assert keys[0] == keys[1] != keys[2]
    assert all(len(key) <= 64 for key in keys)


def test_an_item_is_the_same_whatever_follows_and_after_it_was_stored():
    messages = (Message.user("Hi"), said(THINKING, "A", LS), Message.tool(LS, "x"), said("B"))
    stored = msgspec.json.decode(msgspec.json.encode(messages), type=tuple[Message, ...])
    whole = items(*messages)
    for count in range(len(messages) + 1):
        shorter = items(*stored[:count])
        assert json.dumps(whole[: len(shorter)]) == json.dumps(shorter)


def test_a_model_of_the_table_that_reasons_gets_its_reasoning_back_under_every_name() -> None:
    """Without its encrypted form the next request begins to think anew."""
    known = make_catalog(read_defaults())
    for name in ("gpt-5", "gpt-5-2025-08-07", "o3", "gpt-6.1-sol", "openai.gpt-oss-120b-1:0"):
        request = LlmRequest(name, Conversation([Message.user("Hi")]), reasoning="off")
        traits = known.traits(ModelRef("bedrock", name))
        body = make_response_parameters(request, name, f"bedrock:{name}", traits)
        assert body["include"] == ["reasoning.encrypted_content"], name
        assert body["reasoning"]["effort"] == ("none" if "6.1" in name else "low"), name
    plain = LlmRequest("gpt-4.1", Conversation([Message.user("Hi")]))
    traits = known.traits(ModelRef("openai", "gpt-4.1-2025-04-14"))
    assert "include" not in make_response_parameters(plain, "gpt-4.1", "openai:gpt-4.1", traits)
