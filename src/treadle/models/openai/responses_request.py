"""A request in the format of OpenAI's Responses API, stateless: everything is sent, nothing stored.

Pure, and item by item: a message makes the same items whatever comes before or after it, so that a
thread's next request begins with the bytes of the one before, and the provider's cache holds.

Assistant messages go back as they came. Where text stands in a message item that says more than
its text (`phase`, a refusal, citations), the stream keeps the item without the text as a block
behind it, its *shape*; here the two are put together again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from treadle.core.llm import LlmRequest, ModelTraits, Reasoning
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import ToolDefinition
from treadle.models.attachment_content import get_file_name, make_data_url, select_attachments
from treadle.models.layout import Block, arguments_text, list_blocks
from treadle.models.native_output import NAME
from treadle.models.openai.effort import choose_effort
from treadle.models.token_counts import get_output_limit

Item: TypeAlias = dict[str, Any]

TEXT_FIELD: Final[Mapping[str, str]] = {"output_text": "text", "refusal": "refusal"}
"""Where the parts of a message item keep their text, by type of part."""

CALL_ID_LENGTH_MAX: Final = 64
NAME_LENGTH_MAX: Final = 64
"""The API refuses longer ids and names, and with them every later request of the thread."""

WEB_SEARCH: Final[Item] = {"type": "web_search"}
"""The search of the API itself."""

_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
"""The API wants names of this alphabet back, also where a model called `functions.read_file`."""

_NOT_SENT_BACK: Final = frozenset({"id", "status"})
"""What the API gives a reasoning item and does not take again.

`status` is an unknown parameter to it; an `id` makes it look for an item that was not stored, and
for the neighbours that it had. Its own client, Codex, leaves out both (`codex-rs/protocol`).
"""

_ITEM_FIELDS: Final = _NOT_SENT_BACK | {"type", "role", "content"}


def make_response_parameters(
    request: LlmRequest, model: str, source: str, traits: ModelTraits
) -> Item:
    """The body of `POST /responses`, without `stream`.

    Args:
        request: what is asked.
        model: the name that the endpoint knows.
        source: `provider:model`; blocks that only this model understands go back to it alone.
        traits: of the model.
    """
    request = select_attachments(request, traits)
    items = make_input_items(request.messages, source, request.contents)
    body: Item = {"model": model}
    if request.system:
        body["instructions"] = request.system
    if traits.has_tools and (request.tools or request.web_search):
        body["tools"] = [_make_tool(tool) for tool in request.tools]
        # Behind the others, so that those stay as they are.
        body["tools"] += [WEB_SEARCH] if request.web_search else []
    body["input"] = items
    body["prompt_cache_key"] = _make_cache_key(body, items)
    if (limit := get_output_limit(request, traits)) is not None:
        body["max_output_tokens"] = limit
    if request.temperature is not None and traits.has_temperature:
        body["temperature"] = request.temperature
    if traits.reasoning != "none":
        body["reasoning"] = _make_reasoning(request.reasoning, model)
        # A model that does not reason refuses the whole request for this.
        body["include"] = ["reasoning.encrypted_content"]
    if WEB_SEARCH in body.get("tools", ()):
        body["include"] = [*body.get("include", ()), "web_search_call.action.sources"]
    if request.native_schema is not None:
        form = {"name": NAME, "schema": request.native_schema, "strict": True}
        body["text"] = {"format": {"type": "json_schema", **form}}
    body["store"] = False
    body["truncation"] = "disabled"
    return body


def make_input_items(
    messages: Iterable[Message], source: str, contents: Mapping[str, bytes] = MappingProxyType({})
) -> list[Item]:
    """The messages as input items, in order; `contents` has the bytes of all that they show."""
    return [item for message in messages for item in _make_items(message, source, contents)]


def strip_text(item: Item) -> Item | None:
    """A message item without its text; `None` if it says nothing more than one text.

    A part that had text lacks the field now; parts of types without text stay as they are. Empty
    texts and log probabilities are not kept.
    """
    shape = {key: value for key, value in item.items() if key not in _ITEM_FIELDS and value}
    parts = [
        _strip_part_text(part) for part in item.get("content") or () if not _has_empty_text(part)
    ]
    is_plain = not shape and len(parts) == 1 and parts[0] == {"type": "output_text"}
    if is_plain or not parts:
        return None
    return {"type": "message", **shape, "content": parts}


def _find_text_field(part: Any) -> str | None:
    """Where this part of a message keeps its text, if it is of a type that has text."""
    kind = part.get("type") if isinstance(part, dict) else None
    return TEXT_FIELD.get(kind) if isinstance(kind, str) else None


def _has_empty_text(part: Any) -> bool:
    field = _find_text_field(part)
    return field is not None and not part.get(field)


def _strip_part_text(part: Any) -> Any:
    field = _find_text_field(part)
    if field is None:
        return part
    dropped = {field, "logprobs"} if part.get("annotations") else {field, "logprobs", "annotations"}
    return {key: value for key, value in part.items() if key not in dropped}


def _make_items(message: Message, source: str, contents: Mapping[str, bytes]) -> Iterable[Item]:
    if message.role == "assistant":
        return _make_assistant_items(list_blocks(message, source))
    if message.role == "tool":
        call_id = _make_call_id(message.tool_call_id or "")
        output = _make_parts(message, contents) if message.attachments else message.content
        return ({"type": "function_call_output", "call_id": call_id, "output": output},)
    content = _make_parts(message, contents)
    return ({"type": "message", "role": message.role, "content": content},)


def _make_parts(message: Message, contents: Mapping[str, bytes]) -> list[Item]:
    """The text, and what is shown besides."""
    parts: list[Item] = [{"type": "input_text", "text": message.content}]
    for one in message.attachments:
        url = make_data_url(one, contents)
        if one.kind == "image":
            parts.append({"type": "input_image", "image_url": url, "detail": "auto"})
        else:
            name = get_file_name(one)
            parts.append({"type": "input_file", "filename": name, "file_data": url})
    return parts


def _make_assistant_items(blocks: Iterable[Block]) -> list[Item]:
    items: list[Item] = []
    texts: list[str] = []
    for block in blocks:
        if isinstance(block, str):
            texts.append(block)
            continue
        is_shape = isinstance(block, dict) and block.get("type") == "message"
        shape = block if isinstance(block, dict) and is_shape else None
        items += _make_message_items(texts, shape)
        texts = []
        if isinstance(block, ToolCall):
            items.append(_make_call(block))
        elif shape is None:
            items += _make_opaque_items(block)
    items += _make_message_items(texts, None)
    # The API refuses reasoning that leads to nothing: that of an answer which was cut, say.
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def _make_message_items(texts: list[str], shape: Item | None) -> Iterator[Item]:
    """Message items of these texts; the last ones fill the shape, if there are enough of them."""
    parts = shape.get("content", []) if shape else []
    wanting = sum(map(_lacks_text, parts))
    if wanting > len(texts):
        shape, wanting = None, 0
    for text in texts[: len(texts) - wanting]:
        part = {"type": "output_text", "text": text, "annotations": []}
        yield {"type": "message", "role": "assistant", "content": [part]}
    if shape:
        rest = iter(texts[len(texts) - wanting :])
        filled = [_fill_text(part, next(rest)) if _lacks_text(part) else part for part in parts]
        yield {**shape, "role": "assistant", "content": filled}


def _lacks_text(part: Any) -> bool:
    field = _find_text_field(part)
    return field is not None and field not in part


def _fill_text(part: Item, text: str) -> Item:
    field = TEXT_FIELD[part["type"]]
    return {"annotations": [], **part, field: text} if field == "text" else {**part, field: text}


def _make_call(call: ToolCall) -> Item:
    name = _NOT_IN_NAMES.sub("_", call.tool_name)[:NAME_LENGTH_MAX] or "unnamed"
    return {
        "type": "function_call",
        "call_id": _make_call_id(call.id),
        "name": name,
        "arguments": arguments_text(call),
    }


def _make_call_id(call_id: str) -> str:
    """The id, or what stands for one that is too long: another provider gave it."""
    if len(call_id) <= CALL_ID_LENGTH_MAX:
        return call_id
    return "call_" + sha256(call_id.encode()).hexdigest()[:32]


def _make_opaque_items(block: Item) -> Iterator[Item]:
    """An item that only its model understands: as it came, except what the API refuses.

    Reasoning without its content, plain or encrypted, is the name of something that was not
    stored: the API would look for it and find nothing. Fields that are `null` are not told.
    """
    if block.get("type") != "reasoning":
        yield block
    elif block.get("encrypted_content") or block.get("content"):
        told = {
            key: value
            for key, value in block.items()
            if key not in _NOT_SENT_BACK and value is not None
        }
        told.setdefault("summary", [])
        yield told


def _make_tool(tool: ToolDefinition) -> Item:
    """A tool; not `strict`, which is this API's default and has no optional parameters."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        "strict": False,
    }


def _make_reasoning(reasoning: Reasoning, model: str) -> Item:
    effort = choose_effort(reasoning, model)
    if reasoning == "off":
        return {"effort": effort}
    return {**({"effort": effort} if effort else {}), "summary": "auto"}


def _make_cache_key(body: Item, items: list[Item]) -> str:
    """The same for all requests of a thread: a function of what they all begin with."""
    beginning = [body.get("instructions"), body.get("tools"), items[:1]]
    return "treadle-" + sha256(msgspec.json.encode(beginning)).hexdigest()[:32]
