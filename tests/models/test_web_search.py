"""The providers' own search: asked for in their words, and sent back as they want it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec
from anthropic.types import (
    ServerToolUseBlockParam,
    TextBlockParam,
    WebSearchTool20250305Param,
    WebSearchToolResultBlockParam,
)
from openai.types.responses import ResponseFunctionWebSearchParam, WebSearchToolParam
from pydantic import TypeAdapter

from case_tables import for_every_row
from models.anthropic_streams import CITED, FOUND, STREAMS
from models.openai_responses_streams import STREAMS as RESPONSES
from treadle.core.conversation import Conversation
from treadle.core.llm import LlmRequest, ModelTraits, Usage
from treadle.core.messages import Message, NativeLayout, OpaquePart
from treadle.core.tools import ToolDefinition
from treadle.models.anthropic.request import make_message_parameters, make_source
from treadle.models.anthropic.stream import AnthropicAssembler
from treadle.models.openai.responses_request import make_response_parameters
from treadle.models.openai.responses_stream import ResponsesAssembler
from treadle.models.prices.table import compute_price
from treadle.models.prices.usage_text import describe_usage
from treadle.models.wire.sse import SseDecoder
from treadle.thread.web_searches import WebSearch, describe_web_search, list_web_searches

MODEL = "anthropic:claude-test"
TOOLS = (ToolDefinition("bash", "Run.", {"type": "object"}),)
REASONS = ModelTraits(reasoning="effort")
USER = Message.user("Is grass green?")


def asked(*said: Message, **how: Any) -> LlmRequest:
    return LlmRequest(MODEL, Conversation(said), **{"web_search": True, "tools": TOOLS} | how)


def check_type(kind: Any, value: Any) -> None:
    """That the official SDK would take it, field by field: it has no other."""
    TypeAdapter(kind).validate_python(value)
    assert {*value} <= {*kind.__annotations__}, value


def assemble(assembler: Any, data: bytes) -> Any:
    for event in SseDecoder().feed(data):
        list(assembler.add_event(event))
    return [*assembler.end()][-1].response


def answer_of_anthropic(request: LlmRequest) -> Any:
    return assemble(AnthropicAssembler(make_source(request, "anthropic"), 1, 9), STREAMS["search"])


def answer_of_openai() -> Any:
    return assemble(ResponsesAssembler("openai:gpt", salt=1, input_size=9), RESPONSES["search"])


def test_anthropic_is_asked_with_its_own_tool_behind_the_others() -> None:
    sent = make_message_parameters(asked(USER), "anthropic", ModelTraits())["tools"]
    check_type(WebSearchTool20250305Param, sent[-1])
    plain = make_message_parameters(asked(USER, web_search=False), "anthropic", ModelTraits())
    assert sent[:-1] == plain["tools"]


def test_openai_is_asked_with_its_own_tool_behind_the_others_and_for_the_sources() -> None:
    sent = make_response_parameters(asked(USER), "gpt", "openai:gpt", REASONS)
    check_type(WebSearchToolParam, sent["tools"][-1])
    assert sent["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]
    plain = make_response_parameters(asked(USER, web_search=False), "gpt", "openai:gpt", REASONS)
    assert (sent["tools"][:-1], plain["include"]) == (plain["tools"], sent["include"][:1])


def test_a_model_without_tools_and_a_format_without_search_are_asked_for_none() -> None:
    no_tools = ModelTraits(has_tools=False)
    assert "tools" not in make_message_parameters(asked(USER), "anthropic", no_tools)
    assert "tools" not in make_response_parameters(asked(USER), "gpt", "openai:gpt", no_tools)
    alone = make_message_parameters(asked(USER, tools=()), "anthropic", ModelTraits())
    assert [tool["name"] for tool in alone["tools"]] == ["web_search"]


def test_what_anthropic_found_goes_back_as_it_came_with_what_was_cited() -> None:
    request = asked(USER)
    message = answer_of_anthropic(request).message
    sent = make_message_parameters(asked(USER, message, USER), "anthropic", ModelTraits())
    first, call, result, so, cited, end = sent["messages"][1]["content"]
    check_type(ServerToolUseBlockParam, call)
    check_type(WebSearchToolResultBlockParam, result)
    check_type(TextBlockParam, cited)
    assert (call["input"], call["id"]) == ({"query": "colour of grass"}, result["tool_use_id"])
    assert result["content"] == [FOUND]
    assert cited == {"type": "text", "text": "grass is green", "citations": [CITED]}
    assert [first["text"], so["text"], end["text"]] == ["I will look.", "So: ", "."]
    assert message.content == "I will look.So: grass is green."


def test_what_was_found_goes_to_nobody_who_does_not_know_it() -> None:
    message = answer_of_anthropic(asked(USER)).message
    for how in ({"web_search": False}, {"system": "Be brief."}, {"model": "anthropic:other"}):
        request = msgspec.structs.replace(asked(USER, message, USER), **how)  # type: ignore[arg-type]
        sent = make_message_parameters(request, "anthropic", ModelTraits())["messages"][1]
        assert sent["content"] == [{"type": "text", "text": message.content}], how
    items = make_response_parameters(asked(message), "gpt", "openai:gpt", REASONS)["input"]
    assert [item["type"] for item in items] == ["message"]


def test_the_question_of_a_search_does_not_go_back_without_its_results_nor_they_without_it() -> (
    None
):
    """One of the two may be left out, because it held what looks like a secret."""
    request = asked(USER)
    message = answer_of_anthropic(request).message
    assert message.native is not None
    for kind in ("server_tool_use", "web_search_tool_result"):
        parts = tuple(
            OpaquePart(part.block_json.replace("srvtoolu_01", "[REDACTED:key]"))
            if isinstance(part, OpaquePart) and f'"type":"{kind}"' in part.block_json
            else part
            for part in message.native.parts
        )
        torn = msgspec.structs.replace(message, native=NativeLayout(message.native.source, parts))
        sent = make_message_parameters(asked(USER, torn, USER), "anthropic", ModelTraits())
        assert {block["type"] for block in sent["messages"][1]["content"]} == {"text"}, kind


def test_what_openai_did_goes_back_as_it_came() -> None:
    message = answer_of_openai().message
    sent = make_response_parameters(asked(USER, message), "gpt", "openai:gpt", REASONS)["input"]
    (search,) = (item for item in sent if item["type"] == "web_search_call")
    check_type(ResponseFunctionWebSearchParam, search)
    assert sent[-1]["content"][0]["annotations"][0]["url"] == "https://example.org/"


def test_searches_are_counted_and_cost_what_the_provider_takes_for_them() -> None:
    assert answer_of_anthropic(asked(USER)).usage.web_searches == 1
    assert answer_of_openai().usage.web_searches == 1
    usage = Usage(10, 5, web_searches=3)
    assert (usage + usage).web_searches == 6
    plain = compute_price("anthropic", "claude-sonnet-4-5", Usage(10, 5))
    with_searches = compute_price("anthropic", "claude-sonnet-4-5", usage)
    assert plain is not None
    assert with_searches == plain + 3 * Decimal(10) / 1000
    assert describe_usage(usage) == "10 tokens in, 5 out, 3 web searches"
    assert compute_price("openai", "gpt-5", usage) is not None


def test_people_are_told_a_line_for_each_search() -> None:
    (theirs,) = list_web_searches(answer_of_anthropic(asked(USER)).message)
    assert describe_web_search(theirs) == (
        'the provider searched the web for "colour of grass": https://example.org/grass'
    )
    (other,) = list_web_searches(answer_of_openai().message)
    assert describe_web_search(other) == 'the provider searched the web for "weather"'


def found(*blocks: Any) -> list[WebSearch]:
    parts = tuple(OpaquePart(json.dumps(block)) for block in blocks)
    return list_web_searches(Message("assistant", "", native=NativeLayout("a:b", parts)))


def openai(**action: Any) -> Mapping[str, Any]:
    return {"type": "web_search_call", "id": "ws", "action": action}


def use(**given: Any) -> Mapping[str, Any]:
    return {"type": "server_tool_use", "name": "web_search", "id": "a", "input": given}


def result(content: Any) -> Mapping[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": "a", "content": content}


LINKS = [{"url": f"https://{name}.example/"} for name in "abcab"]


@for_every_row(
    "blocks, told",
    (
        ([], []),
        ([{"type": "thinking", "thinking": "web_search"}], []),
        ([use(query="x")], ['the provider searched the web for "x"']),
        (
            [use(query="x"), result({"error_code": "max_uses_exceeded"})],
            ['the provider searched the web for "x": max_uses_exceeded'],
        ),
        (
            [openai(type="search", queries=["a", "b\n c"], sources=LINKS)],
            [
                'the provider searched the web for "a; b c": https://a.example/ https://b.example/'
                " https://c.example/"
            ],
        ),
        (
            [openai(type="search", query="x", sources=[{"url": f"u{n}"} for n in range(9)])],
            ['the provider searched the web for "x": u0 u1 u2 and 6 more'],
        ),
        (
            [openai(type="open_page", url="https://a.example/")],
            ["the provider opened https://a.example/"],
        ),
        ([openai(type="open_page", url=None)], ["the provider opened a page"]),
        ([openai(type="search", query=7, sources="x")], ['the provider searched the web for ""']),
        ([use(query=["x"]), result([None, {"url": 3}])], ['the provider searched the web for ""']),
        (
            [{"type": "web_search_call", "action": None}, {"type": "web_search_call"}],
            [],
        ),
        ([use(query="y" * 999)], [f'the provider searched the web for "{"y" * 120}"']),
    ),
)
def test_blocks_of_any_form_are_told_or_passed_over(blocks: Iterable[Any], told: list[str]) -> None:
    assert [describe_web_search(one) for one in found(*blocks)] == told
