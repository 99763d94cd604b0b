"""Sessions of Pi: `~/.pi/agent/sessions/--<folder>--/<time>_<id>.jsonl`, an entry a line.

The first says `"type":"session"`; messages have `"type":"message"` and, from version 2 of the
format on, an `id` and the `parentId` of the entry before: so a session is a tree, and what stands
on another branch than the last entry was taken back. Before that it is a list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from treadle.core.llm import Usage
from treadle.exchange.content_blocks import format_content, list_blocks, list_pictures
from treadle.exchange.json_lines import (
    Fields,
    JsonLine,
    as_count,
    as_object,
    as_string,
    dump_json,
    format_problems,
)
from treadle.exchange.session_branches import add_rewinds
from treadle.exchange.session_builder import SessionBuilder
from treadle.exchange.session_steps import (
    ImportedSession,
    SessionAnswer,
    SessionCall,
    SessionCallResult,
    SessionFailure,
    SessionPrompt,
    SessionStop,
    SessionSummary,
    SessionTitle,
)
from treadle.exchange.times import parse_timestamp

SOURCE: Final = "pi"
PROVIDER: Final = "pi"

_ROLES: Final = ("user", "assistant", "toolResult", "bashExecution")


def is_session_data(fields: Fields) -> bool:
    """Whether a record is one of this program's."""
    if fields.get("type") == "session":
        return {"id", "cwd", "timestamp"} <= fields.keys()
    message = as_object(fields.get("message"))
    return fields.get("type") == "message" and message.get("role") in _ROLES


def convert_lines(
    lines: Iterable[JsonLine], stem: str, faults: Counter[str]
) -> list[ImportedSession]:
    """The session of a file.

    Args:
        lines: the file.
        stem: the file's name without its end.
        faults: what was wrong with the lines; more is counted here.
    """
    telling, name, provider = SessionBuilder(), "", ""
    owners: list[str] = []
    parents: dict[str, str] = {}
    last = ""
    for line in lines:
        fields = line.fields
        if fields is None:
            telling.add_foreign("", line.text)
        else:
            at, own = parse_timestamp(fields.get("timestamp")), as_string(fields.get("id"))
            telling.begin_record(at)
            if fields.get("type") == "session":
                name, telling.folder = own, as_string(fields.get("cwd")) or None
                telling.version = str(fields.get("version", ""))
            else:
                if own:
                    parents[own], last = as_string(fields.get("parentId")), own
                _add_entry(telling, at, fields)
                provider = provider or as_string(as_object(fields.get("message")).get("provider"))
        owners += [last] * (len(telling.steps) - len(owners))
    telling.join_answers()
    telling.steps = add_rewinds(telling.steps, owners, parents, last)
    return [telling.build(SOURCE, name or stem, provider or PROVIDER, format_problems(faults))]


def _add_entry(telling: SessionBuilder, at: str, fields: Fields) -> None:
    kind, message = as_string(fields.get("type")), as_object(fields.get("message"))
    role = as_string(message.get("role")) if kind == "message" else ""
    if role == "user":
        content = message.get("content")
        telling.add_step(SessionPrompt(at, format_content(content), list_pictures(content)))
    elif role == "assistant":
        _add_answer(telling, at, message)
    elif role == "toolResult":
        content, call_id = message.get("content"), as_string(message.get("toolCallId"))
        text, is_error = format_content(content), message.get("isError") is True
        telling.add_step(SessionCallResult(at, call_id, text, is_error, list_pictures(content)))
    elif kind == "compaction" and as_string(fields.get("summary")):
        telling.add_step(SessionSummary(at, as_string(fields.get("summary"))))
    elif kind == "session_info" and as_string(fields.get("name")):
        telling.add_step(SessionTitle(at, as_string(fields.get("name")), by_person=True))
    else:
        telling.add_foreign(at, dump_json(fields))


def _add_answer(telling: SessionBuilder, at: str, message: Fields) -> None:
    blocks = list_blocks(message.get("content"))
    kinds: dict[str, list[Any]] = {"thinking": [], "toolCall": [], "text": []}
    for block in blocks:
        kinds.setdefault(as_string(as_object(block).get("type")), []).append(block)
    for thought in kinds["thinking"]:
        telling.add_foreign(at, dump_json(thought))
    calls = tuple(
        SessionCall(
            as_string(one.get("id")),
            as_string(one.get("name")),
            dump_json(one.get("arguments", {})),
        )
        for one in map(as_object, kinds["toolCall"])
    )
    usage, reason = _parse_usage(as_object(message.get("usage"))), message.get("stopReason")
    text = format_content(kinds["text"])
    if text or calls or reason not in ("error", "aborted"):
        telling.add_answer(
            "", SessionAnswer(at, text, calls, as_string(message.get("model")), usage)
        )
    if reason == "error":
        telling.add_step(
            SessionFailure(at, as_string(message.get("errorMessage")) or "the request failed")
        )
    elif reason == "aborted":
        telling.add_step(SessionStop(at))


def _parse_usage(fields: Fields) -> Usage | None:
    if not fields:
        return None
    names = ("input", "output", "cacheRead", "cacheWrite")
    read, out, cached, kept = (as_count(fields.get(name)) for name in names)
    read += cached + kept
    return Usage(
        read,
        out,
        cache_read_tokens=cached,
        cache_write_tokens=kept,
        unpriced_tokens=read + out,
    )
