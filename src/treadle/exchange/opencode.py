"""Sessions of OpenCode, as `opencode export` writes them: one object, `info` and `messages`.

Each message has an `info` (role, time, model, tokens) and `parts`: text, reasoning, and calls with
their state (`input`, `output` or `error`). Steps, snapshots and patches are kept as they are.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from treadle.core.llm import Usage
from treadle.exchange.lines import (
    Fields,
    count_of,
    dump,
    fields_of,
    items_of,
    problems_of,
    text_of,
    word,
)
from treadle.exchange.session_builder import Telling
from treadle.exchange.steps import (
    Answered,
    Call,
    Failed,
    Parent,
    Result,
    Said,
    Session,
    Stopped,
    Titled,
)
from treadle.exchange.times import utc

SOURCE: Final = "opencode"
PROVIDER: Final = "opencode"


def is_one(value: Any) -> bool:
    """Whether a file's value is an exported session."""
    fields = fields_of(value)
    info, messages = fields_of(fields.get("info")), fields.get("messages")
    is_session = {"id", "time"} <= info.keys() and isinstance(messages, list)
    first = items_of(messages)[:3]
    return is_session and all({"info", "parts"} <= fields_of(one).keys() for one in first)


def convert_whole(value: Any, stem: str, faults: Counter[str]) -> list[Session]:
    """The session of a file.

    Args:
        value: what it holds.
        stem: the file's name without its end.
        faults: what is wrong is counted here.
    """
    fields, telling, provider = fields_of(value), Telling(), ""
    about = fields_of(fields.get("info"))
    telling.started_at = utc(fields_of(about.get("time")).get("created"))
    telling.version = word(about.get("version"))
    telling.folder = word(about.get("directory")) or None
    for message in map(fields_of, items_of(fields.get("messages"))):
        info = fields_of(message.get("info"))
        at = utc(fields_of(info.get("time")).get("created"))
        telling.begin_record(at)
        provider = provider or word(info.get("providerID"))
        if info.get("role") == "user":
            _take_prompt(telling, at, items_of(message.get("parts")))
        elif info.get("role") == "assistant":
            _take_answer(telling, at, info, items_of(message.get("parts")))
        else:
            telling.keep(at, dump(message))
    if title := word(about.get("title")):
        telling.add(Titled("", title))
    telling.finish()
    name, above = word(about.get("id")) or stem, word(about.get("parentID"))
    parent = Parent(above, "") if above else None
    return [telling.session(SOURCE, name, provider or PROVIDER, problems_of(faults), parent)]


def _take_prompt(telling: Telling, at: str, parts: list[Any]) -> None:
    said: list[str] = []
    for part in map(fields_of, parts):
        # What the program adds to a prompt by itself (files it names) no person wrote.
        if part.get("type") == "text" and not part.get("synthetic"):
            said.append(word(part.get("text")))
        else:
            telling.keep(at, dump(part))
    if text := "\n".join(filter(None, said)):
        telling.add(Said(at, text))


def _take_answer(telling: Telling, at: str, info: Fields, parts: list[Any]) -> None:
    said: list[str] = []
    calls: list[Call] = []
    results: list[Result] = []
    for part in map(fields_of, parts):
        state = fields_of(part.get("state"))
        if part.get("type") == "text":
            said.append(word(part.get("text")))
        elif part.get("type") == "tool":
            call_id = word(part.get("callID")) or word(part.get("id"))
            calls.append(Call(call_id, word(part.get("tool")), dump(state.get("input", {}))))
            if state.get("status") in ("completed", "error"):
                is_error = state.get("status") == "error"
                text = text_of(state.get("error" if is_error else "output"))
                end = utc(fields_of(state.get("time")).get("end")) or at
                results.append(Result(end, call_id, text, is_error))
        else:
            telling.keep(at, dump(part))
    text, error = "\n\n".join(filter(None, said)), fields_of(info.get("error"))
    if text or calls or not error:
        usage = _usage(fields_of(info.get("tokens")))
        telling.answer("", Answered(at, text, tuple(calls), word(info.get("modelID")), usage))
    telling.steps += results
    if error.get("name") == "MessageAbortedError":
        telling.add(Stopped(at))
    elif error:
        reason = word(fields_of(error.get("data")).get("message")) or word(error.get("name"))
        telling.add(Failed(at, reason or "the request failed"))


def _usage(fields: Fields) -> Usage | None:
    if not fields:
        return None
    cache = fields_of(fields.get("cache"))
    names = ("input", "output", "reasoning")
    read, out, thoughts = (count_of(fields.get(name)) for name in names)
    cached, kept = count_of(cache.get("read")), count_of(cache.get("write"))
    read, out = read + cached + kept, out + thoughts
    return Usage(
        read,
        out,
        cache_read_tokens=cached,
        cache_write_tokens=kept,
        reasoning_tokens=thoughts,
        unpriced_tokens=read + out,
    )
