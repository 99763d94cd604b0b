"""Sessions of Gemini CLI: `~/.gemini/tmp/<project>/chats/session-<time>-<id>.json` or `.jsonl`.

The older file is one object with `messages`. The newer one is a log: a first line about the
session, then messages, which replace earlier ones of the same `id`; `{"$set": ...}` changes what is
known of the session, `{"$rewindTo": id}` takes back a message and all after it. A message of the
model holds its calls with their results. Besides, there are checkpoints (`contents`, as the API has
them: `role` and `parts`) and `logs.json` (what people typed, nothing else).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from treadle.core.llm import Usage
from treadle.exchange.blocks import shown
from treadle.exchange.lines import (
    Fields,
    Line,
    count_of,
    dump,
    fields_of,
    items_of,
    problems_of,
    text_of,
    word,
)
from treadle.exchange.session_builder import Telling
from treadle.exchange.steps import Answered, Call, Kept, Result, Said, Session, Titled
from treadle.exchange.times import utc

SOURCE: Final = "gemini"
PROVIDER: Final = "google"

_FAILED: Final = frozenset({"error", "cancelled"})
"""What the program calls a call that did not end well."""

_SETTING_UP: Final = "This is the Gemini CLI"
"""How the first message of a checkpoint begins, which no person wrote."""


def is_one(value: Any) -> bool:
    """Whether a file's value, or a record of it, is one of this program's."""
    if isinstance(value, list):
        first = fields_of(value[0]) if value else {}
        return _is_content(first) or {"sessionId", "messageId"} <= first.keys()
    fields = fields_of(value)
    if {"sessionId", "projectHash"} <= fields.keys():
        return True
    if "$set" in fields or "$rewindTo" in fields:
        return True
    if isinstance(fields.get("messages"), list) and "sessionId" in fields:
        return True
    return any(map(_is_content, map(fields_of, items_of(fields.get("history"))[:1])))


def _is_content(fields: Fields) -> bool:
    return fields.get("role") in ("user", "model") and isinstance(fields.get("parts"), list)


def convert(lines: Iterable[Line], stem: str, faults: Counter[str]) -> list[Session]:
    """The session of a file that is a log.

    Args:
        lines: the file.
        stem: the file's name without its end.
        faults: what was wrong with the lines; more is counted here.
    """
    about: dict[str, Any] = {}
    messages: dict[str, Any] = {}
    aside: list[Kept] = []
    for number, line in enumerate(lines):
        fields = line.fields
        if fields is None:
            aside.append(Kept("", line.text))
        elif "$rewindTo" in fields:
            aside += map(_kept, _taken_back(messages, word(fields["$rewindTo"])))
        elif "type" in fields and "id" in fields:
            messages[word(fields["id"]) or f"#{number}"] = fields
        else:
            about.update(fields_of(fields.get("$set", fields)))
            # A summary takes the place of what the model is shown, not of what was said.
            for message in items_of(about.pop("messages", None)):
                messages.setdefault(word(fields_of(message).get("id")) or f"#{number}", message)
    about["messages"] = list(messages.values())
    session = _recorded(about, stem, faults, aside)
    return [session]


def _kept(message: Any) -> Kept:
    return Kept(utc(fields_of(message).get("timestamp")), dump(message))


def _taken_back(messages: dict[str, Any], first: str) -> Iterator[Any]:
    """Take the message and all after it out; all, as the program does, if it is not there."""
    taken: list[Any] = []
    name = ""
    while messages and (name != first or not taken):
        name, message = messages.popitem()
        taken.append(message)
    yield from reversed(taken)


def convert_whole(value: Any, stem: str, faults: Counter[str]) -> list[Session]:
    """The sessions of a file that is one JSON value.

    Args:
        value: what it holds.
        stem: the file's name without its end.
        faults: what is wrong is counted here.
    """
    if isinstance(value, dict) and "history" not in value:
        return [_recorded(value, stem, faults, [])]
    contents = value if isinstance(value, list) else items_of(fields_of(value).get("history"))
    if contents and not _is_content(fields_of(contents[0])):
        return _typed(contents, faults)
    return [_saved(contents, stem, faults)]


def _recorded(about: Fields, stem: str, faults: Counter[str], aside: list[Kept]) -> Session:
    telling = Telling()
    seen: set[str] = set()
    telling.begin_record(utc(about.get("startTime")))
    for kept in aside:
        telling.keep(kept.at, kept.text)
    for message in items_of(about.get("messages")):
        fields = fields_of(message)
        name = word(fields.get("id"))
        if name and name in seen:
            faults["repeated"] += 1
            continue
        seen.add(name)
        at = utc(fields.get("timestamp"))
        telling.begin_record(at)
        if fields.get("type") == "user":
            telling.add(Said(at, shown(fields.get("content"))))
        elif fields.get("type") == "gemini":
            _take_answer(telling, at, fields)
        else:
            telling.keep(at, dump(message))
    if title := word(about.get("summary")):
        telling.add(Titled("", title))
    folders = items_of(about.get("directories"))
    telling.folder = word(folders[0]) or None if folders else None
    return _session(telling, word(about.get("sessionId")) or stem, faults)


def _take_answer(telling: Telling, at: str, fields: Fields) -> None:
    for thought in items_of(fields.get("thoughts")):
        telling.keep(at, dump(thought))
    calls: list[Call] = []
    results: list[Result] = []
    for number, value in enumerate(items_of(fields.get("toolCalls"))):
        call = fields_of(value)
        call_id = word(call.get("id")) or f"{word(fields.get('id'))}-{number}"
        calls.append(Call(call_id, word(call.get("name")), dump(call.get("args", {}))))
        if call.get("result") or call.get("resultDisplay"):
            text = _response(call.get("result")) or text_of(call.get("resultDisplay"))
            is_error = word(call.get("status")) in _FAILED
            results.append(Result(utc(call.get("timestamp")) or at, call_id, text, is_error))
    usage = usage_of(fields.get("tokens"))
    model = word(fields.get("model"))
    telling.add(Answered(at, shown(fields.get("content")), tuple(calls), model, usage))
    telling.steps += results


def _response(result: Any) -> str:
    """What came of a call, out of the parts in which the API is told."""
    said: list[str] = []
    for part in result if isinstance(result, list) else [result]:
        answered = fields_of(fields_of(part).get("functionResponse"))
        response = fields_of(answered.get("response"))
        if not answered:
            said.append(shown(part))
        elif "output" in response or "error" in response:
            said.append(text_of(response.get("output", response.get("error"))))
        else:
            said.append(dump(response))
    return "\n".join(filter(None, said))


def _saved(contents: list[Any], stem: str, faults: Counter[str]) -> Session:
    """A checkpoint: no times, no ids; a result belongs to the first open call of its name."""
    telling = Telling()
    waiting: list[Call] = []
    is_setting_up = False
    for number, content in enumerate(contents):
        telling.begin_record("")
        fields = fields_of(content)
        parts = items_of(fields.get("parts"))
        said = shown([part for part in parts if not _is_about_call(part)])
        if said.startswith(_SETTING_UP) or (is_setting_up and fields.get("role") == "model"):
            is_setting_up = not is_setting_up
            telling.keep("", dump(content))
        elif fields.get("role") == "user":
            for part in parts:
                if answered := fields_of(fields_of(part).get("functionResponse")):
                    call_id = _answered_call(waiting, answered)
                    telling.add(Result("", call_id, _response(part)))
            if said:
                telling.add(Said("", said))
        elif fields.get("role") == "model":
            calls = tuple(_calls(parts, number))
            waiting += calls
            telling.add(Answered("", said, calls))
        else:
            telling.keep("", dump(content))
    return _session(telling, stem, faults)


def _is_about_call(part: Any) -> bool:
    fields = fields_of(part)
    return bool({"functionCall", "functionResponse"} & fields.keys()) or bool(fields.get("thought"))


def _calls(parts: list[Any], number: int) -> Iterator[Call]:
    for place, part in enumerate(parts):
        if call := fields_of(fields_of(part).get("functionCall")):
            call_id = word(call.get("id")) or f"{number}-{place}"
            yield Call(call_id, word(call.get("name")), dump(call.get("args", {})))


def _answered_call(waiting: list[Call], answered: Fields) -> str:
    wanted, name = word(answered.get("id")), word(answered.get("name"))
    for call in waiting:
        if call.id == wanted or (not wanted and call.tool_name == name):
            waiting.remove(call)
            return call.id
    return wanted


def _typed(entries: list[Any], faults: Counter[str]) -> list[Session]:
    """What people typed, by session; nobody recorded what came of it."""
    found: dict[str, Telling] = {}
    for entry in entries:
        fields = fields_of(entry)
        at = utc(fields.get("timestamp"))
        telling = found.setdefault(word(fields.get("sessionId")), Telling())
        telling.begin_record(at)
        if fields.get("type") == "user" and word(fields.get("message")):
            telling.add(Said(at, word(fields.get("message"))))
        else:
            telling.keep(at, dump(entry))
    return [_session(telling, f"{name}/log", faults) for name, telling in found.items()]


def _session(telling: Telling, name: str, faults: Counter[str]) -> Session:
    telling.finish()
    return telling.session(SOURCE, name, PROVIDER, problems_of(faults))


def usage_of(value: Any) -> Usage | None:
    """What an answer used, as the program counts: thoughts stand beside what was written."""
    fields = fields_of(value)
    if not fields:
        return None
    names = ("input", "tool", "output", "thoughts", "cached")
    read, tool, out, thoughts, cached = (count_of(fields.get(name)) for name in names)
    read, out = read + tool, out + thoughts
    return Usage(
        read,
        out,
        cache_read_tokens=cached,
        reasoning_tokens=thoughts,
        unpriced_tokens=read + out,
    )
