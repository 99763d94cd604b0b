"""Streams that no provider should send, made for each wire format from the same ideas.

Three tables: what a model may *say* in a stream that is well formed; what may happen to the
*events* of a stream; what may happen to its *bytes*.
"""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from models import anthropic_streams as anthropic
from models import openai_chat_streams as chat
from models import openai_responses_streams as responses
from models.hostile.formats import FORMATS, Format, events_in

Calls: TypeAlias = tuple[tuple[str, str, str], ...]
"""Id, tool and arguments of each, the arguments as text."""

Event: TypeAlias = tuple[str, Any]
Events: TypeAlias = list[Event]

TWO: Final[Calls] = (("c_1", "bash", '{"command": "ls"}'), ("c_2", "read_file", '{"path": "a"}'))


# --- what a model says


def told(wire: Format, text: str = "I look.", calls: Calls = TWO) -> Events:
    """A stream that says this, as events."""
    match wire.name:
        case "anthropic-messages":
            events = [anthropic.start(), *anthropic.text(0, *_halves(text))]
            for index, (call_id, name, arguments) in enumerate(calls, 1):
                events += anthropic.call(index, call_id, name, *_halves(arguments))
            return [*events, *anthropic.stop("tool_use" if calls else "end_turn")]
        case "openai-chat":
            deltas: list[Any] = [{"role": "assistant"}, *({"content": s} for s in _halves(text))]
            for index, (call_id, name, arguments) in enumerate(calls):
                function = {"name": name, "arguments": ""}
                first = {"index": index, "id": call_id, "type": "function", "function": function}
                rest = (chat.piece(index, half) for half in _halves(arguments))
                deltas += [chat.calls(first), *map(chat.calls, rest)]
            chunks = [*map(chat.chunk, deltas), chat.chunk({}, "tool_calls" if calls else "stop")]
            return [*(("", one) for one in chunks), ("", chat.chunk(usage=chat.used(80, 60)))]
        case _:
            said = [responses.text(*_halves(text))]
            said += [responses.call(one, name, *_halves(args)) for one, name, args in calls]
            return [(one["type"], one) for one in responses.events_of(*said)]


def encoded(wire: Format, events: Events, *, in_ascii: bool = False, done: bool = True) -> bytes:
    """Events as bytes; half surrogates go as they are, or escaped."""
    lines: list[str] = []
    for name, data in events:
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=in_ascii)
        lines += [f"event: {name}\n" if name else "", f"data: {text}\n\n"]
    if wire.name == "openai-chat" and done:
        lines.append("data: [DONE]\n\n")
    return "".join(lines).encode("utf-8", "surrogatepass")


def good(wire: Format) -> bytes:
    """A text and two calls, as they should be."""
    return encoded(wire, told(wire))


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _calls(*arguments: str) -> Calls:
    return tuple((f"c_{index}", "bash", said) for index, said in enumerate(arguments))


def _named(*names: tuple[str, str]) -> Calls:
    return tuple((call_id, name, '{"a": 1}') for call_id, name in names)


DEEP: Final = 100_000

SAID: Final[dict[str, tuple[str, Calls]]] = {
    "arguments that are no JSON": ("", _calls('{"command": ', "{'a': 1}", "rm -rf /", '{"a": 1}}')),
    "arguments that are no object": ("", _calls("[1]", "7", "null", '"x"', "true", "1e5")),
    "arguments with NaN": ("", _calls('{"a": NaN}', '{"a": Infinity}', "NaN")),
    "arguments beyond all floats": ("", _calls('{"a": 1e400}', '{"a": [-1e999]}')),
    "arguments with an integer of 5,000 digits": ("", _calls('{"a": %s}' % ("7" * 5000))),
    "arguments with an integer of 100 digits": ("", _calls('{"a": %s}' % ("7" * 100))),
    "arguments that are 100,000 deep": ("", _calls('{"a": ' + "[" * DEEP + "]" * DEEP + "}")),
    "arguments that are 900 deep": ("", _calls('{"a": ' + "[" * 900 + "]" * 900 + "}")),
    "arguments that are 400 deep": ("", _calls('{"a": ' + "[" * 400 + "]" * 400 + "}")),
    "arguments that are 250 objects deep": ("", _calls('{"a":' * 250 + "1" + "}" * 250)),
    "arguments with a key twice": ("", _calls('{"a": 1, "a": 2}')),
    "arguments with half a surrogate": ("", _calls('{"a": "\ud83d"}', '{"a": "\\ud83d"}')),
    "arguments with halves that are apart": ("", _calls('{"a": "\\ude00\\ud83d"}')),
    "arguments with a NUL": ("", _calls('{"a": "\x00"}', '{"a": "\\u0000"}')),
    "arguments with U+2028": ("", _calls('{"a": "\u2028\u2029\x85"}')),
    "arguments with a BOM": ("", _calls('\ufeff{"a": 1}')),
    "arguments of spaces": ("", _calls("   ", "\n", "")),
    "arguments with a mark of a secret": ("", _calls('{"a": "[REDACTED:key]"}')),
    "arguments after arguments": ("", _calls('{"a": 1}{"a": 2}')),
    "long arguments": ("", _calls('{"a": "%s"}' % ("x" * 500_000))),
    "two calls with one id": ("", _named(("c", "bash"), ("c", "read_file"))),
    "ten calls with one id": ("x", _named(*[("c", "bash")] * 10)),
    "ids that look like those of the house": (
        "",
        _named(("c", "bash"), ("c-1-1", "bash"), ("c", "bash"), ("c-1-2", "bash")),
    ),
    "calls without ids": ("", _named(("", "bash"), ("", "read_file"))),
    "an id of spaces": ("", _named((" ", "bash"), ("  ", "bash"))),
    "an id with half a surrogate": ("", _named(("c\ud83d", "bash"), ("c\ud83e", "bash"))),
    "an id with control characters": ("", _named(("c\x00\n\u202e", "bash"), ("c\x00\n", "bash"))),
    "long ids with one beginning": ("", _named(("c" * 5000, "bash"), ("c" * 5001, "bash"))),
    "ids of other alphabets": ("", _named(("é", "bash"), ("è", "bash"), ("/../x", "bash"))),
    "an unknown tool": ("", _named(("c", "launch_rocket"), ("d", "bash"))),
    "a long name of a tool": ("", _named(("c", "x" * 5000))),
    "a name of a tool with any characters": ("", _named(("c", "functions.bash é\n\x00"))),
    "a name of a tool with half a surrogate": ("", _named(("c", "ba\ud83dsh"))),
    "a name of a tool of spaces": ("", _named(("c", "  "))),
    "a call without a name": ("", _named(("c", ""))),
    "text with half a surrogate": ("a\ud83db\ude00", ()),
    "text with two halves": ("a\ud83d", ()),
    "text with every line break": ("a\u2028b\u2029c\x85d\x0be\x0cf\rg\r\nh", ()),
    "text with a BOM": ("\ufeffa\ufeff", TWO),
    "text with NUL and escapes": ("\x00\x1b]0;owned\x07\x7f", ()),
    "text that looks like a stream": ("data: [DONE]\n\nevent: error\ndata: {}\n\n", ()),
    "text with the mark of a secret": ("the key is [REDACTED:key]", TWO),
    "text of spaces": ("   \n ", ()),
    "text of spaces before calls": (" \n ", TWO),
    "nothing at all": ("", ()),
    "300 calls": ("", tuple((f"c{n}", "bash", "{}") for n in range(300))),
    "10,001 calls": ("", tuple((f"c{n}", "bash", "{}") for n in range(10_001))),
    "long text": ("x" * 1_000_000, ()),
}


# --- what happens to events


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in a value, the value itself included."""
    if isinstance(value, dict):
        yield value
        for item in list(value.values()):
            yield from objects_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from objects_in(item)


def _all(*fields: str, of: Callable[[Any], Any]) -> Callable[[Events], Events]:
    """Every such field of every event gets the value that `of` makes of what it had."""

    def change(events: Events) -> Events:
        for _, data in events:
            for one in list(objects_in(data)):
                for field in fields:
                    if field in one:
                        one[field] = of(one[field])
        return events

    return change


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def _put(where: int | float, *new: Event) -> Callable[[Events], Events]:
    """Events put in at a place; a fraction is a part of the way."""

    def change(events: Events) -> Events:
        at = int(len(events) * where) if isinstance(where, float) else where
        return [*events[:at], *new, *events[at:]]

    return change


def _swapped(events: Events) -> Events:
    middle = len(events) // 2
    events[middle - 1], events[middle] = events[middle], events[middle - 1]
    return events


_INDEX: Final = ("index", "output_index", "content_index")
_IDS: Final = ("id", "call_id", "item_id")
_TOKENS: Final = (
    *("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "total_tokens"),
    *("cached_tokens", "reasoning_tokens", "cache_read_input_tokens"),
)
_BOOM: Final = {"code": "server_error", "type": "api_error", "message": "boom \x1b[31m\u202e"}


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


HAPPENS: Final[dict[str, Callable[[Events], Events]]] = {
    "every event twice": lambda events: [one for one in events for _ in range(2)],
    "all events twice": lambda events: [*events, *copy.deepcopy(events)],
    "the end first": lambda events: [events[-1], *events[:-1]],
    "the end three times": lambda events: [*events, events[-1], events[-1]],
    "the end in the middle": lambda events: _put(0.5, events[-1])(events),
    "no end": lambda events: events[:-2],
    "no beginning": lambda events: events[1:],
    "no beginnings": lambda events: events[4:],
    "only the end": lambda events: events[-1:],
    "backwards": lambda events: events[::-1],
    "two events in the wrong order": _swapped,
    "every other event": lambda events: events[::2],
    "without names": lambda events: [("", data) for _, data in events],
    "wrong names": lambda events: [("message_stop", data) for _, data in events],
    "all named error": lambda events: [("error", data) for _, data in events],
    "without types": lambda events: [
        (name, {key: value for key, value in data.items() if key != "type"})
        for name, data in events
    ],
    "an unknown event": _put(0.5, ("dream", {"type": "dream", "deep": {"a": [1]}})),
    "1,000 unknown events": _put(0.5, *[("dream", {"type": "dream"})] * 1000),
    "1,000 pings": _put(0.5, *[("ping", {"type": "ping"})] * 1000),
    "a ping that is no JSON": _put(0.5, ("ping", "pong")),
    "an error in the middle": _put(0.5, ("error", {"type": "error", "error": _BOOM})),
    "an error without a name": _put(0.5, ("", {"error": _BOOM})),
    "an error first": _put(0, ("error", {"type": "error", "error": _BOOM})),
    "an error after the end": lambda events: [*events, ("error", {"error": _BOOM})],
    "an error that is null": _put(0.5, ("error", {"type": "error", "error": None})),
    "an error that is a number": _put(0.5, ("error", {"type": "error", "error": 7})),
    "an error that is a text": _put(0.5, ("error", {"type": "error", "error": "no\nway"})),
    "an error that is a list": _put(0.5, ("error", {"type": "error", "error": [[1]]})),
    "an error in errors": _put(0.5, ("error", {"error": {"error": {"error": {"error": 1}}}})),
    "an error that is no JSON": _put(0.5, ("error", "upstream \x00 failed")),
    "an error of wrong types": _put(
        0.5, ("error", {"error": {"code": {"a": 1}, "type": [2], "message": {"b": 3}}})
    ),
    "an error with a huge message": _put(0.5, ("error", {"error": {"message": "x" * 300_000}})),
    "an event that is a list": _put(0.5, ("", [])),
    "an event that is null": _put(0.5, ("", "null")),
    "an event that is a number": _put(0.5, ("", "5")),
    "an event that is NaN": _put(0.5, ("", "NaN")),
    "an event that is an integer of 5,000 digits": _put(0.5, ("", "7" * 5000)),
    "an event with an integer of 5,000 digits": _put(0.5, ("", '{"type": %s}' % ("7" * 5000))),
    "an event that is 100,000 deep": _put(0.5, ("", "[" * DEEP)),
    "an event that is 100,000 objects deep": _put(0.5, ("", '{"type":' * DEEP)),
    "an event that is 900 deep": _put(0.5, ("", {"type": "dream", "a": _nested(900)})),
    "an event with keys twice": _put(0.5, ("", '{"type": "dream", "type": "x", "type": 5}')),
    "no events, only spaces": lambda events: [("", "   ")],
    "an empty object": _put(0.5, ("", {})),
    "a Boolean index": _all(*_INDEX, of=bool),
    "an index that is text": _all(*_INDEX, of=str),
    "an index that is a fraction": _all(*_INDEX, of=lambda index: index + 0.5),
    "a negative index": _all(*_INDEX, of=lambda index: -1 - index),
    "an index that jumps": _all(*_INDEX, of=lambda index: index * 3),
    "a huge index": _all(*_INDEX, of=lambda index: index + 2**70),
    "one index for all": _all(*_INDEX, of=_always(0)),
    "no ids": _all(*_IDS, of=_always(None)),
    "ids that are numbers": _all(*_IDS, of=_always(7)),
    "one id for all": _all(*_IDS, of=_always("same")),
    "negative usage": _all(*_TOKENS, of=lambda count: -1 - count),
    "huge usage": _all(*_TOKENS, of=_always(2**63)),
    "usage of a hundred digits": _all(*_TOKENS, of=_always(10**100)),
    "usage in fractions": _all(*_TOKENS, of=_always(1.5)),
    "usage that is NaN": _all(*_TOKENS, of=_always(float("nan"))),
    "usage that is infinite": _all(*_TOKENS, of=_always(float("inf"))),
    "usage that is text": _all(*_TOKENS, of=str),
    "usage that is a list": _all("usage", of=_always([1])),
    "usage that is deep": _all("usage", of=_always(_nested(500))),
    "no usage": _all("usage", of=_always(None)),
    "an unknown reason": _all("stop_reason", "finish_reason", "status", of=_always("tired\n\x1b")),
    "a reason that is a number": _all("stop_reason", "finish_reason", "status", of=_always(3)),
    "calls that the end does not know": _all("stop_reason", "finish_reason", of=_always("stop")),
    "an empty delta": _all("delta", of=_always({})),
    "a delta that is null": _all("delta", of=_always(None)),
    "a delta of a hundred levels": _all("delta", of=_always(_nested(100))),
}


# --- what happens to bytes


def _in_the_middle(what: bytes) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        at = data.index(b"\n\n", len(data) // 2) + 2
        return data[:at] + what + data[at:]

    return change


BENT: Final[dict[str, Callable[[bytes], bytes]]] = {
    "an empty body": lambda data: b"",
    "a body of line ends": lambda data: b"\n" * 5000,
    "a body of carriage returns": lambda data: b"\r" * 5000,
    "a body of NULs": lambda data: b"\0" * 5000,
    "only comments": lambda data: b": keep-alive\n\n" * 1000,
    "comments everywhere": lambda data: data.replace(b"\n\n", b"\n\n: x\n\n:\n"),
    "a BOM": lambda data: b"\xef\xbb\xbf" + data,
    "two BOMs": lambda data: b"\xef\xbb\xbf" * 2 + data,
    "a BOM in the middle": _in_the_middle(b"\xef\xbb\xbf"),
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "CR": lambda data: data.replace(b"\n", b"\r"),
    "CR and LF mixed": lambda data: data.replace(b"\n\n", b"\r\n\r"),
    "no last line end": lambda data: data.rstrip(b"\n"),
    "no spaces after colons": lambda data: data.replace(b"data: ", b"data:"),
    "fields in capitals": lambda data: data.replace(b"data:", b"DATA:"),
    "fields without colons": lambda data: data.replace(b"data:", b"data"),
    "fields with spaces before": lambda data: data.replace(b"data:", b" data:"),
    "ids and waits": lambda data: data.replace(b"data:", b"id: 1\nretry: 999999999999\ndata:"),
    "an endless name of an event": _in_the_middle(b"event: " + b"x" * 200_000 + b"\ndata: {}\n\n"),
    "invalid UTF-8 in the middle": _in_the_middle(b"data: \xff\xfe\xfa\n\n"),
    "invalid UTF-8 in text": lambda data: data.replace(b"I look", b"I \xff\xc0\x80"),
    "invalid UTF-8 in a name": lambda data: data.replace(b"event: ", b"event: \xff"),
    "overlong UTF-8": lambda data: data.replace(b"look", b"l\xc0\xafk"),
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "gzip that nobody speaks of": gzip.compress,
    "NULs between events": lambda data: data.replace(b"\n\n", b"\n\n\0\n"),
    "a page": lambda data: b"<!DOCTYPE html>\n\n<h1>Bad gateway</h1>\n" * 50,
    "JSON that is no stream": lambda data: json.dumps({"error": {"message": "no"}}).encode(),
    "a chunk of HTTP inside": _in_the_middle(b"\r\n1f\r\n"),
    "a response of HTTP inside": _in_the_middle(b"HTTP/1.1 200 OK\r\n\r\n"),
    "[DONE] first": lambda data: b"data: [DONE]\n\n" + data,
    "[DONE] in the middle": _in_the_middle(b"data: [DONE]\n\n"),
    "[DONE] many times": lambda data: data + b"data: [DONE]\n\n" * 100,
    "something after the end": lambda data: data + b"data: {\n\n" * 10,
    "a second answer after the end": lambda data: data + data,
    "data in several lines": lambda data: data.replace(b", ", b",\ndata: "),
    "braces lost": lambda data: data.replace(b"}\n\n", b"\n\n"),
    "quotes lost": lambda data: data.replace(b'"', b""),
    "half of every event": lambda data: b"".join(
        part[: len(part) // 2] + b"\n\n" for part in data.split(b"\n\n")
    ),
    "all events in one": lambda data: data.replace(b"\n\n", b"\n"),
    "true where null was": lambda data: data.replace(b"null", b"true"),
    "NaN where numbers were": lambda data: data.replace(b": 0", b": NaN"),
}


def malformed(wire: Format) -> Mapping[str, bytes]:
    """All of the above in one format, by name."""
    return _malformed(wire.name)


@cache
def _malformed(wire_name: str) -> Mapping[str, bytes]:
    wire = FORMATS[wire_name]
    made = {f"{name} (said)": encoded(wire, told(wire, *said)) for name, said in SAID.items()}
    made |= {
        f"{name} (said, escaped)": encoded(wire, told(wire, *said), in_ascii=True)
        for name, said in SAID.items()
        if any("\ud800" <= each <= "\udfff" for each in _text_of(said))
    }
    for name, happens in HAPPENS.items():
        made[f"{name} (events)"] = encoded(wire, happens(copy.deepcopy(told(wire))))
    for name, bend in BENT.items():
        made[f"{name} (bytes)"] = bend(good(wire))
    return MappingProxyType(made)


def _text_of(said: tuple[str, Calls]) -> str:
    return "".join([said[0], *(text for call in said[1] for text in call)])


# --- every field of every event


REPLACEMENTS: Final[tuple[Any, ...]] = (
    *(None, True, -1, 0.5, 2**70, "", "x", "\ud800", [], [None], {}, {"type": "x"}),
    *([[["a"]]], {"a": {"b": [1]}}),
)


def places_in(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all fields and elements in a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inside:
        yield (*way, key)
        if isinstance(item, dict | list):
            yield from places_in(item, (*way, key))


def mutations(
    wire: Format, data: bytes, *, every: int = 1, first: int = 0
) -> Iterator[tuple[str, bytes]]:
    """The stream with each field of each event left out, and replaced by each wrong value.

    Args:
        wire: the format.
        data: a good stream.
        every: give only one in so many.
        first: of those, which.
    """
    events: Events = [(one.event, json.loads(one.data)) for one in _objects(data)]
    whole = [encoded(wire, [one], done=False) for one in events]
    end = encoded(wire, [])
    count = 0
    for number, (name, event) in enumerate(events):
        for way in places_in(event):
            for wrong in (..., *REPLACEMENTS):
                count += 1
                if (count + first) % every:
                    continue
                changed = encoded(wire, [(name, _replaced(event, way, wrong))], done=False)
                variant = b"".join([*whole[:number], changed, *whole[number + 1 :], end])
                shown = "nothing" if wrong is ... else repr(wrong)
                yield f"event {number}: {'.'.join(map(str, way))} = {shown}", variant


def _replaced(event: Any, way: tuple[Any, ...], wrong: Any) -> Any:
    """A copy of the event with another value at the end of the way; `...` is none."""
    changed = copy.deepcopy(event)
    owner = changed
    for key in way[:-1]:
        owner = owner[key]
    if wrong is ...:
        del owner[way[-1]]
    else:
        owner[way[-1]] = wrong
    return changed


def _objects(data: bytes) -> Iterator[Any]:
    return (one for one in events_in(data) if one.data != b"[DONE]")


def limited(wire: Format) -> bytes:
    """An answer that a limit of tokens cut before the arguments of its call began."""
    match wire.name:
        case "anthropic-messages":
            events = [anthropic.start(), *anthropic.call(0, "c_1", "bash")]
            return encoded(wire, [*events, *anthropic.stop("max_tokens")])
        case "openai-chat":
            first = chat.calls(chat.piece(0, "", "c_1", "bash"))
            chunks = [chat.chunk(first), chat.chunk({}, "length")]
            return encoded(wire, [("", one) for one in chunks])
        case _:
            said = responses.call("c_1", "bash", status="incomplete")
            return responses.wire(responses.events_of(said, status="incomplete", **responses.LIMIT))
