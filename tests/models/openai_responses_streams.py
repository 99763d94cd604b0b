"""What the Responses API sends, as bytes: made by the recipe of its documentation and its SDK.

And what the assembler makes of it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from models.loopback import sse
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmErrorKind
from treadle.core.messages import Message
from treadle.models.failures import WireError
from treadle.models.openai.responses_stream import ResponsesAssembler
from treadle.models.wire.sse import SseDecoder

USAGE: Final = {
    "input_tokens": 120,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 160,
}
CACHED: Final = {
    "input_tokens": 9000,
    "input_tokens_details": {"cached_tokens": 8192, "cache_write_tokens": 512},
    "output_tokens": 300,
    "output_tokens_details": {"reasoning_tokens": 256},
    "total_tokens": 9300,
}

SOURCE: Final = "openai:gpt-5.6"

Events = list[dict[str, Any]]

Told = tuple[list[dict[str, Any]], dict[str, Any] | None]
"""The events of one item, without its place, and the item in its last form."""


def text(
    *pieces: str, phase: str | None = None, citations: tuple[Any, ...] = (), status: str = ""
) -> Told:
    """A message of one text; with a `status` it is cut after its last piece."""
    whole = "".join(pieces)
    extra = {"phase": phase} if phase else {}
    head = {"id": "msg_0f", "type": "message", "role": "assistant", **extra}
    part = {"type": "output_text", "annotations": list(citations), "logprobs": [], "text": whole}
    empty = {**part, "text": "", "annotations": []}
    said = [
        {"type": "response.output_text.delta", "content_index": 0, "delta": piece, "logprobs": []}
        for piece in pieces
    ]
    cited = [
        {
            "type": "response.output_text.annotation.added",
            "content_index": 0,
            "annotation_index": index,
            "annotation": citation,
        }
        for index, citation in enumerate(citations)
    ]
    item = {**head, "status": status or "completed", "content": [part]}
    events = [
        added({**head, "status": "in_progress", "content": []}),
        {"type": "response.content_part.added", "content_index": 0, "part": empty},
        *said,
        *cited,
        {"type": "response.output_text.done", "content_index": 0, "text": whole, "logprobs": []},
        {"type": "response.content_part.done", "content_index": 0, "part": part},
        done(item),
    ]
    return events, item


def refusal(*pieces: str) -> Told:
    whole = "".join(pieces)
    head = {"id": "msg_1f", "type": "message", "role": "assistant"}
    part = {"type": "refusal", "refusal": whole}
    item = {**head, "status": "completed", "content": [part]}
    said = [
        {"type": "response.refusal.delta", "content_index": 0, "delta": piece} for piece in pieces
    ]
    events = [
        added({**head, "status": "in_progress", "content": []}),
        {
            "type": "response.content_part.added",
            "content_index": 0,
            "part": {**part, "refusal": ""},
        },
        *said,
        {"type": "response.refusal.done", "content_index": 0, "refusal": whole},
        {"type": "response.content_part.done", "content_index": 0, "part": part},
        done(item),
    ]
    return events, item


def call(call_id: str, name: str, *pieces: str, status: str = "completed") -> Told:
    whole = "".join(pieces)
    head = {"id": f"fc_{call_id}", "type": "function_call", "call_id": call_id, "name": name}
    item = {**head, "status": status, "arguments": whole}
    said = [{"type": "response.function_call_arguments.delta", "delta": piece} for piece in pieces]
    events = [
        added({**head, "status": "in_progress", "arguments": ""}),
        *said,
        {"type": "response.function_call_arguments.done", "arguments": whole},
        done(item),
    ]
    return events, item


def reasoning(*summaries: str, encrypted: str = "gAAAAABo8Q==", number: int = 1) -> Told:
    head = {"id": f"rs_{number}", "type": "reasoning"}
    events = [added({**head, "summary": [], "encrypted_content": "gAAAA"})]
    parts = []
    for index, summary in enumerate(summaries):
        part = {"type": "summary_text", "text": summary}
        parts.append(part)
        at = {"summary_index": index}
        half = len(summary) // 2
        events += [
            {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}},
            {"type": "response.reasoning_summary_text.delta", **at, "delta": summary[:half]},
            {"type": "response.reasoning_summary_text.delta", **at, "delta": summary[half:]},
            {"type": "response.reasoning_summary_text.done", **at, "text": summary},
            {"type": "response.reasoning_summary_part.done", **at, "part": part},
        ]
    item = {**head, "summary": parts, "encrypted_content": encrypted}
    return [*events, done(item)], item


def opaque(item: dict[str, Any], *between: dict[str, Any]) -> Told:
    """An item of any type, whole when it is announced."""
    return [added({**item, "status": "in_progress"}), *between, done(item)], item


def added(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "item": item}


def done(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": item}


def response(output: list[Any], status: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_67",
        "object": "response",
        "created_at": 1763700000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "gpt-5.6",
        "output": output,
        "parallel_tool_calls": True,
        "store": False,
        "tool_choice": "auto",
        "tools": [],
        "truncation": "disabled",
        "usage": None,
        **fields,
    }


def events_of(*told: Told, status: str = "completed", **fields: Any) -> list[dict[str, Any]]:
    """The events of a whole response, numbered; its end is what `status` and `fields` say."""
    begun = response([], "in_progress")
    events = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    output = []
    for index, (said, item) in enumerate(told):
        events += [{**event, "output_index": index} for event in said]
        if item is not None:
            output.append(item)
    fields.setdefault("usage", USAGE)
    end = {"type": f"response.{status}", "response": response(output, status, **fields)}
    numbered = [{**event, "sequence_number": n} for n, event in enumerate([*events, end])]
    decoded: list[dict[str, Any]] = json.loads(json.dumps(numbered))  # nothing is shared
    return decoded


def wire(events: list[dict[str, Any]]) -> bytes:
    return sse(*((event["type"], event) for event in events))


def failing(code: str, message: str, *told: Told) -> bytes:
    error = {"code": code, "message": message}
    return wire(events_of(*told, status="failed", error=error, usage=None))


def broken_off(*told: Told, error: dict[str, Any]) -> bytes:
    """An `error` event in the place of the end."""
    return wire([*events_of(*told)[:-1], {"type": "error", "sequence_number": 99, **error}])


LIMIT: Final = {"incomplete_details": {"reason": "max_output_tokens"}}
FILTER: Final = {"incomplete_details": {"reason": "content_filter"}}
CITATION: Final = {
    "type": "url_citation",
    "start_index": 0,
    "end_index": 5,
    "title": "A page",
    "url": "https://example.org/",
}
SEARCH: Final = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "weather"},
}
FUTURE: Final = {"id": "x_1", "type": "dream", "status": "completed", "content": {"a": [1, None]}}

_PARALLEL: Final = (
    call("call_a1", "read_file", '{"path":', '"a.py"}'),
    call("call_b2", "read_file", '{"path": "b.py"', ', "limit": 10}'),
    call("call_c3", "list_files", "{}"),
)

ANSWERS: Final[dict[str, bytes]] = {
    "text": wire(events_of(text("Hello", ", ", "world."))),
    "utf8": wire(events_of(text("Grüße, ", "世界", "! 👩‍🔬", " e\u0301 \u2028 \ufeff"))),
    "empty": wire(events_of(text(""))),
    "call": wire(events_of(call("call_a1", "bash", '{"command":', ' "ls"}'))),
    "text and call": wire(events_of(text("I look.", phase="commentary"), _PARALLEL[0])),
    "parallel": wire(events_of(*_PARALLEL)),
    "call without arguments": wire(events_of(call("call_a1", "list_files"))),
    "reasoning and call": wire(
        events_of(reasoning(encrypted="gAAAAABo/+x="), _PARALLEL[0], usage=CACHED)
    ),
    "summaries": wire(
        events_of(
            reasoning("**Looking**\n\nat it", "**Ünd** so", number=1),
            reasoning(number=2, encrypted="gBBBB"),
            text("Done.", phase="final_answer"),
        )
    ),
    "reasoning between": wire(
        events_of(
            reasoning("one", number=1),
            text("First I look.", phase="commentary"),
            _PARALLEL[0],
            reasoning(number=2, encrypted="gCCCC"),
            _PARALLEL[1],
        )
    ),
    "refusal": wire(events_of(refusal("I cannot ", "help with that."))),
    "cut text": wire(
        events_of(text("It begins", " and", status="incomplete"), status="incomplete", **LIMIT)
    ),
    "cut arguments": wire(
        events_of(
            text("Wait."),
            call("call_a1", "bash", '{"command": "rm ', status="incomplete"),
            status="incomplete",
            **LIMIT,
        )
    ),
    "unknown item": wire(
        events_of(
            opaque(FUTURE, {"type": "response.dream.deepened", "delta": "zzz"}), text("Good day.")
        )
    ),
    "search": wire(
        events_of(
            opaque(SEARCH, {"type": "response.web_search_call.searching", "item_id": "ws_1"}),
            text("Sunny today.", citations=(CITATION,)),
        )
    ),
    "cached": wire(events_of(text("Cached."), usage=CACHED)),
}
"""Streams that are whole answers, each by its name."""

FAILURES: Final[dict[str, bytes]] = {
    "filter": wire(events_of(text("It is", status="incomplete"), status="incomplete", **FILTER)),
    "error event": broken_off(
        text("It is"), error={"code": "server_error", "message": "Sorry.", "param": None}
    ),
    "wrapped error event": broken_off(
        error={"error": {"type": "too_many_requests", "code": "rate_limit_exceeded", "message": ""}}
    ),
    "invalid request": broken_off(
        error={"error": {"type": "invalid_request_error", "code": None, "message": "No."}}
    ),
    "bare error": sse(
        *((event["type"], event) for event in events_of(text("It is"))[:-1]),
        {"error": {"message": "Overloaded.", "code": 503}},
    ),
    "status of a failure": wire(
        [
            *events_of()[:-1],
            {
                "type": "response.completed",
                "response": response([], "failed", error={"code": "server_error", "message": "Oh"}),
            },
        ]
    ),
    "server error": failing("server_error", "The model failed.", text("It is")),
    "rate limit": failing("rate_limit_exceeded", "Rate limit reached for gpt-5.6."),
    "too long": failing("context_length_exceeded", "Your input exceeds the context window."),
    "policy": failing("invalid_prompt", "Your prompt was flagged."),
}
"""Streams that end badly."""

STREAMS: Final[dict[str, bytes]] = {**ANSWERS, **FAILURES}


def fresh() -> ResponsesAssembler:
    return ResponsesAssembler(SOURCE, salt=3, input_size=400)


def heard(data: bytes | Events) -> list[Any]:
    """All events that a stream makes; raises what the assembler raises."""
    assembler = fresh()
    events: list[Any] = []
    for event in SseDecoder().feed(data if isinstance(data, bytes) else wire(data)):
        events += assembler.add_event(event)
    return [*events, *assembler.end()]


def completed(data: bytes | Events) -> Any:
    end = heard(data)[-1]
    assert isinstance(end, LlmEvent.Completed)
    return end.response


def without(events: Events, *ends: str) -> Events:
    return [event for event in events if not event["type"].endswith(ends)]


def changed(events: Events, change: Callable[[dict[str, Any]], Any]) -> Events:
    """The events with `change` made to each."""
    copies = copy.deepcopy(events)
    for event in copies:
        change(event)
    return copies


def gist(message: Message) -> Any:
    return message.content, message.tool_calls


def events_from(name: str) -> Events:
    """The events of a stream, as objects of their own."""
    return [json.loads(event.data) for event in SseDecoder().feed(ANSWERS[name])]


def wrong(data: bytes | Events) -> str:
    """Why a stream is refused; it must be for what it says, not for its end."""
    with pytest.raises(WireError) as caught:
        heard(data)
    assert caught.value.kind is LlmErrorKind.INVALID_RESPONSE
    return caught.value.message
