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
from treadle.exchange.content_blocks import format_content, list_pictures
from treadle.exchange.json_lines import (
    Fields,
    JsonLine,
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
    SessionForeignRecord,
    SessionPrompt,
    SessionTitle,
)
from treadle.exchange.times import parse_timestamp

SOURCE: Final = "gemini"
PROVIDER: Final = "google"

_FAILURE_STATUSES: Final = frozenset({"error", "cancelled"})
"""What the program calls a call that did not end well."""

_SETUP_PREFIX: Final = "This is the Gemini CLI"
"""How the first message of a checkpoint begins, which no person wrote."""


def is_session_data(value: Any) -> bool:
    """Whether a file's value, or a record of it, is one of this program's."""
    if isinstance(value, list):
        first = as_object(value[0]) if value else {}
        return _is_content(first) or {"sessionId", "messageId"} <= first.keys()
    fields = as_object(value)
    if {"sessionId", "projectHash"} <= fields.keys():
        return True
    if "$set" in fields or "$rewindTo" in fields:
        return True
    if isinstance(fields.get("messages"), list) and "sessionId" in fields:
        return True
    return any(map(_is_content, map(as_object, as_list(fields.get("history"))[:1])))


def _is_content(fields: Fields) -> bool:
    return fields.get("role") in ("user", "model") and isinstance(fields.get("parts"), list)


def convert_lines(
    lines: Iterable[JsonLine], stem: str, faults: Counter[str]
) -> list[ImportedSession]:
    """The session of a file that is a log.

    Args:
        lines: the file.
        stem: the file's name without its end.
        faults: what was wrong with the lines; more is counted here.
    """
    about: dict[str, Any] = {}
    messages: dict[str, Any] = {}
    aside: list[SessionForeignRecord] = []
    for number, line in enumerate(lines):
        fields = line.fields
        if fields is None:
            aside.append(SessionForeignRecord("", line.text))
        elif "$rewindTo" in fields:
            aside += map(
                _make_foreign_record, _pop_rewound(messages, as_string(fields["$rewindTo"]))
            )
        elif "type" in fields and "id" in fields:
            messages[as_string(fields["id"]) or f"#{number}"] = fields
        else:
            about.update(as_object(fields.get("$set", fields)))
            # A summary takes the place of what the model is shown, not of what was said.
            for message in as_list(about.pop("messages", None)):
                messages.setdefault(
                    as_string(as_object(message).get("id")) or f"#{number}", message
                )
    about["messages"] = list(messages.values())
    session = _convert_recording(about, stem, faults, aside)
    return [session]


def _make_foreign_record(message: Any) -> SessionForeignRecord:
    return SessionForeignRecord(
        parse_timestamp(as_object(message).get("timestamp")), dump_json(message)
    )


def _pop_rewound(messages: dict[str, Any], first: str) -> Iterator[Any]:
    """Take the message and all after it out; all, as the program does, if it is not there."""
    taken: list[Any] = []
    name = ""
    while messages and (name != first or not taken):
        name, message = messages.popitem()
        taken.append(message)
    yield from reversed(taken)


def convert_value(value: Any, stem: str, faults: Counter[str]) -> list[ImportedSession]:
    """The sessions of a file that is one JSON value.

    Args:
        value: what it holds.
        stem: the file's name without its end.
        faults: what is wrong is counted here.
    """
    if isinstance(value, dict) and "history" not in value:
        return [_convert_recording(value, stem, faults, [])]
    contents = value if isinstance(value, list) else as_list(as_object(value).get("history"))
    if contents and not _is_content(as_object(contents[0])):
        return _convert_prompt_log(contents, faults)
    return [_convert_checkpoint(contents, stem, faults)]


def _convert_recording(
    about: Fields, stem: str, faults: Counter[str], aside: list[SessionForeignRecord]
) -> ImportedSession:
    telling = SessionBuilder()
    seen: set[str] = set()
    telling.begin_record(parse_timestamp(about.get("startTime")))
    for kept in aside:
        telling.add_foreign(kept.at, kept.text)
    for message in as_list(about.get("messages")):
        fields = as_object(message)
        name = as_string(fields.get("id"))
        if name and name in seen:
            faults["repeated"] += 1
            continue
        seen.add(name)
        at = parse_timestamp(fields.get("timestamp"))
        telling.begin_record(at)
        if fields.get("type") == "user":
            content = fields.get("content")
            telling.add_step(SessionPrompt(at, format_content(content), list_pictures(content)))
        elif fields.get("type") == "gemini":
            _add_answer(telling, at, fields)
        else:
            telling.add_foreign(at, dump_json(message))
    if title := as_string(about.get("summary")):
        telling.add_step(SessionTitle("", title))
    folders = as_list(about.get("directories"))
    telling.folder = as_string(folders[0]) or None if folders else None
    return _build_session(telling, as_string(about.get("sessionId")) or stem, faults)


def _add_answer(telling: SessionBuilder, at: str, fields: Fields) -> None:
    for thought in as_list(fields.get("thoughts")):
        telling.add_foreign(at, dump_json(thought))
    calls: list[SessionCall] = []
    results: list[SessionCallResult] = []
    for number, value in enumerate(as_list(fields.get("toolCalls"))):
        call = as_object(value)
        call_id = as_string(call.get("id")) or f"{as_string(fields.get('id'))}-{number}"
        calls.append(
            SessionCall(call_id, as_string(call.get("name")), dump_json(call.get("args", {})))
        )
        if call.get("result") or call.get("resultDisplay"):
            answer = call.get("result")
            text = _format_response(answer) or to_text(call.get("resultDisplay"))
            is_error = as_string(call.get("status")) in _FAILURE_STATUSES
            end, shown = parse_timestamp(call.get("timestamp")) or at, _list_shown(answer)
            results.append(SessionCallResult(end, call_id, text, is_error, shown))
    usage = parse_usage(fields.get("tokens"))
    model = as_string(fields.get("model"))
    telling.add_step(
        SessionAnswer(at, format_content(fields.get("content")), tuple(calls), model, usage)
    )
    telling.steps += results


def _format_response(result: Any) -> str:
    """What came of a call, out of the parts in which the API is told."""
    said: list[str] = []
    for part in result if isinstance(result, list) else [result]:
        answered = as_object(as_object(part).get("functionResponse"))
        response = as_object(answered.get("response"))
        if not answered:
            said.append(format_content(part))
        elif "output" in response or "error" in response:
            said.append(to_text(response.get("output", response.get("error"))))
        else:
            said.append(dump_json(response))
        said.append(format_content(answered.get("parts")))
    return "\n".join(filter(None, said))


def _list_shown(result: Any) -> tuple[bytes, ...]:
    """The pictures of a response: those in it, and, as older models have them, those behind it."""
    shown: list[bytes] = []
    for part in result if isinstance(result, list) else [result]:
        answered = as_object(as_object(part).get("functionResponse"))
        shown += list_pictures(answered.get("parts") if answered else part)
    return tuple(shown)


def _convert_checkpoint(contents: list[Any], stem: str, faults: Counter[str]) -> ImportedSession:
    """A checkpoint: no times, no ids; a result belongs to the first open call of its name."""
    telling = SessionBuilder()
    waiting: list[SessionCall] = []
    is_setting_up = False
    for number, content in enumerate(contents):
        telling.begin_record("")
        fields = as_object(content)
        parts = as_list(fields.get("parts"))
        answers, rest = _split_parts(parts)
        said = format_content(rest)
        if said.startswith(_SETUP_PREFIX) or (is_setting_up and fields.get("role") == "model"):
            is_setting_up = not is_setting_up
            telling.add_foreign("", dump_json(content))
        elif fields.get("role") == "user":
            for answer in answers:
                answered = as_object(as_object(answer[0]).get("functionResponse"))
                call_id = _pop_answered_call(waiting, answered)
                text, shown = _format_response(answer), _list_shown(answer)
                telling.add_step(SessionCallResult("", call_id, text, pictures=shown))
            if said:
                telling.add_step(SessionPrompt("", said, list_pictures(rest)))
        elif fields.get("role") == "model":
            calls = tuple(_find_calls(parts, number))
            waiting += calls
            telling.add_step(SessionAnswer("", said, calls))
        else:
            telling.add_foreign("", dump_json(content))
    return _build_session(telling, stem, faults)


def _split_parts(parts: list[Any]) -> tuple[list[list[Any]], list[Any]]:
    """The responses, each with the pictures right behind it, and what is about no call."""
    answers: list[list[Any]] = []
    rest: list[Any] = []
    is_behind = False
    for part in parts:
        fields = as_object(part)
        if fields.get("functionResponse"):
            answers.append([part])
            is_behind = True
        elif is_behind and fields.get("inlineData"):
            answers[-1].append(part)
        else:
            is_behind = False
            rest += [] if _is_about_call(part) else [part]
    return answers, rest


def _is_about_call(part: Any) -> bool:
    fields = as_object(part)
    return bool({"functionCall", "functionResponse"} & fields.keys()) or bool(fields.get("thought"))


def _find_calls(parts: list[Any], number: int) -> Iterator[SessionCall]:
    for place, part in enumerate(parts):
        if call := as_object(as_object(part).get("functionCall")):
            call_id = as_string(call.get("id")) or f"{number}-{place}"
            yield SessionCall(call_id, as_string(call.get("name")), dump_json(call.get("args", {})))


def _pop_answered_call(waiting: list[SessionCall], answered: Fields) -> str:
    wanted, name = as_string(answered.get("id")), as_string(answered.get("name"))
    for call in waiting:
        if call.id == wanted or (not wanted and call.tool_name == name):
            waiting.remove(call)
            return call.id
    return wanted


def _convert_prompt_log(entries: list[Any], faults: Counter[str]) -> list[ImportedSession]:
    """What people typed, by session; nobody recorded what came of it."""
    found: dict[str, SessionBuilder] = {}
    for entry in entries:
        fields = as_object(entry)
        at = parse_timestamp(fields.get("timestamp"))
        telling = found.setdefault(as_string(fields.get("sessionId")), SessionBuilder())
        telling.begin_record(at)
        if fields.get("type") == "user" and as_string(fields.get("message")):
            telling.add_step(SessionPrompt(at, as_string(fields.get("message"))))
        else:
            telling.add_foreign(at, dump_json(entry))
    return [_build_session(telling, f"{name}/log", faults) for name, telling in found.items()]


def _build_session(telling: SessionBuilder, name: str, faults: Counter[str]) -> ImportedSession:
    telling.join_answers()
    return telling.build(SOURCE, name, PROVIDER, format_problems(faults))


def parse_usage(value: Any) -> Usage | None:
    """What an answer used, as the program counts: thoughts stand beside what was written."""
    fields = as_object(value)
    if not fields:
        return None
    names = ("input", "tool", "output", "thoughts", "cached")
    read, tool, out, thoughts, cached = (as_count(fields.get(name)) for name in names)
    read, out = read + tool, out + thoughts
    return Usage(
        read,
        out,
        cache_read_tokens=cached,
        reasoning_tokens=thoughts,
        unpriced_tokens=read + out,
    )
