"""What a provider has searched the web for while it answered, read off its opaque blocks. Pure.

The blocks stay as they came, because the provider wants them back; people are told a line of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from treadle.core.messages import Message, OpaquePart

SOURCE_COUNT_MAX: Final = 3
"""Sources of a search that are told; of the rest the number."""

TEXT_LENGTH_MAX: Final = 120
"""Characters told of a question, and of each source."""

_MARK: Final = "web_search"


class WebSearch(Struct, frozen=True):
    """One search: what was asked, the addresses of what was found, and why nothing was, if so.

    `opened` is a page that was opened instead of a search.
    """

    query: str = ""
    sources: tuple[str, ...] = ()
    failure: str = ""
    opened: str = ""


def list_web_searches(message: Message) -> list[WebSearch]:
    """The searches of an answer, in order; a block of another form is passed over."""
    blocks = [*_list_blocks(message)]
    results = {
        block.get("tool_use_id"): block.get("content")
        for block in blocks
        if block.get("type") == "web_search_tool_result"
    }
    found: list[WebSearch] = []
    for block in blocks:
        kind, given = block.get("type"), block.get("input")
        if kind == "server_tool_use" and isinstance(given, dict):
            found.append(_read_result(_text(given.get("query")), results.get(block.get("id"))))
        elif kind == "web_search_call" and isinstance(action := block.get("action"), dict):
            found.append(_read_action(action))
    return found


def describe_web_search(search: WebSearch) -> str:
    """A search in one line for people; its texts are the provider's own, and may hold anything."""
    if search.opened:
        return f"the provider opened {search.opened[:TEXT_LENGTH_MAX]}"
    words = f'the provider searched the web for "{search.query[:TEXT_LENGTH_MAX]}"'
    if search.failure:
        return f"{words}: {search.failure[:TEXT_LENGTH_MAX]}"
    told = [one[:TEXT_LENGTH_MAX] for one in search.sources[:SOURCE_COUNT_MAX]]
    if more := len(search.sources) - len(told):
        told.append(f"and {more} more")
    return f"{words}: {' '.join(told)}" if told else words


def _list_blocks(message: Message) -> Iterator[dict[str, Any]]:
    for part in message.native.parts if message.native is not None else ():
        if isinstance(part, OpaquePart) and _MARK in part.block_json:
            block = msgspec.json.decode(part.block_json)
            if isinstance(block, dict):
                yield block


def _read_result(query: str, content: Any) -> WebSearch:
    if isinstance(content, dict):
        return WebSearch(query, failure=_text(content.get("error_code")) or "it failed")
    return WebSearch(query, _list_addresses(content))


def _read_action(action: dict[str, Any]) -> WebSearch:
    if action.get("type") != "search":
        return WebSearch(opened=_text(action.get("url")) or "a page")
    queries = action.get("queries")
    asked = [_text(one) for one in queries] if isinstance(queries, list) else []
    query = _text(action.get("query")) or "; ".join(asked)
    return WebSearch(query, _list_addresses(action.get("sources")))


def _list_addresses(sources: Any) -> tuple[str, ...]:
    given = sources if isinstance(sources, list) else []
    found = (_text(one.get("url")) for one in given if isinstance(one, dict))
    return tuple(dict.fromkeys(filter(None, found)))


def _text(value: Any) -> str:
    """A text in one line; empty if it is none."""
    return " ".join(value.split()) if isinstance(value, str) else ""
