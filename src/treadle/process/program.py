"""Running a program from the event loop, so that it ends, with those that belong to it.

The program leads a session of its own, without a terminal. What it reads and writes goes through
the event loop, as it comes. When it has exited, has used up its time, or is cancelled, what is left
of it is ended (`termination.py`): `run` ends all its descendants, `run_bounded` its process group.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from treadle.platform.process_exit import watch_exit
from treadle.process.result import Bounds, KeptOutput, Ran
from treadle.process.termination import (
    MARK,
    DescendantsTermination,
    GroupTermination,
    Termination,
)

TERM_S: Final = 2.0
"""Seconds between TERM, on which programs tidy up, and KILL, on which they cannot."""
PIPE_S: Final = 0.5
"""Seconds that output may still come after the program's end; what is in the pipe takes less."""
GONE_S: Final = 2.0
"""Seconds after which a killed program counts as one that hangs in the kernel, beyond signals."""
CHUNK_SIZE: Final = 64 * 1024
"""A pipe's capacity: one read empties it and gives the event loop its turn."""
CHUNK_COUNT_MAX: Final = 250
"""More than pipes hold: who got away and writes on is not listened to."""
Sink: TypeAlias = Callable[[bytes], None]


class Cause(Enum):
    """Why a run is over."""

    EXIT = "exit"
    TIMEOUT = "timeout"
    FULL = "full"
    CANCEL = "cancel"


class TerminationScope(Enum):
    """Who is ended with a program."""

    DESCENDANTS = "descendants"
    """All that it has started, also when it exits by itself."""
    GROUP = "group"
    """Its process group; what is left by one that exits by itself goes on."""
    GROUP_AT_ONCE = "group at once"
    """Its process group, also when it exits by itself, and without asking."""


class Ended(Struct, frozen=True):
    """How a run ended.

    `exit_code` is negative for the number of the signal that ended it. `left_count` says how many
    of its descendants were still running and were killed.
    """

    cause: Cause
    exit_code: int
    left_count: int


async def run(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout_s: float,
    sink: Sink,
    pass_fds: Sequence[int] = (),
    spares_leader: bool = False,
) -> Ended:
    """Run a program to its end, or end it, with all that it has started.

    A cancellation is a `Cause`, not an exception.

    Args:
        argv: the program and its arguments; its standard input is empty.
        cwd: the folder it starts in.
        env: its whole environment, to which `MARK` is added.
        timeout_s: after so many seconds it is ended: TERM, `TERM_S` later KILL.
        sink: takes standard output and standard error, in the order written.
        pass_fds: descriptors that it inherits; all others are closed.
        spares_leader: whether TERM is for what the program has started, not for itself: it holds
            the others, and must not be the first to go.

    Raises:
        OSError: it could not be started.
    """
    mark = secrets.token_hex(16)
    order = _Order(argv, cwd, {**env, MARK: mark}, pass_fds=pass_fds)
    terminate = partial(DescendantsTermination, mark=mark, spares_leader=spares_leader)
    return await _Program(order, sink, sink, TerminationScope.DESCENDANTS, terminate).run(timeout_s)


async def run_bounded(
    argv: Sequence[str],
    folder: str | Path,
    environment: Mapping[str, str],
    bounds: Bounds,
    *,
    data: bytes | None = None,
    has_output: bool = True,
    scope: TerminationScope = TerminationScope.GROUP,
) -> Ran:
    """Run a program, and keep the first bytes that it writes.

    Args:
        argv: the program, by its full path, and its arguments.
        folder: where it runs.
        environment: all of its environment.
        bounds: what it is held to.
        data: what it reads; without any its input is empty.
        has_output: whether standard output is read; else it goes nowhere.
        scope: whether its process group is ended with it, and how.

    Raises:
        OSError: it could not be started.
        asyncio.CancelledError: the program has been ended before this is raised.
    """
    full = asyncio.get_running_loop().create_future()
    out, err = KeptOutput(bounds.size_max), KeptOutput(bounds.size_max)

    def make_sink(kept: KeptOutput) -> Sink:
        def add(chunk: bytes) -> None:
            kept.add(chunk)
            if bounds.ends_when_full and kept.is_cut and not full.done():
                full.set_result(None)

        return add

    order = _Order(argv, folder, environment, data)
    program = _Program(order, make_sink(out) if has_output else None, make_sink(err), scope)
    ended = await program.run(bounds.timeout_s, full)
    if program.was_cancelled:
        raise asyncio.CancelledError
    problems = {Cause.TIMEOUT: bounds.late, Cause.FULL: bounds.too_long}
    return Ran(ended.exit_code, out.data, err.data, out.size, problems.get(ended.cause, ""))


class _Order(Struct, frozen=True):
    argv: Sequence[str]
    folder: str | Path
    environment: Mapping[str, str]
    data: bytes | None = None
    pass_fds: Sequence[int] = ()


class _Program:
    """A program that runs; `terminate` makes of its number what ends it with others."""

    def __init__(
        self,
        order: _Order,
        out: Sink | None,
        err: Sink | None,
        scope: TerminationScope,
        terminate: Callable[[int], Termination] = GroupTermination,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._scope = scope
        self._is_over = False
        self.was_cancelled = False
        with ExitStack() as pipes, ExitStack() as far_ends:
            sinks = {sink for sink in (out, err) if sink is not None}
            outputs = {sink: _OutputPipe(sink, pipes, far_ends) for sink in sinks}
            given = None if order.data is None else _InputPipe(order.data, pipes, far_ends)
            self._process = subprocess.Popen(
                order.argv,
                cwd=order.folder,
                env=dict(order.environment),
                stdin=given.far_end if given else subprocess.DEVNULL,
                stdout=outputs[out].far_end if out is not None else subprocess.DEVNULL,
                stderr=outputs[err].far_end if err is not None else subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=tuple(order.pass_fds),
            )
            self._held = pipes.pop_all()
        self._termination = terminate(self._process.pid)
        self._outputs = tuple(outputs.values())
        for output in self._outputs:
            output.watch()
        if given is not None:
            given.watch()
        self._held.callback(watch_exit(self._process.pid, self._hear_exit, self._process.wait))

    def _hear_exit(self) -> None:
        if not self._exited.done():
            self._exited.set_result(None)

    async def run(self, timeout_s: float, *full: asyncio.Future[None]) -> Ended:
        """To its end, which one of `full` may bring about too."""
        try:
            cause = await self._wait(timeout_s, full)
            left_count = await self._end(cause)
        finally:
            exit_code = self._release()
        return Ended(cause, exit_code, left_count)

    async def _wait(self, timeout_s: float, full: Sequence[asyncio.Future[None]]) -> Cause:
        """Until the program exits by itself, or must not go on."""
        ends = [self._exited, *full]
        try:
            done, _ = await asyncio.wait(
                ends, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:
            self.was_cancelled = True
            return Cause.CANCEL
        if self._exited in done:
            return Cause.EXIT
        return Cause.FULL if done else Cause.TIMEOUT

    async def _end(self, cause: Cause) -> int:
        """End what is left; a cancellation only hurries. Returns how many were left."""
        is_exit, is_asked = cause is Cause.EXIT, self._scope is not TerminationScope.GROUP_AT_ONCE
        try:
            if is_exit and is_asked:
                await asyncio.wait([one.closed for one in self._outputs], timeout=PIPE_S)
            elif is_asked:
                await self._loop.run_in_executor(None, self._termination.ask)
                await asyncio.wait([self._exited], timeout=TERM_S)
        except asyncio.CancelledError:
            self.was_cancelled = True
        if is_exit and self._scope is TerminationScope.GROUP:
            self._is_over = True
            return 0
        killing = self._loop.run_in_executor(None, self._termination.kill)
        while not killing.done():
            try:
                await asyncio.wait([killing])
            except asyncio.CancelledError:
                self.was_cancelled = True
        self._is_over = True
        return killing.result()

    def _release(self) -> int:
        """Take the rest of the output, give everything back; the exit code."""
        if not self._is_over:
            self._termination.kill()
        for output in self._outputs:
            for _ in range(CHUNK_COUNT_MAX):
                if not output.read():
                    break
        self._held.close()
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(GONE_S)
        return -signal.SIGKILL


class _OutputPipe:
    """One pipe from a program; what comes is passed on."""

    def __init__(self, sink: Sink, near_ends: ExitStack, far_ends: ExitStack) -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._pipe, self.far_end = os.pipe()
        near_ends.callback(_close, self._pipe, self._loop.remove_reader)
        far_ends.callback(os.close, self.far_end)
        os.set_blocking(self._pipe, False)

    def watch(self) -> None:
        """Pass on what comes, from now on."""
        self._loop.add_reader(self._pipe, self.read)

    def read(self) -> bool:
        """Pass on what the pipe holds; false once there is nothing more, for now or ever."""
        try:
            data = os.read(self._pipe, CHUNK_SIZE)
        except BlockingIOError:
            return False
        if data:
            self._sink(data)
        elif not self.closed.done():
            with suppress(RuntimeError):  # the loop may be closed
                self._loop.remove_reader(self._pipe)
                self.closed.set_result(None)
        return bool(data)


class _InputPipe:
    """The pipe to a program, which gets the data as it reads, and need not read."""

    def __init__(self, data: bytes, near_ends: ExitStack, far_ends: ExitStack) -> None:
        self._loop = asyncio.get_running_loop()
        self._rest = memoryview(data)
        self.far_end, self._pipe = os.pipe()
        self._held = near_ends.enter_context(ExitStack())
        self._held.callback(_close, self._pipe, self._loop.remove_writer)
        far_ends.callback(os.close, self.far_end)
        os.set_blocking(self._pipe, False)

    def watch(self) -> None:
        """Give it the data, from now on."""
        self._loop.add_writer(self._pipe, self._write)

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._pipe, self._rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._rest = self._rest[:0]
        if not self._rest:
            self._held.close()


def _close(pipe: int, stop_watching: Callable[[int], object]) -> None:
    with suppress(RuntimeError):  # the loop may be closed
        stop_watching(pipe)
    os.close(pipe)
