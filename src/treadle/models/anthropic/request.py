"""A request in the words of Anthropic's Messages API. Pure.

The same messages become the same bytes whatever follows them, but for marks of the cache, which the
API does not count to them: no message waits for the next one to be complete. Caches live on that,
and newer models refuse their own thinking once anything before it has changed.

The end of what is to be cached is marked by `cache_control` at the top, which the API moves along
by itself. From a mark it looks back only so far for what it has cached before: after a round that
adds more than that, the end of the request before is marked too; alone, where nothing of this one
will be read again.

The rules are those of the API of version 2026-10-21: of the notes at the SDK's types, and of the
pages on thinking, tool use, prompt caching and errors at platform.claude.com.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from treadle.core.conversation import Conversation
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.core.messages import Attachment, Message, ToolCall
from treadle.core.tools import FAILURE_HEAD, ToolDefinition
from treadle.models.attachment_content import (
    encode_content,
    get_file_name,
    select_attachments,
)
from treadle.models.layout import Block, arguments_object, list_blocks, strip_provider
from treadle.models.prompt_cache import (
    LOOK_BACK,
    CacheLifetime,
    find_previous_request_end,
    is_read_only,
    make_cache_mark,
)
from treadle.models.token_counts import get_output_limit

MAX_TOKENS_DEFAULT: Final = 32_000
MAX_TOKENS_UNKNOWN: Final = 8192
"""Every request must say how much may be written; an unknown model may take no more than this."""

BUDGET_TOKENS_MIN: Final = 1024
"""The API refuses a smaller budget."""

BUDGET_SHARES: Final[Mapping[str, float]] = {"low": 0.2, "medium": 0.5, "high": 0.8}
"""How much of `max_tokens`, which thinking counts towards, may go into it; as OpenRouter has it."""

API_VERSION_WITH_TEMPERATURE: Final = "2023-06-01"
"""The API that came after it refuses a temperature, whatever the model."""

WEB_SEARCH: Final[dict[str, Any]] = {
    "type": "web_search_20250305",
    "name": "web_search",
    "max_uses": 8,
}
"""The search of the API itself. Later versions want it to run code too. More searches than the API
makes in one request (ten) would have it pause the turn."""

EMPTY: Final = "(empty)"
"""Stands for a text of spaces only, which the API refuses."""

SEARCHING: Final = {"server_tool_use": "id", "web_search_tool_result": "tool_use_id"}
"""The blocks of a search, and where each has the id that they share."""

THINKING: Final = frozenset({"thinking", "redacted_thinking"})

_NAME_LENGTH_MAX: Final = 64
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
_COUNTED: Final = (
    *("model", "messages", "system", "tools", "thinking", "output_config", "cache_control"),
)


def make_message_parameters(
    request: LlmRequest, provider: str, traits: ModelTraits, lifetime: CacheLifetime = "5m"
) -> dict[str, Any]:
    """The parameters of `messages.create`, but for `stream`.

    Args:
        request: what is asked for.
        provider: the provider's name, for the `source` of blocks and in front of the model's name.
        traits: what the model can do.
        lifetime: of what the API caches.
    """
    request = select_attachments(request, traits)
    source = make_source(request, provider)
    mark = make_cache_mark(request, lifetime)
    max_tokens = get_output_limit(request, traits) or min(
        traits.output_tokens_max or MAX_TOKENS_UNKNOWN, MAX_TOKENS_DEFAULT
    )
    parameters: dict[str, Any] = {
        "model": strip_provider(request.model, provider),
        "max_tokens": max_tokens,
        "messages": [*_make_messages(request, source)],
        **({} if is_read_only(request) else mark),
    }
    _mark_previous_request(parameters["messages"], mark, is_read_only=is_read_only(request))
    if request.system.strip():
        parameters["system"] = [{"type": "text", "text": request.system, **mark}]
    if traits.has_tools and (tools := _make_tools(request)):
        parameters["tools"] = tools
    parameters |= _make_reasoning(request, source, traits, max_tokens)
    if request.native_schema is not None:
        form = {"type": "json_schema", "schema": request.native_schema}
        parameters["output_config"] = {**parameters.get("output_config", {}), "format": form}
    may_vary = traits.has_temperature and "thinking" not in parameters
    if request.temperature is not None and may_vary:
        parameters["extra_body"] = {"temperature": request.temperature}
        parameters["extra_headers"] = {"anthropic-version": API_VERSION_WITH_TEMPERATURE}
    return parameters


def _mark_previous_request(
    messages: list[dict[str, Any]], mark: dict[str, Any], *, is_read_only: bool
) -> None:
    """Mark the end of the request before, if the API would not look back as far."""
    end = find_previous_request_end(messages, is_read_only=is_read_only)
    added = sum(len(message["content"]) for message in messages[end + 1 :])
    if end >= 0 and (is_read_only or added >= LOOK_BACK):
        messages[end]["content"][-1].update(mark)


def make_source(request: LlmRequest, provider: str) -> str:
    """What blocks are marked with: `provider:model`, and what else their signatures stand on.

    Newer models bind their thinking to the system prompt and the tools, and refuse a request for
    good in which it comes back under others: a thread that goes on in another folder or approval
    mode must leave it out.
    """
    name = f"{provider}:{strip_provider(request.model, provider)}"
    schema = request.native_schema  # of which the API tells the model, before all else
    if not (request.system or request.tools or request.web_search or schema):
        return name
    more = [*(["web_search"] if request.web_search else []), *([schema] if schema else [])]
    bound = msgspec.json.encode((request.system, request.tools, *more))
    return f"{name}#{sha256(bound).hexdigest()[:12]}"


def select_counted_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the parameters that `messages.count_tokens` takes."""
    return {name: parameters[name] for name in _COUNTED if name in parameters}


def _make_tools(request: LlmRequest) -> list[dict[str, Any]]:
    """The tools, and behind them the provider's own, so that those before it stay as they are."""
    tools = [_make_tool(definition) for definition in request.tools]
    return [*tools, WEB_SEARCH] if request.web_search else tools


def _make_tool(definition: ToolDefinition) -> dict[str, Any]:
    return {
        "name": definition.name,
        "description": definition.description,
        "input_schema": definition.input_schema,
    }


def _make_reasoning(
    request: LlmRequest, source: str, traits: ModelTraits, max_tokens: int
) -> dict[str, Any]:
    """How the model is to think.

    Some models of the kinds `adaptive` and `effort` always think and refuse `thinking` of type
    `disabled`, and which do changes with every model: off is the least effort, which all take. One
    of the kind `budget` does not think unless it is told to.
    """
    level, kind = request.reasoning, traits.reasoning
    if level == "default" or kind == "none":
        return {}
    if kind == "budget":
        budget = max(BUDGET_TOKENS_MIN, int(max_tokens * BUDGET_SHARES.get(level, 0)))
        if level == "off" or budget >= max_tokens or not _may_think(request.messages, source):
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    asked: dict[str, Any] = {"output_config": {"effort": "low" if level == "off" else level}}
    if kind == "adaptive" and level != "off":
        asked["thinking"] = {"type": "adaptive"}
    return asked


def _may_think(messages: Conversation, source: str) -> bool:
    """Whether a budget of thinking is allowed: not in a turn that began without.

    With a budget, the assistant's part of the turn, rounds of tools included, must begin with
    thinking. It does not if another model began it, or if a secret in its thinking was replaced.
    (With adaptive thinking it need not.)
    """
    first: list[dict[str, Any]] = []
    for message in reversed(messages):
        if message.role == "assistant":
            first = _make_assistant_blocks(message, source) or first
        elif message.role != "tool":
            break
    return not first or first[0].get("type") in THINKING


def _make_messages(request: LlmRequest, source: str) -> Iterator[dict[str, Any]]:
    """The conversation; the results of one round of tools in one message.

    What the person says after results is a message of its own: the API joins the two, and the
    results stay the bytes that they were. An assistant message without anything that may be sent
    is left out.
    """
    results: list[dict[str, Any]] = []
    for message in request.messages:
        shown = [_make_shown_block(one, request.contents) for one in message.attachments]
        if message.role == "tool":
            results.append(_make_result(message, shown))
            continue
        if results:
            yield {"role": "user", "content": results}
            results = []
        if message.role == "assistant":
            if blocks := _make_assistant_blocks(message, source):
                yield {"role": "assistant", "content": blocks}
        else:
            text = message.content if message.content.strip() else EMPTY
            yield {"role": "user", "content": [*shown, {"type": "text", "text": text}]}
    if results:
        yield {"role": "user", "content": results}


def _make_assistant_blocks(message: Message, source: str) -> list[dict[str, Any]]:
    """The blocks of an assistant message that the API takes back.

    It takes no text of spaces only, no thinking without a signature, and none at the end, where an
    answer leaves it that was cut while the model thought. Of a search it takes the question and the
    results together only, and one of them may be left out because a secret in it was replaced; a
    question at the very end is one at which it paused.
    """
    blocks: list[dict[str, Any]] = []
    came = list_blocks(message, source)
    whole = _find_whole_searches(came)
    for block in came:
        if isinstance(block, ToolCall):
            blocks.append(_make_call(block))
        elif isinstance(block, str):
            if block.strip():
                blocks.append({"type": "text", "text": block})
        elif block.get("type") == "text":
            # What the text before it cites: see `AnthropicAssembler`.
            if blocks and blocks[-1].get("type") == "text":
                blocks[-1]["citations"] = block.get("citations", [])
        elif block.get("type") in SEARCHING:
            if _get_search_id(block) in whole or block is came[-1]:
                blocks.append(block)
        elif block.get("type") != "thinking" or block.get("signature"):
            blocks.append(block)
    while blocks and blocks[-1].get("type") in THINKING:
        blocks.pop()
    return blocks


def _find_whole_searches(blocks: Iterable[Block]) -> set[str]:
    """The ids of what the API itself ran, and has both the call and the result of."""
    ids: dict[str, set[str]] = {kind: set() for kind in SEARCHING}
    for block in blocks:
        if isinstance(block, dict) and block.get("type") in SEARCHING:
            ids[block["type"]].add(_get_search_id(block))
    return set.intersection(*ids.values())


def _get_search_id(block: Mapping[str, Any]) -> str:
    return str(block.get(SEARCHING[block["type"]]))


def _make_call(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": _make_valid_name(call.id),
        "name": _make_valid_name(call.tool_name),
        "input": arguments_object(call),
    }


def _make_shown_block(attachment: Attachment, contents: dict[str, bytes]) -> dict[str, Any]:
    data = encode_content(attachment, contents)
    source = {"type": "base64", "media_type": attachment.media_type, "data": data}
    if attachment.kind == "image":
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": get_file_name(attachment)[:255]}


def _make_result(message: Message, shown: list[dict[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": _make_valid_name(message.tool_call_id or ""),
    }
    if shown:
        text = [{"type": "text", "text": message.content}] if message.content.strip() else []
        result["content"] = [*text, *shown]
    elif message.content.strip():
        result["content"] = message.content
    if message.content.startswith(f"{FAILURE_HEAD} "):
        result["is_error"] = True
    return result


def _make_valid_name(text: str) -> str:
    """An id or a tool's name as the API takes it; those of other models may hold any character."""
    if text and len(text) <= _NAME_LENGTH_MAX and not _NOT_IN_NAMES.search(text):
        return text
    digest = sha256(text.encode(errors="replace")).hexdigest()[:16]
    return f"{_NOT_IN_NAMES.sub('_', text)[: _NAME_LENGTH_MAX - 17]}-{digest}"
