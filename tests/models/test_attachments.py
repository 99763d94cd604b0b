"""Pictures and documents over the wire: each format in its own form, judged by the SDK's types."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from anthropic.types import DocumentBlockParam, ImageBlockParam, MessageParam
from msgspec.structs import replace
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from media_samples import PDF, attachment, png
from models.loopback import Loopback, stream
from models.speakers import anthropic, openai_chat, openai_responses
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.core.messages import Attachment, Message, ToolCall
from treadle.models.anthropic.provider import AnthropicProvider
from treadle.models.anthropic.request import make_message_parameters
from treadle.models.attachment_content import (
    FREE_IMAGE_COUNT,
    GONE,
    IMAGE_COUNT_MAX,
    SIZE_MAX,
    TOO_MANY,
    select_attachments,
)
from treadle.models.catalog import make_catalog, read_defaults
from treadle.models.openai.chat import OpenAiChatProvider
from treadle.models.openai.chat_request import OPENAI, OPENROUTER, Dialect, make_parameters
from treadle.models.openai.responses import OpenAiResponsesProvider

SHOT: Final = attachment(png(), "shots/one.png")
OTHER: Final = attachment(png(5, 5), "two.png")
PAPER: Final = attachment(PDF, "paper.pdf")
CONTENTS: Final = {
    one.blob.sha256: data for one, data in ((SHOT, png()), (OTHER, png(5, 5)), (PAPER, PDF))
}
SEES: Final = ModelTraits(sees_images=True, reads_pdf=True)
CALLS: Final = (ToolCall("call_1", "read_file", "{}"), ToolCall("call_2", "bash", "{}"))
TALK: Final = (
    Message.user("What is this?", (SHOT, PAPER)),
    Message.assistant("I look.", CALLS),
    Message.tool(CALLS[0], "[a picture]", (OTHER,)),
    Message.tool(CALLS[1], "fine"),
)


def asked(*said: Message, contents: Mapping[str, bytes] = CONTENTS) -> LlmRequest:
    return LlmRequest("maker:model", Conversation(said or TALK), contents=dict(contents))


def check(kind: Any, value: Any) -> None:
    """That the official SDK would take it, and knows each of its fields where it has one type."""
    TypeAdapter(kind).validate_python(value)
    assert {*value} <= {*getattr(kind, "__annotations__", value)}, value


def data_of(url: str, media_type: str) -> bytes:
    head, _, rest = url.partition(",")
    assert head == f"data:{media_type};base64"
    return b64decode(rest, validate=True)


async def send(provider: Any, answer: bytes) -> Any:
    """The body that a request arrives with at a real server."""
    async with Loopback(stream(answer)) as server:
        sender = provider("key", name="maker", base_url=server.url, traits=lambda _: SEES)
        events = [event async for event in sender.stream(asked())]
        await sender.aclose()
    assert isinstance(events[-1], LlmEvent.Completed), events[-1]
    return json.loads(server.requests[0].body)


async def test_anthropic_gets_blocks_in_messages_and_in_results() -> None:
    body = await send(AnthropicProvider, anthropic("A loom."))
    for message in body["messages"]:
        check(MessageParam, message)
    picture, paper, text = body["messages"][0]["content"]
    check(ImageBlockParam, picture)
    check(DocumentBlockParam, paper)
    assert b64decode(picture["source"]["data"]) == png()
    assert b64decode(paper["source"]["data"]) == PDF
    assert (paper["title"], text["text"]) == ("paper.pdf", "What is this?")
    shown, plain = body["messages"][2]["content"]
    assert [part["type"] for part in shown["content"]] == ["text", "image"]
    assert b64decode(shown["content"][1]["source"]["data"]) == png(5, 5)
    assert plain["content"] == "fine"


async def test_responses_get_parts_in_messages_and_in_outputs() -> None:
    body = await send(OpenAiResponsesProvider, openai_responses("A loom."))
    for item in body["input"]:
        if item.get("role") != "assistant":  # whose ids it wants, which are not sent back
            check(ResponseInputItemParam, item)
    text, picture, paper = body["input"][0]["content"]
    assert text == {"type": "input_text", "text": "What is this?"}
    assert data_of(picture["image_url"], "image/png") == png()
    assert data_of(paper["file_data"], "application/pdf") == PDF
    assert paper["filename"] == "paper.pdf"
    outputs = [item for item in body["input"] if item["type"] == "function_call_output"]
    assert [part["type"] for part in outputs[0]["output"]] == ["input_text", "input_image"]
    assert data_of(outputs[0]["output"][1]["image_url"], "image/png") == png(5, 5)
    assert outputs[1]["output"] == "fine"


async def test_chat_completions_get_parts_and_those_of_results_behind_the_round() -> None:
    body = await send(OpenAiChatProvider, openai_chat("A loom."))
    for message in body["messages"]:
        check(ChatCompletionMessageParam, message)
    first, _, one, two, behind = body["messages"]
    assert data_of(first["content"][1]["image_url"]["url"], "image/png") == png()
    assert "this model does not read PDF documents: paper.pdf" in first["content"][0]["text"]
    assert (one["content"], two["content"], behind["role"]) == ("[a picture]", "fine", "user")
    label, picture = behind["content"]
    assert label["text"] == "[two.png, shown by the call call_1 of read_file]"
    assert data_of(picture["image_url"]["url"], "image/png") == png(5, 5)


def test_documents_go_to_the_endpoints_of_this_format_that_know_them() -> None:
    for dialect, kinds in (
        (OPENAI, ["text", "image_url", "file"]),
        (Dialect(), ["text", "image_url"]),
    ):
        sent = make_parameters(asked(), "maker", SEES, dialect)["messages"]
        check(ChatCompletionMessageParam, sent[0])
        assert [part["type"] for part in sent[0]["content"]] == kinds


def test_the_bytes_of_a_request_begin_as_those_of_the_one_before() -> None:
    """Provider caches compare bytes: what was shown is sent the same in every later request."""
    later = (*TALK, Message.assistant("A loom."), Message.user("And this?", (OTHER,)))
    for make in (
        lambda said: make_message_parameters(asked(*said), "maker", SEES)["messages"],
        lambda said: make_parameters(asked(*said), "maker", SEES, OPENROUTER)["messages"],
        lambda said: make_parameters(asked(*said), "maker", SEES, OPENAI)["messages"],
    ):
        before, after = make(TALK), make(later)
        for marked in (before, after):
            for message in marked:
                for part in message["content"] if isinstance(message["content"], list) else ():
                    part.pop("cache_control", None)
        assert msgspec.json.encode(after[: len(before)]) == msgspec.json.encode(before)


def lines(request: LlmRequest, traits: ModelTraits = SEES) -> list[str]:
    """What stands in place of what is not sent, without names."""
    found = (
        line.partition(":")[0].removeprefix("[Not shown, ")
        for message in select_attachments(request, traits).messages
        for line in message.content.split("\n")
    )
    return [
        line for line in found if line not in ("What is this?", "fine", "[a picture]", "I look.")
    ]


def test_a_line_stands_for_what_a_model_is_not_shown() -> None:
    blind, unknown = ModelTraits(sees_images=False, reads_pdf=False), ModelTraits()
    assert lines(asked(), blind) == [
        "this model does not see pictures",
        "this model does not read PDF documents",
        "this model does not see pictures",
    ]
    assert lines(asked(), unknown)[0] == "it is not known whether this model sees pictures"
    assert lines(asked(contents={})) == [GONE] * 3
    assert lines(asked()) == []
    plain = asked(Message.user("hello"))
    assert select_attachments(plain, blind) is plain


def test_the_newest_are_sent_where_a_request_does_not_take_all() -> None:
    many = tuple(Message.user(str(place), (SHOT,)) for place in range(IMAGE_COUNT_MAX + 2))
    sent = select_attachments(asked(*many), SEES).messages
    assert [bool(one.attachments) for one in sent] == [False] * 2 + [True] * IMAGE_COUNT_MAX
    assert TOO_MANY in sent[0].content
    large = replace(SHOT, width=2001)
    seen = tuple(Message.user(str(place), (large,)) for place in range(FREE_IMAGE_COUNT + 1))
    assert [bool(one.attachments) for one in select_attachments(asked(*seen), SEES).messages] == [
        False,
        *[True] * FREE_IMAGE_COUNT,
    ]
    # A large one that goes leaves older ones no more room than it has itself.
    mixed = (*seen[:3], *many, seen[3])
    sent = select_attachments(asked(*mixed), SEES).messages
    assert [bool(one.attachments) for one in sent[-FREE_IMAGE_COUNT:]] == [True] * FREE_IMAGE_COUNT
    assert not any(one.attachments for one in sent[:-FREE_IMAGE_COUNT])
    mixed = (*seen, *many[:FREE_IMAGE_COUNT])
    sent = select_attachments(asked(*mixed), SEES).messages
    assert [len(one.attachments) for one in sent] == [0] * len(seen) + [1] * FREE_IMAGE_COUNT
    heavy: list[Attachment] = []
    contents: dict[str, bytes] = {}
    for place in range(3):
        data = PDF[:9] + bytes((place,)) * (SIZE_MAX // 2) + PDF[9:]
        heavy.append(replace(PAPER, blob=replace(PAPER.blob, sha256=str(place))))
        contents[str(place)] = data
    few = asked(*(Message.user("", (one,)) for one in heavy), contents=contents)
    kept = [bool(one.attachments) for one in select_attachments(few, SEES).messages]
    assert kept == [False, False, True]


def test_the_table_says_of_known_models_what_they_are_shown() -> None:
    catalog = make_catalog(read_defaults())
    shown = {
        name: (traits.sees_images, traits.reads_pdf)
        for name in (
            *("anthropic:claude-sonnet-5-5", "openai:gpt-6.1-sol", "openai:o3-mini"),
            *("groq:openai/gpt-oss-120b", "gemini:gemini-3-pro", "ollama:made-up"),
        )
        for traits in (catalog.traits(catalog.resolve(name)),)
    }
    assert [*shown.values()] == [
        *((True, True), (True, True), (False, False)),
        *((False, False), (True, True), (None, None)),
    ]
