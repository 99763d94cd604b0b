"""The script of a scripted model: what a file may say, and the one gate everything passes.

A script is a list of replies. It says which reply belongs to which request, never which was used
last: that is read off the request itself, so that a process that was killed and resumed gets the
reply it would have got. `docs/scripted-models.md` describes the format for authors.

`load_script` reads a file, `parse_script` its bytes, `make_script` Python values; all three refuse,
with a `ScriptError` that names the place, whatever could not be meant.
"""

from __future__ import annotations

import datetime
import math
import os
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from treadle.core.llm import LlmErrorKind
from treadle.core.messages import Role
from treadle.errors import ScriptError

CHUNK_SIZE_DEFAULT: Final = 24
DELAY_S_MAX: Final = 3600.0
CALL_ID_PREFIX: Final = "call-"
"""Ids that begin so are given by the model; a script cannot take them."""

_DEPTH_MAX: Final = 64
_INTEGER_MAX: Final = 2**63 - 1
_NO_END: Final = sys.maxsize
_HINT: Final = "docs/scripted-models.md describes the format"
_NOT_JSON: Final = (datetime.datetime, datetime.date, datetime.time, bytes, bytearray)
"""Kept as they are on the way in, so that they are refused and not turned into text."""
_PATTERNS: Final = ("user", "last", "seen", "system")
_CHOICES: Final = {
    "kind": ", ".join(kind.value for kind in LlmErrorKind),
    "last_role": "user, assistant, tool, system",
}

Seconds = Annotated[float, Meta(ge=0, le=DELAY_S_MAX)]
Count = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1)]


class _Strict(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table of the file; a key it does not know is a mistake, not an extension."""


class When(_Strict, frozen=True):
    """Conditions on one request; all must hold, and what is `None` asks for nothing.

    `user`, `last`, `seen` and `system` are regular expressions, searched anywhere in: the latest
    user message; the last message; any message since (and with) the latest user message; the
    system prompt. `last_role` is the role of the last message. `tool` is the exact name of the tool
    whose result is the last message. `step` counts the assistant messages since the latest user
    message: 0 for the first request of a turn.
    """

    user: str | None = None
    last: str | None = None
    last_role: Role | None = None
    tool: Name | None = None
    seen: str | None = None
    system: str | None = None
    step: Count | None = None

    @property
    def is_rule(self) -> bool:
        """Whether it speaks of a moment in the turn; if not, the reply has a place in a row."""
        return any(
            value is not None
            for value in (self.last, self.last_role, self.tool, self.seen, self.step)
        )


class ScriptedCall(_Strict, frozen=True):
    """A tool call: `arguments` become JSON, `arguments_text` is sent as it is (malformed, say).

    Without either the arguments are `{}`. Without `id` the model gives one, derived from the
    length of the conversation.
    """

    tool: Name
    arguments: dict[str, Any] | None = None
    arguments_text: str | None = None
    id: Name | None = None


class ScriptedUsage(_Strict, frozen=True):
    """The usage a reply reports, in tokens, and in US dollars if it says what it costs."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_usd: Decimal | None = None


class ScriptedFailure(_Strict, frozen=True):
    """The error a stream ends with; `retry_after_s` is what the server would ask for."""

    kind: LlmErrorKind
    message: str = ""
    retry_after_s: Annotated[float, Meta(ge=0)] | None = None


class Reply(_Strict, frozen=True):
    """One stream: `text` (or `chunks`), then `calls`, then an end.

    The end is the completed message, unless one of these says otherwise: `error`, `cut` (the stream
    ends without a word), `hang` (it never ends). Those three are failures: they leave no message,
    so they come before the reply that succeeds, `times` times (0: always).

    `thinking` is streamed before it, and not kept. `confidence` is how sure the model says it is.

    `chunk_size` is in characters, 0 for everything at once. `first_delay_s` passes before the first
    event, `delay_s` between deltas; 0 to 3600 seconds. Where these are `None` the script's hold.
    """

    when: When = When()
    text: str | None = None
    chunks: tuple[Name, ...] = ()
    calls: tuple[ScriptedCall, ...] = ()
    chunk_size: Count | None = None
    delay_s: Seconds | None = None
    first_delay_s: Seconds | None = None
    usage: ScriptedUsage | None = None
    thinking: str = ""
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    finish_reason: str | None = None
    error: ScriptedFailure | None = None
    cut: bool = False
    hang: bool = False
    times: Count | None = None

    @property
    def is_failure(self) -> bool:
        """Whether the stream ends without a message."""
        return self.error is not None or self.cut or self.hang

    @property
    def times_max(self) -> int:
        """How often one model may use it; 0 is any number."""
        if not self.is_failure:
            return 0
        return 1 if self.times is None else self.times


class Script(_Strict, frozen=True):
    """A whole script; the first of its replies that fits a request answers it."""

    replies: Annotated[tuple[Reply, ...], Meta(min_length=1)]
    chunk_size: Count = CHUNK_SIZE_DEFAULT
    delay_s: Seconds = 0.0
    first_delay_s: Seconds = 0.0


def load_script(path: str | os.PathLike[str]) -> Script:
    """The script in a `.toml` or `.json` file.

    Raises:
        ScriptError: the file cannot be read or is not a valid script; names file and place.
    """
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ScriptError(f"cannot read {path}: {reason or error}") from error
    return parse_script(data, os.fspath(path))


def parse_script(data: bytes, name: str) -> Script:
    """The script in `data`.

    Args:
        data: UTF-8, with or without a byte order mark.
        name: named in errors; its ending says the language, `.toml` or `.json`.

    Raises:
        ScriptError: `data` is not a valid script; names `name` and the place.
    """
    try:
        tables = _parse_tables(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScriptError(f"{name}: not UTF-8: {error.reason} (at line {line})") from error
    except (ValueError, RecursionError) as error:
        raise ScriptError(f"{name}: {error}", hint=_HINT) from error
    return make_script(tables, name)


def _parse_tables(text: str, name: str) -> object:
    if name.endswith(".toml"):
        import tomllib

        return tomllib.loads(text)
    if name.endswith(".json"):
        import json

        return json.loads(text, object_pairs_hook=_refuse_duplicate_keys)
    raise ValueError("a script is a .toml or a .json file")


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [key for key, _ in pairs]
        double = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"the key {double!r} stands twice in one object")
    return table


def make_script(data: object, name: str = "script") -> Script:
    """The script that `data` describes.

    Args:
        data: what a file holds once parsed: `{"replies": [...]}`; tables may be dicts or the
            structs of this module, and a `Script` comes back as it is once it is found valid.
        name: named in errors.

    Raises:
        ScriptError: `data` is not a valid script; names `name` and the place.
    """
    try:
        plain = msgspec.to_builtins(data, builtin_types=_NOT_JSON)
        fault = next(_list_unstorable_values(plain, "", 0), None)
        if fault is None:
            script = msgspec.convert(plain, Script)
            fault = next(_list_faults(script), None)
    except msgspec.ValidationError as error:
        fault = _locate_fault(str(error))
    except (TypeError, RecursionError) as error:
        fault = ("", str(error))
    if fault is not None:
        place, problem = fault
        raise ScriptError(": ".join(filter(None, (name, place, problem))), hint=_HINT)
    return script


def list_conditions(script: Script) -> tuple[dict[str, Any], ...]:
    """What each reply asks of a request, by the names of `When`; `step` is a range of steps.

    A row is made of the replies that have the same `user` and `system` and speak of no moment; the
    place of a reply in it is its step. A failure leaves no message, so it shares the place of the
    reply that follows. The last place holds for all later steps too, unless the reply there asks
    for tools: it would do so for ever.
    """
    steps: dict[int, range] = {}
    for row in _group_replies(script):
        for step, indices in enumerate(row):
            reply = script.replies[indices[-1]]
            goes_on = bool(reply.calls) and not reply.is_failure
            is_open = step == len(row) - 1 and not goes_on
            steps.update(dict.fromkeys(indices, range(step, _NO_END if is_open else step + 1)))
    return tuple(
        _make_conditions(reply.when, steps.get(index)) for index, reply in enumerate(script.replies)
    )


def _group_replies(script: Script) -> list[list[list[int]]]:
    """Every row, as its places, as the replies that stand there: failures, then a success."""
    rows: dict[tuple[str | None, str | None], list[list[int]]] = {}
    for index, reply in enumerate(script.replies):
        if not reply.when.is_rule:
            row = rows.setdefault((reply.when.user, reply.when.system), [[]])
            row[-1].append(index)
            if not reply.is_failure:
                row.append([])
    return [[place for place in row if place] for row in rows.values()]


def _make_conditions(when: When, steps: range | None) -> dict[str, Any]:
    asks = {name: getattr(when, name) for name in when.__struct_fields__}
    if when.step is not None:
        steps = range(when.step, when.step + 1)
    asks["step"] = None if steps == range(_NO_END) else steps
    return {name: value for name, value in asks.items() if value is not None}


# ---- what is refused ---------------------------------------------------------------------------

_Fault = tuple[str, str]
"""Where, and what is wrong there."""


def _locate_fault(message: str) -> _Fault:
    """A msgspec message, in this module's words: the place first, ending with the key."""
    problem, _, path = message.partition(" - at `$")
    place = path.rstrip("`").lstrip(".")
    for opening, problem_there in (
        ("Object contains unknown field `", "unknown key"),
        ("Object missing required field `", "missing"),
    ):
        if problem.startswith(opening):
            key = problem.removeprefix(opening).rstrip("`")
            return f"{place}.{key}".lstrip("."), problem_there
    problem = problem[:1].lower() + problem[1:]
    choices = _CHOICES.get(place.rpartition(".")[2])
    return place, f"{problem}; one of: {choices}" if choices else problem


def _list_unstorable_values(value: object, place: str, depth: int) -> Iterator[_Fault]:
    """What no request or record could carry, wherever it stands."""
    if depth > _DEPTH_MAX:
        yield place, f"nested deeper than {_DEPTH_MAX} levels"
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or not _is_encodable(key):
                yield place, f"the key {key!r} is not text"
            yield from _list_unstorable_values(item, f"{place}.{key}".lstrip("."), depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _list_unstorable_values(item, f"{place}[{index}]", depth + 1)
    elif problem := _describe_unstorable_scalar(value):
        yield place, problem


def _describe_unstorable_scalar(value: object) -> str:
    if isinstance(value, str):
        return (
            "" if _is_encodable(value) else "holds half of a surrogate pair, which is no character"
        )
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"{value} is not a number that JSON knows"
    if isinstance(value, int):
        return "" if abs(value) <= _INTEGER_MAX else "an integer beyond 64 bits"
    if value is None:
        return ""
    return f"a {type(value).__name__} is not JSON; write it as a string"


def _is_encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _list_faults(script: Script) -> Iterator[_Fault]:
    for index, reply in enumerate(script.replies):
        place = f"replies[{index}]"
        yield from _list_condition_faults(reply.when, f"{place}.when")
        yield from _list_content_faults(reply, place)
        yield from _list_call_faults(reply, place)
        yield from _list_end_faults(reply, place)
    yield from _list_unreachable_replies(script)


def _list_condition_faults(when: When, place: str) -> Iterator[_Fault]:
    for name in _PATTERNS:
        pattern = getattr(when, name)
        try:
            re.compile(pattern or "")
        except (re.error, OverflowError, RecursionError) as error:
            yield f"{place}.{name}", f"not a regular expression: {error}"
    if when.tool is not None and when.last_role not in (None, "tool"):
        yield f"{place}.last_role", "cannot hold together with tool: a result has the role tool"
    if when.step == 0 and (when.tool is not None or when.last_role in ("tool", "assistant")):
        yield f"{place}.step", "cannot hold: at step 0 the model has not said anything yet"
    if when.step and when.last_role == "user":
        yield f"{place}.step", "cannot hold: after a user message the step is 0"


def _list_content_faults(reply: Reply, place: str) -> Iterator[_Fault]:
    if reply.text is not None and reply.chunks:
        yield f"{place}.chunks", "give either text or chunks"
    if not (reply.text is not None or reply.chunks or reply.calls or reply.is_failure):
        yield place, "says nothing: give text, chunks, calls, error, cut or hang"


def _list_call_faults(reply: Reply, place: str) -> Iterator[_Fault]:
    ids: set[str] = set()
    for index, call in enumerate(reply.calls):
        here = f"{place}.calls[{index}]"
        if call.arguments is not None and call.arguments_text is not None:
            yield f"{here}.arguments_text", "give either arguments or arguments_text"
        if call.id is None:
            continue
        if call.id.startswith(CALL_ID_PREFIX):
            yield f"{here}.id", f"ids that begin with {CALL_ID_PREFIX!r} are given by the model"
        if call.id in ids:
            yield f"{here}.id", f"{call.id!r} is used twice in one reply"
        ids.add(call.id)


def _list_end_faults(reply: Reply, place: str) -> Iterator[_Fault]:
    ends = [name for name in ("error", "cut", "hang") if getattr(reply, name)]
    if len(ends) > 1:
        yield f"{place}.{ends[1]}", f"a stream ends once, and {ends[0]} is given"
    for name in ("usage", "finish_reason") if ends else ("times",):
        if getattr(reply, name) is not None:
            because = f"with {ends[0]}" if ends else "without error, cut or hang"
            yield f"{place}.{name}", f"has no meaning {because}"


def _list_unreachable_replies(script: Script) -> Iterator[_Fault]:
    """Replies that ask for all that an earlier one asks for: the earlier one always wins."""
    above: list[tuple[int, dict[str, Any]]] = []
    for index, (reply, asks) in enumerate(
        zip(script.replies, list_conditions(script), strict=True)
    ):
        asks = dict(asks)
        if "tool" in asks:
            asks["last_role"] = "tool"
        elif asks.get("last_role") == "user":
            asks["step"] = range(1)
        for other, less in above:
            if _is_implied_by(less, asks):
                problem = f"can never be used: replies[{other}] comes first wherever it fits"
                yield f"replies[{index}]", problem
        if reply.times_max == 0:
            above.append((index, asks))


def _is_implied_by(less: dict[str, Any], more: dict[str, Any]) -> bool:
    """Whether whatever meets `more` meets `less`."""
    return all(
        name in more
        and (
            value == more[name]
            if name != "step"
            else value.start <= more[name].start and more[name].stop <= value.stop
        )
        for name, value in less.items()
    )
