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
from treadle.exchange.blocks import shown, texts
from treadle.exchange.branches import with_returns
from treadle.exchange.lines import (
    Fields,
    Line,
    count_of,
    dump,
    fields_of,
    problems_of,
    word,
)
from treadle.exchange.session_builder import Telling
from treadle.exchange.steps import (
    Answered,
    Call,
    Failed,
    Result,
    Said,
    Session,
    Stopped,
    Summed,
    Titled,
)
from treadle.exchange.times import utc

SOURCE: Final = "pi"
PROVIDER: Final = "pi"

_ROLES: Final = ("user", "assistant", "toolResult", "bashExecution")


def is_one(fields: Fields) -> bool:
    """Whether a record is one of this program's."""
    if fields.get("type") == "session":
        return {"id", "cwd", "timestamp"} <= fields.keys()
    message = fields_of(fields.get("message"))
    return fields.get("type") == "message" and message.get("role") in _ROLES


def convert(lines: Iterable[Line], stem: str, faults: Counter[str]) -> list[Session]:
    """The session of a file.

    Args:
        lines: the file.
        stem: the file's name without its end.
        faults: what was wrong with the lines; more is counted here.
    """
    telling, name, provider = Telling(), "", ""
    owners: list[str] = []
    parents: dict[str, str] = {}
    last = ""
    for line in lines:
        fields = line.fields
        if fields is None:
            telling.keep("", line.text)
        else:
            at, own = utc(fields.get("timestamp")), word(fields.get("id"))
            telling.begin_record(at)
            if fields.get("type") == "session":
                name, telling.folder = own, word(fields.get("cwd")) or None
                telling.version = str(fields.get("version", ""))
            else:
                if own:
                    parents[own], last = word(fields.get("parentId")), own
                _take(telling, at, fields)
                provider = provider or word(fields_of(fields.get("message")).get("provider"))
        owners += [last] * (len(telling.steps) - len(owners))
    telling.finish()
    telling.steps = with_returns(telling.steps, owners, parents, last)
    return [telling.session(SOURCE, name or stem, provider or PROVIDER, problems_of(faults))]


def _take(telling: Telling, at: str, fields: Fields) -> None:
    kind, message = word(fields.get("type")), fields_of(fields.get("message"))
    role = word(message.get("role")) if kind == "message" else ""
    if role == "user":
        telling.add(Said(at, shown(message.get("content"))))
    elif role == "assistant":
        _take_answer(telling, at, message)
    elif role == "toolResult":
        text, is_error = shown(message.get("content")), message.get("isError") is True
        telling.add(Result(at, word(message.get("toolCallId")), text, is_error))
    elif kind == "compaction" and word(fields.get("summary")):
        telling.add(Summed(at, word(fields.get("summary"))))
    elif kind == "session_info" and word(fields.get("name")):
        telling.add(Titled(at, word(fields.get("name")), by_person=True))
    else:
        telling.keep(at, dump(fields))


def _take_answer(telling: Telling, at: str, message: Fields) -> None:
    blocks = texts(message.get("content"))
    kinds: dict[str, list[Any]] = {"thinking": [], "toolCall": [], "text": []}
    for block in blocks:
        kinds.setdefault(word(fields_of(block).get("type")), []).append(block)
    for thought in kinds["thinking"]:
        telling.keep(at, dump(thought))
    calls = tuple(
        Call(word(one.get("id")), word(one.get("name")), dump(one.get("arguments", {})))
        for one in map(fields_of, kinds["toolCall"])
    )
    usage, reason = _usage(fields_of(message.get("usage"))), message.get("stopReason")
    text = shown(kinds["text"])
    if text or calls or reason not in ("error", "aborted"):
        telling.answer("", Answered(at, text, calls, word(message.get("model")), usage))
    if reason == "error":
        telling.add(Failed(at, word(message.get("errorMessage")) or "the request failed"))
    elif reason == "aborted":
        telling.add(Stopped(at))


def _usage(fields: Fields) -> Usage | None:
    if not fields:
        return None
    names = ("input", "output", "cacheRead", "cacheWrite")
    read, out, cached, kept = (count_of(fields.get(name)) for name in names)
    read += cached + kept
    return Usage(
        read,
        out,
        cache_read_tokens=cached,
        cache_write_tokens=kept,
        unpriced_tokens=read + out,
    )
