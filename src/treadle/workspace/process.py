"""Running a program to its end, or ending it: with its children, and never waiting for ever."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

TERM_S: Final = 2.0
"""Seconds between TERM, on which git removes its lock files, and KILL, on which it cannot."""

DRAIN_S: Final = 0.5
"""Seconds that output may still come after the end: a child left behind may hold the pipe open."""

NOT_STARTED: Final = 127
"""The exit status of a program that could not be started, as shells have it."""


class Ran(Struct, frozen=True):
    """How a program ended.

    `status` is its exit status, or minus the signal that ended it. `out` and `err` hold the first
    bytes of what it wrote, `out_size` counts all bytes of its output. `was_ended` says that it did
    not end by itself: its time was over, or its output too long.
    """

    status: int
    out: bytes = b""
    err: bytes = b""
    out_size: int = 0
    was_ended: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether it wrote more than was kept."""
        return self.out_size > len(self.out)


async def run(
    argv: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    timeout_s: float,
    out_size_max: int,
    data: bytes | None = None,
    ends_when_full: bool = False,
) -> Ran:
    """Run a program in a session of its own; without a terminal, so nothing can ask for anything.

    Args:
        argv: the program, by its full path, and its arguments.
        folder: where it runs.
        environment: all of its environment.
        timeout_s: seconds after which it is ended, with its process group.
        out_size_max: bytes kept of its output, and of its error output.
        data: what it reads; without any its input is closed.
        ends_when_full: whether to end it when it writes more than is kept.

    A program that cannot be started has the status `NOT_STARTED` and the reason in `err`.

    Raises:
        asyncio.CancelledError: the program has been ended before this is raised.
    """
    loop = asyncio.get_running_loop()
    pipe, closed = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        transport, output = await loop.subprocess_exec(
            lambda: _OutputProtocol(out_size_max),
            *argv,
            cwd=folder,
            env=environment,
            stdin=closed if data is None else pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
    except OSError as error:
        return Ran(NOT_STARTED, err=str(error).encode())
    try:
        if data is not None:
            _feed(transport, data)
        ends = {output.exited, output.filled} if ends_when_full else {output.exited}
        await asyncio.wait(ends, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        was_ended = not output.exited.done()
        if not was_ended:
            await asyncio.wait({output.closed}, timeout=DRAIN_S)
    finally:
        if not output.exited.done():
            await _end(transport.get_pid(), output.exited)
        transport.close()
    status = transport.get_returncode()
    status = -signal.SIGKILL if status is None else status
    return Ran(status, bytes(output.kept[1]), bytes(output.kept[2]), output.sizes[1], was_ended)


def _feed(transport: asyncio.SubprocessTransport, data: bytes) -> None:
    pipe: Any = transport.get_pipe_transport(0)
    pipe.write(data)
    pipe.close()  # after all has been written


async def _end(leader: int, exited: asyncio.Future[None]) -> None:
    """End a process group: first the way that lets it tidy up."""
    _signal(leader, signal.SIGTERM)
    try:
        await asyncio.wait({exited}, timeout=TERM_S)
    finally:
        _signal(leader, signal.SIGKILL)
    await asyncio.wait({exited}, timeout=TERM_S)


def _signal(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


class _OutputProtocol(asyncio.SubprocessProtocol):
    """Keeps what a program writes, up to a size, and says when it ended.

    A protocol, because a stream's `wait` does not return while a child left behind holds a pipe.
    """

    def __init__(self, size_max: int) -> None:
        loop = asyncio.get_running_loop()
        self.kept = {1: bytearray(), 2: bytearray()}
        self.sizes = {1: 0, 2: 0}
        self.exited: asyncio.Future[None] = loop.create_future()
        self.filled: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._size_max = size_max

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self.kept[fd]
        kept += data[: self._size_max - len(kept)]
        self.sizes[fd] += len(data)
        if self.sizes[fd] > self._size_max:
            _resolve(self.filled)

    def process_exited(self) -> None:
        _resolve(self.exited)

    def connection_lost(self, exc: Exception | None) -> None:
        _resolve(self.closed)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
