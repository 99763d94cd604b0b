"""Answers in each wire format, as a whole stream of events."""

from __future__ import annotations

import json
from typing import Any, Final

from models.loopback import sse

Calls = tuple[tuple[str, str, dict[str, Any]], ...]
"""Id, tool and arguments of each."""

KEYS: Final = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", ""),
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
}
"""Of the providers that variables alone configure: key, base URL, what the URL ends in."""


def anthropic(text: str = "", calls: Calls = (), *, cached: int = 0) -> bytes:
    """The Messages API."""
    usage = {
        "input_tokens": 100,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    events: list[tuple[str, Any]] = [("message_start", {"message": message})]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if text:
        pieces = [{"type": "text_delta", "text": piece} for piece in _halves(text)]
        blocks.append(({"type": "text", "text": ""}, pieces))
    for call_id, tool, arguments in calls:
        start = {"type": "tool_use", "id": call_id, "name": tool, "input": {}}
        halves = _halves(json.dumps(arguments))
        blocks.append((start, [{"type": "input_json_delta", "partial_json": h} for h in halves]))
    for index, (start, deltas) in enumerate(blocks):
        events.append(("content_block_start", {"index": index, "content_block": start}))
        events += [("content_block_delta", {"index": index, "delta": delta}) for delta in deltas]
        events.append(("content_block_stop", {"index": index}))
    delta = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    events.append(("message_delta", {"delta": delta, "usage": {"output_tokens": 20}}))
    events.append(("message_stop", {}))
    return sse(*((name, {"type": name, **data}) for name, data in events))


def openai_chat(text: str = "", calls: Calls = (), *, cached: int = 0) -> bytes:
    """Chat Completions."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in _halves(text) if text]
    for index, (call_id, tool, arguments) in enumerate(calls):
        function = {"name": tool, "arguments": ""}
        start = {"index": index, "id": call_id, "type": "function", "function": function}
        deltas.append({"tool_calls": [start]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": half}}]}
            for half in _halves(json.dumps(arguments))
        ]
    reason = "tool_calls" if calls else "stop"
    choices = [
        *({"index": 0, "delta": delta, "finish_reason": None} for delta in deltas),
        {"index": 0, "delta": {}, "finish_reason": reason},
    ]
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    usage = {
        "prompt_tokens": 100 + cached,
        "completion_tokens": 20,
        "total_tokens": 120 + cached,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    chunks = [{**head, "choices": [choice]} for choice in choices]
    return sse(*chunks, {**head, "choices": [], "usage": usage}, done=True)


def openai_responses(text: str = "", calls: Calls = (), *, cached: int = 0) -> bytes:
    """The Responses API."""
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**head, "status": "in_progress"}}
    ]
    items: list[dict[str, Any]] = []
    if text:
        events += _responses_text(text)
        items.append(events[-1]["item"])
    for call_id, tool, arguments in calls:
        events += _responses_call(len(items), call_id, tool, json.dumps(arguments))
        items.append(events[-1]["item"])
    usage = {
        "input_tokens": 100 + cached,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 120 + cached,
    }
    whole = {**head, "status": "completed", "output": items, "usage": usage}
    events.append({"type": "response.completed", "response": whole})
    return sse(
        *((one["type"], {**one, "sequence_number": number}) for number, one in enumerate(events))
    )


def _responses_text(text: str) -> list[dict[str, Any]]:
    part = {"type": "output_text", "text": "", "annotations": []}
    item = {"id": "msg_0", "type": "message", "role": "assistant"}
    place = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    started = {**item, "status": "in_progress", "content": []}
    whole = {**part, "text": text}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": started},
        {"type": "response.content_part.added", **place, "part": part},
        *({"type": "response.output_text.delta", **place, "delta": h} for h in _halves(text)),
        {"type": "response.output_text.done", **place, "text": text},
        {"type": "response.content_part.done", **place, "part": whole},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**item, "status": "completed", "content": [whole]},
        },
    ]


def _responses_call(index: int, call_id: str, tool: str, arguments: str) -> list[dict[str, Any]]:
    item = {"id": f"fc_{index}", "type": "function_call", "call_id": call_id, "name": tool}
    place = {"item_id": f"fc_{index}", "output_index": index}
    delta = "response.function_call_arguments.delta"
    started = {**item, "status": "in_progress", "arguments": ""}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": started},
        *({"type": delta, **place, "delta": half} for half in _halves(arguments)),
        {"type": "response.function_call_arguments.done", **place, "arguments": arguments},
        {
            "type": "response.output_item.done",
            "output_index": index,
            "item": {**item, "status": "completed", "arguments": arguments},
        },
    ]


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [text[:middle], text[middle:]]


SPEAK: Final = {
    "anthropic-messages": anthropic,
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
}
