"""A request in the words of Chat Completions. Pure.

The same messages become the same JSON whatever follows them: prompt caches compare bytes. What
endpoints refuse is not sent, also if another model wrote it: one bad message in a conversation that
only grows would be refused for ever.

Reasoning goes back to the model that wrote it under the field in which it came, all of it and
always: DeepSeek answers 400 without it once tools were called (its guide "Thinking Mode"),
OpenRouter wants `reasoning_details` unmodified ("Preserving reasoning"), the templates of vLLM,
llama.cpp and Ollama read it, and a message that changed later would cost the cached prefix. Groq
and Cerebras take it under their own field only, and answer 400 to any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.core.llm import LlmRequest, ModelTraits
from treadle.core.messages import Attachment, Message, ToolCall
from treadle.models.attachment_content import get_file_name, make_data_url, select_attachments
from treadle.models.layout import arguments_text, list_blocks, strip_provider
from treadle.models.native_output import NAME
from treadle.models.openai.effort import choose_effort
from treadle.models.prompt_cache import (
    CacheLifetime,
    find_previous_request_end,
    is_read_only,
    make_cache_mark,
)
from treadle.models.token_counts import get_output_limit

EMPTY: Final = "(empty)"
"""Stands for an assistant message without calls and without text but spaces, which Mistral and
Anthropic's models refuse; leaving it out would put two messages of the person together, which
templates refuse."""

REASONING_TEXTS: Final = ("reasoning_content", "reasoning")
"""Where endpoints put reasoning: DeepSeek, xAI, llama.cpp, older vLLM; OpenRouter, Groq, Ollama,
Together, newer vLLM. An endpoint in transition sends both, with the same text."""

REASONING_DETAILS: Final = "reasoning_details"
"""OpenRouter's form of it, with signatures."""

CONTENT_PART: Final = "content_part"
EXTRA_CONTENT: Final = "extra_content"
CALL: Final = "call"
"""Keys of our opaque blocks: a part of a `content` that is a list (Mistral's thinking); what hangs
on the call of this number (the signatures of Gemini, which refuses its calls without them)."""

_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LENGTH_MAX: Final = 64
"""OpenAI's rule for names of functions, in calls of the past too; a model can make up any name."""


class Dialect(Struct, frozen=True):
    """Where an endpoint differs from the common form in a way that fails."""

    limit_name: str = "max_tokens"
    """OpenAI's reasoning models refuse `max_tokens`; Mistral and old servers know nothing else."""
    has_stream_options: bool = True
    """Mistral answers 422 to them, and tells the usage unasked."""
    has_cache_key: bool = False
    call_id_length: tuple[int, int] = (1, 1000)
    """OpenAI takes ids up to 40 characters; Mistral nine letters and digits exactly."""
    needs_reasoning: bool = False
    """DeepSeek: a call without `reasoning_content` is refused while it thinks; empty will do."""
    takes_pdf: bool = False
    """Endpoints that copy the format know pictures, and refuse a part of the type `file`."""
    is_gateway: bool = False
    """OpenRouter, Vercel: speaks to the makers' own endpoints, so it takes an effort for every
    model that reasons, and hands the marks of Anthropic's cache on."""
    takes_schema_beside_tools: bool = False
    """Servers of open models hold every word to the schema, and no call fits that."""


_AZURE: Final = Dialect(
    "max_completion_tokens",
    call_id_length=(1, 40),
    takes_pdf=True,
    takes_schema_beside_tools=True,
)
OPENAI: Final = replace(_AZURE, has_cache_key=True)
MISTRAL: Final = Dialect(has_stream_options=False, call_id_length=(9, 9))
DEEPSEEK: Final = Dialect(needs_reasoning=True)
OPENROUTER: Final = Dialect(is_gateway=True, takes_pdf=True, takes_schema_beside_tools=True)

_DIALECTS: Final = (
    ("api.openai.com", OPENAI),
    ("openai.azure.com", _AZURE),
    ("api.mistral.ai", MISTRAL),
    ("api.deepseek.com", DEEPSEEK),
    ("openrouter.ai", OPENROUTER),
    ("ai-gateway.vercel.sh", OPENROUTER),
)


def find_dialect(base_url: str) -> Dialect:
    """The dialect of an endpoint, by its host."""
    host = urlsplit(base_url).hostname or ""
    return next((known for name, known in _DIALECTS if f".{host}".endswith(f".{name}")), Dialect())


def make_parameters(
    request: LlmRequest,
    name: str,
    traits: ModelTraits,
    dialect: Dialect,
    lifetime: CacheLifetime = "5m",
) -> dict[str, Any]:
    """The body of the request.

    Args:
        request: what is asked.
        name: the provider's name; opaque blocks of `name:model` are sent back.
        traits: of the model.
        dialect: of the endpoint.
        lifetime: of what Anthropic's models cache behind a gateway.
    """
    model = strip_provider(request.model, name)
    reads_pdf = traits.reads_pdf if dialect.takes_pdf else False
    request = select_attachments(request, replace(traits, reads_pdf=reads_pdf))
    messages = [*_make_messages(request, f"{name}:{model}", dialect)]
    if dialect.is_gateway and "claude" in model and (mark := make_cache_mark(request, lifetime)):
        _mark_cache_points(messages, mark, is_read_only=is_read_only(request))
    body: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "stream": True,
    }
    if (limit := get_output_limit(request, traits)) is not None:
        body[dialect.limit_name] = limit
    if dialect.has_stream_options:
        body["stream_options"] = {"include_usage": True}
    if request.tools and traits.has_tools:
        body["tools"] = _make_tools(request)
    if request.temperature is not None and traits.has_temperature:
        body["temperature"] = request.temperature
    has_effort = traits.reasoning == "effort" or (dialect.is_gateway and traits.reasoning != "none")
    if has_effort and (effort := choose_effort(request.reasoning, model)):
        body["reasoning_effort"] = effort
    if request.native_schema is not None:
        form = {"name": NAME, "schema": request.native_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    if dialect.has_cache_key:
        body["prompt_cache_key"] = _make_cache_key(request)
    return body


def _mark_cache_points(
    messages: list[dict[str, Any]], mark: dict[str, Any], *, is_read_only: bool
) -> None:
    """Mark the system prompt, the end of the request before, and that of this one if it is read.

    All by parts, of which Anthropic makes the same blocks as of plain text; its one mark for a
    whole request is known only where OpenRouter does not go through Bedrock or Vertex.
    """
    end = -1 if is_read_only else len(messages) - 1
    for place in {0, find_previous_request_end(messages, is_read_only=is_read_only), end} - {-1}:
        message = messages[place]
        content = message["content"]
        if message["role"] == "assistant" or not content:
            continue
        if isinstance(content, list):
            content[-1].update(mark)
        elif content.strip():
            message["content"] = [{"type": "text", "text": content, **mark}]


def _make_tools(request: LlmRequest) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
            },
        }
        for tool in request.tools
    ]


def _make_cache_key(request: LlmRequest) -> str:
    """The same for all requests of a thread, as OpenAI's guide "Prompt caching" asks for."""
    prefix = (request.system, _make_tools(request), request.messages[:1])
    return sha256(msgspec.json.encode(prefix)).hexdigest()[:32]


def _make_messages(request: LlmRequest, source: str, dialect: Dialect) -> Iterator[dict[str, Any]]:
    offered = frozenset(tool.name for tool in request.tools)
    if request.system:
        yield {"role": "system", "content": request.system}
    shown: list[dict[str, Any]] = []
    for message in request.messages:
        if shown and message.role != "tool":
            yield {"role": "user", "content": shown}
            shown = []
        if message.role == "assistant":
            yield _make_assistant_message(message, source, dialect, offered)
        elif message.role == "tool":
            call_id = _make_call_id(message.tool_call_id or "", dialect)
            yield {"role": "tool", "tool_call_id": call_id, "content": message.content}
            # A result holds text alone: what it shows comes behind all results of its round.
            for one in message.attachments:
                label = f"[{one.name}, shown by the call {call_id} of {message.name}]"
                shown += ({"type": "text", "text": label}, _make_shown_part(one, request.contents))
        elif message.attachments:
            parts = (_make_shown_part(one, request.contents) for one in message.attachments)
            content = [{"type": "text", "text": message.content}, *parts]
            yield {"role": message.role, "content": content}
        else:
            yield {"role": message.role, "content": message.content}
    if shown:
        yield {"role": "user", "content": shown}


def _make_shown_part(attachment: Attachment, contents: dict[str, bytes]) -> dict[str, Any]:
    url = make_data_url(attachment, contents)
    if attachment.kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": get_file_name(attachment), "file_data": url}}


def _make_assistant_message(
    message: Message, source: str, dialect: Dialect, offered: frozenset[str]
) -> dict[str, Any]:
    texts: list[str] = []
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    fields: dict[str, Any] = {}
    extras: dict[int, Any] = {}
    for block in list_blocks(message, source):
        if isinstance(block, str):
            texts.append(block)
            parts.append({"type": "text", "text": block})
        elif isinstance(block, ToolCall):
            calls.append(_make_call(block, dialect, offered))
        elif CONTENT_PART in block:
            parts.append(block[CONTENT_PART])
        elif CALL in block:
            extras[block[CALL]] = block[EXTRA_CONTENT]
        else:
            fields.update(block)
    for index, call in enumerate(calls):
        if index in extras:
            call[EXTRA_CONTENT] = extras[index]
    if dialect.needs_reasoning:
        fields.setdefault(REASONING_TEXTS[0], "")
    sent: dict[str, Any] = {"role": "assistant", "content": _make_content(texts, parts)}
    if sent["content"] is None and not calls:
        sent["content"] = EMPTY
    # `content` is null beside calls, as OpenAI itself answers: absent and empty are refused by some
    sent |= fields
    if calls:
        sent["tool_calls"] = calls
    return sent


def _make_content(texts: list[str], parts: list[dict[str, Any]]) -> Any:
    """Text, or the parts that are more than text; `None` if there is nothing but spaces."""
    if len(parts) > len(texts):
        return [part for part in parts if part.get("type") != "text" or part["text"].strip()]
    text = "".join(texts)
    return text if text.strip() else None


def _make_call(call: ToolCall, dialect: Dialect, offered: frozenset[str]) -> dict[str, Any]:
    name = call.tool_name
    if name not in offered:
        name = _NOT_IN_NAMES.sub("_", name)[:_NAME_LENGTH_MAX] or "unknown"
    return {
        "id": _make_call_id(call.id, dialect),
        "type": "function",
        "function": {"name": name, "arguments": arguments_text(call)},
    }


def _make_call_id(call_id: str, dialect: Dialect) -> str:
    """An id that the endpoint takes: as it is, or the same other one each time."""
    shortest, longest = dialect.call_id_length
    if shortest <= len(call_id) <= longest and (shortest < longest or _is_alphanumeric(call_id)):
        return call_id
    return sha256(call_id.encode()).hexdigest()[: min(longest, 32)]


def _is_alphanumeric(call_id: str) -> bool:
    return call_id.isascii() and call_id.isalnum()
