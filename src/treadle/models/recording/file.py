"""The file of a recording: what its lines mean, how one is read, and what makes two requests equal.

JSON Lines. A header line says who answers from there on; after it every line is one exchange: a
request and the events that were streamed. A process that goes on recording into a file writes
another header if it is not the same program and provider. Exchanges refer back to earlier ones for
what they share with them, so that a file grows with what was said and not with its square.
"""

from __future__ import annotations

import operator
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from treadle.core.conversation import Conversation
from treadle.core.events import ModelEvent
from treadle.core.llm import LlmRequest, Reasoning
from treadle.core.messages import Message
from treadle.core.tools import ToolDefinition
from treadle.errors import UsageError
from treadle.thread.record import replace_surrogates
from treadle.thread.situation import is_news, strip_news, strip_situation

VERSION: Final = 1
"""Raised by a change that older readers would get wrong."""

_HINT: Final = "docs/recordings.md describes the format"
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

Ordinal = Annotated[int, Meta(ge=0)]


class Header(Struct, frozen=True, tag_field="type", tag="recording"):
    """Who answers in the exchanges after it."""

    version: int
    provider: str = ""
    program: str = ""


class RecordedSettings(Struct, frozen=True, omit_defaults=True):
    """A request without its model and its messages."""

    system: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    max_tokens: int = 4096
    temperature: float | None = None
    reasoning: Reasoning = "default"

    @classmethod
    def of(cls, request: LlmRequest) -> RecordedSettings:
        """Those of a request."""
        degree = request.temperature
        return cls(
            request.system,
            request.tools,
            request.max_tokens,
            None if degree is None else float(degree),
            request.reasoning,
        )


class ExchangeLine(Struct, frozen=True, tag_field="type", tag="exchange", omit_defaults=True):
    """An exchange as its line has it.

    `settings` are there unless they are those of exchange `settings_of`. The messages are the
    first `shared` of exchange `shared_with`, then `messages`. `unfinished` says that the stream was
    left, or ended, before its end.
    """

    exchange: int
    model: str
    settings: RecordedSettings | None = None
    settings_of: Ordinal = 0
    shared_with: Ordinal = 0
    shared: Ordinal = 0
    messages: tuple[Message, ...] = ()
    events: tuple[ModelEvent, ...] = ()
    unfinished: bool = False


class Exchange(Struct, frozen=True, gc=False):
    """An exchange with everything it refers to; `line` counts from 1."""

    number: int
    line: int
    model: str
    settings: RecordedSettings
    settings_digest: bytes
    messages: tuple[Message, ...]
    digests: tuple[bytes, ...]
    events: tuple[ModelEvent, ...]

    @property
    def key(self) -> bytes:
        """Equal for equal requests, whatever their model."""
        return request_key(self.settings_digest, self.digests)


class Recording(Struct, frozen=True):
    """What a file holds.

    `header` is the last one, `None` in an empty file; `size` is how many bytes are whole lines,
    `is_closed` whether the last of them ends with a line break.
    """

    name: str
    header: Header | None
    exchanges: tuple[Exchange, ...]
    size: int
    is_closed: bool = True


_encode: Final = msgspec.json.Encoder().encode
_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode
_decode: Final = msgspec.json.Decoder(Header | ExchangeLine).decode


def to_line(value: Any) -> bytes:
    """A line of the file; halves of surrogate pairs are replaced."""
    return _encode_storable(value, _encode) + b"\n"


def to_json(value: Any) -> bytes:
    """JSON that is the same for equal values, as a file can hold them."""
    return _encode_storable(value, _encode_sorted)


def _encode_storable(value: Any, encode: Callable[[Any], bytes]) -> bytes:
    try:
        return encode(value)
    except UnicodeEncodeError:
        return encode(replace_surrogates(msgspec.to_builtins(value)))


def leave_out_situation(request: LlmRequest) -> LlmRequest:
    """The request as it is kept and compared: another date, branch or mode makes it no other one.

    It is the same one if it tells nothing of that.
    """
    said = [message for message in request.messages if not is_news(message)]
    messages = [strip_news(message) for message in said]
    if len(said) < len(request.messages) or any(map(operator.is_not, messages, said)):
        request = replace(request, messages=Conversation(messages))
    return replace(request, system=strip_situation(request.system))


def settings_digest(settings: RecordedSettings) -> bytes:
    """Equal for equal settings."""
    return sha256(to_json(settings)).digest()


def message_digests(messages: Iterable[Message], before: bytes = b"") -> list[bytes]:
    """For each message a digest of it and of all before it.

    Args:
        messages: in their order.
        before: the digest of the message before the first.
    """
    digests = []
    for message in messages:
        before = sha256(before + to_json(message)).digest()
        digests.append(before)
    return digests


def request_key(settings: bytes, messages: tuple[bytes, ...] | list[bytes]) -> bytes:
    """Equal for equal requests, from the digests of their parts."""
    return settings + (messages[-1] if messages else b"")


def load_recording(path: str | os.PathLike[str]) -> Recording:
    """The recording in a file, for a `RecordedModel`.

    Raises:
        UsageError: the file cannot be read or is not a recording; names file and line.
    """
    name = os.fspath(path)
    try:
        data = _read_file(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise UsageError(f"cannot read {name}: {reason or error}") from error
    recording = parse_recording(data, name)
    if recording.header is None:
        raise UsageError(
            f"{name} is empty: there is no recording in it",
            hint="record one first: treadle --record FILE ...",
        )
    return recording


def _read_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a regular file: a pipe would hang, a device never end."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a file")
        return file.read()


def parse_recording(data: bytes, name: str) -> Recording:
    """The recording in a file's bytes.

    A last line without a line break that is not whole is what a process that died has left: it is
    passed over.

    Raises:
        UsageError: it is not a recording, or one of a newer version; names `name` and the line.
    """
    header: Header | None = None
    exchanges: dict[int, Exchange] = {}
    *whole, last = data.split(b"\n")
    size, is_closed = len(data) - len(last), True
    for number, text in enumerate([*whole, last], 1):
        if not text.strip():
            continue
        try:
            line = _decode(text)
        except _UNREADABLE as error:
            if number > len(whole) and header is not None:
                break
            raise _make_error(name, number, header, error) from error
        if number > len(whole):
            size, is_closed = len(data), False
        if isinstance(line, Header):
            if line.version > VERSION:
                why = f"the recording has version {line.version}, this program reads {VERSION}"
                raise UsageError(f"{name}, line {number}: {why}", hint="update Treadle")
            header = line
        elif header is None:
            raise _make_error(name, number, header, "it has no header")
        else:
            _add_exchange(exchanges, line, name, number)
    return Recording(name, header, tuple(exchanges.values()), size, is_closed)


def _make_error(name: str, number: int, header: Header | None, why: object) -> UsageError:
    if header is None:
        text = f"{name} is not a recording (line {number}: {why})"
        return UsageError(text, hint="give a file that `--record` has written")
    return UsageError(
        f"{name}, line {number}: {why}",
        hint=f"mend the line, or take it out with those that refer to it; {_HINT}",
    )


def _add_exchange(
    exchanges: dict[int, Exchange], line: ExchangeLine, name: str, number: int
) -> None:
    """Put the exchange of a line to those before it, with everything it refers to.

    Raises:
        UsageError: it refers to what is not there, or has the number of another one.
    """
    known: Mapping[int, Exchange] = exchanges

    def earlier(wanted: int) -> Exchange:
        found = known.get(wanted)
        if found is None:
            raise _make_error(
                name, number, _ANY_HEADER, f"it refers to exchange {wanted}, not before it"
            )
        return found

    if line.exchange in known:
        raise _make_error(
            name, number, _ANY_HEADER, f"there is an exchange {line.exchange} before it"
        )
    if line.settings is None:
        settings = earlier(line.settings_of).settings
        digest = earlier(line.settings_of).settings_digest
    else:
        settings, digest = line.settings, settings_digest(line.settings)
    messages: tuple[Message, ...] = ()
    digests: tuple[bytes, ...] = ()
    if line.shared:
        base = earlier(line.shared_with)
        if line.shared > len(base.messages):
            why = f"exchange {base.number} has {len(base.messages)} messages, not {line.shared}"
            raise _make_error(name, number, _ANY_HEADER, why)
        messages, digests = base.messages[: line.shared], base.digests[: line.shared]
    exchanges[line.exchange] = Exchange(
        number=line.exchange,
        line=number,
        model=line.model,
        settings=settings,
        settings_digest=digest,
        messages=messages + line.messages,
        digests=digests + tuple(message_digests(line.messages, digests[-1] if digests else b"")),
        events=line.events,
    )


_ANY_HEADER: Final = Header(VERSION)
"""For a refusal after the header."""
