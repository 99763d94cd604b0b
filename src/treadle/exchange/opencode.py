"""Sessions of OpenCode, as `opencode export` writes them: one object, `info` and `messages`.

Each message has an `info` (role, time, model, tokens) and `parts`: text, reasoning, and calls with
their state (`input`, `output` or `error`). Steps, snapshots and patches are kept as they are.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from treadle.core.llm import Usage
from treadle.exchange.content_blocks import format_content, list_pictures
from treadle.exchange.json_lines import (
    Fields,
    as_count,
    as_list,
    as_object,
    as_string,
    dump_json,
    format_problems,
    to_text,
)
from treadle.exchange.session_builder import SessionBuilder
from treadle.exchange.session_steps import (
    ImportedSession,
    SessionAnswer,
    SessionCall,
    SessionCallResult,
    SessionFailure,
    SessionParent,
    SessionPrompt,
    SessionStop,
    SessionTitle,
)
from treadle.exchange.times import parse_timestamp

SOURCE: Final = "opencode"
PROVIDER: Final = "opencode"


def is_session_data(value: Any) -> bool:
    """Whether a file's value is an exported session."""
    fields = as_object(value)
    info, messages = as_object(fields.get("info")), fields.get("messages")
    is_session = {"id", "time"} <= info.keys() and isinstance(messages, list)
    first = as_list(messages)[:3]
    return is_session and all({"info", "parts"} <= as_object(one).keys() for one in first)


def convert_value(value: Any, stem: str, faults: Counter[str]) -> list[ImportedSession]:
    """The session of a file.

    Args:
        value: what it holds.
        stem: the file's name without its end.
        faults: what is wrong is counted here.
    """
    fields, telling, provider = as_object(value), SessionBuilder(), ""
    about = as_object(fields.get("info"))
    telling.started_at = parse_timestamp(as_object(about.get("time")).get("created"))
    telling.version = as_string(about.get("version"))
    telling.folder = as_string(about.get("directory")) or None
    for message in map(as_object, as_list(fields.get("messages"))):
        info = as_object(message.get("info"))
        at = parse_timestamp(as_object(info.get("time")).get("created"))
        telling.begin_record(at)
        provider = provider or as_string(info.get("providerID"))
        if info.get("role") == "user":
            _add_prompt(telling, at, as_list(message.get("parts")))
        elif info.get("role") == "assistant":
            _add_answer(telling, at, info, as_list(message.get("parts")))
        else:
            telling.add_foreign(at, dump_json(message))
    if title := as_string(about.get("title")):
        telling.add_step(SessionTitle("", title))
    telling.join_answers()
    name, above = as_string(about.get("id")) or stem, as_string(about.get("parentID"))
    parent = SessionParent(above, "") if above else None
    return [telling.build(SOURCE, name, provider or PROVIDER, format_problems(faults), parent)]


def _add_prompt(telling: SessionBuilder, at: str, parts: list[Any]) -> None:
    said: list[str] = []
    shown: list[bytes] = []
    for part in map(as_object, parts):
        # What the program adds to a prompt by itself (files it names) no person wrote.
        if part.get("type") == "text" and not part.get("synthetic"):
            said.append(as_string(part.get("text")))
        elif found := list_pictures(part):
            said.append(format_content(part))
            shown += found
        else:
            telling.add_foreign(at, dump_json(part))
    if text := "\n".join(filter(None, said)):
        telling.add_step(SessionPrompt(at, text, tuple(shown)))


def _add_answer(telling: SessionBuilder, at: str, info: Fields, parts: list[Any]) -> None:
    said: list[str] = []
    calls: list[SessionCall] = []
    results: list[SessionCallResult] = []
    for part in map(as_object, parts):
        state = as_object(part.get("state"))
        if part.get("type") == "text":
            said.append(as_string(part.get("text")))
        elif part.get("type") == "tool":
            call_id = as_string(part.get("callID")) or as_string(part.get("id"))
            calls.append(
                SessionCall(call_id, as_string(part.get("tool")), dump_json(state.get("input", {})))
            )
            if state.get("status") in ("completed", "error"):
                is_error = state.get("status") == "error"
                files = as_list(state.get("attachments"))
                text = to_text(state.get("error" if is_error else "output"))
                text = "\n".join(filter(None, (text, format_content(files))))
                end = parse_timestamp(as_object(state.get("time")).get("end")) or at
                shown = list_pictures(files)
                results.append(SessionCallResult(end, call_id, text, is_error, shown))
        else:
            telling.add_foreign(at, dump_json(part))
    text, error = "\n\n".join(filter(None, said)), as_object(info.get("error"))
    if text or calls or not error:
        usage = _parse_usage(as_object(info.get("tokens")))
        telling.add_answer(
            "", SessionAnswer(at, text, tuple(calls), as_string(info.get("modelID")), usage)
        )
    telling.steps += results
    if error.get("name") == "MessageAbortedError":
        telling.add_step(SessionStop(at))
    elif error:
        reason = as_string(as_object(error.get("data")).get("message")) or as_string(
            error.get("name")
        )
        telling.add_step(SessionFailure(at, reason or "the request failed"))


def _parse_usage(fields: Fields) -> Usage | None:
    if not fields:
        return None
    cache = as_object(fields.get("cache"))
    names = ("input", "output", "reasoning")
    read, out, thoughts = (as_count(fields.get(name)) for name in names)
    cached, kept = as_count(cache.get("read")), as_count(cache.get("write"))
    read, out = read + cached + kept, out + thoughts
    return Usage(
        read,
        out,
        cache_read_tokens=cached,
        cache_write_tokens=kept,
        reasoning_tokens=thoughts,
        unpriced_tokens=read + out,
    )
