"""JSON-RPC messages, a line each, on two file descriptors.

What is no message of the protocol is answered with an error, and the connection goes on: the
package that speaks the protocol would answer nothing, or stop reading. Both ends are read and
written by threads of their own, so pipes, files and terminals do alike, and an editor that has
stopped reading keeps nobody from ending.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, TypeAlias

MESSAGE_SIZE_MAX: Final = 64 * 1024 * 1024
"""Bytes of a message; more than a prompt with the largest pictures has."""
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600

Message: TypeAlias = dict[str, Any]


class InvalidMessageError(ValueError):
    """A line is no message; `code` is that of JSON-RPC."""

    def __init__(self, code: int, words: str, message_id: str | int | None = None) -> None:
        super().__init__(words)
        self.code = code
        self.message_id = message_id


class StdioTransport:
    """A stream of messages both ways; what `acp` calls a transport.

    Args:
        source: the descriptor that is read; it stays open.
        sink: the descriptor that is written to; it stays open.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._unsent: SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = SimpleQueue()
        self._is_closed = False
        for name, work, fd in (("reader", self._read, source), ("writer", self._write, sink)):
            threading.Thread(target=work, args=(fd,), name=f"acp-{name}", daemon=True).start()

    async def receive(self) -> Message | None:
        """The next message; `None` when the other side has closed."""
        while (line := await self._lines.get()) is not None:
            if not line.strip():
                continue
            try:
                return parse_message(line)
            except InvalidMessageError as error:
                with suppress(ConnectionError):
                    await self.send(_make_error(error))
        return None

    async def send(self, message: Message) -> None:
        """Send a message, behind all that were given to this before.

        Raises:
            ConnectionError: nobody reads any more.
        """
        if self._is_closed:
            raise ConnectionError("the editor has closed the connection")
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        sent: asyncio.Future[None] = self._loop.create_future()
        self._unsent.put((line, sent))
        await sent

    async def close(self) -> None:
        """Send nothing more."""
        self.stop_reading()
        self._is_closed = True
        self._unsent.put(None)

    def stop_reading(self) -> None:
        """Have `receive` say that the other side has closed."""
        self._lines.put_nowait(None)

    def _read(self, fd: int) -> None:
        """Runs in a thread."""
        with suppress(OSError), os.fdopen(fd, "rb", closefd=False) as file:
            while line := file.readline(MESSAGE_SIZE_MAX + 1):
                self._post(self._lines.put_nowait, line)
                while len(line) > MESSAGE_SIZE_MAX and not line.endswith(b"\n"):
                    line = file.readline(MESSAGE_SIZE_MAX + 1)  # the rest of what is too long
        self._post(self._lines.put_nowait, None)

    def _write(self, fd: int) -> None:
        """Runs in a thread."""
        while (unsent := self._unsent.get()) is not None:
            line, sent = unsent
            try:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(fd, rest) :]
            except OSError as error:
                self._is_closed = True
                self._post(_settle, sent, ConnectionError(str(error)))
                self._post(self.stop_reading)  # nobody would hear an answer
            else:
                self._post(_settle, sent, None)

    def _post(self, callback: Any, *args: Any) -> None:
        with suppress(RuntimeError):  # the loop was closed while the thread went on
            self._loop.call_soon_threadsafe(callback, *args)


def parse_message(line: bytes) -> Message:
    """The message in a line, in a form in which it can be dealt with.

    Raises:
        InvalidMessageError: it is none.
    """
    if len(line) > MESSAGE_SIZE_MAX:
        raise InvalidMessageError(
            INVALID_REQUEST, f"a message has at most {MESSAGE_SIZE_MAX} bytes"
        )
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidMessageError(PARSE_ERROR, f"this is no JSON: {error}") from error
    if not isinstance(message, dict):
        raise InvalidMessageError(INVALID_REQUEST, "a message is a JSON object")
    message_id, method = message.get("id"), message.get("method")
    if isinstance(message_id, bool) or not isinstance(message_id, str | int | None):
        raise InvalidMessageError(INVALID_REQUEST, "an id is a text or a number")
    if "method" in message:
        if not isinstance(method, str):
            raise InvalidMessageError(INVALID_REQUEST, "a method is a text", message_id)
    elif "id" not in message or not ("result" in message or "error" in message):
        why = "a message has a method, or an id with a result or an error"
        raise InvalidMessageError(INVALID_REQUEST, why, message_id)
    elif not _is_response(message):
        return {"jsonrpc": "2.0", "id": message_id, "error": {"code": INVALID_REQUEST}}
    return message


def _is_response(message: Message) -> bool:
    """Whether it says in the right form how a request of ours has ended."""
    error = message.get("error")
    return "result" in message or (
        isinstance(error, dict)
        and isinstance(error.get("code"), int)
        and isinstance(error.get("message"), str)
    )


def _make_error(error: InvalidMessageError) -> Message:
    told = {"code": error.code, "message": str(error)}
    return {"jsonrpc": "2.0", "id": error.message_id, "error": told}


def _settle(sent: asyncio.Future[None], error: ConnectionError | None) -> None:
    if sent.done():
        return
    if error is None:
        sent.set_result(None)
    else:
        sent.set_exception(error)
