"""Streams of the Messages API as they come over the wire, whole and broken."""

from __future__ import annotations

from typing import Any, Final

from models.loopback import sse

Event = tuple[str, Any]

SIGNATURE: Final = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrzLoky3dl1pkiMOYds+/=" * 3 + "IjDk0tbJ/é=="
REDACTED_DATA: Final = "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP+/=="

PING: Final[Event] = ("ping", {"type": "ping"})

USAGE: Final = {
    "input_tokens": 472,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 2,
    "service_tier": "standard",
    "inference_geo": "not_available",
}


def start(**usage: Any) -> Event:
    message = {
        "model": "claude-opus-5-5",
        "id": "msg_01Xg3hiQ8NpVz",
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "usage": USAGE | usage,
    }
    return "message_start", {"type": "message_start", "message": message}


def opens(index: int, **block: Any) -> Event:
    data = {"type": "content_block_start", "index": index, "content_block": block}
    return "content_block_start", data


def delta(index: int, kind: str, **what: Any) -> Event:
    data = {"type": "content_block_delta", "index": index, "delta": {"type": kind, **what}}
    return "content_block_delta", data


def closes(index: int) -> Event:
    return "content_block_stop", {"type": "content_block_stop", "index": index}


def text(index: int, *pieces: str) -> list[Event]:
    deltas = [delta(index, "text_delta", text=piece) for piece in pieces]
    return [opens(index, type="text", text=""), *deltas, closes(index)]


def call(index: int, call_id: str, name: str, *pieces: str) -> list[Event]:
    begins = opens(
        index, type="tool_use", id=call_id, name=name, input={}, caller={"type": "direct"}
    )
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in ("", *pieces)]
    return [begins, *deltas, closes(index)]


def thinking(index: int, *pieces: str, signature: str = SIGNATURE) -> list[Event]:
    return [
        opens(index, type="thinking", thinking="", signature=""),
        *(delta(index, "thinking_delta", thinking=piece) for piece in pieces),
        *([delta(index, "signature_delta", signature=signature)] if signature else []),
        closes(index),
    ]


def redacted(index: int, data: str = REDACTED_DATA) -> list[Event]:
    return [opens(index, type="redacted_thinking", data=data), closes(index)]


def stop(reason: str | None = "end_turn", details: Any = None, **usage: Any) -> list[Event]:
    said = {"stop_reason": reason, "stop_sequence": None, "stop_details": details}
    data = {"type": "message_delta", "delta": said, "usage": {"output_tokens": 89} | usage}
    return [("message_delta", data), ("message_stop", {"type": "message_stop"})]


def error(kind: str, message: str) -> Event:
    body = {"type": "error", "error": {"type": kind, "message": message, "details": None}}
    return "error", body | {"request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}


CITATION: Final = {
    "type": "char_location",
    "cited_text": "The grass is green.",
    "document_index": 0,
    "document_title": "Colours",
    "start_char_index": 0,
    "end_char_index": 19,
}
FOUND: Final = {
    "type": "web_search_result",
    "url": "https://example.org/grass",
    "title": "Grass",
    "encrypted_content": "EqgfCioIARgBIiQ3YTAwMjY1Mi1mZjM5LTQ1NGUtODgxNC1kNjNjNTk1ZWI3Y",
    "page_age": "April 30, 2026",
}
CITED: Final = {
    "type": "web_search_result_location",
    "url": "https://example.org/grass",
    "title": "Grass",
    "encrypted_index": "Eo8BCioIAhgBIiQyYjQ0OWJmZi1lNm",
    "cited_text": "Grass is green.",
}
REFUSED: Final = {
    "type": "refusal",
    "category": "cyber",
    "explanation": "This request was declined\nunder the usage policy.",
}
PATH_PIECES: Final = ('{"pa', 'th": "src', '/ünï.py"', ', "limit": 1.0}')

STREAMS: Final[dict[str, bytes]] = {
    "text": sse(start(), *text(0, "Hello", "! How can I", " help?"), *stop()),
    "emoji": sse(
        start(), *text(0, "Grüße, 世", "界! 👩\u200d👩", "\u200d👧 🎉", "\u2028 done"), *stop()
    ),
    "begun twice": sse(
        start(), *text(0, "Hello"), start(input_tokens=473), *text(1, " again"), *stop()
    ),
    "two texts": sse(start(), *text(0, "First. "), *text(1, "Second."), *stop("stop_sequence")),
    "tool": sse(start(), *call(0, "toolu_01A", "read_file", *PATH_PIECES), *stop("tool_use")),
    "parallel tools": sse(
        start(),
        *text(0, "I will look", " at both."),
        *call(1, "toolu_01A", "read_file", *PATH_PIECES),
        *call(2, "toolu_01B", "bash", '{"command":', ' "ls -la | wc"}'),
        *call(3, "toolu_01C", "list_files"),
        *stop("tool_use"),
    ),
    "thinking": sse(
        start(),
        *thinking(0, "The person wants ", "a file.\n", "So: read it. 🤔"),
        *text(1, "I'll read it."),
        *call(2, "toolu_01A", "read_file", *PATH_PIECES),
        *stop("tool_use", output_tokens_details={"thinking_tokens": 41}),
    ),
    "interleaved thinking": sse(
        start(),
        *thinking(0, "One."),
        *call(1, "toolu_01A", "bash", '{"command": "ls"}'),
        *thinking(2, "Two."),
        *text(3, "And then"),
        *call(4, "toolu_01B", "bash", '{"command": "pwd"}'),
        *stop("tool_use"),
    ),
    "omitted thinking": sse(start(), *thinking(0), *text(1, "Yes."), *stop()),
    "redacted thinking": sse(
        start(), *redacted(0), *thinking(1, "Hm."), *redacted(2), *text(3, "No."), *stop()
    ),
    "refusal": sse(start(), *text(0, "I can"), *stop("refusal", REFUSED, output_tokens=3)),
    "max_tokens in text": sse(start(), *text(0, "This goes on and"), *stop("max_tokens")),
    "max_tokens in arguments": sse(
        start(),
        *text(0, "Writing."),
        *call(1, "toolu_01A", "write_file", '{"path": "a.py", "conte', 'nt": "impo'),
        *stop("max_tokens"),
    ),
    "max_tokens in thinking": sse(
        start(), *thinking(0, "Let me think about", signature=""), *stop("max_tokens")
    ),
    "empty arguments": sse(start(), *call(0, "toolu_01A", "list_files"), *stop("tool_use")),
    "pings": sse(
        PING,
        *(
            each
            for event in (start(), *text(0, "a", "b"), *call(1, "toolu_01A", "bash", '{"a', '":1}'))
            for each in (event, PING)
        ),
        *stop("tool_use"),
    ),
    "overloaded": sse(
        start(), *text(0, "I was about")[:-1], error("overloaded_error", "Overloaded")
    ),
    "unknown blocks": sse(
        start(),
        opens(0, type="hologram", projection={"rays": [1, 2.5, None], "note": "é"}),
        delta(0, "hologram_delta", more="light"),
        closes(0),
        *text(1, "See above."),
        opens(
            2, type="server_tool_use", id="srvtoolu_01", name="web_search", input={}, caller=None
        ),
        delta(2, "input_json_delta", partial_json='{"query": '),
        delta(2, "input_json_delta", partial_json='"weather"}'),
        closes(2),
        ("message_thought", {"type": "message_thought", "thought": "nobody knows this event"}),
        *stop(),
    ),
    "citations": sse(
        start(),
        opens(0, type="text", text="", citations=[]),
        delta(0, "text_delta", text="the grass is green"),
        delta(0, "citations_delta", citation=CITATION),
        closes(0),
        *stop(),
    ),
    "search": sse(
        start(),
        *text(0, "I will look."),
        opens(
            1,
            type="server_tool_use",
            id="srvtoolu_01",
            name="web_search",
            input={},
            caller={"type": "direct"},
        ),
        delta(1, "input_json_delta", partial_json='{"query": "colour'),
        delta(1, "input_json_delta", partial_json=' of grass"}'),
        closes(1),
        opens(
            2,
            type="web_search_tool_result",
            tool_use_id="srvtoolu_01",
            content=[FOUND],
            caller={"type": "direct"},
        ),
        closes(2),
        *text(3, "So: "),
        opens(4, type="text", text="", citations=[]),
        delta(4, "citations_delta", citation=CITED),
        delta(4, "text_delta", text="grass is "),
        delta(4, "text_delta", text="green"),
        closes(4),
        *text(5, "."),
        *stop(server_tool_use={"web_search_requests": 1, "web_fetch_requests": 0}),
    ),
    "cache": sse(
        start(input_tokens=12, cache_creation_input_tokens=300, cache_read_input_tokens=9000),
        *text(0, "Warm."),
        *stop(
            input_tokens=13,
            cache_creation_input_tokens=301,
            cache_read_input_tokens=9001,
            output_tokens=7,
            output_tokens_details={"thinking_tokens": 0},
        ),
    ),
    "nothing": sse(start(), *stop(output_tokens=3)),
    "paused": sse(start(), *text(0, "Still at it."), *stop("pause_turn")),
}
"""What the API may send, by what is special about it. `overloaded` alone ends in an error."""

FAILED: Final = {"overloaded": "overloaded", "refusal": "content_filtered"}
"""Of those, the kinds of the errors that they are."""
