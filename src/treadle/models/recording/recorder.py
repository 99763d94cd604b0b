"""A provider that writes down what another one answers, so that it can be played again.

Every stream passes through unchanged. An exchange is written, in one piece, before the reader gets
the stream's end, or when the reader leaves. A recording that cannot be written costs nobody an
answer that was paid for: that answer is still delivered. But nothing more is asked: the next
request is answered with an error that says what went wrong, and if there is none, closing raises
it. So no run goes on, nor ends, with a recording that has holes nobody knows of.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, suppress
from copy import copy
from typing import Any, Final

import msgspec

from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, ModelTraits
from treadle.errors import DiskError, InternalError, TreadleError, UsageError
from treadle.models.recording.file import (
    VERSION,
    ExchangeLine,
    Header,
    RecordedSettings,
    Recording,
    leave_out_situation,
    message_digests,
    parse_recording,
    settings_digest,
    to_line,
)
from treadle.models.wrapped_provider import WrappedProvider

_log = logging.getLogger("treadle.models")

FILE_MODE: Final = 0o600

_FORMAT_KEYS: Final = frozenset({"type", "role", "kind", "effect", "reasoning", "cost_usd"})
"""Keys whose texts are words of the format; a secret that is spelled like one is not one there."""


class RecordingProvider:
    """A provider that stores every exchange of another one in a file.

    The file is created for the user alone. One that is a recording already is appended to, so that
    a resumed run goes on in the same file; what a dead process left of a last line is cut off.

    Args:
        inner: who answers; closed with this provider.
        path: the file.
        redact: replaces known secrets in a text; applied to every text before it is written.
        program: who records, with its version, for the header.

    Raises:
        UsageError: `path` cannot be recorded into; whatever stands there is as it was.
    """

    def __init__(
        self,
        inner: WrappedProvider,
        path: str | os.PathLike[str],
        redact: Callable[[str], str] | None = None,
        *,
        program: str = "treadle",
    ) -> None:
        self._inner = inner
        self._recording_file = _RecordingFile(os.fspath(path), redact, program)
        self._owns_file = True
        try:
            self._recording_file.begin(inner.name)
        except BaseException:
            self._recording_file.close()
            raise

    def share_file_with(self, inner: WrappedProvider) -> RecordingProvider:
        """A provider that stores what another one answers in the same file; to be closed first."""
        other = copy(self)
        other._inner = inner
        other._owns_file = False
        self._recording_file.begin(inner.name)
        return other

    @property
    def name(self) -> str:
        """The name of who answers."""
        return self._inner.name

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream the answer and store the exchange.

        Once the file could not be written, an error and nothing else.
        """
        if self._recording_file.failure is not None:
            self._recording_file.is_reported = True
            yield LlmEvent.Error(_make_refusal(self._recording_file.failure))
            return
        events: list[ModelEvent] = []
        is_stored = False
        try:
            async with aclosing(self._inner.stream(request)) as stream:
                async for event in stream:
                    events.append(event)
                    if isinstance(event, LlmEvent.Completed | LlmEvent.Error) and not is_stored:
                        is_stored = True
                        self._recording_file.store(request, events)
                    yield event
        finally:
            if not is_stored:
                self._recording_file.store(request, events, unfinished=True)

    def traits(self, model: str) -> ModelTraits:
        """Those of who answers."""
        return self._inner.traits(model)

    async def count_tokens(self, request: LlmRequest) -> int | None:
        """As who answers counts them; not recorded."""
        return await self._inner.count_tokens(request)

    async def aclose(self) -> None:
        """Close the file and who answers.

        Raises:
            TreadleError: the recording is not complete, and no request was told so.
        """
        if self._owns_file:
            self._recording_file.close()
        await self._inner.aclose()
        if self._recording_file.failure is not None and not self._recording_file.is_reported:
            self._recording_file.is_reported = True
            raise self._recording_file.failure


class _RecordingFile:
    """The file, and what stands in it already."""

    def __init__(self, path: str, redact: Callable[[str], str] | None, program: str) -> None:
        self.failure: TreadleError | None = None
        self.is_reported = False
        self._path = path
        self._redact = redact
        self._program = program
        self._last = 0
        self._settings: dict[bytes, int] = {}
        """Which exchange first had these settings, by their digest."""
        self._messages: dict[bytes, int] = {}
        """Which exchange first began with these messages, by the digest of the last of them."""
        self._file = _open_file(path)

    def close(self) -> None:
        """Close the file; more than once does no harm."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def begin(self, provider: str) -> None:
        """Read what the file holds, cut off what is left of an unfinished write, add a header."""
        header = Header(VERSION, provider, self._program)
        try:
            data = _read_all(self._file)
            recording = parse_recording(data, self._path)
            for exchange in recording.exchanges:
                self._index_exchange(exchange.number, exchange.settings_digest, exchange.digests)
            if recording.size < len(data):
                os.ftruncate(self._file, recording.size)
            if (addition := _make_beginning(recording, header)) is not None:
                _append_line(self._file, addition, self._path)
        except OSError as error:
            raise _make_unusable_error(self._path, error) from error

    def _index_exchange(self, number: int, settings: bytes, messages: Iterable[bytes]) -> None:
        self._last = max(self._last, number)
        self._settings.setdefault(settings, number)
        for digest in messages:
            self._messages.setdefault(digest, number)

    def store(
        self, request: LlmRequest, events: list[ModelEvent], *, unfinished: bool = False
    ) -> None:
        """Write an exchange. Whatever goes wrong is kept for whoever comes next: never raises."""
        if self.failure is not None or self._file < 0:
            return
        try:
            request = leave_out_situation(request)
            settings = RecordedSettings.of(request)
            by_settings = settings_digest(settings)
            digests = message_digests(request.messages)
            line = self._make_line(request, settings, by_settings, digests)
            line["events"] = _redact_events(events, self._redact)
            if unfinished:
                line["unfinished"] = True
            _append_line(self._file, to_line(line), self._path)
            self._index_exchange(line["exchange"], by_settings, digests)
        except TreadleError as error:
            self.failure = error
            _log.error("the recording ends here: %s", error.message)
        except Exception as error:  # noqa: BLE001  the answer matters more than its recording
            self.failure = InternalError(
                f"an exchange cannot be stored in {self._path}: {type(error).__name__}"
            )
            _log.error("the recording ends here", exc_info=error)

    def _make_line(
        self,
        request: LlmRequest,
        settings: RecordedSettings,
        by_settings: bytes,
        digests: list[bytes],
    ) -> dict[str, Any]:
        """An `ExchangeLine` without its events, redacted; `digests` are of the unredacted."""
        shared = next(
            (count for count in range(len(digests), 0, -1) if digests[count - 1] in self._messages),
            0,
        )
        line: dict[str, Any] = _make_redacted_builtins(
            ExchangeLine(self._last + 1, request.model), self._redact
        )
        line["messages"] = _make_redacted_builtins(request.messages[shared:], self._redact)
        if shared:
            line |= {"shared": shared, "shared_with": self._messages[digests[shared - 1]]}
        if by_settings in self._settings:
            line["settings_of"] = self._settings[by_settings]
        else:
            line["settings"] = _make_redacted_builtins(settings, self._redact)
        return line


def _open_file(path: str) -> int:
    """The file, new or as it is, for appending, and for this process alone."""
    flags = os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY
    try:
        try:
            file = os.open(path, flags | os.O_CREAT | os.O_EXCL, FILE_MODE)
        except FileExistsError:
            file = os.open(path, flags)
            if os.fstat(file).st_size == 0:  # made by somebody for this: no less private
                os.fchmod(file, FILE_MODE)
    except (OSError, ValueError) as error:
        raise _make_unusable_error(path, error) from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise UsageError(f"cannot record into {path}: it is not a file")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(file)
        raise UsageError(
            f"cannot record into {path}: somebody else is recording into it",
            hint="wait for the other run, or give another file",
        ) from error
    except BaseException:
        os.close(file)
        raise
    return file


def _read_all(file: int) -> bytes:
    with os.fdopen(file, "rb", closefd=False) as reader:
        reader.seek(0)
        return reader.read()


def _make_unusable_error(path: str, error: OSError | ValueError) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) else None
    return UsageError(
        f"cannot record into {path}: {reason or error}", hint="give a file in a folder of yours"
    )


def _make_beginning(recording: Recording, header: Header) -> bytes | None:
    """What must stand in the file before the next exchange."""
    broken_line = b"" if recording.is_closed else b"\n"
    if recording.header != header:
        return broken_line + to_line(header)
    return broken_line or None


def _append_line(file: int, data: bytes, path: str) -> None:
    """Write a line, or leave the file as it was.

    Raises:
        DiskError: it could not be written.
    """
    size = os.fstat(file).st_size
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(file, rest) :]
    except OSError as error:
        with suppress(OSError):  # what is left then is a last line that readers pass over
            os.ftruncate(file, size)
        raise DiskError("write", path, error) from error


def _make_refusal(failure: TreadleError) -> LlmError:
    text = " ".join(f"{failure.message}: {failure.hint}".split()).rstrip(": ")
    why = f"the recording is not complete, so nothing more is asked ({text})"
    return LlmError(LlmErrorKind.BAD_REQUEST, why)


def _redact_events(events: list[ModelEvent], redact: Callable[[str], str] | None) -> list[Any]:
    """The events as they go into a line; the deltas of a text with a secret are one, without it.

    A secret may be split over any number of deltas: only their whole text shows it. Where that
    holds none, its pieces hold none either, and are not looked at one by one.
    """
    if redact is None:
        return [msgspec.to_builtins(event) for event in events]
    texts: dict[tuple[str, ...], list[str]] = {}
    for event in events:
        if (part := _find_text_part(event)) is not None:
            texts.setdefault(part[0], []).append(part[1])
    whole = {key: "".join(pieces) for key, pieces in texts.items()}
    changed = {key: clean for key, text in whole.items() if (clean := redact(text)) != text}
    names = {key: tuple(map(redact, key)) for key in whole}
    lines: list[Any] = []
    told: set[tuple[str, ...]] = set()
    for event in events:
        part = _find_text_part(event)
        if part is None:
            lines.append(_make_redacted_builtins(event, redact))
        elif part[0] not in changed:
            lines.append(_make_delta(event, names[part[0]], part[1]))
        elif part[0] not in told:
            told.add(part[0])
            lines.append(_make_delta(event, names[part[0]], changed[part[0]]))
    return lines


def _find_text_part(event: ModelEvent) -> tuple[tuple[str, ...], str] | None:
    """Which text a delta is a part of, by the names it carries and its type, and the part."""
    match event:
        case LlmEvent.TextDelta(content) | LlmEvent.ThinkingDelta(content):
            return (type(event).__name__,), content
        case LlmEvent.ToolCallDelta(call_id, tool_name, fragment):
            return (type(event).__name__, call_id, tool_name), fragment
        case _:
            return None


def _make_delta(event: ModelEvent, names: tuple[str, ...], text: str) -> Any:
    if isinstance(event, LlmEvent.ToolCallDelta):
        return msgspec.to_builtins(LlmEvent.ToolCallDelta(names[1], names[2], text))
    return msgspec.to_builtins(msgspec.structs.replace(event, content=text))


def _make_redacted_builtins(value: Any, redact: Callable[[str], str] | None) -> Any:
    """As it goes into a line: every text without secrets."""
    plain = msgspec.to_builtins(value)
    return plain if redact is None else _redact_values(plain, redact)


def _redact_values(value: Any, redact: Callable[[str], str], key: str = "") -> Any:
    if isinstance(value, str):
        return value if key in _FORMAT_KEYS else redact(value)
    if isinstance(value, dict):
        return {name: _redact_values(item, redact, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_values(item, redact) for item in value]
    return value
